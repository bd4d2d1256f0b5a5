"""Few-shot prompts for models that find a secret order: accuracy by number of examples, true or false; for lecture 07."""

from collections.abc import Callable, Sequence
from statistics import mean

from torch import Tensor, nn

from course_tools.notebook.in_context_orders import LETTERS, LetterAnswers, answers, next_letter, questions
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show


def answers_by_shots(
    models: Sequence[nn.Module], orders: Sequence[Tensor], few_shot_prompt: Callable[..., str], false: bool = False
) -> list[list[LetterAnswers]]:
    """Ask each model one question about each order, with 0 to 8 examples in the prompt.

    Args:
        models: one for each seed.
        orders: (n, 8) for each model; number i of them determines letters and examples by seed i.
        few_shot_prompt: such as that of `course_lib.generation`.
        false: whether each example shows the letter after the next, which is wrong.

    Returns:
        for each number of examples, the answers of each model.
    """
    return [
        [
            answers(model, questions(of_model, n_shots, seed, few_shot_prompt, false))
            for seed, (model, of_model) in enumerate(zip(models, orders, strict=True))
        ]
        for n_shots in range(len(LETTERS) + 1)
    ]


def show_answers(true: Sequence[Sequence[LetterAnswers]], false: Sequence[Sequence[LetterAnswers]]) -> None:
    """Draw the fraction of true answers, and of answers that follow false examples, against the number of examples.

    Args:
        true: as returned by `answers_by_shots`.
        false: the same, with false examples.
    """
    n_shots = range(len(true))
    by_order, by_order_all_the_same = ([mean(a.accuracy for a in of_models) for of_models in shots] for shots in (true, false))
    as_shown = [mean(a.follows_examples for a in of_models) for of_models in false]
    drawn = {
        "true examples: true answer": (n_shots, by_order),
        "false examples: answer of the example": (n_shots[1:], as_shown[1:]),
        "false examples: true answer": (n_shots, by_order_all_the_same),
    }
    show(
        curves(drawn, "examples in the prompt", "fraction of the answers", across={"a guess among 8": 1 / len(LETTERS)}),
        alt=f"True answers against the number of examples: {by_order[0]:.2f} with none, {by_order[1]:.2f} with one, "
        f"{by_order[4]:.2f} with four, {by_order[-1]:.2f} with {n_shots[-1]}; with false examples "
        f"{by_order_all_the_same[1]:.2f} with one and {by_order_all_the_same[4]:.2f} with four. Answers that follow a false "
        f"example: {as_shown[1]:.2f} with one, {as_shown[4]:.2f} with four.",
    )


def print_next_letter(model: nn.Module, prompt: str) -> None:
    """Print a prompt, and the probability of each of the eight letters after it."""
    odds = next_letter(model, [prompt])[0].tolist()
    print(prompt, " ".join(f"{letter} {p:.2f}" for letter, p in zip(LETTERS, odds, strict=True)))
