"""DETR on composed digit scenes: five ways to assign objects to queries, and the weight of "no object", three seeds.

The lecture's model and data (section 7), a quarter longer. About 6 minutes on one core.

    python authoring/studies/12_matching.py
"""

from copy import deepcopy
from functools import cache
from itertools import chain

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import fused_scaled_dot_product_attention
from course_lib.blocks import ConvNet, Sizes
from course_lib.datasets import LabelledImages, Scenes, digit_scenes, digits, split
from course_lib.losses import deep_set_loss, match, match_greedily, match_in_order, matching_cost
from course_lib.metrics import mean_average_precision
from course_lib.models import DETR, PointQueries
from course_lib.primitives import iou, to_corners
from course_lib.training import batches, train
from course_tools.notebook.recorded_studies import Study

STEPS, LOOKS, SEEDS = 1_000, (200, 400, 600, 800, 1_000), (0, 1, 2)
ASSIGNMENTS = {  # name: (matching, the objects are sorted from left to right, weight of "no object")
    "matched": (match, False, 0.1),
    "list order": (match_in_order, False, 0.1),
    "left to right": (match_in_order, True, 0.1),
    "greedy": (match_greedily, False, 0.1),
    "matched, no object 0.4": (match, False, 0.4),
    "matched, no object 1": (match, False, 1.0),
}
drawn, named = digits()


def scenes(which, n, seed, size=24, most=3):
    chosen = torch.tensor(which)
    return Scenes(*digit_scenes(LabelledImages(drawn[chosen][:, None], named[chosen]), n, seed, (size, size), (1, most)))


def left_to_right(made):
    """Sort the objects of each scene by the x of their centres; padding stays last."""
    order = made.boxes[..., 0].masked_fill(made.classes < 0, 2.0).argsort(-1)
    return Scenes(made.images, made.classes.gather(1, order), made.boxes.gather(1, order[..., None].expand(-1, -1, 4)))


@cache
def pretrained_backbone(seed):
    """The backbone of a network that was trained to classify single digits."""
    part = split(range(len(named)), 1_400, 0, 397, seed)
    torch.manual_seed(seed)
    backbone = ConvNet(1, widths=(32, 64, 64), strides=(2, 2, 1))
    model = nn.Sequential(backbone, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    alone = scenes(part.train, 3_000, 10 * seed, size=16, most=1)
    stream = batches(alone.images, alone.classes[:, 0], batch_size=64, seed=seed)
    for _ in train(model, stream, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]), steps=200, lr=3e-3):
        pass
    return backbone


@torch.no_grad()
def near_its_point(model):
    nn.init.eye_(model.queries.mix.weight)
    nn.init.zeros_(model.queries.mix.bias)
    cross = model.decoder[0].cross
    cross.W_k.weight.mul_(2)
    cross.W_q.load_state_dict(cross.W_k.state_dict())
    return model


@torch.no_grad()
def predictions(model, images):
    model.eval()
    logits, boxes = (layers[-1] for layers in model(images))
    model.train()
    return logits, boxes


def ap50(p, corners, new):
    return mean_average_precision(p, corners, new.classes, to_corners(new.boxes))


def suppressed(p, corners, most=0.5):
    """Non-maximum suppression: the confidence of a box that overlaps a more confident one is set to 0."""
    sure, above = p.sum(-1), iou(corners, corners) > most
    keep, order = torch.ones_like(sure, dtype=torch.bool), sure.argsort(-1, descending=True)
    for b in range(len(sure)):
        for rank, i in enumerate(order[b].tolist()):
            keep[b, i] = not any(above[b, i, j] and keep[b, j] for j in order[b, :rank].tolist())
    return keep


def judge(model, new):
    logits, boxes = predictions(model, new.images)
    p, corners = logits.softmax(-1)[..., :-1], to_corners(boxes)
    found = mean_average_precision(p.sum(-1, keepdim=True), corners, new.classes.clamp(max=0), to_corners(new.boxes))
    keep, sure = suppressed(p, corners), p.sum(-1) > 0.5
    cost = matching_cost(logits, boxes, new.classes, new.boxes)
    return {
        "ap50": ap50(p, corners, new),
        "class-agnostic ap50": found,
        "ap50 after suppression": ap50(p * keep[..., None], corners, new),
        "detections an object": sure.sum().item() / (new.classes >= 0).sum().item(),
        "duplicates": (sure & ~keep).sum().item() / max(sure.sum().item(), 1),
        "greedy differs": (match(cost, new.classes) != match_greedily(cost, new.classes)).any(-1).float().mean().item(),
    }


study = Study(__file__, steps=STEPS, batch_size=16, lr=2e-3, scenes=3_000, tested_on=300, objects="1 to 3", queries=6)
names = tuple(ASSIGNMENTS)
for name, seed in chain(study.missing(names[:4], SEEDS), study.missing(names[4:], SEEDS)):
    part = split(range(len(named)), 1_400, 0, 397, seed)
    known, new = scenes(part.train, 3_000, 10 * seed), scenes(part.test, 300, 10 * seed + 1)
    backbone = deepcopy(pretrained_backbone(seed))
    torch.manual_seed(seed)
    sizes = Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=1)
    model = near_its_point(DETR(backbone, 64, 10, PointQueries(6, 64), sizes, fused_scaled_dot_product_attention))
    matching, is_sorted, no_object = ASSIGNMENTS[name]

    def loss(model, batch, matching=matching, no_object=no_object):
        return deep_set_loss(*model(batch[0]), *batch[1:], matching, no_object)

    curve, stream = {}, batches(*(left_to_right(known) if is_sorted else known), batch_size=16, seed=seed)
    for step in train(model, stream, loss, steps=STEPS, lr=2e-3, warmup=STEPS // 8):
        if step.index + 1 in LOOKS:
            logits, boxes = predictions(model, new.images)
            curve[step.index + 1] = ap50(logits.softmax(-1)[..., :-1], to_corners(boxes), new)
    study.record(name, seed, judge(model, new), curve)
    print(name, seed, curve, flush=True)
