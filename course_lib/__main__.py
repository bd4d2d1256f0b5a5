"""The `course` command: lab, run, test, build, exercises. Also `python -m course_lib`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from course_lib.publishing import NotACourse, PublishingFailed, UnknownLecture, project_root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; give its exit status: 0 well, 1 failed, 2 asked for what does not exist."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    options, rest = _parser().parse_known_args(arguments)
    if rest and options.command != "test":
        _parser().error(f"unrecognised arguments: {' '.join(rest)}")
    try:
        return _COMMANDS[options.command](options, rest)
    except (NotACourse, UnknownLecture) as error:
        print(f"course: {error}", file=sys.stderr)
        return 2
    except PublishingFailed as error:
        print(f"course: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ncourse: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="course", description="From RNNs to attention, transformers and self-supervision.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    lab = commands.add_parser("lab", help="open JupyterLab on the lectures")
    lab.add_argument("--no-browser", action="store_true", help="start the server and print its address, open no browser")
    lab.add_argument("--port", type=int, default=None, help="the port to listen on (default: the first free one from 8888)")
    run = commands.add_parser("run", help="execute the solved lectures and print one table of their claims")
    run.add_argument("lectures", nargs="*", metavar="NN", help="numbers of lectures, such as 04 (default: all)")
    run.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    commands.add_parser("test", help="run the whole test suite; further arguments go to pytest", add_help=False)
    build = commands.add_parser("build", help="build lectures and solutions from authoring/")
    build.add_argument("lectures", nargs="*", metavar="NN", help="numbers of lectures, such as 04 (default: all)")
    how = build.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="say what is stale, change nothing")
    how.add_argument("--force", action="store_true", help="execute the solutions even where their code did not change")
    exercises = commands.add_parser("exercises", help="list every exercise")
    exercises.add_argument("--json", action="store_true", help="as JSON")
    return parser


# Each command imports what it needs when it is called: `course lab` should not wait for torch.
def _lab(options: argparse.Namespace, rest: list[str]) -> int:
    from course_lib.publishing.lab import lab

    return lab(options.no_browser, options.port)


def _run(options: argparse.Namespace, rest: list[str]) -> int:
    from course_lib.publishing.run import run

    return run(project_root(), options.lectures, options.json)


def _test(options: argparse.Namespace, rest: list[str]) -> int:
    from course_lib.publishing.suite import run_tests

    return run_tests(project_root(), rest)


def _build(options: argparse.Namespace, rest: list[str]) -> int:
    from course_lib.publishing.build import build, stale

    if options.check:
        complaints = stale(project_root(), options.lectures)
        print("\n".join(complaints) or "everything is up to date")
        return 1 if complaints else 0
    written = build(project_root(), options.lectures, force=options.force)
    print("\n".join(f"wrote {name}" for name in written) or "everything is up to date")
    return 0


def _exercises(options: argparse.Namespace, rest: list[str]) -> int:
    from course_lib.publishing.listing import listing

    print(listing(options.json))
    return 0


_COMMANDS = {"lab": _lab, "run": _run, "test": _test, "build": _build, "exercises": _exercises}

if __name__ == "__main__":
    sys.exit(main())
