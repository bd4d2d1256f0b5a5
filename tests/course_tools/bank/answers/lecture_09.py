"""Answers to the exercises of lecture 09 that are not in the bank: STRANGERS, RELATIVES and TWO_MISTAKES."""

import math

import torch

from course_lib.analysis import Arrows, strongest_arrows
from course_lib.attention import (
    Attended,
    associative_dot_product,
    attend,
    co_occurrent_features,
    non_local_block,
    non_local_concatenation,
    non_local_embedded_gaussian,
)


def gaussian_of_distances(x, W_theta, W_phi, W_g):
    return attend(-(torch.cdist(x @ W_theta.mT, x @ W_phi.mT) ** 2), x @ W_g.mT)


def gaussian_that_skips_itself(x, W_theta, W_phi, W_g):
    alone = torch.eye(x.shape[-2], dtype=torch.bool)
    return attend((x @ W_theta.mT @ (x @ W_phi.mT).mT).masked_fill(alone, -1e9), x @ W_g.mT)


def gaussian_without_gradient_of_the_weights(x, W_theta, W_phi, W_g):
    weights = non_local_embedded_gaussian(x, W_theta, W_phi, W_g).weights.detach()
    return Attended(weights @ x @ W_g.mT, weights)


def gaussian_by_a_later_scale(x, W_theta, W_phi, W_g):
    return non_local_embedded_gaussian(x, W_theta / math.sqrt(len(W_theta)), W_phi, W_g)


def gaussian_scaled_and_exchanged(x, W_theta, W_phi, W_g):
    return non_local_embedded_gaussian(x, W_phi / math.sqrt(len(W_theta)), W_theta, W_g)


def product_of_centred_keys(theta, phi, g):
    return associative_dot_product(theta, phi - phi.mean(-2, keepdim=True), g)


def product_of_the_sizes(theta, phi, g):
    return Attended(associative_dot_product(theta, phi, g).context.abs(), None)


def product_with_one_key_less(theta, phi, g):
    return Attended(theta @ (phi.mT @ g) / max(1, phi.shape[-2] - 1), None)


def product_row_by_row_of_weights(theta, phi, g):
    return Attended(torch.einsum("...qn,...nd->...qd", torch.einsum("...qk,...nk->...qn", theta, phi), g) / phi.shape[-2], None)


def product_over_width_of_positives(theta, phi, g):
    return Attended(theta.relu() @ (phi.relu().mT @ g) / phi.shape[-1], None)


def pairs_bent_smoothly(theta, phi, g, w_f):
    a, b = w_f.chunk(2)
    weights = torch.nn.functional.softplus((theta @ a).unsqueeze(-1) + (phi @ b).unsqueeze(-2)) / phi.shape[-2]
    return Attended(weights @ g, weights)


def pairs_by_differences(theta, phi, g, w_f):
    a, b = w_f.chunk(2)
    return non_local_concatenation(theta, phi, g, torch.cat([a, -b]))


def pairs_with_squares(theta, phi, g, w_f):
    weights = non_local_concatenation(theta, phi, g, w_f).weights ** 2
    return Attended(weights @ g, weights)


