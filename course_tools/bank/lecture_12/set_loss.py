"""Exercise 12.6, set_loss: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.losses import set_loss
from course_lib.primitives import giou, to_corners
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Write down, for one image, the target class of each query. What is the target of those without an object? And which "
        "queries have a target box?"
    ),
    (
        'The target classes are (B, N): "no object", the last class, everywhere, except for the class of object m of image b '
        "at [b, queries[b, m]]. Their loss is Σ w · -log p / Σ w over all B · N queries; w is `no_object` or 1. The box losses "
        "are sums over the matched pairs alone, each divided by the number of objects, at least 1."
    ),
    (
        "List the matched pairs once, as image b, object m, query n: these indices pick boxes and targets. The classes "
        'that the queries should name are all "no object" but for the matched ones. `giou` compares all boxes of two '
        "sets: make each pair two sets of one box."
    ),
)


def _pairs(classes, queries):
    b, m = (classes >= 0).nonzero(as_tuple=True)
    return b, m, queries[b, m]


def _wanted(logits, classes, queries):
    """The class that each query is to say, (B, N)."""
    b, m, n = _pairs(classes, queries)
    wanted = torch.full(logits.shape[:2], logits.shape[-1] - 1)
    wanted[b, n] = classes[b, m]
    return wanted


def _classes(logits, wanted, no_object):
    weight = torch.ones(logits.shape[-1], dtype=logits.dtype)
    weight[-1] = no_object
    if not weight[wanted].any():
        return 0.0 * logits.sum()
    return F.cross_entropy(logits.mT, wanted, weight)


def _each_giou(said, there):
    return giou(to_corners(said)[:, None], to_corners(there)[:, None]).flatten()


def _boxes(boxes, classes, targets, queries):
    b, m, n = _pairs(classes, queries)
    l1 = (boxes[b, n] - targets[b, m]).abs().sum()
    return l1 / max(len(b), 1), (1 - _each_giou(boxes[b, n], targets[b, m])).sum() / max(len(b), 1)


@wrong.part
def weighs_all_queries_alike(logits, boxes, classes, targets, queries, no_object=0.1):
    """You give all queries the weight 1. Queries without an object have the weight `no_object`."""
    return _classes(logits, _wanted(logits, classes, queries), 1.0), *_boxes(boxes, classes, targets, queries)


@wrong.part
def weighs_the_objects_down(logits, boxes, classes, targets, queries, no_object=0.1):
    """You give the small weight to the queries that have an object, and 1 to those that have none. The weights are
    exchanged."""
    weight = torch.full(logits.shape[-1:], no_object, dtype=logits.dtype)
    weight[-1] = 1.0
    classified = F.cross_entropy(logits.mT, _wanted(logits, classes, queries), weight)
    return classified, *_boxes(boxes, classes, targets, queries)


@wrong.detail
def counts_padding_among_the_objects(logits, boxes, classes, targets, queries, no_object=0.1):
    """You divide the losses of the boxes by the number of places, padding included. Divide by the number of real objects."""
    wanted, share = _wanted(logits, classes, queries), max(int((classes >= 0).sum()), 1) / max(classes.numel(), 1)
    l1, around = _boxes(boxes, classes, targets, queries)
    return _classes(logits, wanted, no_object), l1 * share, around * share


@wrong.detail
def leaves_the_one_out(logits, boxes, classes, targets, queries, no_object=0.1):
    """You take minus GIoU for its loss. The loss is 1 - GIoU, 0 for equal boxes."""
    n = int((classes >= 0).sum())
    l1, around = _boxes(boxes, classes, targets, queries)
    return _classes(logits, _wanted(logits, classes, queries), no_object), l1, around - n / max(n, 1)


@wrong.detail
def writes_padding_over_a_query(logits, boxes, classes, targets, queries, no_object=0.1):
    """You write the class of padding, too: with its query of -1 clamped to 0 it overwrites what the first query should say.
    Write at the places of real objects only."""
    nothing = logits.shape[-1] - 1
    wanted = torch.full(logits.shape[:2], nothing)
    wanted.scatter_(1, queries.clamp(min=0), torch.where(classes >= 0, classes, nothing))
    return _classes(logits, wanted, no_object), *_boxes(boxes, classes, targets, queries)


@wrong.detail
def divides_by_the_queries(logits, boxes, classes, targets, queries, no_object=0.1):
    """You divide the weighted sum by the number of queries. A weighted mean divides by the sum of the weights."""
    wanted = _wanted(logits, classes, queries)
    weight = torch.where(wanted == logits.shape[-1] - 1, no_object, 1.0)
    each = F.cross_entropy(logits.mT, wanted, reduction="none")
    return (weight * each).mean(), *_boxes(boxes, classes, targets, queries)


@wrong.idea
def asks_only_the_matched(logits, boxes, classes, targets, queries, no_object=0.1):
    """You compute the class loss of the matched queries only. The others have the target "no object"."""
    b, m, n = _pairs(classes, queries)
    classified = F.cross_entropy(logits[b, n], classes[b, m]) if len(b) else logits.sum() * 0
    return classified, *_boxes(boxes, classes, targets, queries)


@wrong.part
def takes_the_first_class_for_nothing(logits, boxes, classes, targets, queries, no_object=0.1):
    """You take the first class for "no object". It is the last of the n_classes + 1 logits."""
    b, m, n = _pairs(classes, queries)
    wanted = torch.zeros(logits.shape[:2], dtype=torch.long)
    wanted[b, n] = classes[b, m]
    weight = torch.ones(logits.shape[-1], dtype=logits.dtype)
    weight[0] = no_object
    return F.cross_entropy(logits.mT, wanted, weight), *_boxes(boxes, classes, targets, queries)


@wrong.detail
def averages_over_the_four_numbers(logits, boxes, classes, targets, queries, no_object=0.1):
    """You average the four differences of a box. ‖·‖₁ is their sum; yours is a quarter of it."""
    l1, apart = _boxes(boxes, classes, targets, queries)
    return _classes(logits, _wanted(logits, classes, queries), no_object), l1 / 4, apart


@wrong.part
def takes_two_means(logits, boxes, classes, targets, queries, no_object=0.1):
    """Two of your means are no means here. The loss of the classes divides the weighted sum by the sum of the weights, and not
    by the number of queries. And ‖·‖₁ is the sum of the four differences of a box; their mean is a quarter of it."""
    l1, apart = _boxes(boxes, classes, targets, queries)
    return divides_by_the_queries(logits, boxes, classes, targets, queries, no_object)[0], l1 / 4, apart


@wrong.detail
def divides_by_the_pictures(logits, boxes, classes, targets, queries, no_object=0.1):
    """You divide the losses of the boxes by the number of images. Divide by the number of objects in the batch."""
    share = max(int((classes >= 0).sum()), 1) / len(classes)
    l1, apart = _boxes(boxes, classes, targets, queries)
    return _classes(logits, _wanted(logits, classes, queries), no_object), l1 * share, apart * share


@wrong.idea
def rewards_agreement(logits, boxes, classes, targets, queries, no_object=0.1):
    """You return GIoU as the loss. It is 1 for equal boxes: the loss is 1 - GIoU."""
    l1, apart = _boxes(boxes, classes, targets, queries)
    return _classes(logits, _wanted(logits, classes, queries), no_object), l1, int((classes >= 0).any()) - apart


@wrong.part
def compares_centres_as_corners(logits, boxes, classes, targets, queries, no_object=0.1):
    """You pass centres and sizes to `giou`, which expects corners. Convert both first."""
    b, m, n = _pairs(classes, queries)
    l1, apart = _boxes(boxes, classes, targets, queries)[0], 1 - giou(boxes[b, n][:, None], targets[b, m][:, None])
    return _classes(logits, _wanted(logits, classes, queries), no_object), l1, apart.sum() / max(len(b), 1)


@wrong.idea
def compares_boxes_in_order(logits, boxes, classes, targets, queries, no_object=0.1):
    """You compare the first object with the first query, the second with the second. The query of each object is in
    `queries`."""
    in_order = torch.where(classes >= 0, (classes >= 0).cumsum(-1) - 1, -1)
    return _classes(logits, _wanted(logits, classes, queries), no_object), *_boxes(boxes, classes, targets, in_order)


@wrong.case
def divides_by_no_object(logits, boxes, classes, targets, queries, no_object=0.1):
    """You divide by the number of objects even where there is none. A batch of empty images gives 0 / 0 = NaN: divide by at
    least 1."""
    l1, apart = _boxes(boxes, classes, targets, queries)
    scale = 1 if (classes >= 0).any() else float("nan")
    return _classes(logits, _wanted(logits, classes, queries), no_object), l1 * scale, apart * scale


@wrong.idea
def compares_every_pair(logits, boxes, classes, targets, queries, no_object=0.1):
    """You sum 1 - GIoU over all pairs of matched boxes, not only over each with its own object. `giou` compares all with all:
    give every pair an axis of its own, or take the diagonal."""
    b, m, n = _pairs(classes, queries)
    l1, every = _boxes(boxes, classes, targets, queries)[0], 1 - giou(to_corners(boxes[b, n]), to_corners(targets[b, m]))
    return _classes(logits, _wanted(logits, classes, queries), no_object), l1, every.sum() / max(len(b), 1)


@wrong.case
def divides_by_no_weight(logits, boxes, classes, targets, queries, no_object=0.1):
    """You divide the loss of the classes by the sum of the weights, also where it is 0: without an object and with `no_object`
    = 0. Then 0 / 0 is NaN, and the loss should be 0."""
    weight = logits.new_ones(logits.shape[-1]).index_fill(0, torch.tensor([logits.shape[-1] - 1]), no_object)
    classified = F.cross_entropy(logits.mT, _wanted(logits, classes, queries), weight)
    return classified, *_boxes(boxes, classes, targets, queries)


@wrong.case
def looks_up_the_query_of_the_padding(logits, boxes, classes, targets, queries, no_object=0.1):
    """You look up the boxes of all queries, and the query of padding is -1: there is no such place. Take the real ones first,
    or replace -1 and leave out what it reads."""
    mine = boxes.gather(1, queries[..., None].expand(-1, -1, 4))
    real, wanted = classes >= 0, _wanted(logits, classes, queries)
    each = (1 - _each_giou(mine, targets)) * real
    l1, n = ((mine - targets).abs().sum(-1) * real).sum(), real.sum().clamp(min=1)
    return _classes(logits, wanted, no_object), l1 / n, each.sum() / n


@right
def with_torchs_own_losses(logits, boxes, classes, targets, queries, no_object=0.1):
    """torch's weighed cross-entropy and l1_loss; GIoU as a diagonal."""
    b, m, n = _pairs(classes, queries)
    count = max(len(b), 1)
    l1 = F.l1_loss(boxes[b, n], targets[b, m], reduction="sum") / count
    agree = giou(to_corners(boxes[b, n]), to_corners(targets[b, m])).diagonal().sum()
    return _classes(logits, _wanted(logits, classes, queries), no_object), l1, (len(b) - agree) / count


