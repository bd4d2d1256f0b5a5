"""ELMo's two directions are combined only in the mixture; each is a language model that reads one side only."""

import pytest
import torch
from torch import nn

from course_lib.fast import fused_lstm
from course_lib.losses import next_token_loss
from course_lib.models import ELMo, scalar_mix
from course_lib.primitives import lstm

B, T, N, D, L = 3, 5, 11, 7, 2
TOKENS = torch.randint(N - 1, (B, T), generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([5, 3, 1])
FULL = torch.full((B,), T)
REAL = torch.arange(T) < LENGTHS[:, None]


def model(run=lstm, n_layers=L):
    torch.manual_seed(0)
    elmo = ELMo(N, D, n_layers, run).double()
    nn.init.normal_(elmo.bias)
    return elmo


def seen_by(elmo, output):
    """Which words have a gradient in an output."""
    (gradient,) = torch.autograd.grad(output.square().sum(), elmo.kept[-1], retain_graph=True)
    return (gradient != 0).any(-1)


@pytest.fixture
def watched():
    elmo = model()
    elmo.kept = []
    elmo.tokens.register_forward_hook(lambda _m, _i, out: elmo.kept.append(out))
    return elmo


def test_the_two_directions_never_meet_in_any_layer(watched):
    """The gradient of forward features at t is exactly 0 for words > t, that of backward features for words < t."""
    layers = watched(TOKENS, FULL)
    assert layers.shape == (B, T, L + 1, 2 * D)
    for t in range(T):
        for layer in range(1, L + 1):
            there, back = seen_by(watched, layers[:, t, layer, :D]), seen_by(watched, layers[:, t, layer, D:])
            assert there[:, : t + 1].all()
            assert not there[:, t + 1 :].any()
            assert back[:, t:].all()
            assert not back[:, :t].any()


def test_no_language_model_sees_the_word_that_it_predicts(watched):
    """`next` at t predicts word t + 1 from words ≤ t, `previous` at t predicts word t - 1 from words ≥ t."""
    following, previous = watched.language_models(TOKENS, FULL)
    for t in range(T):
        assert not seen_by(watched, following[:, t])[:, t + 1 :].any()
        assert not seen_by(watched, previous[:, t])[:, :t].any()


def test_padding_is_never_read_and_a_sentence_alone_is_read_as_in_the_batch(watched):
    layers = watched(TOKENS, LENGTHS)
    seen = seen_by(watched, layers[REAL])
    assert torch.equal(seen, REAL)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(watched(TOKENS[row : row + 1, :length], LENGTHS[row : row + 1])[0], layers[row, :length])


def test_a_stack_is_torchs_lstms_with_the_input_added_from_the_second_on():
    elmo = model()
    x = elmo.tokens(TOKENS)
    for cells, turn, part in ((elmo.forwards, lambda y: y, slice(0, D)), (elmo.backwards, lambda y: y.flip(1), slice(D, None))):
        states = turn(x)
        for depth, cell in enumerate(cells):
            theirs = nn.LSTM(D, D, batch_first=True).double()
            theirs.load_state_dict(cell.state_dict())
            states = theirs(states)[0] + (states if depth else 0.0)
            torch.testing.assert_close(turn(states), elmo(TOKENS, FULL)[:, :, depth + 1, part])


def test_layer_0_is_the_embedding_twice():
    elmo = model()
    embedded = elmo.tokens(TOKENS)
    torch.testing.assert_close(elmo(TOKENS, FULL)[:, :, 0], torch.cat([embedded, embedded], dim=-1))


def test_the_fused_form_has_the_outputs_and_gradients_of_the_equations():
    results = []
    for run in (lstm, fused_lstm):
        elmo = model(run)
        layers = elmo(TOKENS, LENGTHS)
        following, previous = elmo.language_models(TOKENS, LENGTHS)
        losses = next_token_loss(following, TOKENS, REAL) + previous[:, 1:].square().mean() + layers[REAL].square().sum()
        results.append((layers[REAL], *torch.autograd.grad(losses, list(elmo.parameters()))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_one_matrix_serves_as_embedding_and_twice_at_the_end():
    elmo = model()
    assert sum(p.shape == (N, D) for p in elmo.parameters()) == 1
    unread = N - 1
    assert unread not in TOKENS
    for logits in elmo.language_models(TOKENS, FULL):
        (gradient,) = torch.autograd.grad(logits[..., unread].sum(), elmo.tokens.weight, retain_graph=True)
        assert gradient[unread].any()


def test_a_mixture_by_hand():
    """w = (0, ln 3): weights ¼ and ¾; γ = 2."""
    layers = torch.tensor([[4.0, 0.0], [8.0, 4.0]])
    mixed = scalar_mix(layers, torch.tensor([0.0, 1.0986123]), torch.tensor(2.0))
    torch.testing.assert_close(mixed, torch.tensor([14.0, 6.0]))


def test_a_mixture_without_weights_is_the_mean_and_its_shares_do_not_depend_on_a_shift(normal, agree):
    layers, w, gamma = normal(B, T, L + 1, D), normal(L + 1), normal(1).detach()[0].requires_grad_()
    torch.testing.assert_close(scalar_mix(layers, torch.zeros_like(w), torch.ones_like(gamma)), layers.mean(-2))
    agree(scalar_mix, lambda x, w, g: scalar_mix(x, w + 7.0, g), layers, w, gamma)
    agree(scalar_mix, lambda x, w, g: g * torch.einsum("btld,l->btd", x, torch.softmax(w, 0)), layers, w, gamma)


def test_gradients_against_differences(normal):
    assert torch.autograd.gradcheck(scalar_mix, (normal(2, 3, 5), normal(3), normal(1).detach()[0].requires_grad_()))
