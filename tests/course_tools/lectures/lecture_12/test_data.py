"""Digits in clutter: boxes and masks are those of the digits alone, and clutter only adds ink."""

import pytest
import torch

from course_lib.datasets import LabelledImages, digits
from course_lib.datasets.digit_scenes import ink_edges
from course_lib.primitives import to_corners
from course_tools.lectures.lecture_12.data import cluttered_scenes

H, W = 29, 37


@pytest.fixture(scope="module")
def pictures():
    images, labels = digits()
    return LabelledImages(images[:300, None], labels[:300])


@pytest.fixture(scope="module")
def bare(pictures):
    return cluttered_scenes(pictures, 50, seed=0, size=(H, W), n_objects=(0, 3), n_pieces=0)


@pytest.fixture(scope="module")
def scenes(pictures):
    return cluttered_scenes(pictures, 50, seed=0, size=(H, W), n_objects=(0, 3))


def test_without_pieces_the_masks_are_the_dark_ink_of_one_digit_each(bare):
    assert torch.equal(bare.masks.any(1), bare.images[:, 0] >= 0.5)
    assert bare.masks.sum(1).max() == 1


def test_a_mask_lies_in_its_box_which_holds_the_ink_of_one_digit(pictures, bare):
    known = {}
    for image, label, (x_1, y_1, x_2, y_2) in zip(*pictures, ink_edges(pictures.images).tolist(), strict=True):
        known[image[0, y_1:y_2, x_1:x_2].numpy().tobytes()] = label.item()
    corners = (to_corners(bare.boxes) * torch.tensor([W, H, W, H])).round().int()
    for b, m in (bare.classes >= 0).nonzero().tolist():
        x_1, y_1, x_2, y_2 = corners[b, m].tolist()
        ink = bare.images[b, 0, y_1:y_2, x_1:x_2].contiguous()
        assert known[ink.numpy().tobytes()] == bare.classes[b, m]
        outside = bare.masks[b, m].clone()
        outside[y_1:y_2, x_1:x_2] = False
        assert bare.masks[b, m].any()
        assert not outside.any()


def test_pieces_change_neither_objects_nor_masks_and_add_ink(bare, scenes):
    """The negative control of `ink in the box`: with pieces, the dark ink of a box is more than the mask."""
    assert all(torch.equal(one, other) for one, other in zip(bare[1:], scenes[1:], strict=True))
    assert (scenes.images >= bare.images).all()
    dark = scenes.images >= 0.5
    assert 0.1 < dark.float().mean() < 0.4
    assert (dark & ~scenes.masks.any(1, keepdim=True)).flatten(1).any(1).all()


def test_every_piece_is_cut_out_of_a_picture():
    """A picture whose pixels all differ: what is on an empty scene is one window of it."""
    image = torch.arange(1, 36).view(1, 1, 5, 7) / 35
    pictures = LabelledImages(image, torch.tensor([4]))
    scenes = cluttered_scenes(pictures, 20, seed=3, size=(11, 13), n_objects=(0, 0), n_pieces=1, side=3)
    windows = {window.contiguous().numpy().tobytes() for window in image[0, 0].unfold(0, 3, 1).unfold(1, 3, 1).flatten(0, 1)}
    for canvas, (x_1, y_1, x_2, y_2) in zip(scenes.images[:, 0], ink_edges(scenes.images).tolist(), strict=True):
        assert canvas[y_1:y_2, x_1:x_2].contiguous().numpy().tobytes() in windows
        assert canvas.count_nonzero() == 9
    assert scenes.classes.shape == (20, 0)


def test_where_no_object_is_there_is_no_mask(scenes):
    assert (scenes.classes >= 0).sum(1).unique().tolist() == [0, 1, 2, 3]
    assert torch.equal(scenes.masks.flatten(2).any(-1), scenes.classes >= 0)


def test_a_seed_decides_everything(pictures, scenes):
    again = cluttered_scenes(pictures, 50, seed=0, size=(H, W), n_objects=(0, 3))
    assert all(torch.equal(a, b) for a, b in zip(again, scenes, strict=True))
    assert not torch.equal(cluttered_scenes(pictures, 50, seed=1, size=(H, W), n_objects=(0, 3)).images, scenes.images)


@pytest.mark.parametrize("wrong", [{"n_pieces": -1}, {"side": 0}, {"side": 9}, {"side": 6, "size": (5, 40)}])
def test_what_cannot_be_cut_is_refused(pictures, wrong):
    with pytest.raises(ValueError, match="pieces from one pixel"):
        cluttered_scenes(pictures, 5, seed=0, **wrong)


def test_pictures_with_several_colours_are_refused(pictures):
    with pytest.raises(ValueError, match="3 channels"):
        cluttered_scenes(LabelledImages(pictures.images.repeat(1, 3, 1, 1), pictures.labels), 5, seed=0)
