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
    ELMo,
    GatedDeltaNet,
    Hierarchical,
    Llama,
    Mixer,
    PatchEncoder,
    Transformer,
    TransformerXL,
    Universal,
)
from tests.course_lib.models.compiled import MODELS, VARIANTS, tensors
from tests.moved import moved

SIZES = Sizes(d_model=6, n_heads=3, d_ff=11, n_layers=2)
B, T, N = 3, 5, 13


def likeliest(logits):
    return logits.argmax(-1)


def universal():
    block = Block(SelfAttention(MultiHead(6, 3)), FeedForward(6, 11), 6)
    return Universal(N, 7, 6, AdaptiveSteps(block, 6, 4))


@pytest.mark.parametrize("name", EVERY := MODELS | VARIANTS)
def test_on_the_meta_device_a_model_has_the_shapes_and_types_of_real_tensors(name):
    """What a model makes itself is on the device of its inputs: "meta" does not mix with another."""
    make, inputs = EVERY[name]
    model = make().eval()
    wanted = tensors(model(*inputs))
    found = tensors(model.to("meta")(*moved(inputs, "meta")))
    assert [(x.device.type, x.shape, x.dtype) for x in found] == [("meta", x.shape, x.dtype) for x in wanted]


WRITERS = {
    "GPT": lambda: GPT(N, 17, SIZES).to("meta"),
    "GPT from its cache": lambda: CachedGPT(GPT(N, 17, SIZES).to("meta")),
    "Llama": lambda: Llama(N, Sizes(12, 2, 11, 2), 1).to("meta"),
    "GatedDeltaNet": lambda: GatedDeltaNet(N, SIZES).to("meta"),
    "Transformer-XL": lambda: TransformerXL(N, SIZES, 3).to("meta"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_text_is_written_on_the_device_of_its_prompt(name):
    written = generate(WRITERS[name](), torch.zeros(B, T, dtype=torch.long, device="meta"), 4, likeliest)
    assert (written.device.type, written.shape) == ("meta", (B, 4))


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
