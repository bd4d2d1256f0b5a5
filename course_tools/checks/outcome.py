"""Outcome of calling an answer: its results, gradients, error, changed arguments, forbidden calls and cost."""

import math
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from course_tools.checks import time_limit
from course_tools.checks.common_crash import Crash, CrashSite, crash_of
from course_tools.checks.cost import Cost, CostCounter
from course_tools.checks.failed_operation import FailedOperation, RaisingCall, operation_of, raising_call
from course_tools.checks.time_limit import TimedOut, noticing, run_in_time, watching

_OURS = Path(__file__).parents[2]
_AT_ONCE = 0.5
"""Seconds of processor time after which a call that raised is not repeated to see where."""


class NotAFunction(TypeError):
    """The submitted answer, or the model that it returns, cannot be called."""


class Argument(NamedTuple):
    """The name of an argument in the function's signature, and a name for each of its tensors that is differentiated."""

    name: str
    differentiated: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What one call did. `results` is None if it raised or returned None; `missing` holds the indices of filled-in results.

    `changed` holds the indices of the arguments that the call changed, `shared` the indices of the results that are, or contain
    memory of, an argument.
    """

    results: tuple[object, ...] | None
    names: tuple[str, ...] = ()
    error: BaseException | None = None
    where: str = ""
    changed: tuple[int, ...] = ()
    gradients: tuple[Tensor, ...] | None = None
    called: frozenset[str] = frozenset()
    arguments: tuple[Argument, ...] = ()
    missing: frozenset[int] = frozenset()
    cost: Cost | None = None
    failed: FailedOperation | None = None
    crash: Crash | None = None
    shared: tuple[int, ...] = ()

    @property
    def not_started(self) -> bool:
        """Whether it raised the `NotImplementedError()` of an unwritten exercise; those raised by torch have a message."""
        return isinstance(self.error, NotImplementedError) and not self.error.args

    @property
    def crashed(self) -> bool:
        """Whether a line of the answer raised an error, other than one that it states itself by `raise` or `assert`."""
        return isinstance(self.error, Exception) and self.where != "" and not self.where.startswith(("raise", "assert"))


Call = tuple[object, ...]
"""The positional arguments of one call of an answer."""


def watch(
    answer: object,
    calls: Sequence[tuple[Call, bool, bool]],
    n_preliminary: int,
    forbids: Mapping[Callable[..., object], str],
    ask: Callable[..., object] | None = None,
    seconds: float | None = None,
) -> list[Outcome]:
    """Observe an untrusted answer on a sequence of calls, each with or without gradients and a count of its operations.

    Args:
        answer: the submitted answer.
        calls: the arguments of each call, whether its results are differentiated, and whether its cost is counted.
        n_preliminary: number of preliminary calls at the beginning.
        forbids: functions whose calls are recorded.
        ask: calls the answer, `ask(answer, *call)`, as `training_record.measure` does; None = the answer is called directly.
        seconds: the limit of processor time; None = `time_limit.TIME_LIMIT`.

    Returns:
        one outcome per call; fewer if the answer `ends_early` or if the time limit was reached, which the last outcome then
        shows. What it prints after its first error is not captured.
    """
    outcomes: list[Outcome] = []
    given_up = False

    def work() -> None:
        failed = False
        for call, gradients, counted in calls:
            with time_limit.silenced() if failed else nullcontext():
                outcome = observe(answer, call, gradients, forbids, ask, counted)
            if given_up:
                return
            outcomes.append(outcome)
            failed = failed or outcome.error is not None
            if ends_early(outcomes, n_preliminary):
                return

    patience = None if seconds is None else max(time_limit.WALL_LIMIT, 6 * seconds)
    in_time = run_in_time(work, time_limit.TIME_LIMIT if seconds is None else seconds, patience)
    given_up = True
    return outcomes if in_time else [*outcomes, Outcome(None, error=TimedOut())]


def ends_early(outcomes: Sequence[Outcome], n_preliminary: int) -> bool:
    """Whether an answer is not called again after these outcomes: a preliminary call gave no result.

    One that crashed there is called again: it is judged on the calls on which it runs.
    """
    last = outcomes[-1]
    hopeless = not last.crashed or isinstance(last.error, RecursionError | MemoryError)
    return last.results is None and len(outcomes) <= n_preliminary and hopeless


def observe(
    answer: object,
    call: Call,
    gradients: bool = False,
    forbids: Mapping[Callable[..., object], str] | None = None,
    ask: Callable[..., object] | None = None,
    counted: bool = False,
) -> Outcome:
    """Call an answer on copies of the arguments, through `ask` if it is given, and report what it did.

    It raises only KeyboardInterrupt and TimedOut. The random state is the same before every call.
    """
    called: set[str] = set()
    start = time.thread_time()
    torch.default_generator.manual_seed(0)
    torch.set_default_dtype(torch.float32)
    try:
        given = _copy(call, gradients)
        if isinstance(answer, type):
            raise NotAFunction(f"Expected a function, got the class `{answer.__name__}`. Pass an instance.")
        if not callable(answer):
            kind = type(answer).__name__
            raise NotAFunction(f"Expected a function (its name, without parentheses), got a value of type {kind}.")
        looks = nullcontext() if ask is None else noticing(called)
        counts = CostCounter() if counted else nullcontext()
        with torch.enable_grad(), watching(forbids or {}, called), looks, counts as counter:
            returned = answer(*given) if ask is None else ask(answer, *given)
        with torch.enable_grad():
            derived = _gradients(returned, given) if gradients else None
        results, names = None if returned is None else _results(returned), _names(returned)
        shared = _shared(returned, given)
        changed = tuple(i for i, (before, after) in enumerate(zip(call, given, strict=True)) if not _same(before, after))
    except (KeyboardInterrupt, TimedOut):
        raise
    except BaseException as error:
        quick = ask is None and time.thread_time() - start < _AT_ONCE
        raising = _raising(answer, call, gradients, error) if quick else None
        failed = None if raising is None else operation_of(raising, error)
        crash = _crash(call, error, raising)
        return Outcome(None, error=error, where=_where(error), called=frozenset(called), failed=failed, crash=crash)
    arguments = tuple(map(_argument, _parameters(answer, len(given)), given))
    cost = counter.cost if counter is not None and results is not None else None
    return Outcome(results, names, None, "", changed, derived, frozenset(called), arguments, cost=cost, shared=shared)


def _raising(answer: Callable[..., object], call: Call, gradients: bool, error: BaseException) -> RaisingCall | None:
    """The operation of torch in which a call raised an error; the call is repeated without its prints."""
    if not isinstance(error, Exception) or isinstance(error, RecursionError | MemoryError | NotAFunction | NotImplementedError):
        return None
    torch.default_generator.manual_seed(0)
    torch.set_default_dtype(torch.float32)
    with time_limit.silenced(), torch.enable_grad():
        return raising_call(lambda: answer(*_copy(call, gradients)), error)


def _crash(call: Call, error: BaseException, raising: RaisingCall | None) -> Crash | None:
    """What is known of an error in the student's own line.

    None if it was raised inside a function of the course, unless it was given a tuple in place of tensors.
    """
    entries, entry = [], error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    files = [Path(one.tb_frame.f_code.co_filename) for one in entries]
    own = [i for i, file in enumerate(files) if i and not in_a_library(file)]
    inside = any(f.is_relative_to(_OURS / "course_lib") for f in files[own[-1] :]) if own else False
    if not isinstance(error, Exception) or not own or (inside and not isinstance(error, TypeError)):
        return None
    try:
        place = CrashSite.of(entries[own[-1]], [one.tb_frame for one in entries[own[-1] + 1 :]])
        crash = crash_of(error, place, raising, call)
        return crash if not inside or crash.kind == "one by one" else None
    except Exception:  # an answer may be a strange object, and its source unreadable
        return None


def tensors_in(value: object) -> Iterator[Tensor]:
    """Yield the tensors in an argument or result, including those in lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)


