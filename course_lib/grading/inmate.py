"""What runs inside the sandbox: a zygote that imports torch once, and one fork of it for each answer.

It is started as text, by `python -I -S`, where `course_lib` cannot be imported; the modules it uses come as text too, and none
of them holds a reference. Whatever is here, a student's code can change once it runs: nothing that is said from here is
believed, it is only compared.
"""

import ast
import gc
import linecache
import math
import os
import signal
import socket
import sys
import types
import warnings

import torch

from course_lib.exercises.outcome import Outcome, observe
from course_lib.grading import frames, pretend, walls

STATE = "/course_lib/grading/"
FUTURE = __import__("__future__").annotations.compiler_flag


def serve(control: socket.socket, settings: dict) -> None:
    """Fork an inmate for every connection that comes over `control`, until it is closed; one at a time.

    The answer to a connection is the number of the process; `b"e"` then ends it, and the answer is how it ended.
    """
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    _warm_up()
    walls.prepare()
    gc.collect()
    gc.freeze()
    control.sendall(b"r")
    while True:
        order, handed, _, _ = socket.recv_fds(control, 1, 1)
        if not order or not handed:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            control.close()
            _live(socket.socket(fileno=handed[0]), settings)
        os.close(handed[0])
        control.sendall(pid.to_bytes(4, "big"))
        over = control.recv(1)
        control.sendall(walls.end(pid).to_bytes(4, "big", signed=True))
        if not over:
            os._exit(0)


def _warm_up() -> None:
    """Load what nearly every answer needs. Nothing is differentiated here: autograd does not survive a fork."""
    import einops
    import jaxtyping  # noqa: F401

    x = torch.randn(2, 3, 4)
    einops.rearrange(x @ x.mT, "B T d -> B d T").softmax(-1)
    einops.einsum(x, x, "b i d, b j d -> b i j")
    torch.nn.functional.scaled_dot_product_attention(x, x, x)


def _live(connection: socket.socket, settings: dict) -> None:
    """Be one inmate: close the walls, load the program, answer calls; never return."""
    try:
        walls.close(settings, connection.fileno())
        warnings.simplefilter("ignore")
        request, _ = frames.receive(connection, math.inf, largest_header=2**24)
        if request.get("probe"):
            frames.send(connection, walls.probe(settings), [], math.inf)
            os._exit(0)
        answer, forbids = _load(connection, request)
        while True:
            header, body = frames.receive(connection, math.inf, largest_body=2**28)
            *call, gradients = frames.full(header, body)
            tensors: list[torch.Tensor] = []
            frames.send(connection, _said(observe(answer, tuple(call), gradients, forbids), tensors), tensors, math.inf)
    except frames.Ended:
        os._exit(0)
    finally:
        os._exit(1)


def _load(connection: socket.socket, request: dict) -> tuple[object, dict]:
    """Run the parts of a program, and say what became of the function it should define."""
    pretend.install(request["kit"])
    main = types.ModuleType("__main__")
    shell = pretend.Anything()
    vars(main).update(get_ipython=lambda: shell, display=lambda *shown, **options: None)
    sys.modules["__main__"] = main
    failed = _run(request["parts"], vars(main))
    missing = object()
    answer = vars(main).get(request["function"], missing)
    found = answer is not missing
    frames.send(connection, {"found": found, "failed": None if found else _failure(failed)}, [], math.inf)
    forbids = {function: "" for name in request["forbids"] if (function := pretend.find(name)) is not None}
    return answer, forbids


def _run(parts: list[dict], namespace: dict) -> BaseException | None:
    """Run statements one by one. One that fails is passed over; one that lacks a name is tried again after the others."""
    waiting, failed = [], None
    for part in parts:
        name, source = part["name"], part["source"]
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        body = ast.parse(source, name).body
        waiting += [(name, body[i]) for i in part["take"]]
    while waiting:
        again = []
        for name, statement in waiting:
            try:
                exec(compile(ast.Module([statement], []), name, "exec", FUTURE, dont_inherit=True), namespace)
            except NameError as error:
                again.append((name, statement))
                failed = failed or error
            except BaseException as error:
                failed = failed or error
        if len(again) == len(waiting):
            break
        waiting = again
    return failed


def _said(outcome: Outcome, tensors: list[torch.Tensor]) -> dict:
    """Write an outcome as a header; the order of the tensors is that of its results, then its gradients."""
    return {
        "results": frames.flat(outcome.results, tensors),
        "gradients": frames.flat(outcome.gradients, tensors),
        "names": [str(name)[:64] for name in outcome.names[:64]],
        "changed": list(outcome.changed),
        "called": sorted(outcome.called),
        "failure": _failure(outcome.error, outcome.where),
    }


def _failure(error: BaseException | None, where: str = "") -> dict | None:
    if error is None:
        return None
    try:
        text = str(error)
    except Exception:
        text = ""
    kind = type(error)
    clean = text[: frames.LONGEST_TEXT].encode("utf-8", "replace").decode()
    return {"module": str(kind.__module__)[:100], "kind": kind.__name__[:100], "text": clean, "where": where[:400], "bare": not error.args}


signal.signal(signal.SIGINT, signal.SIG_IGN)
