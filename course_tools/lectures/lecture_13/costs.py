"""What token mixing costs against attention, parameters of variants of MLP-Mixer, and accuracy against cost."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from course_lib.attention import scaled_dot_product_attention
from course_lib.blocks import MixerSizes, TokenMixing
from course_lib.metrics import OperationCount, count_operations
from course_tools.notebook.layer_costs import exponent, multiply_adds
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

# What token mixing costs against attention, and how many parameters two variants of MLP-Mixer have.


def growth_of_work(positions: Sequence[int], d: int = 32) -> dict[str, float]:
    """Fit the exponents with which the multiply-adds of three layers grow with the number N of positions.

    Args:
        positions: numbers of positions.
        d: number of channels.

    Returns:
        the exponents of "attention" (one head, without projections), of "token mixing" with 128 hidden units, and of
        "token mixing, 4N" with 4N hidden units.
    """
    work: dict[str, list[int]] = {"attention": [], "token mixing": [], "token mixing, 4N": []}
    for N in positions:
        x = torch.zeros(1, N, d)
        work["attention"].append(multiply_adds(scaled_dot_product_attention, x, x, x))
        work["token mixing"].append(multiply_adds(TokenMixing(N, 128), x))
        work["token mixing, 4N"].append(multiply_adds(TokenMixing(N, 4 * N), x))
    return {name: exponent(positions, counts) for name, counts in work.items()}


def with_wide_networks(count: Callable[..., int], sizes: MixerSizes, P: int, side: int = 224) -> int:
    """Count the parameters of a Mixer without a head whose networks are four times as wide as their inputs.

    Args:
        count: `mixer_parameters`.
        sizes: the width d_model and the number of layers are used.
        P: side of a patch.
        side: of the image, of three channels.
    """
    N = (side // P) ** 2
    return count(sizes.d_model, 4 * N, 4 * sizes.d_model, sizes.n_layers, N, 3 * P**2, 0)


def with_a_network_for_each_channel(count: Callable[..., int], sizes: MixerSizes, P: int, side: int = 224) -> int:
    """Count the parameters of a Mixer without a head in which each channel has its own token-mixing network.

    The arguments are those of `with_wide_networks`.
    """
    N = (side // P) ** 2
    network = 2 * N * sizes.d_tokens + sizes.d_tokens + N
    return count(*sizes, N, 3 * P**2, 0) + sizes.n_layers * (sizes.d_model - 1) * network


# Count what a model costs, and draw accuracy against cost.


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
