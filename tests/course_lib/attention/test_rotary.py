"""Rotary positions: scores depend on distances alone, steps equal the parallel form, and angles keep float32."""

import math
import re
from pathlib import Path

import pytest
import torch

from course_lib.attention import (
    AttentionDropout,
    MultiHead,
    RotaryAttention,
    StretchedBase,
    causal_attention,
    rotary_speeds,
    rotate,
    scaled_dot_product_attention,
    windowed_cache,
)
from course_lib.blocks import Sizes
from course_lib.fast import fused_causal_attention
from course_lib.generation import generate
from course_lib.models import GPT
from course_lib.primitives import padding_mask

B, T, d, d_v = 2, 7, 6, 5
ADDING = Path(__file__).parents[3] / "docs" / "adding.md"


def test_the_product_of_a_rotated_query_and_key_depends_on_their_distance_alone(normal):
    q, k = normal(1, d), normal(1, d)
    speeds = rotary_speeds(d)

    def product(i, j):
        return (rotate(q, speeds, i) @ rotate(k, speeds, j).mT).item()

    for distance in (-5, 0, 3):
        assert [product(i, i + distance) for i in (11, 1009)] == pytest.approx([product(0, distance)] * 2, abs=1e-9)
    assert abs(product(0, 3) - product(0, 4)) > 1e-3


