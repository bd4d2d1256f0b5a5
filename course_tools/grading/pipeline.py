"""`course grade`: from submissions to marks, reports and the instructor's table, in one command."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from course_tools.grading.apply_policy import apply
from course_tools.grading.batch import GradingOptions, grade_all, recognised
from course_tools.grading.files import CannotGrade, make_folder, secret_seed
from course_tools.grading.intake.recognise import Course
from course_tools.grading.intake.submissions import Intake, handed_in
from course_tools.grading.journal import Journal
from course_tools.grading.lms import rosters
from course_tools.grading.lms.canvas_api import Sent
from course_tools.grading.lms.feedback_archive import feedback_archives
from course_tools.grading.policy import NO_RULES, Policy
from course_tools.grading.report.changes import Change, changes, changes_csv, summary
from course_tools.grading.report.class_page import index, page_name
from course_tools.grading.report.results import Results, collect, flags_csv, grades_csv, report_json, with_names
from course_tools.grading.report.similar_page import similar_page, similar_page_name
from course_tools.grading.report.student_page import feedback
from course_tools.publishing import lectures
from course_tools.whole_file import write_whole

_JOURNAL, _SEED = "journal.jsonl", "seed.txt"
_MOST_CHANGES = 20
_NOT_ACCEPTED = "Nothing else was written. Review the changes, then run the command again with --accept."


@dataclass(frozen=True)
class Tables:
    """The instructor's tables to fill in, and the column if its title does not identify it."""

    canvas: Path | None = None
    moodle: Path | None = None
    column: str | None = None


def nowhere(results: Results, out: Path) -> Sent:
    """Send nothing."""
    return Sent([], [])


def grade(
    path: Path,
    options: GradingOptions,
    out: Path | None = None,
    tables: Tables = Tables(),
    policy: Policy = NO_RULES,
    accept: Callable[[list[Change]], bool] = lambda changes: False,
    send: Callable[[Results, Path], Sent] = nowhere,
) -> int:
    """Grade the submissions, and write the results.

    If earlier results exist and a mark changes, `changes.csv` is written first, and the rest only if the changes are accepted.

    Args:
        path: a folder or zip.
        options: how to grade; without a seed, one is drawn and kept with the results. On a Dask cluster, isolation is required.
        out: the folder of the results; None = next to `path`, with "_graded" appended to the name.
        tables: the instructor's tables.
        policy: the instructor's rules for marks.
        accept: returns whether marks that were written before may change; called only if some do.
        send: sends the results, which are in the given folder, to an LMS, after they have been written.

    Returns:
        the exit status: 0, or 1 if grading a notebook failed for a reason other than the notebook, or changes were not
        accepted.

    Raises:
        CannotGrade: nothing could be graded or written; the message says why and what to do.
        UnknownLecture: there is no such lecture.
        NoCluster: Dask is not installed, or its scheduler does not answer.
    """
    with _opened(path, options, out, tables) as (intake, course, in_roster, out, options):
        make_folder(out / "students")
        bar = tqdm(total=len(intake.submissions), desc="grading", unit="notebook", disable=None, file=sys.stderr)
        with bar, Journal(out / _JOURNAL) as journal:
            options = options if options.seed is not None else replace(options, seed=secret_seed(out / _SEED))
            graded = grade_all(intake.submissions, journal, options, bar.update)
            results, messages = _ruled(collect(intake, graded, options.seed, policy.counts), policy, in_roster)
            found = changes(out / "report.json", results, options.lecture)
            if found:
                write_whole(out / "changes.csv", changes_csv(found))
                messages = (*messages, f"{summary(found)} They are in changes.csv.")
                if not accept(found):
                    print("\n".join([*messages, *_first(found), _NOT_ACCEPTED]))
                    return 1
            else:
                (out / "changes.csv").unlink(missing_ok=True)
            for name, data in feedback_archives(results, intake.submissions).items():
                write_whole(out / name, data)
            return _write(results, course, out, in_roster, options.lecture, tables.column, messages, send)


def dry_run(
    path: Path, options: GradingOptions, out: Path | None = None, tables: Tables = Tables(), policy: Policy = NO_RULES
) -> int:
    """Print what `grade` would grade, and whose marks it would fill in; run no student's code, and write nothing.

    Arguments and errors are those of `grade`; the isolation layers are tested on this machine.

    Returns:
        the exit status: 0, or 1 if a table could not be filled in or a file could not be read.
    """
    with _opened(path, options, out, tables) as (intake, course, in_roster, out, options):
        with options.engine(require_isolation=options.require_isolation, seed=0) as engine:
            lines = [str(engine.level)]
        read = [recognised(submission, course, options.lecture) for submission in intake.submissions]
        results, messages = _ruled(collect(intake, read, counts=policy.counts), policy, in_roster)
    for number in results.lectures:
        n = sum(number in result.by_lecture for result in results.students)
        lines.append(f"Lecture {number}, {course.titles.get(number, '')}: {n} students.")
    lines += [*messages, *(f"{note.source} {note.text}" for note in results.unassigned)]
    lines += [f"{result.student.name}: {' '.join(result.notes)}" for result in results.students if result.notes]
    trouble = [text for result in results.students for text in result.failures]
    for name, roster in in_roster:
        try:
            filled = _filled(name, roster, results, course, options.lecture, tables.column)
            held = f" Cells that hold a mark now: {filled.n_held}." if filled.n_held else ""
            lines += [f"{name}.csv: {filled.n_marks} marks in the column {filled.column!r}.{held}", *filled.on_students]
        except CannotGrade as error:
            trouble.append(str(error))
    lines.append(
        f"The results go to {out}{', over those of an earlier run' if (out / _JOURNAL).exists() else ', a new folder'}."
    )
    print("\n".join([*lines, *(f"✗ {text}" for text in trouble), "Nothing was run and nothing was written."]))
    return 1 if trouble else 0


