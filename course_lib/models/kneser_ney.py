"""Kneser-Ney n-gram language model, interpolated, with three discounts: the strongest count-based language model.

Kneser & Ney 1995 (https://doi.org/10.1109/ICASSP.1995.479394), in the form "modified Kneser-Ney" of Chen & Goodman 1999,
section 3 (https://doi.org/10.1006/csla.1999.0128):

    p(c | h) = (count(h c) − D(count(h c)) + rest(h) · p(c | h′)) / count(h)        h′ is h without its first token
    D(1) = 1 − 2 Y n_2 / n_1    D(2) = 2 − 3 Y n_3 / n_2    D(3 or more) = 3 − 4 Y n_4 / n_3        Y = n_1 / (n_1 + 2 n_2)

n_k is the number of runs counted k times, and rest(h) the sum of the discounts after h. The longest runs are counted by their
occurrences. A shorter run is counted by the different tokens before it: following a single context, however often, is no
evidence for other contexts. The recursion ends in the uniform distribution 1 / n_tokens.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.models.ngram import look_up, number_runs
from course_lib.shapes import Tokens

__all__ = ["KneserNey"]


class DiscountedCounts(NamedTuple):
    """Runs of one length and their contexts, as sorted numbers: the `share` of each run, and what is left in each context."""

    grams: Int[Tensor, "n"]
    share: Float[Tensor, "n"]
    contexts: Int[Tensor, "n_contexts"]
    rest: Float[Tensor, "n_contexts"]


class KneserNey:
    """An interpolated n-gram language model with Kneser-Ney's counts; it generates step by step as GPT does."""

    def __init__(self, grams: Int[Tensor, "N order"], n_tokens: int) -> None:
        """Count.

        Args:
            grams: (N, order), every run of `order` tokens; those of one text are `text.unfold(0, order, 1)`.
            n_tokens: size of the vocabulary.

        Raises:
            ValueError: n_tokens ** order is too large for a 64-bit number, which identifies a run.
        """
        self.n_tokens, self.order = n_tokens, grams.shape[1]
        runs, counts = number_runs(grams, n_tokens).unique(return_counts=True)
        self.tables = [_discounted(runs, counts, n_tokens)]
        for n in range(self.order - 1, 0, -1):
            runs, counts = (runs % n_tokens**n).unique(return_counts=True)
            self.tables.insert(0, _discounted(runs, counts, n_tokens))

    def probability(self, grams: Int[Tensor, "N n"]) -> Float[Tensor, "N"]:
        """Return the probability of the last token of each run, (N,), given the others; the last `order` count."""
        p = torch.full((len(grams),), 1 / self.n_tokens, dtype=torch.double)
        for n, table in enumerate(self.tables[: grams.shape[1]], start=1):
            gram = number_runs(grams[:, -n:], self.n_tokens)
            share = look_up(table.grams, table.share, gram, 0.0)
            p = share + look_up(table.contexts, table.rest, gram // self.n_tokens, 1.0) * p
        return p

    def start(self, prompt: Tokens) -> Int[Tensor, "B T_kept"]:
        """Start sequences with prompts (B, T), T ≥ 0; the state is the tokens that the next ones depend on."""
        return prompt[:, max(0, prompt.shape[1] - self.order + 1) :]

    def step(
        self, tokens: Int[Tensor, "B"], state: Int[Tensor, "B T_past"]
    ) -> tuple[Float[Tensor, "B n_tokens"], Int[Tensor, "B T_kept"]]:
        """Read one more token (B,) of each sequence; return log-probabilities of the next (B, n_tokens) and the new state."""
        state = self.start(torch.cat([state, tokens[:, None]], dim=1))
        context = state.repeat_interleave(self.n_tokens, dim=0)
        every = torch.arange(self.n_tokens).repeat(len(tokens))[:, None]
        return self.probability(torch.cat([context, every], dim=1)).log().view(-1, self.n_tokens), state


def _discounted(grams: Tensor, counts: Tensor, n_tokens: int) -> DiscountedCounts:
    n_1, n_2, n_3, n_4 = (int((counts == k).sum()) for k in range(1, 5))
    Y = n_1 / max(n_1 + 2 * n_2, 1)
    ideal = (k - (k + 1) * Y * more / max(n, 1) for k, n, more in ((1, n_1, n_2), (2, n_2, n_3), (3, n_3, n_4)))
    discounts = torch.tensor([0.0, *(max(0.0, D) for D in ideal)], dtype=torch.double)[counts.clamp(max=3)]
    contexts, place = (grams // n_tokens).unique(return_inverse=True)
    none = torch.zeros(len(contexts), dtype=torch.double)
    total, rest = (none.index_add(0, place, part) for part in (counts.double(), discounts))
    return DiscountedCounts(grams, (counts - discounts) / total[place], contexts, rest / total)
