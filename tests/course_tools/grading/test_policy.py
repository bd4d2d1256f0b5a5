"""The instructor's rules: what they do to marks, and what is said of a rule that has no meaning."""

import csv
import io
from dataclasses import replace
from datetime import timedelta

import pytest

from course_tools.bank import exercise, exercises
from course_tools.grading.apply_policy import apply
from course_tools.grading.files import CannotGrade
from course_tools.grading.intake.recognise import Course
from course_tools.grading.policy import LatePenalty, Policy
from course_tools.grading.report.changes import changes, changes_csv, summary
from course_tools.grading.report.class_page import index
from course_tools.grading.report.results import collect, grades_csv, report_json
from course_tools.grading.report.student_page import feedback
from tests.course_tools.grading.report.test_results import graded_notebook, rows, settled
from tests.course_tools.grading.test_batch import ROOT

RULES = """
counts = "best"
drop_lowest = 1
handed_in = "times.csv"
extensions = "extensions.csv"
overrides = "overrides.csv"
by_hand = "essays.csv"
due = { "01" = 2026-11-02T23:59:00Z, "4" = "2026-11-09T23:59:00+00:00" }

[late]
percent = 10
per = "day"
at_most = 50
grace_minutes = 15
"""
TABLES = {
    "times.csv": "id,lecture,time\nada,01,2026-11-03T00:10:00Z\nada,4,2026-11-11T00:30:00Z\nbob,04,2026-11-11T00:30:00Z\n",
    "extensions.csv": "id,lecture,time\nbob,04,2026-11-12T00:00:00Z\n",
    "overrides.csv": 'id,exercise,points,reason\nada,04.1,"7,5","the check was wrong, see the forum"\nzoe,04.1,3,ill\n',
    "essays.csv": "id,lecture,item,points,of,comment\nada,04,essay,8,10,well argued\nbob,04,essay,10,10,<b>superb</b>\n",
}


LOWERED = "Your override lowers a mark: ada (ada), 04.1: 7.5, but the checks give 12. If that is not intended, remove its row."


def read(folder, rules=RULES, **tables):
    for name, text in (TABLES | {f"{name}.csv": text for name, text in tables.items()}).items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "policy.toml").write_text(rules, encoding="utf-8")
    return Policy.read(folder / "policy.toml")


@pytest.fixture
def graded():
    """Ada has 12 points in lecture 04 and 4 in 01, Bob 12 in 04."""
    return settled(
        graded_notebook("ada", 12), graded_notebook("ada", 4, "y.ipynb", lecture="01"), graded_notebook("bob", 12, late=True)
    )


def test_every_rule_is_applied_to_what_the_checks_found(tmp_path, graded):
    results, messages = apply(read(tmp_path), graded)
    ada, bob, zoe = results.students
    assert zoe.points == 3
    assert (ada.points_of("01"), bob.points_of("01")) == (4, None)  # within the 15 minutes
    assert ada.points_of("04") == round((7.5 + 8) * 0.8, 2)  # two days begun
    assert bob.points_of("04") == 22  # extended
    assert (ada.dropped, bob.dropped) == (("01",), ("01",))
    assert (ada.points, bob.points) == (12.4, 22)
    assert messages == (
        "Without a file, marked by your policy (1): zoe.",
        "04 essay: 2 of 3 students have a mark; it is not due from the others.",
        LOWERED,
    )
    assert "Lecture 04 was submitted 1 day, 0:31 late: 20 % of its points are deducted." in ada.notes


def test_the_table_the_report_and_the_pages_show_what_the_rules_did(tmp_path, graded):
    results, _ = apply(read(tmp_path), graded)
    header, ada, *_ = rows(grades_csv(results))
    found = dict(zip(header, ada, strict=True))
    of = sum(item.points for item in exercises("04") if not item.extra) + 10
    assert [found[name] for name in ("04.1", "04 essay", "lecture 04", "points", "of")] == ["7.5", "8", "12.4", "12.4", str(of)]
    page = feedback(results.students[0], results)
    assert f"12.4 of {of} points" in page
    assert "the check was wrong" in page
    assert "well argued" in page
    assert "&lt;b&gt;superb" in feedback(results.students[1], results)
    everything = index(results, Course.at(ROOT))
    assert "04 essay /10" in everything
    assert "7.5*" in everything


def test_without_rules_nothing_changes(graded):
    assert apply(Policy(), graded) == (graded, ())


