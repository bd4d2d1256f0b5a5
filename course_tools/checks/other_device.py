"""Find what would fail on a GPU in an answer that runs on a CPU: a tensor made without the device of the inputs.

Each tensor that the answer makes is marked until it is moved. Where a marked one meets one that comes from the inputs, or is
returned, an input on a GPU would raise an error. As there, a tensor without axes and an index may stay on the CPU.
"""

import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from course_tools.checks.outcome import Call, copied, in_a_library, tensors_in

_MARK = "_made_in_the_line"
_TAKES_INDICES = {"__getitem__", "index_put", "index_put_"}


class DeviceWatch(TorchFunctionMode):
    """Record as `line` the line of the answer that makes the first tensor which would be on the wrong device."""

    line = ""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run a function, and see where its tensors were made."""
        kwargs, name = kwargs or {}, func.__name__
        result = func(*args, **kwargs)
        if name in ("__get__", "__set__"):
            return result
        seen = list(tensors_in([args[0], args[2]] if name == "__setitem__" else [*args, *kwargs.values()]))
        made, given = [t for t in seen if _line_of(t)], [t for t in seen if not _line_of(t)]
        is_moved = kwargs.get("device") is not None or name in ("cuda", "type_as") or (name == "to" and _names_a_device(args))
        if not is_moved and any(t.ndim for t in given) and name not in _TAKES_INDICES:
            self.line = self.line or next((_line_of(t) for t in made if t.ndim), "")
        if is_moved or not given:
            line = "" if is_moved else _line_of(made[0]) if made else _line_that_runs()
            for tensor in tensors_in([result]):
                setattr(tensor, _MARK, line)
        return result


def line_for_one_device(answer: Callable[..., object], calls: Sequence[Call]) -> str:
    """The line of an answer that makes a tensor without the device of the inputs and combines or returns it; "" for none.

    Calls without a tensor, and those that raise, show nothing.
    """
    for call in calls:
        if next(tensors_in(call), None) is None:
            continue
        given = copied(call)
        try:
            with DeviceWatch() as watch:
                returned = answer(*given)
        except Exception:
            continue
        results = [returned] if isinstance(returned, Tensor) else returned
        if line := watch.line or next(filter(None, (_line_of(t) for t in tensors_in(results) if t.ndim)), ""):
            return line
    return ""


def _names_a_device(args: Sequence[object]) -> bool:
    return any(isinstance(to, Tensor | torch.device | str) for to in args[1:])


def _line_of(tensor: Tensor) -> str:
    return str(getattr(tensor, _MARK, ""))


def _line_that_runs() -> str:
    """The line of the innermost frame outside libraries."""
    frame = sys._getframe(1)
    while in_a_library(Path(frame.f_code.co_filename)) and frame.f_back is not None:
        frame = frame.f_back
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() or frame.f_code.co_name
