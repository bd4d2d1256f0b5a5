"""Build the site: write its pages as Markdown and notebooks, run Sphinx on them, add the files that the pages load."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import nbformat

from course_tools import microscope
from course_tools.bank import exercises
from course_tools.publishing.outputs import claims
from course_tools.publishing.papers import papers_page
from course_tools.publishing.project import Lecture, PublishingFailed, lectures
from course_tools.publishing.site import web_notebooks, web_pages
from course_tools.publishing.site.evidence import evidence_pages
from course_tools.publishing.site.lean_pages import lean_pages
from course_tools.publishing.slides.deck_page import write_deck
from course_tools.publishing.teaching import teaching
from course_tools.publishing.web_assets import copy_mathjax, require_site_extra

_HERE = Path(__file__).parent
_ADDRESS = re.compile(r"https://[^\s/]+(?:/[^\s/]+){2,}/?")


def build_site(
    root: Path, out: Path, numbers: Sequence[str] = (), packages: Sequence[str] = (), repository: str = ""
) -> list[str]:
    """Write the site of the course into a folder. Nothing is executed: figures and numbers come from solutions/.

    Args:
        root: the folder of the course.
        out: the output folder; an earlier site in it is replaced.
        numbers: the lectures, such as "04"; none = all.
        packages: the packages of the library that the reference describes, such as "attention"; none = all.
        repository: the https address of the course's repository; each lecture gets a button that opens it on Binder, each page
            one that leads to the repository. Empty = neither.

    Returns:
        the warnings of Sphinx; empty if there are none.

    Raises:
        PublishingFailed: the extra `[site]` is missing, the folder is not an earlier site, the address is invalid, or Sphinx
            failed.
    """
    require_site_extra()
    if repository and not _ADDRESS.fullmatch(repository):
        raise PublishingFailed(f"the address of a repository must look like https://host/name/course, not {repository!r}.")
    if out.exists() and any(out.iterdir()) and not (out / "searchindex.js").exists():
        raise PublishingFailed(f"{out} is not an earlier site; choose another folder with --out.")
    chosen = lectures(root, numbers)
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "source"), Path(folder, "site")
        _write_pages(root, source, built, chosen, packages)
        warnings = _run_sphinx(source, built, Path(folder, "doctrees"), repository)
        lean_pages(built)
        copy_mathjax(built / "_static" / "mathjax")
        icons = built / "_static" / "scripts" / "fontawesome.js"
        for leftover in (*built.rglob("*.map"), *built.rglob("*webpack-macros.html"), icons, built / ".buildinfo"):
            leftover.unlink(missing_ok=True)
        for folder_left in (built / "_sources", built / "_static" / "styles", built / "_static" / "vendor", out):
            shutil.rmtree(folder_left, ignore_errors=True)
        shutil.copytree(built, out)
    return warnings


def _write_pages(root: Path, source: Path, built: Path, chosen: list[Lecture], packages: Sequence[str]) -> None:
    """Write the source of every page in the folder structure of the course, so that relative links stay valid."""
    written = web_pages.api_pages(root, packages)
    companion = web_pages.with_symbols((root / "docs" / "companion.md").read_text(encoding="utf-8"), written)
    made = {"docs/companion.md": companion, "docs/teaching.md": teaching(root), "docs/papers.md": papers_page(root)}
    made |= evidence_pages(root)
    files = {f"docs/{path.name}": path for path in sorted((root / "docs").glob("*.md"))}
    documents = {Path(name).stem: name for name in {**files, **made}}
    notebooks = {f"lectures/{each.stem}.ipynb" for each in chosen}
    pages = {*notebooks, *documents.values(), *written}
    for name in documents.values():
        text = made.get(name) or files[name].read_text(encoding="utf-8")
        written[name] = web_pages.relinked(text, name, pages)
    sections = _sections(chosen, documents)
    pictures = root / "docs" / "pictures"
    cards = [web_notebooks.card_of(each, built / web_notebooks.FIGURES) for each in chosen]
    written["index.md"] = web_pages.landing(_figures(chosen), chosen, cards, pictures.is_dir(), sections)
    for name, text in written.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, encoding="utf-8")
    glossary, start = (files[f"docs/{name}.md"].read_text(encoding="utf-8") for name in ("glossary", "start"))
    (built / "_static").mkdir(parents=True, exist_ok=True)
    (built / "_static" / "terms.js").write_text(web_pages.glossary_terms(glossary), encoding="utf-8")
    (built / "_static" / "sections.js").write_text(web_pages.section_words(chosen, start), encoding="utf-8")
    index = web_pages.glossary_index(glossary)
    for each in chosen:
        relink = partial(web_pages.relinked, page=each.name(each.unsolved), pages=pages)
        _write_lecture(each, source, built, relink, index.get(each.number, {}))
        write_deck(each, built / "slides" / f"{each.stem}.html", built / "_static", "../_static")
    if pictures.is_dir():
        shutil.copytree(pictures, built / "_static" / "pictures")
    microscope.write(built / "microscope.html", {each.number: f"lectures/{each.stem}.html" for each in chosen})


def _write_lecture(
    lecture: Lecture, source: Path, built: Path, relink: Callable[[str], str], index: dict[str, list[str]]
) -> None:
    """Write the page of a lecture, made from its solution, and both notebooks to download."""
    for path in (lecture.unsolved, lecture.solution):
        copy = built / "notebooks" / lecture.name(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    notebook = nbformat.read(lecture.solution, as_version=4)
    page = source / lecture.name(lecture.unsolved)
    page.parent.mkdir(exist_ok=True)
    banner = web_pages.banner(lecture)
    nbformat.write(web_notebooks.page_of(notebook, banner, built / web_notebooks.FIGURES, relink, index), page)


def _sections(chosen: list[Lecture], documents: dict[str, str]) -> dict[str, list[str]]:
    """Return the menu: caption -> pages."""
    listed = {name for names in web_pages.DOCUMENTS.values() for name in names}
    sections = {"Lectures": [f"lectures/{each.stem}" for each in chosen]}
    for caption, names in web_pages.DOCUMENTS.items():
        sections[caption] = [documents[name].removesuffix(".md") for name in names if name in documents]
    sections["The library"] = ["api/index", *sections["The library"]]
    sections["The library"] += [name.removesuffix(".md") for stem, name in documents.items() if stem not in listed]
    return sections


def _figures(chosen: list[Lecture]) -> web_pages.Figures:
    numbers = {each.number for each in chosen}
    asked = [item for item in exercises() if item.lecture in numbers]
    made = [claim for each in chosen for claim in claims(nbformat.read(each.solution, as_version=4))]
    return web_pages.Figures(len(chosen), len(asked), sum(len(item.wrong) for item in asked), len(made))


def _run_sphinx(source: Path, built: Path, doctrees: Path, repository: str) -> list[str]:
    """Run Sphinx in a separate process; return its warnings."""
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-b",
        "html",
        "-c",
        str(_HERE),
        "-d",
        str(doctrees),
        str(source),
        str(built),
    ]
    path = os.pathsep.join(filter(None, [str(_HERE.parents[2]), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1", "NO_COLOR": "1", "COURSE_SITE_REPOSITORY": repository}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        raise PublishingFailed(f"Sphinx could not build the site:\n{done.stderr.strip()[-3000:]}")
    lines = [line.replace(str(source) + os.sep, "") for line in done.stderr.splitlines()]
    return [line for line in lines if "WARNING" in line or "ERROR" in line]
