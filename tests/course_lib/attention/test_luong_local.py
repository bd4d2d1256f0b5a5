"""Luong's local attention: the global forms restricted by a window and a Gaussian, and the centre of the window."""

import math

import pytest
import torch

from course_lib.attention import (
    ConcatAttention,
    GeneralAttention,
    LocalPredictive,
    MultiHead,
    alignment_window,
    dot_attention,
    local_m_attention,
    local_p_attention,
    predicted_positions,
)
from course_lib.fast import fused_dot_attention
from course_lib.primitives import padding_mask

B, T_q, T_k, d, d_v, d_p, D = 2, 5, 11, 7, 13, 3, 2
LENGTHS = torch.tensor([11, 6])
MASK = padding_mask(LENGTHS, T_k)
each_form = pytest.mark.parametrize("form", [local_m_attention, local_p_attention])


@pytest.fixture
def inputs(normal):
    return normal(B, T_q, d), normal(B, T_k, d), normal(B, T_k, d_v)


@pytest.fixture
def positions(normal):
    """Anywhere from before the first word to after the last, and never at the border of a window."""
    return (normal(B, T_q, scale=4.0) + 5.0).detach().requires_grad_()


def test_a_window_by_hand():
    """Around 2 and around 4.5, ± 1: words 1 to 3, and words 4 and 5, of 6."""
    window = alignment_window(torch.tensor([2.0, 4.5]), 6, 1)
    assert window.int().tolist() == [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0]]


def test_local_p_by_hand():
    """Equal scores, D = 2, σ = 1: in the window ¼ each; √(2 ln 2) words from p = 1 + √(2 ln 2), the Gaussian halves it."""
    reach = math.sqrt(2 * math.log(2))
    zero, v = torch.zeros(1, 4, 3), torch.tensor([[[8.0], [0.0], [0.0], [0.0]]])
    context, weights = local_p_attention(zero[:, :1], zero, v, torch.tensor([[1 + reach]]), 2)
    torch.testing.assert_close(weights[0, 0, 0].item(), 1 / 8)
    torch.testing.assert_close(weights[0, 0, 1].item(), math.exp(-((1 - reach) ** 2) / 2) / 4)
    torch.testing.assert_close(context.item(), 1.0)


def by_the_paper(q, k, v, p, gaussian):
    """Eq. 10 word by word, over the real words of each source."""
    contexts, rows = [], []
    for b in range(B):
        for t in range(T_q):
            window = [s for s in range(1, LENGTHS[b] + 1) if p[b, t] - D <= s <= p[b, t] + D]
            total = sum(torch.exp(q[b, t] @ k[b, s - 1]) for s in window)
            row = [torch.zeros(()).double() for _ in range(T_k)]
            for s in window:
                row[s - 1] = torch.exp(q[b, t] @ k[b, s - 1]) / total
                if gaussian:
                    row[s - 1] = row[s - 1] * torch.exp(-((s - p[b, t]) ** 2) / (2 * (D / 2) ** 2))
            rows.append(torch.stack(row))
            contexts.append(rows[-1] @ v[b])
    return torch.stack(contexts).view(B, T_q, -1), torch.stack(rows).view(B, T_q, -1)


def test_local_m_is_the_papers_word_by_word(inputs, positions, agree):
    p = positions.detach()
    agree(lambda *x: local_m_attention(*x, p, D, MASK), lambda *x: by_the_paper(*x, p, gaussian=False), *inputs)


def test_local_p_is_the_papers_word_by_word(inputs, positions, agree):
    """The gradient of the position too."""
    agree(lambda *x: local_p_attention(*x, D, MASK), lambda *x: by_the_paper(*x, gaussian=True), *inputs, positions)


def test_a_window_over_everything_is_global_attention(inputs, agree):
    p = torch.arange(1.0, T_q + 1).expand(B, T_q)
    agree(lambda *x: local_m_attention(*x, p, T_k, MASK), lambda *x: dot_attention(*x, MASK), *inputs)
    wide = local_p_attention(*inputs, p, 10**6, MASK)
    torch.testing.assert_close(wide, dot_attention(*inputs, MASK), atol=1e-8, rtol=0)


