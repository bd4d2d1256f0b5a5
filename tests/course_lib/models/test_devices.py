"""Every model creates tensors on the device of its inputs: on "meta", where mixing devices fails, and on a GPU."""

import pytest
import torch

from course_lib.attention import MultiHead
from course_lib.blocks import Block, FeedForward, MixerSizes, SelfAttention, Sizes
from course_lib.fast import CachedGPT
from course_lib.generation import beam_search, generate
from course_lib.models import (
    BERT,
    GPT,
    AdaptiveSteps,
    DeiT,
    ELMo,
    Hierarchical,
    Mixer,
    PatchEncoder,
    PretrainingBERT,
    ShowAndTell,
    ShowAttendAndTell,
    Transformer,
    TransformerXL,
    Universal,
    ViT,
)

SIZES = Sizes(d_model=6, n_heads=3, d_ff=11, n_layers=2)
B, T, N = 3, 5, 13


def tokens(*shape):
    return torch.zeros(*(shape or (B, T)), dtype=torch.long, device="meta")


def picture(*shape):
    return torch.zeros(*shape, device="meta")


def likeliest(logits):
    return logits.argmax(-1)


def universal():
    block = Block(SelfAttention(MultiHead(6, 3)), FeedForward(6, 11), 6)
    return Universal(N, 7, 6, AdaptiveSteps(block, 6, 4))


MODELS = {
    "GPT": (lambda: GPT(N, 17, SIZES), lambda model: model(tokens()), (B, T, N)),
    "GPT writes": (lambda: GPT(N, 17, SIZES), lambda model: generate(model, tokens(), 4, likeliest), (B, 4)),
    "GPT writes from its cache": (
        lambda: GPT(N, 17, SIZES),
        lambda model: generate(CachedGPT(model), tokens(), 4, likeliest),
        (B, 4),
    ),
    "Transformer-XL writes": (
        lambda: TransformerXL(N, SIZES, 3),
        lambda model: generate(model, tokens(), 4, likeliest),
        (B, 4),
    ),
    "BERT": (lambda: PretrainingBERT(BERT(N, T, SIZES)), lambda model: model(tokens(), tokens()).words, (B, T, N)),
    "universal": (universal, lambda model: model(tokens())[0], (B, T, 7)),
    "Show and Tell": (lambda: ShowAndTell(N, 7, 2, 3), lambda model: model(picture(B, 7), tokens()).logits, (B, T, N)),
    "Show, Attend and Tell": (
        lambda: ShowAttendAndTell(N, 7, 2, 3, 11),
        lambda model: model(picture(B, 4, 7), tokens()).logits,
        (B, T, N),
    ),
    "ViT": (lambda: ViT(N, (2, 10, 15), 5, SIZES), lambda model: model(picture(B, 2, 10, 15)), (B, N)),
    "ViT at another size": (lambda: ViT(N, (2, 10, 15), 5, SIZES), lambda model: model(picture(B, 2, 5, 20)), (B, N)),
    "DeiT": (lambda: DeiT(N, (2, 10, 15), 5, SIZES), lambda model: model(picture(B, 2, 10, 15)).by_teacher, (B, N)),
    "Mixer": (lambda: Mixer(N, (2, 10, 15), 5, MixerSizes(6, 7, 11, 2)), lambda model: model(picture(B, 2, 10, 15)), (B, N)),
}
"""The constructor of each model, a call, and the shape of the result; "meta" has no values, so there are no lengths."""


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_made_on_another_device(name):
    make, ask, shape = MODELS[name]
    answer = ask(make().to("meta"))
    assert answer.device.type == "meta"
    assert answer.shape == shape


LENGTHS = torch.tensor([5, 2, 1])
WORDS = torch.zeros(B, T, dtype=torch.long)
WITH_LENGTHS = {
    "GPT": (lambda: GPT(N, 17, SIZES), lambda m, x, n: generate(CachedGPT(m), x, 4, likeliest, n)),
    "GPT uncached": (lambda: GPT(N, 17, SIZES), lambda m, x, n: generate(m, x, 4, likeliest, n)),
    "BERT": (lambda: BERT(N, T, SIZES), lambda m, x, n: m(x, x * 0, n)),
    "Transformer": (lambda: Transformer(N, N, SIZES), lambda m, x, n: m(x, n, x)),
    "beam": (
        lambda: Transformer(N, N, SIZES),
        lambda m, x, n: beam_search(m.step, m.start(x, n), x[:, 0], 2, 0, 3, width=2).tokens,
    ),
    "universal": (universal, lambda m, x, n: m(x, n)[0]),
    "ELMo": (lambda: ELMo(N, 6, 2), lambda m, x, n: m(x, n)),
    "hierarchical": (
        lambda: Hierarchical(N, 7, 3, 2),
        lambda m, x, n: m(x[:, None].expand(-1, 2, -1), n[:, None].expand(-1, 2))[0],
    ),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", WITH_LENGTHS)
def test_a_gpu_gives_what_the_cpu_gives(name):
    make, ask = WITH_LENGTHS[name]
    torch.manual_seed(0)
    model = make()
    here = ask(model, WORDS, LENGTHS)
    there = ask(model.cuda(), WORDS.cuda(), LENGTHS.cuda())
    assert there.is_cuda
    torch.testing.assert_close(there.cpu(), here, atol=1e-4, rtol=1e-4)


PICTURES = {
    "ViT": lambda: PatchEncoder((2, 10, 15), 5, SIZES),
    "DeiT": lambda: PatchEncoder((2, 10, 15), 5, SIZES, n_learned=2),
    "Mixer": lambda: Mixer(N, (2, 10, 15), 5, MixerSizes(6, 7, 11, 2)).stack,
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", PICTURES)
def test_a_gpu_sees_what_the_cpu_sees(name):
    torch.manual_seed(0)
    model = PICTURES[name]()
    images = torch.randn(B, 6, 6) if name == "Mixer" else torch.randn(B, 2, 10, 15)
    here, there = model(images), model.cuda()(images.cuda())
    torch.testing.assert_close(there.cpu(), here, atol=1e-4, rtol=1e-4)
