"""Measure a training: what a submitted training function does to its model, and what the model then predicts.

The function runs once while hooks of torch record its updates, its losses and the inputs of its model. Then the returned model
is called on the queries. Nothing is judged here, and this module contains no expected results: it also runs inside the sandbox.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from course_tools.checks.attention_probe import probe
from course_tools.checks.outcome import NotAFunction
from course_tools.checks.state_probe import begins_without_a_token, read_by_steps

MOST_READ = 40
"""Number of calls of the model that are recorded during training."""
MOST_INSIDE = 12
"""Number of calls of the returned model that are recorded wherever it was a part of another one."""
LARGEST_READ = 2**16
"""Largest input that is recorded, in numbers; of a larger batch of images, every k-th number is recorded."""
MOST_LOSSES = 2000

Query = Tensor | tuple[Tensor | bool, ...]


class Measured(NamedTuple):
    """The measurements of one training.

    `outputs` are the results of the returned model for the queries, `again` those of a second call on the same queries. If the
    two differ, `outputs` and all that follows are those of the model in evaluation mode, and `settled` says whether it then
    returns the same when it is called twice.
    `n_parameters` is its number of weights, -1 if it is not a module; `untouched` is the fraction of them that no optimizer
    updated, `without_gradient` the fraction that an optimizer updated although they had no gradient. `n_updates` is the number
    of optimizer steps (of backward passes if there are none), where steps of several optimizers, each for weights of its own,
    after one backward pass count once. `losses` are the values that were differentiated, (n,), and `read` the inputs of the
    first calls of the model. `kept` is the fraction of updates before which the gradients of the previous one were not cleared.
    `moved_at_first` is the distance by which the first ten updates moved the largest tensor of weights,
    relative to its norm, and `moved` that of all updates. All three are 0 if no optimizer was used. `left_out` is the fraction
    of the weights with a gradient, in all modules that were called, that no optimizer holds; 0 if there is no optimizer.

    `steps` holds the seven tensors of `state_probe.read_by_steps` for each text that was read token by token. It is empty if
    there are no texts, or if the model has no `start` and `step`.

    `probes` holds the tensors of `attention_probe.Probe` for each batch with which the model is probed.

    `late` is the fraction of the weights of the returned model that the first ten updates did not update; 0 if no optimizer was
    used. `begins` is False if the model has `start`, which raises an error for no tokens; there are no `steps` then.

    `read_inside` are the inputs of the first calls of the returned model itself, also where it was a part of a larger module.
    """

    outputs: list[Tensor]
    again: list[Tensor]
    n_parameters: int
    untouched: float
    without_gradient: float
    n_updates: int
    losses: Tensor
    read: list[Tensor]
    kept: float
    moved_at_first: float
    moved: float
    left_out: float
    steps: list[Tensor]
    probes: list[Tensor]
    late: float
    settled: bool = True
    begins: bool = True
    read_inside: Sequence[Tensor] = ()


class RecordedLosses(NamedTuple):
    """The losses of one training, in the order in which they were differentiated, and how many updates optimizers made.

    `across` names losses to compare them with, such as that of a guess.
    """

    values: tuple[float, ...]
    n_updates: int
    across: Mapping[str, float] = MappingProxyType({})


def measure(
    train: Callable[..., object],
    data: Sequence[object],
    queries: Sequence[Query],
    texts: Sequence[Tensor] = (),
    probed: Sequence[Tensor | tuple[Tensor, ...]] = (),
) -> Measured | None:
    """Run `train(*data)`, record it, and call the model that it returns on the queries; None if it returns None.

    Args:
        train: the submitted training function.
        data: its arguments.
        queries: inputs of the model, each an input or a tuple of inputs; it is called on each of them twice.
        texts: tokens (B, T) that it reads one by one, by `start` and `step` as in `course_lib.generation`.
        probed: further inputs of the model, with which it is called as by `attention_probe.probe`.

    Raises:
        NotAFunction: it returned something that cannot be called, or whose results are not tensors.
    """
    with Recorder() as record:
        model = train(*data)
    if model is None:
        return None
    if isinstance(model, type) or not callable(model):
        raise NotAFunction(f"It should return the trained model, but it returned a value of type {type(model).__name__}.")
    with torch.no_grad():
        outputs, again, settled = _twice(model, queries)
        generates = callable(getattr(model, "start", None)) and callable(getattr(model, "step", None))
        begins = not generates or all(begins_without_a_token(model, text) for text in texts)
        steps = [found for text in texts for found in read_by_steps(model, text)] if generates and begins else []
    probes = [part for query in probed for part in probe(model, query if isinstance(query, tuple) else (query,))]
    n_updates = record.n_updates()
    parameters = list(model.parameters()) if isinstance(model, nn.Module) else []
    n_parameters = sum(p.numel() for p in parameters)
    untouched = sum(p.numel() for p in parameters if id(p) not in record.stepped)
    late = sum(p.numel() for p in parameters if id(p) not in record.first_stepped)
    dead = sum(p.numel() for p in parameters if id(p) in record.stepped and id(p) not in record.with_gradient)
    return Measured(
        outputs,
        again,
        n_parameters if isinstance(model, nn.Module) else -1,
        untouched / max(n_parameters, 1),
        dead / max(n_parameters, 1),
        n_updates,
        torch.tensor(record.losses[:MOST_LOSSES], dtype=torch.float32),
        record.read,
        record.n_kept / max(n_updates - 1, 1),
        record.moved_at_first,
        record.moved(),
        record.left_out(),
        steps,
        probes,
        late / max(n_parameters, 1) if record.n_steps else 0.0,
        settled,
        begins,
        record.read_by.get(model, []) if isinstance(model, nn.Module) else [],
    )


def _twice(model: Callable[..., object], queries: Sequence[Query]) -> tuple[list[Tensor], list[Tensor], bool]:
    """Ask a model twice; if its results differ, the first are those of its evaluation mode, and whether they are repeated."""
    outputs, again = ([_asked(model, query) for query in queries] for _ in range(2))
    if (alike := all(map(_alike, outputs, again))) or not isinstance(model, nn.Module):
        return outputs, again, alike
    model.eval()
    outputs, third = ([_asked(model, query) for query in queries] for _ in range(2))
    return outputs, again, all(map(_alike, outputs, third))


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.double(), other.double(), rtol=1e-4, atol=1e-5, equal_nan=True)


def _asked(model: Callable[..., object], query: Query) -> Tensor:
    parts = query if isinstance(query, tuple) else (query,)
    output = model(*(part.clone() if isinstance(part, Tensor) else part for part in parts))
    if not isinstance(output, Tensor):
        raise NotAFunction(f"The model should return one tensor, but it returned a value of type {type(output).__name__}.")
    return output.detach().cpu().clone()


def _told(record: "Recorder") -> Iterator[None]:
    """Pass events on to a record, which only this generator's frame holds: to reach it is noticed by `time_limit.noticing`."""
    event = yield
    while True:
        name, arguments = event
        event = yield getattr(record, name)(*arguments)


