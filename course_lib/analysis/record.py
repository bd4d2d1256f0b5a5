"""See what a model looks at: collect the attention of every sub-module while it runs, without changing the model."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torch import nn

from course_lib.attention.core import Attended


@contextmanager
def record(module: nn.Module) -> Iterator[dict[str, list[Attended]]]:
    """Collect every `Attended` that `module` or one of its sub-modules returns inside the `with` block.

    Args:
        module: any model; its forward hooks are taken off again at the end of the block, also after an exception.

    Yields:
        a dict from the name of a sub-module, as `named_modules` gives it ("" = the module itself), to its results in the
        order of its calls, detached from the graph. Modules that return something else do not appear.

    Example:
        with record(model) as seen:
            model(x)
        weights = seen["decoder.attention"][0].weights
    """
    seen: dict[str, list[Attended]] = {}
    hooks = [part.register_forward_hook(partial(_keep, seen, name)) for name, part in module.named_modules()]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _keep(seen: dict[str, list[Attended]], name: str, part: nn.Module, inputs: tuple, output: object) -> None:
    if isinstance(output, Attended):
        weights = None if output.weights is None else output.weights.detach()
        seen.setdefault(name, []).append(Attended(output.context.detach(), weights))
