"""A digest follows imports wherever they stand, and sees every change of a file but that of its line ends."""

from pathlib import Path

import pytest

from course_tools import source_digest

FILES = {
    "course_lib/__init__.py": "",
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
    found = source_digest.imported_files(["course_lib.near", "torch"], root)
    assert {path.relative_to(root).as_posix() for path in found} == FILES.keys() - {"course_lib/unrelated.py"}


def test_content_names_and_salt_count_and_line_ends_do_not(tmp_path):
    files = [tmp_path / name for name in ("unix", "windows", "other")]
    for path, content in zip(files, (b"a\nb\n", b"a\r\nb\r\n", b"a\nc\n"), strict=True):
        path.mkdir()
        (path / "file.py").write_bytes(content)
    unix, windows, other = (source_digest.digest([path / "file.py"], path) for path in files)
    assert unix == windows != other
    assert source_digest.digest([files[0] / "file.py"], files[0], "3.11") != unix
    assert source_digest.digest([files[0] / "file.py"], tmp_path) != unix
