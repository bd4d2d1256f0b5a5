"""The sandbox as a whole: what stands inside, what is left behind, and what happens when a part of it dies."""

import errno
import os
import re
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from course_tools.bank import exercise
from course_tools.checks.judge_answer import Examination
from course_tools.grading.extract.programs import Part, Program
from course_tools.grading.sandbox import hardening, session, wire_protocol
from course_tools.grading.sandbox.allowed_names import allowed_packed
from course_tools.grading.sandbox.measured_isolation import NEEDED, Isolation, measure_isolation
from course_tools.grading.sandbox.sandbox import Sandbox, SandboxFailed
from course_tools.grading.sandbox.session import NoAnswer, names_of
from course_tools.grading.sandbox.worker import ORDERS_BEFORE_HUGE_PAGES, SCRATCHES
from tests.course_tools.grading.forks import fork, linux

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is graded on Windows")
ASKED = exercise("04.2")


@pytest.fixture(scope="module")
def sandbox():
    started = Sandbox()
    yield started
    started.close()


def program(source, function="f"):
    return Program("04.1", function, (Part("<cell 1>", source, "own"),), {})


def reported(sandbox, source, *call):
    """What a function `f` inside returns for a call."""
    with sandbox.fork() as worker:
        worker.load(program(source), allowed_packed("04.1"), [])
        tensors = []
        left = worker.allow(10.0)
        wire_protocol.send(worker.connection, wire_protocol.flat((*call, False, False), tensors), tensors, left)
        header, body = wire_protocol.receive(worker.connection, left)
        assert header["failure"] is None, header["failure"]
        return wire_protocol.full(header["results"], body)


@linux
def test_every_layer_is_active_here_and_no_forbidden_act_succeeds(sandbox):
    level = measure_isolation(sandbox)
    missing = {name: reason for name, reason in level.status.items() if reason and name in NEEDED}
    if missing.keys() & {"Landlock", "seccomp"}:
        pytest.skip(f"this kernel lacks {', '.join(missing)}")
    assert missing == {}
    assert level.successful_attempts == ()
    assert level.full
    assert str(level).startswith("Full isolation (")


def test_a_level_says_what_is_missing_and_what_is_open():
    level = Isolation({"session": "", "Landlock": "no Landlock", "network": "not allowed"}, ("read core.py", "start a process"))
    assert not level.full
    assert level.layers == ("session",)
    assert str(level) == (
        "Partial isolation (session). Missing: Landlock (needs Linux 5.13 or newer, with Landlock switched on). "
        "A student's code can read core.py, start a process."
    )
    assert not Isolation({}, ()).full
    assert not Isolation(dict.fromkeys(NEEDED, ""), ("read core.py",)).full
    assert Isolation(dict.fromkeys(NEEDED, "") | {"network": "not allowed"}, ()).full


def test_nothing_of_the_grader_goes_inside(sandbox, monkeypatch):
    (found,) = reported(
        sandbox,
        "import os, sys, threading\n\n"
        "def f():\n"
        "    hidden = [n for n in sys.modules if n.startswith('course_lib') and n != 'course_lib']\n"
        "    return (sorted(os.environ), hidden, os.getcwd(), threading.active_count(), sys.flags.isolated, sys.path),\n",
    )
    environment, hidden, folder, threads, isolated, path = found
    assert "PYTHONPATH" not in environment
    assert not set(environment) & {"USER", "TERM", "SSH_AUTH_SOCK", "GITHUB_TOKEN", "PYTEST_CURRENT_TEST"}
    assert (hidden, folder in ("/", *SCRATCHES), threads, isolated) == ([], True, 1, 1)
    assert not [place for place in path if os.path.exists(os.path.join(place, "course_lib")) and "packages" not in place]


@linux
def test_one_connection_and_its_own_waiting_time_are_open_inside_and_nothing_else(sandbox):
    source = (
        "import os\n\n"
        "def f():\n"
        "    fds = []\n"
        "    for fd in range(64):\n"
        "        try: fds.append((fd, os.fstat(fd).st_mode >> 12))\n"
        "        except OSError: pass\n"
        "    texts = [os.pread(fd, 1000, 0).decode() for fd, kind in fds if kind == 8]\n"
        "    try: os.write(next((fd for fd, kind in fds if kind == 8), -1), b'x')\n"
        "    except OSError: return fds, texts\n"
        "    return fds, texts + ['written']\n"
    )
    fds, texts = reported(sandbox, source)
    told = hardening.tells_waiting()
    assert [kind for fd, kind in fds if fd < 3] == [2, 2, 2]
    assert sorted(kind for fd, kind in fds if fd >= 3) == ([8, 12] if told else [12])
    assert len(texts) == told
    assert all(re.fullmatch(r"\d+ \d+ \d+\n", text) for text in texts)


