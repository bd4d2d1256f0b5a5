"""Local attention: all forms agree, windows and image borders are respected, and limiting cases are known mechanisms."""

import math

import jaxtyping
import pytest
import torch

from course_lib.attention import LocalAttention, dot_attention, local_attention, relative_logits
from course_lib.fast import sliced_local_attention, tiled_local_attention
from course_lib.primitives import window_mask

B, h, H, W, d_row, d_column, d_v = 2, 3, 5, 7, 3, 4, 11
d_k = d_row + d_column
FAST = (sliced_local_attention, tiled_local_attention)
each_fast_form = pytest.mark.parametrize("form", FAST)
each_form = pytest.mark.parametrize("form", [local_attention, *FAST])
each_window = pytest.mark.parametrize(("size", "stride"), [(1, 1), (3, 1), (5, 1), (3, 2), (7, 3), (1, 4), (13, 1), (3, 5)])


def inputs(normal, size, stride=1, batch=(B, h), heads=(h,), H=H, W=W):
    asking = -(-H // stride), -(-W // stride)
    q, k, v = normal(*batch, *asking, d_k), normal(*batch, H, W, d_k), normal(*batch, H, W, d_v)
    return q, k, v, normal(*heads, size, d_row), normal(*heads, size, d_column)


def context_of(form, stride=1):
    return lambda *x: form(*x, stride).context


def by_loop(stride):
    """One pixel at a time, over the neighbours that exist; one image and one head."""

    def attention(q, k, v, rows, columns):
        reach = len(rows) // 2
        context = torch.zeros(*q.shape[:-1], d_v, dtype=q.dtype)
        for i in range(q.shape[0]):
            for j in range(q.shape[1]):
                near = [
                    (a, b)
                    for a in range(max(0, i * stride - reach), min(k.shape[0], i * stride + reach + 1))
                    for b in range(max(0, j * stride - reach), min(k.shape[1], j * stride + reach + 1))
                ]
                r = [torch.cat([rows[a - i * stride + reach], columns[b - j * stride + reach]]) for a, b in near]
                e = torch.stack([q[i, j] @ k[a, b] + q[i, j] @ offset for (a, b), offset in zip(near, r, strict=True)])
                shares = e.exp() / e.exp().sum()
                context[i, j] = sum(share * v[a, b] for share, (a, b) in zip(shares, near, strict=True))
        return context

    return attention


@each_form
def test_by_hand(form):
    """Two pixels side by side, q = 1, k = 0 and ln 3, no offsets: both have weights ¼ and ¾ on 4 and 8. With ln 3 to the left
    and 0 elsewhere, the second has ½ on each."""
    q, k, v = torch.ones(1, 2, 2), torch.tensor([[[0.0, 0.0], [math.log(3), 0.0]]]), torch.tensor([[[4.0], [8.0]]])
    zero = torch.zeros(3, 1)
    torch.testing.assert_close(form(q, k, v, zero, zero).context, torch.tensor([[[7.0], [7.0]]]))
    left = torch.tensor([[math.log(3)], [0.0], [0.0]])
    torch.testing.assert_close(form(q, k, v, zero, left).context, torch.tensor([[[7.0], [6.0]]]))


@each_form
@each_window
def test_a_loop_over_pixels_and_neighbours_finds_the_same(normal, agree, form, size, stride):
    agree(context_of(form, stride), by_loop(stride), *inputs(normal, size, stride, batch=(), heads=()))


@each_fast_form
@each_window
@pytest.mark.parametrize(("batch", "heads"), [((B, h), (h,)), ((B, h), ()), ((), ())])
def test_the_fast_forms_are_the_equation(normal, agree, form, size, stride, batch, heads):
    ours = context_of(form, stride)
    agree(ours, context_of(local_attention, stride), *inputs(normal, size, stride, batch, heads))


@each_fast_form
@pytest.mark.parametrize(("H", "W"), [(1, 1), (1, 9), (8, 4), (4, 8), (13, 3)])
def test_a_picture_of_any_sides(normal, agree, form, H, W):
    agree(context_of(form), context_of(local_attention), *inputs(normal, 5, H=H, W=W))


def test_the_slices_give_the_weights_too(normal):
    drawn = inputs(normal, 3, 2)
    torch.testing.assert_close(sliced_local_attention(*drawn, 2).weights, local_attention(*drawn, 2).weights)
    assert tiled_local_attention(*drawn, 2).weights is None


@each_form
def test_a_window_over_the_whole_picture_is_attention_over_all_pixels(normal, agree, form):
    q, k, v, *offsets = inputs(normal, 2 * max(H, W) + 1)
    zero = [0 * offset.detach() for offset in offsets]

    def everywhere(q, k, v):
        return dot_attention(*(x.flatten(-3, -2) for x in (q, k, v))).context.unflatten(-2, (H, W))

    agree(lambda q, k, v: form(q, k, v, *zero).context, everywhere, q, k, v)


@each_form
def test_a_window_of_one_hands_the_pixel_its_own_value(normal, form):
    drawn = inputs(normal, 1)
    torch.testing.assert_close(form(*drawn).context, drawn[2])


@each_form
def test_what_lies_outside_the_window_does_not_matter(normal, form):
    q, k, v, *offsets = (x.detach() for x in inputs(normal, 3))
    far = torch.ones(H, W, dtype=torch.bool)
    far[1:4, 2:5] = False
    changed = [torch.where(far[..., None], 1e3 * x, x) for x in (k, v)]
    before, after = form(q, k, v, *offsets).context, form(q, *changed, *offsets).context
    torch.testing.assert_close(after[..., 2, 3, :], before[..., 2, 3, :], rtol=0, atol=1e-12)
    assert not torch.allclose(after[..., 2, 2, :], before[..., 2, 2, :])


def test_border_pixels_never_attend_to_padding(normal):
    *drawn, rows, columns = inputs(normal, 5)
    weights = local_attention(*drawn, 50 * rows, 50 * columns).weights
    inside = window_mask(H, W, 5).expand(weights.shape)
    assert not weights[~inside].any()
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, h, H, W, dtype=torch.float64))


