"""Linear attention: all forms are softmax attention with the scores log φ(q)ᵀφ(k), in values and in gradients."""

import pytest
import torch

from course_lib.attention import (
    LinearAttention,
    MultiHead,
    attend,
    causal_linear_attention,
    kernel_attention,
    linear_attention,
    linear_attention_step,
)
from course_lib.fast import chunked_linear_attention, inplace_linear_attention_step
from course_lib.primitives import causal_mask, elu_feature_map, padding_mask
from tests.course_lib.attention.other_forms import recurrent_linear_attention

B, H, T_q, T_k, f, d_v = 2, 3, 5, 7, 11, 13
CAUSAL = (causal_linear_attention, chunked_linear_attention, recurrent_linear_attention)
each_causal_form = pytest.mark.parametrize("form", CAUSAL)
each_form = pytest.mark.parametrize("form", [linear_attention, *CAUSAL])


def inputs(normal, *batch, T_q=T_k, T_k=T_k):
    """Positive features, elu + 1 of tensors that require a gradient."""
    return normal(*batch, T_q, f), normal(*batch, T_k, f), normal(*batch, T_k, d_v)


def of_features(form, *rest):
    return lambda q, k, v: form(elu_feature_map(q), elu_feature_map(k), v, *rest)


def by_definition(mask=None):
    def attention(q, k, v):
        phi_q, phi_k = elu_feature_map(q), elu_feature_map(k)
        return attend((phi_q @ phi_k.mT).log(), v, mask).context

    return attention


def test_by_hand():
    """φ(q) = (1, 2) has similarities 1·1 + 2·1 = 3 and 1·0 + 2·½ = 1: weights ¾ and ¼ of the values 4 and 8."""
    phi_q, phi_k = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 1.0], [0.0, 0.5]])
    v = torch.tensor([[4.0], [8.0]])
    torch.testing.assert_close(linear_attention(phi_q, phi_k, v), torch.tensor([[5.0]]))
    torch.testing.assert_close(kernel_attention(phi_q, phi_k, v).weights, torch.tensor([[0.75, 0.25]]))


@each_causal_form
def test_causal_by_hand(form):
    """The first position attends only to itself, 4; the second has similarities 1 and 3, so ¼ of 4 and ¾ of 8."""
    phi_q, phi_k = torch.tensor([[7.0, 1.0], [1.0, 2.0]]), torch.tensor([[0.0, 0.5], [1.0, 1.0]])
    torch.testing.assert_close(form(phi_q, phi_k, torch.tensor([[4.0], [8.0]])), torch.tensor([[4.0], [7.0]]))


def test_a_step_by_hand():
    """S = (2, 0)ᵀ, z = (1, 0); then φ(k) = (0, 1) writes 6: read by (1, 1), (2 + 6) / (1 + 1)."""
    S, z = torch.tensor([[2.0], [0.0]]), torch.tensor([1.0, 0.0])
    context, S, z = linear_attention_step(S, z, torch.ones(2), torch.tensor([0.0, 1.0]), torch.tensor([6.0]))
    assert (context.tolist(), S.tolist(), z.tolist()) == ([4.0], [[2.0], [6.0]], [1.0, 1.0])


@pytest.mark.parametrize("batch", [(), (B,), (B, H)])
@pytest.mark.parametrize("T_q", [T_q, T_k])
def test_full_is_attention_with_the_logarithm_of_the_kernel_as_scores(normal, agree, batch, T_q):
    agree(of_features(linear_attention), by_definition(), *inputs(normal, *batch, T_q=T_q))


@each_causal_form
@pytest.mark.parametrize("batch", [(), (B,), (B, H)])
def test_every_causal_form_is_masked_attention_with_these_scores(normal, agree, form, batch):
    agree(of_features(form), by_definition(causal_mask(T_k)), *inputs(normal, *batch))


@pytest.mark.parametrize("form", CAUSAL[1:])
def test_in_chunks_and_step_by_step_are_the_prefix_sums(normal, agree, form):
    agree(of_features(form), of_features(causal_linear_attention), *inputs(normal, B, H, T_q=131, T_k=131))


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 8, 64, 131, 200])
def test_the_size_of_a_chunk_does_not_matter(normal, agree, chunk):
    ours = of_features(chunked_linear_attention, None, chunk)
    agree(ours, of_features(chunked_linear_attention, None, 16), *inputs(normal, B, T_q=131, T_k=131))


