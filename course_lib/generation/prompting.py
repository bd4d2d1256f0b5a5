"""Few-shot prompts: a task as text that a language model continues, without changing its weights.

Brown et al. 2020, section 2 and figure 2.1 (https://arxiv.org/abs/2005.14165), with K solved examples, "shots":

    task description · example 1 · … · example K · the question, left open        K = 0 zero-shot, 1 one-shot, more few-shot
"""

from collections.abc import Sequence

__all__ = ["few_shot_prompt"]


def few_shot_prompt(
    shots: Sequence[tuple[str, str]],
    question: str,
    names: tuple[str, str] = ("Input", "Output"),
    task: str = "",
    room: int | None = None,
) -> str:
    r"""Build a few-shot prompt: the task, solved examples, and a question for the model to answer.

    few_shot_prompt([("2", "two")], "3", ("Digit", "Word")) is
    "Digit: 2\nWord: two\nDigit: 3\nWord:"

    Args:
        shots: solved examples (given, answer), the oldest first; may be empty.
        question: the input of the question.
        names: labels of the input and of the answer. A colon follows each label, and a space separates it from its text.
        task: description, on a separate line; empty = no such line.
        room: maximal number of characters. The oldest shots that do not fit are left out; task and question are always kept.
            None = no limit.

    Returns:
        the prompt. It ends with the colon after names[1]; a space there would be tokenised differently from the examples.

    Source: Brown et al. 2020, section 2.4.
    """
    before = f"{task}\n" if task else ""
    solved = [f"{names[0]}: {given}\n{names[1]}: {answer}\n" for given, answer in shots]
    after = f"{names[0]}: {question}\n{names[1]}:"
    while solved and room is not None and len(before + "".join(solved) + after) > room:
        solved = solved[1:]
    return before + "".join(solved) + after
