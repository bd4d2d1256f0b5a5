"""One headless Chromium for the tests that open pages, with checks of requests and script errors."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from course_tools.publishing import browser

CHROMIUM = browser.chromium()


@contextmanager
def chromium() -> Iterator:
    """Start the browser, or skip the test with the reason."""
    playwright = pytest.importorskip("playwright.sync_api", reason='needs the extra [site]: pip install -e ".[site]"')
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=list(browser.ARGUMENTS))
        yield started
        started.close()


class Visit:
    """A page of a file, opened without network, with its requests other than files and its script errors."""

    def __init__(
        self, started, path, width: int, height: int = 844, ready: str = "document.documentElement.dataset.ready"
    ) -> None:
        self.context = started.new_context(viewport={"width": width, "height": height}, offline=True)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(path if isinstance(path, str) else path.as_uri())
        if ready:
            self.page.wait_for_function(ready, timeout=300_000)

    @property
    def left(self) -> list[str]:
        """Return the requests that left the machine."""
        return [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))]

    def __enter__(self) -> "Visit":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()
