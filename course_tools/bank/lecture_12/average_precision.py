"""Exercise 12.7, average_precision: what students answer, wrong and right."""

import torch

from course_lib.metrics import average_precision
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Three objects; the detections, most confident first: hit, miss, hit. What are precision and recall after one, two and "
        "three detections? Which precision is the best that reaches a recall of a half?"
    ),
    (
        "Sort the hits by falling score; their running sum over 1, 2, 3 … is the precision, over n_objects the recall. "
        "For each of the 101 recalls 0, 0.01, …, 1 take the largest precision of all ranks whose recall is at least that, "
        "else 0."
    ),
    (
        "The best precision from each rank on is a running maximum, taken from the back: turn the list round, "
        "`cummax`, and turn it round again. Where a recall is reached first, `torch.searchsorted` finds in the rising "
        "recalls; it gives the length of the list for one that is never reached, so append a 0 to the precisions."
    ),
)


def _curve(scores, hits, n_objects):
    """Precision and recall after each detection, the most confident first."""
    found = hits[scores.argsort(descending=True)].double().cumsum(0)
    return found / torch.arange(1, len(found) + 1), found / n_objects


def _mean_at(precision, recall, recalls):
    """The mean over `recalls` of the best precision that reaches each of them."""
    reached = recall >= recalls[:, None]
    best = torch.where(reached, precision, 0.0).amax(-1) if len(precision) else torch.zeros(len(recalls))
    return best.mean()


RECALLS = torch.linspace(0, 1, 101, dtype=torch.float64)


@wrong.idea
def keeps_the_order_of_the_detections(scores, hits, n_objects):
    """You never sort by confidence. The precision-recall curve goes through the detections in descending confidence."""
    found = hits.double().cumsum(0)
    return _mean_at(found / torch.arange(1, len(found) + 1), found / n_objects, RECALLS).to(scores.dtype)


@wrong.idea
def begins_with_the_least_confident(scores, hits, n_objects):
    """You sort by ascending confidence. The order must be descending."""
    return _mean_at(*_curve(-scores, hits, n_objects), RECALLS).to(scores.dtype)


@wrong.detail
def takes_the_precision_as_it_stands(scores, hits, n_objects):
    """You read the precision off where a recall is reached first. Further down the list it may be higher again: take the
    best precision of all ranks that reach the recall."""
    precision, recall = _curve(scores, hits, n_objects)
    first = torch.searchsorted(recall, RECALLS)
    return torch.cat([precision, torch.zeros(1)])[first].mean().to(scores.dtype)


@wrong.detail
def averages_at_the_hits(scores, hits, n_objects):
    """You average the precision at the hits. That is the average precision of retrieval; here it is read at 101 recalls, and
    each time the best that reaches the recall counts."""
    precision, _ = _curve(scores, hits, n_objects)
    ordered = hits[scores.argsort(descending=True)]
    return ((precision * ordered).sum() / n_objects).to(scores.dtype)


@wrong.detail
def reads_at_eleven_recalls(scores, hits, n_objects):
    """You read at eleven recalls, 0, 0.1, …, 1, as the Pascal challenge did in its first years. There are 101 here."""
    return _mean_at(*_curve(scores, hits, n_objects), torch.linspace(0, 1, 11, dtype=torch.float64)).to(scores.dtype)


@wrong.part
def recalls_among_the_hits(scores, hits, n_objects):
    """You divide by the number of hits rather than by the number of objects. Then the last recall is always 1, even where
    most objects were missed."""
    return _mean_at(*_curve(scores, hits, max(int(hits.sum()), 1)), RECALLS).to(scores.dtype)


@wrong.part
def recalls_among_the_detections(scores, hits, n_objects):
    """You divide the hits by the number of detections to get the recall. Recall is the fraction of the *objects* that were
    found."""
    return _mean_at(*_curve(scores, hits, max(len(hits), 1)), RECALLS).to(scores.dtype)


@wrong.detail
def leaves_out_what_is_never_reached(scores, hits, n_objects):
    """You average only over the recalls that are reached. Recalls that are never reached count 0."""
    precision, recall = _curve(scores, hits, n_objects)
    reached = RECALLS[recall.max() >= RECALLS] if len(recall) else RECALLS
    return _mean_at(precision, recall, reached).to(scores.dtype)


@wrong.part
def looks_for_the_best_before(scores, hits, n_objects):
    """Your running maximum goes from the front. What counts is the best precision from each rank on: take it from the back."""
    precision, recall = _curve(scores, hits, n_objects)
    best = precision.cummax(0).values if len(precision) else precision
    return torch.cat([best, torch.zeros(1)])[torch.searchsorted(recall, RECALLS)].mean().to(scores.dtype)


