"""The mean of an image at every pixel, a global context without attention."""

from torch import nn

from course_lib.shapes import Image


class GlobalAverage(nn.Module):
    """Replace every pixel by the mean of all pixels: (B, d, H, W) to the same shape, without parameters."""

    def __init__(self, d_in: int) -> None:
        super().__init__()
        self.d_out = d_in

    def forward(self, x: Image) -> Image:
        """Broadcast the mean to all pixels of x (B, d, H, W)."""
        return x.mean((2, 3), keepdim=True).expand_as(x)
