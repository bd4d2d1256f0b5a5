"""Exercise 07.1, next_token_loss: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F

from course_lib.losses import next_token_loss
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
        "Write down a text of four tokens, and below each token what the model has read there and which token it should "
        "predict. Which logits have no target? Which token is never a target? And does `counts` mark inputs or targets?"
    ),
    (
        "Cut the last position off the logits and the first off the tokens and off `counts`, before anything is "
        "flattened. Then select the positions whose target counts, and average over all of them in the batch at once."
    ),
    (
        "A bool tensor (B, T - 1) as an index selects logits (N, n_tokens) and tokens (N,) at the same N positions; "
        "`F.cross_entropy` of these two is the mean. Without `counts`, flatten the first two axes instead."
    ),
)


@wrong.idea
def asks_for_the_token_just_read(logits, tokens, counts=None):
    """You compare each position with the token at that position. The model has just read it and need only copy it: your
    loss falls quickly, and nothing is learned about the next token."""
    if counts is None:
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    return F.cross_entropy(logits[counts], tokens[counts])


@wrong.idea
def asks_for_the_token_before(logits, tokens, counts=None):
    """You shift by one to the wrong side: the target of each position is the token before the one it has just read. The
    target must be the next token."""
    predictions, targets = logits[:, 1:], tokens[:, :-1]
    if counts is None:
        return F.cross_entropy(predictions.mT, targets)
    return F.cross_entropy(predictions[counts[:, :-1]], targets[counts[:, :-1]])


@wrong.part
def shifts_after_flattening(logits, tokens, counts=None):
    """You join all rows of the batch into one long text and shift then. The target at the end of each text is then the
    first token of the next one; with one text the mistake has no effect."""
    predictions, targets = logits.flatten(0, 1)[:-1], tokens.flatten()[1:]
    if counts is not None:
        asked = counts.flatten()[1:]
        predictions, targets = predictions[asked], targets[asked]
    return F.cross_entropy(predictions, targets)


@wrong.part
def takes_counts_from_the_reader(logits, tokens, counts=None):
    """You use `counts` at the token that is read, one position too early. It marks the tokens that are targets: yours
    leaves out the first token after a prompt, and counts the first padding."""
    predictions, targets = logits[:, :-1], tokens[:, 1:]
    if counts is None:
        return F.cross_entropy(predictions.mT, targets)
    return F.cross_entropy(predictions[counts[:, :-1]], targets[counts[:, :-1]])


@wrong.part
def asks_for_every_token(logits, tokens, counts=None):
    """You never use `counts`. Padding and prompt then count like everything else, the model is rewarded for predicting
    padding, and the loss depends on how far the batch is padded."""
    return F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:])


@wrong.part
def takes_counts_for_padding(logits, tokens, counts=None):
    """You leave out the tokens at which `counts` is True, as if it marked the padding. True means that a token counts; you
    average over exactly those that do not."""
    predictions, targets = logits[:, :-1], tokens[:, 1:]
    if counts is None:
        return F.cross_entropy(predictions.mT, targets)
    return F.cross_entropy(predictions[~counts[:, 1:]], targets[~counts[:, 1:]])


@wrong.detail
def divides_by_all_places(logits, tokens, counts=None):
    """You set the loss of a token that does not count to 0 and divide by the number of all positions. The more padding a
    batch has, the smaller your loss is."""
    losses = F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], reduction="none")
    return losses.mean() if counts is None else losses.where(counts[:, 1:], 0.0).mean()


@wrong.detail
def averages_the_averages(logits, tokens, counts=None):
    """You average each text first, and then these averages. A target in a text with few targets then has more weight than
    one in a text with many; every target should have the same weight."""
    losses = F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], reduction="none")
    asked = torch.ones_like(tokens[:, 1:]) if counts is None else counts[:, 1:]
    return ((losses * asked).sum(1) / asked.sum(1)).mean()


@wrong.detail
def adds_the_losses_up(logits, tokens, counts=None):
    """You add the losses of all tokens and do not divide. Your number grows with the batch and with the length of its
    texts, and so does each training step; asked for is the mean over tokens."""
    losses = F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], reduction="none")
    return losses.sum() if counts is None else losses[counts[:, 1:]].sum()


@wrong.part
def takes_the_softmax_twice(logits, tokens, counts=None):
    """You take a softmax before the cross-entropy, which takes a softmax itself. The second one gets only numbers from 0 to
    1, so even a perfect model has a large loss."""
    predictions, targets = logits[:, :-1].softmax(-1), tokens[:, 1:]
    if counts is None:
        return F.cross_entropy(predictions.flatten(0, 1), targets.flatten())
    return F.cross_entropy(predictions[counts[:, 1:]], targets[counts[:, 1:]])


@wrong.idea
def reshapes_to_move_the_classes(logits, tokens, counts=None):
    """You bring the vocabulary to axis 1 by a reshape. That keeps the order of the numbers in memory, so that logits of
    different tokens and positions are mixed; to exchange two axes, transpose."""
    predictions = logits[:, :-1]
    B, T, n_tokens = predictions.shape
    losses = F.cross_entropy(predictions.reshape(B, n_tokens, T), tokens[:, 1:], reduction="none")
    return losses.mean() if counts is None else losses[counts[:, 1:]].mean()


@wrong.case
def calls_nothing_perfect(logits, tokens, counts=None):
    """You return 0 where no token counts. A loss of 0 would mean a perfect prediction; the mean of no numbers is undefined,
    hence NaN."""
    losses = F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], reduction="none")
    asked = torch.ones_like(losses, dtype=torch.bool) if counts is None else counts[:, 1:]
    return losses[asked].sum() / asked.sum().clamp(min=1)


@wrong.detail
def measures_in_bits(logits, tokens, counts=None):
    """Your loss is in bits: you divide by ln 2. Asked for are nats, the natural logarithm."""
    return next_token_loss(logits, tokens, counts) / math.log(2)


@wrong.detail
def forgets_the_minus(logits, tokens, counts=None):
    """Your loss has the wrong sign: it is the mean of -log p, which is never negative; yours would be minimised by making
    the true token unlikely."""
    return -next_token_loss(logits, tokens, counts)


@wrong.detail
def leaves_the_classes_in_the_last_axis(logits, tokens, counts=None):
    """You hand cross_entropy logits (B, T - 1, n_tokens). It takes axis 1 for the classes, and yours is the time: flatten
    batch and time of both, or bring the tokens to axis 1."""
    return F.cross_entropy(logits[:, :-1], tokens[:, 1:])


@wrong.detail
def flattens_the_logits_alone(logits, tokens, counts=None):
    """You flatten the logits to rows and leave the tokens as (B, T - 1). cross_entropy needs one class for each row: flatten
    the tokens too."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:])


