"""Flags for the instructor: forbidden calls, and similar solutions. A flag never changes a mark.

A solution is split into the subtrees of its syntax tree, ignoring names, docstrings, comments, annotations and the order of
statements. A subtree that also occurs in the course's answers, right or wrong, has no weight. The weight of any other increases
with its rarity: w = log((n + b + 1) / d) if it occurs for d of n students, where b is the number of the course's answers. Two
students are flagged if most of the weight of one student's solutions is shared, in at least two exercises or in a long one.
What more than ten students wrote has no weight, as in MOSS: in a large class some idioms are common.
"""

import ast
import copy
import hashlib
import inspect
import math
import re
import sys
import unicodedata
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

from course_tools.bank import exercise, exercises
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.own_code import names_of_answers
from course_tools.grading.extract.programs import handed_out, is_marked
from course_tools.publishing.source import FunctionSource

_LONGEST_CELL, _LONGEST_INTEGER = 20_000, 10_000
_MOST_PARTS = 2_000
_FEWEST_NODES = 6
_ALIKE = 0.8
_EVIDENCE_OF_ONE, _EVIDENCE_OF_ALL = 6.0, 18.0
_EVIDENCE_OF_A_SINGLE_ONE = 40.0
_MAGIC = re.compile(r"^[ \t]*[%!].*$", re.MULTILINE)
_DEFINED = re.compile(r"\bdef[\s\\]+(\w+)")
_LEFT_OUT = {"annotation", "returns", "type_comment", "ctx", "decorator_list", "kind", "type_params"}

PUBLISHED, RENAMED, LONG = "published", "renamed", "long"
"""Added to the fingerprints of an answer that is the published solution, with its names or with other names, or too long."""
_WHAT = {
    PUBLISHED: "Identical to the published solution, including the names of variables.",
    RENAMED: "Identical to the published solution except for names.",
    LONG: f"In a cell of more than {_LONGEST_CELL:,} characters, which is not compared with other solutions.",
}
_FEWEST_NODES_OF_A_SOLUTION = 40
"""Smaller solutions often coincide by chance."""
_MOST_HOLDERS = 10
"""A part that more students have is no evidence, and makes no one compared: so the time is linear in the class size."""

Shapes = Mapping[str, tuple[str, ...]]
"""For each exercise, the fingerprints of the parts of a solution."""


class Flag(NamedTuple):
    """One observation to inspect: its kind, the ids of the students, the exercises, and a description."""

    kind: str
    students: tuple[str, ...]
    exercises: tuple[str, ...]
    what: str


def shapes(cells: Sequence[Cell], lecture: str) -> dict[str, tuple[str, ...]]:
    """Return the fingerprints of a student's code for each exercise of a lecture: of the cells that define its function.

    No code is run; cells that cannot be parsed have no fingerprints. A tagged cell counts even if it is not one of code, since
    it is run, and so does the cell of a bug hunt that the student has changed.
    """
    given = {cell.source.strip() for cell in handed_out(lecture) if "bug" in cell.metadata}
    tagged = [cell for cell in cells if cell.type == "code" or any(is_marked(cell, item) for item in exercises(lecture))]
    code = [cell for cell in tagged if cell.source.strip() not in given]
    names = names_of_answers(code, lecture)
    found: dict[str, set[str]] = defaultdict(set)
    copies: dict[str, str] = {}
    for cell in code:
        if names.keys().isdisjoint(_DEFINED.findall(unicodedata.normalize("NFKC", cell.source))):
            continue
        tree = _parsed(cell.source)
        if len(cell.source) > _LONGEST_CELL:
            copies |= {names[name]: LONG for name in _DEFINED.findall(cell.source) if name in names}
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)] if tree else []
        answered = {names[node.name] for node in functions if node.name in names}
        parts, bodies = (_parts(tree), list(map(_bodies, functions))) if answered else (set(), [])
        for id in answered:
            found[id] |= parts
            if kind := _copy_of_the_published(bodies, id):
                copies[id] = kind
    kept = {id: tuple(sorted(parts)[:_MOST_PARTS]) for id, parts in sorted(found.items())}
    whole = {id: (*kept.get(id, ()), *([copies[id]] if id in copies else [])) for id in sorted({*kept, *copies})}
    return {id: parts for id, parts in whole.items() if parts}


