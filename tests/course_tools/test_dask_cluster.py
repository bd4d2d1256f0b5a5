"""A cluster that is not available is reported in one sentence."""

import sys

import pytest

from course_tools.dask_cluster import NoCluster, dask_client


def test_a_scheduler_that_does_not_answer_is_said(monkeypatch):
    distributed = pytest.importorskip("dask.distributed", reason="the extra [dask] is not installed")

    def silent(address: str, **how: object) -> None:
        raise OSError(f"timed out: {address}")

    monkeypatch.setattr(distributed, "Client", silent)
    with pytest.raises(NoCluster, match="no Dask scheduler responds at tcp://there:1: timed out"), dask_client("tcp://there:1"):
        pass


def test_without_dask_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(NoCluster, match=r'pip install -e "\.\[dask\]"'), dask_client("local"):
        pass