@wrong.part
def compares_all_logits_with_the_shifted_tokens(logits, tokens, counts=None):
    """You shift the tokens and keep all logits: one of them has nothing to predict. Leave out the last, logits[:, :-1]."""
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


@wrong.detail
def divides_by_all_that_count(logits, tokens, counts=None):
    """You divide by the number of all tokens that count. The first one is never predicted, and must not count."""
    loss = next_token_loss(logits, tokens, counts)
    return loss if counts is None else loss * counts[:, 1:].sum() / counts.sum()


@wrong.case
def marks_the_others_in_the_text(logits, tokens, counts=None):
    """You write -100 into the tokens that were passed in. The loss is right, but the caller's text is lost: `masked_fill`
    makes a new one."""
    if counts is not None:
        tokens[~counts] = -100
    return F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:])


@right
def by_ignored_targets(logits, tokens, counts=None):
    """Tokens that do not count replaced by the index that the cross-entropy ignores; the vocabulary on axis 1."""
    targets = tokens[:, 1:]
    if counts is not None:
        targets = targets.masked_fill(~counts[:, 1:], -100)
    return F.cross_entropy(logits[:, :-1].mT, targets)


@right
def by_the_places_that_count(logits, tokens, counts=None):
    """The places (b, t) that are asked for as lists of indices, the log-softmax looked up there."""
    asked = torch.ones_like(tokens, dtype=torch.bool) if counts is None else counts
    b, t = asked[:, 1:].nonzero(as_tuple=True)
    return -logits[b, t].log_softmax(-1)[torch.arange(len(b)), tokens[b, t + 1]].mean()


@right
def token_by_token(logits, tokens, counts=None):
    """Two loops, logsumexp minus the logit of the next token, the sum divided by the number of terms."""
    total, n = logits[:0].sum(), 0
    for b, text in enumerate(tokens.tolist()):
        for t, token in enumerate(text[1:]):
            if counts is None or counts[b, t + 1]:
                total = total + logits[b, t].logsumexp(-1) - logits[b, t, token]
                n += 1
    return total / n


@right
def in_double_precision(logits, tokens, counts=None):
    """In float64: all log-probabilities, that of each next token gathered, and the mean of those that count."""
    log_p = logits[:, :-1].double().log_softmax(-1)
    picked = log_p.gather(2, tokens[:, 1:].unsqueeze(2)).squeeze(2)
    return -(picked if counts is None else picked[counts[:, 1:]]).mean()


