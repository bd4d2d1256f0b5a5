"""Building a small course: complete, byte-stable, executed only if code has changed, and never partly written."""

import json
from dataclasses import replace

import nbformat
import pytest

from course_tools.bank import exercises
from course_tools.publishing import PublishingFailed, UnknownLecture, lectures, measured
from course_tools.publishing import build as building
from course_tools.publishing.build import build, stale
from course_tools.publishing.readme import BUILT
from course_tools.publishing.student_time import student_time
from course_tools.studies import RecordedRun, RecordedStudy
from course_tools.studies.study_record import write

HEADER = '# %% [markdown] tags=["header"]\n# # 05 · Plain\n#\n# {measured}\n\n'


@pytest.fixture
def plain(course, author):
    """Return a course of one lecture without torch, 05, which runs in a second."""
    (course / "authoring" / "04_tiny.py").unlink()
    author("05_plain", f"{HEADER}# %%\nimport sys\nprint(40 + 2)\n\n# %%\nprint(sys.prefix + '/bin')\n")
    return course


def files(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def refuse_to_execute(monkeypatch):
    def refuse(notebooks, *args, **kwargs):
        assert not notebooks, "a notebook was executed"
        return {}

    monkeypatch.setattr(building, "execute", refuse)


def test_a_lecture_is_built_whole_and_building_again_changes_nothing(course, monkeypatch):
    before = files(course)
    complaints = stale(course)
    assert files(course) == before
    assert [line.split()[0] for line in complaints] == [
        "lectures/04_tiny.ipynb",
        "solutions/04_tiny.ipynb",
        "course_tools/notebook/predictions.json",
        "docs/companion.md",
        "README.md",
    ]
    assert "python course.py build 04" in complaints[0]
    assert build(course) == [
        "README.md",
        "course_tools/notebook/predictions.json",
        "docs/companion.md",
        "lectures/04_tiny.ipynb",
        "solutions/04_tiny.ipynb",
    ]
    assert stale(course) == []
    first = files(course)
    refuse_to_execute(monkeypatch)
    assert build(course) == []
    assert files(course) == first
    assert all(b"\r" not in content for content in first.values())

    lecture, solution = (nbformat.read(course / folder / "04_tiny.ipynb", as_version=4) for folder in ("lectures", "solutions"))
    nbformat.validate(lecture)
    nbformat.validate(solution)
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in lecture.cells)
    assert "SOLUTION" not in str(lecture)
    points = [cell.outputs[0].data["text/plain"] for cell in solution.cells if "= check(" in cell.source]
    assert float(points[0]) == float(points[2]) > float(points[1])
    cost = json.loads((course / "authoring" / "measured.json").read_text())["04"]
    assert (
        f"{cost['seconds']} s on one CPU thread, with {cost['peak_mb']} MB"
        in solution.cells[0].source
        == lecture.cells[0].source
    )
    readme = (course / "README.md").read_text(encoding="utf-8")
    asked = [item for item in exercises() if item.lecture == "04"]
    wrong = sum(len(item.wrong) for item in asked)
    assert wrong // 100 == 1
    counts = readme.partition("<!-- numbers:begin -->")[2].partition("<!-- numbers:end -->")[0]
    assert [part.split("**")[1] for part in counts.split(" · ")] == ["1", str(len(asked)), "100+", "1", "0"]
    minutes = student_time(lectures(course, ["04"])[0]).core
    row = f"| [04 Tiny attention](lectures/04_tiny.ipynb) | {BUILT['04']} | {minutes} |"
    assert f"{row}\n<!-- lectures:end -->\n\nThe end.\n" in readme


def test_words_may_change_without_execution_code_may_not(plain, author, monkeypatch):
    build(plain)
    with monkeypatch.context() as patched:
        refuse_to_execute(patched)
        text = (plain / "authoring" / "05_plain.py").read_text(encoding="utf-8")
        author("05_plain", text.replace("# {measured}", "# {measured} More words."))
        assert [line.split()[0] for line in stale(plain)] == [
            "lectures/05_plain.ipynb",
            "solutions/05_plain.ipynb",
        ]
        assert build(plain) == ["lectures/05_plain.ipynb", "solutions/05_plain.ipynb"]
        solution = nbformat.read(plain / "solutions" / "05_plain.ipynb", as_version=4)
        assert solution.cells[1].outputs[0].text == "42\n"
        assert "More words." in solution.cells[0].source
    author("05_plain", text.replace("40 + 2", "40 + 3"))
    assert any("was executed with code that differs" in line for line in stale(plain))
    build(plain)
    solution = nbformat.read(plain / "solutions" / "05_plain.ipynb", as_version=4)
    assert solution.cells[1].outputs[0].text == "43\n"


def test_no_folder_of_this_machine_stays_in_the_outputs(plain):
    build(plain)
    solution = nbformat.read(plain / "solutions" / "05_plain.ipynb", as_version=4)
    assert solution.cells[2].outputs[0].text == "<python>/bin\n"


