"""Exercise 12.5, match: what students answer, wrong and right."""

from itertools import permutations

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from course_lib.losses import match, match_greedily
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Two objects have the same cheapest query, and the second has only a very expensive alternative. Which should get "
        "it, if the sum is to be smallest? What does your code do?"
    ),
    (
        "`linear_sum_assignment` takes one matrix and gives the rows and the columns of the cheapest pairs. Give it the "
        "columns of the real objects of one image, and record the row of each column."
    ),
    (
        "For each image alone: find the places of the real objects, give only their columns to `linear_sum_assignment`, "
        "and write the queries that it returns to these places of a row that was full of -1."
    ),
)


def _assign(cost, classes, choose):
    """Fill in -1 everywhere, and at the real objects of each image what `choose` says of their columns."""
    queries = torch.full(classes.shape, -1)
    for row, costs, kinds in zip(queries, cost.detach(), classes, strict=True):
        (places,) = (kinds >= 0).nonzero(as_tuple=True)
        if len(places):
            row[places] = torch.as_tensor(choose(costs[:, places]), dtype=torch.long)
    return queries


def _optimal(costs):
    n, m = linear_sum_assignment(costs.numpy())
    return torch.as_tensor(n)[torch.as_tensor(m).argsort()]


@wrong.idea
def lets_each_take_its_favourite(cost, classes):
    """You give every object its cheapest query. Two objects may then get the same one: the matching must be one-to-one."""
    return _assign(cost, classes, lambda costs: costs.argmin(0))


@wrong.part
def serves_the_objects_in_turn(cost, classes):
    """You let one object after the other take the cheapest query that is free. The *sum* must be the smallest, and yours
    depends on the order of the objects."""

    def choose(costs):
        costs, chosen = costs.clone(), []
        for m in range(costs.shape[1]):
            chosen.append(int(costs[:, m].argmin()))
            costs[chosen[-1]] = torch.inf
        return chosen

    return _assign(cost, classes, choose)


@wrong.part
def takes_the_cheapest_pair_first(cost, classes):
    """You take the cheapest pair, remove it, and repeat. That is greedy too, and does not minimise the sum."""

    def choose(costs):
        costs, chosen = costs.clone(), [0] * costs.shape[1]
        for _ in chosen:
            n, m = divmod(int(costs.argmin()), costs.shape[1])
            chosen[m] = n
            costs[n], costs[:, m] = torch.inf, torch.inf
        return chosen

    return _assign(cost, classes, choose)


@wrong.idea
def looks_for_the_dearest(cost, classes):
    """You maximise. The entries are costs: the best matching has the smallest sum."""
    return _assign(cost, classes, lambda costs: _optimal(-costs))


@wrong.detail
def matches_padding_too(cost, classes):
    """You match padding too. A class of -1 is padding: it takes no query, and its entry is -1."""
    return _assign(cost, torch.zeros_like(classes), _optimal)


@wrong.detail
def lists_them_in_the_order_of_the_queries(cost, classes):
    """You return the rows as `linear_sum_assignment` gives them, in ascending order. They belong to the columns returned
    with them: write each query at the index of its object."""
    return _assign(cost, classes, lambda costs: linear_sum_assignment(costs.numpy())[0])


@wrong.part
def gives_the_columns(cost, classes):
    """You return the columns, the object of each matched query. Asked for is the query of each object: the rows."""
    return _assign(cost, classes, lambda costs: linear_sum_assignment(costs.numpy())[1])


@wrong.part
def exchanges_rows_and_columns(cost, classes):
    """You write the columns at the indices of the rows. Rows are queries, columns objects: at the index of an object, a column,
    stands its query, a row."""
    queries = torch.full_like(classes, -1)
    for b, (costs, kinds) in enumerate(zip(cost.detach(), classes, strict=True)):
        n, m = linear_sum_assignment(costs[:, kinds >= 0].numpy())
        queries[b, torch.as_tensor(n)] = torch.as_tensor(m)
    return queries


