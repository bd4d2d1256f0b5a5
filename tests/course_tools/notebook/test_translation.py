"""Texts are translated and counted exactly; a model of one sentence learns it by heart."""

from typing import NamedTuple

import torch

from course_lib.blocks import Sizes
from course_lib.datasets import Vocabulary
from course_lib.models import Encoder, PlainDecoder, Seq2Seq, Transformer
from course_tools.notebook.translation import (
    date_sentences,
    exact_matches,
    fit_pairs,
    fraction_right,
    generated,
    logits_of,
    translations,
)


class Pair(NamedTuple):
    source: str
    target: str


PAIRS = [Pair("ab", "12"), Pair("ba", "21")]
WORDS = Vocabulary.of(["ab"]), Vocabulary.of(["12"])


def test_a_transformer_learns_two_sentences_by_heart():
    torch.manual_seed(0)
    model = Transformer(len(WORDS[0]), len(WORDS[1]), Sizes(16, 2, 32, 1))
    assert fit_pairs(model, PAIRS * 16, WORDS, seed=0, steps=80, lr=1e-2) is model
    assert not model.training
    assert translations(model, ["ab", "ba"], WORDS, most=5) == ["12", "21"]
    assert exact_matches(model, [*PAIRS, Pair("ab", "21")], WORDS, most=5) == 2 / 3


def test_logits_come_from_models_of_both_kinds():
    source, target, lengths = torch.tensor([[4, 5]]), torch.tensor([[1, 4, 5]]), torch.tensor([2])
    recurrent = Seq2Seq(Encoder(6, 3, 5), PlainDecoder(7, 3, 11, 10))
    transformer = Transformer(6, 7, Sizes(16, 2, 32, 1))
    assert {logits_of(model, source, lengths, target).shape for model in (recurrent, transformer)} == {(1, 3, 7)}


def test_dates_are_composed_and_their_vocabularies_cover_them():
    known, new, (letters, characters) = date_sentences()
    assert ({n: len(pairs) for n, pairs in known.items()}, set(new)) == ({1: 3_000, 2: 6_000}, {1, 2, 3})
    assert len(known[2][0].target) > 2 * 10
    for pair in known[1][:5]:
        assert letters.decode(letters.encode(pair.source)) == pair.source
        assert characters.decode(characters.encode(pair.target)) == pair.target


def test_a_model_that_generates_without_a_target_is_decoded_and_counted():
    rows = WORDS[1].batch(["12", "12"], end=True)[0]
    answers = generated(lambda source, lengths: rows[: len(source)], ["ab", "ba"], WORDS)
    assert answers == ["12", "12"]
    assert fraction_right(answers, PAIRS) == 0.5
