"""The library definitions that a student's code can import while it is judged: all that do not reveal the answer.

Every definition of `course_lib` is provided, as text, except the exercise's reference, its other forms, what the exercise
forbids, and whatever uses these; the names of `ALWAYS` are added. `import_shim` runs a definition inside the sandbox when it is
first imported, and returns a stand-in for every other name of the course.
"""

import ast
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path

import course_lib
from course_tools.bank import exercise
from course_tools.source_digest import names_of

QualifiedName = tuple[str, str]
"""A module and a name that it defines at its top level."""

ALWAYS = ("course_tools.notebook.device",)
"""Modules outside the library that an honest answer may use, for the device."""
REEXPORTS = ("course_tools.notebook",)
"""Packages of the course that re-export them."""


@dataclass(frozen=True)
class Definition:
    """One top-level statement of a module: its text, the names of its module that it uses, and its imports from the course."""

    source: str
    uses: frozenset[str]
    imports: QualifiedName | None = None


@cache
def allowed_names(id: str) -> dict:
    """Return the definitions that a student's code can import while it is judged, by module and name."""
    forbidden = [place for place in map(_place, exercise(id).forbids) if place[1] in _library().get(place[0], {})]
    withheld = frozenset().union(*map(users_of, [*forms_of(exercise(id).reference), *forbidden]))
    entries: dict[str, dict[str, dict]] = {}
    for module, definitions in _library().items():
        for name, definition in definitions.items():
            target = _target((module, name))
            if (module, name) in withheld or target in withheld or not _is_offered(target[0], definition):
                continue
            needs = sorted(need for need in definition.uses if need in definitions)
            entries.setdefault(module, {})[name] = {"source": definition.source, "needs": needs}
    return {"modules": sorted(_paths()), "entries": entries}


@cache
def allowed_packed(id: str) -> bytes:
    """Pack these definitions for `import_shim.install`: once for an exercise, to be sent with every answer to it.

    A line of JSON holds the position of each module's definitions in the rest; they are read when the module is imported.
    """
    allowed = allowed_names(id)
    packed = {module: zlib.compress(json.dumps(entry).encode()) for module, entry in allowed["entries"].items()}
    ends = list(accumulate(map(len, packed.values()), initial=0))
    places = dict(zip(packed, pairwise(ends), strict=True))
    index = json.dumps({"modules": allowed["modules"], "places": places})
    return b"".join([index.encode(), b"\n", *packed.values()])


def _is_offered(module: str, definition: Definition) -> bool:
    """Whether a definition belongs to the library, is an import from outside, or belongs to a module that an answer may use."""
    return definition.imports is None or module in _library()


def forms_of(function: Callable[..., object]) -> list[QualifiedName]:
    """Return a function of the library with its other forms, whose names end in its name: `fused_…`, `inplace_…`, `…_`."""
    own, (_, name) = _place(function), _place(function)
    library = ((module, other) for module, definitions in _library().items() for other in definitions)
    return [own, *(place for place in library if place != own and place[1].rstrip("_").endswith(name))]


def users_of(place: QualifiedName) -> frozenset[QualifiedName]:
    """Return a definition with everything in the library that uses it, directly or through other definitions."""
    found, waiting = set(), [place]
    while waiting:
        now = waiting.pop()
        if now not in found:
            found.add(now)
            waiting += _users().get(now, ())
    return frozenset(found)


@cache
def _users() -> dict[QualifiedName, list[QualifiedName]]:
    """For each definition of the library, those that use it directly."""
    users: dict[QualifiedName, list[QualifiedName]] = {}
    for module, definitions in _library().items():
        for name in definitions:
            for used in _used_by((module, name)):
                users.setdefault(used, []).append((module, name))
    return users


def _used_by(place: QualifiedName) -> Iterator[QualifiedName]:
    module, name = place
    definition = _library()[module][name]
    if definition.imports and definition.imports[1] in _library().get(definition.imports[0], {}):
        yield definition.imports
    yield from ((module, used) for used in definition.uses if used in _library()[module])


def _target(place: QualifiedName) -> QualifiedName:
    """Follow a name through imports to its definition."""
    imports = _library()[place[0]][place[1]].imports
    return _target(imports) if imports and imports[1] in _library().get(imports[0], {}) else place


def _place(function: Callable[..., object]) -> QualifiedName:
    return function.__module__, function.__name__


@cache
def _paths() -> dict[str, Path]:
    """Every module of the course, by name."""
    root = Path(course_lib.__file__).parents[1]
    found = {}
    for path in sorted([*(root / "course_lib").rglob("*.py"), *(root / "course_tools").rglob("*.py")]):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def _library() -> dict[str, dict[str, Definition]]:
    """Read the top-level definitions of every provided module, by name."""
    found = {}
    for module, path in _paths().items():
        if module.partition(".")[0] == "course_lib" or module in (*ALWAYS, *REEXPORTS):
            definitions = _definitions(path.read_text(encoding="utf-8"))
            found[module] = {name: found for name, found in definitions.items() if found.imports != (module, name)}
    return found


def _definitions(text: str) -> dict[str, Definition]:
    definitions: dict[str, Definition] = {}
    for statement in ast.parse(text).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                first = min([statement.lineno, *(decorator.lineno for decorator in statement.decorator_list)])
                lines = text.splitlines()[first - 1 : statement.end_lineno]
                definitions[name] = Definition("\n".join(lines), _names(statement))
            case ast.Assign() | ast.AnnAssign():
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                for part in (part for target in targets for part in ast.walk(target)):
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        definitions[part.id] = Definition(ast.unparse(statement), _names(statement))
            case ast.Import(names=aliases):
                for alias in aliases:
                    text_of_it = ast.unparse(ast.Import([alias]))
                    definitions[alias.asname or alias.name.partition(".")[0]] = Definition(text_of_it, frozenset())
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                ours = module.partition(".")[0] in ("course_lib", "course_tools")
                if ours and aliases[0].name == "*":
                    aliases = [ast.alias(name) for name in names_of(_paths()[module])]
                for alias in aliases:
                    text_of_it = ast.unparse(ast.ImportFrom(module, [alias], 0))
                    imports = (module, alias.name) if ours else None
                    definitions[alias.asname or alias.name] = Definition(text_of_it, frozenset(), imports)
    return definitions


def _names(statement: ast.stmt) -> frozenset[str]:
    """Collect the names in a statement; those in annotations only of decorated functions: `shape_checked` evaluates them."""
    functions = [node for node in ast.walk(statement) if isinstance(node, ast.FunctionDef) and node.decorator_list]
    decorated = {id(part) for function in functions for part in (function, *ast.walk(function.args))}
    names, waiting = set(), [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            names.add(node.id)
        unread = set() if id(node) in decorated else {id(getattr(node, part, None)) for part in ("annotation", "returns")}
        waiting += [child for child in ast.iter_child_nodes(node) if id(child) not in unread]
    return frozenset(names)
