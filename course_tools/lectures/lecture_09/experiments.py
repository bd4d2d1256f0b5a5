"""Two digits on a canvas: training, accuracy and attention arrows; the frames of a video that an output depends on."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import NonLocal, NonLocalBlock, non_local_dot_product
from course_lib.blocks import ConvNet
from course_lib.datasets import LabelledImages
from course_lib.datasets.splits import Splits
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import accuracy_of, classify, fitted, show_losses
from course_tools.notebook.grey import grey
from course_tools.notebook.plots import pictures
from course_tools.notebook.show import show

# Two digits on a canvas, of one class or of two: training, accuracy and attention arrows of the networks.


_FAR = 15
"""In pixels: positions further from the marked one than this lie on the other digit, if they have ink."""


def canvas_network(
    *between: nn.Module, widths: Sequence[int] = (16, 32, 32), strides: Sequence[int] = (2, 2, 1)
) -> nn.Sequential:
    """Create a convolutional network from images (B, 1, H, W) to two logits, with global average pooling before a linear layer.

    Args:
        between: layers between the convolutions and the pooling; they keep the number of features.
        widths: features of each convolution.
        strides: of each convolution.
    """
    pooled = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 2)
    return nn.Sequential(ConvNet(1, widths, strides), *between, *pooled)


def dilated(network: nn.Sequential, n: int = 2) -> nn.Sequential:
    """Dilate the last n convolutions of 3 × 3 of a network by 2, in place: a larger receptive field, the same size of the map.

    Args:
        network: of `canvas_network`; its last n convolutions have stride 1.
        n: how many convolutions are dilated.
    """
    for layer in [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)][-n:]:
        layer.dilation = layer.padding = (2, 2)
    return network


def network_with_block(mechanism: Callable[..., object]) -> nn.Sequential:
    """Create three convolutions and one non-local block with a mechanism `(θ, φ, g)`, such as `non_local_dot_product`."""
    return canvas_network(NonLocalBlock(32, NonLocal(32, mechanism=mechanism)))


def untrained_with_block(seeds: Iterable[int]) -> list[nn.Sequential]:
    """Create a network with a block for each seed, without training."""
    models = []
    for seed in seeds:
        torch.manual_seed(seed)
        models.append(network_with_block(non_local_dot_product).to(device()).eval())
    return models


def fit_networks(
    makers: Mapping[str, Callable[[], nn.Module]], canvases: Splits[LabelledImages], steps: int, seed: int
) -> dict[str, nn.Module]:
    """Train a network of each kind by `fit_on_canvases`, with the same seed."""
    return {name: fit_on_canvases(make, canvases, steps, seed, name) for name, make in makers.items()}


def show_networks(models: Mapping[str, nn.Module], canvases: Splits[LabelledImages]) -> None:
    """Show the training losses of networks, and print the accuracy of each on the `test` part and its number of parameters."""
    show_losses(models, across={"a guess among 2": math.log(2)})
    width = max(map(len, models))
    print("accuracy on unseen canvases, one seed; chance is 0.5:")
    for name, model in models.items():
        size = sum(p.numel() for p in model.parameters())
        print(f"{name:<{width}}  {canvas_accuracy(model, canvases):.3f}, {size:,} parameters")


def fit_on_canvases(
    make: Callable[[], nn.Module], canvases: Splits[LabelledImages], steps: int, seed: int, label: str
) -> nn.Module:
    """Create a network and train it on batches of 16 canvases.

    Args:
        make: creates a network from images (B, 1, H, W) to two logits.
        canvases: its `train` part is used.
        steps: number of updates.
        seed: determines weights and batches.
        label: the label of the progress bar.
    """
    torch.manual_seed(seed)
    model = make().to(device())
    stream = batches(*(part.to(device()) for part in canvases.train), batch_size=16, seed=seed)
    return fitted(model, stream, classify, steps=steps, lr=3e-3, label=label, warmup=30)


def canvas_accuracy(model: nn.Module, canvases: Splits[LabelledImages]) -> float:
    """Measure the accuracy on the `test` part: the fraction of canvases whose larger logit is that of the label."""
    return accuracy_of(model, *(part.to(device()) for part in canvases.test))


def titles(canvases: LabelledImages, n: int = 3) -> list[str]:
    """Name the first n canvases: "1: same", "2: different"."""
    return [f"{i}: {'same' if same else 'different'}" for i, same in enumerate(canvases.labels[:n].tolist(), start=1)]


def show_canvases(canvases: LabelledImages, n: int = 2) -> None:
    """Show the first n canvases of each label, with the same digit twice and with different digits."""
    shown = torch.cat([(canvases.labels == label).nonzero()[:n, 0] for label in (1, 0)])
    chosen = LabelledImages(canvases.images[shown], canvases.labels[shown])
    drawn = dict(zip(titles(chosen, len(shown)), map(grey, chosen.images), strict=True))
    side = canvases.images.shape[-1]
    words = f"{len(drawn)} canvases of {side} × {side} pixels, each with two digits at opposite borders: {', '.join(drawn)}."
    show(pictures(drawn), alt=words)


def ink_by_position(canvases: LabelledImages, n_side: int) -> Tensor:
    """Average the ink of canvases (n, 1, H, W) over the positions of a feature map of n_side × n_side: (n, n_side²)."""
    return F.avg_pool2d(canvases.images[:, 0], canvases.images.shape[-1] // n_side).flatten(1)


def arrows_in(
    model: nn.Sequential, canvases: LabelledImages, strongest_arrows: Callable[..., tuple[Tensor, Tensor]], n: int = 100
) -> tuple[Tensor, Tensor]:
    """Compute the eight strongest arrows of each position, for the first n canvases.

    The mechanism of the block is replaced by `non_local_dot_product`, which also returns the weights.

    Args:
        model: of `network_with_block`.
        canvases: at least n.
        strongest_arrows: the function of the library or the student's.
        n: number of canvases.

    Returns:
        ends (n, N, 8, 3) and weights (n, N, 8), as `strongest_arrows` returns them.
    """
    model[1].attention.mechanism = non_local_dot_product
    with torch.no_grad():
        features = model[0](canvases.images[:n].to(device()))
        weights = model[1].attention(features).weights.cpu()
    return strongest_arrows(weights, 8, *features.shape[2:])


def show_arrows(canvases: LabelledImages, ends: Tensor, strength: Tensor, n: int = 3) -> None:
    """Show the first n canvases with the strongest arrows of the position with most ink.

    Args:
        canvases: at least as many as there are ends.
        ends: (B, N, k, 3), integers: time, row, column of the k strongest arrows of each of the N positions.
        strength: (B, N, k), their weights.
        n: how many canvases to show; the mean length of an arrow is over all B.
    """
    side, n_side = canvases.images.shape[-1], math.isqrt(ends.shape[1])
    pixel, every = side // n_side, torch.arange(len(ends))
    marked = ink_by_position(canvases, n_side)[: len(ends)].argmax(-1)
    ends, strength = ends[every, marked, :, 1:], strength[every, marked].float().clamp_min(0)
    start = torch.stack([marked // n_side, marked % n_side], dim=-1)
    drawn, marks, arrows = {}, {}, {}
    for i, title in enumerate(titles(canvases, n)):
        drawn[title], marks[title] = grey(canvases.images[i]), tuple((pixel * start[i] + pixel // 2).tolist())
        arrows[title] = torch.zeros(side, side)
        arrows[title][tuple((pixel * ends[i] + pixel // 2).mT)] = strength[i]
    length = pixel * (ends - start[:, None]).float().norm(dim=-1).mean().item()
    show(
        pictures(drawn, marks=marks, arrows=arrows, strongest=ends.shape[1]),
        alt=f"{len(drawn)} canvases; from the position with most ink, arrows to the {ends.shape[1]} positions with the largest "
        f"weights. Over {len(ends)} images such an arrow is {length:.0f} pixels long on average.",
    )


def other_digit_over_chance(canvases: LabelledImages, ends: Tensor) -> float:
    """Measure how often the arrows of the position with most ink end on ink of the other digit, over chance.

    Args:
        canvases: at least as many as there are ends.
        ends: (B, N, k, 3), as in `show_arrows`.

    Returns:
        The fraction of arrows that end on ink further away than 15 pixels, over the fraction of such positions.
    """
    n_side = math.isqrt(ends.shape[1])
    ink = ink_by_position(canvases, n_side)[: len(ends)]
    marked, every = ink.argmax(-1), torch.arange(len(ends))
    positions = torch.cartesian_prod(torch.arange(n_side), torch.arange(n_side))
    far = (positions[marked][:, None] - positions).float().norm(dim=-1) * (canvases.images.shape[-1] // n_side) > _FAR
    other = far & (ink > 0.1)
    hits = other.gather(1, (ends[..., 1] * n_side + ends[..., 2])[every, marked])
    return hits.float().mean().item() / other.float().mean().item()


# Which frames of a video the output for the first frame depends on, measured by gradients.


VideoBlock = Callable[..., Tensor]
"""A block `(x, *matrices)` from x (B, C, T, H, W) to the same shape, such as `non_local_block`."""


def gradient_of_each_frame(block: VideoBlock, video: Tensor, *matrices: Tensor) -> Tensor:
    """Sum the absolute gradient of the first output frame with respect to each input frame, (T,).

    Args:
        block: `(x, *matrices)`.
        video: (B, C, T, H, W).
        matrices: the weights of the block.
    """
    x = video.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(block(x, *matrices)[:, :, 0].sum(), x)
    return gradient.abs().sum((0, 1, 3, 4))


def frame_by_frame(block: VideoBlock) -> VideoBlock:
    """Create the block that is applied to each frame (B, C, H, W) separately."""
    return lambda x, *matrices: torch.stack([block(frame, *matrices) for frame in x.unbind(2)], dim=2)
