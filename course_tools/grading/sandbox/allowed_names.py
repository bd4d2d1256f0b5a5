"""What of the library a student's code gets while it is judged: text, and only what its exercise needs.

The kit of an exercise holds the words for shapes, what its reference and the answers of its bank use, the functions that its
calls hand over, and the references of the exercises before it (so that a later exercise is judged with the right earlier
ones), each with all that it uses itself. It never holds
the exercise's own reference, nor anything that uses it. `pretend` runs it inside the sandbox, where a stand-in is found for
every other name of the course.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import course_lib
from course_tools.bank import exercise, exercises
from course_tools.checks import Exercise

Place = tuple[str, str]
"""A module and a name that it defines at its top level."""

ALWAYS = ("course_tools.notebook.device",)
"""Modules whose names every exercise gets: an honest answer may ask for the device."""
SHAPES = "course_lib.shapes"


@dataclass(frozen=True)
class Definition:
    """One statement at the top level of a module: its text, the names of its module that it uses, what it imports of ours."""

    source: str
    uses: frozenset[str]
    imports: Place | None = None


@cache
def allowed_names(id: str) -> dict:
    """Make the kit of an exercise, as `pretend.install` takes it."""
    allowed = _allowed(exercise(id))
    entries: dict[str, dict[str, dict]] = {}
    for module, definitions in _library().items():
        for name, definition in definitions.items():
            place = (module, name)
            if place in allowed or (definition.imports and _target(place) in allowed):
                needs = sorted(need for need in definition.uses if need in definitions)
                entries.setdefault(module, {})[name] = {"source": definition.source, "needs": needs}
    return {"modules": sorted(_library()), "entries": entries}


def _allowed(asked: Exercise) -> set[Place]:
    own = _place(asked)
    earlier = [_place(other) for other in exercises() if other.id < asked.id]
    always = [(module, name) for module in (SHAPES, *ALWAYS) for name in _library()[module]]
    roots = [*_used_by(own), *earlier, *always, *_handed_over(asked), *_used_by_the_bank(asked)]
    return set().union(*(reached for root in roots if own not in (reached := reach(root))))


def _handed_over(asked: Exercise) -> Iterator[Place]:
    """The functions of the library that the calls of an exercise hand over as arguments."""
    for value in (value for prop in asked.properties for call in asked.calls(prop, 0) for value in call):
        if callable(value):
            yield value.__module__, value.__qualname__


def _used_by_the_bank(asked: Exercise) -> Iterator[Place]:
    """What the answers that students give use of the library, right and wrong ones."""
    for answer in (*asked.right, *asked.wrong):
        for place in reach((answer.__module__, answer.__name__)):
            if not place[0].startswith(("course_tools.bank", "course_tools.checks")):
                yield place


def reach(place: Place) -> frozenset[Place]:
    """Give a definition of the library with all that it uses, through every import."""
    reached, waiting = set(), [place]
    while waiting:
        now = waiting.pop()
        if now not in reached:
            reached.add(now)
            waiting += _used_by(now)
    return frozenset(reached)


def _used_by(place: Place) -> Iterator[Place]:
    module, name = place
    definition = _library()[module][name]
    if definition.imports and definition.imports[1] in _library().get(definition.imports[0], {}):
        yield definition.imports
    yield from ((module, used) for used in definition.uses if used in _library()[module])


def _target(place: Place) -> Place:
    """Follow a name through imports to where it is defined."""
    imports = _library()[place[0]][place[1]].imports
    return _target(imports) if imports and imports[1] in _library().get(imports[0], {}) else place


def _place(exercise: Exercise) -> Place:
    return exercise.reference.__module__, exercise.reference.__name__


@cache
def _library() -> dict[str, dict[str, Definition]]:
    """Read every module of the library: what it defines at its top level, by name."""
    root = Path(course_lib.__file__).parents[1]
    found = {}
    for path in sorted([*(root / "course_lib").rglob("*.py"), *(root / "course_tools").rglob("*.py")]):
        parts = path.relative_to(root).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
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
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                definitions[name] = Definition(ast.unparse(statement), _names(statement))
            case ast.Import(names=aliases):
                for alias in aliases:
                    text_of_it = ast.unparse(ast.Import([alias]))
                    definitions[alias.asname or alias.name.partition(".")[0]] = Definition(text_of_it, frozenset())
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                ours = module.partition(".")[0] in ("course_lib", "course_tools")
                for alias in aliases:
                    text_of_it = ast.unparse(ast.ImportFrom(module, [alias], 0))
                    imports = (module, alias.name) if ours else None
                    definitions[alias.asname or alias.name] = Definition(text_of_it, frozenset(), imports)
    return definitions


def _names(statement: ast.stmt) -> frozenset[str]:
    """Collect the names that a definition speaks of, but for annotations, which are never evaluated inside."""
    names, waiting = set(), [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            names.add(node.id)
        unread = {id(getattr(node, part, None)) for part in ("annotation", "returns")}
        waiting += [child for child in ast.iter_child_nodes(node) if id(child) not in unread]
    return frozenset(names)
