"""Prompts: a task is put to a language model as a text that it is to continue, and no weight changes.

Brown et al. 2020, section 2 and figure 2.1 (https://arxiv.org/abs/2005.14165), with K solved examples, "shots":

    task description · example 1 · … · example K · the question, left open        K = 0 zero-shot, 1 one-shot, more few-shot
"""

from collections.abc import Sequence


def few_shot_prompt(
    shots: Sequence[tuple[str, str]],
    question: str,
    names: tuple[str, str] = ("Input", "Output"),
    task: str = "",
    room: int | None = None,
) -> str:
    r"""Write a prompt: the task, solved examples, and a question whose answer is left to the model.

    few_shot_prompt([("2", "two")], "3", ("Digit", "Word"), "Spell.") is "Spell.\nDigit: 2\nWord: two\nDigit: 3\nWord:".

    Args:
        shots: solved examples (given, answer), the oldest first; there may be none.
        question: what is given this time.
        names: what stands before what is given, and before an answer; a colon and a space follow.
        task: says what is asked, on a line of its own; empty = no such line.
        room: how many characters the prompt may have. As many shots stay as fit whole, the oldest are left out first; task and
            question stay in any case. None = no limit.

    Returns:
        the prompt. It ends with the colon behind names[1]: a space there would be a token that no text has at this place.

    Source: Brown et al. 2020, section 2.4.
    """
    before = f"{task}\n" if task else ""
    solved = [f"{names[0]}: {given}\n{names[1]}: {answer}\n" for given, answer in shots]
    behind = f"{names[0]}: {question}\n{names[1]}:"
    while solved and room is not None and len(before + "".join(solved) + behind) > room:
        solved = solved[1:]
    return before + "".join(solved) + behind
