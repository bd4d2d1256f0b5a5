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


def taking(seconds, name, calls, clock):
    """A call that takes so long, and enters its name in `calls`."""

    def call():
        calls.append(name)
        clock(seconds)
        return torch.zeros(1)

    return name, call


def test_the_ratio_is_that_of_the_peer_to_ours_and_each_goes_first_in_turn(clock):
    calls = []
    ours, peer = taking(0.004, "ours", calls, clock), taking(0.012, "peer", calls, clock)
    row = timing.compare("m", ours, peer, "sizes", rounds=5, trains=False)
    assert row.forward.ratio == pytest.approx(3.0)
    assert calls[4:14] == ["ours", "peer", "peer", "ours", "ours", "peer", "peer", "ours", "ours", "peer"]


def test_a_quick_call_is_repeated_and_the_time_is_that_of_one(clock):
    calls = []
    ours, peer = taking(0.0005, "ours", calls, clock), taking(0.004, "peer", calls, clock)
    row = timing.compare("m", ours, peer, "sizes", rounds=1, trains=False)
    assert calls[4:9] == ["ours"] * 4 + ["peer"]
    assert (row.forward.ours, row.forward.ratio) == (pytest.approx(0.5), pytest.approx(8.0))


def test_a_slow_pair_is_timed_in_fewer_rounds(clock):
    calls = []
    slow = taking(timing.SECONDS, "slow", calls, clock)
    timing.compare("m", slow, slow, "sizes", rounds=15, trains=False)
    assert len(calls) == 2 * (timing.FEWEST + 2) + 2  # and one pass each for the memory


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
