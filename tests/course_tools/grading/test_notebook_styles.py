"""Whatever style a notebook is written in, the grader's points equal those of the notebook's own check.

Here a sample: one exercise in every style, and some of all combinations of exercise, answer and style, chosen by a digest.
`python -m tests.course_tools.grading.test_notebook_styles [N]` goes through all of them, or the first N, and prints the
differences: about 14,000 combinations, 0.4 seconds of processor time each.
"""

import hashlib
import sys
from collections.abc import Callable

import jaxtyping
import pytest

from course_tools.bank import exercise, exercises, verdict
from course_tools.checks import Exercise
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import Notebook, handed_out
from course_tools.grading.judge_notebook import Engine
from tests.course_tools.grading.conftest import is_answer, submitted
from tests.course_tools.grading.test_bank import as_a_cell

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is graded on Windows")
N_SAMPLED = 30


def code(source):
    return Cell("code", "", {}, source)


def empty(asked):
    """The handed-out stub of an exercise."""
    return next((cell.source for cell in handed_out(asked.lecture) if is_answer(cell, asked)), "pass")


def in_its_cell(asked, source, name):
    return submitted(asked, source)


def under_another_name(asked, source, name):
    check = code(f'from course_tools.notebook import check\ncheck("{asked.id}", my_own)')
    return [*handed_out(asked.lecture), code(f"{source}\nmy_own = {name}\ndel {name}"), check]


def moved_to_the_end(asked, source, name):
    return [*handed_out(asked.lecture), code(source), code(f'{name} = check("{asked.id}", {name})')]


def after_an_older_try(asked, source, name):
    older = f"def {name}(*inputs):\n    return inputs[0]\n\n{name} = check('{asked.id}', {name})"
    return [code(older), *submitted(asked, source)]


def below_the_empty_exercise(asked, source, name):
    return submitted(asked, f"{empty(asked)}\n\n{source}")


def with_helpers_in_another_cell(asked, source, name):
    definitions, _, last = source.rstrip().rpartition("\n")
    return [code(definitions), *submitted(asked, last)]


def among_experiments(asked, source, name):
    training = "for step in train(model, data, loss, steps=10**9):\n    print(step)"
    broken = "plots.curves(nothing)\n1 / 0\nimport a_package_that_is_missing"
    leaving = "import sys\nsys.exit()"
    return [code(training), code(broken), *submitted(asked, source), code(leaving), code("%matplotlib inline\n!ls")]


def as_an_object(asked, source, name):
    wrapper = "class Mine:\n    def __init__(self, f): self.f = f\n    def __call__(self, *x): return self.f(*x)"
    return submitted(asked, f"{source}\n{wrapper}\n\n{name} = Mine({name})")


def drawing_inside(asked, source, name):
    drawing = "plt.plot([1, 2])\n    plt.title('$e^x$')\n    plt.gcf().canvas.draw()\n    plt.show()"
    drawn = f"import matplotlib.pyplot as plt\ninner = {name}\ndef {name}(*inputs):\n    {drawing}\n    return inner(*inputs)"
    return submitted(asked, f"{source}\n{drawn}")


def with_magics(asked, source, name):
    magics = "%time SCALE = 1\n%matplotlib inline\n!pip install --quiet einops \\\n    torch\nwhere = !pwd\n%timeit -n 1 1 + 1"
    used = f"inner = {name}\ndef {name}(*inputs):\n    return inner(*inputs) if SCALE else None"
    return submitted(asked, f"{magics}\n{source}\n{used}")


def as_a_lambda(asked, source, name):
    return [*handed_out(asked.lecture), code(f'{source}\ncheck("{asked.id}", lambda *inputs: {name}(*inputs))')]


def without_checks(asked, source, name):
    return [cell for cell in submitted(asked, source) if "check(" not in cell.source]


STYLES = (
    in_its_cell,
    under_another_name,
    moved_to_the_end,
    after_an_older_try,
    below_the_empty_exercise,
    with_helpers_in_another_cell,
    among_experiments,
    as_an_object,
    as_a_lambda,
    drawing_inside,
    with_magics,
    without_checks,
)


def combinations() -> list[tuple[Exercise, Callable, Callable]]:
    """Every exercise with each of its answers in each style, in the order of a digest: the first N are a sample of all.

    Build tasks are left out: each of their answers trains a model. `test_build_tasks` grades them.
    """
    short = [asked for asked in exercises() if asked.training is None]
    every = [(asked, answer, style) for asked in short for answer in (*asked.right, *asked.wrong) for style in STYLES]
    return sorted(every, key=lambda c: hashlib.sha256(f"{c[0].id} {c[1].__name__} {c[2].__name__}".encode()).digest())


def difference(engine, asked: Exercise, answer, style) -> str:
    """Say where the points differ from those of the check; "" where they are equal."""
    expected = verdict(asked.id, answer, engine.seed).points
    name = asked.reference.__name__
    mark = engine.mark(Notebook(style(asked, as_a_cell(answer, name), name), asked.lecture), asked)
    if mark.points == expected:
        return ""
    return f"{asked.id} {answer.__name__} {style.__name__}: {mark.points}, by the check {expected}. {mark.detail}"


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.__name__)
def test_in_every_style_the_points_are_those_of_the_notebooks_check(engine, style):
    asked = exercise("04.1")
    assert [text for answer in (asked.right[0], asked.wrong[-1]) if (text := difference(engine, asked, answer, style))] == []


@pytest.mark.parametrize("combination", combinations()[:N_SAMPLED], ids=lambda c: f"{c[0].id}-{c[1].__name__}-{c[2].__name__}")
def test_the_points_of_any_answer_in_any_style_are_those_of_the_notebooks_check(engine, combination):
    assert difference(engine, *combination) == ""


if __name__ == "__main__":
    jaxtyping.config.update("jaxtyping_disable", True)
    with Engine() as started:
        for number, combination in enumerate(combinations()[: int(sys.argv[1]) if len(sys.argv) > 1 else None], start=1):
            text = difference(started, *combination)
            print(text or f"{number}\r", end="\n" if text else "", flush=True)
