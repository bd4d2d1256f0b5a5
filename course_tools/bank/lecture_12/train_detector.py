"""Build task 12.8, train_detector: a detector, its set-prediction loss and its training loop; what students hand in.

The scenes are crowds, and the parts of photographs in those that the detector is judged by occur in no other. The
returned model is asked for predictions, for those of a few of its queries alone, which have to depend on the others, and
for its loss on the same scenes with the objects in another order, with more padding, with boxes moved, and so on: what
the loss has to be follows from the predictions.
"""

import math
from functools import partial
from inspect import unwrap

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from course_lib.attention import MultiHead
from course_lib.blocks import ConvNet, FeedForward, Sizes
from course_lib.datasets import Scenes
from course_lib.losses import SetLoss, match, match_in_order, matching_cost, set_loss
from course_lib.metrics import mean_average_precision
from course_lib.models.detr import ObjectBlock, sinusoidal_positions_2d
from course_lib.primitives import causal_mask, giou, sinusoidal_points, to_corners
from course_tools.bank import training_loops as loops
from course_tools.bank.drawn_crowds import MOST, N_KINDS, SIDE, draw_crowds
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 200_000, 500
N_LEARN, N_UNSEEN, N_FEW, N_BEST = 1_500, 120, 16, 12
LIST_ORDER, UNTRAINED = 0.25, 0.01
LEARNS, SCORE = 0.4, 0.55
SAME, EXACT, LEAST_WEIGHT, MOST_WEIGHT = 5e-3, 1e-3, 0.02, 0.95
SOME, TURNED, TALK = (3, 0, 4, 1), (2, 0, 3, 1), 0.01
"""Queries that take part alone, another order of them, and the least change of their predictions, relative to the spread."""

HINTS = (
    (
        "Begin with the shapes, and print them. A backbone gives a map (B, 64, 4, 4), and `flatten(2).mT` makes it 16 cells. "
        "Let each of 16 queries start from one cell. What must a query see before it can leave a creature to its neighbour?"
    ),
    (
        "The layer of section 1: queries attend to queries, then to the cells, then a network; their vectors are a parameter. "
        "`which` chooses queries at the beginning: their starts, vectors and reference points. Add the logit of the reference "
        "point to the first two numbers of a box, before the sigmoid. In the loss, `b, m = (classes >= 0)"
        ".nonzero(as_tuple=True)` and `n = queries[b, m]` index the matched pairs."
    ),
    (
        "The loop: draw 16 scenes; `loss = model(images[which], classes[which], boxes[which])`; `optimizer.zero_grad()`; "
        '`loss.backward()`; `optimizer.step()`. Adam with a learning rate of 0.003 and a weight of 0.1 for "no object" '
        "suffice: the loss falls to about 1.2. Return `model.eval()`."
    ),
)


