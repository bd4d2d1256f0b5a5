"""Where a map reader looks is that of the head that finds the pin."""

import torch

from course_tools.bank.drawn_maps import Maps
from course_tools.lectures.lecture_11.looks import looks_of


def test_looks_are_those_of_the_head_that_finds_the_pin():
    maps = Maps(*[torch.zeros(2)] * 3, pin=torch.tensor([3, 5]), entry=torch.tensor([7, 1]))
    weights = torch.full((2, 2, 3, 17, 16), 0.01)
    weights[0, [0, 1], 2, [1 + 7, 1 + 1], [3, 5]] = 0.8  # layer 1, last head: the entry looks at the pin
    weights[1, [0, 1], :, 0, [7, 2]] = 0.7  # layer 2: the class token looks at the entry of the first map only
    looks = looks_of(weights, maps)
    assert (looks.at_pin, looks.at_entry) == (1, 0.5)
    assert looks.to_pin.shape == looks.of_class.shape == (2, 16)
    assert looks.to_pin.argmax(1).tolist() == [7, 1]
    assert looks.of_class.argmax(1).tolist() == [7, 2]
