"""Apply the instructor's rules to the results of the checks: groups, overrides, comments, late penalties, dropped lectures."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial

from course_tools.bank import exercise
from course_tools.grading.files import shown
from course_tools.grading.intake.submissions import Student
from course_tools.grading.marks import Mark
from course_tools.grading.notebook_result import NotebookResult
from course_tools.grading.policy import Policy, plain
from course_tools.grading.report.results import MarkByHand, Result, Results


def apply(policy: Policy, results: Results, enrolled: Mapping[str, str] | None = None) -> tuple[Results, tuple[str, ...]]:
    """Apply the rules to the results of the checks.

    Args:
        policy: the rules.
        results: of the class; `collect` has chosen the notebooks that count.
        enrolled: the names of the students in the instructor's table, by id; None if there is no table. A student without a
            file who is marked in the policy is added to the results, with a table only if the table has the id.

    Returns:
        the results, and messages for the instructor.
    """
    results, messages = _with_students_without_file(policy, results, enrolled)
    shared = _shared(policy, results.students)
    students = [_late(policy, _commented(policy, _overridden(policy, result))) for result in shared]
    students = [replace(result, by_hand=_of(policy, result)) for result in students]
    applied = replace(results, students=tuple(students))
    if policy.drop_lowest:
        students = [replace(result, dropped=_lowest(policy.drop_lowest, result, applied)) for result in students]
    timed = {id for id, _ in policy.handed_in}
    untimed = sum(result.late and timed.isdisjoint((result.student.id, *result.shared.values())) for result in students)
    for lecture, item in applied.items_by_hand:
        n = sum((mark.lecture, mark.item) == (lecture, item) for student in students for mark in student.by_hand)
        if n < len(students):
            messages.append(f"{lecture} {item}: {n} of {len(students)} students have a mark; it is not due from the others.")
    messages += _lowered(policy, students)
    if untimed and policy.late.percent:
        messages.append(f"Marked late by the LMS, but without a time in the table handed_in; not reduced: {untimed}.")
    return replace(applied, students=tuple(students)), tuple(messages)


def _with_students_without_file(
    policy: Policy, results: Results, enrolled: Mapping[str, str] | None
) -> tuple[Results, list[str]]:
    """Add the students who are marked in the policy but handed in no file, or share a group with one who did."""
    there = {result.student.id for result in results.students}
    graded = {group for id, group in policy.groups.items() if id in there}
    marked = [*(o.student for o in policy.overrides), *(id for id, _ in policy.by_hand), *(id for id, _ in policy.comments)]
    by_hand = sorted({id for id in marked if id not in there and (enrolled is None or id in enrolled)})
    in_group = {id for id, group in policy.groups.items() if group in graded and id not in there}
    added = [id for id in sorted({*by_hand, *in_group}) if enrolled is None or id in enrolled]
    new = [Result(Student(id, (enrolled or {}).get(id, shown(id))), {}, ("No file was submitted.",)) for id in added]
    students = sorted([*results.students, *new], key=lambda result: (result.student.name.casefold(), result.student.id))
    named = {*marked, *policy.groups, *(id for id, _ in policy.extensions)}
    unknown = sorted(id for id in named - there - {*added} if enrolled is None or id not in enrolled)
    where = "without a submission" if enrolled is None else "neither among the submissions nor in your table"
    lines = (
        ("Without a file, marked by your policy ({}): {}.", by_hand),
        (f"In the policy, but {where} ({{}}): {{}}.", unknown),
    )
    messages = [line.format(len(ids), ", ".join(map(shown, ids))) for line, ids in lines if ids]
    return replace(results, students=tuple(students)), messages


def _shared(policy: Policy, students: Iterable[Result]) -> list[Result]:
    """Give each member of a group the notebook of the group with the most points after its late penalty, for each lecture."""
    groups: dict[str, list[Result]] = defaultdict(list)
    students = list(students)
    for result in students:
        if result.student.id in policy.groups:
            groups[policy.groups[result.student.id]].append(result)
    done = {}
    for group, members in groups.items():
        lectures = sorted({lecture for member in members for lecture in member.by_lecture})
        best = {
            lecture: max((m for m in members if lecture in m.by_lecture), key=partial(_after_penalty, policy, lecture))
            for lecture in lectures
        }
        for member in members:
            others = {lecture: other for lecture, other in best.items() if other is not member}
            notes = [
                f"Lecture {lecture}: the notebook of {other.student.name} counts for the group {shown(group)}."
                for lecture, other in others.items()
            ]
            done[member.student.id] = replace(
                member,
                by_lecture={lecture: best[lecture].by_lecture[lecture] for lecture in lectures},
                notes=(*member.notes, *notes),
                late=any(one.late for one in best.values()) if best else member.late,
                shared={lecture: other.student.id for lecture, other in others.items()},
            )
    return [done.get(result.student.id, result) for result in students]


def _after_penalty(policy: Policy, lecture: str, result: Result) -> float:
    lateness = _lateness(policy, lecture, result.student.id, result.student.id)
    return result.by_lecture[lecture].points * (1.0 if lateness is None else policy.late.share_left(lateness))


def _lateness(policy: Policy, lecture: str, student: str, author: str) -> timedelta | None:
    """By how much an author's notebook is late for a student, whose own extension comes first; None if that is unknown."""
    due = next((policy.extensions[id, lecture] for id in (student, author) if (id, lecture) in policy.extensions), None)
    due = due or policy.due.get(lecture)
    came = next((policy.handed_in[id, lecture] for id in (author, student) if (id, lecture) in policy.handed_in), None)
    return None if due is None or came is None else came - due


