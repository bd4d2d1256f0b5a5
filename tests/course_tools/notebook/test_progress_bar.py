"""A progress bar passes everything on, and is silent where nobody watches."""

import sys
import time
from importlib import import_module

import pytest
import torch

from course_tools.notebook import progress
from course_tools.notebook.progress_bar import updates_shown


class Terminal:
    """A stderr that says it is a terminal, and keeps what is written."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return True


def watching(monkeypatch):
    """Sit at a terminal (called in the test itself: pytest puts its own stderr back after fixtures)."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("PYTEST_VERSION", raising=False)
    return sys.stderr


def test_every_item_is_passed_on_and_a_watched_bar_names_the_work(monkeypatch):
    terminal = watching(monkeypatch)
    assert list(progress(range(5), "counting")) == [0, 1, 2, 3, 4]
    assert "counting" in terminal.text


def test_a_generator_may_state_its_total(monkeypatch):
    terminal = watching(monkeypatch)
    assert list(progress((n for n in range(5)), "counting", total=5)) == [0, 1, 2, 3, 4]
    assert "/5" in terminal.text


def test_updates_of_any_optimizer_are_counted_while_the_block_runs(monkeypatch):
    terminal = watching(monkeypatch)
    weight = torch.nn.Parameter(torch.zeros(3))
    weight.grad = torch.ones(3)
    with updates_shown("training"):
        for optimizer in (torch.optim.SGD([weight], 0.1), torch.optim.Adam([weight])):
            for _ in range(7):
                optimizer.step()
            time.sleep(0.15)  # a bar is drawn at most ten times a second
            optimizer.step()
    assert "training: 16 updates" in terminal.text
    drawn = terminal.text
    optimizer.step()
    assert terminal.text == drawn


def test_the_hook_is_removed_after_an_error(monkeypatch):
    watching(monkeypatch)
    optimizer_module = import_module("torch.optim.optimizer")
    before = dict(optimizer_module._global_optimizer_post_hooks)
    with pytest.raises(RuntimeError, match="stop"), updates_shown("training"):
        raise RuntimeError("stop")
    assert dict(optimizer_module._global_optimizer_post_hooks) == before


@pytest.mark.parametrize("name", ["CI", "PYTEST_VERSION"])
def test_the_bar_is_silent_under_ci_and_under_pytest(name, monkeypatch):
    terminal = watching(monkeypatch)
    monkeypatch.setenv(name, "1")
    assert list(progress(range(5), "counting")) == [0, 1, 2, 3, 4]
    assert terminal.text == ""


def test_the_bar_is_silent_where_stderr_is_no_terminal(monkeypatch):
    terminal = watching(monkeypatch)
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    assert list(progress(range(5), "counting")) == [0, 1, 2, 3, 4]
    assert terminal.text == ""
