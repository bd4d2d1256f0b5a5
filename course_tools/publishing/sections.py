"""Sections of a notebook: headings, their anchors in a notebook and on the site, and the claims that each measures."""

import re
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

import nbformat
from nbformat import NotebookNode

from course_tools.publishing.claims_table import cell
from course_tools.publishing.outputs import claims
from course_tools.publishing.project import Lecture


def headings(source: str) -> list[tuple[int, str]]:
    """Return level and text of the headings of a Markdown text, unchanged."""
    found = re.findall(r"^(#{1,3}) (.+)$", re.sub(r"```.*?```", "", source, flags=re.DOTALL), flags=re.MULTILINE)
    return [(len(marks), words.strip()) for marks, words in found]


def anchor(heading: str) -> str:
    """Return the anchor of a heading in a notebook, as JupyterLab and nbconvert make it, quoted for a URL."""
    return quote(_plain(heading).replace(" ", "-"), safe="/:@!&+,;=")


def site_anchor(heading: str) -> str:
    """Return the anchor of a heading, or of its anchor in a notebook, on the site: GitHub's slug, as MyST makes it."""
    return re.sub(r"[^\w\u4e00-\u9fff\- ]", "", _plain(heading).strip().lower()).replace(" ", "-")


def claims_by_section(notebook: NotebookNode) -> dict[str, list[dict]]:
    """Return the claims of an executed lecture by the heading of the section that measures them."""
    found: dict[str, list[dict]] = {}
    heading = ""
    for each in notebook.cells:
        if each.cell_type == "markdown":
            heading = next((words for _, words in reversed(headings(each.source))), heading)
        else:
            made = claims(nbformat.v4.new_notebook(cells=[each]))
            found.setdefault(heading, []).extend(made)
    return found


@dataclass(frozen=True)
class MadeClaims:
    """The claims that the solutions of some lectures make, formatted for pages of docs/."""

    lectures: list[Lecture]

    @cached_property
    def _found(self) -> dict[str, tuple[dict, str]]:
        """Map each id to a claim and the address of the section that measures it."""
        found = {}
        for lecture in (each for each in self.lectures if each.solution.exists()):
            page = f"../{lecture.name(lecture.solution)}"
            for heading, made in claims_by_section(nbformat.read(lecture.solution, as_version=4)).items():
                found |= {claim["id"]: (claim, f"{page}#{anchor(heading)}") for claim in made}
        return found

    def __getitem__(self, name: str) -> dict:
        """Return a claim by its id.

        Raises:
            KeyError: no solution makes it.
        """
        if name not in self._found:
            raise KeyError(f"no solution makes the claim {name}")
        return self._found[name][0]

    def value(self, name: str) -> object:
        """Return a measured value by the "id" of a claim with one value, or by "id:name".

        Raises:
            KeyError: no solution makes the claim, or it has no such value.
        """
        id, _, of = name.partition(":")
        values = self[id]["values"]
        if of not in values and (of or len(values) != 1):
            raise KeyError(f"name a value of the claim {id}, such as {id}:{next(iter(values))}, instead of {name}")
        return values[of] if of else next(iter(values.values()))

    def link(self, name: str) -> str:
        """Return the id, of "id" or "id:name", as a link to the section that measures the claim."""
        id, _, _ = name.partition(":")
        self[id]
        return f"[{id}]({self._found[id][1]})"

    def sentence(self, name: str) -> str:
        """Return link and sentence of a claim, formatted for a table cell."""
        return f"{self.link(name)} {cell(self[name]['text'])}"


def _plain(heading: str) -> str:
    return re.sub(r"[*`$\\]", "", heading)
