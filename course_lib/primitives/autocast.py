"""Float32 under autocast: for forms whose operations torch would cast each in its own way, or knows in float32 alone."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Form = TypeVar("Form", bound=Callable[..., Any])


def float32_under_autocast(form: Form) -> Form:
    """Make a form compute in float32 at least where autocast is on; elsewhere its inputs keep their precision.

    Args:
        form: any function of tensors on one device, or the method `backward` of a `torch.autograd.Function`.

    Returns:
        the same function, run without autocast, with every positional tensor of floating point in float32 or float64.
    """

    @wraps(form)
    def run(*inputs: Any, **options: Any) -> Any:
        device = next((x.device.type for x in inputs if isinstance(x, Tensor)), None)
        if device is None or not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
            return form(*inputs, **options)
        with torch.autocast(device, enabled=False):
            return form(*map(_widened, inputs), **options)

    return cast(Form, run)


def _widened(x: Any) -> Any:
    floats = isinstance(x, Tensor) and x.is_floating_point()
    return x.to(torch.promote_types(x.dtype, torch.float32)) if floats else x
