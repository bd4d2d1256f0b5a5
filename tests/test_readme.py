"""The README is true: its tree names what is there, its commands exist, and its example prints what it says."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def readme_tree() -> dict[str, str]:
    """Each path of the tree with its purpose: two spaces of indent are one level, two spaces or more end a name."""
    section = README.partition("## What is where")[2].partition("\n## ")[0]
    places, above = {}, []
    for line in section.partition("```")[2].partition("```")[0].splitlines()[1:]:
        indent, name, purpose = re.fullmatch(r"( *)(\S+)(?: {2,}(.*))?", line.rstrip()).groups()
        above = [*above[: len(indent) // 2], name.rstrip("/")]
        places["/".join(above)] = purpose or ""
    return places


def test_each_path_of_the_tree_exists_and_has_a_purpose():
    places = readme_tree()
    assert len(places) > 20
    assert [path for path in places if not (ROOT / path).exists()] == []
    assert [path for path, purpose in places.items() if len(purpose) < 5] == []


def test_the_tree_names_every_file_of_the_library():
    """A folder of exercises, lecture_NN, stands for the files in it."""
    library = sorted((ROOT / "course_lib").rglob("*.py"))
    files = [path for path in library if path.name != "__init__.py" and not path.parent.name.startswith("lecture_")]
    expected = [path.relative_to(ROOT).as_posix() for path in [*files, *sorted({path.parent for path in library})]]
    assert [path for path in expected if path not in readme_tree()] == []


def test_each_file_that_a_link_names_exists():
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)\)", README)
    assert len(links) > 3
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_example_of_the_library_prints_what_it_says():
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    said = re.findall(r"print\(.*\)  # (.*)", example)
    done = subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert said
    assert done.stdout.splitlines() == said
