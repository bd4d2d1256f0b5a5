"""Pairs of dates name one day in two languages, tokens are hidden one at a time, and counts and neighbours are as stated."""

import math

import pytest
import torch

from course_lib.datasets import BEGIN, END
from course_lib.losses import nsp_pairs
from course_tools.lectures.lecture_08 import date_pairs

KNOWN, NEW = date_pairs.date_pairs(199, 31, seed=3)
TEXTS = date_pairs.DateTexts.of(KNOWN)


def test_a_pair_is_one_day_in_two_languages_and_no_day_is_in_both_parts():
    for pair in KNOWN[:50]:
        assert pair.languages[0] != pair.languages[1]
        for text in (pair.first, pair.second):
            assert {str(pair.day.day), str(pair.day.year)} <= set(text.split())
    assert not {pair.day for pair in KNOWN} & {pair.day for pair in NEW}


def test_a_row_holds_both_sentences():
    tokens, segments, lengths = TEXTS.pairs(KNOWN[:7])
    assert (tokens[:, 0] == BEGIN).all()
    assert ((tokens == END).sum(1) == 2).all()
    first = TEXTS.encode(KNOWN[0].first)
    assert tokens[0, 1 : 1 + len(first)].tolist() == first.tolist()
    assert int(segments[0].sum()) == len(KNOWN[0].second.split()) + 1
    assert int(lengths[0]) == len(first) + len(KNOWN[0].second.split()) + 3
    assert TEXTS.encode("[MASK]").tolist() == [TEXTS.mask]


def test_only_words_are_chosen():
    torch.manual_seed(0)
    tokens = TEXTS.pairs(KNOWN).tokens
    text, chosen = date_pairs.mask_batch(tokens, TEXTS.mask, 0.5, always=True)
    assert (tokens[chosen] > END).all()
    assert (text[chosen] == TEXTS.mask).all()
    assert (text[~chosen] == tokens[~chosen]).all()


def test_a_hidden_token_is_hidden_and_a_uniform_model_needs_the_logarithm():
    asked, seen = TEXTS.pairs(NEW), []

    def uniform(tokens, segments, lengths):
        seen.append((tokens == TEXTS.mask).sum(1))
        return torch.zeros(*tokens.shape, TEXTS.mask + 1)

    found = date_pairs.nats_of_hidden(uniform, asked, TEXTS.mask)
    assert (torch.cat(seen) == 1).all()
    assert len(found.row) == int((asked.tokens > END).sum())
    assert found.mean() == pytest.approx(math.log(TEXTS.mask + 1))
    kinds = date_pairs.kinds_of(TEXTS, found)
    assert (torch.stack(list(kinds.values())).sum(0) == 1).all()
    assert 2 * len(NEW) <= int(kinds["numbers"].sum()) <= 4 * len(NEW)
    assert int(kinds["months"].sum()) <= 2 * len(NEW)


def test_a_language_model_is_asked_before_the_token():
    asked = TEXTS.pairs(NEW)
    found = date_pairs.nats_of_hidden(lambda tokens, *_: torch.zeros(*tokens.shape, TEXTS.mask + 1), asked, TEXTS.mask)

    def knows_the_next(tokens):
        return 50.0 * torch.nn.functional.one_hot(tokens.roll(-1, 1), TEXTS.mask + 1)

    assert date_pairs.nats_from_the_left(knows_the_next, asked, found).mean() < 1e-6


def test_counts_know_what_they_have_seen():
    asked = TEXTS.pairs(KNOWN)
    found = date_pairs.nats_of_hidden(lambda tokens, *_: torch.zeros(*tokens.shape, TEXTS.mask + 1), asked, TEXTS.mask)
    near, far = (date_pairs.nats_of_counts(asked, asked, found, places, TEXTS.mask).mean() for places in ((1, -1), (-1,)))
    assert near < far < found.mean()


def test_neighbours_are_of_the_same_day_where_they_follow():
    rows, follows = date_pairs.neighbours(KNOWN, nsp_pairs, seed=0)
    same = {(pair.first, pair.second) for pair in KNOWN}
    assert [row in same for row in rows] == follows.tolist()
    assert 0.3 < follows.float().mean() < 0.7


def test_labels():
    few = date_pairs.labelled_dates(KNOWN, "en", 1, seed=0)
    assert {pair.languages[0] for pair in few} == {"en"}
    months = [pair.day.month for pair in few]
    assert len(months) == len(set(months))
    assert date_pairs.seasons(few).tolist() == [{12: 0, 1: 0, 2: 0}.get(month, month // 3) for month in months]
    assert date_pairs.without_numbers("5 . Mai 1987") == "[MASK] . Mai [MASK]"
