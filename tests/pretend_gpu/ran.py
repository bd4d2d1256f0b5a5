"""Which public functions and modules ran on the pretend accelerator, so that a new one cannot be forgotten."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, ModuleType

from torch import nn

from tests.public_names import public_names

_codes: set[CodeType] = set()


@contextmanager
def watching() -> Iterator[None]:
    """Note every Python function that is called in the block."""

    def note(frame: object, event: str, argument: object) -> None:
        if event == "call":
            _codes.add(frame.f_code)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def never_ran(package: ModuleType) -> set[str]:
    """Return the public functions, and modules by their `forward`, that no watched block has called in this process."""
    found = {name: _code(getattr(package, name)) for name in public_names(package)}
    return {name for name, code in found.items() if code is not None and code not in _codes}


def _code(public: object) -> CodeType | None:
    """Return the code that runs when a function or module is called; None for a constant, or another type."""
    if isinstance(public, type):
        public = public.forward if issubclass(public, nn.Module) else None
    return getattr(inspect.unwrap(public), "__code__", None) if callable(public) else None
