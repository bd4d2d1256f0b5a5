"""Augmentation of a batch: the identity changes nothing; positions and colours change by their formulas, image by image."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.datasets import Augmentation, colour_matrix, recolour, warp
from course_lib.datasets.augmentation import LUMA

B, C, H, W = 2, 3, 5, 7
EVERYTHING = Augmentation(turn=0.5, zoom=1.4, shear=0.3, shift=0.1, flip=0.5, brightness=1.5, saturation=0.5, hue=0.3)


def random(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rest(B):
    return torch.eye(2, dtype=torch.float64).repeat(B, 1, 1), torch.zeros(B, 2, dtype=torch.float64)


def pixel_by_pixel(images, A, t):
    """Each pixel of the new image reads the position A⁻¹ (r - t), and interpolates the four pixels around it."""
    out = torch.zeros_like(images)
    for b, (image, matrix, shift) in enumerate(zip(images, A, t, strict=True)):
        H, W = image.shape[1:]
        for i in range(H):
            for j in range(W):
                r = torch.stack([torch.tensor(j - (W - 1) / 2), torch.tensor(i - (H - 1) / 2)]).to(images)
                x, y = (torch.linalg.solve(matrix, r - shift) + r.new_tensor([(W - 1) / 2, (H - 1) / 2])).tolist()
                for row in (math.floor(y), math.floor(y) + 1):
                    for column in (math.floor(x), math.floor(x) + 1):
                        if 0 <= row < H and 0 <= column < W:
                            out[b, :, i, j] += (1 - abs(y - row)) * (1 - abs(x - column)) * image[:, row, column]
    return out


def test_the_identity_leaves_every_pixel_where_it_is():
    images = random(B, C, H, W)
    torch.testing.assert_close(warp(images, *rest(B)), images, atol=1e-13, rtol=0)


def test_a_shift_is_counted_in_pixels_to_the_right_and_down():
    images, (A, t) = random(B, C, H, W), rest(B)
    moved = warp(images, A, t + torch.tensor([2.0, 1.0]))
    torch.testing.assert_close(moved[..., 1:, 2:], images[..., :-1, :-2], atol=1e-13, rtol=0)
    assert moved[..., 0, :].abs().max() < 1e-13
    assert moved[..., :2].abs().max() < 1e-13


def test_a_quarter_turn_is_clockwise():
    images = random(1, C, H, H)
    quarter = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]], dtype=torch.float64)
    torch.testing.assert_close(warp(images, quarter, rest(1)[1]), torch.rot90(images, -1, (-2, -1)), atol=1e-13, rtol=0)


def test_half_a_pixel_mixes_two_neighbours():
    row = torch.tensor([[[[1.0, 3.0, 5.0]]]])
    moved = warp(row, torch.eye(2)[None], torch.tensor([[0.5, 0.0]]))
    torch.testing.assert_close(moved, torch.tensor([[[[0.5, 2.0, 4.0]]]]))


def test_it_is_bilinear_sampling_one_pixel_at_a_time():
    A, t = rest(B)
    A, t = A + random(B, 2, 2, seed=1) - 0.5, t + 3 * random(B, 2, seed=2) - 1.5
    torch.testing.assert_close(warp(random(B, C, H, W), A, t), pixel_by_pixel(random(B, C, H, W), A, t), atol=1e-12, rtol=0)


def test_a_batch_is_its_images_one_by_one():
    images, (A, t) = random(B, C, H, W), rest(B)
    A = A + random(B, 2, 2, seed=1) - 0.5
    alone = [warp(images[b : b + 1], A[b : b + 1], t[b : b + 1]) for b in range(B)]
    torch.testing.assert_close(warp(images, A, t), torch.cat(alone), atol=1e-13, rtol=0)


def test_gradients_of_the_images_against_differences():
    A, t = rest(B)
    A = A + 0.8 * random(B, 2, 2, seed=1) - 0.4
    assert torch.autograd.gradcheck(lambda x: warp(x, A, t), random(B, 1, 3, 2).requires_grad_())


def test_a_singular_matrix_is_refused():
    with pytest.raises(RuntimeError, match="singular"):
        warp(random(1, C, H, W), torch.ones(1, 2, 2, dtype=torch.float64), rest(1)[1])


def test_the_grid_is_torchs_to_the_last_bit():
    A, t = torch.eye(2) + random(B, 2, 2, seed=1).float() - 0.5, random(B, 2, seed=2).float()
    images, half = random(B, C, H, W).float(), torch.tensor([W, H]) / 2
    back = torch.linalg.inv(A)
    M = torch.cat([back * half, -back @ t[..., None]], dim=-1) / half[:, None]
    grid = F.affine_grid(M, [B, C, H, W], align_corners=False)
    assert torch.equal(warp(images, A, t), F.grid_sample(images, grid, align_corners=False))


def test_a_batch_without_images_gives_none():
    assert Augmentation(turn=0.3)(torch.zeros(0, 3, H, W), torch.Generator()).shape == (0, 3, H, W)


def test_colours_at_rest_stay():
    one = torch.ones(B, dtype=torch.float64)
    M = colour_matrix(one, one, 0 * one)
    torch.testing.assert_close(M, torch.eye(3, dtype=torch.float64).expand(B, 3, 3), atol=1e-15, rtol=0)
    torch.testing.assert_close(recolour(random(B, 3, H, W), M), random(B, 3, H, W))


def test_a_third_of_a_circle_makes_red_green_and_green_blue():
    M = colour_matrix(torch.ones(1), torch.ones(1), torch.tensor([2 * math.pi / 3]))
    torch.testing.assert_close(M[0] @ torch.eye(3)[0], torch.eye(3)[1], atol=1e-6, rtol=0)
    torch.testing.assert_close(M[0] @ torch.eye(3)[1], torch.eye(3)[2], atol=1e-6, rtol=0)


def test_hue_and_saturation_leave_grey_alone_and_brightness_scales_it():
    s, hue, b = (random(B, seed=seed) for seed in range(3))
    grey = torch.ones(3, dtype=torch.float64)
    torch.testing.assert_close(colour_matrix(b, s, 6 * hue) @ grey, b[:, None] * grey, atol=1e-14, rtol=0)


def test_without_saturation_every_channel_is_the_luma():
    one = torch.ones(B, dtype=torch.float64)
    images = random(B, 3, H, W)
    grey = recolour(images, colour_matrix(one, 0 * one, 0 * one))
    expected = sum(weight * images[:, i] for i, weight in enumerate(LUMA))
    torch.testing.assert_close(grey, expected[:, None].expand_as(images))


def test_the_three_changes_come_one_after_the_other():
    s, hue, b = (random(B, seed=seed) + 0.5 for seed in range(3))
    one, none = torch.ones_like(b), torch.zeros_like(b)
    steps = colour_matrix(b, one, none) @ colour_matrix(one, one, hue) @ colour_matrix(one, s, none)
    torch.testing.assert_close(colour_matrix(b, s, hue), steps)


def test_as_it_stands_an_augmentation_changes_nothing():
    images = random(B, 3, H, W).float()
    torch.testing.assert_close(Augmentation()(images, torch.Generator().manual_seed(0)), images, atol=1e-6, rtol=0)


def test_the_same_seed_draws_the_same_views_and_the_next_call_others():
    images, generator = random(B, 3, H, W), torch.Generator().manual_seed(0)
    first, second = EVERYTHING(images, generator), EVERYTHING(images, generator)
    assert torch.equal(first, EVERYTHING(images, torch.Generator().manual_seed(0)))
    assert not torch.equal(first, second)
    assert not torch.equal(*EVERYTHING(images[:1].expand(2, -1, -1, -1), generator))


def test_draws_stay_within_their_ranges():
    n = 2_000
    A, t = Augmentation(turn=0.5, zoom=1.4, shift=0.1).draw_affine(n, (H, W), torch.Generator().manual_seed(0))
    zoom, angle = A.det().sqrt(), torch.atan2(A[:, 1, 0], A[:, 0, 0])
    assert 1 / 1.4 <= zoom.min() < 0.75 < 1.35 < zoom.max() <= 1.4 + 1e-6
    assert -0.5 <= angle.min() < -0.45 < 0.45 < angle.max() <= 0.5 + 1e-6
    assert t.abs().amax(0).tolist() == pytest.approx([0.1 * W, 0.1 * H], rel=0.05)
    mirrored, _ = Augmentation(flip=0.3).draw_affine(n, (H, W), torch.Generator().manual_seed(0))
    assert (mirrored.det() < 0).float().mean().item() == pytest.approx(0.3, abs=0.05)


def test_a_mirror_exchanges_left_and_right():
    images = random(B, 1, H, W)
    views = Augmentation(flip=1.0)(images, torch.Generator().manual_seed(0))
    torch.testing.assert_close(views, images.flip(-1), atol=1e-6, rtol=0)


def test_a_shear_slants_by_x_plus_shear_times_y():
    A, _ = Augmentation(shear=0.4).draw_affine(100, (H, W), torch.Generator().manual_seed(0))
    assert torch.equal(A[:, 1], torch.tensor([0.0, 1.0]).expand(100, 2))
    assert 0.35 < A[:, 0, 1].abs().max() <= 0.4


def test_pictures_without_three_channels_keep_their_ink():
    images = random(B, 1, H, W)
    views = Augmentation(brightness=2.0, hue=1.0)(images, torch.Generator().manual_seed(0))
    torch.testing.assert_close(views, images, atol=1e-6, rtol=0)


@pytest.mark.gpu
def test_a_gpu_draws_the_same_views():
    images = random(B, 3, H, W).float()
    there = EVERYTHING(images.cuda(), torch.Generator().manual_seed(0))
    torch.testing.assert_close(there.cpu(), EVERYTHING(images, torch.Generator().manual_seed(0)), atol=1e-5, rtol=0)
