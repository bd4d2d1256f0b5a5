"""Pages that show their text early: one style sheet, without the rules of what the site lacks, and scripts that wait."""

import pytest

from course_tools.publishing import PublishingFailed
from course_tools.publishing.site.lean_pages import lean_pages

PAGE = """<head><title>T</title>
<link href="../_static/theme.css?digest=1" rel="stylesheet" />
<link rel="stylesheet" type="text/css" href="../_static/own.css?v=2" />
<link rel="preload" as="script" href="../_static/a.js" />
<script src="../_static/documentation_options.js?v=3"></script>
<script src="../_static/a.js"></script>
<script defer src="../_static/b.js"></script>
<script>OPTIONS.page = 1;</script>
</head><p class="used">text</p>"""
SHEETS = {
    "theme.css": '@import "base.css"; @font-face { src: url(icons.woff) } .gone { a: 1 } .gone, .used p { b: 2 }',
    "base.css": "p { c: 3 } .used.gone { d: 4 } .used:not(.gone) { e: 5 }",
    "own.css": "@media print { .gone { f: 6 } .scripted { g: 7 } } @media screen { .gone { h: 8 } }",
}


@pytest.fixture
def site(tmp_path):
    static = tmp_path / "_static"
    static.mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.html").write_text(PAGE, encoding="utf-8")
    (static / "documentation_options.js").write_text("const OPTIONS = {};", encoding="utf-8")
    (static / "a.js").write_text("add('scripted')", encoding="utf-8")
    for name, rules in SHEETS.items():
        (static / name).write_text(rules, encoding="utf-8")
    return tmp_path


def test_one_sheet_holds_in_their_order_the_rules_that_can_apply(site):
    lean_pages(site)
    rules = "".join((site / "_static" / "style.css").read_text(encoding="utf-8").split())
    assert rules == "p{c:3}.used:not(.gone){e:5}.usedp{b:2}@mediaprint{.scripted{g:7}}"


def test_nothing_but_the_sheet_holds_up_the_text(site):
    lean_pages(site)
    head = (site / "docs" / "page.html").read_text(encoding="utf-8").partition("</head>")[0]
    assert head.split("\n") == [
        "<head><title>T</title>",
        '<link rel="stylesheet" href="../_static/style.css" />',
        "<script>const OPTIONS = {};</script>",
        '<script defer src="../_static/a.js"></script>',
        '<script defer src="../_static/b.js"></script>',
        "<script>OPTIONS.page = 1;</script>",
        "",
    ]


def test_a_sheet_that_loads_another_file_is_refused(site):
    (site / "_static" / "own.css").write_text(".used { background: url(picture.png) }", encoding="utf-8")
    with pytest.raises(PublishingFailed, match=r"load another file: url\(picture\.png\)"):
        lean_pages(site)
