"""Mixed precision: compute in float32 or wider where half precision would overflow or lose digits.

float16 ends at 65,504. bfloat16 has 8 significant bits: it rounds 257 to 256, and a sum of ones stops growing there.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import reduce, wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])


def in_float32_at_least(function: Function) -> Function:
    """Make a function compute in float32 or wider, also under autocast: its arguments in half precision are converted first.

    Args:
        function: any function of tensors on one device, or the method `backward` of a `torch.autograd.Function`.

    Returns:
        the same function. Its results are float32; float64, integers and objects other than tensors are unchanged.
    """

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        wide, named = [_wide(x) for x in arguments], {name: _wide(x) for name, x in options.items()}
        with without_autocast(*arguments, *options.values()):
            return function(*wide, **named)

    return cast(Function, run)


def rounded_from_float32(function: Function) -> Function:
    """Make a function of tensors compute in float32 or wider, and round its result to the precision of its arguments.

    The result is a tensor, or a named tuple of tensors.
    """
    widened = in_float32_at_least(function)

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        dtypes = [x.dtype for x in (*arguments, *options.values()) if isinstance(x, Tensor)]
        dtype, result = reduce(torch.promote_types, dtypes), widened(*arguments, **options)
        return type(result)(*(x.to(dtype) for x in result)) if isinstance(result, tuple) else result.to(dtype)

    return cast(Function, run)


def float32_under_autocast(function: Function) -> Function:
    """Make a function compute in float32 or wider if autocast is on; otherwise its arguments keep their precision.

    For functions whose operations torch would cast differently, or supports only in float32.
    """
    widened = in_float32_at_least(function)

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        device = autocasting((*arguments, *options.values()))
        return (function if device is None else widened)(*arguments, **options)

    return cast(Function, run)


def without_autocast(*arguments: Any) -> AbstractContextManager[object]:
    """Return a context in which autocast is off on the device of the first tensor."""
    device = autocasting(arguments)
    return nullcontext() if device is None else torch.autocast(device, enabled=False)


def autocasting(arguments: Iterable[Any]) -> str | None:
    """Return the device type of the first tensor if autocast is on for it, else None, as for "meta", which has no autocast."""
    device = next((x.device.type for x in arguments if isinstance(x, Tensor)), None)
    if device is None or not torch.amp.is_autocast_available(device):
        return None
    return device if torch.is_autocast_enabled(device) else None


def _wide(x: Any) -> Any:
    return x.float() if isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16) else x
