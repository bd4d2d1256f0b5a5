"""Definition of an exercise: a reference, inputs that expose mistakes, the properties of a right answer, and a bank of answers.

The reference is a function of the library and exists only there. Each property draws its own inputs and says what must hold.
The docstring of a wrong answer in the bank is the misconception that leads to it; that of a right variant describes its design.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial, partialmethod

import torch
from torch import Tensor

from course_tools.checks.comparisons import (
    AtMost,
    Comparison,
    finite_gradients,
    runs,
    same_gradients,
    same_shapes,
    same_values,
    unchanged,
    unchanged_and_new,
)
from course_tools.checks.outcome import Call
from course_tools.checks.training_record import Measured

Answer = Callable[..., object]


class Severity(IntEnum):
    """How serious a mistake is. Each severity stands for one quarter of the points; the most serious has the lowest value."""

    IDEA = 0
    PART = 1
    DETAIL = 2
    CASE = 3

    @property
    def law(self) -> str:
        """What a student reads, with the share of the points that such an answer earns."""
        return _SEVERITY_LAWS[self]

    def limits(self, points: int) -> tuple[int, int]:
        """The minimum and maximum that an answer with such a mistake earns, out of `points`; never the full number."""
        return (points * self // 4 + 1 if self else 0), min(points * (self + 1) // 4, points - 1)


_SEVERITY_LAWS = {
    Severity.IDEA: "the mistake is in the idea (at most a quarter)",
    Severity.PART: "the mistake is in one part of the computation (at most half)",
    Severity.DETAIL: "the mistake is one of detail (more than half, at most three quarters)",
    Severity.CASE: "the mistake is in a special case or in the form of the result (more than three quarters)",
}


class Answers(list[Answer]):
    """Answers of a bank, in the order of their definition. An instance is a decorator that adds an answer: `@wrong`, `@right`.

    `@wrong.idea`, `@wrong.part`, `@wrong.detail` and `@wrong.case` also state the severity of the mistake. An answer marked
    only `@wrong` earns the points of the properties that hold. In a build task, `@wrong(proof=…)` gives the measurements that
    prove the mistake, whatever the design of the submission, and `@wrong(suspicion=…)` those that make it likely; the first
    proof that applies is named, and then the first suspicion.

    `@stranger` adds a wrong answer that only the tests use. `@stranger(makes=[…])` names the wrong answers of the bank whose
    mistake it makes in other words, if it is one, or at once, if there are several.
    """

    def __call__(self, answer: Answer | None = None, **marks: "Severity | Evidence | Sequence[Answer]") -> Answer:
        """Add an answer with its marks, and return it; without an answer, return a decorator that does so.

        Raises a TypeError for a mark that is not severity, proof, suspicion or makes.
        """
        if unknown := marks.keys() - {"severity", "proof", "suspicion", "makes"}:
            raise TypeError(f"an answer has no mark {min(unknown)!r}; give severity, proof, suspicion or makes.")
        if answer is None:
            return partial(self, **marks)
        for mark, value in marks.items():
            setattr(answer, mark, value)
        self.append(answer)
        return answer

    idea = partialmethod(__call__, severity=Severity.IDEA)
    """Add an answer that misses the idea of the exercise, reverses it, or ignores a required input."""
    part = partialmethod(__call__, severity=Severity.PART)
    """Add an answer in which a step of the computation is missing or wrong."""
    detail = partialmethod(__call__, severity=Severity.DETAIL)
    """Add an answer that is right except for a factor, an index, an order of axes, or a similar function in its place."""
    case = partialmethod(__call__, severity=Severity.CASE)
    """Add an answer that is right except for a special case, its gradients, changed inputs, or the form of its result."""


def severity_of(answer: Answer) -> Severity | None:
    """The severity with which an answer of the bank is marked; None if it has none."""
    return getattr(answer, "severity", None)


_PLAIN = {"dtype": torch.float32, "device": "cpu"}


class Draw:
    """Inputs from a seed: the same seed draws the same inputs on every machine, whatever torch's defaults are."""

    def __init__(self, seed: int) -> None:
        """Create a separate generator; the global one is not used."""
        self.generator = torch.Generator().manual_seed(seed)

    def sizes(self, n: int, other_than: Sequence[int] = ()) -> list[int]:
        """Draw n different primes of the first six, so that swapped axes are always detected; none is one of the others."""
        primes = (2, 3, 5, 7, 11, 13)
        drawn = [primes[i] for i in torch.randperm(len(primes), generator=self.generator, device="cpu").tolist()]
        return [size for size in drawn if size not in other_than][:n]

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Draw from N(0, scale²)."""
        return torch.randn(*shape, generator=self.generator, **_PLAIN) * scale

    def uniform(self, *shape: int) -> Tensor:
        """Draw from the uniform distribution on [0, 1)."""
        return torch.rand(*shape, generator=self.generator, **_PLAIN)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Draw integers from low to high - 1."""
        return torch.randint(low, high, shape, generator=self.generator, device="cpu")

    def boxes(self, *shape: int) -> Tensor:
        """Draw boxes as centres and sizes, (*shape, 4); each side is 0.1 to 0.5 of the image's."""
        return torch.cat([0.3 + 0.4 * self.uniform(*shape, 2), 0.1 + 0.4 * self.uniform(*shape, 2)], dim=-1)

    def mask(self, *shape: int) -> Tensor:
        """Draw a mask. Every row allows at least one key, chosen at random, and forbids at least one if it has two or more."""
        order = self.uniform(*shape).argsort(-1)
        n_allowed = self.integers(1, max(2, shape[-1]), *shape[:-1], 1)
        return order < n_allowed


