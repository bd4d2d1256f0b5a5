"""Shared by the tests of the decoders: a small model of each kind, and sentences of several lengths, one of them empty."""

import torch
from torch import nn

from course_lib.attention import ConcatAttention, GeneralAttention, dot_attention
from course_lib.fast import fused_gru, hoisted_bahdanau_steps, stacked_bidirectional_gru
from course_lib.models import BahdanauDecoder, Encoder, LuongDecoder, PlainDecoder, Seq2Seq, bahdanau_steps, bidirectional_gru
from course_lib.primitives import gru

N_SOURCE, N_TARGET, D, N, N_STATE, D_A = 17, 19, 3, 5, 7, 11
LENGTHS = torch.tensor([6, 2, 0, 5])
SOURCE = torch.tensor([[4, 5, 6, 7, 8, 9], [10, 11, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [12, 13, 14, 15, 16, 0]])
TARGET = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 2, 0, 0], [1, 2, 0, 0, 0], [1, 8, 9, 2, 0]])
ATTENTIVE = ("bahdanau", "dot", "general", "concat")
KINDS = ("plain", *ATTENTIVE)


def decoder(kind: str, fast: bool) -> nn.Module:
    run = fused_gru if fast else gru
    sizes = (N_TARGET, D, N_STATE, 2 * N)
    if kind == "plain":
        return PlainDecoder(*sizes, run=run)
    if kind == "bahdanau":
        return BahdanauDecoder(*sizes, D_A, run=hoisted_bahdanau_steps if fast else bahdanau_steps)
    if kind == "dot":
        return LuongDecoder(N_TARGET, D, 2 * N, 2 * N, dot_attention, run=run)
    mechanism = GeneralAttention(N_STATE, 2 * N) if kind == "general" else ConcatAttention(N_STATE, 2 * N, D_A)
    return LuongDecoder(*sizes, mechanism, run=run)


def model(kind: str, fast: bool = False, seed: int = 0) -> Seq2Seq:
    torch.manual_seed(seed)
    return Seq2Seq(
        Encoder(N_SOURCE, D, N, run=stacked_bidirectional_gru if fast else bidirectional_gru), decoder(kind, fast)
    ).double()


def twins(kind: str) -> tuple[Seq2Seq, Seq2Seq]:
    """One model by the equations, and one by the faster forms with the same weights."""
    slow, quick = model(kind), model(kind, fast=True, seed=1)
    quick.load_state_dict(slow.state_dict())
    return slow, quick
