"""Patches are a convolution of size and stride P; positions resized are a cubic spline through the old ones."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.primitives import embed_patches, interpolate_positions, patch_grid, patchify, unpatchify

B, C, P, ROWS, COLUMNS, d, E = 2, 3, 2, 5, 7, 11, 1
SIZES = [(1, 1, 1, 1, 1), (2, 3, 5, 5, 5), (3, 1, 2, 2, 34), (2, 3, 7, 21, 14), (0, 3, 2, 4, 6)]


def cut_by_loops(images, P):
    """Each pixel to its position, one at a time."""
    B, C, H, W = images.shape
    patches = torch.empty(B, (H // P) * (W // P), C * P * P, dtype=images.dtype)
    for c in range(C):
        for y in range(H):
            for x in range(W):
                patch, within = (y // P) * (W // P) + x // P, c * P * P + (y % P) * P + x % P
                patches[:, patch, within] = images[:, c, y, x]
    return patches


@pytest.mark.parametrize("size", SIZES)
def test_each_pixel_has_its_place(size):
    B, C, P, H, W = size
    images = torch.arange(B * C * H * W).view(B, C, H, W).double()
    patches = patchify(images, P)
    assert patches.equal(cut_by_loops(images, P))
    assert unpatchify(patches, P, H, W).equal(images)


def test_patches_are_what_torch_unfolds(normal):
    images = normal(B, C, ROWS * P, COLUMNS * P)
    assert patchify(images, P).equal(F.unfold(images, P, stride=P).mT)


def test_patches_by_hand():
    image = torch.tensor([[0.0, 1, 2, 3], [4, 5, 6, 7]])[None, None]
    assert patchify(image, 2)[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert patchify(image, 1)[0, :, 0].tolist() == list(range(8))


def test_a_patch_embedding_is_a_convolution_with_stride_p(normal, agree):
    """With no learned token and positions of 0."""
    images, W, b = normal(B, C, ROWS * P, COLUMNS * P), normal(d, C, P, P), normal(d)
    nowhere, none = torch.zeros(ROWS * COLUMNS, d).double(), torch.zeros(0, d).double()
    agree(
        lambda x, W, b: embed_patches(patchify(x, P), W.flatten(1), b, none, nowhere),
        lambda x, W, b: F.conv2d(x, W, b, stride=P).flatten(2).mT,
        images,
        W,
        b,
    )


@pytest.mark.parametrize("n_learned", [0, 1, 2])
def test_learned_tokens_stand_first_and_every_token_gets_its_position(n_learned, normal):
    N = ROWS * COLUMNS
    patches, W, b, learned, positions = (
        normal(B, N, 13),
        normal(d, 13),
        normal(d),
        normal(n_learned, d),
        normal(n_learned + N, d),
    )
    tokens = embed_patches(patches, W, b, learned, positions)
    assert tokens.shape == (B, n_learned + N, d)
    for i in range(n_learned):
        torch.testing.assert_close(tokens[:, i], (learned[i] + positions[i]).expand(B, d))
    for n in range(N):
        expected = torch.stack([W @ patches[i, n] + b + positions[n_learned + n] for i in range(B)])
        torch.testing.assert_close(tokens[:, n_learned + n], expected)


def cubic(t):
    """Keys's kernel with a = -¾, as torch and most image programs have it."""
    t, a = abs(t), -0.75
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def resampling(old, new):
    """The matrix (new, old) of cubic interpolation along one side; beyond the border, the border's value is repeated."""
    matrix = torch.zeros(new, old, dtype=torch.float64)
    for i in range(new):
        where = (i + 0.5) * old / new - 0.5
        for j in range(math.floor(where) - 1, math.floor(where) + 3):
            matrix[i, min(max(j, 0), old - 1)] += cubic(where - j)
    return matrix


