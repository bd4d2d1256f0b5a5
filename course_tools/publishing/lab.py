"""`course lab`: open JupyterLab on the student's own copies of the lectures."""

import errno
import json
import os
import shutil
import socket
import tempfile
from pathlib import Path

from course_tools.publishing.project import PublishingFailed, lectures, project_root
from course_tools.publishing.student_copies import copy_lectures


def lab(no_browser: bool, port: int | None, number: str | None = None) -> int:
    """Copy new lectures to `work/`, start JupyterLab there, and wait until it ends.

    Without a port, Jupyter takes the first free one from 8888. A requested port is used, or the command fails.

    Args:
        no_browser: print the address without opening a browser.
        port: the port to listen on, 1 to 65535.
        number: the lecture to open, such as "04"; None = the first.

    Returns:
        The exit status: 0.

    Raises:
        NotACourse: the folder of the course cannot be found.
        UnknownLecture: there is no lecture of this number.
        PublishingFailed: the port is in use or not permitted, or `work/` cannot be written.
    """
    root = project_root()
    if port is not None:
        _refuse_if_taken(port)
    opened = lectures(root, [number])[0].unsolved.name if number else None
    folder = copy_lectures(root)
    print("Starting JupyterLab; Ctrl-C ends it.", flush=True)
    from jupyterlab.commands import get_app_dir
    from jupyterlab.labapp import LabApp  # a slow import that only this command needs

    with tempfile.TemporaryDirectory(prefix="course-lab-") as settings:
        _settle(Path(get_app_dir()) / "settings", Path(settings))
        LabApp.launch_instance(
            argv=[*_options(root, folder, no_browser, port, opened), f"--LabApp.app_settings_dir={settings}"]
        )
    return 0


def _settle(installed: Path, ours: Path) -> None:
    """Copy JupyterLab's settings; disable its news prompt unless the settings decide it."""
    if installed.is_dir():
        shutil.copytree(installed, ours, dirs_exist_ok=True)
    file = ours / "overrides.json"
    overrides = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    overrides.setdefault("@jupyterlab/apputils-extension:notification", {}).setdefault("fetchNews", "false")
    file.write_text(json.dumps(overrides), encoding="utf-8")


def _options(root: Path, folder: Path, no_browser: bool, port: int | None, opened: str | None) -> list[str]:
    """Return Jupyter's options: the course as root folder, a lecture of the student's, no news, no update checks."""
    first = next(iter(sorted(folder.glob(opened or "[0-9][0-9]_*.ipynb"))), None)
    options = [
        f"--ServerApp.root_dir={root}",
        "--LabApp.default_url=/lab/tree/" + ("lectures" if first is None else f"{folder.name}/{first.name}"),
        "--ServerApp.allow_root=True",  # for containers; the server listens on localhost only and requires a token
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if no_browser:
        options.append("--no-browser")
    if port is not None:
        options += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    return options


def _refuse_if_taken(port: int) -> None:
    """Try to bind the port as Jupyter does; raise an error that says what to do if this fails."""
    if not 1 <= port <= 65535:
        raise PublishingFailed(f"port {port} does not exist: ports range from 1 to 65535.")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        if os.name == "posix":  # so that a port that was closed a moment ago counts as free
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno == errno.EACCES:
                reason = f"no permission to use port {port}: choose 1024 or higher"
            else:
                reason = f"port {port} is in use by another program: choose another with --port"
            raise PublishingFailed(f"{reason}, or omit --port and Jupyter finds a free one.") from error
