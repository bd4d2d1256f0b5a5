"""The pages: nothing of a student is taken for HTML, and no page of a student holds a value that a check compares with."""

import base64
import hashlib
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import pytest

from course_tools.bank import exercise, exercises, verdict
from course_tools.bank.lecture_15.train_gat import SLOW
from course_tools.checks import Finding
from course_tools.grading.extract.programs import handed_out, is_marked
from course_tools.grading.intake.recognise import Course
from course_tools.grading.intake.submissions import Intake, Note, Student
from course_tools.grading.marks import NotRun
from course_tools.grading.notebook_result import Graded, NotebookResult
from course_tools.grading.report.class_page import SCRIPT, index, page_name
from course_tools.grading.report.flags import Flag
from course_tools.grading.report.html import Html, html, page, table
from course_tools.grading.report.results import collect
from course_tools.grading.report.similar_page import similar_page
from course_tools.grading.report.student_page import detail_for_student, feedback, section
from tests.course_tools.grading.report.test_results import graded_notebook, mark, settled
from tests.course_tools.grading.student_notebooks import ROOT

EVIL = '<script>alert(1)</script><img src=x onerror="x()"> & \'"'


class Tags(HTMLParser):
    """Collects the tags, and sees that each is closed."""

    def __init__(self):
        super().__init__()
        self.seen, self.open = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tags(text: str) -> list[tuple[str, dict]]:
    parser = Tags()
    parser.feed(text)
    assert parser.open == []
    return parser.seen


def course() -> Course:
    return Course.at(ROOT)


def judged(id: str, answer) -> Graded:
    """A graded_notebook with the verdict of the notebook's own check, values and all."""
    found = verdict(id, answer)
    reported = mark(id, found.points, misconception=found.misconception, findings=found.findings, max_points=found.max_points)
    return Graded(graded_notebook("7", 0).submission, NotebookResult("04", (reported,), "", {}, "Every layer holds."))


def test_nothing_of_a_student_is_taken_for_html():
    finding = Finding("runs", "It runs.", "fails", 0, f"It raised {EVIL}", EVIL)
    output = {"name": EVIL, "findings": (finding,), "detail": EVIL, "status": "no answer"}
    flagged = graded_notebook("7", 1, f"{EVIL}/{EVIL}.ipynb", **output)
    mine = NotebookResult("04", flagged.result.marks, EVIL, {}, "")
    results = settled(Graded(flagged.submission, mine), notes=(Note(None, EVIL, EVIL), Note(Student("8", EVIL), EVIL, EVIL)))
    for text in (index(results, course(), [EVIL]), *(feedback(result, results) for result in results.students)):
        found = tags(text.replace(f"<script>{SCRIPT}</script>", ""))
        assert {"script", "img"}.isdisjoint({tag for tag, _ in found})
        assert not [name for _, attributes in found for name in attributes if name.startswith("on")]
        assert "&lt;script&gt;" in text


