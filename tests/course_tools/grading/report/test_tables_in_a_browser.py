"""The tables of a class of 2,000 in a real browser: search, filter and sort by mouse and keyboard, without a request."""

import random

import pytest

from course_tools.bank import exercises
from course_tools.grading.notebook_result import Graded, NotebookResult
from course_tools.grading.report.class_page import index
from course_tools.publishing.browser import ARGUMENTS, chromium
from tests.course_tools.grading.report.test_results import graded_notebook, mark, settled
from tests.course_tools.grading.student_notebooks import course

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]
N = 2_000


def a_student(n: int) -> Graded:
    draw = random.Random(n)
    marks = (mark(item.id, draw.choice((0, item.points)), max_points=item.points) for item in exercises("04"))
    name = "Åse <b>Öberg</b>" if n == 7 else f"Student {n}"
    handed = graded_notebook(str(10_000 + n), 0, name=name, late=n % 100 == 0)
    return Graded(handed.submission, NotebookResult("04", tuple(marks)))


@pytest.fixture(scope="module")
def results():
    return settled(*map(a_student, range(N)))


@pytest.fixture(scope="module")
def tab(results, tmp_path_factory):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e .[site]")
    path = chromium()
    if path is None:
        pytest.skip("no Chromium or Chrome is installed")
    file = tmp_path_factory.mktemp("index") / "index.html"
    file.write_text(index(results, course()), encoding="utf-8")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        tab = running.new_page(viewport={"width": 1280, "height": 900})
        tab.set_default_timeout(300_000)  # a busy machine passes
        tab.noticed = []
        tab.on("pageerror", lambda error: tab.noticed.append(str(error)))
        tab.on("console", lambda message: tab.noticed.append(message.text))
        tab.on("request", lambda request: tab.noticed.append(request.url) if request.url != file.as_uri() else None)
        tab.goto(file.as_uri())
        yield tab
        running.close()


def names(tab) -> list[str]:
    """The students of the first table that are shown, in order."""
    shown = "rows => rows.filter(row => !row.hidden).map(row => row.cells[0].querySelector('a').textContent)"
    return tab.locator("table").first.locator("tbody tr").evaluate_all(shown)


def test_a_student_is_found_by_part_of_a_name_without_accents(tab):
    search = tab.get_by_label("Search").first
    search.fill("oberg ase")
    assert names(tab) == ["Åse <b>Öberg</b>"]
    assert tab.locator("output").first.text_content() == f"1 of {N} rows"
    search.fill("")
    assert len(names(tab)) == N


def test_students_are_filtered_by_state_and_by_an_exercise(tab, results):
    choice = tab.get_by_label("Show").first
    wrong = [result for result in results.students if result.marks["04.2"].points == 0]
    for label, n in (
        (f"late ({N // 100})", N // 100),
        (f"not all points in 04.2 ({len(wrong)})", len(wrong)),
        (f"all ({N})", N),
    ):
        choice.select_option(label=label)
        assert len(names(tab)) == n


def test_a_click_or_enter_on_a_title_sorts(tab, results):
    points = tab.locator("table").first.locator("thead th").nth(1)
    points.get_by_role("button").click()
    assert points.get_attribute("aria-sort") == "ascending"
    points.get_by_role("button").press("Enter")
    assert points.get_attribute("aria-sort") == "descending"
    of_name = {result.student.name: result.points for result in results.students}
    found = [of_name[name] for name in names(tab)]
    assert found == sorted(found, reverse=True)
    assert len(found) == N


def test_nothing_is_fetched_and_no_name_became_an_element(tab):
    assert tab.noticed == []
    assert tab.locator("tbody b").count() == 0
