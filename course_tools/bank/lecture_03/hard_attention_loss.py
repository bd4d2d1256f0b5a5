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

wrong, right, stranger = Answers(), Answers(), Answers()

TINY = torch.finfo(torch.float32).tiny

HINTS = (
    (
        "Two parts learn from one caption: the word probabilities, by differentiation, and the attention, whose sampled "
        "regions cannot be differentiated. Which number tells whether a sampled region was a good choice? Should a "
        "gradient flow through *that* number?"
    ),
    (
        "From (B, T, L) and (B, T), gather for each word the weight of the sampled region; sum the logs over the words. "
        "Their factor is log p - b, detached from the graph; the other log p stays in it. An optimiser minimises: mind "
        "the sign."
    ),
    (
        "`gather` picks the weight of each region looked at; the sum of its logarithms is what the advantage multiplies, "
        "and the advantage is a constant: detach it. The words' own log-probability is added undetached, the entropy with "
        "its weight. Only the mean of it all changes its sign."
    ),
)


def _log_looks(weights, looks):
    """Σ_t log α_t,s_t of each caption."""
    return weights.clamp(min=TINY).gather(-1, looks[..., None]).log().sum((1, 2))


def _entropy(weights):
    """Σ_t H(α_t) of each caption."""
    return -(weights * weights.clamp(min=TINY).log()).sum((1, 2))


