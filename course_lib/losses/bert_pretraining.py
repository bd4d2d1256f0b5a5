"""BERT's pre-training tasks: masked language modelling and next-sentence prediction.

Devlin et al. 2019, section 3.1 and appendix A.1-A.2 (https://arxiv.org/abs/1810.04805). 15 % of the words are chosen; of these,
80 % become [MASK], 10 % another word, and 10 % stay, so that the model cannot trust a word just because it is not [MASK].
Of the pairs of sentences, half belong together, and half have a second sentence from elsewhere.

    L = - mean over chosen words of log p(word | corrupted text)
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lib.primitives.precision import float32_under_autocast, rounded_from_float32
from course_lib.primitives.preconditions import shape_checked
from course_lib.shapes import Tokens

__all__ = ["Masked", "Segmented", "SentencePairs", "corrupt", "mask_tokens", "mlm_loss", "nsp_pairs", "segment_input"]


class Masked(NamedTuple):
    """A corrupted text (B, T), and which of its words were `chosen` (B, T): there the model predicts the true word."""

    tokens: Tokens
    chosen: Bool[Tensor, "B T"]


class SentencePairs(NamedTuple):
    """Pairs of sentences (n_pairs,) by their indices, and whether the second is the one that `follows` the first."""

    first: Int[Tensor, "n_pairs"]
    second: Int[Tensor, "n_pairs"]
    follows: Bool[Tensor, "n_pairs"]


class Segmented(NamedTuple):
    """A text as BERT reads it: tokens (T,), and the sentence that each belongs to, `segments` (T,) of 0 and 1."""

    tokens: Int[Tensor, "T"]
    segments: Int[Tensor, "T"]


def corrupt(
    tokens: Tokens,
    eligible: Bool[Tensor, "B T"],
    mask: int,
    choice: Float[Tensor, "B T"],
    fate: Float[Tensor, "B T"],
    replacements: Tokens,
    rate: float = 0.15,
) -> Masked:
    """Mask tokens for BERT pre-training, given precomputed random numbers: the deterministic part of `mask_tokens`.

    Args:
        tokens: (B, T).
        eligible: (B, T), False at words that are never changed or predicted, such as [CLS], [SEP] and padding.
        mask: the index of [MASK].
        choice: (B, T) in 0…1; a word is chosen where it is below the rate.
        fate: (B, T) in 0…1; a chosen word becomes [MASK] below 0.8, its replacement from there to below 0.9, and else remains.
        replacements: (B, T) words.
        rate: fraction of the eligible words to choose.

    Returns:
        Masked(tokens, chosen), both (B, T); the input is not changed.

    Source: Devlin et al. 2019, appendix A.1.
    """
    chosen = eligible & (choice < rate)
    swapped = torch.where(fate < 0.9, replacements, tokens)
    corrupted = torch.where(fate < 0.8, mask, swapped)
    return Masked(torch.where(chosen, corrupted, tokens), chosen)


def mask_tokens(
    tokens: Tokens,
    eligible: Bool[Tensor, "B T"],
    mask: int,
    n_tokens: int,
    generator: torch.Generator | None = None,
    rate: float = 0.15,
) -> Masked:
    """Mask tokens at random for BERT pre-training: 15 % of them; of these 80 % become [MASK], 10 % any word, 10 % stay.

    Args:
        tokens: (B, T).
        eligible: (B, T), False at words that are never changed or predicted, such as [CLS], [SEP] and padding.
        mask: the index of [MASK].
        n_tokens: size of the vocabulary; any word of it may be a replacement, including the true one.
        generator: source of randomness, on the CPU; torch's default if None.
        rate: fraction of the eligible words to choose.

    Returns:
        Masked(tokens, chosen), both (B, T).

    Raises:
        ValueError: rate is not in 0…1.

    Source: Devlin et al. 2019, appendix A.1.
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"a share of the words must be in 0…1, got rate = {rate}.")
    choice, fate = (torch.rand(tokens.shape, generator=generator).to(tokens.device) for _ in range(2))
    replacements = torch.randint(n_tokens, tokens.shape, generator=generator).to(tokens.device)
    return corrupt(tokens, eligible, mask, choice, fate, replacements, rate)


@shape_checked("Pass all three whole: the loss itself selects the chosen positions.")
@float32_under_autocast
@rounded_from_float32
def mlm_loss(logits: Float[Tensor, "B T n_tokens"], tokens: Tokens, chosen: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """Average the cross-entropy of the true words over the chosen positions.

    Args:
        logits: predictions for each position of the corrupted text.
        tokens: the true words.
        chosen: True where a word counts.

    Returns:
        the mean of -log p(true word), in nats per word; NaN, the mean of an empty set, if no word was chosen.

    Source: Devlin et al. 2019, appendix A.1.
    """
    return F.cross_entropy(logits[chosen], tokens[chosen])


def nsp_pairs(document: Int[Tensor, "n"], coins: Float[Tensor, "n_pairs"], picks: Float[Tensor, "n_pairs"]) -> SentencePairs:
    """Pair each sentence with the following one, or with one from another document.

    Args:
        document: (n,), which document each sentence belongs to; the sentences of one document are adjacent and in order.
        coins: (n_pairs,) in 0…1, one for each sentence followed by another of its document, in order; below ½ the pair is a
            true one.
        picks: (n_pairs,) in 0…1, which of the M sentences of all other documents replaces it, where M depends on the
            document: number ⌊pick · M⌋, counted from 0 in the order of the text; the last one if pick is 1.

    Returns:
        SentencePairs(first, second, follows), (n_pairs,) each: indices of sentences, and whether the second follows the first.

    Raises:
        ValueError: there are not as many coins and picks as pairs, or there is no other document to take a sentence from.

    Source: Devlin et al. 2019, section 3.1, task 2.
    """
    _, document, sizes = document.unique_consecutive(return_inverse=True, return_counts=True)
    first = torch.nonzero(document[1:] == document[:-1])[:, 0]
    if coins.shape != first.shape or picks.shape != first.shape:
        raise ValueError(f"{len(first)} pairs need as many coins and picks, got {len(coins)} and {len(picks)}.")
    if len(first) and len(sizes) < 2:
        raise ValueError("a sentence from another document is needed, and there is none.")
    start = (sizes.cumsum(0) - sizes)[document[first]]
    own = sizes[document[first]]
    M = len(document) - own
    number = torch.minimum((picks * M).long(), M - 1)
    stranger = torch.where(number < start, number, number + own)
    follows = coins < 0.5
    return SentencePairs(first, torch.where(follows, first + 1, stranger), follows)


def segment_input(first: Int[Tensor, "T_1"], second: Int[Tensor, "T_2"] | None, begin: int, separate: int) -> Segmented:
    """Lay out one or two sentences as BERT reads them: [CLS] first [SEP], or [CLS] first [SEP] second [SEP].

    Args:
        first: words (T_1,).
        second: words (T_2,), possibly empty; or None if there is no second sentence.
        begin: the index of [CLS].
        separate: the index of [SEP].

    Returns:
        Segmented(tokens, segments), integers (T,) each; segments are 0 from [CLS] to the first [SEP], 1 after it.

    Source: Devlin et al. 2019, figure 2.
    """
    bounds = first.new_tensor([begin]), first.new_tensor([separate])
    tokens = torch.cat([bounds[0], first, bounds[1]])
    segments = torch.zeros_like(tokens)
    if second is None:
        return Segmented(tokens, segments)
    rest = torch.cat([second, bounds[1]])
    return Segmented(torch.cat([tokens, rest]), torch.cat([segments, torch.ones_like(rest)]))
