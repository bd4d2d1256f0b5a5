"""Answers to the exercises of lecture 14 that are not in the bank: STRANGERS, RELATIVES and TWO_MISTAKES."""

import torch
from torch.nn import functional as F

from course_lib.attention.linear import divide, mask_features
from course_lib.primitives import elu_feature_map, favor_features, orthogonalised


def map_with_another_alpha(x):
    return F.elu(x, alpha=0.5) + 1


def map_squared(x):
    return elu_feature_map(x).square()


def map_of_the_absolute_value(x):
    return elu_feature_map(x.abs())


def map_cut_off_above(x):
    return elu_feature_map(x.clamp(max=20.0))


def full_with_an_epsilon(phi_q, phi_k, v, mask=None):
    phi_k = mask_features(phi_k, mask)
    return phi_q @ (phi_k.mT @ v) / (phi_q @ phi_k.sum(-2)[..., None] + 0.1)


def full_mixing_the_keys(phi_q, phi_k, v, mask=None):
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k.mT @ phi_k) @ (phi_k.mT @ v), phi_q @ phi_k.sum(-2)[..., None])


def full_with_a_frozen_normaliser(phi_q, phi_k, v, mask=None):
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k.mT @ v), (phi_q @ phi_k.sum(-2)[..., None]).detach())


def full_with_the_mask_of_the_first_sentence(phi_q, phi_k, v, mask=None):
    if mask is not None and mask.dim() > 2:
        mask = mask[:1].expand_as(mask)
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k.mT @ v), phi_q @ phi_k.sum(-2)[..., None])


def causal_of_two_positions(phi_q, phi_k, v, mask=None):
    similarity = (phi_q @ mask_features(phi_k, mask).mT).tril().triu(-1)
    return divide(similarity @ v, similarity.sum(-1, keepdim=True))


def causal_with_a_decay(phi_q, phi_k, v, mask=None):
    apart = torch.arange(v.shape[-2])[:, None] - torch.arange(v.shape[-2])
    similarity = phi_q @ mask_features(phi_k, mask).mT * (0.99 ** apart.clamp(min=0) * (apart >= 0)).to(v.dtype)
    return divide(similarity @ v, similarity.sum(-1, keepdim=True))


def causal_with_a_frozen_past(phi_q, phi_k, v, mask=None):
    similarity = (phi_q @ mask_features(phi_k, mask).mT).tril()
    past = similarity.tril(-1).detach() + similarity - similarity.tril(-1)
    return divide(past @ v, similarity.sum(-1, keepdim=True))


def causal_that_gives_silent_positions_their_value(phi_q, phi_k, v, mask=None):
    similarity = (phi_q @ mask_features(phi_k, mask).mT).tril()
    n = similarity.sum(-1, keepdim=True)
    return torch.where(n == 0, v, divide(similarity @ v, n))


def step_with_a_mean(S, z, phi_q, phi_k, v):
    S, z = (S + phi_k[..., :, None] * v[..., None, :]) / 2, (z + phi_k) / 2
    return divide((phi_q[..., None, :] @ S)[..., 0, :], (phi_q * z).sum(-1, keepdim=True)), S, z


def step_that_cuts_the_past_off(S, z, phi_q, phi_k, v):
    S, z = S.detach() + phi_k[..., :, None] * v[..., None, :], z.detach() + phi_k
    return divide((phi_q[..., None, :] @ S)[..., 0, :], (phi_q * z).sum(-1, keepdim=True)), S, z


def step_with_an_epsilon(S, z, phi_q, phi_k, v):
    S, z = S + phi_k[..., :, None] * v[..., None, :], z + phi_k
    return (phi_q[..., None, :] @ S)[..., 0, :] / ((phi_q * z).sum(-1, keepdim=True) + 0.01), S, z


def step_that_writes_twice(S, z, phi_q, phi_k, v):
    S, z = S + 2 * phi_k[..., :, None] * v[..., None, :], z + 2 * phi_k
    return divide((phi_q[..., None, :] @ S)[..., 0, :], (phi_q * z).sum(-1, keepdim=True)), S, z


def favor_with_an_epsilon(x, omega):
    return favor_features(x, omega) + 1e-2


def favor_over_the_root_of_d(x, omega):
    return favor_features(x, omega) * (omega.shape[0] / omega.shape[1]) ** 0.5


def favor_with_a_frozen_norm(x, omega):
    return (x @ omega.mT - x.detach().square().sum(-1, keepdim=True) / 2).exp() / len(omega) ** 0.5


def favor_of_unit_directions(x, omega):
    return favor_features(x, F.normalize(omega, dim=1) * omega.shape[1] ** 0.5)