@each_form
def test_nothing_outside_a_window_matters(inputs, positions, form):
    q, k, v = inputs
    outside = ~alignment_window(positions.detach(), T_k, D)[:, 1]
    hurt = [torch.where(outside[..., None], torch.nan, x) for x in (k, v)]
    one = slice(1, 2)
    fine, spoiled = form(q[:, one], k, v, positions[:, one], D), form(q[:, one], *hurt, positions[:, one], D)
    torch.testing.assert_close(spoiled, fine)
    assert (fine.weights[:, 0][outside] == 0).all()


def test_local_p_weighs_less_the_further_a_word_is(inputs, positions):
    q, k, v = inputs
    m, p = (form(0 * q, k, v, positions, D).weights for form in (local_m_attention, local_p_attention))
    near = (torch.arange(1, T_k + 1) - positions[..., None]).abs()
    ordered = p.gather(-1, near.argsort(-1))
    assert (ordered.diff(dim=-1) <= 0).all()
    assert (p <= m).all()
    assert (p.sum(-1) < 1).all()


@each_form
def test_an_empty_window_gives_0(inputs, form):
    q, k, v = inputs
    context, weights = form(q, k, v, torch.full((B, T_q), T_k + D + 1.0), D)
    assert not context.any()
    assert not weights.any()
    assert all(g.isfinite().all() and not g.any() for g in torch.autograd.grad(context.sum(), inputs))


@each_form
@pytest.mark.parametrize("make", [lambda: GeneralAttention(d, 5), lambda: ConcatAttention(d, 5, 3)])
def test_another_mechanism_aligns(normal, positions, agree, form, make):
    """Its weights over the window, and for local-p the Gaussian after them."""
    mechanism, p = make().double(), positions.detach()
    inputs = normal(B, T_q, d), normal(B, T_k, 5), normal(B, T_k, d_v)

    def alone(q, k, v):
        weights = mechanism(q, k, v, alignment_window(p, T_k, D)).weights
        if form is local_p_attention:
            weights = weights * torch.exp(-2 * ((torch.arange(1, T_k + 1) - p[..., None]) / D) ** 2)
        return weights @ v, weights

    agree(lambda *x: form(*x, p, D, None, mechanism), alone, *inputs)


def test_positions_are_predicted_by_hand():
    """tanh(ln 3 / 2) = ½, v_p = 2 ln 3: σ(ln 3) = ¾ of a source of 8 words is 6."""
    h = torch.tensor([[math.log(3) / 2]])
    p = predicted_positions(h, torch.tensor([8.0]), torch.eye(1), torch.tensor([2 * math.log(3)]))
    torch.testing.assert_close(p, torch.tensor([6.0]))


def test_positions_are_predicted_state_by_state(normal, agree):
    S = torch.tensor([[11.0], [6.0]])

    def by_loop(h, W_p, v_p):
        each = [[S[b, 0] / (1 + torch.exp(-(v_p @ torch.tanh(W_p @ h[b, t])))) for t in range(T_q)] for b in range(B)]
        return torch.stack([torch.stack(row) for row in each])

    agree(lambda h, *W: predicted_positions(h, S, *W), by_loop, normal(B, T_q, d), normal(d_p, d), normal(d_p))


