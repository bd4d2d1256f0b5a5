"""What strangers call their files, functions and errors does nothing in the instructor's browser, spreadsheet or terminal."""

import csv
import io
import json
from html.parser import HTMLParser

import pytest

from course_tools.grading.batch import GradingOptions
from course_tools.grading.judge_notebook import Engine
from course_tools.grading.pipeline import grade
from course_tools.grading.report.class_page import SCRIPT
from tests.course_tools.grading.attacks.stage import ROOT, honest, submission
from tests.course_tools.grading.student_notebooks import StandIn

TAG = "<attack onload=alert(1)>"
NAMES = (
    "=HYPERLINK(1)",
    "+cmd|' calc'!A0",
    "-1+1",
    "@SUM(1)",
    f'" onmouseover="attack {TAG}'.replace("/", ""),
    "'; drop table students; --",
    "line\nbreak,297,6\n",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202enotebook",
    "a..%2e%2e..b",
    "con",
    "ada" * 60,
    "&lt;attack&gt;",
)
SAYINGS = (
    TAG,
    f"</script><script>alert(1)</script>{TAG}",
    f'"><{TAG}',
    f"</script></pre></td></html>{TAG}",
    f"' onmouseover='attack' {TAG}",
    f"]]>--><!--{TAG}",
    "=HYPERLINK(1)\n=1+1",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202e\u2066",
    "a\r\nSet-Cookie: attack\r\n\r\n",
    "{{7*7}} ${7*7} %s %n {0}",
    "line\n297,6\n",
    "\x00",
)
RAISES = """
def general_scores(q, k, W):
    raise type({name!r}, (Exception,), {{}})({text!r})
"""
AT_LOAD = """
class Hidden(Exception):
    pass

Hidden.__name__ = {text!r}

def fails():
    raise Hidden({text!r})

general_scores = fails()
"""
IN_THE_SOURCE = "def general_scores(q, k, W):\n    return q @ {text!r}\n"
WITHOUT_SENSE = "def general_scores(q, k, W):\n    {text}\n"
STEALS = """
import glob
found = []

def general_scores(q, k, W):
    for folder in {folders!r}:
        for name in ("grades.csv", "journal.jsonl", "seed.txt", "index.html", "students/me.html"):
            try:
                open(folder + "/" + name, "a").write("me,297")
            except OSError:
                pass
    return q
"""


class Page(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.links, self.scripts = set(), set(), set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value for name, value in attrs if name in ("href", "src", "action")}

    def handle_data(self, data):
        if self.cdata_elem == "script":
            self.scripts.append(data)


def notebook(source):
    cells = [
        {"cell_type": cell.type, "id": cell.id, "metadata": cell.metadata, "source": cell.source}
        for cell in submission({"02.2": source})
    ]
    return json.dumps(
        {"cells": cells, "metadata": {"title": TAG, "authors": [{"name": TAG}]}, "nbformat": 4, "nbformat_minor": 5}
    )


@pytest.fixture(scope="module")
def graded(tmp_path_factory, only_on_linux):
    """The results of a class in which everybody but one is hostile."""
    folder = tmp_path_factory.mktemp("class")
    handed, out = folder / "in", folder / "out"
    handed.mkdir()
    sources = [RAISES.format(name=text.replace("\0", " "), text=text) for text in SAYINGS]
    sources += [form.format(text=text) for form in (AT_LOAD, IN_THE_SOURCE, WITHOUT_SENSE) for text in SAYINGS[:5]]
    sources += [STEALS.format(folders=[str(out), str(handed), str(folder)])]
    names = [*NAMES, *(f"student{n}" for n in range(len(sources) - len(NAMES)))]
    for name, source in zip(names, sources, strict=True):
        (handed / f"{name}.ipynb").write_text(notebook(source), encoding="utf-8")
    (handed / "honest.ipynb").write_text(notebook(honest()), encoding="utf-8")
    before = sorted(path.name for path in handed.iterdir())
    grade(handed, GradingOptions(Engine, ROOT, "02", seed=7), out)
    assert sorted(path.name for path in handed.iterdir()) == before
    assert sorted(path.name for path in folder.iterdir()) == ["in", "out"]
    return out


def rows(path):
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))


def test_no_page_holds_an_element_that_a_student_wrote(graded):
    texts = [path.read_text(encoding="utf-8") for path in graded.rglob("*.html")]
    pages = [Page(text) for text in texts]
    assert len(pages) > 25
    assert sum(page.scripts == [SCRIPT] for page in pages) == 1  # of the index, and none besides: see its policy
    for page, text in zip(pages, texts, strict=True):
        assert page.scripts in ([], [SCRIPT])
        assert text.count("<script") == len(page.scripts)
        assert not page.tags & {"attack", "img", "iframe", "svg", "form", "object", "base"}
        assert not {name for name in page.attributes if name.startswith("on")}
        assert not {link for link in page.links if ":" in link and not link.startswith("https://")}
        assert page.links <= {link for link in page.links if not link.startswith(("/", ".."))}
    assert sum("&lt;attack" in text for text in texts) > 5
    assert not any(character in text for text in texts for character in "\x00\x1b\x07")


def test_no_cell_of_a_table_is_a_formula_and_no_line_is_new(graded):
    for name in ("grades.csv", "flags.csv"):
        table = rows(graded / name)
        assert len({len(row) for row in table}) == 1
        assert not [cell for row in table for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\x1b"))]
    marks = rows(graded / "grades.csv")
    assert len(marks) == 1 + len(list((graded.parent / "in").iterdir()))
    assert "\x1b" not in (graded / "grades.csv").read_text(encoding="utf-8-sig")


def test_only_the_honest_one_has_points(graded):
    head, *students = rows(graded / "grades.csv")
    points = {row[head.index("id")]: row[head.index("points")] for row in students}
    assert points.pop("honest") == "9"
    assert set(points.values()) <= {"0"}


def test_every_page_lies_where_pages_lie(graded):
    known = {"index.html", "grades.csv", "flags.csv", "report.json", "journal.jsonl", "seed.txt", "students", "similar"}
    assert {path.name for path in graded.iterdir()} <= known
    for folder in (graded / "students", graded / "similar"):
        assert all(path.suffix == ".html" and path.parent == folder for path in folder.rglob("*"))
    journal = [json.loads(line) for line in (graded / "journal.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(journal) == len(rows(graded / "grades.csv")) - 1
    assert json.loads((graded / "report.json").read_text(encoding="utf-8"))


@pytest.mark.usefixtures("started_quickly")
def test_the_terminal_is_left_alone(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    for name in NAMES:
        (tmp_path / "in" / f"{name}.ipynb").write_text("no notebook", encoding="utf-8")
    grade(tmp_path / "in", GradingOptions(StandIn, ROOT, "02", seed=7), tmp_path / "out")
    output = capsys.readouterr()
    assert output.out
    assert not set("\x1b\x07\x00\u202e\r") & set(output.out)
