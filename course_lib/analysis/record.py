"""Record the attention of every sub-module of a model while it runs, by forward hooks."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torch import nn

from course_lib.attention import Attended, ContextOnly

__all__ = ["record"]


@contextmanager
def record(module: nn.Module) -> Iterator[dict[str, list[Attended | ContextOnly]]]:
    """Record every `Attended` or `ContextOnly` that `module` or one of its sub-modules returns inside the `with` block.

    Args:
        module: any model; the hooks are removed at the end of the block, also after an exception.

    Yields:
        a dict from the name of a sub-module, as in `named_modules` ("" = the module itself), to its results in the
        order of its calls, detached from the graph. Modules that return something else do not appear.

    Example::

        with record(model) as seen:
            model(x)
        weights = seen["decoder.attention"][0].weights
    """
    seen: dict[str, list[Attended | ContextOnly]] = {}
    hooks = [part.register_forward_hook(partial(_keep, seen, name)) for name, part in module.named_modules()]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _keep(
    seen: dict[str, list[Attended | ContextOnly]], name: str, part: nn.Module, inputs: tuple[object, ...], output: object
) -> None:
    if isinstance(output, Attended) and output.weights is not None:
        seen.setdefault(name, []).append(Attended(output.context.detach(), output.weights.detach()))
    elif isinstance(output, Attended | ContextOnly):
        seen.setdefault(name, []).append(ContextOnly(output.context.detach()))