def test_gradients_against_differences(normal):
    q, k, v, p = normal(1, 2, 3), normal(1, 5, 3), normal(1, 5, 2), torch.tensor([[2.3, 4.4]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *x: local_m_attention(*x, p, 1), (q, k, v))
    assert torch.autograd.gradcheck(lambda *x: local_p_attention(*x, 1), (q, k, v, p.requires_grad_()))
    S = torch.tensor([[7.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *x: predicted_positions(x[0], S, *x[1:]), (q, normal(5, 3), normal(5)))


def local_p(mechanism=dot_attention):
    torch.manual_seed(0)
    return LocalPredictive(d, D, mechanism, d_p).double()


def test_the_module_predicts_and_attends(inputs):
    module, (q, k, v) = local_p(), inputs
    assert {name: tuple(p.shape) for name, p in module.named_parameters()} == {"W_p": (d_p, d), "v_p": (d_p,)}
    S = LENGTHS[:, None].double()
    p = predicted_positions(q, S, module.W_p, module.v_p)
    torch.testing.assert_close(module(q, k, v, MASK), local_p_attention(q, k, v, p, D, MASK))
    module(q, k, v, MASK).context.square().sum().backward()
    assert all((weights.grad != 0).any() for weights in module.parameters())


def test_a_padded_source_is_read_as_it_is_alone(inputs):
    module, (q, k, v) = local_p(GeneralAttention(d, d)), inputs
    padded = module(q, k, v, MASK)
    alone = module(q[1:], k[1:, :6], v[1:, :6])
    torch.testing.assert_close(padded.context[1:], alone.context)
    torch.testing.assert_close(padded.weights[1:, :, :6], alone.weights)


def test_it_attends_in_several_heads(normal):
    heads = MultiHead(2 * d, 2, local_p()).double()
    x, memory = normal(B, T_q, 2 * d), normal(B, T_k, 2 * d)
    context, weights = heads(x, memory, memory, MASK)
    assert context.shape == (B, T_q, 2 * d)
    assert not weights[1, :, :, 6:].any()


def test_the_module_starts_within_the_inverse_square_root_of_what_it_sums_over():
    torch.manual_seed(0)
    module = LocalPredictive(400, D, d_p=900)
    for parameter, bound in ((module.W_p, 1 / 20), (module.v_p, 1 / 30)):
        assert parameter.min().item() == pytest.approx(-bound, rel=0.01)
        assert parameter.max().item() == pytest.approx(bound, rel=0.01)


@each_form
def test_in_bfloat16_positions_stay_exact(form):
    """Words 301 and 303 of a long source are the same number in bfloat16, but the window distinguishes them."""
    q, k = torch.zeros(1, 1, 2, dtype=torch.bfloat16), torch.zeros(1, 400, 2, dtype=torch.bfloat16)
    attended = form(q, k, k, torch.tensor([[301.0]]), 1)
    assert attended.weights.nonzero()[:, -1].tolist() == [299, 300, 301]
    assert attended.weights.dtype == torch.bfloat16


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_a_window_in_a_long_source_is_where_float64_sets_it(normal, dtype, masked):
    """Near word 4,000, adjacent half-precision numbers are 2 (float16) and 16 (bfloat16) words apart."""
    T_k, d = 4096, 64
    torch.manual_seed(0)
    module = LocalPredictive(d, 10).to(dtype)
    q, k, v = (normal(1, T, d, scale=0.5).detach().to(dtype) for T in (T_q, T_k, T_k))
    mask = padding_mask(torch.tensor([4001]), T_k) if masked else None
    half = module(q, k, v, mask)
    exact = module.double()(q.double(), k.double(), v.double(), mask)
    assert half.weights.dtype == half.context.dtype == dtype
    torch.testing.assert_close(half.weights.double(), exact.weights, atol=16 * torch.finfo(dtype).eps, rtol=0)


def test_under_autocast_positions_are_predicted_in_float32(normal):
    h, W_p, v_p = (normal(*size).detach().float() for size in ((T_q, d), (d_p, d), (d_p,)))
    S = torch.tensor([4096.0])
    with torch.autocast("cpu", torch.bfloat16):
        p = predicted_positions(h, S, W_p, v_p)
    torch.testing.assert_close(p, predicted_positions(h, S, W_p, v_p))


@each_form
def test_what_does_not_fit_is_refused(inputs, positions, form, unchecked):
    with pytest.raises(ValueError, match="got D = 0"):
        form(*inputs, positions, 0)
    with pytest.raises(ValueError, match="each query needs an aligned position: got 5 queries"):
        form(*inputs, positions[:, 1:], D)
    with pytest.raises(ValueError, match="does not broadcast"):
        form(*inputs, positions, D, MASK[..., 1:])
    with pytest.raises(TypeError, match="must be bool"):
        form(*inputs, positions, D, MASK.float())
    with pytest.raises(TypeError, match="fused form"):
        form(*inputs, positions, D, None, fused_dot_attention)
    with pytest.raises(ValueError, match="got D = 0"):
        LocalPredictive(d, 0)
    with pytest.raises(TypeError, match="must be bool"):
        local_p()(*inputs, MASK.long())