@pytest.mark.parametrize(("hours", "left"), [(-5, 1.0), (0, 1.0), (0.2, 1.0), (0.3, 0.9), (24.2, 0.9), (24.3, 0.8), (999, 0.5)])
def test_a_late_penalty_counts_each_day_begun_up_to_its_limit(hours, left):
    penalty = LatePenalty(percent=10, per="day", at_most=50, grace_minutes=15)
    assert penalty.share_left(timedelta(hours=hours)) == pytest.approx(left)
    assert LatePenalty(percent=60, per="hour").share_left(timedelta(hours=2)) == 0.0


def test_the_best_of_several_notebooks_counts_where_the_rules_say_so():
    several = [graded_notebook("7", 12, "x/nb.ipynb"), graded_notebook("7", 3, "x/nb-1.ipynb", 1)]
    intake = type("Intake", (), {"notes": ()})
    assert [collect(intake, several, counts=how).students[0].points for how in ("newest", "best")] == [3, 12]


def test_a_bonus_is_an_item_that_adds_nothing_to_the_maximum(tmp_path, graded):
    bonus = "id,lecture,item,points,of,comment\nada,04,bonus,3,0,\n"
    results, _ = apply(read(tmp_path, "by_hand = 'bonus.csv'", bonus=bonus), graded)
    before, ada = graded.students[0], results.students[0]
    assert (ada.points, results.of(ada)) == (before.points + 3, graded.of(before))
    assert "3 of 0 points" in feedback(ada, results)


def test_a_time_is_read_in_the_form_of_moodle(tmp_path):
    times = 'id,lecture,time\nada,04,"Wednesday, 11 November 2026, 10:00 PM"\nbob,04,2026-11-11T22:00\n'
    ada, bob = read(tmp_path, "handed_in = 'times.csv'", times=times).handed_in.values()
    assert ada == bob


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("counts = 'last'", "must be 'newest' or 'best'"),
        ("[late]\nper = 'week'", "must be 'hour' or 'day'"),
        ("[late]\npercent = -1", "not a number that is at least 0"),
        ("penalty = 3", "unknown key 'penalty'"),
        ("x = [", "is not TOML"),
        ("due = { '04' = 'soon' }", "not a time such as"),
        ("due = 2026-11-09", "a value has the wrong type"),
        ("handed_in = 'day_first.csv'", "day_first.csv, line 2: '10.11.2026 03:00' is not a time such as"),
        ("late = 10", "a value has the wrong type"),
        ("overrides = 'nowhere.csv'", "nowhere.csv cannot be read"),
        ("overrides = 'no_reason.csv'", "no_reason.csv, line 2: an override needs a reason"),
        ("overrides = 'unknown.csv'", "unknown.csv, line 2: there is no exercise '99.1'"),
        ("overrides = 'too_many.csv'", "too_many.csv, line 2: 90 points are more than the 14 possible. Enter a bonus in a row"),
        ("by_hand = 'too_many.csv'", "too_many.csv, line 2: 90 points are more than the 10 possible"),
        ("overrides = 'times.csv'", "times.csv, line 2: there is no column 'reason'"),
        ("groups = 'times.csv'", "times.csv, line 2: there is no column 'group'"),
        ("groups = 'two_groups.csv'", "two_groups.csv, line 3: ada is in two groups, 'A' and 'B'"),
        ("[rubric]\nscale = { points = -2 }", "rubric.scale needs a comment"),
        ("[rubric]\nscale = { points = 'two', comment = 'x' }", "rubric.scale needs a comment"),
        ("[comments.ada]\n'99.1' = 'Well done.'", "comments.ada: there is no exercise '99.1'"),
        ("[comments.ada]\n'04.1' = ['sclae']", "comments.ada: the rubric has no 'sclae'"),
        ("[comments]\nada = 'Well done.'", "a value has the wrong type"),
        ("[comments.ada]\n'04.1' = 3", "a value has the wrong type"),
    ],
)
def test_a_rule_without_meaning_is_refused_with_its_place(tmp_path, rules, said):
    unknown = "id,exercise,points,reason\nada,99.1,3,x\n"
    no_reason, two = "id,exercise,points,reason\nada,04.1,3,\n", "id,group\nada,A\nada,B\n"
    with pytest.raises(CannotGrade) as refused:
        read(
            tmp_path,
            rules,
            no_reason=no_reason,
            unknown=unknown,
            two_groups=two,
            too_many="id,exercise,points,reason,lecture,item,of,comment\nada,04.1,90,x,04,viva,10,\n",
            day_first="id,lecture,time\nada,04,10.11.2026 03:00\n",
        )
    assert said in str(refused.value)


