"""The parameters of the published models, counted from their sizes and by building them without memory."""

import pytest
import torch

from course_lib.metrics import (
    BERT_BASE,
    BERT_LARGE,
    GPT_1,
    GPT_2,
    GPT_3,
    TRANSFORMER_BASE,
    TRANSFORMER_BIG,
    bert_parameters,
    block_parameters,
    gpt_parameters,
    training_operations,
    transformer_parameters,
)
from course_lib.models import BERT, GPT, Transformer


def parameters_of(module):
    return sum(p.numel() for p in module.parameters())


def gpt(sizes, n_tokens, T_max):
    assert sizes.d_ff == 4 * sizes.d_model
    return gpt_parameters(n_tokens, T_max, sizes.d_model, sizes.n_layers)


def test_the_published_counts():
    """Each paper's own number, which it rounds."""
    assert gpt(GPT_1, 40_478, 512) == pytest.approx(117e6, rel=0.005)
    assert gpt(GPT_2, 50_257, 1024) == 1_557_611_200
    assert gpt(GPT_3, 50_257, 2048) == pytest.approx(175e9, rel=0.005)
    assert bert_parameters(30_522, 512, BERT_BASE.d_model, BERT_BASE.n_layers) == 109_482_240
    assert bert_parameters(30_522, 512, BERT_LARGE.d_model, BERT_LARGE.n_layers) == pytest.approx(340e6, rel=0.02)
    assert transformer_parameters(37_000, TRANSFORMER_BASE) == pytest.approx(65e6, rel=0.035)
    assert transformer_parameters(37_000, TRANSFORMER_BIG) == pytest.approx(213e6, rel=0.01)


def test_gpt1_has_no_norm_at_the_end():
    assert gpt_parameters(40_478, 512, 768, 12, n_norms_at_the_end=0) == 116_534_784


def test_a_block_by_hand():
    """d = 2, d_ff = 3: attention 4 · (4 + 2), network 12 + 3 + 2, two norms of 4; a second attention brings another 24 + 4."""
    assert block_parameters(2, 3) == 24 + 17 + 8
    assert block_parameters(2, 3, n_attentions=2) == 24 + 17 + 8 + 28


def test_the_blocks_of_gpt_are_blocks():
    """The exercise counts a single block, the one that all models share."""
    d_model, n_layers = 7, 3
    without_blocks = gpt_parameters(11, 5, d_model, 0)
    assert without_blocks == (11 + 5) * d_model + 2 * d_model
    assert gpt_parameters(11, 5, d_model, n_layers) - without_blocks == n_layers * block_parameters(d_model, 4 * d_model)


def test_the_counts_are_those_of_our_models_at_full_size():
    """On the device "meta", where nothing is allocated."""
    with torch.device("meta"):
        assert parameters_of(GPT(50_257, 1024, GPT_2)) == gpt(GPT_2, 50_257, 1024)
        pooler = 768 * 768 + 768
        assert parameters_of(BERT(30_522, 512, BERT_BASE)) + pooler == bert_parameters(30_522, 512, 768, 12)
        two_vocabularies = transformer_parameters(37_000, TRANSFORMER_BASE) + 37_000 * 512
        assert parameters_of(Transformer(37_000, 37_000, TRANSFORMER_BASE)) == two_vocabularies


def test_gpt3_took_the_operations_that_its_paper_states():
    assert training_operations(gpt(GPT_3, 50_257, 2048), 300e9) == pytest.approx(3.14e23, rel=0.005)


@pytest.mark.parametrize("sizes", [GPT_1, GPT_2, GPT_3, BERT_BASE, BERT_LARGE, TRANSFORMER_BASE, TRANSFORMER_BIG])
def test_heads_divide_the_width(sizes):
    assert sizes.d_model % sizes.n_heads == 0
    assert sizes.d_ff == 4 * sizes.d_model
