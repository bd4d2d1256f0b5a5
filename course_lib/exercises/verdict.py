"""From outcomes to a verdict: which properties hold, how many points that earns, and which misconception it looks like.

An answer is observed on the inputs of every property. A property that fails skips those that need it. The misconception is
that of the wrong answer in the bank which does the same as the student's on every input, results, errors, changed
arguments and gradients alike. Failing that (two mistakes at once), it is that of the one which does the same on the first
failing property, fails none that the student's has, and shares two of its failures or half of them. Errors of one kind alone
say nothing: two answers that only ever raise are alike if they also raise with the same words.
"""

from dataclasses import dataclass
from inspect import signature
from typing import Literal

from course_lib.exercises.exercise import Answer, Exercise
from course_lib.exercises.guard import TimedOut, guarded
from course_lib.exercises.outcome import Call, Outcome, is_close, observe, tensors_in, watch

Observed = dict[str, list[tuple[Call, Outcome, Outcome]]]
"""For each property, by name: the inputs, what the reference does with them, and what the answer does."""


@dataclass(frozen=True)
class Finding:
    """What came of one property. `detail` says what was expected and what came, `example` on which smallest input."""

    name: str
    law: str
    status: Literal["holds", "fails", "skipped"]
    points: int
    detail: str = ""
    example: str = ""


@dataclass(frozen=True)
class Verdict:
    """The judgement of one answer.

    `misconception` is None for a right answer and for a wrong one that the bank does not know; `message` says in a few lines of
    plain text what a student should read.
    """

    passed: bool
    points: int
    max_points: int
    misconception: str | None
    message: str
    findings: tuple[Finding, ...] = ()
    started: bool = True


def judge(exercise: Exercise, answer: object, seed: int = 0) -> Verdict:
    """Judge an answer to an exercise on the inputs that `seed` draws."""
    with guarded():
        observed = _observe(exercise, answer, seed)
        findings = _findings(exercise, observed)
        outcomes = [got for rows in observed.values() for _, _, got in rows]
        forbidden = frozenset().union(*(got.called for got in outcomes))
        started = not outcomes[0].not_started
        passed = not forbidden and all(f.status == "holds" for f in findings)
        misconception = None if passed or forbidden or not started else _misconception(exercise, observed, findings)
    if forbidden:
        advice = " ".join(f"{f.__name__}: {text}" for f, text in exercise.forbids.items() if f.__name__ in forbidden)
        findings += (Finding("by hand", "It is built by hand, as the exercise asks.", "fails", 0, f"It calls {advice}"),)
    points = 0 if forbidden else sum(f.points for f in findings if f.status == "holds")
    message = _message(exercise, findings, points, misconception, started)
    return Verdict(passed, points, exercise.points, misconception, message, findings, started)


def _observe(exercise: Exercise, answer: object, seed: int) -> Observed:
    asked = [(prop, call) for prop in exercise.properties for call in sorted(exercise.calls(prop, seed), key=_size)]
    n_first = sum(not prop.needs for prop, _ in asked)
    outcomes = watch(answer, [(call, prop.with_gradients) for prop, call in asked], n_first, exercise.forbids)
    observed: Observed = {}
    for (prop, call), got in zip(asked, outcomes, strict=False):
        expected = observe(exercise.reference, call, prop.with_gradients)
        if expected.error is not None:
            raise RuntimeError(f"the reference of {exercise.id} fails its own property {prop.name!r}") from expected.error
        observed.setdefault(prop.name, []).append((call, expected, got))
    return observed


def _findings(exercise: Exercise, observed: Observed) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    held: set[str] = set()
    for prop in exercise.properties:
        if not held.issuperset(prop.needs) or prop.name not in observed:
            findings.append(Finding(prop.name, prop.law, "skipped", prop.points))
            continue
        failures = ((call, prop.judge(expected, got)) for call, expected, got in observed[prop.name])
        call, detail = next(((c, d) for c, d in failures if d is not None), (None, None))
        if detail is None:
            held.add(prop.name)
            findings.append(Finding(prop.name, prop.law, "holds", prop.points))
        else:
            findings.append(Finding(prop.name, prop.law, "fails", prop.points, detail, _describe(exercise.reference, call)))
    return tuple(findings)


