"""Images as graphs: nodes, edges, and no edges between the graphs of a batch."""

import pytest
import torch

from course_lib.datasets import digits, pixel_graphs


def test_four_pixels_by_hand():
    image = torch.tensor([[[0.5, 0.0, 0.0], [0.75, 0.0, 1.0], [0.0, 1.0, 0.25]]])
    graph = pixel_graphs(image)
    assert graph.ink.flatten().tolist() == [0.5, 0.75, 1.0, 1.0]
    assert graph.positions.tolist() == [[0, 0], [1, 0], [1, 2], [2, 1]]
    assert graph.edges.tolist() == [[0, 1, 1, 2, 3, 3], [1, 0, 3, 3, 1, 2]]
    assert graph.graph_of.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("threshold", [0.0, 0.25, 0.6])
def test_nodes_and_edges_are_those_of_a_search_through_all_pairs(threshold):
    images = torch.rand(3, 5, 7, generator=torch.Generator().manual_seed(1))
    graph = pixel_graphs(images, threshold)
    nodes = [(b, i, j) for b in range(3) for i in range(5) for j in range(7) if images[b, i, j] > threshold]
    expected = [
        (m, n)
        for m, (b, i, j) in enumerate(nodes)
        for n, (c, k, o) in enumerate(nodes)
        if b == c and m != n and max(abs(i - k), abs(j - o)) == 1
    ]
    assert [tuple(pair) for pair in graph.edges.mT.tolist()] == expected
    assert graph.graph_of.tolist() == [b for b, _, _ in nodes]
    assert graph.ink.flatten().tolist() == [images[node].item() for node in nodes]
    assert graph.positions.tolist() == [[i, j] for _, i, j in nodes]


def test_each_picture_of_a_batch_has_the_graph_that_it_has_alone():
    images = digits().images[:11]
    together, first = pixel_graphs(images), 0
    for number, image in enumerate(images):
        alone, here = pixel_graphs(image[None]), together.graph_of == number
        assert torch.equal(together.ink[here], alone.ink)
        assert torch.equal(together.edges[:, here[together.edges[0]]], alone.edges + first)
        first += len(alone.ink)
    assert first == len(together.ink)


def test_edges_have_both_directions_and_no_loops():
    query, key = pixel_graphs(digits().images[:13]).edges
    pairs = set(zip(query.tolist(), key.tolist(), strict=True))
    assert pairs == {(j, i) for i, j in pairs}
    assert len(pairs) == len(query)
    assert not (query == key).any()


def test_a_picture_without_ink_is_a_graph_without_nodes():
    graph = pixel_graphs(torch.zeros(2, 3, 5))
    assert graph.n_graphs == 2
    assert graph.edges.shape == (2, 0)
    assert graph.positions.shape == (0, 2)