@each_form
def test_values_that_are_all_the_same_come_out_unchanged_at_the_border_too(normal, form):
    q, k, v, *offsets = inputs(normal, 5)
    same = torch.ones_like(v)
    torch.testing.assert_close(form(q, k, same, *offsets).context, same)


def test_without_offsets_the_places_inside_a_window_may_be_exchanged(normal):
    """The context of the middle pixel of 3 × 3 does not depend on the order of its neighbours; with offsets it does."""
    q, k, v, rows, columns = (x.detach() for x in inputs(normal, 3, H=3, W=3))
    order = torch.tensor([6, 2, 7, 0, 4, 8, 1, 5, 3])
    moved = [x.flatten(-3, -2)[..., order, :].unflatten(-2, (3, 3)) for x in (k, v)]
    middle = lambda k, v, *offsets: local_attention(q, k, v, *offsets).context[..., 1, 1, :]  # noqa: E731
    torch.testing.assert_close(middle(*moved, 0 * rows, 0 * columns), middle(k, v, 0 * rows, 0 * columns))
    assert not torch.allclose(middle(*moved, rows, columns), middle(k, v, rows, columns))


def test_moving_the_picture_moves_the_result(normal):
    """Away from the border, the same neighbours give the same result everywhere."""
    drawn = [x.detach() for x in inputs(normal, 3, H=9, W=11)]
    *maps, rows, columns = drawn
    moved = [x.roll((2, 3), dims=(-3, -2)) for x in maps]
    before, after = (local_attention(*x, rows, columns).context for x in (maps, moved))
    torch.testing.assert_close(after[..., 3:8, 4:10, :], before[..., 1:6, 1:7, :])


def test_relative_logits_by_hand():
    """q = (2, 3): rows (1, 10, 100) and columns (5, 6, 7) give 2·row + 3·column."""
    q = torch.tensor([[[2.0, 3.0]]])
    rows, columns = torch.tensor([[1.0], [10.0], [100.0]]), torch.tensor([[5.0], [6.0], [7.0]])
    assert relative_logits(q, rows, columns).flatten().tolist() == [17, 20, 23, 35, 38, 41, 215, 218, 221]


def test_relative_logits_are_the_scores_where_all_keys_are_zero(normal, agree):
    q, k, v, *offsets = inputs(normal, 3)
    spelled_out = lambda q, rows, columns: relative_logits(q, rows, columns).softmax(-1)[..., 1:-1, 1:-1, :]  # noqa: E731
    of_places = lambda q, *offsets: local_attention(q, 0 * k.detach(), v.detach(), *offsets).weights[..., 1:-1, 1:-1, :]  # noqa: E731
    agree(of_places, spelled_out, q, *offsets)


@each_form
def test_gradients_against_differences(normal, form):
    small = normal(2, 3, 2, 4), normal(2, 3, 2, 4), normal(2, 3, 2, 2), normal(2, 3, 2), normal(2, 3, 2)
    assert torch.autograd.gradcheck(context_of(form), small)