@wrong.part
def exchanges_them_as_arrays(cost, classes):
    """You exchange rows and columns: your indices are the rows, the queries. The result has a place for each object, a column,
    and its query, the row, stands there."""
    queries = torch.full_like(classes, -1)
    for b, (costs, kinds) in enumerate(zip(cost.detach(), classes, strict=True)):
        n, m = linear_sum_assignment(costs[:, kinds >= 0].numpy())
        queries[b, n] = torch.as_tensor(m)
    return queries


@wrong.idea
def matches_nothing(cost, classes):
    """You give the first object the first query, the second the second, whatever it costs: the numbers of the columns in
    ascending order, as `linear_sum_assignment` returns them second, are no queries."""
    return _assign(cost, classes, lambda costs: torch.arange(costs.shape[1]))


@wrong.part
def lets_padding_compete(cost, classes):
    """You give all columns to `linear_sum_assignment` and mark padding afterwards. Padding then takes queries away from the
    objects: give it the columns of real objects only."""
    queries = _assign(cost, torch.zeros_like(classes), _optimal)
    return queries.masked_fill(classes < 0, -1)


@wrong.case
def takes_the_padding_for_the_end(cost, classes):
    """You count the real objects and take that many columns from the front. Padding may also stand between objects: take the
    columns where the class is not -1."""
    queries = torch.full(classes.shape, -1)
    for row, costs, n in zip(queries, cost.detach(), (classes >= 0).sum(-1).tolist(), strict=True):
        if n:
            row[:n] = _optimal(costs[:, :n])
    return queries


@wrong.part
def matches_the_first_picture_for_all(cost, classes):
    """You solve the first image and use its matching for all. Every image has its own costs."""
    first = cost[:1].expand_as(cost)
    return _assign(first, classes, _optimal)


@wrong.case
def moves_the_objects_to_the_front(cost, classes):
    """You write the queries of the real objects one after the other at the front. Where there is padding between objects
    they are shifted: each query belongs at the index of its object."""
    queries = torch.full(classes.shape, -1)
    for row, costs, kinds in zip(queries, cost.detach(), classes, strict=True):
        real = kinds >= 0
        if real.any():
            row[: int(real.sum())] = _optimal(costs[:, real])
    return queries


@wrong.case
def marks_padding_by_zero(cost, classes):
    """You leave 0 where there is no object. 0 is a query, the first one; "none" is written -1."""
    return _assign(cost, classes, _optimal).clamp(min=0)


@wrong.detail
def assigns_the_whole_batch_at_once(cost, classes):
    """You call `linear_sum_assignment` for the whole batch. It takes one matrix: call it for each image."""
    rows, columns = linear_sum_assignment(cost.detach().numpy())
    queries = torch.full_like(classes, -1)
    queries[:, torch.as_tensor(columns)] = torch.as_tensor(rows)
    return queries


@right
def by_trying_all(cost, classes):
    """Every one-to-one choice of queries, and the cheapest of them."""

    def choose(costs):
        columns = torch.arange(costs.shape[1])
        ways = [torch.tensor(way) for way in permutations(range(costs.shape[0]), costs.shape[1])]
        return min(ways, key=lambda way: float(costs[way, columns].double().sum()))

    return _assign(cost, classes, choose)


@right
def of_the_objects_as_rows(cost, classes):
    """SciPy on the transposed matrix: its rows are the objects then, and come in their order."""
    return _assign(cost, classes, lambda costs: linear_sum_assignment(costs.mT.numpy())[1])


@right
def with_costly_padding(cost, classes):
    """One square matrix for each image: padding and missing columns all cost the same, so they take what is left."""
    B, N, M = cost.shape
    queries = torch.full(classes.shape, -1)
    for b in range(B):
        square = torch.zeros(N, max(N, M), dtype=torch.float64)
        square[:, :M] = torch.where(classes[b] >= 0, cost[b].detach().double() - 1e4, 0.0)
        for n, m in zip(*linear_sum_assignment(square.numpy()), strict=True):
            if m < M and classes[b, m] >= 0:
                queries[b, m] = int(n)
    return queries


@stranger
def match_in_reversed_order(cost, classes):
    return match(cost.flip(1), classes)