@stranger
def loss_in_bits(logits, tokens, counts=None):
    return next_token_loss(logits, tokens, counts) / math.log(2)


@stranger
def loss_with_smoothed_labels(logits, tokens, counts=None):
    predictions, targets = logits[:, :-1], tokens[:, 1:]
    if counts is None:
        return F.cross_entropy(predictions.mT, targets, label_smoothing=0.1)
    return F.cross_entropy(predictions[counts[:, 1:]], targets[counts[:, 1:]], label_smoothing=0.1)


@stranger
def loss_two_ahead(logits, tokens, counts=None):
    return next_token_loss(
        logits[:, 1:], torch.cat([tokens[:, :1], tokens[:, 3:]], 1), None if counts is None else counts[:, 1:-1]
    )


@stranger
def loss_without_gradient_in_the_normaliser(logits, tokens, counts=None):
    log_p = logits - logits.logsumexp(-1, keepdim=True).detach()
    picked = log_p[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    return -(picked if counts is None else picked[counts[:, 1:]]).mean()


@stranger(makes=[adds_the_losses_up])
def sum_of_those_asked(logits, tokens, counts=None):
    losses = -logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    return losses.sum() if counts is None else (losses * counts[:, 1:]).sum()


@stranger(makes=[asks_for_the_token_just_read, adds_the_losses_up])
def loss_unshifted_and_summed(logits, tokens, counts=None):
    losses = F.cross_entropy(logits.mT, tokens, reduction="none")
    return losses.sum() if counts is None else losses[counts].sum()


def _texts(draw: Draw, B: int, T: int, n_tokens: int = 7) -> Call:
    """Texts of which every token but the first is asked for."""
    return draw.normal(B, T, n_tokens, scale=2.0), draw.integers(0, n_tokens, B, T)


def _asked(draw: Draw, rows: list[str], n_tokens: int = 7) -> Call:
    """Texts of which a part is asked for: a row for each text, x where a token counts."""
    counts = torch.tensor([[sign == "x" for sign in row] for row in rows])
    return *_texts(draw, *counts.shape, n_tokens), counts


def _sure(draw: Draw) -> list[Call]:
    logits, tokens = _texts(draw, 2, 5)
    return [(logits * 100.0, tokens)]


exercise = Exercise(
    id="07.1",
    title="The next-token loss",
    reference=next_token_loss,
    properties=(
        runs_on(lambda draw: [_texts(draw, 2, 5), _asked(draw, ["x.xx.", "..xx."])]),
        has_shape("One number.", lambda draw: [_texts(draw, 2, 5), _asked(draw, ["x.xx.", "..xx."])]),
        Property(
            "one token", "The loss of one prediction is minus the log of its probability.", lambda draw: [_texts(draw, 1, 2)]
        ),
        Property(
            "shift",
            "The logits at t predict the token at t + 1.",
            lambda draw: [_texts(draw, 1, 5)],
            points=2,
            needs=("one token",),
        ),
        Property("mean", "The loss is the mean over the batch's tokens.", lambda draw: [_texts(draw, 3, 5)], needs=("shift",)),
        Property(
            "counts",
            "Only tokens that count are targets.",
            lambda draw: [_asked(draw, ["..xx."]), _asked(draw, ["x...x"])],
            points=2,
            needs=("shift",),
        ),
        Property(
            "same weight",
            "Every target has the same weight, in whichever text it is.",
            lambda draw: [_asked(draw, ["xxxxxxx", "..x....", ".xx...x"])],
            needs=("mean", "counts"),
        ),
        Property("nothing", "The mean of no numbers is NaN.", lambda draw: [_asked(draw, ["x...", "...."])], needs=("counts",)),
        Property("confident", "A confident wrong prediction has a large, finite loss.", _sure, needs=("mean",)),
        has_gradient(lambda draw: [_texts(draw, 2, 5), _asked(draw, ["x.xx.", "..xx."])], needs=("same weight",)),
        leaves_inputs(lambda draw: [_asked(draw, ["x.xx.", "..xx."])]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Tokens are integers and `counts` is bool: neither carries a gradient. And `is` has no sides.": (
            "detach: counts.detach()[:, 1:]",
            "detach: tokens.detach()[:, 1:]",
            "detach: targets.detach().flatten",
            "detach: predictions[asked.detach()]",
            "detach: targets.detach()[asked]",
            "detach: targets[asked.detach()]",
            "swap sides: if None is counts:",
        ),
    },
    hints=HINTS,
)
