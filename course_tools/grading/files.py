"""Files that are written whole or not at all, and texts from outside that are fit to be shown.

A file appears under its name only when all of it is on the disk: a reader never meets half a table, and a full disk leaves what
was there before.
"""

import contextlib
import errno
import os
import secrets
import unicodedata
from pathlib import Path

from course_tools.command_failed import CommandFailed


class CannotGrade(CommandFailed):
    """The grading as a whole cannot go on; the text says why and what to do. No mark that was earned is lost."""


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file beside its place, bring it to the disk, then move it there.

    Args:
        path: where it goes; its folder must exist.
        text: what it holds; UTF-8 and no change of line ends where it is a `str`.

    Raises:
        CannotGrade: the disk is full or the folder may not be written.
    """
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise CannotGrade(f"{path} could not be written: {reason(error)}") from error


def secret_seed(path: Path) -> int:
    """Read the seed that a file holds, drawn once: a student who knew it could prepare answers to the very inputs.

    Raises:
        CannotGrade: a new seed could not be written.
    """
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    seed = secrets.randbelow(2**31)
    write_whole(path, f"{seed}\n")
    return seed


def make_folder(path: Path) -> None:
    """Make a folder and those above it where they are missing.

    Raises:
        CannotGrade: a file stands in the way, or it may not be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotGrade(f"the folder {path} cannot be made: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Say in words what the operating system reported, with what a person can do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full. What is graded so far is kept: make room and give the same command again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "this user may not do that there. Change the permissions or choose another folder with --out."
    return (error.strerror or type(error).__name__).lower() + "."


def shown(text: str, limit: int = 200) -> str:
    """Make a name from outside fit to be shown and written: composed Unicode, nothing invisible, of bounded length."""
    visible = "".join(_visible(character) for character in unicodedata.normalize("NFC", text[: 4 * limit]))
    return visible if len(visible) <= limit else visible[: limit - 1] + "…"


def _visible(character: str) -> str:
    if character.isprintable() or character in "\u200c\u200d":  # the joiners that Persian and Indian names are spelt with
        return character
    return " " if character.isspace() else "�"
