"""The site's own pages and links: landing page, menu, API reference, links between pages and into the reference."""

import html
import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from urllib.parse import unquote

import nbformat

from course_tools.microscope import ROOMS
from course_tools.publishing.claims_table import cell
from course_tools.publishing.companion import resolve
from course_tools.publishing.project import Lecture
from course_tools.publishing.readme_picture import alternative_text
from course_tools.publishing.sections import headings, site_anchor
from course_tools.publishing.student_time import student_time

DOCUMENTS = {
    "For students": ("start", "glossary", "notation"),
    "Evidence": ("evidence", "claims", "rivals", "headlines", "studies"),
    "For teachers": ("teaching", "companion", "grading", "grading_security", "running"),
    "Reference": ("papers",),
    "The library": ("library", "data", "architecture", "adding", "several_devices"),
}
"""The pages of docs/ by the menu caption that lists them; a page that does not exist is left out."""
_TERM = re.compile(r"^## (.+)\n(?:\*Also: (.+)\.\*\n)?[^\[]*\[.*\]\(\.\./lectures/(\d\d)_\w+\.ipynb#(.+)\)$", re.MULTILINE)
_NO_PROSE = re.compile(r"<[^>]+>|\$[^$]*\$|\]\([^)]*\)|`[^`]*`|^#.*$|^\|.*\|$", re.MULTILINE)
_INSTALL_WORDS = (
    "install installation setup download clone pip conda docker binder colab windows macos requirements start run lab"
)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Figures:
    """The counts on the landing page."""

    lectures: int
    exercises: int
    wrong_answers: int
    claims: int


def relinked(text: str, page: str, pages: set[str]) -> str:
    """Rewrite the links of a Markdown page.

    Links to source files point to the API reference, those to either notebook of a lecture to its page; links to missing pages
    become plain text.

    Args:
        text: Markdown.
        page: the path of the page from the root of the course, such as `docs/papers.md`.
        pages: the pages of the site, by their paths from the root.
    """

    def rewritten(match: re.Match[str]) -> str:
        words, target = match[1], match[2].strip("<>")
        address, _, anchor = target.partition("#")
        if not address or re.match(r"[a-z][a-z+]*:", target):
            return match[0]
        path = normpath((PurePosixPath(page).parent / address).as_posix())
        path = f"lectures/{path.removeprefix('solutions/')}" if path.startswith("solutions/") else path
        if path in pages:
            words = "" if words == PurePosixPath(path).name and path.endswith(".md") else words  # the site inserts its title
            anchor = site_anchor(unquote(anchor)) if path.endswith(".ipynb") else anchor
            return f"[{words}]({_from(page, path)}{'#' + anchor if anchor else ''})"
        reference = api_address(path)
        if reference and reference.partition("#")[0] in pages:
            return f"[{words}]({_from(page, reference)})"
        return words

    return _LINK.sub(rewritten, text)


def api_address(path: str) -> str | None:
    """Return the page and anchor of the reference for a file such as `course_lib/attention/core.py`; None for other files."""
    parts = PurePosixPath(path).with_suffix("").parts
    if not path.startswith("course_lib/") or not path.endswith(".py"):
        return None
    package, *module = [part for part in parts[1:] if part != "__init__"] or ["index"]
    return f"api/{package}.md" + "".join(f"#{name}" for name in module)


