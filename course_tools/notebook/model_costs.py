"""Count what a model costs, and draw accuracy against cost."""

from collections.abc import Mapping, Sequence
from copy import deepcopy

from torch import Tensor, nn

from course_lib.attention import scaled_dot_product_attention
from course_lib.metrics import OperationCount, count_operations
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show


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
