"""A graph of functions: nodes, edges in both directions, no feature that gives an edge away, and a few labels of each topic."""

import pytest
import torch

from course_tools.lectures.lecture_15.data import few_labels, see_also

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


def test_few_labels_are_as_many_of_each_class_and_all_others_are_asked():
    labels = torch.tensor([0, 1, 2]).repeat(7)
    known, asked = few_labels(labels, 3, seed=0)
    assert labels[known].bincount().tolist() == [3, 3, 3]
    assert torch.cat([known, asked]).sort().values.tolist() == list(range(21))
    assert not torch.equal(known, few_labels(labels, 3, seed=1)[0])
