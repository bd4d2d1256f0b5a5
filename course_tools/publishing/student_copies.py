"""A student's own copies of the lectures, in `work/`: copied once, never overwritten, and restored under a new name."""

import contextlib
import shutil
import sqlite3
from itertools import count
from pathlib import Path

from course_tools.publishing.project import Lecture, PublishingFailed, lectures


def copy_lectures(root: Path) -> Path:
    """Copy each built lecture that is not in `work/` yet.

    Args:
        root: the folder of the course.

    Returns:
        The folder `work/`.

    Raises:
        PublishingFailed: `work/` cannot be written.
    """
    for lecture in lectures(root):
        if lecture.unsolved.exists() and not _own(lecture).exists():
            _copy(lecture, _own(lecture))
    return root / "work"


def restore(root: Path, number: str) -> Path:
    """Copy a lecture; if it is already in `work/`, the fresh copy gets another name and the old one is kept.

    Args:
        root: the folder of the course.
        number: of the lecture, such as "04".

    Returns:
        The fresh copy.

    Raises:
        UnknownLecture: there is no such lecture.
        PublishingFailed: the lecture has not been built, or `work/` cannot be written.
    """
    (lecture,) = lectures(root, [number])
    if not lecture.unsolved.exists():
        raise PublishingFailed(
            f"{lecture.name(lecture.unsolved)} does not exist: run `python course.py build {lecture.number}`"
        )
    names = ("" if n == 0 else "_fresh" if n == 1 else f"_fresh_{n}" for n in count())
    free = next(path for name in names if not (path := _own(lecture).with_stem(lecture.stem + name)).exists())
    _copy(lecture, free)
    return free


def _own(lecture: Lecture) -> Path:
    return lecture.root / "work" / lecture.unsolved.name


def _copy(lecture: Lecture, target: Path) -> None:
    """Copy a notebook; an interrupted copy leaves no file under the final name."""
    try:
        target.parent.mkdir(exist_ok=True)
        partial = target.with_suffix(".part")
        shutil.copyfile(lecture.unsolved, partial)
        _sign(partial)
        partial.replace(target)
    except OSError as error:
        raise PublishingFailed(f"{lecture.name(target)} cannot be written: {error.strerror or error}.") from error


def _sign(notebook: Path) -> None:
    """Tell Jupyter to trust the outputs that a copy comes with, its diagrams.

    A notebook that is saved gets a signature only if every output is trusted; one that is not hides the sliders and scripts of
    all the others when the page is loaded again. Where signatures cannot be stored, the notebook stays as it is.
    """
    import nbformat
    from nbformat.sign import NotebookNotary  # a slow import that only a copy needs

    with contextlib.suppress(OSError, sqlite3.Error):
        notary = NotebookNotary()
        notary.sign(nbformat.read(notebook, as_version=4))
        notary.store.close()
