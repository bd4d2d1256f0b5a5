"""Answers to the exercises of lecture 16 that are not in the bank, as in lecture_01.py, and those with two of its mistakes."""

import torch
from torch.nn import functional as F

from course_lib.datasets import warp
from course_lib.losses import byol_loss, nt_xent
from course_lib.metrics import linear_probe, spectrum
from course_lib.primitives import unit


def warp_takes_the_nearest_pixel(images, A, t):
    half = images.new_tensor([images.shape[-1], images.shape[-2]]) / 2
    back = torch.linalg.inv(A)
    theta = torch.cat([back * half, -back @ t[..., None]], dim=-1) / half[:, None]
    grid = F.affine_grid(theta, images.shape, align_corners=False)
    return F.grid_sample(images, grid, mode="nearest", align_corners=False)


def warp_turns_about_a_corner(images, A, t):
    corner = t.new_tensor([images.shape[-1], images.shape[-2]]) / 2
    return warp(images, A, t + (A @ corner) - corner)


def warp_rounds_the_shift(images, A, t):
    return warp(images, A, t.round())


def warp_detaches_the_matrix(images, A, t):
    return warp(images, A.detach(), t.detach())


def nt_xent_learns_from_one_side(a, b, temperature):
    return nt_xent(a, b.detach(), temperature)


def nt_xent_shifts_the_partners(a, b, temperature):
    return nt_xent(a, b.roll(1, 0), temperature)


def nt_xent_takes_the_median(a, b, temperature):
    z = unit(torch.cat([a, b]))
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z)).roll(len(a)), reduction="none").median()


def nt_xent_takes_distances(a, b, temperature):
    z = unit(torch.cat([a, b]))
    logits = (-torch.cdist(z, z) / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z)).roll(len(a)))


def probe_halves_the_penalty(features, labels, n_classes, penalty):
    return linear_probe(features, labels, n_classes, penalty / 2)


def probe_exchanges_weight_and_bias(features, labels, n_classes, penalty):
    weight, bias = linear_probe(features, labels, n_classes, penalty)
    return bias, weight


def probe_turns_the_labels_round(features, labels, n_classes, penalty):
    return linear_probe(features, n_classes - 1 - labels, n_classes, penalty)


def probe_centres_in_place(features, labels, n_classes, penalty):
    features -= features.mean(0)
    return linear_probe(features, labels, n_classes, penalty)


def byol_takes_the_worst_row(prediction, target):
    return (2 - 2 * (unit(prediction) * unit(target.detach())).sum(-1)).amax()


def byol_forgets_the_sign(prediction, target):
    return (2 + 2 * (unit(prediction) * unit(target.detach())).sum(-1)).mean()


def byol_shifts_the_rows(prediction, target):
    return byol_loss(prediction, target.roll(1, 0))


def byol_learns_nothing(prediction, target):
    return byol_loss(prediction.detach(), target)


def ema_averages_geometrically(target, online, decay):
    return [xi.abs() ** decay * theta.abs() ** (1 - decay) for xi, theta in zip(target, online, strict=True)]


def ema_squares_the_decay(target, online, decay):
    return [torch.lerp(xi, theta, 1 - decay**2) for xi, theta in zip(target, online, strict=True)]


def ema_moves_the_first_weight_only(target, online, decay):
    moved = torch.lerp(target[0], online[0], 1 - decay)
    return [moved, *(xi.clone() for xi in target[1:])]


def spectrum_of_a_covariance_with_signs(embeddings):
    return -spectrum(embeddings)


def spectrum_leaves_out_the_last(embeddings):
    return spectrum(embeddings)[:-1]


def spectrum_centres_by_the_median(embeddings):
    directions = F.normalize(embeddings, dim=-1)
    return torch.linalg.svdvals(directions - directions.median(0).values) / len(embeddings) ** 0.5


def spectrum_in_place(embeddings):
    embeddings /= embeddings.norm(dim=-1, keepdim=True)
    return spectrum(embeddings)


def warp_by_a_grid_that_pushes(images, A, t):
    H, W = images.shape[-2:]
    half = images.new_tensor([W, H]) / 2
    y, x = torch.meshgrid(torch.arange(H) - (H - 1) / 2, torch.arange(W) - (W - 1) / 2, indexing="ij")
    places = torch.stack([x, y], -1).flatten(0, 1)
    moved = torch.einsum("bij,pj->bpi", A, places) + t[:, None]
    return F.grid_sample(images, (moved / half).unflatten(1, (H, W)), align_corners=False)


