"""Multi-head attention: each head attends in its own projection; heads are combined only by the last product."""

import math

import pytest
import torch
from torch import nn

from course_lib.attention import (
    AdditiveAttention,
    GeneralAttention,
    GroupedQueryAttention,
    LinearAttention,
    MultiHead,
    RotaryAttention,
    causal_attention,
    dot_attention,
    merge_heads,
    multi_head_attention,
    scaled_dot_product_attention,
    split_heads,
)
from course_lib.fast import fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.primitives import causal_mask, padding_mask

B, H, T_q, T_k, d_k, d_v, d_memory, d_model = 2, 3, 5, 7, 11, 13, 17, 33


def some_mask():
    mask = torch.rand(B, T_q, T_k, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[..., 2] = True
    return mask


def inputs(normal, d_q=19, d_k_in=23, d_v_in=29, d_out=31):
    """Queries, keys, values, W_q, W_k, W_v, W_o: all sizes are distinct primes."""
    sizes = (
        (B, T_q, d_q),
        (B, T_k, d_k_in),
        (B, T_k, d_v_in),
        (H * d_k, d_q),
        (H * d_k, d_k_in),
        (H * d_v, d_v_in),
        (d_out, H * d_v),
    )
    return tuple(normal(*size, scale=0.5) for size in sizes)


def head_by_head(queries, keys, values, W_q, W_k, W_v, W_o, mask):
    """Section 3.2.2 literally: head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V), Concat(head_1 … head_h) W^O."""
    heads = []
    for i in range(H):
        W_i_q, W_i_k, W_i_v = W_q[i * d_k : (i + 1) * d_k].T, W_k[i * d_k : (i + 1) * d_k].T, W_v[i * d_v : (i + 1) * d_v].T
        scores = torch.einsum("bid,bjd->bij", queries @ W_i_q, keys @ W_i_k) / math.sqrt(d_k)
        shares = scores.exp() * mask
        heads.append(shares / shares.sum(-1, keepdim=True) @ (values @ W_i_v))
    return torch.cat(heads, dim=-1) @ W_o.T


def torchs_own(module, bias=True):
    """torch.nn.MultiheadAttention with the weights of a MultiHead whose keys and values have size d_memory."""
    theirs = nn.MultiheadAttention(d_model, H, bias=bias, kdim=d_memory, vdim=d_memory, batch_first=True).double()
    with torch.no_grad():
        theirs.q_proj_weight.copy_(module.W_q.weight)
        theirs.k_proj_weight.copy_(module.W_k.weight)
        theirs.v_proj_weight.copy_(module.W_v.weight)
        theirs.out_proj.weight.copy_(module.W_o.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([module.W_q.bias, module.W_k.bias, module.W_v.bias]))
            theirs.out_proj.bias.copy_(module.W_o.bias)
    return theirs


def test_splitting_by_hand():
    x = torch.arange(12).float().view(2, 6)
    assert split_heads(x, 3).tolist() == [[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]]


def test_a_head_owns_neighbouring_features_of_every_position(normal):
    x = normal(B, T_q, H * d_k)
    heads = split_heads(x, H)
    assert heads.shape == (B, H, T_q, d_k)
    for i in range(H):
        assert (heads[:, i] == x[..., i * d_k : (i + 1) * d_k]).all()


@pytest.mark.parametrize("batch", [(), (B,), (B, 2)])
def test_merging_undoes_splitting(normal, agree, batch):
    agree(lambda x: merge_heads(split_heads(x, H)), lambda x: x.clone(), normal(*batch, T_q, H * d_k))


def test_splitting_passes_the_gradient_on(normal):
    assert torch.autograd.gradcheck(lambda x: split_heads(x, 3), normal(2, 5, 6))
    assert torch.autograd.gradcheck(merge_heads, normal(2, 3, 5, 2))


def test_two_heads_by_hand():
    """Two heads of size 1 over keys 0 and 1: the first has query 0, so ½ : ½; the second ln 3, so 1 : 3."""
    query, memory = torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0]])
    W_q, W_k = torch.tensor([[0.0], [math.log(3)]]), torch.tensor([[1.0], [1.0]])
    W_v, W_o = torch.tensor([[8.0], [8.0]]), torch.tensor([[1.0, 100.0]])
    context, weights = multi_head_attention(query, memory, memory, W_q, W_k, W_v, W_o, n_heads=2)
    torch.testing.assert_close(weights, torch.tensor([[[0.5, 0.5]], [[0.25, 0.75]]]))
    torch.testing.assert_close(context, torch.tensor([[604.0]]))


def test_it_is_the_papers_formula_head_by_head(normal, agree):
    mask = some_mask()
    ours = lambda *t: multi_head_attention(*t, n_heads=H, mask=mask).context  # noqa: E731
    agree(ours, lambda *t: head_by_head(*t, mask), *inputs(normal))


