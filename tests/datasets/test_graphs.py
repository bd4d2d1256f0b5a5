"""Graphs as data: people, functions that refer to each other, one neighbour that knows the answer, and Cora's archive."""

import hashlib
import http.server
import threading
from functools import partial

import numpy as np
import pytest
import torch

from course_lib.datasets import (
    Unreachable,
    WrongChecksum,
    cora,
    karate_club,
    les_miserables,
    marked_neighbour,
    matching_neighbour,
    see_also,
)

networkx = pytest.importorskip("networkx")


def is_undirected(edges):
    pairs = set(map(tuple, edges.T.tolist()))
    return len(pairs) == edges.shape[1] and pairs == {(j, i) for i, j in pairs} and all(i != j for i, j in pairs)


@pytest.mark.parametrize(
    ("load", "nodes", "links"), [(karate_club, 34, 78), (les_miserables, 77, 254)], ids=["karate_club", "les_miserables"]
)
def test_the_graphs_of_networkx_have_all_their_people_and_both_directions(load, nodes, links):
    graph = load()
    assert (len(graph.names), graph.edges.shape[1]) == (nodes, 2 * links)
    assert is_undirected(graph.edges)
    assert graph.features.equal(torch.eye(nodes))
    assert graph.labels.shape == (nodes,)


def test_the_leaders_of_the_club_are_on_different_sides_and_all_took_one():
    club = karate_club()
    assert (club.labels[0].item(), club.labels[33].item()) == (0, 1)
    assert club.labels.bincount().tolist() == [17, 17]
    assert torch.bincount(club.edges[0]).topk(2).indices.sort().values.tolist() == [0, 33]


def test_the_characters_have_names_and_no_sides():
    novel = les_miserables()
    assert "Valjean" in novel.names
    assert novel.names[torch.bincount(novel.edges[0]).argmax()] == "Valjean"
    assert novel.labels.eq(-1).all()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two topics on the path: references of one line and of several, with roles, to itself and to nobody."""
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
    monkeypatch.setattr("course_lib.datasets.references._EVERYWHERE", 0)
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
    with pytest.raises(ValueError, match="the docstrings of silent hold no section See Also"):
        see_also(("silent",))


@pytest.mark.slow
def test_the_installed_packages_make_a_graph_of_topics():
    """Margins, since versions differ: hundreds of functions, most references inside a topic, every node joined."""
    graph = see_also()
    n_nodes = len(graph.names)
    assert n_nodes > 500
    assert len(set(graph.names)) > 0.95 * n_nodes
    assert is_undirected(graph.edges)
    assert graph.edges.unique().tolist() == list(range(n_nodes))
    assert graph.features.shape == (n_nodes, 500)
    assert graph.features.isfinite().all()
    assert graph.labels.unique().tolist() == list(range(16))
    assert (graph.labels[graph.edges[0]] == graph.labels[graph.edges[1]]).float().mean() > 0.7


def neighbours_of(graph, reader):
    return graph.edges[1, graph.edges[0] == reader]


def test_the_marked_neighbour_knows_the_answer():
    graph = marked_neighbour(11, 3, 5, k=7, n_values=5, seed=1).train
    readers = graph.labels.ge(0).nonzero().flatten()
    assert len(readers) == 11
    for reader in readers:
        sources = graph.features[neighbours_of(graph, reader)]
        assert len(sources) == 7
        assert graph.features[reader].tolist() == [1.0] + [0.0] * 6
        (marked,) = sources[sources[:, 1] == 1]
        assert marked[2:].argmax() == graph.labels[reader]
        assert sources[:, 0].eq(0).all()
        assert sources[:, 2:].sum(1).eq(1).all()


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


@pytest.mark.parametrize("draw", [marked_neighbour, matching_neighbour])
def test_parts_are_graphs_of_their_own_and_the_seed_decides(draw):
    make = partial(draw, 5, 3, 2, k=3, n_values=5)
    parts, again, other = make(seed=0), make(seed=0), make(seed=1)
    assert [int(part.labels.ge(0).sum()) % 5 for part in (parts.train,)] == [0]
    assert len(parts.train.names) > len(parts.valid.names) > len(parts.test.names)
    assert parts.test.features.equal(again.test.features)
    assert parts.test.labels.equal(again.test.labels)
    assert not parts.train.features.equal(other.train.features)
    for part in (parts.train, parts.valid, parts.test):
        assert part.edges.max() < len(part.names) == len(part.features)
        assert part.labels[part.edges[1]].eq(-1).all()


@pytest.fixture
def archive(tmp_path):
    """An archive of the form of Cora's: 4 papers, 3 words, a citation in each direction, one twice, one of itself."""
    words, links = np.array([[1, 0, 2], [0, 0, 1], [1, 1, 1], [0, 0, 0]]), np.zeros((4, 4), int)
    links[[0, 1, 2, 3], [1, 0, 0, 3]] = 1
    path = tmp_path / "cora.npz"
    arrays = {"labels": np.array([1, 0, 2, 2]), "idx_to_class": np.array([{"a": 1}], dtype=object)}
    for kind, matrix in (("attr", words), ("adj", links)):
        rows, columns = matrix.nonzero()
        arrays[f"{kind}_data"], arrays[f"{kind}_shape"] = matrix[rows, columns], np.array(matrix.shape)
        arrays[f"{kind}_indices"], arrays[f"{kind}_indptr"] = columns, np.bincount(rows + 1, minlength=5).cumsum()
    np.savez(path, **arrays)
    return path


@pytest.fixture
def address(archive):
    """The archive behind an address of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=archive.parent)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{archive.name}"
        server.shutdown()
        thread.join()


def test_cora_is_read_as_a_graph(address, archive, tmp_path):
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    graph = cora(2, source=(address, checksum), folder=tmp_path / "cache")
    assert graph.edges.T.tolist() == [[0, 1], [0, 2], [1, 0], [2, 0]]
    assert graph.features.tolist() == [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    assert graph.labels.tolist() == [1, 0, 2, 2]
    assert graph.names == ("0", "1", "2", "3")


def test_another_archive_or_none_is_refused(address, archive, tmp_path):
    with pytest.raises(WrongChecksum):
        cora(source=(address, "0" * 64), folder=tmp_path / "cache")
    with pytest.raises(Unreachable, match="no lecture needs it"):
        cora(source=("http://127.0.0.1:9/cora.npz", "0" * 64), folder=tmp_path / "cache")
    archive.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="does not hold a graph as Cora's archive does"):
        cora(source=(address, hashlib.sha256(b"no archive").hexdigest()), folder=tmp_path / "cache")
