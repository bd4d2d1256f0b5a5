"""A CSV file whose cells can be changed one by one; all other bytes are kept: separators, quotes, line ends and encoding."""

import re
from dataclasses import dataclass

_ENCODINGS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_SEPARATORS = ",;\t"


class Broken(ValueError):
    """A file is not a valid table; the message says where and why."""


@dataclass
class RawTable:
    """A table in its original form. `rows` holds the raw text of each cell, `ends` the end of each line."""

    rows: list[list[str]]
    ends: list[str]
    separator: str
    encoding: str

    @classmethod
    def read(cls, data: bytes) -> "RawTable":
        """Parse a file.

        Raises:
            Broken: it is empty or not text, a quotation mark is never closed, or a line has more or fewer cells than the first.
        """
        text, encoding = _decoded(data)
        if not text.strip("\ufeff\r\n\t ,;"):
            raise Broken("it is empty.")
        if "\0" in text:
            raise Broken("it is not text: save it as CSV, not as a spreadsheet.")
        first = re.sub(r'"[^"]*"', "", re.split(r"[\r\n]", text, maxsplit=1)[0])
        separator = max(_SEPARATORS, key=first.count)
        table = cls(*_taken_apart(text, separator), separator, encoding)
        width = len(table.rows[0])
        for number, row in enumerate(table.rows, start=1):
            if len(row) != width and row != [""]:
                raise Broken(f"row {number} has {len(row)} cells, but the first row has {width}. Export it from the LMS again.")
        return table

    def values(self, row: int) -> list[str]:
        """Return the cells of a row without quotation marks and byte-order mark."""
        return [_unquoted(cell.removeprefix("\ufeff")) for cell in self.rows[row]]

    def replace(self, row: int, column: int, value: str) -> None:
        """Replace the value of a cell; it is quoted if the old one was or if quoting is required."""
        old = self.rows[row][column]
        quoted = old.startswith('"') or any(character in value for character in (self.separator, '"', "\r", "\n"))
        doubled = value.replace('"', '""')
        self.rows[row][column] = f'"{doubled}"' if quoted else value

    def data(self) -> bytes:
        """Return the bytes of the file."""
        lines = (self.separator.join(row) + end for row, end in zip(self.rows, self.ends, strict=True))
        return "".join(lines).encode(self.encoding)


def _decoded(data: bytes) -> tuple[str, str]:
    """Decode reversibly; the byte-order mark is kept as the first character of the text."""
    named = next((encoding for mark, encoding in _ENCODINGS if data.startswith(mark)), "utf-8")
    for encoding in (named, "cp1252", "latin-1"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if text.encode(encoding) == data:
            return text, encoding
    raise Broken("it is not text.")


def _taken_apart(text: str, separator: str) -> tuple[list[list[str]], list[str]]:
    sep = re.escape(separator)
    cell = re.compile(rf'(\ufeff?"[^"]*(?:""[^"]*)*"|[^{sep}"\r\n][^{sep}\r\n]*|)({sep}|\r\n|\n|\r|\Z)')
    rows, ends, row, at = [], [], [], 0
    while at < len(text) or row:
        found = cell.match(text, at)
        if found is None:
            raise Broken(f"in row {len(rows) + 1} a quotation mark is never closed or is misplaced.")
        row.append(found[1])
        at = found.end()
        if found[2] != separator:
            rows.append(row)
            ends.append(found[2])
            row = []
    return rows, ends


def _unquoted(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if cell.startswith('"') else cell
