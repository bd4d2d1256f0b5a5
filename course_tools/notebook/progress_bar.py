"""A progress bar for long cells, silent in unattended runs."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from torch.optim.optimizer import register_optimizer_step_post_hook
from tqdm.auto import tqdm

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
    yield from tqdm(iterable, desc=description, total=total, leave=False, disable=not watched())


@contextlib.contextmanager
def updates_shown(description: str) -> Iterator[None]:
    """Count in a progress bar the updates that optimizers make while the block runs.

    Args:
        description: what is being trained, in words.
    """
    with tqdm(desc=description, unit=" updates", leave=False, disable=not watched()) as bar:
        hook = register_optimizer_step_post_hook(lambda optimizer, args, kwargs: bar.update() and None)
        try:
            yield
        finally:
            hook.remove()


def watched() -> bool:
    """Return whether a person may be watching: in a terminal or notebook, and not under CI or pytest (nbval)."""
    if os.environ.get("CI") or os.environ.get("PYTEST_VERSION"):
        return False
    return "ipykernel" in sys.modules or bool(sys.stderr and sys.stderr.isatty())
