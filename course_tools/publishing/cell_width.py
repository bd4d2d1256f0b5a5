"""Code of the library wrapped to the width of a notebook cell: no line scrolls sideways next to the file browser.

The library's lines have up to 128 characters. Its code is broken by `ruff format`; docstrings, comments and long strings, which
ruff does not break, are broken here between words. The code's behaviour is unchanged.
"""

import io
import re
import subprocess
import textwrap
import tokenize
from collections.abc import Iterator
from functools import cache

from course_lib.optional_import import optional_import

WIDTH = 88
_ITEM = re.compile(r"\s*(\*{0,2}\w+(, \w+)*): ")
"""The beginning of an argument or error in a docstring: "x: the input" or "ValueError: the sizes differ"."""
_LISTS = ("Args:", "Raises:", "Raises (not graded):")
_BRACKETS, _KEPT = re.compile(r"[(\[][^()\[\]]{1,24}[)\]]"), "\0"
"""A shape or an index, such as (B, T): it stays on one line."""
_WORDS = {"break_long_words": False, "break_on_hyphens": False}
_STRING = re.compile(r'(\s*)(f?)"((?:[^"\\]|\\.)*)"(.*)')


@cache
def wrapped(function: str) -> str:
    """Wrap the text of one function, without its decorators, to lines of at most `WIDTH` characters.

    Args:
        function: its signature, docstring and body; indented by four spaces at each level.

    Returns:
        the same function, unchanged if every line is short enough. A longer word, such as an address, is not broken.

    Raises:
        ImportError: ruff is needed but not installed.
    """
    text = "\n".join(_comments_above(_wrap_docstring(function.split("\n"))))
    if _is_narrow(text):
        return text
    ruff = optional_import("ruff", "ruff", "Wrapping code to the width of a notebook cell").find_ruff_bin()
    command = [ruff, "format", "--isolated", "--line-length", str(WIDTH), "--stdin-filename", "cell.py", "-"]
    text = subprocess.run(command, input=text, capture_output=True, check=True, encoding="utf-8").stdout.rstrip("\n")
    return "\n".join(broken for line in text.split("\n") for broken in _break_string(line))


def comment(text: str) -> str:
    """Write a text as a comment, on as many lines as it needs."""
    return textwrap.fill(text, WIDTH, initial_indent="# ", subsequent_indent="# ", **_WORDS)


def _is_narrow(text: str) -> bool:
    return all(len(line) <= WIDTH for line in text.split("\n"))


def _wrap_docstring(lines: list[str]) -> list[str]:
    """Wrap each paragraph of the docstring that has a long line; other lines are unchanged."""
    quoted = [i for i, line in enumerate(lines) if '"""' in line]
    if not quoted or not lines[quoted[0]].lstrip().startswith(('"""', 'r"""')):
        return lines
    first, last = quoted[0], quoted[1] if lines[quoted[0]].count('"""') == 1 else quoted[0]
    done: list[str] = []
    for paragraph in _paragraphs(lines[first : last + 1]):
        done += paragraph if _is_narrow("\n".join(paragraph)) else _filled(paragraph)
    return [*lines[:first], *done, *lines[last + 1 :]]


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Group lines that belong together: those with the same indent, or an argument or error with its continuation lines."""
    paragraph: list[str] = []
    in_list = False
    for line in lines:
        heads_list = line.strip() in _LISTS
        begins = bool(in_list and _ITEM.match(line) and paragraph and _indent(line) <= _indent(paragraph[0]))
        deeper = bool(paragraph) and _indent(line) != _indent(paragraph[-1]) and not (in_list and len(paragraph) == 1)
        ends = line.strip() in ("", '"""') or (paragraph and not paragraph[-1].strip())
        if paragraph and (ends or heads_list or begins or deeper or paragraph[0].strip() in _LISTS):
            yield paragraph
            paragraph = []
        in_list = heads_list or (in_list and bool(line.strip()))
        paragraph.append(line)
    yield paragraph


def _filled(paragraph: list[str]) -> list[str]:
    first = " " * _indent(paragraph[0])
    rest = " " * _indent(paragraph[1]) if len(paragraph) > 1 else first
    if len(paragraph) == 1 and _ITEM.match(paragraph[0]) and len(first) > 4:
        rest = first + "    "
    text = _BRACKETS.sub(lambda found: found[0].replace(" ", _KEPT), " ".join(line.strip() for line in paragraph))
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, **_WORDS)
    return [line.replace(_KEPT, " ") for line in lines]


def _comments_above(lines: list[str]) -> list[str]:
    """Move a comment from the end of a long line to above the line, and wrap it."""
    text = "\n".join(lines)
    if _is_narrow(text):
        return lines
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {
        token.start[0] - 1: token for token in tokens if token.type == tokenize.COMMENT and len(token.line.rstrip()) > WIDTH
    }
    done: list[str] = []
    for i, line in enumerate(lines):
        if i not in comments:
            done.append(line)
            continue
        code = line[: comments[i].start[1]].rstrip()
        lead = line[: _indent(line)] + "# "
        done += textwrap.wrap(comments[i].string.lstrip("# "), WIDTH, initial_indent=lead, subsequent_indent=lead, **_WORDS)
        done += [code] * bool(code)
    return done


def _break_string(line: str) -> list[str]:
    """Break a line that is one string, perhaps with a comma, between words into adjacent strings."""
    found = _STRING.fullmatch(line)
    if len(line) <= WIDTH or found is None:
        return [line]
    indent, prefix, text, after = found.groups()
    room = WIDTH - len(indent) - len(prefix) - 2
    at = max(
        (m.end() for m in re.finditer(" ", text[:room]) if text[: m.end()].count("{") == text[: m.end()].count("}")), default=0
    )
    if not at or after not in ("", ","):
        return [line]
    return [f'{indent}{prefix}"{text[:at]}"', *_break_string(f'{indent}{prefix}"{text[at:]}"{after}')]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
