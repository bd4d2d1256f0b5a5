"""Grading a class of 200, made from the banks' right and wrong answers: time and memory, compared with nbgrader's autograder.

python -m benchmarks grading      (with nbgrader installed, the last rows compare the two on the same notebooks)
"""

import ast
import json
import os
import random
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import psutil

from course_tools.bank import exercises
from course_tools.grading.batch import grade_notebook
from course_tools.grading.intake.recognise import Course
from course_tools.grading.judge_notebook import Engine
from course_tools.grading.lms.nbgrader import export
from course_tools.publishing import lectures, project_root

N_SUBMISSIONS, N_PEER = 200, 3
LECTURE = "04"


def table() -> str:
    """Grade the class on one core and format time and memory as a table in Markdown."""
    root = project_root()
    (lecture,) = lectures(root, [LECTURE])
    notebooks = [submission(lecture.unsolved, seed) for seed in range(N_SUBMISSIONS)]
    course, n_exercises = Course.at(root), sum(item.lecture == LECTURE for item in exercises())
    start = time.perf_counter()
    with Engine() as engine:
        started, seconds, memory, used = time.perf_counter() - start, [], [], processor_seconds()
        for data in notebooks:
            begun = time.perf_counter()
            result = grade_notebook(data, f"{lecture.stem}.ipynb", engine, course, None)
            seconds.append(time.perf_counter() - begun)
            memory.append(megabytes())
        used = processor_seconds() - used
    rows = [
        ("isolation", str(engine.level)),
        ("start, once", f"{started:.1f} s"),
        ("an exercise, median of the wall time", f"{statistics.median(seconds) / n_exercises:.3f} s"),
        ("an exercise, mean of the processor time", f"{used / n_exercises / N_SUBMISSIONS:.3f} s"),
        (f"a notebook of {len(result.marks)} exercises, median", f"{statistics.median(seconds):.2f} s"),
        (f"{N_SUBMISSIONS} notebooks, wall time and processor time", f"{sum(seconds):.0f} s, {used:.0f} s"),
        ("memory after 20 notebooks, and after all", f"{memory[19]:.0f} MB, {memory[-1]:.0f} MB"),
        *peer(root, lecture.stem, notebooks[:N_PEER], statistics.mean(seconds)),
    ]
    return "\n".join(
        ["| lecture 04, one process | measured |", "|---|---|", *(f"| {name} | {reported} |" for name, reported in rows)]
    )


def submission(notebook: Path, seed: int) -> bytes:
    """A student's notebook: each exercise is answered from its bank or, sometimes, left empty; build tasks are left empty."""
    draw = random.Random(seed)
    reported = json.loads(notebook.read_text(encoding="utf-8"))
    asked = {item.id: item for item in exercises() if item.training is None}
    for cell in reported["cells"]:
        item = asked.get(cell["metadata"].get("exercise"))
        if item is not None and "nbgrader" in cell["metadata"] and draw.random() > 0.05:
            cell["source"] = as_a_cell(draw.choice((*item.right, *item.wrong)), item.reference.__name__)
    return json.dumps(reported).encode()


def as_a_cell(answer, name: str) -> str:
    """Return the text of an answer of a bank, with the imports of its file and the helper functions that it calls."""
    source = Path(sys.modules[answer.__module__].__file__).read_text(encoding="utf-8")
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in functions:
        node.decorator_list = [
            mark for mark in node.decorator_list if ast.unparse(mark).partition(".")[0] not in ("wrong", "right")
        ]
    own = {node.name: ast.unparse(node) for node in functions}
    own |= {
        name.id: ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name in ast.walk(node.targets[0])
        if isinstance(name, ast.Name)
    }
    imports = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    wanted, needed = [answer.__name__], []
    while wanted:
        needed.append(wanted.pop())
        names = re.findall(r"\w+", own[needed[-1]])
        wanted += [other for other in dict.fromkeys(names) if other in own and other not in {*needed, *wanted}]
    kept = [line for line in imports if "course_tools.checks" not in line]
    return "\n".join([*kept, *(own[other] for other in reversed(needed)), f"{name} = {answer.__name__}"])


def megabytes() -> float:
    """Return the memory of this process and of those that it started."""
    here = psutil.Process()
    return sum(process.memory_info().rss for process in (here, *here.children(recursive=True))) / 2**20


def peer(root: Path, stem: str, notebooks: list[bytes], ours: float) -> list[tuple[str, str]]:
    """Time unmodified `nbgrader autograde` on some of the same notebooks: it runs every cell, including experiments."""
    if find_spec("nbgrader") is None:
        return [("nbgrader autograde", "not installed: pip install nbgrader")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export(root, folder)
        (folder / "nbgrader_config.py").write_text("c = get_config()\nc.Execute.timeout = 600\n")
        autograder(folder, "generate_assignment", stem)
        for i, data in enumerate(notebooks):
            place = folder / "submitted" / f"student{i}" / stem
            place.mkdir(parents=True)
            (place / f"{stem}.ipynb").write_bytes(data)
        theirs = autograder(folder, "autograde", stem) / len(notebooks)
    return [
        (f"nbgrader autograde, a notebook, mean of {len(notebooks)}", f"{theirs:.1f} s"),
        ("ratio to ours, wall time", f"{theirs / ours:.0f}"),
    ]


def autograder(folder: Path, *words: str) -> float:
    """Run nbgrader in a course folder, and return its elapsed seconds."""
    start = time.perf_counter()
    here = os.pathsep.join(filter(None, (str(project_root()), os.environ.get("PYTHONPATH"))))
    scripts = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))  # where nbgrader finds alembic
    environment = {**os.environ, "PYTHONPATH": here, "PATH": scripts, "OMP_NUM_THREADS": "1", "CI": "1"}
    subprocess.run([sys.executable, "-m", "nbgrader", *words], cwd=folder, env=environment, check=True, capture_output=True)
    return time.perf_counter() - start


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it started, including ended ones."""
    here = psutil.Process()
    each = [process.cpu_times() for process in (here, *here.children(recursive=True))]
    return sum(used.user + used.system + used.children_user + used.children_system for used in each)
