"""Attention on graphs: the scores of GAT and of GATv2, heads concatenated or averaged, and the static ranking of GAT."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import (
    DynamicGraphAttention,
    GraphAttention,
    attend,
    attend_edges,
    average_heads,
    dynamic_edge_scores,
    gat_edge_scores,
    gat_scores,
    merge_heads,
    multi_head_graph_attention,
    split_heads,
)
from course_lib.fast import csr_attend_edges
from tests.course_lib.attention.other_forms import dense_attend_edges

N, H, B, d, d_in = 7, 3, 2, 5, 11


def directed(n=N, seed=0):
    """A random directed graph with loops and unsorted edges; node 2 attends to no node, and no node attends to node 3."""
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.rand(n, n, generator=generator) < 0.4
    allowed[2], allowed[:, 3] = False, False
    edges = allowed.nonzero().mT
    return edges[:, torch.randperm(edges.shape[1], generator=generator)], allowed


EDGES, ALLOWED = directed()
E = EDGES.shape[1]


def pair_by_pair(z, a, slope=0.2):
    """LeakyReLU(aᵀ [z_i ‖ z_j]), one pair and one head at a time."""
    rows = [[F.leaky_relu(torch.dot(a, torch.cat([x, y])), slope) for y in z] for x in z]
    return torch.stack([torch.stack(row) for row in rows])


def test_scores_by_hand():
    """a = (1, 2): the pair (3, -4) sums to -5, a fifth of which is left; (-4, 3) sums to 2."""
    z = torch.tensor([[3.0], [-4.0]])
    expected = torch.tensor([[9.0, -1.0], [2.0, -2.4]])
    torch.testing.assert_close(gat_scores(z, torch.tensor([1.0, 2.0])), expected)
    torch.testing.assert_close(gat_scores(z, torch.tensor([1.0, 2.0]), slope=1.0)[0, 1].item(), -5.0)


def test_scores_are_those_of_the_equation_one_pair_at_a_time(normal, agree):
    agree(gat_scores, pair_by_pair, normal(N, d), normal(2 * d))


def test_each_head_has_its_own_vector_and_the_batch_shares_them(normal):
    z, a = normal(B, H, N, d), normal(H, 2 * d)
    scores = gat_scores(z, a)
    assert scores.shape == (B, H, N, N)
    for b, h in ((0, 0), (1, 2)):
        torch.testing.assert_close(scores[b, h], pair_by_pair(z[b, h], a[h]))


@pytest.mark.parametrize("batch", [(), (B,)])
def test_scores_at_the_edges_are_entries_of_the_matrix(normal, agree, batch):
    def entries(z, a):
        return gat_scores(z, a)[..., EDGES[0], EDGES[1]]

    agree(lambda z, a: gat_edge_scores(z, a, EDGES), entries, normal(*batch, H, N, d), normal(H, 2 * d))


@pytest.mark.parametrize("form", [attend_edges, csr_attend_edges, dense_attend_edges])
def test_gat_over_edges_is_gat_under_a_mask(normal, agree, form):
    """Sparse = dense = `attend` with the mask of the graph: context, weights at the edges, and all gradients."""

    def dense(z, a):
        context, weights = attend(gat_scores(z, a), z, ALLOWED)
        return context, weights[..., EDGES[0], EDGES[1]]

    def sparse(z, a):
        return form(gat_edge_scores(z, a, EDGES), z, EDGES)

    agree(sparse, dense, normal(B, H, N, d), normal(H, 2 * d))


def test_gat_is_additive_attention_of_two_numbers_a_node(normal, agree):
    """Its scores are those of an additive attention whose hidden layer is one LeakyReLU unit, with v = 1."""

    def additive(z, a):
        hidden = (z @ a[:d])[:, None] + (z @ a[d:])[None]
        return hidden.clamp_min(0) + 0.2 * hidden.clamp_max(0)

    agree(gat_scores, additive, normal(N, d), normal(2 * d))


def test_gradients_of_both_scores_against_differences(normal):
    assert torch.autograd.gradcheck(lambda z, a: gat_edge_scores(z, a, EDGES), (normal(N, d), normal(2 * d)))
    assert torch.autograd.gradcheck(
        lambda q, k, a: dynamic_edge_scores(q, k, a, EDGES), (normal(N, d), normal(N, d), normal(d))
    )


def test_gat_is_static_every_node_ranks_the_others_alike(normal):
    """Brody et al. 2022, theorem 1: one key is the best for every query."""
    for _ in range(20):
        order = gat_scores(normal(N, d), normal(2 * d)).argsort(-1)
        assert (order == order[0]).all()


def test_gatv2_is_dynamic_the_query_decides(normal):
    everyone = torch.ones(N, N).nonzero().mT
    best = [dynamic_edge_scores(normal(N, d), normal(N, d), normal(d), everyone).view(N, N).argmax(-1) for _ in range(20)]
    assert any(len(row.unique()) > 1 for row in best)


def test_dynamic_scores_by_hand():
    """a = (1, -1), LeakyReLU of (1, -1) + (2, -4) = (3, -5) is (3, -1): the score is 4."""
    q, k = torch.tensor([[1.0, -1.0], [9.0, 9.0]]), torch.tensor([[9.0, 9.0], [2.0, -4.0]])
    edge = torch.tensor([[0], [1]])
    torch.testing.assert_close(dynamic_edge_scores(q, k, torch.tensor([1.0, -1.0]), edge), torch.tensor([4.0]))


def test_dynamic_scores_are_bahdanaus_with_another_bend(normal, agree):
    """aᵀ f(q_i + k_j) with f = LeakyReLU, in every head."""

    def spelled_out(q, k, a):
        pairs = q.unsqueeze(-2) + k.unsqueeze(-3)
        bent = torch.where(pairs > 0, pairs, 0.2 * pairs)
        return torch.einsum("...hijd,hd->...hij", bent, a)[..., EDGES[0], EDGES[1]]

    given = normal(B, H, N, d), normal(B, H, N, d), normal(H, d)
    agree(lambda q, k, a: dynamic_edge_scores(q, k, a, EDGES), spelled_out, *given)


def test_heads_are_averaged_where_merging_would_lay_them_side_by_side(normal):
    heads = normal(B, H, N, d)
    torch.testing.assert_close(average_heads(heads), sum(heads[:, h] for h in range(H)) / H)


@pytest.mark.parametrize("combine", [merge_heads, average_heads])
def test_many_heads_are_one_head_each_merged_or_averaged(normal, agree, combine):
    def head_by_head(x, W, a):
        heads, weights = [], []
        for k in range(H):
            z = x @ W[k * d : (k + 1) * d].T
            context, alpha = attend(pair_by_pair(z, a[k]), z, ALLOWED)
            heads.append(context)
            weights.append(alpha[EDGES[0], EDGES[1]])
        joined = torch.cat(heads, -1) if combine is merge_heads else sum(heads) / H
        return joined, torch.stack(weights)

    given = normal(N, d_in), normal(H * d, d_in), normal(H, 2 * d)
    agree(lambda x, W, a: multi_head_graph_attention(x, W, a, EDGES, combine), head_by_head, *given)


def test_relabelling_the_nodes_relabels_the_outputs_and_keeps_the_weights(normal):
    x, W, a = normal(B, N, d_in), normal(H * d, d_in), normal(H, 2 * d)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    context, weights = multi_head_graph_attention(x, W, a, EDGES)
    other = multi_head_graph_attention(x[:, order], W, a, order.argsort()[EDGES])
    torch.testing.assert_close(other.context, context[:, order])
    torch.testing.assert_close(other.weights, weights)


@pytest.mark.parametrize(
    ("module", "scores", "size"),
    [
        (GraphAttention, gat_edge_scores, 2 * d),
        (DynamicGraphAttention, lambda z, a, edges: dynamic_edge_scores(z, z, a, edges), d),
    ],
)
@pytest.mark.parametrize("form", [attend_edges, csr_attend_edges])
def test_the_modules_attend_by_their_scores_and_train_their_vectors(normal, agree, module, scores, size, form):
    layer = module(H, d, form).double()
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == {"a": (H, size)}
    z = normal(B, H, N, d)
    agree(lambda z: layer(z, EDGES), lambda z: attend_edges(scores(z, layer.a, EDGES), z, EDGES), z)
    layer(z, EDGES).context.square().sum().backward()
    assert layer.a.grad.ne(0).all()


def test_the_modules_start_as_glorot_and_bengio():
    torch.manual_seed(0)
    for module, bound in ((GraphAttention(40, 200), math.sqrt(6 / 401)), (DynamicGraphAttention(40, 400), math.sqrt(6 / 401))):
        assert module.a.min().item() == pytest.approx(-bound, rel=0.01)
        assert module.a.max().item() == pytest.approx(bound, rel=0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_huge_and_tiny_features_stay_finite(dtype, scale):
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn(N, d_in, generator=generator) * scale).to(dtype).requires_grad_()
    W, a = torch.randn(H * d, d_in, generator=generator).to(dtype), torch.randn(H, 2 * d, generator=generator).to(dtype)
    context, weights = multi_head_graph_attention(x, W, a, EDGES)
    (context / scale).float().square().sum().backward()
    assert all(t.isfinite().all() for t in (context, weights, x.grad))


def test_heads_must_divide_the_projection(normal):
    with pytest.raises(ValueError, match="13 features do not divide into 3 heads"):
        multi_head_graph_attention(normal(N, d_in), normal(13, d_in), normal(H, 2 * d), EDGES)


def test_it_is_pygs_layer_with_the_rows_of_the_edge_list_turned_round():
    nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed: pip install -e '.[bench]'")
    torch.manual_seed(0)
    conv = nn.GATConv(d_in, d, heads=H, add_self_loops=False, bias=False)
    a = torch.cat([conv.att_dst[0], conv.att_src[0]], dim=-1)
    x = torch.randn(N, d_in)
    theirs = conv(x, EDGES.flip(0))
    torch.testing.assert_close(multi_head_graph_attention(x, conv.lin.weight, a, EDGES).context, theirs)
    dynamic = nn.GATv2Conv(d_in, d, heads=H, add_self_loops=False, bias=False, share_weights=True)
    z = split_heads(x @ dynamic.lin_l.weight.mT, H)
    ours = attend_edges(dynamic_edge_scores(z, z, dynamic.att[0], EDGES), z, EDGES)
    torch.testing.assert_close(merge_heads(ours.context), dynamic(x, EDGES.flip(0)))
