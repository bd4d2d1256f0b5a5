"""Folders and secrets of grading, and sanitising of untrusted text for display."""

import contextlib
import secrets
import unicodedata
from pathlib import Path

from course_tools.command_failed import CommandFailed
from course_tools.whole_file import reason, write_whole


class CannotGrade(CommandFailed):
    """Grading cannot continue; the message says why and what to do. Earlier results are kept."""


def secret_seed(path: Path) -> int:
    """Read the secret seed in a file, which is drawn once: a student who knew it could prepare answers to the exact inputs.

    Raises:
        CannotWrite: a new seed could not be written.
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


def shown(text: str, limit: int = 200) -> str:
    """Make an untrusted text safe to show and write: composed Unicode, no invisible characters, limited length."""
    visible = "".join(_visible(character) for character in unicodedata.normalize("NFC", text[: 4 * limit]))
    return visible if len(visible) <= limit else visible[: limit - 1] + "…"


def _visible(character: str) -> str:
    if character.isprintable() or character in "\u200c\u200d":  # zero-width joiners, used in Persian and Indian names
        return character
    return " " if character.isspace() else "�"
