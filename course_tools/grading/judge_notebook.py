"""Judge one notebook: each exercise runs in a separate process, and the verdict is reached outside of it.

This process holds the references, the seed and the verdict. It parses the student's text and compares the student's numbers; it
never imports, unpickles or runs the student's code.
"""

import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType

from course_tools.bank.variants import variant, variants, varied
from course_tools.checks import Exercise, Finding
from course_tools.checks.judge_answer import Examination, by_shape
from course_tools.checks.outcome import Outcome
from course_tools.checks.time_limit import LOOKED, SWITCHED_OFF, TimedOut
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import Notebook, handed_out
from course_tools.grading.files import shown
from course_tools.grading.marks import Mark, NotRun
from course_tools.grading.sandbox import session
from course_tools.grading.sandbox.allowed_names import allowed_packed
from course_tools.grading.sandbox.measured_isolation import Isolation, NotIsolated, measure_isolation
from course_tools.grading.sandbox.response_validation import without_values
from course_tools.grading.sandbox.sandbox import Sandbox, SandboxFailed
from course_tools.grading.sandbox.session import NeverLoaded, NoAnswer, NotFound, NotStarted, names_of

NOTEBOOK_ALLOWANCE = 15.0
"""Seconds for all answers of a notebook that do not end, together; answers that end do not count."""
SHORTEST = 2.0
"""Time limit of an answer, in seconds, once these are used up: five times the time of the slowest right answer of the bank."""
SHORTENED = "Its time limit was {:g} instead of {:g} seconds, because previous answers in the notebook did not end."
WHY_NOT_RUN = {
    "trains": "it trains a model, which the grader does only for build tasks",
    "handed out": "it belongs to the original notebook, of which only the imports, definitions and assignments that your code "
    "needs are run",
    "no Python": "this cell is not valid Python, so none of it was run",
    "stopped": "it did not end in time",
    "raised ": "it raised an error of a non-built-in type",
}
"""Why a statement did not run, in words for a student; for other errors, the type is named."""
MOST_NOT_RUN = 10
MOST_LOADS = 2
"""The cells of a notebook are loaded again for each exercise; after this many consecutive timeouts, no further one is tried."""
NO_FILES = "The machine that graded it cannot give answers files to write to. Ask your instructor to run it, or write no files."
NOT_STARTED = "The exercise is unchanged."
STILL_RAISES = "It still raises NotImplementedError: replace `raise NotImplementedError()` with your own code."
OTHER_LIMIT = re.compile(r"^It was still running after [\d.]+ seconds")
"""How the finding on an answer that did not end begins: with the limit of the check in a notebook."""


