"""From outcomes to a verdict: which properties hold, how many points they earn, and which misconception the answer shows.

An answer is observed on the inputs of every property. If a property fails, those that need it are skipped. A misconception is
named only if a wrong answer of the bank has the same results, errors, changed arguments and gradients as the student's on every
input. A wrong answer is suspected if it agrees with the student's on the first failing property, fails no property that holds
for the student's, and gives the student's results on at least two of the properties that it fails, or on half of them. If
several qualify, the one that shares the most of them is shown, and none if there is a tie. Two errors are the same if they are
raised in the same operation of torch, on the same operands. One property on which the wrong answer only raises an error, and
which holds for the student's, is ignored; where results are drawn, it is enough that the property holds for both, or for
neither. A wrong answer that is only so far the same is named if it is the only one. Points follow severity: a right computation
in the wrong packaging loses the points for its shape, an answer that ignores most of its inputs earns none, and one with a
named mistake, even a crash, earns points within the limits of its severity. An error that beginners make in any exercise, such
as `k.T` of a batch, is named if no wrong answer of the bank has the same. See `common_crash`. An answer that raises an error on
some of the first inputs is judged on the inputs on which it runs: a property is lost if the answer raises on any of its inputs,
and all together earn no more than a mistake of that severity. One that raises an error on every input earns nothing, unless the
bank has it. Where nothing is named, what is true of the wrong result is said;
see `observation`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Literal, NamedTuple

from course_tools.checks.common_crash import KINDS, Crash
from course_tools.checks.comparisons import runs, same_shapes, same_values, unchanged, unchanged_and_new
from course_tools.checks.exercise import Answer, Exercise, Property, Severity, severity_of
from course_tools.checks.input_dependence import PerturbedCall, ignored_inputs, perturbed_calls
from course_tools.checks.observation import observation
from course_tools.checks.other_device import line_for_one_device
from course_tools.checks.outcome import Call, Outcome, copied, is_close, observe, tensors_in, watch
from course_tools.checks.packaging import repairs
from course_tools.checks.time_limit import LOOKED, SWITCHED_OFF, TimedOut, guarded
from course_tools.checks.training_record import Measured, RecordedLosses, measure

Observed = dict[str, list[tuple[Call, Outcome, Outcome]]]
"""For each property, by name: each call, and the outcomes of the reference and of the answer."""


@dataclass(frozen=True)
class Finding:
    """The result of one property. `detail` is what was expected and what was returned, `example` the first failing input.

    `numbers` shows values of the reference; a graded report omits them. A finding that "adjusts" is not a property: its points
    are added to those of the properties, or subtracted, according to the severity of a named mistake.
    """

    name: str
    law: str
    status: Literal["holds", "fails", "skipped", "adjusts"]
    points: int
    detail: str = ""
    example: str = ""
    numbers: str = ""

    @property
    def required(self) -> str:
        """The law of a property that fails, as a requirement; "" where the answer does not run at all."""
        return "" if self.name == "runs" else f"Required: {self.law}"

    @property
    def shown_points(self) -> str:
        """Points earned and available, such as "0/2"; "" if it is worth no points."""
        return f"{self.points if self.status == 'holds' else 0}/{self.points}" if self.points else ""


class FailingInput(NamedTuple):
    """An input on which an answer fails: the arguments, what the answer returned (or raised), and what was expected.

    `rebuilt` is code that draws the arguments again; "" for those of a variant.
    """

    property: str
    inputs: Call
    result: object
    expected: object
    rebuilt: str = ""

    def code(self) -> None:
        """Print three lines that draw the arguments again in any kernel with the course, to be pasted into a question."""
        print(self.rebuilt or "# These are the inputs of a variant: paste `inputs` itself.")


@dataclass(frozen=True)
class Verdict:
    """The judgement of one answer.

    `misconception` is None for a right answer and for a wrong one that is not in the bank; `suspected` is the misconception of
    a similar wrong answer in the bank. `message` is the text for the student, a few plain lines. `conclusion` is what the
    measurements of a right answer show, if its task states it. `printed` is what the answer printed, `failing` its first
    failing input, and `losses` those of the training of a build task: all three are only for the student's own notebook, and
    are empty if the answer was observed in another process.
    """

    passed: bool
    points: int
    max_points: int
    misconception: str | None
    message: str
    findings: tuple[Finding, ...] = ()
    started: bool = True
    suspected: str | None = None
    conclusion: str = ""
    printed: str = ""
    failing: FailingInput | None = field(default=None, compare=False, repr=False)
    losses: RecordedLosses | None = field(default=None, compare=False, repr=False)


def judge(exercise: Exercise, answer: object, seed: int = 0) -> Verdict:
    """Judge an answer to an exercise on the inputs that `seed` draws."""
    return Examination(exercise, seed).examine(answer)


class Examination:
    """The calls of an exercise for one seed, and the outcomes of the reference and of the wrong answers of the bank.

    An answer may be observed in another process. Many answers may be judged on the same calls.
    """

    def __init__(self, exercise: Exercise, seed: int) -> None:
        """Draw the calls of every property, smallest first, and those that show on which inputs an answer depends."""
        self.exercise, self.seed = exercise, seed
        self._known: dict[Answer, dict[str, list[Outcome]]] = {}
        self._begun: dict[tuple[Answer, str], list[Outcome]] = {}
        if exercise.training is not None:
            call, self._truth = exercise.questions(seed)
            self.asked, self.perturbed = [(exercise.properties[0], call)], []
            return
        with guarded():
            calls = {prop.name: sorted(exercise.calls(prop, seed), key=_size) for prop in exercise.properties}
            self.asked = [(prop, call) for prop in exercise.properties for call in calls[prop.name]]
            scored = [call for prop, call in self.asked if prop.points and not prop.counts_cost and not prop.long]
            self.perturbed: list[PerturbedCall] = perturbed_calls(exercise.reference, scored)

    @property
    def calls(self) -> list[tuple[Call, bool, bool]]:
        """The calls in order, and for each whether the answer must be differentiated, and whether its cost is counted."""
        asked = [(call, prop.with_gradients, prop.counts_cost) for prop, call in self.asked]
        return asked + [(call, False, False) for _, call in self.perturbed]

    @property
    def n_preliminary(self) -> int:
        """The number of preliminary calls; see `ends_early`."""
        return sum(not prop.needs for prop, _ in self.asked)

    @property
    def ask(self) -> Callable[..., object] | None:
        """How an answer is called if not directly: the training of a build task is measured."""
        return None if self.exercise.training is None else measure

    @property
    def seconds(self) -> float | None:
        """Limit of processor time for all calls together; None for the default limit."""
        return None if self.exercise.training is None else self.exercise.training.seconds

    def examine(self, answer: object) -> Verdict:
        """Observe an answer on the calls in this process, and judge it."""
        with guarded() as printed:
            outcomes = watch(answer, self.calls, self.n_preliminary, self.exercise.forbids, self.ask, self.seconds)
        verdict = self.judge(outcomes)
        with guarded():
            failing = self._failing(outcomes, verdict)
            advice = self._on_a_gpu(answer) if verdict.passed else ""
        verdict = replace(
            verdict, conclusion=f"{verdict.conclusion} {advice}".strip(), message=f"{verdict.message} {advice}".strip()
        )
        return replace(verdict, printed=printed.text, failing=failing, losses=self._losses(outcomes[0]))

    def judge(self, outcomes: Sequence[Outcome], shown: Callable[[object], str] | None = None) -> Verdict:
        """Judge the outcomes of an answer on all or the first of the calls; `shown` formats the arguments of an input."""
        exercise, shown = self.exercise, shown or with_values
        with guarded():
            observed = self._observed(outcomes)
            findings = _findings(exercise, observed, shown)
            forbidden = frozenset().union(*(got.called for got in outcomes))
            started = not outcomes[0].not_started
            passed = not forbidden and all(f.status == "holds" for f in findings)
            known = similar = crash = None
            if not passed and not forbidden and started:
                seen = _until_the_first_error(observed)
                known, similar = self._mistake(observed, findings)
                crashed = _crashed(seen["runs"][-1][2])
                crash = None if known is not None else self._common_crash(seen, findings, similar)
                similar = None if crash is not None else similar
                findings = _adjusted(self._by_severity(observed, findings, outcomes, shown), known, exercise.points, crashed)
                if crashed and known is None:
                    if exercise.training is None and all(got.results is None for rows in observed.values() for *_, got in rows):
                        findings = (
                            replace(findings[0], detail=f"{_sentence(findings[0].detail)} {ONLY_CRASHES}"),
                            *findings[1:],
                        )
                    severity = Severity.DETAIL if crash is None else Severity[KINDS[crash.kind].severity]
                    findings = _at_most(findings, severity, exercise.points)
                if crash is not None and exercise.training is None and _is_all_that_is_wrong(crash, findings, observed):
                    findings = _credited(findings, Severity[KINDS[crash.kind].severity], exercise.points)
                if known is None and crash is None and exercise.training is None:
                    findings = self._with_an_observation(observed, findings)
            conclusion = self._conclusion(observed) if passed else ""
        if forbidden:
            advice = [f"{f.__name__}: {text}" for f, text in exercise.forbids.items() if f.__name__ in forbidden]
            advice += [f"{SWITCHED_OFF}: it would hide which functions are called."] * (SWITCHED_OFF in forbidden)
            advice += [
                f"{name}: it looks for what is not given to it, such as the record of the training."
                for name in sorted(forbidden & LOOKED - {SWITCHED_OFF})
            ]
            law = "It is written by hand, as the exercise requires."
            findings += (Finding("by hand", law, "fails", 0, f"It calls {' '.join(dict.fromkeys(advice))}"),)
        points = 0 if forbidden else _earned(findings)
        misconception = _misconception_of(known) if crash is None else KINDS[crash.kind].text
        suspected = _misconception_of(similar)
        message = " ".join(filter(None, (_message(exercise, findings, points, misconception, suspected, started), conclusion)))
        return Verdict(passed, points, exercise.points, misconception, message, findings, started, suspected, conclusion)

    def _conclusion(self, observed: Observed) -> str:
        """What the measurements of a right answer show."""
        training = self.exercise.training
        if training is None or training.conclusion is None:
            return ""
        return training.conclusion(Measured(*observed["runs"][0][2].results), self._truth)

    def _on_a_gpu(self, answer: object) -> str:
        """Advice for a right answer that would fail where its inputs are on a GPU. It costs no points."""
        calls = [call for prop, call in self.asked if not prop.counts_cost and not prop.long]
        if self.exercise.training is not None or not (line := line_for_one_device(answer, calls)):
            return ""
        return f"With inputs on a GPU it would fail: `{line}` makes a tensor on the CPU. Pass it `device=` of an input."

    def _by_severity(
        self,
        observed: Observed,
        findings: tuple[Finding, ...],
        outcomes: Sequence[Outcome],
        shown: Callable[[object], str],
    ) -> tuple[Finding, ...]:
        """Award the points of a right computation in the wrong packaging, and none to an answer that ignores its inputs."""
        if self.exercise.training is not None:
            return _of_one_that_learned(findings, self.exercise)
        ignored = ignored_inputs(self.perturbed, outcomes[len(self.asked) :])
        if ignored:
            named = ", ".join(f"`{name}`" for name in ignored)
            unearned = tuple(replace(f, status="skipped") if f.status == "holds" else f for f in findings)
            detail = f"Its result does not depend on {named}. This earns no points."
            return (*unearned, Finding("inputs used", "The result depends on the inputs.", "fails", 0, detail))
        rows = [(name, call, expected, got) for name, seen in observed.items() for call, expected, got in seen]
        best, most, of = findings, _earned(findings), None
        for repair in repairs([(expected, got) for _, _, expected, got in rows]):
            repaired: Observed = {}
            for (name, call, expected, _), got in zip(rows, repair.outcomes, strict=True):
                repaired.setdefault(name, []).append((call, expected, got))
            found = _findings(self.exercise, repaired, shown, gradients=repair.keeps_gradients)
            shape = next((f for f in found if f.name == "shape"), None)
            if shape is None or shape.status != "holds" or _earned(found) - shape.points <= most:
                continue
            example = _describe(self.exercise.reference, rows[repair.pair][1], shown)
            slip = replace(shape, status="fails", detail=repair.slip, example=example)
            best, of = tuple(slip if f is shape else f for f in found), repair.outcomes[repair.pair]
            most = _earned(best)
        return best if of is None else _only_returned(best, of, self.exercise.points)

    def _failing(self, outcomes: Sequence[Outcome], verdict: Verdict) -> FailingInput | None:
        """The first input on which a property fails."""
        observed = self._observed(outcomes)
        for prop in self.exercise.properties if verdict.started and not verdict.passed else ():
            for i, (call, expected, got) in enumerate(observed.get(prop.name, ())):
                if prop.judge(expected, got) is not None:
                    result = got.error if got.error is not None else _as_returned(got)
                    return FailingInput(prop.name, copied(call), result, _as_returned(expected), self._rebuilt(prop, i))
        return None

    def _rebuilt(self, prop: Property, i: int) -> str:
        """The lines that draw the i-th call of a property again, smallest first, with the argument names of the reference."""
        id, training = self.exercise.id, self.exercise.training is not None
        if training:
            call, drawn, named = self.asked[0][1][0], f"call, _ = exercise({id!r}).questions(seed={self.seed})", "call[0]"
        else:
            calls = self.exercise.calls(prop, self.seed)
            place = sorted(range(len(calls)), key=lambda j: _size(calls[j]))[i]
            call, drawn = calls[place], f"calls = exercise({id!r}).calls({prop.name!r}, seed={self.seed})"
            named = f"calls[{place}]"
        names = list(signature(self.exercise.reference).parameters)[: len(call)]
        return f"from course_tools.bank import exercise\n{drawn}\n{', '.join(names)}{',' * (len(names) == 1)} = {named}"

    def _losses(self, got: Outcome) -> RecordedLosses | None:
        """The losses of a training that ended and returned a model."""
        if self.exercise.training is None or got.results is None:
            return None
        measured = Measured(*got.results)
        return RecordedLosses(tuple(measured.losses.tolist()), measured.n_updates, self._truth.get("across", {}))

    def _observed(self, outcomes: Sequence[Outcome]) -> Observed:
        if self.exercise.training is not None:
            rows = [(call, Outcome((self._truth,)), got) for (_, call), got in zip(self.asked, outcomes, strict=False)]
            return {prop.name: rows for prop in self.exercise.properties}
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
        """The outcomes of the reference, or of an answer of the bank, on the calls of a property; cached."""
        known = self._known.setdefault(answer, {})
        if prop.name not in known:
            calls = [call for asked, call in self.asked if asked is prop]
            begun = self._begun.pop((answer, prop.name), [])
            known[prop.name] = begun + [self._observe(answer, prop, call) for call in calls[len(begun) :]]
        return known[prop.name]

    def _observe(self, answer: Answer, prop: Property, call: Call) -> Outcome:
        outcome, names = observe(answer, call, prop.with_gradients, counted=prop.counts_cost), self.exercise.results
        return replace(outcome, names=names) if outcome.results is not None and len(names) == len(outcome.results) else outcome

    def _begins_as(self, wrong: Answer, prop: Property, rows: Sequence[tuple[Call, Outcome, Outcome]]) -> bool:
        """Whether a wrong answer does on the first call of a property what the student's did; if not, the others are spared."""
        if not rows or prop.name in self._known.get(wrong, {}):
            return True
        call, _, got = rows[0]
        begun = self._begun.setdefault((wrong, prop.name), [])
        if not begun:
            begun.append(self._observe(wrong, prop, call))
        return is_same(begun[0], got)

    def _mistake(self, observed: Observed, findings: tuple[Finding, ...]) -> tuple[Answer | None, Answer | None]:
        """The wrong answer of the bank that has this mistake, and the one that may have it; at least one is None."""
        first = next(f.name for f in findings if f.status == "fails")
        if any(isinstance(got.error, TimedOut) for *_, got in observed[first]):
            return None, None
        if self.exercise.training is not None:
            return (None, None) if first in ("runs", "model") else self._shown_by_measurements(observed[first][0][2])
        if first == "runs":
            return self._that_fails_alike(observed), None
        held = {f.name for f in findings if f.status == "holds"}
        similar: list[tuple[int, Answer]] = []
        nearly: list[Answer] = []
        for wrong in self.exercise.wrong:
            found = self._compare(wrong, first, observed)
            if found is None:
                continue
            shared, failed, excused, drawn = found
            if len(shared) + excused == len(observed):
                if not excused and not drawn:
                    return wrong, None
                nearly.append(wrong)
            n = len(shared & failed)
            if not held & failed and (n >= 2 or 2 * n >= len(failed)):
                similar.append((n, wrong))
        if len(nearly) == 1:
            return nearly[0], None
        most = max((n for n, _ in similar), default=0)
        best = [wrong for n, wrong in similar if n == most]
        return None, best[0] if len(best) == 1 else None

    def _that_fails_alike(self, observed: Observed) -> Answer | None:
        """The wrong answer of the bank that does the same until it gives no result, and most of what the student's does then.

        Both must raise on most of the inputs on which one of them raises, and agree in what is right on most of the others. One
        that does the same on all inputs comes first.
        """
        seen, found = _until_the_first_error(observed), []
        for wrong in self.exercise.wrong:
            if self._compare(wrong, "runs", seen) is None:
                continue
            alike: dict[bool, list[bool]] = {True: [], False: []}
            same = True
            for prop in self.exercise.properties:
                for one, (_, expected, got) in zip(self._of(wrong, prop), observed.get(prop.name, ()), strict=False):
                    same = same and is_same(one, got)
                    ran = one.results is not None, got.results is not None
                    held = prop.judge(expected, one) is None, prop.judge(expected, got) is None
                    alike[all(ran)].append(held[0] == held[1] if all(ran) else not any(ran))
            if all(2 * sum(rows) >= len(rows) for rows in alike.values()):
                found.append((not same, wrong))
        return min(found, key=lambda one: one[0], default=(True, None))[1]

    def _common_crash(self, observed: Observed, findings: tuple[Finding, ...], similar: Answer | None) -> Crash | None:
        """The common error that makes every failing input fail; None if a similar answer of the bank says more."""
        judges = {prop.name: prop.judge for prop in self.exercise.properties}
        failed = [(judges[f.name], *row) for f in findings if f.status == "fails" for row in observed.get(f.name, ())]
        missed = [(judged, got) for judged, _, expected, got in failed if judged(expected, got) is not None]
        # what changes its inputs also fails with gradients
        crashes = [got.crash for judged, got in missed if judged not in (unchanged, unchanged_and_new) or got.error is not None]
        first = crashes[0] if crashes else None
        if first is None or not first.kind or (similar is not None and findings[0].status == "holds"):
            return None
        alike = all(crash is not None and crash.kind == first.kind for crash in crashes)
        return first if alike and (len(crashes) == len(missed) or first.kind == "in place") else None

    def _with_an_observation(self, observed: Observed, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Say of the first failing property of which something simple is true how the result differs from the right one."""
        judges = {prop.name: prop.judge for prop in self.exercise.properties if not prop.counts_cost and not prop.drawn}
        for i, found in enumerate(findings):
            if found.status != "fails" or found.name not in judges or found.name == "runs":
                continue
            judged = judges[found.name]
            says, number = observation([(e, got) for _, e, got in observed[found.name] if judged(e, got) is not None])
            if says:
                detail = f"{_sentence(found.detail)} {says}".strip()
                numbers = f"{found.numbers} {number}".strip()
                return (*findings[:i], replace(found, detail=detail, numbers=numbers), *findings[i + 1 :])
        return findings

    def _shown_by_measurements(self, got: Outcome) -> tuple[Answer | None, Answer | None]:
        """The mistake that the measurements of a training prove, and the one that they make likely; at least one is None."""
        if got.results is None:
            return None, None
        measured = Measured(*got.results)

        def first(kind: str) -> Answer | None:
            marked = (wrong for wrong in self.exercise.wrong if hasattr(wrong, kind))
            return next((wrong for wrong in marked if getattr(wrong, kind)(measured, self._truth)), None)

        proven = first("proof")
        return (proven, None) if proven is not None else (None, first("suspicion"))

    def _compare(self, wrong: Answer, first: str, observed: Observed) -> tuple[set[str], set[str], int, bool] | None:
        """Name the properties on which a wrong answer agrees with the student's, and those that it fails.

        The third result is 1 if there is another one on which it only raises an error and the student's is right; the fourth is
        True if they agree on one only in whether it holds, since its results are drawn. None if the two differ on the first
        failing property, or have nothing in common except the type of an error.
        """
        shared, failed, excused, drawn = set(), set(), 0, False
        for prop in sorted(self.exercise.properties, key=lambda prop: prop.name != first):
            rows = observed.get(prop.name, ())
            if prop.name == first and not self._begins_as(wrong, prop, rows):
                return None
            outcomes = self._of(wrong, prop)[: len(rows)]
            missed = [prop.judge(expected, one) is not None for one, (_, expected, _) in zip(outcomes, rows, strict=True)]
            alike = all(is_same(one, got) for one, (_, _, got) in zip(outcomes, rows, strict=True))
            if prop.counts_cost or prop.drawn or prop.judge is unchanged_and_new:  # more than results is judged, or less
                as_judged = missed == [prop.judge(expected, got) is not None for _, expected, got in rows]
                drawn = drawn or (prop.drawn and as_judged and not alike)
                alike = as_judged and (alike or (prop.drawn and prop.name != first))
            if rows and alike:
                shared.add(prop.name)
            elif prop.name == first:
                return None
            elif rows and not excused and _raises_where_the_other_is_right(prop, outcomes, rows):
                excused = 1
                continue
            if any(missed):
                failed.add(prop.name)
        return shared, failed, excused, drawn


def _raises_where_the_other_is_right(
    prop: Property, outcomes: Sequence[Outcome], rows: Sequence[tuple[Call, Outcome, Outcome]]
) -> bool:
    """Whether an answer is right on a property and a wrong one of the bank fails it only by an error, as on an empty input.

    Such an error is seldom the mistake that gives the wrong answer its name.
    """
    right = all(prop.judge(expected, got) is None for _, expected, got in rows)
    return right and all(one.error is not None or is_same(one, got) for one, (_, _, got) in zip(outcomes, rows, strict=True))


def _findings(
    exercise: Exercise, observed: Observed, shown: Callable[[object], str], gradients: bool = True
) -> tuple[Finding, ...]:
    """Judge every property. One of an answer that raises on some of the first inputs is judged where it runs.

    There, a property is lost by an error alone, of which the answer is told once, and those that need it are judged. Nothing
    is earned for the form of results none of which is right.
    """
    findings: list[Finding] = []
    held: set[str] = set()
    somewhere = any(got.results is None for *_, got in observed["runs"])
    for prop in exercise.properties:
        if not held.issuperset(prop.needs) or prop.name not in observed or (prop.with_gradients and not gradients):
            findings.append(Finding(prop.name, prop.law, "skipped", prop.points))
            continue
        rows = observed[prop.name]
        if somewhere and prop.needs:
            rows = [row for row in rows if not row[2].crashed]
        failures = ((call, prop.judge(expected, got)) for call, expected, got in rows)
        call, miss = next(((c, m) for c, m in failures if m is not None), (None, None))
        if miss is None or not miss.stops or (not prop.needs and exercise.training is None):
            held.add(prop.name)
        if miss is None:
            status = "holds" if len(rows) == len(observed[prop.name]) else "skipped"
            fails_later = prop.judge is runs and any(got.crashed for seen in observed.values() for *_, got in seen)
            findings.append(Finding(prop.name, RUNS_AT_FIRST if fails_later else prop.law, status, prop.points))
        else:
            crashed = any(got.crashed for one, _, got in rows if one is call)
            example = "" if exercise.training else _describe(exercise.reference, call, shown, in_letters=crashed)
            wrong = prop.counts_cost and any(same_values(expected, got) for one, expected, got in rows if one is call)
            law = COST_NOT_JUDGED if wrong else prop.law
            findings.append(Finding(prop.name, law, "fails", prop.points, miss.what, example, miss.numbers))
    right = {prop.name for prop in exercise.properties if prop.judge not in (runs, same_shapes, unchanged, unchanged_and_new)}
    if somewhere and not any(f.status == "holds" and f.name in right for f in findings):
        return tuple(replace(f, status="skipped") if f.status == "holds" else f for f in findings)
    return tuple(findings)


def _until_the_first_error(observed: Observed) -> Observed:
    """What was observed of an answer until it gave no result on a first input: so two are compared that crash alike."""
    rows = observed["runs"]
    n = next((i for i, (*_, got) in enumerate(rows, start=1) if got.results is None), None)
    return observed if n is None else {"runs": rows[:n]}


def _earned(findings: Sequence[Finding]) -> int:
    return sum(f.points for f in findings if f.status in ("holds", "adjusts"))


def _only_returned(findings: tuple[Finding, ...], repaired: Outcome, points: int) -> tuple[Finding, ...]:
    """Limit the points of an answer to the share of the results that it returns: one of two earns at most half.

    A missing result was filled in from the reference, so that laws of the others could be judged.
    """
    wanted = {i for i, result in enumerate(repaired.results) if result is not None}
    n, returned, earned = len(wanted), len(wanted - repaired.missing), _earned(findings)
    most = points * returned // n
    says = f"{returned} of {n} results earns at most {_points(most)}."
    return (*findings, Finding("results", says, "adjusts", most - earned)) if most < earned else findings


def _of_one_that_learned(findings: tuple[Finding, ...], exercise: Exercise) -> tuple[Finding, ...]:
    """Limit the points of a build task whose model has not learned: what its structure is worth, it shows by learning."""
    earned, most = _earned(findings), exercise.points // 3
    if earned <= most or not any(f.name == exercise.training.learned and f.status == "fails" for f in findings):
        return findings
    says = (
        f"{_points(most)}, because the model has not learned (at most a third). "
        "If the model is right, try other learning rates, and look at one batch and its targets."
    )
    return (*findings, Finding("learned", says, "adjusts", most - earned))


def _adjusted(findings: tuple[Finding, ...], known: Answer | None, most: int, crashed: bool) -> tuple[Finding, ...]:
    """Adjust the points of an answer with a named mistake to the limits of its severity.

    One that crashes on every input earns the minimum, since what comes after the crash was not seen. An answer that ignores
    its inputs, returns nothing or raises an error of its own is not adjusted.
    """
    severity = None if known is None else severity_of(known)
    running = findings[0].status == "holds"
    if severity is None or not (running or crashed) or any(f.name == "inputs used" for f in findings):
        return findings
    earned = _earned(findings)
    low, high = severity.limits(most)
    change = min(max(earned, low), high if running else low) - earned
    return _with_change(findings, severity, earned, change)


def _is_all_that_is_wrong(crash: Crash, findings: tuple[Finding, ...], observed: Observed) -> bool:
    """Whether nothing but a common error is seen of an answer, and more than a quarter of the points is earned despite it."""
    if findings[0].status == "holds":
        return True
    raised = [got.crash for rows in observed.values() for *_, got in rows if got.crashed]
    alike = all(one is not None and one.kind == crash.kind for one in raised)
    points = sum(f.points for f in findings if f.status != "adjusts")
    return alike and all(f.status != "fails" for f in findings[1:]) and 4 * _earned(findings) > points


def _credited(findings: tuple[Finding, ...], severity: Severity, most: int) -> tuple[Finding, ...]:
    """Raise the points of an answer whose one mistake is a common error to the minimum of its severity."""
    if any(f.status == "adjusts" or f.name == "inputs used" for f in findings):
        return findings
    earned = _earned(findings)
    return _with_change(findings, severity, earned, max(0, severity.limits(most)[0] - earned))


def _at_most(findings: tuple[Finding, ...], severity: Severity, most: int) -> tuple[Finding, ...]:
    """Lower the points of an answer that raises an error on some of the first inputs to the maximum of its severity."""
    earned, high = _earned(findings), severity.limits(most)[1]
    says = f"It raises an error on some inputs: this earns at most {_points(high)}."
    return (*findings, Finding("severity", says, "adjusts", high - earned)) if earned > high else findings


def _with_change(findings: tuple[Finding, ...], severity: Severity, earned: int, change: int) -> tuple[Finding, ...]:
    """Adjust the points, and say why; this takes the place of the limit of a model that has not learned."""
    if not change:
        return findings
    says = f"{_points(earned + change)}, because {severity.law}."
    others = tuple(f for f in findings if f.name != "learned" or f.status != "adjusts")
    return (*others, Finding("severity", says, "adjusts", earned + change - _earned(others)))


def _points(n: int) -> str:
    return f"{n} point{'s' * (n != 1)}"


def _crashed(got: Outcome) -> bool:
    """Whether a line of the answer raised an error, other than by `raise`."""
    return got.error is not None and got.where != "" and not got.where.startswith("raise")


def _as_returned(outcome: Outcome) -> object:
    """The results of an outcome as a function returns them: a single one directly, several as a tuple."""
    results = outcome.results
    return results[0] if results is not None and len(results) == 1 else results


def is_same(one: Outcome, other: Outcome) -> bool:
    """Return whether two outcomes are the same: results and gradients up to rounding, error, and changed arguments."""
    if not _is_same_error(one, other) or one.changed != other.changed:
        return False
    return _all_close(one.results, other.results) and _all_close(one.gradients, other.gradients)


def _is_same_error(one: Outcome, other: Outcome) -> bool:
    """Whether both raised nothing, or an error of the same type in the same operation on the same operands.

    Where no operation of torch is to be seen, the words of both errors must agree.
    """
    if type(one.error) is not type(other.error) or (one.failed is None) != (other.failed is None):
        return False
    same_words = _words(one.error) == _words(other.error)
    return same_words if one.failed is None else one.failed.is_same(other.failed, same_words)


def _words(error: BaseException | None) -> str:
    """The message of an error, without the letter of an axis of `einsum`, which is free.

    Of a set in it, as einops writes, the order changes from process to process: {'h', 'd'}.
    """
    text = re.sub(r"(?<=einsum\(\): subscript) \w+", "", str(error))
    return re.sub(r"\{([^{}:]+)\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", text)


def _all_close(one: tuple[object, ...] | None, other: tuple[object, ...] | None) -> bool:
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(map(is_close, one, other))


def _misconception_of(wrong: Answer | None) -> str | None:
    return None if wrong is None else " ".join((wrong.__doc__ or "").split())


def _size(call: Call) -> int:
    return sum(t.numel() for t in tensors_in(call))


def _describe(reference: Answer, call: Call, shown: Callable[[object], str], in_letters: bool = False) -> str:
    """Write the arguments of a call by name, each formatted by `shown`, and those left out that are None.

    With `in_letters`, the axes of a tensor are also named as in the signature: x (3, 5) = (*batch, d).
    """
    parameters = signature(reference).parameters
    letters = [_letters(one.annotation) if in_letters else "" for one in parameters.values()]
    given = [
        f"{name} {shown(value)}{axes}" for (name, axes), value in zip(zip(parameters, letters, strict=True), call, strict=False)
    ]
    left = [f"{name} = None" for name in list(parameters)[len(call) :] if parameters[name].default is None]
    return ", ".join(given + left)


def _letters(annotation: object) -> str:
    """The names of the axes in an annotation of jaxtyping, as in " = (*batch, d)"; "" if it has none."""
    axes = str(getattr(annotation, "dim_str", "")).replace("#", "").split()
    return f" = ({', '.join(axes)}{',' * (len(axes) == 1)})" if axes and "..." not in axes else ""


def with_values(value: object) -> str:
    """Write an argument as its shape; a tensor of at most six integers, and of so many rows, as its values."""
    tensors = list(tensors_in(value))
    if len(tensors) == 1 and not tensors[0].is_floating_point() and max(tensors[0].numel(), *tensors[0].shape, 0) <= 6:
        return f"= {tensors[0].tolist()}"
    return by_shape(value)


def by_shape(value: object) -> str:
    """Write an argument as its shape, a plain number, which is a size, as it is, and a function as its name."""
    return " and ".join(str(tuple(t.shape)) for t in tensors_in(value)) or f"= {getattr(value, '__name__', value)}"


def _message(
    exercise: Exercise,
    findings: tuple[Finding, ...],
    points: int,
    misconception: str | None,
    suspected: str | None,
    started: bool,
) -> str:
    head = f"{exercise.id} {exercise.title}: {points} of {exercise.points} points"
    if not started:
        return f"{head}. Not started yet: replace `raise NotImplementedError()` with your own code."
    failed = [f for f in findings if f.status == "fails"]
    if not failed:
        return f"{head}. Right."
    lines = [f"{head}."]
    if misconception:
        lines.append(misconception)
    if suspected:
        lines.append(f"{PERHAPS} {suspected}")
    lines += [_line(f) for f in failed]
    lines += [f.law for f in findings if f.status == "adjusts"]
    return "\n".join(lines)


PERHAPS = "Perhaps:"
COST_NOT_JUDGED = "The result is right on this input too; its cost is not judged before."
RUNS_AT_FIRST = "On the first input it runs and returns a result."
ONLY_CRASHES = "It raises an error on every input: what comes after this line was not seen, and earns nothing yet."


def _line(failed: Finding) -> str:
    example = f"Failing input: {failed.example}." if failed.example else ""
    return " ".join(
        part for part in (f"✗ {failed.name}:", failed.required, _sentence(failed.detail), failed.numbers, example) if part
    )


def _sentence(text: str) -> str:
    """End a text, such as the message of an error, with a full stop if it has no final punctuation."""
    return f"{text}." if text and text[-1] not in ".?!…" else text
