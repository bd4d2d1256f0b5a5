"""Heads with uniform weights have the statistics of uniform weights; the map starts at the head that looks across most."""

import inspect

import torch
from torch import nn

from course_lib.analysis import head_statistics
from course_lib.attention import scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.models import BERT
from course_tools.lectures.lecture_08 import figures
from course_tools.lectures.lecture_08.checkpoint import new_bert
from course_tools.lectures.lecture_08.date_pairs import DateTexts, date_pairs, nats_of_hidden
from course_tools.studies.study_record import RecordedRun, RecordedStudy

TOKENS = torch.tensor([[1, 5, 2, 6, 2], [1, 7, 2, 0, 0]])
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]])


def heads_of(bert):
    shown = figures.Inspected(bert, TOKENS, SEGMENTS, torch.tensor([5, 3]), TOKENS == 2, tuple("PCSabcdefgh"))
    return figures.attention_heads(shown, "a BERT")


def small(uniform=False):
    torch.manual_seed(0)
    bert = BERT(11, 5, Sizes(d_model=6, n_heads=3, d_ff=7, n_layers=2), scaled_dot_product_attention).eval()
    for block in bert.stack.blocks if uniform else ():
        nn.init.zeros_(block.mixer.attention.W_q.weight)
        nn.init.zeros_(block.mixer.attention.W_q.bias)
    return bert


def test_uniform_heads(capsys):
    heads = heads_of(small(uniform=True))
    torch.testing.assert_close(heads.across(), torch.full((2, 3), 2 * (1 / 5) / 3))
    figures.show_head_statistics(heads, head_statistics)
    assert "6 heads, 8 tokens" in capsys.readouterr().out


def test_the_map_starts_at_the_head_that_looks_across_most(capsys):
    heads = heads_of(small())
    draw = figures.head_map(heads)
    start = {name: given.default for name, given in inspect.signature(draw).parameters.items()}
    assert (start["layer"] - 1) * 3 + start["head"] - 1 == heads.across().argmax()
    draw(text=2)
    assert "3 queries by 3 keys" in capsys.readouterr().out


def test_years_and_months_are_drawn_apart(capsys):
    known, _ = date_pairs(60, 0)
    texts = DateTexts.of(known)
    model, asked = new_bert(texts).eval(), texts.pairs(known[:9])

    def logits(*text):
        return model(*text).words

    figures.show_kinds({"BERT": nats_of_hidden(logits, asked, texts.mask)}, texts, asked)
    assert "Years, first sentence: BERT" in capsys.readouterr().out


def test_each_long_training_is_drawn_to_its_end(capsys):
    runs = [RecordedRun(name, 0, {}, {500: 3.0, 1_000: 2.0, 1_500: nats}, 1.0) for name, nats in (("A", 0.5), ("B", 0.75))]
    figures.show_long_trainings(RecordedStudy("08_made", "", "", "", "", "", runs))
    assert "A 2.00 after 1,000, 0.50; B 2.00 after 1,000, 0.75 at the end" in capsys.readouterr().out