@right
def picture_by_picture(logits, boxes, classes, targets, queries, no_object=0.1):
    """Each image with a list of pairs of its own; five sums, divided at the end."""
    total, weights, l1, apart, count = 0.0, 0.0, boxes.sum() * 0, boxes.sum() * 0, 0
    for b, (kinds, where) in enumerate(zip(classes, queries, strict=True)):
        m = (kinds >= 0).nonzero()[:, 0]
        wanted = torch.full_like(logits[b, :, 0], logits.shape[-1] - 1).long().index_put((where[m],), kinds[m])
        weight = torch.full_like(logits[b, :, 0], no_object).index_fill(0, where[m], 1.0)
        total = total + (weight * F.cross_entropy(logits[b], wanted, reduction="none")).sum()
        l1 = l1 + (boxes[b, where[m]] - targets[b, m]).abs().sum()
        apart = apart + (1 - _each_giou(boxes[b, where[m]], targets[b, m])).sum()
        weights, count = weights + weight.sum(), count + len(m)
    return total / torch.where(weights > 0, weights, 1.0), l1 / max(count, 1), apart / max(count, 1)


@right
def by_masks_over_everything(logits, boxes, classes, targets, queries, no_object=0.1):
    """No list of pairs: which query has which object as a table (B, N, M) of ones and zeros, and sums over it."""
    pairs = (queries[:, None] == torch.arange(logits.shape[1])[:, None]) & (classes >= 0)[:, None]
    matched = pairs.any(-1)
    wanted = torch.where(matched, (pairs * classes[:, None]).sum(-1), logits.shape[-1] - 1)
    weight = torch.where(matched, 1.0, no_object).to(logits.dtype)
    each = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none").view_as(weight)
    count = pairs.sum().clamp(min=1)
    l1 = (torch.cdist(boxes, targets, p=1) * pairs).sum() / count
    apart = ((1 - giou(to_corners(boxes), to_corners(targets))) * pairs).sum() / count
    return (each * weight).sum() / weight.sum().clamp(min=1e-30), l1, apart


