"""Files of a folder or a zip, read one by one as untrusted input.

Nothing is unpacked to the disk: a member of a zip is read into memory on demand, one at a time and within the limits. These
hold for each student's zip by itself, and count what was really unpacked, so that no student's zip uses up what another's
needs. Links, devices and pipes are not followed. The path of a member is only shown and used to recognise the student; no file
is opened by it.
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

from course_tools.grading.files import CannotGrade, shown
from course_tools.whole_file import reason

_NO_ONES = re.compile(r"^(?:__MACOSX|Thumbs\.db|desktop\.ini|\..*)$", re.IGNORECASE)
_DEPTH = 12
_TOO_DEEP = "is nested too deeply; skipped."
_BROKEN = (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError)
_END_OF_DIRECTORY = b"PK\x05\x06"


class Limits(NamedTuple):
    """Limits: bytes of one file and of the index of the download; files in a student's zip, and bytes unpacked from it."""

    file: int = 64 << 20
    index: int = 32 << 20
    members: int = 1000
    unpacked: int = 512 << 20


class Refused(ValueError):
    """A file is rejected; the message, which follows its name, says why."""


@dataclass(frozen=True)
class Entry:
    """One file: the parts of its path, as shown, and a function that reads it.

    `read` raises Refused if the file is too large or has been replaced, and OSError if it cannot be read. `inside` is the
    number of trailing parts that lie inside a nested zip.
    """

    parts: tuple[str, ...]
    read: Callable[[], bytes]
    inside: int = 0

    @property
    def source(self) -> str:
        """Its path as shown to the instructor."""
        return "/".join(self.parts)


class NotTaken(NamedTuple):
    """A rejected file: its path, the reason, and how many trailing parts lie inside a student's zip."""

    parts: tuple[str, ...]
    reason: str
    inside: int = 0