def turned_from_the_last_row_on(omega):
    return torch.cat([orthogonalised(rows.flip(0)).flip(0) for rows in omega.split(omega.shape[1])])


def turned_with_sorted_lengths(omega):
    lengths = omega.norm(dim=1, keepdim=True)
    return orthogonalised(omega) / lengths * lengths.sort(dim=0).values


def turned_in_half_blocks(omega):
    return torch.cat([orthogonalised(rows) for rows in omega.split(max(1, omega.shape[1] // 2))])


def turned_with_the_first_row_reversed(omega):
    turned = orthogonalised(omega).clone()
    turned[0] *= -1
    return turned


STRANGERS = {
    "14.1": (map_with_another_alpha, map_squared, map_of_the_absolute_value, map_cut_off_above),
    "14.2": (
        full_with_an_epsilon,
        full_mixing_the_keys,
        full_with_a_frozen_normaliser,
        full_with_the_mask_of_the_first_sentence,
    ),
    "14.3": (
        causal_of_two_positions,
        causal_with_a_decay,
        causal_with_a_frozen_past,
        causal_that_gives_silent_positions_their_value,
    ),
    "14.4": (step_with_a_mean, step_that_cuts_the_past_off, step_with_an_epsilon, step_that_writes_twice),
    "14.5": (favor_with_an_epsilon, favor_over_the_root_of_d, favor_with_a_frozen_norm, favor_of_unit_directions),
    "14.6": (
        turned_from_the_last_row_on,
        turned_with_sorted_lengths,
        turned_in_half_blocks,
        turned_with_the_first_row_reversed,
    ),
}


def elu_by_hand_without_the_one(x):
    return torch.where(x > 0, x, torch.expm1(x.clamp(max=0.0)))


def full_by_einsum_without_the_normaliser(phi_q, phi_k, v, mask=None):
    return torch.einsum("...if,...jf,...jd->...id", phi_q, mask_features(phi_k, mask), v)


def causal_by_the_other_triangle(phi_q, phi_k, v, mask=None):
    similarity = (phi_q @ mask_features(phi_k, mask).mT).triu()
    return divide(similarity @ v, similarity.sum(-1, keepdim=True))


def step_by_einsum_on_the_old_state(S, z, phi_q, phi_k, v):
    read, n = torch.einsum("...f,...fd->...d", phi_q, S), torch.einsum("...f,...f->...", phi_q, z)[..., None]
    return divide(read, n), S + torch.einsum("...f,...d->...fd", phi_k, v), z + phi_k


def favor_in_a_loop_without_the_half(x, omega):
    return torch.stack([((x * w).sum(-1) - (x * x).sum(-1)).exp() for w in omega], dim=-1) * len(omega) ** -0.5


def rows_of_length_one_in_loops(omega):
    done = []
    for i, row in enumerate(omega):
        for above in done[i - i % omega.shape[1] :]:
            row = row - (row @ above) * above
        done.append(row / row.norm())
    return torch.stack(done)


RELATIVES = (
    ("14.1", elu_by_hand_without_the_one, "forgets_the_one"),
    ("14.2", full_by_einsum_without_the_normaliser, "forgets_the_normaliser"),
    ("14.3", causal_by_the_other_triangle, "sums_from_the_end"),
    ("14.4", step_by_einsum_on_the_old_state, "reads_before_it_writes"),
    ("14.5", favor_in_a_loop_without_the_half, "forgets_the_half"),
    ("14.6", rows_of_length_one_in_loops, "gives_every_row_length_one"),
)


def feature_map(x):
    return F.elu(-x)


def full(phi_q, phi_k, v, mask=None):
    return phi_q @ (phi_k.mT @ v)


def causal(phi_q, phi_k, v, mask=None):
    return phi_q @ (phi_k.mT @ v)


def step(S, z, phi_q, phi_k, v):
    return (phi_q[..., None, :] @ S)[..., 0, :], S + phi_k[..., :, None] * v[..., None, :], z + phi_k


def favor(x, omega):
    return (x @ omega.mT).exp() / len(omega)


def turned(omega):
    return torch.cat([torch.linalg.qr(rows.mT).Q.mT for rows in omega.split(omega.shape[1])])


TWO_MISTAKES = (
    ("14.1", feature_map, {"turns_the_sign", "forgets_the_one"}),
    ("14.2", full, {"forgets_the_normaliser", "ignores_the_mask"}),
    ("14.3", causal, {"looks_at_the_future", "forgets_the_normaliser"}),
    ("14.4", step, {"reads_before_it_writes", "forgets_to_divide"}),
    ("14.5", favor, {"forgets_the_norm", "divides_by_m"}),
    ("14.6", turned, {"gives_every_row_length_one", "takes_the_signs_of_qr"}),
)
