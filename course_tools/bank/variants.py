"""Variants of exercises: the same mathematics in another convention, so that a copied answer fails.

A variant changes arguments and results of an exercise: their axes, the meaning of True in a mask, a scale, a size. Reference,
properties, wrong and right answers are those of the bank, converted. A student's variant is determined by a secret and the
student's id in the LMS; the content of a notebook does not affect it.
"""

import hashlib
import hmac
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Literal

import torch

from course_tools.bank import exercise, exercises
from course_tools.checks.exercise import Answer, Exercise, Property
from course_tools.checks.outcome import Call

ConventionKind = Literal["axis order", "mask polarity", "scale", "sizes"]
Chosen = Mapping[str, str]
"""For each exercise with variants, the name of one."""


class UnknownVariant(ValueError):
    """An exercise has no variant of this name; the message names its variants."""


@dataclass(frozen=True)
class Conversion:
    """Converts a value from the usual convention to that of a variant, and back."""

    there: Callable[[object], object]
    back: Callable[[object], object]


@dataclass(frozen=True)
class Variant:
    """Another convention for an exercise.

    `words` describes it to the student; `arguments` are the changes by parameter name, `results` by the index of a result.
    """

    exercise: str
    name: str
    kind: ConventionKind
    words: str
    arguments: Mapping[str, Conversion] = field(default_factory=dict)
    results: Mapping[int, Conversion] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """An explanation of the report on an answer in this convention, for the student."""
        return f"Judged in your variant: {self.words} The sentences of this report refer to the usual convention."

    def carried_over(self, answer: Answer) -> Answer:
        """Convert an answer in the usual convention to that of the variant."""

        @wraps(answer)
        def carried(*arguments: object, **named: object) -> object:
            given, named = self._changed(arguments, named, lambda change: change.back)
            return self._returned(answer(*given, **named), lambda change: change.there)

        return carried

    def carried_back(self, answer: Answer) -> Answer:
        """Convert an answer in the convention of the variant to the usual convention, which the lecture uses."""

        @wraps(answer)
        def carried(*arguments: object, **named: object) -> object:
            given, named = self._changed(arguments, named, lambda change: change.there)
            return self._returned(answer(*given, **named), lambda change: change.back)

        return carried

    def call(self, arguments: Call) -> Call:
        """Convert the arguments of a call to the convention of the variant."""
        return self._changed(arguments, {}, lambda change: change.there)[0]

    def _changed(
        self, arguments: Call, named: Mapping[str, object], way: Callable[[Conversion], Callable]
    ) -> tuple[Call, dict]:
        names = inspect.signature(exercise(self.exercise).reference).parameters

        def one(name: str, value: object) -> object:
            return way(self.arguments[name])(value) if name in self.arguments else value

        given = tuple(one(name, value) for name, value in zip(names, arguments, strict=False)) + arguments[len(names) :]
        return given, {name: one(name, value) for name, value in named.items()}

    def _returned(self, value: object, way: Callable[[Conversion], Callable]) -> object:
        several = list(value) if isinstance(value, tuple) else [value]
        changed = [way(self.results[i])(part) if i in self.results else part for i, part in enumerate(several)]
        if not isinstance(value, tuple):
            return changed[0]
        return type(value)(*changed) if hasattr(value, "_fields") else tuple(changed)


def varied(asked: Exercise, variant: Variant) -> Exercise:
    """Convert an exercise to the convention of a variant."""

    def changed(prop: Property) -> Property:
        return replace(prop, calls=lambda draw: [variant.call(call) for call in prop.calls(draw)])

    return replace(
        asked,
        title=f"{asked.title} ({variant.name})",
        reference=variant.carried_over(asked.reference),
        properties=tuple(map(changed, asked.properties)),
        wrong=[variant.carried_over(answer) for answer in asked.wrong],
        right=[variant.carried_over(answer) for answer in asked.right],
        strangers=(),
    )


def variants(id: str) -> list[Variant]:
    """Return the variants of an exercise; most exercises have none."""
    return [variant for variant in VARIANTS if variant.exercise == id]


def variant(id: str, name: str) -> Variant:
    """Return one variant of an exercise by its name.

    Raises:
        UnknownVariant: the exercise has no such variant.
    """
    known = {one.name: one for one in variants(id)}
    if name not in known:
        raise UnknownVariant(f"exercise {id} has no variant {name!r}; its variants are: {', '.join(known) or 'none'}.")
    return known[name]


def chosen_for(student: str, secret: bytes) -> dict[str, str]:
    """Choose a student's variant of each exercise that has variants.

    Args:
        student: the id in the LMS.
        secret: known only to the instructor; without it, a student's variants cannot be computed.
    """
    ids = dict.fromkeys(one.exercise for one in VARIANTS)
    found = {}
    for id in ids:
        names = [one.name for one in variants(id)]
        number = hmac.new(secret, f"{id}\0{student}".encode("utf-8", "replace"), hashlib.sha256).digest()
        found[id] = names[int.from_bytes(number[:8], "big") % len(names)]
    return found


def lectures_with_variants() -> list[str]:
    """Return the numbers of the lectures that have an exercise with variants."""
    known = {one.exercise for one in VARIANTS}
    return sorted({item.lecture for item in exercises() if item.id in known})


def _same(change: Callable) -> Conversion:
    return Conversion(change, change)


def _moved(source: int, destination: int) -> Conversion:
    return Conversion(lambda t: t.movedim(source, destination), lambda t: t.movedim(destination, source))


def _times(factor: float) -> Conversion:
    return Conversion(lambda t: t * factor, lambda t: t / factor)


