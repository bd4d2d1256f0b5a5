"""Exercise 02.6, teacher_forced_loss: average -log p of each next token over the real tokens of a batch."""

import math

import torch
import torch.nn.functional as F

from course_lib.losses import teacher_forced_loss
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
    "Write one short sentence with its begin, its end and two paddings on paper, and below each position what the "
    "decoder has read there and which token it should predict. Which logits have no target? Which tokens are never "
    "targets?",
    "Drop the last position of the logits and the first of the targets, *before* anything is flattened, so that "
    "position $t$ predicts token $t + 1$. Then decide for each target whether it is padding: these add nothing to the "
    "sum, and nothing to the number you divide by.",
    "All that is left is a cross-entropy between `(N, n_tokens)` logits and `(N,)` token indices, where "
    "$N = B(T-1)$. `torch.nn.functional.cross_entropy` takes logits, not probabilities, averages over all positions "
    "at once, and has an argument for the index of a class that does not count.",
)


@wrong.idea
def without_the_shift(logits, target, padding):
    """You compare each position with the token the decoder has just read. It only has to copy its input, so your loss
    goes down quickly and the model learns nothing about the next token."""
    return F.cross_entropy(logits.transpose(1, 2), target, ignore_index=padding)


@wrong.idea
def shifted_the_wrong_way(logits, target, padding):
    """You shift by one, but to the other side: each position is compared with the token before the one just read. The decoder
    has already read it; the target must be the next token, not an earlier one."""
    return F.cross_entropy(logits[:, 1:].transpose(1, 2), target[:, :-1], ignore_index=padding)


@wrong.detail
def shifted_after_flattening(logits, target, padding):
    """You flatten the batch first and shift afterwards. So the target of the last position of each sentence is the first token
    of the next sentence in the batch."""
    return F.cross_entropy(logits.flatten(0, 1)[:-1], target.flatten()[1:], ignore_index=padding)


@wrong.part
def padding_counted(logits, target, padding):
    """You average over all positions, including those at padding. The model is rewarded for predicting padding after padding,
    which is easy, and the loss depends on how far the batch happens to be padded."""
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:])


@wrong.detail
def sum_instead_of_mean(logits, target, padding):
    """You add up over all tokens and do not divide. Your loss, and with it the size of a training step, grows with the number
    of tokens in the batch; asked for is the mean over tokens."""
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding, reduction="sum")


@wrong.detail
def mean_of_sentence_means(logits, target, padding):
    """You average within each sentence, and then over the sentences. A token of a short sentence then counts more than
    one of a long sentence; asked for is one mean over all tokens of the batch."""
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding, reduction="none")
    n_real = (target[:, 1:] != padding).sum(1).clamp(min=1)
    return (losses.sum(1) / n_real).mean()


@wrong.detail
def padding_in_the_denominator(logits, target, padding):
    """You set the loss at padding to 0 and take the mean over all positions. Padding adds nothing to your sum, but it is still
    counted in what you divide by, so a batch with more padding has a lower loss."""
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding, reduction="none")
    return losses.mean()


@wrong.detail
def padding_looked_for_in_the_inputs(logits, target, padding):
    """You leave out the positions at which the decoder reads padding, not those at which the target is padding. The two are
    one step apart: after each end of a sentence, one padding token still counts."""
    real = target[:, :-1] != padding
    return F.cross_entropy(logits[:, :-1][real], target[:, 1:][real])


@wrong.part
def softmax_taken_twice(logits, target, padding):
    """You turn the logits into probabilities before the cross-entropy, which takes a softmax itself. The second softmax gets
    only numbers between 0 and 1, so even a perfect decoder has a large loss."""
    return F.cross_entropy(logits[:, :-1].softmax(-1).transpose(1, 2), target[:, 1:], ignore_index=padding)


@wrong.case
def probability_rounded_to_zero(logits, target, padding):
    """You compute the probability first and its logarithm afterwards. In float32 a probability below about 1e-45 is 0, its
    logarithm -inf, and the whole mean infinite, though the true loss is finite."""
    real = target[:, 1:] != padding
    probabilities = logits[:, :-1].softmax(-1)[real]
    return -probabilities.gather(1, target[:, 1:][real][:, None]).log().mean()


@wrong.detail
def adds_up_the_sentences(logits, target, padding):
    """You average within each sentence and then add over the batch. The loss is one mean over all real tokens; yours grows
    with the batch size."""
    loss = F.cross_entropy(logits[:, :-1].mT, target[:, 1:], ignore_index=padding, reduction="none")
    return (loss.sum(1) / (target[:, 1:] != padding).sum(1)).sum()


