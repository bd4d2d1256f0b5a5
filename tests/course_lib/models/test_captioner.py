"""Captioners: soft attention over regions, the doubly stochastic penalty, and captions generated step by step."""

import pytest
import torch
from torch import nn

from course_lib.generation import beam_search, greedy
from course_lib.models import ShowAndTell, ShowAttendAndTell, caption_step, doubly_stochastic_penalty, soft_attention

B, L, D, N_H, M, T, N, E = 3, 5, 7, 11, 13, 4, 17, 2
CAPTION = torch.randint(N, (B, T), generator=torch.Generator().manual_seed(0))


def regions():
    return torch.randn(B, L, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def attentive():
    torch.manual_seed(0)
    return ShowAttendAndTell(N, D, E, N_H, M).double()


def plain():
    torch.manual_seed(0)
    return ShowAndTell(N, D, E, N_H).double()


def by_loop(a, h, W_a, W_h, v):
    """Eqs. 4-6, 13: one image, one region at a time."""
    contexts, rows = [], []
    for picture, state in zip(a, h, strict=True):
        e = torch.stack([torch.exp(v @ torch.tanh(W_h @ state + W_a @ region)) for region in picture])
        rows.append(e / e.sum())
        contexts.append(sum(w * region for w, region in zip(rows[-1], picture, strict=True)))
    return torch.stack(contexts), torch.stack(rows)


def test_soft_attention_is_its_equations_one_region_at_a_time(normal, agree):
    agree(soft_attention, by_loop, normal(B, L, D), normal(B, N_H), normal(M, D), normal(M, N_H), normal(M))


def test_soft_attention_by_hand():
    """Scores tanh(½ ln 3) · 2 ln 3 = ln 3 and 0: weights ¾ and ¼."""
    a = torch.tensor([[[0.5493061, 4.0], [0.0, 8.0]]])
    context, weights = soft_attention(
        a, torch.zeros(1, 1), torch.tensor([[1.0, 0.0]]), torch.ones(1, 1), torch.tensor([2.1972246])
    )
    torch.testing.assert_close(weights, torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(context[0, 1], torch.tensor(5.0))


def test_the_order_of_the_regions_does_not_matter(normal):
    order = torch.tensor([3, 0, 4, 1, 2])
    a, rest = normal(B, L, D), (normal(B, N_H), normal(M, D), normal(M, N_H), normal(M))
    torch.testing.assert_close(soft_attention(a[:, order], *rest).context, soft_attention(a, *rest).context)
    torch.testing.assert_close(attentive()(regions()[:, order], CAPTION).logits, attentive()(regions(), CAPTION).logits)


def test_soft_attention_gradients_against_differences(normal):
    inputs = normal(2, 3, 5), normal(2, 7), normal(3, 5), normal(3, 7), normal(3)
    assert torch.autograd.gradcheck(lambda *x: tuple(soft_attention(*x)), inputs)


def test_the_penalty_by_hand():
    """Regions get 1.5 and 0.5 in the first caption, 1 and 1 in the second: (0.25 + 0.25 + 0) / 2."""
    weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]])
    assert doubly_stochastic_penalty(weights).item() == pytest.approx(0.25)


def test_the_penalty_is_0_only_where_every_region_is_looked_at_once(normal):
    evenly = torch.full((B, L, L), 1 / L, dtype=torch.float64)
    assert doubly_stochastic_penalty(evenly).item() == pytest.approx(0.0, abs=1e-12)
    assert doubly_stochastic_penalty(torch.eye(L).expand(B, L, L)).item() == 0
    assert doubly_stochastic_penalty(normal(B, T, L).softmax(-1)) > 0
    assert torch.autograd.gradcheck(doubly_stochastic_penalty, normal(B, T, L))


def test_show_attend_and_tell_by_its_equations_word_by_word():
    model, a = attentive(), regions()
    logits, weights, (last_h, _) = model(a, CAPTION)
    cell = nn.LSTMCell(E + D, N_H).double()
    names = {"weight_ih": "weight_ih_l0", "weight_hh": "weight_hh_l0", "bias_ih": "bias_ih_l0", "bias_hh": "bias_hh_l0"}
    cell.load_state_dict({ours: model.cell.state_dict()[theirs] for ours, theirs in names.items()})
    h, c = torch.tanh(model.first_h(a.mean(1))), torch.tanh(model.first_c(a.mean(1)))
    for t in range(T):
        y = model.words(CAPTION[:, t])
        context, row = soft_attention(a, h, model.attention.U, model.attention.W, model.attention.v)
        z = torch.sigmoid(model.gate(h)) * context
        h, c = cell(torch.cat([y, z], dim=1), (h, c))
        torch.testing.assert_close(weights[:, t], row)
        torch.testing.assert_close(logits[:, t], model.readout(y + model.from_h(h) + model.from_z(z)))
    torch.testing.assert_close(last_h, h)


