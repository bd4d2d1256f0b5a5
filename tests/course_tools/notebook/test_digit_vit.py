"""The changes of images and models of lecture 11 do what their names say."""

import torch

from course_lib.models import DeiT
from course_lib.primitives import patchify
from course_tools.lectures.lecture_11.experiments import repeated_positions
from course_tools.notebook import digit_vit
from course_tools.notebook.digit_vit import (
    GRID,
    P,
    blackened,
    enlarged,
    fine_tuned,
    fit_image_model,
    neighbours_over_distant,
    position_similarity,
    small_cnn,
    small_vit,
    with_positions,
)


def images(n: int = 2) -> torch.Tensor:
    return torch.rand(n, 1, 28, 28, generator=torch.Generator().manual_seed(0)) + 0.1


def test_the_first_patches_of_the_order_become_black_and_no_others():
    order = torch.stack([torch.arange(16), torch.arange(16).flip(0)])
    changed = patchify(blackened(order, n=3)(images()), P)
    before = patchify(images(), P)
    assert (changed[0, :3] == 0).all()
    assert (changed[1, -3:] == 0).all()
    assert torch.equal(changed[0, 3:], before[0, 3:])
    assert torch.equal(changed[1, :-3], before[1, :-3])


def test_enlarged_images_have_the_side_and_stay_between_0_and_1():
    larger = enlarged(35)(images())
    assert larger.shape == (2, 1, 35, 35)
    assert larger.min() >= 0
    assert larger.max() <= 1


def test_a_model_with_its_own_positions_is_the_same_and_a_larger_one_reads_larger_images():
    model = small_vit(3).eval()
    same = with_positions(model, 28, model.encoder.positions.detach())
    torch.testing.assert_close(same(images()), model(images()))
    positions = repeated_positions(model.encoder.positions.detach(), GRID, GRID, 5, 5)
    assert torch.equal(positions[1:17], model.encoder.positions[1:])
    assert torch.equal(positions[17], positions[1])
    assert with_positions(model, 35, positions)(enlarged(35)(images())).shape == (2, 10)


def test_a_fine_tuned_model_fits_a_few_images():
    model = fine_tuned(small_vit(0, n_classes=3), images(3), torch.arange(3), n_classes=3)
    assert not model.training
    assert model(images(3)).argmax(-1).tolist() == [0, 1, 2]


def test_positions_that_grow_along_the_rows_are_alike_to_their_neighbours():
    model = small_vit(0)
    rows = torch.arange(16).div(4, rounding_mode="floor").float()
    with torch.no_grad():
        model.encoder.positions[1:] = torch.stack([rows.cos(), rows.sin()], -1).repeat(1, 32)
    similarity = position_similarity(model)
    assert similarity.shape == (16, 4, 4)
    torch.testing.assert_close(similarity[0, 0], torch.ones(4))
    assert neighbours_over_distant(similarity) > 0.5


def test_the_seed_decides_the_weights_and_deit_has_two_learned_tokens():
    assert torch.equal(small_vit(1).encoder.positions, small_vit(1).encoder.positions)
    assert not torch.equal(small_vit(1).encoder.positions, small_vit(2).encoder.positions)
    assert small_vit(1, kind=DeiT).encoder.learned.shape[0] == 2
    assert torch.equal(small_cnn(1)[-1].weight, small_cnn(1)[-1].weight)


def test_the_rate_rises_over_a_quarter_of_the_steps(monkeypatch):
    seen = {}
    monkeypatch.setattr(
        digit_vit, "fitted", lambda model, stream, loss, **settings: seen.update(settings, batch=next(iter(stream)))
    )
    fit_image_model(small_cnn(0), 0, torch.zeros(64, 1, 28, 28), torch.arange(64), steps=8, name="a model")
    assert (seen["steps"], seen["warmup"], seen["label"], len(seen["batch"][1])) == (8, 2, "a model, seed 0", 32)


def test_both_models_give_ten_logits_of_an_image():
    assert [make()(images(3)).shape for make in (small_cnn, small_vit)] == [(3, 10), (3, 10)]


def test_positions_start_as_much_larger_as_asked():
    one, four = (small_vit(0, scale=scale).encoder.positions for scale in (1.0, 4.0))
    torch.testing.assert_close(four, 4 * one)
