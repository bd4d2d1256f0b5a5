"""Preconditions: raise an error for inputs that would give a wrong number, without a line in the equation itself.

`shape_checked` reads the types and shapes from the signature, where torch would broadcast, or read only a part of a tensor,
if two shapes disagree. `requires` takes a check written by hand, for values.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast, get_args

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
            try:
                check(*arguments, **options)
            except TypeError:
                _require_call(function, arguments, options)
                raise
            return function(*arguments, **options)

        return cast(Function, run)

    return decorate


def _require_call(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Raise a TypeError that names the function if it does not take these arguments."""
    try:
        inspect.signature(function).bind(*arguments, **options)
    except TypeError as error:
        raise TypeError(f"{function.__qualname__}: {error}.") from None


def of_tensors(function: Function) -> Function:
    """Make a function refuse lists and NumPy arrays with a TypeError that says how to convert them.

    Where torch itself refuses the tensors, a note under its error says what they are.
    """

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*arguments, **options)
        for x in (*arguments, *options.values()):
            if not isinstance(x, Tensor) and (isinstance(x, list) or hasattr(x, "__array_interface__")):
                raise TypeError(
                    f"{function.__qualname__} needs tensors, got a {type(x).__name__}: convert it by `torch.as_tensor`, to the "
                    "type of the others."
                )
        try:
            return function(*arguments, **options)
        except RuntimeError as error:
            given = {**dict(zip(inspect.signature(function).parameters, arguments, strict=False)), **options}
            got = (f"{name} {tuple(x.shape)} {x.dtype} {x.device}" for name, x in given.items() if isinstance(x, Tensor))
            error.add_note(f"{function.__qualname__} got {', '.join(got)}.")
            raise

    return cast(Function, run)


def shape_checked(hint: str = "", of: Callable[..., Any] | None = None) -> Callable[[Function], Function]:
    """Make a function refuse tensors that do not fit its jaxtyping annotations: a TypeError for the type, else a ValueError.

    Axes of one name must have one size. An axis is a name, a number, a multiple such as `4*n`, or any number of axes such as
    `*batch`; torch broadcasts those marked by #. What has no such annotation, or `...`, is not checked, and neither is None.

    Args:
        hint: what to do about a shape that does not fit: the end of the error message.
        of: the function whose annotations count; of a fast form, its equation.

    Returns:
        a decorator.
    """

    def decorate(function: Function) -> Function:
        parameters = inspect.signature(of or function, eval_str=True).parameters
        wanted = {name: array for name, each in parameters.items() if (array := _array_in(each.annotation))}
        axes = {name: array.dim_str.split() for name, array in wanted.items()}
        types = {name: {getattr(torch, each, None) for each in array.dtypes} for name, array in wanted.items()}
        needed = ", ".join(f"{name} ({', '.join(each)})" for name, each in axes.items())

        @wraps(function)
        def run(*arguments: Any, **options: Any) -> Any:
            given = {**dict(zip(parameters, arguments, strict=False)), **options}
            tensors = {name: given[name] for name in wanted if given.get(name) is not None}
            sizes: dict[str, Any] = {}
            for name, x in tensors.items():
                if not isinstance(x, Tensor) or x.dtype not in types[name]:
                    kind = wanted[name].dtype.__name__.lower()
                    several = isinstance(x, tuple | list) and any(isinstance(part, Tensor) for part in x)
                    advice = "pass its tensors one by one, as by `*`" if several else "convert it by `torch.as_tensor`"
                    got = x.dtype if isinstance(x, Tensor) else f"{type(x).__name__}: {advice}"
                    raise TypeError(f"{name} must be a tensor of type {kind}, got {got}.")
            if misfit := [name for name, x in tensors.items() if not _fits(x.shape, axes[name], sizes)]:
                got = ", ".join(f"{name} {tuple(x.shape)}" for name, x in tensors.items())
                raise ValueError(f"{misfit[0]} does not fit: {function.__name__} needs {needed}; got {got}. {hint}".rstrip())
            return function(*arguments, **options)

        return cast(Function, run)

    return decorate


def _array_in(annotation: Any) -> Any:
    """Return the jaxtyping array in an annotation, `Float[Tensor, "B T"]` or that `| None`; None if there is none."""
    parts = get_args(annotation) if type(None) in get_args(annotation) else (annotation,)
    return next((each for each in parts if getattr(each, "dim_str", "...") != "..."), None)


def _fits(shape: tuple[Any, ...], axes: list[str], sizes: dict[str, Any]) -> bool:
    """Return whether a shape has these axes, in the sizes found so far, and add the sizes of the others."""
    several = next((i for i, axis in enumerate(axes) if axis[0] == "*"), None)
    if several is not None:  # the sizes of `*batch` are one tuple
        end = len(shape) - (len(axes) - several - 1)
        shape = (*shape[:several], tuple(shape[several:end]), *shape[max(end, several) :])
    if len(shape) != len(axes):
        return False
    for axis, size in zip(axes, shape, strict=True):
        factor, _, name = axis.rpartition("*")
        if factor and size % int(factor):
            return False
        one = size // int(factor) if factor else size
        if "#" not in axis and sizes.setdefault(name, int(name) if name.isdigit() else one) != one:
            return False
    return True


def values_are_known(*tensors: Tensor) -> bool:
    """Return whether tensors have values to read: not while compiling, on "meta", nor where `torch.func` maps over them."""
    return not (torch.compiler.is_compiling() or any(x.is_meta for x in tensors) or under_transform(*tensors))


def under_transform(*tensors: Tensor) -> bool:
    """Return whether `torch.func` maps over one of the tensors, or differentiates it.

    It supports no backward pass of ours: a fast form with one then computes by operations that autograd differentiates.
    """
    if torch.compiler.is_compiling():
        return False
    return any(torch._C._functorch.is_functorch_wrapped_tensor(x) for x in tensors)


def require_one_token_each(tokens: Tensor, B: int) -> None:
    """Raise a ValueError unless there is one token for each of the B sequences of a state; a lone one would broadcast."""
    if tokens.shape != (B,):
        raise ValueError(
            f"a step reads one token of each sequence: the state has {B}, so tokens must be ({B},); got {tuple(tokens.shape)}."
        )