def test_pages_fetch_nothing_and_run_no_script_but_that_of_the_index():
    results = settled(graded_notebook("7", 3), graded_notebook("8", 12))
    for text, n_scripts in ((index(results, course()), 1), (feedback(results.students[0], results), 0)):
        (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', text)
        assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
        scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
        assert re.findall(r"script-src '(.*)'", policy) == [f"sha256-{found}" for found in hashes]
        assert len(scripts) == text.count("<script") == n_scripts
        assert not re.search(r"https?://|src=|@import|url\(", text)


def test_a_students_code_is_beside_its_result_as_text_in_one_line_of_markup():
    """A page is also a cell in Markdown, in which an empty line would end the markup."""
    written = graded_notebook("7", 3)
    code = f"def f(q):\n\treturn '{EVIL}'\n\n\n# \u202e\x00![x](http://x)"
    results = settled(Graded(written.submission, replace(written.result, code={"04.1": code})), graded_notebook("8", 3))
    text = feedback(results.students[0], results)
    assert {"script", "img"}.isdisjoint({tag for tag, _ in tags(text)})
    (pre,) = re.findall(r"<pre.*?</pre>", text, re.DOTALL)
    assert "\n" not in pre
    assert pre.endswith(f"return &#x27;{escape(EVIL)}&#x27;&#10;&#10;&#10;# \ufffd\ufffd![x](http://x)&#10;</pre>")
    assert text.index("3 of 12 points") < text.index("<pre") < text.index("</section>")
    assert "<pre" not in feedback(results.students[1], results)


def test_two_similar_solutions_stand_side_by_side_with_their_common_lines_marked():
    codes = {
        "7": f"def f(q):\n    # {EVIL}\n    table = torch.ones(len(q), dtype=bool)  # mine\n    return table",
        "8": "def f(rows):\n    mask = torch.ones(len(rows), dtype = bool)\n    return mask.tril()",
    }
    graded = [graded_notebook(id, 3, name=f"{id}{EVIL}") for id in codes]
    results = settled(*(Graded(g.submission, replace(g.result, code={"04.1": codes[g.submission.student.id]})) for g in graded))
    flag = Flag("similar solutions", ("7", "8"), ("04.1",), "They share code.")
    text = similar_page(flag, results.students)
    assert {"script", "img"}.isdisjoint({tag for tag, _ in tags(text)})
    assert text.count("<figure>") == 2
    marked = re.findall(r"<mark>(.*?) ?</mark>", text)
    assert marked == [
        "    table = torch.ones(len(q), dtype=bool)  # mine",
        "    mask = torch.ones(len(rows), dtype = bool)",
    ]
    assert escape(EVIL) in text


def test_lines_that_everyone_was_given_are_not_marked_as_common():
    (given,) = (cell.source for cell in handed_out("04") if is_marked(cell, exercise("04.1")))
    own = given.replace("    raise NotImplementedError()", "    table = torch.ones(len(q), dtype=bool)\n    return table")
    graded = [graded_notebook(id, 3) for id in "78"]
    results = settled(*(Graded(g.submission, replace(g.result, code={"04.1": own})) for g in graded))
    text = similar_page(Flag("similar solutions", ("7", "8"), ("04.1",), "They share code."), results.students)
    assert re.findall(r"<mark>(.*?) ?</mark>", text) == ["    table = torch.ones(len(q), dtype=bool)"] * 2


def test_the_index_begins_with_what_needs_attention():
    note = Note(Student("8", "Bob"), "8/essay.pdf", "is not a notebook (.ipynb); not graded.")
    flagged = graded_notebook("7", 3, late=True, flags=("calls f",))
    text = index(settled(flagged, notes=(note,)), course(), ["canvas.csv: 1 mark."])
    first = text[: text.index("<h2")]
    assert (
        re.sub("<.*?>", "", first)
        .rstrip()
        .endswith("Without a mark: 1 · Late: 1 · Flags: 1 · Messages: 1\nIsolation: Every layer holds.")
    )
    targets = {dict(a)["id"] for _, a in tags(text.replace(f"<script>{SCRIPT}</script>", "")) if "id" in dict(a)}
    assert set(re.findall(r'href="#(.*?)"', first)) == targets == {"without-mark", "flags", "messages"}
    assert "8/essay.pdf" in text[: text.index("<h2>Marks")]


def test_the_index_says_by_what_a_student_can_be_found():
    other = graded_notebook("9", 12, flags=("calls f",), late=True)
    results = settled(graded_notebook("7", 3), graded_notebook("8", 5, override="ill", by_checks=0), other)
    rows = {dict(a)["data-is"] for tag, a in tags(index(results, course())) if tag == "tr" and "data-is" in dict(a)}
    assert rows == {"set or commented by you", "flagged;late", "forbidden or suspicious"}


def test_tables_have_captions_and_headers():
    text = index(settled(graded_notebook("7", 3)), course())
    assert text.count("<table>") == text.count("<caption>") == text.count("<thead>") > 1
    heads = [attributes for tag, attributes in tags(text) if tag == "th"]
    assert {attributes["scope"] for attributes in heads} == {"col", "row"}
    assert '<html lang="en">' in text


SHORT = [item for item in exercises() if item.lecture == "04" and item.training is None][::3]


@pytest.mark.parametrize("item", SHORT, ids=lambda item: item.id)
def test_each_wrong_answer_gets_its_misconception_and_no_value(item):
    """What the notebook's check says holds numbers, shapes and inputs; none of them is on the student's page."""
    for answer in item.wrong:
        graded = judged(item.id, answer)
        results = collect(Intake((graded.submission,), ()), [graded])
        text = re.sub(r"in the line <code>.*?</code>", "", feedback(results.students[0], results))
        reported = " ".join(answer.__doc__.split())
        assert str(html(reported)) in text
        for finding in graded.result.marks[0].findings:
            assert str(html(finding.law)) in text
            assert not finding.example or f"{finding.example}" not in text
            for number in re.findall(r"-?\d+\.\d+(?:e[+-]?\d+)?|\(\d+(?:, \d+)*,?\)", finding.detail):
                assert number not in text.replace(str(html(reported)), "").replace(str(html(finding.law)), "")


@pytest.mark.parametrize(
    ("detail", "reported"),
    [
        ("context is wrong. Furthest apart at [0, 1]: expected 0.1, got 0.2", "Context is wrong."),
        ("The result is wrong. Expected 3, got 4.", "The result is wrong."),
        ("weights should have shape (2, 3), but it has (3, 2).", "Weights has the wrong shape."),
        (
            "It raised ValueError in the line `raise ValueError(q)`: tensor([0.3])",
            "It raised ValueError in the line `raise ValueError(q)`.",
        ),
        ("It raised x0_123_4: 0.5", "It raised an error of a non-built-in type."),
        (
            "It raised NotAvailable in the line `return lib(x)`: course_lib.attention.split_heads is not available in this "
            "exercise; use torch, or write it by hand.",
            "It uses a part of the course in the line `return lib(x)` that is not available in this exercise; use torch, or "
            "write it by hand.",
        ),
        ("It raised KeyError: tensor([0.25]) in the line `x`: 0.5", "It raised KeyError."),
        ("context is wrong.", "Context is wrong."),
        ("It should return 2 results (context, weights), but it returned one result.", "It should return 2 results."),
        ("It returned None. Is a `return` statement missing?", "It returned None. Is a `return` statement missing?"),
        (
            "It was still running after 5 seconds. Does it contain an endless loop, a wait, or far too many steps?",
            "It was still running after 5 seconds. Does it contain an endless loop, a wait, or far too many steps?",
        ),
        (
            "It was still running after 2.5 seconds in which it did not compute. Does it contain an endless loop, a wait, or "
            "far too many steps?",
            "It was still running after 2.5 seconds in which it did not compute. Does it contain an endless loop, a wait, or "
            "far too many steps?",
        ),
        (
            "It was still running after 10 seconds of processor time. Does it contain an endless loop, a wait, or far too "
            "many steps?",
            "It was still running after 10 seconds of processor time. Does it contain an endless loop, a wait, or far too "
            "many steps?",
        ),
        (
            "It did not end in time: the limit is 60 seconds of processor time. Use a smaller model or smaller batches.",
            "It did not end in time: the limit is 60 seconds of processor time. Use a smaller model or smaller batches.",
        ),
        (f"It did not end in time: the limit is 120 seconds of processor time. {SLOW}",) * 2,
        ("The results are in the wrong order: exchange them.",) * 2,
        ("weights is None: return it too.", "Weights is None: return it too."),
        (
            "The gradient with respect to `W_q` is wrong. At [1]: expected 7, got 8.",
            "The gradient with respect to `W_q` is wrong.",
        ),
        ("weights should be floating point, but it is torch.int64.", "Weights should be floating point."),
        ("weights is missing.", "Weights is missing."),
        (
            "The result itself is wrong here, before any gradient. The result is wrong. Expected 3, got 4.",
            "The result itself is wrong here, before any gradient.",
        ),
        (
            "Called twice with the same inputs, the returned model returns different results. All else is judged after a call "
            "of its `eval()`.",
        )
        * 2,
        (
            "The results are in the wrong order: return them in the order (context, weights).",
            "The results are in the wrong order: return them in the order (context, weights).",
        ),
        (
            "It returns a dict: return only its values, as a tuple.",
            "It returns a dict: return only its values, as a tuple.",
        ),
        (
            "context is close to the expected values, but the difference is larger than rounding in float32. It is 0.2 at [1].",
            "Context is close to the expected values, but the difference is larger than rounding in float32.",
        ),
        (
            "Its result does not depend on `mask`. This earns no points.",
            "Its result does not depend on `mask`. This earns no points.",
        ),
        ("The result should be on the device 'meta', but it is on 'cpu'.", "The result should be on the device 'meta'."),
        ("The result should be of type Encoded, but it is of type dict.", "The result should be of type Encoded."),
        ("It made 500 updates, but only 300 are allowed.", "It made 500 updates, but only 300 are allowed."),
        ("The model has 1,234 weights, but only 500 are allowed.", "The model has 1,234 weights, but only 500 are allowed."),
        (
            "Before 40% of the updates, the gradients of the previous update had not been cleared.",
            "Before 40% of the updates, the gradients of the previous update had not been cleared.",
        ),
        (
            "40% of the weights in the optimizer never had a gradient.",
            "40% of the weights in the optimizer never had a gradient.",
        ),
        (
            "The call changes `b`, `weights[2]`: an operation works in place (`+=`).",
            "The call changes `b`, `weights[2]`: an operation works in place.",
        ),
        ("It returns a list: return one tensor (`torch.stack`).",) * 2,
        ("anything else that holds 0.25", ""),
        ("q0_25_is_0_33_and_so_on_and_on is wrong. No.", ""),
    ],
)
def test_of_a_finding_only_what_is_known_to_be_harmless_is_shown(detail, reported):
    assert detail_for_student(detail) == reported


def test_what_did_not_run_and_a_shorter_limit_are_told_to_student_and_instructor():
    shorter = "Its time limit was 2 instead of 10 seconds, because previous answers did not end."
    lost = NotRun(5, f"x = `{EVIL}`", "it raised NameError")
    results = settled(graded_notebook("7", 0, not_run=(lost,), shortened=shorter), graded_notebook("8", 12, passed=True))
    for text in (index(results, course()), feedback(results.students[0], results)):
        assert f"<code>{escape(lost.line)}</code>" in text
        assert lost.why in text
        assert shorter in text
    assert "did not run" not in feedback(results.students[1], results)
    assert "Statements that did not run" not in index(settled(graded_notebook("8", 12)), course())


def test_a_mark_by_hand_comes_first_and_what_the_checks_found_below_it_as_superseded():
    wrong = {"misconception": "You forget the scale.", "findings": (Finding("scale", "A law.", "fails", 3),)}
    results = settled(
        graded_notebook("7", 7.5, override="shown in class", by_checks=3, **wrong), graded_notebook("8", 3, **wrong)
    )
    text = feedback(results.students[0], results)
    parts = (
        "7.5 of 12 points",
        "Set by your instructor: shown in class",
        "The automatic checks gave 3 of 12",
        "You forget",
        "A law.",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert '<div class="superseded">' in text
    assert "superseded" not in feedback(results.students[1], results).partition("</style>")[2]
    assert results.misconceptions == [(1, "04.1", "You forget the scale.")]
    everything = index(results, course())
    assert "04.1 is set by you, 7.5 instead of 3: shown in class" in everything
    assert "scale (1)" in everything
    right = settled(graded_notebook("7", 5, override="copied, see our talk", by_checks=12))
    text = feedback(right.students[0], right)
    assert text.index("copied") < text.index("gave 12 of 12") < text.index("Right.")


def test_another_students_marks_are_not_on_a_page():
    results = settled(
        graded_notebook("7", 3, name="Ada"), graded_notebook("8", 12, name="Bob Unique", misconception="Only Bob thinks so.")
    )
    text = feedback(results.students[0], results)
    assert "Ada" in text
    assert "Bob" not in text


def test_how_the_grading_failed_is_for_the_instructor():
    failed = Graded(graded_notebook("7", 0).submission, None, "grading failed (RuntimeError: tensor([0.25])).")
    results = settled(failed)
    assert "tensor([0.25])" in index(results, course())
    assert "tensor" not in feedback(results.students[0], results)


@pytest.mark.parametrize("name", ["../../etc/passwd", "CON", "a/b\\c", "\0", "", "." * 500, "李", "=x", "\udcff"])
def test_the_name_of_a_page_is_fit_for_every_file_system(name):
    assert re.fullmatch(r"[A-Za-z0-9-]{1,60}\.html", page_name(Student(name, name)))


def test_two_students_of_one_name_have_two_pages():
    assert page_name(Student("1", "Kim")) != page_name(Student("2", "Kim"))
    assert len({page_name(Student(str(n), "Kim")) for n in range(200_000)}) == 200_000


def test_back_ticks_make_code_and_a_lonely_one_does_not():
    assert str(html("use `a < b` here")) == "use <code>a &lt; b</code> here"
    assert str(html("a ` b")) == "a ` b"
    assert str(html(Html("<b>"))) == "<b>"


def test_a_page_of_nothing_is_a_page():
    results = settled(notes=(Note(Student("9", "Kim"), "Kim.pdf", "is not a notebook."),))
    assert "Nothing was graded" in index(results, course())
    assert "no notebook was graded" in feedback(results.students[0], results)
    assert tags(page("x", [table("t", ("a",), [])]))


def test_the_index_names_the_hardest_exercise_first_and_links_each_page():
    easy = Graded(
        graded_notebook("7", 0).submission,
        NotebookResult("04", (mark("04.1", 1), mark("04.2", 6, max_points=6, passed=True)), "", {}, ""),
    )
    text = index(settled(easy), course())
    section = text.partition("Hardest exercises")[2]
    assert section.index("04.1 ") < section.index("04.2 ")
    assert f'href="students/{page_name(Student("7", "7"))}"' in text
    assert exercise("04.1").title in section


def test_each_table_of_a_students_page_is_a_landmark_of_its_own():
    results = settled(graded_notebook("7", 3, findings=(Finding("value", "A law.", "fails", 3),)))
    text = feedback(results.students[0], results)
    labels = re.findall(r'aria-label="([^"]+)"', text)
    assert labels
    assert len(set(labels)) == len(labels)


def test_an_extra_exercise_that_earned_nothing_is_not_red():
    shown = {item.extra: str(section(item, mark(item.id, 0))) for item in exercises("02")}
    assert 'class="badge bad"' in shown[False]
    assert 'class="badge "' in shown[True]
    assert "extra points" in shown[True]
