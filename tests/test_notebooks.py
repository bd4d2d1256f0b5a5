"""The committed notebooks match their authoring sources and the course's rules. nbval runs them; this checks the rest."""

import ast
import builtins
import re
import symtable
import sys
from functools import cache
from html import unescape
from itertools import groupby, pairwise, takewhile
from pathlib import Path

import jupytext
import nbformat

from course_tools.bank import exercise, exercises
from course_tools.checks.inline_markup import to_html
from course_tools.notebook import diagrams
from course_tools.publishing import Lecture, cell_width, lectures, measured
from course_tools.publishing.build import stale
from course_tools.publishing.lecture_cells import check_call
from course_tools.publishing.nbgrader_cells import STUB
from course_tools.publishing.outputs import claims, code_cells, failures, tags
from course_tools.publishing.student_time import opens_further
from tests.rule import for_each

ROOT = Path(__file__).parents[1]
LECTURES = lectures(ROOT)
ACTIVE = {"hints", "predict", "progress", "try-it", "interactive", "quiz"}
MAX_PASSIVE, MAX_WIDTH = 6, cell_width.WIDTH
ELSEWHERE = re.compile(r"(?<![\w.:/~>])/(?:home|root|Users|tmp|var|usr|opt|mnt|private|work)/\S*|\b[A-Z]:\\\S*")

each_lecture = for_each(LECTURES, lambda lecture: lecture.number)


@cache
def solved(lecture: Lecture) -> nbformat.NotebookNode:
    return nbformat.read(lecture.solution, as_version=4)


@cache
def unsolved(lecture: Lecture) -> nbformat.NotebookNode:
    return nbformat.read(lecture.unsolved, as_version=4)


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def is_active(cell: nbformat.NotebookNode) -> bool:
    return bool(ACTIVE & set(tags(cell))) or "exercise" in cell.metadata or check_call(cell.source) is not None


def only_imports(cell: nbformat.NotebookNode) -> bool:
    """A cell with the imports of an exercise, which requires nothing of its reader."""
    statements = ast.parse(cell.source).body if cell.cell_type == "code" else []
    return bool(statements) and all(isinstance(statement, ast.Import | ast.ImportFrom) for statement in statements)


def calls(cell: nbformat.NotebookNode, name: str) -> bool:
    called = (node.func for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Name) and function.id == name for function in called)


def test_everything_built_is_what_the_sources_give():
    assert not (lines := stale(ROOT)), "\n".join(lines)


@each_lecture
def test_both_notebooks_are_valid(lecture):
    nbformat.validate(unsolved(lecture))
    nbformat.validate(solved(lecture))


@each_lecture
def test_a_lecture_holds_no_output_and_no_solution(lecture):
    notebook = unsolved(lecture)
    assert not [cell.source for cell in code_cells(notebook) if cell.outputs and "diagram" not in tags(cell)]
    assert all(cell.execution_count is None for cell in code_cells(notebook))
    answers = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    assert answers
    for cell in answers:
        (function,) = ast.parse(cell.source).body
        assert ast.get_docstring(function), cell.source
        documented_end = function.body[0].end_lineno
        body = cell.source.splitlines()[documented_end:]
        assert [line.strip() for line in body if line.strip()] == STUB.splitlines()
    assert not any("SOLUTION" in cell.source for cell in notebook.cells)


@each_lecture
def test_a_solution_is_executed_whole_and_raises_only_where_it_says_so(lecture):
    notebook = solved(lecture)
    counts = [cell.execution_count for cell in code_cells(notebook) if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))
    assert failures(notebook) == []
    assert not [output.text for output in outputs(notebook) if output.get("name") == "stderr"]


@each_lecture
def test_nbval_has_something_to_compare(lecture):
    checked = [cell for cell in code_cells(solved(lecture)) if "nbval-check-output" in tags(cell)]
    assert checked
    assert all(cell.execution_count and cell.outputs for cell in checked)


@each_lecture
def test_every_exercise_is_in_its_lecture_and_passes_in_the_solution(lecture):
    asked = [item.id for item in exercises() if item.lecture == lecture.number]
    written = [cell.metadata["exercise"] for cell in unsolved(lecture).cells if "exercise" in cell.metadata]
    assert set(asked) <= set(written)
    for cell in code_cells(solved(lecture)):
        marks = cell.metadata.get("nbgrader", {})
        if marks.get("locked"):
            (result,) = [output for output in cell.outputs if output.output_type == "execute_result"]
            full = next(item.points for item in exercises() if item.id == check_call(cell.source)[0])
            assert float(result.data["text/plain"]) == full, cell.source


