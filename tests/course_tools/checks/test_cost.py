"""What a call costs is counted in operations, and an exercise can set a limit for it."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention.linear import divide, mask_features
from course_tools.bank import exercise
from course_tools.checks.cost import CostCounter
from course_tools.checks.exercise import Exercise, costs_at_most, has_shape, loops_at_most, runs_on
from course_tools.checks.judge_answer import judge
from course_tools.checks.outcome import observe

X, Y = torch.randn(5, 7), torch.randn(7, 11)
TABLE, PLACES = torch.randn(101, 3), torch.tensor([2, 97])


@pytest.mark.parametrize(
    ("compute", "operations", "largest"),
    [
        (lambda: X @ Y, 5 * 7 * 11, (5, 11)),
        (lambda: torch.einsum("...ij,...jk->...ik", X, Y), 5 * 7 * 11, (1, 5, 11)),
        (lambda: X @ Y[:, 0], 5 * 7, (5,)),
        (lambda: X.sum(), 5 * 7, ()),
        (lambda: X + 1, 5 * 7, (5, 7)),
        (lambda: X[:, :, None] * Y, 5 * 7 * 11, (5, 7, 11)),
        (lambda: X.mT[None].expand(13, 7, 5)[3], 0, (0,)),
        (lambda: TABLE[PLACES], 2 * 3, (2, 3)),
        (lambda: F.embedding(PLACES, TABLE), 2 * 3, (2, 3)),
        (lambda: TABLE.index_put_((PLACES,), torch.ones(3)), 3 + 3, (3,)),
        (lambda: F.scaled_dot_product_attention(*3 * [X[None, None]]), 2 * 5 * 5 * 7, None),
    ],
)
def test_operations_are_those_of_the_kernels(compute, operations, largest):
    with CostCounter() as counter:
        compute()
    assert counter.cost.operations == operations
    assert largest is None or counter.cost.largest == largest


def numbers_one_by_one():
    return sum(torch.zeros(101, 7).sum() for _ in range(5))


def numbers_in_a_list():
    return sum(rows.sum() for rows in [torch.zeros(101, 7) for _ in range(5)])


def views_of_numbers():
    return [torch.zeros(101, 7)[:1] for _ in range(5)]


@pytest.mark.parametrize(("compute", "held"), [(numbers_one_by_one, 1), (numbers_in_a_list, 5), (views_of_numbers, 5)])
def test_memory_is_what_is_alive_at_one_time(compute, held):
    with CostCounter() as counter:
        compute()
    assert 0 <= counter.cost.held - 101 * 7 * held < 5
    assert counter._held == 0


def test_nothing_is_counted_unless_it_is_asked_for():
    assert observe(torch.relu, (X,)).cost is None
    assert observe(torch.relu, (X,), counted=True).cost.operations == X.numel()
    assert observe(lambda x: None, (X,), counted=True).cost is None


def by_products(x):
    return (x @ x.mT) @ x


def moved(x):
    return x @ (x.mT @ x)


ASKED = Exercise(
    id="09.1",
    title="A product of three",
    reference=moved,
    properties=(
        runs_on(lambda draw: [(draw.normal(5, 2),)]),
        has_shape("As many rows.", lambda draw: [(draw.normal(5, 2),)]),
        costs_at_most(8, "The cost grows with the length.", lambda draw: [(draw.normal(512, 2),)]),
    ),
    wrong=[by_products],
    right=[],
    hints=("", "", ""),
)


def test_a_dearer_order_of_the_same_products_fails_with_both_counts_and_the_shape():
    assert judge(ASKED, moved).passed
    (failed,) = (found for found in judge(ASKED, by_products).findings if found.status == "fails")
    assert failed.detail == (
        "It takes 1,048,576 operations on this input, and the reference 4,096. The largest tensor that it makes has shape "
        "(512, 512)."
    )


def in_a_loop(x):
    return torch.stack([row @ (x.mT @ x) for row in x])


def test_a_loop_fails_by_its_kernels_though_it_computes_no_more():
    few = loops_at_most(4, "No loop over rows.", lambda draw: [(draw.normal(64, 2),)])
    asked = replace(ASKED, properties=(*ASKED.properties[:2], few))
    assert judge(asked, moved).passed
    (failed,) = (found for found in judge(asked, in_a_loop).findings if found.status == "fails")
    assert failed.name == "loops"
    assert "calls of torch on this input, and the reference 2." in failed.detail


def test_a_right_cost_of_wrong_values_fails():
    assert not judge(ASKED, lambda x: 1.01 * moved(x)).passed


@pytest.mark.parametrize(
    ("id", "weights"),
    [("14.2", lambda q, k: q @ k.mT), ("14.3", lambda q, k: (q @ k.mT).tril())],
)
def test_quadratic_linear_attention_fails_and_is_named(id, weights):
    def answer(phi_q, phi_k, v, mask=None):
        w = weights(phi_q, mask_features(phi_k, mask))
        return divide(w @ v, w.sum(-1, keepdim=True))

    found = judge(exercise(id), answer)
    assert [f.name for f in found.findings if f.status == "fails"] == ["cost"]
    assert found.misconception.startswith("Your contexts are right, but their cost is that of softmax attention")
    assert 2 * found.points <= found.max_points