@dataclass(frozen=True)
class Property:
    """One thing that must hold of an answer.

    `law` is the sentence that a student reads, `calls` draws the inputs, and `judge` compares the answer's outcome with that of
    the reference. If a property named in `needs` fails, this one is skipped. Whether the answer depends on its inputs is tried
    on changed copies of the calls, and whether it would fail on a GPU on the calls, but neither on those that are `long`.
    Where results are `drawn`, right answers differ, and so do those with the same mistake: it is compared whether the property
    holds, and not what was drawn.
    """

    name: str
    law: str
    calls: Callable[[Draw], Iterable[Call]]
    judge: Comparison = same_values
    points: int = 1
    needs: tuple[str, ...] = ("shape",)
    long: bool = False
    drawn: bool = False

    @property
    def with_gradients(self) -> bool:
        """Whether the answer must be differentiated on these inputs."""
        return self.judge in (same_gradients, finite_gradients)

    @property
    def counts_cost(self) -> bool:
        """Whether the operations of the answer must be counted on these inputs."""
        return isinstance(self.judge, AtMost)


def runs_on(calls: Callable[[Draw], Iterable[Call]]) -> Property:
    """Make the root of every graph: the answer returns a value, without an error and in time. This alone earns no points."""
    return Property("runs", "It runs without an error and returns a result.", calls, runs, points=0, needs=())


has_shape = partial(Property, "shape", judge=same_shapes, needs=("runs",))
"""`has_shape(law, calls)`: each result has the expected shape and kind."""

has_gradient = partial(Property, "gradient", "The gradient with respect to every input is right.", judge=same_gradients)
"""`has_gradient(calls)`: the result is differentiable, and its gradients equal those of the reference."""

leaves_inputs = partial(Property, "inputs", "The call does not change its inputs.", judge=unchanged)
"""`leaves_inputs(calls)`: no argument is changed in place; this earns nothing if the shape is wrong."""

gives_new_tensors = partial(
    Property, "inputs", "The call returns new tensors and does not change its inputs.", judge=unchanged_and_new
)
"""`gives_new_tensors(calls)`: `leaves_inputs`, and no result is an argument or a view of one."""


def costs_at_most(
    times: float, law: str, calls: Callable[[Draw], Iterable[Call]], points: int = 1, needs: tuple[str, ...] = ("shape",)
) -> Property:
    """Make a property of cost: at most `times` the operations of the reference, as `checks.cost` counts them.

    Draw inputs that are large where the cost matters, such as 512 keys, and small elsewhere. Choose `times` well above what the
    slowest honest design takes (a loop, chunks of 64, float64), and well below what the algorithm takes that the law excludes.
    The bank's wrong answer with that algorithm, right in every other property, gives the mistake its name.
    """
    return Property("cost", law, calls, AtMost(times), points, needs)