class _Opened(NamedTuple):
    """What is known before anything is graded. `in_roster` are the instructor's tables; `out` is the folder of the results."""

    intake: Intake
    course: Course
    in_roster: list[tuple[str, rosters.Roster]]
    out: Path
    options: GradingOptions


@contextmanager
def _opened(path: Path, options: GradingOptions, out: Path | None, tables: Tables) -> Iterator[_Opened]:
    if options.dask not in (None, "local"):  # anyone who can reach a Dask scheduler can run code: a student's code must not
        options = replace(options, require_isolation=True)
    course = Course.at(options.root)
    if options.lecture is not None and options.lecture not in course.stems:
        (lecture,) = lectures(options.root, [options.lecture])
        raise CannotGrade(f"lecture {lecture.number} has no exercises.")
    in_roster = [(name, read(file)) for name, read, file in _asked(tables)]
    out = out or path.resolve().with_name(f"{path.resolve().stem if path.is_file() else path.resolve().name}_graded")
    with handed_in(path, tuple(course.stems.values()), skip=out) as intake:
        if not intake.submissions and not intake.notes:
            raise CannotGrade(f"{path} contains no file to grade.")
        yield _Opened(intake, course, in_roster, out, options)


def _ruled(results: Results, policy: Policy, in_roster: list[tuple[str, rosters.Roster]]) -> tuple[Results, tuple[str, ...]]:
    """Apply the policy, with the names of the rosters; return the results, and messages."""
    names = {id: name for _, roster in in_roster for id, name in roster.names().items()}
    enrolled = {id: names.get(id, id) for _, roster in in_roster for id in roster.students()} if in_roster else None
    return apply(policy, with_names(results, names), enrolled)


def _asked(tables: Tables) -> list[tuple[str, Callable[[Path], rosters.Roster], Path]]:
    known = (("canvas", rosters.canvas, tables.canvas), ("moodle", rosters.moodle, tables.moodle))
    return [(name, read, file) for name, read, file in known if file is not None]


def _write(
    results: Results,
    course: Course,
    out: Path,
    in_roster: list[tuple[str, rosters.Roster]],
    lecture: str | None,
    column: str | None,
    said: tuple[str, ...],
    send: Callable[[Results, Path], Sent],
) -> int:
    """Write everything; if a roster cannot be filled in, the rest is still written."""
    messages, trouble = [*said], [text for result in results.students for text in result.failures]
    for name, roster in in_roster:
        try:
            filled = _filled(name, roster, results, course, lecture, column)
            write_whole(out / f"{name}.csv", filled.data)
            messages.append(f"{name}.csv: {filled.n_marks} marks in the column {filled.column!r}.")
            messages += [*filled.on_marks, *filled.on_students]
        except CannotGrade as error:
            trouble.append(str(error))
    pages = {out / "students" / page_name(result.student): result for result in results.students}
    for path, result in pages.items():
        write_whole(path, feedback(result, results))
    by_id = {result.student.id: result for result in results.students}
    pairs = {out / "similar" / similar_page_name(flag): flag for flag in results.flags if len(flag.students) == 2}
    if pairs:
        make_folder(out / "similar")
    for path, flag in pairs.items():
        write_whole(path, similar_page(flag, tuple(by_id[id] for id in flag.students)))
    earlier = {path for n in (8, 16) for path in (out / "students").glob(f"*-{'?' * n}.html")}  # 8 in earlier versions
    earlier |= set((out / "similar").glob("????????????.html"))
    for left_over in earlier - pages.keys() - pairs.keys():
        left_over.unlink()
    write_whole(out / "grades.csv", grades_csv(results))
    write_whole(out / "flags.csv", flags_csv(results))
    write_whole(out / "report.json", report_json(results))
    sent = send(results, out)
    messages, trouble = [*messages, *sent.messages], [*trouble, *sent.trouble]
    write_whole(out / "index.html", index(results, course, messages))
    _say(results, out, [*messages, *(f"✗ {text}" for text in trouble)])
    return 1 if trouble else 0


def _filled(
    name: str, roster: rosters.Roster, results: Results, course: Course, lecture: str | None, column: str | None
) -> rosters.Filled:
    if name == "canvas":
        return rosters.fill_canvas(roster, results, course, lecture, column)
    return rosters.fill_moodle(roster, results, lecture, column)


def _first(found: list[Change]) -> list[str]:
    """The first changes, one per line."""
    lines = [
        f"  {c.name}, {c.exercise}: {_points(c.before)} → {_points(c.after)} {c.why}".rstrip() for c in found[:_MOST_CHANGES]
    ]
    return [*lines, f"  … and {len(found) - len(lines)} more"] if len(found) > len(lines) else lines


def _points(points: float | None) -> str:
    return "–" if points is None else f"{points:g}"


def _say(results: Results, out: Path, lines: list[str]) -> None:
    graded = sum(bool(result.by_lecture) for result in results.students)
    late = sum(result.late for result in results.students)
    print(f"{graded} of {len(results.students)} students graded; {late} late; {len(results.flags)} flags.")
    print("\n".join([*results.isolation, *lines, f"Open {out / 'index.html'}"]))
