"""Restore the colours of a photograph from a few coloured pixels: features, metrics and figures."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.analysis import record
from course_lib.attention import AttentionLayer2d
from course_lib.datasets import photographs
from course_tools.notebook.device import device
from course_tools.notebook.plots import pictures
from course_tools.notebook.seed_scores import show_seeds
from course_tools.notebook.show import show

_KNOWN = 1e4
"""What is added to the score of a pixel whose colour is known: the weight of all others is then 0."""


@dataclass(frozen=True)
class FadedPhotograph:
    """A photograph (1, 3, H, W), its brightness (1, 1, H, W), and samples of pixels that keep their colour."""

    photo: Tensor
    grey: Tensor
    samples: Sequence[Tensor]

    def features(self, known: Tensor) -> Tensor:
        """Compute (1, 10, H, W): 1, brightness, its square, row, column, row² + column², known or not, known colour (3).

        Rows run from -1 to 1, columns from -1.5 to 1.5. The colour is the difference from the brightness, 0 where unknown.
        """
        height, width = self.grey.shape[-2:]
        rows = torch.linspace(-1, 1, height, device=device())[:, None].expand(height, width)
        columns = torch.linspace(-1.5, 1.5, width, device=device()).expand(height, width)
        position = torch.stack([rows, columns, rows**2 + columns**2])[None]
        colour = (self.photo - self.grey) * known
        return torch.cat([torch.ones_like(self.grey), self.grey, self.grey**2, position, known, colour], dim=1)

    def from_neighbours(self, known: Tensor) -> Tensor:
        """Assign each pixel the mean of the known colours in its 3×3 window, 0 if there are none: (1, 3, H, W)."""
        inside, colour = (F.avg_pool2d(x, 3, stride=1, padding=1) for x in (known, (self.photo - self.grey) * known))
        return colour / inside.clamp_min(1e-6)

    def decibels(self, colours: Tensor) -> float:
        """Measure the peak signal-to-noise ratio of brightness plus colours: +10 dB is a tenth of the squared error."""
        return -10 * math.log10(F.mse_loss((self.grey + colours).expand_as(self.photo), self.photo).item())


def faded_photograph(size: tuple[int, int], seeds: Iterable[int], share: float = 0.02) -> FadedPhotograph:
    """Load the photograph of a dahlia at size (H, W); for each seed, sample a fraction of pixels that keep their colour."""
    photo = photographs(size)[1:].to(device())
    draws = (torch.rand(1, 1, *size, generator=torch.Generator().manual_seed(seed)) for seed in seeds)
    return FadedPhotograph(photo, photo.mean(1, keepdim=True), [draw.lt(share).float().to(device()) for draw in draws])


def matrices_of_scores(brightness: float, position: float) -> list[Tensor]:
    """Set W_q (4, 10), W_k (4, 10) and W_v (3, 10) by hand for `FadedPhotograph.features`, on the device of the lectures.

    The score of pixel j for query i is -b (g_i - g_j)² - p ‖r_i - r_j‖² up to terms that depend on i only, with brightness g
    and position r; where the colour of j is known, it is larger by 10⁴. A value is the known colour. The keys are multiplied by
    √d_k = 2, by which the scale 1/√d_k divides the scores again.

    Args:
        brightness: b, the weight of differences of brightness.
        position: p, the weight of squared distances.
    """
    W_q, W_k, W_v = torch.zeros(4, 10), torch.zeros(4, 10), torch.zeros(3, 10)
    W_q[[0, 1, 2, 3], [1, 3, 4, 0]] = 1.0
    W_k[[0, 1, 2], [1, 3, 4]] = 2 * torch.tensor([brightness, position, position])
    W_k[3, [2, 5, 6]] = torch.tensor([-brightness, -position, _KNOWN])
    W_v[[0, 1, 2], [7, 8, 9]] = 1.0
    return [W.to(device()) for W in (W_q, 2 * W_k, W_v)]


def compare_restorations(
    faded: FadedPhotograph, layer: Callable[..., Tensor], matrices: Mapping[str, Sequence[Tensor]]
) -> dict[str, list[float]]:
    """Restore the photograph from each sample of known pixels, and draw the peak signal-to-noise ratios, in dB.

    Args:
        faded: the photograph and its samples.
        layer: `(features, W_q, W_k, W_v)` → colours (1, 3, H, W), such as `attention_over_image`.
        matrices: name -> W_q, W_k and W_v.

    Returns:
        the ratios of each restoration, one for each sample; "no colour" and "3×3 window" are added.
    """
    restored = {
        "no colour": [torch.zeros_like(faded.photo) for _ in faded.samples],
        "3×3 window": [faded.from_neighbours(known) for known in faded.samples],
    } | {
        name: [layer(faded.features(known), *of_name).float() for known in faded.samples] for name, of_name in matrices.items()
    }
    quality = {name: [faded.decibels(colours) for colours in each] for name, each in restored.items()}
    show_seeds(quality, "PSNR (dB)", "restored photograph, one point per sample of known pixels")
    return quality


def show_restored(faded: FadedPhotograph, layer: Callable[..., Tensor], brightness: float = 4.0, position: float = 0.5) -> None:
    """Draw the given image of the first sample, the image restored by a layer, and the photograph.

    Args:
        faded: the photograph and its samples.
        layer: `(features, W_q, W_k, W_v)` → colours (1, 3, H, W), such as `attention_over_image`.
        brightness: the weight b of differences of brightness in the scores, as 10^brightness - 1.
        position: the weight p of squared distances, as 10^position - 1.
    """
    known, matrices = faded.samples[0], matrices_of_scores(10**brightness - 1, 10**position - 1)
    colours = layer(faded.features(known), *matrices).float()
    quality = f"{faded.decibels(colours):.1f} dB"
    views = {"given": _given(faded, known), f"restored, PSNR {quality}": faded.grey + colours, "the photograph": faded.photo}
    setting = f"with brightness at 10^{brightness:g} and position at 10^{position:g}"
    alt = f"A dahlia that is grey except for {int(known.sum())} pixels, the same restored {setting}, and the photograph; "
    show(pictures(_images(views)), alt=f"{alt}the peak signal-to-noise ratio is {quality}.")


@torch.no_grad()
def show_weights_of_a_pixel(faded: FadedPhotograph, known: Tensor, matrices: Sequence[Tensor]) -> None:
    """Draw the restored photograph, and the pixels that a pixel at the lower edge attends to most, by an AttentionLayer2d.

    Args:
        faded: the photograph.
        known: which pixels keep their colour, (1, 1, H, W).
        matrices: W_q, W_k, W_v, (d_k, 10), (d_k, 10) and (3, 10), which become the weights of the layer.
    """
    layer = AttentionLayer2d(matrices[0].shape[1], *(len(W) for W in matrices[1:])).to(device())
    for projection, W in zip((layer.W_q, layer.W_k, layer.W_v), matrices, strict=True):
        projection.weight.copy_(W)
    with record(layer) as seen:
        colours = layer(faded.features(known)).context
    height, width = faded.grey.shape[-2:]
    asking, asks = (height - 3, width // 2), "weights of one pixel"
    weights = seen[""][0].weights[0].unflatten(0, (height, width))[asking].unflatten(0, (height, width)).cpu()
    given = _given(faded, known)
    views = {"given": given, "restored": faded.grey + colours, "the photograph": faded.photo, asks: given}
    show(
        pictures(_images(views), {asks: asking}, {asks: weights}, strongest=5),
        alt=f"A grey dahlia with {int(known.sum())} coloured pixels; the same with its colours restored, "
        f"{faded.decibels(colours):.1f} dB; the photograph; and a ringed pixel with arrows to the five coloured pixels that "
        f"get {100 * weights.flatten().topk(5).values.sum():.0f} % of its weight.",
    )


def _given(faded: FadedPhotograph, known: Tensor) -> Tensor:
    return torch.where(known > 0, faded.photo, faded.grey)


def _images(views: dict[str, Tensor]) -> dict[str, Tensor]:
    """Turn images (1, 3, H, W) into arrays (H, W, 3) in 0…1, as figures draw them."""
    return {title: view.clamp(0, 1)[0].permute(1, 2, 0).cpu() for title, view in views.items()}
