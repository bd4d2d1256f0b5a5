"""Outputs of an executed notebook: claims, failures, widget errors; and the clean-up of outputs before a commit."""

import ast
import re
import sys
from pathlib import Path

from nbformat import NotebookNode

from course_tools.notebook.claim import measured, output_of, table_of

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the code cells in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    """Return the tags of a cell."""
    return cell.metadata.get("tags", [])


def claims(notebook: NotebookNode) -> list[dict]:
    """Return the claims in the outputs of a notebook, in order, each with id, text, values, holds (the conditions), held."""
    shown = (output.get("metadata", {}).get("course_claim") for cell in code_cells(notebook) for output in cell.outputs)
    return list({claim["id"]: dict(claim) for claim in shown if claim}.values())


def state_claims_anew(notebook: NotebookNode) -> None:
    """Write the claims of a notebook, and its ledger, as `claims.toml` states them now; the measured values stay.

    Raises:
        ValueError: a statement is missing, malformed, or names other values.
    """
    for output in (output for cell in code_cells(notebook) for output in cell.outputs):
        if made := output.get("metadata", {}).get("course_claim"):
            again = measured(made["id"], made["values"])
            output.metadata["course_claim"], output.data = again, output_of(again)
    for cell in code_cells(notebook):
        if "ledger" in tags(cell) and cell.outputs:
            cell.outputs[-1].data = table_of(claims(notebook))


def failures(notebook: NotebookNode) -> list[str]:
    """Name each cell that raised an exception unexpectedly, or did not raise an expected one.

    A line states the number of the cell among all cells, its first line of code, and the error.
    """
    found = []
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type != "code":
            continue
        errors = [f"{output.ename}: {first_line(output.evalue)}" for output in cell.outputs if output.output_type == "error"]
        meant = "raises-exception" in tags(cell)
        if meant and cell.execution_count is not None and not errors:
            found.append(f"cell {number} ({first_line(cell.source)}) is tagged raises-exception but raised no exception")
        if not meant:
            found += [f"cell {number} ({first_line(cell.source)}) raised {error}" for error in errors]
    return found


def first_line(text: str) -> str:
    """Return the first line of a text that is neither empty nor a comment, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if not line.startswith("#")), lines[0] if lines else "")
    return line if len(line) <= 100 else line[:99] + "…"


def fit_to_commit(notebook: NotebookNode, root: Path) -> None:
    """Remove widgets, with what they drew, and whatever differs between machines: folders, memory addresses."""
    for cell in code_cells(notebook):
        kept = []
        for output in cell.outputs:
            if _WIDGET_VIEW in output.get("data", {}):
                break  # what follows was drawn inside the widget
            _make_portable(output, root)
            kept.append(output)
        cell.outputs = kept
        for passing in ("execution", "collapsed", "scrolled"):
            cell.metadata.pop(passing, None)
    notebook.metadata.pop("widgets", None)


def take_outputs(fresh: NotebookNode, executed: NotebookNode) -> bool:
    """Copy the outputs of an executed notebook to a fresh draft if their code and their records of studies are the same.

    Returns whether they are. Comments, line breaks and docstrings of functions and classes are not part of the code, unless the
    cell shows a traceback. Predictions and diagrams do not count: a draft has their outputs, which depend on no execution.
    Claims are stated anew, with the values that were measured.
    """
    new, old = (
        [cell for cell in code_cells(notebook) if not {"diagram", "predict"} & set(tags(cell))]
        for notebook in (fresh, executed)
    )
    unrun = any(cell.source.strip() and cell.execution_count is None for cell in old)
    other_records = fresh.metadata.get("studies") != executed.metadata.get("studies")
    if unrun or other_records or len(new) != len(old) or not all(map(_same_code, new, old)):
        return False
    for to, of in zip(new, old, strict=True):
        to.outputs = of.outputs
    try:
        state_claims_anew(fresh)
    except ValueError:  # the statement names another value, or is gone
        return False
    for i, cell in enumerate((cell for cell in code_cells(fresh) if cell.source.strip()), start=1):
        cell.execution_count = i
    return True


def _same_code(new: NotebookNode, executed: NotebookNode) -> bool:
    if any("traceback" in output for output in executed.outputs):
        return new.source == executed.source
    return _syntax(new.source) == _syntax(executed.source)


def _syntax(source: str) -> str:
    """Return the syntax tree of a cell as text, without docstrings; the cell itself if it is not plain Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)


def portable(text: str, root: Path) -> str:
    """Remove this machine's folders from a text: paths of the course's own files become relative to its root."""
    home = Path.home()
    for folder, name in ((sys.prefix, "<python>"), (sys.base_prefix, "<python>"), (str(root), ""), (str(home), "~")):
        if len(Path(folder).parts) > 1:
            replacement = f"{name}/" if name else ""
            text = re.sub(re.escape(folder) + r"[/\\]", lambda _, new=replacement: new, text)
            near = folder.replace(str(home), "~", 1)
            text = text.replace(near + "/", replacement) if near != folder else text
    text = re.sub(r"(/|[A-Z]:\\)[^\s:\"'<>]*ipykernel_\d+[/\\]\d+\.py", "<cell>", text)
    return re.sub(r"\b0x[0-9a-fA-F]{6,}\b", "0x…", text)


def _make_portable(output: NotebookNode, root: Path) -> None:
    if "text" in output:
        output.text = portable(output.text, root)
    if "traceback" in output:
        output.traceback = [portable(line, root) for line in output.traceback]
        output.evalue = portable(output.evalue, root)
    for mime, value in output.get("data", {}).items():
        if mime.startswith("text/") and isinstance(value, str):
            output.data[mime] = portable(value, root)
