"""The encoder by a function is torch's, the controls change what they say, and weights on a date are counted."""

from types import SimpleNamespace

import pytest
import torch

from course_lib.attention import GeneralAttention
from course_lib.datasets import Vocabulary
from course_lib.fast import stacked_bidirectional_gru
from course_lib.models import Encoder, LuongDecoder, PlainDecoder, Seq2Seq
from course_lib.primitives import encode
from course_tools.lectures.lecture_02 import experiments
from course_tools.lectures.lecture_02.experiments import (
    EncoderByFunction,
    ReversedKeys,
    Unmasked,
    change_in_a_batch,
    gradient_reach,
    show_alignment,
    weight_in_own_date,
)

# A recurrent encoder by a function: its states are those of torch in both directions, and padding changes nothing.


def encoder(seed=0):
    torch.manual_seed(seed)
    return EncoderByFunction(encode, 7, 6)


def test_the_states_of_both_directions_are_those_of_torch():
    model, source = encoder(), torch.tensor([[3, 1, 6, 2]])
    encoded = model(source, torch.tensor([4]))
    x = model.embedding(source).transpose(0, 1)
    there, back = model.there(x)[0], model.back(x.flip(0))[0].flip(0)
    torch.testing.assert_close(encoded.values[0], torch.cat([there, back], dim=-1)[:, 0])
    torch.testing.assert_close(encoded.final[0], torch.cat([there[-1], back[0]], dim=-1)[0])
    assert encoded.keys is encoded.values


def test_a_sentence_is_encoded_alike_alone_and_padded():
    model = encoder()
    alone = model(torch.tensor([[3, 1]]), torch.tensor([2]))
    padded = model(torch.tensor([[3, 1, 0, 0], [5, 2, 4, 1]]), torch.tensor([2, 4]))
    torch.testing.assert_close(padded.values[0, :2], alone.values[0])
    torch.testing.assert_close(padded.final[0], alone.final[0])
    assert padded.mask[0].tolist() == [[True, True, False, False]]


# Controls of attention: reversed keys, no mask, and the reach of the gradient.


N_TOKENS, D = 11, 6


def model(decoder):
    return Seq2Seq(Encoder(N_TOKENS, D // 2, D // 2, stacked_bidirectional_gru), decoder)


def luong():
    return model(LuongDecoder(7, D // 2, D, D, GeneralAttention(D, D)))


def test_only_the_keys_of_real_tokens_are_reversed():
    torch.manual_seed(0)
    encoder = luong().encoder
    source, lengths = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]), torch.tensor([4, 2])
    before, after = encoder(source, lengths), ReversedKeys(encoder)(source, lengths)
    torch.testing.assert_close(after.keys[0], before.keys[0].flip(0))
    torch.testing.assert_close(after.keys[1, :2], before.keys[1, :2].flip(0))
    torch.testing.assert_close(after.keys[1, 2:], before.keys[1, 2:])
    torch.testing.assert_close(after.values, before.values)


def test_without_the_mask_a_longer_sentence_changes_the_logits():
    torch.manual_seed(0)
    asked = luong()
    given = torch.tensor([[5, 6, 0, 0, 0], [9, 10, 7, 8, 5]]), torch.tensor([2, 5]), torch.tensor([[1, 3, 2]])
    assert change_in_a_batch(asked, *given) < 1e-5
    asked.decoder.attention = Unmasked(asked.decoder.attention)
    assert change_in_a_batch(asked, *given) > 1e-4


def test_the_gradient_reaches_every_position_with_attention_and_hardly_the_middle_without():
    with_attention = gradient_reach(luong, N_TOKENS, 31, seed=0)
    last_state = gradient_reach(lambda: model(PlainDecoder(7, D // 2, D, D)), N_TOKENS, 31, seed=0)
    assert len(with_attention) == len(last_state) == 31
    assert with_attention[15] / with_attention[-1] > 10 * last_state[15] / last_state[-1]


# Alignments of a translation model: what is measured and drawn of its weights.


ANSWER = "1987-03-05; 1988-04-06"
SOURCE = "5 mars; 6 avr"
WORDS = Vocabulary.of([SOURCE]), Vocabulary.of([ANSWER])
PAIR = SimpleNamespace(source=SOURCE, target=ANSWER)


@pytest.fixture
def attends(monkeypatch):
    """Give what every text is translated to, and the weights."""

    def to(answer, weights):
        monkeypatch.setattr(experiments, "aligned", lambda model, texts, words, most=36: ([answer] * len(texts), weights))

    return to


def own_dates(right):
    """Weights of 21 rows over the source: all on the own date where `right`, else all on the other."""
    half = SOURCE.index(";")
    first, second = torch.zeros(len(SOURCE)), torch.zeros(len(SOURCE))
    first[:half], second[half:] = 1 / half, 1 / (len(SOURCE) - half)
    rows = [first] * 11 + [second] * 11 if right else [second] * 11 + [first] * 11
    return torch.stack(rows)[None]


ANSWER_OF_21 = "1987-03-05;1988-04-06"


@pytest.mark.parametrize("right", [True, False])
def test_the_weight_in_the_own_date_is_all_or_nothing(attends, right):
    attends(ANSWER_OF_21, own_dates(right))
    assert weight_in_own_date(None, [PAIR], WORDS) == pytest.approx(float(right))


def test_uniform_weights_give_about_a_half(attends):
    attends(ANSWER_OF_21, torch.full((1, 22, len(SOURCE)), 1 / len(SOURCE)))
    assert weight_in_own_date(None, [PAIR], WORDS) == pytest.approx(0.5, abs=0.05)


def test_answers_of_another_length_are_refused(attends):
    attends("1987-03-05", torch.zeros(1, 11, len(SOURCE)))
    with pytest.raises(ValueError, match="no answer has the length of two dates"):
        weight_in_own_date(None, [PAIR], WORDS)


def test_a_model_without_attention_is_refused(attends):
    attends(ANSWER_OF_21, None)
    with pytest.raises(ValueError, match="the model has no attention"):
        weight_in_own_date(None, [PAIR], WORDS)
    with pytest.raises(ValueError, match="the model has no attention"):
        show_alignment(None, SOURCE, WORDS)


def test_a_map_has_a_row_for_each_token_of_the_answer_and_its_end(attends, monkeypatch):
    shown = []
    monkeypatch.setattr(experiments, "show", lambda figure, alt: shown.append((figure, alt)))
    attends("zwei und", torch.eye(3)[None])
    show_alignment(None, "two and x", WORDS, str.split, "English", "German")
    ((figure, alt),) = shown
    ax = figure.axes[0]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["zwei", "und", "end"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["two", "and", "x"]
    assert alt.startswith("Attention map for 'two and x', answered by 'zwei und'.")
    assert "zwei at two (1.00)" in alt