def test_a_cell_that_raises_fails_the_build_and_writes_nothing_of_that_lecture(plain, author):
    author("05_plain", HEADER + "# %%\n1 / 0\n")
    author("06_well", HEADER.replace("05", "06") + "# %%\n1\n")
    with pytest.raises(PublishingFailed, match=r"authoring/05_plain\.py: cell 2 \(1 / 0\) raised ZeroDivisionError"):
        build(plain)
    assert not (plain / "solutions" / "05_plain.ipynb").exists()
    assert (plain / "solutions" / "06_well.ipynb").exists()


def test_a_stored_error_is_stale_once_its_tag_is_gone(plain, author):
    author("05_plain", HEADER + '# %% tags=["raises-exception"]\n1 / 0\n')
    build(plain)
    assert stale(plain) == []
    author("05_plain", HEADER + "# %%\n1 / 0\n")
    assert any("solutions/05_plain.ipynb" in line for line in stale(plain))


def test_an_edited_notebook_and_one_without_source_are_stale(plain):
    build(plain)
    path = plain / "lectures" / "05_plain.ipynb"
    path.write_text(path.read_text(encoding="utf-8").replace("40 + 2", "41 + 1"), encoding="utf-8")
    (plain / "solutions" / "09_old.ipynb").write_text("{}", encoding="utf-8")
    lines = stale(plain)
    assert lines[0].startswith("lectures/05_plain.ipynb differs from its source authoring/05_plain.py")
    assert lines[1] == "solutions/09_old.ipynb has no source authoring/09_old.py: delete it"
    assert len(lines) == 2


def test_line_ends_of_windows_are_not_stale(plain):
    build(plain)
    path = plain / "lectures" / "05_plain.ipynb"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert stale(plain) == []


def test_a_solution_is_executed_again_if_a_record_of_its_studies_has_changed(plain, monkeypatch):
    record = plain / "authoring" / "studies" / "05_toy.json"
    record.parent.mkdir()
    first = RecordedStudy("05_toy", "source", "library", "3.11.7", "2.13.0", "one CPU thread")
    write(first, record)
    build(plain)
    assert stale(plain) == []
    more = first.with_run(RecordedRun("a", 0, {"score": 1.0}, {}, 1.0))
    write(replace(first, library="another"), record)  # as `course study --check` does
    write(more, record.with_stem("06_toy"))  # of another lecture
    assert stale(plain) == []
    for changed in (record, record.with_stem("05_toy.cuda")):
        write(more, changed)
        (complaint,) = [line for line in stale(plain) if "solutions/" in line]
        assert "another record of a study" in complaint
        assert "solutions/05_plain.ipynb" in build(plain)
    refuse_to_execute(monkeypatch)
    assert build(plain) == stale(plain) == []


def test_a_solution_shows_the_current_text_of_a_prediction_without_being_executed(plain, author, monkeypatch):
    asked = """# %% [markdown] tags=["predict"]
# **Predict.** Is it?
#
# <details><summary>A. No.</summary>
#
# Look again.</details>
# <details><summary>B. Yes.</summary>
#
# Right, {why}.</details>
"""
    for why in ("as *measured*", "as proved"):
        author("05_plain", HEADER + "# %%\npredict = str\n\n" + asked.format(why=why))
        build(plain)
        refuse_to_execute(monkeypatch)
        solution = nbformat.read(plain / "solutions" / "05_plain.ipynb", as_version=4)
        (cell,) = [cell for cell in solution.cells if cell.source == 'predict("05.p1")']
        shown = cell.outputs[0].data
        assert f"Right, {why}.".replace("*measured*", "<em>measured</em>") in shown["text/html"]
        assert shown["text/plain"] == "Prediction 05.p1: A, B?"
        assert stale(plain) == []
        lecture = nbformat.read(plain / "lectures" / "05_plain.ipynb", as_version=4)
        assert not any(cell.get("outputs") for cell in lecture.cells)
    number = """# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). How many?
#
# <details><summary>3</summary>
#
# So.</details>
"""
    author("05_plain", HEADER + "# %%\npredict = str\n\n" + 2 * number)
    build(plain)
    solution = nbformat.read(plain / "solutions" / "05_plain.ipynb", as_version=4)
    asked = [cell.source for cell in solution.cells if cell.source.startswith("predict(")]
    assert asked == ['predict("05.p1", ...)', 'predict("05.p2", ...)']
    assert stale(plain) == []


def test_a_readme_without_markers_is_refused(plain):
    (plain / "README.md").write_text("# No table\n", encoding="utf-8")
    with pytest.raises(PublishingFailed, match="numbers:begin"):
        build(plain)


def test_an_unknown_lecture_is_answered_with_those_there_are(course):
    with pytest.raises(UnknownLecture, match=r"no lecture 77; the course has: 04 Tiny attention"):
        build(course, ["77"])
    assert [lecture.number for lecture in lectures(course, ["4"])] == ["04"]


def test_small_changes_of_cost_leave_the_record_alone():
    assert measured.refreshed(None, 12.3, 611) == {"seconds": 15, "peak_mb": 650}
    assert measured.refreshed({"seconds": 15, "peak_mb": 650}, 18, 530) == {"seconds": 15, "peak_mb": 650}
    assert measured.refreshed({"seconds": 15, "peak_mb": 650}, 21, 900) == {"seconds": 25, "peak_mb": 900}
