"""The parameters of the published models of vision, counted from their sizes and by building them without memory."""

import pytest
import torch

from course_lib.blocks import MixerSizes, Sizes
from course_lib.metrics import (
    MIXER_BASE,
    MIXER_HUGE,
    MIXER_LARGE,
    MIXER_SMALL,
    VIT_BASE,
    VIT_HUGE,
    VIT_LARGE,
    mixer_parameters,
    vit_parameters,
)
from course_lib.models import DeiT, Mixer, ViT


def vit(sizes, P, n_classes, side=224):
    return vit_parameters(sizes.d_model, sizes.d_ff, sizes.n_layers, (side // P) ** 2, 3 * P * P, n_classes)


def mixer(sizes, P, n_classes, side=224):
    return mixer_parameters(*sizes, (side // P) ** 2, 3 * P * P, n_classes)


@pytest.mark.parametrize(("sizes", "P", "published"), [(VIT_BASE, 16, 86e6), (VIT_LARGE, 16, 307e6), (VIT_HUGE, 14, 632e6)])
@pytest.mark.parametrize("n_classes", [0, 1000])
def test_the_published_counts_of_vit(sizes, P, published, n_classes):
    """Dosovitskiy et al. 2021, table 1; Large is counted 1.2 % short of it, with a head 0.9 %."""
    assert vit(sizes, P, n_classes) == pytest.approx(published, rel=0.013)


def test_vit_base_to_the_last_one():
    """The number of timm's and Hugging Face's ViT-B/16 for the 1000 classes of ImageNet."""
    assert vit(VIT_BASE, 16, 1000) == 86_567_656


@pytest.mark.parametrize(
    ("sizes", "P", "millions"),
    [
        (MIXER_SMALL, 32, 19),
        (MIXER_SMALL, 16, 18),
        (MIXER_BASE, 32, 60),
        (MIXER_BASE, 16, 59),
        (MIXER_LARGE, 32, 206),
        (MIXER_LARGE, 16, 207),
        (MIXER_HUGE, 14, 431),
    ],
)
def test_the_published_counts_of_mixer(sizes, P, millions):
    """Tolstikhin et al. 2021, table 1: all seven, to the million, without a head."""
    assert round(mixer(sizes, P, 0) / 1e6) == millions


def count(make):
    with torch.device("meta"):
        return sum(p.numel() for p in make().parameters())


def test_they_are_those_of_the_models():
    sizes, image, P = Sizes(d_model=6, n_heads=3, d_ff=11, n_layers=2), (3, 10, 15), 5
    assert count(lambda: ViT(7, image, P, sizes)) == vit_parameters(6, 11, 2, 6, 75, 7)
    assert count(lambda: DeiT(7, image, P, sizes)) == vit_parameters(6, 11, 2, 6, 75, 7, 2)
    assert count(lambda: Mixer(7, image, P, MixerSizes(11, 13, 17, 2))) == mixer_parameters(11, 13, 17, 2, 6, 75, 7)


def test_the_large_models_are_built_without_memory():
    assert count(lambda: ViT(1000, (3, 224, 224), 16, VIT_LARGE)) == vit(VIT_LARGE, 16, 1000)
    assert count(lambda: Mixer(1000, (3, 224, 224), 16, MIXER_BASE)) == mixer(MIXER_BASE, 16, 1000)
