"""The outer layer: what a program under bubblewrap cannot see, and that nothing depends on it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import course_lib
from course_tools.grading.sandbox import bubblewrap

LOOK = """
import json, os, socket, sys
def can(act):
    try:
        act()
        return True
    except OSError:
        return False
print(json.dumps({
    "course": os.path.exists(sys.argv[1]),
    "home": can(lambda: os.listdir(sys.argv[2])),
    "accounts": can(lambda: os.stat("/etc/passwd")),
    "processes": sum(name.isdigit() for name in os.listdir("/proc")),
    "write": can(lambda: open(os.path.join(sys.prefix, "written"), "w")),
    "network": can(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[3])), 5)),
}))
"""


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setenv("COURSE_BUBBLEWRAP", "1")
    bubblewrap.missing.cache_clear()
    yield
    bubblewrap.missing.cache_clear()


def seen(command: list[str]) -> dict:
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout)


def test_what_is_around_the_sandbox_is_not_there(tmp_path):
    if why := bubblewrap.missing():
        pytest.skip(why)
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        program = [sys.executable, "-I", "-S", "-c", LOOK, course_lib.__file__, str(tmp_path), port]
        outside, inside = seen(program), seen(bubblewrap.wrapped(program))
    assert all(outside[name] for name in ("course", "home", "accounts", "network"))
    assert inside == {"course": False, "home": False, "accounts": False, "processes": 2, "write": False, "network": False}


def test_the_command_stays_as_it_is_where_bubblewrap_is_not_installed(monkeypatch):
    monkeypatch.setattr("course_tools.grading.sandbox.bubblewrap.shutil.which", lambda name: None)
    assert bubblewrap.wrapped(["python", "-c", ""]) == ["python", "-c", ""]
    assert bubblewrap.missing() == "bubblewrap is not installed"


def test_the_command_stays_as_it_is_where_bubblewrap_may_not_make_namespaces(monkeypatch, tmp_path):
    refusing = tmp_path / "bwrap"
    refusing.write_text("#!/bin/sh\necho 'bwrap: no permissions to create a new namespace' >&2\nexit 1\n", encoding="utf-8")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert bubblewrap.wrapped(["python"]) == ["python"]
    assert "no permissions to create a new namespace" in bubblewrap.missing()


def test_the_file_system_inside_holds_no_folder_of_the_course_but_an_empty_one():
    arguments = bubblewrap._arguments()
    shown = {Path(arguments[i + 1]) for i, word in enumerate(arguments) if word == "--ro-bind"}
    empty = {Path(arguments[i + 1]) for i, word in enumerate(arguments) if word == "--tmpfs"}
    for folder in bubblewrap.course_folders():
        assert folder in empty or not any(folder.is_relative_to(path.resolve()) for path in shown)
    assert not shown & {Path("/"), Path("/etc"), Path.home()}
