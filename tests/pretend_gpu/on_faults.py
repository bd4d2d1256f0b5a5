"""The device refuses what CUDA refuses: each fault here would not be noticed on a CPU."""

import numpy as np
import pytest
import torch
from torch import nn

from course_lib.attention import attend
from course_lib.blocks import Sizes
from course_lib.fast import csr_attend_edges
from course_lib.models import GPT
from course_lib.primitives import causal_mask

B, T, d = 2, 5, 6
DIFFERENT = "Expected all tensors to be on the same device"


@pytest.fixture
def x(device):
    return torch.randn(B, T, d, device=device)


def test_a_mask_made_on_the_cpu(x):
    with pytest.raises(RuntimeError, match=DIFFERENT):
        attend(x @ x.mT, x, causal_mask(T))
    assert attend(x @ x.mT, x, causal_mask(T, device=x.device)).context.shape == x.shape


def test_positions_made_on_the_cpu(x):
    with pytest.raises(RuntimeError, match=DIFFERENT):
        x + torch.arange(T)[:, None]
    assert (x + 1.0 + torch.tensor(2.0)).device == x.device  # a scalar tensor is accepted, as by CUDA


def test_weights_left_on_the_cpu(x):
    for layer in (nn.Linear(d, d), nn.LayerNorm(d), nn.LSTMCell(d, d)):
        with pytest.raises(RuntimeError, match=DIFFERENT):
            layer(x[0])
    with pytest.raises(RuntimeError, match=f"{DIFFERENT}|should be the same"):
        nn.Conv1d(T, 3, 1)(x)


def test_a_tensor_that_a_module_does_not_own(device):
    """`to` moves parameters and buffers, but not a plain attribute."""

    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = torch.ones(d)

        def forward(self, x):
            return x + self.shift

    with pytest.raises(RuntimeError, match=DIFFERENT):
        Shifted().to(device)(torch.ones(2, d, device=device))


def test_tokens_on_the_cpu(device):
    model = GPT(7, T, Sizes(d, 2, 7, 1)).to(device)
    with pytest.raises(RuntimeError, match=DIFFERENT):
        model(torch.zeros(B, T, dtype=torch.long))


def test_a_generator_of_the_wrong_device(device):
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(3, device=device, generator=torch.Generator())
    with pytest.raises(RuntimeError, match="generator"):
        torch.ones(2, 3, device=device).multinomial(1, generator=torch.Generator())
    with pytest.raises(RuntimeError, match="CPU"):
        torch.randn(3, generator=torch.Generator(device))


def test_its_own_generators_repeat_and_go_on(device):
    generator = torch.Generator(device).manual_seed(3)
    first, second = (torch.randn(4, device=device, generator=generator).tolist() for _ in range(2))
    assert first != second
    assert torch.randn(4, device=device, generator=generator.manual_seed(3)).tolist() == first
    torch.manual_seed(5)
    default = torch.rand(4, device=device).tolist()
    assert torch.rand(4, device=device).tolist() != default
    torch.manual_seed(5)
    assert torch.rand(4, device=device).tolist() == default


def test_numpy_without_cpu(x):
    for fault in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.square(x)):
        with pytest.raises(TypeError, match="can't convert"):
            fault()
    assert x.cpu().numpy().shape == (B, T, d)


def test_a_tensor_of_the_cpu_indexed_by_one_of_the_device(device):
    with pytest.raises((RuntimeError, IndexError), match=r"device|cpu"):
        torch.arange(5)[torch.tensor([1], device=device)]


def test_edges_on_the_cpu(device):
    edges = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(RuntimeError, match=DIFFERENT):
        csr_attend_edges(torch.ones(2, device=device), torch.ones(2, d, device=device), edges)


def test_an_assignment_from_the_cpu_is_a_copy(x):
    x[0] = torch.ones(T, d)
    assert x[0].eq(1).all()
