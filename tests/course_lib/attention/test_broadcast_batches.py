"""Queries and keys of other batch axes each: what one sequence asks of many is as if it were repeated."""

import pytest
import torch

from course_lib.attention import AdditiveAttention, ConcatAttention, GeneralAttention, MultiHead
from course_lib.primitives import padding_mask

B, T_q, T_k, d, d_v, d_a = 3, 5, 7, 6, 11, 13
LENGTHS = torch.tensor([7, 2, 5])
pytestmark = pytest.mark.usefixtures("unchecked")

MECHANISMS = {
    "additive": lambda: AdditiveAttention(d, d, d_a),
    "concat": lambda: ConcatAttention(d, d, d_a),
    "general": lambda: GeneralAttention(d, d),
    "multi-head": lambda: MultiHead(d, 2, d_v=d_v, d_memory=d),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", MECHANISMS)
def test_one_sequence_of_queries_attends_to_every_sequence_of_keys(name, masked):
    torch.manual_seed(0)
    mechanism, q, k = MECHANISMS[name](), torch.randn(T_q, d), torch.randn(B, T_k, d)
    mask = padding_mask(LENGTHS, T_k) if masked else None
    repeated = mechanism(q.expand(B, T_q, d), k, k, mask)
    torch.testing.assert_close(mechanism(q, k, k, mask), repeated)
    torch.testing.assert_close(mechanism(q[None], k, k, mask), repeated)


def test_a_mask_that_fits_neither_is_refused():
    heads, q, k = MultiHead(d, 2), torch.randn(T_q, d), torch.randn(B, T_k, d)
    with pytest.raises(ValueError, match=r"does not broadcast to .* = \(3, 2, 5, 7\)"):
        heads(q, k, k, padding_mask(torch.tensor([7, 2]), T_k))
