"""A predict cell of the authoring source becomes a question, a call and data."""

import pytest

from course_tools.publishing.prediction_cells import as_html, prediction_of, question, split_question

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


NUMBER = """**Predict a number** (within a factor of 1.5). How large is $d_k$?

<details><summary>1,300</summary>

That *large*.</details>
<details><summary>13</summary>

For one head.</details>"""


def test_of_numbers_the_first_is_right_and_none_is_shown():
    assert question(NUMBER) == "**Predict a number** (within a factor of 1.5). How large is $d_k$?"
    asked = prediction_of("05.p1", NUMBER)
    assert (asked.right, asked.within) == ("A", "a factor of 1.5")
    assert asked.right_option == ("A", "1,300", "That <em>large</em>.")
    assert [asked.accepts(said) for said in ("1000", "1900", "2000", "13", "0")] == [True, True, False, False, False]
    assert asked.option_of("13").explanation == "For one head."


@pytest.mark.parametrize(
    ("words", "within", "near", "far"),
    [("within 0.02", "0.02", "0.52", "0.53"), ("exactly", "exactly", "0.5", "0.501")],
)
def test_a_number_may_be_asked_for_within_a_difference_or_exactly(words, within, near, far):
    source = NUMBER.replace("within a factor of 1.5", words).replace("1,300", "0.5")
    asked = prediction_of("05.p1", source)
    assert asked.within == within
    assert asked.accepts(near)
    assert not asked.accepts(far)


@pytest.mark.parametrize("wrong", [NUMBER.replace("1,300", "A. 1,300"), NUMBER.partition("\n\n")[0]])
def test_a_number_without_the_right_one_is_refused(wrong):
    with pytest.raises(ValueError, match="needs the right one"):
        split_question(wrong)
