"""Dropout in models: on embeddings and the residual path as in the papers, none in evaluation."""

import pytest
import torch
from torch import nn

from course_lib.blocks import Sizes
from course_lib.models import BERT, GPT, Transformer, TransformerXL, ViT

SIZES = Sizes(d_model=8, n_heads=2, d_ff=16, n_layers=2)
TOKENS, LENGTHS = torch.tensor([[3, 1, 4, 1], [5, 2, 6, 0]]), torch.tensor([4, 3])
MODELS = {
    "GPT": (lambda p: GPT(10, 8, SIZES, dropout=p), (TOKENS,), 2 * 2 + 1),
    "BERT": (lambda p: BERT(10, 8, SIZES, dropout=p), (TOKENS,), 2 * 2 + 1),
    "ViT": (lambda p: ViT(3, (1, 8, 8), 4, SIZES, dropout=p), (torch.ones(2, 1, 8, 8),), 2 * 2 + 1),
    "Transformer-XL": (lambda p: TransformerXL(10, SIZES, 4, dropout=p), (TOKENS,), 2 * 2 + 1),
    "Transformer": (lambda p: Transformer(10, 10, SIZES, dropout=p), (TOKENS, LENGTHS, TOKENS), 2 * 2 + 2 * 3 + 2),
}
each_model = pytest.mark.parametrize("name", MODELS)


def passed(model, inputs):
    """Return (rate, input, output) of each call of a dropout layer."""
    calls = []
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(lambda module, x, y: calls.append((module.p, x[0], y)))
    torch.manual_seed(1)
    model(*inputs)
    return calls


@each_model
def test_it_acts_after_the_embedding_and_after_each_sublayer(name):
    make, inputs, n_places = MODELS[name]
    calls = passed(make(0.5).train(), inputs)
    assert [rate for rate, _, _ in calls] == [0.5] * n_places
    assert all((y == 0).any() and (y[y != 0] == 2 * x[y != 0]).all() for _, x, y in calls if x.any())


@each_model
def test_evaluation_is_the_model_without_dropout(name):
    make, inputs, _ = MODELS[name]
    model, plain = make(0.5).eval(), make(0.0)
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(*inputs), plain.train()(*inputs))


def test_decoding_a_transformer_drops_nothing_in_training_neither():
    """Neither reading the source nor a step applies dropout; each part keeps its mode."""
    model = Transformer(10, 10, SIZES, dropout=0.5).train()
    model.encoder.blocks[0].eval()
    modes = [part.training for part in model.modules()]
    logits = [model.step(TOKENS[:, 0], model.start(TOKENS, LENGTHS))[0] for _ in range(2)]
    torch.testing.assert_close(*logits)
    assert [part.training for part in model.modules()] == modes
    torch.testing.assert_close(model.eval()(TOKENS, LENGTHS, TOKENS[:, :1])[:, 0], logits[0])
