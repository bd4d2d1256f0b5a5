"""Small graphs in which only the neighbour with the reader's key has the answer: an average of the features cannot find it.

The DICTIONARYLOOKUP of Brody, Alon, Yahav 2022, section 4.1 (https://arxiv.org/abs/2105.14491): which neighbour to attend to
depends on the reader.
"""

import torch
import torch.nn.functional as F

from course_lib.datasets.social_networks import Graph
from course_lib.datasets.splits import Splits

__all__ = ["matching_neighbour"]


def matching_neighbour(n_train: int, n_valid: int, n_test: int, k: int = 8, n_values: int = 8, seed: int = 0) -> Splits[Graph]:
    """Draw groups of k readers with the same k neighbours; the answer is the value of the neighbour with the reader's key.

    Args:
        n_train: groups for training.
        n_valid: groups for validation.
        n_test: groups for the test.
        k: neighbours, readers and keys of a group: every key occurs once among the neighbours and once among the readers.
        n_values: how many values there are.
        seed: seed of all random draws.

    Returns:
        Splits of graphs; in each, the k neighbours of a group precede its readers, whose labels are the answers; those of
        the neighbours are -1. Features (N, 1 + k + n_values): whether a node reads, its key and its value as one-hot (readers
        have no value).
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(n: int) -> Graph:
        values = torch.randint(n_values, (n, k), generator=generator)
        keys, asked = (torch.rand(n, k, generator=generator).argsort(-1) for _ in range(2))
        sources = torch.cat([torch.zeros(n, k, 1), F.one_hot(keys, k).float(), F.one_hot(values, n_values).float()], dim=-1)
        readers = torch.cat([torch.ones(n, k, 1), F.one_hot(asked, k).float(), torch.zeros(n, k, n_values)], dim=-1)
        return _groups(sources, readers, values.gather(1, keys.argsort(-1).gather(1, asked)))

    return Splits(*(draw(n) for n in (n_train, n_valid, n_test)))


def _groups(sources: torch.Tensor, readers: torch.Tensor, answers: torch.Tensor) -> Graph:
    """Concatenate groups of sources (n, k, d) and readers (n, r, d); a reader attends to the sources of its group."""
    (n, k, d), r = sources.shape, readers.shape[1]
    first = torch.arange(n)[:, None, None] * (k + r)
    looking = (first + k + torch.arange(r)[:, None]).expand(n, r, k)
    looked_at = (first + torch.arange(k)).expand(n, r, k)
    labels = torch.cat([torch.full((n, k), -1), answers], dim=1)
    features = torch.cat([sources, readers], dim=1).view(-1, d)
    edges = torch.stack([looking.flatten(), looked_at.flatten()])
    return Graph(edges, features, labels.flatten(), tuple(map(str, range(n * (k + r)))))
