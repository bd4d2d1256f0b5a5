"""The page of rivals: each comparison rests on an existing claim, study or figure; who leads follows from its numbers."""

import re
import tomllib

import pytest

from course_tools.publishing import PublishingFailed, lectures, rivals_page
from course_tools.publishing.project import project_root
from course_tools.publishing.rivals_page import ROWS, _decides

ROOT = project_root()
LOSES_OR_TIES = {
    *(
        "02.i",
        "08.svd",
        "09.video",
        "09.mIoU",
    ),
    *("09.mIoU-mean", "10.digits", "12.rivals", "12.softer", "13.vit", "15.rivals", "16.s"),
    *("18.text", "19.drafts"),
}
ROW = """
[[lecture]]
number = "09"
rivals = [{ of = "A", rival = "B | C", on = "D", KEYS }]
objections = [{ says = "E.", claims = ["09.m"], studies = [["09_reach", "one block", "accuracy"]], answer = "F." }]
"""


@pytest.fixture
def row(monkeypatch, tmp_path):
    """Return `row(keys)`: the cells of a comparison on a page made from that comparison only."""

    def made(keys: str, number: str = "09") -> list[str]:
        (tmp_path / "rows.toml").write_text(ROW.replace("KEYS", keys).replace('"09"', f'"{number}"'), encoding="utf-8")
        monkeypatch.setattr(rivals_page, "ROWS", str(tmp_path / "rows.toml"))
        page = rivals_page.rivals_page(ROOT)
        return [
            cell.strip() for cell in next(line for line in page.splitlines() if line.startswith("| A |"))[2:-2].split(" | ")
        ]

    return made


@pytest.fixture(scope="module")
def page():
    return rivals_page.rivals_page(ROOT)


def test_every_lecture_lists_its_rivals_and_the_objections_to_it(page):
    rows = tomllib.loads((ROOT / ROWS).read_text(encoding="utf-8"))["lecture"]
    assert [listed["number"] for listed in rows] == [lecture.number for lecture in lectures(ROOT)]
    table, _, objections = page.partition("\n## Objections")
    assert len(re.findall(r"^\| (?!Mechanism|---)", table, re.MULTILINE)) == sum(len(each["rivals"]) for each in rows)
    said = [line.split(" | ") for line in objections.splitlines() if re.match(r"\| \d\d ", line)]
    assert len(said) == sum(len(each["objections"]) for each in rows) >= 40
    assert [cells for cells in said if not re.search(r"\]\(\S+\) .*\d", cells[2])] == [], "no number, or no source"


def test_every_rival_that_wins_or_draws_is_on_the_page(page):
    assert LOSES_OR_TIES - set(re.findall(r"\[(\d\d\.[\w-]+)\]\(", page)) == set()
    for study in ("02_length_and_width", "05_translation", "06_direction", "16_byol"):
        assert f"[{study}](studies.md#{study})" in page


@pytest.mark.parametrize(
    ("keys", "numbers", "leads"),
    [
        ('ahead = "09.mIoU"', r"\+0\.\d+", "the mechanism"),
        ('rival_ahead = "09.mIoU"', r"−0\.\d+", "**the rival**"),
        ('ahead = "09.mIoU", tie = 0.9', r"\+0\.\d+", "neither"),
        ('times = "09.d"', r"\d+\.?\d* times", "the mechanism"),
        ('times = "09.d", lower = true', r"\d+\.?\d* times", "**the rival**"),
        ('values = ["09.painter:by_pixels", "09.painter:right"]', r"0\.\d+ against 0\.\d+", "**the rival**"),
        (
            'values = [["09_reach", "one block", "accuracy"], ["09_reach", "three convolutions", "accuracy"]]',
            r"0\.\d+ against 0\.\d+",
            "the mechanism",
        ),
        (
            'values = [["09_reach", "one block", "accuracy"], ["09_reach", "three convolutions, max pooling", "accuracy"]]',
            r"0\.\d+ against 0\.\d+",
            "neither",  # their seeds overlap
        ),
    ],
)
def test_who_leads_follows_from_the_numbers(row, keys, numbers, leads):
    _, rival, _, told, whose, source = row(keys)
    assert rival == "B \\| C"
    assert re.fullmatch(numbers, told)
    assert whose == leads
    assert source.startswith(("[09.", "[09_reach](studies.md#09_reach)"))


def test_where_less_is_better_the_page_says_so(row):
    assert row('times = "09.d", lower = true')[2] == "D, lower is better"


@pytest.mark.parametrize(
    ("keys", "number", "message"),
    [
        ('ahead = "09.nowhere"', "09", "lecture 09: no solution makes the claim 09.nowhere"),
        ('ahead = "09.d", claims = ["09.none"]', "09", "no solution makes the claim 09.none"),
        ('values = ["09.d", ["09_reach", "two blocks", "accuracy"]]', "09", "no record has 'accuracy' of 'two blocks'"),
        ('values = ["09.d", ["09_none", "one block", "accuracy"]]', "09", "in the study 09_none"),
        ('ahead = "09.d"', "77", "lecture 77"),
    ],
)
def test_a_row_that_leads_nowhere_is_refused(row, keys, number, message):
    with pytest.raises(PublishingFailed, match=re.escape(message)):
        row(keys, number)


@pytest.mark.parametrize(
    ("ours", "theirs", "paired", "decided"),
    [
        ((0.9, 0.8), (0.7, 0.5), False, True),
        ((0.7, 0.5), (0.9, 0.8), False, True),
        ((0.9, 0.6), (0.7, 0.5), False, False),
        ((0.9, 0.6), (0.7, 0.5), True, True),
        ((0.9, 0.4), (0.7, 0.5), True, False),
        ((0.9,), (0.9,), False, True),
    ],
)
def test_overlapping_seeds_decide_only_if_each_has_the_same_data_and_the_same_sign(ours, theirs, paired, decided):
    assert _decides(ours, theirs, paired) == decided
