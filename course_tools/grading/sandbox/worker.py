"""Worker process inside the sandbox: a zygote that imports torch once, and one fork of it for each answer.

It runs from text in `python -I -S`, where `course_lib` cannot be imported; the modules that it uses are sent as text too, and
none of them contains a reference. Once a student's code runs, it can change everything here: the grader does not trust the
messages of a worker, and only compares them.
"""

import contextlib
import copy
import ctypes
import gc
import json
import linecache
import math
import os
import socket
import struct
import sys
import tempfile
import types
import warnings
from dataclasses import replace
from functools import partial
from importlib.machinery import FileFinder
from itertools import count
from pathlib import Path

import torch
from torch.utils.data import dataloader

from course_tools.checks.failed_operation import FailedOperation
from course_tools.checks.outcome import Outcome, observe
from course_tools.checks.training_record import measure
from course_tools.grading.sandbox import (
    escape_attempts,
    forbidden_functions,
    hardening,
    import_shim,
    notebook_runner,
    wire_protocol,
)

HUGE_PAGE, MADV_COLLAPSE = 2**21, 25
FOREVER = wire_protocol.until(math.inf)
SCRATCHES = ("/tmp", "/dev/shm")
"""Folders of which the first without packages becomes the scratch: one that honest code writes to."""
ORDERS_BEFORE_HUGE_PAGES = 50
"""Moving memory to huge pages takes half a second, which is worthwhile if many notebooks are graded."""

_exit = os._exit


def serve(control: socket.socket, settings: dict) -> None:
    """Fork a worker for every connection that is received over `control`, until it is closed; one at a time.

    The reply to a connection is the number of the process. Then each byte "t" requests the time that it has spent, as returned
    by `hardening.time_spent`; any other byte ends the process, and the reply is its exit code. A request without a connection
    contains cells of the course, which are parsed here, once for all workers.
    """
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    _warm_up()
    rules, missing = _prepare(settings)
    _remember_packages()
    import_shim.forget()
    linecache.clearcache()
    gc.collect()
    gc.freeze()
    control.sendall(json.dumps(missing).encode().ljust(1024))
    zygote = os.getpid()
    for n_orders in count():
        if n_orders == ORDERS_BEFORE_HUGE_PAGES:
            use_huge_pages()
        order, handed, _, _ = socket.recv_fds(control, 1, 1)
        if not order:
            os._exit(0)
        if not handed:
            sources, _ = wire_protocol.receive(control, FOREVER, largest_header=2**24)
            notebook_runner.learn(sources)
            gc.freeze()
            continue
        if settings["scratch"]:
            hardening.mount_scratch(settings["scratch"])
        pid = os.fork()
        if pid == 0:
            try:
                control.close()
                _live(socket.socket(fileno=handed[0]), settings, zygote, rules, missing)
            finally:
                _exit(1)
        os.close(handed[0])
        control.sendall(struct.pack("!i", pid))
        while (over := control.recv(1)) == b"t":
            control.sendall(struct.pack("!dd", *hardening.time_spent(pid)))
        ended = hardening.end(pid)
        if settings["scratch"]:
            hardening.remove_scratch(settings["scratch"])
        control.sendall(struct.pack("!i", ended))
        if not over:
            os._exit(0)