def _misconception(exercise: Exercise, observed: Observed, findings: tuple[Finding, ...]) -> str | None:
    first = next(f.name for f in findings if f.status == "fails")
    if isinstance(observed[first][-1][2].error, TimedOut):
        return None
    held = {f.name for f in findings if f.status == "holds"}
    likely: list[tuple[int, Answer]] = []
    for wrong in exercise.wrong:
        found = _compare(wrong, exercise, first, observed)
        if found is None:
            continue
        shared, failed = found
        if len(shared) == len(observed):
            return _told(wrong)
        n = len(shared & failed)
        if not held & failed and (n >= 2 or 2 * n >= len(failed)):
            likely.append((n, wrong))
    most = max((n for n, _ in likely), default=0)
    best = [wrong for n, wrong in likely if n == most]
    return _told(best[0]) if len(best) == 1 else None


def _compare(wrong: Answer, exercise: Exercise, first: str, observed: Observed) -> tuple[set[str], set[str]] | None:
    """Name the properties on which a wrong answer does the same as the student's, and those that it fails.

    None where the two differ on the first failing property, or share no more at all than a kind of error.
    """
    shared, failed = set(), set()
    for prop in sorted(exercise.properties, key=lambda prop: prop.name != first):
        rows = observed.get(prop.name, ())
        outcomes = [observe(wrong, call, prop.with_gradients) for call, _, _ in rows]
        if rows and all(is_same(one, got) for one, (_, _, got) in zip(outcomes, rows, strict=True)):
            shared.add(prop.name)
        elif prop.name == first:
            return None
        if len(observed) == 1 and rows and not _same_words(outcomes, rows):
            return None
        if any(prop.judge(expected, one) is not None for one, (_, expected, _) in zip(outcomes, rows, strict=True)):
            failed.add(prop.name)
    return shared, failed


def _same_words(outcomes: list[Outcome], rows: list[tuple[Call, Outcome, Outcome]]) -> bool:
    return all(str(one.error) == str(got.error) for one, (_, _, got) in zip(outcomes, rows, strict=True))


def is_same(one: Outcome, other: Outcome) -> bool:
    """Say whether two outcomes are the same: results up to rounding, kind of error, changed arguments and gradients."""
    if type(one.error) is not type(other.error) or one.changed != other.changed:
        return False
    return _all_close(one.results, other.results) and _all_close(one.gradients, other.gradients)


def _all_close(one: tuple[object, ...] | None, other: tuple[object, ...] | None) -> bool:
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(map(is_close, one, other))


def _told(wrong: Answer) -> str:
    return " ".join((wrong.__doc__ or "").split())


def _size(call: Call) -> int:
    return sum(t.numel() for t in tensors_in(call))


def _describe(reference: Answer, call: Call) -> str:
    """Name the arguments of a call with their shapes, and small integers with their values."""
    names = signature(reference).parameters
    return ", ".join(f"{name} {_shown(value)}" for name, value in zip(names, call, strict=False))


def _shown(value: object) -> str:
    tensors = list(tensors_in(value))
    if not tensors:
        return f"= {value}"
    if len(tensors) == 1 and not tensors[0].is_floating_point() and tensors[0].numel() <= 6:
        return f"= {tensors[0].tolist()}"
    return " and ".join(str(tuple(t.shape)) for t in tensors)


def _message(exercise: Exercise, findings: tuple[Finding, ...], points: int, misconception: str | None, started: bool) -> str:
    head = f"{exercise.id} {exercise.title}: {points} of {exercise.points} points"
    if not started:
        return f"{head}. Not started yet: replace `raise NotImplementedError()` by your own code."
    failed = [f for f in findings if f.status == "fails"]
    if not failed:
        return f"{head}. Right."
    lines = [f"{head}."]
    if misconception:
        lines.append(misconception)
    lines += [f"✗ {f.name}: {f.law} {f.detail}" + (f" Smallest input: {f.example}." if f.example else "") for f in failed]
    return "\n".join(lines)
