"""Every model in other dtypes than float32: tensors that it creates, such as positions, have the dtype of its weights."""

import copy

import pytest
import torch

from course_lib.attention import MultiHead
from course_lib.blocks import Block, ConvNet, FeedForward, MixerSizes, SelfAttention, Sizes
from course_lib.fast import CachedGPT
from course_lib.generation import generate
from course_lib.models import (
    BERT,
    DETR,
    GAT,
    GCN,
    GPT,
    AdaptiveSteps,
    ELMo,
    GatedDeltaNet,
    Hierarchical,
    LinearTransformer,
    Llama,
    Mixer,
    PatchEncoder,
    SeparateSteps,
    SharedSteps,
    ShowAttendAndTell,
    Transformer,
    TransformerXL,
    Universal,
)

SIZES = Sizes(d_model=6, n_heads=3, d_ff=11, n_layers=2)
B, T, N = 3, 5, 13
WORDS = torch.randint(N, (B, T), generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([5, 2, 1])
EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


def block():
    return Block(SelfAttention(MultiHead(6, 3)), FeedForward(6, 11), 6)


def words(model):
    return model(WORDS)


def words_and_lengths(model):
    out = model(WORDS, LENGTHS)
    return out[0] if isinstance(out, tuple) else out


def nodes(model):
    dtype = next(model.parameters()).dtype
    return model(torch.linspace(-1, 1, B * T).view(B, T).to(dtype), EDGES)


def pictures(model, H, W):
    images = torch.randn(B, 2, H, W, generator=torch.Generator().manual_seed(0))
    return model(images.to(next(model.parameters()).dtype))


def mixer():
    """With a head that does not start at 0."""
    model = Mixer(7, (2, 10, 15), 5, MixerSizes(6, 7, 11, 2))
    model.head = torch.nn.Linear(6, 7)
    return model


def detr():
    return DETR(ConvNet(2, (5, 7), (2, 2)), 7, 4, 3, Sizes(12, 3, 11, 2)).eval()


MODELS = {
    "GPT": (lambda: GPT(N, T, SIZES), words),
    "linear transformer": (lambda: LinearTransformer(N, SIZES), words),
    "Llama": (lambda: Llama(N, Sizes(12, 2, 11, 2), 1), words),
    "GatedDeltaNet": (lambda: GatedDeltaNet(N, SIZES), words),
    "BERT": (lambda: BERT(N, T, SIZES), lambda model: model(WORDS, None, LENGTHS)[0]),
    "Transformer": (lambda: Transformer(N, N, SIZES), lambda model: model(WORDS, LENGTHS, WORDS)),
    "Transformer-XL": (lambda: TransformerXL(N, SIZES, T), words),
    "Transformer-XL with a memory": (
        lambda: TransformerXL(N, SIZES, T),
        lambda model: model.read(WORDS, model.start(WORDS.flip(1)))[0],
    ),
    "shared steps": (lambda: Universal(N, 7, 6, SharedSteps(block(), 3)), words_and_lengths),
    "separate steps": (lambda: Universal(N, 7, 6, SeparateSteps([block(), block()])), words_and_lengths),
    "adaptive steps": (lambda: Universal(N, 7, 6, AdaptiveSteps(block(), 6, 3)), words_and_lengths),
    "ELMo": (lambda: ELMo(N, 6, 2), words_and_lengths),
    "hierarchical": (
        lambda: Hierarchical(N, 7, 3, 2),
        lambda model: model(WORDS[:, None].expand(-1, 2, -1), LENGTHS[:, None].expand(-1, 2))[0],
    ),
    "captioner": (
        lambda: ShowAttendAndTell(N, 7, 2, 3, 11),
        lambda model: model(torch.ones(B, 4, 7, dtype=model.gate.weight.dtype), WORDS).logits,
    ),
    "GAT": (lambda: GAT(T, 3, 7, 2), nodes),
    "GCN": (lambda: GCN(T, 3, 7, 2), nodes),
    "ViT's encoder": (lambda: PatchEncoder((2, 10, 15), 5, SIZES), lambda model: pictures(model, 10, 15)),
    "ViT's encoder at another size": (lambda: PatchEncoder((2, 10, 15), 5, SIZES), lambda model: pictures(model, 20, 5)),
    "Mixer": (mixer, lambda model: pictures(model, 10, 15)),
    "DETR's classes": (detr, lambda model: pictures(model, 20, 12).logits),
    "DETR's boxes": (detr, lambda model: pictures(model, 20, 12).boxes),
}


@pytest.mark.parametrize("name", MODELS)
def test_in_bfloat16_a_model_says_what_its_weights_say_up_to_rounding(name):
    make, ask = MODELS[name]
    torch.manual_seed(0)
    short = make().bfloat16()
    exact = ask(copy.deepcopy(short).double())
    said = ask(short)
    assert (said.dtype, exact.dtype) == (torch.bfloat16, torch.float64)
    assert (said - exact).abs().max() < 0.1 * exact.std()


def test_in_bfloat16_a_text_is_written():
    gpt = GPT(N, 17, SIZES).bfloat16()
    assert generate(CachedGPT(gpt), WORDS, 4, lambda logits: logits.argmax(-1), LENGTHS).shape == (B, 4)