def use_huge_pages() -> None:
    """Move the memory of this process to pages of 2 MB, so that a fork has fewer of them to copy and to free.

    Linux 6.1 and later (MADV_COLLAPSE, madvise(2)); elsewhere, or if there is not enough memory, nothing is changed.
    """
    if not hardening.LINUX:
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, access, _, device, *_ = line.split()
        first, last = (int(address, 16) for address in place.split("-"))
        first, last = -(-first // HUGE_PAGE) * HUGE_PAGE, last // HUGE_PAGE * HUGE_PAGE
        if access == "rw-p" and device == "00:00":
            for page in range(first, last, HUGE_PAGE):
                madvise(page, HUGE_PAGE, MADV_COLLAPSE)


def _prepare(settings: dict) -> tuple[int | None, dict[str, str]]:
    """Prepare what every worker inherits; return the rules for files, and why isolation layers are missing."""
    rules, missing = None, {"bubblewrap": settings["bubblewrap"]}
    settings["tells_waiting"] = hardening.tells_waiting()  # a fork that has barely run cannot determine this
    try:
        hardening.adopt_orphans()
        rules = hardening.rule_set(settings["readable"], settings["listed"])
    except OSError as error:
        missing["Landlock"] = str(error)
    try:
        hardening.isolate_network()
        missing["network"] = ""
    except OSError as error:
        missing["network"] = str(error)
    settings["scratch"] = ""
    try:
        if rules is None:
            raise OSError("it needs Landlock")
        settings["scratch"] = _prepare_scratch(settings["readable"])
        missing["scratch"] = ""
    except OSError as error:
        missing["scratch"] = str(error)
    return rules, missing


def scratch_folder(readable: list[str]) -> str | None:
    """Return the folder that each worker gets as a file system of its own: one that hides nothing readable."""
    return next((f for f in SCRATCHES if os.path.isdir(f) and not any(Path(p).is_relative_to(f) for p in readable)), None)


def _prepare_scratch(readable: list[str]) -> str:
    """Mount the scratch and try it; make it the home and current folder."""
    folder = scratch_folder(readable)
    if folder is None:
        raise OSError("Python or its packages are installed in the temporary folder")
    hardening.own_mounts()
    hardening.mount_scratch(folder)
    try:
        Path(folder, "trial").write_text("x")
    finally:
        hardening.remove_scratch(folder)
    os.environ["HOME"] = tempfile.tempdir = folder
    sys.path.insert(0, folder)
    return folder


def _warm_up() -> None:
    """Load what answers need, including the lazy imports of torch: inside, a late import could not write files.

    No gradients are computed here: autograd does not survive a fork.
    """
    import einops
    import jaxtyping  # noqa: F401
    import torch._dynamo

    with contextlib.suppress(ImportError):
        import scipy.optimize  # noqa: F401 - an exercise uses it, and its import is slow
    with contextlib.suppress(ImportError):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        pyplot.plot([0, 1])
        pyplot.gcf().canvas.draw()  # reads the fonts
        pyplot.close("all")

    tempfile.tempdir = tempfile.gettempdir()
    dataloader._MultiProcessingDataLoaderIter = _in_this_process
    x = torch.randn(2, 3, 4)
    einops.rearrange(x @ x.mT, "B T d -> B d T").softmax(-1)
    einops.einsum(x, x, "b i d, b j d -> b i j")
    torch.nn.functional.scaled_dot_product_attention(x, x, x)


def _in_this_process(loader: dataloader.DataLoader) -> dataloader._SingleProcessDataLoaderIter:
    """Iterate over a DataLoader with worker processes without them: here no process can be started."""
    alone = copy.copy(loader)
    vars(alone).update(num_workers=0, timeout=0)
    return dataloader._SingleProcessDataLoaderIter(alone)


def _remember_packages() -> None:
    """Cache the contents of the package folders: inside they cannot be listed, even if a package is installed meanwhile."""
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, FileFinder):
            finder._fill_cache()
            finder._fill_cache = lambda: None


def _live(connection: socket.socket, settings: dict, zygote: int, rules: int | None, before: dict[str, str]) -> None:
    """Run one worker: apply the isolation layers, load the program, and answer calls until the connection ends."""
    schedule = hardening.own_schedule() if settings["tells_waiting"] else []
    if settings["scratch"]:
        os.chdir(settings["scratch"])
    held = before | hardening.apply_all(settings, [connection.fileno(), *schedule], zygote, rules)
    warnings.simplefilter("ignore")
    request, allowed = wire_protocol.receive(connection, FOREVER, largest_header=2**24)
    if "secrets" in request:
        refused = escape_attempts.tried(request["secrets"], request["folder"], settings["scratch"], zygote)
        wire_protocol.send(connection, {"layers": held, "refused": refused}, [], FOREVER)
        return
    if missing_layers := [name for name in request["layers"] if held.get(name, "missing")]:
        wire_protocol.send(connection, {"missing_layers": missing_layers}, [], FOREVER)
        return
    called: set[str] = set()
    answer, forbids = _load(connection, request, allowed, called, schedule)
    ask = measure if request["trains"] else None
    with contextlib.suppress(wire_protocol.Ended):
        while True:
            header, body = wire_protocol.receive(connection, FOREVER, largest_body=2**28)
            *given, gradients, counted = wire_protocol.full(header, body)
            call = tuple(
                import_shim.find(value.name) if isinstance(value, wire_protocol.FunctionReference) else value for value in given
            )
            called.clear()
            outcome = observe(answer, call, gradients, forbids, ask, counted)
            wire_protocol.send(connection, *_encoded(replace(outcome, called=outcome.called | called)), FOREVER)


