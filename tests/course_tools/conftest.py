"""Shared fixtures for the course's tests: a small course of one lecture in a temporary folder, one test per exercise."""

import re
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest

from course_tools.bank import exercise, exercises
from course_tools.notebook import claim_statements
from tests.rule import for_each

SAMPLE = ("04.1", "04.2", "07.6")
"""Exercises that return several tensors, a mask, and a text."""
each_exercise = for_each([item for item in exercises() if item.training is None], lambda asked: asked.id)
REPOSITORY = Path(__file__).parents[2]
ROOMS = Path(__file__).parent / "rooms"
"""The statements of the claims that tests make."""

LECTURE = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["header"]
# # 04 · Tiny attention
#
# {measured}

# %% [markdown] tags=["companion"]
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Scaled Dot-Product Attention | 1 One query | `course_lib.attention.scaled_dot_product_attention` |

# %%
import math
from pathlib import Path

import torch

from course_lib.attention import Attended, attend
from course_tools.notebook import check
from course_lib.shapes import Keys, Mask, Queries, Values
from course_tools.notebook import claim, claim_statements, explore

claim_statements.FOLDER = Path("ROOMS")

# %% [markdown]
# ## 1 One query

# %% exercise="04.1" difficulty="●●○" minutes=10
from course_lib.attention import scaled_dot_product_attention

# %% tags=["nbval-check-output"]
scaled_dot_product_attention = check("04.1", scaled_dot_product_attention)

# %% exercise="04.1" bug="BUG"
from course_tools.bank.lecture_04.scaled_dot_product_attention import BUG as suspect

# %% tags=["nbval-check-output"]
suspect = check("04.1", suspect)

# %% exercise="04.1"
from course_lib.attention import scaled_dot_product_attention as mended

# %% tags=["nbval-check-output"]
mended = check("04.1", mended)

# %% tags=["nbval-check-output"]
q = torch.eye(3)
rows = scaled_dot_product_attention(q, q, q).weights.sum(-1)
claim("04.a", total=rows.mean())

# %% tags=["interactive"]
explore(lambda n: print(n), n=(1, 3))

# %% tags=["raises-exception"]
attend(q, q[:2])
"""


README = """\
# Tiny

<!-- numbers:begin -->
<!-- numbers:end -->

<!-- lectures:begin -->
<!-- lectures:end -->

The end.
"""


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a course with only lecture 04, unbuilt."""
    monkeypatch.setattr(claim_statements, "FOLDER", ROOMS)
    (tmp_path / "authoring").mkdir()
    (tmp_path / "docs").mkdir()
    listed = (REPOSITORY / "docs" / "decks.toml").read_text(encoding="utf-8")
    titles = re.sub(r', claims = \[[^\]]*\]|, erratum = "(?:[^"\\]|\\.)*"', "", listed)
    (tmp_path / "docs" / "decks.toml").write_text(titles, encoding="utf-8")
    (tmp_path / "README.md").write_text(README, encoding="utf-8")
    author(tmp_path, "04_tiny", LECTURE.replace("BUG", exercise("04.1").wrong[0].__name__).replace("ROOMS", ROOMS.as_posix()))
    return tmp_path


def author(root: Path, stem: str, text: str) -> Path:
    """Write the authoring source of a lecture."""
    path = root / "authoring" / f"{stem}.py"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(name="author")
def author_fixture(course: Path):
    """Return `author(stem, text)`: add a source to the course, or replace one."""
    return lambda stem, text: author(course, stem, text)


@pytest.fixture(autouse=True)
def unchecked() -> Iterator[None]:
    """Switch off type checks: they make each wrong answer slow to judge, and a test shows that they change no verdict."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def seeds(request: pytest.FixtureRequest) -> range:
    """Return the seeds with which each answer of the bank is judged: `--seeds`, by default 1, and 3 with `--full`."""
    return range(request.config.getoption("--seeds") or (3 if request.config.getoption("--full") else 1))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of one exercise for all of them, and a test of the engine for three.

    The argument `asked` is each short exercise, `build_task` each build task, and `sample` one exercise of each type of result.
    """
    for name, builds in (("asked", False), ("build_task", True)):
        if name in metafunc.fixturenames:
            items = [item for item in exercises() if (item.training is not None) is builds]
            metafunc.parametrize(name, items, ids=[f"{item.id}-{item.reference.__name__}" for item in items])
    if "sample" in metafunc.fixturenames:
        items = [exercise(id) for id in SAMPLE]
        metafunc.parametrize("sample", items, ids=[item.reference.__name__ for item in items])