def glossary_index(glossary: str) -> dict[str, dict[str, list[str]]]:
    """Return what the search knows a section by: number of a lecture -> anchor of a section on the site -> words.

    The words are those of the glossary that lead to the section: the term and its other names, also as they are typed: without
    hyphens, with "sqrt" for √.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for term, also, number, anchor in _TERM.findall(glossary):
        names = [name.strip() for name in (f"{term}, {also}" if also else term).split(",")]
        typed = [name.replace("√", "sqrt ").replace("_", "") for name in names]
        words = dict.fromkeys([*typed, *(name.replace("-", " ") for name in typed)])
        found.setdefault(number, {}).setdefault(site_anchor(unquote(anchor)), []).extend(words)
    return found


def glossary_terms(glossary: str) -> str:
    """Write the glossary as the script that lectures load: for each term its names, what it says, its entry, its section."""
    terms = []
    for entry in re.split(r"^(?=## )", glossary, flags=re.MULTILINE)[1:]:
        if found := _TERM.match(entry):
            term, also, *_ = found.groups()
            names = [name.strip() for name in (f"{term}, {also}" if also else term).split(",")]
            says = entry.partition("\n[")[0].split("\n", 2 if also else 1)[-1]
            section = re.search(r"/(\w+)\.ipynb#([^)]+)\)$", entry, flags=re.MULTILINE)
            address = f"{section[1]}.html#{site_anchor(unquote(section[2]))}"
            plain = " ".join(re.sub(r"[*`]|\[([^\]]*)\]\([^)]*\)", r"\1", says).split())
            terms.append([names, plain, f"../docs/glossary.html#{site_anchor(term)}", address])
    return f"window.COURSE_TERMS = {json.dumps(terms, ensure_ascii=False)};\n"


def section_words(lectures: Sequence[Lecture], start: str) -> str:
    """Write the script that the search loads: for each section its title, its address, the words of its prose.

    Args:
        lectures: their sections are found.
        start: the text of docs/start.md, whose questions are found, too.
    """
    found = [["How to install it", "index.html#how-to-install-it", _INSTALL_WORDS]]
    for question, answer in re.findall(r"^### (.+)\n((?:(?!#).*\n?)+)", start, re.MULTILINE):
        words = dict.fromkeys(re.findall(r"[a-z]{3,}", _NO_PROSE.sub(" ", answer).lower()))
        found.append([f"For students › {question}", f"docs/start.html#{site_anchor(question)}", " ".join(words)])
    for each in lectures:
        title, address = f"{each.number} · {each.title}", f"lectures/{each.stem}.html"
        places = [(title, address, [])]
        cells = nbformat.read(each.solution, as_version=4).cells
        for prose in (made.source for made in cells if made.cell_type == "markdown"):
            for part in re.split(r"^(?=#{2,3} )", prose, flags=re.MULTILINE):
                for _, heading in (named for named in headings(part) if named[0] > 1):
                    words = re.sub(r"[*`$\\]", "", heading)
                    places.append((f"{title} › {words}", f"{address}#{site_anchor(heading)}", []))
                places[-1][2].extend(re.findall(r"[a-z]{3,}", _NO_PROSE.sub(" ", part).lower()))
        found += [[name, place, " ".join(dict.fromkeys(words))] for name, place, words in places]
    return f"window.COURSE_SECTIONS = {json.dumps(found, ensure_ascii=False)};\n"


def symbol_address(symbol: str) -> str | None:
    """Return the page and anchor of a dotted name such as `course_lib.attention.attend`; None where the reference lacks it."""
    if not symbol.startswith("course_lib."):
        return None
    found = resolve(symbol)
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    if module is None or name is None or not module.startswith("course_lib."):
        return None
    return f"api/{module.split('.')[1]}#{module}.{name}"


def landing(
    figures: Figures,
    lectures: Sequence[Lecture],
    cards: Sequence[str],
    picture: bool,
    sections: Mapping[str, list[str]],
) -> str:
    """Write the landing page: what the course is, what to click first, the lectures, doors for teachers and engineers.

    Args:
        figures: the counts to show.
        lectures: the lectures on the site.
        cards: the cards of the lectures, list items of HTML.
        picture: whether the site has `_static/pictures`.
        sections: caption -> pages of the menu, as paths from the root of the site.
    """
    read = next((each for each in lectures if each.number == "04"), lectures[0])
    words = f"Read lecture {read.number}, {read.title} ({student_time(read).core} min)"
    why = ""
    buttons = f'<a class="sd-btn sd-btn-primary" href="lectures/{read.stem}.html">{words}</a>'
    if lectures[0] != read:
        first = f"Begin with {lectures[0].number}, {lectures[0].title}"
        buttons += f' <a class="sd-btn sd-btn-outline-primary" href="lectures/{lectures[0].stem}.html">{first}</a>'
        why = f"{read.number} is attention itself; start at {lectures[0].number} if recurrence is new to you."
    counts = (
        (figures.lectures, "lectures"),
        (figures.exercises, "exercises"),
        (figures.wrong_answers, "wrong answers tested"),
        (figures.claims, "claims measured"),
        (0, "data downloads"),
    )
    numbers = "".join(f"<li><b>{count:,}</b> {words}</li>" for count, words in counts)
    sample = f"```{{raw}} html\n{_picture('check', alternative_text())}\n```\n"
    lens = '<iframe src="microscope.html" title="Attention microscope" loading="lazy"></iframe>'
    door = '<span class="sd-btn sd-btn-outline-primary">Open the live page</span>'
    lens += f'<a href="microscope.html">{_picture("microscope", _LENS)}{door}</a>'
    return "\n".join(
        [
            _HEAD.format(
                lectures=figures.lectures,
                buttons=buttons,
                why=why,
                sample=sample if picture else _VERDICT,
                lens=lens if picture else "",
            ),
            _NUMBERS.format(numbers=numbers),
            _MAP.format(cards="\n".join(cards)),
            _DOORS.format(teacher=next(iter(sections.get("For teachers", [])), "docs/grading")),
            _INSTALL,
            _menu(sections),
        ]
    )


def with_symbols(text: str, pages: Container[str]) -> str:
    """Link each name of the library in backticks to the reference; a name without a page there stays as it is."""

    def reference(found: re.Match[str]) -> str:
        page, _, anchor = (symbol_address(found[1]) or "").partition("#")
        linked = f'<a href="../{page}.html#{anchor}"><code>{found[1]}</code></a>'
        return linked if f"{page}.md" in pages else found[0]

    return re.sub(r"`(course_lib\.[\w.]+)`", reference, text)


def api_pages(root: Path, packages: Sequence[str] = ()) -> dict[str, str]:
    """Write the reference: a page for each package of the library (none given = all), a section for a module with exports."""
    library, pages, rows = root / "course_lib", {}, []
    for path in sorted(library.iterdir()):
        if path.name.startswith("_") or not (path.suffix == ".py" or (path / "__init__.py").exists()):
            continue
        name = path.stem
        if packages and name not in packages:
            continue
        modules = sorted(p.stem for p in path.glob("*.py") if "\n__all__ = " in p.read_text(encoding="utf-8"))
        first = (import_module(f"course_lib.{name}").__doc__ or "").strip().partition("\n")[0]
        lines = [f"# course_lib.{name}", "", _automodule(f"course_lib.{name}", members=not modules)]
        for module in modules:
            lines += [f"## {module}", "", _automodule(f"course_lib.{name}.{module}", members=True)]
        pages[f"api/{name}.md"] = "\n".join(lines)
        rows.append(f"| [{name}]({name}.md) | {cell(first)} |")
    head = "# API reference\n\n`course_lib`, the library of the mechanisms. Import from a package what it exports.\n"
    table = "\n".join(["| Package | |", "| --- | --- |", *rows])
    menu = "\n".join(
        ["```{toctree}", ":hidden:", "", *(name.removeprefix("api/").removesuffix(".md") for name in pages), "```"]
    )
    return {"api/index.md": "\n".join([head, table, "", menu, ""]), **pages}


def banner(lecture: Lecture) -> str:
    """Write the buttons of a lecture: how to solve it in the course's folder, its live page, slides, both notebooks."""
    live = next((room for room, (number, _) in ROOMS.items() if number == lecture.number), None)
    page = f"../microscope_{live}.html" if live else "../microscope.html"
    buttons = (
        ("../index.html#how-to-install-it", "", "Set up and solve it"),
        *([(page, "", "Try it live")] if live or lecture.number == "04" else []),
        (f"../slides/{lecture.stem}.html", "", "Slides"),
        (f"../notebooks/lectures/{lecture.stem}.ipynb", " download", "↓ Notebook"),
        (f"../notebooks/solutions/{lecture.stem}.ipynb", " download", "↓ Solution"),
    )
    looks = ("sd-btn-primary", *["sd-btn-outline-primary"] * len(buttons))
    row = " ".join(
        f'<a class="sd-btn {look}" href="{to}"{how}>{words}</a>' for look, (to, how, words) in zip(looks, buttons, strict=False)
    )
    return f'<p class="doors">{row}</p>'