class Archive:
    """The entries of a folder or zip, and a line for each rejected one. Close it, or use it in a `with`."""

    def __init__(self, path: Path, skip: Path | None = None, limits: Limits = Limits()) -> None:  # noqa: B008 - immutable
        """List the files.

        Args:
            path: the folder or zip.
            skip: a folder within it that is ignored, such as that of the results.
            limits: the largest numbers and sizes accepted.

        Raises:
            CannotGrade: the path does not exist, or it is neither a folder nor a zip.
        """
        self._limits, self._open = limits, ExitStack()
        self.refused: list[NotTaken] = []
        self.entries: list[Entry] = []
        try:
            self._fill(path, skip)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Archive":
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close every open zip."""
        self.close()

    def close(self) -> None:
        """Close every open zip."""
        self._open.close()

    def _fill(self, path: Path, skip: Path | None) -> None:
        if path.is_dir():
            found = self._folder(path, (), skip.resolve() if skip else None)
        elif path.is_file():
            try:
                archive = self._open.enter_context(self._zip(path, self._limits.index))
                found = self._members(archive, (), lambda info: self._member(archive, info))
            except Refused as error:
                raise CannotGrade(f"{path} {error}") from error
            except _BROKEN as error:
                raise CannotGrade(f"{path} is not a readable zip: {error}. Download it again.") from error
        else:
            raise CannotGrade(f"there is no folder or zip {path}.")
        for entry in found:
            self.entries += self._of_student(entry) if entry.parts[-1].lower().endswith(".zip") else [entry]
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
                    self.refused.append(NotTaken(parts, _TOO_DEEP))
                elif skip is None or path.resolve() != skip:
                    yield from self._folder(path, parts, skip)
            elif item.is_file():
                yield Entry(parts, lambda path=path: self._file(path))
            else:
                self.refused.append(NotTaken(parts, "is not a regular file; skipped."))

    def _file(self, path: Path) -> bytes:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Refused("is no longer a regular file.")
            return self._bounded(file)

    def _of_student(self, entry: Entry) -> list[Entry]:
        """The members of a student's zip; if it cannot be opened, none, and a line that says so."""
        unpacked = 0

        def read(info: zipfile.ZipInfo) -> bytes:
            nonlocal unpacked
            if unpacked > self._limits.unpacked:
                raise Refused(f"is in a zip of which {self._limits.unpacked >> 20} MB have been unpacked; skipped.")
            with self._zip(io.BytesIO(entry.read()), self._limits.index >> 5) as archive:
                data = self._member(archive, info)
            unpacked += len(data)
            return data

        try:
            with self._zip(io.BytesIO(entry.read()), self._limits.index >> 5) as archive:
                if len(archive.infolist()) > self._limits.members:
                    raise Refused(f"contains more than {self._limits.members} files: ask the student for the notebook alone.")
                return self._members(archive, entry.parts, read)
        except Refused as error:
            self.refused.append(NotTaken(entry.parts, str(error)))
        except Exception as error:  # a zip can be broken in ways that have no common base class
            self.refused.append(NotTaken(entry.parts, f"is not a readable zip: {shown(str(error))}."))
        return []

    def _zip(self, file: Path | io.BytesIO, largest_index: int) -> zipfile.ZipFile:
        if _index_size(file) > largest_index:
            raise Refused("is a zip with too large an index; skipped.")
        return zipfile.ZipFile(file)

    def _members(
        self, archive: zipfile.ZipFile, above: tuple[str, ...], read: Callable[[zipfile.ZipInfo], bytes]
    ) -> list[Entry]:
        found = []
        for info in archive.infolist():
            inside = _parts(info.filename)
            if info.is_dir() or any(map(_NO_ONES.match, inside)):
                continue
            deep, inside = len(inside) > _DEPTH, inside[:_DEPTH]  # the first part is the student's own name
            parts, n_inside = (*above, *inside), len(inside) if above else 0
            if deep:
                self.refused.append(NotTaken(parts, _TOO_DEEP, n_inside))
            elif above and parts[-1].lower().endswith(".zip"):
                self.refused.append(NotTaken(parts, "is a zip within a zip; skipped.", n_inside))
            elif why := self._suspicion(info):
                self.refused.append(NotTaken(parts, why, n_inside))
            else:
                found.append(Entry(parts, lambda info=info: read(info), n_inside))
        return found

    def _suspicion(self, info: zipfile.ZipInfo) -> str | None:
        if stat.S_ISLNK(info.external_attr >> 16):
            return "is a link: links are not followed."
        if info.flag_bits & 1:
            return "is encrypted; ask the student for a copy without a password."
        if info.file_size > self._limits.file:
            return f"is larger than {self._limits.file >> 20} MB; skipped."
        return None

    def _member(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
        try:
            with archive.open(info) as file:
                return self._bounded(file)
        except Refused:
            raise
        except Exception as error:  # zlib.error, lzma.LZMAError and others have no common base class
            raise Refused(f"cannot be unpacked: {shown(str(error)) or type(error).__name__}.") from error

    def _bounded(self, file: io.BufferedIOBase) -> bytes:
        data = file.read(self._limits.file + 1)
        if len(data) > self._limits.file:
            raise Refused(f"is larger than {self._limits.file >> 20} MB; skipped.")
        return data


def _parts(name: str) -> tuple[str, ...]:
    """Split a name in a zip into its parts, without those that lead to a parent folder or a root."""
    return tuple(shown(part) for part in re.split(r"[/\\]", name) if part not in ("", ".", "..")) or ("unnamed",)


def _index_size(file: Path | io.BytesIO) -> int:
    """The stated size of the index of a zip, in bytes, which Python reads at once."""
    with file.open("rb") if isinstance(file, Path) else io.BytesIO(file.getbuffer()) as stream:
        length = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, length - (1 << 16) - 22))
        tail = stream.read()
    at = tail.rfind(_END_OF_DIRECTORY)
    size = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    return length if size == 0xFFFFFFFF else size  # a zip64 states the size elsewhere; it is at most that of the file
