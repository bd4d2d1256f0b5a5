"""What was measured, as Markdown: rows as they come, and docs/performance.md, which holds one section a group."""

import os
import platform
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from benchmarks.timing import Row

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"

_INTRODUCTION = """# How fast the library is

`python3 -m benchmarks --record` writes this page; `python3 -m benchmarks --record linear graph` measures two groups again and
leaves the others as they were. The peers come with `pip install -e '.[peers,bench]'`; one that cannot be imported costs only
its own rows.

Ours and the peer take turns on one thread. Each pair of columns holds ours / the peer's in milliseconds of processor time, and
the **ratio** peer / ours, the median of the ratios within each round: above 1 ours is faster, or smaller. The last pair holds
the most memory that tensors take at one time in a pass with backward (forward where nothing is trained). A note under a table
says where and why ours is slower, or larger.
"""

_COLUMNS = ("mechanism", "ours", "against", "sizes", "forward", "ratio", "with backward", "ratio", "peak MiB", "ratio")
HEAD = f"| {' | '.join(_COLUMNS)} |\n{'|---' * 4}{'|--:' * 6}|"


def line(row: Row) -> str:
    """Lay one row out for the table under `HEAD`."""
    cells = [row.mechanism, row.ours, row.peer, row.sizes]
    for each in (row.forward, row.training, row.memory):
        cells += [f"{each.ours:.2f} / {each.peer:.2f}", f"{each.ratio:.2f}"] if each else ["", ""]
    return f"| {' | '.join(cells)} |"


def streamed(rows: Iterable[Row]) -> Iterator[str]:
    """Return the lines of a table, each as soon as its row is measured."""
    yield HEAD
    for row in rows:
        yield line(row)


def machine(rounds: int) -> str:
    """Say with what was measured, and how busy the machine was."""
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    load = f", load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores" if hasattr(os, "getloadavg") else ""
    return f"{versions}, {_processor()}, one thread{load}; at most {rounds} rounds."


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.*)", info.read_text()) if info.exists() else None
    return named[1].strip() if named else f"{platform.system()} {platform.machine()}"


def record(name: str, table: str, measured_with: str, note: str = "", page: Path = PAGE) -> None:
    """Put the table of a group into the page, in place of that of an earlier run; other groups stay.

    Args:
        name: the group; its section is headed by it.
        table: Markdown.
        measured_with: what `machine` says.
        note: what to know when reading the table, such as why a ratio cannot be better.
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
