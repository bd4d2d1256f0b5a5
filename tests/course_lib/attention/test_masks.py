"""A mask is unambiguous: two axes are queries and keys; a mask that could be per sequence or per head is refused."""

import pytest
import torch

from course_lib.attention import (
    MultiHead,
    attend,
    causal_attention,
    dot_attention,
    kernel_attention,
    multi_head_attention,
    scaled_dot_product_attention,
)
from course_lib.fast import fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.primitives import causal_mask, padding_mask

T, H, d = 5, 3, 6
FORMS = {
    "scaled": scaled_dot_product_attention,
    "fused scaled": fused_scaled_dot_product_attention,
    "causal": causal_attention,
    "fused causal": fused_causal_attention,
    "dot": dot_attention,
    "kernel": lambda q, k, v, mask: kernel_attention(q.exp(), k.exp(), v, mask),
    "multi-head": lambda q, k, v, mask: multi_head_attention(q, k, v, *[torch.eye(d).to(q)] * 4, n_heads=H, mask=mask),
    "MultiHead": lambda q, k, v, mask: MultiHead(d, H).double()(q, k, v, mask),
    "fused MultiHead": lambda q, k, v, mask: MultiHead(d, H, fused_scaled_dot_product_attention).double()(q, k, v, mask),
}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
PADDING = torch.arange(T) < torch.tensor([5, 3, 1, 4, 2])[:, None]


def inputs(normal, *batch):
    return [normal(*batch, T, d).detach() for _ in range(3)]


@each_form
def test_a_mask_of_two_axes_is_for_all_sequences_however_many_there_are(normal, form):
    q, k, v = inputs(normal, T)
    torch.manual_seed(0)
    context = form(q, k, v, causal_mask(T)).context
    torch.manual_seed(0)
    torch.testing.assert_close(context, form(q, k, v, causal_mask(T)[None]).context)


@each_form
def test_what_the_message_says_is_taken(normal, form):
    q, k, v = inputs(normal, T)
    torch.manual_seed(0)
    context = form(q, k, v, PADDING[:, None]).context
    torch.manual_seed(0)
    torch.testing.assert_close(context, form(q, k, v, padding_mask(PADDING.sum(-1), T)).context)
    torch.manual_seed(0)
    for_all = form(q, k, v, causal_mask(T)[None]).context
    torch.manual_seed(0)
    torch.testing.assert_close(for_all, form(q, k, v, causal_mask(T).expand(T, T, T)).context)
    assert (for_all - context).abs().max() > 1e-3


@each_form
@pytest.mark.parametrize("batch", [(), (1,), (2,), (T,), (7,)])
def test_a_mask_for_all_needs_no_batch_axis_where_nothing_can_be_confused(normal, form, batch):
    assert form(*inputs(normal, *batch), causal_mask(T)).context.isfinite().all()


def test_a_padding_mask_of_as_many_sequences_as_heads_is_refused(normal):
    scores, values = normal(H, H, T, T), normal(H, H, T, d)
    mask = padding_mask(torch.tensor([5, 3, 1]), T)
    with pytest.raises(ValueError, match=r"\(3, 1, 5\) can be read in two ways"):
        attend(scores, values, mask)
    assert not attend(scores, values, mask[:, None]).weights[2, ..., 1:].any()
