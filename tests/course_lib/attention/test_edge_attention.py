"""`attend` over an edge list: the softmax of each node's edges, and the three forms of the mixing."""

import math

import pytest
import torch

from course_lib.attention import attend, attend_edges, edge_softmax
from course_lib.fast import csr_attend_edges
from tests.course_lib.attention.other_forms import dense_attend_edges

N, H, B, d_v = 7, 3, 2, 5
FORMS = [attend_edges, csr_attend_edges, dense_attend_edges]
every_form = pytest.mark.parametrize("form", FORMS)


def directed(n=N, seed=0):
    """A random directed graph with loops and unsorted edges; node 2 attends to no node, and no node attends to node 3."""
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.rand(n, n, generator=generator) < 0.4
    allowed[2], allowed[:, 3] = False, False
    edges = allowed.nonzero().mT
    return edges[:, torch.randperm(edges.shape[1], generator=generator)], allowed


EDGES, ALLOWED = directed()
E = EDGES.shape[1]
TWICE = torch.cat([EDGES, EDGES[:, :4], EDGES[:, :2]], dim=1)


def by_loop(scores, values, edges):
    """One node after the other, one edge after the other."""
    weights, context = torch.zeros_like(scores), []
    for i in range(values.shape[-2]):
        places = [e for e in range(edges.shape[1]) if edges[0, e] == i]
        if places:
            shares = scores[..., places].softmax(-1)
            weights = weights.index_add(-1, torch.tensor(places), shares)
            terms = [shares[..., n, None] * values[..., edges[1, e], :] for n, e in enumerate(places)]
            context.append(sum(terms))
        else:
            context.append(0 * values[..., i, :])
    return torch.stack(context, dim=-2), weights


def test_edge_softmax_by_hand():
    """Node 1 has two edges with scores ln 3 and 0: weights ¾ and ¼; node 0 has one, of weight 1 for any score."""
    scores = torch.tensor([math.log(3), -50.0, 0.0])
    weights = edge_softmax(scores, torch.tensor([[1, 0, 1], [0, 1, 2]]), 3)
    torch.testing.assert_close(weights, torch.tensor([0.75, 1.0, 0.25]))


@pytest.mark.parametrize("batch", [(), (H,), (B, H)])
def test_edge_softmax_is_the_softmax_of_each_row(normal, agree, batch):
    def rows(scores):
        matrix = scores.new_full((*batch, N, N), -torch.inf)
        matrix[..., EDGES[0], EDGES[1]] = scores
        return matrix.masked_fill(~ALLOWED.any(1, keepdim=True), 0.0).softmax(-1)[..., EDGES[0], EDGES[1]]

    agree(lambda scores: edge_softmax(scores, EDGES, N), rows, normal(*batch, E))


def test_the_edges_of_a_node_share_a_weight_of_one(normal):
    weights = edge_softmax(normal(H, TWICE.shape[1], scale=10.0), TWICE, N)
    sums = weights.new_zeros(H, N).index_add(-1, TWICE[0], weights)
    torch.testing.assert_close(sums, ALLOWED.any(1).double().expand(H, N))


def test_gradients_of_the_softmax_against_differences(normal):
    assert torch.autograd.gradcheck(lambda scores: edge_softmax(scores, TWICE, N), normal(2, TWICE.shape[1]))


@every_form
@pytest.mark.parametrize("batch", [(), (H,), (B, H)])
def test_over_edges_is_masked_attention(normal, agree, form, batch):
    def masked(scores, values):
        matrix = scores.new_zeros(*batch, N, N)
        matrix[..., EDGES[0], EDGES[1]] = scores
        context, weights = attend(matrix, values, ALLOWED)
        return context, weights[..., EDGES[0], EDGES[1]]

    agree(lambda scores, values: form(scores, values, EDGES), masked, normal(*batch, E), normal(*batch, N, d_v))


@every_form
@pytest.mark.parametrize("edges", [EDGES, TWICE, EDGES.sort(dim=1).values, EDGES.int()], ids=["any", "twice", "other", "int32"])
def test_over_edges_is_one_edge_at_a_time(normal, agree, form, edges):
    inputs = normal(H, edges.shape[1]), normal(H, N, d_v)
    agree(lambda scores, values: form(scores, values, edges), lambda s, v: by_loop(s, v, edges.long()), *inputs)


@every_form
def test_one_result_alone_has_its_gradient_too(normal, agree, form):
    inputs = normal(H, TWICE.shape[1]), normal(H, N, d_v)
    agree(lambda *given: form(*given, TWICE).context, lambda *given: by_loop(*given, TWICE)[0], *inputs)
    agree(lambda scores: form(scores, inputs[1].detach(), TWICE).weights, lambda s: edge_softmax(s, TWICE, N), inputs[0])


@every_form
def test_gradients_against_differences(normal, form):
    inputs = normal(2, TWICE.shape[1]), normal(2, N, 3)
    assert torch.autograd.gradcheck(lambda scores, values: form(scores, values, TWICE), inputs)


@every_form
def test_relabelling_the_nodes_permutes_the_context_and_nothing_else(normal, form):
    scores, values = normal(H, E), normal(H, N, d_v)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    context, weights = form(scores, values, EDGES)
    other = form(scores, values[:, order], order.argsort()[EDGES])
    torch.testing.assert_close(other.context, context[:, order])
    torch.testing.assert_close(other.weights, weights)


