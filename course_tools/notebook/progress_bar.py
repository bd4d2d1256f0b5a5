"""A progress bar for long cells, silent in unattended runs."""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

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


def watched() -> bool:
    """Return whether a person may be watching: in a terminal or notebook, and not under CI or pytest (nbval)."""
    if os.environ.get("CI") or os.environ.get("PYTEST_VERSION"):
        return False
    return "ipykernel" in sys.modules or bool(sys.stderr and sys.stderr.isatty())
