"""Mistakes that students make: without the suite's type checks, each raises an error that says how to fix it.

All calls run in one fresh interpreter, in which nothing checks types and shapes but the library itself and torch.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PREPARE = """
import json, sys, warnings
import torch
from torch import ones, randn, tensor, zeros
from torch.nn import Identity
from course_lib.analysis import *
from course_lib.attention import *
from course_lib.fast import *
from course_lib.blocks import *
from course_lib.generation import *
from course_lib.generation.sampling import next_word_probabilities
from course_lib.losses import *
from course_lib.metrics import *
from course_lib.models import *
from course_lib.primitives import *

assert "beartype" not in sys.modules
warnings.simplefilter("error")
B, H, T_q, T_k, d_k, d_v, d, n, T = 2, 3, 5, 7, 11, 13, 3, 7, 5
q, k, v = randn(B, T_q, d_k), randn(B, T_k, d_k), randn(B, T_k, d_v)
scores = q @ k.mT
allowed = ones(T_q, T_k).bool()
x, h, target = randn(B, T, d), zeros(B, n), ones(B, T).long()
weights = {gates: (randn(gates * n, d), randn(gates * n, n), randn(gates * n), randn(gates * n)) for gates in (1, 3, 4)}
W, U, b, _ = weights[1]
heads = randn(22, d_k), randn(22, d_k), randn(26, d_v), randn(9, 26)
alphas, maps = randn(B, T, 3).softmax(-1), randn(B, H, T, T).softmax(-1)
picture = randn(B, 3, 5, 7), randn(d_k, 3), randn(d_k, 3), randn(d_v, 3)

def tell(code):
    try:
        return "nothing", repr(eval(code))
    except Exception as error:
        return type(error).__name__, str(error)

