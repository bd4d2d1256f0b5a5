"""A small convolutional backbone: convolution, normalisation and ReLU, repeated.

Simonyan & Zisserman 2015 (https://arxiv.org/abs/1409.1556) for stacked small kernels; Ioffe & Szegedy 2015, section 3.2
(https://arxiv.org/abs/1502.03167) for a normalisation between convolution and ReLU, which makes a bias redundant:

    x ← ReLU(norm(K * x))        K: 3 × 3

Another layer can replace the convolution, such as local attention (Ramachandran et al. 2019, section 3.2,
https://arxiv.org/abs/1906.05909).
"""

from collections.abc import Callable, Sequence

from jaxtyping import Float
from torch import Tensor, nn

from course_lib.shapes import Image

__all__ = ["ContextOf", "ConvNet", "convolution"]

LayerFactory = Callable[[int, int, int], nn.Module]
"""`layer(d_in, d_out, stride)` makes a module from (B, d_in, H, W) to (B, d_out, ⌈H / stride⌉, ⌈W / stride⌉)."""


def convolution(d_in: int, d_out: int, stride: int) -> nn.Module:
    """Make a convolution of 3 × 3 without bias: (B, d_in, H, W) to (B, d_out, ⌈H / stride⌉, ⌈W / stride⌉)."""
    return nn.Conv2d(d_in, d_out, 3, stride, padding=1, bias=False)


class ContextOf(nn.Module):
    """Return the context of an attention layer without its weights, for use where a layer returns one tensor."""

    def __init__(self, attention: nn.Module) -> None:
        """Wrap an attention layer, such as `NonLocal(d_in)`, whose `d_out` is the number of features of its context."""
        super().__init__()
        self.attention = attention
        self.d_out = attention.d_out

    def forward(self, x: Tensor) -> Tensor:
        """Return the context of the attention over x."""
        return self.attention(x).context


class ConvNet(nn.Module):
    """Turn images (B, d_in, H, W) into a map of features (B, d_out, H', W'); H' = ⌈H / product of the strides⌉.

    For one vector per image, put `nn.AdaptiveMaxPool2d(1)` and `nn.Flatten()` after it.
    """

    def __init__(
        self,
        d_in: int,
        widths: Sequence[int] = (32, 64, 64),
        strides: Sequence[int] = (2, 1, 2),
        norm: Callable[[int], nn.Module] = nn.BatchNorm2d,
        layer: LayerFactory = convolution,
    ) -> None:
        """Stack one layer for each width.

        Args:
            d_in: features of an input pixel.
            widths: features of a pixel after each layer.
            strides: of each layer.
            norm: `norm(width)` makes the normalisation between layer and ReLU.
            layer: `layer(d_in, d_out, stride)` makes the layer that mixes pixels; with local attention,
                `lambda d_in, d_out, stride: ContextOf(LocalAttention(d_in, d_out, n_heads, size, stride))`.

        Raises:
            ValueError: the numbers of widths and strides differ, or there are none.
        """
        if len(widths) != len(strides) or not widths:
            raise ValueError(f"widths and strides must have the same length, at least 1; got {len(widths)} and {len(strides)}.")
        super().__init__()
        layers: list[nn.Module] = []
        for before, width, stride in zip((d_in, *widths), widths, strides, strict=False):
            layers += [layer(before, width, stride), norm(width), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.d_out = widths[-1]

    def forward(self, images: Image) -> Float[Tensor, "B d_out h w"]:
        """Map images to features."""
        return self.layers(images)
