"""What attacks aim at: files, doors, secrets and the grader itself, and what of them has been touched."""

import builtins
import contextlib
import ctypes
import os
import random
import resource
import secrets
import shutil
import signal
import socket
import sys
import sysconfig
import threading
from pathlib import Path

import psutil
import torch

from course_tools.grading.sandbox.readable_files import readable
from course_tools.grading.sandbox.worker import SCRATCHES, scratch_folder
from tests.course_tools.grading.attacks.stage import ROOT

SECRET_NAME, SECRET = f"ATTACK_{secrets.token_hex(4)}", f"secret-{secrets.token_hex(8)}"


class Host:
    """`known` is what attacks are reported; `traces` is what they left behind, which is then cleared away."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tag = folder, f"atk{secrets.token_hex(4)}"
        shared = next(Path(folder) for folder in reversed(SCRATCHES) if folder != scratch_folder(readable()))
        places = {"marker": folder, "at_home": Path.home(), "in_the_course": ROOT, "in_memory": shared}
        places["in_the_packages"] = Path(sysconfig.get_path("purelib"))
        self.markers = {name: place / self.tag for name, place in places.items()}
        self.witness = folder / "results" / "grades.csv"
        self.signals: list[int] = []
        self.lines = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
        self.lines += [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)]
        for line, door in zip(self.lines[1:], (("127.0.0.1", 0), str(folder / "door"), f"\0{self.tag}"), strict=True):
            line.bind(door)
        for line in self.lines:
            line.setblocking(False)
            if line.type == socket.SOCK_STREAM:
                line.listen()
        self._in_memory = ctypes.create_string_buffer(SECRET.encode())
        self._before = signal.signal(signal.SIGUSR1, lambda number, frame: self.signals.append(number))
        self._restore()

    @property
    def known(self) -> dict[str, object]:
        """Plain texts and numbers."""
        return {
            **{name: str(path) for name, path in self.markers.items()},
            "tag": self.tag,
            "witness": str(self.witness),
            "course": str(ROOT),
            "home": str(Path.home()),
            "reference": str(ROOT / "course_lib" / "attention" / "dot_product.py"),
            "grader": os.getpid(),
            "address": ctypes.addressof(self._in_memory),
            "secret_name": SECRET_NAME,
            "secret_length": len(SECRET),
            "port": self.lines[0].getsockname()[1],
            "letters": self.lines[1].getsockname()[1],
            "door": str(self.folder / "door"),
        }

    def traces(self) -> list[str]:
        """What happened since the last time, in words."""
        new = [(name, path) for name, place in self.markers.items() for path in place.parent.glob(f"{self.tag}*")]
        found = [f"{name} exists" for name, _ in new]
        found += [] if self._witnessed() == self._as_it_was else ["the witness has changed"]
        found += [f"signal {number} came" for number in self.signals]
        found += [f"line {n} was used" for n, line in enumerate(self.lines) if _used(line)]
        found += [f"process {pid} stays" for pid in self._end_processes()]
        for _, path in new:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self.signals.clear()
        self._restore()
        return found

    def close(self) -> None:
        signal.signal(signal.SIGUSR1, self._before)
        for line in self.lines:
            line.close()

    def _end_processes(self) -> list[int]:
        """End what bears the tag, and what it starts meanwhile; a signal takes its time, so look until none is left."""
        ended: set[int] = set()
        while left := {pid for pid, (_, name) in processes().items() if name == self.tag}:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            ended |= left
        return sorted(ended)

    def _restore(self) -> None:
        shutil.rmtree(self.witness.parent, ignore_errors=True)
        self.witness.parent.mkdir()
        self.witness.write_text(f"student,points\n{SECRET},7\n")
        self.witness.chmod(0o640)
        self._as_it_was = self._witnessed()

    def _witnessed(self) -> object:
        if not self.witness.exists():
            return None
        now = self.witness.stat()
        notes = os.listxattr(self.witness) if sys.platform == "linux" else []
        return self.witness.read_text(), now.st_mode, now.st_mtime_ns, now.st_ctime_ns, now.st_nlink, notes


def state_of_the_grader() -> dict[str, object]:
    """What of this process a student's code might have changed."""
    family = [psutil.Process(pid) for pid in family_of(os.getpid())]
    owners = {"builtins": builtins, "torch": torch, "Tensor": torch.Tensor, "testing": torch.testing}
    mine = {name: id(module) for name, module in sys.modules.items() if name.startswith(("torch", "course_lib", "json"))}
    return {
        "modules": mine,
        **{name: {key: id(thing) for key, thing in vars(owner).items() if key != "_"} for name, owner in owners.items()},
        "ways": [*sys.path, *map(id, sys.meta_path), *map(id, sys.path_hooks)],
        "environment": dict(os.environ),
        "place": os.getcwd(),
        "defaults": (torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()),
        "random": (torch.get_rng_state().sum().item(), hash(random.getstate())),
        "limits": [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")],
        "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0,
        "rights": (os.getuid(), os.getgid(), os.sched_getaffinity(0)),
        "family": [child.pid for child in family],
        "doors": [line.laddr for child in family for line in child.net_connections("all")],
    }


def processes() -> dict[int, tuple[int, str]]:
    """Each living process with its parent and its name; one that has ended and waits to be asked for its result is none."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, _, rest = path.read_text(errors="replace").partition(" (")
            name, _, state = rest.rpartition(") ")
            alive, parent = state.split()[:2]
            if alive not in "ZX":
                found[int(pid)] = int(parent), name
    return found


def family_of(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    known, family = processes(), [pid]
    for parent in family:
        family += sorted(child for child, (above, _) in known.items() if above == parent)
    return family[1:]


def changes(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    """What is not as it was; a name that is new, such as a module that was imported meanwhile, is no change."""
    named = {what for what, now in after.items() if isinstance(now, dict) and what != "environment"}
    known = {
        what: {key: now[key] for key in before[what] if key in now} if what in named else now for what, now in after.items()
    }
    return {what: now for what, now in known.items() if now != before[what]}


def _used(line: socket.socket) -> bool:
    """Whether somebody connected or wrote; all that waits is taken."""
    used = False
    while True:
        try:
            line.accept()[0].close() if line.type == socket.SOCK_STREAM else line.recv(100)
        except BlockingIOError:
            return used
        used = True
