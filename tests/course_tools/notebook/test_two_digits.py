"""Arrows start where most ink is, and arrows to ink of the other digit are counted against chance."""

import pytest
import torch

from course_lib.analysis import strongest_arrows
from course_lib.attention import associative_dot_product, non_local_dot_product
from course_lib.datasets import LabelledImages, same_or_different
from course_tools.lectures.lecture_09 import experiments
from course_tools.lectures.lecture_09.experiments import (
    arrows_in,
    canvas_accuracy,
    canvas_network,
    dilated,
    fit_networks,
    fit_on_canvases,
    ink_by_position,
    network_with_block,
    other_digit_over_chance,
    show_arrows,
    show_canvases,
    show_networks,
    titles,
    untrained_with_block,
)


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


def test_the_text_gives_the_mean_length_of_an_arrow_in_pixels(capsys, monkeypatch):
    strongest = []
    drawn = experiments.pictures
    monkeypatch.setattr(
        experiments, "pictures", lambda *given, **named: strongest.append(named["strongest"]) or drawn(*given, **named)
    )
    show_arrows(canvases(), arrows_to(0, 10), torch.ones(2, 121, 2), n=2)
    assert strongest == [2]
    assert "2 canvases" in (text := capsys.readouterr().out)
    assert "an arrow is 40 pixels long" in text


def test_canvases_are_named_by_their_labels(capsys):
    assert titles(canvases(), 2) == ["1: same", "2: different"]
    labels = torch.tensor([0, 0, 0, 1])
    show_canvases(LabelledImages(canvases().images[[1, 1, 1, 0]], labels), 1)
    assert (
        "2 canvases of 44 × 44 pixels, each with two digits at opposite borders: 1: same, 2: different."
        in capsys.readouterr().out
    )


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


def test_networks_are_trained_and_their_accuracy_and_size_printed(capsys):
    parts = same_or_different(40, 1, 20, side=44, n_kinds=3, seed=0)
    makers = {"plain": canvas_network, "deeper": lambda: canvas_network(widths=(3, 5, 7, 7), strides=(2, 2, 1, 2))}
    models = fit_networks(makers, parts, 30, seed=0)
    capsys.readouterr()
    show_networks(models, parts)
    told = capsys.readouterr().out
    for name, model in models.items():
        size = sum(p.numel() for p in model.parameters())
        assert f"{name:<6}  {canvas_accuracy(model, parts):.3f}, {size:,} parameters" in told


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
