"""A probe finds attention in whatever form it is written, and takes nothing else for it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import rotate
from course_lib.primitives import causal_mask
from course_tools.checks.attention_probe import probe

W = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0))
X = torch.randn(7, 11, 5, generator=torch.Generator().manual_seed(1))


def scores_and_values(x):
    q, k, v = (x @ matrix for matrix in W)
    return q @ k.mT, v


def by_matrices(x):
    scores, v = scores_and_values(x)
    return scores.softmax(-1) @ v


def by_hand(x):
    scores, v = scores_and_values(x)
    weights = scores.exp()
    return torch.einsum("bqk,bkd->bqd", weights / weights.sum(-1, keepdim=True), v)


def as_a_weighted_sum(x):
    scores, v = scores_and_values(x)
    return (scores.softmax(-1)[..., None] * v[:, None]).sum(2)


def one_by_one(x):
    return torch.stack([(scores.softmax(-1)) @ v for scores, v in zip(*scores_and_values(x), strict=True)])


def fused_and_causal(x):
    return F.scaled_dot_product_attention(*(x @ matrix for matrix in W), is_causal=True)


torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(5, 1, 7, batch_first=True).eval()
recurrent = nn.GRU(5, 5, batch_first=True)
convolution = nn.Conv1d(11, 11, 3, padding=1)


@pytest.mark.parametrize("model", [by_matrices, by_hand, as_a_weighted_sum, one_by_one, fused_and_causal, layer])
def test_equal_weights_change_what_attends(model):
    found = probe(model, (X,))
    assert found.counts[1] > 0 == found.counts[2]
    assert not torch.allclose(found.averaged, model(X).detach(), atol=1e-3)


Y = torch.randn(7, 5, 5, generator=torch.Generator().manual_seed(2))


def with_heads_before_the_examples(x):
    scores, v = (torch.cat([part, part.flip(-1)]) for part in scores_and_values(x))
    one, other = (scores.softmax(-1) @ v).chunk(2)
    return one + other


def with_heads_after_the_examples(x):
    scores, v = (torch.stack([part, part.flip(-1)], 1) for part in scores_and_values(x))
    return (scores.softmax(-1) @ v).sum(1)


def reads(encode):
    """A decoder that attends to the result of an encoder."""
    return lambda x, y: (y @ encode(x).mT).softmax(-1) @ encode(x)


FORMS = [by_matrices, by_hand, as_a_weighted_sum, one_by_one, layer]
HEADS = [with_heads_before_the_examples, with_heads_after_the_examples]


@pytest.mark.parametrize("encode", [*FORMS, *HEADS])
def test_equal_weights_in_the_encoder_alone_change_what_is_encoded_by_attention(encode):
    assert not torch.allclose(probe(reads(encode), (X, Y)).encoded, reads(encode)(X, Y).detach(), atol=1e-3)


@pytest.mark.parametrize(
    "encode", [lambda x: x @ W[0], lambda x: x + 0 * by_matrices(x), lambda x: x - x.mean(1, keepdim=True)]
)
def test_they_change_nothing_where_no_position_is_attended_to_before_the_decoder(encode):
    found, result = probe(reads(encode), (X, Y)), reads(encode)(X, Y)
    assert torch.allclose(found.encoded, result, atol=1e-5)
    assert not torch.allclose(found.averaged, result, atol=1e-3)


def test_a_product_over_no_keys_is_no_attention():
    """As where a model reads an empty prompt first."""
    assert probe(lambda x: x[:, :0] @ x[:, :0].mT, (X,)).counts[1:].tolist() == [0, 0]


def over_the_queries(x):
    scores, v = scores_and_values(x)
    return scores.softmax(-2) @ v


def mean_of_what_is_there(x):
    there = (x[..., 0] > -1).float()[:, None]
    return there / there.sum(-1, keepdim=True) @ x


def one_hot(x):
    return F.one_hot(x.argmax(-1), 5).float() @ W[0]


def fixed_mixture(x):
    return W[:1, :1].repeat(1, 11, 3)[..., :11].softmax(-1).expand(7, -1, -1) @ x


@pytest.mark.parametrize(
    "model",
    [over_the_queries, mean_of_what_is_there, one_hot, fixed_mixture, lambda x: recurrent(x)[0], convolution, torch.sigmoid],
)
def test_equal_weights_change_nothing_else(model):
    found = probe(model, (X,))
    assert torch.allclose(found.averaged, model(X).detach(), atol=1e-6)


def causal(x, turn_queries, turn_keys, heads=1):
    """Scores of two features, turned or not; several heads are rows of one product."""
    q, k, v = (x @ matrix[:, :2] / 2 for matrix in W)
    q = rotate(q, torch.ones(1)) if turn_queries else q
    k = rotate(k, torch.ones(1)) if turn_keys else k
    q = torch.stack([q * (h + 1) for h in range(heads)], dim=2).flatten(1, 2)
    late = ~causal_mask(x.shape[1]).repeat_interleave(heads, dim=0)
    return (q @ k.mT).masked_fill(late, -torch.inf).softmax(-1) @ v


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize(("turns", "by_position"), [((True, True), 0), ((False, True), 1)])
def test_on_a_repeated_token_weights_by_distance_are_told_from_weights_by_position(turns, by_position, heads):
    repeated = X[:, :1].repeat(1, 11, 1)
    assert probe(lambda x: causal(x, *turns, heads), (repeated,)).by_position == by_position


def test_weights_over_the_queries_are_told_from_those_over_the_keys():
    assert probe(over_the_queries, (X,)).counts[1:].tolist() == [0, 1]


@pytest.mark.parametrize("model", [by_matrices, by_hand, as_a_weighted_sum])
def test_the_values_of_the_first_attention_are_given_by_key(model):
    assert torch.allclose(probe(model, (X,)).values, X @ W[2], atol=1e-5)


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
def test_the_operations_of_a_recurrence_grow_with_the_length(make):
    layer = make(5, 5, batch_first=True)
    long, short = (int(probe(lambda x: layer(x)[0], (X[:, :n],)).counts[0]) for n in (11, 4))
    assert long - short >= 7
    assert probe(by_matrices, (X,)).counts[0] == probe(by_matrices, (X[:, :4],)).counts[0]


cell, lstm = nn.LSTMCell(5, 5), nn.LSTM(5, 5, batch_first=True)


def cell_by_cell(x):
    h = c = torch.zeros(len(x), 5)
    states = []
    for token in x.unbind(1):
        h, c = cell(token, (h, c))
        states.append(h)
    return torch.stack(states, 1)


def in_a_buffer(x):
    states = torch.zeros(x.shape[1] + 1, len(x), 5)
    for t, token in enumerate(x.unbind(1)):
        states[t + 1] = (states[t] @ W[0] + token).tanh()
    return states[-1]


def packed(x):
    lengths = torch.full((len(x),), x.shape[1])
    found = recurrent(nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True))[0]
    return nn.utils.rnn.pad_packed_sequence(found, batch_first=True)[0]


@pytest.mark.parametrize(
    "model", [lambda x: recurrent(x)[0], lambda x: lstm(x)[0], cell_by_cell, in_a_buffer, packed], ids=range(5)
)
def test_a_chain_of_nonlinear_operations_grows_with_each_step_of_a_recurrence(model):
    long, short = (int(probe(model, (X[:, :n],)).depth) for n in (11, 4))
    assert long - short >= 7


def one_position_after_the_other(x):
    found = torch.zeros(len(x), 0, 5)
    for t in range(x.shape[1]):
        found = torch.cat([found, by_matrices(x[:, : t + 1]).relu()[:, -1:]], 1)
    return found


def a_sum_for_each_layer(x):
    """Two linear attentions, step by step, with their sums in one tensor."""
    sums, found = torch.zeros(2, len(x), 5, 5), []
    for token in x.unbind(1):
        for i in range(2):
            q, k, v = (token @ matrix for matrix in W)
            sums[i] += k.sigmoid()[:, :, None] * v[:, None]
            token = token + (q.sigmoid()[:, None] @ sums[i])[:, 0].tanh()
        found.append(token)
    return torch.stack(found, 1)


@pytest.mark.parametrize("model", [by_matrices, layer, fused_and_causal, one_position_after_the_other, a_sum_for_each_layer])
def test_the_chains_of_what_is_no_recurrence_have_one_length(model):
    assert probe(model, (X,)).depth == probe(model, (X[:, :4],)).depth


@pytest.mark.parametrize(
    ("model", "n"), [(by_matrices, 7 * 11 * 11), (lambda x: F.silu(x @ W[0]), 0), (lambda x: 2.0 ** (x @ W[0]), 7 * 11 * 5)]
)
def test_exponentials_are_counted_but_not_those_inside_an_activation(model, n):
    assert probe(model, (X,)).exponentials == n


@pytest.mark.parametrize("bias", [True, False])
def test_the_first_product_is_given_by_example(bias):
    layer = nn.Linear(5, 3, bias)
    assert torch.allclose(probe(lambda x: layer(x).sum(1), (X,)).embedded, layer(X).flatten(1), atol=1e-6)
    strided = nn.Conv1d(5, 3, 2, stride=2, bias=bias)
    assert torch.allclose(probe(lambda x: strided(x.mT).relu(), (X,)).embedded, strided(X.mT).flatten(1), atol=1e-6)
    assert probe(lambda x: x[0] @ W[0], (X,)).embedded.numel() == 0
