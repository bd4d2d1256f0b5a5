"""Other forms of the equations, to compare with: attention over edges by a matrix, and linear attention step by step."""

import torch
from torch import Tensor

from course_lib.attention import Attended, attend, causal_linear_attention, linear_attention_step
from course_lib.attention.edge_attention import require_scores
from course_lib.attention.linear import KeyFeatures, QueryFeatures, mask_features, of_features
from course_lib.primitives.preconditions import of_tensors, shape_checked
from course_lib.shapes import Context, Edges, Mask, Nodes, Values


@of_tensors
def dense_attend_edges(scores: Tensor, values: Nodes, edges: Edges) -> Attended:
    """Compute `attend_edges` by `attend` under a mask (N, N): the definition, with time and memory quadratic in N.

    An edge listed several times is one entry of the matrix, with the logarithm of the sum of its exponentials.
    """
    n_nodes = values.shape[-2]
    require_scores(scores, edges, n_nodes)
    query, key = edges.long()
    entry = (query * n_nodes + key).expand(scores.shape)
    empty = scores.new_full((*scores.shape[:-1], n_nodes**2), -torch.inf)
    largest = empty.scatter_reduce(-1, entry, scores.detach(), "amax")
    above = (scores - largest.gather(-1, entry)).exp()
    joint = torch.zeros_like(empty).scatter_add(-1, entry, above)
    mask = torch.zeros(n_nodes**2, dtype=torch.bool, device=edges.device).index_fill(0, entry.flatten()[: query.numel()], True)
    matrix = (largest + joint.log()).unflatten(-1, (n_nodes, n_nodes))
    context, weights = attend(matrix, values, mask.view(n_nodes, n_nodes))
    return Attended(context, weights.flatten(-2).gather(-1, entry) * above / joint.gather(-1, entry))


@shape_checked(of=causal_linear_attention)
@of_features
def recurrent_linear_attention(phi_q: QueryFeatures, phi_k: KeyFeatures, v: Values, mask: Mask | None = None) -> Context:
    """Compute the same as `causal_linear_attention` one position after the other, by `linear_attention_step`."""
    phi_k = mask_features(phi_k, mask)
    S, z = v.new_zeros(*v.shape[:-2], phi_k.shape[-1], v.shape[-1]), phi_k.new_zeros(*v.shape[:-2], phi_k.shape[-1])
    contexts = []
    for q_t, k_t, v_t in zip(phi_q.unbind(-2), phi_k.unbind(-2), v.unbind(-2), strict=True):
        context, S, z = linear_attention_step(S, z, q_t, k_t, v_t)
        contexts.append(context)
    return torch.stack(contexts, dim=-2) if contexts else v.clone()
