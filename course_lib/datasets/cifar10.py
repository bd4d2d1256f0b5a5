"""CIFAR-10: 60,000 small colour images of ten classes, from the network. No lecture needs it.

Krizhevsky 2009, *Learning Multiple Layers of Features from Tiny Images* (https://www.cs.toronto.edu/~kriz/cifar.html), the
binary version: each image is one byte for its label, then 32 × 32 bytes of red, of green and of blue. The checksum is
that of TensorFlow Datasets; it was copied from there, not computed from a download.
"""

import tarfile
from pathlib import Path

import torch

from course_lib.datasets.download import download
from course_lib.datasets.pictures import LabelledImages
from course_lib.datasets.splits import Splits

__all__ = ["cifar10"]

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
        WrongChecksum: the archive is not the one expected.
        ValueError: the archive contains no such files, or there are fewer training images than n_valid.
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