def test_one_position_at_a_time_in_a_loop(normal, agree):
    def by_loop(q, k, v):
        rows = []
        for i in range(T_k):
            similar = [(elu_feature_map(q[:, i]) * elu_feature_map(k[:, j])).sum(-1) for j in range(i + 1)]
            rows.append(sum(s[:, None] * v[:, j] for j, s in enumerate(similar)) / sum(similar)[:, None])
        return torch.stack(rows, dim=1)

    agree(of_features(causal_linear_attention), by_loop, *inputs(normal, B))


def test_a_similarity_of_zero_is_a_weight_of_zero_and_its_gradients_are_numbers(agree, normal):
    """As for features of a ReLU: the logarithm of 0 must have no effect, even if a query has no similarity to any key."""
    features = lambda form: lambda q, k, v: form(q.relu(), k.relu(), v)  # noqa: E731
    q, k, v = normal(B, T_q, 2), normal(B, T_k, 2), normal(B, T_k, d_v)
    q.data[0, 1] = -1.0
    similarity = q.relu() @ k.relu().mT
    assert 0 < (similarity == 0).sum() < similarity.numel()
    agree(features(lambda *inputs: kernel_attention(*inputs).context), features(linear_attention), q, k, v)


def test_kernel_attention_shows_the_weights(normal):
    phi_q, phi_k, v = (elu_feature_map(x) for x in inputs(normal, B))
    context, weights = kernel_attention(phi_q, phi_k, v, causal_mask(T_k))
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, T_k).double())
    torch.testing.assert_close(weights @ v, context)
    assert not weights.triu(1).any()


@pytest.mark.parametrize("lengths", [[T_k, 3], [1, 0], [0, 0]])
@each_form
def test_hidden_keys_are_not_there(normal, agree, form, lengths):
    """Padding, and a sequence that is all padding: context 0, and no gradient."""
    mask = padding_mask(torch.tensor(lengths), T_k)
    both = mask if form is linear_attention else mask & causal_mask(T_k)
    agree(of_features(form, mask), by_definition(both), *inputs(normal, B))


@each_form
def test_a_mask_may_be_per_head_or_for_all(normal, agree, form):
    hidden = torch.tensor([True, False, True, True, False, True, True])
    causal = causal_mask(T_k) if form is not linear_attention else torch.ones(T_k, T_k, dtype=torch.bool)
    q, k, v = inputs(normal, B, H)
    agree(of_features(form, hidden), by_definition(hidden & causal), q, k, v)
    per_head = torch.stack([hidden, ~hidden, hidden.roll(1)])[None, :, None]
    agree(of_features(form, per_head), by_definition(per_head & causal), q, k, v)


@pytest.mark.parametrize("lengths", [[T_k, 3], [0, T_k]])
@each_form
def test_a_blind_query_gets_nothing_and_gives_no_gradient(normal, form, lengths):
    q, k, v = inputs(normal, B)
    context = of_features(form, padding_mask(torch.tensor(lengths), T_k))(q, k, v)
    context.exp().sum().backward()
    for b, length in enumerate(lengths):
        assert context[b].any() == (length > 0)
        assert not k.grad[b, length:].any()
        assert not v.grad[b, length:].any()
        assert q.grad[b].any() == (length > 0)
    assert all(x.grad.isfinite().all() for x in (q, k, v))


@each_causal_form
def test_the_future_does_not_show_by_one_bit(normal, form):
    q, k, v = (x.detach() for x in inputs(normal, B, T_q=131, T_k=131))
    before = of_features(form)(q, k, v)
    for t in (1, 63, 64, 65, 130):
        later = [torch.cat([x[:, :t], 1e3 + 1e3 * x[:, t:]], dim=1) for x in (q, k, v)]
        assert torch.equal(of_features(form)(*later)[:, :t], before[:, :t])


@each_form
def test_the_length_of_queries_and_of_all_keys_together_cancels(normal, form):
    phi_q, phi_k, v = (elu_feature_map(x.detach()) for x in inputs(normal, B))
    torch.testing.assert_close(form(3.0 * phi_q, 1e-3 * phi_k, v), form(phi_q, phi_k, v))


def test_the_order_of_the_keys_does_not_matter(normal):
    phi_q, phi_k, v = (elu_feature_map(x.detach()) for x in inputs(normal, B))
    order = torch.tensor([3, 0, 6, 4, 1, 5, 2])
    torch.testing.assert_close(linear_attention(phi_q, phi_k[:, order], v[:, order]), linear_attention(phi_q, phi_k, v))


