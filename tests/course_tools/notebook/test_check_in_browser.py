"""The first ten minutes in JupyterLab, in a real browser: wrong, check, check again, syntax error, restart, right; alt text.

Chromium is Debian's (`apt-get install chromium`), driven by Playwright (`pip install playwright`) with `executable_path` and
the flags below; where either is missing, these tests are skipped and say so.
"""

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

CHROMIUM = shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
PATIENCE = 240_000
"""Milliseconds: a kernel imports torch, on a machine that may be busy."""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)"),
]

RIGHT = "def rnn_step(x, h, W, U, b):\n    return torch.tanh(x @ W.mT + h @ U.mT + b)"
WRONG = RIGHT.replace(" + b)", ")")
BROKEN = RIGHT.replace("):\n", ")\n")
CHECK = "rnn_step = check('01.1', rnn_step)"
CELLS = {
    "set-up": "import torch\nfrom course_tools.notebook import check, plots, show",
    "wrong": WRONG,
    "first check": CHECK,
    "second check": CHECK,
    "broken": BROKEN,
    "check of the broken": CHECK,
    "right": RIGHT,
    "check of the right": CHECK,
    "goes on": "print('shape', tuple(rnn_step(*(torch.ones(*s) for s in ((2, 3), (2, 5), (5, 3), (5, 5), (5,)))).shape))",
    "picture": "show(plots.attention_map([[1.0]]), alt='One cell & one weight.')",
}


def a_free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def lab(tmp_path):
    """Start JupyterLab on a folder with one notebook; give its address."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    nbformat.write(notebook, tmp_path / "lecture.ipynb")
    port, token = a_free_port(), secrets.token_hex(16)
    own = {f"JUPYTER_{kind}_DIR": str(tmp_path / kind.lower()) for kind in ("CONFIG", "RUNTIME")}
    settings = {"PYTHONPATH": str(Path(__file__).parents[3]), "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings"), **own}
    news = tmp_path / "settings" / "@jupyterlab" / "apputils-extension"
    news.mkdir(parents=True)
    (news / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]
    command += [f"--port={port}", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={tmp_path}"]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=log, cwd=tmp_path)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{address}/api?token={token}", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"{address}/lab/tree/lecture.ipynb?token={token}"
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.filterwarnings("default::ResourceWarning", "default::pytest.PytestUnraisableExceptionWarning")
def test_the_first_ten_minutes(lab):
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (pip install playwright)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 4000})
        page.set_default_timeout(PATIENCE)
        page.goto(lab)
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=PATIENCE)
        playwright.expect(page.locator(".jp-NotebookPanel .jp-Spinner")).to_have_count(0, timeout=PATIENCE)
        page.wait_for_function("() => window.jupyterapp !== undefined", timeout=PATIENCE)

        def run_all():
            """Run cell by cell, since a syntax error ends `run-all-cells`."""
            page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
            page.evaluate("() => window.jupyterapp.commands.execute('notebook:move-cursor-up')")
            for index, _ in enumerate(CELLS):
                page.locator(".jp-Cell").nth(index).locator(".jp-InputPrompt").click()
                page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell')")
                prompt = page.locator(".jp-Cell").nth(index).locator(".jp-InputPrompt")
                playwright.expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=PATIENCE)

        def output(name):
            return page.locator(".jp-Cell").nth(list(CELLS).index(name)).locator(".jp-OutputArea-output")

        for _ in range(2):
            run_all()
            playwright.expect(output("first check").last).to_contain_text("✗ 01.1", timeout=PATIENCE)
            playwright.expect(output("second check").last).to_contain_text("✗ 01.1")
            playwright.expect(output("second check").last).to_contain_text("run its cell again")
            playwright.expect(output("check of the broken").last).to_contain_text("ended with an error")
            playwright.expect(output("check of the right").last).to_contain_text(
                "Right. The lecture goes on with your function."
            )
            playwright.expect(output("goes on").last).to_contain_text("shape (2, 5)")
            image = output("picture").locator("img")
            playwright.expect(image).to_have_attribute("alt", "One cell & one weight.")
            assert image.evaluate("image => image.naturalWidth") == 2 * image.evaluate("image => image.width")
            page.evaluate("() => window.jupyterapp.serviceManager.sessions.refreshRunning()")
            page.evaluate(
                "async () => { for (const model of window.jupyterapp.serviceManager.sessions.running()) {"
                " const session = window.jupyterapp.serviceManager.sessions.connectTo({model});"
                " await session.kernel.restart(); } }"
            )
        browser.close()
