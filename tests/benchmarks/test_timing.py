"""Two calls take turns; a slow pair gets fewer rounds; a peer that cannot be imported is reported once and loses its rows."""

import sys
from types import ModuleType

import pytest
import torch

from benchmarks import timing


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances only by `pass_time`: simulated processor time."""
    now = [0.0]
    monkeypatch.setattr(timing.time, "process_time", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_the_ratio_is_that_of_the_peer_to_ours_and_rounds_are_as_asked(clock):
    calls = []

    def ours():
        calls.append("ours")
        clock(0.001)
        return torch.zeros(1)

    def peer():
        calls.append("peer")
        clock(0.003)
        return torch.zeros(1)

    row = timing.compare("m", ("a", ours), ("b", peer), "sizes", rounds=5, trains=False)
    assert row.forward.ratio == pytest.approx(3.0)
    assert calls[:12] == ["ours", "peer"] * 6  # one round to warm up, and five


def test_a_slow_pair_is_timed_in_fewer_rounds(clock):
    calls = []

    def slow():
        calls.append(1)
        clock(timing.SECONDS)
        return torch.zeros(1)

    timing.compare("m", ("a", slow), ("b", slow), "sizes", rounds=15, trains=False)
    assert len(calls) == 2 * (timing.FEWEST + 1) + 2  # and one pass each for the memory


def test_a_peer_gives_its_attributes():
    assert timing.peer_from("torch.nn", "Linear") == (torch.nn.Linear,)
    assert timing.peer_from("torch.nn") == (torch.nn,)


def test_a_missing_or_a_broken_peer_is_none_and_told_once(monkeypatch, capsys):
    class Broken(ModuleType):
        def __getattr__(self, name):
            raise RuntimeError("was built for another torch\nand more")

    monkeypatch.setitem(sys.modules, "a_broken_peer", Broken("a_broken_peer"))
    for _ in range(2):
        assert timing.peer_from("a_broken_peer", "Layer") is None
        assert timing.peer_from("no_such_peer") is None
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert told[0].startswith("a_broken_peer is left out: was built for another torch.")
    assert "pip install" in told[1]
