"""Exercise 16.1, warp: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.datasets import warp
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
        "A pixel moves from r to A r + t. Consider a pixel of the *new* image, at r: from which point of the old image "
        "does it come? Write that point down before you think of any grid."
    ),
    (
        "It came from A⁻¹ (r - t). `F.affine_grid` expects the same map with both points in half widths and half heights "
        "of the image: put r = half · u on both sides, half = (W / 2, H / 2), solve for the old u, and read off its "
        "matrix and its shift."
    ),
    (
        "Solving for the old u gives a 2 × 2 part whose entries are those of A⁻¹, multiplied by the half of the new "
        "axis and divided by that of the old one, and a shift, -A⁻¹ t divided by the half of its axis. Join them to "
        "(B, 2, 3). The grid of `F.affine_grid` goes to `F.grid_sample`, both with align_corners=False."
    ),
)


def _half(images):
    return images.new_tensor([images.shape[3], images.shape[2]]) / 2


def _sampled(images, back, origin, half, corners=False, outside="zeros"):
    """The images that `back` r + `origin` fetches, both in pixels from the centre."""
    theta = torch.cat([back * half, origin], dim=-1) / half[:, None]
    grid = F.affine_grid(theta, images.shape, align_corners=corners)
    return F.grid_sample(images, grid, padding_mode=outside, align_corners=corners)


def _places(images, back, origin):
    """For each new pixel, (B, H, W, 2), the point `back` r + `origin` that it comes from, in pixels from the centre."""
    H, W = images.shape[-2:]
    y, x = torch.meshgrid(torch.arange(H) - (H - 1) / 2, torch.arange(W) - (W - 1) / 2, indexing="ij")
    r = torch.stack([x, y]).flatten(1).to(back)
    return (back @ r + origin).mT.unflatten(1, (H, W))


@wrong.idea
def pushes_instead_of_pulling(images, A, t):
    """You pass A and t as they are. The sampler needs, for each new pixel, the point that it comes from: the inverse map."""
    return _sampled(images, A, t[:, :, None], _half(images))


@wrong.part
def transposes_for_the_inverse(images, A, t):
    """You use the transpose of A for its inverse. The two are equal only for a rotation."""
    return _sampled(images, A.mT, -A.mT @ t[:, :, None], _half(images))


@wrong.part
def undoes_the_matrix_before_the_shift(images, A, t):
    """You use A⁻¹ r - t. The inverse of A r + t subtracts the shift first: A⁻¹ (r - t)."""
    return _sampled(images, torch.linalg.inv(A), -t[:, :, None], _half(images))


@wrong.detail
def shifts_the_other_way(images, A, t):
    """You invert the matrix but not the shift. The inverse map subtracts t; yours adds it."""
    back = torch.linalg.inv(A)
    return _sampled(images, back, back @ t[:, :, None], _half(images))


@wrong.detail
def shifts_in_pixels(images, A, t):
    """You give the grid a shift in pixels. Its unit is half an image, from the centre to the edge, so divide the shift by
    half the width and half the height."""
    back = torch.linalg.inv(A)
    half = _half(images)
    return _sampled(images, back, -back @ t[:, :, None] * half[:, None], half)


@wrong.detail
def shifts_in_whole_widths(images, A, t):
    """You divide the shift by the whole width and height. The coordinates run from -1 to 1, two units, so divide by half of
    them."""
    back = torch.linalg.inv(A)
    return _sampled(images, back, -back @ t[:, :, None] / 2, _half(images))


@wrong.detail
def exchanges_width_and_height(images, A, t):
    """You divide x by the height and y by the width. Shapes are (H, W), but points are (x, y), and x runs along the width.
    For square images the mistake has no effect."""
    back = torch.linalg.inv(A)
    return _sampled(images, back, -back @ t[:, :, None], _half(images).flip(0))


@wrong.case
def turns_in_stretched_places(images, A, t):
    """You apply the inverse matrix to coordinates from -1 to 1. Their units differ along x and y where H ≠ W: convert the
    matrix too."""
    back = torch.linalg.inv(A)
    half = _half(images)
    return _sampled(images, half[:, None] * back / half, -back @ t[:, :, None], half)


@wrong.detail
def takes_rows_for_x(images, A, t):
    """You read the axes of A and t as (row, column). They are (x, y), right and down: yours exchanges x and y."""
    back = torch.linalg.inv(A.flip(1, 2))
    return _sampled(images, back, -back @ t.flip(-1)[:, :, None], _half(images))


@wrong.detail
def moves_all_images_alike(images, A, t):
    """You move every image by the first matrix and the first shift. Each image of the batch has its own."""
    back = torch.linalg.inv(A[:1]).expand(len(images), 2, 2)
    return _sampled(images, back, -back @ t[:1, :, None], _half(images))


@wrong.case
def aligns_the_corners(images, A, t):
    """Your -1 and 1 are the centres of the outermost pixels (align_corners=True). You divide by half the width, which
    reaches to their outer edges, so your shifts come out a little too small."""
    back = torch.linalg.inv(A)
    return _sampled(images, back, -back @ t[:, :, None], _half(images), corners=True)


@wrong.case
def smears_the_border(images, A, t):
    """You repeat the border outside the image. Values from outside are 0."""
    back = torch.linalg.inv(A)
    return _sampled(images, back, -back @ t[:, :, None], _half(images), outside="border")


@wrong.detail
def transposes_the_inverse(images, A, t):
    """You multiply a point by A⁻¹ from the wrong side, so that your matrix is transposed: a point in a row is moved by
    `r @ A⁻¹.mT`. Turns then go the wrong way round."""
    back = torch.linalg.inv(A).mT
    return _sampled(images, back, -back @ t[:, :, None], _half(images))


@wrong.detail
def takes_the_nearest_pixel(images, A, t):
    """You take the nearest pixel, mode="nearest". A point between pixels gets the mean of its four neighbours, weighted by
    how near they are; the nearest one has no gradient with respect to A and t."""
    half, back = _half(images), torch.linalg.inv(A)
    theta = torch.cat([back * half, -back @ t[:, :, None]], dim=-1) / half[:, None]
    grid = F.affine_grid(theta, images.shape, align_corners=False)
    return F.grid_sample(images, grid, mode="nearest", align_corners=False)


@wrong.detail
def turns_about_the_corner(images, A, t):
    """You turn about the first pixel, (0, 0) at the upper left. r counts from the centre of the image."""
    corner = (1 - 2 * _half(images)) / 2
    back = torch.linalg.inv(A)
    origin = corner[:, None] - back @ (t[:, :, None] + corner[:, None])
    return _sampled(images, back, origin, _half(images))


@wrong.detail
def mixes_two_conventions_of_the_corners(images, A, t):
    """You divide by (W - 1) / 2 and (H - 1) / 2, which puts ±1 at the centres of the outermost pixels, and sample with
    align_corners=False, for which ±1 are the edges of the image: every image is a little enlarged."""
    half, back = _half(images), torch.linalg.inv(A)
    source = _places(images, back, -back @ t[:, :, None])
    return F.grid_sample(images, source / (half - 0.5), align_corners=False)


@wrong.detail
def exchanges_the_axes_of_the_grid(images, A, t):
    """Your grid holds (y, x). `F.grid_sample` expects x, to the right, first."""
    back = torch.linalg.inv(A)
    source = _places(images, back, -back @ t[:, :, None]).flip(-1)
    return F.grid_sample(images, source / _half(images), align_corners=False)


@wrong.part
def gives_pixels_to_a_grid_of_halves(images, A, t):
    """You give A and t to `F.affine_grid` as they are. It counts in half widths and half heights of the image, not in pixels,
    and it expects the map from the new image to the old one, the inverse."""
    return F.grid_sample(
        images,
        F.affine_grid(torch.cat([A, t[:, :, None]], dim=-1), images.shape, align_corners=False),
        align_corners=False,
    )


@wrong.detail
def measures_the_height_in_widths(images, A, t):
    """You divide by half of the width on both axes. The rows are counted in half heights."""
    half = _half(images)[:1].expand(2)
    back = torch.linalg.inv(A)
    return _sampled(images, back, -back @ t[:, :, None], half)


@wrong.case
def loses_the_sign_of_the_determinant(images, A, t):
    """You divide by the size of the determinant. A matrix that mirrors has a negative one, and its sign belongs to the
    inverse."""
    (a, b), (c, d) = (row.unbind(-1) for row in A.unbind(-2))
    adjugate = torch.stack([d, -b, -c, a], dim=-1).unflatten(-1, (2, 2))
    return warp(images, torch.linalg.inv(adjugate / (a * d - b * c).abs()[:, None, None]), t)


@wrong.detail
def gives_the_grid_two_sizes(images, A, t):
    """You give `F.affine_grid` height and width alone. It takes the four sizes of the result: images.shape."""
    half, inverse = _half(images), torch.linalg.inv(A)
    theta = torch.cat([inverse * half / half[:, None], -(inverse @ t[..., None]) / half[:, None]], -1)
    return F.grid_sample(images, F.affine_grid(theta, images.shape[-2:], align_corners=False), align_corners=False)


@right
def with_a_grid_of_its_own(images, A, t):
    """No `affine_grid`: the centres of the pixels laid out in pixels, sent back, and only then put in units."""
    H, W = images.shape[-2:]
    y, x = torch.meshgrid(
        torch.arange(H, device=t.device) - (H - 1) / 2, torch.arange(W, device=t.device) - (W - 1) / 2, indexing="ij"
    )
    r = torch.stack([x, y], dim=-1).to(t).reshape(1, H * W, 2)
    source = torch.bmm(r - t[:, None], torch.linalg.inv(A).mT)
    return F.grid_sample(images, (2 * source / source.new_tensor([W, H])).view(-1, H, W, 2), align_corners=False)


@right
def by_the_four_neighbours(images, A, t):
    """No `grid_sample` either: the four pixels around each source gathered, and mixed by the areas across from them."""
    B, C, H, W = images.shape
    y, x = (torch.arange(n, device=t.device, dtype=t.dtype) - (n - 1) / 2 for n in (H, W))
    r = torch.stack([x.repeat(H), y.repeat_interleave(W)])
    column, row = torch.bmm(torch.linalg.inv(A), r - t[:, :, None]).view(B, 2, H * W).unbind(1)
    column, row = column + (W - 1) / 2, row + (H - 1) / 2
    left, top = column.detach().floor(), row.detach().floor()
    out = images.new_zeros(B, C, H * W)
    for j, share_x in ((left, left + 1 - column), (left + 1, column - left)):
        for i, share_y in ((top, top + 1 - row), (top + 1, row - top)):
            inside = (j >= 0) & (j < W) & (i >= 0) & (i < H)
            place = (i.clamp(0, H - 1) * W + j.clamp(0, W - 1)).long()
            pixel = images.flatten(2).gather(2, place[:, None].expand(-1, C, -1))
            out = out + pixel * (share_x * share_y * inside)[:, None]
    return out.view(B, C, H, W)


@right
def in_double_precision(images, A, t):
    """All in float64, the units changed by diagonal matrices, and given back in the precision that came in."""
    half = torch.tensor([images.shape[-1] / 2, images.shape[-2] / 2], dtype=torch.float64, device=A.device)
    back = torch.linalg.solve(A.double(), torch.eye(2, dtype=torch.float64, device=A.device).expand(A.shape))
    turn = half.reciprocal().diag() @ back @ half.diag()
    shift = torch.bmm(back, t.double().neg().unsqueeze(-1)) / half.view(1, 2, 1)
    grid = F.affine_grid(torch.cat((turn, shift), dim=2), images.shape, align_corners=False)
    return F.grid_sample(images.double(), grid, mode="bilinear", padding_mode="zeros", align_corners=False).to(images.dtype)


@stranger(makes=[takes_the_nearest_pixel])
def warp_takes_the_nearest_pixel(images, A, t):
    half = images.new_tensor([images.shape[-1], images.shape[-2]]) / 2
    back = torch.linalg.inv(A)
    theta = torch.cat([back * half, -back @ t[..., None]], dim=-1) / half[:, None]
    grid = F.affine_grid(theta, images.shape, align_corners=False)
    return F.grid_sample(images, grid, mode="nearest", align_corners=False)


@stranger
def warp_turns_about_a_corner(images, A, t):
    corner = t.new_tensor([images.shape[-1], images.shape[-2]]) / 2
    return warp(images, A, t + (A @ corner) - corner)


@stranger
def warp_rounds_the_shift(images, A, t):
    return warp(images, A, t.round())


@stranger
def warp_detaches_the_matrix(images, A, t):
    return warp(images, A.detach(), t.detach())


@stranger(makes=[pushes_instead_of_pulling])
def warp_by_a_grid_that_pushes(images, A, t):
    H, W = images.shape[-2:]
    half = images.new_tensor([W, H]) / 2
    y, x = torch.meshgrid(torch.arange(H) - (H - 1) / 2, torch.arange(W) - (W - 1) / 2, indexing="ij")
    places = torch.stack([x, y], -1).flatten(0, 1)
    moved = torch.einsum("bij,pj->bpi", A, places) + t[:, None]
    return F.grid_sample(images, (moved / half).unflatten(1, (H, W)), align_corners=False)


@stranger(makes=[pushes_instead_of_pulling, exchanges_width_and_height])
def warp_twice_wrong(images, A, t):
    half = images.new_tensor([images.shape[2], images.shape[3]]) / 2
    theta = torch.cat([A * half, t[:, :, None]], dim=-1) / half[:, None]
    return F.grid_sample(images, F.affine_grid(theta, images.shape, align_corners=False), align_corners=False)


_PLAIN = {"dtype": torch.float32, "device": "cpu"}


def _eye(B: int) -> torch.Tensor:
    return torch.eye(2, **_PLAIN).repeat(B, 1, 1)


def _by(*shift: float) -> torch.Tensor:
    """One image's shift, (right, down)."""
    return torch.tensor([shift], **_PLAIN)


