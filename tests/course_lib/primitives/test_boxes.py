"""Boxes: worked by hand, counted in pixels, and without NaN for empty boxes."""

import pytest
import torch

from course_lib.primitives import area, giou, iou, overlap, to_centres, to_corners

A = torch.tensor([0.0, 0.0, 4.0, 2.0])
N, M = 5, 7


def corners(*batch, dtype=torch.float32, seed=0):
    """Boxes anywhere in the image, of any shape."""
    points = torch.rand(*batch, 2, 2, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return points.sort(dim=-2).values.flatten(-2)


def test_a_box_by_hand():
    centre = torch.tensor([2.0, 1.0, 4.0, 2.0])
    assert to_corners(centre).tolist() == A.tolist()
    assert to_centres(A).tolist() == centre.tolist()
    assert area(A) == 8


def test_there_and_back():
    boxes = corners(3, N, dtype=torch.float64)
    torch.testing.assert_close(to_corners(to_centres(boxes)), boxes)


@pytest.mark.parametrize(
    ("b", "by_iou", "by_giou"),
    [
        ((0.0, 0.0, 4.0, 2.0), 1.0, 1.0),
        ((2.0, 1.0, 6.0, 3.0), 2 / 14, 2 / 14 - 4 / 18),
        ((1.0, 0.0, 2.0, 1.0), 1 / 8, 1 / 8),
        ((4.0, 0.0, 8.0, 2.0), 0.0, 0.0),
        ((6.0, 0.0, 7.0, 2.0), 0.0, -4 / 14),
        ((6.0, 4.0, 7.0, 5.0), 0.0, -26 / 35),
    ],
    ids=["the same", "a corner shared", "inside", "side by side", "a gap", "far apart in both directions"],
)
def test_iou_and_giou_by_hand(b, by_iou, by_giou):
    b = torch.tensor([b])
    torch.testing.assert_close(iou(A[None], b), torch.tensor([[by_iou]]))
    torch.testing.assert_close(giou(A[None], b), torch.tensor([[by_giou]]))
    torch.testing.assert_close(giou(b, A[None]), torch.tensor([[by_giou]]))


def test_areas_are_those_of_counted_pixels():
    """An independent form: boxes with edges on whole pixels, drawn as masks, and the pixels counted."""
    grid = torch.arange(20)
    edges = torch.randint(0, 21, (N + M, 2, 2), generator=torch.Generator().manual_seed(1)).sort(dim=-2).values.flatten(-2)
    x_1, y_1, x_2, y_2 = edges[..., None, None].unbind(1)
    drawn = (grid >= x_1) & (grid < x_2) & (grid[:, None] >= y_1) & (grid[:, None] < y_2)
    a, b = drawn[:N, None], drawn[None, N:]
    shared, covered = overlap(edges[:N].float(), edges[N:].float())
    assert torch.equal(shared, (a & b).sum((-2, -1)).float())
    assert torch.equal(covered, (a | b).sum((-2, -1)).float())


def test_giou_stays_between_its_ends_and_below_iou():
    a, b = corners(3, N), corners(3, M, seed=1)
    assert giou(a, b).shape == (3, N, M)
    assert (giou(a, b) <= iou(a, b) + 1e-6).all()
    assert (giou(a, b) > -1).all()
    torch.testing.assert_close(giou(a, a).diagonal(dim1=-2, dim2=-1), torch.ones(3, N))


def test_the_scale_and_the_place_do_not_matter():
    a, b = corners(N, dtype=torch.float64), corners(M, dtype=torch.float64, seed=1)
    move = torch.tensor([3.0, -2.0, 3.0, -2.0], dtype=torch.float64)
    torch.testing.assert_close(giou(7 * a + move, 7 * b + move), giou(a, b))


@pytest.mark.parametrize("measure", [iou, giou])
def test_empty_boxes_compare_without_nan_in_value_or_gradient(measure):
    a = torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.2, 0.2, 0.2, 0.6]], requires_grad=True)
    b = torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.1, 0.1, 0.9, 0.9]])
    result = measure(a, b)
    assert result[0, 0] == 0
    result.sum().backward()
    assert result.isfinite().all()
    assert a.grad.isfinite().all()


