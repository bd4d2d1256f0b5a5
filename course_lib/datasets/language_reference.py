"""Python's language reference, as included in CPython for `help()`: text to train a language model on.

The pages of `pydoc_data.topics` (PSF License 2.0, the examples in them 0BSD) repeat each other: of 465,000 characters, a fifth
is on another page too. A repeated paragraph is dropped, whatever its indentation: a memorised text would otherwise appear in
the test set. The text depends on the Python version: claims about it need a margin.
"""

import random
from collections.abc import Iterator

from course_lib.datasets.splits import Splits

__all__ = ["language_reference"]


def language_reference(valid: float = 0.05, test: float = 0.1, passage: int = 2_000, seed: int = 0) -> Splits[str]:
    """Read the language reference in three parts.

    Each page is cut between paragraphs into passages. A passage is in one part only; another one of the same page may be
    in another part, so that the sentences are new but not the topics.

    Args:
        valid: fraction of the characters for validation, at least.
        test: fraction of the characters for testing, at least.
        passage: minimal number of characters of a passage, except for the last one of a page.
        seed: determines the part of each passage, and their order.

    Returns:
        Splits of three texts.

    Raises:
        ValueError: the fractions are negative or leave nothing for training.
    """
    if min(valid, test) < 0 or valid + test >= 1:
        raise ValueError(f"shares of at least 0 must leave something to learn from, got valid={valid} and test={test}.")
    passages = list(_passages(passage))
    random.Random(seed).shuffle(passages)
    total = sum(map(len, passages))
    return Splits(test=_take(passages, test * total), valid=_take(passages, valid * total), train="\n\n".join(passages))


def _take(passages: list[str], n: float) -> str:
    """Take passages from the end of the list until they have n characters."""
    taken: list[str] = []
    while sum(map(len, taken)) < n:
        taken.append(passages.pop())
    return "\n\n".join(taken)


def _passages(length: int) -> Iterator[str]:
    for page in _pages():
        held: list[str] = []
        for paragraph in page:
            held.append(paragraph)
            if sum(map(len, held)) >= length:
                yield "\n\n".join(held)
                held = []
        if held:
            yield "\n\n".join(held)


def _pages() -> Iterator[list[str]]:
    """Return the paragraphs of each page that are not on an earlier page; pages are sorted by name."""
    from pydoc_data.topics import topics

    seen: set[str] = set()
    for _, text in sorted(topics.items()):
        page = []
        for paragraph in text.strip().split("\n\n"):
            words = " ".join(paragraph.split())
            if words and words not in seen:
                seen.add(words)
                page.append(paragraph.strip("\n"))
        yield page
