"""Pooling by a learned query: tokens that match it weigh most, padding has weight 0, and order does not matter."""

import math

import pytest
import torch

from course_lib.attention import Pool, attend, mean_pool, pool

B, S, T, d_v, d_a = 2, 3, 5, 7, 11


def weights(normal):
    return normal(d_a, d_v), normal(d_a), normal(d_a)


def some_mask():
    mask = torch.rand(B, S, T, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[..., 0] = True
    return mask


def by_loop(values, W, b, u, mask):
    """Eqs. 5-7 for one sequence after the other."""
    contexts, rows = [], []
    for words, real in zip(values.flatten(0, 1), mask.flatten(0, 1), strict=True):
        e = torch.stack([torch.exp(torch.tanh(W @ h + b) @ u) for h in words]) * real
        rows.append(e / e.sum())
        contexts.append(sum(a * h for a, h in zip(rows[-1], words, strict=True)))
    return torch.stack(contexts).unflatten(0, (B, S)), torch.stack(rows).unflatten(0, (B, S))


def test_it_is_the_equation_one_sequence_after_the_other(normal, agree):
    agree(lambda *x: pool(*x, some_mask()), lambda *x: by_loop(*x, some_mask()), normal(B, S, T, d_v), *weights(normal))


def test_a_query_decides_by_hand():
    """Words along the first axis have tanh(½ ln 3) = ½; with u = 2 ln 3 they score ln 3, others 0: weights ¾ and ¼."""
    W, b, u = torch.tensor([[0.5 * math.log(3), 0.0]]), torch.zeros(1), torch.tensor([2 * math.log(3)])
    context, row = pool(torch.tensor([[1.0, 0.0], [0.0, 8.0]]), W, b, u)
    torch.testing.assert_close(row, torch.tensor([0.75, 0.25]))
    torch.testing.assert_close(context, torch.tensor([0.75, 2.0]))


def test_the_order_of_the_tokens_does_not_matter(normal):
    values, order = normal(B, T, d_v), torch.randperm(T, generator=torch.Generator().manual_seed(0))
    W_b_u = weights(normal)
    torch.testing.assert_close(pool(values[:, order], *W_b_u).context, pool(values, *W_b_u).context)
    torch.testing.assert_close(pool(values[:, order], *W_b_u).weights, pool(values, *W_b_u).weights[:, order])


@pytest.mark.parametrize("form", ["pool", "mean"])
def test_padding_weighs_nothing_and_an_empty_sequence_is_zero(normal, form):
    mask = some_mask()
    mask[1, 2] = False
    values, W_b_u = normal(B, S, T, d_v), weights(normal)
    context, row = pool(values, *W_b_u, mask) if form == "pool" else mean_pool(values, mask)
    assert (row[~mask] == 0).all()
    assert (context[1, 2] == 0).all()
    torch.testing.assert_close(row.sum(-1), mask.any(-1).double())
    context.sum().backward()
    assert values.grad.isfinite().all()
    assert (values.grad[1, 2] == 0).all()


def test_the_plain_mean_is_the_mean_of_the_real_tokens(normal):
    values, mask = normal(B, S, T, d_v), some_mask()
    torch.testing.assert_close(mean_pool(values, mask).context[0, 1], values[0, 1][mask[0, 1]].mean(0))
    torch.testing.assert_close(mean_pool(values).context, values.mean(-2))


def test_a_query_of_zero_gives_the_plain_mean(normal, agree):
    W, b, u = (x.detach() for x in weights(normal))
    agree(lambda values: pool(values, W, b, u * 0).context, lambda values: mean_pool(values).context, normal(B, T, d_v))


def test_the_module_is_the_function_with_its_weights(normal, agree):
    module = Pool(d_v, d_a).double()
    agree(lambda x: module(x, some_mask()), lambda x: pool(x, module.W, module.b, module.u, some_mask()), normal(B, S, T, d_v))


def test_it_is_attention_with_one_query_for_all(normal, agree):
    """A query u against the keys tanh(W h + b), without a scale."""

    def by_attend(values, W, b, u):
        context, row = attend(u.expand(B, 1, d_a) @ torch.tanh(values @ W.mT + b).mT, values)
        return context[:, 0], row[:, 0]

    agree(pool, by_attend, normal(B, T, d_v), *weights(normal))


def test_gradients_against_differences(normal):
    assert torch.autograd.gradcheck(lambda *x: tuple(pool(*x)), (normal(2, 3, 5), normal(7, 5), normal(7), normal(7)))


def test_large_numbers_give_a_choice_and_no_nan():
    """Scores of ± 1e4 with values of 1e30."""
    values = torch.tensor([[1e30, -1.0], [1e30, 1.0]])
    context, row = pool(values, torch.tensor([[0.0, 50.0]]), torch.zeros(1), torch.tensor([1e4]))
    assert row.tolist() == [0.0, 1.0]
    assert context.isfinite().all()


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_padding_that_holds_nan_or_infinity_reaches_no_gradient(normal, poison):
    layer, mask = Pool(d_v, d_a).double(), torch.arange(T) < torch.tensor([3, T])[:, None]
    x = normal(2, T, d_v).detach()
    poisoned = torch.where(mask[..., None], x, poison)
    found = []
    for tokens in (x, poisoned):
        leaf = tokens.clone().requires_grad_()
        out = layer(leaf, mask)
        found.append((*out, *torch.autograd.grad(out.context.square().sum(), [leaf, *layer.parameters()])))
    torch.testing.assert_close(*found)
