"""A progress bar for long cells, silent in unattended runs."""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm.auto import tqdm

T = TypeVar("T")


def progress(iterable: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Pass the items on, and show how far they are.

    Args:
        iterable: what to go through.
        description: what is being done, in words.
        total: the number of items, where `len` does not tell it (a generator).

    Returns:
        an iterator over the same items.
    """
    yield from tqdm(iterable, desc=description, total=total, leave=False, disable=not watched())


def watched() -> bool:
    """Tell whether a person may be watching: not under CI, not under pytest (nbval), and a terminal or a notebook at hand."""
    if os.environ.get("CI") or os.environ.get("PYTEST_VERSION"):
        return False
    return "ipykernel" in sys.modules or bool(sys.stderr and sys.stderr.isatty())