json.dump([tell(code) for code in json.load(sys.stdin)], sys.stdout)
"""

MASKS = [
    (
        "{}ones(T_q, T_k))",
        "TypeError",
        "the mask must be bool with True = may attend, got torch.float32. Convert",
    ),
    ("{}ones(T_q, T_k).long())", "TypeError", "Convert one of 1 = may attend and 0 = may not by `mask.bool()`"),
    ("{}allowed[:, 1:])", "ValueError", "a mask of shape (5, 6) does not broadcast to the scores'"),
    ("{}allowed.T)", "ValueError", "a mask of shape (7, 5) does not broadcast to the scores'"),
    ("{}allowed[:B])", "ValueError", "A mask over keys alone needs a query axis of 1: `mask[..., None, :]`"),
    ("{}allowed[None, None, None])", "ValueError", "(*batch, T_q, T_k) = (2, 5, 7)"),
]
TAKE_MASKS = [
    "attend(scores, v, ",
    "scaled_dot_product_attention(q, k, v, ",
    "causal_attention(q, k, v, ",
    "fused_scaled_dot_product_attention(q, k, v, ",
    "fused_causal_attention(q, k, v, ",
    *(f"{fused}dot_attention(q, k, v, " for fused in ("", "fused_")),
    "AdditiveAttention(d_k, d_k, 17)(q, k, v, ",
    "GeneralAttention(d_k, d_k)(q, k, v, ",
    "ConcatAttention(d_k, d_k, 17)(q, k, v, ",
]

SIZES = [
    ("attend(scores, v[:, 1:])", "ValueError", "need a value for each key, but values are (2, 6, 13)"),
    *((f"{x}_linear_attention(k, k, v[:, 1:])", "ValueError", "v (2, 6, 13)") for x in ("causal", "chunked")),
    ("attend(scores, v.mT)", "ValueError", "need a value for each key, but values are (2, 13, 7)"),
    ("attend(scores, randn(3, T_k, d_v))", "RuntimeError", "size of tensor a (2) must match the size of tensor b (3)"),
    ("scaled_dot_product_attention(q, k[..., 1:], v)", "RuntimeError", "[2, 11] but got: [2, 10]"),
    ("scaled_dot_product_attention(q, k, v[:, 1:])", "ValueError", "need a value for each key"),
    ("fused_scaled_dot_product_attention(q, k[..., 1:], v)", "RuntimeError", "[2, 11] but got: [2, 10]"),
    ("fused_scaled_dot_product_attention(q, k, v[:, 1:])", "ValueError", "got 7 keys and 6 values"),
    ("dot_scores(q, k[..., 1:])", "RuntimeError", "[2, 11] but got: [2, 10]"),
    *((f"{x}dot_attention(q, k[..., 1:], v)", "RuntimeError", "[2, 11] but got: [2, 10]") for x in ("", "fused_")),
    ("general_scores(q, k, randn(10, d_k))", "RuntimeError", "shapes cannot be multiplied (10x11 and 10x11)"),
    ("additive_scores(q, k, randn(17, 10), randn(17, d_k), randn(17))", "RuntimeError", "(10x11 and 10x17)"),
    (
        "additive_scores(q, k, randn(17, d_k), randn(16, d_k), randn(17))",
        "RuntimeError",
        "a (17) must match the size of tensor b (16)",
    ),
    ("concat_scores(q, k, randn(17, 21), randn(17))", "RuntimeError", "(70x22 and 21x17)"),
    ("AdditiveAttention(d_k, 12, 17)(q, k, v)", "RuntimeError", "shapes cannot be multiplied"),
    ("attention_over_image(picture[0][0], *picture[1:])", "EinopsError", "expected 4 dims. Received 3-dim tensor."),
    ("attention_over_image(picture[0][:, 1:], *picture[1:])", "RuntimeError", "[2, 2] but got: [2, 3]"),
    ("AttentionLayer2d(4, d_k, d_v)(picture[0])", "RuntimeError", "shapes cannot be multiplied (70x3 and 4x11)"),
]

HEADS = [
    ("split_heads(q, 3)", "ValueError", "11 features do not divide into 3 heads."),
    ("multi_head_attention(q, k, v, *heads, n_heads=3)", "ValueError", "22 features do not divide into 3 heads."),
    ("multi_head_attention(q, k, v, *heads, 0)", "ValueError", "22 features do not divide into 0 heads."),
    (
        "multi_head_attention(q[..., 1:], k, v, *heads, 2)",
        "ValueError",
        "W_q does not fit",
    ),
    (
        "multi_head_attention(q, k, v, *(W.mT for W in heads), 2)",
        "ValueError",
        "W_q (11, 22), W_k (11, 22), W_v (13, 26), W_o (26, 9). Matrices are stored as torch.nn.Linear stores them, (out, in)",
    ),
    ("multi_head_attention(q, k, v[..., 1:], *heads, 2)", "ValueError", "W_v does not fit"),
    (
        "multi_head_attention(q, k, v, heads[0][:20], *heads[1:], 2)",
        "ValueError",
        "W_k does not fit",
    ),
    (
        "multi_head_attention(q, k, v, *heads[:3], randn(9, 13), 2)",
        "ValueError",
        "W_o does not fit",
    ),
    ("multi_head_attention(q, k, v[:, 1:], *heads, 2)", "ValueError", "values does not fit"),
    ("multi_head_attention(q[0, 0], k, v, *heads, 2)", "ValueError", "queries does not fit"),
    ("MultiHead(d_k, 1, linear_attention)(q, k, randn(B, T_k, d_k))", "TypeError", "got a tensor: mechanism=linear_attention."),
    ("MultiHead(d_k, 3)", "ValueError", "d_model 11 does not divide into 3 heads; give d_k, or other sizes."),
    ("MultiHead(12, 0)", "ValueError", "does not divide into 0 heads"),
    ("MultiHead(12, -3)", "ValueError", "does not divide into -3 heads"),
    ("MultiHead(12, 3)(q, k, v)", "RuntimeError", "shapes cannot be multiplied (14x11 and 12x12)"),
    ("multi_head_attention(q, k, v, *heads, 2, ones(T_q, T_k))", "TypeError", "the mask must be bool"),
    (
        "multi_head_attention(q, k, v, *heads, 2, allowed[:, 1:])",
        "ValueError",
        "a mask of shape (1, 5, 6) does not broadcast to the scores' (*batch, T_q, T_k) = (2, 2, 5, 7)",
    ),
    (
        "MultiHead(d_k, 1)(q, k, randn(B, T_k, d_k), ones(B, T_k).bool())",
        "ValueError",
        "A mask (B, T_k) over the keys of each sequence needs an axis of queries: `mask[:, None]`.",
    ),
    ("causal_attention(k, q, v[:, :T_q])", "ValueError", "got 7 queries and 5 keys"),
    ("MultiHead(d_k, 1)(q, k, randn(B, T_k, d_k), ones(T_q, T_k))", "TypeError", "the mask must be bool"),
    ("pool(v, randn(17, d_v), zeros(17), ones(17), ones(B, T_k))", "TypeError", "mask must be a tensor of type bool"),
    ("pool(v, randn(17, d_v), zeros(17), ones(17), ones(B, T_k + 1).bool())", "ValueError", "mask (2, 8)"),
    ("pool(v, randn(17, d_v), zeros(17), ones(17), ones(B, 1, T_k).bool())", "ValueError", "`mask.squeeze(-2)`"),
    (
        "pool(v, randn(d_v, 17), zeros(17), ones(17))",
        "ValueError",
        "W does not fit",
    ),
    ("pool(v, randn(17, d_v), zeros(1), ones(17))", "ValueError", "b does not fit"),
    (
        "mean_pool(v, ones(B, 1, T_k).bool())",
        "ValueError",
        "mask (2, 1, 7). The mask of `padding_mask` has an axis",
    ),
    (
        "Block(MultiHead(12, 3), FeedForward(12, 24), 12)",
        "TypeError",
        "takes queries, keys and values: SelfAttention(MultiHead(…))",
    ),
    (
        "DecoderBlock(Identity(), MultiHead(12, 3), FeedForward(12, 24), 12)",
        "TypeError",
        "takes queries, keys and values: CrossAttention(MultiHead(…))",
    ),
    (
        "Block(None, FeedForward(12, 24), 12)(randn(B, T, 12))",
        "TypeError",
        "'NoneType' object is not callable",
    ),
    (
        "Block(Pool(12, 5), FeedForward(12, 24), 12)(randn(B, T, 12))",
        "TypeError",
        "Pool must return a tensor of the shape of x, (2, 5, 12), got Attended.",
    ),
    (
        "Block(lambda x: x.mean(1, keepdim=True), FeedForward(12, 24), 12)(randn(B, T, 12))",
        "TypeError",
        "must return a tensor of the shape of x, (2, 5, 12), got (2, 1, 12).",
    ),
]

PLACES = [
    ("padding_mask(tensor([3, 8]), T_k)", "ValueError", "a sequence of 8 tokens does not fit a padded length of 7."),
    ("padding_mask(tensor([1]), 0)", "ValueError", "a sequence of 1 tokens does not fit a padded length of 0."),
    ("padding_mask(tensor([3, -2]), T_k)", "ValueError", "cannot have -2 tokens: lengths are 0 to T_k = 7."),
    (
        "padding_mask(ones(B, T_k), T_k)",
        "ValueError",
        "got (2, 7). A mask (B, T), 1 at real tokens, is converted",
    ),
    ("padding_mask(tensor([3.0, 2.5]), T_k)", "TypeError", "got torch.float32: convert by `.long()`"),
    ("padding_mask(tensor([True, False]), T_k)", "TypeError", "got torch.bool"),
    ("LearnedPositions(5, d_k)(6)", "ValueError", "6 positions were requested, but only 5 are learned."),
    ("LearnedPositions(5, d_k)(-1)", "ValueError", "-1 positions were requested, but only 5 are learned."),
]

DTYPES = [
    ("attend(scores.double(), v)", "RuntimeError", "expected scalar type Float but found Double"),
    ("attend(scores.long(), v)", "NotImplementedError", "not implemented for 'Long'"),
    ("scaled_dot_product_attention(q, k.double(), v)", "RuntimeError", "expected scalar type Float but found Double"),
    ("dot_scores(q.long(), k)", "RuntimeError", "expected scalar type Long but found Float"),
    ("rnn_step(x[:, 0].double(), h, W, U, b)", "RuntimeError", "same dtype, but got: double != float"),
    ("encode(x.long(), tensor([5, 2]), h, W, U, b)", "TypeError", "x must be a tensor of type float, got torch.int64."),
    *(
        (f"{form}(q, k, tensor([[[1]] * T_k]))", "TypeError", "values must be floating-point numbers, got torch.int64")
        for form in ("linear_attention", "kernel_attention", "LinearAttention()")
    ),
    ("performer_attention(q, k, v.long(), omega=randn(5, d_k))", "TypeError", "values must be floating-point numbers"),
    *(
        (f"{form}(k, k, v.long(){rest})", "TypeError", "v must be a tensor of type float, got torch.int64.")
        for form, rest in [
            *((f"{form}_linear_attention", "") for form in ("causal", "chunked", "lean")),
            *((f"{form}_performer_attention", ", omega=randn(5, d_k)") for form in ("causal", "lean")),
            ("retention", ", -ones(B, T_k)"),
            ("delta_attention", ", ones(B, T_k)"),
        ]
    ),
    *(
        (
            f"{form}linear_attention_step(zeros(B, d_k, d_v), zeros(B, d_k), k[:, 0], k[:, 0], v[:, 0].long())",
            "TypeError",
            "v must be",
        )
        for form in ("", "inplace_")
    ),
    *(
        (f"{loss}(x[:, 0].long(), x[:, 1].long(), 0.5)", "TypeError", "a must be a tensor of type float, got torch.int64.")
        for loss in ("nt_xent", "lean_nt_xent")
    ),
    (
        "teacher_forced_loss(randn(B, T, 9), target.float(), 0)",
        "TypeError",
        "target must be a tensor of type int, got torch.float32.",
    ),
]

STEPS = [
    ("rnn_step(x[:, 0], h, W.mT, U, b)", "RuntimeError", "shapes cannot be multiplied (2x3 and 7x3)"),
    ("rnn_step(x[:, 0], h, W, U, randn(6))", "RuntimeError", "tensor a (7) must match the size of tensor b (6)"),
    ("lstm_step(x[:, 0], h, h, *weights[3][:3])", "RuntimeError", "must match the size of tensor b"),
    ("gru_step(x[:, 0], h, *weights[4])", "RuntimeError", "must match the size of tensor b"),
    *((f"encode(x, tensor({wrong}), h, W, U, b)", "ValueError", "lengths does not fit") for wrong in ([5, 2, 1], [5])),
    ("encode(x, tensor([5, 2]), zeros(B, 6), W, U, b)", "ValueError", "W does not fit"),
    ("bptt_step(h, x[:, 0], h, h, W, randn(6, 6))", "RuntimeError", "shapes cannot be multiplied (2x7 and 6x6)"),
]

LOSSES = [
    (
        "teacher_forced_loss(randn(B, T, 9), target[:, 1:], 0)",
        "ValueError",
        "got logits (2, 5, 9), target (2, 4). Pass both whole",
    ),
    (
        "next_token_loss(randn(3, 5, 9), ones(4, 4).long())",
        "ValueError",
        "got logits (3, 5, 9), tokens (4, 4). Pass both whole",
    ),
    ("label_smoothed_loss(randn(3, 5, 9), ones(4, 4).long(), 0)", "ValueError", "got logits (3, 5, 9), target (4, 4)."),
    (
        "hard_attention_loss(randn(B, 1), alphas, ones(B, T).long(), 0.5)",
        "ValueError",
        "got log_p (2, 1), weights (2, 5, 3), looks (2, 5).",
    ),
    (
        "hard_attention_loss(randn(B), alphas, ones(B, 2).long(), 0.5)",
        "ValueError",
        "got log_p (2,), weights (2, 5, 3), looks (2, 2).",
    ),
    ("byol_loss(randn(B, T), randn(1, T))", "ValueError", "got prediction (2, 5), target (1, 5)."),
    ("clip_loss(randn(B, T), randn(3, T), 0.5)", "ValueError", "got images (2, 5), texts (3, 5)."),
    ("byol_loss(randn(B, T), randn(T))", "ValueError", "got prediction (2, 5), target (5,)."),
    (
        "distillation_loss(randn(B, 3), randn(1, 3), ones(B).long(), 1.0, 0.5)",
        "ValueError",
        "got student (2, 3), teacher (1, 3)",
    ),
    (
        "distillation_loss(randn(B, 3), randn(B, 1), ones(B).long(), 1.0, 0.5)",
        "ValueError",
        "got student (2, 3), teacher (2, 1)",
    ),
    ("mlm_loss(randn(B, T, T), target, ones(B).bool())", "ValueError", "tokens (2, 5), chosen (2,). Pass all three whole"),
    *(
        (f"{loss}(randn(B, 3, 4), ones(B, 3, 4), {objects})", "ValueError", "Every image has its row: pad lists")
        for loss, objects in [
            ("matching_cost", "tensor([[1]]), ones(1, 1, 4)"),
            ("set_loss", "tensor([[1]]), ones(1, 1, 4), tensor([[0]])"),
            ("set_loss", "tensor([[1], [1]]), ones(B, 1, 4), tensor([[0]])"),
        ]
    ),
    ("deep_set_loss(randn(1, B, 3, 4), ones(1, B, 3, 4), tensor([[1]]), ones(1, 1, 4))", "ValueError", "classes (1, 1)"),
    ("match_in_order(ones(B, 3, 1), tensor([[1]]))", "ValueError", "got cost (2, 3, 1), classes (1, 1)"),
    ("teacher_forced_loss(randn(B, T, 9), 9 * target, 0)", "IndexError", "Target 9 is out of bounds."),
    ("teacher_forced_loss(randn(B, T, 9), -target, 0)", "IndexError", "Target -1 is out of bounds."),
]

FORMS = {"rnn": 1, "hoisted_rnn": 1, "lstm": 4, "fused_lstm": 4, "gru": 3, "fused_gru": 3}
"""The forms of the recurrent networks, each with its number of gates."""


def recurrent(form: str, gates: int) -> list[tuple[str, str, str]]:
    """Inputs that each form must refuse; torch's kernels would read memory outside their tensors."""
    state = "(h, h)" if gates == 4 else "(h,)"
    shapes = [(2, 7)] * (state.count("h"))
    run, own = f"{form}(x, {state}, *weights[{gates}]", f"*weights[{gates}])"
    other = 3 if gates == 4 else 4
    return [
        (f"{form}(x[0], {state}, {own}", "ValueError", "x does not fit"),
        (f"{form}(randn(B, T, 4), {state}, {own}", "ValueError", "W does not fit"),
        (f"{form}(x, {state}, *weights[{other}])", "ValueError", "does not fit"),
        (f"{form}(x, {state}, *weights[{gates}][:3], randn(5))", "ValueError", "b_U does not fit"),
        (f"{form}(x, h, {own}", "ValueError", f"the state must be a tuple of tensors {shapes}, got [(7,), (7,)]."),
        (f"{form}(x, (h, h, h), {own}", "ValueError", "got [(2, 7), (2, 7), (2, 7)]."),
        (f"{form}(x, (zeros(1, 7),) * {len(shapes)}, {own}", "ValueError", f"tuple of tensors {shapes}, got [(1, 7)"),
        (f"{form}(x, (zeros(B, 6),) * {len(shapes)}, {own}", "ValueError", f"tuple of tensors {shapes}, got [(2, 6)"),
        (f"{form}(x.double(), {state}, {own}", "RuntimeError", "ouble"),
        (f"{run}, tensor([5, 6]))", "ValueError", "lengths must be 2 numbers from 0 to T = 5, got [5, 6]."),
        (f"{run}, tensor([5, -1]))", "ValueError", "lengths must be 2 numbers from 0 to T = 5, got [5, -1]."),
        (f"{run}, tensor([5, 2, 1]))", "ValueError", "lengths (3,)"),
        (f"{run}, tensor([5]))", "ValueError", "lengths (1,)"),
        (f"{run}, tensor([5.0, 2.0]))", "TypeError", "lengths must be a tensor of type int, got torch.float32."),
    ]


