"""Answers that loop, interrupt, reach for what is forbidden, or change the world outside."""

import importlib
import random
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest
import torch
import torch.autograd
from torch.autograd import grad as differentiate
from torch.nn import functional as F

from course_lib.primitives import rnn_step
from course_tools.bank import exercise, verdict
from course_tools.checks import time_limit
from course_tools.checks.time_limit import TimedOut, run_in_time, watching
from tests.course_tools.bank.answers.unusual import (
    failing,
    given_up,
    loops,
    loops_and_catches_errors,
    loops_and_catches_everything,
    loops_in_torch_with_prints,
    raises,
    sleeps,
)


@pytest.fixture
def short_limit(monkeypatch):
    """Give answers little time, and end those that outlive the test."""
    monkeypatch.setattr(time_limit, "TIME_LIMIT", 0.3)
    monkeypatch.setattr(time_limit, "WALL_LIMIT", 5.0)
    given_up.clear()
    yield 0.3
    given_up.set()


@pytest.mark.parametrize(
    "answer", [loops, loops_and_catches_errors, loops_and_catches_everything, sleeps, loops_in_torch_with_prints]
)
def test_an_answer_without_an_end_is_ended(answer, short_limit, capfd, monkeypatch):
    if answer is sleeps:  # the clock on the wall ends it
        monkeypatch.setattr(time_limit, "WALL_LIMIT", 1.0)
    found = verdict("01.1", answer)
    assert (found.passed, found.points, found.misconception, found.started) == (False, 0, None, True)
    assert failing(found) == ["runs"]
    assert "It was still running after 0.3 seconds. Does it contain an endless loop" in found.message
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("short_limit")
def test_a_loop_that_ends_for_some_inputs_costs_only_what_comes_after():
    def answer(forget_gates):
        product, t = torch.ones(forget_gates.shape[1:]), 0
        while t != len(forget_gates) or t == 0:
            product = product * forget_gates[t % max(1, len(forget_gates))] if len(forget_gates) else product
            t += 1
        return product

    found = verdict("01.5", answer)
    assert "no step" in failing(found)
    assert 0 < found.points < found.max_points
    assert "still running" in found.message


@pytest.mark.usefixtures("short_limit")
def test_after_an_endless_answer_the_next_verdict_is_as_ever():
    verdict("01.1", loops_and_catches_everything)
    assert verdict("01.1", rnn_step).passed
    assert sys.getprofile() is None


def burn(seconds):
    start = time.thread_time()
    while time.thread_time() - start < seconds:
        pass


def test_the_limit_is_on_the_answer_and_not_on_each_call(monkeypatch):
    monkeypatch.setattr(time_limit, "TIME_LIMIT", 0.5)

    def answer(*inputs):
        burn(0.2)
        return rnn_step(*inputs)

    assert "still running" in verdict("01.1", answer).message


def test_processor_time_counts_and_not_elapsed_time():
    assert run_in_time(lambda: time.sleep(0.5), 0.2)
    assert not run_in_time(lambda: burn(2.0), 0.2)


def test_what_waits_for_ever_is_ended_by_the_clock_on_the_wall():
    assert not run_in_time(threading.Event().wait, 5.0, wall_seconds=0.3)


def test_an_import_is_neither_counted_nor_interrupted(tmp_path, monkeypatch):
    """It is slow, it may run past both limits, and it is whole afterwards."""
    burning = "import time\nstart = time.thread_time()\nwhile time.thread_time() - start < {}: pass\nwhole = True\n"
    (tmp_path / "slow_to_import.py").write_text(burning.format(0.6))
    monkeypatch.syspath_prepend(tmp_path)

    def work():
        importlib.import_module("slow_to_import")
        burn(5.0)

    assert not run_in_time(work, 0.2)
    assert sys.modules.pop("slow_to_import").whole
    assert run_in_time(lambda: importlib.import_module("slow_to_import"), 0.2)
    assert sys.modules.pop("slow_to_import").whole


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    "code", ["import torch.func", "import torch._dynamo\ntorch._dynamo.reset()"], ids=["torch.func", "torch.compile"]
)
def test_right_answers_that_import_late_pass_beside_a_busy_process(code):
    """In a fresh interpreter, in which nothing of it has been imported, while two processes take the processor.

    The limit in elapsed time, which is for answers that wait, is out of reach: other tests may run beside these two.
    """
    answer = {
        "import torch.func": (
            "lambda x, h, *weights: torch.vmap(rnn_step, in_dims=(0, 0, None, None, None))(x[None], h[None], *weights)[0]"
        ),
        "import torch._dynamo\ntorch._dynamo.reset()": "torch.compile(rnn_step, backend='eager')",
    }[code]
    program = (
        "import torch\nfrom course_lib.primitives import rnn_step\nfrom course_tools.bank import verdict\n"
        "from course_tools.checks import time_limit\ntime_limit.WALL_LIMIT = 3600.0\n"
        f"found = verdict('01.1', {answer})\nassert found.passed, found.message\n"
    )
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        subprocess.run([sys.executable, "-c", program], check=True)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_work_that_ends_in_time_leaves_no_thread_behind():
    before = threading.active_count()
    assert run_in_time(lambda: None, 5.0)
    assert not run_in_time(loops, 0.1)
    assert threading.active_count() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_what_work_raises_comes_out(error):
    def work():
        raise error

    with pytest.raises(error):
        run_in_time(work, 5.0)


def test_timed_out_is_no_exception_that_an_answer_would_catch():
    assert not issubclass(TimedOut, Exception)


def test_a_keyboard_interrupt_passes_through():
    with pytest.raises(KeyboardInterrupt):
        verdict("01.1", raises(KeyboardInterrupt()))


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot interrupt itself there")
def test_a_student_can_interrupt_an_endless_answer():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs behind it deaf to it
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    start = time.process_time()
    try:
        with pytest.raises(KeyboardInterrupt):
            verdict("01.1", loops)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.process_time() - start < time_limit.TIME_LIMIT


