"""An optional outer layer, enabled by COURSE_BUBBLEWRAP=1: the file system of the sandbox contains only Python.

The layers of `hardening` are applied inside of it unchanged. The files and processes that they block do not exist there: the
course, the user's files, other processes. bubblewrap: https://github.com/containers/bubblewrap
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
"""Time limit of a trial, in seconds."""


def wrapped(command: list[str]) -> list[str]:
    """Prefix a command with bubblewrap if it works on this machine; else return the command unchanged."""
    return command if missing() else [*_arguments(), *command]


@cache
def missing() -> str:
    """State why this machine has no outer layer; "" if it has one."""
    if os.environ.get("COURSE_BUBBLEWRAP") != "1":
        return "bubblewrap is not enabled by COURSE_BUBBLEWRAP=1"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    try:
        trial = [*_arguments(), sys.executable, "-I", "-S", "-c", ""]
        done = subprocess.run(trial, capture_output=True, text=True, timeout=TRIAL_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {type(error).__name__}"
    return "" if done.returncode == 0 else f"bubblewrap does not start: {done.stderr.strip()[-200:]}"


def _arguments() -> list[str]:
    """No network, no other processes, only an empty /tmp and /dev to write to, and only the files that Python needs."""
    program = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev"]
    shown = [*map(Path, SYSTEM), *map(Path, SINGLE), *_python(), *map(Path, package_folders())]
    shown = [path for path in dict.fromkeys(shown) if path.exists() and not path.is_relative_to("/dev")]
    mounts = [part for path in sorted(shown, key=lambda path: len(path.parts)) for part in ("--ro-bind", str(path), str(path))]
    hidden = [folder for folder in course_folders() if any(folder.is_relative_to(path.resolve()) for path in shown)]
    empty = [part for folder in hidden for part in ("--tmpfs", str(folder), "--remount-ro", str(folder))]
    return [*program, *mounts, *empty, "--tmpfs", "/tmp", "--remount-ro", "/"]


def _python() -> list[Path]:
    """The interpreter, with its symbolic links, and the standard library."""
    executable = Path(sys.executable)
    library = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")]
    links = [executable, executable.parent.parent / "pyvenv.cfg", executable.resolve()]
    return [*links, Path(sys.base_prefix, "lib"), *library]
