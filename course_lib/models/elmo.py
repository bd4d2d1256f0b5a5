"""ELMo: two language models that read in opposite directions, and a weighted sum of their layers as contextual embeddings.

Peters et al. 2018, *Deep contextualized word representations*, section 3, eq. 1 (https://arxiv.org/abs/1802.05365):

    p(t_k | t_1 … t_{k-1}) from h→_{k-1}        p(t_k | t_{k+1} … t_N) from h←_{k+1}

    ELMo_k = γ Σ_j s_j h_{k,j}        s = softmax(w)        h_{k,0} = [x_k; x_k], h_{k,j} = [h→_{k,j}; h←_{k,j}]

The directions share only the embedding and the output matrix; the mixture combines them. From the second
layer on, a layer's input is added to its output, as in the paper. Words are embedded whole (the paper: from their characters).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.models.bigru_encoder import reverse
from course_lib.primitives import LSTM, lstm
from course_lib.primitives.preconditions import shape_checked
from course_lib.shapes import Lengths, States, Tokens

__all__ = ["ELMo", "scalar_mix"]


class BidirectionalLogits(NamedTuple):
    """Logits (B, T, n_tokens): `next` at t predicts token t + 1, `previous` at t predicts token t - 1."""

    next: Float[Tensor, "B T n_tokens"]
    previous: Float[Tensor, "B T n_tokens"]


def scalar_mix(
    layers: Float[Tensor, "*batch n_layers d"], w: Float[Tensor, "n_layers"], gamma: Float[Tensor, ""]
) -> Float[Tensor, "*batch d"]:
    """Compute a weighted sum of the layers of a model, with weights that are learned for a task.

    Args:
        layers: outputs of all layers, (*batch, n_layers, d).
        w: (n_layers,), any numbers; the weights of the layers are softmax(w).
        gamma: γ, a scale of the sum.

    Returns:
        (*batch, d).

    Source: Peters et al. 2018, eq. 1.
    """
    return gamma * (w.softmax(0) @ layers)


class ELMo(nn.Module):
    """Two stacks of LSTMs, one for each direction, over one embedding."""

    def __init__(
        self, n_tokens: int, d_model: int, n_layers: int, run: Callable[..., tuple[States, tuple[Tensor, ...]]] = lstm
    ) -> None:
        """Set up n_layers LSTMs of d_model units for each direction; `run` is `lstm` or `fused_lstm`."""
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, d_model)
        nn.init.normal_(self.tokens.weight, std=d_model**-0.5)
        self.forwards = nn.ModuleList(LSTM(d_model, d_model, run) for _ in range(n_layers))
        self.backwards = nn.ModuleList(LSTM(d_model, d_model, run) for _ in range(n_layers))
        self.bias = nn.Parameter(torch.zeros(n_tokens))

    def forward(self, tokens: Tokens, lengths: Lengths) -> Float[Tensor, "B T n_layers d_both"]:
        """Read sentences.

        Args:
            tokens: (B, T), T ≥ 1, padded.
            lengths: (B,), words of each sentence.

        Returns:
            (B, T, n_layers + 1, 2 · d_model): for each word the embedding, twice, then each layer, [forwards; backwards].
        """
        there, back = self._directions(tokens, lengths)
        return torch.cat([torch.stack(there, dim=2), torch.stack(back, dim=2)], dim=-1)

    def language_models(self, tokens: Tokens, lengths: Lengths) -> BidirectionalLogits:
        """Read sentences (B, T) of the given lengths (B,); return both directions' logits, for pre-training."""
        there, back = self._directions(tokens, lengths)
        E = self.tokens.weight
        return BidirectionalLogits(there[-1] @ E.mT + self.bias, back[-1] @ E.mT + self.bias)

    @shape_checked()
    def _directions(self, tokens: Tokens, lengths: Lengths) -> tuple[list[States], list[States]]:
        """Return the embedding and all layers (B, T, d_model) of each direction, both in the order of the sentence."""
        x = self.tokens(tokens)
        there = _layers(x, lengths, self.forwards)
        back = _layers(reverse(x, lengths), lengths, self.backwards)
        return there, [x, *(reverse(layer, lengths) for layer in back[1:])]


def _layers(x: States, lengths: Lengths, cells: nn.ModuleList) -> list[States]:
    """Run a stack of LSTMs over x (B, T, d): x and the states of each."""
    layers = [x]
    for depth, cell in enumerate(cells):
        states, _ = cell(layers[-1], lengths=lengths)
        layers.append(states if depth == 0 else states + layers[-1])
    return layers