def bptt_by(gradient):
    def answer(grad_h_new, x, h, h_new, W, U):
        x, h, W, U = (t.clone().requires_grad_() for t in (x, h, W, U))
        b = torch.zeros(len(W), requires_grad=True)
        a = x @ W.mT + h @ U.mT
        a = a - a.detach() + torch.atanh(h_new) + b
        return gradient(torch.tanh(a), (x, h, W, U, b), grad_h_new)

    return answer


def backward(out, inputs, pull):
    out.backward(pull)
    return [t.grad for t in inputs]


@pytest.mark.parametrize(
    "gradient",
    [
        lambda out, inputs, pull: differentiate(out, inputs, pull),
        lambda out, inputs, pull: torch.autograd.grad(out, inputs, pull),
        lambda out, inputs, pull: importlib.import_module("torch.autograd").grad(out, inputs, pull),
        lambda out, inputs, pull: getattr(sys.modules["torch.autograd"], "gr" + "ad")(out, inputs, pull),
        backward,
    ],
    ids=["imported as another name", "in full", "by importlib", "by its letters", "backward"],
)
def test_a_forbidden_function_is_noticed_however_it_was_imported(gradient):
    found = verdict("01.2", bptt_by(gradient))
    assert (found.passed, found.points, found.misconception) == (False, 0, None)
    assert "write each gradient as a product" in found.message


@pytest.mark.parametrize(
    ("id", "answer", "advice"),
    [
        ("01.4", lambda x, h, c, W, U, b: torch.lstm_cell(x, (h, c), W, U, b, b * 0), "by their equations"),
        ("01.3", lambda gradients, max_norm: torch.nn.utils.clip_grad_norm_([torch.ones(1)], 1.0), "yourself"),
        (
            "04.5",
            lambda q, *rest: F.multi_head_attention_forward(q, q, q, 4, 2, None, None, None, None, False, 0.0, None, None),
            "split, attend and merge",
        ),
    ],
)
def test_forbidden_kernels_of_torch_are_noticed_too(id, answer, advice):
    found = verdict(id, answer)
    assert (found.passed, found.points) == (False, 0)
    assert advice in found.message


@pytest.mark.parametrize("switch_off", [lambda: sys.setprofile(None), lambda: threading.setprofile(None)])
def test_watching_cannot_be_switched_off(switch_off):
    def gradient(out, inputs, pull):
        kept = sys.getprofile()
        switch_off()
        try:
            return torch.autograd.grad(out, inputs, pull)
        finally:
            sys.setprofile(kept)

    found = verdict("01.2", bptt_by(gradient))
    assert (found.passed, found.points) == (False, 0)


def test_an_answer_that_calls_itself_without_end_is_not_taken_for_an_attempt():
    """Python removes the watcher when that, too, is called too deeply."""

    def endless(x):
        return endless(x)

    called = set()
    with pytest.raises(RecursionError), watching({torch.softmax: ""}, called):
        endless(1)
    assert called == set()


def test_a_forbidden_function_is_noticed_in_another_thread():
    def gradient(out, inputs, pull):
        found = []
        thread = threading.Thread(target=lambda: found.append(torch.autograd.grad(out, inputs, pull)))
        thread.start()
        thread.join()
        return found[0]

    found = verdict("01.2", bptt_by(gradient))
    assert (found.passed, found.points) == (False, 0)
    assert "write each gradient as a product" in found.message


def test_an_exercise_that_forbids_autograd_may_still_have_its_gradients_judged():
    asked = exercise("01.1")
    judged = type(asked)(**{**vars(asked), "forbids": {torch.autograd.grad: "by hand."}})
    judge = importlib.import_module("course_tools.checks.judge_answer").judge
    assert judge(judged, rnn_step).passed


def test_nothing_outside_is_changed_by_an_answer_that_changes_everything(sample):
    def answer(*inputs):
        torch.manual_seed(1)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        warnings.simplefilter("error")
        print("seen")
        print("seen", file=sys.stderr)
        warnings.warn("seen", stacklevel=1)

    def world():
        torch_state = torch.get_rng_state().tolist(), torch.get_default_dtype(), torch.is_grad_enabled()
        return torch_state, random.getstate(), list(warnings.filters), sys.stdout, sys.stderr, sys.getprofile()

    before = world()
    verdict(sample.id, answer)
    assert world() == before


def test_prints_and_warnings_cost_nothing_and_are_kept_for_the_report(capfd):
    def answer(*inputs):
        print("seen")
        print("seen", file=sys.stderr)
        warnings.warn("seen", stacklevel=1)
        return rnn_step(*inputs)

    found = verdict("01.1", answer)
    assert found.passed
    assert set(found.printed.splitlines()[:-1]) == {"seen"}
    assert len(found.printed.splitlines()) <= 21
    assert capfd.readouterr() == ("", "")


def test_a_right_answer_that_turns_gradients_off_at_its_end_is_right():
    def answer(*inputs):
        result = rnn_step(*inputs)
        torch.set_grad_enabled(False)
        return result

    assert verdict("01.1", answer).passed


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_dtype_of_a_notebook_changes_no_verdict(sample, dtype):
    torch.set_default_dtype(dtype)
    try:
        assert verdict(sample.id, sample.reference).passed
        assert verdict(sample.id, sample.wrong[0]).misconception
        assert torch.get_default_dtype() == dtype
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_notebook_without_gradient_mode_changes_no_verdict(sample):
    with torch.no_grad():
        assert verdict(sample.id, sample.reference).passed
        assert not torch.is_grad_enabled()