LAYERS = [
    (f"{kind}(d, n, {run})({call})", "ValueError", text)
    for kind, run in [("RNN", "hoisted_rnn"), ("LSTM", "lstm"), ("LSTM", "fused_lstm"), ("GRU", "fused_gru")]
    for call, text in [
        ("x[0]", "A single sequence is x[None]."),
        ("randn(B, T, 4)", "W does not fit"),
        ("x, h", "the state must be a tuple of tensors"),
        ("x, None, tensor([5, 9])", "lengths must be 2 numbers from 0 to T = 5, got [5, 9]."),
    ]
]

NUMBERS = [
    ("top_k(randn(4), 0)", "ValueError", "k = 0 leaves no token to choose from: give k ≥ 1"),
    ("top_p(randn(4), 0.0)", "ValueError", "0 < p ≤ 1, got p = 0.0"),
    ("top_p(randn(4), 1.5)", "ValueError", "0 < p ≤ 1, got p = 1.5"),
    ("next_word_probabilities(randn(4), k=0)", "ValueError", "k = 0 leaves no token"),
    ("next_word_probabilities(randn(4), float('nan'))", "ValueError", "the temperature must be above 0, got nan"),
    ("class_ious(ones(2, 3, 4).long(), ones(2, 4, 3).long(), 2)", "ValueError", "predicted (2, 3, 4), labels (2, 4, 3)"),
    ("average_precision(tensor([0.9, float('nan')]), tensor([False, True]), 1)", "ValueError", "1 of 2 scores are NaN"),
    (
        "average_precision(tensor([9, 8]), tensor([True, False]), 2)",
        "TypeError",
        "scores must be a tensor of type float, got torch.int64",
    ),
    (
        "average_precision(tensor([0.9]), tensor([True, True]), 3)",
        "ValueError",
        "got scores (1,), hits (2,)",
    ),
    (
        "mean_average_precision(tensor([[[float('nan'), 0.5]]]), ones(1, 1, 4), tensor([[0]]), ones(1, 1, 4))",
        "ValueError",
        "1 of 1 scores are NaN: look for NaN in the outputs of the model",
    ),
    *(
        (
            f"find_hits(ones(1), ones(1, 4), zeros(1).long(), ones(1, 4), zeros(1).long(), {x})",
            "ValueError",
            f"at most 1, got {x}",
        )
        for x in (0.0, -1.0, 50.0)
    ),
    ("bleu(['the cat sat'], [['the cat sat']])", "TypeError", "got the text 'the cat sat': split a text, as by `.split()`"),
    ("bleu([['the', 'cat']], [['the', 'cat']])", "TypeError", "give each translation a list of references, `[[reference], …]`"),
    ("bleu([['a']], [[['a']]], n_max=0)", "ValueError", "runs have at least one token, got n_max = 0"),
    ("bleu(ones(B, T), ones(B, T))", "TypeError", "a sentence is a sequence of tokens, got a tensor ()"),
    ("average_precision(tensor([0.9, 0.8]), tensor([True, True]), 1)", "ValueError", "2 hits of 1 objects"),
    *(
        (f"{form}(randn({n}), {rest})", "ValueError", f"each edge has one score: got scores ({n},) for 1 edges.")
        for form, rest in [
            ("edge_softmax", "tensor([[0], [1]]), 2"),
            *((f"{kind}attend_edges", "randn(2, d), tensor([[0], [1]])") for kind in ("", "csr_")),
        ]
        for n in (0, 5)
    ),
    ("propagate(randn(2, d), tensor([[0, 1], [1, 0]]), ones(1))", "ValueError", "got weights (1,) for 2 edges"),
    ("ema_update([ones(2, 2)], [ones(2)], 0.5)", "ValueError", "the online network's [(2,)]: pass both in one order"),
    ("ema_update([ones(2)], [ones(2)], 5)", "ValueError", "0 to 1, got 5"),
    *(
        (f"{form}(tensor([{h}, 0.5]))", "ValueError", "must be in 0…1: look for NaN in the states")
        for form in ("halting_distribution", "ponder_cost")
        for h in ("torch.nan", "1.5")
    ),
    ("linear_probe(randn(9, 3), ones(9).long(), 2, -1.0)", "ValueError", "a penalty ≥ 0, got 9 and -1.0."),
    ("linear_probe(randn(0, 3), ones(0).long(), 2, 1.0)", "ValueError", "need one or more examples"),
    (
        "head_statistics(maps, zeros(B, T) > 0, tensor([9, 5]))",
        "ValueError",
        "lengths must be 1 to 5, got [9, 5].",
    ),
    ("head_statistics(maps, zeros(B, T) > 0, tensor([0, 5]))", "ValueError", "got [0, 5]"),
    ("head_statistics(maps, zeros(B, 1) > 0, tensor([5, 5]))", "ValueError", "delimiters (2, 1)"),
]
"""Calls that would return a wrong number."""