def published_solutions(wrote: Mapping[str, Shapes]) -> list[Flag]:
    """Flag each student whose answers are the published solution, literally or with other names, or too long to compare.

    Args:
        wrote: for each student, by id, the fingerprints of each exercise.
    """
    return [
        Flag("long cell" if kind == LONG else "published solution", (student,), ids, what)
        for student, shapes in sorted(wrote.items())
        for kind, what in _WHAT.items()
        if (ids := tuple(sorted(id for id, parts in shapes.items() if kind in parts)))
    ]


def likeness_to_published(id: str, parts: Sequence[str]) -> float:
    """Return the fraction of the parts of an exercise's published solution that an answer contains, 0 to 1.

    Names, docstrings, comments and the order of statements do not matter. Right answers are naturally similar: a short one that
    was written independently can reach 1.0.
    """
    published = _published_parts(id)
    return len(published.intersection(parts)) / len(published) if published else 0.0


def look_alikes(wrote: Mapping[str, Shapes]) -> list[Flag]:
    """Find the pairs of students with similar solutions, those with the most evidence first.

    Args:
        wrote: for each student, by id, the fingerprints of each exercise.
    """
    evidence: dict[tuple[str, str], list[tuple[str, float, float]]] = defaultdict(list)
    for id in sorted({id for of_one in wrote.values() for id in of_one}):
        known = _of_the_course(id)
        own = {student: set(of_one[id]) - known - _WHAT.keys() for student, of_one in sorted(wrote.items()) if id in of_one}
        spread = Counter(part for parts in own.values() for part in parts)
        total = len(own) + len(exercise(id).wrong) + len(exercise(id).right) + 1
        weight = {part: math.log(total / n) if n <= _MOST_HOLDERS else 0.0 for part, n in spread.items()}
        size = {student: sum(map(weight.__getitem__, parts)) for student, parts in own.items()}
        candidates = [student for student, amount in size.items() if amount >= _EVIDENCE_OF_ONE]
        for one, other in _pairs({student: own[student] for student in candidates}):
            shared = sum(weight[part] for part in own[one] & own[other])
            alike = shared / min(size[one], size[other])
            if shared >= _EVIDENCE_OF_ONE and alike >= _ALIKE:
                evidence[one, other].append((id, alike, shared))
    strongest_first = sorted(evidence.items(), key=lambda item: (-round(sum(shared for *_, shared in item[1]), 3), item[0]))
    return [flag for pair, seen in strongest_first if (flag := _flag(pair, seen))]