def _overridden(policy: Policy, result: Result) -> Result:
    for override in policy.overrides:
        if override.student == result.student.id:
            before, points = _mark_of(result, override.exercise), plain(override.points)
            passed = points >= before.max_points
            mark = replace(before, points=points, passed=passed, override=override.reason, by_checks=before.points)
            result = _with_mark(result, mark)
    return result


def _lowered(policy: Policy, students: Iterable[Result]) -> list[str]:
    """Report each override below the points of the checks: the student may have handed in again since it was entered."""
    by_id = {result.student.id: result for result in students}
    return [
        f"Your override lowers a mark: {by_id[o.student].student.name} ({shown(o.student)}), {o.exercise}: {o.points:g}, but "
        f"the checks give {mark.by_checks:g}. If that is not intended, remove its row."
        for o in policy.overrides
        if o.student in by_id and (mark := by_id[o.student].marks[o.exercise]).by_checks > o.points
    ]


def _commented(policy: Policy, result: Result) -> Result:
    """Add the instructor's comments, and their points, to the marks of a student."""
    for (id, asked), comments in policy.comments.items():
        if id == result.student.id:
            before = _mark_of(result, asked)
            points = max(0, plain(round(before.points + sum(comment.points for comment in comments), 2)))
            by_checks = before.by_checks if before.override else before.points
            result = _with_mark(result, replace(before, points=points, comments=comments, by_checks=by_checks))
    return result


def _mark_of(result: Result, id: str) -> Mark:
    """The mark of an exercise; one without points if there is none."""
    return result.marks.get(id) or Mark(id, "not found", 0, exercise(id).points, False, None, (), "", ())


def _with_mark(result: Result, mark: Mark) -> Result:
    lecture = exercise(mark.exercise).lecture
    notebook = result.by_lecture.get(lecture, NotebookResult(lecture))
    marks = {other.exercise: other for other in notebook.marks} | {mark.exercise: mark}
    notebook = replace(notebook, marks=tuple(marks[id] for id in sorted(marks)))
    return replace(result, by_lecture=dict(sorted({**result.by_lecture, lecture: notebook}.items())))


def _late(policy: Policy, result: Result) -> Result:
    left, notes = {}, []
    for lecture in result.by_lecture:
        lateness = _lateness(policy, lecture, result.student.id, result.shared.get(lecture, result.student.id))
        if lateness is None:
            continue
        share = policy.late.share_left(lateness)
        if share < 1:
            left[lecture] = share
            late = str(lateness).removesuffix(":00")
            notes.append(
                f"Lecture {lecture} was submitted {late} late: {round(100 * (1 - share), 2):g} % of its points are deducted."
            )
    return replace(result, share_left=left, notes=(*result.notes, *notes), late=result.late or bool(left))


def _of(policy: Policy, result: Result) -> tuple[MarkByHand, ...]:
    return tuple(mark for id, mark in policy.by_hand if id == result.student.id)


def _lowest(n: int, result: Result, results: Results) -> tuple[str, ...]:
    """The lectures in which a student earned the smallest fraction of the points; missing submissions come first."""

    def share(lecture: str) -> float:
        return (result.points_of(lecture) or 0) / (results.max_points_of(result, lecture) or 1)

    return tuple(sorted(sorted(results.lectures, key=share)[: max(0, min(n, len(results.lectures) - 1))]))
