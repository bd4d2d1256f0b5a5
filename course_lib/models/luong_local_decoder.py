"""Luong's decoder with local-m attention: the t-th word of a target attends around the t-th word of the source.

Luong, Pham, Manning 2015, section 3.2 (https://arxiv.org/abs/1508.04025): p_t = t, and a window of ± D words around it. A
decoder that reads one word at a time must know t, so its state counts the words that it has read. Local-p needs no count:
`LuongDecoder(…, LocalPredictive(d_hidden, D, mechanism))`.
"""

import torch
from torch import nn

from course_lib.attention.luong_local import alignment_window, require_reach
from course_lib.models.bigru_encoder import Encoded
from course_lib.models.luong import LuongDecoder
from course_lib.models.seq2seq import Decoded
from course_lib.primitives.recurrent import HiddenState
from course_lib.shapes import Tokens

__all__ = ["LocalLuongDecoder"]


class LocalLuongDecoder(nn.Module):
    """A `LuongDecoder` with any mechanism that attends by local-m."""

    def __init__(self, decoder: LuongDecoder, D: int) -> None:
        """Set the decoder, and the reach D ≥ 1 of its window.

        Raises:
            ValueError: D < 1.
        """
        super().__init__()
        require_reach(D)
        self.decoder, self.D = decoder, D

    def forward(self, encoded: Encoded, target: Tokens, state: HiddenState | None = None) -> Decoded:
        """Read target (B, T) from `state` (the bridge from the encoder if None), and compute next-token logits.

        The state (B, n + 1) consists of the n hidden units and the number of words read, in float32 or float64.
        """
        hidden, t = None, torch.zeros(target.shape[0], 1, device=target.device)
        if state is not None:
            hidden, t = state[:, :-1].to(encoded.keys.dtype), state[:, -1:]
        p = t + torch.arange(1, target.shape[1] + 1, device=target.device)
        window = alignment_window(p, encoded.keys.shape[1], self.D)
        logits, attended, hidden = self.decoder(encoded._replace(mask=encoded.mask & window), target, hidden)
        return Decoded(logits, attended, torch.cat([hidden, t + target.shape[1]], dim=1))
