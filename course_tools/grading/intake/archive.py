"""Files of a folder or a zip, read one by one as untrusted input.

Nothing is ever unpacked to the disk: a member of a zip is read into memory when it is asked for, one at a time and never more
than the limits allow. Links, devices and pipes are not followed. A path is a name to show and to recognise a student by, and no
file is opened by it.
"""

import io
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from course_tools.grading.files import CannotGrade, reason, shown

_NO_ONES = re.compile(r"^(?:__MACOSX|Thumbs\.db|desktop\.ini|\..*)$", re.IGNORECASE)
_DEPTH = 12
_BROKEN = (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError)
_END_OF_DIRECTORY = b"PK\x05\x06"


class Limits(NamedTuple):
    """How much is taken in: files, bytes of one file, bytes of all, unpacked bytes for each packed one, bytes of an index."""

    files: int = 20_000
    file: int = 64 << 20
    total: int = 16 << 30
    ratio: int = 200
    index: int = 32 << 20


class Refused(ValueError):
    """A file is not taken in; the text says why, in words that stand after its name."""


@dataclass(frozen=True)
class Entry:
    """One file: the parts of its path, as they are shown, and how to read it.

    `read` raises Refused where the file is more than it may be, or no longer what it was, and OSError where the system will
    not give it. `inside` counts the last parts that lie inside a zip which itself lies in what was handed in.
    """

    parts: tuple[str, ...]
    read: Callable[[], bytes]
    inside: int = 0

    @property
    def source(self) -> str:
        """Its path as the instructor finds it."""
        return "/".join(self.parts)


class NotTaken(NamedTuple):
    """A file that was refused: its path, why, and how many of its last parts lie inside a student's own zip."""

    parts: tuple[str, ...]
    reason: str
    inside: int = 0


