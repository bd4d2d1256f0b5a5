"""A progress bar for long cells, silent in unattended runs.

It is a line of text, in notebooks too: a widget would leave "model not found" above each figure of a notebook opened again.
"""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from torch.optim.optimizer import register_optimizer_step_post_hook
from tqdm import tqdm

T = TypeVar("T")


def progress(iterable: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Iterate over items with a progress bar.

    Args:
        iterable: the items.
        description: what is being done, in words.
        total: the number of items, if `len` is not defined (for a generator).

    Returns:
        an iterator over the same items.
    """
    yield from tqdm(iterable, desc=description, total=total, **_shown())


@contextlib.contextmanager
def updates_shown(description: str) -> Iterator[None]:
    """Count in a progress bar the updates that optimizers make while the block runs.

    Args:
        description: what is being trained, in words.
    """
    with tqdm(desc=description, unit=" updates", **_shown()) as bar:
        hook = register_optimizer_step_post_hook(lambda optimizer, args, kwargs: bar.update() and None)
        try:
            yield
        finally:
            hook.remove()


def _shown() -> dict[str, Any]:
    """How a bar is shown: a notebook colours what comes by stderr red."""
    file = sys.stdout if "ipykernel" in sys.modules else sys.stderr
    return {"file": file, "leave": False, "disable": not watched(), "dynamic_ncols": "ipykernel" not in sys.modules}


def watched() -> bool:
    """Return whether a person may be watching: in a terminal or notebook, and not under CI or pytest (nbval)."""
    if os.environ.get("CI") or os.environ.get("PYTEST_VERSION"):
        return False
    return "ipykernel" in sys.modules or bool(sys.stderr and sys.stderr.isatty())
