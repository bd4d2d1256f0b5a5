"""A digest follows imports anywhere in a file, and depends on every change except that of line ends."""

from pathlib import Path

import pytest

from course_tools import source_digest

FILES = {
    "course_lib/__init__.py": "LOUD = True\n",
    "course_lib/near.py": "def late():\n    from course_lib import far\n",
    "course_lib/far.py": "import math\n",
    "course_lib/unrelated.py": "",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_imports_are_followed_with_the_packages_above_them_and_no_further(root):
    found = source_digest.imported_by("import course_lib.near, torch", root)
    assert {path.relative_to(root).as_posix() for path in found} == FILES.keys() - {"course_lib/unrelated.py"}


PASSED_ON = {
    "course_lib/__init__.py": '"""A library."""\n\n__version__ = "1"\n',
    "course_lib/parts/__init__.py": "from course_lib.parts.one import f as first\nfrom course_lib.parts.two import g\n",
    "course_lib/parts/one.py": "f = 1\n",
    "course_lib/parts/two.py": "from course_lib.deep import h\ng = h\n",
    "course_lib/deep/__init__.py": "from course_lib.deep import three\nfrom course_lib.deep.three import h\n",
    "course_lib/deep/three.py": "h = 3\n",
}


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("from course_lib.parts import first", {"parts/one.py"}),
        ("from course_lib.parts import g", {"parts/two.py", "deep/three.py"}),
        ("from course_lib.parts import two", {"parts/two.py", "deep/three.py"}),
        ("from course_lib.deep import three", {"deep/three.py"}),
        ("from course_lib.parts.one import f", {"parts/one.py"}),
        ("from course_lib import __version__", set()),
        ("import course_lib.deep", {"deep/__init__.py", "deep/three.py"}),
        ("from course_lib import parts", {"parts/__init__.py", "parts/one.py", "parts/two.py", "deep/three.py"}),
        ("import torch", set()),
    ],
)
def test_a_package_that_only_passes_on_names_is_looked_through(tmp_path, code, wanted):
    for name, text in PASSED_ON.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = source_digest.imported_by(code, tmp_path)
    assert {path.relative_to(tmp_path / "course_lib").as_posix() for path in found} == wanted


def test_of_the_course_around_the_library_a_lecture_alone_counts(root):
    data = root / "course_tools/lectures/lecture_05/data.py"
    data.parent.mkdir(parents=True)
    data.write_text("from course_lib import far\nfrom course_tools.notebook import show\n")
    assert source_digest.imported_by("from course_tools import near\n", root) == set()
    found = source_digest.imported_by("from course_tools.lectures.lecture_05.data import verses\n", root)
    assert found == {data, root / "course_lib/__init__.py", root / "course_lib/far.py"}


def test_content_and_names_count_and_line_ends_do_not(tmp_path):
    files = [tmp_path / name for name in ("unix", "windows", "other")]
    for path, content in zip(files, (b"a\nb\n", b"a\r\nb\r\n", b"a\nc\n"), strict=True):
        path.mkdir()
        (path / "file.py").write_bytes(content)
    unix, windows, other = (source_digest.digest([path / "file.py"], path) for path in files)
    assert unix == windows != other
    assert source_digest.digest([files[0] / "file.py"], tmp_path) != unix


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


def test_editing_a_docstring_does_not_change_the_digest(tmp_path):
    found = []
    for course, text in (("a", "It is so."), ("b", "It is not.")):
        (tmp_path / course).mkdir()
        (file := tmp_path / course / "f.py").write_text(f'def f():\n    """{text}"""\n    return 1\n')
        found.append(source_digest.digest([file], tmp_path / course))
    assert found[0] == found[1]
