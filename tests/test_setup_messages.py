"""Messages of course.py if the set-up fails: one clear message, a way to fix it, exit status 1 and no traceback."""

import errno
import importlib.util
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = """[project]
name = "small"
version = "1"
dependencies = ["torch>=2", "a-package-that-is-nowhere>=1"]
optional-dependencies = { data = [], course = [], test = [] }
"""
NO_CONNECTION = """
Collecting async-timeout
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<urllib3.connection.HTTPSConnection object>:
Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/torch/
"""
NOT_FOUND = """
ERROR: Could not find a version that satisfies the requirement torch<2.14,>=2.11 (from versions: none)
ERROR: No matching distribution found for torch<2.14,>=2.11
"""
NO_SPACE = "Collecting torch\nERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def course(tmp_path, monkeypatch):
    """course.py of a copy, as a module, with enough disk space; its command does nothing."""
    shutil.copy(ROOT / "course.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    spec = importlib.util.spec_from_file_location("course_of_the_copy", tmp_path / "course.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "start", lambda python, command: 0)
    monkeypatch.setattr(module, "has_index", lambda: True)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: Usage(9e9, 0, 9e9))
    pip_prints(module, monkeypatch, "", status=0)
    return module


def pip_prints(course, monkeypatch, text, status=1):
    """Replace pip by a process that prints a text and ends with a status, and venv by a silent one."""

    def process(command, **options):
        script = f"import sys; print({text!r}); sys.exit({status})" if "pip" in command else ""
        return subprocess.Popen([sys.executable, "-c", script], **options)

    monkeypatch.setattr(course, "subprocess", namedtuple("Module", "Popen DEVNULL")(process, subprocess.DEVNULL))


@pytest.fixture
def refusal(course, capsys):
    """Call `course.py lab`, which must fail, and return its message."""

    def call():
        assert course.main(["lab"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert "Traceback" not in err
        return err

    return call


def test_the_set_up_of_these_tests_succeeds_when_nothing_is_wrong(course, capsys):
    assert course.main(["lab"]) == 0
    assert "ready after" in capsys.readouterr().err


def test_network_absent(course, refusal, monkeypatch):
    pip_prints(course, monkeypatch, NO_CONNECTION + NOT_FOUND)
    said = refusal()
    assert "There is no network" in said
    assert "torch<2.14,>=2.11" in said
    log = course.ROOT / ".venv" / "course-setup.log"
    assert str(log) in said
    assert "name resolution" in log.read_text()


def test_package_not_in_the_index(course, refusal, monkeypatch):
    pip_prints(course, monkeypatch, "Collecting async-timeout" + NOT_FOUND)
    said = refusal()
    assert f"pip finds no torch<2.14,>=2.11 for Python {sys.version_info[0]}.{sys.version_info[1]}" in said
    assert "There is no network" not in said


def test_pip_fails_for_another_reason(course, refusal, monkeypatch):
    pip_prints(course, monkeypatch, "ERROR: the moon is full")
    assert "installing the packages.\nLast output: ERROR: the moon is full" in refusal()


@pytest.mark.parametrize("trouble", ["before", "in pip", "before pip could say so", "in a file"])
def test_disk_full(course, refusal, monkeypatch, trouble):
    if trouble == "before":
        monkeypatch.setattr(course.shutil, "disk_usage", lambda path: Usage(9e9, 7e9, 1.2e9))
    elif trouble == "in pip":
        pip_prints(course, monkeypatch, NO_SPACE)
    elif trouble == "before pip could say so":
        room = iter([9e9, 1e6])
        monkeypatch.setattr(course.shutil, "disk_usage", lambda path: Usage(9e9, 0, next(room)))
        pip_prints(course, monkeypatch, "")
    else:
        refuse_to_write(monkeypatch, errno.ENOSPC)
    said = refusal()
    assert "disk is full" in said
    assert "3 GB in" in said
    assert "TMPDIR" in said
    assert ("1.2 GB are free" in said) == (trouble == "before")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_read_only_folder(refusal, monkeypatch, code):
    refuse_to_write(monkeypatch, code)
    said = refusal()
    assert ".venv is not writable" in said
    assert "folder of your own" in said


def test_another_error_of_the_system(refusal, monkeypatch):
    refuse_to_write(monkeypatch, errno.EIO)
    assert os.strerror(errno.EIO) in refusal()


def refuse_to_write(monkeypatch, code):
    def mkdir(path, *arguments, **options):
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(Path, "mkdir", mkdir)


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_venv_missing(course, refusal, monkeypatch, module):
    find = importlib.util.find_spec
    monkeypatch.setattr(course.importlib.util, "find_spec", lambda name: None if name == module else find(name))
    assert "sudo apt install python3-venv" in refusal()
    assert list(course.VENV.iterdir()) == [course.LOCK]


def test_intel_mac(course, refusal, monkeypatch):
    monkeypatch.setattr(course.sys, "platform", "darwin")
    monkeypatch.setattr(course.platform, "machine", lambda: "x86_64")
    assert "Intel Macs" in refusal()
    monkeypatch.setattr(course.platform, "machine", lambda: "arm64")
    assert course.main(["lab"]) == 0


def test_where_pytorch_without_cuda_cannot_be_reached_cuda_is_announced(course, monkeypatch, capsys):
    def run(command, label):
        if "--index-url" in command:
            raise course.Stop("There is no network.")

    monkeypatch.setattr(course, "run", run)
    monkeypatch.setattr(course, "without_gpu", lambda: True)
    monkeypatch.setattr(course, "has_index", lambda: False)
    assert course.main(["lab"]) == 0
    assert "pip may now download CUDA (3 GB)" in capsys.readouterr().err
    shutil.rmtree(course.VENV)
    assert course.main(["lab", "--cpu"]) == 1
    assert "There is no network." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("system", "machine", "program", "without"),
    [
        ("linux", "x86_64", None, True),
        ("linux", "x86_64", "/usr/bin/nvidia-smi", False),
        ("linux", "aarch64", None, False),
        ("win32", "x86_64", None, False),
    ],
)
def test_only_on_linux_without_a_gpu_cuda_would_come_for_nothing(course, monkeypatch, system, machine, program, without):
    monkeypatch.setattr(course.sys, "platform", system)
    monkeypatch.setattr(course.platform, "machine", lambda: machine)
    monkeypatch.setattr(course.shutil, "which", lambda name: program)
    monkeypatch.setattr(course.Path, "exists", lambda path: False)
    assert course.without_gpu() is without


def test_interrupted_by_hand(course, monkeypatch, capsys):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(course, "run", interrupt)
    assert course.main(["lab"]) == 130
    assert "next call resumes the set-up" in capsys.readouterr().err
