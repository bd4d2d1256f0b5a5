"""A label says "your" only of a function that passed its check."""

import pytest
import torch

from course_lib.primitives import rnn_step
from course_tools.notebook import check
from course_tools.notebook.authorship import whose
from tests.course_tools.bank.answers.unusual import raises


def test_a_right_answer_is_yours():
    assert whose(check("01.1", rnn_step)) == "your"


def test_a_right_answer_in_a_variant_is_yours():
    def in_thousandths(boxes):
        centre, half = boxes[..., :2], boxes[..., 2:] / 2
        return 1000 * torch.cat([centre - half, centre + half], dim=-1)

    assert whose(check("12.1", in_thousandths, variant="thousandths")) == "your"


@pytest.mark.parametrize("answer", [raises(NotImplementedError()), lambda x, h, W, U, b: x @ W.mT, None])
def test_what_comes_back_for_a_wrong_or_missing_answer_is_the_librarys(answer):
    came_back = check("01.1", answer)
    assert whose(came_back) == "the library's"
    assert whose(check("01.1", came_back)) == "the library's"


def test_one_function_of_the_library_among_several_is_named():
    yours, theirs = check("01.1", rnn_step), check("01.1", raises(NotImplementedError()))
    assert whose(yours, theirs) == whose(theirs, yours) == "the library's"
    assert whose(yours, yours) == "your"