def _picture(name: str, alt: str) -> str:
    """Write a picture of docs/pictures in both themes, each with its form for phones; the still is light."""
    return "".join(
        f'<picture><source srcset="_static/pictures/{name}.png" media="(prefers-reduced-motion: reduce)">'
        f'<source srcset="_static/pictures/{name}{form}_narrow.webp" media="(max-width: 600px)">'
        f'<img class="only-{theme}" src="_static/pictures/{name}{form}.webp" alt="{html.escape(alt)}" width="860"'
        ' loading="lazy"></picture>'
        for theme, form in (("light", ""), ("dark", "_dark"))
    )


_VERDICT = """```{raw} html
<div class="verdict"><p><b>✗ 04.1 Scaled dot-product attention</b> · 9 of 14 points</p>
<p>Your scores are not divided by √d_k: dot products grow with the size of the vectors, so with long ones your softmax puts
nearly all its weight on a single key and passes hardly any gradient.</p></div>
```
"""

_LENS = (
    "The attention microscope: a small transformer writes token backwards, nekot. With its padding mask or its positions "
    "switched off, the answer is wrong."
)
_HEAD = """# Attention, from the ground up

Build attention, transformers, ViT, DETR, SimCLR and a Llama yourself, in {lectures} Jupyter lectures for people who know Python
and tensors. The course tells you **which** mistake you made.

```{{raw}} html
<p class="doors">{buttons}</p>
```

{why}

```{{raw}} html
<div class="microscope">{lens}<p>A trained transformer in your browser: switch off a part, and see what it is for.</p></div>
```

{sample}
"""
_NUMBERS = """```{{raw}} html
<ul class="numbers">{numbers}</ul>
```

A *claim* is a sentence of a lecture with its number and with a condition that would refute it; a lecture in which one fails is
not published. [The findings that surprise most, and all the evidence](docs/evidence.md).
"""
_MAP = """## The lectures

```{{raw}} html
<ul class="map">{cards}</ul>
```
"""
_DOORS = """## Teach or build with it

::::{{grid}} 1 1 2 2
:gutter: 3

:::{{grid-item-card}} Teach
A companion to five slide decks, slides of each lecture, exams, and automatic grading that names misconceptions.

[For teachers]({teacher}.md)
:::

:::{{grid-item-card}} Build
`course_lib`: a typed library of the mechanisms, each with its paper and equation, that needs only torch, numpy,
einops and jaxtyping.

[A first hour with it](docs/library.md), [API reference](api/index.md)
:::
::::
"""


_INSTALL = """## How to install it

Download the course or clone its repository. In its folder, `python3 course.py lab 04` installs what the lectures need and
opens your own copy of lecture 04. [Questions and answers](docs/start.md); [other ways](docs/running.md): conda, Docker, Binder,
Google Colab.
"""


def _menu(sections: Mapping[str, list[str]]) -> str:
    blocks = []
    for caption, pages in sections.items():
        blocks.append("\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""]))
    return "\n".join(blocks)


def _from(page: str, path: str) -> str:
    address, _, anchor = path.partition("#")
    return relpath(address, PurePosixPath(page).parent.as_posix() or ".") + (f"#{anchor}" if anchor else "")


def _automodule(name: str, members: bool) -> str:
    option = "\n   :members:" if members else "\n   :no-members:"
    return f"```{{eval-rst}}\n.. automodule:: {name}{option}\n```\n"
