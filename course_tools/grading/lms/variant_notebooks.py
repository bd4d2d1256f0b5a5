"""`course variants`: a folder for each student of a roster, with notebooks whose exercises have the student's variants."""

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
from course_tools.grading.files import CannotGrade, make_folder
from course_tools.publishing import lectures
from course_tools.publishing.nbgrader_cells import checksum
from course_tools.whole_file import reason, write_whole

_WIDTH = 84
_SHORTEST_SECRET = 16
_FIT = re.compile(r"[\w@+-][\w.@+-]{0,100}")
_END_OF_DOCSTRING = '\n    """\n'


def read_secret(path: Path) -> bytes:
    """Read the secret that determines each student's variants.

    Raises:
        CannotGrade: the file cannot be read, or the secret is too short.
    """
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise CannotGrade(f"the secret {path} cannot be read: {reason(error)}") from error
    if len(secret) < _SHORTEST_SECRET:
        short = f"the secret {path} is shorter than {_SHORTEST_SECRET} bytes"
        raise CannotGrade(f"{short}: delete the file, and `course variants` writes a new secret.")
    return secret


def write_variants(root: Path, students: Iterable[str], secret: Path, out: Path, numbers: Iterable[str] = ()) -> list[Path]:
    """Write the notebooks of all students, and `variants.csv`, which is only for the instructor.

    Args:
        root: the folder whose `lectures/` are distributed.
        students: their ids in the LMS, as in `grades.csv`.
        secret: the file with the secret; it is created if it does not exist.
        out: the output folder: `<id>/NN_topic.ipynb`.
        numbers: lecture numbers; by default, all lectures with variants.

    Returns:
        the folders of the students.

    Raises:
        CannotGrade: an id cannot be the name of a folder, a lecture has no variants, or something cannot be written.
        UnknownLecture: there is no such lecture.
    """
    students, known = list(dict.fromkeys(students)), lectures_with_variants()
    if unfit := [student for student in students if not _FIT.fullmatch(student)]:
        raise CannotGrade(f"the id {unfit[0]!r} cannot be used as the name of a folder.")
    chosen_lectures = lectures(root, numbers or known)
    if without := [lecture.number for lecture in chosen_lectures if lecture.number not in known]:
        raise CannotGrade(
            f"no exercise of lecture {', '.join(without)} has variants; lectures with variants: {', '.join(known)}."
        )
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
    """Write variants into the docstrings of a notebook's exercises, and into their checks.

    Args:
        text: the text of the original notebook.
        chosen: the variant of each exercise that has variants.
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