@linux
def test_an_answer_has_files_of_its_own_within_limits_and_they_are_gone_after_it(sandbox):
    if measure_isolation(sandbox).status["scratch"]:
        pytest.skip("this machine cannot limit the files of an answer")
    source = """
import os, tempfile

def tried(act):
    try:
        return act()
    except OSError as error:
        return error.errno

def fill():
    with open("large", "wb") as file:
        while True:
            file.write(bytes(2**20))

def crowd():
    for i in range(10**6):
        open(f"{i}.txt", "w").close()

def f():
    before = os.listdir(tempfile.gettempdir())
    open("small", "w").write("of_this_test")
    kept = open(os.path.join(tempfile.gettempdir(), "small")).read()
    return before, kept, tried(fill), os.remove("large"), tried(crowd), tried(lambda: os.chmod("small", 0o777))
"""
    for _ in range(2):
        assert reported(sandbox, source) == ([], "of_this_test", errno.ENOSPC, None, errno.ENOSPC, errno.EPERM)
    assert not any(Path(folder, "small").exists() for folder in SCRATCHES)


def test_each_inmate_starts_anew(sandbox):
    source = "import torch\n\nseen = getattr(torch, 'seen', 0)\n\ntorch.seen = 1\n\ndef f(): return seen\n"
    assert reported(sandbox, source) == reported(sandbox, source) == (0,)


def test_random_numbers_and_settings_are_the_same_in_each(sandbox):
    source = (
        "import torch\n\ndef f(): return torch.rand(3), torch.get_default_dtype() == torch.float32, torch.get_num_threads()\n"
    )
    first, second = reported(sandbox, source), reported(sandbox, source)
    assert torch.equal(first[0], second[0])
    assert first[1:] == (True, 1)


def test_libraries_that_are_loaded_late_work_inside(sandbox):
    source = (
        "import torch\n\n"
        "import numpy as np\n\n"
        "import einops\n\n"
        "import json, re, decimal, statistics, zoneinfo, sqlite3\n\n"
        "def f(x):\n"
        "    y = torch.func.vmap(lambda a: a * 2)(x)\n"
        "    z = torch.func.grad(lambda a: (a**2).sum())(x)\n"
        "    n = torch.from_numpy(np.asarray(x) + 1)\n"
        "    return y, z, n, torch.linalg.inv(torch.eye(2)), einops.rearrange(x, 'a -> a 1')\n"
    )
    y, z, n, inverse, column = reported(sandbox, source, torch.tensor([1.0, 2.0]))
    assert y.tolist() == z.tolist() == [2.0, 4.0]
    assert n.tolist() == [2.0, 3.0]
    assert inverse.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert column.shape == (2, 1)


def test_a_worker_is_gone_after_its_block(sandbox):
    with sandbox.fork() as worker:
        assert psutil.pid_exists(worker.pid)
    assert not psutil.pid_exists(worker.pid)
    assert worker.ended == -signal.SIGKILL


def test_how_a_worker_ended_is_known(sandbox):
    with sandbox.fork() as worker, pytest.raises(NoAnswer, match="ended its process"):
        worker.load(program("import ctypes\n\nctypes.CDLL(None)._exit(3)"), allowed_packed("04.1"), [])
    assert worker.ended == 3


def test_files_and_memory_stay_the_same_over_many_workers(sandbox):
    grader, zygote = psutil.Process(), psutil.Process(sandbox._process.pid)
    for _ in range(ORDERS_BEFORE_HUGE_PAGES):
        reported(sandbox, "def f(): return 1")
    before = (grader.num_fds(), zygote.num_fds(), zygote.memory_info().rss)
    for _ in range(60):
        reported(sandbox, "def f(): return 1")
    after = (grader.num_fds(), zygote.num_fds(), zygote.memory_info().rss)
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 2**21
    assert zygote.children() == []


FORGED = """
import json, os, struct
text = json.dumps({"chosen": [[0, 0]]}).encode()
for fd in range(3, 64):
    try: os.write(fd, struct.pack("!4sIQ", b"ATF1", len(text), 0) + text)
    except OSError: pass
def f(): return 1
"""


def test_what_runs_is_chosen_before_the_code_of_a_student_can_say_anything(sandbox):
    with sandbox.fork() as worker, pytest.raises(NoAnswer, match="an unexpected message"):
        worker.load(program(FORGED), allowed_packed("04.1"), [])
    assert worker.chosen == [(0, number) for number in range(4)]
    with sandbox.fork() as worker, pytest.raises(NoAnswer, match="an unexpected message"):
        worker.load(replace(program(FORGED), chosen=[(0, 0), (0, 1), (0, 2)]), allowed_packed("04.1"), [])
    assert worker.chosen is None


