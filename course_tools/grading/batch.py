"""Many notebooks, several at a time: each process has an engine of its own, and what is done is in the journal.

The processes read nothing but the bytes they are sent, and the journal and the results are written here alone. A process that
dies is replaced and its notebook tried once more; nothing that happens over one notebook touches another.
"""

import contextlib
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from course_tools.grading.extract.notebook_reader import Cell, Unreadable, cells_in
from course_tools.grading.files import CannotGrade, reason, shown
from course_tools.grading.intake.archive import Refused
from course_tools.grading.intake.recognise import Course
from course_tools.grading.intake.submissions import Submission
from course_tools.grading.journal import Journal, key, stamp
from course_tools.grading.marks import Mark
from course_tools.grading.notebook_result import Graded, NotebookResult
from course_tools.grading.report.flags import shapes
from course_tools.grading.sandbox.sandbox import START_LIMIT

_TRIES = 2
NOTEBOOK_LIMIT = 240.0
"""Seconds for the whole of one notebook, reading and parsing included; then its process is killed."""


@runtime_checkable
class Judge(Protocol):
    """What of an engine is used here."""

    level: object

    def grade(self, cells: Sequence[Cell], lecture: str) -> tuple[Mark, ...]:
        """Give one mark for each exercise of the lecture, in order."""


@dataclass(frozen=True)
class GradingOptions:
    """How a batch is graded: by which engine, against which course, as which lecture, in how many processes.

    The seed draws the inputs of the checks; None leaves it to the pipeline. `engine` must be a function or class that can be
    pickled, as it is called in each process.
    """

    engine: Callable[..., AbstractContextManager[Judge]]
    root: Path
    lecture: str | None = None
    jobs: int = 1
    seed: int | None = 0
    require_isolation: bool = False


class _Task(NamedTuple):
    place: int
    key: str
    data: bytes
    file_name: str
    tries: int = 1


def grade_all(
    submissions: Sequence[Submission], journal: Journal, options: GradingOptions, advance: Callable[[], None] = lambda: None
) -> list[Graded]:
    """Grade what the journal does not hold yet.

    Args:
        submissions: the notebooks.
        journal: where each result is noted at once.
        options: how.
        advance: called for each notebook that is done.

    Returns:
        the notebooks in the order given, each with its result or the reason why it has none.

    Raises:
        CannotGrade: no engine could be started, or the journal could not be written.
    """
    done: dict[int, Graded] = {}

    def settle(place: int, result: NotebookResult | None, failure: str = "") -> None:
        done[place] = Graded(submissions[place], result, failure)
        advance()

    with ExitStack() as stack:
        queue = _Queue(submissions, journal, options, settle)
        workers: dict[Connection, _GradingProcess] = {}
        while True:
            while len(workers) < options.jobs and (task := queue.next()) is not None:
                worker = stack.enter_context(_GradingProcess(options, task))
                workers[worker.line] = worker
            if not workers:
                return [done[place] for place in range(len(submissions))]
            soonest = min(worker.deadline for worker in workers.values())
            ready = wait(list(workers), max(0.0, soonest - time.monotonic()))
            late = [line for line, worker in workers.items() if line not in ready and worker.deadline <= time.monotonic()]
            for line in [*ready, *late]:
                worker = workers[line]
                if line in ready and not worker.has_started():
                    continue
                task, (result, failure) = worker.task, worker.kill() if line in late else worker.answer()
                if result is not None:
                    journal.add(task.key, result)
                if result is not None or task.tries == _TRIES or line in late:
                    settle(task.place, result, failure)
                else:
                    queue.again(task)
                following = queue.next() if result is not None else None
                if following is not None:
                    worker.give(following)
                else:
                    workers.pop(line).close()


