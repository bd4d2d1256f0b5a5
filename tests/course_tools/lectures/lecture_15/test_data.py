"""Graphs of pixels and of functions: nodes, edges in both directions, and no feature that gives an edge away."""

import pytest
import torch

from course_lib.datasets import digits
from course_tools.lectures.lecture_15.data import pixel_graphs, see_also

# Images as graphs: nodes, edges, and no edges between the graphs of a batch.


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


# References between functions: read from docstrings, resolved by name, in both directions; the section is not a feature.


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two topics on the path: references of one line and of several, with roles, to itself and to no one."""
    root = tmp_path / "mypack"
    root.mkdir()
    files = {
        "__init__.py": "",
        "red.py": '''
def one():
    """Rosy words.

    See Also
    --------
    two, three : Others, and green things.
    :func:`mypack.blue.four`
        A line that names six and two.

    Notes
    -----
    Notable seven.
    """

def two():
    """Red.

    See Also
    --------
    two: itself
    nobody : is not there
    """

def three():
    """Scarlet."""

def _hidden():
    """Hidden.

    See Also
    --------
    one
    """
''',
        "blue.py": '''
class four:
    """Azure.

    See Also
    --------
    one
    """

def seven():
    """Navy."""
''',
        "plain.py": '"""No section here: see one."""\ndef one():\n    """Nothing."""\n',
        "tests/test_x.py": 'def five():\n    """See Also\n    --------\n    one\n    """\n',
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "mypack"


def test_references_are_read_and_resolved(package):
    graph = see_also((package,), n_words=5)
    assert graph.names == ("mypack.blue.four", "mypack.red.one", "mypack.red.two", "mypack.red.three")
    assert graph.labels.tolist() == [1, 0, 0, 0]
    links = {(graph.names[i][7:], graph.names[j][7:]) for i, j in graph.edges.T.tolist()}
    assert links == {
        *(("red.one", other) for other in ("red.two", "red.three", "blue.four")),
        *((other, "red.one") for other in ("red.two", "red.three", "blue.four")),
    }


def test_the_section_itself_is_no_feature(package, monkeypatch):
    monkeypatch.setattr("course_tools.lectures.lecture_15.data._EVERYWHERE", 0)
    graph = see_also((package,), n_words=100)
    n_words = graph.features.ne(0).sum(1).tolist()
    assert n_words == [1, 5, 1, 1]
    torch.testing.assert_close(graph.features.norm(dim=1), torch.ones(4))


def test_a_topic_may_be_left_out(package):
    assert {name.split(".")[1] for name in see_also((package,), n_words=5, n_topics=1).names} == {"red"}


def test_a_package_that_is_not_there_or_refers_to_nothing_is_refused(package, tmp_path):
    with pytest.raises(ModuleNotFoundError, match="the package nowhere_to_be_found is not installed"):
        see_also(("nowhere_to_be_found",))
    (tmp_path / "silent").mkdir()
    (tmp_path / "silent" / "__init__.py").write_text("")
    with pytest.raises(ValueError, match="the docstrings of silent contain no section See Also"):
        see_also(("silent",))


@pytest.mark.slow
def test_the_installed_packages_make_a_graph_of_topics():
    """Margins, since versions differ: hundreds of functions, most references inside a topic, every node joined."""
    graph = see_also()
    n_nodes = len(graph.names)
    assert n_nodes > 500
    assert len(set(graph.names)) > 0.95 * n_nodes
    assert graph.edges.unique(dim=1).equal(graph.edges.flip(0).unique(dim=1))
    assert (graph.edges[0] != graph.edges[1]).all()
    assert graph.edges.unique().tolist() == list(range(n_nodes))
    assert graph.features.shape == (n_nodes, 500)
    assert graph.features.isfinite().all()
    assert graph.labels.unique().tolist() == list(range(16))
    assert (graph.labels[graph.edges[0]] == graph.labels[graph.edges[1]]).float().mean() > 0.7
