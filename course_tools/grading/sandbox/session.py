"""One worker, from the grader's side: a program is loaded once, then calls are sent, each with a time limit.

The worker is not trusted: `wire_protocol` and `response_validation` validate its messages; invalid ones raise NoAnswer.
"""

import builtins
import re
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from course_tools.checks import time_limit
from course_tools.checks.judge_answer import Examination
from course_tools.checks.outcome import Outcome, ends_early
from course_tools.checks.time_limit import TimedOut
from course_tools.grading.extract.programs import Needed, Program
from course_tools.grading.sandbox import hardening, response_validation, wire_protocol

LOAD_LIMIT = 10.0
"""Time limit for code outside functions, in seconds as counted by `Allowance`."""
CALL_LIMIT = 2 * time_limit.TIME_LIMIT
"""Time limit for all calls of an exercise together, in seconds: twice that of a check in a notebook."""
_SHORTEST_LOOK = 0.01
MOST_LATE = 1000
"""Maximum number of statements that are skipped."""
TOO_LARGE = "results are too large"
OWN_MESSAGE = "The code sent an unexpected message before the first call."


class NotFound(LookupError):
    """The notebook contains no answer to the exercise."""


class NotStarted(LookupError):
    """The exercise is unchanged."""


class NoAnswer(Exception):
    """A worker returned no answer; the message is the sentence for the student."""


class NeverLoaded(NoAnswer):
    """Code outside functions did not end, and none of its statements could be stopped."""


class Allowance:
    """A limit for a worker: of its processor time, and of the time in which it neither computes nor waits to compute.

    Neither includes time in which another process has the processor or the grader computes: on a busy machine, an answer has as
    much time as on an idle one. Calling it returns, as `wire_protocol.Left`, the seconds until the next call is due; after a 0,
    `used_up` says which limit was reached.
    """

    def __init__(self, seconds: float, time_spent: Callable[[], tuple[float, float]]) -> None:
        self._seconds, self._time_spent = seconds, time_spent
        self._waiting_is_told = hardening.tells_waiting()
        self._begun = self._so_far()
        self._next_look = time.monotonic() + seconds
        self.used_up = ""

    def __call__(self) -> float:
        """Return the seconds until it must be called again; 0 if a limit is reached."""
        now = time.monotonic()
        if now < self._next_look:
            return self._next_look - now
        computed, slept = (after - before for after, before in zip(self._so_far(), self._begun, strict=True))
        if max(computed, slept) >= self._seconds:
            kind = "of processor time" if computed >= self._seconds else "in which it did not compute"
            self.used_up = f"{self._seconds:g} second{'s' * (self._seconds != 1)} {kind}"
            return 0.0
        left = max(self._seconds - max(computed, slept), _SHORTEST_LOOK)
        self._next_look = now + left
        return left

    def _so_far(self) -> tuple[float, float]:
        """The processor time of the worker, and the time that was neither its own nor the grader's."""
        computed, waited = self._time_spent()
        passed = time.monotonic()
        if not self._waiting_is_told:
            return computed, hardening.time_slept(passed, computed, None)
        others = waited + time.thread_time() + hardening.time_waited("thread-self")
        return computed, hardening.time_slept(passed, computed, others)


