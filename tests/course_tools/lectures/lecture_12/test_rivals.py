"""Rivals: which cells each assignment trains, and what a sliding window finds."""

import pytest
import torch
from torch import nn

from course_lib.datasets import Scenes
from course_tools.bank.drawn_crowds import draw_crowds
from course_tools.lectures.lecture_12.detections import Detections, ap50, suppressed
from course_tools.lectures.lecture_12.rivals import (
    CrowdDetector,
    SlidingWindows,
    cell_centres,
    larger_first,
    nearest_place,
    one_to_many,
    one_to_one,
    two_a_cell,
)


class Says(nn.Module):
    """A model of fixed predictions for one scene."""

    def __init__(self):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(1, 16, 3))
        self.boxes = nn.Parameter(torch.cat([cell_centres(), torch.full((16, 2), 0.36)], 1)[None])

    def forward(self, images):
        return self.logits, self.boxes


def trained(loss, boxes):
    """The cells whose box is trained, when there are creatures of kind 1 with these boxes."""
    model, boxes = Says(), torch.tensor([boxes])
    loss(model, (torch.zeros(1, 3, 32, 32), torch.ones(boxes.shape[:2], dtype=torch.long), boxes)).backward()
    of_boxes = model.boxes.grad[0].abs().sum(1).nonzero()[:, 0].tolist()
    assert (model.logits.grad[0, :, 1] < 0).nonzero()[:, 0].tolist() == of_boxes, "these cells, and no others, say the kind"
    return of_boxes


def test_every_cell_in_the_middle_of_a_creature_is_trained():
    """The middle of a box of 0.45 from 0.275 to 0.725 is 0.365 … 0.635: cells 1 and 2 of each axis, 0.375 and 0.625."""
    assert trained(one_to_many, [[0.5, 0.5, 0.45, 0.45]]) == [5, 6, 9, 10]


def test_a_creature_without_a_cell_in_its_middle_gets_the_nearest():
    assert trained(one_to_many, [[0.5, 0.4, 0.05, 0.05]]) in ([5], [6])


def test_one_cell_is_trained_for_each_creature_by_place_or_by_cost():
    boxes = [[0.45, 0.44, 0.36, 0.36], [0.57, 0.44, 0.36, 0.36]]
    assert trained(nearest_place, boxes) == [5, 6]
    assert trained(one_to_one, boxes) == [5, 6]


def test_two_creatures_at_one_place_get_two_cells():
    assert len(trained(nearest_place, [[0.43, 0.44, 0.36, 0.36], [0.44, 0.44, 0.36, 0.36]])) == 2


def test_the_larger_of_two_at_one_place_gets_the_nearest_cell():
    boxes = [[0.4, 0.42, 0.5, 0.5], [0.4, 0.42, 0.3, 0.3]]
    for pair in (boxes, boxes[::-1]):
        model = Says()
        larger_first(model, (torch.zeros(1, 3, 32, 32), torch.ones(1, 2, dtype=torch.long), torch.tensor([pair]))).backward()
        widths = model.boxes.grad[0, :, 2]
        assert widths.nonzero()[:, 0].tolist() == [5, 9]
        assert widths[5] < 0 < widths[9]


def test_of_two_creatures_at_one_cell_the_smaller_gets_the_second_query():
    """Creatures 0 and 1 stand at cell 5, in either order of size; the second query of cell 5 has the number 21."""
    for sizes in (0.5, 0.3), (0.3, 0.5):
        model = Says()
        model.logits, model.boxes = (nn.Parameter(torch.full((1, 32, n), 0.4)) for n in (3, 4))
        boxes = torch.tensor([[[0.4, 0.42, size, size] for size in sizes] + [[0.9, 0.9, 0.2, 0.2], [0.0] * 4]])
        two_a_cell(model, (torch.zeros(1, 3, 32, 32), torch.tensor([[1, 1, 0, -1]]), boxes)).backward()
        gradient = model.boxes.grad[0]
        assert gradient.abs().sum(1).nonzero()[:, 0].tolist() == [5, 15, 21]
        assert gradient[21, 2] > 0 > gradient[5, 2], "query 21 learns the smaller box, query 5 the larger"


def test_two_queries_of_one_cell_start_at_one_place_and_can_be_told_apart():
    torch.manual_seed(0)
    model = CrowdDetector(a_cell=2)
    logits, boxes = model(torch.rand(3, 3, 32, 32))
    assert logits.shape == (3, 32, 3)
    assert model.references[:16].equal(model.references[16:])
    assert ((boxes[:, :16] - boxes[:, 16:]).abs().amax(-1) > 1e-5).all()


def test_queries_that_are_alone_do_not_know_of_each_other():
    """A query of the control depends on the others through the cells only: with the cells fixed, not at all."""
    torch.manual_seed(0)
    for alone in (True, False):
        decoder = CrowdDetector(alone).decoder
        x, memory, positions = torch.randn(1, 64, 64), torch.randn(1, 64, 64), torch.randn(64, 64)
        changed = x.clone()
        changed[0, 5] += 1
        apart = (decoder(changed, positions, memory, positions) - decoder(x, positions, memory, positions)).abs().sum(-1)[0]
        assert apart[5] > 0
        assert bool((apart[6:] == 0).all()) == alone


def test_convolutions_in_place_of_the_layer_have_as_many_weights_and_no_attention():
    """A cell of the first convolution reads its neighbours: cell 0 those at 1, 4 and 5. All that is trained has a gradient."""
    torch.manual_seed(0)
    model, known = CrowdDetector(sides=(3, 1, 1)), CrowdDetector()
    n, of_layer = (sum(w.numel() for w in each.parameters() if w.requires_grad) for each in (model, known))
    assert (n, of_layer) == (100_743, 98_503)
    cells = torch.randn(1, 16, 64, requires_grad=True)
    model.decoder(cells, None, None, None)[0, 0].sum().backward()
    assert cells.grad[0].abs().sum(1).nonzero()[:, 0].tolist() == [0, 1, 4, 5]
    one_to_one(model, draw_crowds(5, 0)).backward()
    assert all((w.grad is not None) == w.requires_grad for w in model.parameters())


@pytest.mark.full
def test_the_sliding_window_finds_more_than_chance_and_looks_at_the_scene():
    known, unseen = draw_crowds(150, 0), draw_crowds(20, 1, unseen=True)
    p, corners = SlidingWindows(known, width=200).detect(unseen.images)
    assert (p.shape, corners.shape) == ((20, 64, 2), (20, 64, 4))
    assert corners.min() >= 0
    assert corners.max() <= 1
    found = suppressed(Detections(p.to(unseen.images.device), corners.to(unseen.images.device)), 0.7)
    elsewhere = Scenes(unseen.images, unseen.classes.roll(1, 0), unseen.boxes.roll(1, 0))
    assert ap50(found, unseen) > ap50(found, elsewhere) + 0.15


def test_a_window_is_read_where_it_is():
    """A bright square of rows 4 to 9 and columns 20 to 25: all points of a window inside are bright, of another none."""
    images = torch.full((1, 3, 32, 32), 0.5)
    images[0, 0, 4:10, 20:26] = 1.0
    windows = torch.tensor([[21.0, 5.0, 25.0, 9.0], [5.0, 21.0, 9.0, 25.0]]) / 32
    shown = SlidingWindows._contrasts(images)
    seen = SlidingWindows._look(shown, torch.zeros(2, dtype=torch.long), windows)[:, :-2].view(2, 12, 12, 3)
    assert (seen[0, 2:10, 2:10, 0] == 0.5).all()
    assert (seen[1] == 0).all()
