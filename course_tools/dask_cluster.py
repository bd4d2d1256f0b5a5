"""Dask for work on many machines: a client of a running scheduler, or of a cluster started here (extra [dask])."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from course_tools.command_failed import CommandFailed

if TYPE_CHECKING:
    from dask.distributed import Client


class NoCluster(CommandFailed):
    """Dask is not installed, or no scheduler responds; the text says which."""


@contextmanager
def dask_client(address: str, **local: object) -> Iterator["Client"]:
    """Open a client of a Dask cluster.

    Args:
        address: that of its scheduler, such as "tcp://10.0.0.1:8786"; "local" starts a cluster on this machine until the end of
            the `with` block.
        local: arguments of `distributed.LocalCluster` for a cluster on this machine.

    Raises:
        NoCluster: Dask is not installed, or no scheduler responds.
    """
    try:
        from dask.distributed import Client
    except ModuleNotFoundError:
        raise NoCluster('--dask needs Dask: `pip install -e ".[dask]"` in the folder of the course.') from None
    try:
        client = Client(**local, dashboard_address=":0") if address == "local" else Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise NoCluster(f"no Dask scheduler responds at {address}: {error}") from None
    with client:
        yield client
