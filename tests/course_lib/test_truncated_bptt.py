"""Truncated backpropagation: states are carried from segment to segment, gradients stop between them."""

import copy
import itertools
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.blocks import Sizes
from course_lib.fast import fused_lstm
from course_lib.models import TransformerXL
from course_lib.models.transformer_xl import SegmentMemory
from course_lib.primitives import GRU, LSTM, RNN
from course_lib.training import constant, train
from course_lib.truncated_bptt import Segment, detached, segments, truncated_bptt

N, T, B, D_EMBEDDING, N_HIDDEN = 13, 3, 2, 5, 7
TEXT = torch.randint(N, (B * 11 + 1,), generator=torch.Generator().manual_seed(0))
CELLS = {"RNN": RNN, "GRU": GRU, "LSTM": LSTM, "fused LSTM": partial(LSTM, run=fused_lstm)}


class RecurrentModel(nn.Module):
    """A recurrent language model with the `read` of `TransformerXL`."""

    def __init__(self, cell=LSTM):
        super().__init__()
        self.embedding = nn.Embedding(N, D_EMBEDDING)
        self.cell = cell(D_EMBEDDING, N_HIDDEN)
        self.readout = nn.Linear(N_HIDDEN, N)

    def read(self, tokens, state=None):
        states, state = self.cell(self.embedding(tokens), state)
        return self.readout(states), state


MODELS = {name: partial(RecurrentModel, cell) for name, cell in CELLS.items()}
MODELS["Transformer-XL"] = lambda: TransformerXL(N, Sizes(6, 3, 17, 2), len(TEXT))
each_model = pytest.mark.parametrize("name", MODELS)


def model(name="LSTM"):
    torch.manual_seed(0)
    return MODELS[name]().double()


def loss(model, segment, state):
    logits, state = model.read(segment.inputs, state)
    return F.cross_entropy(logits.flatten(0, 1), segment.targets.flatten(), reduction="sum"), state


def epoch(text=TEXT, batch_size=B, length=T):
    stream = segments(text, batch_size, length)
    return [next(stream), *itertools.takewhile(lambda segment: not segment.first, stream)]


def gradients(value, model, **how):
    return torch.autograd.grad(value, list(model.parameters()), **how)


def test_segments_by_hand():
    """Eleven tokens in two texts of five and the one after: segments of two, two and one, then the next epoch."""
    stream = segments(torch.arange(11), 2, 2)
    first, second, third, again = itertools.islice(stream, 4)
    assert first.inputs.tolist() == [[0, 1], [5, 6]]
    assert first.targets.tolist() == [[1, 2], [6, 7]]
    assert second.inputs.tolist() == [[2, 3], [7, 8]]
    assert third.inputs.tolist() == [[4], [9]]
    assert third.targets.tolist() == [[5], [10]]
    assert [segment.first for segment in (first, second, third, again)] == [True, False, False, True]
    assert torch.equal(again.inputs, first.inputs)


