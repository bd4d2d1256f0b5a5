"""Answers to the exercises of lecture 08 that are not in the bank: STRANGERS, RELATIVES and TWO_MISTAKES."""

import math

import torch
import torch.nn.functional as F

from course_lib.analysis import head_statistics
from course_lib.losses import corrupt, mlm_loss, nsp_pairs, segment_input
from course_lib.models import classification_head, scalar_mix


def mixture_upside_down(layers, w, gamma):
    return scalar_mix(layers, w.flip(0), gamma)


def mixture_by_a_double_softmax(layers, w, gamma):
    return scalar_mix(layers, w.softmax(0), gamma)


def mixture_of_normed_layers(layers, w, gamma):
    return scalar_mix(F.layer_norm(layers, layers.shape[-1:]), w, gamma)


def mixture_without_gradient_in_the_shares(layers, w, gamma):
    return scalar_mix(layers, w.detach(), gamma)


def mixture_that_adds_the_scale(layers, w, gamma):
    return w.softmax(0) @ layers + gamma


def mixture_by_exp_over_the_sum(layers, w, gamma):
    return gamma * layers.sum(-2) / layers.shape[-2]


def mixture_unscaled_by_sigmoids(layers, w, gamma):
    return w.sigmoid() @ layers


def masks_only_half_of_the_chosen(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    return corrupt(tokens, eligible, mask, choice, fate + 0.3, replacements, rate)


def masks_by_rank(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    rank = choice.masked_fill(~eligible, torch.inf).argsort(-1).argsort(-1)
    return corrupt(tokens, eligible, mask, rank / tokens.shape[1], fate, replacements, rate)


def masks_and_turns_the_window_round(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    return corrupt(tokens, eligible, mask, choice, 1 - fate, replacements, rate)


def masks_all_and_ignores_eligible(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    chosen = choice < rate
    return torch.where(chosen, mask, tokens), chosen


def chosen_is_where_the_text_changed(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    text, chosen = corrupt(tokens, eligible, mask, choice, fate, replacements, rate)
    return text, chosen & ~(fate >= 0.9)


def loss_with_smoothed_words(logits, tokens, chosen):
    return F.cross_entropy(logits[chosen], tokens[chosen], label_smoothing=0.1)


def loss_of_the_first_sentence(logits, tokens, chosen):
    return mlm_loss(logits[:1], tokens[:1], chosen[:1])


def loss_of_the_worst_word(logits, tokens, chosen):
    return F.cross_entropy(logits[chosen], tokens[chosen], reduction="none").max()


def loss_in_bits_of_all_places(logits, tokens, chosen):
    return F.cross_entropy(logits.mT, tokens) / math.log(2)


def loss_by_a_sum_of_logarithms(logits, tokens, chosen):
    return -logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0][chosen].sum()


def input_with_the_sentences_exchanged(first, second, begin, separate):
    return segment_input(first if second is None else second, second if second is None else first, begin, separate)


def input_with_the_marks_exchanged(first, second, begin, separate):
    return segment_input(first, second, separate, begin)


def input_with_two_separators_between(first, second, begin, separate):
    if second is None:
        return segment_input(first, second, begin, separate)
    return segment_input(torch.cat([first, first.new_tensor([separate])]), second, begin, separate)


def input_in_floats(first, second, begin, separate):
    return tuple(part.float() for part in segment_input(first, second, begin, separate))


def input_of_one_segment_by_multiplying(first, second, begin, separate):
    tokens, segments = segment_input(first, second, begin, separate)
    return tokens, segments * 0


def input_open_and_from_one(first, second, begin, separate):
    tokens, segments = segment_input(first, second, begin, separate)
    return tokens[:-1], segments[:-1] + 1


def pairs_with_one_stranger_for_all(document, coins, picks):
    return nsp_pairs(document, coins, picks[:1].expand_as(picks))


def pairs_with_the_next_stranger(document, coins, picks):
    first, second, follows = nsp_pairs(document, coins, picks)
    return first, torch.where(follows, second, (second + 1) % len(document)), follows


def pairs_two_apart(document, coins, picks):
    first, second, follows = nsp_pairs(document, coins, picks)
    return first, torch.where(follows, (second + 1) % len(document), second), follows


def pairs_by_a_coin_the_other_way(document, coins, picks):
    return nsp_pairs(document, 1 - coins, picks)


def pairs_turned_round_twice(document, coins, picks):
    first, second, follows = nsp_pairs(document, torch.where(coins < 0.5, 0.75, 0.25), picks)
    return first, second, ~follows


def head_of_the_second_token(states, W_p, b_p, W, b):
    return classification_head(states.roll(-1, 1), W_p, b_p, W, b)


def head_with_a_sigmoid(states, W_p, b_p, W, b):
    return (states[:, 0] @ W_p.mT + b_p).sigmoid() @ W.mT + b


def head_of_a_sum(states, W_p, b_p, W, b):
    return classification_head(states.sum(1, keepdim=True), W_p, b_p, W, b)


def head_without_biases_by_zeros(states, W_p, b_p, W, b):
    return classification_head(states, W_p, 0 * b_p, W, 0 * b)


def head_averaged_without_tanh(states, W_p, b_p, W, b):
    return (states.mean(1) @ W_p.mT + b_p) @ W.mT + b


def statistics_in_bits(weights, delimiters, lengths):
    found = head_statistics(weights, delimiters, lengths)
    return found._replace(entropy=found.entropy / math.log(2))


def statistics_of_the_next_but_one(weights, delimiters, lengths):
    found = head_statistics(weights, delimiters, lengths)
    return found._replace(following=head_statistics(weights.roll(-1, -1), delimiters, lengths).following)


def statistics_of_all_heads_together(weights, delimiters, lengths):
    found = head_statistics(weights, delimiters, lengths)
    return tuple(part.mean().expand_as(part) for part in found)


def statistics_of_the_favourite(weights, delimiters, lengths):
    hard = F.one_hot(weights.argmax(-1), weights.shape[-1]).to(weights.dtype)
    return head_statistics(hard, delimiters, lengths)._replace(entropy=head_statistics(weights, delimiters, lengths).entropy)


def statistics_with_keys_and_queries_exchanged_in_pairs(weights, delimiters, lengths):
    found = head_statistics(weights, delimiters, lengths)
    return found.following, found.current, found.previous, found.delimiters, found.entropy


def statistics_exchanged_and_padded(weights, delimiters, lengths):
    found = head_statistics(weights, delimiters, torch.full_like(lengths, weights.shape[-1]))
    return found._replace(previous=found.following, following=found.previous)


STRANGERS = {
    "08.1": (
        mixture_upside_down,
        mixture_by_a_double_softmax,
        mixture_of_normed_layers,
        mixture_without_gradient_in_the_shares,
        mixture_that_adds_the_scale,
    ),
    "08.2": (masks_only_half_of_the_chosen, masks_by_rank, masks_and_turns_the_window_round),
    "08.3": (loss_with_smoothed_words, loss_of_the_first_sentence, loss_of_the_worst_word),
    "08.4": (
        input_with_the_sentences_exchanged,
        input_with_the_marks_exchanged,
        input_with_two_separators_between,
        input_in_floats,
    ),
    "08.5": (pairs_with_one_stranger_for_all, pairs_with_the_next_stranger, pairs_two_apart),
    "08.6": (head_of_the_second_token, head_with_a_sigmoid, head_of_a_sum),
    "08.7": (
        statistics_in_bits,
        statistics_of_the_next_but_one,
        statistics_of_all_heads_together,
        statistics_of_the_favourite,
    ),
}
"""Wrong in a way that nobody wrote down: refused, whatever is said."""

RELATIVES = (
    ("08.1", mixture_by_exp_over_the_sum, "averages_the_layers"),
    ("08.2", chosen_is_where_the_text_changed, "does_not_ask_for_the_words_that_stay"),
    ("08.3", loss_by_a_sum_of_logarithms, "adds_up"),
    ("08.4", input_of_one_segment_by_multiplying, "knows_one_segment_only"),
    ("08.6", head_without_biases_by_zeros, "forgets_the_biases"),
    ("08.7", statistics_with_keys_and_queries_exchanged_in_pairs, "exchanges_before_and_after"),
)
"""A mistake of the bank in other words."""

TWO_MISTAKES = (
    ("08.1", mixture_unscaled_by_sigmoids, {"takes_a_sigmoid", "forgets_gamma"}),
    ("08.2", masks_all_and_ignores_eligible, {"always_masks", "takes_out_special_tokens_too"}),
    ("08.3", loss_in_bits_of_all_places, {"measures_in_bits", "averages_over_all_places"}),
    ("08.4", input_open_and_from_one, {"leaves_the_end_open", "counts_segments_from_one"}),
    ("08.5", pairs_turned_round_twice, {"turns_the_coin_round", "names_the_false_pairs"}),
    ("08.6", head_averaged_without_tanh, {"averages_the_tokens", "forgets_the_tanh"}),
    ("08.7", statistics_exchanged_and_padded, {"exchanges_before_and_after", "counts_the_padding"}),
)