def copied(call: Call) -> Call:
    """Copy the arguments of a call, so that the called function may change them."""
    return _copy(call, gradients=False)


def _copy(value: object, gradients: bool) -> object:
    if isinstance(value, Tensor):
        copy = value.detach().clone()
        return copy.requires_grad_() if gradients and copy.is_floating_point() else copy
    if isinstance(value, tuple | list):
        return type(value)(_copy(item, gradients) for item in value)
    return value


def _names(returned: object) -> tuple[str, ...]:
    if not isinstance(returned, tuple | list):
        return ("The result",)
    fields = getattr(returned, "_fields", None)
    if not (isinstance(fields, tuple) and fields and all(isinstance(field, str) for field in fields)):
        fields = tuple(f"result[{i}]" if isinstance(returned, list) else f"Result {i + 1}" for i in range(len(returned)))
    return tuple(f"∂L/∂{field}" for field in fields) if type(returned).__name__.endswith("Gradients") else fields


def _parameters(answer: Callable[..., object], n: int) -> tuple[str, ...]:
    """The names of the first n parameters; numbers if they have no names, as in `*inputs` or a function written in C."""
    try:
        known = [p.name for p in signature(answer).parameters.values() if p.kind is not p.VAR_POSITIONAL][:n]
    except (TypeError, ValueError):
        known = []
    return (*known, *(f"argument {i + 1}" for i in range(len(known), n)))


