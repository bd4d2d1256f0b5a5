"""Bidirectional GRU by torch's kernel, or with both directions side by side in each step.

`fused_bidirectional_gru` is best on a GPU, and on a CPU where no gradient is needed; `stacked_bidirectional_gru` for training
small models on a CPU.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.fast.recurrent import fused_gru
from course_lib.models.bigru_encoder import BidirectionalStates, reverse
from course_lib.primitives import GRU
from course_lib.primitives.precision import float32_under_autocast
from course_lib.primitives.recurrent import hide_padding
from course_lib.shapes import Lengths, TokenFeatures

__all__ = ["fused_bidirectional_gru", "stacked_bidirectional_gru"]


def fused_bidirectional_gru(x: TokenFeatures, lengths: Lengths, forwards: GRU, backwards: GRU) -> BidirectionalStates:
    """Compute the same as `bidirectional_gru` by torch's own kernel, one call for each direction."""
    start = (x.new_zeros(x.shape[0], forwards.d_hidden),)
    there, (last,) = fused_gru(x, start, *_weights(forwards), lengths)
    back, (first,) = fused_gru(reverse(x, lengths), start, *_weights(backwards), lengths)
    return torch.cat([there, reverse(back, lengths)], dim=-1), torch.cat([last, first], dim=-1)


@float32_under_autocast
def stacked_bidirectional_gru(x: TokenFeatures, lengths: Lengths, forwards: GRU, backwards: GRU) -> BidirectionalStates:
    """Compute the same as `bidirectional_gru`, both directions in each step, with the inputs' products before the loop."""
    (B, T), n = x.shape[:2], forwards.d_hidden
    W, U, b_W, b_U = (torch.stack(pair) for pair in zip(_weights(forwards), _weights(backwards), strict=True))
    inputs = torch.stack([hide_padding(x, lengths), reverse(x, lengths)]).flatten(1, 2)
    from_inputs = torch.baddbmm(b_W[:, None], inputs, W.mT).unflatten(1, (B, T))
    h = x.new_zeros(2, B, n)
    states = []
    for a in from_inputs.unbind(2):
        from_h = torch.baddbmm(b_U[:, None], h, U.mT)
        r, z = (a[..., : 2 * n] + from_h[..., : 2 * n]).sigmoid().chunk(2, dim=-1)
        candidate = torch.addcmul(a[..., 2 * n :], r, from_h[..., 2 * n :]).tanh()
        h = torch.lerp(candidate, h, z)
        states.append(h)
    there, back = torch.stack(states, dim=2)
    final = torch.cat([_at_end(there, lengths), _at_end(back, lengths)], dim=-1)
    real = (torch.arange(T, device=x.device) < lengths[:, None])[..., None]
    return torch.cat([torch.where(real, there, 0.0), reverse(back, lengths)], dim=-1), final


def _at_end(states: TokenFeatures, lengths: Lengths) -> Float[Tensor, "B n"]:
    """Select from states (B, T, n) that of the last real step of each sequence, 0 if there is none."""
    last = states[torch.arange(states.shape[0], device=states.device), (lengths - 1).clamp(min=0)]
    return torch.where((lengths > 0)[:, None], last, 0.0)


def _weights(cell: GRU) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0, cell.bias_hh_l0
