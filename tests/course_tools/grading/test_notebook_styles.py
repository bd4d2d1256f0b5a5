"""Whatever style a notebook is written in, the grader's points equal those of the notebook's own check.

Here a sample of exercises and answers in every style; `python -m tests.course_tools.grading.test_notebook_styles` runs every
answer of every exercise in every style and prints the differences.
"""

import sys

import jaxtyping
import pytest

from course_tools.bank import exercise, exercises, verdict
from course_tools.checks import Exercise
from course_tools.grading.engine import Engine
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import Notebook, handed_out
from tests.course_tools.grading.conftest import is_answer, submitted
from tests.course_tools.grading.test_bank import as_a_cell

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is graded on Windows")
SAMPLE = ("01.2", "04.1", "04.5", "12.2")


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
    without_checks,
)


def differences(engine, asked: Exercise, answers) -> list[tuple]:
    """Every style in which the points differ from those of the check, as (answer, style, points, points of the check)."""
    found = []
    for answer in answers:
        expected = verdict(asked.id, answer, engine.seed).points
        source = as_a_cell(answer, asked.reference.__name__)
        for style in STYLES:
            mark = engine.mark(Notebook(style(asked, source, asked.reference.__name__), asked.lecture), asked)
            if mark.points != expected:
                found.append((asked.id, answer.__name__, style.__name__, mark.points, expected, mark.detail))
    return found


@pytest.mark.parametrize("id", SAMPLE)
def test_the_points_are_those_of_the_notebooks_check(engine, id):
    asked = exercise(id)
    assert differences(engine, asked, [*asked.right[:1], asked.wrong[-1]]) == []


if __name__ == "__main__":
    jaxtyping.config.update("jaxtyping_disable", True)
    with Engine() as started:
        for item in exercises():
            print(item.id, differences(started, item, [*item.right, *item.wrong]), flush=True)
