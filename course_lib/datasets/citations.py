"""Cora: 19,793 papers that cite each other, with the words of their abstracts, from the network. No lecture needs it.

McCallum, Nigam, Rennie, Seymore 2000, *Automating the Construction of Internet Portals with Machine Learning*
(https://doi.org/10.1023/A:1009953814988), complete, as prepared by Bojchevski & Günnemann 2018, *Deep Gaussian Embedding of
Graphs* (https://arxiv.org/abs/1707.03815). The Cora of most papers, with 2,708 nodes, is a part of it. The checksum is the one
that GraphMLDatasets.jl published (src/cora.jl).
"""

from pathlib import Path

import numpy as np
import torch

from course_lib.datasets.download import download
from course_lib.datasets.social_networks import Graph

__all__ = ["cora"]

CORA = (
    "https://github.com/abojchevski/graph2gauss/raw/master/data/cora.npz",
    "62e054f93be00a3dedb15b7ac15a2a07168ceab68b40bf95f54d2289d024c6bc",
)


def cora(n_words: int = 1_433, *, source: tuple[str, str] = CORA, folder: Path | None = None) -> Graph:
    """Download Cora on the first call, and read it as a graph; only arrays of numbers are read, nothing is unpickled.

    Args:
        n_words: number of words to keep as features, the most frequent ones: all 8,710 would take 700 MB.
        source: (address, SHA-256) of the archive; replace it to use a mirror.
        folder: where the archive is kept; the user's cache folder if None.

    Returns:
        Graph with both directions of each citation; features 0 or 1 for each word, the most frequent first; one of 70 topics as
        the label; numbers as names.

    Raises:
        Unreachable: there is no network.
        WrongChecksum: the archive is not the one expected.
        ValueError: the archive does not hold a graph.
    """
    path = download(*source, folder)
    try:
        with np.load(path, allow_pickle=False) as file:
            words, links = (
                _places(file["attr_indptr"], file["attr_indices"]),
                _places(file["adj_indptr"], file["adj_indices"]),
            )
            labels = torch.from_numpy(file["labels"]).long()
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{path.name} does not contain a graph in the format of Cora's archive ({error}).") from error
    frequent = words[1].bincount().argsort(descending=True, stable=True)[:n_words]
    column = torch.full((int(words[1].max()) + 1,), -1).index_copy(0, frequent, torch.arange(len(frequent)))
    papers, kept = words[:, column[words[1]] >= 0]
    features = torch.zeros(len(labels), len(frequent)).index_put((papers, column[kept]), torch.ones(()))
    both = torch.cat([links, links.flip(0)], dim=1).unique(dim=1)
    return Graph(both[:, both[0] != both[1]], features, labels, tuple(map(str, range(len(labels)))))


def _places(starts: np.ndarray, columns: np.ndarray) -> torch.Tensor:
    """Return the indices (2, n) of the entries of a sparse matrix, given its row starts and the columns of each row."""
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return torch.from_numpy(np.stack([rows, columns])).long()
