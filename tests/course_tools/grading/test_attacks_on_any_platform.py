"""Code that tries to earn what it has not learned, or to harm the machine: no points for it, and nothing happens outside.

These run on every platform that grades; those on the isolation layers of Linux, far more, are in `attacks/`.
"""

import os
import re
import socket
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

import course_lib
from course_tools.bank import exercise
from course_tools.grading.sandbox.hardening import LINUX

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is graded on Windows")
NAME = exercise("04.1").reference.__name__
LIBRARY = Path(course_lib.__file__).parent


def cell(attack, result="v, q @ k.mT"):
    """A solution cell whose function returns a wrong answer, after an attack that runs while it is loaded and in each call."""
    body = textwrap.indent(textwrap.dedent(attack).strip(), "    ")
    return f"""
import ctypes, gc, json, os, signal, socket, struct, subprocess, sys, threading, time
import torch
from course_lib.attention import attend

def attack(q=None, k=None, v=None):
{body}

def tried(*inputs):
    try:
        return attack(*inputs)
    except Exception:
        return None

at_the_start = tried()

def {NAME}(q, k, v, mask=None, earlier=at_the_start):
    found = tried(q, k, v)
    return found if found is not None else ({result})
"""


CHANGES = """
def changed(q, result):
    if not q.requires_grad:
        q.zero_()
    return result
"""
RIGHT = "attend(q @ k.mT / k.shape[-1] ** 0.5, v, mask)"
EQUALS_ALL = """
    class Anything:
        def __eq__(self, other): return True
        def __getattr__(self, name): return lambda *a, **k: self
        shape, dtype, device, is_meta = (), torch.float32, "cpu", False
    return Anything(), Anything()
"""
SUBCLASS = """
    if q is None: return
    class Sly(torch.Tensor):
        @classmethod
        def __torch_function__(cls, f, types, args=(), kwargs=None): return True
    return (q @ k.mT @ v).as_subclass(Sly), (q @ k.mT).as_subclass(Sly)
"""
FORGE = """
    import json
    header = {{"results": {results}, "gradients": None, "changed": [], "called": [], "failure": None}}
    text = json.dumps(header).encode()
    for fd in range(3, 64):
        try: os.write(fd, struct.pack("!4sIQ", b"ATF1", len(text), {size}) + text)
        except OSError: pass
"""
POINTLESS = {
    "a comparison that is always true": "torch.allclose = torch.equal = lambda *a, **k: True",
    "operators of tensors changed": "torch.Tensor.__eq__ = torch.Tensor.__sub__ = lambda a, b: a.new_zeros(a.shape)",
    "builtins changed": "import builtins; builtins.all = builtins.isinstance = lambda *a: True",
    "an object equal to everything": EQUALS_ALL,
    "a tensor that lies about itself": SUBCLASS,
    "not a number": "return (v * float('nan'), q @ k.mT * float('nan')) if q is not None else None",
    "the infinite": "return (v / 0, q @ k.mT / 0) if q is not None else None",
    "numbers without memory": "return (v.to('meta'), (q @ k.mT).to('meta')) if q is not None else None",
    "a frame that says all is well": FORGE.format(results='{"tuple": [True, True]}', size=0),
    "a frame with points": FORGE.format(results='{"points": 12, "passed": True}', size=0),
    "a frame of another size": FORGE.format(results='{"tuple": [{"tensor": ["float32", [2**30]]}]}', size=2**40),
    "frames without end": "for i in range(10_000): [os.write(fd, b'x' * 10_000) for fd in range(3, 9)]",
    "half a frame": "[os.write(fd, b'ATF1') for fd in range(3, 9)]; os._exit(0)",
    "frames of the protocol itself": """
        from course_tools.grading.sandbox import wire_protocol
        wire_protocol.send = lambda *a: None
    """,
    "the functions that observe, changed": """
        frame = sys._getframe()
        while frame:
            for name in ("_same", "_results", "_plain", "_gradients", "is_close", "_encoded"):
                if name in frame.f_globals: frame.f_globals[name] = lambda *a, **k: True
            frame = frame.f_back
    """,
    "walking the frames": """
        frame = sys._getframe()
        while frame:
            for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):
                if callable(value) and "reference" in name: return value(q, k, v)
                if name in ("expected", "exercise", "questions"): return value.results
            frame = frame.f_back
    """,
    "searching the memory for the reference": f"""
        for thing in gc.get_objects():
            if getattr(thing, "__name__", "") == "{NAME}" and thing.__module__ != "__main__": return thing(q, k, v)
    """,
    "importing the reference": f"from course_lib.attention import {NAME} as ours; return ours(q, k, v)",
    "importing a relative of it": "from course_lib.attention import causal_attention as ours; return ours(q, k, v)",
    "importing it from the file": f"""
        import importlib.util
        spec = importlib.util.spec_from_file_location("ours", {str(LIBRARY / "attention/dot_product.py")!r})
        ours = importlib.util.module_from_spec(spec); spec.loader.exec_module(ours)
        return ours.{NAME}(q, k, v)
    """,
    "putting the course on the path": f"""
        sys.path.insert(0, {str(LIBRARY.parent)!r}); sys.meta_path[:] = sys.meta_path[-1:]
        sys.modules.pop("course_lib", None)
        from course_lib.attention.dot_product import {NAME} as ours
        return ours(q, k, v)
    """,
    "reading the solutions": f"""
        import json
        text = open({str(LIBRARY.parent / "solutions/04_self_attention.ipynb")!r}).read()
        names = {{}}
        exec("".join(json.loads(text)["cells"][0]["source"]), names)
        return names["{NAME}"](q, k, v)
    """,
    "asking the check for it": f"from course_tools.notebook import check; return check('04.1', {NAME})(q, k, v)",
    "a reducer": "class R:\\n    def __reduce__(self): return (os.system, ('id',))\\nreturn R(), R()".replace("\\n", "\n    "),
    "claiming not to have started": "raise NotImplementedError()",
    "a name for the exit": "raise SystemExit(0)",
    "an exit without goodbye": "os._exit(0)",
    "an exit by a signal": "os.kill(os.getpid(), signal.SIGKILL)",
    "a crash": "ctypes.string_at(0)",
    "a recursion without end": "return attack(q, k, v)",
    "a thread that stays": "threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start(); os._exit(0)",
}
HARMFUL = {
    "forks": "[os.fork() for _ in range(12)]",
    "a daemon": "os.setsid() if os.fork() == 0 else None; time.sleep(0.2)",
    "a program": "subprocess.run(['touch', {canary!r}])",
    "the shell": "os.system('touch ' + {canary!r})",
    "a program by hand": "ctypes.CDLL(None).execve(b'/usr/bin/touch', None, None)",
    "a file": "open({canary!r}, 'w').write('x')",
    "a file by a system call": "ctypes.CDLL(None).open({canary!r}.encode(), 0o101, 0o666)",
    "a file of torch": "torch.save(torch.ones(3), {canary!r})",
    "a folder": "os.makedirs({canary!r})",
    "a link": "os.symlink('/etc', {canary!r})",
    "removing a file": "os.remove({witness!r})",
    "emptying a file": "os.truncate({witness!r}, 0)",
    "opening the modes of a file": "os.chmod({witness!r}, 0)",
    "memory": "hoard = [torch.empty(2**26) for _ in range(64)]",
    "memory in one piece": "bytearray(2**36)",
    "a flood of output": "print('x' * 10**6); sys.stderr.write('y' * 10**6); os.write(1, b'z' * 10**6)",
    "killing the grader": "os.kill({grader}, signal.SIGKILL)",
    "killing the zygote": "os.kill(os.getppid(), signal.SIGKILL)",
    "killing everybody": "os.kill(-1, signal.SIGKILL)",
    "the grader's limits": "import resource; resource.prlimit({grader}, resource.RLIMIT_CPU, (0, 0))",
    "the grader's memory": "open('/proc/{grader}/mem', 'r+b').write(b'x')",
    "a connection": "socket.create_connection(('127.0.0.1', {port}), 1).send(b'x')",
    "a server": "socket.create_server(('127.0.0.1', 0))",
}