@wrong.detail
def divides_by_the_batch(logits, target, padding):
    """You add the losses of a sentence and average over the batch. The loss is the mean over tokens, so divide by the number
    of next tokens that are not padding; yours grows with the length of the sentences."""
    total = F.cross_entropy(logits[:, :-1].flatten(0, 1), target[:, 1:].flatten(), ignore_index=padding, reduction="sum")
    return total / len(target)


@wrong.detail
def leaves_the_classes_in_the_last_axis(logits, target, padding):
    """You hand cross_entropy logits (B, T - 1, n_tokens). It takes axis 1 for the classes, and yours is the time: flatten
    batch and time of both, or bring the tokens to axis 1."""
    return F.cross_entropy(logits[:, :-1], target[:, 1:], ignore_index=padding)


@wrong.part
def compares_all_logits_with_the_shifted_tokens(logits, target, padding):
    """You shift the target and keep all logits: one of them has nothing to predict. Leave out the last, logits[:, :-1]."""
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=padding)


@wrong.case
def counts_at_least_one(logits, target, padding):
    """You divide by at least 1, and give 0 where no target counts. That looks like a perfect prediction: the mean of an empty
    set is NaN."""
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding, reduction="sum")
    return losses / (target[:, 1:] != padding).sum().clamp(min=1)


@wrong.idea
def forgets_the_minus(logits, target, padding):
    """You return the mean log-probability. The loss is *minus* it: an optimiser that minimises yours makes the right tokens
    less likely."""
    return -F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding)


@wrong.part
def takes_the_logits_for_log_probabilities(logits, target, padding):
    """You average the logits of the right tokens. They are log-probabilities only after a log-softmax, which compares them
    with the logits of the other tokens."""
    return F.nll_loss(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding)


@wrong.idea
def normalises_over_the_time(logits, target, padding):
    """Your softmax runs over the positions. At each position the probabilities of all tokens must sum to 1."""
    logs = logits[:, :-1].log_softmax(1)
    return F.nll_loss(logs.transpose(1, 2), target[:, 1:], ignore_index=padding)


@wrong.detail
def measures_in_bits(logits, target, padding):
    """You take the logarithm to base 2. The loss is in nats, as everywhere in the course: the natural logarithm."""
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding) / math.log(2)


@wrong.part
def subtracts_the_probability_from_one(logits, target, padding):
    """You average 1 - p of the right tokens, without a logarithm. The loss is -log p, which has no upper bound: a decoder that
    is sure and wrong pays most."""
    kept = target[:, 1:] != padding
    return 1 - logits[:, :-1].softmax(-1).gather(-1, target[:, 1:, None])[..., 0][kept].mean()


@wrong.case
def returns_a_number_without_its_graph(logits, target, padding):
    """Your number is right, but it is cut off from the logits, as `.item()` and `.detach()` do: no gradient reaches the
    decoder."""
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding).detach()


@wrong.detail
def divides_each_sentence_by_its_own_length(logits, target, padding):
    """You divide the loss of each sentence by the number of its own tokens, and average the sentences. A token of a short
    sentence counts more then, and a sentence without a token is 0 / 0."""
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding, reduction="none")
    return (losses.sum(1) / (target[:, 1:] != padding).sum(1)).mean()


@wrong.detail
def counts_the_beginning_too(logits, target, padding):
    """You divide by the number of all real tokens. The first of each sentence is read and never predicted: it must not
    count."""
    n = (target != padding).sum()
    return teacher_forced_loss(logits, target, padding) * (target[:, 1:] != padding).sum() / n


@wrong.detail
def averages_within_each_position(logits, target, padding):
    """You average over the sentences at each position first, and then over the positions. A token at a position that few
    sentences reach then has more weight; all real tokens have the same."""
    seen = [F.cross_entropy(logits[:, t], target[:, t + 1], ignore_index=padding) for t in range(target.shape[1] - 1)]
    return torch.stack(seen).nanmean()


@right
def by_choosing_real_tokens(logits, target, padding):
    """The real positions chosen by a boolean index, log_softmax and the picked entries of it averaged."""
    next_tokens = target[:, 1:]
    real = next_tokens != padding
    log_p = logits[:, :-1][real].log_softmax(-1)
    return -log_p[torch.arange(len(log_p)), next_tokens[real]].mean()


