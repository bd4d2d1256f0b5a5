"""Prompts with 0 to 8 examples are answered by models whose answers are known."""

import torch
from torch import nn

from course_lib.generation import few_shot_prompt
from course_tools.lectures.lecture_07.in_context_orders import answers_by_shots, print_next_letter, show_answers

ALPHABET = torch.arange(8)[None]


class Successor(nn.Module):
    """Predicts that the letter after the last one follows the last letter in the alphabet."""

    def forward(self, tokens):
        return nn.functional.one_hot((tokens + 1) % 8, 8).float() * 20


def test_a_model_of_the_alphabet_never_follows_false_examples(capsys):
    models, orders = [Successor(), Successor()], [ALPHABET, ALPHABET]
    true, false = (answers_by_shots(models, orders, few_shot_prompt, wrong) for wrong in (False, True))
    assert [len(of_models) for of_models in true] == [2] * 9
    assert all(found.accuracy == 1 for of_models in true + false for found in of_models)
    assert all(found.follows_examples == 0 for of_models in false for found in of_models)
    show_answers(true, false)
    assert "1.00 with none, 1.00 with one" in capsys.readouterr().out


def test_the_prompt_is_printed_with_the_odds(capsys):
    print_next_letter(Successor(), "A C")
    assert capsys.readouterr().out.startswith("A C A 0.00 B 0.00 C 0.00 D 1.00 E 0.00")