def _argument(name: str, value: object) -> Argument:
    n = sum(t.requires_grad for t in tensors_in(value))
    return Argument(name, tuple(name if isinstance(value, Tensor) else f"{name}[{i}]" for i in range(n)))


def _results(returned: object) -> tuple[object, ...]:
    """Copy the results to the CPU, so that no later call can change them; tensors on "meta" have no values and stay there."""
    results = returned if isinstance(returned, tuple | list) else (returned,)
    return tuple(_plain(result) if isinstance(result, Tensor) else result for result in results)


def _shared(returned: object, given: object) -> tuple[int, ...]:
    """The indices of the results that lie in the memory of an argument."""
    results = returned if isinstance(returned, tuple | list) else (returned,)
    held = {place for tensor in tensors_in(given) if (place := _place(tensor))}
    return tuple(i for i, result in enumerate(results) if isinstance(result, Tensor) and _place(result) in held)


def _place(tensor: Tensor) -> int:
    """The address of a tensor's memory; 0 if it has none of its own, as a sparse or empty one."""
    return 0 if tensor.is_meta or tensor.layout != torch.strided else tensor.untyped_storage().data_ptr()


def _plain(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if tensor.is_meta:
        return tensor
    return (tensor if tensor.layout == torch.strided else _checked(tensor).to_dense()).cpu().clone()


def _checked(sparse: Tensor) -> Tensor:
    """Raise a RuntimeError for a sparse tensor whose indices are out of range: reading one would crash the process."""
    if sparse.layout == torch.sparse_coo:
        return torch.sparse_coo_tensor(sparse._indices(), sparse._values(), sparse.shape, check_invariants=True)
    by_row = sparse.layout in (torch.sparse_csr, torch.sparse_bsr)
    indices = (sparse.crow_indices(), sparse.col_indices()) if by_row else (sparse.ccol_indices(), sparse.row_indices())
    return torch.sparse_compressed_tensor(*indices, sparse.values(), sparse.shape, layout=sparse.layout, check_invariants=True)


def _same(before: object, after: object) -> bool:
    if isinstance(before, tuple | list):
        same_length = isinstance(after, tuple | list) and len(before) == len(after)
        return same_length and all(map(_same, before, after))
    if isinstance(before, Tensor):
        same_kind = isinstance(after, Tensor) and before.dtype == after.dtype and before.shape == after.shape
        return same_kind and torch.equal(before, after.detach())
    return before is after or before == after


def _gradients(returned: object, given: object) -> tuple[Tensor, ...] | None:
    """Differentiate a fixed random combination of all results; None if no result depends on an input.

    The combination is drawn in float32, whatever default dtype the answer has set.
    """
    outputs = [t for t in tensors_in(returned) if t.requires_grad]
    if not outputs:
        return None
    generator = torch.Generator("cpu").manual_seed(0)
    total = sum((t * torch.randn(t.shape, generator=generator, dtype=torch.float32, device="cpu").to(t)).sum() for t in outputs)
    inputs = [t for t in tensors_in(given) if t.requires_grad]
    return torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)


def _where(error: BaseException) -> str:
    """The line of the student's code that raised: the last line of the traceback outside libraries."""
    own = [f for f in traceback.extract_tb(error.__traceback__)[1:] if not in_a_library(Path(f.filename))]
    return own[-1].line or "" if own else ""


def in_a_library(file: Path) -> bool:
    """Whether a file belongs to the course or to an installed package, and not to the student."""
    in_course = any(
        file.is_relative_to(_OURS / name)
        for name in ("course_lib", *(f"course_tools/{part}" for part in ("checks", "grading", "lectures", "notebook")))
    )
    return in_course or "site-packages" in file.parts


def is_close(expected: object, got: object) -> bool:
    """Return whether two results are equal up to rounding, relative to the largest entry; NaN equals NaN.

    Integers are compared by value, whatever their width. Tensors on the device "meta" have no values: their dtypes are
    compared.
    """
    if not isinstance(expected, Tensor):
        return type(expected) is type(got) and bool(expected == got)
    if not isinstance(got, Tensor) or expected.shape != got.shape or expected.device != got.device:
        return False
    if expected.is_meta:
        return expected.dtype == got.dtype
    if expected.dtype == got.dtype and torch.equal(expected, got):
        return True
    if expected.dtype == torch.bool or got.dtype == torch.bool:
        return False
    if not expected.is_floating_point():
        return not got.is_floating_point() and torch.equal(expected.long(), got.long())
    finite = expected[expected.isfinite()].abs()
    size = float(finite.max()) if finite.numel() else 0.0
    tolerance = 1e-5 + 1e-4 * (size if math.isfinite(size) else 0.0)
    return torch.allclose(got.double(), expected.double(), rtol=0.0, atol=tolerance, equal_nan=True)