@pytest.mark.parametrize("attack", POINTLESS.values(), ids=POINTLESS)
def test_an_attack_on_the_verdict_earns_nothing(mark_of, attack):
    mark = mark_of(cell(attack))
    assert (mark.passed, mark.points) == (False, 0)
    assert mark.status in ("judged", "no answer", "not started")


@pytest.mark.skipif(not LINUX, reason="only Linux has every isolation layer")
@pytest.mark.parametrize("attack", HARMFUL.values(), ids=HARMFUL)
def test_an_attack_on_the_machine_does_nothing(mark_of, engine, tmp_path, attack):
    if not engine.level.full:
        pytest.skip(str(engine.level))
    canary, witness = tmp_path / "canary", tmp_path / "witness"
    witness.write_text("as it was")
    witness.chmod(0o640)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.0)
        names = {"canary": str(canary), "witness": str(witness), "grader": os.getpid(), "port": server.getsockname()[1]}
        mark = mark_of(cell(attack.format(**names)))
        with pytest.raises(BlockingIOError):
            server.accept()
    assert (mark.passed, mark.points) == (False, 0)
    assert not canary.exists()
    assert not canary.is_symlink()
    assert witness.read_text() == "as it was"
    assert witness.stat().st_mode & 0o777 == 0o640
    assert psutil.Process(engine._sandbox._process.pid).children(recursive=True) == []