def _matrices(draw: Draw, B: int) -> torch.Tensor:
    """Matrices near the identity: each turns, stretches and shears, and none is singular."""
    return _eye(B) + 0.8 * (draw.uniform(B, 2, 2) - 0.5)


def _mirrors(draw: Draw, B: int) -> torch.Tensor:
    """The same, and left and right exchanged."""
    return _matrices(draw, B) * torch.tensor([-1.0, 1.0])


def _turns(draw: Draw, B: int) -> torch.Tensor:
    angle = 6.3 * draw.uniform(B)
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([cos, -sin, sin, cos], dim=-1).unflatten(-1, (2, 2))


def _image(draw: Draw, A: torch.Tensor, t: torch.Tensor, size: tuple[int, int] = (5, 7)) -> Call:
    return draw.normal(len(A), draw.sizes(1)[0], *size), A, t


def _general(draw: Draw) -> list[Call]:
    sizes = ((5, 7), (11, 3), (6, 6))
    return [_image(draw, _matrices(draw, 3), draw.normal(3, 2, scale=1.5), size) for size in sizes]


exercise = Exercise(
    id="16.1",
    title="Warp a batch by affine maps",
    extra=True,
    reference=warp,
    properties=(
        runs_on(lambda draw: [_image(draw, _matrices(draw, 2), draw.normal(2, 2))]),
        has_shape("Images of the shape that came in.", lambda draw: [_image(draw, _matrices(draw, 2), draw.normal(2, 2))]),
        Property(
            "identity", "The identity leaves the images as they are.", lambda draw: [_image(draw, _eye(1), _by(0.0, 0.0))]
        ),
        Property(
            "shift",
            "A shift counts in pixels, to the right and down; what comes from outside is 0.",
            lambda draw: [_image(draw, _eye(1), _by(2.0, 1.0)), _image(draw, _eye(1), _by(-1.0, 0.5), (6, 6))],
            points=2,
            needs=("identity",),
        ),
        Property(
            "rotation",
            "A rotation is about the centre, x to the right and y down, without shear.",
            lambda draw: [
                _image(draw, _turns(draw, 1), _by(0.0, 0.0), (6, 6)),
                _image(draw, _turns(draw, 1), _by(0.0, 0.0), (5, 9)),
            ],
            points=2,
            needs=("identity",),
        ),
        Property(
            "both",
            "Any matrix that is not singular, then the shift: r goes to A r + t.",
            lambda draw: [_image(draw, M, draw.normal(1, 2, scale=1.5)) for M in (_matrices(draw, 1), _mirrors(draw, 1))],
            points=2,
            needs=("shift", "rotation"),
        ),
        Property("batch", "Each image has its own matrix and shift.", _general, points=2, needs=("both",)),
        has_gradient(_general, needs=("batch",)),
        leaves_inputs(_general),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "align_corners is False unless something else is said.": (
            "drop keyword: return F.grid_sample(images, read_at.permute(0, 2, 3, 1))",
        ),
        "An image has four axes: the last two are those after the first two.": ("drop sign: images.shape[2:]",),
        "Only a size, a kind or the device is read, and these are the same.": (
            "detach: images.detach().shape",
            "detach: images.detach().new_tensor",
            "other name: A.new_tensor",
            "other name: t.new_tensor",
            "drop keyword: torch.linspace(-1, 1, n, device=A.device) * (n - 1)",
            "drop keyword: torch.linspace(-1, 1, n, dtype=A.dtype) * (n - 1)",
            "detach: A.detach().dtype",
            "other name: M.dtype",
            "other name: back.dtype",
            "other name: half.dtype",
            "other name: origin.dtype",
            "other name: images.dtype",
            "other name: t.dtype",
            "detach: A.detach().device",
            "other name: M.device",
            "other name: back.device",
            "other name: half.device",
            "other name: origin.device",
            "other name: images.device",
            "other name: t.device",
        ),
        "The half sides and the grid are made from sizes and carry no gradient.": (
            "detach: half.detach()[:, None]",
            "detach: back * half.detach()",
            "detach: M[..., 0, None, None] * x.detach()",
            "detach: y.detach()[:, None]",
        ),
        "A new axis before or after an index is the same axis.": (
            "swap elements: M[..., None, 0, None]",
            "swap elements: M[..., None, 1, None]",
            "swap elements: M[..., None, 2, None]",
        ),
    },
    hints=HINTS,
)