def _load(
    connection: socket.socket, request: dict, allowed: bytearray, called: set[str], schedule: list[int]
) -> tuple[object, dict]:
    """Run a notebook, and report the function that it should define.

    Only the definitions in `allowed` can be imported from the library. The names of forbidden functions that are called from
    now on are recorded in `called`. `schedule` is the file that records how long this process waited for a processor.
    """
    provided: dict[str, object] = {}
    os._exit = os.abort = _leave
    import_shim.install(allowed, provided)
    forbids = {function: "" for name in request["forbids"] if (function := import_shim.find(name)) is not None}

    def refuse(name: str) -> None:
        called.add(name)
        raise import_shim.NotAvailable(import_shim.UNUSABLE.format(name))

    forbidden_functions.disable(forbids, refuse)
    main = types.ModuleType("__main__")
    shell = import_shim.Anything()
    vars(main).update(get_ipython=lambda: shell, display=lambda *shown, **options: None)
    sys.modules["__main__"] = main
    find = import_shim.find
    choice = notebook_runner.choose(request)
    if request["chosen"] is None:  # sent before any of the student's code runs
        wire_protocol.send(connection, {"chosen": choice.places, "needed": choice.needed}, [], FOREVER)
    provide = lambda check: provided.update(check=check)  # noqa: E731
    slept = partial(hardening.own_time_slept, schedule)
    found = notebook_runner.run(request, choice, vars(main), provide, find, import_shim.StandIn, slept)
    header = {
        "found": found.is_there,
        "failed": None if found.is_there else _failure(found.failed),
        "started": found.started,
        "unparsable": found.unparsable[:200],
        "late": [list(place) for place in found.late],
        "raised": [(cell, number, kind[:100]) for cell, number, kind in found.raised[: wire_protocol.MOST_ITEMS]],
    }
    wire_protocol.send(connection, header, [], FOREVER)
    return found.answer, forbids


def _leave(*status: object) -> None:
    """Replaces `os._exit`, so that a cell that ends its process does not affect other exercises."""
    raise SystemExit(*status)


def _encoded(outcome: Outcome) -> tuple[dict, list[torch.Tensor]]:
    """Convert an outcome to a header and its tensors; one that cannot be converted or is too large becomes an error."""
    try:
        header, tensors = _written(outcome)
        text = json.dumps(header)
        n_bytes, n_items = sum(t.numel() * t.element_size() for t in tensors), text.count(",") + text.count("{")
        small = (
            n_bytes <= wire_protocol.LARGEST_BODY
            and len(text) <= wire_protocol.LARGEST_HEADER
            and n_items < wire_protocol.MOST_ITEMS
        )
        if small and (outcome.results is None or len(outcome.results) < wire_protocol.MOST_ITEMS):
            return header, tensors
        return _written(Outcome(None, error=MemoryError("the result is too large")))
    except Exception as error:
        return _written(Outcome(None, error=error))


def _written(outcome: Outcome) -> tuple[dict, list[torch.Tensor]]:
    tensors: list[torch.Tensor] = []
    header = {
        "results": wire_protocol.flat(outcome.results, tensors),
        "gradients": wire_protocol.flat(outcome.gradients, tensors),
        "changed": list(outcome.changed),
        "shared": list(outcome.shared),
        "cost": None if (cost := outcome.cost) is None else [cost.operations, list(cost.largest), cost.kernels, cost.held],
        "called": sorted(outcome.called),
        "failure": _failure(outcome.error, outcome.where),
        "failed": _failed(outcome.failed),
        "crash": None if outcome.crash is None else outcome.crash.kind,
    }
    return header, tensors


def _failed(failed: FailedOperation | None) -> list | None:
    if failed is None:
        return None
    return [failed.name[:100], [[list(one.sizes), one.mean.hex(), one.size.hex()] for one in failed.operands]]


def _failure(error: BaseException | None, where: str = "") -> dict | None:
    if error is None:
        return None
    try:
        text = str(error)
    except Exception:
        text = ""
    kind = type(error)
    clean = text[: wire_protocol.LONGEST_TEXT].encode("utf-8", "replace").decode()
    return {
        "module": str(kind.__module__)[:100],
        "kind": kind.__name__[:100],
        "text": clean,
        "where": where[:400],
        "bare": not error.args,
    }