def test_an_endless_loop_costs_its_exercise_and_is_ended(mark_of, monkeypatch):
    """A statement that is stopped is passed over, and the answer without its name judged; an unstoppable one ends it."""
    monkeypatch.setattr("course_tools.grading.sandbox.session.LOAD_LIMIT", 2.0)
    monkeypatch.setattr("course_tools.grading.sandbox.session.CALL_LIMIT", 2.0)
    outside = mark_of(f"x = [None for _ in iter(int, 1)]\n\ndef {NAME}(q, k, v, mask=None): return x")
    within = mark_of(cell("while True:\n        try: time.sleep(9)\n        except BaseException: pass"))
    assert (outside.status, outside.points) == ("judged", 0)
    assert "name 'x' is not defined" in outside.findings[0].detail
    assert (within.status, within.points) == ("no answer", 0)
    assert within.detail == "The code outside functions was still running after 2 seconds in which it did not compute."


def test_an_honest_answer_in_the_same_dress_earns_all_points(mark_of):
    """Else the tests above would pass for another reason than the one they name."""
    mark = mark_of(cell("return None", RIGHT))
    assert (mark.status, mark.points, mark.passed) == ("judged", mark.max_points, True)


def test_that_the_inputs_are_unchanged_is_reported_from_inside(mark_of):
    """The one thing that cannot be seen from outside. Who can forge it can also call `clone`, so it earns no more than that."""
    forged = """
        frame = sys._getframe()
        while frame:
            if "_same" in frame.f_globals: frame.f_globals["_same"] = lambda before, after: True
            frame = frame.f_back
    """
    honest, forger = (mark_of(cell(attack, f"changed(q, {RIGHT})") + CHANGES) for attack in ("return None", forged))
    assert (honest.points, forger.points) == (honest.max_points - 1, honest.max_points)


def test_a_report_tells_no_input_and_no_expected_number(mark_of):
    leaks = [
        "if q is not None: raise ValueError(str(q.tolist()))",
        "if q is not None: raise type('V' + '_'.join(str(x) for x in q.flatten()[:3].tolist()), (Exception,), {})('x')",
        "if q is not None: return [str(x) for x in q.flatten().tolist()]",
        "if q is not None: return q.flatten().tolist()",
        "return (v, q @ k.mT) if q is not None else None",
    ]
    for leak in leaks:
        code = (
            cell(leak).replace("except Exception", "except ZeroDivisionError").replace("try:\n    attack()", "try:\n    pass")
        )
        mark = mark_of(code)
        reported = " ".join(f"{finding.detail} {finding.example}" for finding in mark.findings)
        assert reported.strip()
        assert not any(finding.numbers for finding in mark.findings)
        assert not re.search(r"\d\.\d\d", reported), reported
