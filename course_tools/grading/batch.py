"""Grade many notebooks in parallel, on this machine or on a Dask cluster; the journal records those that are finished.

Each notebook is graded in a process that has its own engine, receives only the bytes of the notebook, and is killed if the
notebook exceeds its time limit. A process that dies is replaced, and its notebook is tried once more. Threads on this machine
or on Dask's workers distribute the notebooks. Only this process writes the journal and the results, so that the loss of a
worker neither loses nor duplicates a result: Dask reassigns its notebooks to others.
"""

import contextlib
import multiprocessing
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from course_tools.bank.variants import Chosen, chosen_for
from course_tools.dask_cluster import dask_client
from course_tools.grading.extract.notebook_reader import Cell, Unreadable, cells_in
from course_tools.grading.extract.own_code import own_code
from course_tools.grading.files import CannotGrade, shown
from course_tools.grading.intake.archive import Refused
from course_tools.grading.intake.recognise import Course
from course_tools.grading.intake.submissions import Submission
from course_tools.grading.journal import Journal, grading_version, key
from course_tools.grading.marks import Mark
from course_tools.grading.notebook_result import Graded, NotebookResult
from course_tools.grading.report.flags import shapes
from course_tools.grading.sandbox.sandbox import START_LIMIT
from course_tools.publishing import lectures_root
from course_tools.whole_file import reason

_TRIES = 2
_UNIDENTIFIED = "The lecture could not be identified from the cells or the file name (instructor: use --lecture NN)."
NOTEBOOK_LIMIT = 900.0
"""Seconds of elapsed time for one notebook, including reading and parsing; after that its process is killed."""
STUDENT_LIMIT = 1200.0
"""Seconds after which no further notebook of a student is graded in this run: forty slow ones could take a day."""


@runtime_checkable
class GradingEngine(Protocol):
    """The part of an engine that grading uses."""

    level: object

    def grade(self, cells: Sequence[Cell], lecture: str, chosen: Mapping[str, str] = {}) -> tuple[Mark, ...]:
        """Return one mark for each exercise of the lecture, in order, each judged in the chosen variant."""


@dataclass(frozen=True)
class GradingOptions:
    """How a batch is graded: the engine, the course, the lecture, and the number of processes.

    The seed determines the inputs of the checks; None leaves it to the pipeline. `engine` must be a function or class that can
    be pickled, since it is called in each process. `dask` is the address of a scheduler, or "local"; then `jobs` is the number
    of notebooks that a local cluster grades in parallel. `variants` is the secret that determines each student's variants.
    """

    engine: Callable[..., AbstractContextManager[GradingEngine]]
    root: Path
    lecture: str | None = None
    jobs: int = 1
    seed: int | None = 0
    require_isolation: bool = False
    dask: str | None = None
    variants: bytes | None = None


class _Task(NamedTuple):
    place: int
    key: str
    data: bytes
    file_name: str
    chosen: dict[str, str]


def grade_all(
    submissions: Sequence[Submission], journal: Journal, options: GradingOptions, advance: Callable[[], None] = lambda: None
) -> list[Graded]:
    """Grade the notebooks that are not yet in the journal.

    Args:
        submissions: the notebooks.
        journal: each result is written to it immediately; at the end its lines are in the order of the notebooks.
        options: how to grade.
        advance: called for each finished notebook.

    Returns:
        the notebooks in the given order, each with its result or the reason why it has none.

    Raises:
        CannotGrade: no engine could be started, the Dask cluster ended, or the journal could not be written.
        NoCluster: Dask is not installed, or its scheduler does not answer.
    """
    done: dict[int, Graded] = {}

    def settle(place: int, result: NotebookResult | None, failure: str = "") -> None:
        done[place] = Graded(submissions[place], result, failure)
        advance()

    version = grading_version(options.seed, options.root)
    taken: Counter[str] = Counter()
    queue = _Queue(submissions, journal, options, version, settle, taken)
    with _workers(replace(options, variants=None), version) as (grade, n_at_a_time):
        pending: dict[Future, _Task] = {}
        while True:
            while len(pending) < n_at_a_time() and (task := queue.next()) is not None:
                pending[grade(task.data, task.file_name, task.chosen)] = task
            if not pending:
                break
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                task, (result, failure) = pending.pop(future), _outcome(future)
                taken[submissions[task.place].student.id] += NOTEBOOK_LIMIT if result is None else result.seconds
                if result is not None:
                    journal.add(task.key, result)
                settle(task.place, result, failure)
    journal.put_in_order(queue.keys)
    return [done[place] for place in range(len(submissions))]


