"""Show a figure with its alternative text, which is also its caption."""

import base64
import contextlib
import html
import io
import sys
from collections.abc import Iterator

from matplotlib.figure import Figure
from PIL import Image

from course_tools.checks.inline_markup import to_html
from course_tools.notebook.progress_bar import watched

DPI = 200
"""Twice the display resolution, for sharp figures on high-density screens."""
PIXELS_PER_INCH = 100
MOST_COLOURS = 2**14
"""A figure with more colours than this contains a photograph."""
MAX_WIDTH, MAX_HEIGHT = 6.0, 4.0
_catching: list[list[tuple[Figure, str]]] = []
"""The lists of the running blocks of `caught`, the innermost last."""


def show(figure: Figure, alt: str) -> None:
    """Display a figure with its alternative text, which is also shown as a caption below, and close the figure.

    Someone at a notebook sees one HTML `<figure>`, whose image has an `alt` attribute in JupyterLab, too. In a batch run, whose
    outputs are stored, the image is a PNG of its own, which every viewer shows: many drop images inside HTML. Its text stands
    in its metadata, from which the site makes `alt`, and in the caption, the next output. Outside a notebook it is printed.

    Args:
        figure: at most 6 x 4 inches.
        alt: one or two sentences, computed from the data, for readers who cannot see the figure.

    Raises:
        ValueError: the text is empty, or the figure is too large.
    """
    alt = alt.strip()
    if not alt:
        raise ValueError("a figure needs a text that describes it: show(figure, alt=...).")
    width, height = figure.get_size_inches()
    if width > MAX_WIDTH or height > MAX_HEIGHT:
        raise ValueError(f"a figure may be at most {MAX_WIDTH:g} x {MAX_HEIGHT:g} inches; this one is {width:g} x {height:g}.")
    if _catching:
        _catching[-1].append((figure, alt))
    elif not in_notebook():
        print(alt)
    elif watched():
        publish({"text/html": figure_html(figure, alt), "text/plain": alt})
    else:
        data = {"image/png": base64.b64encode(png(figure)).decode(), "text/plain": alt}
        publish(data, {"image/png": {"alt": alt, "width": _pixels(figure)}})
        publish({"text/html": _caption(alt), "text/plain": ""})
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)


@contextlib.contextmanager
def caught(figures: list[tuple[Figure, str]]) -> Iterator[None]:
    """While the block runs, add each shown figure and its text to a list instead of displaying it."""
    _catching.append(figures)
    try:
        yield
    finally:
        _catching.pop()


def figure_html(figure: Figure, alt: str) -> str:
    """Write a figure as HTML: the image with its `alt`, and the same text as a caption."""
    image = image_html(base64.b64encode(png(figure)).decode(), alt, _pixels(figure))
    return f'<figure style="margin:0">{image}{_caption(alt)}</figure>'


def image_html(data: str, alt: str, width: int) -> str:
    """Write a PNG, base64-encoded, as HTML with its `alt`; `width` in pixels."""
    return (
        f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}" width="{width}" '
        'style="max-width:100%;height:auto;background:white">'
    )


def _caption(alt: str) -> str:
    return f'<figcaption class="course-caption"><em>{to_html(alt)}</em></figcaption>'


def _pixels(figure: Figure) -> int:
    return round(figure.get_size_inches()[0] * PIXELS_PER_INCH)


def png(figure: Figure) -> bytes:
    """Draw a figure as PNG at 200 dpi, in its own size, with a palette of 256 colours unless it contains a photograph."""
    whole, compact = io.BytesIO(), io.BytesIO()
    figure.savefig(whole, format="png", dpi=DPI, metadata={"Software": None})
    with Image.open(whole) as image:
        colours = image.convert("RGB")
        if colours.getcolors(MOST_COLOURS) is None:
            return whole.getvalue()
        colours.quantize(256, dither=Image.Dither.NONE).save(compact, format="png", optimize=True)
    return min(whole.getvalue(), compact.getvalue(), key=len)


def drawn(figure: Figure, dpi: int) -> Image.Image:
    """Draw a figure as an image in memory."""
    whole = io.BytesIO()
    figure.savefig(whole, format="png", dpi=dpi)
    with Image.open(whole) as image:
        return image.convert("RGB")


def publish(data: dict[str, str], metadata: dict | None = None) -> None:
    """Display a MIME bundle in a notebook; elsewhere print its text/plain."""
    if in_notebook():
        from IPython.display import display

        display(data, metadata=metadata or {}, raw=True)
    else:
        print(data["text/plain"])


def in_notebook() -> bool:
    """Return whether a Jupyter kernel is running this code."""
    if "ipykernel" not in sys.modules or "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None
