"""Compile and export every model; started by test_compiled.py in a process without type checks around functions."""

import json
import sys
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.attention import DynamicGraphAttention, LocalPredictive, MultiHead, NonLocal, dot_attention
from course_lib.blocks import Block, ContextOf, ConvNet, FeedForward, MixerSizes, SelfAttention, Sizes
from course_lib.fast import fused_causal_attention, hoisted_bahdanau_steps
from course_lib.models import (
    BERT,
    BYOL,
    DETR,
    GAT,
    GCN,
    GPT,
    AdaptiveSteps,
    BahdanauDecoder,
    DeiT,
    ELMo,
    Encoder,
    GatedDeltaNet,
    Hierarchical,
    LinearTransformer,
    Llama,
    LocalLuongDecoder,
    LuongDecoder,
    Mixer,
    PlainDecoder,
    PretrainingBERT,
    Segmenter,
    SeparateSteps,
    Seq2Seq,
    SharedSteps,
    ShowAndTell,
    ShowAttendAndTell,
    SimCLR,
    Transformer,
    TransformerXL,
    Universal,
    ViT,
)

SIZES = Sizes(d_model=6, n_heads=3, d_ff=11, n_layers=1)
B, T, N = 3, 4, 13
WORDS = torch.randint(N, (B, T), generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([4, 2, 1])
EDGES = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]])
NODES = torch.randn(B, T, generator=torch.Generator().manual_seed(0))


def block() -> nn.Module:
    """A block of self-attention."""
    return Block(SelfAttention(MultiHead(6, 3)), FeedForward(6, 11), 6)


def pictures(H: int, W: int) -> Tensor:
    """A batch of images of two channels."""
    return torch.randn(B, 2, H, W, generator=torch.Generator().manual_seed(0))


def conv(strides: tuple[int, int] = (2, 2)) -> ConvNet:
    """A small backbone."""
    return ConvNet(2, (5, 7), strides)


