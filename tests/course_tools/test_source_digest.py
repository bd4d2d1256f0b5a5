"""A digest follows the names that code uses, and depends on every change of what they define, and on nothing else."""

from pathlib import Path

import pytest

from course_tools import source_digest

FILES = {
    "course_lib/__init__.py": '"""A library."""\n\n__version__ = "1"\n',
    "course_lib/parts/__init__.py": "from course_lib.parts.one import f as first\nfrom course_lib.parts.two import *\n",
    "course_lib/parts/one.py": "import torch\n\nWIDTH = 3\n\n\ndef f():\n    return WIDTH\n\n\ndef alone():\n    pass\n",
    "course_lib/parts/two.py": """\
from course_lib import deep
from course_lib.parts.one import WIDTH

__all__ = ["g"]


def wrapped(function):
    return function


@wrapped
def g(x=WIDTH):
    from course_lib.late import h

    return h(x)


deep.register(g)
""",
    "course_lib/deep.py": "def register(function):\n    pass\n",
    "course_lib/late.py": "def h(x):\n    return h(x - 1)\n",
    "course_tools/notebook/show.py": "def show():\n    pass\n",
    "course_tools/lectures/lecture_05/data.py": "from course_lib.parts import first\n\n\ndef verses():\n    return first()\n",
}
F = {"WIDTH = 3", "def f():\n    return WIDTH"}
G = {
    "WIDTH = 3",
    "def wrapped(function):\n    return function",
    "@wrapped\ndef g(x=WIDTH):\n    from course_lib.late import h\n\n    return h(x)",
    "deep.register(g)",
    "def register(function):\n    pass",
    "def h(x):\n    return h(x - 1)",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("code", "used"),
    [
        ("from course_lib.parts import first", F),
        ("from course_lib.parts.one import f", F),
        ("def late():\n    from course_lib.parts.one import WIDTH", {"WIDTH = 3"}),
        ("from course_lib.parts import g", G),
        ("from course_lib.parts import two", G),
        ("import course_lib.late, torch", {"def h(x):\n    return h(x - 1)"}),
        ("from course_lib import parts", F | G),
        ("from course_lib.parts import nothing", {"course_lib.parts.nothing"}),
        ("from course_tools.lectures.lecture_05.data import verses", F | {"def verses():\n    return first()"}),
        ("from course_tools.notebook.show import show\nimport torch", set()),
    ],
)
def test_definitions_are_followed_with_all_that_they_name(root, code, used):
    assert source_digest.used_by(code, root) == used


@pytest.mark.parametrize(
    ("file", "old", "new", "differs"),
    [
        ("course_lib/parts/one.py", "WIDTH = 3", "WIDTH = 5", True),
        ("course_lib/late.py", "x - 1", "x - 2", True),
        ("course_lib/parts/one.py", "    pass", "    return 1", False),
        ("course_lib/parts/one.py", "def f():", 'def f():\n    """Words."""', False),
        ("course_lib/parts/one.py", "\n", "\r\n", False),
        ("course_lib/late.py", "def h", "def other():\n    pass\n\n\ndef h", False),
    ],
)
def test_a_digest_changes_with_the_code_of_what_is_used_alone(root, file, old, new, differs):
    code = "from course_lib.parts import first, g\n"
    before = source_digest.digest(code, root)
    (root / file).write_bytes((root / file).read_bytes().replace(old.encode(), new.encode()))
    source_digest._content.cache_clear()
    source_digest._definitions.cache_clear()
    assert (source_digest.digest(code, root) != before) is differs


def test_a_definition_that_moves_to_another_file_does_not_change_the_digest(root):
    found = [source_digest.digest(f"from course_lib.{place} import f\n", root) for place in ("parts.one", "moved")]
    (root / "course_lib/moved.py").write_text(FILES["course_lib/parts/one.py"])
    source_digest._file.cache_clear()
    assert found[0] != found[1]
    assert source_digest.digest("from course_lib.moved import f\n", root) == found[0]


DOCUMENTED = '''
"""A module,
in two lines."""

VERSE = """
    def f():
        "no docstring"
"""


class Kept:
    """Has a docstring."""

    x = 1  # a comment counts

    def f(self): "stands on the line of its function"

    async def g(self):
        """Another,

        over three lines."""
        return "a text"
'''


def test_docstrings_are_no_part_of_the_code_and_every_other_text_is():
    code = source_digest.code_of(DOCUMENTED)
    for left_out in ("A module", "two lines", "Has a docstring", "Another", "three lines"):
        assert left_out not in code
    for kept in ("no docstring", "a comment counts", "stands on the line", "a text", "class Kept:", "async def g"):
        assert kept in code