def test_one_head_with_identities_is_scaled_dot_product_attention(normal, agree):
    eye = torch.eye(d_k, dtype=torch.float64)
    one_head = lambda q, k, v: multi_head_attention(q, k, v, eye, eye, eye, eye, n_heads=1).context  # noqa: E731
    q, k, v = normal(B, T_q, d_k), normal(B, T_k, d_k), normal(B, T_k, d_k)
    agree(one_head, lambda q, k, v: scaled_dot_product_attention(q, k, v).context, q, k, v)


def test_heads_do_not_see_each_other(normal):
    """The weights of a head depend on its own rows of W_q and W_k, and on no other."""
    parts = inputs(normal)
    _, weights = multi_head_attention(*parts, n_heads=H)
    for i in range(H):
        for gradient in torch.autograd.grad(weights[:, i].square().sum(), (parts[3], parts[4]), retain_graph=True):
            by_head = gradient.unflatten(0, (H, d_k))
            assert by_head[i].any()
            assert not by_head[torch.arange(H) != i].any()


def test_the_order_of_the_heads_does_not_matter(normal):
    queries, keys, values, W_q, W_k, W_v, W_o = inputs(normal)
    order = torch.tensor([2, 0, 1])
    rows = lambda W: W.unflatten(0, (H, -1))[order].flatten(0, 1)  # noqa: E731
    context, weights = multi_head_attention(queries, keys, values, W_q, W_k, W_v, W_o, H)
    other, reordered = multi_head_attention(queries, keys, values, rows(W_q), rows(W_k), rows(W_v), rows(W_o.T).T, H)
    torch.testing.assert_close(other, context)
    torch.testing.assert_close(reordered, weights[:, order])


def test_the_scale_is_that_of_a_head_and_not_of_the_model(normal):
    """Doubling the number of heads of the same size does not change the weights of the first ones."""
    queries, keys, values, W_q, W_k, W_v, W_o = inputs(normal)
    _, weights = multi_head_attention(queries, keys, values, W_q, W_k, W_v, W_o, H)
    twice = torch.cat([W_q] * 2), torch.cat([W_k] * 2), torch.cat([W_v] * 2), torch.cat([W_o] * 2, dim=1)
    torch.testing.assert_close(multi_head_attention(queries, keys, values, *twice, 2 * H).weights, torch.cat([weights] * 2, 1))


@pytest.mark.parametrize("mask", [some_mask(), causal_mask(T_q, T_k), padding_mask(torch.tensor([T_k, 2]), T_k), None])
def test_every_head_obeys_the_same_mask(normal, mask):
    _, weights = multi_head_attention(*inputs(normal), n_heads=H, mask=mask)
    allowed = torch.ones(B, T_q, T_k, dtype=torch.bool) if mask is None else mask.expand(B, T_q, T_k)
    for i in range(H):
        assert (weights[:, i][~allowed] == 0).all()
        assert (weights[:, i][allowed] > 0).all()


def test_a_blind_query_gets_zeros_and_no_nan(normal):
    mask = some_mask()
    mask[1, 3] = False
    parts = inputs(normal)
    context, weights = multi_head_attention(*parts, n_heads=H, mask=mask)
    assert not context[1, 3].any()
    assert not weights[1, :, 3].any()
    context.square().sum().backward()
    assert all(t.grad.isfinite().all() for t in parts)
    assert not parts[0].grad[1, 3].any()


def test_gradients_against_differences(normal):
    sizes = (2, 3, 5), (2, 2, 5), (2, 2, 5), (4, 5), (4, 5), (6, 5), (3, 6)
    small = tuple(normal(*size) for size in sizes)
    mask = torch.tensor([[True, False], [False, False], [True, True]])
    assert torch.autograd.gradcheck(lambda *t: tuple(multi_head_attention(*t, n_heads=2, mask=mask)), small)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask", [None, some_mask(), causal_mask(T_q, T_k), padding_mask(torch.tensor([T_k, 2]), T_k)])
def test_the_module_is_torchs_own(normal, agree, bias, mask):
    torch.manual_seed(0)
    module = MultiHead(d_model, H, d_memory=d_memory, bias=bias).double()
    theirs = torchs_own(module, bias)
    hidden = None if mask is None else ~mask.expand(B, T_q, T_k).repeat_interleave(H, dim=0)

    def their_form(queries, keys, values):
        return theirs(queries, keys, values, attn_mask=hidden, average_attn_weights=False)

    tokens = normal(B, T_q, d_model), normal(B, T_k, d_memory), normal(B, T_k, d_memory)
    agree(lambda *t: module(*t, mask), their_form, *tokens)

    for run in (lambda *t: module(*t, mask).context, lambda *t: their_form(*t)[0]):
        run(*tokens).square().sum().backward()
    weights = theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight, theirs.out_proj.weight
    for part, weight in zip((module.W_q, module.W_k, module.W_v, module.W_o), weights, strict=True):
        torch.testing.assert_close(part.weight.grad, weight.grad, atol=1e-10, rtol=1e-10)
    if bias:
        biases = torch.cat([module.W_q.bias.grad, module.W_k.bias.grad, module.W_v.bias.grad])
        torch.testing.assert_close(biases, theirs.in_proj_bias.grad, atol=1e-10, rtol=1e-10)