def encoder() -> nn.Module:
    """Maps a batch of images to (B, 7)."""
    return nn.Sequential(conv(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def seq2seq(decoder: nn.Module) -> Seq2Seq:
    """An encoder and this decoder."""
    return Seq2Seq(Encoder(N, 3, 5), decoder)


def one_embedding() -> nn.Module:
    """A Transformer whose source and target share their words."""
    words = nn.Embedding(N, SIZES.d_model)
    return Transformer(words, words, SIZES)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "GPT": (lambda: GPT(N, T, SIZES), (WORDS,)),
    "LinearTransformer": (lambda: LinearTransformer(N, SIZES), (WORDS,)),
    "GatedDeltaNet": (lambda: GatedDeltaNet(N, SIZES), (WORDS,)),
    "Llama": (lambda: Llama(N, Sizes(16, 4, 11, 1), 2), (WORDS,)),
    "BERT": (lambda: BERT(N, T, SIZES), (WORDS, WORDS * 0, LENGTHS)),
    "PretrainingBERT": (lambda: PretrainingBERT(BERT(N, T, SIZES)), (WORDS, WORDS * 0, LENGTHS)),
    "Transformer": (lambda: Transformer(N, N, SIZES), (WORDS, LENGTHS, WORDS)),
    "TransformerXL": (lambda: TransformerXL(N, SIZES, T), (WORDS,)),
    "Universal": (lambda: Universal(N, 7, 6, AdaptiveSteps(block(), 6, 2)), (WORDS, LENGTHS)),
    "ELMo": (lambda: ELMo(N, 6, 1), (WORDS, LENGTHS)),
    "Hierarchical": (
        lambda: Hierarchical(N, 7, 3, 2),
        (WORDS[:, None].expand(-1, 2, -1), LENGTHS[:, None].expand(-1, 2).contiguous()),
    ),
    "Seq2Seq, plain": (lambda: seq2seq(PlainDecoder(N, 3, 7, 10)), (WORDS, LENGTHS, WORDS)),
    "Seq2Seq, Bahdanau": (lambda: seq2seq(BahdanauDecoder(N, 3, 7, 10, 11)), (WORDS, LENGTHS, WORDS)),
    "Seq2Seq, hoisted": (
        lambda: seq2seq(BahdanauDecoder(N, 3, 7, 10, 11, run=hoisted_bahdanau_steps)),
        (WORDS, LENGTHS, WORDS),
    ),
    "Seq2Seq, Luong": (lambda: seq2seq(LuongDecoder(N, 3, 10, 10, dot_attention)), (WORDS, LENGTHS, WORDS)),
    "Seq2Seq, Luong local-m": (
        lambda: seq2seq(LocalLuongDecoder(LuongDecoder(N, 3, 10, 10, dot_attention), 1)),
        (WORDS, LENGTHS, WORDS),
    ),
    "Seq2Seq, Luong local-p": (lambda: seq2seq(LuongDecoder(N, 3, 10, 10, LocalPredictive(10, 1))), (WORDS, LENGTHS, WORDS)),
    "ShowAndTell": (lambda: ShowAndTell(N, 7, 2, 3), (torch.ones(B, 7), WORDS)),
    "ShowAttendAndTell": (lambda: ShowAttendAndTell(N, 7, 2, 3, 11), (torch.ones(B, 4, 7), WORDS)),
    "GAT": (lambda: GAT(T, 3, 7, 2), (NODES, EDGES)),
    "GCN": (lambda: GCN(T, 3, 7, 2), (NODES, EDGES)),
    "ViT": (lambda: ViT(N, (2, 10, 15), 5, SIZES), (pictures(10, 15),)),
    "DeiT": (lambda: DeiT(N, (2, 10, 15), 5, SIZES), (pictures(10, 15),)),
    "Mixer": (lambda: Mixer(7, (2, 10, 15), 5, MixerSizes(6, 7, 11, 1)), (pictures(10, 15),)),
    "DETR": (lambda: DETR(conv(), 7, 4, 3, Sizes(12, 3, 11, 1)), (pictures(20, 12),)),
    "Segmenter": (
        lambda: Segmenter(conv(), 4, [ContextOf(NonLocal(7))]),
        (pictures(20, 12),),
    ),
    "SimCLR": (lambda: SimCLR(encoder(), 7), (pictures(20, 12), pictures(20, 12) + 1)),
    "BYOL": (lambda: BYOL(encoder(), 7), (pictures(20, 12), pictures(20, 12) + 1)),
}
"""The constructor of each model, and the inputs of its forward pass; all but edges have a batch, or nodes, as their first axis.

`NGram` has none: it counts.
"""

VARIANTS: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "fused GPT": (lambda: GPT(N, T, SIZES, fused_causal_attention), (WORDS,)),
    "fused Llama": (lambda: Llama(N, Sizes(16, 4, 11, 1), 2, fused_causal_attention), (WORDS,)),
    "Transformer, one embedding": (one_embedding, (WORDS, LENGTHS, WORDS)),
    "Universal, shared": (lambda: Universal(N, 7, 6, SharedSteps(block(), 2)), (WORDS, LENGTHS)),
    "Universal, separate": (lambda: Universal(N, 7, 6, SeparateSteps([block()])), (WORDS, LENGTHS)),
    "GAT, dynamic": (lambda: GAT(T, 3, 7, 2, mechanism=DynamicGraphAttention), (NODES, EDGES)),
    "ViT at another size": (lambda: ViT(N, (2, 10, 15), 5, SIZES), (pictures(20, 5),)),
}
"""The same models with other parts, for tests that cost less than compiling."""


def tensors(result: object) -> list[Tensor]:
    """All tensors of a result, in order."""
    if isinstance(result, Tensor):
        return [result]
    return [tensor for part in result for tensor in tensors(part)] if isinstance(result, tuple | list) else []


def outcome(run: Callable[[], object], exact: list[Tensor]) -> str:
    """Return "" if a run gives the same tensors, else a description of the difference."""
    try:
        found = tensors(run())
        if len(found) != len(exact) or not found:
            return f"{len(found)} tensors, not {len(exact)}"
        for one, other in zip(found, exact, strict=True):
            torch.testing.assert_close(one, other)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:600]
    return ""


@torch.no_grad()
def both(model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, str]:
    """Compile one model and run it on its inputs; export it for any batch and run it on a larger one."""
    exact = tensors(model(*inputs))
    larger = tuple(x if x is EDGES else torch.cat([x, x[:2]]) for x in inputs)
    sizes = tuple(None if x is EDGES else {0: torch.export.Dim.DYNAMIC} for x in inputs)
    torch._dynamo.reset()
    return {
        "compile": outcome(lambda: torch.compile(model, backend="eager", fullgraph=True)(*inputs), exact),
        "export": outcome(
            lambda: torch.export.export(model, inputs, dynamic_shapes=sizes).module()(*larger), tensors(model(*larger))
        ),
    }


def main() -> None:
    """Print the result of each model as JSON."""
    warnings.simplefilter("ignore")
    results = {}
    for name, (make, inputs) in MODELS.items():
        torch.manual_seed(0)
        results[name] = both(make().eval(), inputs)
        print(name, results[name], file=sys.stderr)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
