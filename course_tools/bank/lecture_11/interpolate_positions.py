"""Exercise 11.4, interpolate_positions: what students answer, wrong and right."""

import torch
import torch.nn.functional as F
from einops import rearrange

from course_lib.primitives import interpolate_positions
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "A model has learned 1 + 4 · 6 positions, and an image comes with 8 · 6 patches. Which of the positions belong to "
        "the grid, and how many new ones do you need? What becomes of the others?"
    ),
    (
        "Read the positions of the patches as an image: H rows, W columns, and d_model channels. `F.interpolate` resizes "
        "such an image, (1, d_model, H, W): the features have to move to the front, and back afterwards."
    ),
    (
        "The first rows, those that do not belong to the grid, are kept. The others become an image (1, d_model, H, W), "
        "are resized by `F.interpolate` with the mode and alignment that the docstring names, and become rows again."
    ),
)


def _grid(positions, H, W):
    """The learned tokens' positions, and the others as an image."""
    n = len(positions) - H * W
    return positions[:n], rearrange(positions[n:], "(H W) d -> 1 d H W", H=H)


def _rows(image):
    return rearrange(image, "1 d H W -> (H W) d")


def _resized(positions, H, W, H_new, W_new, mode="bicubic", align_corners=False, antialias=False):
    learned, image = _grid(positions, H, W)
    return torch.cat([learned, _rows(F.interpolate(image, (H_new, W_new), None, mode, align_corners, antialias=antialias))])


@wrong.detail
def interpolates_linearly(positions, H, W, H_new, W_new):
    """You interpolate between the nearest four positions, bilinearly. Asked for is bicubic interpolation, which uses
    sixteen."""
    return _resized(positions, H, W, H_new, W_new, mode="bilinear")


@wrong.detail
def aligns_the_corners(positions, H, W, H_new, W_new):
    """You align the corners, so that the middle of the first patch stays where it was. Patches are areas: the edges of the
    image are aligned, not the centres of the corner patches (align_corners=False)."""
    return _resized(positions, H, W, H_new, W_new, align_corners=True)


@wrong.case
def smooths_before_shrinking(positions, H, W, H_new, W_new):
    """You switch on `antialias`. torch then averages over a wider neighbourhood where the grid shrinks, and takes another cubic
    curve besides, so that not even a growing grid agrees; asked for is plain bicubic interpolation."""
    return _resized(positions, H, W, H_new, W_new, antialias=True)


@wrong.part
def drops_the_learned(positions, H, W, H_new, W_new):
    """You return the grid alone. The class token has a position too, which the new image still needs: it goes in front,
    unchanged."""
    return _rows(F.interpolate(_grid(positions, H, W)[1], (H_new, W_new), mode="bicubic"))


@wrong.detail
def moves_the_learned_to_the_end(positions, H, W, H_new, W_new):
    """You put the positions of the learned tokens after the grid. They come first, as the tokens do."""
    learned, image = _grid(positions, H, W)
    return torch.cat([_rows(F.interpolate(image, (H_new, W_new), mode="bicubic")), learned])


@wrong.case
def counts_on_one_learned_token(positions, H, W, H_new, W_new):
    """You take exactly one position off, for the class token. Other models have two learned tokens or none; their number is
    len(positions) - H · W."""
    image = rearrange(positions[1:], "(H W) d -> 1 d H W", H=H)
    return torch.cat([positions[:1], _rows(F.interpolate(image, (H_new, W_new), mode="bicubic"))])


@wrong.idea
def resizes_a_sequence(positions, H, W, H_new, W_new):
    """You resize all positions as one long sequence, the class token's among them. Only the grid is resized, in two
    directions."""
    T_new = len(positions) - H * W + H_new * W_new
    line = rearrange(positions, "T d -> 1 d T 1")
    return _rows(F.interpolate(line, (T_new, 1), mode="bicubic"))


@wrong.detail
def reads_with_height_and_width_exchanged(positions, H, W, H_new, W_new):
    """You read the rows with H positions each, and there are W in a row. On a grid that is not square your rows are wrong."""
    return _resized(positions, W, H, H_new, W_new)


@wrong.detail
def exchanges_the_new_sizes(positions, H, W, H_new, W_new):
    """You resize to W_new rows of H_new. The number of positions is right, but for a transposed image; torch takes the
    height first."""
    return _resized(positions, H, W, W_new, H_new)


@wrong.idea
def does_not_move_the_features(positions, H, W, H_new, W_new):
    """You reshape (H · W, d_model) to (d_model, H, W). The features were the last axis and must be moved to the front; a
    reshape does not exchange axes."""
    n = len(positions) - H * W
    image = positions[n:].reshape(1, -1, H, W)
    return torch.cat([positions[:n], _rows(F.interpolate(image, (H_new, W_new), mode="bicubic"))])


@wrong.part
def does_not_move_them_back(positions, H, W, H_new, W_new):
    """You resize correctly and then reshape (d_model, H_new, W_new) to rows. The features must go back to the last axis
    first; a reshape does not exchange axes."""
    learned, image = _grid(positions, H, W)
    resized = F.interpolate(image, (H_new, W_new), mode="bicubic")
    return torch.cat([learned, resized.reshape(H_new * W_new, -1)])


@wrong.idea
def cuts_off_or_repeats(positions, H, W, H_new, W_new):
    """You crop the grid where it is too large and repeat it where it is too small. The grid should be resized to cover the
    new image."""
    learned, image = _grid(positions, H, W)
    return torch.cat([learned, _rows(image[:, :, torch.arange(H_new) % H][..., torch.arange(W_new) % W])])


