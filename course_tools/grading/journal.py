"""The journal of a grading: one line for each notebook that is done, on the disk before the next is begun.

A line holds the key of the notebook and its result. The key is a hash of the notebook's bytes, of the version of the checks and
of the seed: the same notebook under the same checks is never graded twice, and another version of the checks begins afresh. A
line that was broken off by a kill or a full disk is passed over, and its notebook graded again.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

import course_lib
import course_tools
from course_tools.grading.files import CannotGrade, reason
from course_tools.grading.notebook_result import NotebookResult


class Journal:
    """The results of a folder of results, by key. Use it in a `with`; a second grading into the same folder is refused."""

    def __init__(self, path: Path) -> None:
        """Open the journal, or begin it.

        Raises:
            CannotGrade: it may not be read or written, or another grading is at work on it.
        """
        self._path = path
        try:
            self._file = path.open("a+b")
        except OSError as error:
            raise CannotGrade(f"{path} cannot be opened: {reason(error)}") from error
        try:
            _lock(self._file, path)
            self._results = self._read()
        except OSError as error:
            self._file.close()
            raise CannotGrade(f"{path} cannot be read: {reason(error)}") from error
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Journal":
        """Give itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it, and so let the next grading in."""
        self._file.close()

    def get(self, key: str) -> NotebookResult | None:
        """Give the result of a notebook that is done."""
        return self._results.get(key)

    def add(self, key: str, result: NotebookResult) -> None:
        """Note a result and bring it to the disk.

        Raises:
            CannotGrade: the disk is full, or the like. What was noted before stays.
        """
        line = json.dumps({"key": key, "result": result.to_json()}, ensure_ascii=True)
        try:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.close()
            raise CannotGrade(f"{self._path} could not be written: {reason(error)}") from error
        self._results[key] = result

    def put_in_order(self, keys: Sequence[str]) -> None:
        """Put the lines of a grading that has ended in the order of its notebooks, after those of earlier gradings.

        So the journal does not depend on how many notebooks were graded at a time, nor on which machines.

        Raises:
            CannotGrade: it could not be written; nothing is lost.
        """
        self._file.seek(0)
        before = self._file.read()
        lines = {key: line for line in before.splitlines(keepends=True) if (key := _key_in(line)) in self._results}
        own = [lines.pop(key) for key in dict.fromkeys(keys) if key in lines]
        after = b"".join([*lines.values(), *own])
        if after == before or sys.platform == "win32":  # Windows replaces no file that is open
            return
        part = self._path.with_name(f".{self._path.name}.part")
        try:
            file = part.open("w+b")
            _lock(file, part)  # the lock goes on without a gap
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
            part.replace(self._path)
        except OSError as error:
            raise CannotGrade(f"{self._path} could not be written: {reason(error)}") from error
        self._file.close()
        self._file = file

    def _read(self) -> dict[str, NotebookResult]:
        self._file.seek(0)
        results, last = {}, b"\n"
        for last in self._file:
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                entry = json.loads(last)
                results[entry["key"]] = NotebookResult.from_json(entry["result"])
        if not last.endswith(b"\n"):
            self._file.write(b"\n")
        return results


def _key_in(line: bytes) -> str | None:
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return json.loads(line)["key"]
    return None


def grading_version(seed: int | None, root: Path) -> str:
    """Name the version of the checks: a hash of the library, the built notebooks, Python, torch and the seed."""
    digest = hashlib.sha256(f"{seed} {sys.version_info[:2]} {metadata.version('torch')}".encode())
    packages = [Path(package.__file__).parent for package in (course_lib, course_tools)]
    sources = sorted(path for package in packages for path in package.rglob("*.py"))
    for path in [*sources, *sorted((root / "lectures").glob("*.ipynb"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def key(data: bytes, version: str, *asked: str | None) -> str:
    """Name a notebook under a version of the checks, and under what else decides its result."""
    digest = hashlib.sha256(json.dumps([version, *asked]).encode() + b"\0")
    digest.update(data)
    return digest.hexdigest()


def _lock(file: BinaryIO, path: Path) -> None:
    with contextlib.suppress(ImportError):  # on Windows the file system itself keeps two writers apart
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotGrade(f"another grading is at work in {path.parent}: wait for it, or choose another --out.") from None
        except OSError:
            return  # some file systems cannot lock
