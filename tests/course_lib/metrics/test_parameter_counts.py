"""The parameters of the published models, counted from their sizes and by building them without memory."""

import pytest
import torch

from course_lib.blocks import MixerSizes, Sizes
from course_lib.metrics import (
    GPT_1,
    GPT_2,
    GPT_3,
    MIXER_BASE,
    MIXER_HUGE,
    MIXER_LARGE,
    MIXER_SMALL,
    gpt_parameters,
    mixer_parameters,
    training_operations,
)
from course_lib.models import BERT, GPT, DeiT, Mixer, ViT

IMAGE = (3, 224, 224)


def built(make):
    """Count the parameters of a model on the device "meta", where nothing is allocated."""
    with torch.device("meta"):
        return sum(p.numel() for p in make().parameters())


def gpt(sizes, n_tokens, T_max):
    assert sizes.d_ff == 4 * sizes.d_model
    return gpt_parameters(n_tokens, T_max, sizes.d_model, sizes.n_layers)


def mixer(sizes, P, n_classes, side=224):
    return mixer_parameters(*sizes, (side // P) ** 2, 3 * P * P, n_classes)


def test_the_published_counts_of_gpt():
    """Each paper's own number, which it rounds."""
    assert gpt(GPT_1, 40_478, 512) == pytest.approx(117e6, rel=0.005)
    assert gpt(GPT_2, 50_257, 1024) == 1_557_611_200
    assert gpt(GPT_3, 50_257, 2048) == pytest.approx(175e9, rel=0.005)


def test_gpt1_has_no_norm_at_the_end():
    assert gpt_parameters(40_478, 512, 768, 12, n_norms_at_the_end=0) == 116_534_784


def test_a_gpt_by_hand():
    """d = 2: four projections of 4 + 2, a network of 16 + 8 and 16 + 2, two norms of 4; 2 (11 + 5) embeddings, a norm."""
    assert gpt_parameters(11, 5, 2, 3) == 32 + 3 * (24 + 42 + 8) + 4


def test_the_counts_are_those_of_our_models():
    assert built(lambda: GPT(50_257, 1024, GPT_2)) == gpt(GPT_2, 50_257, 1024)
    assert built(lambda: Mixer(1000, IMAGE, 16, MIXER_BASE)) == mixer(MIXER_BASE, 16, 1000)
    assert built(lambda: Mixer(7, (3, 10, 15), 5, MixerSizes(11, 13, 17, 2))) == mixer_parameters(11, 13, 17, 2, 6, 75, 7)


def test_bert_has_the_parameters_of_the_paper():
    """Devlin et al. 2019, section 3: 110M and 340M; ours has no pooler."""
    base = Sizes(d_model=768, n_heads=12, d_ff=3072, n_layers=12)
    large = Sizes(d_model=1024, n_heads=16, d_ff=4096, n_layers=24)
    assert built(lambda: BERT(30_522, 512, base)) + 768 * 768 + 768 == 109_482_240
    assert built(lambda: BERT(30_522, 512, large)) == pytest.approx(340e6, rel=0.02)


def test_vit_has_the_parameters_of_the_paper():
    """Dosovitskiy et al. 2021, table 1; Base to the last one as in timm and Hugging Face. DeiT adds a token and a head."""
    base, large, huge = (Sizes(*s) for s in ((768, 12, 3072, 12), (1024, 16, 4096, 24), (1280, 16, 5120, 32)))
    assert built(lambda: ViT(1000, IMAGE, 16, base)) == 86_567_656
    assert built(lambda: DeiT(1000, IMAGE, 16, base)) == 86_567_656 + 2 * 768 + 769_000
    assert built(lambda: ViT(1000, IMAGE, 16, large)) == pytest.approx(307e6, rel=0.013)
    assert built(lambda: ViT(1000, IMAGE, 14, huge)) == pytest.approx(632e6, rel=0.013)


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


def test_gpt3_took_the_operations_that_its_paper_states():
    assert training_operations(gpt(GPT_3, 50_257, 2048), 300e9) == pytest.approx(3.14e23, rel=0.005)


@pytest.mark.parametrize("sizes", [GPT_1, GPT_2, GPT_3])
def test_heads_divide_the_width(sizes):
    assert sizes.d_model % sizes.n_heads == 0
    assert sizes.d_ff == 4 * sizes.d_model
