"""Exercises of lecture 12: answers that the bank does not hold, and answers with two of its mistakes."""

import torch
import torch.nn.functional as F

from course_lib.losses import match, match_greedily, matching_cost, set_loss
from course_lib.metrics import average_precision
from course_lib.primitives import area, giou, iou, overlap, to_centres, to_corners


def corners_turned_back(boxes):
    return to_centres(boxes)


def corners_of_squares(boxes):
    side = boxes[..., 2:].mean(-1, keepdim=True) / 2
    return torch.cat([boxes[..., :2] - side, boxes[..., :2] + side], dim=-1)


def corners_without_gradient(boxes):
    return to_corners(boxes.detach())


def corners_of_a_third(boxes):
    return torch.cat([boxes[..., :2] - boxes[..., 2:] / 3, boxes[..., :2] + boxes[..., 2:] / 3], dim=-1)


def corners_exchanged_and_cut(boxes):
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - h / 2, y - w / 2, x + h / 2, y + w / 2], dim=-1).clamp(0, 1)


def overlap_of_sides_added(a, b):
    first, second = a[..., :, None, :], b[..., None, :, :]
    sides = (torch.minimum(first[..., 2:], second[..., 2:]) - torch.maximum(first[..., :2], second[..., :2])).clamp(min=0)
    return sides.sum(-1), area(first) + area(second) - sides.sum(-1)


def overlap_exchanged(a, b):
    return tuple(overlap(a, b))[::-1]


def overlap_of_the_smaller_box(a, b):
    shared, covered = overlap(a, b)
    return torch.minimum(area(a)[..., :, None], area(b)[..., None, :]) + 0 * shared, covered


def overlap_of_widths_counted_twice(a, b):
    a, b = a[..., :, None, :], b[..., None, :, :]
    shared = (torch.minimum(a[..., 2], b[..., 2]) - torch.maximum(a[..., 0], b[..., 0])).clamp(min=0)
    return shared, area(a) + area(b)


def half_of_giou(a, b):
    return giou(a, b) / 2


def iou_less_the_distance(a, b):
    centres = to_centres(a)[..., :, None, :2], to_centres(b)[..., None, :, :2]
    return iou(a, b) - (centres[0] - centres[1]).square().sum(-1)


def giou_squared(a, b):
    return giou(a, b).square()


def giou_as_a_loss_cut_at_one(a, b):
    return 1 - giou(a, b).clamp(min=0)


def cost_of_half_the_class(logits, boxes, classes, targets, weights=(1.0, 5.0, 2.0)):
    return matching_cost(logits, boxes, classes, targets, (weights[0] / 2, *weights[1:]))


def cost_of_the_largest_difference(logits, boxes, classes, targets, weights=(1.0, 5.0, 2.0)):
    cost = matching_cost(logits, boxes, classes, targets, (weights[0], 0.0, weights[2]))
    largest = (boxes[..., :, None, :] - targets[..., None, :, :]).abs().amax(-1)
    return torch.where((classes >= 0)[..., None, :], cost + weights[1] * largest, 0.0)


def cost_of_iou(logits, boxes, classes, targets, weights=(1.0, 5.0, 2.0)):
    cost = matching_cost(logits, boxes, classes, targets, (weights[0], weights[1], 0.0))
    near = iou(to_corners(boxes), to_corners(targets))
    return torch.where((classes >= 0)[..., None, :], cost - weights[2] * near, 0.0)


def cost_of_logits_in_fixed_weights(logits, boxes, classes, targets, weights=(1.0, 5.0, 2.0)):
    wanted = classes.clamp(min=0)[..., None, :].expand(*logits.shape[:-1], classes.shape[-1])
    cost = matching_cost(logits, boxes, classes, targets, (0.0, 5.0, 2.0)) - logits.gather(-1, wanted)
    return torch.where((classes >= 0)[..., None, :], cost, 0.0)


def match_in_reversed_order(cost, classes):
    return match(cost.flip(1), classes)


