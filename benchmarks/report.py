"""Measurements as Markdown: rows as they are measured, and docs/performance.md, with one section per group."""

import os
import platform
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from benchmarks.timing import Row

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"

_INTRODUCTION = """# Performance of the library

With `.venv` activated, `python -m benchmarks --record` measures every group and writes this page;
`python -m benchmarks --record linear graph` measures two groups again and leaves the others unchanged.
`pip install -e '.[peers,bench]'` installs the peers; only the rows of a peer that cannot be
imported are missing.

Ours and the peer take turns on one thread. Each pair of columns shows ours / the peer's in milliseconds of processor time, and
the **ratio** peer / ours, the median of the ratios within each round: above 1, ours is faster, or smaller. The last pair shows
the peak memory of tensors in a forward and backward pass (forward only, if nothing is trained). The form
*equation* is written to be read; where it is slow, a faster form exists. Notes below some tables explain why ours is slower, or
larger, there.
"""

_COLUMNS = ("mechanism", "ours", "against", "sizes", "forward", "ratio", "with backward", "ratio", "peak MiB", "ratio")
HEAD = f"| {' | '.join(_COLUMNS)} |\n{'|---' * 4}{'|--:' * 6}|"


def line(row: Row) -> str:
    """Format one row for the table under `HEAD`."""
    cells = [row.mechanism, row.ours, row.peer, row.sizes]
    for each in (row.forward, row.training, row.memory):
        cells += [f"{each.ours:.2f} / {each.peer:.2f}", f"{each.ratio:.2f}"] if each else ["", ""]
    return f"| {' | '.join(cells)} |"


def streamed(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a table, each as soon as its row is measured."""
    yield HEAD
    for row in rows:
        yield line(row)


def machine(rounds: int) -> str:
    """Describe the versions, the machine, and its load."""
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    load = f", load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores" if hasattr(os, "getloadavg") else ""
    return f"{versions}, {_processor()}, one thread{load}; at most {rounds} rounds."


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.*)", info.read_text()) if info.exists() else None
    return named[1].strip() if named else f"{platform.system()} {platform.machine()}"


def record(name: str, table: str, measured_with: str, note: str = "", page: Path = PAGE) -> None:
    """Write the table of a group into the page, replacing that of an earlier run; other groups are unchanged.

    Args:
        name: the group, the heading of its section.
        table: Markdown.
        measured_with: the result of `machine`.
        note: a remark on the table, such as why a ratio cannot be better.
        page: the file.
    """
    sections = _sections(page.read_text(encoding="utf-8")) if page.exists() else {}
    sections[name] = "\n\n".join(part for part in (measured_with, table, note) if part)
    parts = [_INTRODUCTION, *(f"## {name}\n{text}\n" for name, text in sorted(sections.items()))]
    page.write_text("\n".join(parts), encoding="utf-8")


def _sections(text: str) -> dict[str, str]:
    """Read the sections of a page, by their headings."""
    _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return {name: body.strip() for name, _, body in (part.partition("\n") for part in parts)}
