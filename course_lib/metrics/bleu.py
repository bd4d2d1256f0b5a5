"""BLEU: the fraction of a translation's runs of one to four tokens that occur in reference translations, over a corpus.

Papineni et al. 2002, *BLEU: a Method for Automatic Evaluation of Machine Translation*, section 2
(https://aclanthology.org/P02-1040):

    p_n  = Σ min(count of a run in the candidate, its greatest count in one reference) / Σ count      over all runs of n tokens
    BP   = min(1, exp(1 − r / c))
    BLEU = BP · exp(mean over n = 1 … N of log p_n)

c is the length of all candidates, and r the sum over the sentences of the reference length that is closest to the candidate's,
the shorter of two equally close ones. Sums run over the corpus before anything is divided: BLEU is not a mean over sentences.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from torch import Tensor

__all__ = ["bleu"]

Sentence = Sequence[Hashable]


class BLEU(NamedTuple):
    """A score from 0 to 1 (papers print 100 times as much), and its parts: p_1 … p_N, BP, c and r."""

    score: float
    precisions: list[float]
    brevity_penalty: float
    candidate_length: int
    reference_length: int


def bleu(
    candidates: Sequence[Sentence | Tensor],
    references: Sequence[Sequence[Sentence | Tensor]],
    n_max: int = 4,
) -> BLEU:
    """Compute corpus BLEU of translations against one or more references each.

    Args:
        candidates: the translations, each a sequence or a vector of tokens: split texts first; the score depends on how.
        references: for each translation at least one reference, also a sequence or a vector of tokens.
        n_max: N, the length of the longest runs, ≥ 1.

    Returns:
        the score and its parts.

    Raises:
        ValueError: there is no translation, one has no reference, the numbers of translations and reference lists differ, or
            n_max is not positive.
        TypeError: a translation or a reference is a text that was not split, or the references of a translation are not a list.
    """
    if n_max < 1:
        raise ValueError(f"runs have at least one token, got n_max = {n_max}; the paper counts runs of 1 to 4.")
    if len(candidates) == 0 or len(candidates) != len(references) or not all(len(each) for each in references):
        sizes = [len(each) for each in references]
        raise ValueError(f"each of {len(candidates)} translations needs a list of references, got lists of {sizes}.")
    pairs = [(_tokens(candidate), [*map(_tokens, of_it)]) for candidate, of_it in zip(candidates, references, strict=True)]
    matches, totals = [0] * n_max, [0] * n_max
    for candidate, of_it in pairs:
        for n in range(1, n_max + 1):
            counted = _runs(candidate, n)
            most: Counter[tuple[Hashable, ...]] = Counter()
            for reference in of_it:
                most |= _runs(reference, n)
            matches[n - 1] += (counted & most).total()
            totals[n - 1] += counted.total()
    c = sum(len(candidate) for candidate, _ in pairs)
    r = sum(min((abs(len(reference) - len(candidate)), len(reference)) for reference in of_it)[1] for candidate, of_it in pairs)
    brevity_penalty = min(1.0, math.exp(1 - r / c)) if c else 0.0
    precisions = [match / max(total, 1) for match, total in zip(matches, totals, strict=True)]
    logs = sum(math.log(p) if p > 0 else -math.inf for p in precisions)
    return BLEU(brevity_penalty * math.exp(logs / n_max), precisions, brevity_penalty, c, r)


def _tokens(sentence: Sentence | Tensor) -> Sentence:
    """Return the tokens of a sentence as values that compare by value, which the entries of a tensor do not."""
    if isinstance(sentence, str) or (isinstance(sentence, Tensor) and sentence.dim() != 1):
        got = f"the text {sentence[:40]!r}" if isinstance(sentence, str) else f"a tensor {tuple(sentence.shape)}"
        raise TypeError(
            f"a sentence is a sequence of tokens, got {got}: split a text, as by `.split()`, since its characters would be "
            "counted, and give each translation a list of references, `[[reference], …]`."
        )
    return [token.item() if isinstance(token, Tensor) else token for token in sentence]


def _runs(tokens: Sentence, n: int) -> Counter[tuple[Hashable, ...]]:
    """Count the runs of n tokens."""
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
