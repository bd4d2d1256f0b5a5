"""The weights drawn are those of the marked pixel, and sharpness scales products of features."""

import pytest
import torch

from course_lib.attention import non_local_concatenation, non_local_embedded_gaussian
from course_tools.lectures.lecture_09.figures import _fewest_with_half, four_forms, weights_on_a_photograph


def test_the_row_of_the_marked_pixel_is_drawn_and_sharpness_scales_products(capsys):
    seen = []

    def mechanisms(x, W_theta, W_phi, w_f):
        seen.append((x, W_theta, w_f))
        return {"itself alone": torch.eye(len(x)), "even": torch.ones(len(x), len(x))}

    draw = weights_on_a_photograph(mechanisms)
    draw(row=3, column=7, sharpness=1.0)
    draw(row=3, column=7, sharpness=4.0)
    text = capsys.readouterr().out
    assert (
        "row 3, column 7; half of the total weight lies on 1 of 1350 pixels (itself alone), 675 of 1350 pixels (even)." in text
    )
    (once, W, w_f), (again, W_again, w_f_again) = seen
    torch.testing.assert_close(again @ again.mT, 4 * once @ once.mT)
    assert torch.equal(W, W_again)
    assert torch.equal(w_f, w_f_again)
    torch.testing.assert_close(once.mean(0), torch.zeros(3), atol=1e-5, rtol=0)


def test_with_identity_matrices_the_two_gaussian_forms_are_equal_and_no_weight_is_negative():
    x, w_f = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([1.0, 2.0, 3.0, -1.0, -2.0, -3.0])
    found = four_forms(non_local_embedded_gaussian, non_local_concatenation)(x, torch.eye(3), torch.eye(3), w_f)
    torch.testing.assert_close(found["Gaussian"], found["embedded Gaussian"])
    torch.testing.assert_close(found["dot product, above 0"], (x @ x.mT).relu() / 5)
    pairs = (x @ w_f[:3]).unsqueeze(1) + x @ w_f[3:]
    torch.testing.assert_close(found["concatenation"], pairs.relu() / 5)


@pytest.mark.parametrize(("weights", "fewest"), [([0.6, 0.1, 0.3], 1), ([0.4, 0.3, 0.3], 2), ([1.0, 1.0, 1.0, 1.0], 2)])
def test_the_fewest_positions_with_half_of_the_weight(weights, fewest):
    assert _fewest_with_half(torch.tensor(weights)) == fewest
