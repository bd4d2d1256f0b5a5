"""A graph made from docstrings: functions whose sections See Also name each other."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.datasets.social_networks import Graph
from course_tools.notebook.docstrings import PACKAGES, documented

# A citation graph on your own machine: functions of scientific packages, and the "See Also" sections that join them.
#
# The docstrings of numpy, scipy and scikit-learn (each BSD-3-Clause) follow numpydoc,
# https://numpydoc.readthedocs.io/en/latest/format.html: a section "See Also" names related functions (read by
# `notebook.docstrings`, in a second or two).
# The graph follows the versions that are installed: claims about it need a margin.


_SECTION = re.compile(r"^See Also\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)
_EVERYWHERE = 50


class _Documented(NamedTuple):
    """One function or class: its name, its docstring, and the names that it refers to."""

    name: str
    topic: str
    words: Counter[str]
    see_also: tuple[str, ...]


def see_also(packages: tuple[str, ...] = PACKAGES, n_words: int = 500, n_topics: int = 16) -> Graph:
    """Read the graph of references between the functions and classes of installed packages.

    Nodes are those of the most frequent topics that refer to another, or are referred to. An edge joins two in both
    directions. Features are the words of the docstring *without* its section "See Also", log(1 + count), scaled to length 1;
    names and topics are not included, except where the text mentions them.

    Args:
        packages: installed packages whose docstrings follow numpydoc.
        n_words: number of words to keep: the most frequent ones except the first fifty, which are in every text.
        n_topics: number of topics to keep: those with the most functions. A topic is a sub-package, such as scipy.stats.

    Returns:
        Graph with the topic as label, from 0 for the most frequent, and names such as "scipy.stats.pearsonr".

    Raises:
        ModuleNotFoundError: a package is not installed.
        ValueError: the docstrings contain no references.
    """
    found = [item for package in packages for item in _documented(package)]
    topics = [topic for topic, _ in Counter(item.topic for item in found if item.see_also).most_common(n_topics)]
    found = [item for item in found if item.topic in topics]
    pairs = set(_references(found))
    pairs |= {(j, i) for i, j in pairs}
    if not pairs:
        raise ValueError(f"the docstrings of {', '.join(packages)} contain no section See Also that names another of them.")
    joined = sorted({i for i, _ in pairs})
    number = {old: new for new, old in enumerate(joined)}
    nodes = [found[old] for old in joined]
    edges = torch.tensor(sorted((number[i], number[j]) for i, j in pairs)).mT.contiguous()
    labels = torch.tensor([topics.index(item.topic) for item in nodes])
    return Graph(edges, _bags(nodes, n_words), labels, tuple(item.name for item in nodes))


def few_labels(labels: Tensor, per_class: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw `per_class` nodes of each class by the seed; return their numbers and those of all other nodes."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    known = torch.cat([order[labels[order] == each][:per_class] for each in labels.unique()])
    return known, order[~torch.isin(order, known)]


@cache
def _documented(package: str) -> tuple[_Documented, ...]:
    """Find the public functions and classes of a package with a docstring, in the order of its files; once in a process."""
    found = []
    for item in documented(package):
        section = _SECTION.search(item.docstring)
        words = Counter(re.findall(r"[a-z]{3,}", _SECTION.sub("", item.docstring).lower()))
        found.append(_Documented(item.name, item.topic, words, _named(section[1] if section else "")))
    return tuple(found)


def _named(section: str) -> tuple[str, ...]:
    """Read the names of a section "See Also": those that are not indented, before a colon if there is one."""
    lines = [re.sub(r":\w+:|`", "", line) for line in section.splitlines() if not line.startswith(" ")]
    return tuple(name.rpartition(".")[2] for line in lines for name in re.findall(r"[A-Za-z_][\w.]*\w", line.partition(":")[0]))


def _references(found: list[_Documented]) -> Iterator[tuple[int, int]]:
    """Resolve names to functions: in the same topic if there is one, else in the same package, else anywhere if unique."""
    places: dict[str, list[int]] = {}
    for i, item in enumerate(found):
        places.setdefault(item.name.rpartition(".")[2], []).append(i)
    for i, item in enumerate(found):
        package = item.topic.partition(".")[0]
        for name in item.see_also:
            candidates = places.get(name, [])
            near = [j for j in candidates if found[j].topic == item.topic]
            near = near or [j for j in candidates if found[j].topic.startswith(f"{package}.")]
            target = near[0] if near else candidates[0] if len(candidates) == 1 else i
            if target != i:
                yield i, target


def _bags(nodes: list[_Documented], n_words: int) -> torch.Tensor:
    """Count the frequent words, without those that are in nearly every text."""
    documents: Counter[str] = Counter()
    for item in nodes:
        documents.update(item.words.keys())
    frequent = documents.most_common(_EVERYWHERE + n_words)[_EVERYWHERE:]
    bags = torch.zeros(len(nodes), n_words)
    bags[:, : len(frequent)] = torch.tensor([[item.words[word] for word, _ in frequent] for item in nodes])
    return torch.nn.functional.normalize(bags.log1p(), dim=-1)