@wrong.idea
def divides_by_the_objects(scores, hits, n_objects):
    """You return the last recall. It is independent of the false detections."""
    return (hits.sum() / n_objects).to(scores.dtype)


@wrong.idea
def averages_the_precision(scores, hits, n_objects):
    """You average the precision over all detections. It must be averaged over the 101 recalls."""
    precision, _ = _curve(scores, hits, n_objects)
    return precision.mean().to(scores.dtype) if len(precision) else scores.sum()


@wrong.case
def wants_a_detection(scores, hits, n_objects):
    """Yours fails where nothing was detected. The average precision of an empty list is 0."""
    precision, recall = _curve(scores, hits, n_objects)
    reached = recall >= RECALLS[:, None]
    return torch.where(reached, precision, 0.0).amax(-1).mean().to(scores.dtype)


@wrong.case
def turns_equal_scores_round(scores, hits, n_objects):
    """You sort upwards and turn the list round: detections of equal scores then stand in reverse order. Sort downwards, by
    `descending=True, stable=True`."""
    order = scores.argsort(stable=True).flip(0)
    return average_precision(torch.arange(len(scores), 0, -1.0), hits[order], n_objects)


@wrong.part
def takes_the_area_by_trapezoids(scores, hits, n_objects):
    """You take the area below the curve by trapezoids, from its own points. Here the best precision that reaches each of 101
    recalls is averaged."""
    precision, recall = _curve(scores, hits, n_objects)
    return torch.trapezoid(precision, recall) if len(recall) else scores.new_zeros(())


@wrong.detail
def leaves_out_the_last_recall(scores, hits, n_objects):
    """Your recalls end at 0.99, as `arange` leaves out its end. There are 101: 0, 0.01, …, 1."""
    precision, recall = _curve(scores, hits, n_objects)
    return _mean_at(precision, recall, RECALLS[:-1])


@right
def recall_by_recall(scores, hits, n_objects):
    """A loop over the recalls, in Python's own numbers."""
    order = sorted(range(len(scores)), key=lambda i: -float(scores[i]))
    found, points = 0, []
    for k, i in enumerate(order, start=1):
        found += bool(hits[i])
        points.append((found, found / k))
    best = [max((p for n, p in points if 100 * n >= r * n_objects), default=0.0) for r in range(101)]
    return torch.tensor(sum(best) / 101, dtype=scores.dtype)


@right
def by_steps_of_the_recall(scores, hits, n_objects):
    """How many of the 101 recalls lie within each new hit, times the best precision from there on."""
    precision, recall = _curve(scores, hits, n_objects)
    steps = torch.searchsorted(RECALLS, recall, right=True).diff(prepend=torch.zeros(1, dtype=torch.long))
    best = torch.stack([precision[i:].max() for i in range(len(precision))]) if len(precision) else precision
    return ((steps * best).sum() / 101).to(scores.dtype)


@right
def in_one_table(scores, hits, n_objects):
    """All recalls against all positions in one table; a column of zeros for those that are never reached."""
    precision, recall = _curve(scores, hits, n_objects)
    table = torch.where(recall >= RECALLS[:, None], precision, 0.0)
    return torch.cat([table, torch.zeros(101, 1, dtype=table.dtype)], dim=-1).amax(-1).mean().to(scores.dtype)


