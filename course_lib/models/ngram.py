"""N-gram language model with Witten-Bell interpolation: the baseline for neural language models.

Interpolated with shorter contexts as in Witten & Bell 1991, method C (https://doi.org/10.1109/18.87000), in the form of Chen &
Goodman 1999, section 2.4 (https://doi.org/10.1006/csla.1999.0128):

    p(c | h) = (count(h c) + kinds(h) · p(c | h′)) / (count(h) + kinds(h))        h′ is h without its first token

kinds(h) is the number of different tokens seen after h; the recursion ends in the uniform distribution 1 / n_tokens. Training
is counting.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

__all__ = ["NGram"]


class NGramCounts(NamedTuple):
    """Counts of one length: `grams` and `contexts` as sorted numbers, and for each context its `total` and its `kinds`."""

    grams: Int[Tensor, "n"]
    counts: Int[Tensor, "n"]
    contexts: Int[Tensor, "n_contexts"]
    total: Int[Tensor, "n_contexts"]
    kinds: Int[Tensor, "n_contexts"]


class NGram:
    """An interpolated n-gram language model, estimated by counting."""

    def __init__(self, grams: Integer[Tensor, "N order"], n_tokens: int) -> None:
        """Count.

        Args:
            grams: (N, order), every run of `order` tokens; those of one text are `text.unfold(0, order, 1)`.
            n_tokens: size of the vocabulary.

        Raises:
            ValueError: n_tokens ** order is too large for a 64-bit number, which identifies a gram.
        """
        self.n_tokens, self.order = n_tokens, grams.shape[1]
        self.tables = [_count(grams[:, -n:], n_tokens) for n in range(1, self.order + 1)]

    def __len__(self) -> int:
        """Count the entries of all tables."""
        return sum(len(table.grams) for table in self.tables)

    def probability(self, grams: Integer[Tensor, "N n"]) -> Float[Tensor, "N"]:
        """Return the probability of the last token of each run, (N,), given the others; the last `order` count."""
        p = torch.full((len(grams),), 1 / self.n_tokens, dtype=torch.double)
        for n, table in enumerate(self.tables[: grams.shape[1]], start=1):
            gram = number_runs(grams[:, -n:], self.n_tokens)
            context = gram // self.n_tokens
            count = look_up(table.grams, table.counts, gram)
            total, kinds = (look_up(table.contexts, values, context) for values in (table.total, table.kinds))
            p = torch.where(total > 0, (count + kinds * p) / (total + kinds).clamp(min=1), p)
        return p

    def probabilities(self, context: Int[Tensor, "*batch T"]) -> Float[Tensor, "*batch n_tokens"]:
        """Return the probability of every next token after contexts (*batch, T), of which the last order - 1 tokens count."""
        T = context.shape[-1]
        seen = context[..., T - min(T, self.order - 1) :].unsqueeze(-2)
        every = torch.arange(self.n_tokens)[:, None].expand(*context.shape[:-1], -1, -1)
        runs = torch.cat([seen.expand(*every.shape[:-1], -1), every], dim=-1)
        return self.probability(runs.flatten(0, -2)).view(every.shape[:-1])


def _count(grams: Tensor, n_tokens: int) -> NGramCounts:
    kinds_of_grams, counts = number_runs(grams, n_tokens).unique(return_counts=True)
    contexts, place = (kinds_of_grams // n_tokens).unique(return_inverse=True)
    total = torch.zeros_like(contexts).index_add(0, place, counts)
    return NGramCounts(kinds_of_grams, counts, contexts, total, place.bincount(minlength=len(contexts)))


def number_runs(grams: Tensor, n_tokens: int) -> Tensor:
    """Encode each run (N, n) as one number in base n_tokens.

    Raises:
        ValueError: n_tokens ** n is too large for a 64-bit number.
    """
    if n_tokens ** grams.shape[1] >= 2**63:
        raise ValueError(f"runs of {grams.shape[1]} out of {n_tokens} tokens are too many to number; take a lower order.")
    return (grams * n_tokens ** torch.arange(grams.shape[1] - 1, -1, -1, device=grams.device)).sum(1)


def look_up(keys: Tensor, values: Tensor, wanted: Tensor, otherwise: float = 0) -> Tensor:
    """Look up the values of sorted keys; `otherwise` for a key that is missing."""
    place = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return torch.where(keys[place] == wanted, values[place], otherwise)
