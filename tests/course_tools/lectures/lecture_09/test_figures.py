"""The weights drawn are those of the marked pixel or creature, and the text says what the numbers are."""

import pytest
import torch

from course_lib.attention import non_local_concatenation, non_local_embedded_gaussian
from course_tools.lectures.lecture_09.crowd import draw_crowds
from course_tools.lectures.lecture_09.figures import (
    _fewest_with_half,
    four_forms,
    show_arrows,
    show_non_local_means,
    show_painted,
    weights_on_a_photograph,
)


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


def test_a_painted_crowd_is_shown_with_the_share_that_is_right(capsys):
    crowds = draw_crowds(5, torch.Generator().manual_seed(0))
    show_painted(crowds, {"as wanted": crowds.colours.mT.unflatten(2, (5, 5))})
    assert "as wanted: 100% of the grey creatures of 5 crowds are right" in capsys.readouterr().out


def test_arrows_name_whether_the_largest_weight_is_on_the_own_kind(capsys):
    crowds = draw_crowds(1, torch.Generator().manual_seed(0))
    own = (crowds.kinds[0] == crowds.kinds[0, 7]).nonzero()[-1].item()
    other = (crowds.kinds[0] != crowds.kinds[0, 7]).nonzero()[0].item()
    for end, name in ((own, "its own kind"), (other, "another kind")):
        weights = torch.full((25, 25), 0.01)
        weights[7, end] = 0.7
        show_arrows(crowds, {"a creature": 7}, weights)
        assert f"a creature, 0.70 of the weight on a creature of {name}" in capsys.readouterr().out


def test_a_restored_photograph_is_shown_with_its_error(capsys):
    clean, weights = torch.zeros(3, 4, 5), torch.zeros(4, 5)
    weights[1, 2] = 1.0
    show_non_local_means({"noisy": clean + 0.1, "restored": clean + 0.02}, clean, weights, 1, 2)
    text = capsys.readouterr().out
    assert "noisy, error 0.100; restored, error 0.020" in text
    assert "half of its weight on 1 of 20 pixels" in text