class _Queue:
    """The notebooks that remain to be graded; each is read only when it is due, so that few are in memory.

    `taken` is the number of seconds that the notebooks of each student, by id, have taken so far.
    """

    def __init__(
        self,
        submissions: Sequence[Submission],
        journal: Journal,
        options: GradingOptions,
        version: str,
        settle: Callable[..., None],
        taken: Mapping[str, float],
    ) -> None:
        self._submissions, self._journal, self._options, self._settle = submissions, journal, options, settle
        self._taken = taken
        self._places: Iterable[int] = iter(range(len(submissions)))
        self._version = version
        self.keys: list[str] = []

    def next(self) -> _Task | None:
        for place in self._places:
            submission = self._submissions[place]
            data = _bytes_of(submission)
            if isinstance(data, Graded):
                self._settle(place, data.result, data.failure)
                continue
            secret = self._options.variants
            chosen = {} if secret is None else chosen_for(submission.student.id, secret)
            task = _Task(place, self._key(data, submission, chosen, self._options.lecture), data, submission.file_name, chosen)
            name, result = self._recorded(task, submission)
            self.keys.append(name)
            if result is not None:
                self._settle(place, result)
            elif self._taken.get(submission.student.id, 0.0) > STUDENT_LIMIT:
                self._settle(place, None, f"was left out: other notebooks of this student took {STUDENT_LIMIT / 60:g} minutes.")
            else:
                return task
        return None

    def _recorded(self, task: _Task, submission: Submission) -> tuple[str, NotebookResult | None]:
        """The key and result of a notebook that has been graded, with the same --lecture or without one."""
        lecture = self._options.lecture
        if (result := self._journal.get(task.key)) is None and lecture is not None:
            name = self._key(task.data, submission, task.chosen, None)
            mixed = self._journal.get(name)
            if mixed is not None and mixed.note != _UNIDENTIFIED:
                return name, mixed if mixed.lecture in (None, lecture) else _of_another(mixed.lecture, lecture)
        return task.key, result

    def _key(self, data: bytes, submission: Submission, chosen: Chosen, lecture: str | None) -> str:
        asked = (submission.file_name, lecture, str(self._options.require_isolation))
        return key(data, self._version, *asked, *(f"{id} {name}" for id, name in chosen.items()))


def _bytes_of(submission: Submission) -> bytes | Graded:
    """Read a submission; if that is impossible, the reason."""
    try:
        return submission.read()
    except Refused as error:
        return Graded(submission, NotebookResult(None, note=f"The file {error}"))
    except OSError as error:
        return Graded(submission, None, f"cannot be read: {reason(error)}")


class _NothingRun:
    """An engine that judges nothing."""

    level = ""

    def grade(self, cells: Sequence[Cell], lecture: str, chosen: Mapping[str, str] = {}) -> tuple[Mark, ...]:
        return ()


def recognised(submission: Submission, course: Course, lecture: str | None) -> Graded:
    """Read a submission as `grade_all` does, but run nothing: its result has a lecture, or a note, and no marks."""
    data = _bytes_of(submission)
    if isinstance(data, Graded):
        return data
    return Graded(submission, grade_notebook(data, submission.file_name, _NothingRun(), course, lecture))


Grade = Callable[[bytes, str, Chosen], Future]
"""Grades a notebook: its bytes, its file name, and the student's variants."""


