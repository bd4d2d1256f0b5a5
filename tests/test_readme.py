"""The README: one page, numbers of the course, links that exist, examples with the printed results."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import course_lib
from course_tools.bank import exercises
from course_tools.publishing.readme import BUILT
from course_tools.publishing.readme_picture import alternative_text

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_one_page():
    assert len(README.encode()) <= 8_000


def test_its_numbers_are_those_of_the_course():
    lectures = sorted((ROOT / "lectures").glob("[0-9][0-9]_*.ipynb"))
    line = README.partition("<!-- numbers:begin -->")[2].partition("<!-- numbers:end -->")[0]
    n_lectures, n_exercises, n_wrong, n_claims, _ = (int(re.sub(r"\D", "", part)) for part in line.split("·"))
    assert n_lectures == len(lectures)
    assert n_exercises == len(exercises())
    assert 0 <= sum(len(item.wrong) for item in exercises()) - n_wrong < 100
    solved = (path.read_text(encoding="utf-8") for path in (ROOT / "solutions").glob("[0-9][0-9]_*.ipynb"))
    assert 0 <= sum(text.count('"course_claim": {') for text in solved) - n_claims < 100


def test_each_lecture_says_what_one_builds():
    assert sorted(BUILT) == [path.name[:2] for path in sorted((ROOT / "lectures").glob("[0-9][0-9]_*.ipynb"))]
    assert all(f" | {built} | " in README for built in BUILT.values())


def test_the_citation_names_the_version():
    assert f"\nversion: {course_lib.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_no_lecture_downloads_anything():
    """The README counts the data downloads as 0."""
    fetching = re.compile(r"^(?!#).*\b(?:download|cifar10|urlopen|urlretrieve)\(", re.MULTILINE)
    assert {
        path.name for path in (ROOT / "authoring").glob("*.py") if fetching.search(path.read_text(encoding="utf-8"))
    } == set()


def test_the_picture_is_described_by_what_the_check_says_today():
    """If this fails, draw the figure again: `python -m course_tools.publishing.readme_picture`."""
    assert f'alt="{alternative_text()}"' in README
    assert all((ROOT / picture).exists() for picture in re.findall(r'src(?:set)?="([^"]+)"', README))


def test_each_file_that_a_link_names_exists():
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)\)", README)
    assert len(links) > 3
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/library.md"])
def test_the_example_of_the_library_prints_what_it_shows(page):
    example = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)[0]
    shown = re.findall(r"print\(.*\)  # (.*)", example)
    done = subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert shown
    assert done.stdout.splitlines() == shown


def test_the_further_models_of_the_library_page_agree_with_their_own_assertions():
    """What is generated from a cache is what is computed anew, and the equations are the model of the library."""
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    asserting = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1:] if "assert" in code.splitlines()[-1]]
    assert len(asserting) == 2
    for code in asserting:
        exec(code, {"__name__": "library"})
