"""Graph networks that take the mixing function as an argument: with the library's weights, they equal its networks."""

import torch

from course_lib.attention import (
    DynamicGraphAttention,
    GraphAttention,
    attend_edges,
    dynamic_edge_scores,
    multi_head_graph_attention,
)
from course_lib.datasets import digits
from course_lib.models import GAT, GCN
from course_lib.primitives import gcn_weights
from course_tools.lectures.lecture_15.experiments import described, kept
from course_tools.lectures.lecture_15.graph_networks import (
    DynamicAttention,
    GraphClassifier,
    LookupGAT,
    TwoLayerGAT,
    TwoLayerGCN,
    UniformLookup,
    attends_to_answer,
    uniform,
)

EDGES = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])


def test_two_layers_are_a_gat_with_its_weights():
    torch.manual_seed(0)
    gat, x = GAT(5, 3, 2, n_heads=4), torch.randn(7, 5)
    own = TwoLayerGAT(5, 3, 2, multi_head_graph_attention)
    with torch.no_grad():
        for (W, a), layer in zip(((own.W_1, own.a_1), (own.W_2, own.a_2)), gat.layers, strict=True):
            W.copy_(layer.W.weight)
            a.copy_(layer.mechanism.a)
    torch.testing.assert_close(own(x, EDGES), gat(x, EDGES))


def test_convolutions_are_a_gcn_with_its_weights():
    torch.manual_seed(0)
    gcn, x = GCN(5, 3, 2), torch.randn(7, 5)
    own = TwoLayerGCN(5, 3, 2, gcn_weights)
    for mine, layer in zip((own.W_1, own.W_2), gcn.layers, strict=True):
        mine.load_state_dict(layer.state_dict())
    for edges in (EDGES, EDGES[:, 2:]):
        torch.testing.assert_close(own(x, edges), gcn(x, edges))


def test_with_the_librarys_scores_dynamic_attention_is_the_librarys():
    z = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(0))
    results = []
    for make in (DynamicGraphAttention, lambda n_heads, d: DynamicAttention(n_heads, d, dynamic_edge_scores, attend_edges)):
        torch.manual_seed(0)
        results.append(make(3, 5)(z, EDGES))
    for theirs, mine in zip(*results, strict=True):
        assert torch.equal(theirs, mine)


def test_a_reader_finds_the_neighbour_with_the_largest_weight():
    torch.manual_seed(0)
    edges, x = torch.stack([torch.zeros(8, dtype=torch.long), torch.arange(1, 9)]), torch.randn(9, 5)
    model = LookupGAT(GraphAttention, 5)
    weights = model.layer(x, edges).weights[0]
    assert attends_to_answer(model, x, edges, weights) == 1.0
    assert attends_to_answer(model, x, edges, -weights) == 0.0
    assert UniformLookup(5)(x, edges).shape == model(x, edges).shape == (9, 8)


def test_the_classifier_gives_logits_of_each_graph_and_does_not_mix_graphs():
    torch.manual_seed(0)
    images = digits()[0][:5]
    model = GraphClassifier(uniform, attend_edges).eval()
    together = model(described(images, kept, True))
    assert together.shape == (5, 10)
    torch.testing.assert_close(model(described(images[2:3], kept, True)), together[2:3], rtol=1e-4, atol=1e-5)
