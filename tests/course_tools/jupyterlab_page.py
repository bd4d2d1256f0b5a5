"""JupyterLab as started by `course lab`, in a real browser, for tests of what a student sees."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path

import nbformat
import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
PATIENCE = 120_000
"""Milliseconds; generous, because a kernel on a busy machine is slow and no test depends on speed."""

WITH_A_BROWSER = "needs a browser: install Chromium, and run `python3 course.py setup site`"


@contextlib.contextmanager
def browser() -> Iterator[object]:
    """Start Chromium; the test is skipped with a reason if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason=WITH_A_BROWSER)
    pytest.importorskip("axe_playwright_python", reason=WITH_A_BROWSER)
    if CHROMIUM is None:
        pytest.skip(WITH_A_BROWSER)
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS.split())
        yield opened
        opened.close()


@contextlib.contextmanager
def jupyterlab(root: Path) -> Iterator[str]:
    """Start `course lab` on a course in a folder, with its own settings; return the address of its first lecture."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = (
        "import pathlib; from course_tools.publishing import lab; options = lab._options;"
        f"lab.project_root = lambda: pathlib.Path({str(root)!r});"
        "lab._options = lambda *given: [*options(*given), '--LabApp.expose_app_in_browser=True'];"
        f"lab.lab(True, {port})"
    )
    folders = {f"JUPYTER_{name}_DIR": str(root / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    folders |= {f"JUPYTERLAB_{name}_DIR": str(root / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_VERSION")}
    environment |= folders | {"COURSE_PROGRESS": str(root / "progress.jsonl"), "PYTHONPATH": os.pathsep.join(sys.path)}
    log = root / "jupyterlab.log"
    with log.open("w") as stderr:
        server = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=stderr, cwd=root)
        try:
            while True:
                found = re.search(rf"http://127\.0\.0\.1:{port}/\S+", log.read_text())
                if found and _accepts(port):
                    break
                assert server.poll() is None, log.read_text()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(0.1)
            yield found.group()
        finally:
            server.terminate()
            server.wait(30)


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Notebook:
    """The notebook that is open in JupyterLab, controlled by JupyterLab's commands."""

    def __init__(self, page: object, address: str) -> None:
        self.page = page
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.wait_for_function(
            "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'", polling=100
        )

    def write(self, cell: int, source: str) -> None:
        """Replace the source of a cell."""
        write = "([i, text]) => jupyterapp.shell.currentWidget.content.widgets[i].model.sharedModel.setSource(text)"
        self.page.evaluate(write, [cell, source])

    def run(self, cell: int) -> str:
        """Run a cell, and return the text below it when it has finished."""
        run = """async i => {
            jupyterapp.shell.currentWidget.content.activeCellIndex = i;
            await jupyterapp.commands.execute('notebook:run-cell');
        }"""
        self.page.evaluate(run, cell)
        return self.output(cell).text_content()

    def output(self, cell: int) -> object:
        """Return the part of the page below a cell."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-Cell-outputWrapper")

    def restart(self) -> None:
        """Restart the kernel, as the menu does after confirmation."""
        self.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.restartKernel()")

    def show_all(self) -> None:
        """Trust the stored outputs, and draw every cell, including those that are not in view."""
        self.page.evaluate("""() => {
            const content = jupyterapp.shell.currentWidget.content;
            content.notebookConfig = { ...content.notebookConfig, windowingMode: 'none' };
            content.widgets.forEach(cell => { cell.model.trusted = true; });
        }""")
        drawn = "n => document.querySelectorAll('.jp-Notebook .jp-Cell:not(.jp-mod-placeholder)').length >= n"
        self.page.bring_to_front()  # a page that the browser takes for hidden draws nothing
        self.page.wait_for_function(
            drawn, arg=self.page.evaluate("() => jupyterapp.shell.currentWidget.content.widgets.length"), polling=100
        )


def small_course(root: Path, *sources: str) -> Path:
    """Make a course with one lecture that has these code cells, and a last one that comes with its output."""
    cells = [nbformat.v4.new_code_cell(source, id=f"cell-{i}") for i, source in enumerate(sources)]
    drawn = nbformat.v4.new_output("display_data", {"text/html": "<p>a diagram</p>"})
    cells.append(nbformat.v4.new_code_cell("draw()", id="drawn", outputs=[drawn]))
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
    return course_of(root, {"01_recurrence": nbformat.v4.new_notebook(cells=cells, metadata=kernel)})


def course_of(root: Path, notebooks: Mapping[str, nbformat.NotebookNode]) -> Path:
    """Make a course of these lectures, by the names of their files."""
    for folder in ("authoring", "lectures"):
        (root / folder).mkdir()
    for stem, notebook in notebooks.items():
        (root / "authoring" / f"{stem}.py").touch()
        nbformat.write(notebook, root / "lectures" / f"{stem}.ipynb")
    return root


def violations(page: object, include: Sequence[str] = ("body",), exclude: Sequence[str] = ()) -> list[str]:
    """Run axe-core on parts of a page, by CSS selectors; return one line for each element that violates a rule."""
    axe = resources.files("axe_playwright_python") / "axe.min.js"
    page.add_script_tag(content=axe.read_text(encoding="utf-8"))
    found = page.evaluate(
        "context => axe.run(context, { resultTypes: ['violations'] })",
        {"include": [[part] for part in include], "exclude": [[part] for part in exclude]},
    )
    return [f"{rule['id']}: {node['html'][:200]}" for rule in found["violations"] for node in rule["nodes"]]