@each_lecture
def test_an_exercise_can_be_started_after_the_import_cell_alone(lecture):
    """Its cell and its check use only names of the first cell and of its section; so does all that precedes a build task."""
    cells = solved(lecture).cells
    if not any(opens_further(cell.source) for cell in cells if cell.cell_type == "markdown"):
        return  # not yet divided into a core and what goes further
    first = next(cell for cell in code_cells(solved(lecture)) if "diagram" not in tags(cell))
    known = set(dir(builtins)) | global_names(first.source)[1]
    section: list[tuple[set[str], set[str]]] = []
    for cell in cells:
        if cell.cell_type == "markdown":
            section = [] if re.search(r"^## ", cell.source, re.MULTILINE) else section
            continue
        used, bound = global_names(cell.source)
        missing = used - bound - known - {name for _, names in section for name in names}
        section.append((missing, bound))
        asked = cell.metadata.get("exercise") or (check_call(cell.source) or [None])[0]
        if asked and exercise(asked).training:
            missing = {name for lacks, _ in section for name in lacks}
        assert not (asked and missing), f"{cell.source.splitlines()[0]} needs {', '.join(sorted(missing))}"


def global_names(source: str) -> tuple[set[str], set[str]]:
    """The global names that a cell reads, and those that it binds."""
    top = symtable.symtable(source, "cell", "exec")
    bound = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    used, tables = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}, top.get_children()
    while tables:
        table = tables.pop()
        used |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
        tables += table.get_children()
    return used, bound


def test_a_name_of_another_section_is_seen():
    assert global_names("import torch as t\ny = f(t)\ndef g(x):\n    return x + z") == ({"t", "f", "z"}, {"t", "y", "g"})


@each_lecture
def test_a_bug_hunt_runs_as_it_stands_and_is_told_its_own_misconception(lecture):
    """The cell contains the code of one function only: a name that is defined only in the bank would raise an error."""
    hunted = [cell.metadata["bug"] for cell in code_cells(solved(lecture)) if "bug" in cell.metadata]
    told = " ".join(output.data.get("text/html", "") for output in outputs(solved(lecture)) if "data" in output)
    bank = {wrong.__name__: wrong for item in exercises() if item.lecture == lecture.number for wrong in item.wrong}
    assert hunted
    assert [name for name in hunted if to_html(" ".join(bank[name].__doc__.split())) not in told] == []


@each_lecture
def test_checks_and_claims_are_compared_by_nbval(lecture):
    for cell in code_cells(unsolved(lecture)):
        if check_call(cell.source) or calls(cell, "claim"):
            assert "nbval-check-output" in tags(cell), cell.source


@each_lecture
def test_every_claim_is_measured_and_none_stands_twice(lecture):
    shown = [output.get("metadata", {}).get("course_claim") for output in outputs(solved(lecture))]
    stated = [claim["id"] for claim in shown if claim]
    written = [cell for cell in code_cells(solved(lecture)) if calls(cell, "claim")]
    assert written
    assert len(stated) == len(set(stated)) >= len(written)
    assert all(claim["held"] and claim["id"].startswith(f"{lecture.number}.") for claim in claims(solved(lecture)))


@each_lecture
def test_the_table_of_a_build_task_lists_the_points_that_its_check_gives(lecture):
    source = (ROOT / lecture.source_name).read_text(encoding="utf-8")
    for table in re.finditer(r"# \| points \| what is judged \|\n# \| --- \| --- \|\n((?:# \|.*\n)+)", source):
        id = re.search(r'exercise="([\d.]+)" difficulty', source[table.end() :])[1]
        listed = [int(row.split("|")[1]) for row in table[1].splitlines()]
        assert listed == [prop.points for prop in exercise(id).properties if prop.points], id