@right
def feature_by_feature(positions, H, W, H_new, W_new):
    """A loop over the features, each an image in grey, into a result made beforehand."""
    n = len(positions) - H * W
    resize = torch.nn.Upsample((H_new, W_new), mode="bicubic", align_corners=False)
    pictures = [resize(feature.reshape(1, 1, H, W)).flatten() for feature in positions[n:].unbind(1)]
    return torch.cat((positions[:n], torch.stack(pictures, dim=1)), dim=0)


@right
def by_two_matrices(positions, H, W, H_new, W_new):
    """Resizing is linear and goes one direction after the other: torch resizes two identities, and einsum applies them."""
    n = len(positions) - H * W

    def matrix(old, new):
        eye = torch.eye(old, dtype=positions.dtype)[None, None]
        return F.interpolate(eye, (new, old), mode="bicubic", align_corners=False)[0, 0]

    resized = torch.einsum("yh,xw,hwd->yxd", matrix(H, H_new), matrix(W, W_new), positions[n:].reshape(H, W, -1))
    return torch.cat([positions[:n], resized.reshape(H_new * W_new, -1)])


@right
def by_the_cubic_kernel(positions, H, W, H_new, W_new):
    """The kernel of Keys with a = -¾ written out; four neighbours in each direction, the edge repeated."""

    def weights(old, new):
        middle = (torch.arange(new, dtype=torch.float64) + 0.5) * old / new - 0.5
        taps = middle.floor()[:, None] + torch.arange(-1, 3)
        t = (middle[:, None] - taps).abs()
        near, far = (1.25 * t - 2.25) * t * t + 1, -0.75 * (((t - 5) * t + 8) * t - 4)
        matrix = torch.zeros(new, old, dtype=torch.float64)
        return matrix.scatter_add(1, taps.long().clamp(0, old - 1), torch.where(t <= 1, near, far)).to(positions.dtype)

    learned, grid = positions.split([len(positions) - H * W, H * W])
    down = (weights(H, H_new) @ grid.reshape(H, -1)).reshape(H_new, W, -1)
    return torch.cat([learned, (weights(W, W_new) @ down).reshape(H_new * W_new, -1)])


@stranger
def places_of_the_nearest(positions, H, W, H_new, W_new):
    n = len(positions) - H * W
    grid = rearrange(positions[n:], "(H W) d -> 1 d H W", H=H)
    resized = F.interpolate(grid, (H_new, W_new), mode="nearest")
    return torch.cat([positions[:n], rearrange(resized, "1 d H W -> (H W) d")])


@stranger
def places_scaled(positions, H, W, H_new, W_new):
    return interpolate_positions(positions, H, W, H_new, W_new) * (H * W / (H_new * W_new))


@stranger
def places_upside_down(positions, H, W, H_new, W_new):
    n = len(positions) - H * W
    grid = rearrange(positions[n:], "(H W) d -> H W d", H=H).flip(0)
    return interpolate_positions(torch.cat([positions[:n], grid.flatten(0, 1)]), H, W, H_new, W_new)


@stranger(makes=[interpolates_linearly])
def places_linear_by_two_steps(positions, H, W, H_new, W_new):
    n = len(positions) - H * W
    grid = rearrange(positions[n:], "(H W) d -> 1 d H W", H=H)
    rows = F.interpolate(grid, (H_new, W), mode="bilinear", align_corners=False)
    resized = F.interpolate(rows, (H_new, W_new), mode="bilinear", align_corners=False)
    return torch.cat([positions[:n], rearrange(resized, "1 d H W -> (H W) d")])


@stranger(makes=[interpolates_linearly, drops_the_learned])
def places_linear_and_without_the_class(positions, H, W, H_new, W_new):
    return places_linear_by_two_steps(positions, H, W, H_new, W_new)[len(positions) - H * W :]


def _resizing(draw: Draw, n_learned: int, H: int, W: int, H_new: int, W_new: int) -> Call:
    d_model = draw.sizes(1)[0]
    return draw.normal(n_learned + H * W, d_model), H, W, H_new, W_new


def _resizings(draw: Draw) -> list[Call]:
    return [_resizing(draw, 1, 3, 5, 7, 4), _resizing(draw, 1, 6, 2, 3, 5)]


exercise = Exercise(
    id="11.4",
    title="Positions for another size",
    extra=True,
    reference=interpolate_positions,
    properties=(
        runs_on(_resizings),
        has_shape("A position for each learned token and each patch of the new grid.", _resizings),
        Property(
            "same",
            "On the grid that they were learned for, they stay as they are.",
            lambda draw: [_resizing(draw, 1, 3, 5, 3, 5)],
        ),
        Property(
            "growing",
            "A grid without learned tokens, resized to a finer one.",
            lambda draw: [_resizing(draw, 0, 3, 5, 4, 11)],
            points=2,
        ),
        Property("shrinking", "The same to a coarser one.", lambda draw: [_resizing(draw, 0, 7, 5, 3, 2)], needs=("growing",)),
        Property(
            "class token", "The position of the class token is not part of the grid.", _resizings, points=2, needs=("growing",)
        ),
        Property(
            "several",
            "There may be two learned tokens, a grid of one patch, and a new grid of as many patches.",
            lambda draw: [
                _resizing(draw, 2, 5, 3, 4, 6),
                _resizing(draw, 1, 1, 1, 2, 3),
                _resizing(draw, 1, 2, 6, 3, 4),
                _resizing(draw, 1, 11, 13, 15, 15),
            ],
            needs=("class token",),
        ),
        has_gradient(_resizings, needs=("class token",)),
        leaves_inputs(_resizings),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "align_corners is False by itself; of the detached tensor only the length is read.": (
            "drop keyword: resized = F.interpolate(image, (H_new, W_new), mode='bicubic')",
            "detach: len(positions.detach())",
        ),
    },
    hints=HINTS,
)