def test_the_module_without_biases_is_the_function_with_its_weights(normal, agree):
    module = MultiHead(d_model, H, d_k=d_k, d_v=d_v, d_memory=d_memory, bias=False).double()
    mask = some_mask()
    mask[0, 0] = False
    weights = (module.W_q.weight, module.W_k.weight, module.W_v.weight, module.W_o.weight)
    agree(
        lambda *t: module(*t, mask),
        lambda *t: multi_head_attention(*t, *weights, n_heads=H, mask=mask),
        normal(B, T_q, d_model),
        normal(B, T_k, d_memory),
        normal(B, T_k, d_memory),
    )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "mechanism",
    [
        AdditiveAttention(d_k, d_k, 19).double(),
        GeneralAttention(d_k, d_k).double(),
        dot_attention,
        causal_attention,
        fused_scaled_dot_product_attention,
    ],
    ids=["additive", "general", "dot", "causal", "fused"],
)
def test_any_mechanism_may_sit_in_the_heads(normal, agree, mechanism, masked):
    """The module equals that mechanism applied head by head to slices of the projections."""
    module = MultiHead(d_model, H, mechanism, d_v=d_v).double()
    mask = some_mask() if masked else None
    if mask is not None:
        mask[1, 4] = False

    def by_head(queries, keys, values):
        q, k, v = module.W_q(queries), module.W_k(keys), module.W_v(values)
        slices = zip(q.split(d_k, -1), k.split(d_k, -1), v.split(d_v, -1), strict=True)
        return module.W_o(torch.cat([mechanism(*parts, mask).context for parts in slices], dim=-1))

    tokens = normal(B, T_q, d_model), normal(B, T_k, d_model), normal(B, T_k, d_model)
    agree(lambda *t: module(*t, mask).context, by_head, *tokens)


def test_a_mechanism_with_parameters_is_part_of_the_module():
    names = {name for name, _ in MultiHead(d_model, H, GeneralAttention(d_k, d_k)).named_parameters()}
    assert "mechanism.W" in names


def test_sizes_follow_the_paper_where_none_are_given():
    module = MultiHead(d_model=H * d_k, n_heads=H)
    shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    size = H * d_k
    assert shapes == {**{f"W_{x}.weight": (size, size) for x in "qkvo"}, **{f"W_{x}.bias": (size,) for x in "qkvo"}}


@pytest.mark.parametrize("heads", [1, 3])
def test_a_mask_may_have_an_axis_of_heads(normal, heads):
    x = normal(2, 5, 6).detach()
    layer = MultiHead(6, 3).double()
    mask = causal_mask(5).expand(2, heads, 5, 5).clone()
    mask[0, 0, 4, 2:] = False
    weights = layer(x, x, x, mask).weights
    assert torch.equal(weights != 0, mask.expand(2, 3, 5, 5))


def test_a_mask_that_fits_no_scores_is_refused(normal):
    x = normal(2, 5, 6).detach()
    with pytest.raises(ValueError, match=r"a mask of shape \(2, 4, 5, 5\) .* = \(2, 3, 5, 5\)"):
        MultiHead(6, 3).double()(x, x, x, torch.ones(2, 4, 5, 5, dtype=torch.bool))


def test_a_mask_that_linear_attention_cannot_follow_is_described_as_it_was_passed(normal):
    x = normal(2, 5, 6).detach().float()
    with pytest.raises(ValueError, match="got one of 5 queries") as refused:
        MultiHead(6, 3, LinearAttention())(x, x, x, torch.ones(2, 5, 5, dtype=torch.bool))
    assert "(2, 1, 5, 5)" not in str(refused.value)


def test_no_head_is_refused(normal):
    with pytest.raises(ValueError, match="6 features do not divide into 0 heads"):
        split_heads(normal(5, 6), 0)


@pytest.mark.parametrize("make", [lambda m: MultiHead(12, 2, m), GroupedQueryAttention, lambda m: RotaryAttention(6, m)])
@pytest.mark.parametrize(("given", "message"), [(RotaryAttention, "class RotaryAttention: call it"), ("causal", "'causal'")])
def test_what_is_no_mechanism_is_refused_where_it_is_passed(make, given, message, unchecked):
    with pytest.raises(TypeError, match=f"a mechanism is .* got .*{message}"):
        make(given)


def test_a_printed_layer_shows_its_heads_and_every_mechanism_once():
    layer = MultiHead(24, 4, RotaryAttention(6, GroupedQueryAttention(fused_causal_attention), 500.0), n_groups=2)
    for part in ("n_heads=4, n_groups=2", "d_k=6, base=500.0", "mechanism=fused_causal_attention"):
        assert repr(layer).count(part) == 1
    assert "mechanism=scaled_dot_product_attention" in repr(MultiHead(12, 2))