class _Queue:
    """The notebooks that are still to be graded; each is read when its turn comes, so that few are in memory."""

    def __init__(
        self, submissions: Sequence[Submission], journal: Journal, options: GradingOptions, settle: Callable[..., None]
    ) -> None:
        self._submissions, self._journal, self._options, self._settle = submissions, journal, options, settle
        self._places: Iterable[int] = iter(range(len(submissions)))
        self._again: deque[_Task] = deque()
        self._stamp = stamp(options.seed, options.root)

    def again(self, task: _Task) -> None:
        self._again.append(task._replace(tries=task.tries + 1))

    def next(self) -> _Task | None:
        if self._again:
            return self._again.popleft()
        for place in self._places:
            submission = self._submissions[place]
            try:
                data = submission.read()
            except Refused as error:
                self._settle(place, NotebookResult(None, note=f"The file {error}"))
                continue
            except OSError as error:
                self._settle(place, None, f"cannot be read: {reason(error)}")
                continue
            asked = (submission.file_name, self._options.lecture, str(self._options.require_isolation))
            name = key(data, self._stamp, *asked)
            if (result := self._journal.get(name)) is not None:
                self._settle(place, result)
                continue
            return _Task(place, name, data, submission.file_name)
        return None


class _GradingProcess:
    """A process with an engine and a task, seen from here. After a failure it is not used again: its engine may be at fault."""

    def __init__(self, options: GradingOptions, task: _Task) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, options), daemon=True)
        self._process.start()
        other.close()
        self._begun = False
        self.give(task)

    def __enter__(self) -> "_GradingProcess":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def give(self, task: _Task) -> None:
        self.task: _Task | None = task
        self.deadline = time.monotonic() + NOTEBOOK_LIMIT + (0.0 if self._begun else START_LIMIT)
        with contextlib.suppress(OSError):  # it has died: `answer` says so
            self.line.send((task.data, task.file_name))

    def has_started(self) -> bool:
        """Whether its engine was started before; False where the message that waits is the one that says so.

        Raises:
            CannotGrade: the engine could not be started.
        """
        if self._begun:
            return True
        try:
            refusal = self.line.recv()
        except (EOFError, OSError):
            raise CannotGrade("a process for grading could not be started: is there memory left for it?") from None
        if refusal:
            raise CannotGrade(refusal)
        self._begun = True
        self.deadline = time.monotonic() + NOTEBOOK_LIMIT
        return False

    def answer(self) -> tuple[NotebookResult | None, str]:
        """Take the result of the task, or a failure in words."""
        try:
            answer = self.line.recv()
        except (EOFError, OSError):
            return None, "the process that graded it died, twice: it was left out. Grade it by hand."
        self.task = None
        return answer

    def kill(self) -> tuple[None, str]:
        """End it, because its notebook takes too long, and say so."""
        self._process.kill()
        return None, f"it took longer than {NOTEBOOK_LIMIT:g} seconds and was left out. Grade it by hand."

    def close(self) -> None:
        """Let it end by itself where it waits for work; end it where it is at work."""
        self.line.close()
        if self.task is not None:
            self._process.terminate()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _work(line: Connection, options: GradingOptions) -> None:
    """Grade what comes, in a process of its own, until the line is closed or something fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ExitStack() as started:
        try:
            course = Course.at(options.root)
            engine = started.enter_context(options.engine(require_isolation=options.require_isolation, seed=options.seed))
        except Exception as error:
            line.send(str(error) or type(error).__name__)
            return
        line.send("")
        with contextlib.suppress(EOFError, OSError):
            while True:
                data, file_name = line.recv()
                try:
                    line.send((grade_notebook(data, file_name, engine, course, options.lecture), ""))
                except Exception as error:
                    line.send((None, f"the grading of it failed ({type(error).__name__}: {shown(str(error))})."))
                    return


def grade_notebook(data: bytes, file_name: str, engine: Judge, course: Course, lecture: str | None) -> NotebookResult:
    """Grade one notebook.

    Args:
        data: its bytes.
        file_name: what the student called it.
        engine: judges its cells.
        course: tells its lecture by its cells, else by its name.
        lecture: the lecture that is asked for; a notebook that nothing is known of is taken for it, one of another is refused.
    """
    try:
        cells = cells_in(data)
    except Unreadable as error:
        return NotebookResult(None, note=str(error))
    found, named = course.lecture_of(cells, file_name) or lecture, course.named(file_name)
    if found is None:
        return NotebookResult(None, note="Neither its cells nor its name tell which lecture it is of: --lecture NN says so.")
    if lecture not in (None, found):
        return NotebookResult(None, note=f"It is the notebook of lecture {found}, and lecture {lecture} is graded.")
    note = "" if named in (None, found) else f"It is named for lecture {named}; its cells are those of lecture {found}."
    return NotebookResult(found, engine.grade(cells, found), note, shapes(cells, found), str(engine.level))
