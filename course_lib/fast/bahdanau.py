"""The RNN decoder with additive attention, with everything that does not depend on the state before the loop."""

import torch

from course_lib.attention import AdditiveAttention, Attended
from course_lib.attention.core import hide_keys
from course_lib.models.bahdanau import bahdanau_steps
from course_lib.models.bigru_encoder import Encoded
from course_lib.primitives import GRU
from course_lib.primitives.recurrent import HiddenState
from course_lib.shapes import States, TokenFeatures

__all__ = ["hoisted_bahdanau_steps"]


def hoisted_bahdanau_steps(
    embedded: TokenFeatures, s: HiddenState, encoded: Encoded, attention: AdditiveAttention, cell: GRU
) -> tuple[States, Attended]:
    """Compute the same as `bahdanau_steps`, with everything that does not depend on the state hoisted out of the loop.

    Keys are projected once. W_c c_t = Σ_j α_tj (W_c h_j), so the values too are multiplied by the GRU's input weights once, and
    each step mixes gates instead of contexts. The state's gates and the query are one product. Since tanh(a) = 2 σ(2a) - 1,
    and a constant in all scores of a row does not change the weights, vᵀ tanh(a) may be replaced by 2vᵀ σ(2a), which is much
    cheaper on a CPU. Keys and values that the mask hides are set to 0 first, since 0 · NaN is NaN.
    """
    keys, values = (hide_keys(x, encoded.mask) for x in (encoded.keys, encoded.values))
    encoded = encoded._replace(keys=keys, values=values)
    if embedded.shape[1] == 1:  # nothing to hoist out of the loop
        return bahdanau_steps(embedded, s, encoded, attention, cell)
    n = s.shape[-1]
    W_y, W_c = cell.weight_ih_l0.tensor_split([embedded.shape[-1]], dim=1)
    keys = keys @ (2 * attention.U).mT
    gates_of_values = values @ W_c.mT
    gates_of_words = embedded @ W_y.mT + cell.bias_ih_l0
    U = torch.cat([cell.weight_hh_l0, 2 * attention.W]).mT
    v = 2 * attention.v
    b = torch.cat([cell.bias_hh_l0, cell.bias_hh_l0.new_zeros(len(attention.W))])
    mask = encoded.mask[:, 0]
    blind = ~mask.any(-1, keepdim=True)
    barred = torch.zeros_like(mask, dtype=s.dtype).masked_fill(~mask & ~blind, -torch.inf)
    seen = (~blind).to(s.dtype)
    states, rows = [], []
    for a in gates_of_words.unbind(1):
        from_s, q = torch.addmm(b, s, U).tensor_split([3 * n], dim=-1)
        row = (torch.sigmoid(keys + q[:, None]) @ v + barred).softmax(-1) * seen
        gates = torch.baddbmm(a[:, None], row[:, None], gates_of_values)[:, 0]
        r, z = (gates[:, : 2 * n] + from_s[:, : 2 * n]).sigmoid().chunk(2, dim=-1)
        candidate = torch.addcmul(gates[:, 2 * n :], r, from_s[:, 2 * n :]).tanh()
        s = torch.lerp(candidate, s, z)
        states.append(s)
        rows.append(row)
    weights = torch.stack(rows, dim=1)
    return torch.stack(states, dim=1), Attended(weights @ values, weights)