def test_cells_of_the_course_that_were_parsed_ahead_run_as_any_others(sandbox):
    given, used = "import math\n\nSCALE = 2\nUNUSED = [] / 0", "def f(): return SCALE * math.sqrt(4)"
    cells = (Part("<cell 1>", given, "given"), Part("<cell 2>", used, "own"))
    chosen = []
    for _ in range(2):
        with sandbox.fork() as worker:
            worker.load(Program("04.1", "f", cells, {}), allowed_packed("04.1"), [])
            chosen.append(worker.chosen)
        sandbox.learn([given])
    assert chosen == [[(0, 0), (0, 1), (1, 0)]] * 2


@linux
def test_memory_in_huge_pages_changes_nothing(sandbox):
    for _ in range(ORDERS_BEFORE_HUGE_PAGES):
        with sandbox.fork():
            pass
    assert reported(sandbox, "def f(): return sum(range(10))") == (45,)


def test_layers_that_were_active_at_the_start_must_be_active_around_each(sandbox):
    with sandbox.fork() as worker, pytest.raises(NoAnswer, match="could not be isolated"):
        worker.load(program("def f(): return 1"), allowed_packed("04.1"), [], ["a layer that nobody has"])


def test_a_zygote_that_died_is_noticed():
    own = Sandbox()
    os.kill(own._process.pid, signal.SIGKILL)
    with pytest.raises(SandboxFailed, match="has ended"), own.fork():
        pass
    own.close()


@linux
def test_workers_die_with_the_zygote():
    own = Sandbox()

    def live_and_lose_the_zygote():
        with own.fork() as worker:
            worker.load(program("def f(): return 1"), allowed_packed("04.1"), [])
            os.kill(own._process.pid, signal.SIGKILL)
            psutil.wait_procs([psutil.Process(worker.pid)], timeout=300.0)
            assert not psutil.pid_exists(worker.pid)

    with pytest.raises(SandboxFailed):
        live_and_lose_the_zygote()
    own.close()


@linux
def test_nothing_is_left_when_the_grader_is_killed():
    read, write = os.pipe()
    if (grader := fork()) == 0:
        own = Sandbox()
        with own.fork() as worker:
            worker.load(program("def f(): return 1"), allowed_packed("04.1"), [])
            os.write(write, f"{own._process.pid} {worker.pid}".encode())
            time.sleep(600)
        os._exit(0)
    pids = [int(pid) for pid in os.read(read, 100).split()]
    os.kill(grader, signal.SIGKILL)
    os.waitpid(grader, 0)
    left = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(left, timeout=300.0)
    assert len(pids) == 2
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.parametrize(
    "result", ["torch.zeros(2**24)", "[0.5] * 10_000", "[[1] * 3000]", "tuple(torch.zeros(5000))", "{i: i for i in range(9)}"]
)
def test_a_result_that_is_too_large_is_an_answer_and_no_forgery(sandbox, result):
    with sandbox.fork() as worker:
        worker.load(program(f"import torch\n\ndef f(*x): return {result}"), allowed_packed("04.2"), [])
        outcomes, stopped = worker.observe(Examination(ASKED, 0), "", session.CALL_LIMIT)
    assert stopped == ""
    assert outcomes[0].results is not None or str(outcomes[0].error) == "the result is too large"


QUADRATIC = """
from course_lib.attention.linear import divide, mask_features

def f(phi_q, phi_k, v, mask=None):
    w = phi_q @ mask_features(phi_k, mask).mT
    return divide({} @ v, {}.sum(-1, keepdim=True))
"""


@pytest.mark.parametrize(("id", "weights"), [("14.2", "w"), ("14.3", "w.tril()")])
def test_the_cost_of_an_answer_is_counted_inside_and_judged_as_in_a_notebook(sandbox, id, weights):
    source = QUADRATIC.format(weights, weights)
    exec(source, namespace := {})
    asks = Examination(exercise(id), 0)
    with sandbox.fork() as worker:
        worker.load(program(source), allowed_packed(id), [])
        outcomes, stopped = worker.observe(asks, source, session.CALL_LIMIT)
    inside, outside = asks.judge(outcomes), asks.examine(namespace["f"])
    assert stopped == ""
    assert [found.name for found in inside.findings if found.status == "fails"] == ["cost"]
    assert (inside.points, inside.message) == (outside.points, outside.message)
    assert inside.misconception.startswith("Your contexts are right, but their cost is that of softmax attention")


def test_a_sandbox_that_cannot_start_says_why(monkeypatch):
    monkeypatch.setattr("course_tools.grading.sandbox.sandbox.BOOT", "raise RuntimeError('no torch here')")
    with pytest.raises(SandboxFailed, match="the sandbox did not start: RuntimeError: no torch here"):
        Sandbox()


