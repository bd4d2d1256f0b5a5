"""Costs of layers: counts worked by hand, exponents that are known, and paths of graphs that are known."""

import pytest
import torch
import torch.nn.functional as F

from course_tools.notebook.layer_costs import (
    cheaper_until,
    exponent,
    measured_costs,
    milliseconds,
    multiply_adds,
    one_head,
    path_length,
    random_layers,
    recurrent_step,
    restricted_attention,
    sequential_operations,
    tokens_per_second,
)


def shifted(x):
    """Mix each position with the one before it."""
    return x + F.pad(x, (0, 0, 1, 0))[:-1]


def test_a_product_of_matrices_takes_as_many_multiply_adds_as_its_three_sizes():
    assert multiply_adds(torch.matmul, torch.ones(3, 5), torch.ones(5, 7)) == 3 * 5 * 7


@pytest.mark.parametrize("power", [-0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(power):
    sizes = [3, 5, 11, 13]
    assert exponent(sizes, [7 * n**power for n in sizes]) == pytest.approx(power, abs=1e-12)


def test_the_time_of_a_call_is_positive_and_every_run_is_made():
    calls = []
    assert milliseconds(lambda x: (calls.append(x) or x,), torch.ones(2), runs=3) > 0
    assert len(calls) == 4


def test_a_head_is_three_tensors_that_the_seed_decides():
    q, k, v = one_head(5, 3, seed=1)
    assert q.shape == k.shape == v.shape == (1, 1, 5, 3)
    assert not q.equal(k)
    assert q.equal(one_head(5, 3, seed=1)[0])
    assert not q.equal(one_head(5, 3, seed=2)[0])


class Counter:
    """A model whose next token is one more than the last, and whose state is the tokens that it has read."""

    def __init__(self):
        self.read = []

    def start(self, prompt):
        self.read.append(prompt.tolist())
        return ()

    def step(self, tokens, state):
        self.read.append(tokens.tolist())
        return F.one_hot(tokens + 1, 50).float(), (*state, tokens)


def test_generation_reads_the_prompt_once_and_then_one_token_per_step(monkeypatch):
    seconds = iter([start + passed for start, passed in enumerate((5, 2, 4, 5, 6, 5, 4, 3)) for passed in (0, passed)])
    monkeypatch.setattr("course_tools.notebook.layer_costs.time.perf_counter", lambda: next(seconds))
    model = Counter()
    assert tokens_per_second(model, torch.tensor([[1, 2, 3]]), n_sequences=2, n_steps=4) == 2 * 4 / 2.0
    assert model.read == [[[1, 2]], *([3 + i, 3 + i] for i in range(33))]


def test_the_longest_chain_of_products_counts_not_their_number():
    x, W = torch.ones(2, 3, requires_grad=True), torch.ones(3, 3)
    assert sequential_operations(x @ W + x @ W) == 1
    assert sequential_operations((x @ W).tanh() @ W + x @ W) == 2
    assert sequential_operations(x.tanh()) == 0
    assert sequential_operations(((x @ W).tanh() @ W).tanh().tanh(), ("Tanh",)) == 3


def test_a_layer_that_reaches_one_position_is_applied_once_for_each():
    x = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)
    assert path_length(shifted, x) == 6
    assert path_length(lambda x: x + x.mean(0), x) == 1


def test_a_layer_that_mixes_no_positions_joins_no_ends():
    with pytest.raises(ValueError, match="never depends on the first"):
        path_length(torch.tanh, torch.ones(3, 2, requires_grad=True))


def test_a_linear_cost_is_cheaper_than_a_quadratic_one_until_they_cross():
    def square(x):
        return x @ x.mT

    def line(x):
        return x @ torch.ones(3, 7)

    assert cheaper_until(square, line, 3) == 6
    assert cheaper_until(line, torch.clone, 3) == 0
    with pytest.raises(ValueError, match="up to 5"):
        cheaper_until(square, line, 3, most=5)


def test_a_window_has_an_edge():
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(restricted_attention(x, r=2)[3].sum(), x)
    assert [bool(row.any()) for row in gradient] == [False, True, True, True, True, True, False]
    torch.testing.assert_close(restricted_attention(x, r=6), random_layers(3)["self-attention"](x))


def test_each_layer_reaches_as_far_as_it_is_wide():
    x = torch.randn(28, 3, dtype=torch.float64, requires_grad=True)
    layers = random_layers(3)
    assert [path_length(layers[name], x) for name in ("self-attention", "convolution", "restricted")] == [1, 27, 4]
    assert sequential_operations(layers["recurrent"](x)) == 28
    assert path_length(recurrent_step(3), x) == 27


def test_the_costs_of_named_layers_are_those_of_the_single_measurements():
    torch.manual_seed(0)
    costs = measured_costs(("self-attention", "recurrent"), [8, 16], [5, 9], d=4)
    assert costs.work["self-attention"] == [2 * n * n * 4 for n in (8, 16)]
    assert costs.exponents == {"self-attention": 2.0, "recurrent": 1.0}
    assert costs.waits == {"self-attention": [2, 2], "recurrent": [5, 9]}
    assert costs.paths == {"self-attention": [1, 1], "recurrent": [4, 8]}
