"""The documents agree with the code: papers.md with docstrings, notation.md with signatures, guides with files."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import nbformat
import pytest

from course_tools.publishing.sections import anchor, headings
from tests.rule import for_each

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LIBRARY = sorted((ROOT / "course_lib").rglob("*.py"))
OF_LECTURES = sorted((ROOT / "course_tools" / "lectures").rglob("*.py"))
LECTURES = {path.name[:2] for path in (ROOT / "authoring").glob("[0-9][0-9]_*.py")}

ADDRESS = re.compile(r"https?://(?:[^\s()<>\"'`]|\([^\s()]*\))+")
CODE = re.compile(r"`([^`\n]+)`")
BESIDE = re.compile(r"((?:`[^`\n]+`(?:, | and )?)+) in `([^`\n]+\.py)`(?:, where (`[^`\n]+`))?")
"""Names in backticks, the file that a sentence says they are in, and a further name after "where"."""
LINK = re.compile(r"\[([^\]]+)\]\(<?([^)\s>]+(?:\([^)\s]*\)[^)\s>]*)?)>?\)")
NOT_PAPERS = (
    "https://babel.pocoo.org",
    "https://cldr.unicode.org",
    "https://docs.kidger.site",
    "https://doi.org/10.24432/",  # the data sets of UCI
    "https://github.com/",
    "https://huggingface.co/docs/",
    "https://nbgrader.readthedocs.io",
    "https://numpydoc.readthedocs.io",
    "https://pypi.org/project/",
    "https://scikit-learn.org",
)
"""Addresses in docstrings that lead to a tool or to data instead of a paper."""
GUIDES = ("architecture.md", "adding.md")
"""Pages that tell developers which file contains what."""
NOT_IN_THE_REPOSITORY = {
    *("course_lib/attention/cosine.py", "tests/course_lib/attention/test_cosine.py"),  # those of the example
    "course_tools/bank/lecture_NN/cosine_attention.py",
    *("site/", "slides/", "work/"),  # written by commands
}


def addresses(text: str) -> set[str]:
    return {found.rstrip(".,;:") for found in ADDRESS.findall(text)}


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def cited() -> dict[str, set[str]]:
    """Map the address of each paper in a docstring to the files whose docstrings contain it."""
    found: dict[str, set[str]] = {}
    for path in (*LIBRARY, *OF_LECTURES):
        for node in nodes(path):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                for address in addresses(ast.get_docstring(node) or ""):
                    found.setdefault(address, set()).add(path.relative_to(ROOT).as_posix())
    return {address: files for address, files in found.items() if not address.startswith(NOT_PAPERS)}


def tables(page: str) -> dict[str, list[dict[str, str]]]:
    """Map the heading of each table of a page to its rows, as dicts from the column names."""
    found = {}
    for section in (DOCS / page).read_text(encoding="utf-8").split("\n## ")[1:]:
        lines = [line[1:-1].split("|") for line in section.splitlines() if line.startswith("|")]
        head, _, *body = [[cell.strip() for cell in line] for line in lines]
        found[section.partition("\n")[0]] = [dict(zip(head, row, strict=True)) for row in body]
    return found


def papers() -> dict[str, dict[str, str]]:
    """Map each address in papers.md to its row."""
    rows = [row for table in tables("papers.md").values() for row in table]
    by_address = {LINK.fullmatch(row["Link"])[2]: row for row in rows}
    assert len(by_address) == len(rows), "a paper is listed twice"
    return by_address


def axes() -> Iterator[tuple[str, Path]]:
    """Yield each name of an axis in a signature or a type of the library, with its file."""
    for path in LIBRARY:
        for node in nodes(path):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("Float", "Int", "Bool"):
                words = re.findall(r"[A-Za-z]\w*", str(getattr(node.slice.elts[1], "value", "")))
                yield from ((word, path) for word in words)


@cache
def in_signatures() -> set[str]:
    """Return the names of arguments, axes, fields and attributes in the library."""
    names = {word for word, _ in axes()}
    for node in (node for path in LIBRARY for node in nodes(path)):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
            names.add(node.attr)
    return names


@cache
def defined() -> set[str]:
    """Return the functions, classes and types of the library."""
    names = set()
    for node in (node for path in LIBRARY for node in nodes(path)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {
                part.id for part in ast.walk(node.targets[0]) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            }
    return names


def code_names(heading: str) -> set[str]:
    cells = [row["In code"] for row in tables("notation.md")[heading]]
    return {name.removeprefix("*") for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_paper_that_a_docstring_cites_stands_in_papers_md():
    """An address of a tool or of data belongs in NOT_PAPERS above."""
    assert set(cited()) - set(papers()) == set()


def test_papers_md_names_no_paper_that_nobody_cites():
    assert set(papers()) - set(cited()) == set()


@for_each(["Sizes", "Tensors"])
def test_a_size_and_a_tensor_are_called_so_in_a_signature(heading):
    assert len(code_names(heading)) > 40
    assert code_names(heading) - in_signatures() == set()


@for_each(["Functions and operators", "Conventions"])
def test_a_function_and_a_convention_name_what_the_library_has(heading):
    assert len(code_names(heading)) > 25
    assert code_names(heading) - in_signatures() - defined() == set()


def test_an_axis_that_is_common_is_explained():
    """An axis is common if four files use it, among those that students and authors call."""
    used: dict[str, set[Path]] = {}
    for name, path in axes():
        if not path.parent.name.startswith("lecture_"):
            used.setdefault(name, set()).add(path)
    common = {name for name, paths in used.items() if len(paths) >= 4}
    assert len(common) > 15
    assert common - code_names("Sizes") == set()


def test_a_letter_that_has_several_meanings_names_lectures_that_there_are():
    rows = tables("notation.md")["One letter, several meanings"]
    named = {row["Letter"]: set(row["In lectures"].split(", ")) for row in rows}
    assert {letter: lectures for letter, lectures in named.items() if len(lectures) < 2 or not lectures <= LECTURES} == {}


@for_each(sorted(path.name for path in DOCS.glob("*.md")))
def test_each_link_of_a_page_leads_to_a_file(page):
    links = [link for _, link in LINK.findall((DOCS / page).read_text(encoding="utf-8"))]
    inside = [link.partition("#")[0] for link in links if not link.startswith(("http", "#"))]
    assert [link for link in inside if not (DOCS / link).exists()] == []


def paths(page: str) -> set[str]:
    """The files and folders that a page names in backticks, with `NN_topic` and `lecture_NN` as patterns."""
    spans = set(CODE.findall((DOCS / page).read_text(encoding="utf-8")))
    named = {span for span in spans if re.fullmatch(r"\.?\w[\w./]*", span) and ("/" in span or re.search(r"\.\w+$", span))}
    files = {span for span in named if "/" in span or span.endswith((".py", ".md", ".toml"))}
    return {
        span.replace("NN_topic", "[0-9][0-9]_*").replace("lecture_NN", "lecture_[0-9][0-9]")
        for span in files - NOT_IN_THE_REPOSITORY
    }


def defines(path: Path, name: str) -> bool:
    """Whether a file defines a name such as `attend`, `attend(scores)` or `MultiHead.step` at its top level."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.partition("(")[0].split("."):
        found = [node for node in body if getattr(node, "name", "") == part]
        if not found:
            return False
        body = getattr(found[0], "body", [])
    return True


@pytest.mark.parametrize(("page", "least"), [("architecture.md", 25), ("adding.md", 10)])
def test_each_path_of_a_guide_exists(page, least):
    assert len(paths(page)) >= least
    assert {path for path in paths(page) if not list(ROOT.glob(path))} == set()


def test_each_name_is_in_the_file_that_a_guide_names():
    pairs = [
        (name, file)
        for page in GUIDES
        for names, file, further in BESIDE.findall((DOCS / page).read_text(encoding="utf-8"))
        for name in CODE.findall(names + further)
    ]
    assert {"attend", "StepwiseMechanism", "KeysValues", "MultiHead.step", "cached_step", "verdict", "judge"} <= dict(
        pairs
    ).keys()
    assert [(name, file) for name, file in pairs if not defines(ROOT / file, name)] == []


def test_a_name_that_is_not_defined_is_found_missing():
    core = ROOT / "course_lib/attention/core.py"
    assert defines(core, "attend(scores, values, mask)")
    assert not defines(core, "attended")
    assert not defines(core, "Mechanism.step")


@for_each(["course_lib", "course_tools"])
def test_the_table_of_packages_lists_each_package_and_module(package):
    """What a package contains in its own folder: sub-packages, and modules except its entry points."""
    section = (DOCS / "architecture.md").read_text(encoding="utf-8").split(f"### {package}, ")[1].partition("###")[0]
    listed = {name for line in section.splitlines() if line.startswith("| `") for name in CODE.findall(line.split("|")[1])}
    folder = ROOT / package
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert listed == modules | {path.parent.name for path in folder.glob("*/__init__.py")}


def test_every_module_of_a_notebook_is_in_the_table_of_purposes():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    listed = set(CODE.findall(text.split("by what they are for:")[1].partition("###")[0]))
    folder = ROOT / "course_tools/notebook"
    assert listed == {path.stem for path in folder.glob("[!_]*.py")} | {
        path.parent.name for path in folder.glob("*/__init__.py")
    }


@for_each(GUIDES)
def test_the_calls_of_a_guide_use_what_the_library_has(page):
    """The function of a call, and what is passed by name; the mechanism of the example is not in the library."""
    spans = [span for span in CODE.findall((DOCS / page).read_text(encoding="utf-8")) if re.fullmatch(r"\w+\(.*\)", span)]
    calls = [ast.parse(span, mode="eval").body for span in spans]
    used = [node for call in calls for node in (call.func, *(argument.value for argument in call.keywords))]
    named = {node.id for node in used if isinstance(node, ast.Name)}
    assert named
    assert named - defined() - {"cosine_attention"} == set()


def test_what_the_glossary_names_is_in_the_library():
    named = re.findall(r"`course_lib\.(\w+)\.(\w+)`", (DOCS / "glossary.md").read_text(encoding="utf-8"))
    assert len(named) > 50
    assert [f"{room}.{name}" for room, name in named if not hasattr(import_module(f"course_lib.{room}"), name)] == []


def test_the_glossary_is_in_order_and_each_entry_leads_to_a_section_that_exists():
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^## (.+)$", page, flags=re.MULTILINE)
    links = re.findall(r"^\[.+\]\(\.\./(lectures/.+)\)$", page, flags=re.MULTILINE)
    assert terms == sorted(set(terms), key=str.casefold)
    assert len(links) == len(terms)
    for name, _, section in (link.partition("#") for link in links):
        cells = nbformat.read(ROOT / name, as_version=4).cells
        anchors = {anchor(words) for cell in cells if cell.cell_type == "markdown" for _, words in headings(cell.source)}
        assert section in anchors, f"glossary.md: {name} has no section {section!r}"
