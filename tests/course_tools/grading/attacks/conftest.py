"""What the attacks share: an engine of their own with inputs of its own, a host to attack, and an honest neighbour."""

import os
import resource
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from course_tools.checks import Exercise
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import Notebook
from course_tools.grading.judge_notebook import Engine
from course_tools.grading.marks import Mark
from tests.course_tools.grading.attacks.host import SECRET, SECRET_NAME, Host, changes, state_of_the_grader
from tests.course_tools.grading.attacks.stage import Outside, general_scores, honest, submission

SEED = 20_170_612
MOST_MEMORY = 600_000
"""Kilobytes by which the grader may grow while it judges one attack."""


@pytest.fixture(autouse=True, scope="session")
def only_on_linux() -> None:
    if sys.platform != "linux":
        pytest.skip("what is attacked here are the isolation layers of Linux")


@pytest.fixture(scope="session")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that takes what anybody inside says to the screen."""
    return tmp_path_factory.mktemp("screen") / "screen.txt"


@pytest.fixture(scope="session")
def engine(output: Path) -> Iterator[Engine]:
    """One engine for all attacks, behind a secret of the environment, whose processes speak into a file."""
    os.environ[SECRET_NAME] = SECRET
    own = [os.dup(fd) for fd in (1, 2)]
    screen = os.open(output, os.O_CREAT | os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(screen, fd)
    try:
        started = Engine(seed=SEED).__enter__()
    finally:
        for fd, before in zip((1, 2), own, strict=True):
            os.dup2(before, fd)
            os.close(before)
        os.close(screen)
    yield started
    started.__exit__(None, None, None)
    del os.environ[SECRET_NAME]


@pytest.fixture(scope="session")
def outside(engine: Engine) -> Iterator[Outside]:
    with Outside() as started:
        yield started


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    found = Host(tmp_path_factory.mktemp("host"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def neighbour(engine: Engine) -> Callable[[], Mark]:
    """Return `neighbour()`: what an honest student gets at this moment, without the time it took."""
    notebook = Notebook(submission({"02.2": honest()}), "02")
    return lambda: replace(engine.mark(notebook, general_scores()), seconds=0.0)


@pytest.fixture(scope="session")
def at_first(neighbour: Callable[[], Mark]) -> Mark:
    """What the neighbour gets before anybody has attacked."""
    first = neighbour()
    assert first.passed
    return first


@pytest.fixture(scope="module")
def unharmed(neighbour: Callable[[], Mark], at_first: Mark) -> Iterator[None]:
    """After the attacks of a file, the neighbour gets what it got before anybody had attacked."""
    yield
    assert neighbour() == at_first


@pytest.fixture
def judged(engine: Engine, host: Host, unharmed: None, output: Path) -> Callable[..., Mark]:
    """Return `judged(cells)`: the mark of exercise 02.2, after proof that nothing else has changed."""

    def judge(cells: list[Cell], asked: Exercise | None = None) -> Mark:
        before, size = state_of_the_grader(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        mark = engine.mark(Notebook(cells, "02"), asked or general_scores())
        assert changes(before, state_of_the_grader()) == {}
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size < MOST_MEMORY
        assert host.traces() == []
        assert output.read_bytes() == b""
        assert SECRET not in repr(mark)
        assert len(repr(mark)) < 20_000
        return mark

    return judge
