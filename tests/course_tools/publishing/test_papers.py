"""docs/papers.md: the column "Built in" follows the docstrings of the library."""

from course_tools.publishing.papers import papers_page

PAGE = """\
| Authors, year | Title | Link | Built in | Lectures |
| --- | --- | --- | --- | --- |
| A 2001 | Moved | [x](https://a.org/1) | [old](../course_lib/old.py) | **01** |
| B 2002 | Cited by nobody | [y](https://b.org/(2)) | – | – |
"""


def test_modules_stand_beside_the_papers_that_their_docstrings_cite(tmp_path):
    for name, text in (
        ("docs/papers.md", PAGE),
        ("course_lib/z.py", '"""Z, after A 2001 (https://a.org/1)."""'),
        ("course_lib/models/b.py", 'def f():\n    """F.\n\n    Source: https://a.org/1.\n    """\n'),
        ("course_lib/c.py", 'x = "https://a.org/1 is no docstring"'),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    expected = "[models.b](../course_lib/models/b.py), [z](../course_lib/z.py)"
    assert papers_page(tmp_path) == PAGE.replace("[old](../course_lib/old.py)", expected)
