"""Exercise 08.3, mlm_loss: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange

from course_lib.losses import mlm_loss
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

HINTS = (
    (
        "Two sentences, one with a single chosen token and one with three: by how many losses do you divide? And what is "
        "the effect of the logits at positions that were not chosen?"
    ),
    (
        "Select the chosen positions first, of logits and true tokens alike. Indexing with a mask of shape (B, T) gives "
        "one long row of all chosen positions of the batch; the rest is an ordinary cross-entropy."
    ),
    (
        "`logits[chosen]` has shape (n_chosen, n_tokens) and `tokens[chosen]` (n_chosen,); `F.cross_entropy` takes just "
        "these two, does the log-softmax itself and averages. Nothing is shifted: position t predicts token t."
    ),
)


def _losses(logits, tokens):
    """-log p(true token) at every position, (B, T)."""
    return F.cross_entropy(logits.mT, tokens, reduction="none")


@wrong.idea
def averages_over_all_places(logits, tokens, chosen):
    """You average over every position and never use `chosen`. At most positions the model reads its target and need only
    copy it."""
    return _losses(logits, tokens).mean()


@wrong.idea
def asks_for_the_others(logits, tokens, chosen):
    """You average over the positions that were not chosen. True means that a token counts."""
    return _losses(logits, tokens)[~chosen].mean()


@wrong.detail
def divides_by_all_places(logits, tokens, chosen):
    """You set the losses of the other positions to 0 and take the mean over all B · T. The sum is right, but you must
    divide by the number of chosen positions."""
    return (_losses(logits, tokens) * chosen).mean()


@wrong.detail
def averages_sentence_by_sentence(logits, tokens, chosen):
    """You average within each sentence first and then over the sentences. A token in a sentence with few chosen ones then
    has more weight; all chosen tokens of the batch have the same weight."""
    n = chosen.sum(1)
    return ((_losses(logits, tokens) * chosen).sum(1) / n.clamp(min=1))[n > 0].mean()


@wrong.detail
def adds_up(logits, tokens, chosen):
    """You sum over the chosen positions. Your loss grows with the size of the batch, and so do its gradients; take the
    mean."""
    return _losses(logits, tokens)[chosen].sum()


@wrong.idea
def shifts_by_one(logits, tokens, chosen):
    """You take the next token as the target, as in a left-to-right language model. In BERT, the target of position t is the
    original token at t."""
    return _losses(logits[:, :-1], tokens[:, 1:])[chosen[:, 1:]].mean()


@wrong.part
def takes_the_softmax_twice(logits, tokens, chosen):
    """You take the softmax yourself, and the cross-entropy takes it once more. Probabilities lie in 0…1, so the second
    softmax is nearly uniform; pass the logits."""
    return F.cross_entropy(logits.softmax(-1)[chosen], tokens[chosen])


@wrong.part
def forgets_the_logarithm(logits, tokens, chosen):
    """You average 1 - p of the true tokens, without a logarithm. The cross-entropy is -log p."""
    return 1 - logits.softmax(-1).gather(-1, tokens[..., None])[..., 0][chosen].mean()


@wrong.detail
def forgets_the_sign(logits, tokens, chosen):
    """You average log p, without the minus. Your loss is negative, and minimising it makes the true tokens less likely."""
    return -_losses(logits, tokens)[chosen].mean()


@wrong.detail
def measures_in_bits(logits, tokens, chosen):
    """You take logarithms of base 2. Your result is the right one in bits; asked for are nats, with the natural logarithm."""
    return _losses(logits, tokens)[chosen].mean() / torch.log(torch.tensor(2.0))


@wrong.part
def silences_the_other_logits(logits, tokens, chosen):
    """You set the logits of the other positions to 0 and average over all. Logits of 0 are a uniform prediction with a loss
    of log n_tokens; these positions must be left out."""
    return _losses(logits * chosen[..., None], tokens).mean()


@wrong.case
def cuts_the_graph(logits, tokens, chosen):
    """You detach the logits. Your value is right, but no gradient reaches the model."""
    return F.cross_entropy(logits.detach()[chosen], tokens[chosen])


@wrong.detail
def leaves_the_classes_in_the_last_axis(logits, tokens, chosen):
    """You hand cross_entropy logits (B, T, n_tokens). It takes axis 1 for the classes, and yours is the time: select the
    chosen positions, logits[chosen], or flatten batch and time."""
    return F.cross_entropy(logits, tokens)


@wrong.detail
def chooses_the_logits_alone(logits, tokens, chosen):
    """You select the logits of the chosen positions and compare them with all words. Select the words too: tokens[chosen]."""
    return F.cross_entropy(logits[chosen], tokens.flatten())


@wrong.case
def calls_nothing_perfect(logits, tokens, chosen):
    """You divide by at least 1, and give 0 where no token is chosen. That looks like a perfect prediction: the mean of no
    numbers is NaN."""
    return (_losses(logits, tokens) * chosen).sum() / chosen.sum().clamp(min=1)


@wrong.part
def takes_token_0_for_not_chosen(logits, tokens, chosen):
    """You write 0 where a token is not chosen, and ignore the target 0. Token 0 is lost where it is chosen: mark the others by
    a number that no token has, such as -100."""
    return F.cross_entropy(logits.flatten(0, 1), (tokens * chosen).flatten(), ignore_index=0)


@wrong.part
def looks_the_true_tokens_up_as_rows(logits, tokens, chosen):
    """You index the rows of the log-probabilities by the tokens. The rows are the chosen places, and the tokens are columns:
    one of each row, by `gather` or [arange, tokens]."""
    return -logits[chosen].log_softmax(-1)[tokens[chosen]].mean()


@right
def by_ignoring_the_others(logits, tokens, chosen):
    """cross_entropy over all positions, in which those that do not count have the target it ignores."""
    return F.cross_entropy(rearrange(logits, "B T n -> (B T) n"), tokens.masked_fill(~chosen, -100).flatten())


@right
def by_log_sum_exp(logits, tokens, chosen):
    """log Σ exp minus the logit of the true token, at every position; a weighted sum by the mask."""
    true = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    losses = logits.logsumexp(dim=-1) - true
    return torch.where(chosen, losses, 0.0).sum() / chosen.sum()


@right
def place_by_place(logits, tokens, chosen):
    """A loop over the chosen positions, in float64."""
    losses = []
    for b, t in chosen.nonzero().tolist():
        losses.append(-logits[b, t].double().log_softmax(-1)[tokens[b, t]])
    return torch.stack(losses).mean().to(logits.dtype) if losses else logits.new_tensor(torch.nan)


@right
def against_one_hot_words(logits, tokens, chosen):
    """True tokens as one-hot vectors, the mask as weights, all in one einsum."""
    one_hot = F.one_hot(tokens, logits.shape[-1]).to(logits.dtype)
    weights = chosen.to(logits.dtype)
    return -torch.einsum("btn,btn,bt->", F.log_softmax(logits, dim=-1), one_hot, weights) / weights.sum()


@stranger
def loss_with_smoothed_words(logits, tokens, chosen):
    return F.cross_entropy(logits[chosen], tokens[chosen], label_smoothing=0.1)


@stranger
def loss_of_the_first_sentence(logits, tokens, chosen):
    return mlm_loss(logits[:1], tokens[:1], chosen[:1])


@stranger
def loss_of_the_worst_word(logits, tokens, chosen):
    return F.cross_entropy(logits[chosen], tokens[chosen], reduction="none").max()


@stranger(makes=[adds_up])
def loss_by_a_sum_of_logarithms(logits, tokens, chosen):
    return -logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0][chosen].sum()


@stranger(makes=[averages_over_all_places, measures_in_bits])
def loss_in_bits_of_all_places(logits, tokens, chosen):
    return F.cross_entropy(logits.mT, tokens) / math.log(2)


def _asked(draw: Draw, *rows: str, n_tokens: int = 7, scale: float = 2.0) -> Call:
    """Texts of which a part is asked for: a row for each, x where a token was chosen."""
    chosen = torch.tensor([[sign == "x" for sign in row] for row in rows])
    return draw.normal(*chosen.shape, n_tokens, scale=scale), draw.integers(0, n_tokens, *chosen.shape), chosen


def _texts(draw: Draw) -> list[Call]:
    return [_asked(draw, "x.xx.", "..xx."), _asked(draw, ".x....x", "xx.....", "......x", n_tokens=11)]


exercise = Exercise(
    id="08.3",
    title="The loss of masked language modelling",
    reference=mlm_loss,
    properties=(
        runs_on(_texts),
        has_shape("One number.", _texts),
        Property(
            "one token",
            "The loss of a single token is minus the log of its probability.",
            lambda draw: [_asked(draw, "x")],
            points=2,
        ),
        Property(
            "its own position",
            "The target of each position is the original token there.",
            lambda draw: [_asked(draw, "..x.."), _asked(draw, "....x"), _asked(draw, "x....")],
            points=2,
            needs=("one token",),
        ),
        Property(
            "mean",
            "The loss is the mean over the chosen positions.",
            lambda draw: [_asked(draw, "xxx"), _asked(draw, "x.xx.")],
            points=2,
            needs=("its own position",),
        ),
        Property(
            "same weight",
            "Every chosen token has the same weight, in whichever text it is.",
            lambda draw: [_asked(draw, "xxxxxxx", "..x....", ".xx...x")],
            needs=("mean",),
        ),
        Property(
            "empty text",
            "A text without chosen tokens has no effect.",
            lambda draw: [_asked(draw, "x.x", "..."), _asked(draw, ".....", "xxx.x", ".....")],
            needs=("mean",),
        ),
        Property("nothing", "The mean of no numbers is NaN.", lambda draw: [_asked(draw, "...", "...")], needs=("mean",)),
        Property(
            "confident",
            "A confident wrong prediction has a large, finite loss.",
            lambda draw: [_asked(draw, "x.xx.", scale=200.0)],
            needs=("mean",),
        ),
        has_gradient(_texts, needs=("same weight",)),
        leaves_inputs(_texts),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Masks and indices carry no gradient.": (
            "detach: logits[chosen.detach()]",
            "detach: tokens.detach()[chosen]",
            "detach: tokens[chosen.detach()]",
        ),
    },
    hints=HINTS,
)
