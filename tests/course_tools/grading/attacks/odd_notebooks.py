"""Solved notebooks in the states in which they arrive: each function makes the bytes of one, and says what happened to it."""

import copy
import json

from tests.course_tools.grading.attacks.stage import ROOT

SOLVED = ROOT / "solutions" / "02_alignment.ipynb"


def solved():
    """As it should be."""
    notebook = json.loads(SOLVED.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell.pop("outputs", None)
        if cell["cell_type"] == "code":
            cell["outputs"] = []
    return notebook


def written(notebook, **how):
    return json.dumps(notebook, **how).encode()


def changed(change, notebook=None):
    """Change each cell of an answer; the others stay."""
    notebook = notebook or solved()
    cells = []
    for cell in notebook["cells"]:
        made = change(cell) if "nbgrader" in cell["metadata"] and cell["metadata"]["nbgrader"]["solution"] else cell
        cells += made if isinstance(made, list) else [made]
    notebook["cells"] = cells
    return notebook


def source(cell):
    return "".join(cell["source"])


def as_handed_in(_=None):
    """Nothing happened to it."""
    return written(solved())


def without_marks():
    """Another program dropped all metadata and ids."""
    notebook = solved()
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    return written(notebook)


def with_other_marks():
    """Colab wrote metadata of its own, and other ids."""
    notebook = solved()
    for n, cell in enumerate(notebook["cells"]):
        cell["metadata"] = {
            "id": f"colab{n}",
            "colab": {"base_uri": "https://colab.research.google.com/"},
            "executionInfo": {"n": n},
        }
        cell["id"] = f"x{n}"
    return written(notebook)


def without_its_first_cells():
    """The header and the imports were deleted."""
    notebook = solved()
    notebook["cells"] = notebook["cells"][3:]
    return written(notebook)


def without_its_checks():
    """All cells with checks were deleted."""
    notebook = solved()
    notebook["cells"] = [cell for cell in notebook["cells"] if "= check(" not in source(cell)]
    return written(notebook)


def nothing_but_answers():
    """All cells but the answers were deleted."""
    notebook = solved()
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]
    return written(notebook)


def all_copied():
    """Each answer was copied, with its metadata and its id."""
    return written(changed(lambda cell: [cell, copy.deepcopy(cell)]))


def copied_and_emptied():
    """Each answer was copied, and the original cleared."""
    return written(changed(lambda cell: [{**copy.deepcopy(cell), "source": ""}, cell]))


def copied_below_the_empty_one():
    """Each answer stands in a new cell below the exercise, which is as it was."""

    def change(cell):
        head = source(cell).split('"""')[0] + '"""As it was."""\n    # YOUR CODE HERE\n    raise NotImplementedError()\n'
        return [{**cell, "source": head}, {"cell_type": "code", "metadata": {}, "source": cell["source"], "outputs": []}]

    return written(changed(change))


def all_as_text():
    """The answers became cells of text."""
    return written(changed(lambda cell: {**cell, "cell_type": "markdown"}))


def all_raw():
    """The answers became raw cells."""
    return written(changed(lambda cell: {**cell, "cell_type": "raw"}))


def sorted_by_kind():
    """First all text, then all code."""
    notebook = solved()
    notebook["cells"].sort(key=lambda cell: cell["cell_type"] == "code")
    return written(notebook)


def all_in_one_cell():
    """All code was merged into one cell."""
    notebook = solved()
    code = "\n\n".join(
        source(cell) for cell in notebook["cells"] if cell["cell_type"] == "code" and "bug" not in cell["metadata"]
    )
    notebook["cells"] = [{"cell_type": "code", "metadata": {}, "source": code, "outputs": []}]
    return written(notebook)


def answers_in_one_cell():
    """All answers were merged into the cell of the first."""
    notebook = solved()
    answers = [cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]
    first, rest = answers[0], {id(cell) for cell in answers[1:]}
    first["source"] = "\n\n".join(map(source, answers))
    notebook["cells"] = [cell for cell in notebook["cells"] if id(cell) not in rest]
    return written(notebook)


def split_at_the_docstring():
    """Each answer was split after its docstring."""

    def change(cell):
        above, _, below = source(cell).rpartition('"""\n')
        return [{**cell, "source": f'{above}"""'}, {**cell, "source": below, "metadata": {}, "id": "below"}]

    return written(changed(change))


def of_the_old_format():
    """It was saved as version 3, with worksheets and inputs."""
    notebook = solved()
    cells = [
        {"cell_type": "code", "language": "python", "input": cell["source"], "metadata": cell["metadata"], "outputs": []}
        if cell["cell_type"] == "code"
        else {"cell_type": "heading", "level": 2, "source": cell["source"], "metadata": {}}
        for cell in notebook["cells"]
    ]
    return written(
        {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells, "metadata": {}}]}
    )


def with_a_mark_of_the_byte_order():
    """An editor of Windows put a mark in front."""
    return b"\xef\xbb\xbf" + as_handed_in()


def in_another_encoding():
    """It was saved in the encoding of Windows."""
    return json.dumps(solved(), ensure_ascii=False).encode("cp1252", "replace")


def in_wide_characters():
    """It was saved in UTF-16."""
    return json.dumps(solved(), ensure_ascii=False).encode("utf-16")


def with_other_line_ends():
    """Every line ends as in Windows."""
    return written(changed(lambda cell: {**cell, "source": source(cell).replace("\n", "\r\n")}), indent=1).replace(
        b"\n", b"\r\n"
    )


def with_lines_as_lists():
    """Every source is a list of lines."""
    return written(changed(lambda cell: {**cell, "source": source(cell).splitlines(keepends=True)}))


def with_large_outputs():
    """It brings pictures of ten megabytes."""
    notebook = solved()
    picture = {"output_type": "display_data", "data": {"image/png": "A" * 10_000_000}, "metadata": {}}
    notebook["cells"][2]["outputs"] = [picture]
    return written(notebook)


def with_notes_between():
    """A thousand notes and experiments stand between the cells."""
    notebook = solved()
    notes = [
        {"cell_type": "code", "metadata": {}, "source": f"experiment_{n} = torch.ones({n})", "outputs": []} for n in range(1000)
    ]
    notebook["cells"] = [*notes[:500], *notebook["cells"], *notes[500:]]
    return written(notebook)


def with_a_set_up_of_its_own():
    """The imports were rewritten, with only what is needed."""
    notebook = solved()
    (imports,) = (cell for cell in notebook["cells"] if "from course_lib.attention import" in source(cell))
    imports["source"] = (
        "import torch, torch.nn.functional as F\nfrom torch import nn, Tensor\nfrom course_lib.attention import *\n"
        "from course_tools.notebook import check\nfrom course_lib.primitives import *\n"
    )
    return written(notebook)


def with_answers_shown_twice():
    """A later cell defines one answer again, wrongly, to see what happens."""
    notebook = solved()
    wrong = {"cell_type": "code", "metadata": {}, "source": "def concat_scores(q, k, W, v):\n    return q\n", "outputs": []}
    notebook["cells"].append(wrong)
    return written(notebook)


def with_an_end_in_the_middle():
    """A cell in the middle ends the kernel, and another waits for an input."""
    notebook = solved()
    ends = [
        {"cell_type": "code", "metadata": {}, "source": text, "outputs": []}
        for text in ("exit()", "x = input()", "import os; os._exit(1)")
    ]
    notebook["cells"][5:5] = ends
    return written(notebook)
