"""Images with several objects each, their classes and boxes: data for detection."""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["Scenes"]


class Scenes(NamedTuple):
    """Images (n, C, H, W), and for each object the class (n, M), -1 if there is none, and the box (n, M, 4).

    Boxes are centre and size (x, y, w, h), as fractions of the image; 0 if there is no object. Objects have no order.
    """

    images: Float[Tensor, "n C H W"]
    classes: Int[Tensor, "n M"]
    boxes: Float[Tensor, "n M 4"]
