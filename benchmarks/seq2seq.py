"""The decoders with attention against step-by-step decoders, alone and after their encoders."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.stepwise import PackedEncoder, StepwiseBahdanau, StepwiseLuong, decode_stepwise
from benchmarks.timing import Row, compare
from course_lib.attention import GeneralAttention
from course_lib.fast import fused_gru, hoisted_bahdanau_steps, stacked_bidirectional_gru
from course_lib.models import BahdanauDecoder, Encoded, Encoder, LuongDecoder, Seq2Seq, bahdanau_steps
from course_lib.primitives import gru


class Sizes(NamedTuple):
    """Sizes of a batch and of a model; an encoder's annotations have 2 · d_encoder features."""

    B: int
    T_k: int
    T: int
    n_tokens: int
    d_embedding: int
    d_encoder: int
    d_decoder: int

    def __str__(self) -> str:
        return f"B {self.B}, source {self.T_k}, target {self.T}, vocabulary {self.n_tokens}, state {self.d_decoder}"


LECTURE = Sizes(B=32, T_k=40, T=25, n_tokens=60, d_embedding=32, d_encoder=64, d_decoder=128)
TRANSLATION = Sizes(B=32, T_k=25, T=25, n_tokens=5000, d_embedding=128, d_encoder=128, d_decoder=256)


def rows(rounds: int) -> Iterator[Row]:
    """Time each decoder by its equations and by its fast form, then both complete models."""
    for sizes in (LECTURE, TRANSLATION):
        yield from _decoders(sizes, rounds)
        yield from _models(sizes, rounds)


def _bahdanau(s: Sizes, fast: bool) -> BahdanauDecoder:
    run = hoisted_bahdanau_steps if fast else bahdanau_steps
    return BahdanauDecoder(s.n_tokens, s.d_embedding, s.d_decoder, 2 * s.d_encoder, s.d_decoder, run)


def _luong(s: Sizes, fast: bool) -> LuongDecoder:
    mechanism = GeneralAttention(s.d_decoder, 2 * s.d_encoder)
    return LuongDecoder(s.n_tokens, s.d_embedding, s.d_decoder, 2 * s.d_encoder, mechanism, fused_gru if fast else gru)


PAIRS = (("Bahdanau", _bahdanau, StepwiseBahdanau), ("Luong, general", _luong, StepwiseLuong))


def _text(s: Sizes) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw source (B, T_k), its lengths (B,) with one full, the mask (B, T_k) and the target (B, T)."""
    torch.manual_seed(0)
    source = torch.randint(4, s.n_tokens, (s.B, s.T_k))
    lengths = torch.randint(s.T_k // 2, s.T_k + 1, (s.B,))
    lengths[0] = s.T_k
    return source, lengths, torch.arange(s.T_k) < lengths[:, None], torch.randint(4, s.n_tokens, (s.B, s.T))


def _decoders(s: Sizes, rounds: int) -> Iterator[Row]:
    """Decode from given annotations, with gradients for them."""
    _, _, mask, target = _text(s)
    annotations = torch.randn(s.B, s.T_k, 2 * s.d_encoder, requires_grad=True)
    state = torch.zeros(s.B, s.d_decoder)
    encoded = Encoded(annotations, annotations, torch.zeros(s.B, 2 * s.d_encoder), mask[:, None])
    for name, ours, peer in PAIRS:
        stepwise = peer(s.n_tokens, s.d_embedding, s.d_encoder, s.d_decoder)
        for form, fast in (("equation", False), ("fast", True)):
            decoder = ours(s, fast)
            yield compare(
                f"{name} decoder",
                (form, lambda decoder=decoder: decoder(encoded, target, state).logits),
                ("step by step", lambda stepwise=stepwise: decode_stepwise(stepwise, target, state, annotations, mask)),
                str(s),
                rounds,
            )


def _models(s: Sizes, rounds: int) -> Iterator[Row]:
    """Encode and decode."""
    source, lengths, mask, target = _text(s)
    for name, ours, peer in PAIRS:
        model = Seq2Seq(Encoder(s.n_tokens, s.d_embedding, s.d_encoder, stacked_bidirectional_gru), ours(s, True))
        encoder = PackedEncoder(s.n_tokens, s.d_embedding, s.d_encoder, s.d_decoder)
        decoder = peer(s.n_tokens, s.d_embedding, s.d_encoder, s.d_decoder)

        def stepwise(encoder: PackedEncoder = encoder, decoder: torch.nn.Module = decoder) -> Tensor:
            outputs, hidden = encoder(source, lengths)
            return decode_stepwise(decoder, target, hidden, outputs, mask)

        yield compare(
            f"{name} model",
            ("fast", lambda model=model: model(source, lengths, target).logits),
            ("step by step", stepwise),
            str(s),
            rounds,
        )