@contextmanager
def _workers(options: GradingOptions, version: str) -> Iterator[tuple[Grade, Callable[[], int]]]:
    """Yield a function that grades a notebook, and one that returns how many may be graded in parallel."""
    if options.dask is None:
        processes = GradingProcesses(options)
        with ThreadPoolExecutor(options.jobs) as threads:
            try:
                yield partial(threads.submit, processes.grade), lambda: options.jobs
            finally:
                processes.close()
        return
    local = {"processes": False, "n_workers": 1, "threads_per_worker": options.jobs}  # the processes are ours
    with dask_client(options.dask, **local) as client:
        executor, there = client.get_executor(pure=False), replace(options, dask=None)
        try:
            yield (
                partial(executor.submit, _grade_on_worker, there, version),
                lambda: max(1, 2 * sum(client.nthreads().values())),
            )
        finally:
            executor.shutdown(wait=False)
            with contextlib.suppress(Exception):  # a cluster that has ended cannot be closed
                client.run(_close_on_worker, there)


def _outcome(future: Future) -> tuple[NotebookResult | None, str]:
    try:
        return future.result()
    except CannotGrade:
        raise
    except CancelledError:
        raise CannotGrade("the Dask cluster has ended. Finished results are kept: run the same command again.") from None
    except Exception as error:
        return None, f"the workers that graded it failed ({type(error).__name__}); it was skipped. Grade it by hand."


_on_worker: dict[GradingOptions, "GradingProcesses"] = {}
_on_worker_lock = threading.Lock()


def _grade_on_worker(
    options: GradingOptions, version: str, data: bytes, file_name: str, chosen: Chosen
) -> tuple[NotebookResult | None, str]:
    """Grade one notebook in a thread of a Dask worker, against that worker's copy of the course.

    Raises:
        CannotGrade: the worker has another version of the course, or does not isolate a student's code as required.
    """
    multiprocessing.current_process().daemon = False  # Dask's nanny makes it a daemon, which may have no children
    with _on_worker_lock:
        if options not in _on_worker:
            here = replace(options, root=lectures_root())
            if grading_version(here.seed, here.root) != version:
                raise CannotGrade(f"the worker on {socket.gethostname()} has another version of the course, Python or torch.")
            _on_worker[options] = GradingProcesses(here)
    try:
        return _on_worker[options].grade(data, file_name, chosen)
    except CannotGrade as error:
        raise CannotGrade(f"the worker on {socket.gethostname()} cannot grade: {error}") from None


def _close_on_worker(options: GradingOptions) -> None:
    with _on_worker_lock:
        if (processes := _on_worker.pop(options, None)) is not None:
            processes.close()


class GradingProcesses:
    """Processes with one engine each, as many as threads call `grade` in parallel; they are reused for further notebooks."""

    def __init__(self, options: GradingOptions) -> None:
        """Store the options; processes are started on demand."""
        self._options, self._is_closed = options, False
        self._idle: deque[_GradingProcess] = deque()
        self._all: set[_GradingProcess] = set()

    def grade(self, data: bytes, file_name: str, chosen: Chosen) -> tuple[NotebookResult | None, str]:
        """Grade one notebook; return its result, or None and the reason.

        Raises:
            CannotGrade: no engine could be started.
        """
        for _ in range(_TRIES):
            process = self._process()
            result, failure, is_late = process.grade(data, file_name, chosen)
            if result is not None:
                self._idle.append(process)
                break
            self._all.discard(process)  # after a failure it is not reused: its engine may be at fault
            process.close()
            if is_late:
                break
        return result, failure

    def close(self) -> None:
        """End every process, even if it is grading."""
        self._is_closed = True
        processes = list(self._all)
        for process in processes:
            process.hang_up()
        for process in processes:
            process.close()

    def _process(self) -> "_GradingProcess":
        try:
            return self._idle.popleft()
        except IndexError:
            pass
        if self._is_closed:
            raise CannotGrade("grading was stopped.")
        process = _GradingProcess(self._options)
        self._all.add(process)
        process.wait_until_started()
        return process


