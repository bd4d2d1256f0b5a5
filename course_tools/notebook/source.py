"""Show the real source of a library or experiment function or class, folded, so that nothing is hidden and nothing drifts."""

import inspect
from collections.abc import Callable
from html import escape
from pathlib import Path

from course_tools.notebook.show import publish

ROOT = Path(__file__).parents[2]


def source(f: Callable[..., object]) -> None:
    """Show the source of a function or class in a folded box, with its name, its file and its first line.

    The box is a plain `<details>`, which opens wherever the notebook is read; as text, the source follows its place.

    Args:
        f: a function, class or method that is written in Python, in a file or in a cell of this notebook.

    Raises:
        TypeError: it has no source in Python, such as a built-in function, a value, or a `functools.partial`.
    """
    try:
        lines, first = inspect.getsourcelines(f)
        file = Path(inspect.getsourcefile(inspect.unwrap(f)) or "")
    except (TypeError, OSError) as error:
        name = getattr(f, "__name__", type(f).__name__)
        raise TypeError(
            f"source({name}): there is no Python source of it to show. It needs a function or class that is written in Python; "
            "of an object pass its class, of a partial its `func`, and for torch's own operators see torch's documentation."
        ) from error
    where = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else file.name
    place = f"{f.__qualname__} · {'this notebook' if 'ipykernel' in str(file) else where}, line {first}"
    code = inspect.cleandoc("\n" + "".join(lines)) if lines[0].startswith(" ") else "".join(lines).rstrip()
    details = (
        f"<details><summary>Source of <code>{escape(f.__qualname__)}</code>{escape(place[len(f.__qualname__) :])}</summary>"
        f"{_highlighted(code)}</details>"
    )
    publish({"text/html": details, "text/plain": f"{place}\n{code}"})


def _highlighted(code: str) -> str:
    """Return code as HTML with inline colours, so that it needs no style sheet."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return highlight(code, PythonLexer(), HtmlFormatter(noclasses=True, nobackground=True, prestyles="margin:.3em 0"))
