"""Answers to the exercises of lecture 15 that are not in the bank, as in lecture_01.py, and those with two of its mistakes."""

import torch
from torch.nn import functional as F

from course_lib.attention import (
    Attended,
    attend_edges,
    dynamic_edge_scores,
    edge_softmax,
    gat_edge_scores,
    merge_heads,
    split_heads,
)


def gat_takes_the_absolute_value(z, a, slope=0.2):
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return (z @ a_query + (z @ a_key).mT).abs()


def gat_subtracts_the_key(z, a, slope=0.2):
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return F.leaky_relu(z @ a_query - (z @ a_key).mT, slope)


def gat_scales_the_scores(z, a, slope=0.2):
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return F.leaky_relu((z @ a_query + (z @ a_key).mT) / z.shape[-1] ** 0.5, slope)


def gat_hides_the_diagonal(z, a, slope=0.2):
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    scores = F.leaky_relu(z @ a_query + (z @ a_key).mT, slope)
    return scores.masked_fill(torch.eye(z.shape[-2], dtype=torch.bool), 0.0)


def softmax_in_base_two(scores, edges, n_nodes):
    return edge_softmax(scores * 0.6931, edges, n_nodes)


def softmax_skips_the_loops(scores, edges, n_nodes):
    return edge_softmax(scores.masked_fill(edges[0] == edges[1], -50.0), edges, n_nodes)


def softmax_detaches_the_scores(scores, edges, n_nodes):
    return edge_softmax(scores.detach(), edges, n_nodes)


def softmax_adds_an_epsilon(scores, edges, n_nodes):
    exponentials = (scores - scores.amax()).exp()
    sums = torch.zeros(*scores.shape[:-1], n_nodes).index_add(-1, edges[0], exponentials)
    return exponentials / (sums.index_select(-1, edges[0]) + 1e-16)


def mixing_looks_both_ways(scores, values, edges):
    there, back = attend_edges(scores, values, edges), attend_edges(scores, values, edges.flip(0))
    return Attended((there.context + back.context) / 2, there.weights)


def mixing_takes_the_largest_message(scores, values, edges):
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = weights.unsqueeze(-1) * values[..., edges[1], :]
    place = edges[0].unsqueeze(-1).expand(messages.shape)
    return Attended(torch.zeros_like(values).scatter_reduce(-2, place, messages, "amax", include_self=False), weights)


def mixing_detaches_the_weights(scores, values, edges):
    weights = edge_softmax(scores, edges, values.shape[-2])
    return Attended(attend_edges(scores.detach(), values, edges).context, weights)


def mixing_normalises_in_place(scores, values, edges):
    scores -= scores.mean()
    return attend_edges(scores, values, edges)


def heads_share_the_first_projection(x, W, a, edges, combine=merge_heads):
    z = split_heads(x @ W.mT, len(a))[..., :1, :, :].expand(*x.shape[:-2], len(a), x.shape[-2], -1)
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(combine(context), weights)


def heads_come_out_in_reverse(x, W, a, edges, combine=merge_heads):
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(combine(context.flip(-3)), weights)


def heads_score_linearly(x, W, a, edges, combine=merge_heads):
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges, 1.0), z, edges)
    return Attended(combine(context), weights)


def gcn_takes_the_larger_degree(edges, n_nodes):
    degree = torch.bincount(edges[0], minlength=n_nodes).float()
    larger = torch.maximum(degree[edges[0]], degree[edges[1]])
    return torch.where(degree[edges[1]] > 0, 1 / larger, 0.0)


def gcn_normalises_by_the_mean(edges, n_nodes):
    degree = torch.bincount(edges[0], minlength=n_nodes).float()
    both = (degree[edges[0]] + degree[edges[1]]) / 2
    return torch.where(degree[edges[1]] > 0, 1 / both, 0.0)


def gcn_gives_a_matrix(edges, n_nodes):
    degree = torch.bincount(edges[0], minlength=n_nodes).float()
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    return torch.zeros(n_nodes, n_nodes).index_put((edges[0], edges[1]), scale[edges[0]] * scale[edges[1]])


def energy_takes_the_root(x, edges):
    return (0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).square().sum((-2, -1))).sqrt()


def energy_adds_the_neighbours(x, edges):
    return 0.5 * (x[..., edges[0], :] + x[..., edges[1], :]).square().sum((-2, -1))


def energy_divides_by_the_nodes(x, edges):
    return 0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).square().sum((-2, -1)) / x.shape[-2]


def dynamic_in_absolute_values(z, a, edges, slope=0.2):
    return dynamic_edge_scores(z, a, edges, -1.0)


def dynamic_doubles_the_query(z, a, edges, slope=0.2):
    hidden = F.leaky_relu(2 * z[..., edges[0], :] + z[..., edges[1], :], slope)
    return (hidden * a.unsqueeze(-2)).sum(-1)


def dynamic_by_the_euclidean_distance(z, a, edges, slope=0.2):
    return dynamic_edge_scores(z, a, edges, slope) - (z[..., edges[0], :] - z[..., edges[1], :]).square().sum(-1)


def dynamic_hides_the_loops(z, a, edges, slope=0.2):
    return dynamic_edge_scores(z, a, edges, slope).masked_fill(edges[0] == edges[1], -1e9)


def gat_pairs_without_the_bend(z, a, slope=0.2):
    d = z.shape[-1]
    return (z * a[..., None, :d]).sum(-1).unsqueeze(-1) + (z * a[..., None, d:]).sum(-1).unsqueeze(-2)


