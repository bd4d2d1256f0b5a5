"""Find an installed Chromium or Chrome, and print a page as PDF with it."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_PLACES = {
    "darwin": (
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
    ),
    "win32": (
        r"C:\Program Files\Google\Chrome\Application\chrome.exe",
        r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
    ),
}
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Options of a browser without a window and without prompts. It opens only pages of the course."""


def chromium() -> str | None:
    """Return the path of a browser: the variable COURSE_CHROMIUM, else the first installed one; None if there is none."""
    named = os.environ.get("COURSE_CHROMIUM")
    if named:
        return shutil.which(named)
    found = (shutil.which(name) for name in (*_NAMES, *_PLACES.get(sys.platform, ())))
    return next((path for path in found if path), None)


def print_pdf(page: Path, pdf: Path, query: str = "", seconds: int = 120) -> bool:
    """Print an HTML file as PDF.

    Args:
        page: the file, with everything that it shows embedded.
        pdf: the file to write.
        query: what follows the `?` of its address.
        seconds: how long the browser may take.

    Returns:
        True if there is a browser and it wrote the file.
    """
    browser = chromium()
    if browser is None:
        return False
    with tempfile.TemporaryDirectory() as profile:
        command = [
            browser,
            *ARGUMENTS,
            f"--user-data-dir={profile}",
            "--no-pdf-header-footer",
            f"--print-to-pdf={pdf.resolve()}",
            "--virtual-time-budget=60000",  # time for scripts to typeset formulas
        ]
        address = page.resolve().as_uri() + (f"?{query}" if query else "")
        try:
            done = subprocess.run([*command, address], capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0 and pdf.exists()
