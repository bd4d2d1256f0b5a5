"""A small ViT and a small CNN for digits of 28 × 28 pixels, and what a model costs: the rivals of lecture 13's Mixer."""

from collections.abc import Mapping, Sequence
from copy import deepcopy

from torch import Tensor, nn

from course_lib.attention import fused_scaled_dot_product_attention, scaled_dot_product_attention
from course_lib.blocks import ConvNet, Sizes
from course_lib.metrics import OperationCount, count_operations
from course_lib.models import ViT
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

VIT = Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=2)


def vit(sizes: Sizes = VIT, scale: float = 4.0) -> ViT:
    """Make a small ViT with patches of 7 × 7; its position embeddings start `scale` times as large as the library's."""
    model = ViT(10, (1, 28, 28), 7, sizes, fused_scaled_dot_product_attention)
    model.encoder.positions.data.mul_(scale)
    return model


def cnn(widths: Sequence[int] = (16, 32, 64)) -> nn.Sequential:
    """Make three convolutions of 3 × 3, the largest value of each map, and a linear layer."""
    return nn.Sequential(ConvNet(1, tuple(widths)), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))


def cost(model: nn.Module, image: Tensor) -> OperationCount:
    """Count the parameters of a model, and its multiply-adds for one image; attention in the form that the counter sees."""
    copied = deepcopy(model).eval()
    for module in copied.modules():
        if hasattr(module, "mechanism"):
            module.mechanism = scaled_dot_product_attention
    return count_operations(copied, lambda: copied(image))


def show_accuracy_against_cost(
    costs: Mapping[str, Sequence[OperationCount]], accuracies: Mapping[str, Sequence[float]], title: str
) -> None:
    """Draw accuracy against parameters, and against multiply-adds for one image: one line per kind of model.

    Args:
        costs: name -> the cost of each size of the model.
        accuracies: name -> the accuracy of each size, in the same order.
        title: above the figures, such as how many seeds an accuracy is the mean of.
    """
    for axis, unit in (("parameters", "parameters"), ("multiply_adds", "multiply-adds for one image")):
        lines = {name: ([getattr(each, axis) for each in costs[name]], accuracies[name]) for name in costs}
        points = (
            f"{name} " + ", ".join(f"{y:.2f} at {x:,}" for x, y in zip(*line, strict=True)) for name, line in lines.items()
        )
        drawn = curves(lines, unit, "accuracy on unseen digits", title, log="x", across={"chance": 0.1})
        show(drawn, alt=f"Accuracy against {unit}: {'; '.join(points)}; chance is 0.1.")
