"""Download a file once, and verify its checksum. No lecture calls this."""

import hashlib
import os
import sys
import tempfile
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlparse

__all__ = ["Unreachable", "WrongChecksum", "cache_folder", "download"]


class Unreachable(ConnectionError):
    """The file could not be fetched: no network, no such host, or the server refused."""


class WrongChecksum(ValueError):
    """The downloaded file does not match the checksum; nothing was kept."""


def download(url: str, sha256: str, folder: Path | None = None, timeout: float = 30.0) -> Path:
    """Download a file, or find the copy of an earlier call.

    Args:
        url: http or https address.
        sha256: the file's SHA-256 as 64 hexadecimal digits; it is checked on every call, also for an existing file.
        folder: where the file is kept; `cache_folder()` if None. It is created if missing.
        timeout: seconds to wait for the server.

    Returns:
        the path of the checked file.

    Raises:
        Unreachable: the file cannot be fetched; one line says why, and that no lecture needs it.
        WrongChecksum: the file has another checksum.
        ValueError: the address or the checksum is not of the right form.
    """
    address = urlparse(url)
    name = Path(address.path).name
    if address.scheme not in ("http", "https") or not name:
        raise ValueError(f"{url!r} is not the http(s) address of a file.")
    sha256 = sha256.lower()
    if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
        raise ValueError(f"a SHA-256 has 64 hexadecimal digits, got {sha256!r}.")
    folder = cache_folder() if folder is None else folder
    path = folder / f"{sha256[:12]}-{name}"
    if path.is_file() and _sha256(path) == sha256:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=folder, suffix=".part")
    os.close(handle)
    try:
        found = _fetch(url, Path(partial), timeout)
        if found != sha256:
            raise WrongChecksum(
                f"{url} has SHA-256 {found}, expected {sha256}: the file was changed or damaged; nothing was kept."
            )
        Path(partial).replace(path)
    finally:
        Path(partial).unlink(missing_ok=True)
    return path


def cache_folder() -> Path:
    """Return the user's cache folder for the course; the variable ATTENTION_COURSE_CACHE overrides it."""
    if chosen := os.environ.get("ATTENTION_COURSE_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "attention-course"


def _fetch(url: str, path: Path, timeout: float) -> str:
    """Download an address to a path, and return the SHA-256 of the content."""
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer, path.open("wb") as file:
            while chunk := answer.read(1 << 16):
                digest.update(chunk)
                file.write(chunk)
            promised = answer.headers.get("Content-Length")
            if promised and int(promised) != file.tell():
                raise ConnectionError(f"the connection broke after {file.tell()} of {promised} bytes")
    except (urllib.error.URLError, TimeoutError, ConnectionError, HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise Unreachable(f"cannot fetch {url} ({error}); it needs a network, and no lecture needs it.") from error
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
