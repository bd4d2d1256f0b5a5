"""Figures of lecture 07: induction heads on a text, answers by number of examples, sizes of a nucleus, odds of a character."""

from collections.abc import Callable, Sequence

import torch
from matplotlib.patches import Rectangle
from torch import Tensor

from course_lib.datasets import Vocabulary
from course_lib.models import GPT
from course_tools.lectures.lecture_07.character_model import TopK, TopP
from course_tools.lectures.lecture_07.in_context_orders import LETTERS, LetterAnswers, after_copies
from course_tools.notebook.device import device
from course_tools.notebook.plots import attention_maps, curves
from course_tools.notebook.show import show


def show_induction_heads(layers: Sequence[Tensor], tokens: Tensor) -> None:
    """Draw the best previous-token head of layer 1 and the best induction head of layer 2 on one text.

    Args:
        layers: the attention weights (h, T, T) of the two layers.
        tokens: the text (T,). The cells where each head should put its weight are outlined.
    """
    T, letters = len(tokens), [LETTERS[letter] for letter in tokens.tolist()]
    wanted = [torch.ones(T, T).tril(-1).triu(-1), after_copies(tokens[None])[0].float()]
    heads = [heads[(heads * where).sum((-1, -2)).argmax()] for heads, where in zip(layers, wanted, strict=True)]
    figure = attention_maps(
        dict(zip(("layer 1: the token before", "layer 2: after earlier copies"), heads, strict=True)), letters, letters
    )
    for ax, where in zip(figure.axes, wanted, strict=False):  # the last of the axes is the scale of the colours
        for query, key in where.nonzero().tolist():
            ax.add_patch(Rectangle((key - 0.5, query - 0.5), 1, 1, fill=False, edgecolor="tab:red"))
    on_wanted = [(head * where).sum() / where.any(-1).sum() for head, where in zip(heads, wanted, strict=True)]
    show(
        figure,
        alt=f"One head of each layer on a new text of {T} letters. The first puts {on_wanted[0]:.2f} of its weight on the "
        f"token before, the second {on_wanted[1]:.2f} on tokens after earlier copies of the same letter, where there are any. "
        "These cells are outlined.",
    )


def show_answers(true: Sequence[LetterAnswers], false: Sequence[LetterAnswers], after: Sequence[LetterAnswers]) -> None:
    """Draw the fraction of true answers, and of answers that follow false examples, against the number of examples.

    Args:
        true: as returned by `answers_by_shots`.
        false: the same, with false examples.
        after: the same, with false examples after one true round.
    """
    n_shots = range(len(true))
    by_order, kept = ([a.accuracy for a in shots] for shots in (true, after))
    alone, against = ([a.follows_examples for a in shots] for shots in (false, after))
    drawn = {
        "true examples": (n_shots, by_order),
        "false examples, followed": (n_shots[1:], alone[1:]),
        "round, then false: the round": (n_shots, kept),
        "round, then false: examples": (n_shots[1:], against[1:]),
    }
    show(
        curves(drawn, "examples in the prompt", "fraction of the answers", across={"a guess among 8": 1 / len(LETTERS)}),
        alt=f"True answers against the number of examples: {by_order[0]:.2f} with none, {by_order[1]:.2f} with one, "
        f"{by_order[4]:.2f} with four, {by_order[-1]:.2f} with {n_shots[-1]}. Answers that follow a false example: "
        f"{alone[1]:.2f} with one, {alone[4]:.2f} with four; after a true round {against[1]:.2f} and {against[4]:.2f}, where "
        f"{kept[1]:.2f} and {kept[4]:.2f} are true.",
    )


def show_nucleus_sizes(kept: Tensor, p: float, k: int) -> None:
    """Draw sorted sizes of a nucleus (n,) against their quantile, with the constant k of top-k."""
    quantiles = torch.linspace(0, 1, 101)
    drawn = {f"nucleus of {p:g}": (quantiles, kept[(quantiles * (len(kept) - 1)).long()])}
    show(
        curves(drawn, "quantile of the positions in new text", "characters that are kept", across={f"top-k, k = {k}": k}),
        alt=f"Characters kept by the nucleus of {p:g} at {len(kept):,} positions of new text: at most {kept[len(kept) // 10]} "
        f"at a tenth of them, {kept[len(kept) // 2]} at the median, at least {kept[len(kept) * 9 // 10]} at another tenth.",
    )


def next_character_figure(
    model: GPT, characters: Vocabulary, words: str, top_k: TopK, top_p: TopP
) -> Callable[[float, int, float], None]:
    """Return a function of temperature, k and p that draws the probabilities of the character after some words."""
    with torch.no_grad():
        logits = model(torch.tensor([characters.encode(words)], device=device()))[0, -1].cpu()

    def draw(temperature: float = 1.5, k: int = 5, p: float = 1.0) -> None:
        odds, n = top_p(top_k(logits / temperature, k), p).softmax(-1), min(10, len(logits))
        both = {"with temperature, k and p": odds, "the model's own": logits.softmax(-1)}
        lines = {name: (range(1, n + 1), shares.topk(n).values) for name, shares in both.items()}
        show(
            curves(lines, "rank of the character", "probability"),
            alt=f"After {words!r}: {(odds > 0).sum()} characters are kept, the most likely is "
            f"{characters.symbols[odds.argmax()]!r} with {odds.max():.2f}.",
        )

    return draw
