"""From outcomes to a verdict: which properties hold, how many points that earns, and which misconception it looks like.

An answer is observed on the inputs of every property. A property that fails skips those that need it. The misconception is
that of the wrong answer in the bank which does the same as the student's on every input, results, errors, changed
arguments and gradients alike. Failing that (two mistakes at once), it is that of the one which does the same on the first
failing property, fails none that the student's has, and shares two of its failures or half of them. Errors of one kind alone
say nothing: two answers that only ever raise are alike if they also raise with the same words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Literal

from course_tools.checks.exercise import Answer, Exercise, Property
from course_tools.checks.guard import TimedOut, guarded
from course_tools.checks.outcome import Call, Outcome, is_close, observe, tensors_in, watch

Observed = dict[str, list[tuple[Call, Outcome, Outcome]]]
"""For each property, by name: the inputs, what the reference does with them, and what the answer does."""


@dataclass(frozen=True)
class Finding:
    """What came of one property. `detail` says what was expected and what came, `example` on which smallest input.

    `numbers` shows values of the reference; a graded report leaves them out.
    """

    name: str
    law: str
    status: Literal["holds", "fails", "skipped"]
    points: int
    detail: str = ""
    example: str = ""
    numbers: str = ""


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
    """Comparison an answer to an exercise on the inputs that `seed` draws."""
    return Examination(exercise, seed).examine(answer)


class Examination:
    """The calls that an exercise asks with one seed, and what the reference and the wrong answers of the bank do with them.

    An answer may be observed elsewhere, in another process; many may be judged by the same questions.
    """

    def __init__(self, exercise: Exercise, seed: int) -> None:
        """Draw the calls of every property, smallest first."""
        self.exercise = exercise
        with guarded():
            calls = {prop.name: sorted(exercise.calls(prop, seed), key=_size) for prop in exercise.properties}
        self.asked = [(prop, call) for prop in exercise.properties for call in calls[prop.name]]
        self._known: dict[Answer, dict[str, list[Outcome]]] = {}

    @property
    def calls(self) -> list[tuple[Call, bool]]:
        """The calls in order, each with whether the answer must be differentiated."""
        return [(call, prop.with_gradients) for prop, call in self.asked]

    @property
    def n_preliminary(self) -> int:
        """How many calls stand first: an answer that gives no result on one of them is asked no more."""
        return sum(not prop.needs for prop, _ in self.asked)

    def examine(self, answer: object) -> Verdict:
        """Observe an answer on the calls, here and now, and judge it."""
        with guarded():
            outcomes = watch(answer, self.calls, self.n_preliminary, self.exercise.forbids)
        return self.judge(outcomes)

    def judge(self, outcomes: Sequence[Outcome], shown: Callable[[object], str] | None = None) -> Verdict:
        """Judge what an answer did on the calls, or on the first of them; `shown` writes an argument of the smallest input."""
        exercise = self.exercise
        with guarded():
            observed = self._observed(outcomes)
            findings = _findings(exercise, observed, shown or with_values)
            forbidden = frozenset().union(*(got.called for got in outcomes))
            started = not outcomes[0].not_started
            passed = not forbidden and all(f.status == "holds" for f in findings)
            misconception = None if passed or forbidden or not started else self._misconception(observed, findings)
        if forbidden:
            advice = " ".join(f"{f.__name__}: {text}" for f, text in exercise.forbids.items() if f.__name__ in forbidden)
            findings += (Finding("by hand", "It is built by hand, as the exercise asks.", "fails", 0, f"It calls {advice}"),)
        points = 0 if forbidden else sum(f.points for f in findings if f.status == "holds")
        message = _message(exercise, findings, points, misconception, started)
        return Verdict(passed, points, exercise.points, misconception, message, findings, started)

    def _observed(self, outcomes: Sequence[Outcome]) -> Observed:
        observed: Observed = {}
        references = {prop.name: iter(self._of(self.exercise.reference, prop)) for prop in self.exercise.properties}
        for (prop, call), got in zip(self.asked, outcomes, strict=False):
            expected = next(references[prop.name])
            if expected.error is not None:
                broken = f"the reference of {self.exercise.id} fails its own property {prop.name!r}"
                raise RuntimeError(broken) from expected.error
            observed.setdefault(prop.name, []).append((call, expected, got))
        return observed

    def _of(self, answer: Answer, prop: Property) -> list[Outcome]:
        """What an answer of ours does on the calls of a property: observed once."""
        known = self._known.setdefault(answer, {})
        if prop.name not in known:
            known[prop.name] = [observe(answer, call, prop.with_gradients) for asked, call in self.asked if asked is prop]
        return known[prop.name]

    def _misconception(self, observed: Observed, findings: tuple[Finding, ...]) -> str | None:
        first = next(f.name for f in findings if f.status == "fails")
        if isinstance(observed[first][-1][2].error, TimedOut):
            return None
        held = {f.name for f in findings if f.status == "holds"}
        likely: list[tuple[int, Answer]] = []
        for wrong in self.exercise.wrong:
            found = self._compare(wrong, first, observed)
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

    def _compare(self, wrong: Answer, first: str, observed: Observed) -> tuple[set[str], set[str]] | None:
        """Name the properties on which a wrong answer does the same as the student's, and those that it fails.

        None where the two differ on the first failing property, or share no more at all than a kind of error.
        """
        shared, failed = set(), set()
        for prop in sorted(self.exercise.properties, key=lambda prop: prop.name != first):
            rows = observed.get(prop.name, ())
            outcomes = self._of(wrong, prop)[: len(rows)]
            if rows and all(is_same(one, got) for one, (_, _, got) in zip(outcomes, rows, strict=True)):
                shared.add(prop.name)
            elif prop.name == first:
                return None
            if len(observed) == 1 and rows and not _same_words(outcomes, rows):
                return None
            if any(prop.judge(expected, one) is not None for one, (_, expected, _) in zip(outcomes, rows, strict=True)):
                failed.add(prop.name)
        return shared, failed


def _findings(exercise: Exercise, observed: Observed, shown: Callable[[object], str]) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    held: set[str] = set()
    for prop in exercise.properties:
        if not held.issuperset(prop.needs) or prop.name not in observed:
            findings.append(Finding(prop.name, prop.law, "skipped", prop.points))
            continue
        failures = ((call, prop.judge(expected, got)) for call, expected, got in observed[prop.name])
        call, miss = next(((c, m) for c, m in failures if m is not None), (None, None))
        if miss is None:
            held.add(prop.name)
            findings.append(Finding(prop.name, prop.law, "holds", prop.points))
        else:
            example = _describe(exercise.reference, call, shown)
            findings.append(Finding(prop.name, prop.law, "fails", prop.points, miss.what, example, miss.numbers))
    return tuple(findings)


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


def _describe(reference: Answer, call: Call, shown: Callable[[object], str]) -> str:
    """Name the arguments of a call, each as `shown` writes it."""
    names = signature(reference).parameters
    return ", ".join(f"{name} {shown(value)}" for name, value in zip(names, call, strict=False))


def with_values(value: object) -> str:
    """Write an argument by its shape, and one of a few integers by its values."""
    tensors = list(tensors_in(value))
    if len(tensors) == 1 and not tensors[0].is_floating_point() and tensors[0].numel() <= 6:
        return f"= {tensors[0].tolist()}"
    return by_shape(value)


def by_shape(value: object) -> str:
    """Write an argument by its shape alone, a plain number, which is a size, as it is, and a function by its name."""
    return " and ".join(str(tuple(t.shape)) for t in tensors_in(value)) or f"= {getattr(value, '__name__', value)}"


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
    lines += [_line(f) for f in failed]
    return "\n".join(lines)


def _line(failed: Finding) -> str:
    example = f"Smallest input: {failed.example}." if failed.example else ""
    return " ".join(part for part in (f"✗ {failed.name}:", failed.law, failed.detail, failed.numbers, example) if part)
