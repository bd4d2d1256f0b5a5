"""Preconditions: raise an error for inputs that would give a wrong number, without a line in the equation itself."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])


def requires(check: Callable[..., None]) -> Callable[[Function], Function]:
    """Make a function call `check` on its arguments first.

    Args:
        check: takes the arguments of the function, by the same names, and raises an error for those that do not fit.

    Returns:
        a decorator.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def run(*arguments: Any, **options: Any) -> Any:
            check(*arguments, **options)
            return function(*arguments, **options)

        return cast(Function, run)

    return decorate


def values_are_known(*tensors: Tensor) -> bool:
    """Return whether the values of tensors can be read: not while compiling, nor where `torch.func` maps over them."""
    if torch.compiler.is_compiling():
        return False
    return not any(torch._C._functorch.is_functorch_wrapped_tensor(x) for x in tensors)


def require_one_token_each(tokens: Tensor, B: int) -> None:
    """Raise a ValueError unless there is one token for each of the B sequences of a state; a lone one would broadcast."""
    if tokens.shape != (B,):
        raise ValueError(
            f"a step reads one token of each sequence: the state has {B}, so tokens must be ({B},); got {tuple(tokens.shape)}."
        )
