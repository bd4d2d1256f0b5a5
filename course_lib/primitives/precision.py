"""Mixed precision: compute in float32 at least what half precision would round away or overflow.

float16 ends at 65,504. bfloat16 has 8 significant bits: it rounds 257 to 256, and a sum of ones stops growing there.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])


def in_float32_at_least(function: Function) -> Function:
    """Make a function compute in float32 at least, also under autocast: its arguments in half precision are converted first.

    The results stay in float32; float64 and integers stay as they are.
    """

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        wide, named = [_wide(x) for x in arguments], {name: _wide(x) for name, x in options.items()}
        device = next(x.device for x in (*wide, *named.values()) if isinstance(x, Tensor))
        with torch.autocast(device.type, enabled=False):
            return function(*wide, **named)

    return cast(Function, run)


def _wide(x: Any) -> Any:
    return x.float() if isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16) else x