def without_diagrams(cells: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Leave out diagrams and the Markdown cells that continue the one before a diagram."""
    kept = []
    for before, cell in pairwise([None, *cells]):
        drawn = before is not None and "diagram" in tags(before)
        if "diagram" not in tags(cell) and not (drawn and cell.cell_type == "markdown" and not cell.source.startswith("#")):
            kept.append(cell)
    return kept


@each_lecture
def test_a_reader_of_the_core_is_never_passive_for_long(lecture):
    core = takewhile(lambda cell: cell.cell_type == "code" or not opens_further(cell.source), unsolved(lecture).cells)
    cells = without_diagrams([cell for cell in core if not only_imports(cell)])
    for active, run in groupby(cells, key=is_active):
        heads = [cell.source.partition("\n")[0] for cell in run]
        assert active or len(heads) <= MAX_PASSIVE, "\n".join(heads)


@each_lecture
def test_the_parts_of_a_lecture_are_there(lecture):
    cells = unsolved(lecture).cells
    found = {tag for cell in cells for tag in tags(cell)}
    assert {"header", "predict", "try-it", "interactive", "quiz", "ledger"} <= found
    assert tags(cells[0]) == ["header"]
    assert cells[0].source.startswith(f"# {lecture.number} · ")
    assert measured.sentence(measured.load(ROOT)[lecture.number]) in cells[0].source
    assert any("bug" in cell.metadata for cell in cells)
    assert ["ledger" in tags(cell) for cell in code_cells(unsolved(lecture))[-2:]] == [True, False]
    assert "progress" in tags(code_cells(unsolved(lecture))[-1])


@each_lecture
def test_a_line_of_code_fits_beside_the_file_browser_of_jupyterlab(lecture):
    cells = jupytext.read(lecture.authoring).cells
    lines = [line for cell in cells if cell.cell_type == "code" for line in cell.source.splitlines()]
    assert not [line for line in lines if len(line) > MAX_WIDTH]


@each_lecture
def test_every_column_of_a_table_has_a_heading(lecture):
    cells = [cell for cell in jupytext.read(lecture.authoring).cells if cell.cell_type == "markdown"]
    assert not [heads for cell in cells for heads in re.findall(r"^(\|.*)\n\|[ :]*---", cell.source, re.M) if "| |" in heads]


@each_lecture
def test_no_code_cell_of_a_built_notebook_is_wider(lecture):
    for notebook in (unsolved(lecture), solved(lecture)):
        lines = [line for cell in code_cells(notebook) for line in cell.source.splitlines()]
        assert not [line for line in lines if len(line) > MAX_WIDTH and "://" not in line]


@each_lecture
def test_the_first_code_cell_imports_the_course_and_little_else(lecture):
    allowed = {
        "course_lib",
        "course_tools",
        "torch",
        "einops",
        "jaxtyping",
        "scipy",
        "sklearn",
        "networkx",
    } | sys.stdlib_module_names
    first = next(cell for cell in code_cells(unsolved(lecture)) if "diagram" not in tags(cell))
    for statement in ast.walk(ast.parse(first.source)):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            names = [statement.module] if isinstance(statement, ast.ImportFrom) else [alias.name for alias in statement.names]
            assert {name.partition(".")[0] for name in names} <= allowed, ast.unparse(statement)


@each_lecture
def test_every_figure_says_in_words_what_it_shows(lecture):
    shown = outputs(solved(lecture))
    pictures = [i for i, output in enumerate(shown) if "image/png" in output.get("data", {})]
    assert pictures
    for i in pictures:
        alt = shown[i].metadata["image/png"]["alt"]
        assert len(alt.split()) >= 5
        assert shown[i].data["text/plain"] == alt
        assert to_html(alt) in shown[i + 1].data["text/html"]


@each_lecture
def test_a_strict_viewer_shows_every_picture_every_claim_and_every_alternative_text(lecture):
    """Code hosts drop SVG, scripts and images with data addresses from HTML and Markdown; others drop widgets, attachments."""
    source = (ROOT / lecture.source_name).read_text(encoding="utf-8")
    named = re.findall(r"^# !\[\]\(diagram:(\w+)\)$", source, re.MULTILINE)
    for notebook, path in ((solved(lecture), lecture.solution), (unsolved(lecture), lecture.unsolved)):
        kept = strictly_shown(notebook)
        pictures = [output for output in outputs(notebook) if "image/png" in output.get("data", {})]
        pages = [output.get("data", {}).get("text/html", "") for output in outputs(notebook)]
        said = [getattr(diagrams, name)().words() for name in named]
        said += [picture.metadata["image/png"]["alt"] for picture in pictures]
        said += [claim["text"].replace("**", "") for claim in claims(notebook)]
        assert [text for text in said if words(to_html(text)) not in kept] == []
        assert len(pictures) >= len(named) > 0
        assert [page[:200] for page in pages if "<img" in page and "<iframe" not in page] == []  # in a frame if no script runs
        assert path.stat().st_size < 1_200_000


def strictly_shown(notebook: nbformat.NotebookNode) -> str:
    """Return the words that a strict viewer shows besides code."""
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    pages = [output.get("data", {}).get("text/html", "") for output in outputs(notebook)]
    return words(" ".join(map(sanitized, [*prose, *pages])))


def sanitized(text: str) -> str:
    dropped = r"<(script|style|svg|iframe|object)\b.*?</\1>|<img\b[^>]*\bdata:[^>]*>|!\[[^\]]*\]\((?:data|attachment):[^)]*\)"
    return re.sub(dropped, "", text, flags=re.DOTALL | re.IGNORECASE)


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", "", html)).split())


def test_a_strict_viewer_drops_what_it_does_not_trust():
    trusted = "<figcaption>A <b>map</b></figcaption> ![a](figures/a.png)"
    for other in ('<img alt="b" src="data:image/png;base64,A">', "<svg><text>c</text></svg>", "![d](attachment:d.png)"):
        assert sanitized(trusted + other) == trusted


@each_lecture
def test_an_interactive_figure_moves_where_no_python_runs(lecture):
    """The solution stores its frames, which the site's sliders show."""
    explored = [cell for cell in code_cells(solved(lecture)) if "\nexplore(" in f"\n{cell.source}"]
    assert explored
    for cell in explored:
        assert any("course-frames" in output.get("data", {}).get("text/html", "") for output in cell.outputs)


@each_lecture
def test_no_folder_of_a_machine_and_no_widget_is_stored(lecture):
    for output in outputs(solved(lecture)):
        data = output.get("data", {})
        assert not [mime for mime in data if "widget" in mime]
        texts = [str(value) for mime, value in data.items() if mime.startswith("text/")]
        texts += [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", [])]
        for text in texts:
            assert not ELSEWHERE.search(text), text
    assert "widgets" not in solved(lecture).metadata