@wrong.case
def lets_the_reward_flow(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You leave the reward log p - b in the graph. The value is right, but its gradient also reaches log p through the reward;
    the reward is a constant factor of the log-probabilities of the sampled regions."""
    return -(log_p + (log_p - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong.idea
def teaches_no_words(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You detach log p in both terms. Then no gradient reaches the word model at all; only the reward is detached, the first
    log p is not."""
    log_p = log_p.detach()
    return -(log_p + (log_p - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong.idea
def teaches_no_looks(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You detach the logs of the sampled weights. The attention learns through them; detach the reward that multiplies them
    instead."""
    log_looks = _log_looks(weights, looks).detach()
    return -(log_p + (log_p.detach() - baseline) * log_looks + entropy_weight * _entropy(weights)).mean()


@wrong.idea
def forgets_the_words(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You return the attention term alone. The word model then learns nothing: log p itself is the first term of the sum."""
    return -((log_p.detach() - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong.part
def forgets_the_baseline(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You take log p as the reward, without the baseline. As log p is never above 0, every sampled region becomes less likely,
    good or bad; with log p - b, those better than the baseline become likelier."""
    return -(log_p + log_p.detach() * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong.detail
def adds_the_baseline(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You add the baseline to log p. Both are below 0, so every sampled region becomes less likely, good or bad; the reward is
    how much *better* than the baseline the caption is, log p - b."""
    return -(log_p + (log_p.detach() + baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong.idea
def leaves_out_the_looks(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You leave out the probability of the looks. Which place was looked at was drawn, and no gradient goes through a draw:
    only (log p - b) log α of the places that were drawn teaches the attention."""
    return -(log_p + entropy_weight * _entropy(weights)).mean()


@wrong.detail
def compares_within_the_batch(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You take the mean of this batch's log p for the baseline, and not the one passed in. In a batch of one your reward is
    always 0; b is an average of log p over many batches."""
    reward = log_p.detach() - log_p.detach().mean()
    return -(log_p + reward * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong.idea
def climbs(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You return the objective without the minus. An optimiser minimises your result, and so makes the captions less likely."""
    return (log_p + (log_p.detach() - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong.detail
def rewards_a_narrow_look(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You give the entropy the wrong sign: Σ α log α is below 0, and H has a minus in front of it. Your λ rewards weights
    concentrated on one region, where it should reward spread-out ones."""
    return -(log_p + (log_p.detach() - baseline) * _log_looks(weights, looks) - entropy_weight * _entropy(weights)).mean()


@wrong.part
def takes_the_likeliest_look(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You take the largest weight of each word, and not that of the sampled region. The reward belongs to the regions in
    `looks`, from which the caption was computed."""
    log_looks = weights.amax(-1).log().sum(-1)
    return -(log_p + (log_p.detach() - baseline) * log_looks + entropy_weight * _entropy(weights)).mean()


@wrong.part
def takes_the_log_of_the_sum(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You add the sampled weights and take the log of the sum. The regions are sampled independently, so their probabilities
    multiply: sum the logs over the words."""
    log_looks = weights.gather(-1, looks[..., None]).sum((1, 2)).log()
    return -(log_p + (log_p.detach() - baseline) * log_looks + entropy_weight * _entropy(weights)).mean()


@wrong.detail
def averages_over_the_words(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You take the mean over the words where a sum is asked for, in the log-probabilities and in the entropy. Both are then
    too small by the factor T; the mean is over the batch only."""
    T = weights.shape[1]
    return -(log_p + ((log_p.detach() - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)) / T).mean()


@wrong.detail
def forgets_the_entropy(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You never use entropy_weight: the term λ Σ_t H(α_t), which rewards spread-out attention, is missing."""
    return hard_attention_loss(log_p, weights, looks, baseline)


@wrong.part
def takes_no_logarithm_of_the_weights(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You add up the weights of the sampled regions. REINFORCE multiplies the reward by the *logs* of their probabilities."""
    sampled = weights.gather(-1, looks[..., None]).sum((1, 2))
    return -(log_p + (log_p.detach() - baseline) * sampled + entropy_weight * _entropy(weights)).mean()


@wrong.case
def takes_the_log_of_zero(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You take the logarithm of a weight that was rounded to 0: it is -∞, and times 0 it is NaN. Give the logarithm at least
    the smallest normal number: clamp(min=torch.finfo(weights.dtype).tiny)."""
    log_looks = weights.gather(-1, looks[..., None]).log().sum((1, 2))
    entropy = -(weights * weights.log()).sum((1, 2))
    return -(log_p + (log_p.detach() - baseline) * log_looks + entropy_weight * entropy).mean()


@wrong.detail
def adds_up_the_captions(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You add up the captions of the batch. Asked for is their mean: yours grows with the batch."""
    return -(log_p + (log_p.detach() - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).sum()


@wrong.detail
def returns_a_number_for_each_caption(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You return one number for each caption. Asked for is their mean, one number for the batch."""
    return -(log_p + (log_p.detach() - baseline) * _log_looks(weights, looks) + entropy_weight * _entropy(weights))


@wrong.detail
def turns_the_reward_around(log_p, weights, looks, baseline, entropy_weight=0.0):
    """Your reward is b - log p. A caption that is *more* likely than the baseline must make its regions likelier: log p - b."""
    return -(log_p + (baseline - log_p.detach()) * _log_looks(weights, looks) + entropy_weight * _entropy(weights)).mean()


@wrong.part
def averages_before_it_multiplies(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You average the rewards and the log-probabilities of the regions, and multiply the two means. Each caption has its own
    reward for its own regions: multiply first."""
    reward, log_looks = (log_p.detach() - baseline).mean(), _log_looks(weights, looks).mean()
    return -(log_p.mean() + reward * log_looks + entropy_weight * _entropy(weights).mean())


@wrong.detail
def averages_the_entropy(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You take the mean of α log α over words and regions for the entropy. An entropy is a sum over the regions, and those of
    the words add up."""
    entropy = _entropy(weights) / weights[0].numel()
    return -(log_p + (log_p.detach() - baseline) * _log_looks(weights, looks) + entropy_weight * entropy).mean()


@wrong.detail
def gathers_along_the_words(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You gather along axis 1, that of the words. `looks` holds numbers of regions, which are the last axis."""
    log_looks = weights.clamp(min=TINY).log().gather(1, looks[..., None]).sum((1, 2))
    return -(log_p + (log_p.detach() - baseline) * log_looks + entropy_weight * _entropy(weights)).mean()


@wrong.case
def adds_a_little_to_every_weight(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You add a small number to every weight before the logarithm. A weight that was rounded to 0 counts as the smallest
    normal number, and all others stay as they are: use clamp."""
    log_weights = (weights + 1e-8).log()
    log_looks = log_weights.gather(-1, looks[..., None]).sum((1, 2))
    entropy = -(weights * log_weights).sum((1, 2))
    return -(log_p + (log_p.detach() - baseline) * log_looks + entropy_weight * entropy).mean()


@wrong.case
def adds_the_smallest_number(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You add the smallest normal number to every weight. The values are right, but at a weight of 0 the gradient of your
    logarithm is 1 / tiny, about 10³⁸: clamp passes none back."""
    log_weights = (weights + torch.finfo(weights.dtype).tiny).log()
    log_looks = log_weights.gather(-1, looks[..., None]).sum((1, 2))
    entropy = -(weights * log_weights).sum((1, 2))
    return -(log_p + (log_p.detach() - baseline) * log_looks + entropy_weight * entropy).mean()


@wrong.case
def clamps_at_the_machine_epsilon(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You bound the weights below by the machine epsilon, `eps`, and so change weights that are small but not rounded. The
    smallest normal number is `tiny`."""
    return hard_attention_loss(log_p, weights.clamp(min=torch.finfo(weights.dtype).eps), looks, baseline, entropy_weight)


@wrong.detail
def takes_the_entropy_of_the_looks(log_p, weights, looks, baseline, entropy_weight=0.0):
    """You sum -α log α over the sampled regions alone. The entropy of a word's weights runs over all regions."""
    seen = weights.gather(-1, looks[..., None])[..., 0]
    entropy = torch.special.entr(seen).sum(-1).mean()
    return hard_attention_loss(log_p, weights, looks, baseline) - entropy_weight * entropy


@right
def as_surprise(log_p, weights, looks, baseline, entropy_weight=0.0):
    """torch's negative log-likelihood of the drawn regions, and its x log y for the entropy."""
    surprise = F.nll_loss(weights.clamp(min=TINY).log().transpose(1, 2), looks, reduction="none")
    entropies = -torch.xlogy(weights, weights.clamp(min=TINY)).sum((1, 2))
    with torch.no_grad():
        reward = log_p - baseline
    return (reward * surprise.sum(1) - log_p).mean() - entropy_weight * entropies.mean()


@right
def picked_by_one_hot(log_p, weights, looks, baseline, entropy_weight=0.0):
    """One table of what each log α is multiplied by, the reward at the drawn region and -λ α everywhere; log p by itself."""
    drawn = F.one_hot(looks, weights.shape[-1]).to(weights.dtype)
    rewards = torch.einsum("b,btl->btl", log_p.detach() - baseline, drawn)
    gains = torch.einsum("btl,btl->b", rewards - entropy_weight * weights, torch.log(weights.clamp(min=TINY)))
    return -torch.cat([log_p, gains]).sum() / log_p.numel()


@right
def caption_by_caption(log_p, weights, looks, baseline, entropy_weight=0.0):
    """Three loops in float64: over the captions, their words, and the regions."""
    loss = torch.zeros((), dtype=torch.float64, device=weights.device)
    for score, rows, drawn in zip(log_p.double(), weights.double(), looks.tolist(), strict=True):
        reward = score.item() - baseline
        loss = loss - score
        for row, s in zip(rows, drawn, strict=True):
            loss = loss - reward * row[s].clamp(min=TINY).log()
            for share in row:
                loss = loss + entropy_weight * share * share.clamp(min=TINY).log()
    return (loss / len(log_p)).to(weights.dtype)


@stranger
def loss_of_squared_rewards(log_p, weights, looks, baseline, entropy_weight=0.0):
    log_looks = weights.gather(-1, looks[..., None]).log().sum((1, 2))
    return -(log_p + (log_p.detach() - baseline).square() * log_looks).mean()


@stranger
def loss_of_a_doubled_baseline(log_p, weights, looks, baseline, entropy_weight=0.0):
    return hard_attention_loss(log_p, weights, looks, 2 * baseline, entropy_weight)


@stranger
def loss_of_the_first_look(log_p, weights, looks, baseline, entropy_weight=0.0):
    return hard_attention_loss(log_p, weights[:, :1], looks[:, :1], baseline, entropy_weight)


@stranger(makes=[forgets_the_baseline, climbs])
def loss_that_climbs_without_baseline(log_p, weights, looks, baseline, entropy_weight=0.0):
    return -hard_attention_loss(log_p, weights, looks, 0.0, entropy_weight)


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


def _rounded(draw: Draw) -> list[Call]:
    """Weights of which some were rounded to 0, those of sampled regions among them."""
    log_p, weights, looks, baseline = _caption(draw, 2)
    weights = weights * (weights == weights.amax(-1, keepdim=True))
    return [(log_p, weights / weights.sum(-1, keepdim=True), looks, baseline, 0.5)]


def _captions(*B: int, T: int = 0) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_caption(draw, b, T) for b in B]


def _curious(*B: int) -> Callable[[Draw], list[Call]]:
    return lambda draw: [(*_caption(draw, b), 0.1 + draw.uniform(1).item()) for b in B]


exercise = Exercise(
    id="03.6",
    title="The loss of hard attention",
    extra=True,
    reference=hard_attention_loss,
    properties=(
        runs_on(_captions(2)),
        has_shape("One number for the batch.", _captions(2, 1)),
        Property("baseline", "Where log p equals the baseline, only log p counts.", _usual),
        Property(
            "one word",
            "A caption of one word: a reward above 0 makes the sampled region likelier.",
            _captions(1, 1, T=1),
            needs=("baseline",),
        ),
        Property(
            "sampled regions",
            "The log-probabilities of all sampled regions add up.",
            _captions(1, 1),
            needs=("one word",),
        ),
        Property("batch", "The mean over the captions.", _captions(3, 2), needs=("sampled regions",)),
        Property(
            "entropy", "The entropy of every word's weights is rewarded by λ.", _curious(1, 1, 3), points=2, needs=("batch",)
        ),
        Property(
            "gradient paths",
            "log p gets a gradient from its own term, the weights from the reward term, and no gradient flows through the "
            "reward.",
            _captions(1, 3),
            same_gradients,
            points=2,
            needs=("batch",),
        ),
        Property(
            "rounded",
            "In the logarithm, a weight that was rounded to 0 counts as the smallest normal number.",
            _rounded,
            needs=("entropy",),
        ),
        has_gradient(lambda draw: [*_curious(1, 3)(draw), *_rounded(draw)], needs=("gradient paths", "rounded")),
        leaves_inputs(_curious(2)),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "A sum has no order of axes; what is an integer, or detached already, carries no gradient; all weights "
            "drawn are far above 0, and all numbers of one kind."
        ): (
            "detach: looks.detach()[..., None]",
            "detach: weights.detach().dtype",
            "detach: log_p.detach().detach",
            "drop argument: torch.finfo().tiny",
            "other name: log_p.dtype",
            "swap elements: (weights * log_weights).sum((2, 1))",
            "swap elements: log_weights.gather(-1, looks[..., None]).sum((2, 1))",
        ),
    },
    hints=HINTS,
)