REFUSED = [
    *((code.format(call), error, text) for call in TAKE_MASKS for code, error, text in MASKS),
    *SIZES,
    *HEADS,
    *PLACES,
    *DTYPES,
    *STEPS,
    *LOSSES,
    *NUMBERS,
    *(case for form, gates in FORMS.items() for case in recurrent(form, gates)),
    *LAYERS,
]

HOLDS = [
    "not attend(zeros(B, T_q, 0), v[:, :0]).context.any()",
    "attend(scores[:, :0], v).context.shape == (B, 0, d_v)",
    "attend(scores, v, ~allowed).weights.eq(0).all()",
    "attend(scores, v, ~allowed).context.eq(0).all()",
    "fused_scaled_dot_product_attention(q, k, v, ~allowed).context.eq(0).all()",
    "multi_head_attention(q, k, v, *heads, 2, ~allowed).context.eq(0).all()",
    "fused_causal_attention(q[:, :0], k[:, :0], v[:, :0]).context.shape == (B, 0, d_v)",
    "attention_over_image(picture[0][:, :, :0], *picture[1:]).shape == (B, d_v, 0, 7)",
    "causal_mask(0).shape == (0, 0)",
    "padding_mask(tensor([0, 3]), 3)[0].any().logical_not()",
    "sinusoidal_positions(0, d_k).shape == (0, d_k)",
    "encode(x[:, :0], tensor([0, 0]), h + 2, W, U, b)[1].eq(2).all()",
    "encode(x, tensor([0, 0]), h + 2, W, U, b)[1].eq(2).all()",
    "encode(x, tensor([9, 5]), h, W, U, b)[0].equal(encode(x, tensor([5, 5]), h, W, U, b)[0])",
    "rnn(x[:, :0], (h + 2,), *weights[1])[1][0].eq(2).all()",
    "fused_lstm(x[:, :0], (h + 2, h), *weights[4])[1][0].eq(2).all()",
    "fused_gru(x, (h + 2,), *weights[3], tensor([5, 0]))[1][0][1].eq(2).all()",
    "LSTM(d, n, fused_lstm)(x[:, :0])[0].shape == (B, 0, n)",
    "carousel_gradient(zeros(0, n)).eq(1).all() and clip_gradients([zeros(n)], 1.0)[0].eq(0).all()",
    "clip_gradients([], 1.0) == []",
    "teacher_forced_loss(randn(B, T, 9), 0 * target, 0).isnan()",
    "teacher_forced_loss(randn(B, 1, 9), target[:, :1], 0).isnan()",
]
"""Empty sequences, fully masked rows and lengths of 0 are not mistakes: their results are documented and right."""


@cache
def told() -> dict[str, tuple[str, str]]:
    """Map the code of each call to the type of its error, or "nothing", and the text."""
    codes = [code for code, _, _ in REFUSED] + HOLDS
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PREPARE],
        input=json.dumps(codes),
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "PYTHONUTF8": "1"},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {code: (kind, text) for code, (kind, text) in zip(codes, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize(("code", "error", "text"), REFUSED, ids=[code for code, _, _ in REFUSED])
def test_a_mistake_meets_an_error_that_says_what_is_wrong(code, error, text):
    kind, said = told()[code]
    assert (kind, text in said) == (error, True), f"{code} said {kind}: {said}"


@pytest.mark.parametrize("code", HOLDS)
def test_what_is_empty_gives_what_is_stated(code):
    kind, said = told()[code]
    assert kind == "nothing", f"{code} said {kind}: {said}"
    assert said in ("True", "tensor(True)")
