"""Lectures for Google Colab: each begins with a cell that clones the course and installs what Colab lacks."""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell

from course_tools.publishing.build import text
from course_tools.publishing.project import PublishingFailed, lectures

_SET_UP = """\
# Google Colab: clone the course and install what Colab lacks. Run this cell first, once in each session.
import subprocess
import sys
import tomllib
from pathlib import Path

COURSE = Path.cwd() / "attention-course"
if not COURSE.exists():
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", {repository!r}, str(COURSE)], check=True)
project = tomllib.loads((COURSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
wanted = [*project["dependencies"], *extras["data"], *extras["course"]]
wanted = [line for line in wanted if not line.startswith(("jupyterlab", "ipywidgets"))]  # Colab brings its own interface
subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *wanted], check=True)
if str(COURSE) not in sys.path:
    sys.path.insert(0, str(COURSE))
"""
"""The version ranges are read from the clone, so that an older notebook uses those of the current course."""


def write_colab(root: Path, out: Path, repository: str) -> list[Path]:
    """Write every lecture, unsolved, as a notebook that sets itself up on Google Colab.

    Args:
        root: the folder of the course.
        out: the output folder; created if it is missing. Notebooks of earlier calls are replaced.
        repository: the https address from which `git clone` fetches the course without a password.

    Returns:
        The notebooks, in the order of the lectures.

    Raises:
        PublishingFailed: the address does not use https, or a lecture has not been built.
    """
    if not repository.startswith("https://") or len(repository.split()) != 1:
        raise PublishingFailed(f"Colab clones from an https address, such as https://host/name/course.git, not {repository!r}.")
    set_up = new_code_cell(_SET_UP.format(repository=repository), id="colab-set-up", metadata={"tags": ["colab"]})
    written = []
    for lecture in lectures(root):
        if not lecture.unsolved.exists():
            raise PublishingFailed(f"{lecture.name(lecture.unsolved)} does not exist: run `python course.py build`.")
        notebook = nbformat.read(lecture.unsolved, as_version=4)
        first = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
        notebook.cells.insert(first, set_up)
        out.mkdir(parents=True, exist_ok=True)
        path = out / lecture.unsolved.name
        path.write_bytes(text(notebook).encode())
        written.append(path)
    return written