def _blocks(*order: int) -> Conversion:
    """Permute equal blocks of rows."""

    def permuted(places: list[int]) -> Callable:
        return lambda t: t.reshape(len(places), -1, *t.shape[1:])[places].reshape(t.shape)

    return Conversion(permuted(list(order)), permuted([order.index(i) for i in range(len(order))]))


def _each(change: Conversion) -> Conversion:
    """Convert every tensor of a tuple."""

    def mapped(way: Callable) -> Callable:
        return lambda values: type(values)(*map(way, values)) if hasattr(values, "_fields") else type(values)(map(way, values))

    return Conversion(mapped(change.there), mapped(change.back))


TRANSPOSED = _same(lambda t: t.mT)
NEGATED = _same(lambda mask: None if mask is None else ~mask if mask.dtype is torch.bool else 1 - mask)
RADIUS = Conversion(lambda size: size // 2, lambda radius: 2 * radius + 1)
ROWS_FIRST = _same(lambda boxes: boxes[..., [1, 0, 3, 2]])

VARIANTS = (
    Variant(
        "01.4",
        "forget gate first",
        "axis order",
        "The rows of W, U and b are in another order: forget gate f, input gate i, candidate g, output gate o.",
        dict.fromkeys(("W", "U", "b"), _blocks(1, 0, 2, 3)),
    ),
    Variant(
        "01.4",
        "output gate first",
        "axis order",
        "The rows of W, U and b are in another order: output gate o, input gate i, forget gate f, candidate g.",
        dict.fromkeys(("W", "U", "b"), _blocks(3, 0, 1, 2)),
    ),
    Variant(
        "01.5",
        "time last",
        "axis order",
        "Time is the last axis: `forget_gates` is (*batch, n, T).",
        {"forget_gates": _moved(0, -1)},
    ),
    Variant(
        "01.5",
        "percent",
        "scale",
        "`forget_gates` are given in percent, 0…100; the result stays a number in 0…1.",
        {"forget_gates": _times(100.0)},
    ),
    Variant(
        "03.2",
        "regions first",
        "axis order",
        "`weights` is (B, L, T): a row for each region, a column for each word.",
        {"weights": TRANSPOSED},
    ),
    Variant(
        "03.2",
        "percent",
        "scale",
        "`weights` are given in percent; the penalty stays that of weights in 0…1.",
        {"weights": _times(100.0)},
    ),
    Variant("03.3", "padding", "mask polarity", "In `mask` True = padding, False = a real token.", {"mask": NEGATED}),
    Variant(
        "03.3",
        "features first",
        "axis order",
        "`values` is (*batch, d_v, T_k): a column for each token.",
        {"values": TRANSPOSED},
    ),
    Variant(
        "03.4",
        "padding",
        "mask polarity",
        "In `mask` True = padding; weights are 0 there, and a sentence that is all padding does not count as a sentence.",
        {"mask": NEGATED},
    ),
    Variant(
        "03.4",
        "words first",
        "axis order",
        "Words come before sentences: `states` is (B, T, S, d) and `mask` (B, T, S). The results are as above.",
        {"states": _moved(1, 2), "mask": _moved(1, 2)},
    ),
    Variant(
        "05.3",
        "input first",
        "axis order",
        "The weights are stored as the paper writes them, as (in, out): W_1 is (d_model, d_ff) and W_2 (d_ff, d_model).",
        {"W_1": TRANSPOSED, "W_2": TRANSPOSED},
    ),
    Variant(
        "05.3",
        "features first",
        "axis order",
        "`x` and the result are (*batch, d_model, T): a column for each position.",
        {"x": TRANSPOSED},
        {0: TRANSPOSED},
    ),
    Variant("05.4", "forbidden", "mask polarity", "In `mask` True = may not attend.", {"mask": NEGATED}),
    Variant(
        "05.4",
        "input first",
        "axis order",
        "The four matrices of `attention` are stored as (in, out); those of `network` are as above.",
        {"attention": _each(TRANSPOSED)},
    ),
    Variant(
        "10.1",
        "radius",
        "sizes",
        "`size` is the radius r ≥ 0 of a window, whose side is 2r + 1.",
        {"size": RADIUS},
    ),
    Variant(
        "10.1",
        "features before positions",
        "axis order",
        "The result is (*batch, ⌈H / stride⌉, ⌈W / stride⌉, d, side²): the positions in a window are the last axis.",
        results={0: TRANSPOSED},
    ),
    Variant(
        "10.2",
        "radius",
        "sizes",
        "`size` is the radius r ≥ 0 of a window, whose side is 2r + 1.",
        {"size": RADIUS},
    ),
    Variant("10.2", "outside", "mask polarity", "True = outside the image, may not be attended to.", results={0: NEGATED}),
    Variant(
        "12.1",
        "rows first",
        "axis order",
        "The corners are returned with the rows first: (y_1, x_1, y_2, x_2). The input boxes are as above.",
        results={0: ROWS_FIRST},
    ),
    Variant(
        "12.1",
        "thousandths",
        "scale",
        "The corners are returned in thousandths of the image's size: 0.25 as 250. The input boxes are as above.",
        results={0: _times(1000.0)},
    ),
    Variant("12.3", "percent", "scale", "The result is in percent, above -100 and up to 100.", results={0: _times(100.0)}),
    Variant(
        "12.3",
        "second list first",
        "axis order",
        "The result is (*batch, m, n): a row for each box of `b`.",
        results={0: TRANSPOSED},
    ),
    Variant(
        "12.4",
        "gain",
        "scale",
        "The result is the gain of a match, the cost times -1: the best match has the largest.",
        results={0: _times(-1.0)},
    ),
    Variant(
        "12.4",
        "objects first",
        "axis order",
        "The result is (*batch, M, N): a row for each object.",
        results={0: TRANSPOSED},
    ),
)
"""At least two for each exercise; the usual convention, whose solutions are published, is not one of them."""
