"""The journal of a grading: one line for each finished notebook, flushed to the disk before the next one starts.

A line holds the key of the notebook and its result. The key is a hash of the notebook's bytes, the version of the checks and
the seed: a notebook is not graded twice by the same checks, but it is graded again by another version. A line that is
incomplete because the process was killed or the disk was full is ignored, and its notebook is graded again.
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
from course_tools.grading.files import CannotGrade
from course_tools.grading.notebook_result import NotebookResult
from course_tools.whole_file import reason


class Journal:
    """The recorded results by key. Use it in a `with`; it locks its folder against a second grading."""

    def __init__(self, path: Path) -> None:
        """Open the journal, or create it.

        Raises:
            CannotGrade: it cannot be read or written, or another grading uses it.
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
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it, which releases the lock."""
        self._file.close()

    def get(self, key: str) -> NotebookResult | None:
        """Return the result of a notebook, or None if it has not been graded."""
        return self._results.get(key)

    def add(self, key: str, result: NotebookResult) -> None:
        """Record a result and flush it to the disk.

        Raises:
            CannotGrade: it cannot be written, for example because the disk is full. Earlier results are kept.
        """
        line = json.dumps({"key": key, "result": result.to_json()}, ensure_ascii=True)
        try:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.close()
            raise CannotGrade(f"{self._path} could not be written: {reason(error)} Finished results are kept.") from error
        self._results[key] = result

    def put_in_order(self, keys: Sequence[str]) -> None:
        """Sort the lines of a finished grading into the order of its notebooks, after those of earlier gradings.

        The journal is then independent of the number of parallel processes and of the machines.

        Raises:
            CannotGrade: it cannot be written; no result is lost.
        """
        self._file.seek(0)
        before = self._file.read()
        lines = {key: line for line in before.splitlines(keepends=True) if (key := _key_in(line)) in self._results}
        own = [lines.pop(key) for key in dict.fromkeys(keys) if key in lines]
        after = b"".join([*lines.values(), *own])
        if after == before or sys.platform == "win32":  # Windows cannot replace an open file
            return
        part = self._path.with_name(f".{self._path.name}.part")
        try:
            file = part.open("w+b")
            _lock(file, part)  # keep the folder locked without a gap
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
            part.replace(self._path)
        except OSError as error:
            raise CannotGrade(f"{self._path} could not be written: {reason(error)} Finished results are kept.") from error
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
    """Return the version of the checks: a hash of the library, the built notebooks, Python, torch and the seed."""
    digest = hashlib.sha256(f"{seed} {sys.version_info[:2]} {metadata.version('torch')}".encode())
    packages = [Path(package.__file__).parent for package in (course_lib, course_tools)]
    sources = sorted(path for package in packages for path in package.rglob("*.py"))
    for path in [*sources, *sorted((root / "lectures").glob("*.ipynb"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def key(data: bytes, version: str, *asked: str | None) -> str:
    """Return the key of a notebook: a hash of its bytes, the version of the checks, and whatever else determines its result."""
    digest = hashlib.sha256(json.dumps([version, *asked]).encode() + b"\0")
    digest.update(data)
    return digest.hexdigest()


def _lock(file: BinaryIO, path: Path) -> None:
    with contextlib.suppress(ImportError):  # on Windows the file system excludes a second writer
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotGrade(f"another grading is running in {path.parent}: wait for it, or choose another --out.") from None
        except OSError:
            return  # some file systems cannot lock
