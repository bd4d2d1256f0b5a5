"""Set the course up and start it. It needs only Python 3.11 or newer, on Linux, macOS or Windows.

    python3 course.py lab [NN] [--no-browser] [--port N]   JupyterLab on your own copies in work/, open at 01 or NN
    python3 course.py restore NN                       a fresh copy of a lecture, next to your own
    python3 course.py test-me NN [FILE]                grade your own copy as it would be on hand-in
    python3 course.py run [NN ...] [--json FILE]       run the solved lectures; one table of what was measured
    python3 course.py test [--full] [pytest arguments] the tests; with --full everything, solved lectures included
    python3 course.py build [NN ...] [--check]         authoring/ -> lectures/ and solutions/
    python3 course.py site [NN ...] [--out DIR]        the course as web pages that need neither server nor network
    python3 course.py book [NN ...]                    the solved lectures as one PDF; needs Chromium or Chrome
    python3 course.py slides NN [--pdf]                the slides of a lecture, for teachers
    python3 course.py exam [--lectures NN,NN ...]      an exam from the bank, in forms of equal difficulty, with its key
    python3 course.py microscope [--out FILE]          the attention microscope: pages that need no server
    python3 course.py progress                         what you have solved and predicted, as text and as a page
    python3 course.py gpu-check                        the tests and timings that need a GPU, as a report (docs/gpu.md)
    python3 course.py colab --repository URL           the lectures for Google Colab, cloned from URL (docs/running.md)
    python3 course.py exercises [--json]               the list of exercises
    python3 course.py study [NAME ...]                 run or resume a longer experiment (docs/evidence.md)
    python3 course.py grade DIR_OR_ZIP [options]       grade submissions (docs/grading.md; --help)
    python3 course.py variants --secret FILE --canvas ROSTER.csv   a notebook for each student (docs/grading.md)
    python3 course.py item-analysis DIR [DIR ...]      from graded submissions: hard exercises, common misconceptions
    python3 course.py export-nbgrader DIR              the same notebooks for nbgrader, graded in the course's sandbox
    python3 course.py export-gradescope NN             a lecture's autograder for Gradescope, as a zip file
    python3 course.py export-github NN DIR --repository URL   a template repository that answers each push with feedback
    python3 course.py setup [EXTRA ...]                only the set-up, with any extras of pyproject.toml that are named

The first call creates the folder .venv next to this file (about two minutes and 2 GB); later calls start at once.
If the running Python already has every package of pyproject.toml (conda, a GPU image), no .venv is created.

    --cpu     on Linux, when .venv is created: PyTorch without CUDA, from download.pytorch.org (200 MB, not 3 GB), as it is
              taken without being asked for where there is no NVIDIA GPU and pip has no index of its own
    --help    this text

pip follows its own settings (PIP_INDEX_URL, PIP_FIND_LINKS, pip.conf ...). To start again, delete .venv.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the message that an older Python prints
    sys.exit(
        f"The course needs Python 3.11 or newer; this is {sys.version.split()[0]} ({sys.executable}).\nGet it from "
        "https://www.python.org/downloads/ or your package manager and run it by name: python3.12 course.py lab"
    )

import contextlib
import difflib
import errno
import hashlib
import importlib.util
import json
import operator
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
import tomllib
from importlib import metadata
from pathlib import Path

FREE_GB = 3.0
EXTRAS = {"test": ["test", "site", "dask"], "site": ["site"], "book": ["site"], "slides": ["site"], "gpu-check": ["test"]}
"""Extras that a command needs in addition to `data` and `course`."""
ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP, LOCK, LOG = VENV / "course-setup.json", VENV / "course-setup.lock", VENV / "course-setup.log"
KEEP = {"MALLOC_TRIM_THRESHOLD_": str(2**29), "MALLOC_MMAP_THRESHOLD_": str(2**25)}
"""On Linux, up to 512 MiB of freed tensors stay with the process; else the next come page by page, up to a third of a pass."""

COMPARE = {">=": operator.ge, "<": operator.lt, "==": operator.eq}


class Stop(Exception):
    """An error that ends the set-up; its text tells the user what is wrong and what to do."""


def main(arguments: list[str]) -> int:
    """Create the environment if necessary, run the command in it and return its exit status."""
    command = [argument for argument in arguments if argument != "--cpu"]
    if not command or command[0] in ("-h", "--help", "help"):
        print(__doc__.strip())
        return 0
    if command[0] == "--version":
        print(re.search(r'__version__ = "(.+)"', (ROOT / "course_lib" / "__init__.py").read_text(encoding="utf-8"))[1])
        return 0
    lines = re.findall(r"^    python3 (course\.py ([a-z-]+).*)$", __doc__, flags=re.MULTILINE)
    line = {name: whole for whole, name in lines}.get(command[0])
    if line is None:
        near = difflib.get_close_matches(command[0], [name for _, name in lines], n=1)
        ask = f"Did you mean {near[0]}?" if near else "`python3 course.py help` lists the commands."
        say(f"course.py has no command {command[0]!r}. {ask}")
        return 2
    if {"-h", "--help"} & {*command} and not PYTHON.exists():
        print(f"{line}\n\nIts options are listed once the course is set up, by `python3 course.py setup`.")
        return 0
    try:
        asked = command[1:] if command[0] == "setup" else EXTRAS.get(command[0], [])
        python = environment(["data", "course", *asked], cpu="--cpu" in arguments)
        return 0 if command[0] == "setup" else start(python, command)
    except (Stop, OSError) as problem:
        say(f"\n{advice(problem) if isinstance(problem, OSError) else problem}")
        return 1
    except KeyboardInterrupt:
        say("\nStopped. The next call resumes the set-up.")
        return 130


def say(text: str) -> None:
    """Print on stderr: stdout belongs to the command."""
    print(text, file=sys.stderr, flush=True)


def advice(error: OSError) -> str:
    """Explain an error of the operating system, and what the user can do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(str(error))
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"{error.filename or ROOT} is not writable, and the set-up must create {VENV}.\nCopy the course to a folder of "
            "your own, or run course.py with a Python that already has every package of pyproject.toml."
        )
    return f"The set-up failed: {error}\nDelete {VENV} and try again."