@stranger
def match_of_absolute_costs(cost, classes):
    return match(cost.abs(), classes)


@stranger
def match_from_the_last_object(cost, classes):
    return match_greedily(cost.flip(-1), classes.flip(-1)).flip(-1)


@stranger(makes=[lets_each_take_its_favourite])
def favourites_by_one_hot(cost, classes):
    return torch.where(classes >= 0, F.one_hot(cost.argmin(1), cost.shape[1]).argmax(-1), -1)


@stranger(makes=[looks_for_the_dearest, marks_padding_by_zero])
def match_the_dearest_and_mark_by_zero(cost, classes):
    return match(-cost, classes).clamp(min=0)


def _objects(draw: Draw, B: int, M: int) -> Tensor:
    return draw.integers(0, 10, B, M)


def _scene(draw: Draw, B: int, N: int, M: int) -> Call:
    return draw.normal(B, N, M), _objects(draw, B, M)


def _alone(draw: Draw) -> list[Call]:
    """One object; the cheapest query is not the first one."""
    costs = 1 + draw.uniform(2, 5, 1)
    costs[0, 3], costs[1, 1] = 0.1, -0.2
    return [(costs, _objects(draw, 2, 1))]


def _contested(draw: Draw) -> list[Call]:
    """Two objects like one query best, and the second has nothing else that is cheap; in either order of the queries."""
    calls = []
    for N in (2, 3, 6):
        costs = 6 + draw.uniform(1, N, 2)
        costs[0, N - 1, 0], costs[0, N - 1, 1], costs[0, 0, 0] = 0.1, 0.4, 1.0 + draw.uniform(1).item()
        turned = costs.flip(1)
        calls.append((torch.cat([costs, turned]), _objects(draw, 2, 2)))
    return calls


def _padded(draw: Draw) -> list[Call]:
    """No object first, in the middle, last, everywhere; padding is cheapest of all, and most so where another object is."""
    costs, classes = _scene(draw, 4, 6, 3)
    classes[0, 0], classes[1, 1], classes[2, 2], classes[3] = -1, -1, -1, -1
    return [(torch.where((classes >= 0)[:, None], costs, 10 * costs.roll(-1, -1) - 20), classes)]


def _many(draw: Draw) -> list[Call]:
    return [_scene(draw, 7, 5, 3), _scene(draw, 5, 4, 4), _scene(draw, 5, 6, 2)]


exercise = Exercise(
    id="12.5",
    title="The matching of least cost",
    reference=match,
    properties=(
        runs_on(lambda draw: [_scene(draw, 2, 5, 3)]),
        has_shape("An integer, the index of a query, for each object.", lambda draw: [_scene(draw, 2, 5, 3)]),
        Property("one object", "A single object gets its cheapest query.", _alone),
        Property(
            "smallest sum", "The sum is the smallest, not each cost on its own.", _contested, points=3, needs=("one object",)
        ),
        Property(
            "many", "Each object gets its own query, in the order of the objects.", _many, points=2, needs=("smallest sum",)
        ),
        Property("padding", "Padding takes no query, and gets -1.", _padded, points=3),
        leaves_inputs(_many),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "All answers are called for the CPU, in float32, without gradients, and no cost is so near another; SciPy "
            "takes a tensor as well as an array; the three lists that are zipped are of one length."
        ): (
            "constant: zip(queries.numpy(), of_objects, real.cpu().numpy(), strict=False)",
            "drop argument: return queries.to()",
            "drop call: real.numpy",
            "drop call: cost.cpu",
            "drop call: of_objects = cost.detach().cpu().double().mT",
            "drop call: cost.detach().cpu().mT",
            "drop call: cost.detach().double",
            "drop call: return queries",
            "drop keyword: for row, costs, here in zip(queries.numpy(), of_objects, real.cpu().numpy()):",
            "negate: (~classes).shape",
            "other name: classes.device",
            "other name: costs.device",
            "other name: here.device",
            "other name: of_objects.device",
            "other name: queries.device",
            "other name: real.device",
            "other name: row.device",
        ),
    },
    hints=HINTS,
)
