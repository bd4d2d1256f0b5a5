"""Bidirectional GRU encoder for padded batches, the encoder of a sequence-to-sequence model.

Bahdanau, Cho, Bengio 2015, section 3.2 and appendix A.2.1 (https://arxiv.org/abs/1409.0473): the annotation of word j joins
the state of a GRU that reads the words up to j forwards, and of another that reads the words from j on backwards:

    h_j = [h→_j; h←_j]        h→_j = GRU(x_j, h→_{j-1})        h←_j = GRU(x_j, h←_{j+1})

The equation form reads word by word. `fused_bidirectional_gru` calls torch's own kernel: best on a GPU, and on a CPU where no
gradient is needed. `stacked_bidirectional_gru` steps in both directions at once: best for training small models on a CPU.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.primitives import GRU, padding_mask
from course_lib.primitives.preconditions import shape_checked
from course_lib.shapes import Lengths, TokenFeatures, Tokens

__all__ = ["Encoded", "Encoder", "bidirectional_gru"]

BidirectionalStates = tuple[Float[Tensor, "B T d_both"], Float[Tensor, "B d_both"]]


class Encoded(NamedTuple):
    """The output of the encoder that a decoder receives.

    `keys` (B, T_k, d) are scored and `values` (B, T_k, d) are mixed; an encoder returns its annotations as both. `final` (B, d)
    joins the last state of each direction. `mask` (B, 1, T_k) is True at real words.
    """

    keys: Float[Tensor, "B T_k d"]
    values: Float[Tensor, "B T_k d"]
    final: Float[Tensor, "B d"]
    mask: Bool[Tensor, "B 1 T_k"]


def bidirectional_gru(x: TokenFeatures, lengths: Lengths, forwards: GRU, backwards: GRU) -> BidirectionalStates:
    """Read each sequence forwards by one GRU and backwards by another, by the equations.

    Args:
        x: inputs (B, T, d), T ≥ 1; padding after the end of a sequence has no effect.
        lengths: (B,), real inputs of each sequence, 0 to T.
        forwards: reads from the first input to the last.
        backwards: reads from the last real input to the first.

    Returns:
        annotations (B, T, 2n), 0 at padding; and the last states of the two directions (B, 2n), 0 for an empty sequence.

    Source: Bahdanau et al. 2015, appendix A.2.1.
    """
    there, (last,) = forwards(x, lengths=lengths)
    back, (first,) = backwards(reverse(x, lengths), lengths=lengths)
    return torch.cat([there, reverse(back, lengths)], dim=-1), torch.cat([last, first], dim=-1)


def reverse(x: TokenFeatures, lengths: Lengths) -> TokenFeatures:
    """Reverse each sequence of a padded batch (B, T, d) within its own length; padding is 0."""
    position = torch.arange(x.shape[1], device=x.device)
    mirrored = (lengths[:, None] - 1 - position).clamp(min=0)
    turned = x.gather(1, mirrored[..., None].expand_as(x))
    return torch.where((position < lengths[:, None])[..., None], turned, 0.0)


class Encoder(nn.Module):
    """Embeds words and reads them in both directions: owns the embedding and two GRUs, `forwards` and `backwards`."""

    def __init__(
        self,
        n_tokens: int,
        d_embedding: int,
        d_hidden: int,
        run: Callable[..., BidirectionalStates] = bidirectional_gru,
    ) -> None:
        """Set up for n_tokens words and annotations of 2 · d_hidden features; `run` is `bidirectional_gru` or a faster form."""
        super().__init__()
        self.run = run
        self.embedding = nn.Embedding(n_tokens, d_embedding)
        self.forwards = GRU(d_embedding, d_hidden)
        self.backwards = GRU(d_embedding, d_hidden)

    @shape_checked()
    def forward(self, source: Tokens, lengths: Lengths) -> Encoded:
        """Read sentences (B, T_k) of the given lengths (B,); padding has no effect.

        Raises:
            ValueError: the batch has no words at all, the number of lengths is not that of the sentences, or a length is not in
            0…T_k.
        """
        if source.shape[1] == 0:
            raise ValueError(f"sentences (B, T) need T ≥ 1, got {tuple(source.shape)}.")
        mask = padding_mask(lengths, source.shape[1])
        annotations, final = self.run(self.embedding(source), lengths, self.forwards, self.backwards)
        return Encoded(annotations, annotations, final, mask)
