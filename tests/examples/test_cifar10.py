"""CIFAR-10 from an archive made here: labels, channels and parts are right, and an archive that does not fit is refused."""

import hashlib
import io
import tarfile

import pytest
import torch

from examples.cifar10 import Unreachable, cifar10

URL = "https://example.org/cifar-10-binary.tar.gz"


def pictures(first, n):
    """Rows of n images: the label is first + i, red is all 10 · label, green 1 and blue 255."""
    return b"".join(bytes([k]) + bytes([10 * k]) * 1024 + b"\1" * 1024 + b"\xff" * 1024 for k in range(first, first + n))


def archive(folder, **files):
    """Put an archive where an earlier call would have kept it, so that nothing is downloaded."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
    (folder / f"{sha256[:12]}-cifar-10-binary.tar.gz").write_bytes(buffer.getvalue())
    return URL, sha256


def test_labels_channels_and_parts_come_out_in_their_places(tmp_path):
    made = archive(tmp_path, data_batch_2=pictures(3, 2), data_batch_1=pictures(0, 3), test_batch=pictures(7, 2))
    parts = cifar10(1, archive=made, folder=tmp_path)
    assert [part.labels.tolist() for part in (parts.train, parts.valid, parts.test)] == [[0, 1, 2, 3], [4], [7, 8]]
    assert parts.train.images.shape == (4, 3, 32, 32)
    expected = torch.tensor([80 / 255, 1 / 255, 1.0])
    assert torch.equal(parts.test.images[1], expected[:, None, None].expand(3, 32, 32))


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(ValueError, match="n_valid must be from 0 to 3"):
        cifar10(4, archive=archive(tmp_path, data_batch_1=pictures(0, 3), test_batch=pictures(0, 1)), folder=tmp_path)
    with pytest.raises(ValueError, match=r"has no images of 32 × 32 bytes in files test_batch\*"):
        cifar10(0, archive=archive(tmp_path, data_batch_1=pictures(0, 3)), folder=tmp_path)
    with pytest.raises(ValueError, match=r"in files data_batch_\*"):
        cifar10(0, archive=archive(tmp_path, data_batch_1=pictures(0, 3)[:-1]), folder=tmp_path)


def test_without_a_network_it_says_so_in_one_line(tmp_path):
    with pytest.raises(Unreachable, match="no lecture needs it") as caught:
        cifar10(archive=("http://127.0.0.1:9/cifar.tar.gz", "0" * 64), folder=tmp_path)
    assert "\n" not in str(caught.value)
