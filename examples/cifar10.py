"""CIFAR-10: 60,000 small colour images of ten classes, from the network. No lecture needs it.

Krizhevsky 2009, *Learning Multiple Layers of Features from Tiny Images* (https://www.cs.toronto.edu/~kriz/cifar.html), the
binary version: each image is one byte for its label, then 32 × 32 bytes of red, of green and of blue. The checksum is
that of TensorFlow Datasets; it was copied from there, not computed from a download.
"""

import hashlib
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlparse

import torch

from course_lib.datasets import LabelledImages, Splits
from course_lib.datasets.mnist import cache_folder

ARCHIVE = (
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
_ROW = 1 + 3 * 32 * 32


def cifar10(n_valid: int = 5_000, *, archive: tuple[str, str] = ARCHIVE, folder: Path | None = None) -> Splits[LabelledImages]:
    """Download CIFAR-10 on the first call (170 MB), and read its images (0.7 GB as float32).

    Args:
        n_valid: number of public training images, the last ones, that are set aside for validation.
        archive: (address, SHA-256); replace it to use a mirror.
        folder: where the archive is kept; the user's cache folder if None.

    Returns:
        Splits of LabelledImages with images (n, 3, 32, 32); the test part is the public one.

    Raises:
        Unreachable: there is no network.
        ValueError: the archive is not the one expected, contains no such files, or has fewer training images than n_valid.
    """
    path = download(*archive, folder)
    images, labels = _pictures(path, "data_batch_")
    if not 0 <= n_valid <= len(images):
        raise ValueError(f"n_valid must be from 0 to {len(images)}, the number of training images, got {n_valid}.")
    n = len(images) - n_valid
    return Splits(LabelledImages(images[:n], labels[:n]), LabelledImages(images[n:], labels[n:]), _pictures(path, "test_batch"))


def _pictures(archive: Path, prefix: str) -> LabelledImages:
    """Read the members whose names begin with `prefix`, in the order of their names, without unpacking them to disk."""
    with tarfile.open(archive) as tar:
        members = {Path(member.name).name: file.read() for member in tar if (file := tar.extractfile(member))}
    content = b"".join(members[name] for name in sorted(members) if name.startswith(prefix))
    if not content or len(content) % _ROW:
        raise ValueError(f"{archive.name} has no images of 32 × 32 bytes in files {prefix}*.")
    rows = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(-1, _ROW)
    return LabelledImages(rows[:, 1:].reshape(-1, 3, 32, 32) / 255, rows[:, 0].long())


class Unreachable(ConnectionError):
    """The file could not be fetched: no network, no such host, or the server refused."""


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
        ValueError: the file has another checksum, or the address or the checksum is not of the right form.
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
            raise ValueError(
                f"{url} has SHA-256 {found}, expected {sha256}: the file was changed or damaged; nothing was kept."
            )
        Path(partial).replace(path)
    finally:
        Path(partial).unlink(missing_ok=True)
    return path


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
