"""A sentence is a date of its day in any language and with any weekday; steps are printed until no gap is left."""

import torch

from course_lib.generation import fill_surest
from course_tools.lectures.lecture_08.checkpoint import new_bert
from course_tools.lectures.lecture_08.date_pairs import DateTexts, date_pairs
from course_tools.lectures.lecture_08.written_dates import print_steps, second_sentences, share_of_dates

KNOWN, _ = date_pairs(60, 0)
TEXTS = DateTexts.of(KNOWN)


def test_the_second_sentences_are_dates_of_their_days_and_of_no_other():
    laid = TEXTS.pairs(KNOWN)
    sentences = second_sentences(laid.tokens, laid, TEXTS)
    assert sentences == [pair.second for pair in KNOWN]
    assert share_of_dates(sentences, KNOWN) == 1.0
    assert share_of_dates([pair.first for pair in KNOWN], KNOWN) == 1.0
    assert share_of_dates(sentences[1:], KNOWN[:-1]) == 0.0


def test_a_weekday_may_be_wrong_and_the_order_may_not():
    day = KNOWN[0]
    y, m, d = day.day.year, day.day.strftime("%B"), day.day.day
    for text, right in ((f"Friday , {m} {d} , {y}", 1.0), (f"Monday , {m} {d} , {y}", 1.0), (f"{m} {d} {y} ,", 0.0)):
        assert share_of_dates([text], [day]) == right


def test_a_text_is_printed_after_each_step(capsys):
    torch.manual_seed(0)
    print_steps(new_bert(TEXTS).eval(), TEXTS, "[MASK] [MASK]", "[MASK]", fill_surest)
    assert [line.count("?") for line in capsys.readouterr().out.splitlines()] == [3, 2, 1, 0]