@each_form
def test_gradients_against_differences(normal, form):
    small = normal(2, 5, 3), normal(2, 5, 3), normal(2, 5, 2)
    mask = padding_mask(torch.tensor([5, 2]), 5)
    assert torch.autograd.gradcheck(of_features(form, mask), small)


def test_gradients_against_differences_over_several_chunks(normal):
    small = normal(2, 5, 3), normal(2, 5, 3), normal(2, 5, 2)
    assert torch.autograd.gradcheck(of_features(chunked_linear_attention, None, 2), small)


def test_the_gradient_of_a_gradient_penalty_is_that_of_the_prefix_sums(normal):
    """Through a residual sum, whose incoming gradient requires no gradient: a constant would be returned silently."""

    def penalty(form, *leaves):
        q, k, v = (leaf.clone().requires_grad_() for leaf in leaves)
        first = torch.autograd.grad((v + of_features(form)(q, k, v)).sum(), (q, k, v), create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), (q, k, v))

    leaves = [x.detach() for x in inputs(normal, B)]
    exact = penalty(causal_linear_attention, *leaves)
    for found, wanted in zip(penalty(chunked_linear_attention, *leaves), exact, strict=True):
        torch.testing.assert_close(found, wanted)


def test_signed_features_are_taken_as_they_are(normal, agree):
    """Trigonometric features have both signs: no logarithm is taken, and the result is the quotient of sums."""
    phi_q, phi_k, v = inputs(normal, B)
    similar = lambda q, k: (q @ k.mT).tril()  # noqa: E731
    quotient = lambda q, k, v: similar(q, k) @ v / similar(q, k).sum(-1, keepdim=True)  # noqa: E731
    for form in CAUSAL:
        agree(form, quotient, phi_q, phi_k, v)


@pytest.mark.parametrize("step", [linear_attention_step, inplace_linear_attention_step])
def test_steps_are_the_rows_of_the_causal_form(normal, step):
    phi_q, phi_k, v = (elu_feature_map(x.detach()) for x in inputs(normal, B, H))
    S, z = torch.zeros(B, H, f, d_v).double(), torch.zeros(B, H, f).double()
    rows = causal_linear_attention(phi_q, phi_k, v)
    for t in range(T_k):
        context, S, z = step(S, z, phi_q[..., t, :], phi_k[..., t, :], v[..., t, :])
        torch.testing.assert_close(context, rows[..., t, :])
    torch.testing.assert_close(S, phi_k.mT @ v)
    torch.testing.assert_close(z, phi_k.sum(-2))


def test_only_the_step_in_place_writes_over_its_state(normal):
    phi_q, phi_k, v = (normal(B, size).detach().exp() for size in (f, f, d_v))
    for step, same in ((linear_attention_step, False), (inplace_linear_attention_step, True)):
        S, z = torch.zeros(B, f, d_v).double(), torch.zeros(B, f).double()
        _, new_S, new_z = step(S, z, phi_q, phi_k, v)
        assert (new_S is S, new_z is z, bool(S.any()), bool(z.any())) == (same,) * 4


def test_a_step_passes_gradients(normal):
    sizes = (2, 3, 5), (2, 3), (2, 3), (2, 3), (2, 5)
    state = [normal(*size) for size in sizes]
    assert torch.autograd.gradcheck(lambda *x: linear_attention_step(*(y.exp() for y in x)), state)


def test_more_features_than_values_and_strided_inputs(normal, agree):
    q, k, v = normal(f, B, 70), normal(B, 70, 2 * f), normal(B, d_v, 70)
    strided = lambda q, k, v: (q.permute(1, 2, 0), k[..., ::2], v.mT)  # noqa: E731
    ours = lambda *x: of_features(chunked_linear_attention)(*strided(*x))  # noqa: E731
    agree(ours, lambda *x: by_definition(causal_mask(70))(*strided(*x)), q, k, v)


def test_in_multi_head_attention(normal):
    torch.manual_seed(0)
    x, mask = normal(B, T_k, 24), padding_mask(torch.tensor([T_k, 3]), T_k)
    for mix, causal in ((linear_attention, False), (chunked_linear_attention, True)):
        layer = MultiHead(24, H, LinearAttention(elu_feature_map, mix)).double()
        twin = MultiHead(24, H, lambda q, k, v, m: kernel_attention(elu_feature_map(q), elu_feature_map(k), v, m)).double()
        twin.load_state_dict(layer.state_dict())
        context, weights = layer(x, x, x, mask)
        assert weights is None
        torch.testing.assert_close(context, twin(x, x, x, mask & causal_mask(T_k) if causal else mask).context)