@pytest.mark.parametrize("new", [(5, 7), (7, 5), (10, 3), (1, 1), (6, 14)])
@pytest.mark.parametrize("n_learned", [0, 1, 2])
def test_positions_are_resized_by_keys_cubic_kernel(n_learned, new, normal, agree):
    def by_matrices(positions):
        grid = positions[n_learned:].view(ROWS, COLUMNS, d)
        resized = torch.einsum("ij,kl,jld->ikd", resampling(ROWS, new[0]), resampling(COLUMNS, new[1]), grid)
        return torch.cat([positions[:n_learned], resized.flatten(0, 1)])

    agree(lambda p: interpolate_positions(p, ROWS, COLUMNS, *new), by_matrices, normal(n_learned + ROWS * COLUMNS, d))


def test_the_same_grid_keeps_its_positions(normal):
    positions = normal(E + ROWS * COLUMNS, d)
    assert interpolate_positions(positions, ROWS, COLUMNS, ROWS, COLUMNS).equal(positions)


def test_one_position_is_spread_over_any_grid(normal):
    positions = normal(E + 1, d)
    resized = interpolate_positions(positions, 1, 1, 3, 5)
    torch.testing.assert_close(resized[E:], positions[E].expand(15, d))


def test_a_grid_turned_over_is_resized_and_turned_over(normal):
    """Rows and columns are treated equally, and so are both ends of each."""
    grid = normal(ROWS, COLUMNS, d)
    resized = interpolate_positions(grid.flatten(0, 1), ROWS, COLUMNS, 8, 3).view(8, 3, d)
    turned = grid.transpose(0, 1).flip(0, 1)
    torch.testing.assert_close(
        interpolate_positions(turned.flatten(0, 1), COLUMNS, ROWS, 3, 8).view(3, 8, d), resized.transpose(0, 1).flip(0, 1)
    )


def test_gradients_against_differences(normal):
    assert torch.autograd.gradcheck(lambda p: interpolate_positions(p, 2, 3, 3, 5), [normal(7, 2)])
    assert torch.autograd.gradcheck(embed_patches, [normal(1, 3, 4), normal(2, 4), normal(2), normal(1, 2), normal(4, 2)])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_other_numbers_stay_what_they_are(dtype):
    positions = torch.randn(E + 15, d, generator=torch.Generator().manual_seed(0)).to(dtype)
    resized = interpolate_positions(positions, 3, 5, 5, 3)
    assert resized.dtype == dtype
    expected = interpolate_positions(positions.double(), 3, 5, 5, 3)
    torch.testing.assert_close(resized.double(), expected, atol=16 * torch.finfo(dtype).eps, rtol=0)


@pytest.mark.parametrize(("H", "W", "P"), [(5, 4, 2), (4, 5, 2), (0, 4, 2), (4, 0, 2), (4, 4, 0), (4, 4, -2), (2, 2, 4)])
def test_what_does_not_divide_is_refused(H, W, P):
    with pytest.raises(ValueError, match=f"{H} × {W} pixels do not divide into patches of {P} × {P}"):
        patchify(torch.zeros(B, C, H, W), P)
    with pytest.raises(ValueError, match="do not divide"):
        patch_grid(H, W, P)


@pytest.mark.parametrize(
    ("shape", "P", "H", "W"), [((2, 6, 4), 2, 4, 4), ((2, 4, 6), 2, 4, 4), ((2, 4, 4), 2, 5, 4), ((2, 4, 4), 0, 4, 4)]
)
def test_patches_that_make_no_image_are_refused(shape, P, H, W):
    with pytest.raises(ValueError, match=f"do not make images of {H} × {W}"):
        unpatchify(torch.zeros(shape), P, H, W)


def test_one_position_for_all_tokens_is_refused():
    """It would be added to every token without an error."""
    with pytest.raises(ValueError, match=r"1 positions for 5 tokens.*interpolate_positions"):
        embed_patches(torch.zeros(B, 4, 6), torch.zeros(d, 6), torch.zeros(d), torch.zeros(1, d), torch.zeros(1, d))


@pytest.mark.parametrize("grid", [(3, 3, 2, 2), (2, 2, 0, 2), (2, 0, 2, 2)])
def test_grids_that_cannot_be_are_refused(grid):
    with pytest.raises(ValueError, match="5 positions cannot be resized"):
        interpolate_positions(torch.zeros(5, d), *grid)
