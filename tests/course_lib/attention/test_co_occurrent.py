"""Co-occurrent features: a mixture of softmaxes over all pixels, equal to attention where there is one softmax."""

import math

import pytest
import torch

from course_lib.attention import CoOccurrent, co_occurrent_features, scaled_dot_product_attention

B, N, C, d_v, n_mix, d = 2, 7, 5, 11, 3, 2
d_k = n_mix * d


def inputs(normal, *batch):
    return normal(*batch, N, C), normal(d_k, C), normal(d_v, C), normal(n_mix, d_k)


def by_loop(x, W_k, W_v, W_pi):
    """As in the authors' code: one image, one part and one pixel at a time."""
    z = x @ W_k.T
    pi = torch.softmax(W_pi @ z.mean(0), 0)
    rows = []
    for i in range(N):
        p = 0
        for m in range(n_mix):
            own = slice(m * d, (m + 1) * d)
            p = p + pi[m] * torch.softmax(torch.stack([z[i, own] @ z[j, own] for j in range(N)]) / math.sqrt(d_k), 0)
        rows.append(p)
    weights = torch.stack(rows)
    return weights @ (x @ W_v.T), weights


def test_by_hand():
    """Two positions x = (0, 0) and (√(√2 ln 3), 0), two parts: the first has weights ½ ½ and ¼ ¾, the second ½ ½ everywhere;
    if the first has ¾ of the mixture, the second position's weight on itself is ¾ · ¾ + ¼ · ½ = 11/16."""
    root = math.sqrt(math.sqrt(2) * math.log(3))
    x = torch.tensor([[0.0, 0.0], [root, 0.0]])
    W_pi = torch.tensor([[2 * math.log(3) / root, 0.0], [0.0, 0.0]])
    weights = co_occurrent_features(x, torch.eye(2), torch.eye(2), W_pi).weights
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.5], [5 / 16, 11 / 16]]))


def test_a_loop_over_pictures_parts_and_pixels_finds_the_same(normal, agree):
    agree(co_occurrent_features, by_loop, *inputs(normal))
    x, *weights = inputs(normal, B)
    context = co_occurrent_features(x, *weights).context
    for one, own in zip(x, context, strict=True):
        torch.testing.assert_close(own, by_loop(one, *weights)[0])


def test_of_one_softmax_it_is_attention_with_keys_as_queries(normal, agree):
    x, W_k, W_v, _ = inputs(normal, B)
    W_pi = normal(1, d_k).detach()
    spelled_out = lambda x, W_k, W_v: scaled_dot_product_attention(x @ W_k.T, x @ W_k.T, x @ W_v.T)  # noqa: E731
    agree(lambda x, W_k, W_v: co_occurrent_features(x, W_k, W_v, W_pi), spelled_out, x, W_k, W_v)


def test_a_mixture_has_a_rank_that_one_softmax_has_not():
    """With one feature per part, the logarithm of one softmax of products has rank 2 at most; that of a mixture has more."""
    generator = torch.Generator().manual_seed(0)
    x, W_k, W_v, W_pi = (
        torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((N, C), (2, C), (1, C), (2, 2))
    )
    rank = lambda *of: torch.linalg.matrix_rank(co_occurrent_features(x, *of).weights.log(), rtol=1e-9).item()  # noqa: E731
    assert rank(W_k[:1], W_v, W_pi[:1, :1]) == 2
    assert rank(W_k, W_v, W_pi[:1]) == 3
    assert rank(W_k, W_v, W_pi) > 3


def test_rows_are_probabilities(normal):
    weights = co_occurrent_features(*inputs(normal, B)).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, N).double())
    assert (weights > 0).all()


def test_gradients_against_differences(normal):
    assert torch.autograd.gradcheck(co_occurrent_features, (normal(2, 3, 3), normal(4, 3), normal(2, 3), normal(2, 4)))


def test_the_layer_is_the_function_over_pixels(normal, agree):
    layer = CoOccurrent(C, d_k, d_v, n_mix).double()
    x = normal(B, C, 3, 5)

    def spelled_out(x):
        context, weights = co_occurrent_features(x.flatten(2).mT, layer.W_k.weight, layer.W_v.weight, layer.W_pi.weight)
        return context.mT.reshape(B, d_v, 3, 5), weights

    agree(layer, spelled_out, x)


def test_parts_that_do_not_divide_are_refused(normal):
    with pytest.raises(ValueError, match="7 features of an embedding do not divide into 3 parts"):
        CoOccurrent(C, 7, d_v, 3)
    x, W_k, W_v, W_pi = inputs(normal)
    with pytest.raises(ValueError, match="do not divide into 3 heads"):
        co_occurrent_features(x, W_k[:5], W_v, W_pi[:, :5])


@pytest.mark.parametrize(("dtype", "size"), [(torch.float16, 300), (torch.bfloat16, 6)])
def test_scores_beyond_half_precision_are_formed_in_float32(normal, dtype, size):
    """Products of 300 and 300 exceed the range of float16, 65,504; bfloat16 rounds a score of 100 to a multiple of ½."""
    x, *weights = [x.detach().to(dtype) for x in inputs(normal, B)]
    x = size * x
    exact = co_occurrent_features(*(x.double() for x in (x, *weights)))
    attended = co_occurrent_features(x, *weights)
    assert {y.dtype for y in attended} == {dtype}
    for found, wanted in zip(attended, exact, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=2 * torch.finfo(dtype).eps, atol=0.1)