def test_as_many_turns_of_complex_numbers(normal, agree):
    """An independent form: features 2i and 2i + 1 are one complex number, times e^(i θ) once for each position."""

    def turned(x):
        z, rows = torch.view_as_complex(x.unflatten(-1, (d // 2, 2)).contiguous()), []
        for t in range(T):
            turn = torch.polar(torch.ones(d // 2, dtype=torch.float64), rotary_speeds(d).double())
            rows.append(z[:, t] * turn ** (t + 3))
        return torch.view_as_real(torch.stack(rows, dim=1)).flatten(-2)

    agree(lambda x: rotate(x, rotary_speeds(d), 3), turned, normal(B, T, d))


def test_a_number_by_hand():
    """A quarter turn in each step: (1, 2) at position 1 is (-2, 1), at position 2 (-1, -2)."""
    quarter = torch.tensor([math.pi / 2])
    turned = rotate(torch.tensor([[1.0, 2.0]]).expand(3, 2), quarter)
    torch.testing.assert_close(turned, torch.tensor([[1.0, 2.0], [-2.0, 1.0], [-1.0, -2.0]]))


def test_speeds_by_hand():
    assert rotary_speeds(4).tolist() == pytest.approx([1.0, 0.01])
    assert rotary_speeds(4, base=16.0).tolist() == [1.0, 0.25]


def test_halves_as_in_other_checkpoints(normal):
    """As the docstring says: features paired with those d_k/2 later, in the order of this file, give the same scores."""
    q, k = normal(T, d), normal(T, d)
    angle = torch.arange(T)[:, None] * rotary_speeds(d).double().repeat(2)

    def rotated_halves(x):
        first, second = x.chunk(2, dim=-1)
        return x * angle.cos() + torch.cat([-second, first], dim=-1) * angle.sin()

    def in_pairs(x):
        return rotate(x.unflatten(-1, (2, -1)).mT.flatten(-2), rotary_speeds(d))

    torch.testing.assert_close(in_pairs(q) @ in_pairs(k).mT, rotated_halves(q) @ rotated_halves(k).mT)


def test_gradients(normal):
    inputs = normal(B, 3, d), normal(B, T, d), normal(B, T, d_v)
    assert torch.autograd.gradcheck(lambda *x: tuple(RotaryAttention(d)(*x)), inputs)


def test_values_are_not_rotated(normal):
    """One position attends to itself alone: its context is its value."""
    q, k, v = normal(1, d), normal(1, d), normal(1, d)
    torch.testing.assert_close(RotaryAttention(d)(q, k, v).context, v)


def test_the_last_queries_come_last(normal):
    q, k, v = normal(B, T, d), normal(B, T, d), normal(B, T, d_v)
    mask = padding_mask(torch.tensor([3, 6]), T)
    for mechanism in (causal_attention, fused_causal_attention, scaled_dot_product_attention):
        rotary = RotaryAttention(d, mechanism)
        torch.testing.assert_close(rotary(q[:, -3:], k, v, mask).context, rotary(q, k, v, mask).context[:, -3:])


@pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention])
@pytest.mark.parametrize("n_read", [0, 1, 4])
def test_steps_equal_the_parallel_form_and_do_not_change_their_state(normal, mechanism, n_read):
    heads = MultiHead(2 * d, 2, RotaryAttention(d, mechanism)).double()
    x = normal(B, T, 2 * d)
    context, state = heads.read(x[:, :n_read])
    for t in range(n_read, T):
        before = [part.clone() for part in state]
        found, later = heads.step(x[:, t : t + 1], state)
        assert all(torch.equal(part, kept) for part, kept in zip(state, before, strict=True))
        context, state = torch.cat([context, found], dim=1), later
    torch.testing.assert_close(context, heads(x, x, x).context)


def test_a_gpt_generates_through_its_cache_what_it_computes_anew():
    torch.manual_seed(0)
    model = GPT(13, 11, Sizes(2 * d, 2, 17, 2), RotaryAttention(d)).double().eval()
    tokens = torch.randint(13, (B, 11))
    _, state = None, model.start(tokens[:, :3])
    for t in range(3, 11):
        logits, state = model.step(tokens[:, t], state)
        torch.testing.assert_close(logits, model(tokens[:, : t + 1])[:, -1])


def test_padding_adds_to_no_distance():
    """It stands before the tokens: after them, the next would be at the wrong distance."""
    torch.manual_seed(0)
    model = GPT(13, 11, Sizes(2 * d, 2, 17, 2), RotaryAttention(d)).double()
    tokens, lengths = torch.randint(13, (3, 6)), [3, 5, 0]
    together = model.step(tokens[:, -1], model.start(tokens[:, :-1], torch.tensor(lengths)))[0]
    for row, n in enumerate(lengths):
        alone = model(torch.cat([tokens[row, :n], tokens[row, -1:]])[None])[0, -1]
        torch.testing.assert_close(together[row], alone)


def test_dropout_is_put_around_it(normal):
    q, k, v = normal(T, d), normal(T, d), normal(T, d_v)
    dropped = AttentionDropout(RotaryAttention(d), 0.5)
    torch.testing.assert_close(dropped.eval()(q, k, v).context, RotaryAttention(d)(q, k, v).context)
    assert (dropped.train()(q, k, v).weights == 0).sum() > (RotaryAttention(d)(q, k, v).weights == 0).sum()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_angles_are_float32_in_half_precision(dtype):
    """In bfloat16, positions 256 and 257 are the same number, and so are many speeds."""
    x = torch.ones(1, 64, dtype=dtype)
    exact = rotate(x.double(), rotary_speeds(64), 4097)
    found = rotate(x, rotary_speeds(64), 4097)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=2 * torch.finfo(dtype).eps)
    model = RotaryAttention(64).to(dtype)
    q, k, v = torch.randn(3, 300, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    exact = RotaryAttention(64)(q.float(), k.float(), v.float()).context
    torch.testing.assert_close(model(q, k, v).context.float(), exact, rtol=0, atol=0.05)


@pytest.mark.parametrize("d_k", [5, 0, -2])
def test_an_odd_number_of_features_is_refused(d_k):
    for make in (rotary_speeds, RotaryAttention):
        with pytest.raises(ValueError, match=f"must be even and at least 2, got {d_k}"):
            make(d_k)


def test_unfit_arguments_are_refused(normal):
    with pytest.raises(ValueError, match="base must be positive"):
        RotaryAttention(d, base=0.0)
    with pytest.raises(ValueError, match=r"use `rotary_speeds\(6\)`"):
        rotate(normal(T, d), rotary_speeds(2))
    with pytest.raises(ValueError, match="3 queries and 2 keys"):
        RotaryAttention(d, scaled_dot_product_attention)(normal(3, d), normal(2, d), normal(2, d))
    with pytest.raises(ValueError, match="scaled_dot_product_attention is not causal"):
        RotaryAttention(d, scaled_dot_product_attention).start(normal(2, d), normal(2, d))


def test_the_mechanism_of_the_docs_generates_from_its_cache_what_it_computes_again():
    names = {"nn": torch.nn, "torch": torch, **{f.__name__: f for f in (causal_attention, rotary_speeds, rotate)}}
    exec(re.search(r"```python\n(class Rotary.*?)```", ADDING.read_text(encoding="utf-8"), re.DOTALL)[1], names)
    torch.manual_seed(0)
    gpt, tokens = GPT(11, 17, Sizes(12, 2, 24, 2), names["Rotary"]()), torch.randint(11, (3, 4))
    again = tokens
    for _ in range(9):
        again = torch.cat([again, gpt(again)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(generate(gpt, tokens, 9, lambda logits: logits.argmax(-1)), again[:, 4:])
    rotary = GPT(11, 17, Sizes(12, 2, 24, 2), RotaryAttention(6))
    rotary.load_state_dict(gpt.state_dict())
    torch.testing.assert_close(gpt(again), rotary(again))


def test_what_a_newcomer_passes_instead_is_named(unchecked):
    with pytest.raises(TypeError, match="got the class RotaryAttention: call it"):
        GPT(11, 17, Sizes(12, 2, 24, 2), RotaryAttention)
    with pytest.raises(ValueError, match=r"or `RotaryAttention\(6\)`"):
        GPT(11, 17, Sizes(12, 2, 24, 2), RotaryAttention(12))
    with pytest.raises(TypeError, match=r"floating-point numbers, got torch.int64: convert them by `.float\(\)`"):
        rotate(torch.ones(T, d, dtype=torch.int64), rotary_speeds(d))


def test_a_stretched_base_by_hand():
    """In 200 π tokens the three speeds turn 100, 10 and 1 times: one is kept, one is halfway, one is a quarter."""
    assert rotary_speeds(6, 1000.0).tolist() == pytest.approx([1, 0.1, 0.01])
    stretched = StretchedBase(1000.0, factor=4.0, low=1.0, high=19.0, T_old=200 * math.pi)
    assert rotary_speeds(6, stretched).tolist() == pytest.approx([1, 0.1 * (0.5 + 0.5 / 4), 0.01 / 4])
    x = torch.randn(2, 7, 6, generator=torch.Generator().manual_seed(0))
    attended = RotaryAttention(6, base=stretched)(x, x, x)
    torch.testing.assert_close(attended.context, causal_attention(*[rotate(x, rotary_speeds(6, stretched))] * 2, x).context)


def test_a_cache_of_a_window_by_hand():
    """Quarter turns: keys of equal features at 0, 1, 2 are (1, 0), (0, 1), (-1, 0). Alone, the last turns back to (1, 0)."""
    quarter, ones = torch.tensor([math.pi / 2]), torch.tensor([[1.0, 0.0]]).expand(3, 2)
    state = RotaryAttention(2).start(ones, ones)._replace(keys=rotate(ones, quarter))
    torch.testing.assert_close(windowed_cache(state, quarter, 2).keys, torch.tensor([[1.0, 0.0]]))
    torch.testing.assert_close(windowed_cache(state, quarter, 2, sinks=1).keys, torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    assert windowed_cache(state, quarter, 1).keys.shape == (0, 2)
    torch.testing.assert_close(windowed_cache(state, quarter, 4), state)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("sinks", [0, 1, 3])
def test_positions_count_within_the_cache_of_a_window(normal, size, sinks):
    """An independent form keeps keys that are not rotated, and rotates those of the window anew at each step."""
    q, k, v = normal(B, T, d), normal(B, T, d), normal(B, T, d_v)
    rotary = RotaryAttention(d)
    state = rotary.start(k[:, :0], v[:, :0])
    for t in range(T):
        at = slice(t, t + 1)
        found, state = rotary.step(q[:, at], k[:, at], v[:, at], windowed_cache(state, rotary_speeds(d), size, sinks))
        kept = [i for i in range(t + 1) if i < sinks or i > t - size]
        keys = rotate(k[:, kept], rotary_speeds(d))
        query = rotate(q[:, at], rotary_speeds(d), len(kept) - 1)
        torch.testing.assert_close(found.context, scaled_dot_product_attention(query, keys, v[:, kept]).context)
    assert torch.autograd.gradcheck(lambda k, v: windowed_cache(type(state)(k, v), rotary_speeds(d), 3, 1), (k[0], v[0]))


def test_a_window_without_the_query_is_refused(normal):
    state = RotaryAttention(d).start(normal(T, d), normal(T, d_v))
    for size, sinks in ((0, 0), (2, -1)):
        with pytest.raises(ValueError, match="a window has at least the query's own position"):
            windowed_cache(state, rotary_speeds(d), size, sinks)
