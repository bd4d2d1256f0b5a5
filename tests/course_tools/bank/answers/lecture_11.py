"""Answers to the exercises of lecture 11 that are not in the bank: STRANGERS, RELATIVES and TWO_MISTAKES."""

import torch
import torch.nn.functional as F
from einops import rearrange

from course_lib.analysis import rollout
from course_lib.losses import distillation_loss
from course_lib.metrics import fine_tuned_head
from course_lib.primitives import embed_patches, interpolate_positions, patchify


def patches_mirrored(images, P):
    return patchify(images.flip(-1), P)


def patches_of_the_image_upside_down(images, P):
    return patchify(images, P).flip(1)


def patches_less_their_mean(images, P):
    patches = patchify(images, P)
    return patches - patches.mean(-1, keepdim=True)


def patches_with_the_colours_turned(images, P):
    return patchify(images.roll(1, dims=1), P)


def patches_by_a_view_of_the_memory(images, P):
    _, C, H, W = images.shape
    return torch.stack([image.flatten().view(H * W // P**2, C * P**2) for image in images])


def patches_downwards_with_channels_last(images, P):
    return rearrange(images, "B C (r P_1) (c P_2) -> B (c r) (P_1 P_2 C)", P_1=P, P_2=P)


def tokens_of_the_reversed_patches(patches, E, b, learned, positions):
    return embed_patches(patches.flip(1), E, b, learned, positions)


def tokens_less_their_places(patches, E, b, learned, positions):
    return embed_patches(patches, E, b, learned, -positions)


def tokens_normed(patches, E, b, learned, positions):
    tokens = embed_patches(patches, E, b, learned, positions)
    return F.layer_norm(tokens, tokens.shape[-1:])


def tokens_without_learned_gradient(patches, E, b, learned, positions):
    return embed_patches(patches, E, b, learned.detach(), positions)


def tokens_by_a_zero_bias(patches, E, b, learned, positions):
    return embed_patches(patches, E, 0 * b, learned, positions)


def tokens_nowhere_and_without_bias(patches, E, b, learned, positions):
    return torch.cat([learned.expand(len(patches), -1, -1), patches @ E.mT], dim=1)


def places_of_the_nearest(positions, H, W, H_new, W_new):
    n = len(positions) - H * W
    grid = rearrange(positions[n:], "(H W) d -> 1 d H W", H=H)
    resized = F.interpolate(grid, (H_new, W_new), mode="nearest")
    return torch.cat([positions[:n], rearrange(resized, "1 d H W -> (H W) d")])


def places_scaled(positions, H, W, H_new, W_new):
    return interpolate_positions(positions, H, W, H_new, W_new) * (H * W / (H_new * W_new))


def places_upside_down(positions, H, W, H_new, W_new):
    n = len(positions) - H * W
    grid = rearrange(positions[n:], "(H W) d -> H W d", H=H).flip(0)
    return interpolate_positions(torch.cat([positions[:n], grid.flatten(0, 1)]), H, W, H_new, W_new)


def places_linear_by_two_steps(positions, H, W, H_new, W_new):
    n = len(positions) - H * W
    grid = rearrange(positions[n:], "(H W) d -> 1 d H W", H=H)
    rows = F.interpolate(grid, (H_new, W), mode="bilinear", align_corners=False)
    resized = F.interpolate(rows, (H_new, W_new), mode="bilinear", align_corners=False)
    return torch.cat([positions[:n], rearrange(resized, "1 d H W -> (H W) d")])


def places_linear_and_without_the_class(positions, H, W, H_new, W_new):
    return places_linear_by_two_steps(positions, H, W, H_new, W_new)[len(positions) - H * W :]


def lesson_of_the_middle(student, teacher, labels, temperature, share):
    """Jensen and Shannon's divergence."""
    p, q = (teacher.detach() / temperature).softmax(-1), (student / temperature).softmax(-1)
    m = (p + q) / 2
    soft = ((p * (p.log() - m.log())).sum(-1) + (q * (q.log() - m.log())).sum(-1)).mean() / 2
    return (1 - share) * F.cross_entropy(student, labels) + share * temperature**2 * soft


def lesson_in_squares(student, teacher, labels, temperature, share):
    return (1 - share) * F.cross_entropy(student, labels) + share * F.mse_loss(student, teacher.detach())


def lesson_with_temperature_once(student, teacher, labels, temperature, share):
    labels_alone = distillation_loss(student, teacher, labels, temperature, 0.0)
    teacher_alone = distillation_loss(student, teacher, labels, temperature, 1.0)
    return (1 - share) * labels_alone + share * teacher_alone / temperature


def lesson_shared_the_other_way(student, teacher, labels, temperature, share):
    both = [distillation_loss(student, teacher, labels, temperature, s) for s in (0.0, 1.0)]
    return share * both[0] + (1 - share) * both[1]


def lesson_without_the_square_and_in_full(student, teacher, labels, temperature, share):
    soft = distillation_loss(student, teacher, labels, temperature, 1.0) / temperature**2
    return F.cross_entropy(student, labels) + share * soft


def head_with_decay(features, labels, n_classes, learning_rate, momentum, n_steps):
    W, b = fine_tuned_head(features, labels, n_classes, learning_rate, momentum, n_steps)
    return W * (1 - 0.1 * learning_rate) ** n_steps, b


def head_of_one_more_step(features, labels, n_classes, learning_rate, momentum, n_steps):
    return fine_tuned_head(features, labels, n_classes, learning_rate, momentum, n_steps + 1)


def head_of_centred_features(features, labels, n_classes, learning_rate, momentum, n_steps):
    return fine_tuned_head(features - features.mean(0), labels, n_classes, learning_rate, momentum, n_steps)


def head_at_no_momentum(features, labels, n_classes, learning_rate, momentum, n_steps):
    return fine_tuned_head(features, labels, n_classes, learning_rate, 0.0 * momentum, n_steps)


def head_without_momentum_and_bias(features, labels, n_classes, learning_rate, momentum, n_steps):
    W = features.new_zeros(n_classes, features.shape[1])
    for _ in range(n_steps):
        error = (features @ W.mT).softmax(-1) - F.one_hot(labels, n_classes)
        W = W - learning_rate * error.mT @ features / len(features)
    return W, W.new_zeros(n_classes)


def flow_of_the_first_head(weights):
    return rollout(weights[..., :1, :, :])


def flow_back_to_the_second_layer(weights):
    return rollout(weights[1:])


def flow_of_a_weaker_residual(weights):
    eye = torch.eye(weights.shape[-1])
    drawn = eye.expand(*weights.shape[1:-3], *eye.shape)
    for layer in weights.mean(-3):
        drawn = (0.9 * layer + 0.1 * eye) @ drawn
    return drawn


def flow_from_the_other_end(weights):
    return rollout(weights.flip(0))


def flow_without_residual_of_added_heads(weights):
    drawn = torch.eye(weights.shape[-1]).expand(*weights.shape[1:-3], *weights.shape[-2:])
    for layer in weights.sum(-3):
        drawn = layer @ drawn
    return drawn


STRANGERS = {
    "11.1": (
        patches_mirrored,
        patches_of_the_image_upside_down,
        patches_less_their_mean,
        patches_with_the_colours_turned,
    ),
    "11.2": (
        tokens_of_the_reversed_patches,
        tokens_less_their_places,
        tokens_normed,
        tokens_without_learned_gradient,
    ),
    "11.3": (flow_of_the_first_head, flow_back_to_the_second_layer, flow_of_a_weaker_residual),
    "11.4": (places_of_the_nearest, places_scaled, places_upside_down),
    "11.5": (lesson_of_the_middle, lesson_in_squares, lesson_with_temperature_once),
    "11.6": (head_with_decay, head_of_one_more_step, head_of_centred_features),
}
"""Wrong in a way that nobody wrote down: refused, whatever is said."""

RELATIVES = (
    ("11.1", patches_by_a_view_of_the_memory, "cuts_the_memory"),
    ("11.2", tokens_by_a_zero_bias, "forgets_the_bias"),
    ("11.3", flow_from_the_other_end, "multiplies_from_the_right"),
    ("11.4", places_linear_by_two_steps, "interpolates_linearly"),
    ("11.5", lesson_shared_the_other_way, "exchanges_the_shares"),
    ("11.6", head_at_no_momentum, "forgets_the_momentum"),
)
"""A mistake of the bank in other words."""

TWO_MISTAKES = (
    ("11.1", patches_downwards_with_channels_last, {"counts_the_patches_downwards", "puts_the_channels_last"}),
    ("11.2", tokens_nowhere_and_without_bias, {"forgets_the_positions", "forgets_the_bias"}),
    ("11.3", flow_without_residual_of_added_heads, {"forgets_the_residual", "adds_up_the_heads"}),
    ("11.4", places_linear_and_without_the_class, {"interpolates_linearly", "drops_the_learned"}),
    ("11.5", lesson_without_the_square_and_in_full, {"forgets_the_squared_temperature", "keeps_the_labels_in_full"}),
    ("11.6", head_without_momentum_and_bias, {"forgets_the_momentum", "leaves_the_bias_at_zero"}),
)