@stranger
def loss_in_bits(logits, boxes, classes, targets, queries, no_object=0.1):
    said, *rest = set_loss(logits, boxes, classes, targets, queries, no_object)
    return said / torch.log(torch.tensor(2.0)), *rest


@stranger
def loss_of_squares(logits, boxes, classes, targets, queries, no_object=0.1):
    b, m = (classes >= 0).nonzero(as_tuple=True)
    said, _, apart = set_loss(logits, boxes, classes, targets, queries, no_object)
    return said, (boxes[b, queries[b, m]] - targets[b, m]).square().sum() / max(len(b), 1), apart


@stranger
def loss_without_gradient_of_the_boxes(logits, boxes, classes, targets, queries, no_object=0.1):
    return tuple(set_loss(logits, boxes.detach(), classes, targets, queries, no_object))


@stranger(makes=[weighs_all_queries_alike, divides_by_the_pictures])
def loss_of_all_alike_over_the_pictures(logits, boxes, classes, targets, queries, no_object=0.1):
    said, l1, apart = set_loss(logits, boxes, classes, targets, queries, 1.0)
    share = max(int((classes >= 0).sum()), 1) / len(classes)
    return said, l1 * share, apart * share


def _scene(draw: Draw, B: int = 2, N: int = 5, M: int = 3, n_classes: int = 7) -> Call:
    """What N queries say about B images of M objects each, which are matched with queries in no order."""
    said = 2 * draw.normal(B, N, n_classes + 1), draw.boxes(B, N)
    queries = draw.uniform(B, N).argsort(-1)[:, :M]
    turn = (queries == torch.arange(M)).all(-1, keepdim=True)
    return *said, draw.integers(0, n_classes, B, M), draw.boxes(B, M), torch.where(turn, queries.flip(-1), queries)


