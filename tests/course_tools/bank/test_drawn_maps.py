"""Maps with a legend: the answers are what the picture shows, and unseen maps share no background with others."""

import torch

from course_lib.primitives import patchify
from course_tools.bank.drawn_maps import CELL, draw_maps, draw_maps_with_pins


def ground_of(cells: torch.Tensor, cell: torch.Tensor) -> torch.Tensor:
    """The colour of the ground of an entry, from a corner of its cell: (n, 3)."""
    return cells[torch.arange(len(cells)), cell].unflatten(1, (3, CELL, CELL))[:, :, 0, 0]


def hue_of(colour: torch.Tensor) -> torch.Tensor:
    """The direction of a colour without its grey, which neither brightness nor saturation changes."""
    return torch.nn.functional.normalize(colour - colour.min(-1, keepdim=True).values, dim=-1)


def test_the_entry_has_the_hue_of_the_pin():
    maps = draw_maps(300, seed=0)
    cells = patchify(maps.images, CELL)
    middle = cells[torch.arange(300), maps.pin].unflatten(1, (3, CELL, CELL))[:, :, CELL // 2, CELL // 2]
    torch.testing.assert_close(hue_of(ground_of(cells, maps.entry)), hue_of(middle), atol=1e-4, rtol=0)


def test_the_answers_agree_where_the_entry_is_beside_the_pin_and_only_there():
    maps = draw_maps(300, seed=0)
    assert torch.equal(maps.entry == maps.pin + 1, maps.beside == maps.colour)
    assert (maps.pin % 4 < 3).all()
    assert 50 < (maps.beside == maps.colour).sum() < 100


def test_maps_follow_the_seed_and_all_symbols_and_answers_occur():
    one, again, other = draw_maps(300, seed=2), draw_maps(300, seed=2), draw_maps(300, seed=3)
    assert torch.equal(one.images, again.images)
    assert not torch.equal(one.images, other.images)
    assert one.images.shape == (300, 3, 48, 48)
    assert one.images.min() >= 0
    assert one.images.max() <= 1
    assert len(one.colour.unique()) == len(one.beside.unique()) == 8


def test_unseen_maps_come_from_other_parts_of_the_photographs():
    seen, unseen = (patchify(draw_maps(300, seed=0, unseen=unseen).images, CELL).flatten(0, 1) for unseen in (False, True))
    assert torch.cdist(unseen[:600], seen).min() > 0


def test_one_entry_has_a_colour_that_no_pin_has_and_every_pin_has_that_of_an_entry():
    images, symbols = draw_maps_with_pins(40, seed=0)
    assert torch.equal(images, draw_maps_with_pins(40, seed=0)[0])
    assert len(symbols.unique()) == 8
    order = torch.rand(40, 16, generator=torch.Generator().manual_seed(0)).argsort(1)
    cells = patchify(images, CELL)
    entries = torch.stack([hue_of(ground_of(cells, order[:, i])) for i in range(6)], 1)
    middles = cells.unflatten(2, (3, CELL, CELL))[:, :, :, CELL // 2, CELL // 2]
    pins = hue_of(middles[torch.arange(40)[:, None], order[:, 6:11]])
    nearest = torch.cdist(entries, pins).amin(2)  # (40, 6)
    assert nearest[:, 1:].max() < 1e-3
    assert nearest[:, 0].min() > 0.02
