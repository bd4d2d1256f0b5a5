"""Regression on the words of both sentences fills gaps; an SVD of pairs joins the languages."""

import torch

from course_tools.lectures.lecture_08.date_pairs import DateTexts, Hidden, date_pairs, kinds_of, labelled_dates
from course_tools.lectures.lecture_08.rivals import nats_of_words, season_accuracies


def test_regression_on_words_copies_a_number_and_reads_no_hidden_token():
    known, new = date_pairs(6_000, 100)
    texts = DateTexts.of(known)
    asked = texts.pairs(new)
    row, place = (asked.tokens > 2).nonzero(as_tuple=True)
    like = Hidden(row, place, asked.tokens[row, place], torch.zeros(len(row)))
    found = nats_of_words(texts.pairs(known), asked, like, texts.mask, steps=600)
    assert found.mean(kinds_of(texts, found)["numbers"]) < 2.5  # a guess: 3.4 for days, 5.3 for years
    other = asked.tokens.clone()
    other[row[7], place[7]] = 5  # the hidden token itself
    again = nats_of_words(texts.pairs(known), asked._replace(tokens=other), like, texts.mask, steps=600)
    assert again.nats[7] == found.nats[7]


def test_the_svd_knows_other_languages():
    known, new = date_pairs(2_000, 200)
    foreign = [pair for pair in new if pair.languages[0] != "en"]
    found = season_accuracies(labelled_dates(known, "en", 3, seed=0), known, foreign)
    assert 0.3 < found["TF-IDF"] < 0.8
    assert found["SVD, 12 directions"] > found["TF-IDF"]
