"""Preconditions: raise an error for inputs that would give a wrong number, without a line in the equation itself."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

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
