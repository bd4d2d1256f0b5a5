"""Read the cells of a submitted notebook, whatever state it is in.

Its content is neither trusted nor run here. Older formats, byte-order marks, other encodings and missing fields are accepted; a
file that is not a notebook is rejected with an explanation.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LARGEST_FILE = 100 * 2**20
"""Bytes; notebooks with many images in their outputs are smaller."""
MOST_ITEMS = 4_000_000
"""Braces, brackets and commas in a file: their number, not the file size, determines how much memory reading takes."""
MOST_CELLS = 20_000
LONGEST_SOURCE = 100_001
"""Characters of a cell that are read; the sandbox runs no cell of more than 100,000."""
MOST_CODE = 1_000_000
"""Characters that are read of all cells that may run, together; the sandbox runs at most half as many."""
MOST_TOKENS = 8_000_000
"""Texts and brackets of a file that are read to find the outputs."""
_SMALL = 2**20
"""Largest file, in bytes, that is parsed with its outputs."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_OUTPUTS = re.compile(rb"\s*:\s*\[")


class Unreadable(ValueError):
    """A file is not a readable notebook; the message says why, in a sentence."""


class Cell(NamedTuple):
    """One cell: its type ("code", "markdown", "raw"), its id or "", its metadata and its source."""

    type: str
    id: str
    metadata: dict
    source: str


def read_cells(path: str | Path) -> list[Cell]:
    """Read the cells of a notebook, in order.

    Raises:
        Unreadable: the file cannot be opened, is empty, too large or not a notebook.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise Unreadable(f"The file cannot be read: {error.strerror or error}.") from error
    return cells_in(data)


def cells_in(data: bytes) -> list[Cell]:
    """Read the cells of a notebook from its bytes, such as a member of a zip; raises Unreadable like `read_cells`."""
    if len(data) > _SMALL:
        data = without_outputs(data)
    if len(data) > LARGEST_FILE or sum(map(data.count, (b"{", b"[", b","))) > MOST_ITEMS:
        raise Unreadable(f"The file is too large for a notebook ({len(data) // 2**20} MB).")
    if not data.strip(b"\0 \t\r\n"):
        raise Unreadable("The file is empty.")
    try:
        notebook = json.loads(_decoded(data))
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable("The file is not a notebook: its text is not JSON. Was it exported in another format?") from error
    cells = _listed(notebook)
    if cells is None:
        raise Unreadable("The file is JSON, but not a notebook: it has no cells.")
    if len(cells) > MOST_CELLS:
        raise Unreadable(f"The file is too large for a notebook ({len(cells)} cells).")
    return within_limits([_cell(cell) for cell in cells if isinstance(cell, dict)])


def within_limits(cells: Sequence[Cell]) -> list[Cell]:
    """Empty the cells after the first `MOST_CODE` characters of code: reading all of them then takes limited time.

    Cells that are not code count if they have a tag, because a tagged cell runs whatever its type.
    """
    left, kept = MOST_CODE, []
    for cell in cells:
        left -= len(cell.source) if cell.type == "code" or cell.metadata.keys() & {"exercise", "nbgrader"} else 0
        kept.append(cell if left >= 0 else cell._replace(source=""))
    return kept


def without_outputs(data: bytes) -> bytes:
    """Replace the outputs of the cells by `"outputs": []` in the text of a notebook, before it is parsed.

    Raises:
        Unreadable: it has more than `MOST_TOKENS` texts and brackets.
    """
    kept, begin, depth, inside = [], 0, 0, 0
    for n, token in enumerate(_TOKEN.finditer(data)):
        if n == MOST_TOKENS:
            raise Unreadable(f"The file is too large for a notebook ({len(data) // 2**20} MB).")
        first = token[0][:1]
        if first == b'"':
            if not inside and token[0] == b'"outputs"' and (opening := _OUTPUTS.match(data, token.end())):
                kept.append(data[begin : opening.end()])
                begin, inside = opening.end(), depth + 1
        elif first in b"[{":
            depth += 1
        else:
            depth -= 1
            if inside and depth < inside:
                begin, inside = token.start(), 0
    return b"".join([*kept, data[begin:]]) if not inside else data


def _decoded(data: bytes) -> str:
    """Decode according to the byte-order mark, else as UTF-8, else byte by byte."""
    encodings = ("utf-16",) if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "cp1252")
    for encoding in encodings:
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1")


def _listed(notebook: object) -> list | None:
    """Find the list of cells: at the top level in format 4, in worksheets in format 3."""
    if not isinstance(notebook, dict):
        return None
    if isinstance(notebook.get("cells"), list):
        return notebook["cells"]
    sheets = notebook.get("worksheets")
    if not isinstance(sheets, list):
        return None
    listed = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    return [cell for cells in listed if isinstance(cells, list) for cell in cells]


def _cell(cell: dict) -> Cell:
    kind, metadata = cell.get("cell_type"), cell.get("metadata")
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(line for line in source[:LONGEST_SOURCE] if isinstance(line, str))
    return Cell(
        kind if kind in ("code", "markdown", "raw") else "markdown" if kind == "heading" else "raw",
        _clean(cell.get("id")),
        metadata if isinstance(metadata, dict) else {},
        _clean(source)[:LONGEST_SOURCE].replace("\r\n", "\n").replace("\r", "\n"),
    )


def _clean(text: object) -> str:
    """Return a text that can be encoded as UTF-8; "" for a value that is not text."""
    return text.encode("utf-8", "replace").decode("utf-8") if isinstance(text, str) else ""
