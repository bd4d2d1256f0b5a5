"""Heads, counts, questions and answers are measured as stated, on texts and models whose order is known."""

import torch
from torch import nn

from course_lib.datasets import walks
from course_lib.datasets.secret_orders import Walks, successors
from course_lib.generation import few_shot_prompt
from course_tools.lectures.lecture_07.in_context_orders import (
    LETTERS,
    LetterAnswers,
    OrderQuestion,
    accuracy_of_counts,
    accuracy_of_distances,
    accuracy_of_last_copy,
    accuracy_of_own_counts,
    accuracy_on_orders,
    after_copies,
    answers,
    answers_by_shots,
    head_weights,
    next_letter,
    order_task,
    print_texts,
    questions,
    share_of_copies,
)

# Heads, counts, questions and answers are measured as stated, on texts whose order is known.


ALPHABET = torch.arange(8)[None]


class Successor(nn.Module):
    """Predicts that the letter after the last one follows the last letter in the alphabet."""

    def forward(self, tokens):
        return nn.functional.one_hot((tokens + 1) % 8, 8).float() * 20


def test_a_fixed_order_is_counted_by_a_table():
    known, new = (walks(ALPHABET, n, seed=n) for n in (300, 50))
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


def test_the_tokens_after_earlier_copies():
    found = after_copies(torch.tensor([[0, 3, 1, 0, 0]]))[0].nonzero().tolist()
    assert found == [[3, 1], [4, 1], [4, 4]]


def uniform(tokens):
    """The weights of two layers with three heads, each of which attends equally to all tokens so far: (B, 3, T, T) each."""
    B, T = tokens.shape
    weights = torch.ones(T, T).tril() / torch.arange(1, T + 1)[:, None]
    return [weights.expand(B, 3, T, T)] * 2


def test_uniform_heads_put_as_much_weight_as_there_are_places():
    new = Walks(torch.tensor([[0, 3, 1, 0, 3]]), torch.tensor([[False] * 4 + [True]]))
    previous, induction = head_weights(uniform(new.tokens), new)
    torch.testing.assert_close(previous, torch.full((3,), (1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 4))
    torch.testing.assert_close(induction, torch.full((3,), 1 / 4))


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
    true, as_shown = answers(Successor(), asked)
    assert (true.tolist(), as_shown.tolist()) == ([True, True], [True, False])
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


def test_fractions_of_the_answers():
    found = LetterAnswers(*torch.tensor([[True, False, False, True], [False, True, False, False]]))
    assert (found.accuracy, found.follows_examples) == (0.5, 0.25)


def test_a_model_of_the_alphabet_never_follows_false_examples():
    true, false = (answers_by_shots(Successor(), ALPHABET, few_shot_prompt, wrong) for wrong in (False, True))
    assert len(true) == 9
    assert all(found.accuracy == 1 for found in true + false)
    assert all(found.follows_examples == 0 for found in false)


def test_an_answer_is_a_copy_where_it_follows_the_letter_in_the_prompt():
    asked = [OrderQuestion("A", prompt, "B", {}) for prompt in ("letter: A\nnext: B\nletter: A\nnext:", "CAxA", "BACAB\nA")]
    assert share_of_copies(Successor(), asked[:1]) == 1
    assert share_of_copies(Successor(), asked[1:2]) == 0
    assert share_of_copies(Successor(), asked[2:]) == 1


def test_a_true_round_stands_before_the_examples():
    (asked,) = questions(ALPHABET, 2, 3, few_shot_prompt, false=True, after_round=True)
    first = asked.prompt.split("\n")[0]
    assert first in 2 * LETTERS
    assert len(first) == 9
    assert asked.prompt.split("\n", 1)[1] == questions(ALPHABET, 2, 3, few_shot_prompt, false=True)[0].prompt


def test_the_last_copy_is_followed():
    new = Walks(torch.tensor([[0, 1, 0, 2, 0, 2, 0, 1]]), torch.tensor([[0, 0, 0, 0, 0, 1, 0, 1]]).bool())
    assert accuracy_of_last_copy(new) == 0.5  # 2 as last time; then 1, which was not the last


def test_distances_know_a_circle_whose_order_they_do_not():
    known, new = (walks(torch.stack([torch.randperm(8) for _ in range(40)]), 40, jumps=(0, 0), seed=n) for n in (0, 1))
    assert accuracy_of_distances(known, new) == 1


def test_distances_alone_follow_no_pair():
    texts = torch.tensor([[0, 1, 2, 0, 1, 2, 0, 1], [0, 1, 2, 2, 0, 1, 2, 1]])
    last = torch.zeros(1, 8, dtype=torch.bool).index_fill(1, torch.tensor([7]), True)
    known, new = (Walks(texts[i : i + 1], last) for i in (0, 1))
    assert accuracy_of_distances(known, known) == 1
    assert accuracy_of_distances(known, new) == 0  # three places back stands 0, whatever followed 2
