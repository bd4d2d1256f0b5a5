"""Atomic writing of files, and sanitising of untrusted text for display.

A file appears under its name only when all of it is on the disk: a reader never sees half a table, and if the disk is full, the
previous file remains.
"""

import contextlib
import errno
import os
import secrets
import unicodedata
from pathlib import Path

from course_tools.command_failed import CommandFailed


class CannotGrade(CommandFailed):
    """Grading cannot continue; the message says why and what to do. Earlier results are kept."""


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a temporary file in the same folder, flush it to the disk, then move it to `path`.

    Args:
        path: the file to write; its folder must exist.
        text: its content; a `str` is encoded as UTF-8, with line ends unchanged.

    Raises:
        CannotGrade: the disk is full or the folder is not writable.
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
    """Read the secret seed in a file, which is drawn once: a student who knew it could prepare answers to the exact inputs.

    Raises:
        CannotGrade: a new seed could not be written.
    """
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    seed = secrets.randbelow(2**31)
    write_whole(path, f"{seed}\n")
    return seed


def make_folder(path: Path) -> None:
    """Create a folder, with its parents, if it does not exist.

    Raises:
        CannotGrade: a file has this name, or the folder cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotGrade(f"the folder {path} cannot be created: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Describe an error of the operating system, and what to do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full. Finished results are kept: free some space and run the same command again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "permission denied. Change the permissions, or use another file or folder."
    return (error.strerror or type(error).__name__).lower() + "."


def shown(text: str, limit: int = 200) -> str:
    """Make an untrusted text safe to show and write: composed Unicode, no invisible characters, limited length."""
    visible = "".join(_visible(character) for character in unicodedata.normalize("NFC", text[: 4 * limit]))
    return visible if len(visible) <= limit else visible[: limit - 1] + "…"


def _visible(character: str) -> str:
    if character.isprintable() or character in "\u200c\u200d":  # zero-width joiners, used in Persian and Indian names
        return character
    return " " if character.isspace() else "�"
