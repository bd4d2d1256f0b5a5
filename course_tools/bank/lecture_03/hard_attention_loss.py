"""Exercise 03.6, hard_attention_loss: what students answer, wrong and right."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from course_lib.losses import hard_attention_loss
from course_tools.checks.comparisons import same_gradients
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right = Answers(), Answers()

HINTS = (
    (
        "Two things learn from one caption: the words, which should make it likelier, and the looks, which cannot be "
        "differentiated. What tells a drawn look that it was a good one? And should *that* number pull at the words too?"
    ),
    (
        "From (B, T, L) and (B, T), fetch for each word the weight of the region that was drawn; sum the logs over the words. "
        "Their factor is log p - b, cut off from the graph; the other log p stays in it. An optimiser descends: mind the sign."
    ),
    (
        "`weights.gather(-1, looks[..., None]).log()` summed over axes 1, 2, times `log_p.detach() - baseline`, plus `log_p`, "
        "plus `entropy_weight` times `-(weights * weights.log()).sum((1, 2))`: the mean of it all, with a minus in front."
    ),
)


def _log_looks(weights, looks):
    """Σ_t log α_t,s_t of each caption."""
    return weights.gather(-1, looks[..., None]).log().sum((1, 2))


def _entropy(weights):
    """Σ_t H(α_t) of each caption."""
    return -(weights * weights.log()).sum((1, 2))


@wrong
def lets_the_reward_flow(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You leave the reward log p - b in the graph. The number is right, but its gradient also reaches the words, as if unlikely
    looks were a reason to say them less; the reward is a mere number that weighs the looks."""
    return -(log_p + (log_p - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong
def teaches_no_words(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You cut log p off from the graph in both places. Then no gradient reaches the words at all; only the factor of the looks
    is a mere number, the first log p is what the words learn from."""
    log_p = log_p.detach()
    return -(log_p + (log_p - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong
def teaches_no_looks(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You cut the logs of the drawn weights off from the graph. It is through them that the attention learns where to look; cut
    off the reward that multiplies them, and leave the weights in."""
    log_looks = _log_looks(weights, looks).detach()
    return -(log_p + (log_p.detach() - baseline) * log_looks + entropy_weight * _entropy(weights)).mean()


@wrong
def forgets_the_words(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You return the part of the looks alone. The attention then learns to look at what helps, and nobody learns to say it:
    log p itself stands in front of the sum."""
    return -((log_p.detach() - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong
def forgets_the_baseline(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You reward the looks with log p itself, without the baseline. As log p is never above 0, every look that was drawn is
    made rarer, good or bad; against b, those better than usual are made likelier."""
    return -(log_p + log_p.detach() * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong
def adds_the_baseline(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You add the baseline to log p. Both are below 0, so every look is punished, good or bad, and twice as hard; the reward is
    how much *better* than usual the caption is, log p - b."""
    return -(log_p + (log_p.detach() + baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong
def compares_within_the_batch(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You take the mean of this batch's log p for the baseline, and not the one handed to you. In a batch of one your reward is
    always 0; b is what log p is usually, over many batches."""
    reward = log_p.detach() - log_p.detach().mean()
    return -(log_p + reward * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong
def climbs(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You return what should grow, without the minus. An optimiser makes your result smaller: it unlearns the captions, and
    looks where it helps least."""
    return (log_p + (log_p.detach() - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong
def rewards_a_narrow_look(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You give the entropy the wrong sign: Σ α log α is below 0, and H has a minus in front of it. Your λ rewards those who
    stare at one region, where it was to keep them looking about."""
    return -(log_p + (log_p.detach() - baseline) * _log_looks(weights, looks) - entropy_weight * _entropy(weights)).mean()


@wrong
def takes_the_likeliest_look(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You take the largest weight of each word, and not that of the region that was drawn. The caption was said behind the
    looks that are handed to you; it is they who earned the reward."""
    log_looks = weights.amax(-1).log().sum(-1)
    return -(log_p + (log_p.detach() - baseline) * log_looks + entropy_weight * _entropy(weights)).mean()


@wrong
def takes_the_log_of_the_sum(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You add the drawn weights up and take the log of the sum. The looks were drawn one after the other, so their
    probabilities multiply: the logs are what is summed over the words."""
    log_looks = weights.gather(-1, looks[..., None]).sum((1, 2)).log()
    return -(log_p + (log_p.detach() - baseline) * log_looks + entropy_weight * _entropy(weights)).mean()


@wrong
def averages_over_the_words(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You take the mean over the words where a sum is asked for, in the looks and in the entropy. A long caption's looks then
    learn more slowly, each by the factor T; the mean is over the batch only."""
    T = weights.shape[1]
    return -(log_p + ((log_p.detach() - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)) / T).mean()


@right
def as_surprise(log_p, weights, looks, baseline, entropy_weight=0.0):
    """torch's negative log-likelihood of the drawn regions, and its entropy function."""
    surprise = F.nll_loss(weights.log().transpose(1, 2), looks, reduction="none")
    entropies = torch.special.entr(weights).sum((1, 2))
    with torch.no_grad():
        reward = log_p - baseline
    return (reward * surprise.sum(1) - log_p).mean() - entropy_weight * entropies.mean()


@right
def picked_by_one_hot(log_p, weights, looks, baseline, entropy_weight=0.0):
    """One table of what each log α is multiplied by, the reward at the drawn region and -λ α everywhere; log p by itself."""
    drawn = F.one_hot(looks, weights.shape[-1]).to(weights.dtype)
    rewards = torch.einsum("b,btl->btl", log_p.detach() - baseline, drawn)
    gains = torch.einsum("btl,btl->b", rewards - entropy_weight * weights, torch.log(weights))
    return -torch.cat([log_p, gains]).sum() / log_p.numel()


@right
def caption_by_caption(log_p, weights, looks, baseline, entropy_weight=0.0):
    """Three loops in float64: over the captions, their words, and the regions."""
    loss = torch.zeros((), dtype=torch.float64, device=weights.device)
    for score, rows, drawn in zip(log_p.double(), weights.double(), looks.tolist(), strict=True):
        reward = score.item() - baseline
        loss = loss - score
        for row, s in zip(rows, drawn, strict=True):
            loss = loss - reward * row[s].log()
            for share in row:
                loss = loss + entropy_weight * share * share.log()
    return (loss / len(log_p)).to(weights.dtype)


def _caption(draw: Draw, B: int, T: int = 0) -> Call:
    """Captions of T words with the looks that were drawn, and a baseline near the usual log p."""
    L, several = (size + 1 for size in draw.sizes(2))
    T = T or several
    weights = draw.normal(B, T, L, scale=1.5).softmax(-1)
    return -1.0 - 3 * draw.uniform(B), weights, draw.integers(0, L, B, T), -1.0 - 2 * draw.uniform(1).item()


def _usual(draw: Draw) -> list[Call]:
    """Captions exactly as likely as the baseline."""
    log_p, weights, looks, _ = _caption(draw, 2)
    return [(torch.full_like(log_p, -1.5), weights, looks, -1.5)]


def _captions(*B: int, T: int = 0) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_caption(draw, b, T) for b in B]


def _curious(*B: int) -> Callable[[Draw], list[Call]]:
    return lambda draw: [(*_caption(draw, b), 0.1 + draw.uniform(1).item()) for b in B]


exercise = Exercise(
    id="03.6",
    title="What hard attention descends",
    reference=hard_attention_loss,
    properties=(
        runs_on(_captions(2)),
        has_shape("One number for the batch.", _captions(2, 1)),
        Property("as usual", "Where the caption is as likely as usual, only log p counts.", _usual),
        Property(
            "one look",
            "A caption of one word: what is better than usual makes its look likelier.",
            _captions(1, 1, T=1),
            needs=("as usual",),
        ),
        Property("looks", "The logs of all looks add up.", _captions(1, 1), points=2, needs=("one look",)),
        Property("batch", "The mean over the captions.", _captions(3, 2), needs=("looks",)),
        Property(
            "entropy", "The entropy of every word's weights is rewarded by λ.", _curious(1, 1, 3), points=2, needs=("batch",)
        ),
        Property(
            "two teachers",
            "Words learn from log p, looks from the reward, and no gradient flows through the reward.",
            _captions(1, 3),
            same_gradients,
            points=2,
            needs=("batch",),
        ),
        has_gradient(_curious(1, 3), needs=("entropy", "two teachers")),
        leaves_inputs(_curious(2)),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
