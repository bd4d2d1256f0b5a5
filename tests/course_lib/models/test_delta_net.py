"""Gated DeltaNet: its two forms agree, its memory does not grow, and it learns to read what was corrected."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.blocks import Sizes
from course_lib.generation import generate
from course_lib.models import GatedDeltaNet

B, T, N = 3, 11, 13
SIZES = Sizes(d_model=12, n_heads=2, d_ff=19, n_layers=2)
TOKENS = torch.randint(N, (B, T), generator=torch.Generator().manual_seed(0))


def model(seed=0, **rest):
    torch.manual_seed(seed)
    return GatedDeltaNet(N, SIZES, **rest).double()


@pytest.mark.parametrize("n_read", [0, 1, 5])
@pytest.mark.parametrize("width", [1, 3])
def test_step_by_step_it_says_what_it_says_in_parallel(n_read, width):
    net = model(width=width, chunk=4)
    at_once, memory = net(TOKENS), net.start(TOKENS[:, :n_read])
    for t in range(n_read, T):
        logits, memory = net.step(TOKENS[:, t], memory)
        torch.testing.assert_close(logits, at_once[:, t])
    assert memory.T == T


def test_its_memory_does_not_grow():
    net = model()
    held = {sum(part.numel() for layer in net.start(TOKENS[:, :n]).layers for part in layer) for n in (0, 1, T)}
    d_model, n_heads, _, n_layers = SIZES
    assert held == {B * n_layers * (d_model**2 // n_heads + 3 * 3 * d_model)}


def test_it_generates_from_its_memory_what_it_computes_from_the_text():
    net = model()
    at_once = TOKENS[:, :2]
    for _ in range(5):
        at_once = torch.cat([at_once, net(at_once)[:, -1:].argmax(-1)], dim=1)
    found = generate(net, TOKENS[:, :2], 5, lambda logits: logits.argmax(-1))
    torch.testing.assert_close(found[:, -5:], at_once[:, 2:])


def test_one_token_each_is_required():
    net = model()
    with pytest.raises(ValueError, match="token"):
        net.step(TOKENS[:2, 0], net.start(TOKENS))


def test_it_learns_which_value_of_a_key_is_the_newest():
    """Key, value, the same key, another value, the key again: the second value is wanted."""
    torch.manual_seed(0)
    net = GatedDeltaNet(N, SIZES)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(150):
        key, old, new = torch.randint(4, (64,)), 4 + torch.randint(9, (64,)), 4 + torch.randint(9, (64,))
        loss = F.cross_entropy(net(torch.stack([key, old, key, new, key], dim=1))[:, -1], new)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.3