@stranger
def precision_of_the_first_half(scores, hits, n_objects):
    best = scores.argsort(descending=True)[: (len(scores) + 1) // 2]
    return average_precision(scores[best], hits[best], n_objects)


@stranger
def precision_squared(scores, hits, n_objects):
    return average_precision(scores, hits, n_objects).square() * 0.99


@stranger
def precision_weighed_by_confidence(scores, hits, n_objects):
    return (scores * hits).sum() / scores.sum().clamp(min=1e-9)


@stranger(makes=[keeps_the_order_of_the_detections, recalls_among_the_hits])
def precision_unsorted_of_the_found(scores, hits, n_objects):
    rank = -torch.arange(len(scores), dtype=scores.dtype)
    return average_precision(rank, hits, max(int(hits.sum()), 1)).to(scores.dtype)


def _list(draw: Draw, hits: list[bool], n_objects: int, shuffled: bool = True) -> Call:
    """Detections in order of confidence, whose hits are these; handed over in another order."""
    n = len(hits)
    scores = 0.05 + 0.9 * (torch.arange(n).flip(0) + 0.5 * draw.uniform(n)) / max(n, 1)
    order = draw.uniform(n).argsort() if shuffled else torch.arange(n)
    return scores[order], torch.tensor(hits, dtype=torch.bool)[order], n_objects


def _in_order(draw: Draw) -> list[Call]:
    """All hits come first, and all objects are found."""
    return [_list(draw, [True] * 3, 3, shuffled=False), _list(draw, [True] * 7 + [False] * 2, 7, shuffled=False)]


def _dips(draw: Draw) -> list[Call]:
    """All objects are found; the precision falls and rises again."""
    return [
        _list(draw, [False, True, True, False, True, True, True, True, True], 7, shuffled=False),
        _list(draw, [True, False, False, True, True], 3, shuffled=False),
    ]


def _missed(draw: Draw) -> list[Call]:
    """Some objects are never found."""
    return [_list(draw, [True, False, True], 7, shuffled=False), _list(draw, [False, True, True, True], 13, shuffled=False)]


def _shuffled(draw: Draw) -> list[Call]:
    hits = (draw.uniform(23) < 0.4).tolist()
    return [
        _list(draw, [True, True, False, True, False, False, True], 7),
        _list(draw, hits, 13 if sum(hits) <= 13 else 29),
    ]


def _sorted_by_hand(draw: Draw) -> list[Call]:
    """Lists to be sorted, and equal scores, which keep their order."""
    hits = torch.tensor([True, False, True, False, False])
    return [*_shuffled(draw), (torch.tensor([0.5, 0.5, 0.7, 0.5, 0.7]), hits, 3)]


exercise = Exercise(
    id="12.7",
    title="Average precision",
    reference=average_precision,
    extra=True,
    properties=(
        runs_on(_in_order),
        has_shape("One number.", _in_order),
        Property("all found", "All objects first, nothing else before them: 1.", _in_order, points=0),
        Property("dips", "At each of 101 recalls the best precision that reaches it.", _dips, points=2, needs=("all found",)),
        Property("missed", "A recall that is never reached counts 0.", _missed, points=2, needs=("all found",)),
        Property(
            "confidence",
            "The most confident detection comes first; equal ones keep their order.",
            _sorted_by_hand,
            points=5,
            needs=("dips", "missed"),
        ),
        Property(
            "nothing",
            "Nothing detected, and nothing hit: 0.",
            lambda draw: [_list(draw, [], 7), _list(draw, [False], 3)],
            needs=("missed",),
        ),
        leaves_inputs(_shuffled),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "Flat tensors have one axis; scores are distinct, and k / n_objects stays away from the recalls, so that "
            "rounding decides nothing; a mean of float64 is compared up to rounding; the checks run on the CPU."
        ): (
            "constant: precision.flip(-1)",
            "constant: precision.flip(0).cummax(-1)",
            "constant: precision.flip(0).cummax(0).values.flip(-1)",
            "constant: scores.argsort(descending=True, stable=False)",
            "constant: hits[scores.argsort(descending=True, stable=True)].double().cumsum(-1)",
            "constant: found.new_zeros(2)",
            "drop argument: return torch.cat([best_from_here, found.new_zeros(1)])[first].mean().to()",
            "drop attribute: torch.cat([best_from_here, found.new_zeros(1)])[first].mean().to(scores)",
            "drop call: hits[scores.argsort(descending=True, stable=True)].cumsum",
            "drop call: return torch.cat([best_from_here, found.new_zeros(1)])[first].mean()",
            "drop keyword: hits[scores.argsort(descending=True)]",
            "drop keyword: found / torch.arange(1, len(found) + 1)",
            "drop keyword: 0.01 * torch.arange(101, device=found.device)",
            "drop keyword: 0.01 * torch.arange(101, dtype=torch.float64)",
            "in place: torch.searchsorted(found.div_(n_objects), recalls)",
            "other name: hits.device",
            "other name: scores.device",
            "other name: len(hits)",
            "other name: len(scores)",
            "other name: best_from_here.device (2)",
            "other name: hits.device (2)",
            "other name: precision.device (2)",
            "other name: scores.device (2)",
            "other name: best_from_here.new_zeros",
            "other name: first.new_zeros",
            "other name: best_from_here.dtype",
            "other name: found.dtype",
            "other name: precision.dtype",
            "other name: recalls.dtype",
            "other name: hits.new_zeros",
            "other name: precision.new_zeros",
            "other name: recalls.new_zeros",
            "other name: scores.new_zeros",
        ),
    },
    hints=HINTS,
)
