"""Arrows, ink and accuracy on canvases are measured as stated; gradients tell which frames an output depends on."""

import pytest
import torch

from course_lib.analysis import strongest_arrows
from course_lib.attention import associative_dot_product, non_local_dot_product
from course_lib.datasets import LabelledImages
from course_tools.lectures.lecture_09 import experiments
from course_tools.lectures.lecture_09.experiments import (
    arrows_in,
    canvas_network,
    dilated,
    fit_on_canvases,
    frame_by_frame,
    gradient_of_each_frame,
    ink_by_position,
    network_with_block,
    other_digit_over_chance,
    show_arrows,
    titles,
    untrained_with_block,
)

# Arrows start where most ink is, and arrows to ink of the other digit are counted against chance.


def canvases() -> LabelledImages:
    """Two canvases of 44 × 44 with one bright cell at the upper left, and a fainter one at the lower right."""
    images = torch.zeros(2, 1, 44, 44)
    images[:, :, :4, :4] = 1.0
    images[:, :, 40:, 40:] = 0.5
    return LabelledImages(images, torch.tensor([1, 0]))


def arrows_to(row: int, column: int) -> torch.Tensor:
    """Arrows of every position of a map of 11 × 11 to one position, and to the one above it or itself."""
    return torch.tensor([[0, row, column], [0, max(row - 1, 0), column]]).expand(2, 121, 2, 3)


def test_ink_is_averaged_over_the_pixels_of_a_position():
    ink = ink_by_position(canvases(), 11)
    assert ink.shape == (2, 121)
    assert ink.argmax(-1).tolist() == [0, 0]
    assert (ink[0, 0].item(), ink[0, 120].item()) == (1.0, 0.5)


def test_one_of_two_arrows_on_the_other_digit_is_far_above_chance():
    """One of 121 positions is ink of the other digit; one of two arrows ends there."""
    assert other_digit_over_chance(canvases(), arrows_to(10, 10)) == pytest.approx(0.5 * 121)
    assert other_digit_over_chance(canvases(), arrows_to(0, 0)) == 0.0


def test_the_text_gives_the_mean_length_of_an_arrow_in_pixels(capsys):
    show_arrows(canvases(), arrows_to(0, 10), torch.ones(2, 121, 2), n=2)
    assert "an arrow is 40 pixels long" in capsys.readouterr().out


def test_canvases_are_named_by_their_labels():
    assert titles(canvases(), 2) == ["1: same", "2: different"]


def test_the_seed_decides_weights_and_batches(monkeypatch):
    seen = []

    def fitted(model, stream, loss, **settings):
        seen.append((model.weight.detach().clone(), next(iter(stream))[1], settings["steps"]))
        return model

    monkeypatch.setattr(experiments, "fitted", fitted)
    parts = type("Parts", (), {"train": LabelledImages(torch.zeros(64, 1, 2, 2), torch.arange(64))})
    for seed in (0, 0, 1):
        fit_on_canvases(lambda: torch.nn.Linear(3, 2), parts, 5, seed, "any")
    assert torch.equal(seen[0][0], seen[1][0])
    assert torch.equal(seen[0][1], seen[1][1])
    assert not torch.equal(seen[0][0], seen[2][0])
    assert not torch.equal(seen[0][1], seen[2][1])
    assert len(seen[0][1]) == 16


def test_dilation_enlarges_the_field_and_keeps_the_map_and_the_parameters():
    widths, strides = (2, 2, 2, 2, 2), (2, 2, 1, 1, 1)
    plain, wide = canvas_network(widths=widths, strides=strides), dilated(canvas_network(widths=widths, strides=strides))
    assert [p.shape for p in wide.parameters()] == [p.shape for p in plain.parameters()]
    fields = []
    for network in (plain, wide):
        for layer in network.modules():
            if isinstance(layer, torch.nn.Conv2d):
                torch.nn.init.ones_(layer.weight)
        images = torch.ones(1, 1, 88, 88, requires_grad=True)
        features = network.eval()[0](images)
        assert features.shape == (1, 2, 22, 22)
        features[0, 0, 11, 11].backward()
        reached = images.grad[0, 0].nonzero()
        fields.append((reached.amax(0) - reached.amin(0) + 1).tolist())
    assert fields == [[31, 31], [47, 47]]


def test_arrows_are_those_of_the_form_with_weights():
    one, other = untrained_with_block((0, 1))
    assert not torch.equal(one[2:][2].weight, other[2:][2].weight)
    model = network_with_block(associative_dot_product).eval()
    images = torch.rand(3, 1, 44, 44, generator=torch.Generator().manual_seed(0))
    ends, weights = arrows_in(model, LabelledImages(images, torch.zeros(3)), strongest_arrows, n=2)
    assert model[1].attention.mechanism is non_local_dot_product
    assert (ends.shape, weights.shape) == ((2, 121, 8, 3), (2, 121, 8))
    full = model[1].attention(model[0](images[:2])).weights
    torch.testing.assert_close(weights[..., 0], full.amax(-1))


# The gradient of each frame, worked by hand for a block that adds all frames, and for one that sees one frame only.


VIDEO = torch.ones(1, 2, 3, 5, 7)


def test_a_sum_over_weighted_frames_has_the_weights_as_gradients():
    weights = torch.tensor([2.0, -3.0, 0.5])

    def block(x, w):
        return (x * w[:, None, None]).sum(2, keepdim=True).expand(x.shape)

    found = gradient_of_each_frame(block, VIDEO, weights)
    torch.testing.assert_close(found, 2 * 5 * 7 * weights.abs())


def test_frame_by_frame_the_first_output_depends_on_the_first_frame_only():
    def block(x, factor):
        return factor * x.mean((-1, -2), keepdim=True).expand(x.shape)

    found = gradient_of_each_frame(frame_by_frame(block), VIDEO, torch.tensor(3.0))
    torch.testing.assert_close(found, torch.tensor([3.0 * 2 * 5 * 7, 0.0, 0.0]))
