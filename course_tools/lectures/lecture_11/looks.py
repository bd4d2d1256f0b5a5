"""Where a map reader of two layers looks."""

from typing import NamedTuple

import torch
from torch import Tensor

from course_tools.bank.drawn_maps import Maps


class Looks(NamedTuple):
    """The weights and shares of `looks_of`.

    `to_pin` and `of_class` (n, 16): what each cell takes from the pin in layer 1, the class token from each cell in layer 2.
    `at_pin`, `at_entry`: the share of maps in which the entry looks at the pin most, and the class token at the entry.
    """

    to_pin: Tensor
    of_class: Tensor
    at_pin: Tensor
    at_entry: Tensor


def looks_of(weights: Tensor, maps: Maps) -> Looks:
    """Find who looks at whom, by the weights (2, n, h, 1 + 16, 16) that two layers put on the cells.

    Layer 1 is that head in which the entry of the pin's colour looks at the pin most often, layer 2 the mean of the heads.
    """
    (first, last), each = weights, torch.arange(len(maps.pin))
    of_entry = first[each, :, 1 + maps.entry]  # (n, h, 16)
    share = (of_entry.argmax(-1) == maps.pin[:, None]).float().mean(0)  # of each head
    of_class = last[:, :, 0].mean(1)
    at_entry = (of_class.argmax(-1) == maps.entry).float().mean()
    return Looks(first[each, share.argmax(), 1:, maps.pin], of_class, share.max(), at_entry)
