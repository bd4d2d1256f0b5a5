"""A task on graphs: one neighbour has the answer, a different one for each reader."""

from functools import partial

from course_lib.datasets import matching_neighbour


def neighbours_of(graph, reader):
    return graph.edges[1, graph.edges[0] == reader]


def test_the_matching_neighbour_knows_the_answer_and_it_is_another_for_each_reader():
    graph = matching_neighbour(11, 3, 5, k=7, n_values=5, seed=1).train
    readers = graph.labels.ge(0).nonzero().flatten()
    assert len(readers) == 11 * 7
    right = []
    for reader in readers:
        places = neighbours_of(graph, reader)
        sources, key = graph.features[places], graph.features[reader, 1:8]
        match = (sources[:, 1:8] == key).all(1)
        assert match.sum() == 1
        assert sources[match][0, 8:].argmax() == graph.labels[reader]
        assert graph.features[reader, 8:].eq(0).all()
        right.append(places[match].item())
    assert len(set(right)) == len(right)


def test_parts_are_graphs_of_their_own_and_the_seed_decides():
    make = partial(matching_neighbour, 5, 3, 2, k=3, n_values=5)
    parts, again, other = make(seed=0), make(seed=0), make(seed=1)
    assert [int(part.labels.ge(0).sum()) % 5 for part in (parts.train,)] == [0]
    assert len(parts.train.names) > len(parts.valid.names) > len(parts.test.names)
    assert parts.test.features.equal(again.test.features)
    assert parts.test.labels.equal(again.test.labels)
    assert not parts.train.features.equal(other.train.features)
    for part in (parts.train, parts.valid, parts.test):
        assert part.edges.max() < len(part.names) == len(part.features)
        assert part.labels[part.edges[1]].eq(-1).all()
