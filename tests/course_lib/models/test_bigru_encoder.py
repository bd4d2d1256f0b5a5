"""Bidirectional reading: padding has no effect, and the three forms agree with each other and with torch's own."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from course_lib.fast import fused_bidirectional_gru, stacked_bidirectional_gru
from course_lib.models import Encoder, bidirectional_gru
from course_lib.models.bigru_encoder import reverse
from course_lib.primitives import GRU
from course_lib.training import train

FORMS = [bidirectional_gru, fused_bidirectional_gru, stacked_bidirectional_gru]
B, T, D, N = 5, 7, 3, 11
LENGTHS = torch.tensor([7, 1, 4, 0, 6])


def inputs(seed=0):
    torch.manual_seed(seed)
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    return x, GRU(D, N).double(), GRU(D, N).double()


def test_reverse_by_hand():
    x = torch.tensor([[1.0, 2, 3, 9], [4, 9, 9, 9]])[..., None]
    assert reverse(x, torch.tensor([3, 1]))[..., 0].tolist() == [[3, 2, 1, 0], [4, 0, 0, 0]]


@pytest.mark.parametrize("run", FORMS)
def test_both_ways_equals_torchs_bidirectional_gru(run):
    x, forwards, backwards = inputs()
    torchs = nn.GRU(D, N, batch_first=True, bidirectional=True).double()
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    torchs.load_state_dict(
        {name: getattr(forwards, name) for name in names} | {f"{name}_reverse": getattr(backwards, name) for name in names}
    )
    some = LENGTHS > 0
    packed = pack_padded_sequence(x[some], LENGTHS[some], batch_first=True, enforce_sorted=False)
    states, last = torchs(packed)
    expected, _ = pad_packed_sequence(states, batch_first=True, total_length=T)
    annotations, final = run(x, LENGTHS, forwards, backwards)
    torch.testing.assert_close(annotations[some], expected)
    torch.testing.assert_close(final[some], last.transpose(0, 1).flatten(1))


@pytest.mark.parametrize("run", FORMS)
def test_an_empty_sequence_has_annotations_and_final_state_zero(run):
    x, forwards, backwards = inputs()
    annotations, final = run(x, LENGTHS, forwards, backwards)
    assert (annotations[3] == 0).all()
    assert (final[3] == 0).all()


@pytest.mark.parametrize("run", FORMS)
def test_annotations_at_padding_are_zero(run):
    x, forwards, backwards = inputs()
    annotations, _ = run(x, LENGTHS, forwards, backwards)
    assert (annotations[torch.arange(T) >= LENGTHS[:, None]] == 0).all()


@pytest.mark.parametrize("run", FORMS)
def test_what_stands_at_padding_changes_nothing(run):
    x, forwards, backwards = inputs()
    other = torch.where((torch.arange(T) < LENGTHS[:, None])[..., None], x, 1e6)
    for a, b in zip(run(x, LENGTHS, forwards, backwards), run(other, LENGTHS, forwards, backwards), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("run", [fused_bidirectional_gru, stacked_bidirectional_gru])
def test_the_faster_forms_have_the_outputs_and_gradients_of_the_equations(run):
    x, forwards, backwards = inputs()
    given = (x, *forwards.parameters(), *backwards.parameters())
    results = []
    for form in (bidirectional_gru, run):
        annotations, final = form(x, LENGTHS, forwards, backwards)
        loss = (annotations * torch.linspace(-1, 1, 2 * N)).sin().sum() + final.cos().sum()
        results.append((annotations, final, *torch.autograd.grad(loss, given)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_forward_half_knows_nothing_of_later_words_and_the_backward_half_nothing_of_earlier_ones():
    x, forwards, backwards = inputs()
    annotations, _ = bidirectional_gru(x, torch.full((B,), T), forwards, backwards)
    there, back = annotations.chunk(2, dim=-1)
    at_3 = torch.autograd.grad(there[:, 3].sum(), x, retain_graph=True)[0].abs().sum((0, 2))
    assert (at_3[:4] > 0).all()
    assert (at_3[4:] == 0).all()
    at_3 = torch.autograd.grad(back[:, 3].sum(), x)[0].abs().sum((0, 2))
    assert (at_3[:3] == 0).all()
    assert (at_3[3:] > 0).all()


def test_a_sentence_alone_is_encoded_as_in_a_padded_batch():
    torch.manual_seed(0)
    encoder = Encoder(13, D, N).double()
    source = torch.randint(13, (B, T))
    together = encoder(source, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        if length:
            alone = encoder(source[row : row + 1, :length], torch.tensor([length]))
            torch.testing.assert_close(alone.keys[0], together.keys[row, :length])
            torch.testing.assert_close(alone.final[0], together.final[row])
        assert together.mask[row, 0].tolist() == [t < length for t in range(T)]


@pytest.mark.parametrize("run", FORMS)
def test_no_sentence_at_all(run):
    encoded = Encoder(13, D, N, run)(torch.zeros(0, T, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    assert [tuple(x.shape) for x in encoded] == [(0, T, 2 * N), (0, T, 2 * N), (0, 2 * N), (0, 1, T)]


def test_keys_and_values_are_the_same_annotations():
    encoded = Encoder(13, D, N)(torch.randint(13, (2, 3)), torch.tensor([3, 2]))
    assert encoded.keys is encoded.values
    assert encoded.keys.shape == (2, 3, 2 * N)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("source", "lengths", "message"),
    [
        ((2, 0), [0, 0], "T ≥ 1"),
        ((2, 3), [3], r"got source \(2, 3\), lengths \(1,\)"),
        ((2, 3), [3, -1], "cannot have -1 tokens"),
        ((2, 3), [3, 4], "4 tokens does not fit a padded length of 3"),
    ],
)
def test_the_encoder_refuses_lengths_that_do_not_fit(source, lengths, message):
    with pytest.raises(ValueError, match=message):
        Encoder(13, D, N)(torch.zeros(source, dtype=torch.long), torch.tensor(lengths))


def test_the_encoder_refuses_words_that_are_not_integers():
    with pytest.raises(Exception, match=r"source|Long, Int"):
        Encoder(13, D, N)(torch.zeros(2, 3), torch.tensor([3, 3]))


def test_the_stacked_form_trains_under_autocast():
    """Its states stay float32: the loss falls as without autocast."""
    found = []
    for enabled in (True, False):
        torch.manual_seed(0)
        encoder = Encoder(11, 5, 7, stacked_bidirectional_gru)
        source, lengths = torch.arange(2 * 9).view(2, 9) % 11, torch.tensor([9, 4])
        loss = lambda m, _: (m(source, lengths).final - 0.5).square().mean()  # noqa: B023, E731
        steps = train(encoder, itertools.repeat(()), loss, steps=30, lr=0.03, autocast=torch.bfloat16 if enabled else None)
        found.append([step.loss for step in steps])
    assert found[0][-1] < 0.5 * found[0][0]
    assert found[0] == pytest.approx(found[1], rel=1e-3)