@pytest.mark.parametrize(("n", "batch_size", "length"), [(23, 2, 3), (24, 2, 3), (2, 1, 1), (3, 2, 5), (40, 7, 100)])
def test_every_token_is_predicted_once_an_epoch_from_the_one_before(n, batch_size, length):
    text = torch.arange(n)
    seen = epoch(text, batch_size, length)
    targets = torch.cat([segment.targets.flatten() for segment in seen])
    inputs = torch.cat([segment.inputs.flatten() for segment in seen])
    assert torch.equal(targets, inputs + 1)
    assert sorted(targets.tolist()) == list(range(1, (n - 1) // batch_size * batch_size + 1))


def test_a_gradient_by_hand():
    """s_t = w s_{t-1} + 1, w = 2: 1, 3 | 7, 15. Of s_4, within the segment s_3 + w s_2 = 13; through the border 4 more."""

    class Line(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor(2.0))

    def last(line, segment, s):
        s = torch.zeros(()) if s is None else s
        for _ in range(segment.inputs.shape[1]):
            s = line.w * s + 1
        return s, s

    def found(length):
        line, cut = Line(), truncated_bptt(last)
        values = [cut(line, segment) for segment in epoch(torch.zeros(5, dtype=torch.long), 1, length)]
        return values[-1].item(), gradients(values[-1], line)[0].item()

    assert found(2) == (15.0, 13.0)
    assert found(4) == (15.0, 17.0)


@each_model
def test_states_are_carried_so_that_the_losses_are_those_of_the_whole_text(name):
    net, cut = model(name), truncated_bptt(loss)
    whole, *_ = epoch(length=len(TEXT))
    exact = loss(net, whole, None)[0]
    torch.testing.assert_close(sum(cut(net, segment) for segment in epoch()), exact)
    fresh = sum(loss(net, segment, None)[0] for segment in epoch())
    assert abs(fresh - exact) > 1e-3


@each_model
def test_gradients_are_those_of_full_backpropagation_within_a_segment_and_stop_at_its_border(name):
    """Full backpropagation with separate weights for earlier segments: their gradient is the part that is truncated."""
    net, cut = model(name), truncated_bptt(loss)
    before = copy.deepcopy(net)
    seen = epoch()
    for n, segment in enumerate(seen):
        ours = gradients(cut(net, segment), net)
        state = None
        for earlier in seen[:n]:
            state = loss(before, earlier, state)[1]
        full, _ = loss(net, segment, state)
        torch.testing.assert_close(ours, gradients(full, net, retain_graph=n > 0))
        if n > 0 and name != "Transformer-XL":  # it stops the gradient itself
            beyond = gradients(full, before, allow_unused=True)
            assert any(g is not None and g.abs().max() > 1e-4 for g in beyond), "nothing was cut"


@each_model
def test_one_segment_that_is_the_whole_text_is_full_backpropagation(name):
    net = model(name)
    whole, *_ = epoch(length=len(TEXT))
    torch.testing.assert_close(gradients(truncated_bptt(loss)(net, whole), net), gradients(loss(net, whole, None)[0], net))


def test_a_new_epoch_starts_from_the_initial_state():
    net, cut = model(), truncated_bptt(loss)
    twice = list(itertools.islice(segments(TEXT, B, T), 8))
    values = [cut(net, segment).item() for segment in twice]
    assert values[:4] == values[4:]


@each_model
def test_the_training_loop_carries_the_state(name):
    """Against a loop written out, with weights that change between the segments."""
    ours, theirs = model(name), model(name)
    steps = train(
        ours,
        segments(TEXT, B, T),
        truncated_bptt(loss),
        steps=6,
        lr=0.01,
        clip=None,
        optimizer=torch.optim.SGD,
        schedule=constant,
    )
    found = [step.loss for step in steps]
    state, values = None, []
    for segment in itertools.islice(segments(TEXT, B, T), 6):
        if segment.first:
            state = None
        elif isinstance(state, SegmentMemory):
            state = SegmentMemory(tuple(layer.detach() for layer in state.layers))
        else:
            state = tuple(part.detach() for part in state)
        value, state = loss(theirs, segment, state)
        values.append(value.item())
        for parameter, gradient in zip(theirs.parameters(), gradients(value, theirs), strict=True):
            parameter.data -= 0.01 * gradient
    assert found == pytest.approx(values, rel=1e-12)
    torch.testing.assert_close(dict(ours.named_parameters()), dict(theirs.named_parameters()))


def test_metrics_pass_through():
    def with_metrics(model, segment, state):
        value, state = loss(model, segment, state)
        return (value, {"tokens": float(segment.inputs.numel())}), state

    steps = train(model(), segments(TEXT, B, T), truncated_bptt(with_metrics), steps=4, accumulate=2)
    assert [step.metrics["tokens"] for step in steps] == [B * T, B * 2, B * T, B * 2]


def test_a_state_is_detached_whatever_holds_it():
    x = torch.ones(2, requires_grad=True) * 2
    memory = detached(SegmentMemory((x, x + 1)))
    assert isinstance(memory, SegmentMemory)
    nested = detached(((x, (x,)), 3, None))
    assert nested[1:] == (3, None)
    for part in (*memory.layers, nested[0][0], nested[0][1][0], detached(x)):
        assert part.grad_fn is None
        assert not part.requires_grad
    assert torch.equal(memory.layers[1], x + 1)


@pytest.mark.parametrize(("n", "batch_size", "length"), [(2, 2, 1), (0, 1, 1), (9, 0, 1), (9, 2, 0)])
def test_what_cannot_be_cut_is_refused_at_once(n, batch_size, length):
    with pytest.raises(ValueError, match="more tokens than texts"):
        segments(torch.zeros(n, dtype=torch.long), batch_size, length)


def test_a_segment_is_a_batch_of_tokens():
    segment = next(segments(TEXT, B, T))
    assert isinstance(segment, Segment)
    assert segment.inputs.shape == segment.targets.shape == (B, T)