class WorkerSession:
    """One fork of the zygote: a program is loaded once, then calls are sent to it.

    `time_spent` returns its processor time and how long it waited for a processor, in seconds. After a program has been loaded,
    `raised` maps the statements that raised an error, as (cell, number), to the type of the error.
    """

    def __init__(self, connection: socket.socket, pid: int, time_spent: Callable[[], tuple[float, float]]) -> None:
        self.connection, self.pid, self._time_spent = connection, pid, time_spent
        self.ended = 0
        self.chosen: list[tuple[int, int]] | None = None
        self.needed: dict[str, list[Needed]] = {}
        self.raised: dict[tuple[int, int], str] = {}

    def allow(self, seconds: float) -> Allowance:
        """Start a limit of this many seconds."""
        return Allowance(seconds, self._time_spent)

    def ask(self, request: object, left: wire_protocol.Left, body: bytes = b"") -> tuple[object, bytearray]:
        """Send one request, and wait for the response while time is left."""
        wire_protocol.send(self.connection, request, [], left, body)
        return wire_protocol.receive(self.connection, left)

    def load(
        self, program: Program, allowed: bytes, forbids: list[str], layers: Sequence[str] = (), trains: bool = False
    ) -> list[tuple[int, int]]:
        """Run the cells of a notebook, provided that the named isolation layers are active in this worker too.

        `allowed` is the result of `allowed_packed`. If the answer `trains`, its training is measured inside. If the program
        does not name the statements to run, `chosen` holds them afterwards, unless they must be selected again each time, and
        `needed` the statements on which the answer to each exercise may depend.

        Returns:
            the statements that were stopped at their time limit, as (cell, number).

        Raises:
            NoAnswer: the code did not end, or its answer could not be defined.
            NotFound: the notebook contains no answer to the exercise.
            NotStarted: the exercise is unchanged.
        """
        seconds = (LOAD_LIMIT / 4, LOAD_LIMIT / 2, LOAD_LIMIT * 3 / 4, LOAD_LIMIT / 5)
        request = vars(program) | {"cells": [vars(part) for part in program.cells], "forbids": forbids, "seconds": seconds}
        request |= {"layers": list(layers), "trains": trains}
        allowance = self.allow(LOAD_LIMIT)
        try:
            answer, _ = self.ask(request, allowance, allowed)
            if program.chosen is None and isinstance(answer, dict) and "chosen" in answer:
                self.chosen = _places(answer["chosen"]) if isinstance(answer["chosen"], list) else None
                self.needed = _needed(answer.get("needed"))
                answer, _ = wire_protocol.receive(self.connection, allowance)
        except wire_protocol.Late:
            raise NeverLoaded(f"The code outside functions was still running after {allowance.used_up}.") from None
        except wire_protocol.Ended:
            raise NoAnswer("The code ended its process before the first call.") from None
        except wire_protocol.Malformed:
            raise NoAnswer(OWN_MESSAGE) from None
        self.raised = _raised(answer)
        match answer:
            case {"missing_layers": list()}:
                raise NoAnswer("The sandbox could not be isolated; ask for a regrade.")
            case {"found": True, "late": list(late)}:
                return _places(late[:MOST_LATE])
            case {"found": False, "failed": failed, "started": bool(started), "unparsable": str(unparsable)}:
                raise _no_answer(program, failed, started, unparsable)
        raise NoAnswer(OWN_MESSAGE)

    def observe(self, questions: Examination, source: str, seconds: float) -> tuple[list[Outcome], str]:
        """Send every call of an exercise, like `watch`; return the outcomes, and why there are no more of them, or "".

        All results together may have `LARGEST_BODY` bytes: they are kept until the verdict.

        Args:
            questions: the calls.
            source: all of the student's text.
            seconds: time limit for all calls together, as counted by `Allowance`.

        Raises:
            NoAnswer: the response is malformed.
        """
        outcomes: list[Outcome] = []
        allowance, room = self.allow(seconds), wire_protocol.LARGEST_BODY
        for call, gradients, counted in questions.calls:
            tensors: list = []
            try:
                given = [wire_protocol.FunctionReference.of(value) if callable(value) else value for value in call]
                wire_protocol.send(
                    self.connection, wire_protocol.flat((*given, gradients, counted), tensors), tensors, allowance
                )
                header, body = wire_protocol.receive(self.connection, allowance)
                room -= len(body)
                if room < 0:
                    return [*outcomes, Outcome(None, error=MemoryError(TOO_LARGE))], f"Its {TOO_LARGE}."
                outcomes.append(response_validation.outcome_of(header, body, call, gradients, counted, source))
            except wire_protocol.Late:
                return [*outcomes, Outcome(None, error=TimedOut())], f"It was still running after {allowance.used_up}."
            except wire_protocol.Ended:
                return [*outcomes, Outcome(None, error=SystemExit("the process ended"))], "It ended its process."
            except wire_protocol.Malformed:
                raise NoAnswer("The response is not a valid return value.") from None
            if ends_early(outcomes, questions.n_preliminary):
                break
        return outcomes, ""


def names_of(forbids: Mapping[object, str]) -> list[str]:
    """Return the names by which functions are found inside the sandbox."""
    torch_own = vars(sys.modules["torch"])
    return [
        f"torch:{f.__name__}" if torch_own.get(f.__name__) is f else wire_protocol.FunctionReference.of(f).name for f in forbids
    ]


def _places(late: list) -> list[tuple[int, int]]:
    """Read the positions of statements; malformed entries are skipped."""
    return [(cell, number) for cell, number in _rows(late, int, int)]


def _needed(told: object) -> dict[str, list[Needed]]:
    """Read the statements that each exercise needs; malformed entries are skipped."""
    found = told if isinstance(told, dict) else {}
    return {id: [Needed(*row) for row in _rows(rows, int, int, int, str)] for id, rows in found.items()}


def _raised(answer: object) -> dict[tuple[int, int], str]:
    """Read which statements raised an error, and the type of the error: a built-in one, or "" if it is unknown."""
    rows = _rows(answer.get("raised") if isinstance(answer, dict) else None, int, int, str)
    known = {name: name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)}
    return {(cell, number): known.get(kind, "") for cell, number, kind in rows}


def _rows(told: object, *kinds: type) -> list[list]:
    """The lists in a list that contain values of these types, with numbers from 0; malformed entries are skipped."""
    rows = [row for row in told if isinstance(row, list) and len(row) == len(kinds)] if isinstance(told, list) else []
    return [row for row in rows if all(map(_is, row, kinds))]


def _is(value: object, kind: type) -> bool:
    return type(value) is kind and (kind is str or 0 <= value < 2**31)


def _no_answer(program: Program, failed: object, started: bool, unparsable: str) -> Exception:
    """Choose the error for a notebook in which no answer was found."""
    try:
        error, _ = response_validation.error_of(failed, program.text)
    except wire_protocol.Malformed:
        return NoAnswer(OWN_MESSAGE)
    if error is not None:
        words = response_validation.without_values(" ".join(str(error).split())[:200], error)
        return NoAnswer(f"`{program.function}` could not be defined: {type(error).__name__}: {words}")
    if unparsable:
        known = re.fullmatch(r"(?:line \d{1,6}: )?[A-Za-z ,.'()-]{1,100}", unparsable)
        return NoAnswer(f"Its cell is not valid Python: {unparsable if known else 'Python cannot read it'}.")
    if not started:
        return NotStarted("The exercise is unchanged.")
    return NotFound(f"No cell of this notebook defines `{program.function}`; the library's own does not count.")