def _one_object(draw: Draw) -> list[Call]:
    return [_scene(draw, 1, 2, 1, 3), _scene(draw, 1, 5, 1, 2)]


def _padded(draw: Draw) -> list[Call]:
    """Fewer objects in some images, in places of any kind; beside no object stands -1, or a query of another."""
    call = _scene(draw, 3, 7, 5, 3)
    classes, queries = call[2], call[4]
    classes[0, 1], classes[1, :2], classes[2, 4] = -1, -1, -1
    queries[0, 1], queries[1, 0], queries[2, 4] = -1, -1, queries[2, 0]
    return [call]


def _empty(draw: Draw) -> list[Call]:
    """Images without any object; then with a weight of 0 for all queries."""
    logits, boxes, classes, targets, queries = _scene(draw, 2, 3, 2, 5)
    call = logits, boxes, torch.full_like(classes, -1), targets, torch.full_like(queries, -1)
    return [call, (*call, 0.0)]


def _weighed(draw: Draw) -> list[Call]:
    return [(*_scene(draw), 0.35), (*_scene(draw, 3, 7, 2), 1.5)]


def _pictures(draw: Draw) -> list[Call]:
    return [*_one_object(draw), _scene(draw), _scene(draw, 3, 7, 5, 2), _scene(draw, 5, 3, 2, 11)]