def train_detector(images: Tensor, classes: Tensor, boxes: Tensor, n_classes: int, n_steps: int) -> nn.Module:
    """Train a detector by a set-prediction loss, and return it.

    Called with images (B, 3, H, W), the model returns the predictions of its N queries, (B, N, n_classes + 5): the logits of
    the classes, then that of "no object", then the box, centre and size between 0 and 1. Called with images and the
    numbers (n,) of some queries, it returns what these predict if the others do not exist, (B, n, n_classes + 5). Called
    with images, classes and boxes, in training mode and after `eval()`, it returns the loss of all predictions, one
    number, as in section 4: the class loss divided by the sum of its weights, with a weight below 1 for "no object", plus
    the sum of 5 L1 + 2 (1 - GIoU) divided by the number of objects.

    Args:
        images: scenes to learn from, (S, 3, 32, 32), colours from 0 to 1.
        classes: of their objects, (S, 4), -1 = padding, after the objects.
        boxes: of their objects, centre and size, (S, 4, 4).
        n_classes: number of classes.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to use: its predictions do not depend on the other scenes of the batch.
    """

    class Detector(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.backbone = ConvNet(3, widths=(32, 48, d), strides=(2, 2, 2))
            self.queries = nn.Parameter(torch.randn(16, d))
            self.own, self.cross, self.network = MultiHead(d, 4), MultiHead(d, 4), FeedForward(d, 2 * d)
            self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(3))
            self.head = nn.Linear(d, n_classes + 5)
            y, x = torch.cartesian_prod(*2 * [(torch.arange(4) + 0.5) / 4]).mT
            self.points = torch.stack([x, y, 0.36 + 0 * x, 0.36 + 0 * x], dim=-1).logit()

        def forward(self, images, *more):
            which = more[0] if len(more) == 1 else torch.arange(16)
            f, p = self.backbone(images).flatten(2).mT, sinusoidal_positions_2d(4, 4, 64)
            x, q = f[:, which], (self.queries + p)[which]
            x = self.norms[0](x + self.own(x + q, x + q, x).context)
            x = self.norms[1](x + self.cross(x + q, f + p, f).context)
            x = self.norms[2](x + self.network(x))
            logits, offsets = self.head(x).split([n_classes + 1, 4], dim=-1)
            found = (offsets + self.points[which]).sigmoid()
            return self.loss(logits, found, *more) if len(more) == 2 else torch.cat([logits, found], dim=-1)

        def loss(self, logits, found, classes, boxes, no_object=0.1):
            with torch.no_grad():
                queries = match(matching_cost(logits, found, classes, boxes), classes)
            b, m = (classes >= 0).nonzero(as_tuple=True)
            n = queries[b, m]
            wanted = torch.full(logits.shape[:2], n_classes)
            wanted[b, n] = classes[b, m]
            weight = torch.ones(n_classes + 1)
            weight[-1] = no_object
            of_classes = F.cross_entropy(logits.mT, wanted, weight)
            l1 = (found[b, n] - boxes[b, m]).abs().sum()
            apart = (1 - giou(to_corners(found[b, n])[:, None], to_corners(boxes[b, m])[:, None])).sum()
            return of_classes + (5 * l1 + 2 * apart) / max(len(b), 1)

    model = Detector()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(n_steps):
        which = torch.randint(len(images), (16,))
        loss = model(images[which], classes[which], boxes[which])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def _questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw scenes to learn from, and others on parts of the photographs that these do not contain.

    The queries are: unseen images (120, 3, 32, 32) · the last 16 of them · these with four of the object queries · with the
    same four in another order · with their objects, for the loss · with the objects in reverse order · with more padding,
    beside which stand boxes · with the boxes moved · with the other class for each object · with each first object listed
    twice, and no other · without objects. Padding is always last, as in the scenes to learn from."""
    seeds = [int(draw.integers(0, 2**31, 1)) for _ in range(2)]
    learn, unseen = draw_crowds(N_LEARN, seeds[0]), draw_crowds(N_UNSEEN, seeds[1], unseen=True)
    few, classes, boxes = (part[-N_FEW:] for part in unseen)
    at, n_objects = torch.arange(MOST), (classes >= 0).sum(1, keepdim=True)
    reverse = torch.where(at < n_objects, n_objects - 1 - at, at)
    padding = torch.full((N_FEW, 2), -1)
    more = torch.cat([classes, padding], dim=1)
    anywhere = draw.boxes(*more.shape)
    anywhere[more >= 0] = boxes[classes >= 0]
    moved = torch.where(classes[..., None] >= 0, boxes * torch.tensor([1.0, 1.0, 1.1, 0.95]) + 0.01, boxes)
    twice = torch.cat([classes[:, :1], classes[:, :1], padding], dim=1)
    targets = {
        "plain": (classes, boxes),
        "order": (classes.gather(1, reverse), boxes.gather(1, reverse[..., None].expand(-1, -1, 4))),
        "padding": (more, anywhere),
        "moved": (classes, moved),
        "other": (torch.where(classes >= 0, 1 - classes, -1), boxes),
        "twice": (twice, boxes[:, :1].expand(-1, MOST, -1)),
        "empty": (torch.full_like(classes, -1), boxes),
    }
    truth = {"labels": unseen.classes, "scenes": unseen, "targets": targets, "n_steps": N_STEPS}
    some = torch.tensor(SOME)
    queries = [unseen.images, few, (few, some), (few, some[list(TURNED)]), *((few, *each) for each in targets.values())]
    return ((*learn, N_KINDS, N_STEPS), queries, (), [few]), truth


def ap50(predictions: Tensor, scenes: Scenes) -> float:
    """AP50 of predictions (B, N, n_classes + 5), of each scene the twelve most confident queries."""
    p, boxes = predictions[..., : N_KINDS + 1].softmax(-1)[..., :-1], to_corners(predictions[..., -4:])
    best = p.amax(-1).topk(min(N_BEST, p.shape[1])).indices[..., None]
    p, boxes = (part.gather(1, best.expand(-1, -1, part.shape[-1])) for part in (p, boxes))
    return mean_average_precision(p, boxes, scenes.classes, to_corners(scenes.boxes))


def _model(measured: Measured, truth: Truth) -> str | None:
    asked, few, some, turned, *losses = measured.outputs
    for n, output in ((N_UNSEEN, asked), (N_FEW, few)):
        if output.ndim != 3 or len(output) != n or output.shape[-1] != N_KINDS + 5:
            wanted = f"({n}, N, {N_KINDS + 5})"
            return f"For images ({n}, 3, {SIDE}, {SIDE}) the predictions should have shape {wanted}, not {tuple(output.shape)}."
        if not output.is_floating_point() or not output.isfinite().all():
            return "The predictions should be finite floating-point numbers."
        if output.shape[1] < MOST + 2:
            return f"It has {output.shape[1]} queries; at least {MOST + 2} are required."
        if output[..., -4:].min() < 0 or output[..., -4:].max() > 1:
            return "The last four numbers of a query are its box, centre and size between 0 and 1; some are outside."
    for output in (some, turned):
        if output.shape != (wanted := (N_FEW, len(SOME), N_KINDS + 5)):
            given = f"For images and the numbers of {len(SOME)} queries the predictions should have shape {wanted}"
            return f"{given}, not {tuple(output.shape)}."
    if any(loss.numel() != 1 for loss in losses):
        return f"Called with images, classes and boxes, it should return one number, not shape {tuple(losses[0].shape)}."
    return None if losses[0].isfinite() else f"Its loss on unseen scenes is {losses[0].item()}."


def _queries(measured: Measured, truth: Truth) -> str | None:
    if trained.has_no_attention(measured, truth):
        return "No attention was found: no weights that sum to 1 over queries or cells multiply anything."
    if queries_never_meet(measured, truth):
        return "What a query predicts does not depend on the other queries: it is the same when most of them do not exist."
    if queries_have_an_order(measured, truth):
        return "Given the numbers of some queries in another order, they predict something else; a set has no order."
    return None


def _set(measured: Measured, truth: Truth) -> str | None:
    plain, order, padding = (_loss(measured, truth, name) for name in ("plain", "order", "padding"))
    if changes_with_the_order(measured, truth):
        return f"With the objects of each scene in reverse order the loss is {order:.3f}; it was {plain:.3f}."
    if changes_with_the_padding(measured, truth):
        return f"With more padding, beside which stand boxes of no object, the loss is {padding:.3f}; it was {plain:.3f}."
    return None


def _boxes(measured: Measured, truth: Truth) -> str | None:
    if _changes_rightly(measured, truth):
        return None
    change, wanted = _change(measured, truth), sum(_possible_changes(measured, truth)) / 2
    return (
        f"With the boxes of the objects moved, the loss changes by {change:.3f}; 5 L1 + 2 (1 - GIoU) changes by {wanted:.3f}."
    )


def _classes(measured: Measured, truth: Truth) -> str | None:
    w = _weight(measured, truth)
    if not LEAST_WEIGHT <= w <= MOST_WEIGHT:
        return (
            f'Section 4 would need a weight of {w:.2f} for "no object" to give your class loss; between 0.02 and 0.95 is '
            "required. Is it divided by the sum of the weights, not by the number of queries?"
        )
    for name, words in (("plain", ""), ("twice", " with an object listed twice"), ("empty", " without objects")):
        loss, wanted = _loss(measured, truth, name), _wanted(measured, truth, name, w)
        if not _is_same(loss, wanted):
            return f"For scenes{words} the loss is {loss:.3f}; that of section 4 is {wanted:.3f}."
    return None


def _average_precision(measured: Measured, truth: Truth) -> float:
    return ap50(measured.outputs[0], truth["scenes"])


_alone = trained.each_alone("scenes", "predictions")
_OTHERS = f" (objects in list order reach about {LIST_ORDER}, an untrained model at most {UNTRAINED})"
_learns, _score = (trained.at_least(least, _average_precision, "On unseen scenes AP50", _OTHERS) for least in (LEARNS, SCORE))


def _loss(measured: Measured, truth: Truth, name: str) -> float:
    """The loss that the model gave for these targets."""
    return measured.outputs[4 + list(truth["targets"]).index(name)].item()


def _objects(truth: Truth, name: str) -> tuple[Tensor, Tensor]:
    classes, boxes = truth["targets"][name]
    return classes, boxes.double()


def _parts(measured: Measured, truth: Truth, name: str, w: float = 0.1, matching=match) -> SetLoss:
    """What the set loss of these targets has to be, given the predictions of the model."""
    predicted = measured.outputs[1].double().split([N_KINDS + 1, 4], dim=-1)
    objects = _objects(truth, name)
    unchecked = unwrap(set_loss)  # set_loss itself refuses two objects of one query, a mistake that is to be measured
    return unchecked(*predicted, *objects, _assigned(*predicted, *objects, matching), w)


def _wanted(measured: Measured, truth: Truth, name: str, w: float, matching=match, **box) -> float:
    """The loss of these targets with this weight of "no object", or with another matching or box loss."""
    predicted = measured.outputs[1].double().split([N_KINDS + 1, 4], dim=-1)
    objects = _objects(truth, name)
    of_boxes = _box_loss(predicted[1], *objects, _assigned(*predicted, *objects, matching), **box)
    return (_parts(measured, truth, name, w, matching).classes + of_boxes).item()


def _is_same(loss: float, wanted: float) -> bool:
    return abs(loss - wanted) < SAME * max(wanted, 1)


def _change(measured: Measured, truth: Truth) -> float:
    return _loss(measured, truth, "moved") - _loss(measured, truth, "plain")


def _possible_changes(measured: Measured, truth: Truth) -> tuple[float, float]:
    """By how little and by how much the loss has to change: where another query is matched, its class counts, weighed."""
    changes = [_wanted(measured, truth, "moved", w) - _wanted(measured, truth, "plain", w) for w in (0.0, 0.1, 1.0)]
    return min(changes), max(changes)


def _changes_rightly(measured: Measured, truth: Truth) -> bool:
    low, high = _possible_changes(measured, truth)
    return low - EXACT < _change(measured, truth) < high + EXACT


def _weight(measured: Measured, truth: Truth, **box) -> float:
    """The weight of "no object" that explains the loss of scenes in which each object is of the other class."""
    of_objects, of_all = (_parts(measured, truth, "other", w).classes.item() for w in (0.0, 1.0))
    n, n_all = int((truth["targets"]["other"][0] >= 0).sum()), measured.outputs[1][..., 0].numel()
    n_others, sum_others = n_all - n, n_all * of_all - n * of_objects
    loss = _loss(measured, truth, "other") - _wanted(measured, truth, "other", 0.0, **box) + of_objects
    return n * (of_objects - loss) / (loss * n_others - sum_others)


def queries_never_meet(measured: Measured, truth: Truth) -> bool:
    """Evidence: what some queries predict changes by almost nothing when the others do not exist."""
    together, alone = measured.outputs[1][:, list(SOME)], measured.outputs[2]
    return bool((together - alone).abs().mean() < TALK * together.std(0).mean())


def queries_have_an_order(measured: Measured, truth: Truth) -> bool:
    """Evidence: the same queries in another order predict something else."""
    return not trained.is_near(measured.outputs[2][:, list(TURNED)], measured.outputs[3])


def changes_with_the_order(measured: Measured, truth: Truth) -> bool:
    """Evidence: the loss changes when the objects of each scene are listed in another order."""
    return abs(_loss(measured, truth, "order") - _loss(measured, truth, "plain")) > SAME


def changes_with_the_padding(measured: Measured, truth: Truth) -> bool:
    """Evidence: the loss changes with more padding."""
    return abs(_loss(measured, truth, "padding") - _loss(measured, truth, "plain")) > SAME


def weighs_all_alike(measured: Measured, truth: Truth) -> bool:
    """Evidence: the losses are those of section 4 with a weight of 1 for "no object"."""
    names = ("plain", "other", "empty")
    return all(_is_same(_loss(measured, truth, name), _wanted(measured, truth, name, 1.0)) for name in names)


def divides_by_the_queries(measured: Measured, truth: Truth) -> bool:
    """Evidence: the class loss is the weighted sum divided by the number of queries.

    Where there is no object, that is the weight times the mean.
    """
    w = _loss(measured, truth, "empty") / max(_parts(measured, truth, "empty", 1.0).classes.item(), 1e-9)
    if not LEAST_WEIGHT <= w <= MOST_WEIGHT:
        return False
    n_queries = measured.outputs[1][..., 0].numel()
    for name in ("plain", "other"):
        n_objects = int((truth["targets"][name][0] >= 0).sum())
        mean_weight = (n_objects + w * (n_queries - n_objects)) / n_queries
        excess = (1 - mean_weight) * _parts(measured, truth, name, w).classes.item()
        if not _is_same(_loss(measured, truth, name), _wanted(measured, truth, name, w) - excess):
            return False
    return True


def shares_queries(measured: Measured, truth: Truth) -> bool:
    """Evidence: of an object that is listed twice, both have the same query."""
    w = _weight(measured, truth)
    shared = _wanted(measured, truth, "twice", w, lambda cost, classes: cost.argmin(1))
    alone = _wanted(measured, truth, "twice", w)
    return abs(shared - alone) > 2 * SAME and abs(_loss(measured, truth, "twice") - shared) < SAME * max(shared, 1)


def _has_box_loss(**box):
    """Make evidence that the loss is the set loss with this box loss instead of the right one."""

    def evidence(measured: Measured, truth: Truth) -> bool:
        w = _weight(measured, truth, **box)
        losses = ((_loss(measured, truth, name), _wanted(measured, truth, name, w, **box)) for name in ("plain", "moved"))
        return all(abs(loss - wanted) < SAME for loss, wanted in losses) and not _changes_rightly(measured, truth)

    return evidence


def gives_probabilities(measured: Measured, truth: Truth) -> bool:
    """Evidence: the numbers before the box are positive and sum to 1."""
    p = measured.outputs[0][..., : N_KINDS + 1]
    return bool((p >= 0).all()) and torch.allclose(p.sum(-1), torch.ones(()), atol=1e-4)


def _pairs(classes, queries):
    b, m = (classes >= 0).nonzero(as_tuple=True)
    return b, m, queries[b, m]


def _assigned(logits, found, classes, boxes, matching=match):
    return matching(matching_cost(logits, found, classes, boxes).detach(), classes)


def _class_loss(logits, classes, queries, no_object=0.1):
    weight = torch.ones(logits.shape[-1])
    weight[-1] = no_object
    return F.cross_entropy(logits.mT, _targets(logits, classes, queries), weight)


def _targets(logits, classes, queries):
    b, m, n = _pairs(classes, queries)
    wanted = torch.full(logits.shape[:2], logits.shape[-1] - 1)
    wanted[b, n] = classes[b, m]
    return wanted


def _box_loss(found, classes, boxes, queries, l1=5.0, apart=2.0, most=1.0, corners=to_corners):
    b, m, n = _pairs(classes, queries)
    distance = (found[b, n] - boxes[b, m]).abs().sum()
    agreement = giou(corners(found[b, n])[:, None], corners(boxes[b, m])[:, None])
    return (l1 * distance + apart * (most - agreement).sum()) / max(len(b), 1)


def _loss_with(matching=match, no_object=0.1, **box):
    """Make the set loss, in which a wrong submission changes one thing."""

    def loss(logits, found, classes, boxes):
        queries = _assigned(logits, found, classes, boxes, matching)
        return _class_loss(logits, classes, queries, no_object) + _box_loss(found, classes, boxes, queries, **box)

    return loss


class _Silent(nn.Module):
    """In place of the attention among queries: each keeps to itself."""

    def forward(self, x, positions):
        return torch.zeros_like(x)


class _InOrder(nn.Module):
    """Attention in which a query attends to those before it alone."""

    def __init__(self, d):
        super().__init__()
        self.attention = MultiHead(d, 4)

    def forward(self, x, positions):
        return self.attention(x + positions, x + positions, x, causal_mask(x.shape[1])).context


class SmallDetector(nn.Module):
    """A small backbone and a decoder layer, and what a wrong submission changes: its loss, its logits, how queries meet."""

    def __init__(self, n_classes, loss=None, dropout=0.0, logits=lambda x: x, meet=None, layer=True):
        super().__init__()
        self.sizes, self.loss, self.logits = [n_classes + 1, 4], loss or _loss_with(), logits
        self.backbone = ConvNet(3, widths=(24, 48, 64), strides=(2, 2, 2))
        self.layer = ObjectBlock(Sizes(64, 4, 96, 1)) if layer else None
        if meet:
            self.layer.mixer = meet
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(64, n_classes + 5))

    def forward(self, images, *more):
        f = self.backbone(images)
        H, W = f.shape[2:]
        which = more[0] if len(more) == 1 else torch.arange(H * W)
        f, places = f.flatten(2).mT, sinusoidal_positions_2d(H, W, 64)
        x = self.layer(f[:, which], places[which], f, places) if self.layer else f[:, which]
        y, x_axis = torch.cartesian_prod((torch.arange(H) + 0.5) / H, (torch.arange(W) + 0.5) / W).mT
        centres = torch.stack([x_axis, y, torch.full_like(y, 0.36), torch.full_like(y, 0.36)], dim=1)[which]
        logits, offsets = self.head(x).split(self.sizes, dim=-1)
        logits, found = self.logits(logits), (offsets + centres.logit()).sigmoid()
        return self.loss(logits, found, *more) if len(more) == 2 else torch.cat([logits, found], -1)


def submit(data, part=1 / 3, loss=None, lr=3e-3, **change):
    *scenes, n_classes, n_steps = data
    make, batch = partial(SmallDetector, n_classes, loss), partial(loops.drawn_examples, scenes, 16)
    return loops.train(make, part * n_steps, batch, loss=None, lr=lr, **change)


wrong = loops.Submissions(
    __name__, submit, results="predictions", rates="0.001 to 0.01", learned="these few scenes", new="new scenes"
)
_UNSOUND = trained.fails(_score)
wrong.loop_mistakes(_UNSOUND, _UNSOUND, part=1 / 3)


@wrong(proof=trained.weights_left_out)
def head_alone_in_the_optimizer(*data):
    """A part of what you train through is in no optimizer and stays as it was drawn: the backbone, probably. Nothing is
    pre-trained here; give the optimizer `model.parameters()`."""
    return submit(data, optimized=lambda model: model.head)


@wrong(proof=trained.reads_other_examples)
def training_mode_left_on(*data):
    """The predictions for a scene depend on the other scenes of its batch. Either the model is still in training mode, in which
    batch normalisation uses the statistics of the batch (return `model.eval()`), or a layer mixes the batch: check
    `batch_first` and the axis of each softmax."""
    return submit(data, 1.0, left_on=True)


@wrong(proof=trained.both(gives_probabilities, trained.fails(_score)))
def probabilities_for_logits(*data):
    """The first numbers of each query are positive and sum to 1: probabilities. `F.cross_entropy` takes a softmax itself, so
    that the loss takes it twice and hardly falls. Return the logits."""
    return submit(data, logits=lambda x: x.softmax(-1))


@wrong(proof=trained.has_no_attention)
def cells_of_a_convolution(*data):
    """Nothing in your model attends: no weights that sum to 1 over queries or cells multiply anything. A convolution whose
    cells are the queries finds single creatures, but it is no DETR. Let the queries attend to each other, and to the
    cells."""
    return submit(data, layer=False)


@wrong(proof=trained.both(queries_never_meet, lambda *measured: not trained.has_no_attention(*measured)))
def queries_that_never_meet(*data):
    """A query predicts the same whether the others exist or not: your queries do not attend to each other, or `which` is
    used only at the end. Self-attention among the queries that take part lets one leave a creature to another."""
    return submit(data, meet=_Silent())


@wrong(proof=trained.both(queries_have_an_order, lambda *measured: not queries_never_meet(*measured)))
def queries_in_an_order(*data):
    """Given in another order, your queries predict something else. They are a set: no mask among them, and what belongs to a
    query, its vector and its reference point, is chosen by its number."""
    return submit(data, meet=_InOrder(64))


@wrong(proof=changes_with_the_order)
def objects_in_list_order(*data):
    """Your loss changes when the objects of a scene are listed in another order: it trains queries on an order that the picture
    does not show. Match the objects with the predictions; the sum of the costs must be the smallest."""
    return submit(data, loss=_loss_with(match_in_order))


@wrong(proof=changes_with_the_padding)
def padding_is_an_object(*data):
    """Your loss changes with the padding: a class of -1 is no object, and the box beside it means nothing. Match and compare
    only where `classes >= 0`, and divide by the number of real objects."""
    small = _loss_with()
    return submit(data, loss=lambda logits, found, classes, boxes: small(logits, found, classes.clamp(min=0), boxes))


@wrong(proof=_has_box_loss(apart=0.0))
def without_giou(*data):
    """When boxes move, your loss changes by 5 L1 alone; the term 2 (1 - GIoU) is missing. L1 counts an error of a small box no
    more than that of a large one; GIoU is relative to the size."""
    return submit(data, loss=_loss_with(apart=0.0))


@wrong(proof=_has_box_loss(corners=lambda boxes: boxes))
def centres_for_corners(*data):
    """Your loss gives `giou` centres and sizes, and it reads them as corners: its gradient points elsewhere. Convert both boxes
    by `to_corners` first."""
    return submit(data, loss=_loss_with(corners=lambda boxes: boxes))


@wrong(proof=_has_box_loss(apart=-2.0, most=0.0))
def giou_minimised(*data):
    """Your loss is smaller the smaller GIoU is: the sign is wrong. GIoU is 1 for equal boxes; the loss is 1 - GIoU."""
    return submit(data, loss=_loss_with(apart=-2.0, most=0.0))


@wrong.change(
    "loss", lambda measured, truth: abs(_loss(measured, truth, "empty")) < 1e-6 and abs(_weight(measured, truth)) < 0.01
)
def only_matched_queries(logits, found, classes, boxes):
    """Your class loss counts matched queries alone: no query is ever trained to predict "no object", and detections that belong
    to nothing are as confident as the others. The target of an unmatched query is "no object", with a weight such as 0.1."""
    queries = _assigned(logits, found, classes, boxes)
    b, m, n = _pairs(classes, queries)
    of_classes = F.cross_entropy(logits[b, n], classes[b, m], reduction="sum") / max(len(b), 1)
    return of_classes + _box_loss(found, classes, boxes, queries)


@wrong(proof=weighs_all_alike)
def all_queries_weigh_alike(*data):
    """In your class loss "no object" weighs as much as an object. Most queries have no object, so their loss outweighs that of
    the classes. Give "no object" a smaller weight, such as 0.1."""
    return submit(data, loss=_loss_with(no_object=1.0))


@wrong.change("loss", divides_by_the_queries)
def divided_by_the_number_of_queries(logits, found, classes, boxes):
    """Your class loss is the weighted sum divided by the number of queries. With a small weight for "no object" this makes all
    of it small beside the box loss. Divide by the sum of the weights, as `F.cross_entropy` does with `weight`."""
    queries = _assigned(logits, found, classes, boxes)
    wanted = _targets(logits, classes, queries)
    weight = torch.where(wanted < logits.shape[-1] - 1, 1.0, 0.1)
    of_classes = (weight * F.cross_entropy(logits.mT, wanted, reduction="none")).mean()
    return of_classes + _box_loss(found, classes, boxes, queries)


@wrong(proof=shares_queries)
def each_object_takes_its_favourite(*data):
    """Your matching lets two objects share a query: each takes the cheapest one. A query predicts one class and one box, so the
    matching must be one-to-one: `linear_sum_assignment` gives it, or your `match`."""
    return submit(data, 1.0, loss=_loss_with(lambda cost, classes: cost.argmin(1)))


@right
def without_modules(images, classes, boxes, n_classes, n_steps):
    """Weights in a dict, a function, one head of attention among the queries, gradients from autograd, and Adam by hand; of
    each scene the first objects, matched by SciPy."""
    shapes = {"a": (32, 3, 3, 3), "b": (64, 32, 3, 3), "c": (64, 64, 3, 3)}
    shapes |= {"q": (64, 64), "k": (64, 64), "v": (64, 64), "out": (64, n_classes + 5)}
    weights = {}
    for name, s in shapes.items():
        fan = math.prod(s[1:]) / 2 if len(s) == 4 else s[0]
        weights[name] = (torch.randn(s) * fan**-0.5).requires_grad_()

    statistics = {name: (torch.zeros(shapes[name][0]), torch.ones(shapes[name][0])) for name in "abc"}

    def predict(x, training, which=None):
        for name, stride in (("a", 2), ("b", 2), ("c", 2)):
            x = F.conv2d(x, weights[name], stride=stride, padding=1)
            x = F.relu(F.batch_norm(x, *statistics[name], training=training))
        h, w = x.shape[2:]
        which = torch.arange(h * w) if which is None else which
        rows, columns = which // w, which % w
        middle = torch.stack([(columns + 0.5) / w, (rows + 0.5) / h], dim=1)
        x = x.flatten(2).transpose(1, 2)[:, which]
        y = x + sinusoidal_points(middle, 64)
        scores = torch.einsum("bne,bme->bnm", y @ weights["q"], y @ weights["k"]) / 8
        x = x + scores.softmax(2) @ (x @ weights["v"])
        logits, offsets = (0.5 * x @ weights["out"]).tensor_split([n_classes + 1], dim=2)
        return logits, torch.cat([middle.logit() + offsets[..., :2], offsets[..., 2:] - 0.5], 2).sigmoid()

    def loss(logits, found, classes, boxes, w=0.08):
        queries = torch.full(classes.shape, -1)
        with torch.no_grad():
            for row, one, where, kinds, there in zip(queries, logits.softmax(2), found, classes, boxes, strict=True):
                real = int((kinds >= 0).sum())
                apart = 5 * torch.cdist(where, there[:real], p=1) - 2 * giou(to_corners(where), to_corners(there[:real]))
                cost = apart - one[:, kinds[:real]]
                n, m = linear_sum_assignment(cost.numpy())
                row[torch.as_tensor(m)] = torch.as_tensor(n)
        b, m = (queries >= 0).nonzero(as_tuple=True)
        n = queries[b, m]
        log_p = logits.log_softmax(2)
        nothing = torch.ones_like(log_p[..., 0]).index_put((b, n), torch.zeros(()))
        of_classes = -log_p[b, n, classes[b, m]].sum() - w * (nothing * log_p[..., -1]).sum()
        apart = 1 - giou(to_corners(found[b, n])[:, None], to_corners(boxes[b, m])[:, None])
        of_boxes = 5 * (found[b, n] - boxes[b, m]).abs().sum() + 2 * apart.sum()
        return of_classes / (len(b) + w * nothing.sum()) + of_boxes / max(len(b), 1)

    def model(images, *more, training=False):
        if len(more) == 2:
            return loss(*predict(images, training), *more)
        return torch.cat(predict(images, training, *more), dim=2)

    def error():
        which = torch.randperm(len(images))[:16]
        return model(images[which], classes[which], boxes[which], training=True)

    loops.adam_by_hand(list(weights.values()), n_steps, error, lambda step: 6e-3 * (1.2 - step / n_steps))
    return model


@right
def with_the_decoder_of_torch(images, classes, boxes, n_classes, n_steps):
    """Residual convolutions, then torch's decoder layer; separate heads; shuffled epochs, RMSprop and clipping."""

    class Detector(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.GroupNorm(4, 32), nn.SiLU())
            self.second = nn.Sequential(nn.Conv2d(32, d, 4, 4), nn.GroupNorm(8, d), nn.SiLU())
            self.third = nn.Sequential(nn.Conv2d(d, d, 3, padding=1), nn.GroupNorm(8, d), nn.SiLU())
            self.places = nn.Parameter(0.1 * torch.randn(16, d))
            self.mix = nn.TransformerDecoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True, norm_first=True)
            self.say, self.box = nn.Linear(d, n_classes + 1), nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 4))

        def forward(self, images, *more):
            which = more[0] if len(more) == 1 else torch.arange(16)
            x = self.second(self.first(images))
            cells = (x + self.third(x)).flatten(2).transpose(1, 2) + self.places
            x = self.mix(cells[:, which], cells)
            at = ((torch.arange(4) + 0.5) / 4).logit()
            start = torch.stack([at.repeat(4), at.repeat_interleave(4), torch.full((16,), -0.6), torch.full((16,), -0.6)], 1)
            logits, found = self.say(x), (self.box(x) + start[which]).sigmoid()
            if len(more) < 2:
                return torch.cat([logits, found], -1)
            classes, boxes = more
            real, weight = classes >= 0, torch.tensor([1.0] * n_classes + [0.1])
            with torch.no_grad():
                queries = match(matching_cost(logits, found, classes, boxes), classes)
            wanted = torch.full((len(images), 17), n_classes).scatter(1, torch.where(real, queries, 16), classes.clamp(min=0))
            total = F.cross_entropy(logits.flatten(0, 1), wanted[:, :16].flatten(), weight)
            mine = found.gather(1, queries.clamp(min=0)[..., None].expand(-1, -1, 4))[real]
            agree = giou(to_corners(mine), to_corners(boxes[real])).diagonal()
            return total + (5 * F.l1_loss(mine, boxes[real], reduction="sum") + 2 * (1 - agree).sum()) / max(len(mine), 1)

    model = Detector()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for batch in loops.epochs((images, classes, boxes), n_steps, 20):
        optimizer.zero_grad()
        model(*batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


exercise = Exercise(
    id="12.8",
    title="A detector and its training loop",
    reference=train_detector,
    extra=True,
    properties=(
        *trained.sound_training(
            SECONDS,
            MOST_PARAMETERS,
            ("The model gives predictions (B, N, n_classes + 5), and its loss.", _model),
            trained.every(trained.makes_updates, trained.loss_falls(unless=_learns)),
        ),
        trained.shown(
            "batch",
            "The predictions for a scene do not depend on the other scenes of its batch.",
            trained.each_alone("scenes", "predictions"),
        ),
        trained.complete_optimizer,
        trained.shown(
            "queries", "Queries attend to each other: what one predicts depends on the others, not on their order.", _queries, 2
        ),
        trained.shown("set", "The order of the objects and the padding have no effect on the loss.", _set),
        trained.holds("boxes", "The box loss is 5 L1 + 2 (1 - GIoU) of matched pairs, for each object.", _boxes, 1, ("set",)),
        trained.holds(
            "classes", 'Unmatched queries are trained to predict "no object", with a weight.', _classes, 1, ("boxes",)
        ),
        trained.holds("learns", f"On unseen scenes AP50 is at least {LEARNS}.", _learns, 1, ("queries",)),
        trained.holds("score", f"On unseen scenes AP50 is at least {SCORE}.", _score, 1, needs=("learns",)),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        set_loss: "use the loss that you wrote in 12.6, or write it here.",
        draw_crowds: "learn from the scenes that you are given.",
    },
    training=Training(_questions, SECONDS),
)
