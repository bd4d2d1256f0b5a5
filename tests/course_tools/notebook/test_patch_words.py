"""Images are counted by their patches, whatever the order of these, and a linear classifier of the counts is tested."""

import torch

from course_lib.primitives import patchify, unpatchify
from course_tools.lectures.lecture_13.experiments import PatchWords, accuracy_by_counts


def _strokes(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw n images (n, 1, 8, 8) of 16 patches of 2 × 2: three have a vertical (class 0) or a horizontal stroke (class 1)."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 2
    stroke = torch.tensor([[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]])[labels]
    patches = torch.zeros(n, 16, 4)
    for image in range(n):
        patches[image, torch.randperm(16, generator=generator)[:3]] = stroke[image]
    return unpatchify(patches, 2, 8, 8), labels


def test_counts_by_hand_do_not_depend_on_the_order():
    images, labels = _strokes(40, seed=0)
    words = PatchWords(images, 2, n_words=2)
    counts = words.counts(images)
    assert counts.shape == (40, 3)
    assert counts[:, 2].tolist() == [13] * 40, "the empty patch is the last word"
    assert counts[:, :2].sort(-1).values.tolist() == [[0, 3]] * 40
    assert len(counts[labels == 0].unique(dim=0)) == len(counts[labels == 1].unique(dim=0)) == 1
    moved = unpatchify(patchify(images, 2)[:, torch.randperm(16)], 2, 8, 8)
    assert torch.equal(words.counts(moved), counts)


def test_classes_that_differ_in_their_patches_are_told_apart_and_others_are_not():
    known, new = _strokes(60, seed=1), _strokes(30, seed=2)
    assert accuracy_by_counts(known, new, 2, n_words=2) == 1.0
    assert accuracy_by_counts(known, (new[0], 1 - new[1]), 2, n_words=2) == 0.0