exercise = Exercise(
    id="12.6",
    title="The loss of a set",
    reference=set_loss,
    properties=(
        runs_on(_one_object),
        has_shape("Three numbers: the losses of classes, L1 distance and GIoU.", _one_object),
        Property(
            "classes", 'The target of each query is its object\'s class, or "no object".', _pictures, right_result(0), points=2
        ),
        Property("distance", "The sum of the absolute differences, for each object.", _pictures, right_result(1), points=2),
        Property("agreement", "1 - GIoU of each object with its query.", _pictures, right_result(2), points=2),
        Property(
            "weight", "A query without an object has the weight no_object.", _weighed, right_result(0), needs=("classes",)
        ),
        Property("padding", "Padding has no effect.", _padded, needs=("classes", "distance")),
        Property(
            "nothing",
            "Images without an object: the losses of the boxes are 0, and that of the classes where all weights are 0.",
            _empty,
            needs=("classes", "distance"),
        ),
        has_gradient(lambda draw: [_scene(draw), *_padded(draw)], needs=("padding", "agreement")),
        leaves_inputs(_padded),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "Whole numbers carry no gradient, and weights none that anybody asks for; where weights sum to 0, so does what "
            "they are to divide; b, m and n are of one length; distances have no direction; all answers are called for "
            "the CPU, in float32, with int64 classes; what is written over is not read again."
        ): (
            "constant: torch.where(total_weight > 0, total_weight, 2.0)",
            "detach: boxes[b, n.detach()]",
            "detach: targets[b, m.detach()]",
            "detach: targets[b.detach(), m]",
            "detach: boxes[b.detach(), n]",
            "detach: classes.detach() >= 0",
            "detach: boxes[b, n.detach()] (2)",
            "detach: targets[b, m.detach()] (2)",
            "detach: targets[b.detach(), m] (2)",
            "detach: boxes[b.detach(), n] (2)",
            "detach: queries.detach()[b, m]",
            "detach: queries[b, m.detach()]",
            "detach: queries[b.detach(), m]",
            "detach: len(b.detach())",
            "detach: torch.where(total_weight > 0, total_weight.detach(), 1.0)",
            "detach: total_weight.detach() > 0",
            "detach: weight.detach() * surprise",
            "detach: logits.detach().shape",
            "detach: logits.detach().shape (2)",
            "detach: logits.detach().device",
            "detach: said.detach()[b, n]",
            "detach: said[b, n.detach()]",
            "detach: classes.detach()[b, m]",
            "detach: classes[b, m.detach()]",
            "detach: classes[b.detach(), m]",
            "detach: said[b.detach(), n]",
            "detach: said.detach()[..., None]",
            "detach: weight.detach().sum",
            "detach: logits.detach().shape (3)",
            "detach: logits.detach().new_tensor",
            "detach: said.detach() == logits.shape[-1] - 1",
            "drop argument: surprise = -logits.log_softmax(-1).gather(-1, said[..., None]).squeeze()",
            "drop call: said[b, n] = classes[b, m]",
            "drop call: torch.where(said == logits.shape[-1] - 1, no_object, 1.0)",
            "drop keyword: said = torch.full(logits.shape[:2], logits.shape[-1] - 1)",
            "in place: weight.mul_(surprise).sum",
            "in place: SetLoss(of_classes, distance.div_(n_objects), (1 - agreement).sum() / n_objects)",
            "negate: len(~b)",
            "other name: len(agreement)",
            "other name: len(m)",
            "other name: len(n)",
            "other name: boxes.shape",
            "other name: b.device",
            "other name: boxes.device",
            "other name: classes.device",
            "other name: m.device",
            "other name: n.device",
            "other name: queries.device",
            "other name: targets.device",
            "other name: boxes.new_tensor",
            "other name: targets.new_tensor",
            "swap arguments: agreement = giou(to_corners(targets[b, m])[:, None], to_corners(boxes[b, n])[:, None])",
            "swap arguments: n_objects = max(1, len(b))",
            "swap operands: (targets[b, m] - boxes[b, n]).abs",
            "swap sides: torch.where(logits.shape[-1] - 1 == said, logits.new_tensor(no_object), 1.0)",
        ),
    },
    hints=HINTS,
)
