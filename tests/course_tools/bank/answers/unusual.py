"""Answers that do one unusual thing, and what failed of a verdict."""

import contextlib
import threading
from collections.abc import Callable

import torch

from course_tools.checks import Verdict


def raises(error: BaseException) -> Callable[..., object]:
    """Make an answer that raises, whatever it is given."""

    def answer(*inputs):
        raise error

    return answer


def failing(found: Verdict) -> list[str]:
    """Name the properties that fail."""
    return [finding.name for finding in found.findings if finding.status == "fails"]


given_up = threading.Event()
"""Set it to end the answers below that nothing else can end."""


def loops(*inputs):
    while True:
        pass


def loops_and_catches_errors(*inputs):
    while True:
        with contextlib.suppress(Exception):
            torch.ones(3).sum()


def loops_and_catches_everything(*inputs):
    while not given_up.is_set():
        try:  # noqa: SIM105
            torch.ones(3).sum()
        except:  # noqa: E722
            pass


def loops_in_torch_with_prints(*inputs):
    h = torch.ones(3)
    while True:
        h = h + 1
        print(h)


def sleeps(*inputs):
    given_up.wait(30)