def _can_be_kept(data: Tensor) -> bool:
    """Whether an input is small, or a batch of images (B, C, H, W)."""
    return data.numel() <= LARGEST_READ or (data.ndim == 4 and data.is_floating_point())


def _kept(data: Tensor) -> Tensor:
    """Copy what is recorded of an input: all, or of each image of a large batch every k-th number, (B, n)."""
    if data.numel() > LARGEST_READ:
        data = data.flatten(1)[:, :: -(-data.numel() // LARGEST_READ)]
    return data.detach().cpu().clone()


class Recorder(contextlib.ExitStack):
    """Record the training inside a `with` block by torch's global hooks."""

    def __init__(self) -> None:
        """Start with nothing recorded."""
        super().__init__()
        self.n_steps = self.n_backward = self.n_kept = self._depth = 0
        self.losses: list[float] = []
        self.read: list[Tensor] = []
        self.read_by: dict[nn.Module, list[Tensor]] = {}
        self.moved_at_first = 0.0
        self.stepped: Counter[int] = Counter()
        self.first_stepped: set[int] = set()
        self.with_gradient: set[int] = set()
        self.called: dict[int, nn.Parameter] = {}
        self._followed: Tensor | None = None
        self._start = self._gradient = None

    def __enter__(self) -> "Recorder":
        """Set the hooks."""
        listener = _told(self)
        next(listener)
        tell = listener.send
        for hook in (
            register_module_forward_pre_hook(lambda *event: tell(("_enter_module", event))),
            register_module_forward_hook(lambda *event: tell(("_leave_module", event)), always_call=True),
            register_optimizer_step_pre_hook(lambda *event: tell(("_before_step", event))),
            register_optimizer_step_post_hook(lambda *event: tell(("_after_step", event))),
        ):
            self.callback(hook.remove)
        self.enter_context(_watching_backward(tell))
        return self

    def _note_kept(self) -> None:
        left = self._followed.grad if self._followed is not None else None
        if left is not None and self._gradient is not None and torch.equal(left, self._gradient):
            self.n_kept += 1
        self._gradient = None

    def _note_backward(self, outputs: object) -> None:
        self.n_backward += 1
        loss = outputs[0] if isinstance(outputs, tuple | list) and outputs else outputs
        if isinstance(loss, Tensor) and loss.numel() == 1 and len(self.losses) < MOST_LOSSES:
            self.losses.append(loss.item())

    def _enter_module(self, module: nn.Module, inputs: tuple) -> None:
        self._depth += 1
        first = next((x for x in inputs if isinstance(x, Tensor)), None)
        if first is None or not torch.is_grad_enabled():
            return
        is_data = _can_be_kept(first) and not first.requires_grad and next(module.parameters(), None) is not None
        inside = self.read_by.setdefault(module, []) if is_data else None
        content = _kept(first) if is_data and len(inside) < MOST_INSIDE else None
        if content is not None:
            inside.append(content)
        if self._depth > 1 or len(self.read) >= MOST_READ:
            return
        self.called.update((id(p), p) for p in module.parameters())
        if is_data:
            self.read.append(_kept(first) if content is None else content)

    def _leave_module(self, module: nn.Module, inputs: tuple, output: object) -> None:
        self._depth -= 1

    def _before_step(self, optimizer: torch.optim.Optimizer, inputs: tuple, options: dict) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.stepped.update(map(id, parameters))
        if self.n_steps < 10:
            self.first_stepped.update(map(id, parameters))
        if self.n_steps < 3 or self.n_steps % 20 == 0:
            self.with_gradient.update(id(p) for p in parameters if p.grad is not None and p.grad.any())
        if self._followed is None and (given := [p for p in parameters if p.grad is not None and p.grad.any()]):
            self._followed = max(given, key=Tensor.numel)
            self._start = self._followed.detach().clone()

    def n_updates(self) -> int:
        """How often any weight was updated; several optimizers after one backward pass count once."""
        if not self.n_steps:
            return self.n_backward
        return max(min(self.n_steps, self.n_backward), *self.stepped.values(), 0)

    def moved(self) -> float:
        """The distance of the followed tensor of weights from its initial value, relative to its initial norm."""
        if self._followed is None:
            return 0.0
        distance, size = (self._followed.detach() - self._start).norm().item(), self._start.norm().item()
        return distance / size if size and math.isfinite(distance) else math.inf

    def left_out(self) -> float:
        """The fraction of the weights with a gradient, in modules that were called, that no optimizer holds."""
        given = [p for p in self.called.values() if p.grad is not None]
        left = sum(p.numel() for p in given if id(p) not in self.stepped) if self.stepped else 0
        return left / max(sum(p.numel() for p in given), 1)

    def _after_step(self, optimizer: torch.optim.Optimizer, inputs: tuple, options: dict) -> None:
        self.n_steps += 1
        if self._followed is None or id(self._followed) not in {id(p) for g in optimizer.param_groups for p in g["params"]}:
            return
        if self.stepped[id(self._followed)] == 10:
            self.moved_at_first = self.moved()
        self._gradient = None if self._followed.grad is None else self._followed.grad.detach().clone()


@contextlib.contextmanager
def _watching_backward(tell: Callable[[tuple[str, tuple]], None]) -> Iterator[None]:
    backward, grad = torch.autograd.backward, torch.autograd.grad

    def noted_backward(tensors: object, *inputs: object, **options: object) -> None:
        tell(("_note_backward", (tensors,)))
        tell(("_note_kept", ()))
        backward(tensors, *inputs, **options)

    def noted_grad(outputs: object, *inputs: object, **options: object) -> object:
        tell(("_note_backward", (outputs,)))
        return grad(outputs, *inputs, **options)

    torch.autograd.backward, torch.autograd.grad = noted_backward, noted_grad
    try:
        yield
    finally:
        torch.autograd.backward, torch.autograd.grad = backward, grad