def test_show_and_tell_reads_the_picture_as_its_first_word():
    model, picture = plain(), regions()[:, 0]
    lstm = nn.LSTM(E, N_H, batch_first=True).double()
    lstm.load_state_dict(model.cell.state_dict())
    states, _ = lstm(torch.cat([model.look(picture)[:, None], model.words(CAPTION)], dim=1))
    torch.testing.assert_close(model(picture, CAPTION).logits, model.readout(states[:, 1:]))


MODELS = pytest.mark.parametrize(("model", "picture"), [(plain, lambda: regions()[:, 0]), (attentive, regions)])


@MODELS
def test_a_word_is_not_seen_before_it_is_read(model, picture):
    other = CAPTION.clone()
    other[:, 2] = (other[:, 2] + 1) % N
    before, after = (model()(picture(), caption).logits for caption in (CAPTION, other))
    assert torch.equal(before[:, :2], after[:, :2])
    assert (before[:, 2] != after[:, 2]).any(-1).all()


@MODELS
def test_a_caption_read_in_two_parts_is_the_caption_read_at_once(model, picture):
    captioner = model()
    whole = captioner(picture(), CAPTION)
    first = captioner(picture(), CAPTION[:, :2])
    second = captioner(picture(), CAPTION[:, 2:], first.state)
    torch.testing.assert_close(torch.cat([first.logits, second.logits], dim=1), whole.logits)


@MODELS
def test_captions_are_written_by_greedy_and_beam_search(model, picture):
    """The caption is what the model predicts when it reads its own words; a beam of one is greedy."""
    captioner, first = model(), torch.ones(B, dtype=torch.long)
    state = captioner.start(picture())
    said = greedy(captioner.step, state, first, end=2, padding=0, max_length=6)
    assert torch.equal(beam_search(captioner.step, state, first, 2, 0, 6, width=1).tokens[:, 0], said)
    forced = captioner(picture(), torch.cat([first[:, None], said[:, :-1]], dim=1)).logits.argmax(-1)
    ended = (said == 2).cumsum(1) - (said == 2).long() > 0
    assert torch.equal(forced[~ended], said[~ended])
    beam = beam_search(captioner.step, state, first, 2, 0, 3, width=4)
    line = beam.tokens[1, 0].tolist()
    line = line[: line.index(2) + 1] if 2 in line else line
    logits = captioner(picture()[1:2], torch.tensor([[1, *line[:-1]]])).logits
    log_p = logits.log_softmax(-1)[0, torch.arange(len(line)), line].sum().item()
    assert beam.scores[1, 0].item() == pytest.approx(log_p)


def test_each_word_looks_at_the_regions_with_a_weight_of_1_in_all():
    weights = attentive()(regions(), CAPTION).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, T, dtype=torch.float64))


def weights_of_a_step(normal):
    attention, gate = (normal(M, D), normal(M, N_H), normal(M)), (normal(1, N_H), normal(1))
    cell = normal(4 * N_H, E + D), normal(4 * N_H, N_H), normal(4 * N_H)
    return attention, gate, cell, (normal(E, N_H), normal(E, D), normal(N, E))


def test_a_closed_gate_says_the_same_of_every_picture(normal):
    attention, (f, _), cell, readout = weights_of_a_step(normal)
    closed = torch.zeros_like(f), torch.full((1,), -1e4, dtype=torch.float64)
    y, h, c = normal(B, E), normal(B, N_H), normal(B, N_H)
    one, other = (caption_step(y, h, c, normal(B, L, D), attention, closed, cell, readout) for _ in range(2))
    assert torch.equal(one.logits, other.logits)
    assert not torch.allclose(one.weights, other.weights)


def test_a_word_by_hand():
    """Equal weights: the mean 3 of the regions, the gate ½, z = 1.5; a cell that stays 0; 2 (1 + 1.5) = 5."""
    nothing = torch.zeros(1, 1)
    attention, cell = (nothing, nothing, torch.zeros(1)), (torch.zeros(4, 2), torch.zeros(4, 1), torch.zeros(4))
    readout = torch.ones(1, 1), torch.ones(1, 1), torch.tensor([[2.0], [-2.0]])
    regions = torch.tensor([[[2.0], [4.0]]])
    said = caption_step(torch.ones(1, 1), nothing, nothing, regions, attention, (nothing, torch.zeros(1)), cell, readout)
    assert said.logits.tolist() == [[5.0, -5.0]]
    assert said.weights.tolist() == [[0.5, 0.5]]
    assert said.h.item() == said.c.item() == 0.0


def test_a_step_has_the_gradients_of_differences(normal):
    attention, gate, cell, readout = weights_of_a_step(normal)
    inputs = normal(B, E), normal(B, N_H), normal(B, N_H), normal(B, L, D), *attention, *gate, *cell, *readout

    def step(y, h, c, a, *w):
        return tuple(caption_step(y, h, c, a, w[:3], w[3:5], w[5:8], w[8:]))

    assert torch.autograd.gradcheck(step, inputs, fast_mode=True)