@right
def by_logsumexp(logits, target, padding):
    """The log-softmax by hand, logsumexp minus the asked logit; a sum over real tokens and their number."""
    asked = logits[:, :-1].gather(2, target[:, 1:, None]).squeeze(2)
    losses = logits[:, :-1].logsumexp(-1) - asked
    real = target[:, 1:] != padding
    return torch.where(real, losses, 0.0).sum() / real.sum()


@right
def by_loops(logits, target, padding):
    """A loop over sentences and one over positions, the losses of real tokens collected in a list."""
    losses = []
    for said, sentence in zip(logits, target, strict=True):
        for t in range(len(sentence) - 1):
            if sentence[t + 1] != padding:
                losses.append(-said[t].log_softmax(0)[sentence[t + 1]])
    return torch.stack(losses).mean() if losses else logits.new_tensor(torch.nan)


@right
def in_double_precision(logits, target, padding):
    """Padding replaced by the index that nll_loss ignores by itself, everything in float64."""
    next_tokens = target[:, 1:].masked_fill(target[:, 1:] == padding, -100)
    return F.nll_loss(logits[:, :-1].double().log_softmax(-1).transpose(1, 2), next_tokens)


@stranger
def loss_as_perplexity(logits, target, padding):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding).exp()


@stranger
def loss_in_bits(logits, target, padding):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding) / math.log(2)


@stranger
def loss_with_smooth_labels(logits, target, padding):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding, label_smoothing=0.1)


@stranger
def loss_with_the_padding_written_in(logits, target, padding):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=4)


@stranger
def loss_a_sentence(logits, target, padding):
    total = F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding, reduction="sum")
    return total / len(logits)


@stranger(makes=[without_the_shift])
def loss_by_hand_without_the_shift(logits, target, padding):
    log_p = logits.log_softmax(-1).gather(-1, target[..., None])[..., 0]
    real = target != padding
    return -(log_p * real).sum() / real.sum()


@stranger(makes=[without_the_shift, sum_instead_of_mean])
def loss_with_two_mistakes(logits, target, padding):
    return F.cross_entropy(logits.transpose(1, 2), target, ignore_index=padding, reduction="sum")


def _sentences(draw: Draw, lengths: list[int], T: int, padding: int = 4) -> Call:
    """Targets of these lengths with padding after them; the padding index is not 0, and no real token."""
    n_tokens = 11
    tokens = draw.integers(0, n_tokens - 1, len(lengths), T)
    tokens = tokens + (tokens >= padding)
    real = torch.arange(T) < torch.tensor(lengths)[:, None]
    return draw.normal(len(lengths), T, n_tokens, scale=2.0), torch.where(real, tokens, padding), padding


def _sure(draw: Draw) -> list[Call]:
    logits, target, padding = _sentences(draw, [5, 3], 5)
    return [(logits * 100.0, target, padding)]


exercise = Exercise(
    id="02.6",
    title="The loss under teacher forcing",
    reference=teacher_forced_loss,
    properties=(
        runs_on(lambda draw: [_sentences(draw, [7, 7], 7)]),
        has_shape("One number.", lambda draw: [_sentences(draw, [7, 7], 7)]),
        Property(
            "one token",
            "The loss of one prediction is minus the log of its probability.",
            lambda draw: [_sentences(draw, [2], 2)],
        ),
        Property(
            "shift",
            "The logits at t predict the token at t + 1.",
            lambda draw: [_sentences(draw, [5], 5)],
            needs=("one token",),
        ),
        Property(
            "mean",
            "The loss is the mean over the batch's tokens.",
            lambda draw: [_sentences(draw, [5, 5, 5], 5)],
            needs=("shift",),
        ),
        Property(
            "padding",
            "Padding is never a target, and each real token counts the same.",
            lambda draw: [_sentences(draw, [7, 3, 2], 7), _sentences(draw, [5, 4], 6, padding=7)],
            points=2,
            needs=("mean",),
        ),
        Property(
            "nothing",
            "The mean of no target is NaN.",
            lambda draw: [_sentences(draw, [1, 1], 4), _sentences(draw, [1], 1)],
            needs=("one token",),
        ),
        Property("confident", "A confident wrong prediction has a large, finite loss.", _sure, needs=("padding",)),
        has_gradient(lambda draw: [_sentences(draw, [5, 3], 5)], needs=("padding",)),
        leaves_inputs(lambda draw: [_sentences(draw, [5, 3], 5)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Tokens are integers and carry no gradient.": (
            "detach: target.detach()[:, 1:]",
            "detach: F.cross_entropy(predictions, next_tokens.detach(), ignore_index=padding)",
        ),
    },
    hints=HINTS,
)
