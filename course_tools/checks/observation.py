"""What is true of a wrong result that no misconception explains: how it differs from the right one on every failing input.

Each relation is checked entry by entry, on each input on which the property fails and whose result has enough entries to show
it. It is an observation and not a diagnosis: "it is the right one times 0.5".
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations

import torch
from torch import Tensor

from course_tools.checks.outcome import Outcome, is_close

FEWEST = 4
"""Entries that a result needs before a relation is looked for in it: almost anything holds of fewer."""

Relation = tuple[str, ...]
"""Its kind, which must be the same on all inputs, the sentence for one of them, and where there is one, its number."""


def observation(rows: Sequence[tuple[Outcome, Outcome]]) -> tuple[str, str]:
    """Say how the first wrong result differs from the right one on all of these inputs; ("", "") if nothing simple is true.

    Args:
        rows: the outcomes of the reference and of the answer, on the inputs on which a property fails.

    Returns:
        a sentence about the first of these inputs, and one with the number of this relation or "".
    """
    found: dict[str, tuple[str, str]] | None = None
    for expected, got in rows:
        pair = _first_wrong(expected, got)
        if pair is None:
            return "", ""
        name, want, have = pair
        if max(want.numel(), have.numel()) < FEWEST:
            continue
        name = name.replace("The result", "the result")
        where = "this" if expected is rows[0][0] else "a larger"
        of_this = {
            f"{name} {kind}": (f"On {where} input {name} {says}", "".join(number))
            for kind, says, *number in _relations(want, have)
        }
        found = of_this if found is None else {kind: says for kind, says in found.items() if kind in of_this}
    return next(iter((found or {}).values()), ("", ""))


def _first_wrong(expected: Outcome, got: Outcome) -> tuple[str, Tensor, Tensor] | None:
    if expected.results is None or got.results is None or len(expected.results) != len(got.results):
        return None
    for name, want, have in zip(expected.names, expected.results, got.results, strict=True):
        if is_close(want, have):
            continue
        both = isinstance(want, Tensor) and isinstance(have, Tensor) and not (want.is_meta or have.is_meta)
        return (name, want, have) if both and (want.dtype == torch.bool) == (have.dtype == torch.bool) else None
    return None


def _relations(want: Tensor, have: Tensor) -> Iterator[Relation]:
    """Yield what is true of a wrong result, the most telling relation first."""
    if want.shape != have.shape:
        yield from _of_another_shape(want, have)
        return
    if want.dtype == torch.bool:
        yield from _of_truth_values(want, have)
        yield from _in_places(want, have)
        return
    w, h = want.double(), have.double()
    if not h.isfinite().all():
        more = ~h.isfinite() & w.isfinite()
        if more.any() and is_close(w.where(~more, 0.0), h.where(~more, 0.0)):
            yield "not finite", f"is right, but for {_not_finite(h[more])} where the right one is finite."
            return
    if not w.isfinite().all() or not h.isfinite().all():
        yield from _in_places(w, h)
        return
    yield from _by_a_number(w, h)
    yield from _by_order(w, h)
    yield from _by_a_function(w, h)
    yield from _in_places(w, h)
    yield from _of_sums(w, h)
    yield from _alike(w, h)
    if w.numel() > FEWEST and _varied(w) and is_close(w.flatten().sort().values, h.flatten().sort().values):
        yield "permuted", "holds the right numbers in another order."


def _of_another_shape(want: Tensor, have: Tensor) -> Iterator[Relation]:
    n = want.dim()
    if have.dim() == n <= FEWEST:
        for axes in permutations(range(n)):
            if want.permute(axes).shape == have.shape and is_close(want.permute(axes), have):
                turned = [axis for axis in range(n) if axes[axis] != axis]
                if len(turned) == 2:
                    yield f"turned {[axis - n for axis in turned]}", f"is the right one with {_axes(turned, n)} exchanged."
                else:
                    yield "permuted axes", f"is the right one with its axes in another order, {axes}."
                return
    if want.numel() == have.numel() and is_close(want.flatten(), have.flatten()):
        yield "reshaped", f"holds the right numbers in their order, but in the shape {tuple(have.shape)}."
    if want.dtype == torch.bool or not want.numel():
        return
    for axis in range(n):
        for how, reduced in (("summed", want.double().sum(axis)), ("averaged", want.double().mean(axis))):
            if have.squeeze().shape == reduced.squeeze().shape and is_close(reduced.squeeze(), have.double().squeeze()):
                yield f"{how} {axis - n}", f"is the right one, {how} over {_axis(axis, n)}."
    cut = tuple(slice(0, min(pair)) for pair in zip(want.shape, have.shape, strict=True)) if have.dim() == n else None
    if cut is not None and want[cut].numel() >= FEWEST:
        axes = [axis for axis in range(n) if want.shape[axis] != have.shape[axis]]
        longer = have.shape[axes[0]] > want.shape[axes[0]]
        if len(axes) == 1 and (axis := axes[0]) is not None:
            size = min(want.shape[axis], have.shape[axis])
            words = "too many" if longer else "missing"
            if is_close(want.narrow(axis, 0, size), have.narrow(axis, 0, size)):
                yield f"{words} at the end", f"is right up to its end along {_axis(axis, n)}, where entries are {words}."
            elif is_close(_last(want, axis, size), _last(have, axis, size)):
                yield f"{words} at the beginning", f"is right, but for entries {words} at the beginning of {_axis(axis, n)}."


def _of_truth_values(want: Tensor, have: Tensor) -> Iterator[Relation]:
    if torch.equal(have, ~want):
        yield "inverted", "is the right one with True and False exchanged."
    elif have.all() or not have.any():
        yield "constant", f"is {bool(have.any())} everywhere."
    elif (have | want).equal(have):
        yield "more", "is True wherever the right one is, and in other places too."
    elif (have & want).equal(have):
        yield "fewer", "is True only where the right one is, but not in all of these places."


def _by_a_number(w: Tensor, h: Tensor) -> Iterator[Relation]:
    if not h.any():
        yield "zero", "is 0 everywhere."
        return
    if is_close(-w, h):
        yield "negated", "is the right one with the sign changed."
        return
    largest = int(w.abs().argmax())
    factor = float(h.flatten()[largest] / w.flatten()[largest]) if w.any() else 0.0
    if _varied(w) and factor and is_close(w * factor, h):
        yield "times", "is a multiple of the right one.", f"The factor is {factor:.3g}."
    shift = float((h - w).mean())
    if is_close(w + shift, h):
        yield "plus", "differs from the right one by the same number everywhere.", f"This number is {shift:.3g}."
    for axis in reversed(range(w.dim())):
        if w.shape[axis] == w.numel() or w.shape[axis] < 2:
            continue
        over, top = _axis(axis, w.dim()), w.abs().argmax(axis, keepdim=True)
        factors = h.gather(axis, top) / w.gather(axis, top)
        if factors.isfinite().all() and is_close(w * factors, h) and _varied(w):
            yield f"times along {axis - w.dim()}", f"is the right one times numbers that are the same along {over}."
        shifts = (h - w).mean(axis, keepdim=True)
        if is_close(w + shifts, h):
            yield f"plus along {axis - w.dim()}", f"is the right one plus numbers that are the same along {over}."


def _by_order(w: Tensor, h: Tensor) -> Iterator[Relation]:
    n = w.dim()
    if not _varied(w):
        return
    for i, j in combinations(range(n), 2):
        if w.shape[i] == w.shape[j] > 1 and is_close(w.transpose(i, j), h):
            yield f"turned {[i - n, j - n]}", f"is the right one with {_axes([i, j], n)} exchanged."
    for axis in range(n):
        size = w.shape[axis]
        if size < 2:
            continue
        if is_close(w.flip(axis), h):
            yield f"reversed {axis - n}", f"is the right one reversed along {_axis(axis, n)}."
        for step in (1, -1):
            a, b = (w, h) if step > 0 else (h, w)
            if size > 2 and is_close(a.narrow(axis, 0, size - 1), b.narrow(axis, 1, size - 1)):
                where = "later" if step > 0 else "earlier"
                yield f"shifted {step} {axis - n}", f"is the right one moved one place {where} along {_axis(axis, n)}."
        if size > 2 and is_close(w.sort(axis).values, h.sort(axis).values):
            yield f"sorted {axis - n}", f"holds the right numbers in another order along {_axis(axis, n)}."


def _by_a_function(w: Tensor, h: Tensor) -> Iterator[Relation]:
    if not _varied(w):
        return
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "1 divided by the right one": lambda x: 1 / x,
        "1 minus the right one": lambda x: 1 - x,
        "the logarithm of the right one": torch.log,
        "the exponential of the right one": torch.exp,
        "the square of the right one": torch.square,
        "the square root of the right one": torch.sqrt,
        "the right one without its sign": torch.abs,
        "the right one with 0 in place of negative numbers": torch.relu,
        "the right one, rounded": torch.round,
        "the sigmoid of the right one": torch.sigmoid,
        "the tanh of the right one": torch.tanh,
    }
    for words, function in functions.items():
        if (value := function(w)).isfinite().all() and is_close(value, h):
            yield words, f"is {words}."
    for axis in range(w.dim()):
        if w.shape[axis] < 2:
            continue
        over = _axis(axis, w.dim())
        for words, value in (
            (f"the softmax of the right one over {over}", w.softmax(axis)),
            (f"the right one divided by its sum over {over}", w / w.sum(axis, keepdim=True)),
            (f"the right one divided by its length over {over}", w / w.norm(dim=axis, keepdim=True)),
            (f"the right one minus its mean over {over}", w - w.mean(axis, keepdim=True)),
            (f"the running sum of the right one along {over}", w.cumsum(axis)),
            (f"the right one averaged over {over}", w.mean(axis, keepdim=True).expand_as(w)),
            (f"the right one summed over {over}", w.sum(axis, keepdim=True).expand_as(w)),
        ):
            if value.isfinite().all() and is_close(value, h):
                yield f"{words.replace(over, '')}{axis - w.dim()}", f"is {words}."


def _in_places(w: Tensor, h: Tensor) -> Iterator[Relation]:
    """Where along one axis the result is right and where it is wrong."""
    apart = w != h if w.dtype == torch.bool else _apart(w, h)
    n = w.dim()
    for axis in range(n):
        size = w.shape[axis]
        others = [other for other in range(n) if other != axis]
        wrong = apart.sum(others).bool() if others else apart
        if size < 3 or wrong.all():
            continue
        if int(wrong.sum()) == 1 and bool(wrong[0] | wrong[-1]):
            place = "first" if wrong[0] else "last"
            yield f"but {place} {axis - n}", f"is right everywhere but at the {place} place of {_axis(axis, n)}."
        elif int(wrong.sum()) == size - 1 and not bool(wrong[0] & wrong[-1]):
            place = "last" if wrong[0] else "first"
            yield f"only {place} {axis - n}", f"is right at the {place} place of {_axis(axis, n)}, and wrong at all others."
    if w.dtype != torch.bool and apart.any() and not apart.all():
        for words, places in (
            ("where the right one is 0", w == 0),
            ("where the right one is negative", w < 0),
            ("where the right one is positive", w > 0),
        ):
            if places.equal(apart) and not places.all():
                yield words, f"is right but {words}."
        if not h[apart].any():
            yield "zeros", "is 0 at some places where the right one is not, and right at all others."
        elif not w[apart].any():
            yield "no zeros", "is not 0 at some places where the right one is, and right at all others."


def _of_sums(w: Tensor, h: Tensor) -> Iterator[Relation]:
    """Over which axes the numbers sum to 1."""
    n = w.dim()
    right, found = ([axis for axis in range(n) if x.shape[axis] > 1 and _sums_to_one(x, axis)] for x in (w, h))
    if right and not found and (h >= 0).all():
        yield f"no sums {right[0] - n}", f"does not sum to 1 over {_axis(right[0], n)}, and the right one does."
    elif right and found and not set(right) & set(found):
        yield f"sums {found[0] - n}", f"sums to 1 over {_axis(found[0], n)}, and the right one over {_axis(right[0], n)}."
    elif found and not right:
        yield f"found sums {found[0] - n}", f"sums to 1 over {_axis(found[0], n)}, and the right one does not."


def _alike(w: Tensor, h: Tensor) -> Iterator[Relation]:
    """Along which axis all entries are the same where those of the right one are not."""
    n = w.dim()
    for axis in range(n):
        if w.shape[axis] < 2:
            continue
        same = [is_close(x, x.narrow(axis, 0, 1).expand_as(x)) for x in (w, h)]
        if same == [False, True]:
            yield f"alike {axis - n}", f"is the same at every place of {_axis(axis, n)}, and the right one is not."
        elif same == [True, False]:
            yield f"unlike {axis - n}", f"differs along {_axis(axis, n)}, and the right one is the same at every place."


def _apart(w: Tensor, h: Tensor) -> Tensor:
    finite = w[w.isfinite()].abs()
    tolerance = 1e-5 + 1e-4 * (float(finite.max()) if finite.numel() else 0.0)
    return ~((w == h) | ((w - h).abs() <= tolerance) | (w.isnan() & h.isnan()))


def _varied(w: Tensor) -> bool:
    """Whether the numbers differ enough for a relation to be no chance: three values other than 0."""
    return len(w[w != 0].unique()) >= 3


def _sums_to_one(x: Tensor, axis: int) -> bool:
    return bool(((x.sum(axis) - 1).abs() < 1e-4).all())


def _last(x: Tensor, axis: int, size: int) -> Tensor:
    return x.narrow(axis, x.shape[axis] - size, size)


def _not_finite(values: Tensor) -> str:
    return "NaN" if values.isnan().all() else "infinite numbers" if not values.isnan().any() else "NaN and infinite numbers"


def _axis(axis: int, n: int) -> str:
    """An axis in words, counted from the end where batches may come before it."""
    return "its only axis" if n == 1 else {1: "the last axis", 2: "the last axis but one"}.get(n - axis, f"axis {axis}")


def _axes(axes: Sequence[int], n: int) -> str:
    return "its last two axes" if list(axes) == [n - 2, n - 1] else f"axes {axes[0]} and {axes[1]}"
