"""Show a figure with its alternative text, which is also its caption."""

import base64
import html
import io
import sys

from matplotlib.figure import Figure

DPI = 200
"""Twice the display resolution, for sharp figures on high-density screens."""
PIXELS_PER_INCH = 100
MOST_COLOURS = 2**14
"""A figure with more colours than this contains a photograph."""
MAX_WIDTH, MAX_HEIGHT = 6.0, 4.0


def show(figure: Figure, alt: str) -> None:
    """Display a figure with its alternative text, which is also shown as a caption below, and close the figure.

    In a notebook, the output is one HTML `<figure>` whose image has an `alt` attribute, which JupyterLab and nbconvert both
    keep. Outside a notebook, the text is printed.

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
    publish({"text/html": figure_html(figure, alt), "text/plain": alt} if in_notebook() else {"text/plain": alt})
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)


def figure_html(figure: Figure, alt: str) -> str:
    """Write a figure as HTML: the image with its `alt`, and the same text as a caption."""
    data, width = png(figure), round(figure.get_size_inches()[0] * PIXELS_PER_INCH)
    sentence = html.escape(alt)
    image = (
        f'<img src="data:image/png;base64,{base64.b64encode(data).decode()}" alt="{sentence}" width="{width}" '
        'style="max-width:100%;height:auto;background:white">'
    )
    caption = f'<figcaption class="course-caption"><em>{sentence}</em></figcaption>'
    return f'<figure style="margin:0">{image}{caption}</figure>'


def png(figure: Figure) -> bytes:
    """Draw a figure as PNG at 200 dpi, in its own size, with a palette of 256 colours unless it contains a photograph."""
    from PIL import Image

    drawn, compact = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI, metadata={"Software": None})
    with Image.open(drawn) as picture:
        colours = picture.convert("RGB")
        if colours.getcolors(MOST_COLOURS) is None:
            return drawn.getvalue()
        colours.quantize(256, dither=Image.Dither.NONE).save(compact, format="png")
    return min(drawn.getvalue(), compact.getvalue(), key=len)


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
