"""The page of headlines: each row names an existing paper, claim and study."""

import re
import tomllib

import pytest

from course_tools.publishing import PublishingFailed, headlines, lectures
from course_tools.publishing.headlines import ROWS, headlines_page
from course_tools.publishing.project import project_root

ROOT = project_root()
ROW = """
[[row]]
lecture = "16"
paper = "Grill et al. 2020"
number = "74.3 %"
stated = "abstract"
measured_on = "ImageNet | more"
claims = ["16.s"]
studies = [["16_byol", "BYOL", "probe"]]
why = "Because."
"""


@pytest.fixture
def page(monkeypatch, tmp_path):
    """Return `page(rows)`: the page of this course made from the given rows."""

    def made(rows: str) -> str:
        (tmp_path / "rows.toml").write_text(rows, encoding="utf-8")
        monkeypatch.setattr(headlines, "ROWS", str(tmp_path / "rows.toml"))
        return headlines_page(ROOT)

    return made


def test_the_page_has_every_row_and_every_lecture():
    rows = tomllib.loads((ROOT / ROWS).read_text(encoding="utf-8"))["row"]
    assert {row["lecture"] for row in rows} == {lecture.number for lecture in lectures(ROOT)}
    assert len(re.findall(r"^\| (?:\[|deck )", headlines_page(ROOT), re.MULTILINE)) == len(rows)


def test_a_row_gives_the_measured_values_and_their_sources(page):
    shown = page(ROW)
    paper = "[Grill et al. 2020](https://arxiv.org/abs/2006.07733)"
    assert f"| {paper} | 74.3 % | abstract | ImageNet \\| more | **16.s** " in shown
    assert re.search(r"<br>study `16_byol`, BYOL, probe: 0\.\d+ \| Because\. \|\n", shown)
    assert shown.count("Neither its decks nor its papers state a number") == len(lectures(ROOT)) - 1


def test_what_is_not_measured_is_said(page):
    unmeasured = "\n".join(line for line in ROW.splitlines() if not line.startswith(("claims", "studies")))
    assert "| not measured | Because. |" in page(unmeasured)


def test_a_number_of_a_deck_names_its_slide(page):
    slide = 'deck = "IT"\nsection = "ViT model"'
    of_a_deck = ROW.replace('paper = "Grill et al. 2020"', slide).replace('stated = "abstract"', "")
    assert "| deck IT | 74.3 % | IT, *ViT model* |" in page(of_a_deck)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"16.s"', '"16.nowhere"', "no solution makes the claim 16.nowhere"),
        ('"16.s"', '"15.a"', "no solution makes the claim 15.a"),
        ('lecture = "16"', 'lecture = "77"', "rows for lectures that do not exist: 77"),
        ("Grill et al. 2020", "Nobody 2020", "no row of docs/papers.md begins with 'Nobody 2020'"),
        ('stated = "abstract"', 'deck = "GA"\nsection = "None"', "lists no section 'None' of deck GA"),
        ('"BYOL"', '"BYO"', "no record has 'probe' of 'BYO'"),
        ('"probe"', '"prob"', "no record has 'prob' of 'BYOL'"),
        ("16_byol", "16_none", "in the study 16_none"),
    ],
)
def test_a_row_that_leads_nowhere_is_refused(page, old, new, message):
    with pytest.raises(PublishingFailed, match=re.escape(message)):
        page(ROW.replace(old, new))