def test_forbidden_functions_are_named_so_that_the_inside_finds_them():
    for item in map(exercise, ("01.2", "01.3", "01.4", "04.5")):
        assert len(names_of(item.forbids)) == len(item.forbids)
    assert names_of(exercise("01.4").forbids)[0] == "torch:lstm_cell"


def test_time_runs_out_inside_a_call_and_outside_of_it(sandbox, monkeypatch):
    monkeypatch.setattr(session, "LOAD_LIMIT", 0.3)
    monkeypatch.setattr(session, "CALL_LIMIT", 0.3)
    with sandbox.fork() as worker:
        assert worker.load(program("while True: pass\ndef f(): return 1"), allowed_packed("04.2"), []) == [(0, 0)]
    with sandbox.fork() as worker:
        worker.load(program("def f(*x):\n    while True: pass"), allowed_packed("04.2"), [])
        outcomes, stopped = worker.observe(Examination(ASKED, 0), "", 0.3)
    assert [type(outcome.error).__name__ for outcome in outcomes] == ["TimedOut"]
    assert stopped == "It was still running after 0.3 seconds of processor time."


def test_an_answer_that_sleeps_is_ended_and_told_that_it_did_not_compute(sandbox):
    with sandbox.fork() as worker:
        worker.load(program("import time\n\ndef f(*x): time.sleep(600)"), allowed_packed("04.2"), [])
        outcomes, stopped = worker.observe(Examination(ASKED, 0), "", 0.3)
    assert [type(outcome.error).__name__ for outcome in outcomes] == ["TimedOut"]
    assert stopped == "It was still running after 0.3 seconds in which it did not compute."


@linux
def test_the_time_of_a_worker_is_told_by_its_parent(sandbox):
    with sandbox.fork() as worker:
        worker.load(program("import time\n\ndef f(*x):\n    while time.process_time() < 0.5: pass"), allowed_packed("04.2"), [])
        worker.observe(Examination(ASKED, 0), "", 60.0)
        computed, waited = worker._time_spent()
    assert computed >= 0.5
    assert waited >= 0.0


class Clock:
    """A worker and its grader as an `Allowance` sees them: what passes is computed, waited, slept, or the grader's own time."""

    def __init__(self, monkeypatch, waiting_is_known=True):
        self.now = self.computed = self.waited = self.own = 0.0
        monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: self.now, thread_time=lambda: self.own))
        monkeypatch.setattr(session.hardening, "time_waited", lambda process: 0.0)
        monkeypatch.setattr(session.hardening, "tells_waiting", lambda: waiting_is_known)
        self.left = session.Allowance(2.0, lambda: (self.computed, self.waited))

    def passes(self, seconds, kind=""):
        """Let time pass until the allowance asks to be called again or is over, in which a thing of one kind happens."""
        end = self.now + seconds
        while self.now < end and (wait := self.left()) > 0:
            step = min(wait, end - self.now)
            self.now += step
            if kind:
                setattr(self, kind, getattr(self, kind) + step)
        return self.left.used_up


@pytest.mark.parametrize(("kind", "why"), [("computed", "of processor time"), ("", "in which it did not compute")])
def test_who_computes_or_sleeps_has_so_many_seconds(monkeypatch, kind, why):
    clock = Clock(monkeypatch)
    assert clock.passes(1.5, kind) == ""
    assert clock.passes(100.0, kind) == f"2 seconds {why}"
    assert clock.now == pytest.approx(2.0, abs=0.02)


@pytest.mark.parametrize("kind", ["waited", "own"])
def test_who_waits_for_a_busy_machine_or_for_the_grader_loses_no_time(monkeypatch, kind):
    clock = Clock(monkeypatch)
    assert clock.passes(10_000.0, kind) == ""
    assert clock.passes(1.9, "computed") == ""
    assert clock.passes(10_000.0, kind) == ""
    assert clock.passes(1.0, "computed") == "2 seconds of processor time"


def test_where_waiting_is_not_told_more_time_may_pass(monkeypatch):
    clock = Clock(monkeypatch, waiting_is_known=False)
    assert clock.passes(11.9) == ""
    assert clock.passes(1.0) == "2 seconds in which it did not compute"


def test_a_worker_that_has_not_run_yet_does_not_pass_for_one_that_slept_since_the_start_of_the_machine(monkeypatch):
    """Its schedule is all zeros then, as on a system that does not count."""
    told, clock = {"thread-self": (1, 0), "7": (0, 0)}, SimpleNamespace(now=1e6)
    monkeypatch.setattr(hardening, "_schedule", told.get)
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: clock.now, thread_time=lambda: 0.0))
    left = session.Allowance(2.0, lambda: (0.0, hardening.time_waited("7")))
    clock.now, told["7"] = clock.now + 10, (10**9, 9 * 10**9)
    assert left() > 0
    clock.now += 2
    assert (left(), left.used_up) == (0.0, "2 seconds in which it did not compute")
