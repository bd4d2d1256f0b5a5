"""No order of running cells turns a wrong, empty or broken answer into "Right", tried in a real IPython shell."""

import random

import pytest
from IPython.core.interactiveshell import InteractiveShell

from course_tools.notebook.answer_lookup import watch_cells

SET_UP = "import torch\nfrom course_tools.notebook import check"
CHECK = "rnn_step = check('01.1', rnn_step)"
DEFINITIONS = {
    "right": "def rnn_step(x, h, W, U, b):\n    return torch.tanh(x @ W.mT + h @ U.mT + b)",
    "wrong": "def rnn_step(x, h, W, U, b):\n    return torch.tanh(x @ W.mT + h @ U.mT)",
    "empty": "def rnn_step(x, h, W, U, b):\n    raise NotImplementedError()",
    "endless recursion": "def rnn_step(x, h, W, U, b):\n    return rnn_step(x, h, W, U, b)",
    "syntax error": "def rnn_step(x, h, W, U, b)\n    return torch.tanh(x @ W.mT + h @ U.mT + b)",
    "misspelt": "dfe rnn_step(x, h, W, U, b):\n    return torch.tanh(x @ W.mT + h @ U.mT + b)",
    "error above": "1 / 0\ndef rnn_step(x, h, W, U, b):\n    return torch.tanh(x @ W.mT + h @ U.mT + b)",
    "calls what it found": "old = rnn_step\ndef rnn_step(x, h, W, U, b):\n    return old(x, h, W, U, b)",
}


class Notebook:
    """A shell, and what a student would expect of it: the last cell that was run decides."""

    def __init__(self, capsys):
        self.capsys, self.shell, self.latest = capsys, None, None
        self.restart()

    def restart(self):
        InteractiveShell.clear_instance()
        self.shell = InteractiveShell.instance()
        self.shell.run_cell(SET_UP)
        watch_cells(self.shell)
        self.latest = None

    def define(self, name):
        if name == "calls what it found" and self.latest != "right":
            name = "wrong"  # around a right function it is right; around anything else it must not be
            self.shell.run_cell(DEFINITIONS["calls what it found"])
        else:
            self.shell.run_cell(DEFINITIONS[name])
        self.latest = name

    def check(self):
        self.capsys.readouterr()
        self.shell.run_cell(CHECK)
        printed = self.capsys.readouterr().out
        assert "Traceback" not in printed
        assert ("Right." in printed) == (self.latest in ("right", "calls what it found")), (self.latest, printed)
        assert callable(self.shell.user_ns["rnn_step"])
        return printed


@pytest.fixture
def notebook(capsys):
    yield Notebook(capsys)
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("seed", range(12))
def test_only_a_right_function_that_was_run_last_is_right(notebook, seed):
    draw = random.Random(seed)
    actions = [*DEFINITIONS, *["check"] * 8, *["restart"] * 2, *["right", "wrong"]]
    for _ in range(16):
        action = draw.choice(actions)
        if action == "check":
            notebook.check()
        elif action == "restart":
            notebook.restart()
        elif action != "calls what it found" or notebook.latest is not None:
            notebook.define(action)


@pytest.mark.parametrize("broken", ["wrong", "empty", "endless recursion", "syntax error", "misspelt", "error above"])
def test_checks_run_again_and_again_stay_as_they_were(notebook, broken):
    notebook.define(broken)
    for _ in range(3):
        notebook.check()
    notebook.define("right")
    for _ in range(2):
        notebook.check()
    notebook.define(broken)
    for _ in range(2):
        notebook.check()
    notebook.restart()
    assert "`rnn_step` is not defined: run the cell above" in notebook.check()
    notebook.check()
    notebook.define("right")
    notebook.check()


def test_a_syntax_error_in_the_second_edit_is_told(notebook):
    notebook.define("right")
    notebook.check()
    notebook.define("syntax error")
    for _ in range(2):
        assert "The cell of `rnn_step` ended with an error" in notebook.check()


def test_registering_twice_changes_nothing(notebook):
    n = len(notebook.shell.ast_transformers)
    watch_cells(notebook.shell)
    assert len(notebook.shell.ast_transformers) == n
