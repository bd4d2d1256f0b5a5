"""Code wrapped to the width of a notebook cell: short lines, the same function, and a readable docstring."""

import ast

from course_tools.bank import exercises
from course_tools.publishing.cell_width import WIDTH, comment, wrapped
from course_tools.publishing.source import FunctionSource

LONG = '''
def scaled(values: "Float[Tensor, '*batch T_k d_v']", scale: "Float[Tensor, '']" = None) -> "Float[Tensor, '*batch T_k d_v']":
    """Scale the values.

    A paragraph that is longer than a line of a notebook, and that goes on after it.
    A formula of its own stays where it is:

        y = s x

    Args:
        values: (*batch, T_k, d_v), of which every number is multiplied, whatever it is, by (a, b).
        scale: a number.

    Raises:
        ValueError: the scale is missing, which a student can not know before they have read all of this
            sentence.
        TypeError: it is none.
    """
    if scale is None:
        raise ValueError(f"values of shape {tuple(values.shape)} cannot be scaled by a number that is {scale}.")
    return values * scale  # the product of the two, number by number, as it is in the formula above
'''.strip()
WRAPPED = '''
def scaled(
    values: "Float[Tensor, '*batch T_k d_v']", scale: "Float[Tensor, '']" = None
) -> "Float[Tensor, '*batch T_k d_v']":
    """Scale the values.

    A paragraph that is longer than a line of a notebook, and that goes on after it.
    A formula of its own stays where it is:

        y = s x

    Args:
        values: (*batch, T_k, d_v), of which every number is multiplied, whatever it is,
            by (a, b).
        scale: a number.

    Raises:
        ValueError: the scale is missing, which a student can not know before they have
            read all of this sentence.
        TypeError: it is none.
    """
    if scale is None:
        raise ValueError(
            f"values of shape {tuple(values.shape)} cannot be scaled by a number that "
            f"is {scale}."
        )
    # the product of the two, number by number, as it is in the formula above
    return values * scale
'''.strip()


def meaning(function):
    """The syntax tree without the line breaks of docstrings."""
    tree = ast.parse(function)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n    " in node.value:
            node.value = " ".join(node.value.split())
    return ast.dump(tree)


def test_a_long_function_is_wrapped_item_by_item():
    assert wrapped(LONG) == WRAPPED
    assert wrapped(WRAPPED) == WRAPPED


def test_an_exercise_and_a_bug_hunt_keep_their_meaning_in_short_lines():
    for item in exercises():
        for function in (item.reference, *(item.wrong[:1] if item.training is None else ())):
            source = FunctionSource.of(function)
            text = source.text(documented=function is item.reference)
            found = wrapped(text)
            assert meaning(found) == meaning(text)
            assert not [line for line in found.splitlines() if len(line) > WIDTH and "://" not in line]


def test_the_first_line_of_an_exercise_is_a_comment_of_as_many_lines_as_it_needs():
    assert comment("Exercise 04.1") == "# Exercise 04.1"
    assert comment(f"{'word ' * 20}end").splitlines() == [f"# {'word ' * 17}".rstrip(), "# word word word end"]
