"""Show a figure together with the sentence that says what it shows."""

import base64
import html
import io
import sys

from matplotlib.figure import Figure

DPI = 100
MAX_WIDTH, MAX_HEIGHT = 6.0, 4.0


def show(figure: Figure, alt: str) -> None:
    """Display a figure with its alternative text, and the same sentence as a caption below; then close the figure.

    Outside a notebook the sentence is printed.

    Args:
        figure: at most 6 x 4 inches.
        alt: one or two sentences, computed from the data: what a reader who cannot see the figure must know.

    Raises:
        ValueError: the sentence is empty, or the figure is too large.
    """
    alt = alt.strip()
    if not alt:
        raise ValueError("a figure needs a sentence that says what it shows: show(figure, alt=...).")
    width, height = figure.get_size_inches()
    if width > MAX_WIDTH or height > MAX_HEIGHT:
        raise ValueError(f"a figure is at most {MAX_WIDTH:g} x {MAX_HEIGHT:g} inches, this one is {width:g} x {height:g}.")
    if in_notebook():
        picture = {"image/png": base64.b64encode(png(figure)).decode(), "text/plain": alt}
        publish(picture, {"image/png": {"alt": alt}})
        publish({"text/html": f'<p class="course-caption"><em>{html.escape(alt)}</em></p>', "text/plain": alt})
    else:
        print(alt)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)


def png(figure: Figure) -> bytes:
    """Draw a figure as PNG at 100 dpi, in its own size."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def publish(data: dict[str, str], metadata: dict | None = None) -> None:
    """Display one bundle of MIME types in a notebook; elsewhere print its text/plain."""
    if in_notebook():
        from IPython.display import display

        display(data, metadata=metadata or {}, raw=True)
    else:
        print(data["text/plain"])


def in_notebook() -> bool:
    """Tell whether a Jupyter kernel is running this code."""
    if "ipykernel" not in sys.modules or "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None
