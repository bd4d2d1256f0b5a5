"""Halting: weights that sum to 1, a ponder cost counted by hand, and one rule for which positions are active."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.primitives import adaptive_step, halting_distribution, mix_states, ponder_cost

B, T, D = 3, 5, 11
NEVER = torch.zeros(D), torch.tensor(-torch.inf)


def drawn(*shape, seed=3):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def chances(*shape, seed=1):
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) ** 2


def by_loop(h, epsilon):
    """Graves 2016, eqs. 6-9, one position at a time: p, N and R."""
    p, total = [0.0] * len(h), 0.0
    for n, h_n in enumerate(h):
        if total + h_n >= 1 - epsilon or n == len(h) - 1:
            p[n] = 1 - total
            return p, n + 1, 1 - total
        p[n] = h_n
        total += h_n
    raise AssertionError


def test_halting_by_hand():
    """0.3 + 0.5 + 0.4 passes 1 at the third step, which gets the remainder 0.2; the cost is 3 + 0.2."""
    h = torch.tensor([0.3, 0.5, 0.4, 0.9])
    torch.testing.assert_close(halting_distribution(h), torch.tensor([0.3, 0.5, 0.2, 0.0]))
    assert ponder_cost(h).item() == pytest.approx(3.2)


@pytest.mark.parametrize(
    ("h", "shares", "cost"),
    [
        ([1.0, 0.5, 0.5], [1, 0, 0], 2.0),
        ([0.995, 0.5, 0.5], [1, 0, 0], 2.0),
        ([0.0, 0.0, 0.0], [0, 0, 1], 4.0),
        ([0.1, 0.1, 0.1], [0.1, 0.1, 0.8], 3.8),
        ([0.7], [1.0], 2.0),
    ],
)
def test_edges_by_hand(h, shares, cost):
    """Halt at once, within ε of 1, never, at the limit, and with a single step."""
    torch.testing.assert_close(halting_distribution(torch.tensor(h)), torch.tensor(shares).float())
    assert ponder_cost(torch.tensor(h)).item() == pytest.approx(cost)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.4])
def test_it_is_the_loop_one_position_at_a_time(epsilon):
    h = torch.rand(B, T, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) ** 2
    shares, cost = halting_distribution(h, epsilon), ponder_cost(h, epsilon)
    for b in range(B):
        for t in range(T):
            p, N_steps, R = by_loop(h[b, t].tolist(), epsilon)
            torch.testing.assert_close(shares[b, t], torch.tensor(p, dtype=torch.float64))
            assert cost[b, t].item() == pytest.approx(N_steps + R)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shares_sum_to_1_and_none_is_negative(dtype):
    h = torch.rand(1000, 7, generator=torch.Generator().manual_seed(2)).to(dtype)
    shares = halting_distribution(h)
    assert (shares >= 0).all()
    torch.testing.assert_close(
        shares.double().sum(-1), torch.ones(1000, dtype=torch.float64), atol=4 * torch.finfo(dtype).eps, rtol=0
    )


def test_only_the_remainder_has_a_gradient_and_it_falls_with_what_comes_before():
    h = torch.tensor([0.3, 0.5, 0.4, 0.9], requires_grad=True)
    ponder_cost(h).backward()
    assert h.grad.tolist() == [-1, -1, 0, 0]


def test_gradients_against_differences():
    h = torch.tensor([[0.3, 0.5, 0.4], [0.1, 0.2, 0.3]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(halting_distribution, h)
    assert torch.autograd.gradcheck(ponder_cost, h)


def test_a_step_by_hand():
    """Three positions have sums of 0.5, 0.98 and 0.995 so far: the first two are updated. Each halts with σ(2 · state - 1)."""
    x, y = torch.tensor([[[1.0], [2.0], [3.0]]]), torch.tensor([[[0.5], [0.0], [0.0]]])
    h = torch.tensor([[[0.2, 0.3], [0.9, 0.08], [0.005, 0.99]]])
    states, after = adaptive_step(x, y, (torch.tensor([2.0]), torch.tensor(-1.0)), h)
    assert states.squeeze(-1).tolist() == [[0.5, 0.0, 3.0]]
    assert torch.equal(after[..., :2], h)
    torch.testing.assert_close(after[..., 2], torch.tensor([[0.5, 0.2689414, 0.9933072]]))


def test_at_the_first_step_everyone_thinks():
    x, y = drawn(B, T, D), drawn(B, T, D, seed=4)
    states, h = adaptive_step(x, y, (drawn(D), drawn()), x.new_zeros(B, T, 0))
    assert torch.equal(states, y)
    torch.testing.assert_close(h[..., 0], torch.sigmoid(y @ drawn(D) + drawn()))


@pytest.mark.parametrize(("epsilon", "thinks"), [(0.5, False), (0.4375, True), (0.0, True)])
def test_a_position_halts_where_its_sum_reaches_1_less_epsilon_and_not_only_where_it_passes_it(epsilon, thinks):
    """Exact in binary: 0.25 + 0.25 = 0.5. And the weights agree with the step."""
    h = torch.tensor([[[0.25, 0.25]]])
    states, _ = adaptive_step(torch.zeros(1, 1, 1), torch.ones(1, 1, 1), (torch.zeros(1), torch.tensor(0.0)), h, epsilon)
    assert bool(states) is thinks
    assert bool(halting_distribution(F.pad(h, (0, 1)), epsilon)[..., 2] > 0) is thinks


def steps_taken(h, epsilon):
    """How often each position takes a step, by `adaptive_step`, one step after the other."""
    x = h.new_zeros(*h.shape[:2], 1)
    for n in range(h.shape[-1]):
        x, _ = adaptive_step(x, x + 1, (h.new_zeros(1), h.new_zeros(())), h[..., :n], epsilon)
    return x.squeeze(-1)


def tenths(dtype, device="cpu"):
    """Probabilities whose sums equal the threshold except for rounding: 0.1, 0.2, …, in every order."""
    order = torch.rand(1, 2_000, 9, generator=torch.Generator().manual_seed(5)).argsort(-1)
    return (torch.tensor([1, 1, 2, 2, 3, 1, 1, 4, 1])[order].to(torch.float64) / 10).to(dtype).to(device)


def agree(h):
    for epsilon in (0.0, 0.1, 0.3):
        taken = steps_taken(h, epsilon)
        assert torch.equal(taken, (halting_distribution(h, epsilon) > 0).sum(-1).to(taken))
        if epsilon > 0:  # without ε the remainder may be too small to change N
            assert torch.equal(taken, ponder_cost(h, epsilon).ceil() - 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_steps_shares_and_cost_agree_about_who_thinks_to_the_last_bit(dtype):
    agree(tenths(dtype))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_they_agree_on_a_gpu(dtype):
    agree(tenths(dtype, "cuda"))


def test_a_step_leaves_its_inputs_and_has_the_gradients_of_differences():
    x, y, w, b, h = drawn(1, 2, 3), drawn(1, 2, 3, seed=4), drawn(3), drawn(), torch.tensor([[[0.3, 0.2], [0.9, 0.3]]]).double()
    kept = [t.clone() for t in (x, y, w, b, h)]
    adaptive_step(x, y, (w, b), h)
    assert all(torch.equal(a, b) for a, b in zip(kept, (x, y, w, b, h), strict=True))
    inputs = [t.requires_grad_() for t in (x, y, w, b, h)]
    assert torch.autograd.gradcheck(lambda x, y, w, b, h: adaptive_step(x, y, (w, b), h), inputs)


def test_states_are_mixed_by_hand():
    """0.3 of the first, 0.5 of the second, 0.2 of the third, nothing of the fourth."""
    states = torch.tensor([[1.0, 0.0], [0.0, 1.0], [10.0, 10.0], [9.0, 9.0]])
    torch.testing.assert_close(mix_states(states, torch.tensor([0.3, 0.5, 0.4, 0.9])), torch.tensor([2.3, 2.5]))


def test_a_mixture_is_the_sum_over_the_steps():
    states, h = drawn(B, T, 7, D), chances(B, T, 7)
    for epsilon in (0.01, 0.4):
        p = halting_distribution(h, epsilon)
        expected = sum(p[..., n, None] * states[..., n, :] for n in range(7))
        torch.testing.assert_close(mix_states(states, h, epsilon), expected)


def test_equal_states_are_not_changed_by_mixing():
    state = drawn(B, T, 1, D)
    torch.testing.assert_close(mix_states(state.expand(B, T, 7, D), chances(B, T, 7)), state.squeeze(2))


def test_a_mixture_has_the_gradients_of_differences():
    inputs = drawn(2, 3, 5).requires_grad_(), torch.tensor([[0.3, 0.5, 0.4], [0.1, 0.2, 0.3]]).double().requires_grad_()
    assert torch.autograd.gradcheck(mix_states, inputs)


def test_never_halting_takes_all_steps():
    x = torch.zeros(B, T, D)
    h = x.new_zeros(B, T, 0)
    for n in range(4):
        x, h = adaptive_step(x, x + 1, NEVER, h)
        assert (x == n + 1).all()
    assert (ponder_cost(h) == 5).all()
