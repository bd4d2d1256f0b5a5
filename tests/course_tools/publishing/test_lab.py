"""`course lab`: the port, and a JupyterLab that opens the first lecture."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from course_tools.publishing import lab as module
from course_tools.publishing.lab import lab
from course_tools.publishing.project import PublishingFailed, UnknownLecture


@pytest.fixture
def taken():
    """Return the number of a port on which another program listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.fixture
def free():
    """Return the number of a port on which no program listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A small course in its own folder."""
    for name in ("authoring/01_recurrence.py", "lectures/01_recurrence.ipynb", "lectures/02_alignment.ipynb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    monkeypatch.setattr(module, "project_root", lambda: tmp_path)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def started(monkeypatch):
    """Collect the command lines with which JupyterLab would start."""
    from jupyterlab.labapp import LabApp

    lines = []
    monkeypatch.setattr(LabApp, "launch_instance", lambda argv: lines.append(argv))
    return lines


def test_a_port_asked_for_that_is_taken_is_refused(root, started, taken):
    with pytest.raises(PublishingFailed, match=f"port {taken} is in use .* choose another with --port, or omit --port"):
        lab(no_browser=True, port=taken)
    assert started == []


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_a_port_that_does_not_exist_is_refused(root, started, port):
    with pytest.raises(PublishingFailed, match="from 1 to 65535"):
        lab(no_browser=True, port=port)
    assert started == []


def test_a_port_asked_for_is_that_port_or_none(root, started, free):
    assert lab(no_browser=True, port=free) == 0
    assert {f"--ServerApp.port={free}", "--ServerApp.port_retries=0", "--no-browser"} <= set(started[0])


def test_without_a_port_jupyter_looks_for_one(root, started):
    assert lab(no_browser=False, port=None) == 0
    assert not [option for option in started[0] if option.startswith(("--ServerApp.port", "--no-browser"))]


def test_the_first_lecture_is_in_front(root, started):
    lab(no_browser=True, port=None)
    assert "--LabApp.default_url=/lab/tree/work/01_recurrence.ipynb" in started[0]


def test_the_lecture_that_was_asked_for_is_in_front(root, started):
    (root / "authoring" / "02_alignment.py").touch()
    lab(no_browser=True, port=None, number="02")
    assert "--LabApp.default_url=/lab/tree/work/02_alignment.ipynb" in started[0]
    with pytest.raises(UnknownLecture):
        lab(no_browser=True, port=None, number="77")


def test_a_lecture_is_copied_once_and_never_overwritten(root, started):
    lab(no_browser=True, port=None)
    own = root / "work" / "01_recurrence.ipynb"
    assert own.read_bytes() == (root / "lectures" / "01_recurrence.ipynb").read_bytes()
    own.write_text("hours of work")
    (root / "authoring" / "02_alignment.py").touch()
    lab(no_browser=True, port=None)
    assert own.read_text() == "hours of work"
    assert sorted(path.name for path in (root / "work").iterdir()) == ["01_recurrence.ipynb", "02_alignment.ipynb"]


def test_settings_of_this_jupyterlab_are_kept_and_an_answer_about_news_too(tmp_path):
    installed, ours = tmp_path / "installed", tmp_path / "ours"
    installed.mkdir()
    ours.mkdir()
    notification = "@jupyterlab/apputils-extension:notification"
    (installed / "page_config.json").write_text("{}")
    (installed / "overrides.json").write_text(json.dumps({"a:b": {"c": 1}, notification: {"fetchNews": "true"}}))
    module._settle(installed, ours)
    assert (ours / "page_config.json").exists()
    assert json.loads((ours / "overrides.json").read_text()) == {"a:b": {"c": 1}, notification: {"fetchNews": "true"}}
    module._settle(tmp_path / "nowhere", ours)
    (ours / "overrides.json").unlink()
    module._settle(tmp_path / "nowhere", ours)
    assert json.loads((ours / "overrides.json").read_text()) == {notification: {"fetchNews": "false"}}


def test_without_notebooks_the_folder_opens(root, started):
    for notebook in (root / "lectures").iterdir():
        notebook.unlink()
    lab(no_browser=True, port=None)
    assert "--LabApp.default_url=/lab/tree/lectures" in started[0]


def test_jupyterlab_answers_with_its_page_and_the_lecture(root, free):
    folders = {f"JUPYTER_{name}_DIR": str(root / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    script = (
        "import pathlib; from course_tools.publishing import lab;"
        f"lab.project_root = lambda: pathlib.Path({str(root)!r}); lab.lab(True, {free})"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, **folders}, stderr=subprocess.PIPE, text=True, cwd=root
    )
    try:
        lines = iter(server.stderr.readline, "")
        address = next(found.group() for line in lines if (found := re.search(rf"http://127\.0\.0\.1:{free}/\S+", line)))
        assert "/lab/tree/work/01_recurrence.ipynb?token=" in address
        page = fetch(address)
        assert '"news": {"disabled": true' in page
        settings = fetch(re.sub(r"/lab/tree/[^?]*", "/lab/api/settings/@jupyterlab/apputils-extension:notification", address))
        assert json.loads(settings)["schema"]["properties"]["fetchNews"]["default"] == "false"
        assert '"nbformat": 4' in fetch(address.replace("/lab/tree/", "/api/contents/"))
    finally:
        server.terminate()
        server.communicate(timeout=300)


def fetch(address):
    """Read a page; the address is printed a moment before the server listens."""
    deadline = time.monotonic() + 600
    while True:
        try:
            with urllib.request.urlopen(address, timeout=300) as answer:
                return answer.read().decode()
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