def disk_full(seen: str) -> str:
    """Report that the disk is full, and how to make room."""
    return (
        f"The disk is full: {seen}.\nThe set-up needs {FREE_GB:.0f} GB in {ROOT} and 1 GB in {tempfile.gettempdir()} (with "
        "CUDA, 8 and 3 GB; on Linux --cpu avoids it). Make room, move the course, or set TMPDIR to another folder."
    )


def environment(extras: list[str], cpu: bool = False) -> str:
    """Return the Python that has the packages: the running one, or that of .venv, created, completed or repaired first."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = pyproject["project"]
    unknown = sorted({*extras} - {*project["optional-dependencies"]})
    if unknown:
        raise Stop(f"pyproject.toml has no extra {', '.join(unknown)}; it has {', '.join(project['optional-dependencies'])}.")
    wanted = project["dependencies"] + [line for extra in extras for line in project["optional-dependencies"][extra]]
    if Path(sys.prefix).resolve() != VENV.resolve() and complete(wanted):
        return sys.executable
    decisive = [project, pyproject.get("build-system")]  # the settings of other tools have no effect here
    key = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
    if not ready(key, extras):
        VENV.mkdir(exist_ok=True)
        with LOCK.open("a") as lock:
            wait_for(lock)
            if not ready(key, extras):  # another set-up may have finished meanwhile
                set_up(key, extras, [line for line in wanted if line.startswith("torch")], cpu)
    return str(PYTHON)


def complete(wanted: list[str]) -> bool:
    """Return whether the running Python meets every requirement, such as `torch>=2.11,<2.14`."""
    named = [re.fullmatch(r"([\w.-]+)(.*)", requirement).groups() for requirement in wanted]
    with contextlib.suppress(metadata.PackageNotFoundError):
        return all(in_range(metadata.version(name) or "", bounds) for name, bounds in named)
    return False


def in_range(version: str, bounds: str) -> bool:
    """Return whether a version is within the bounds. A bound other than >=, < and == is not supported and counts as not met."""
    understood = re.findall(r"(>=|<|==)(\d[\d.]*)(?:,|$)", bounds)
    met = [COMPARE[sign](release(version), release(edge)) for sign, edge in understood]
    return all(met) and len(met) == len(bounds.split(",")) - (bounds == "")


def release(version: str) -> tuple[int, ...]:
    """Parse a version: 2.13.0+cpu is (2, 13, 0, 0, 0). A pre-release, common in GPU images, counts as its release."""
    numbers = re.findall(r"\d+", re.match(r"[\d.]*", version).group())
    return tuple(map(int, [*numbers, 0, 0, 0, 0, 0][:5]))


def ready(key: str, extras: list[str]) -> bool:
    """Return whether .venv is complete and up to date and contains the extras."""
    found = stamp()
    return PYTHON.exists() and found.get("key") == key and set(extras) <= set(found["extras"])


def stamp() -> dict:
    """Read the stamp of the last set-up: empty, or its extras, and its key if it finished."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return json.loads(STAMP.read_text(encoding="utf-8"))
    return {}


def wait_for(lock) -> None:
    """Allow one set-up at a time. pip inherits the lock, so a pip whose parent was killed is waited for as well."""
    with contextlib.suppress(ImportError, OSError):  # Windows protects open files itself; some file systems cannot lock
        import fcntl

        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another set-up is running on .venv: waiting until it has finished.")
            fcntl.flock(lock, fcntl.LOCK_EX)


