"""Answers to the exercises of lecture 03 that are not in the bank: STRANGERS, RELATIVES and TWO_MISTAKES."""

import torch

from course_lib.attention import pool
from course_lib.losses import hard_attention_loss
from course_lib.models import CaptionStep, caption_step, compose_document, doubly_stochastic_penalty, soft_attention
from course_lib.primitives import lstm_step


def looks_at_the_opposite(regions, h, W_a, W_h, v):
    return soft_attention(regions, h, W_a, W_h, -v)


def looks_through_a_relu(regions, h, W_a, W_h, v):
    weights = ((regions @ W_a.mT + (h @ W_h.mT)[:, None]).relu() @ v).softmax(-1)
    return (weights[..., None] * regions).sum(1), weights


def looks_with_squared_weights(regions, h, W_a, W_h, v):
    weights = soft_attention(regions, h, W_a, W_h, v).weights.square()
    return (weights[..., None] * regions).sum(1), weights


def looks_through_a_scaled_sigmoid(regions, h, W_a, W_h, v):
    scores = (regions @ W_a.mT + (h @ W_h.mT)[:, None]).tanh() @ v / len(v) ** 0.5
    return (scores.sigmoid()[..., None] * regions).sum(1), scores.sigmoid()


def looks_without_asking(regions, h, W_a, W_h, v):
    return soft_attention(regions, torch.zeros_like(h), W_a, W_h, v)


def penalty_halved(weights):
    return doubly_stochastic_penalty(weights) / 2


def penalty_of_the_largest_look(weights):
    return (1 - weights.amax(1)).square().sum(-1).mean()


def penalty_of_the_root(weights):
    return (1 - weights.sum(1)).square().sum(-1).sqrt().mean()


def penalty_of_distances_over_the_batch(weights):
    return (1 - weights.sum(1)).abs().sum()


def pool_the_opposite(values, W, b, u, mask=None):
    return pool(values, W, b, -u, mask)


def pool_with_a_relu(values, W, b, u, mask=None):
    weights = (
        ((values @ W.mT + b).relu() @ u).masked_fill(~mask if mask is not None else torch.tensor(False), -1e30).softmax(-1)
    )
    return (weights[..., None] * values).sum(-2), weights


def pool_by_the_first_token(values, W, b, u, mask=None):
    context, weights = pool(values, W, b, u, mask)
    return context - context + values[..., 0, :], weights


def pool_without_mask_and_bias(values, W, b, u, mask=None):
    return pool(values, W, torch.zeros_like(b), u)


def document_of_doubled_words(states, mask, words, sentences):
    return compose_document(2 * states, mask, words, sentences)


def document_of_the_last_sentence(states, mask, words, sentences):
    _, of_sentences, of_words = compose_document(states, mask, words, sentences)
    return pool(states[:, -1], *words, mask[:, -1]).context, of_sentences, of_words


def document_without_gradient(states, mask, words, sentences):
    return compose_document(states.detach(), mask, words, sentences)


def document_with_one_query_and_no_mask_of_sentences(states, mask, words, sentences):
    of_sentences, of_words = pool(states, *words, mask)
    vector, weights = pool(of_sentences, *words)
    return vector, weights, of_words


def word_of_another_picture(y, h, c, regions, attention, gate, cell, readout):
    return caption_step(y, h, c, -regions, attention, gate, cell, readout)


def word_with_a_closed_gate(y, h, c, regions, attention, gate, cell, readout):
    return caption_step(y, h, c, regions, attention, (gate[0], gate[1] - 50), cell, readout)


def word_with_a_deep_tanh(y, h, c, regions, attention, gate, cell, readout):
    logits, *rest = caption_step(y, h, c, regions, attention, gate, cell, readout)
    return logits.tanh(), *rest


def word_without_gate_in_probabilities(y, h, c, regions, attention, gate, cell, readout):
    context, weights = soft_attention(regions, h, *attention)
    h, c = lstm_step(torch.cat([y, context], dim=-1), h, c, *cell)
    L_h, L_z, L = readout
    return CaptionStep(((y + h @ L_h.mT + context @ L_z.mT) @ L.mT).softmax(-1), h, c, weights)


def loss_of_squared_rewards(log_p, weights, looks, baseline, entropy_weight=0.0):
    log_looks = weights.gather(-1, looks[..., None]).log().sum((1, 2))
    return -(log_p + (log_p.detach() - baseline).square() * log_looks).mean()


def loss_of_a_doubled_baseline(log_p, weights, looks, baseline, entropy_weight=0.0):
    return hard_attention_loss(log_p, weights, looks, 2 * baseline, entropy_weight)


def loss_of_the_first_look(log_p, weights, looks, baseline, entropy_weight=0.0):
    return hard_attention_loss(log_p, weights[:, :1], looks[:, :1], baseline, entropy_weight)


def loss_that_climbs_without_baseline(log_p, weights, looks, baseline, entropy_weight=0.0):
    return -hard_attention_loss(log_p, weights, looks, 0.0, entropy_weight)


STRANGERS = {
    "03.1": (looks_at_the_opposite, looks_through_a_relu, looks_with_squared_weights),
    "03.2": (penalty_halved, penalty_of_the_largest_look, penalty_of_the_root),
    "03.3": (pool_the_opposite, pool_with_a_relu, pool_by_the_first_token),
    "03.4": (document_of_doubled_words, document_of_the_last_sentence, document_without_gradient),
    "03.5": (word_of_another_picture, word_with_a_closed_gate, word_with_a_deep_tanh),
    "03.6": (loss_of_squared_rewards, loss_of_a_doubled_baseline, loss_of_the_first_look),
}
RELATIVES = (("03.1", looks_without_asking, "keeps_the_state_apart"),)
TWO_MISTAKES = (
    ("03.1", looks_through_a_scaled_sigmoid, {"decides_region_by_region", "scales_like_a_dot_product"}),
    ("03.2", penalty_of_distances_over_the_batch, {"takes_the_distance", "sums_over_the_batch"}),
    ("03.3", pool_without_mask_and_bias, {"forgets_the_mask", "lets_the_bias_cancel"}),
    ("03.4", document_with_one_query_and_no_mask_of_sentences, {"asks_the_same_twice", "weighs_empty_sentences"}),
    ("03.5", word_without_gate_in_probabilities, {"forgets_the_gate", "speaks_in_probabilities"}),
    ("03.6", loss_that_climbs_without_baseline, {"climbs", "forgets_the_baseline"}),
)
