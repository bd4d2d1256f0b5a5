"""Judges one notebook: every exercise in a process of its own, the verdict outside of it.

This process holds the references, the seed and the verdict. It parses a student's text and compares a student's numbers; it
never imports, unpickles or runs anything of the student's.
"""

import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType

from course_tools.bank.variants import variant, variants, varied
from course_tools.checks import Exercise, Finding
from course_tools.checks.outcome import Outcome
from course_tools.checks.time_limit import SWITCHED_OFF, TimedOut
from course_tools.checks.verdict import Examination, by_shape
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import Notebook, handed_out
from course_tools.grading.files import shown
from course_tools.grading.marks import Mark, NotRun
from course_tools.grading.sandbox import session
from course_tools.grading.sandbox.allowed_names import allowed_packed
from course_tools.grading.sandbox.isolation import Isolation, NotIsolated, measure_isolation
from course_tools.grading.sandbox.response_validation import without_values
from course_tools.grading.sandbox.sandbox import Sandbox, SandboxFailed
from course_tools.grading.sandbox.session import NeverLoaded, NoAnswer, NotFound, NotStarted, names_of

NOTEBOOK_ALLOWANCE = 15.0
"""Seconds for all answers of a notebook together that do not end; an answer that ends takes nothing of it."""
SHORTEST = 2.0
"""Seconds that an answer has when these are used up: five times what the slowest right answer of the bank takes."""
SHORTENED = "It had {:g} of the usual {:g} seconds, since answers before it in the notebook did not end."
WHY_NOT_RUN = {
    "trains": "it trains a model, and the grader trains only for build tasks",
    "handed out": "it was handed out, and of such cells only imports, definitions and assignments run that your code needs",
    "no Python": "it is not valid Python, so nothing of this cell ran",
    "stopped": "it did not end in time",
    "raised ": "it raised an error of its own kind",
}
"""Why a statement did not run, in words for a student; for other errors the type is named."""
MOST_NOT_RUN = 10
MOST_LOADS = 2
"""The cells of a notebook are loaded anew for each exercise; where so many in a row did not end, no other is tried."""
NOT_STARTED = "The exercise is as it was handed out."
OTHER_LIMIT = re.compile(r"^It was still running after [\d.]+ seconds")
"""What a finding says of an answer that did not end: the limit of the check in a notebook."""


