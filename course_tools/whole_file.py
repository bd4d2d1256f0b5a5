"""Write a file whole or not at all, and say in a sentence why the operating system refused something.

A file appears under its name only when all of it is on the disk: a reader never sees half a page, and if the disk is full, the
previous file remains.
"""

import contextlib
import errno
import os
from pathlib import Path

from course_tools.command_failed import CommandFailed


class CannotWrite(CommandFailed):
    """A file could not be written; an earlier one of its name remains."""


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a temporary file in the same folder, flush it to the disk, then move it to `path`.

    Args:
        path: the file to write; missing folders above it are created.
        text: its content; a `str` is encoded as UTF-8, with line ends unchanged.

    Raises:
        CannotWrite: the disk is full or the folder is not writable.
    """
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise CannotWrite(f"{path} could not be written: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Describe an error of the operating system, and what to do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full. Free some space and run the same command again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "permission denied. Change the permissions, or use another file or folder."
    return f"{error.strerror.lower()}." if error.strerror else str(error) or type(error).__name__
