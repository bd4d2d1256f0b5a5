"""Matching: the cheapest of all matchings, by brute force; the cost of greedy matching; and errors."""

from itertools import permutations

import pytest
import torch

from course_lib.losses import match, match_greedily, match_in_order

B, N, M = 3, 5, 4
EVERY = torch.zeros(B, M, dtype=torch.long)


def costs(seed=0, n=N, m=M):
    return torch.randn(B, n, m, generator=torch.Generator().manual_seed(seed))


def total(cost, queries):
    return cost.gather(1, queries[:, None].clamp(min=0)).squeeze(1).masked_fill(queries < 0, 0.0).sum(-1)


@pytest.mark.parametrize("seed", range(10))
def test_no_matching_is_cheaper(seed):
    cost = costs(seed)
    best = torch.stack([total(cost, torch.tensor(way).expand(B, M)) for way in permutations(range(N), M)]).amin(0)
    torch.testing.assert_close(total(cost, match(cost, EVERY)), best)


def test_by_hand_where_greed_is_dear():
    """The first object takes query 0, a little cheaper for it; the second can only take query 1, at 10."""
    cost = torch.tensor([[[0.0, 0.1], [0.2, 10.0], [20.0, 20.0]]])
    both = torch.zeros(1, 2, dtype=torch.long)
    assert match(cost, both).tolist() == [[1, 0]]
    assert match_greedily(cost, both).tolist() == [[0, 1]]
    assert match_in_order(cost, both).tolist() == [[0, 1]]
    assert match_greedily(cost.flip(-1), both).tolist() == [[0, 1]], "the other object chooses first"


@pytest.mark.parametrize("matching", [match, match_greedily, match_in_order])
def test_every_object_has_a_query_of_its_own_and_padding_has_none(matching):
    classes = torch.tensor([[2, 0, 1, 1], [-1, 3, -1, 0], [-1, -1, -1, -1]])
    queries = matching(costs(), classes)
    assert ((queries >= 0) == (classes >= 0)).all()
    for row in queries:
        spoken = row[row >= 0].tolist()
        assert len(set(spoken)) == len(spoken)
        assert all(0 <= n < N for n in spoken)


def test_padding_changes_nothing():
    cost, classes = costs(), torch.tensor([[1, 1, -1, -1]] * B)
    short = match(cost[..., :2], EVERY[:, :2])
    assert torch.equal(match(cost, classes)[:, :2], short)
    assert torch.equal(match(cost, classes.flip(-1))[:, 2:], match(cost[..., 2:], EVERY[:, :2]))


def test_objects_in_another_order_keep_their_queries():
    cost, order = costs(), torch.tensor([2, 0, 3, 1])
    assert torch.equal(match(cost[..., order], EVERY), match(cost, EVERY)[:, order])


def test_queries_in_another_order_are_followed():
    cost, order = costs(), torch.tensor([4, 2, 0, 3, 1])
    assert torch.equal(order[match(cost[:, order], EVERY)], match(cost, EVERY))


@pytest.mark.parametrize("matching", [match, match_greedily, match_in_order])
def test_more_objects_than_queries_are_refused(matching):
    with pytest.raises(ValueError, match="4 objects, but the model only 3 queries"):
        matching(costs(n=3), EVERY)
    few = torch.tensor([[0, -1, -1, 1]] * B)
    assert (matching(costs(n=3), few)[:, [0, 3]] >= 0).all()


@pytest.mark.parametrize("matching", [match, match_greedily])
def test_costs_that_are_no_numbers_are_refused(matching):
    cost = costs()
    cost[1, 2, 3] = torch.nan
    with pytest.raises(ValueError, match="not finite"):
        matching(cost, EVERY)


@pytest.mark.parametrize("matching", [match, match_greedily, match_in_order])
def test_pictures_without_a_place_for_objects(matching):
    assert matching(costs(m=0), EVERY[:, :0]).shape == (B, 0)


@pytest.mark.parametrize("matching", [match, match_greedily, match_in_order])
def test_without_a_query_nothing_is_matched_and_an_object_is_refused(matching):
    assert torch.equal(matching(costs(n=0), EVERY - 1), EVERY - 1)
    with pytest.raises(ValueError, match="4 objects, but the model only 0 queries"):
        matching(costs(n=0), EVERY)


def test_costs_are_compared_in_all_their_digits():
    """1e-12 apart: in single precision all four are the same."""
    cost = 1 + 1e-12 * torch.eye(2, dtype=torch.float64)[None]
    assert match(cost, EVERY[:1, :2]).tolist() == [[1, 0]]
    assert match(cost.flip(-1), EVERY[:1, :2]).tolist() == [[0, 1]]


@pytest.mark.parametrize("matching", [match, match_greedily, match_in_order])
def test_classes_may_be_of_any_integers(matching):
    classes = torch.tensor([[2, 0, 1, 1], [-1, 3, -1, 0], [-1, -1, -1, -1]])
    assert torch.equal(matching(costs(), classes.int()), matching(costs(), classes))