class Engine:
    """A context manager that starts the sandbox once, tries its isolation layers, and judges notebooks one after the other.

    `level` says which layers are active.
    """

    def __init__(self, *, require_isolation: bool = False, seed: int = 0) -> None:
        """Take the seed of all inputs, and whether to refuse to work without full isolation."""
        self.require_isolation, self.seed = require_isolation, seed
        self.level = Isolation({}, ())
        self._questions: dict[tuple[str, str | None], Examination] = {}
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> "Engine":
        """Start the sandbox and try its isolation layers.

        Raises:
            NotIsolated: full isolation is required and not reached, or this system cannot fork (Windows).
            SandboxFailed: Python or torch does not start in it.
        """
        if sys.platform == "win32":
            raise NotIsolated("Windows has no way to shut a student's code in. Install WSL (`wsl --install`) and grade there.")
        self._sandbox = Sandbox()
        try:
            self.level = measure_isolation(self._sandbox)
            if self.require_isolation and not self.level.full:
                raise NotIsolated(f"Isolation is required, and this machine does not give it. {self.level}")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """End every process that was started."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def grade(self, cells: Sequence[Cell], lecture: str, chosen: Mapping[str, str] = {}) -> tuple[Mark, ...]:
        """Give one mark for each exercise of the lecture, in order.

        Args:
            cells: of the notebook.
            lecture: its number.
            chosen: the student's variant of each exercise, by its id; the usual convention where there is none.

        Raises:
            SandboxFailed: the sandbox ended, and could not be started again.
        """
        notebook = Notebook(cells, lecture.zfill(2))
        return tuple(self.mark(notebook, exercise, chosen.get(exercise.id)) for exercise in notebook.exercises)

    def mark(self, notebook: Notebook, exercise: Exercise, name: str | None = None) -> Mark:
        """Give the mark of one exercise, judged in the variant of that name."""
        start = time.monotonic()
        try:
            mark = self._judged(notebook, exercise, name)
            if name is not None and mark.status == "judged" and not mark.passed:
                mark = replace(mark, flags=(*mark.flags, *self._answers_another(notebook, exercise, name)))
        except NotStarted:
            mark = _none(exercise, "not started", NOT_STARTED)
        except NotFound as error:
            mark = _none(exercise, "not found", str(error))
        except NoAnswer as error:
            mark = _none(exercise, "no answer", str(error))
        if mark.status != "not started" and not mark.passed:
            mark = replace(mark, not_run=_not_run(notebook.not_run.get(exercise.id, [])))
        return replace(mark, seconds=time.monotonic() - start)

    def _answers_another(self, notebook: Notebook, exercise: Exercise, own: str) -> tuple[str, ...]:
        """Say in which other variant an answer is right in all properties; nothing where it is right in none."""
        for other in (None, *(one.name for one in variants(exercise.id) if one.name != own)):
            try:
                passed = self._judged(notebook, exercise, other).passed
            except (NotStarted, NotFound, NoAnswer):
                passed = False
            if passed:
                which = "the usual convention, that of the published solution" if other is None else f"the variant {other!r}"
                return (f"this answers another variant: it is right in {which}; the student's own variant is {own!r}",)
        return ()

    def _judged(self, notebook: Notebook, exercise: Exercise, name: str | None) -> Mark:
        try:
            outcomes, stopped, seconds = self._observed(notebook, exercise, name)
        except SandboxFailed:
            self._sandbox.close()
            self._sandbox = Sandbox()
            try:
                outcomes, stopped, seconds = self._observed(notebook, exercise, name)
            except SandboxFailed:
                raise NoAnswer("Its code ended the sandbox twice.") from None
        called = frozenset().union(*(outcome.called for outcome in outcomes))
        flags = tuple(f"calls {f.__name__}" for f in exercise.forbids if f.__name__ in called)
        flags += (f"calls {SWITCHED_OFF}, which hides what is called",) * (SWITCHED_OFF in called)
        late = bool(outcomes) and isinstance(outcomes[-1].error, TimedOut)
        whole = _whole(exercise)
        shortened = SHORTENED.format(seconds, whole) if late and seconds < whole else ""
        try:
            verdict = self._asks(exercise, name).judge(outcomes, by_shape)
        except Exception as error:
            raise NoAnswer("What came back cannot be compared.") from error
        findings = tuple(_for_student(finding, outcomes, stopped) for finding in verdict.findings) if verdict.started else ()
        status = "not started" if not verdict.started else "no answer" if stopped and not verdict.points else "judged"
        note = "" if name is None or verdict.passed else variant(exercise.id, name).note
        detail = {"judged": note, "not started": NOT_STARTED, "no answer": stopped}[status]
        points = verdict.points if status == "judged" else 0
        given = exercise.id, status, points, exercise.points, verdict.passed, verdict.misconception, findings, detail, flags
        return Mark(*given, shortened=shortened)

    def _observed(self, notebook: Notebook, exercise: Exercise, name: str | None) -> tuple[list[Outcome], str, float]:
        """What an answer did, why it was stopped, or "", and how many seconds it had."""
        if notebook.n_never_loaded >= MOST_LOADS:
            raise NeverLoaded(f"What stands outside of functions did not end in the {MOST_LOADS} exercises before it.")
        program = notebook.program(exercise)
        self._sandbox.learn(cell.source for cell in handed_out(exercise.lecture))
        with self._sandbox.fork() as worker:
            trains = exercise.training is not None
            forbids = names_of(exercise.forbids)
            try:
                late = worker.load(program, allowed_packed(exercise.id), forbids, self.level.layers, trains)
                notebook.late.update(late)
            except NeverLoaded:
                notebook.n_never_loaded += 1
                raise
            finally:
                notebook.note(program, worker.chosen, worker.needed, worker.raised)
            notebook.n_never_loaded = 0
            seconds = _seconds(exercise, notebook.seconds_lost)
            outcomes, stopped = worker.observe(self._asks(exercise, name), program.text, seconds)
        if outcomes and isinstance(outcomes[-1].error, TimedOut):
            notebook.seconds_lost += seconds
        return outcomes, stopped, seconds

    def _asks(self, exercise: Exercise, name: str | None) -> Examination:
        """The questions of an exercise in a variant: drawn when the first answer has been loaded, and kept outside."""
        if (exercise.id, name) not in self._questions:
            asked = exercise if name is None else varied(exercise, variant(exercise.id, name))
            self._questions[exercise.id, name] = Examination(asked, self.seed)
        return self._questions[exercise.id, name]


def _not_run(found: Sequence[tuple[int, str, str]]) -> tuple[NotRun, ...]:
    """Say for each statement that did not run why; errors are named by their type, since their words may hold anything."""
    named = [
        NotRun(cell, shown(line.strip(), 100), WHY_NOT_RUN.get(why) or f"it raised {why.removeprefix('raised ')}")
        for cell, line, why in found
        if why in WHY_NOT_RUN or why.startswith("raised ")
    ]
    return tuple(dict.fromkeys(named))[:MOST_NOT_RUN]


def _whole(exercise: Exercise) -> float:
    """The seconds that an answer has: twice what the check in a notebook allows."""
    return session.CALL_LIMIT if exercise.training is None else 2 * exercise.training.seconds


def _seconds(exercise: Exercise, lost: float) -> float:
    """The seconds that an answer has where those before it that did not end had `lost`; a build task at least its own."""
    if not lost:
        return _whole(exercise)
    least = SHORTEST if exercise.training is None else exercise.training.seconds
    return max(least, min(NOTEBOOK_ALLOWANCE - lost, _whole(exercise)))


def _for_student(finding: Finding, outcomes: Sequence[Outcome], stopped: str) -> Finding:
    """A finding as a student may read it: no value of the reference, none of an input, and the limit that held here."""
    detail = finding.detail
    if outcomes and isinstance(outcomes[-1].error, TimedOut):
        detail = OTHER_LIMIT.sub(stopped.removesuffix("."), detail)
    for error in {id(outcome.error): outcome.error for outcome in outcomes}.values():
        detail = without_values(detail, error)
    return replace(finding, detail=detail, numbers="")


def _none(exercise: Exercise, status: str, detail: str) -> Mark:
    return Mark(exercise.id, status, 0, exercise.points, False, None, (), detail, (), 0.0)