def match_of_absolute_costs(cost, classes):
    return match(cost.abs(), classes)


def match_from_the_last_object(cost, classes):
    return match_greedily(cost.flip(-1), classes.flip(-1)).flip(-1)


def match_the_dearest_and_mark_by_zero(cost, classes):
    return match(-cost, classes).clamp(min=0)


def loss_in_bits(logits, boxes, classes, targets, queries, no_object=0.1):
    said, *rest = set_loss(logits, boxes, classes, targets, queries, no_object)
    return said / torch.log(torch.tensor(2.0)), *rest


def loss_of_squares(logits, boxes, classes, targets, queries, no_object=0.1):
    b, m = (classes >= 0).nonzero(as_tuple=True)
    said, _, apart = set_loss(logits, boxes, classes, targets, queries, no_object)
    return said, (boxes[b, queries[b, m]] - targets[b, m]).square().sum() / max(len(b), 1), apart


def loss_without_gradient_of_the_boxes(logits, boxes, classes, targets, queries, no_object=0.1):
    return tuple(set_loss(logits, boxes.detach(), classes, targets, queries, no_object))


def loss_of_all_alike_over_the_pictures(logits, boxes, classes, targets, queries, no_object=0.1):
    said, l1, apart = set_loss(logits, boxes, classes, targets, queries, 1.0)
    share = max(int((classes >= 0).sum()), 1) / len(classes)
    return said, l1 * share, apart * share


def precision_of_the_first_half(scores, hits, n_objects):
    best = scores.argsort(descending=True)[: (len(scores) + 1) // 2]
    return average_precision(scores[best], hits[best], n_objects)


def precision_squared(scores, hits, n_objects):
    return average_precision(scores, hits, n_objects).square() * 0.99


def precision_weighed_by_confidence(scores, hits, n_objects):
    return (scores * hits).sum() / scores.sum().clamp(min=1e-9)


def precision_unsorted_of_the_found(scores, hits, n_objects):
    rank = -torch.arange(len(scores), dtype=scores.dtype)
    return average_precision(rank, hits, max(int(hits.sum()), 1)).to(scores.dtype)


def favourites_by_one_hot(cost, classes):
    return torch.where(classes >= 0, F.one_hot(cost.argmin(1), cost.shape[1]).argmax(-1), -1)


STRANGERS = {
    "12.1": (corners_turned_back, corners_of_squares, corners_without_gradient, corners_of_a_third),
    "12.2": (overlap_of_sides_added, overlap_exchanged, overlap_of_the_smaller_box),
    "12.3": (half_of_giou, iou_less_the_distance, giou_squared),
    "12.4": (cost_of_half_the_class, cost_of_the_largest_difference, cost_of_iou),
    "12.5": (match_in_reversed_order, match_of_absolute_costs, match_from_the_last_object),
    "12.6": (loss_in_bits, loss_of_squares, loss_without_gradient_of_the_boxes),
    "12.7": (precision_of_the_first_half, precision_squared, precision_weighed_by_confidence),
}
RELATIVES = (("12.5", favourites_by_one_hot, "lets_each_take_its_favourite"),)
TWO_MISTAKES = (
    ("12.1", corners_exchanged_and_cut, {"exchanges_width_and_height", "stays_in_the_picture"}),
    ("12.2", overlap_of_widths_counted_twice, {"compares_widths_only", "counts_the_shared_part_twice"}),
    ("12.3", giou_as_a_loss_cut_at_one, {"gives_the_loss", "ends_at_zero"}),
    ("12.4", cost_of_logits_in_fixed_weights, {"takes_the_logits", "ignores_the_weights"}),
    ("12.5", match_the_dearest_and_mark_by_zero, {"looks_for_the_dearest", "marks_padding_by_zero"}),
    ("12.6", loss_of_all_alike_over_the_pictures, {"weighs_all_queries_alike", "divides_by_the_pictures"}),
    ("12.7", precision_unsorted_of_the_found, {"keeps_the_order_of_the_detections", "recalls_among_the_hits"}),
)