def nt_xent_as_clip_by_hand(a, b, temperature):
    similarity = torch.einsum("id,jd->ij", F.normalize(a, dim=1), F.normalize(b, dim=1)) / temperature
    right = similarity.diagonal()
    return (similarity.logsumexp(1) - right + similarity.logsumexp(0) - right).mean() / 2


def probe_by_the_pseudoinverse(features, labels, n_classes, penalty):
    y = torch.eye(n_classes)[labels]
    x = features - features.mean(0)
    W = (torch.linalg.pinv(x, rtol=1e-4) @ (y - y.mean(0))).T
    return W, y.mean(0) - W @ features.mean(0)


def byol_by_the_library_cosine(prediction, target):
    return (1 - F.cosine_similarity(prediction, target.detach())).mean()


def ema_by_lerp_the_other_way(target, online, decay):
    return [torch.lerp(xi, theta, decay) for xi, theta in zip(target, online, strict=True)]


def spectrum_by_the_svd_of_the_rows(embeddings):
    rows = embeddings / embeddings.norm(dim=-1, keepdim=True)
    return torch.linalg.svd(rows - rows.mean(dim=0, keepdim=True), full_matrices=False).S


def warp_twice_wrong(images, A, t):
    half = images.new_tensor([images.shape[2], images.shape[3]]) / 2
    theta = torch.cat([A * half, t[:, :, None]], dim=-1) / half[:, None]
    return F.grid_sample(images, F.affine_grid(theta, images.shape, align_corners=False), align_corners=False)


def nt_xent_twice_wrong(a, b, temperature):
    z = torch.cat([a, b])
    return F.cross_entropy(z @ z.mT / temperature, torch.arange(len(z)).roll(len(a)))


def probe_twice_wrong(features, labels, n_classes, penalty):
    y = 2 * F.one_hot(labels, n_classes).float() - 1
    x = features
    W = torch.linalg.solve(x.mT @ x + penalty * torch.eye(x.shape[1]), x.mT @ y).mT
    return W, torch.zeros(n_classes)


def byol_twice_wrong(prediction, target):
    return (prediction - target).square().sum(-1).mean()


def ema_twice_wrong(target, online, decay):
    return [(1 - decay) * xi + theta for xi, theta in zip(target, online, strict=True)]


def spectrum_twice_wrong(embeddings):
    return torch.linalg.svdvals(embeddings)


STRANGERS = {
    "16.1": (warp_takes_the_nearest_pixel, warp_turns_about_a_corner, warp_rounds_the_shift, warp_detaches_the_matrix),
    "16.2": (
        nt_xent_learns_from_one_side,
        nt_xent_shifts_the_partners,
        nt_xent_takes_the_median,
        nt_xent_takes_distances,
    ),
    "16.3": (
        probe_halves_the_penalty,
        probe_exchanges_weight_and_bias,
        probe_turns_the_labels_round,
        probe_centres_in_place,
    ),
    "16.4": (byol_takes_the_worst_row, byol_forgets_the_sign, byol_shifts_the_rows, byol_learns_nothing),
    "16.5": (ema_averages_geometrically, ema_squares_the_decay, ema_moves_the_first_weight_only),
    "16.6": (
        spectrum_of_a_covariance_with_signs,
        spectrum_leaves_out_the_last,
        spectrum_centres_by_the_median,
        spectrum_in_place,
    ),
}
RELATIVES = (
    ("16.1", warp_by_a_grid_that_pushes, "pushes_instead_of_pulling"),
    ("16.2", nt_xent_as_clip_by_hand, "looks_across_only"),
    ("16.3", probe_by_the_pseudoinverse, "ignores_the_penalty"),
    ("16.4", byol_by_the_library_cosine, "counts_the_cosine_once"),
    ("16.5", ema_by_lerp_the_other_way, "exchanges_the_two"),
    ("16.6", spectrum_by_the_svd_of_the_rows, "forgets_the_number_of_embeddings"),
)
TWO_MISTAKES = (
    ("16.1", warp_twice_wrong, {"pushes_instead_of_pulling", "exchanges_width_and_height"}),
    ("16.2", nt_xent_twice_wrong, {"compares_without_lengths", "competes_with_itself"}),
    ("16.3", probe_twice_wrong, {"aims_at_plus_and_minus_one", "has_no_bias"}),
    ("16.4", byol_twice_wrong, {"compares_without_lengths", "lets_the_target_move"}),
    ("16.5", ema_twice_wrong, {"adds_the_whole_online_weight", "exchanges_the_two"}),
    ("16.6", spectrum_twice_wrong, {"keeps_the_lengths", "forgets_the_number_of_embeddings"}),
)
