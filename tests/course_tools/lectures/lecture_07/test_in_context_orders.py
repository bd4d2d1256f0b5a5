"""Heads, counts, questions and answers are measured as stated, on texts and models whose order is known."""

import torch
from torch import nn

from course_lib.blocks import Sizes
from course_lib.datasets import walks
from course_lib.datasets.secret_orders import Walks, successors
from course_lib.generation import few_shot_prompt
from course_lib.losses import next_token_loss
from course_tools.lectures.lecture_07.in_context_orders import (
    LETTERS,
    LetterAnswers,
    Recurrent,
    accuracy_of_counts,
    accuracy_of_own_counts,
    accuracy_on_orders,
    after_copies,
    answers,
    answers_by_shots,
    fit_on_orders,
    head_weights,
    next_letter,
    order_gpt,
    order_task,
    print_texts,
    questions,
    show_induction_heads,
    weights_of_layers,
)
from course_tools.notebook.fitting import losses_of

# Heads, counts, questions and answers are measured as stated, on texts whose order is known.


ALPHABET = torch.arange(8)[None]
SIZES = Sizes(d_model=12, n_heads=3, d_ff=13, n_layers=2)


class Successor(nn.Module):
    """Predicts that the letter after the last one follows the last letter in the alphabet."""

    def forward(self, tokens):
        return nn.functional.one_hot((tokens + 1) % 8, 8).float() * 20


def test_a_fixed_order_is_learned_by_a_network_and_counted_by_a_table():
    known, new = (walks(ALPHABET, n, seed=n) for n in (300, 50))
    model = fit_on_orders(lambda: Recurrent(8, 7, 11), known, next_token_loss, 0)
    assert accuracy_on_orders(model, new) > 0.95
    assert accuracy_on_orders(Successor(), new) == 1
    assert accuracy_of_counts(known, new) > 0.95


def test_a_table_of_one_text_predicts_what_followed_most_often_and_of_equals_the_earlier():
    texts = torch.tensor(
        [
            [0, 1, 0, 2, 0, 2, 0, 2],  # after 0: 1; 1 and 2, equally often; 2 twice
            [3, 4, 3, 4, 5, 3, 6, 3],  # after 3: 4; 4 twice. After 4: 3
        ]
    )
    scored = torch.tensor([[0, 0, 0, 1, 0, 1, 0, 1], [0, 0, 0, 1, 1, 0, 1, 0]]).bool()
    assert accuracy_of_own_counts(Walks(texts[:1], scored[:1])) == torch.tensor(1 / 3).item()  # only the last step
    assert accuracy_of_own_counts(Walks(texts[1:], scored[1:])) == torch.tensor(1 / 3).item()  # only the first step


def test_a_table_of_one_text_knows_nothing_of_the_others():
    alphabet = walks(ALPHABET, 50, jumps=(0, 0), seed=1)
    assert accuracy_of_own_counts(alphabet) == 1
    assert accuracy_of_own_counts(Walks(alphabet.tokens, torch.arange(32).eq(1).expand(50, -1))) < 0.5


def test_the_training_takes_as_many_steps_as_requested():
    known = walks(ALPHABET, 40, seed=0)
    assert len(losses_of(fit_on_orders(lambda: Recurrent(8, 7, 11), known, next_token_loss, 0, steps=31))) == 31


def test_the_tokens_after_earlier_copies():
    found = after_copies(torch.tensor([[0, 3, 1, 0, 0]]))[0].nonzero().tolist()
    assert found == [[3, 1], [4, 1], [4, 4]]


def test_uniform_heads_put_as_much_weight_as_there_are_places():
    model, new = order_gpt(SIZES), Walks(torch.tensor([[0, 3, 1, 0, 3]]), torch.tensor([[False] * 4 + [True]]))
    for block in model.stack.blocks:
        nn.init.zeros_(block.mixer.attention.W_q.weight)
        nn.init.zeros_(block.mixer.attention.W_q.bias)
    previous, induction = head_weights(model, SIZES, new)
    torch.testing.assert_close(previous, torch.full((3,), (1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 4))
    torch.testing.assert_close(induction, torch.full((3,), 1 / 4))
    assert [weights.shape for weights in weights_of_layers(model, SIZES, new.tokens)] == [(1, 3, 5, 5)] * 2


def test_one_example_answers_the_question():
    for n_shots, false in ((1, False), (5, False), (5, True)):
        (asked,) = questions(ALPHABET, n_shots, 3, few_shot_prompt, false)
        assert len(asked.examples) == n_shots
        assert asked.truth == LETTERS[(LETTERS.index(asked.letter) + 1) % 8]
        assert (asked.examples[asked.letter] == asked.truth) is not false
        assert asked.prompt.count("letter: ") == n_shots + 1
    assert questions(ALPHABET, 0, 3, few_shot_prompt)[0].examples == {}


def test_answers_are_compared_with_the_truth_and_the_examples():
    asked = questions(ALPHABET, 8, 0, few_shot_prompt) + questions(ALPHABET, 8, 0, few_shot_prompt, false=True)
    true, as_shown, is_an_answer = answers(Successor(), asked)
    assert (true.tolist(), as_shown.tolist(), is_an_answer.tolist()) == ([True, True], [True, False], [True, True])
    assert next_letter(Successor(), ["A, b", "H"]).argmax(-1).tolist() == [1, 0]


def test_the_test_texts_follow_orders_that_are_returned():
    task = order_task(seed=0)
    assert (task.train.tokens.shape, task.test.tokens.shape, task.test_orders.shape) == ((8_000, 32), (500, 32), (1_000, 8))
    told = task.test.told[0].nonzero()[:, 0]
    steps = task.test.tokens[0][torch.stack([told - 1, told])]
    assert (successors(task.test_orders)[:, steps[0]] == steps[1]).all(1).any()


def test_a_star_marks_what_the_text_has_shown(capsys):
    print_texts(Walks(torch.tensor([[0, 3, 0, 3], [1, 1, 1, 1]]), torch.tensor([[False] * 3 + [True]] * 2)), 1)
    assert capsys.readouterr().out == "A D A D*\n"


def test_both_induction_heads_are_drawn_with_their_weight(capsys):
    model = order_gpt(SIZES)
    for block in model.stack.blocks:
        nn.init.zeros_(block.mixer.attention.W_q.weight)
        nn.init.zeros_(block.mixer.attention.W_q.bias)
    show_induction_heads(model, SIZES, torch.tensor([0, 3, 1, 0, 3, 1]))
    told = capsys.readouterr().out
    assert f"{(1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 + 1 / 6) / 5:.2f} of its weight on the token before" in told
    assert f"the second {(1 / 4 + 1 / 5 + 1 / 6) / 3:.2f} on tokens after earlier copies" in told


def test_fractions_of_the_answers():
    flags = [[True, False, False, True], [False, True, False, False], [True, True, False, False]]
    found = LetterAnswers(*torch.tensor(flags))
    assert (found.accuracy, found.follows_examples) == (0.5, 0.25)
    assert (found.accuracy_where(True), found.accuracy_where(False)) == (0.5, 0.5)


# Prompts with 0 to 8 examples are answered by models whose answers are known.


def test_a_model_of_the_alphabet_never_follows_false_examples():
    models, orders = [Successor(), Successor()], [ALPHABET, ALPHABET]
    true, false = (answers_by_shots(models, orders, few_shot_prompt, wrong) for wrong in (False, True))
    assert [len(of_models) for of_models in true] == [2] * 9
    assert all(found.accuracy == 1 for of_models in true + false for found in of_models)
    assert all(found.follows_examples == 0 for of_models in false for found in of_models)