@every_form
def test_the_order_of_the_edges_does_not_matter(normal, form):
    scores, values = normal(H, E), normal(H, N, d_v)
    order = torch.randperm(E, generator=torch.Generator().manual_seed(1))
    context, weights = form(scores, values, EDGES)
    other = form(scores[:, order], values, EDGES[:, order])
    torch.testing.assert_close(other.context, context)
    torch.testing.assert_close(other.weights, weights[:, order])


@every_form
def test_a_node_that_looks_nowhere_gets_nothing_and_passes_no_gradient(normal, form):
    scores, values = normal(E), normal(N, d_v)
    context = form(scores, values, EDGES).context
    assert context[2].eq(0).all()
    grads = torch.autograd.grad(
        context[2].sum(), (scores, values), retain_graph=True, materialize_grads=True, allow_unused=True
    )
    assert all(g.eq(0).all() for g in grads)
    (of_values,) = torch.autograd.grad(context.square().sum(), values)
    assert of_values[3].eq(0).all()
    assert of_values.ne(0).any()


@every_form
@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_graph_without_edges_gives_nothing(form, n):
    nothing = torch.empty(2, 0, dtype=torch.int64)
    scores, values = torch.empty(H, 0, requires_grad=True), torch.ones(H, n, d_v, requires_grad=True)
    context, weights = form(scores, values, nothing)
    assert context.shape == (H, n, d_v)
    assert weights.shape == (H, 0)
    assert context.eq(0).all()
    context.sum().backward()
    assert values.grad is None or values.grad.eq(0).all()


@every_form
def test_one_node_that_looks_at_itself_gets_its_own_value(form):
    values = torch.tensor([[2.0, 3.0]])
    for n_loops in (1, 3):
        context, weights = form(torch.arange(n_loops).float(), values, torch.zeros(2, n_loops, dtype=torch.int64))
        torch.testing.assert_close(context, values)
        assert weights.sum().item() == pytest.approx(1.0)


@every_form
def test_values_without_features_are_no_mistake(form):
    context, weights = form(torch.zeros(E), torch.zeros(N, 0), EDGES)
    assert context.shape == (N, 0)
    assert weights.sum().item() == pytest.approx(ALLOWED.any(1).sum().item())


@every_form
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e4, 1e37])
def test_huge_and_tiny_scores_give_weights_that_are_finite_and_right(form, dtype, scale):
    generator = torch.Generator().manual_seed(0)
    scores = (torch.randn(H, E, generator=generator) * scale).to(dtype).requires_grad_()
    values = torch.randn(H, N, d_v, generator=generator).to(dtype).requires_grad_()
    context, weights = form(scores, values, EDGES)
    assert (context.dtype, weights.dtype) == (dtype, dtype)
    exact, exact_weights = by_loop(scores.detach().double(), values.detach().double(), EDGES)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(weights.double(), exact_weights, atol=tolerance, rtol=0.0)
    torch.testing.assert_close(context.double(), exact, atol=3 * tolerance, rtol=0.0)
    (context.float().square().sum() + weights.float().square().sum()).backward()
    assert scores.grad.isfinite().all()
    assert values.grad.isfinite().all()


@every_form
def test_scores_of_one_node_far_above_those_of_another_do_not_drown_them(form):
    """Each node subtracts its own largest score: one number for the whole graph would leave 0 / 0."""
    edges = torch.tensor([[0, 0, 1, 1], [1, 2, 0, 2]])
    scores = torch.tensor([1000.0, 1000.0, -1000.0, -1000.0 - math.log(3)])
    torch.testing.assert_close(form(scores, torch.eye(3), edges).weights, torch.tensor([0.5, 0.5, 0.75, 0.25]))


@every_form
def test_two_thousand_neighbours_share_a_weight_of_one_in_bfloat16(form):
    edges = torch.stack([torch.zeros(2000, dtype=torch.int64), torch.arange(1, 2001)])
    if form is dense_attend_edges:
        edges = edges[:, :300]
    values = torch.ones(len(edges[1]) + 1, 1, dtype=torch.bfloat16)
    context, weights = form(torch.zeros(edges.shape[1], dtype=torch.bfloat16), values, edges)
    assert context[0].item() == pytest.approx(1.0, rel=0.01)
    assert weights[0].item() == pytest.approx(1 / edges.shape[1], rel=0.01)


@every_form
@pytest.mark.parametrize(("edges", "named"), [([[0, 1], [1, 9]], "0 to 9"), ([[0, -1], [1, 0]], "-1 to 1")])
def test_an_edge_to_a_node_that_is_not_there_is_refused(form, edges, named):
    with pytest.raises(ValueError, match=f"edges name nodes {named}, but there are nodes 0 to 6"):
        form(torch.zeros(2), torch.zeros(N, d_v), torch.tensor(edges))


@pytest.mark.gpu
@every_form
def test_the_forms_agree_on_a_gpu(form):
    generator = torch.Generator().manual_seed(0)
    scores, values = torch.randn(H, E, generator=generator), torch.randn(H, N, d_v, generator=generator)
    here = attend_edges(scores, values, EDGES)
    there = form(scores.cuda(), values.cuda(), EDGES.cuda())
    for a, b in zip(here, there, strict=True):
        torch.testing.assert_close(a, b.cpu())