class Archive:
    """The entries of a folder or zip, and a line for each one that was refused. Close it, or use it in a `with`."""

    def __init__(self, path: Path, skip: Path | None = None, limits: Limits = Limits()) -> None:  # noqa: B008 - immutable
        """List what is there.

        Args:
            path: the folder or zip.
            skip: a folder within it that is left out, such as the one the results go to.
            limits: how much is taken in.

        Raises:
            CannotGrade: there is nothing of this name, it is neither a folder nor a zip, or it holds too many files.
        """
        self._limits, self._open, self._taken = limits, ExitStack(), 0
        self.refused: list[NotTaken] = []
        self.entries: list[Entry] = []
        try:
            self._fill(path, skip)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Archive":
        """Give itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close every zip that is open."""
        self._open.close()

    def _fill(self, path: Path, skip: Path | None) -> None:
        if path.is_dir():
            found = self._folder(path, (), skip.resolve() if skip else None)
        elif path.is_file():
            try:
                found = list(self._members(path, ()))
            except Refused as error:
                raise CannotGrade(f"{path} {error}") from error
            except _BROKEN as error:
                raise CannotGrade(f"{path} is no zip that can be read: {error}. Download it again.") from error
        else:
            raise CannotGrade(f"there is no folder or zip {path}.")
        for entry in found:
            self.entries += self._opened(entry) if entry.parts[-1].lower().endswith(".zip") else [entry]
            if len(self.entries) > self._limits.files:
                raise CannotGrade(f"{path} holds more than {self._limits.files} files: grade a part of it at a time.")
        self.entries.sort(key=lambda entry: entry.parts)

    def _folder(self, folder: Path, above: tuple[str, ...], skip: Path | None) -> Iterator[Entry]:
        try:
            listed = sorted(os.scandir(folder), key=lambda item: item.name)
        except OSError as error:
            if not above:
                raise CannotGrade(f"the folder {folder} cannot be listed: {reason(error)}") from error
            self.refused.append(NotTaken(above, f"cannot be listed: {reason(error)}"))
            return
        for item in listed:
            parts, path = (*above, shown(item.name)), Path(item.path)
            if _NO_ONES.match(item.name):
                continue
            if item.is_symlink():
                self.refused.append(NotTaken(parts, "is a link: links are not followed."))
            elif item.is_dir():
                if len(parts) > _DEPTH:
                    self.refused.append(NotTaken(parts, "lies too deep: it was not looked into."))
                elif skip is None or path.resolve() != skip:
                    yield from self._folder(path, parts, skip)
            elif item.is_file():
                yield Entry(parts, lambda path=path: self._file(path))
            else:
                self.refused.append(NotTaken(parts, "is no ordinary file: it was not opened."))

    def _file(self, path: Path) -> bytes:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Refused("is no ordinary file any more.")
            return self._bounded(file)

    def _opened(self, entry: Entry) -> list[Entry]:
        """The members of a zip that a student handed in; where it cannot be opened, none and a line that says so."""
        try:
            return list(self._members(io.BytesIO(entry.read()), entry.parts))
        except Refused as error:
            self.refused.append(NotTaken(entry.parts, str(error)))
        except _BROKEN as error:
            self.refused.append(NotTaken(entry.parts, f"is no zip that can be read: {shown(str(error))}."))
        return []

    def _members(self, file: Path | io.BytesIO, above: tuple[str, ...]) -> Iterator[Entry]:
        size = _index_size(file)
        if size > self._limits.index >> (5 if above else 0):
            raise Refused("is a zip with an index larger than a class has files: it was not opened.")
        archive = self._open.enter_context(zipfile.ZipFile(file))
        for info in archive.infolist():
            parts = (*above, *_parts(info.filename))
            if info.is_dir() or any(map(_NO_ONES.match, parts[len(above) :])):
                continue
            inside = len(parts) - len(above) if above else 0
            if above and parts[-1].lower().endswith(".zip"):
                self.refused.append(NotTaken(parts, "is a zip in a zip: it was not opened.", inside))
            elif why := self._suspicion(info):
                self.refused.append(NotTaken(parts, why, inside))
            else:
                self._taken += info.file_size
                yield Entry(parts, lambda info=info: self._member(archive, info), inside)

    def _suspicion(self, info: zipfile.ZipInfo) -> str | None:
        if stat.S_ISLNK(info.external_attr >> 16):
            return "is a link: links are not followed."
        if info.flag_bits & 1:
            return "is encrypted: ask for it without a password."
        if info.file_size > self._limits.file:
            return f"is larger than {self._limits.file >> 20} MB: it was not unpacked."
        if info.file_size > 1 << 20 and info.file_size > self._limits.ratio * max(info.compress_size, 1):
            return f"grows more than {self._limits.ratio}-fold when it is unpacked: it was left packed."
        if self._taken + info.file_size > self._limits.total:
            return f"comes after the first {self._limits.total >> 30} GB: it was not unpacked."
        return None

    def _member(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
        try:
            with archive.open(info) as file:
                return self._bounded(file)
        except Refused:
            raise
        except _BROKEN as error:
            raise Refused(f"cannot be unpacked: {shown(str(error))}.") from error
        except Exception as error:  # zlib.error, lzma.LZMAError and their like are no relatives of each other
            raise Refused(f"cannot be unpacked ({type(error).__name__}).") from error

    def _bounded(self, file: io.BufferedIOBase) -> bytes:
        data = file.read(self._limits.file + 1)
        if len(data) > self._limits.file:
            raise Refused(f"is larger than {self._limits.file >> 20} MB: it was not read.")
        return data


def _parts(name: str) -> tuple[str, ...]:
    """Cut a name in a zip into its parts; what would lead upwards or to a root is left out."""
    parts = tuple(shown(part) for part in re.split(r"[/\\]", name) if part not in ("", ".", ".."))
    return parts[-_DEPTH:] or ("unnamed",)


def _index_size(file: Path | io.BytesIO) -> int:
    """How many bytes the index of a zip says it has: what Python would read at once."""
    with file.open("rb") if isinstance(file, Path) else io.BytesIO(file.getbuffer()) as stream:
        length = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, length - (1 << 16) - 22))
        tail = stream.read()
    at = tail.rfind(_END_OF_DIRECTORY)
    size = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    return length if size == 0xFFFFFFFF else size  # a zip64 says it elsewhere; it is no larger than the whole