def set_up(key: str, extras: list[str], torch: list[str], cpu: bool) -> None:
    """Create, complete or repair .venv. Its stamp loses the key first and gets it last: an interrupted set-up starts again."""
    found, begun = stamp(), time.monotonic()
    fresh = not PYTHON.exists() or (STAMP.exists() and "key" not in found)
    if sys.platform == "darwin" and platform.machine() == "x86_64":
        raise Stop(
            "PyTorch no longer provides packages for Intel Macs (2.2 was the last); the course needs a newer version.\n"
            "With Apple silicon, install a native (arm64) Python; with an Intel processor, use another computer."
        )
    if fresh and not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        raise Stop(
            f"{sys.executable} cannot create an environment: its module venv or ensurepip is missing.\n"
            "Debian, Ubuntu: sudo apt install python3-venv. Elsewhere: get Python from python.org. Then run course.py again."
        )
    free = shutil.disk_usage(ROOT).free / 1e9
    if fresh and free < FREE_GB:
        raise Stop(disk_full(f"{free:.1f} GB are free"))
    say(f"Setting up {VENV}: about two minutes and 2 GB, this time only." if fresh else f"Completing {VENV}.")
    extras = sorted({*extras, *found.get("extras", [])})
    if fresh or found:  # an environment that someone else created is completed, never replaced
        STAMP.write_text(json.dumps({"extras": extras}), encoding="utf-8")
    if fresh:
        for entry in set(VENV.iterdir()) - {STAMP, LOCK}:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        run([sys._base_executable, "-m", "venv", str(VENV)], "creating the environment")
    pip = [str(PYTHON), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    if cpu or (fresh and without_gpu() and not has_index()):
        small = [*pip, "--index-url", "https://download.pytorch.org/whl/cpu", *([] if cpu else ["--retries", "1"]), *torch]
        try:
            run(small, "installing PyTorch for the CPU")
        except Stop:
            if cpu:
                raise
            say("  No NVIDIA GPU found, but PyTorch without CUDA cannot be reached: pip may now download CUDA (3 GB).")
    try:
        run([*pip, "--editable", f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)], "installing the packages")
    except Stop:
        if found and not fresh:  # pip failed cleanly, so what worked before still works
            STAMP.write_text(json.dumps(found), encoding="utf-8")
        raise
    STAMP.write_text(json.dumps({"extras": extras, "key": key}), encoding="utf-8")
    say(f"  ready after {time.monotonic() - begun:.0f} s")


def without_gpu() -> bool:
    """Return whether PyTorch would come with CUDA and nothing here could use it."""
    on = sys.platform == "linux" and platform.machine() == "x86_64"
    return on and not shutil.which("nvidia-smi") and not Path("/proc/driver/nvidia").exists()


def has_index() -> bool:
    """Return whether pip's settings name an index or a folder of packages, which then decide where PyTorch comes from."""
    if any(map(os.environ.get, ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"))):
        return True
    known = subprocess.run(
        [str(PYTHON), "-m", "pip", "config", "list"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return bool(re.search(r"(?m)^(?!:env:).*(index-url|find-links)=", known.stdout))


def run(command: list[str], label: str) -> None:
    """Run one step of the set-up with its output in LOG; report every ten seconds what it is doing."""
    settings = {**os.environ, "PIP_USER": "0", "PIP_PROGRESS_BAR": "off", "PYTHONUNBUFFERED": "1"}
    begun, told = time.monotonic(), -1
    with LOG.open("wb") as log:  # the step inherits the open lock: close_fds=False
        step = subprocess.Popen(command, env=settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=False)
        while step.poll() is None:
            seconds = int(time.monotonic() - begun)
            if seconds // 10 > told:
                told = seconds // 10
                doing = re.findall(r"(?m)^ *((?:Collecting|Downloading|Installing) .{,70})", LOG.read_text(errors="replace"))
                say(f"  {label} ({seconds} s)  {doing[-1] if doing else ''}")
            time.sleep(0.1)
    if step.returncode:
        raise Stop(diagnosis(label, LOG.read_text(errors="replace")))


def diagnosis(label: str, output: str) -> str:
    """Explain what went wrong in a step, from its output."""
    found = re.search(r"(?:distribution found for|satisfies the requirement) ([^\s;]+)", output)
    wanted = found.group(1) if found else "a package"
    full = re.search(r"No space left on device|not enough space on the disk|Disk quota exceeded", output)
    if full or shutil.disk_usage(VENV).free < 5e7:  # too little even for an error message
        text = disk_full(f"{label} failed")
    elif re.search(r"ConnectionError|ProtocolError|ProxyError|SSLError|Max retries|timed out|getaddrinfo", output):
        text = f"There is no network, or pip cannot reach its index: it needs {wanted}.\nGo online, or set pip's proxy."
    elif found:
        where = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
        text = f"pip finds no {wanted} for {where}.\nGo online, look at pip's settings (pip config list) or try another Python."
    else:
        text = f"The step failed: {label}.\nLast output: {' '.join(output.split()[-60:])}"
    return f"{text} Then run course.py again.\nThe whole output is in {LOG}."


def start(python: str, command: list[str]) -> int:
    """Replace this process by the command on POSIX; on Windows, where that would lose the console, wait for the command."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {"PYTHONUTF8": "1", **KEEP, **os.environ, "PYTHONPATH": os.pathsep.join(path)}
    line = [python, "-P", "-m", "course_tools", *command]  # -P: this course, even if the working directory is in another copy
    if os.name != "nt":
        os.execve(python, line, settings)
    process = subprocess.Popen(line, env=settings)
    while True:
        with contextlib.suppress(KeyboardInterrupt):  # the command receives the signal too, and handles it
            return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