def pairs_by_a_rolled_vector(theta, phi, g, w_f):
    return non_local_concatenation(theta, phi, g, w_f.roll(len(w_f) // 2))


def pairs_exchanged_and_not_divided(theta, phi, g, w_f):
    weights = non_local_concatenation(theta, phi, g, w_f.roll(len(w_f) // 2)).weights * phi.shape[-2]
    return Attended(weights @ g, weights)


def block_that_subtracts(x, W_theta, W_phi, W_g, W_z):
    return non_local_block(x, W_theta, W_phi, W_g, -W_z)


def block_of_twice_the_input(x, W_theta, W_phi, W_g, W_z):
    return x + non_local_block(x, W_theta, W_phi, W_g, W_z)


def block_upside_down(x, W_theta, W_phi, W_g, W_z):
    return x + (non_local_block(x, W_theta, W_phi, W_g, W_z) - x).flip(-1)


def block_with_a_smaller_query(x, W_theta, W_phi, W_g, W_z):
    return non_local_block(x, W_theta / math.sqrt(len(W_phi)), W_phi, W_g, W_z)


def block_scaled_and_cut_off(x, W_theta, W_phi, W_g, W_z):
    return non_local_block(x, W_theta / math.sqrt(len(W_phi)), W_phi, W_g, W_z).relu()


def arrows_from_the_other_corner(weights, n_arrows, H, W):
    return strongest_arrows(weights.flip(-1), n_arrows, H, W)


def arrows_of_squares(weights, n_arrows, H, W):
    ends, strongest = strongest_arrows(weights, n_arrows, H, W)
    return Arrows(ends, strongest**2)


def arrows_of_the_second_picture_onwards(weights, n_arrows, H, W):
    ends, strongest = strongest_arrows(weights, n_arrows, H, W)
    return Arrows(ends + torch.tensor([1, 0, 0]), strongest)


def arrows_as_x_and_y(weights, n_arrows, H, W):
    strongest, place = torch.topk(weights, n_arrows)
    time, row, column = torch.unravel_index(place, (weights.shape[-1] // (H * W), H, W))
    return Arrows(torch.stack([time, column, row], dim=-1), strongest)


def arrows_reversed_and_from_one(weights, n_arrows, H, W):
    ends, strongest = strongest_arrows(weights, n_arrows, H, W)
    return Arrows(ends.flip(-2) + 1, strongest.flip(-1))


def features_of_another_share(x, W_k, W_v, W_pi):
    return co_occurrent_features(x, W_k, W_v, W_pi.flip(0))


def features_with_cosines(x, W_k, W_v, W_pi):
    z = torch.nn.functional.normalize(x @ W_k.mT, dim=-1)
    weights = (z @ z.mT).softmax(-1)
    return Attended(weights @ x @ W_v.mT, weights)


def features_with_sharper_shares(x, W_k, W_v, W_pi):
    return co_occurrent_features(x, W_k, W_v, 2 * W_pi)


def features_without_a_choice(x, W_k, W_v, W_pi):
    return co_occurrent_features(x, W_k, W_v, 0 * W_pi)


def features_unscaled_in_equal_parts(x, W_k, W_v, W_pi):
    return co_occurrent_features(x, W_k * len(W_k) ** 0.25, W_v, 0 * W_pi)


STRANGERS = {
    "09.1": (gaussian_of_distances, gaussian_that_skips_itself, gaussian_without_gradient_of_the_weights),
    "09.2": (product_of_centred_keys, product_of_the_sizes, product_with_one_key_less),
    "09.3": (pairs_bent_smoothly, pairs_by_differences, pairs_with_squares),
    "09.4": (block_that_subtracts, block_of_twice_the_input, block_upside_down),
    "09.5": (arrows_from_the_other_corner, arrows_of_squares, arrows_of_the_second_picture_onwards),
    "09.6": (features_of_another_share, features_with_cosines, features_with_sharper_shares),
}
"""Wrong in a way that nobody wrote down: refused, whatever is said."""

RELATIVES = (
    ("09.1", gaussian_by_a_later_scale, "divides_by_the_root"),
    ("09.2", product_row_by_row_of_weights, "multiplies_from_the_left"),
    ("09.3", pairs_by_a_rolled_vector, "exchanges_the_halves"),
    ("09.4", block_with_a_smaller_query, "scales_the_scores"),
    ("09.5", arrows_as_x_and_y, "exchanges_row_and_column"),
    ("09.6", features_without_a_choice, "mixes_in_equal_parts"),
)
"""A mistake of the bank in other words."""

TWO_MISTAKES = (
    ("09.1", gaussian_scaled_and_exchanged, {"divides_by_the_root", "exchanges_theta_and_phi"}),
    ("09.2", product_over_width_of_positives, {"makes_them_positive", "divides_by_the_width"}),
    ("09.3", pairs_exchanged_and_not_divided, {"exchanges_the_halves", "forgets_to_divide"}),
    ("09.4", block_scaled_and_cut_off, {"scales_the_scores", "cuts_off_below_zero"}),
    ("09.5", arrows_reversed_and_from_one, {"ends_with_the_strongest", "counts_from_one"}),
    ("09.6", features_unscaled_in_equal_parts, {"forgets_the_scale", "mixes_in_equal_parts"}),
)
"""Answers that make two mistakes of the bank at once: the exercise, the answer, the names of the two."""
