"""The Universal Transformer: one shared block, applied a fixed number of times, or a number that each position chooses."""

import pytest
import torch
from torch import nn

from course_lib.attention import MultiHead
from course_lib.blocks import Block, FeedForward, SelfAttention
from course_lib.models import AdaptiveSteps, SeparateSteps, SharedSteps, Universal, shared_encoder, step_encoding
from course_lib.primitives import padding_mask, sinusoidal_positions

B, T, D, N, C, STEPS = 3, 5, 6, 11, 7, 4
TOKENS = torch.randint(N, (B, T), generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([5, 3, 1])
REAL = torch.arange(T) < LENGTHS[:, None]


def block(seed=0):
    torch.manual_seed(seed)
    made = Block(SelfAttention(MultiHead(D, 3)), FeedForward(D, 13), D).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return made


def adaptive(seed=0, bias=-0.5):
    """A model whose halting depends on the state."""
    steps = AdaptiveSteps(block(seed), D, STEPS).double()
    nn.init.normal_(steps.halt.weight)
    nn.init.constant_(steps.halt.bias, bias)
    return steps


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def test_the_encoding_is_that_of_the_place_plus_that_of_the_step():
    """Position 3 and step 2, feature by feature."""
    torch.testing.assert_close(step_encoding(T, D, 2)[3], sinusoidal_positions(4, D)[3] + sinusoidal_positions(3, D)[2])
    assert step_encoding(1, 2, 1).tolist() == [[pytest.approx(0.8414710), pytest.approx(1.5403023)]]


def test_it_tells_places_apart_at_one_step_and_steps_at_one_place_but_cannot_tell_a_place_from_a_step():
    """The sum is symmetric: position 3 at step 2 equals position 2 at step 3."""
    encodings = torch.stack([step_encoding(T, D, step) for step in range(T)])
    for one in (encodings[2], encodings[:, 2]):
        assert torch.cdist(one, one).fill_diagonal_(1.0).min() > 1e-3
    torch.testing.assert_close(encodings, encodings.transpose(0, 1))


class Doubled(nn.Module):
    """A block that doubles."""

    def forward(self, x, mask=None):
        return 2 * x


def test_a_block_is_repeated_with_the_encoding_of_each_step_before_it():
    """By hand, with a block that doubles: 4x + 4 P¹ + 2 P²."""
    x = drawn(B, T, D)
    expected = 4 * x + 4 * step_encoding(T, D, 1) + 2 * step_encoding(T, D, 2)
    torch.testing.assert_close(SharedSteps(Doubled(), 2)(x).states, expected)


def test_the_shared_encoder_is_the_module_with_the_same_weights():
    torch.manual_seed(1)
    attention = MultiHead(D, 3, bias=False)
    made = Block(SelfAttention(attention), FeedForward(D, 13), D).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    four = tuple(getattr(attention, name).weight for name in ("W_q", "W_k", "W_v", "W_o"))
    W_1, W_2 = made.feed_forward.W_1, made.feed_forward.W_2
    network = W_1.weight, W_1.bias, W_2.weight, W_2.bias
    norms = tuple((norm.weight, norm.bias) for norm in (made.norm_1, made.norm_2))
    x, mask = drawn(B, T, D), padding_mask(LENGTHS, T)
    for n_steps in (1, STEPS):
        got = shared_encoder(x, four, network, norms, 3, n_steps, mask)
        torch.testing.assert_close(got, SharedSteps(made, n_steps)(x, mask).states)
    assert shared_encoder(x, four, network, norms, 3, 0) is x
    few = drawn(1, 2, D).requires_grad_()
    assert torch.autograd.gradcheck(lambda y: shared_encoder(y, four, network, norms, 3, 2), few)


def test_a_shared_encoder_of_zeros_by_hand():
    """Weights of zero leave the norms alone: of (x + P¹) at first, then of that + P²; at position 0, with two features.

    P¹ = (sin 1, 1 + cos 1) and P² = (sin 2, 1 + cos 2). Two features normalise to (-1, 1) or (1, -1).
    """
    zero, one = torch.zeros(2, 2, dtype=torch.float64), (torch.ones(2).double(), torch.zeros(2).double())
    network = torch.zeros(3, 2).double(), torch.zeros(3).double(), torch.zeros(2, 3).double(), torch.zeros(2).double()
    parts = (zero,) * 4, network, (one, one), 1
    x = torch.tensor([[[4.0, 0.0]]], dtype=torch.float64)
    signs = [shared_encoder(x, *parts, n)[0, 0].sign().tolist() for n in (1, 2)]
    assert signs == [[1, -1], [1, -1]]
    x = torch.tensor([[[0.0, 0.0]]], dtype=torch.float64)
    torch.testing.assert_close(shared_encoder(x, *parts, 1)[0, 0], torch.tensor([-1.0, 1.0]).double(), atol=1e-3, rtol=0)


def test_one_step_is_one_shared_layer():
    x, mask = drawn(B, T, D), padding_mask(LENGTHS, T)
    expected = block()(x + step_encoding(T, D, 1), mask)
    for steps in (SharedSteps(block(), 1), SeparateSteps([block()]), AdaptiveSteps(block(), D, 1).double()):
        torch.testing.assert_close(steps(x, mask).states, expected)


def test_shared_steps_are_separate_ones_with_equal_weights():
    x = drawn(B, T, D)
    separate = SeparateSteps([block() for _ in range(STEPS)])
    torch.testing.assert_close(SharedSteps(block(), STEPS)(x), separate(x))
    assert (SeparateSteps([block(i) for i in range(STEPS)])(x).states != separate(x).states).any()


def test_a_shared_block_is_one_set_of_parameters_whatever_the_number_of_steps():
    counts = [sum(p.numel() for p in SharedSteps(block(), n).parameters()) for n in (1, 9)]
    assert counts[0] == counts[1] == sum(p.numel() for p in block().parameters())


def test_its_gradient_is_the_sum_over_the_steps():
    x = drawn(B, T, D)
    shared, separate = SharedSteps(block(), STEPS), SeparateSteps([block() for _ in range(STEPS)])
    for steps in (shared, separate):
        steps(x).states.square().sum().backward()
    total = sum(each.feed_forward.W_1.weight.grad for each in separate.blocks)
    torch.testing.assert_close(shared.block.feed_forward.W_1.weight.grad, total)


def test_a_position_that_has_halted_stands_still_and_gets_the_mixture_of_its_states():
    """By a loop over single positions."""
    steps, x = adaptive(), drawn(B, T, D)
    mixed, shares, cost = steps(x)
    state, total, result = x, torch.zeros(B, T, dtype=torch.float64), torch.zeros(B, T, D, dtype=torch.float64)
    count = torch.zeros(B, T)
    for step in range(1, STEPS + 1):
        new = steps.block(state + step_encoding(T, D, step))
        after = state.clone()
        for b in range(B):
            for t in range(T):
                if total[b, t] < 0.99:
                    after[b, t] = new[b, t]
                    h = torch.sigmoid(steps.halt(new[b, t]))[0]
                    last = total[b, t] + h >= 0.99 or step == STEPS
                    result[b, t] += (1 - total[b, t] if last else h) * new[b, t]
                    total[b, t] = 1.0 if last else total[b, t] + h
                    count[b, t] += 1
        state = after
    torch.testing.assert_close(mixed, result)
    assert torch.equal((shares > 0).sum(-1), count.long())
    assert len(count.unique()) > 1
    assert ((cost >= count) & (cost <= count + 1)).all()


def test_positions_think_for_as_long_as_they_ask():
    x = drawn(B, T, D)
    for bias, n in ((50.0, 1), (-50.0, STEPS)):
        steps = AdaptiveSteps(block(), D, STEPS).double()
        nn.init.constant_(steps.halt.bias, bias)
        pondered = steps(x)
        assert ((pondered.halting > 1e-9).sum(-1) == 1).all()
        torch.testing.assert_close(pondered.states, SharedSteps(block(), n)(x).states)


@pytest.mark.parametrize("steps", [lambda: SharedSteps(block(), STEPS), adaptive])
def test_a_sequence_alone_is_read_as_in_a_padded_batch(steps):
    torch.manual_seed(0)
    model = Universal(N, C, D, steps()).double()
    logits, pondered = model(TOKENS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone, thought = model(TOKENS[row : row + 1, :length])
        torch.testing.assert_close(alone[0], logits[row, :length])
        torch.testing.assert_close(thought.cost[0], pondered.cost[row, :length])


def test_a_model_looks_where_the_mask_and_the_lengths_let_it():
    """Each attends to itself and its left neighbour: two steps reach two positions back, and never the padding."""
    neighbours = torch.ones(T, T, dtype=torch.bool).tril().triu(-1)
    model = Universal(N, C, D, SharedSteps(block(), 2)).double()
    x = model.tokens(TOKENS).detach().requires_grad_()
    model.steps(x, neighbours).states[:, 4].sum().backward()
    assert x.grad.abs().sum((0, 2)).ne(0).tolist() == [False, False, True, True, True]
    both, _ = model(TOKENS, LENGTHS, neighbours)
    padded = TOKENS.clone()
    padded[~REAL] = 0
    torch.testing.assert_close(both[REAL], model(padded, LENGTHS, neighbours)[0][REAL])
    for row, length in enumerate(LENGTHS.tolist()):
        alone, _ = model(TOKENS[row : row + 1, :length], mask=neighbours[:length, :length])
        torch.testing.assert_close(alone[0], both[row, :length])


def test_shares_of_a_model_sum_to_1_and_fixed_steps_cost_their_number():
    _, thought = Universal(N, C, D, adaptive()).double()(TOKENS)
    torch.testing.assert_close(thought.halting.sum(-1), torch.ones(B, T, dtype=torch.float64))
    _, fixed = Universal(N, C, D, SharedSteps(block(), STEPS)).double()(TOKENS)
    assert (fixed.cost == STEPS).all()
    assert torch.equal(fixed.halting[0, 0], torch.tensor([0, 0, 0, 1.0], dtype=torch.float64))


def test_the_ponder_cost_teaches_to_halt_earlier():
    """A few steps of gradient descent reduce the mean number of steps."""
    model = Universal(N, C, D, adaptive(bias=-2.0)).double()
    optimiser = torch.optim.SGD(model.steps.halt.parameters(), lr=1.0)
    costs = []
    for _ in range(20):
        cost = model(TOKENS)[1].cost.mean()
        optimiser.zero_grad()
        cost.backward()
        optimiser.step()
        costs.append(cost.item())
    assert costs[-1] < costs[0] - 0.5


@pytest.mark.parametrize("steps", [SharedSteps(block(), 0), SeparateSteps([]), AdaptiveSteps(block(), D, 0).double()])
def test_no_step_at_all_is_refused(steps):
    with pytest.raises(ValueError, match="at least one step"):
        steps(torch.zeros(B, T, D, dtype=torch.float64))


def test_the_number_of_steps_may_be_changed_at_test_time():
    steps, x = SharedSteps(block(), 2), drawn(B, T, D)
    two = steps(x).states
    steps.n_steps = 3
    torch.testing.assert_close(steps(x).states, block()(two + step_encoding(T, D, 3)))