def softmax_of_everything_by_hand(scores, edges, n_nodes):
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


def mixing_in_a_loop_that_overwrites(scores, values, edges):
    weights = edge_softmax(scores, edges, values.shape[-2])
    rows = [torch.zeros_like(values[..., 0, :])] * values.shape[-2]
    for e, (i, j) in enumerate(edges.T.tolist()):
        rows[i] = weights[..., e, None] * values[..., j, :]
    return Attended(torch.stack(rows, dim=-2), weights)


def heads_always_concatenated(x, W, a, edges, combine=merge_heads):
    each = [
        attend_edges(gat_edge_scores(x @ W_k.mT, a_k, edges), x @ W_k.mT, edges)
        for W_k, a_k in zip(W.chunk(len(a)), a, strict=True)
    ]
    return torch.cat([head.context for head in each], -1), torch.stack([head.weights for head in each], -2)


def gcn_mean_of_a_counter(edges, n_nodes):
    return torch.stack([1 / (edges[0] == i).sum() for i in edges[0]]) if edges.shape[1] else torch.zeros(0)


def energy_in_a_loop_without_the_half(x, edges):
    steps = [(x[..., i, :] - x[..., j, :]).square().sum(-1) for i, j in edges.T.tolist()]
    return sum(steps, torch.zeros(x.shape[:-2]))


def dynamic_by_the_static_score_in_a_loop(z, a, edges, slope=0.2):
    scores = [F.leaky_relu(((z[..., i, :] + z[..., j, :]) * a).sum(-1), slope) for i, j in edges.T.tolist()]
    return torch.stack(scores, dim=-1)


def gat_twice_wrong(z, a, slope=0.2):
    a_key, a_query = a.unsqueeze(-1).chunk(2, dim=-2)
    return z @ a_query + (z @ a_key).mT


def softmax_twice_wrong(scores, edges, n_nodes):
    exponentials = scores.exp()
    sums = torch.zeros(*scores.shape[:-1], n_nodes).index_add(-1, edges[1], exponentials)
    return exponentials / sums.index_select(-1, edges[1])


def mixing_twice_wrong(scores, values, edges):
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = values.index_select(-2, edges[0])
    return Attended(torch.zeros_like(values).index_add(-2, edges[1], messages), weights)


def heads_twice_wrong(x, W, a, edges, combine=merge_heads):
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(merge_heads(context), weights.mean(-2))


def gcn_twice_wrong(edges, n_nodes):
    degree = torch.bincount(edges[1], minlength=n_nodes).float()
    return 1 / (degree[edges[0]] * degree[edges[1]])


def dynamic_twice_wrong(z, a, edges, slope=0.2):
    hidden = torch.tanh(z[..., edges[0], :] - z[..., edges[1], :])
    return (hidden * a.unsqueeze(-2)).sum(-1)


def energy_twice_wrong(x, edges):
    return (x[..., edges[0], :] - x[..., edges[1], :]).abs().sum((-2, -1))


STRANGERS = {
    "15.1": (gat_takes_the_absolute_value, gat_subtracts_the_key, gat_scales_the_scores, gat_hides_the_diagonal),
    "15.2": (softmax_in_base_two, softmax_skips_the_loops, softmax_detaches_the_scores, softmax_adds_an_epsilon),
    "15.3": (
        mixing_looks_both_ways,
        mixing_takes_the_largest_message,
        mixing_detaches_the_weights,
        mixing_normalises_in_place,
    ),
    "15.4": (heads_share_the_first_projection, heads_come_out_in_reverse, heads_score_linearly),
    "15.5": (gcn_takes_the_larger_degree, gcn_normalises_by_the_mean, gcn_gives_a_matrix),
    "15.6": (
        dynamic_in_absolute_values,
        dynamic_doubles_the_query,
        dynamic_by_the_euclidean_distance,
        dynamic_hides_the_loops,
    ),
    "15.7": (energy_takes_the_root, energy_adds_the_neighbours, energy_divides_by_the_nodes),
}
RELATIVES = (
    ("15.1", gat_pairs_without_the_bend, "forgets_the_leaky_relu"),
    ("15.2", softmax_of_everything_by_hand, "normalises_over_all_edges"),
    ("15.3", mixing_in_a_loop_that_overwrites, "keeps_the_last_message_only"),
    ("15.4", heads_always_concatenated, "always_merges"),
    ("15.5", gcn_mean_of_a_counter, "takes_the_mean"),
    ("15.6", dynamic_by_the_static_score_in_a_loop, "applies_the_nonlinearity_last"),
    ("15.7", energy_in_a_loop_without_the_half, "forgets_the_half"),
)
TWO_MISTAKES = (
    ("15.1", gat_twice_wrong, {"swaps_the_halves", "forgets_the_leaky_relu"}),
    ("15.2", softmax_twice_wrong, {"groups_by_the_node_looked_at", "subtracts_nothing"}),
    ("15.3", mixing_twice_wrong, {"passes_the_values_backwards", "forgets_the_weights"}),
    ("15.4", heads_twice_wrong, {"always_merges", "averages_the_weights"}),
    ("15.5", gcn_twice_wrong, {"counts_who_is_looked_at", "forgets_the_root"}),
    ("15.6", dynamic_twice_wrong, {"takes_tanh", "subtracts_the_key"}),
    ("15.7", energy_twice_wrong, {"forgets_the_half", "takes_absolute_differences"}),
)