class _GradingProcess:
    """A process with an engine, as seen by the parent."""

    def __init__(self, options: GradingOptions) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, options), daemon=True)
        with _starting:
            self._process.start()
        other.close()
        self._is_busy = True

    def wait_until_started(self) -> None:
        """Wait until its engine has started.

        Raises:
            CannotGrade: the engine could not be started.
        """
        try:
            late = "a grading process did not start in time. Run the command again with fewer parallel notebooks (-j)."
            refusal = self._line.recv() if self._line.poll(2 * START_LIMIT) else late
        except (EOFError, OSError):
            refusal = "a grading process could not be started: is there enough memory?"
        if refusal:
            self.close()
            raise CannotGrade(refusal)
        self._is_busy = False

    def grade(self, data: bytes, file_name: str, chosen: Chosen) -> tuple[NotebookResult | None, str, bool]:
        """Grade a notebook; return its result, or None with a failure in words, and whether it exceeded the time limit."""
        self._is_busy = True
        try:
            self._line.send((data, file_name, chosen))
            if not self._line.poll(NOTEBOOK_LIMIT):
                return None, f"it took longer than {NOTEBOOK_LIMIT:g} seconds and was skipped. Grade it by hand.", True
            result, failure = self._line.recv()
        except (EOFError, OSError):
            return None, "the process that graded it died twice; it was skipped. Grade it by hand.", False
        self._is_busy = False
        return result, failure, False

    def hang_up(self) -> None:
        """Kill the process if it is grading; else let it end by itself."""
        if self._is_busy:
            self._process.kill()
        else:
            self._line.close()

    def close(self) -> None:
        """End the process."""
        self.hang_up()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._line.close()


_starting = threading.Lock()


def _work(line: Connection, options: GradingOptions) -> None:
    """Grade the notebooks that arrive, in a separate process, until the connection is closed or an error occurs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ExitStack() as started:
        try:
            course = Course.at(options.root)
            engine = started.enter_context(options.engine(require_isolation=options.require_isolation, seed=options.seed))
        except Exception as error:
            line.send(str(error) or type(error).__name__)
            return
        with contextlib.suppress(EOFError, OSError):
            line.send("")
            while True:
                data, file_name, chosen = line.recv()
                try:
                    line.send((grade_notebook(data, file_name, engine, course, options.lecture, chosen), ""))
                except Exception as error:
                    line.send((None, f"grading failed ({type(error).__name__}: {shown(str(error))})."))
                    return


def grade_notebook(
    data: bytes, file_name: str, engine: GradingEngine, course: Course, lecture: str | None, chosen: Mapping[str, str] = {}
) -> NotebookResult:
    """Grade one notebook.

    Args:
        data: its bytes.
        file_name: its name as submitted.
        engine: judges its cells.
        course: recognises its lecture from its cells, else from its name.
        lecture: the lecture to grade; a notebook that cannot be identified is assumed to be of it, one of another is rejected.
        chosen: the student's variant of each exercise that has variants.
    """
    try:
        cells = cells_in(data)
    except Unreadable as error:
        return NotebookResult(None, note=str(error))
    found, named = course.lecture_of(cells, file_name) or lecture, course.named(file_name)
    if found is None:
        return NotebookResult(None, note=_UNIDENTIFIED)
    if lecture not in (None, found):
        return _of_another(found, lecture)
    note = "" if named in (None, found) else f"Its name says lecture {named}, but its cells are those of lecture {found}."
    marks = engine.grade(cells, found, chosen)
    return NotebookResult(found, marks, note, shapes(cells, found), str(engine.level), own_code(cells, found))


def _of_another(found: str, lecture: str) -> NotebookResult:
    return NotebookResult(None, note=f"It is the notebook of lecture {found}, not of lecture {lecture}.")
