"""A small image backbone: convolution, normalisation, ReLU, a few times over.

Simonyan & Zisserman 2015 (https://arxiv.org/abs/1409.1556) for small kernels in a row; Ioffe & Szegedy 2015, section 3.2
(https://arxiv.org/abs/1502.03167) for a normalisation between convolution and ReLU, which makes the bias superfluous:

    x ← ReLU(norm(K * x))        K: 3 × 3
"""

from collections.abc import Callable, Sequence

from jaxtyping import Float
from torch import Tensor, nn

from course_lib.shapes import Image


class ConvNet(nn.Module):
    """Turn images (B, d_in, H, W) into a map of features (B, d_out, H', W'); H' = ⌈H / product of the strides⌉.

    For one vector an image, put `nn.AdaptiveMaxPool2d(1)` and `nn.Flatten()` behind it.
    """

    def __init__(
        self,
        d_in: int,
        widths: Sequence[int] = (32, 64, 64),
        strides: Sequence[int] = (2, 1, 2),
        norm: Callable[[int], nn.Module] = nn.BatchNorm2d,
    ) -> None:
        """Stack one layer for each width; `norm(width)` makes the normalisation between convolution and ReLU.

        Raises:
            ValueError: there are not as many strides as widths, or there is none.
        """
        if len(widths) != len(strides) or not widths:
            raise ValueError(f"need one stride for each width, and one or more; got {len(widths)} and {len(strides)}.")
        super().__init__()
        layers: list[nn.Module] = []
        for before, width, stride in zip((d_in, *widths), widths, strides, strict=False):
            layers += [nn.Conv2d(before, width, 3, stride, padding=1, bias=False), norm(width), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.d_out = widths[-1]

    def forward(self, images: Image) -> Float[Tensor, "B d_out h w"]:
        """Map images to features."""
        return self.layers(images)
