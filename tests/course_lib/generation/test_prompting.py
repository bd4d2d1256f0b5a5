"""Prompts: by hand as in the paper's figure, the shots that fit, and no shot is ever truncated."""

import pytest

from course_lib.generation import few_shot_prompt

SHOTS = [("sea otter", "loutre de mer"), ("peppermint", "menthe poivrée"), ("plush giraffe", "girafe peluche")]
NAMES = ("English", "French")
TASK = "Translate English to French."


def test_a_prompt_by_hand():
    assert few_shot_prompt([("2", "two")], "3", ("Digit", "Word"), "Spell.") == "Spell.\nDigit: 2\nWord: two\nDigit: 3\nWord:"


def test_zero_shot_is_the_question_alone():
    assert few_shot_prompt([], "cheese", NAMES) == "English: cheese\nFrench:"
    assert few_shot_prompt((), "cheese", NAMES, TASK) == f"{TASK}\nEnglish: cheese\nFrench:"


def test_a_prompt_followed_by_its_answer_is_the_next_prompts_beginning():
    """The model must generate what follows the other questions."""
    before, (question, answer) = SHOTS[:-1], SHOTS[-1]
    assert few_shot_prompt(SHOTS, "cheese", NAMES, TASK).startswith(
        few_shot_prompt(before, question, NAMES, TASK) + f" {answer}\n"
    )


@pytest.mark.parametrize("task", ["", TASK])
def test_the_most_shots_that_fit_stay_and_they_are_the_newest(task):
    """By brute force over every size of room."""
    whole = [few_shot_prompt(SHOTS[i:], "cheese", NAMES, task) for i in range(len(SHOTS) + 1)]
    for room in range(len(whole[0]) + 3):
        fitting = [prompt for prompt in whole if len(prompt) <= room]
        assert few_shot_prompt(SHOTS, "cheese", NAMES, task, room) == (fitting or whole[-1:])[0]


def test_no_limit_keeps_all_and_the_shots_are_not_changed():
    shots = list(SHOTS)
    assert few_shot_prompt(shots, "cheese") == few_shot_prompt(shots, "cheese", room=10_000)
    few_shot_prompt(shots, "cheese", room=0)
    assert shots == SHOTS
