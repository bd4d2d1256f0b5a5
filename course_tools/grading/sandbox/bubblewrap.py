"""An outer layer, where COURSE_BUBBLEWRAP=1 asks for it: the sandbox lives in a file system that holds Python and nothing else.

The layers of `hardening` stay as they are inside of it. What they refuse to open is not even there: the course, your files, the
processes of others. bubblewrap: https://github.com/containers/bubblewrap
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from course_tools.grading.sandbox.readable_files import SINGLE, SYSTEM, course_folders, package_folders

TRIAL_LIMIT = 20.0
"""Seconds in which a trial must end."""


def wrapped(command: list[str]) -> list[str]:
    """Put bubblewrap before the command of a program, where that works here; else give the command as it is."""
    return command if missing() else [*_arguments(), *command]


@cache
def missing() -> str:
    """Say why there is no outer layer on this machine; "" where there is one."""
    if os.environ.get("COURSE_BUBBLEWRAP") != "1":
        return "COURSE_BUBBLEWRAP=1 does not ask for bubblewrap"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    try:
        trial = [*_arguments(), sys.executable, "-I", "-S", "-c", ""]
        done = subprocess.run(trial, capture_output=True, text=True, timeout=TRIAL_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {type(error).__name__}"
    return "" if done.returncode == 0 else f"bubblewrap does not start: {done.stderr.strip()[-200:]}"


def _arguments() -> list[str]:
    """No network, no other process, nothing to write to but an empty /tmp and /dev, and of the disk what Python needs."""
    program = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev"]
    shown = [*map(Path, SYSTEM), *map(Path, SINGLE), *_python(), *map(Path, package_folders())]
    shown = [path for path in dict.fromkeys(shown) if path.exists() and not path.is_relative_to("/dev")]
    mounts = [part for path in sorted(shown, key=lambda path: len(path.parts)) for part in ("--ro-bind", str(path), str(path))]
    hidden = [folder for folder in course_folders() if any(folder.is_relative_to(path.resolve()) for path in shown)]
    empty = [part for folder in hidden for part in ("--tmpfs", str(folder), "--remount-ro", str(folder))]
    return [*program, *mounts, *empty, "--tmpfs", "/tmp", "--remount-ro", "/"]


def _python() -> list[Path]:
    """The interpreter, also under the names by which it is called, and the standard library."""
    executable = Path(sys.executable)
    library = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")]
    links = [executable, executable.parent.parent / "pyvenv.cfg", executable.resolve()]
    return [*links, Path(sys.base_prefix, "lib"), *library]
