"""Inline markup of short texts as HTML: code, strong and emphasized words, and what is none of these."""

import pytest

from course_tools.checks.inline_markup import to_html


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the *later* positions", "the <em>later</em> positions"),
        ("the **first axis**, *(only)* that", "the <b>first axis</b>, *(only)* that"),
        ("*three words (here)*.", "<em>three words (here)</em>."),
        ("2*3 `a*b*c` hides the *last row* <", "2*3 <code>a*b*c</code> hides the <em>last row</em> &lt;"),
        ("a ` alone", "a ` alone"),
        ("`x` and ` alone", "<code>x</code> and ` alone"),
        ("`**kwargs` and `*args`", "<code>**kwargs</code> and <code>*args</code>"),
        ("`a *b* c` and `a **b** c`", "<code>a *b* c</code> and <code>a **b** c</code>"),
        ("", ""),
    ],
)
def test_code_strong_and_emphasis(text, shown):
    assert to_html(text) == shown


@pytest.mark.parametrize("plain", ["2 * 3 * 4", "a*b*c", "2**3 and 4**5", "* a list * of", "q * k* and v*"])
def test_products_and_lists_stay_as_they_are(plain):
    assert to_html(plain) == plain


def test_tags_are_escaped_also_between_marks():
    assert to_html("*<b>x</b>* and `<script>`") == "*&lt;b&gt;x&lt;/b&gt;* and <code>&lt;script&gt;</code>"
