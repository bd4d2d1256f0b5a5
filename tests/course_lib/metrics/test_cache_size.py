"""The bytes of a cache: by hand, against the states of a model, and how groups and windows shrink it."""

import pytest
import torch

from course_lib.blocks import Sizes
from course_lib.metrics import GPT_3, cache_bytes
from course_lib.models import Llama


def test_by_hand():
    """3 layers, 2 heads of 5 features, 7 tokens: 210 numbers of keys and as many of values, 2 bytes each."""
    assert cache_bytes(3, 2, 5, 7) == 840
    assert cache_bytes(3, 2, 5, 7, window=4, bytes_per_number=4) == 960


def test_gpt_3():
    d_k = GPT_3.d_model // GPT_3.n_heads
    assert cache_bytes(GPT_3.n_layers, GPT_3.n_heads, d_k, 2_048) == 9_663_676_416
    assert cache_bytes(GPT_3.n_layers, 8, d_k, 2_048) == 805_306_368


@pytest.mark.parametrize("n_groups", [1, 2, 6])
def test_it_is_what_a_model_keeps(n_groups):
    """An independent form: the tensors in the state of a model, counted."""
    sizes = Sizes(d_model=24, n_heads=6, d_ff=7, n_layers=3)
    state = Llama(11, sizes, n_groups).start(torch.zeros(1, 5, dtype=torch.int64))
    held = sum(x.numel() * x.element_size() for layer in state.layers for x in layer)
    assert cache_bytes(sizes.n_layers, n_groups, d_k=4, T=5, bytes_per_number=4) == held


def test_a_window_bounds_it():
    within, at, beyond = (cache_bytes(2, 3, 5, T, window=11) for T in (7, 11, 1_000))
    assert within < at == beyond
    assert within == cache_bytes(2, 3, 5, 7)