def loops_at_most(
    times: float, law: str, calls: Callable[[Draw], Iterable[Call]], points: int = 1, needs: tuple[str, ...] = ("shape",)
) -> Property:
    """Make a property of the number of kernels: at most `times` those of the reference, where a loop in Python takes many.

    Choose inputs and `times` as for `costs_at_most`.
    """
    return Property("loops", law, calls, AtMost(times, "kernels"), points, needs)


Truth = Mapping[str, object]
"""What the judges of a build task know and a student's code never receives, such as the targets of held-out examples.

What "across" maps a name to, such as the loss of a guess, is drawn across the losses of the training.
"""

Evidence = Callable[[Measured, Truth], bool]
"""Whether the measurements of a training show a mistake; see `Answers`."""


@dataclass(frozen=True)
class Training:
    """What makes an exercise a build task: the answer trains a model, once, and every property is judged by that model.

    `questions` draws one call `(data, queries)`, as `training_record.measure` takes it, and the truth, which the submission
    does not receive. `seconds` is the limit of processor time. `conclusion` says what the measurements of a right answer show;
    no points depend on it. An answer that fails the property `learned` earns at most a third of the points,
    unless it has a named mistake: then the severity of that decides.
    """

    questions: Callable[[Draw], tuple[Call, Truth]]
    seconds: float
    conclusion: Callable[[Measured, Truth], str] | None = None
    learned: str = "learns"


@dataclass(frozen=True)
class Exercise:
    """One checked exercise. `forbids` maps functions that must not be called to what to write instead.

    `results` are the names of several results that the reference returns as a plain tuple, as messages write them.

    Three fields are for the tests alone. `strangers` are wrong answers that the checks must refuse without knowing them.
    `equivalent_mutants` maps a reason to the mutants of the reference that compute the same on every input of the exercise, and
    `missed_mutants` to those that pass although they are wrong.

    An exercise with a `training` is a build task: its properties draw no calls of their own, and no answer is compared with the
    reference; `curve` is the title of its loss, and says where the loss changes its meaning. One that is `extra` stands in
    *Going further* of its lecture: its points count, but not towards the maximum.
    """

    id: str
    title: str
    reference: Answer
    properties: tuple[Property, ...]
    wrong: Sequence[Answer]
    right: Sequence[Answer]
    hints: tuple[str, str, str]
    forbids: Mapping[Callable[..., object], str] = field(default_factory=dict)
    training: Training | None = None
    extra: bool = False
    strangers: Sequence[Answer] = ()
    equivalent_mutants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    missed_mutants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    curve: str = "training loss"

    def __post_init__(self) -> None:
        """Raise a ValueError if a property needs one that is not listed before it, or if two have the same name."""
        seen: set[str] = set()
        for prop in self.properties:
            if missing := set(prop.needs) - seen:
                raise ValueError(f"exercise {self.id}: {prop.name!r} needs {sorted(missing)}, which must be listed before it.")
            if prop.name in seen:
                raise ValueError(f"exercise {self.id}: two properties are called {prop.name!r}.")
            seen.add(prop.name)

    @property
    def lecture(self) -> str:
        """The number of its lecture, such as "04"."""
        return self.id.partition(".")[0]

    @property
    def points(self) -> int:
        """What a right answer earns."""
        return sum(prop.points for prop in self.properties)

    def calls(self, prop: Property | str, seed: int) -> list[Call]:
        """Draw the inputs of one property, given itself or by its name; the same seed draws the same inputs."""
        if isinstance(prop, str):
            prop = next(one for one in self.properties if one.name == prop)
        return list(prop.calls(self._draw(prop.name, seed)))

    def questions(self, seed: int) -> tuple[Call, Truth]:
        """Draw the call of a build task, and the truth by which the answer is judged."""
        return self.training.questions(self._draw("training", seed))

    def _draw(self, name: str, seed: int) -> Draw:
        return Draw(zlib.crc32(f"{self.id} {name} {seed}".encode()))