def test_a_regrade_says_who_gains_who_loses_and_why(tmp_path, graded):
    report = tmp_path / "report.json"
    assert changes(report, graded) == []
    report.write_text(report_json(graded), encoding="utf-8")
    assert changes(report, graded) == []
    regraded = settled(
        graded_notebook("ada", 9),
        graded_notebook("ada", 4, "y.ipynb", lecture="01"),
        graded_notebook("bob", 12),
        graded_notebook("new", 1),
    )
    assert [change[:5] for change in changes(report, regraded)] == [
        ("ada", "ada", "04.1", 12, 9),
        ("ada", "ada", "total", 16, 13),
    ]
    ruled, _ = apply(read(tmp_path, "overrides = 'overrides.csv'\nby_hand = 'essays.csv'"), graded)
    found = changes(report, ruled)
    assert [(c.student, c.exercise, c.after) for c in found] == [
        ("ada", "04.1", 7.5),
        ("ada", "total", 19.5),
        ("bob", "total", 22),
    ]
    assert found[0].why == "override: the check was wrong, see the forum"
    assert summary(found) == "The marks of 2 students differ from the previous ones: 2 gain, 0 lose."
    assert len(list(csv.reader(io.StringIO(changes_csv(found))))) == 4
    assert [c.why for c in found[1:]] == ["marks by hand", "marks by hand"]
    ruled, _ = apply(read(tmp_path), graded)
    assert changes(report, ruled)[-2].why == "late penalty, dropped lectures, marks by hand"


GROUPS = (
    "id,group\nada,A\nbob,A\nzoe,A\n",
    "name,canvas_user_id,user_id,login_id,sections,group_name,canvas_group_id,group_id\n"
    + "".join(f"x,{id},u,l,s,{group},1,\n" for id, group in (("ada", "A"), ("bob", "A"), ("zoe", "A"), ("eve", ""))),
)


@pytest.mark.parametrize("table", GROUPS, ids=["own", "exported by Canvas"])
def test_the_members_of_a_group_share_its_best_notebook(tmp_path, table):
    rules = "groups = 'groups.csv'\nhanded_in = 'times.csv'\ndue = { '04' = 2026-11-09T23:59:00Z }\n[late]\npercent = 10"
    handed = settled(graded_notebook("ada", 12), graded_notebook("bob", 3), graded_notebook("eve", 5))
    results, messages = apply(
        read(tmp_path, rules, groups=table, times="id,lecture,time\nada,04,2026-11-10T01:00:00Z\n"), handed
    )
    assert {result.student.id: result.points for result in results.students} == {
        "ada": 10.8,
        "bob": 10.8,
        "eve": 5,
        "zoe": 10.8,
    }
    ada, bob, _, zoe = results.students
    assert (messages, ada.shared, bob.shared) == ((), {}, {"04": "ada"})
    assert "Lecture 04: the notebook of ada counts for the group A." in zoe.notes
    assert not any("counts for the group" in note for note in ada.notes)


@pytest.mark.parametrize(("in_time", "points"), [(0, 10.8), (11, 11)], ids=["an empty one", "a good one"])
def test_a_member_who_hands_in_early_does_not_escape_the_penalty_of_the_notebook_that_counts(tmp_path, in_time, points):
    rules = "groups = 'groups.csv'\nhanded_in = 'times.csv'\ndue = { '04' = 2026-11-09T23:59:00Z }\n[late]\npercent = 10"
    times = "id,lecture,time\nada,04,2026-11-10T01:00:00Z\nbob,04,2026-11-01T01:00:00Z\n"
    handed = settled(graded_notebook("ada", 12), graded_notebook("bob", in_time))
    results, _ = apply(read(tmp_path, rules, groups=GROUPS[0], times=times), handed)
    assert {result.student.id: result.points for result in results.students} == dict.fromkeys(("ada", "bob", "zoe"), points)


def test_copies_within_a_group_are_no_flag_and_a_copy_outside_is(tmp_path):
    parts = {id: tuple(f"{id} {n}" for n in range(40)) for id in ("04.1", "04.2")}
    handed = [graded_notebook(id, 3) for id in ("ada", "bob", "eve")]
    handed = settled(*(item._replace(result=replace(item.result, shapes=parts)) for item in handed))
    results, _ = apply(read(tmp_path, "groups = 'groups.csv'", groups=GROUPS[0]), handed)
    assert [flag.students for flag in results.flags] == [("ada", "eve")]


