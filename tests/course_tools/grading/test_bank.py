"""The bank, handed in as notebooks: through the sandbox, each right answer earns all points, each wrong one gets its own."""

import ast
import sys
from pathlib import Path

from course_tools.bank import exercises
from course_tools.checks import Exercise
from course_tools.grading.extract.programs import Notebook, handed_out
from course_tools.publishing.source import FunctionSource
from tests.course_tools.grading.conftest import submitted
from tests.course_tools.judged import outcomes


def names_in(assignment):
    return {node.id for target in assignment.targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def as_a_cell(answer, name):
    """The text of an answer of the bank, with what it needs of its file, under the name of the exercise."""
    tree = ast.parse(Path(sys.modules[answer.__module__].__file__).read_text(encoding="utf-8"))
    kept = [
        node
        for node in tree.body
        if isinstance(node, ast.Import | ast.FunctionDef | ast.ClassDef)
        or (isinstance(node, ast.ImportFrom) and not node.module.startswith("course_tools.checks"))
        or (isinstance(node, ast.Assign) and not {"wrong", "right", "HINTS", "exercise"} & names_in(node))
    ]
    kept = [node for node in kept if not (isinstance(node, ast.FunctionDef) and "draw" in {a.arg for a in node.args.args})]
    for node in (node for node in kept if isinstance(node, ast.FunctionDef)):
        node.decorator_list = [
            mark for mark in node.decorator_list if ast.unparse(mark).partition(".")[0] not in ("wrong", "right")
        ]
    kept = _needed(answer.__name__, kept)
    beside = ast.unparse(ast.Module([*kept, *_reference_for(answer, name, kept)], []))
    return f"{beside}\n\n{name} = {answer.__name__}\n"


def _needed(name, kept):
    """The imports among these statements, and what defines a name or what that needs."""
    defined = {
        name: {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} for node in kept for name in _binds(node)
    }
    needed, new = set(), {name}
    while new:
        needed |= new
        new = set().union(*(defined.get(each, set()) for each in new)) & defined.keys() - needed
    return [node for node in kept if isinstance(node, ast.Import | ast.ImportFrom) or _binds(node) & needed]


def _binds(node):
    if isinstance(node, ast.Assign):
        return names_in(node)
    return {node.name} if isinstance(node, ast.FunctionDef | ast.ClassDef) else set()


def _reference_for(answer, name, kept):
    """The text of the reference as `_name`, for an answer that calls it: inside, the library's own is not at hand.

    What calls it in `kept` is renamed.
    """
    if name not in answer.__code__.co_names:
        return []
    reference = vars(sys.modules[answer.__module__])[name]
    if reference.__module__ == answer.__module__:  # set by hand in the bank itself: its text is among `kept`
        (text,) = (node for node in kept if isinstance(node, ast.FunctionDef) and node.name == name)
        added = []
    else:
        (text,) = ast.parse(FunctionSource.of(reference).text()).body
        known = vars(sys.modules[reference.__module__])
        used = sorted({node.id for node in ast.walk(text) if isinstance(node, ast.Name)} & known.keys())
        added = [*(ast.ImportFrom(reference.__module__, [ast.alias(used_name)], 0) for used_name in used), text]
    text.name = f"_{name}"
    for node in (node for part in kept for node in ast.walk(part)):
        if isinstance(node, ast.Name) and node.id == name:
            node.id = text.name
    return added


def mark_of_answer(engine, asked, source):
    return engine.mark(Notebook(submitted(asked, source), asked.lecture), asked)


def text_of(reference):
    """The text of a reference; while its lecture has no notebook, with the imports that the notebook would hold."""
    module = sys.modules[reference.__module__]
    text = FunctionSource.of(reference).text()
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} & vars(module).keys()
    used = () if handed_out(asked_of(reference).lecture) else sorted(names)
    return "\n".join([*(f"from {module.__name__} import {name}" for name in used), text])


def asked_of(reference):
    return next(item for item in exercises() if item.reference is reference)


def ways_out(asked, answer):
    """How the results of an answer leave the sandbox, call by call: types, gradients, changed arguments, forbidden calls."""
    found = outcomes(asked.id, answer)
    types = ([getattr(result, "dtype", type(result)) for result in one.results or ()] for one in found)
    return [(each, one.gradients is None, one.changed, one.shared, one.called) for each, one in zip(types, found, strict=True)]


def test_every_right_answer_earns_all_points(engine, asked: Exercise, request):
    """Without `--full`, the first of them: the reference stands in the solved notebook, which test_handed_out.py grades."""
    some = asked.right if request.config.getoption("--full") else asked.right[:1]
    sources = {answer.__name__: as_a_cell(answer, asked.reference.__name__) for answer in some}
    if not handed_out(asked.lecture):
        sources["the reference"] = text_of(asked.reference)
    marks = {name: mark_of_answer(engine, asked, source) for name, source in sources.items()}
    refused = {name: mark for name, mark in marks.items() if not mark.passed or mark.points != mark.max_points or mark.flags}
    assert refused == {}


def test_every_wrong_answer_gets_its_own_misconception(engine, asked: Exercise, request):
    """The first of each exercise; with `--full` also each whose results leave the sandbox in another way than right ones.

    What comes out is judged by the same engine as outside, where the tests of the bank try all of them.
    """
    tried = asked.wrong[:1]
    if request.config.getoption("--full"):
        usual = ways_out(asked, asked.reference)
        tried = [*tried, *(wrong for wrong in asked.wrong[1:] if ways_out(asked, wrong) != usual)]
    marks = {wrong: mark_of_answer(engine, asked, as_a_cell(wrong, asked.reference.__name__)) for wrong in tried}
    reported = {wrong.__name__: mark for wrong, mark in marks.items() if mark.misconception != " ".join(wrong.__doc__.split())}
    assert reported == {}
    assert not any(mark.passed or mark.points >= mark.max_points for mark in marks.values())
