"""GPT: a decoder-only Transformer with causal self-attention, trained to predict the next token.

Radford et al. 2018 (GPT-1) and 2019, *Language Models are Unsupervised Multitask Learners*, section 2.3
(https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf):

    h_0 = E[tokens] + P        h_l = Block_l(h_{l-1})        p(next token) = softmax(E Norm(h_L))

As in GPT-2: pre-norm, GELU, learned positions, one norm at the end, and E is both embedding and last matrix.
Weights are initialised as in the papers at their width (`blocks.draw_weights`), those at the end of a residual path divided by
√(2L).
Dropout, if asked for, is that of the embeddings and the residual path; the papers' dropout of attention weights is the
mechanism's: `AttentionDropout(causal_attention, 0.1)`.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.attention import AnyMechanism, LayerState, causal_attention
from course_lib.attention.core import require_causal
from course_lib.blocks.block import Activation, Sizes, draw_weights, encoder_stack, pre_norm
from course_lib.primitives import LearnedPositions, padding_first
from course_lib.primitives.preconditions import require_one_token_each, shape_checked
from course_lib.shapes import Lengths, Tokens

__all__ = ["GPT"]


class GPTState(NamedTuple):
    """What a GPT has read: the state of each layer, the `position` (B,) of the next token, and the number T of tokens read.

    `real` (B, 1, 1, T) is False at padding, which counts in T and stands before the tokens; None if there is no padding.
    """

    layers: tuple[LayerState, ...]
    position: Int[Tensor, "B"]
    real: Bool[Tensor, "B 1 1 T"] | None
    T: int


class GPT(nn.Module):
    """A left-to-right language model, from tokens to next-token logits."""

    def __init__(
        self,
        n_tokens: int,
        T_max: int,
        sizes: Sizes,
        mechanism: AnyMechanism = causal_attention,
        activation: Activation = F.gelu,
        dropout: float = 0.0,
    ) -> None:
        """Set up the model.

        Args:
            n_tokens: size of the vocabulary.
            T_max: length of the context; each position has a learned vector.
            sizes: d_model, n_heads, d_ff (4 · d_model in the papers), n_layers.
            mechanism: `causal_attention`, or `fused_causal_attention`, which is faster and returns no weights; one that is not
                causal is refused: the model would attend to the token that it must predict.
            activation: inside the feed-forward networks.
            dropout: probability with which, in training, a feature is set to 0: of the embeddings, and of the output of each
                sublayer.
        """
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, sizes.d_model)
        self.positions = LearnedPositions(T_max, sizes.d_model)
        self.stack = encoder_stack(sizes, mechanism, activation, pre_norm, dropout=dropout)
        require_causal(mechanism, sizes.n_heads, sizes.d_model // sizes.n_heads)
        self.dropout = nn.Dropout(dropout)
        draw_weights(self, sizes.d_model)
        for name, weights in self.named_parameters():
            if name.endswith(("W_o.weight", "W_2.weight")):
                weights.data /= (2 * sizes.n_layers) ** 0.5

    @property
    def T_max(self) -> int:  # noqa: N802
        """Length of the context: the largest number of tokens."""
        return len(self.positions.vectors)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T n_tokens"]:
        """Next-token logits (B, T, n_tokens) of tokens (B, T), T ≤ T_max: logits[:, t] given tokens[:, :t+1]."""
        return self.states(tokens) @ self.tokens.weight.mT

    @shape_checked()
    def start(self, prompt: Tokens, lengths: Lengths | None = None) -> GPTState:
        """Read prompts in parallel, and return the state that `step` continues from. Nothing is dropped, even in training mode.

        Args:
            prompt: (B, T), 0 ≤ T ≤ T_max; a shorter one is followed by padding of any value.
            lengths: (B,), number of tokens of each prompt, 0 to T; None = all have T.

        Raises:
            ValueError: the prompt is longer than T_max; there is not one length for each prompt, or one is not in 0…T; the
                mechanism has no step-by-step form (`StepwiseMechanism`), or one whose state cannot leave out padding while
                `lengths` are given.
        """
        B, T = prompt.shape
        if lengths is None:
            _, layers = self.stack.read(self._embed(prompt))
            return GPTState(layers, torch.full((B,), T, device=prompt.device), None, T)
        prompt, real = padding_first(prompt, lengths)
        position = (real.cumsum(-1)[:, 0] - 1).clamp(min=0)  # (B, T)
        _, layers = self.stack.read(self.tokens(prompt) + self.positions(T)[position], real)
        return GPTState(layers, lengths.to(torch.int64, copy=True), real[:, None], T)

    def step(self, tokens: Int[Tensor, "B"], state: GPTState) -> tuple[Float[Tensor, "B n_tokens"], GPTState]:
        """Read one more token (B,) of each sequence; return next-token logits (B, n_tokens) and the new state.

        Keys and values of earlier tokens are in the state. `fast.CachedGPT` computes the same in fewer operations.

        Raises:
            ValueError: T_max positions, padding included, were read before; or there is not one token for each sequence.
        """
        require_one_token_each(tokens, state.position.shape[0])
        layers, position, real, T = state
        if self.T_max <= T:
            raise ValueError(f"{T} tokens and one more are too many for a model of {self.T_max} positions.")
        x = (self.tokens(tokens) + self.positions.vectors[position])[:, None]
        real = None if real is None else F.pad(real, (0, 1), value=True)
        states, layers = self.stack.step(x, layers, *(() if real is None else (real,)))
        return states[:, 0] @ self.tokens.weight.mT, GPTState(layers, position + 1, real, T + 1)

    def states(self, tokens: Tokens) -> Float[Tensor, "B T d_model"]:
        """Hidden states (B, T, d_model) after the last norm, before the output matrix.

        Raises:
            ValueError: there are more than T_max tokens, or they have no batch axis.
        """
        return self.stack(self.dropout(self._embed(tokens)))

    def _embed(self, tokens: Tokens) -> Float[Tensor, "B T d_model"]:
        """Embed tokens (B, T) at positions 0 to T - 1."""
        if tokens.dim() != 2:
            raise ValueError(f"a GPT reads tokens (B, T), got {tuple(tokens.shape)}: one text alone is `tokens[None]`.")
        return self.tokens(tokens) + self.positions(tokens.shape[1])
