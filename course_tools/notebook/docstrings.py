"""Documents on your own machine: the docstrings of scientific packages, as sentences of words, each with its topic.

The docstrings of numpy, scipy and scikit-learn (each BSD-3-Clause) follow numpydoc,
https://numpydoc.readthedocs.io/en/latest/format.html. Nothing is imported or run: the sources are parsed, and only those with a
section "See Also" (which takes a second or two, so nothing is cached on disk). They follow the versions that are installed:
claims about them need a margin.

`marked_sentences` composes documents of such sentences, of which one, after a mark, decides the topic. A bag of words cannot
identify it.
"""

import ast
import random
import re
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from course_lib.datasets.splits import Splits, split

PACKAGES = ("numpy", "scipy", "sklearn")
MARK = "nota"
"""The word before the sentence that decides the topic, as in "nota bene"; no docstring contains it."""
_NOT_PUBLIC = {"tests", "testing", "_lib", "_vendor", "externals", "conftest.py"}
_LEFT_OUT = re.compile(r"^(See Also|References|Examples)\n-+\n.*?(?=^\S[^\n]*\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)


class Documented(NamedTuple):
    """One function or class: its name, its topic (a sub-package, such as scipy.stats), and its docstring."""

    name: str
    topic: str
    docstring: str


class LabelledText(NamedTuple):
    """A document: its `sentences`, words between single spaces, and its `topic`."""

    sentences: tuple[str, ...]
    topic: str


@cache
def documented(package: str) -> tuple[Documented, ...]:
    """Find the public functions and classes of a package, in the order of its files, including those without a docstring.

    A process reads a package once.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {package} is not installed.")
    found: list[Documented] = []
    root = Path(spec.submodule_search_locations[0])
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        text = "" if _NOT_PUBLIC & set(parts) else path.read_text(encoding="utf-8", errors="replace")
        if "See Also" not in text:
            continue
        topic = f"{package}.{parts[0].removesuffix('.py').strip('_')}"
        nodes = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef))
        public = (node for node in nodes if not node.name.startswith("_"))
        found += [Documented(f"{topic}.{node.name}", topic, ast.get_docstring(node) or "") for node in public]
    return tuple(found)


@cache
def sentences_of(docstring: str, n_words: int) -> tuple[str, ...]:
    """Split a docstring into sentences of 3 to n_words words, longer ones truncated, without examples and references."""
    prose = _LEFT_OUT.sub("", docstring)
    found = (re.findall(r"[a-z]{2,}", sentence.lower()) for sentence in re.split(r"\n\s*\n|(?<=[.:])\s+|\n-{3,}\n", prose))
    return tuple(" ".join(words[:n_words]) for words in found if len(words) >= 3)


def docstrings(
    n_valid: int,
    n_test: int,
    n_topics: int = 8,
    packages: tuple[str, ...] = PACKAGES,
    n_sentences: int = 12,
    n_words: int = 16,
    seed: int = 0,
) -> Splits[tuple[LabelledText, ...]]:
    """Read the docstrings of the most frequent topics; all that are in neither valid nor test are for training.

    Args:
        n_valid: documents for validation.
        n_test: documents for testing; no document, and no copy of one, is in two parts.
        n_topics: number of topics to keep: those with the most documents.
        packages: installed packages whose docstrings follow numpydoc.
        n_sentences: sentences of a document, at most: the first ones.
        n_words: words of a sentence, at most.
        seed: determines the part of each document, and their order.

    Returns:
        Splits of documents.

    Raises:
        ModuleNotFoundError: a package is not installed.
        ValueError: no document is left for training.
    """
    found = [item for package in packages for item in documented(package)]
    texts = {sentences_of(item.docstring, n_words)[:n_sentences]: item.topic for item in found}
    texts.pop((), None)
    topics = [topic for topic, _ in Counter(texts.values()).most_common(n_topics)]
    kept = [LabelledText(sentences, topic) for sentences, topic in texts.items() if topic in topics]
    if not 0 <= n_valid + n_test < len(kept):
        raise ValueError(
            f"{n_valid} and {n_test} documents requested, of {len(kept)} on these topics: none is left for training."
        )
    return split(kept, len(kept) - n_valid - n_test, n_valid, n_test, seed)


def marked_sentences(texts: tuple[LabelledText, ...], n: int, n_sentences: int = 12, seed: int = 0) -> tuple[LabelledText, ...]:
    """Compose documents of sentences from many documents, labelled by the topic of the one marked sentence.

    Args:
        texts: documents whose sentences are drawn, such as one part of `docstrings`.
        n: documents to compose.
        n_sentences: sentences of each document, all from different sources.
        seed: seed of the random draw.

    Returns:
        n documents; the word `MARK` precedes the sentence that decides the topic.

    Raises:
        ValueError: there are fewer documents than sentences to draw.
    """
    if not 1 <= n_sentences <= len(texts):
        raise ValueError(f"cannot draw {n_sentences} sentences from {len(texts)} different documents.")
    draw = random.Random(seed)
    composed = []
    for _ in range(n):
        chosen = draw.sample(texts, n_sentences)
        lines = [draw.choice(text.sentences) for text in chosen]
        place = draw.randrange(n_sentences)
        lines[place] = f"{MARK} {lines[place]}"
        composed.append(LabelledText(tuple(lines), chosen[place].topic))
    return tuple(composed)