@pytest.mark.parametrize("measure", [iou, giou])
@pytest.mark.parametrize(("dtype", "side"), [(torch.float16, 0.005), (torch.float32, 1e-19)])
def test_an_area_below_the_normal_numbers_is_an_area(measure, dtype, side):
    box = torch.tensor([[0.0, 0.0, side, side]], dtype=dtype)
    assert 0 < area(box) < torch.finfo(dtype).tiny
    torch.testing.assert_close(measure(box, box), torch.ones(1, 1, dtype=dtype))


@pytest.mark.parametrize("measure", [iou, giou])
def test_the_gradient_of_empty_boxes_does_not_explode(measure):
    """A line and a point on it: neither covers anything, and there is nothing to divide by."""
    a = torch.tensor([[0.2, 0.5, 0.8, 0.5]], requires_grad=True)
    b = torch.tensor([[0.5, 0.5, 0.5, 0.5]])
    measure(a, b).sum().backward()
    assert a.grad.abs().max() <= 1


def test_a_box_turned_inside_out_is_empty():
    """Both differences negative: their product alone would be a positive area."""
    assert area(torch.tensor([0.9, 0.9, 0.1, 0.1])) == 0
    far = torch.tensor([[0.0, 0.0, 0.1, 0.1]]), torch.tensor([[0.8, 0.8, 0.9, 0.9]])
    assert overlap(*far).shared == 0


@pytest.mark.parametrize(("n", "m"), [(0, M), (N, 0), (0, 0)])
def test_no_boxes(n, m):
    assert giou(corners(n), corners(m)).shape == iou(corners(n), corners(m)).shape == (n, m)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_precision_is_kept(dtype):
    a, b = corners(N, dtype=torch.float64), corners(M, dtype=torch.float64, seed=1)
    result = giou(a.to(dtype), b.to(dtype))
    assert result.dtype == dtype
    torch.testing.assert_close(result.double(), giou(a, b), atol=0.05, rtol=0)


@pytest.mark.parametrize("measure", [iou, giou])
def test_gradients(measure):
    a, b = corners(3, dtype=torch.float64).requires_grad_(), corners(2, dtype=torch.float64, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(measure, (a, b))


def test_where_boxes_do_not_touch_only_giou_says_where_to_go():
    a = torch.tensor([[0.0, 0.0, 0.1, 0.1]], requires_grad=True)
    b = torch.tensor([[0.8, 0.8, 0.9, 0.9]])
    assert torch.autograd.grad(iou(a, b).sum(), a)[0].eq(0).all()
    toward = torch.autograd.grad(giou(a, b).sum(), a)[0]
    assert (toward[0, 2:] > 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("form", [iou, giou])
def test_boxes_of_pixels_do_not_overflow(form, dtype):
    """127 · 127 overflows int8, and in float16 so does the area of a square of 300 pixels."""
    side = 300 if dtype in (torch.float16, torch.int16, torch.int32, torch.int64) else 120
    boxes = torch.tensor([[0, 0, side, side], [0, 0, side // 2, side], [side // 2, 0, side, side]])
    exact = form(boxes.double(), boxes.double())
    found = form(boxes.to(dtype), boxes.to(dtype))
    assert found.dtype == (dtype if dtype.is_floating_point else torch.float32)
    torch.testing.assert_close(found.double(), exact, atol=1e-3, rtol=1e-3)
    assert area(boxes.to(dtype)).tolist() == area(boxes.double()).tolist()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64])
def test_centres_of_pixels_do_not_wrap(dtype):
    high = min(torch.iinfo(dtype).max, 255)
    low = max(torch.iinfo(dtype).min, 0) if dtype != torch.int8 else -100
    centres = to_centres(torch.tensor([low, high - 7, high, high], dtype=dtype))
    assert centres.dtype == torch.float32
    assert centres.tolist() == [(low + high) / 2, high - 3.5, high - low, 7]