def _pairs(own: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """The pairs of students who share a part that few have."""
    holders: dict[str, list[str]] = defaultdict(list)
    for student, parts in own.items():
        for part in parts:
            holders[part].append(student)
    return sorted({pair for few in holders.values() if len(few) <= _MOST_HOLDERS for pair in combinations(few, 2)})


def _copy_of_the_published(bodies: Sequence[tuple[str, str]], id: str) -> str:
    """PUBLISHED or RENAMED if one of the functions with these bodies is the published solution of an exercise; else ""."""
    for kind, published, own in zip((PUBLISHED, RENAMED), _published_bodies(id), zip(*bodies, strict=True), strict=True):
        if published and published in own:
            return kind
    return ""


@cache
def _published(id: str) -> ast.Module | None:
    return _parsed(FunctionSource.of(exercise(id).reference).text())


@cache
def _published_bodies(id: str) -> tuple[str, str]:
    return next((_bodies(node) for node in _published(id).body if isinstance(node, ast.FunctionDef)), ("", ""))


@cache
def _published_parts(id: str) -> frozenset[str]:
    return frozenset(_parts(_published(id)))


def _bodies(function: ast.FunctionDef) -> tuple[str, str]:
    """The body of a function without docstrings and standalone strings: with its names, and with its local names numbered.

    Both are "" for a function that is too small or too deeply nested.
    """
    statements = [node for node in function.body if not _is_text(node)]
    if sum(1 for node in statements for _ in ast.walk(node)) < _FEWEST_NODES_OF_A_SOLUTION:
        return "", ""
    try:
        return "\n".join(map(ast.dump, statements)), "\n".join(map(ast.dump, _numbered(function, statements)))
    except RecursionError:
        return "", ""


def _numbered(function: ast.FunctionDef, statements: list[ast.stmt]) -> list[ast.stmt]:
    """Copy statements, with the names of arguments and variables replaced by numbers in the order of their appearance."""
    copies = copy.deepcopy(statements)
    arguments = [node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    parts = [part for node in copies for part in ast.walk(node)]
    given = [part.id for part in parts if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)]
    given += [part.arg for part in parts if isinstance(part, ast.arg)]
    numbers = {name: f"_{i}" for i, name in enumerate(dict.fromkeys([*arguments, *given]))}
    for part in parts:
        if isinstance(part, ast.Name):
            part.id = numbers.get(part.id, part.id)
        elif isinstance(part, ast.arg):
            part.arg = numbers.get(part.arg, part.arg)
    return copies


def _flag(pair: tuple[str, str], seen: list[tuple[str, float, float]]) -> Flag | None:
    amount = sum(shared for *_, shared in seen)
    if amount < (_EVIDENCE_OF_ALL if len(seen) > 1 else _EVIDENCE_OF_A_SINGLE_ONE):
        return None
    likeness = ", ".join(f"{id}: {alike:.0%}" for id, alike, _ in seen)
    return Flag(
        "similar solutions",
        pair,
        tuple(id for id, *_ in seen),
        f"The two share code that few others wrote: {likeness}.",
    )


@cache
def _of_the_course(id: str) -> frozenset[str]:
    """The parts of the course's answers to an exercise: similarity to the reference or to a known mistake is ignored."""
    item = exercise(id)
    answers = (item.reference, *item.right, *item.wrong)
    if item.training is None:
        sources = {FunctionSource.of(answer).text() for answer in answers}
    else:  # many wrong submissions are made from parts of their module
        sources = {inspect.getsource(sys.modules[answer.__module__]) for answer in answers}
    return frozenset().union(*(_parts(ast.parse(source)) for source in sources))


def _parsed(source: str) -> ast.Module | None:
    """Parse a student's code; None if that is impossible, also because of deep nesting."""
    if len(source) > _LONGEST_CELL:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(_MAGIC.sub("", source))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value.bit_length() > _LONGEST_INTEGER:
                node.value = hex(node.value)  # Python refuses to write it in decimal digits
        return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parts(tree: ast.Module) -> set[str]:
    """Fingerprint the parts of a tree that have enough nodes; an empty set if the tree is too deeply nested."""
    found: set[str] = set()
    own = _names_given(tree)
    body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    try:
        for node in body:
            _fingerprint(node, own, found.add)
    except RecursionError:
        return set()
    return found


def _names_given(tree: ast.Module) -> set[str]:
    """The names chosen by the student: arguments, variables and functions, not those of libraries."""
    own = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            own.add(node.id)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            own.add(node.name)
    return own


def _fingerprint(node: ast.AST, own: set[str], found: Callable[[str], None]) -> tuple[str, int]:
    """Return the fingerprint of a node and its number of nodes; pass those of its large enough parts to `found`."""
    if isinstance(node, ast.Name):
        return ("_" if node.id in own else node.id), 1
    if isinstance(node, ast.arg):
        return "_", 1
    fields, size = [type(node).__name__], 1
    for field, value in ast.iter_fields(node):
        if field in _LEFT_OUT or (field == "name" and isinstance(value, str)):
            continue
        if isinstance(value, ast.AST):
            text, n = _fingerprint(value, own, found)
        elif isinstance(value, list):
            parts = [_fingerprint(item, own, found) for item in value if isinstance(item, ast.AST) and not _is_text(item)]
            texts = [text for text, _ in parts]
            text, n = " ".join(sorted(texts) if field in ("body", "orelse", "finalbody") else texts), sum(n for _, n in parts)
        else:
            text, n = repr(value)[:200], 0
        fields.append(f"{field}={text}")
        size += n
    mark = hashlib.blake2b("\0".join(fields).encode("utf-8", "replace"), digest_size=6).hexdigest()
    if size >= _FEWEST_NODES:
        found(mark)
    return mark, size


def _is_text(node: ast.AST) -> bool:
    """Whether a node is a standalone string: a docstring, or a comment written as a string."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
