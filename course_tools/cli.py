"""The `course` command, also `python -m course_tools`."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from course_tools.command_failed import CommandFailed
from course_tools.publishing import lectures, lectures_root, project_root
from course_tools.whole_file import reason


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0: success. 1: failure. 2: there is no such lecture or study, or no course was found. 130: it was interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    options, rest = _parser().parse_known_args(arguments)
    if rest and options.command != "test":
        _parser().error(f"unrecognised arguments: {' '.join(rest)}")
    try:
        return _COMMANDS[options.command](options, rest)
    except CommandFailed as error:
        print(f"course: {error}", file=sys.stderr)
        return error.status
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("course_lib", "course_tools"):
            raise
        print(
            f"course: {options.command} needs the Python package {error.name.partition('.')[0]}, which is missing: install it, "
            f"or run `python course.py {options.command}`, which installs what the course needs.",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"course: {where}{reason(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ncourse: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="course", description="From RNNs to attention, transformers and self-supervision.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    lab = commands.add_parser("lab", help="open JupyterLab on your copies of the lectures, in work/")
    lab.add_argument("lecture", nargs="?", metavar="NN", help="the lecture to open, such as 04 (default: 01)")
    lab.add_argument("--no-browser", action="store_true", help="start the server and print its address, without a browser")
    lab.add_argument("--port", type=int, default=None, help="the port to listen on (default: the first free one from 8888)")
    restore = commands.add_parser("restore", help="put a fresh copy of a lecture into work/, next to your own")
    restore.add_argument("lecture", metavar="NN", help="the number of the lecture, such as 04")
    me = commands.add_parser("test-me", help="grade your own notebook of a lecture as it would be on hand-in")
    me.add_argument("lecture", metavar="NN", help="the number of the lecture, such as 04")
    me.add_argument("notebook", nargs="?", type=Path, metavar="FILE", help="your notebook (default: the one in work/)")
    run = commands.add_parser("run", help="execute the solved lectures and print one table of their claims")
    run.add_argument("lectures", nargs="*", metavar="NN", help="numbers of lectures, such as 04 (default: all)")
    run.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    run.add_argument("--seeds", metavar="N,N,N", type=_numbers, help="train with these seeds, such as 10,11,12")
    run.add_argument("--threads", metavar="N", type=_count, default=1, help="CPU threads of each lecture (default: 1)")
    gpu = commands.add_parser("gpu-check", help="run the tests and timings that need a GPU, and write a report (docs/gpu.md)")
    gpu.add_argument("--out", type=Path, metavar="FILE", help="file of the report (default: docs/gpu_report.md)")
    commands.add_parser("test", help="run the tests (--full: everything); further arguments go to pytest", add_help=False)
    build = commands.add_parser("build", help="build lectures and solutions from authoring/")
    build.add_argument("lectures", nargs="*", metavar="NN", help="numbers of lectures, such as 04 (default: all)")
    how = build.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="list what is out of date without changing anything")
    how.add_argument("--force", action="store_true", help="execute the solutions even if their code has not changed")
    site = commands.add_parser("site", help="write the course as web pages, from stored outputs (extra [site])")
    site.add_argument("lectures", nargs="*", metavar="NN", help="numbers of lectures, such as 04 (default: all)")
    site.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: build/site)")
    site.add_argument(
        "--repository",
        default="",
        metavar="URL",
        help="https address of the course's repository; adds buttons that open lectures on Binder",
    )
    book = commands.add_parser("book", help="print the solved lectures as one PDF, with Chromium or Chrome (extra [site])")
    book.add_argument("lectures", nargs="*", metavar="NN", help="numbers of lectures, such as 04 (default: all)")
    book.add_argument("--out", type=Path, metavar="FILE", help="default: build/course.pdf")
    slides = commands.add_parser("slides", help="write the slides of a lecture, for teachers (extra [site])")
    slides.add_argument("lectures", nargs="+", metavar="NN", help="numbers of lectures, such as 04")
    slides.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: build/slides)")
    slides.add_argument("--pdf", action="store_true", help="also print them as PDF, with Chromium or Chrome")
    colab = commands.add_parser("colab", help="write the lectures for Google Colab, each with a cell that installs the course")
    colab.add_argument("--repository", required=True, metavar="URL", help="the https address that the course is cloned from")
    colab.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: build/colab)")
    exercises = commands.add_parser("exercises", help="list every exercise")
    exercises.add_argument("--json", action="store_true", help="as JSON")
    progress = commands.add_parser("progress", help="show what you have solved and predicted, and write it as a page")
    progress.add_argument("--html", type=Path, metavar="FILE", help="file of the page (default: next to the progress file)")
    progress.add_argument("--export", type=Path, metavar="FILE", help="copy the progress to this file")
    progress.add_argument(
        "--import", type=Path, metavar="FILE", dest="other", help="merge the progress recorded on another machine"
    )
    _grade_options(commands.add_parser("grade", help="grade submissions (docs/grading.md)"))
    variants = commands.add_parser("variants", help="write a notebook for each student, with individual conventions")
    variants.add_argument(
        "--secret",
        type=Path,
        required=True,
        metavar="FILE",
        help="the secret that determines each student's variants; created if missing",
    )
    table = variants.add_mutually_exclusive_group(required=True)
    table.add_argument("--canvas", type=Path, metavar="ROSTER.csv", help="your exported gradebook: who the students are")
    table.add_argument("--moodle", type=Path, metavar="WORKSHEET.csv", help="your grading worksheet: who the students are")
    variants.add_argument("--lecture", metavar="NN", help="only this lecture (default: all whose exercises have variants)")
    variants.add_argument("--out", type=Path, default=Path("variants"), metavar="DIR", help="output folder (default: variants)")
    exam = commands.add_parser("exam", help="write an exam in several forms of equal difficulty, with an answer key")
    exam.add_argument("--lectures", default="02,04", metavar="NN,NN", help="numbers of lectures, such as 02,04 (the default)")
    exam.add_argument("--forms", type=int, default=2, metavar="N", help="how many forms, 1 to 26 (default: 2)")
    exam.add_argument("--minutes", type=int, default=40, metavar="M", help="length of a form (default: 40)")
    exam.add_argument("--seed", type=int, default=0, metavar="S", help="another seed draws other questions (default: 0)")
    exam.add_argument("--out", type=Path, default=Path("exam"), metavar="DIR", help="output folder (default: exam)")
    study = commands.add_parser("study", help="run or resume a study from authoring/studies (docs/evidence.md)")
    study.add_argument("names", nargs="*", metavar="NN_name", help="such as 10_windows; with --check, default: all")
    what = study.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the studies and whether their records are complete")
    what.add_argument("--check", action="store_true", help="repeat the cheapest recorded run, and compare it with the record")
    study.add_argument("--seeds", metavar="N,N", type=_numbers, help="seeds, such as 0,1 (default: those of the study)")
    study.add_argument("--device", default="cpu", help="cpu (the default), cuda or cuda:1; a GPU has its own record")
    study.add_argument("-j", "--jobs", type=_count, default=1, metavar="N", help="parallel runs, one thread each (default: 1)")
    study.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler for the runs; local = start one (extra [dask])")
    microscope = commands.add_parser("microscope", help="write the attention microscope: pages that need no server")
    microscope.add_argument(
        "--out", type=Path, default=Path("microscope.html"), metavar="FILE", help="default: microscope.html"
    )
    export = commands.add_parser("export-nbgrader", help="write a course folder for nbgrader, graded in the course's sandbox")
    export.add_argument("folder", type=Path, metavar="DIR", help="the folder to write it to")
    export.add_argument("--require-isolation", action="store_true", help="refuse to grade if an isolation layer is missing")
    items = commands.add_parser("item-analysis", help="report which exercises were hard and which misconceptions are common")
    items.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="results of `course grade`, oldest first")
    items.add_argument("--progress", type=Path, metavar="DIR", help="a folder with progress files of students (*.jsonl)")
    items.add_argument(
        "--out", type=Path, default=Path("item_analysis.html"), metavar="FILE", help="default: item_analysis.html"
    )
    scope = commands.add_parser("export-gradescope", help="write the autograder of a lecture as a zip file for Gradescope")
    scope.add_argument("lecture", metavar="NN", help="the number of the lecture, such as 04")
    scope.add_argument("--out", type=Path, metavar="FILE.zip", help="output file (default: gradescope_NN.zip)")
    github = commands.add_parser("export-github", help="write a template repository that answers each push with feedback")
    github.add_argument("lecture", metavar="NN", help="the number of the lecture, such as 04")
    github.add_argument("folder", type=Path, metavar="DIR", help="the folder to write it to")
    github.add_argument("--repository", required=True, metavar="URL", help="the https address that the course is cloned from")
    return parser


def _grade_options(grade: argparse.ArgumentParser) -> None:
    grade.add_argument("path", type=Path, metavar="DIR_OR_ZIP", help="a folder, or an unmodified Canvas or Moodle download")
    grade.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: NAME_graded, next to it)")
    grade.add_argument("--lecture", metavar="NN", help="grade only this lecture (default: recognised from each notebook)")
    half = max(1, (os.cpu_count() or 2) // 2)
    grade.add_argument("-j", "--jobs", type=_count, default=half, metavar="N", help=f"parallel notebooks (default: {half})")
    grade.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler, to grade on its machines (extra [dask])")
    grade.add_argument("--seed", type=int, metavar="S", help="seed of the inputs of the checks (default: a secret one)")
    grade.add_argument("--require-isolation", action="store_true", help="refuse to grade if an isolation layer is missing")
    grade.add_argument("--canvas", type=Path, metavar="ROSTER.csv", help="your exported gradebook: one column is filled in")
    grade.add_argument("--moodle", type=Path, metavar="WORKSHEET.csv", help="your grading worksheet: its grades are filled in")
    grade.add_argument(
        "--policy", type=Path, metavar="FILE.toml", help="your rules: late penalty, groups, comments, marks by hand"
    )
    grade.add_argument(
        "--variants", type=Path, metavar="FILE", help="the secret of `course variants`: judge each student by their variant"
    )
    grade.add_argument("--dry-run", action="store_true", help="report what would be graded; run and write nothing")
    grade.add_argument("--accept", action="store_true", help="write the results even if earlier marks change (changes.csv)")
    grade.add_argument(
        "--canvas-upload",
        metavar="URL",
        help="send marks and feedback to the assignment at this address (needs --lecture, and CANVAS_TOKEN in the environment)",
    )
    grade.add_argument("--column", metavar="TITLE", help="the column of the roster to fill in, if its title is ambiguous")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be whole numbers separated by commas, such as 0,1,2, not {text!r}") from None


# Each command imports what it needs when it runs: `course lab` should not wait for torch.
def _lab(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.publishing.lab import lab

    return lab(options.no_browser, options.port, options.lecture)


def _restore(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.publishing.student_copies import restore

    root = project_root()
    print(f"wrote {restore(root, options.lecture).relative_to(root).as_posix()}")
    return 0


def _test_me(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.grading.self_assessment import assess

    print(assess(project_root(), options.lecture, options.notebook))
    return 0


def _run(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.publishing.run import run

    return run(project_root(), options.lectures, options.json, seeds=options.seeds, threads=max(1, options.threads))


def _test(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.publishing.run_tests import run_tests

    return run_tests(project_root(), rest)


def _gpu_check(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.publishing.gpu_check import gpu_check

    root = project_root()
    return gpu_check(root, options.out or root / "docs" / "gpu_report.md")


def _build(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.publishing.build import build, stale

    if options.check:
        complaints = stale(project_root(), options.lectures)
        print("\n".join(complaints) or "everything is up to date")
        return 1 if complaints else 0
    written = build(project_root(), options.lectures, force=options.force)
    print("\n".join(f"wrote {name}" for name in written) or "everything is up to date")
    return 0


def _site(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.publishing.site.website import build_site

    root = project_root()
    out = options.out or root / "build" / "site"
    warnings = build_site(root, out, options.lectures, repository=options.repository)
    print("\n".join([*warnings, f"wrote {out / 'index.html'}"]))
    return 0


def _book(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.publishing.book import write_book

    root = project_root()
    print(f"wrote {write_book(root, options.out or root / 'build' / 'course.pdf', options.lectures)}")
    return 0


def _slides(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.publishing.slides.deck_page import write_pdf, write_slides

    root = project_root()
    for lecture in lectures(root, options.lectures):
        page = write_slides(lecture, options.out or root / "build" / "slides")
        print(f"wrote {page}")
        if options.pdf:
            print(f"wrote {write_pdf(page)}")
    return 0


def _colab(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.publishing.colab import write_colab

    root = project_root()
    written = write_colab(root, options.out or root / "build" / "colab", options.repository)
    print("\n".join(f"wrote {path}" for path in written))
    return 0


def _exercises(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.publishing.exercise_list import listing

    print(listing(options.json))
    return 0


def _progress(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.notebook.progress_record import show_progress

    show_progress(options.html, options.export, options.other)
    return 0


def _grade(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.grading.batch import GradingOptions
    from course_tools.grading.judge_notebook import Engine
    from course_tools.grading.lms.variant_notebooks import read_secret
    from course_tools.grading.pipeline import Tables, dry_run, grade, nowhere
    from course_tools.grading.policy import NO_RULES, Policy

    lecture = options.lecture and options.lecture.zfill(2)
    jobs, require, dask = options.jobs, options.require_isolation, options.dask
    secret = read_secret(options.variants) if options.variants else None
    how = GradingOptions(Engine, lectures_root(), lecture, jobs, options.seed, require, dask, secret)
    tables = Tables(options.canvas, options.moodle, options.column)
    policy = Policy.read(options.policy) if options.policy else NO_RULES
    if options.dry_run:
        return dry_run(options.path, how, options.out, tables, policy)
    send = _to_canvas(options.canvas_upload, lecture) if options.canvas_upload else nowhere
    return grade(options.path, how, options.out, tables, policy, lambda changes: options.accept, send)


def _to_canvas(address: str, lecture: str | None) -> Callable:
    from course_tools.grading.files import CannotGrade
    from course_tools.grading.lms.canvas_api import CanvasAssignment

    if lecture is None:
        raise CannotGrade("--canvas-upload needs --lecture NN: an assignment belongs to one lecture.")
    assignment = CanvasAssignment(address, os.environ.get("CANVAS_TOKEN", ""))
    return lambda results, out: assignment.send(results, lecture, out)


def _variants(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.grading.lms import rosters
    from course_tools.grading.lms.variant_notebooks import write_variants

    roster = rosters.canvas(options.canvas) if options.canvas else rosters.moodle(options.moodle)
    numbers = [options.lecture] if options.lecture else []
    written = write_variants(lectures_root(), roster.students(), options.secret, options.out, numbers)
    print(f"wrote the notebooks of {len(written)} students and variants.csv to {options.out}")
    return 0


def _exam(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.exams import write_exam

    numbers = [number.strip().zfill(2) for number in options.lectures.split(",") if number.strip()]
    written = write_exam(options.out, numbers, options.forms, options.minutes, options.seed)
    print("\n".join(f"wrote {path}" for path in written))
    if sum(path.suffix == ".pdf" for path in written) < len(written) / 2:
        print("PDFs are missing: they need Chromium or Chrome. Print the pages from your browser instead.")
    return 0


def _study(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.studies.command import check_all, list_all, run_all

    folder = project_root() / "authoring" / "studies"
    if options.list or not (options.names or options.check):
        print(list_all(folder, options.device))
        return 0
    if options.check:
        return check_all(options.names, folder, options.device, options.jobs, options.dask)
    return run_all(options.names, folder, options.seeds, options.device, options.jobs, options.dask)


def _microscope(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.microscope import write

    print(f"wrote {write(options.out)}")
    return 0


def _export_nbgrader(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.grading.lms.nbgrader import export

    print("\n".join(f"wrote {path}" for path in export(project_root(), options.folder, options.require_isolation)))
    return 0


def _item_analysis(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.grading.files import CannotGrade, write_whole
    from course_tools.grading.report.item_analysis import analyse, items_csv, items_page

    if options.progress and not options.progress.is_dir():
        raise CannotGrade(f"there is no folder {options.progress}.")
    items = analyse(options.folders, sorted(options.progress.rglob("*.jsonl")) if options.progress else [])
    if not items:
        raise CannotGrade("these folders contain no graded notebooks.")
    for path, text in ((options.out, items_page(items)), (options.out.with_suffix(".csv"), items_csv(items))):
        write_whole(path, text)
        print(f"wrote {path}")
    return 0


def _export_gradescope(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.grading.lms.gradescope import export

    out = options.out or Path(f"gradescope_{options.lecture.zfill(2)}.zip")
    print(f"wrote {export(project_root(), options.lecture, out)}")
    return 0


def _export_github(options: argparse.Namespace, rest: list[str]) -> int:
    from course_tools.grading.lms.github import export

    written = export(project_root(), options.lecture, options.folder, options.repository)
    print("\n".join(f"wrote {path}" for path in written))
    return 0


_COMMANDS = {
    "lab": _lab,
    "restore": _restore,
    "test-me": _test_me,
    "run": _run,
    "test": _test,
    "gpu-check": _gpu_check,
    "build": _build,
    "site": _site,
    "book": _book,
    "slides": _slides,
    "colab": _colab,
    "exercises": _exercises,
    "progress": _progress,
    "grade": _grade,
    "variants": _variants,
    "exam": _exam,
    "study": _study,
    "microscope": _microscope,
    "export-nbgrader": _export_nbgrader,
    "item-analysis": _item_analysis,
    "export-gradescope": _export_gradescope,
    "export-github": _export_github,
}

if __name__ == "__main__":
    sys.exit(main())
