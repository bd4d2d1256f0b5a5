"""Plain technical English: docstrings, comments, messages and documents avoid words that the field does not use."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from course_tools.bank import exercises
from course_tools.checks import Exercise
from tests.rule import for_each
from tests.vocabulary import FOR_STUDENTS, REFUSED, refused_words

ROOT = Path(__file__).parents[1]
PROSE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = [*sorted((ROOT / "course_lib").rglob("*.py")), *sorted((ROOT / "course_tools").rglob("*.py")), ROOT / "course.py"]
QUOTED = re.compile(r"`[^`]*`|“[^”]*”|«[^»]*»|https?://\S+")
GENERATED = {"companion.md"}
"""Their words come from the lectures and the slides."""


def words_of(path: Path) -> Iterator[tuple[int, str]]:
    """Return the prose of a file, with line numbers: the text of a document, comments and strings of code, without quotes."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        found = [(1, text)]
    else:
        kinds = (tokenize.COMMENT, tokenize.STRING)
        found = [(t.start[0], t.string) for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type in kinds]
    for first, part in found:
        for i, line in enumerate(QUOTED.sub("``", part).split("\n")):
            yield first + i, line


def refused_in(lines: Iterator[tuple[int, str]]) -> list[str]:
    return [f"line {number}: {found}" for number, line in lines for found in refused_words(line, REFUSED)]


@for_each(
    [path for path in (*PROSE, *CODE) if path.name not in GENERATED],
    lambda path: path.relative_to(ROOT).as_posix(),
)
def test_the_words_are_those_of_the_field(path):
    assert refused_in(words_of(path)) == []


def read_by_students(asked: Exercise) -> Iterator[str]:
    yield asked.title
    yield from asked.hints
    yield from (wrong.__doc__ or "" for wrong in asked.wrong)
    for prop in asked.properties:
        yield from (prop.name, prop.law)
    yield from asked.forbids.values()


@for_each([item for item in exercises() if item.training is None], lambda asked: asked.id)
def test_exercises_are_written_in_the_terms_of_the_field(asked):
    assert [found for text in read_by_students(asked) for found in refused_words(text, FOR_STUDENTS)] == []


def test_a_refused_word_is_found_in_comments_and_strings_and_not_in_names_or_quotations(tmp_path):
    file = tmp_path / "code.py"
    file.write_text(
        'behind = 1  # the token behind\n"""Every `behind` is a name.\n\nIt speaks about tokens."""\n', encoding="utf-8"
    )
    assert [line.partition(";")[0] for line in refused_in(words_of(file))] == ["line 1: 'behind'", "line 4: 'speaks about'"]
    assert refused_words("Each picture is its own", FOR_STUDENTS)