class Engine:
    """A context manager that starts the sandbox once, tests its isolation layers, and judges notebooks one after another.

    `level` states which layers are active.
    """

    def __init__(self, *, require_isolation: bool = False, seed: int = 0) -> None:
        """Set the seed of all inputs, and whether full isolation is required."""
        self.require_isolation, self.seed = require_isolation, seed
        self.level = Isolation({}, ())
        self._questions: dict[tuple[str, str | None], Examination] = {}
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> "Engine":
        """Start the sandbox and test its isolation layers.

        Raises:
            NotIsolated: full isolation is required but not available, or this system cannot fork (Windows).
            SandboxFailed: Python or torch does not start in the sandbox.
        """
        if sys.platform == "win32":
            raise NotIsolated("Windows cannot isolate a student's code. Install WSL (`wsl --install`) and grade there.")
        self._sandbox = Sandbox()
        try:
            self.level = measure_isolation(self._sandbox)
            if self.require_isolation and not self.level.full:
                raise NotIsolated(f"Isolation is required, but not available on this machine. {self.level}")
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
        """Return one mark for each exercise of the lecture, in order.

        Args:
            cells: the cells of the notebook.
            lecture: the number of the lecture.
            chosen: the student's variant of each exercise, by its id; the usual convention if there is none.

        Raises:
            SandboxFailed: the sandbox ended, and could not be started again.
        """
        notebook = Notebook(cells, lecture.zfill(2))
        return tuple(self.mark(notebook, exercise, chosen.get(exercise.id)) for exercise in notebook.exercises)

    def mark(self, notebook: Notebook, exercise: Exercise, name: str | None = None) -> Mark:
        """Return the mark of one exercise, judged in the variant of that name."""
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
        """Name the other variant in which an answer satisfies all properties; empty if there is none."""
        for other in (None, *(one.name for one in variants(exercise.id) if one.name != own)):
            try:
                passed = self._judged(notebook, exercise, other).passed
            except (NotStarted, NotFound, NoAnswer):
                passed = False
            if passed:
                which = "the usual convention, that of the published solution" if other is None else f"the variant {other!r}"
                return (f"this answers another variant: it is right in {which}; the student's variant is {own!r}",)
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
        flags += (f"calls {SWITCHED_OFF}, which hides the functions that are called",) * (SWITCHED_OFF in called)
        flags += tuple(f"calls {name}, which looks for the record" for name in sorted(called & LOOKED - {SWITCHED_OFF}))
        late = bool(outcomes) and isinstance(outcomes[-1].error, TimedOut)
        whole = _whole(exercise)
        shortened = SHORTENED.format(seconds, whole) if late and seconds < whole else ""
        try:
            verdict = self._asks(exercise, name).judge(outcomes, by_shape)
        except Exception as error:
            raise NoAnswer("The returned value cannot be compared.") from error
        findings = tuple(_for_student(finding, outcomes, stopped) for finding in verdict.findings) if verdict.started else ()
        status = "not started" if not verdict.started else "no answer" if stopped and not verdict.points else "judged"
        note = "" if name is None or verdict.passed else variant(exercise.id, name).note
        if self.level.status.get("scratch") and any(isinstance(outcome.error, OSError) for outcome in outcomes):
            note = f"{note} {NO_FILES}".strip()
        detail = {"judged": note, "not started": STILL_RAISES, "no answer": stopped}[status]
        points = verdict.points if status == "judged" else 0
        given = exercise.id, status, points, exercise.points, verdict.passed, verdict.misconception, findings, detail, flags
        return Mark(*given, shortened=shortened)

    def _observed(self, notebook: Notebook, exercise: Exercise, name: str | None) -> tuple[list[Outcome], str, float]:
        """The outcomes of an answer, why it was stopped, or "", and its time limit in seconds."""
        if notebook.n_never_loaded >= MOST_LOADS:
            raise NeverLoaded(f"Code outside functions did not finish in the previous {MOST_LOADS} exercises.")
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
        """The calls of an exercise in a variant: drawn after the first answer has been loaded, and kept outside the sandbox."""
        if (exercise.id, name) not in self._questions:
            asked = exercise if name is None else varied(exercise, variant(exercise.id, name))
            self._questions[exercise.id, name] = Examination(asked, self.seed)
        return self._questions[exercise.id, name]


def _not_run(found: Sequence[tuple[int, str, str]]) -> tuple[NotRun, ...]:
    """State why each statement did not run; errors are named by type, since their messages may contain anything."""
    named = [
        NotRun(cell, shown(line.strip(), 100), WHY_NOT_RUN.get(why) or f"it raised {why.removeprefix('raised ')}")
        for cell, line, why in found
        if why in WHY_NOT_RUN or why.startswith("raised ")
    ]
    return tuple(dict.fromkeys(named))[:MOST_NOT_RUN]


def _whole(exercise: Exercise) -> float:
    """The time limit of an answer, in seconds: twice that of the check in a notebook."""
    return session.CALL_LIMIT if exercise.training is None else 2 * exercise.training.seconds


def _seconds(exercise: Exercise, lost: float) -> float:
    """The time limit of an answer, in seconds, after `lost` seconds of answers that did not end; a build task keeps its own."""
    if not lost:
        return _whole(exercise)
    least = SHORTEST if exercise.training is None else exercise.training.seconds
    return max(least, min(NOTEBOOK_ALLOWANCE - lost, _whole(exercise)))


def _for_student(finding: Finding, outcomes: Sequence[Outcome], stopped: str) -> Finding:
    """A finding for the student: without values of the reference or of inputs, and with the time limit that applied here."""
    detail = finding.detail
    if outcomes and isinstance(outcomes[-1].error, TimedOut):
        detail = OTHER_LIMIT.sub(stopped.removesuffix("."), detail)
    for error in {id(outcome.error): outcome.error for outcome in outcomes}.values():
        detail = without_values(detail, error)
    return replace(finding, detail=detail, numbers="")


def _none(exercise: Exercise, status: str, detail: str) -> Mark:
    return Mark(exercise.id, status, 0, exercise.points, False, None, (), detail, (), 0.0)
