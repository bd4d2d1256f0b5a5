"""Disable forbidden functions inside the sandbox, before a student's code runs, under all their names.

The code of a function written in Python is replaced, and that of its decorators, so that every reference to it, and every
function of torch that calls it, raises. An operator written in C++ is replaced in torch's dispatcher (`torch.library`), and so
under all its names in Python, TorchScript and `torch.ops`. There is no monitor that could be switched off: the original no
longer exists. This module runs inside the sandbox.
"""

import ctypes
import gc
from collections.abc import Callable, Iterable, Iterator
from inspect import unwrap

import torch

COMPOSITE = "CompositeImplicitAutograd"


def disable(functions: Iterable[Callable[..., object]], refuse: Callable[[str], None]) -> None:
    """Make functions unusable for the rest of this process.

    Args:
        functions: functions or classes written in Python, or operators of torch written in C++.
        refuse: called in place of a function, with its name; it raises.

    Raises:
        AttributeError: a function written in C++ is not an operator of torch.
    """
    for function in functions:
        name = function.__name__
        if isinstance(function, type):
            function.__init__ = _refusal(name, refuse)
        elif hasattr(unwrap(function), "__code__"):
            for layer in _layers(function):
                _replace_code(layer, name, refuse)
        else:
            _replace_operator(name, refuse)
        if function.__module__ == "torch.autograd":
            _replace_code(torch.autograd.graph._engine_run_backward, name, refuse)
            _replace_method(type(torch.autograd.Variable._execution_engine), "run_backward", name, refuse)


def _layers(function: Callable[..., object]) -> Iterator[Callable[..., object]]:
    """A function as its decorators left it, and all that they wrapped."""
    yield function
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
        yield function


def _replace_code(function: Callable[..., object], name: str, refuse: Callable[[str], None]) -> None:
    def refused(*inputs: object, _refuse: Callable[[str], None], _name: str, **options: object) -> None:
        _refuse(_name)

    function.__code__ = refused.__code__.replace(co_name=name, co_freevars=function.__code__.co_freevars)
    function.__defaults__, function.__kwdefaults__ = None, {"_refuse": refuse, "_name": name}


def _refusal(name: str, refuse: Callable[[str], None]) -> Callable[..., None]:
    def refused(*inputs: object, **options: object) -> None:
        refuse(name)

    return refused


def _replace_operator(name: str, refuse: Callable[[str], None]) -> None:
    registration = torch._C._dispatch_library("IMPL", "aten", "", __file__, 1)
    for overload in getattr(torch.ops.aten, name).overloads():
        full = name if overload == "default" else f"{name}.{overload}"
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{full}", COMPOSITE)
        for key in (COMPOSITE,) if composite else ("CPU", "Meta"):
            registration.impl(full, key, _refusal(name, refuse))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(registration))  # keeps the replacement alive: nothing else refers to it


def _replace_method(kind: type, method: str, name: str, refuse: Callable[[str], None]) -> None:
    """Replace a method in the class that defines it; methods of a class written in C cannot be replaced."""
    (owner,) = (base for base in kind.__mro__ if method in vars(base))
    (methods,) = gc.get_referents(vars(owner))
    methods[method] = _refusal(name, refuse)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))
