"""A predict cell of the authoring source becomes a question, a call and data."""

import pytest

from course_tools.publishing.prediction_cells import as_html, question, split_question

SOURCE = """**Predict.** How large is $d_k$?

<details><summary>A. Small, $d_k < 3$.</summary>

No: *much* larger.</details>
<details><summary>B. Large
as a house.</summary>

Yes, `d_k` is $2^{i_j} * 2^{i_k}$.</details>"""


def test_the_question_keeps_the_options_and_hides_the_explanations():
    text = question(SOURCE)
    assert text.startswith("**Predict.** How large is $d_k$?")
    assert "- **A.** Small, $d_k < 3$.\n- **B.** Large as a house." in text
    assert "much" not in text
    assert "Yes" not in text


def test_options_are_taken_apart():
    _, options = split_question(SOURCE)
    assert [letter for letter, _, _ in options] == ["A", "B"]


def test_formulas_pass_unchanged_and_markdown_becomes_html():
    assert as_html("Yes, `d_k` is $2^{i_j} * 2^{i_k}$ *now*.") == "Yes, <code>d_k</code> is $2^{i_j} * 2^{i_k}$ <em>now</em>."
    assert as_html("$a < b$") == "$a &lt; b$"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Yes, ", "Indeed, ", "exactly one option"),
        ("No: ", "Yes: ", "exactly one option"),
        ("<details><summary>A.", "<details><summary>a.", "two options"),
    ],
)
def test_a_prediction_without_one_right_option_is_refused(old, new, why):
    with pytest.raises(ValueError, match=why):
        split_question(SOURCE.replace(old, new))
