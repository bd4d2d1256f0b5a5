"""`course variants`: for each student of a roster a folder with notebooks in which exercises have the student's variant."""

import contextlib
import csv
import io
import re
import secrets
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

import nbformat

from course_tools.bank.variants import chosen_for, lectures_with_variants, variant
from course_tools.grading.files import CannotGrade, make_folder, reason, write_whole
from course_tools.publishing import lectures
from course_tools.publishing.nbgrader_cells import checksum

_WIDTH = 84
_SHORTEST_SECRET = 16
_FIT = re.compile(r"[\w@+-][\w.@+-]{0,100}")
_END_OF_DOCSTRING = '\n    """\n'


def read_secret(path: Path) -> bytes:
    """Read the secret that decides who has which variant.

    Raises:
        CannotGrade: there is none, or it is too short to be one.
    """
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise CannotGrade(f"the secret {path} cannot be read: {reason(error)}") from error
    if len(secret) < _SHORTEST_SECRET:
        raise CannotGrade(f"the secret {path} is shorter than {_SHORTEST_SECRET} bytes; `course variants` writes a new one.")
    return secret


def write_variants(root: Path, students: Iterable[str], secret: Path, out: Path, numbers: Iterable[str] = ()) -> list[Path]:
    """Write the notebooks of all students, and `variants.csv`, for the instructor alone.

    Args:
        root: the folder whose `lectures/` are handed out.
        students: their ids in the LMS, as in `grades.csv`.
        secret: the file with the secret; it is drawn and written where there is none.
        out: the folder to write to: `<id>/NN_topic.ipynb`.
        numbers: of lectures; by default all that have exercises with variants.

    Returns:
        the folders of the students.

    Raises:
        CannotGrade: an id is not fit for the name of a folder, a lecture has no variants, or something cannot be written.
        UnknownLecture: there is no such lecture.
    """
    students, known = list(dict.fromkeys(students)), lectures_with_variants()
    if unfit := [student for student in students if not _FIT.fullmatch(student)]:
        raise CannotGrade(f"the id {unfit[0]!r} is not fit for the name of a folder.")
    chosen_lectures = lectures(root, numbers or known)
    if without := [lecture.number for lecture in chosen_lectures if lecture.number not in known]:
        raise CannotGrade(f"no exercise of lecture {', '.join(without)} has variants; those of {', '.join(known)} have.")
    make_folder(out)
    if not secret.exists():
        write_whole(secret, f"{secrets.token_hex(32)}\n")
        with contextlib.suppress(OSError):
            secret.chmod(0o600)
    key = read_secret(secret)
    plain = {lecture.unsolved.name: lecture.unsolved.read_text(encoding="utf-8") for lecture in chosen_lectures}
    written = []
    for student in students:
        make_folder(out / student)
        for name, text in plain.items():
            write_whole(out / student / name, with_variants(text, chosen_for(student, key)))
        written.append(out / student)
    write_whole(out / "variants.csv", _table(students, key))
    return written


def with_variants(text: str, chosen: Mapping[str, str]) -> str:
    """Write variants into a notebook: into the docstrings of its exercises, and into their checks.

    Args:
        text: of a notebook as it is handed out.
        chosen: the variant of each exercise that has some.
    """
    notebook = nbformat.reads(text, 4)
    for cell in notebook.cells:
        marks = cell.metadata.get("nbgrader", {})
        for id, name in chosen.items():
            if marks.get("grade_id") == f"exercise-{id.replace('.', '-')}":
                words = textwrap.fill(
                    f"Your variant: {variant(id, name).words}", _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8
                )
                cell.source = cell.source.replace(_END_OF_DOCSTRING, f"\n\n{words}{_END_OF_DOCSTRING}", 1)
            elif marks.get("grade_id") == f"check-{id.replace('.', '-')}":
                cell.source = re.sub(
                    rf'check\("{re.escape(id)}", (\w+)\)', rf'check("{id}", \1, variant="{name}")', cell.source
                )
            else:
                continue
            marks["checksum"] = checksum(cell)
    return nbformat.writes(notebook) + "\n"


def _table(students: list[str], key: bytes) -> str:
    text = io.StringIO()
    table = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    table.writerow(["id", *chosen_for("", key)])
    table.writerows([student, *chosen_for(student, key).values()] for student in students)
    return text.getvalue()
