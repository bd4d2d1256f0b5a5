"""A window contains the positions around its centre, with a mask of those inside the image."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.primitives import local_windows, window_mask

B, H, W, d = 2, 5, 7, 3
each_size = pytest.mark.parametrize("size", [1, 3, 5, 11])
each_stride = pytest.mark.parametrize("stride", [1, 2, 3])


def by_loop(x, size, stride):
    reach = size // 2
    rows = []
    for i in range(0, x.shape[1], stride):
        row = []
        for j in range(0, x.shape[2], stride):
            near = [(a, b) for a in range(i - reach, i + reach + 1) for b in range(j - reach, j + reach + 1)]
            inside = [0 <= a < x.shape[1] and 0 <= b < x.shape[2] for a, b in near]
            row.append(torch.stack([x[:, a, b] if ok else 0 * x[:, 0, 0] for (a, b), ok in zip(near, inside, strict=True)], 1))
        rows.append(torch.stack(row, 1))
    return torch.stack(rows, 1)


def test_by_hand():
    """In 1 2 3 / 4 5 6, the window around 1 has zeros above and on the left; only the last row of the one around 5 is zero."""
    x = torch.arange(1.0, 7.0).view(2, 3, 1)
    windows = local_windows(x, 3).squeeze(-1)
    assert windows[0, 0].tolist() == [0, 0, 0, 0, 1, 2, 0, 4, 5]
    assert windows[1, 1].tolist() == [1, 2, 3, 4, 5, 6, 0, 0, 0]
    assert window_mask(2, 3, 3)[0, 0].tolist() == [False, False, False, False, True, True, False, True, True]


@each_stride
@each_size
def test_a_loop_over_places_collects_the_same(normal, agree, size, stride):
    agree(lambda x: local_windows(x, size, stride), lambda x: by_loop(x, size, stride), normal(B, H, W, d))


@each_stride
@each_size
def test_it_is_torchs_unfold_with_the_axes_in_our_order(normal, agree, size, stride):
    def unfolded(x):
        columns = F.unfold(x.permute(0, 3, 1, 2), size, padding=size // 2, stride=stride)
        return columns.unflatten(1, (d, size**2)).permute(0, 3, 2, 1).unflatten(1, (-(-H // stride), -(-W // stride)))

    agree(lambda x: local_windows(x, size, stride), unfolded, normal(B, H, W, d))


@each_stride
@each_size
def test_the_mask_is_false_just_where_there_is_no_pixel(size, stride):
    pixels = torch.ones(1, H, W, 1)
    assert torch.equal(window_mask(H, W, size, stride), by_loop(pixels, size, stride)[0, ..., 0] > 0)
    assert window_mask(H, W, size, stride)[..., size**2 // 2].all()


def test_any_number_of_axes_may_stand_in_front(normal):
    x = normal(2, 3, H, W, d).detach()
    torch.testing.assert_close(local_windows(x, 3)[1, 2], local_windows(x[1, 2], 3))


@pytest.mark.parametrize("size", [0, 2, -3])
def test_a_window_without_a_middle_is_refused(size):
    with pytest.raises(ValueError, match="must be odd and positive"):
        local_windows(torch.ones(H, W, d), size)


def test_a_stride_of_zero_is_refused():
    with pytest.raises(ValueError, match="stride must be 1 or more, got 0"):
        local_windows(torch.ones(H, W, d), 3, 0)