def test_a_student_without_a_file_is_marked_by_the_policy_and_named_as_in_the_table(tmp_path, graded):
    rules = "by_hand = 'essays.csv'\noverrides = 'overrides.csv'"
    essays = "id,lecture,item,points,of,comment\nzoe,04,essay,8,10,on paper\nzo,04,essay,9,10,a slip\n"
    results, messages = apply(read(tmp_path, rules, essays=essays), graded, {"ada": "Ada", "zoe": "Zoë"})
    (zoe,) = (result for result in results.students if result.student.id == "zoe")
    assert (zoe.student.name, zoe.points) == ("Zoë", 11)
    assert "on paper" in feedback(zoe, results)
    assert messages == (
        "Without a file, marked by your policy (1): zoe.",
        "In the policy, but neither among the submissions nor in your table (1): zo.",
        "04 essay: 1 of 3 students have a mark; it is not due from the others.",
        LOWERED,
    )


@pytest.mark.parametrize("lecture", ["04", "07"], ids=["of this lecture", "of a lecture without notebooks"])
def test_an_item_by_hand_for_one_student_changes_no_other_mark(tmp_path, graded, lecture):
    essays = f"id,lecture,item,points,of,comment\nada,{lecture},viva,8,10,\n"
    before = {result.student.id: graded.of(result) for result in graded.students}
    results, _ = apply(read(tmp_path, "by_hand = 'essays.csv'", essays=essays), graded)
    after = {result.student.id: results.of(result) for result in results.students}
    assert after == {"ada": before["ada"] + 10, "bob": before["bob"]}
    assert f"12</strong> of {before['bob']}" in index(results, Course.at(ROOT))


RUBRIC = """
overrides = "overrides.csv"

[rubric]
scale = { points = -2, comment = "The scores are not divided by `√d`." }
bonus = { points = 1.5, comment = "Elegant." }
thanks = { comment = "Thank you." }

[comments.ada]
"04.1" = ["scale", "Read <b>section 2</b> again."]
[comments.bob]
"04.1" = "bonus"
"04.2" = "Not done?"
[comments.zoe]
"04.1" = "scale"
[comments.kim]
"04.4" = "scale"
"""


def test_a_rubric_changes_points_and_is_shown_with_each_answer(tmp_path, graded):
    overrides = "id,exercise,points,reason\nzoe,04.1,3,ill\n"
    results, _ = apply(read(tmp_path, RUBRIC, overrides=overrides), graded)
    points = {result.student.id: result.marks["04.1"].points for result in results.students if "04.1" in result.marks}
    assert points == {"ada": 10, "bob": 13.5, "zoe": 1}
    ada, bob, kim, _ = (feedback(result, results) for result in results.students)
    assert "10 of 12 points" in ada
    assert "Your instructor: The scores are not divided by <code>√d</code>. (−2 points)" in ada
    assert "Your instructor: Read &lt;b&gt;section 2&lt;/b&gt; again.</p>" in ada
    assert "Elegant. (+1.5 points)" in bob
    assert "Not done?" in bob
    assert f"0 of {exercise('04.4').points} points" in kim
    assert "04.1 is set by you, 10 instead of 12: The scores" in index(results, Course.at(ROOT))


def test_a_regrade_names_the_comment_that_changes_a_mark(tmp_path, graded):
    report = tmp_path / "report.json"
    report.write_text(report_json(graded), encoding="utf-8")
    policy = read(tmp_path, "[rubric]\nscale = { points = -2, comment = 'Not scaled.' }\n[comments.bob]\n'04.1' = 'scale'")
    commented, _ = apply(policy, graded)
    found = changes(report, commented)
    assert [change[2:] for change in found] == [("04.1", 12, 10, "comment: Not scaled."), ("total", 12, 10, "")]
    report.write_text(report_json(commented), encoding="utf-8")
    assert changes(report, commented) == []
    assert changes(report, graded)[0].why == "a comment was removed"


def test_marks_of_other_lectures_are_not_compared_with_those_of_one(tmp_path, graded):
    report = tmp_path / "report.json"
    report.write_text(report_json(graded), encoding="utf-8")
    one = settled(graded_notebook("ada", 12), graded_notebook("bob", 12))
    assert changes(report, one, "04") == []
    assert [change.exercise for change in changes(report, one)] == ["01.1", "total"]
    assert [change.exercise for change in changes(report, settled(graded_notebook("ada", 3)), "04")] == ["04.1", "total"]
