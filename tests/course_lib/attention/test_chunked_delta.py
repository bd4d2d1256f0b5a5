"""The delta rule in chunks of any size is the loop over its steps; `test_delta.py` has what both forms share."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import chunked_delta_attention, delta_attention

B, h, T, d, d_v = 2, 3, 131, 5, 11


@pytest.mark.parametrize("chunk", [1, 2, 7, 16, 64, 131, 200])
def test_chunks_are_the_loop(normal, agree, chunk):
    def of_gates(form, *rest):
        return lambda q, k, v, b, g: form(q, F.normalize(k, dim=-1), v, b.sigmoid(), F.logsigmoid(g + 1), *rest)

    inputs = normal(B, h, T, d), normal(B, h, T, d), normal(B, h, T, d_v), normal(B, h, T), normal(B, h, T)
    agree(of_gates(chunked_delta_attention, chunk), of_gates(delta_attention), *inputs)


def test_without_decay(normal, agree):
    def without(form):
        return lambda q, k, v, b: form(q, F.normalize(k, dim=-1), v, b.sigmoid(), None)

    inputs = normal(B, T, d), normal(B, T, d), normal(B, T, d_v), normal(B, T)
    agree(without(lambda *x: chunked_delta_attention(*x, chunk=3)), without(delta_attention), *inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_thousand_similar_keys_in_one_chunk(dtype):
    """Rows of the triangular matrix are almost equal; substitution stays exact to rounding."""
    torch.manual_seed(0)
    k = F.normalize(torch.randn(d) + 0.01 * torch.randn(1000, d), dim=-1).double()
    v, beta = torch.randn(1000, d_v).double(), torch.ones(1000).double()
    exact = delta_attention(k, k, v, beta)
    found = chunked_delta_attention(*(x.to(dtype) for x in (k, k, v, beta)), chunk=1000)
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e4 * torch.finfo(dtype).eps)


def test_chunks_without_positions_are_refused(normal):
    with pytest.raises(ValueError, match="chunk must be at least 1, got 0"):
        chunked_delta_attention(normal(T, d), normal(T, d), normal(T, d_v), torch.ones(T).double(), None, 0)
