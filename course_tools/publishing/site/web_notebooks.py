"""Notebooks as pages: figures become files, answers to exercises are folded, and cells that need a kernel are left out."""

import re
from collections.abc import Callable
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from course_tools.publishing.figure_files import image_of, with_files
from course_tools.publishing.outputs import tags

FIGURES = "_static/figures"
_IMPORTS = re.compile(r"\s*(?:import|from)\s")


def page_of(notebook: NotebookNode, banner: str, figures: Path, relink: Callable[[str], str]) -> NotebookNode:
    """Convert a notebook to a page, in place.

    Args:
        notebook: a lecture or a solution, as it is committed.
        banner: Markdown that goes below the first heading.
        figures: the folder that its figures are written to, served as `../_static/figures`.
        relink: rewrites the links of a Markdown text.
    """
    notebook.cells = [cell for cell in notebook.cells if "progress" not in tags(cell)]
    executed = any(cell.get("execution_count") for cell in notebook.cells)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            asks = executed and "predict" in tags(cell)  # the output below holds the options, with their explanations
            cell.source = relink(cell.source.partition("\n- **A.**")[0] if asks else cell.source)
            continue
        cell.metadata["tags"] = [*tags(cell), *_folded(cell)]
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if image := image_of(output):
                data.pop("image/png")
                data["text/html"] = f'<figure style="margin:0">{image}</figure>'
            if "text/html" in data:
                data["text/html"] = with_files("".join(data["text/html"]), figures, f"../{FIGURES}")
    head = notebook.cells[0]
    title, _, rest = head.source.partition("\n")
    notebook.cells[0] = new_markdown_cell(f"{title}\n\n{banner}\n{rest}", metadata=head.metadata, id=head.id)
    return notebook


def _folded(cell: NotebookNode) -> list[str]:
    """Return which parts of a code cell the page folds (answers, imports) or leaves out (calls of `predict`)."""
    executed = cell.get("execution_count") is not None
    if "predict" in tags(cell):
        return ["remove-input"] if executed else ["remove-cell"]
    answered = executed and "exercise" in cell.metadata and "bug" not in cell.metadata
    imports = all(_IMPORTS.match(line) for line in cell.source.splitlines() if line and line[0] not in ' )#"S')
    return ["hide-input"] if answered or (imports and len(cell.source) > 200) else []
