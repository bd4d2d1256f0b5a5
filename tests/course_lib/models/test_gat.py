"""The graph attention network and the graph convolutional network."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from course_lib.analysis import record
from course_lib.attention import (
    DynamicGraphAttention,
    GraphAttention,
    attend,
    attend_edges,
    average_heads,
    gat_scores,
)
from course_lib.fast import csr_attend_edges
from course_lib.models import GAT, GCN, GATLayer
from course_lib.primitives import with_self_loops

N, d_in, d, H, C, B = 7, 11, 5, 3, 2, 2
EDGES = torch.tensor([[0, 1, 1, 2, 4, 4, 5, 6], [1, 0, 2, 1, 4, 5, 6, 0]])
ALLOWED = torch.zeros(N, N, dtype=torch.bool).index_put((EDGES[0], EDGES[1]), torch.tensor(True)) | torch.eye(
    N, dtype=torch.bool
)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return GAT(d_in, d, C, H).double()


def test_a_gat_is_two_layers_of_masked_attention_over_neighbours_and_oneself(model, normal, agree):
    def spelled_out(x):
        for layer, combine in zip(model.layers, ("merge", "average"), strict=True):
            heads = []
            for W, a in zip(layer.W.weight.chunk(H), layer.mechanism.a, strict=True):
                z = x @ W.T
                heads.append(attend(gat_scores(z, a), z, ALLOWED).context)
            x = F.elu(torch.cat(heads, -1)) if combine == "merge" else sum(heads) / H
        return x

    agree(lambda x: model(x, EDGES), spelled_out, normal(B, N, d_in))


def test_a_gcn_is_two_products_with_the_normalised_matrix(normal, agree):
    torch.manual_seed(0)
    network = GCN(d_in, d, C).double()
    degree = ALLOWED.double().sum(1)
    matrix = ALLOWED.double() / (degree[:, None] * degree).sqrt()
    first, second = (layer.weight for layer in network.layers)

    def spelled_out(x):
        return matrix @ (matrix @ x @ first.T).relu() @ second.T

    torch.testing.assert_close(network(normal(N, d_in), EDGES).shape, (N, C))
    x = normal(B, N, d_in)
    torch.testing.assert_close(network(x, EDGES), spelled_out(x), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("make", [partial(GAT, d_in, d, C, H), partial(GCN, d_in, d, C)])
def test_relabelling_the_nodes_relabels_the_outputs(make, normal):
    network, x = make().double(), normal(N, d_in)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(network(x[order], order.argsort()[EDGES]), network(x, EDGES)[order])


@pytest.mark.parametrize("make", [partial(GAT, d_in, d, C, H), partial(GCN, d_in, d, C)])
def test_a_node_sees_as_many_steps_away_as_there_are_layers(make, normal):
    """0 attends to 1, 1 to 2, … 4 to 5: after n layers, node 0 depends on nodes 0 to n and no other."""
    path, x = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), normal(6, d_in)
    for n_layers in (1, 2, 4):
        torch.manual_seed(0)
        (felt,) = torch.autograd.grad(make(n_layers=n_layers).double()(x, path)[0].square().sum(), x)
        assert felt.ne(0).any(1).tolist() == [i <= n_layers for i in range(6)]


@pytest.mark.parametrize("make", [partial(GAT, d_in, d, C, H), partial(GCN, d_in, d, C)])
def test_without_edges_each_node_is_its_own_graph(make, normal):
    network, x, nothing = make().double(), normal(N, d_in), torch.empty(2, 0, dtype=torch.int64)
    together = network(x, nothing)
    assert together.isfinite().all()
    torch.testing.assert_close(together[3:4], network(x[3:4], nothing))


def test_the_first_weights_recorded_are_those_of_the_given_edges(model, normal):
    with record(model) as seen:
        model(normal(N, d_in), EDGES)
    weights = seen["layers.0"][0].weights
    assert weights.shape == (H, EDGES.shape[1] + N - 1)
    sums = weights.new_zeros(H, N).index_add(1, EDGES[0], weights[:, : EDGES.shape[1]])
    assert (sums[:, 3] == 0).all()
    assert torch.allclose(sums[:, 4], torch.ones(H, dtype=torch.float64))
    assert (sums[:, [0, 1, 2, 5, 6]] < 1).all()


def test_the_mechanism_is_an_argument(normal):
    x = normal(N, d_in)

    def equal(z, edges):
        return attend_edges(z.new_zeros(H, edges.shape[1]), z, edges)

    uniform = GATLayer(d_in, d, H, lambda n_heads, d: equal, average_heads).double()
    assert [name for name, _ in uniform.named_parameters()] == ["W.weight"]
    mean = uniform(x, EDGES).context[1]
    torch.testing.assert_close(mean, ((x[0] + x[2]) / 2 @ uniform.W.weight.T).view(H, d).mean(0))
    dynamic = GAT(d_in, d, C, H, mechanism=DynamicGraphAttention).double()
    assert dynamic.layers[0].mechanism.a.shape == (H, d)
    assert dynamic(x, EDGES).shape == (N, C)


def test_the_fast_form_computes_the_same_network(model, normal, agree):
    fast = GAT(d_in, d, C, H, mechanism=partial(GraphAttention, form=csr_attend_edges)).double()
    fast.load_state_dict(model.state_dict())
    agree(lambda x: fast(x, EDGES), lambda x: model(x, EDGES), normal(N, d_in))


def test_all_parameters_learn_and_start_as_glorot_and_bengio(model, normal):
    model(normal(N, d_in), EDGES).square().sum().backward()
    assert all(p.grad.ne(0).any() for p in model.parameters())
    torch.manual_seed(0)
    bound = (6 / (200 + 8 * 50)) ** 0.5
    for weight in (GAT(200, 50, 3).layers[0].W.weight, GCN(200, 400, 3).layers[0].weight):
        assert weight.max().item() == pytest.approx(bound, rel=0.01)
        assert weight.min().item() == pytest.approx(-bound, rel=0.01)


def test_a_network_without_layers_is_refused():
    with pytest.raises(ValueError, match="at least one layer, got n_layers = 0"):
        GAT(d_in, d, C, H, n_layers=0)
    with pytest.raises(ValueError, match="at least one layer, got n_layers = 0"):
        GCN(d_in, d, C, n_layers=0)


@pytest.mark.parametrize("mechanism", [GraphAttention, DynamicGraphAttention])
def test_dropout_acts_on_the_input_of_each_layer_and_on_the_weights(mechanism, normal):
    """Veličković et al. 2018, section 3.3, with the dense weights of a model without dropout."""
    torch.manual_seed(0)
    model, x = GAT(d_in, d, C, H, mechanism=mechanism, dropout=0.6).double().train(), normal(B, N, d_in).detach()
    edges = with_self_loops(EDGES, N)
    torch.manual_seed(1)
    found = model(x, EDGES)
    torch.manual_seed(1)
    y = x
    for i, layer in enumerate(model.layers):
        z = (F.dropout(y, 0.6) @ layer.W.weight.mT).unflatten(-1, (H, -1)).transpose(-2, -3)
        dropped = F.dropout(layer.mechanism(z, edges).weights, 0.6)
        dense = z.new_zeros(B, H, N, N)
        dense[..., edges[0], edges[1]] = dropped
        heads = dense @ z
        y = F.elu(heads.transpose(-2, -3).flatten(-2)) if i == 0 else heads.mean(-3)
    torch.testing.assert_close(found, y)


def test_dropout_of_a_gcn_acts_on_the_input_of_each_layer(normal):
    torch.manual_seed(0)
    model, x = GCN(d_in, d, C, dropout=0.5).double().train(), normal(B, N, d_in).detach()
    degrees = ALLOWED.sum(-1).double()
    A = ALLOWED / (degrees[:, None] * degrees).sqrt()
    torch.manual_seed(1)
    found = model(x, EDGES)
    torch.manual_seed(1)
    hidden = F.relu(A @ (F.dropout(x, 0.5) @ model.layers[0].weight.mT))
    torch.testing.assert_close(found, A @ (F.dropout(hidden, 0.5) @ model.layers[1].weight.mT))


@pytest.mark.parametrize("make", [lambda p: GAT(d_in, d, C, H, dropout=p), lambda p: GCN(d_in, d, C, dropout=p)])
def test_no_dropout_and_evaluation_are_the_model_without(make, normal):
    x = normal(B, N, d_in).detach().float()
    torch.manual_seed(0)
    dropping = make(0.5)
    plain = make(0.0)
    plain.load_state_dict(dropping.state_dict())
    assert torch.equal(dropping.eval()(x, EDGES), plain.train()(x, EDGES))
    assert not torch.equal(dropping.train()(x, EDGES), plain(x, EDGES))
