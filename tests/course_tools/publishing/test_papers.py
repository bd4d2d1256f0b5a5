"""The papers on the site: modules and lectures that cite a paper stand beside it."""

from course_tools.publishing.papers import papers_page

HEAD = "| Authors, year | Title | Link |\n| --- | --- | --- |\n"
A, B = "| A 2001 | Moved | [x](https://a.org/1) |", "| B 2002 | Cited by nobody | [y](https://b.org/(2)) |"


def test_modules_and_lectures_stand_beside_the_papers_that_they_cite(tmp_path):
    for name, text in (
        ("docs/papers.md", f"{HEAD}{A}\n{B}\n"),
        ("course_lib/z.py", '"""Z, after A 2001 (https://a.org/1)."""'),
        ("course_lib/models/b.py", 'def f():\n    """F.\n\n    Source: https://a.org/1.\n    """\n'),
        ("course_lib/c.py", 'x = "https://a.org/1 is no docstring"'),
        ("authoring/03_a.py", "# A 2001 (https://a.org/1) and https://a.org/12"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    head, rule, a, b = papers_page(tmp_path).splitlines()
    assert head.endswith("| Link | Built in | Cited in |")
    assert rule.count("---") == 5
    assert a == f"{A} [models.b](../course_lib/models/b.py), [z](../course_lib/z.py) | [03](../lectures/03_a.ipynb) |"
    assert b == f"{B} – | – |"
