"""Rivals: which cells each assignment trains, and what patches of one colour find."""

import torch
from torch import nn

from course_lib.datasets import Scenes
from course_tools.lectures.lecture_12.crowds import draw_crowds
from course_tools.lectures.lecture_12.experiments import Detections, ap50
from course_tools.lectures.lecture_12.rivals import (
    CrowdDetector,
    OneColour,
    _fragments,
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


def test_patches_of_one_colour_find_creatures_that_stand_alone():
    known, unseen = draw_crowds(400, 0, pairs=0.0), draw_crowds(60, 1, unseen=True, pairs=0.0)
    p, corners = OneColour(Scenes(*(part.cpu() for part in known))).detect(unseen.images)
    found = Detections(p.to(unseen.images.device), corners.to(unseen.images.device))
    assert p.shape == (60, 64, 2)
    assert ap50(found, unseen) > 0.9
    assert ap50(found, Scenes(unseen.images, unseen.classes, unseen.boxes.roll(1, 0))) < 0.5


def test_fragments_of_one_colour_are_joined_and_others_are_not():
    """Two bars of one colour, three pixels apart, with a bar of another between; a third of their colour is too far."""
    images = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    red, blue = torch.tensor([1.0, 0, 0])[:, None, None], torch.tensor([0.0, 0, 1])[:, None, None]
    images[0, :, 4:10, 4:6], images[0, :, 4:10, 6:8], images[0, :, 4:10, 8:10] = red, blue, red
    images[0, :, 4:10, 20:22] = red
    label = torch.arange(32 * 32).view(32, 32)
    for columns in (slice(4, 6), slice(6, 8), slice(8, 10), slice(20, 22)):
        label[4:10, columns] = int(label[4, columns.start])
    new = _fragments(images, label.flatten())[label]
    assert new[4, 4] == new[9, 9]
    assert len({int(new[4, column]) for column in (4, 6, 20)}) == 3