@each_form
def test_logits_of_a_thousand_are_no_danger(normal, form):
    context = form(*(100 * x for x in inputs(normal, 3))).context
    context.sum().backward()
    assert context.isfinite().all()


def test_the_layer_is_the_function_with_its_weights(normal, agree):
    layer = LocalAttention(3, 2 * 4 * 3, n_heads=3, size=3, stride=2).double()
    x = normal(B, 3, H, W)

    def spelled_out(x):
        q, k, v = (torch.einsum("bchw,dc->bdhw", x, each.weight) for each in (layer.W_q, layer.W_k, layer.W_v))
        q, k, v = (each.unflatten(1, (3, 8)).permute(0, 1, 3, 4, 2) for each in (q[:, :, ::2, ::2], k, v))
        context, weights = local_attention(q, k, v, layer.rows, layer.columns, 2)
        return context.permute(0, 1, 4, 2, 3).flatten(1, 2), weights

    agree(layer, spelled_out, x)
    assert layer(x).context.shape == (B, 24, 3, 4)
    assert layer(x).weights.shape == (B, 3, 3, 4, 9)


@each_fast_form
def test_the_layer_takes_any_form(normal, agree, form):
    layer = LocalAttention(3, 16, n_heads=2, size=5, mechanism=form).double()
    equation = LocalAttention(3, 16, n_heads=2, size=5).double()
    equation.load_state_dict(layer.state_dict())
    agree(lambda x: layer(x).context, lambda x: equation(x).context, normal(B, 3, H, W))


def test_every_weight_of_the_layer_learns(normal):
    layer = LocalAttention(3, 8, n_heads=2, size=3).double()
    layer(normal(B, 3, H, W)).context.square().sum().backward()
    assert all(p.grad.any() for p in layer.parameters())


def test_queries_of_another_grid_are_refused(normal):
    with pytest.raises(ValueError, match=r"need \(3, 4\) queries for 5 × 7 keys"):
        local_attention(*inputs(normal, 3), 2)


@each_form
def test_sizes_that_do_not_fit_are_refused(normal, monkeypatch, form):
    """As for a student, without the shape checks of the test suite."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    q, k, v, rows, columns = inputs(normal, 3)
    with pytest.raises(ValueError, match="k does not fit"):
        form(q, k[..., :5], v, rows, columns)
    with pytest.raises(ValueError, match="v does not fit"):
        form(q, k, v[..., :6, :], rows, columns)
    with pytest.raises(ValueError, match="columns does not fit"):
        form(q, k, v, rows, normal(h, 5, d_column))
    with pytest.raises(RuntimeError, match=r"size|shape"):
        form(q, k, v, rows, columns[..., :3])
    with pytest.raises(ValueError, match="must be odd and positive"):
        form(q, k, v, rows[:, :2], columns[:, :2])


@each_form
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_logits_far_below_0_leave_nothing_to_what_lies_outside(form, dtype):
    """All positions of every window have the same logit, -20 000: those in the image get equal weights, the others none."""
    q, k, v = (torch.ones(H, W, n, dtype=dtype) for n in (2, 2, 1))
    rows, columns = torch.full((3, 1), -200.0, dtype=dtype), torch.zeros(3, 1, dtype=dtype)
    q, k = (100 * q).requires_grad_(), (0 * k).requires_grad_()
    context = form(q, k, v, rows, columns).context
    torch.testing.assert_close(context, v, atol=2 * torch.finfo(dtype).eps, rtol=0)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(context.sum(), (q, k)))


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="12 / 4 is not even"):
        LocalAttention(3, 12, n_heads=4, size=3)


@each_form
@pytest.mark.parametrize(("dtype", "size"), [(torch.float16, 300), (torch.bfloat16, 6)])
def test_scores_beyond_half_precision_are_formed_in_float32(normal, form, dtype, size):
    """Products of 300 and 300 exceed the range of float16, 65,504; bfloat16 rounds a score of 100 to a multiple of ½."""
    drawn = [x.detach().to(dtype) for x in inputs(normal, 3)]
    drawn[:2] = [size * x for x in drawn[:2]]
    exact = local_attention(*(x.double() for x in drawn)).context
    context = form(*drawn).context
    assert context.dtype == dtype
    torch.testing.assert_close(context.double(), exact, rtol=2 * torch.finfo(dtype).eps, atol=1e-3)
