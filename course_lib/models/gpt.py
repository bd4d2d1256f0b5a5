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
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.attention import AnyMechanism, causal_attention
from course_lib.blocks.block import Activation, Sizes, draw_weights, encoder_stack, pre_norm
from course_lib.primitives import LearnedPositions
from course_lib.shapes import Lengths, Tokens


class GPTState(NamedTuple):
    """Sequences that a GPT has read: `tokens` (B, T), each followed by padding, and `lengths` (B,), their numbers."""

    tokens: Tokens
    lengths: Lengths


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
            mechanism: `causal_attention`, or `fused_causal_attention`, which is faster and returns no weights; with a mechanism
                that is not causal, the model would attend to the token that it must predict.
            activation: inside the feed-forward networks.
            dropout: probability with which, in training, a feature is set to 0: of the embeddings, and of the output of each
                sublayer.
        """
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, sizes.d_model)
        self.positions = LearnedPositions(T_max, sizes.d_model)
        self.stack = encoder_stack(sizes, mechanism, activation, pre_norm, dropout=dropout)
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

    def start(self, prompt: Tokens, lengths: Lengths | None = None) -> GPTState:
        """Start sequences with prompts (B, T), T ≥ 0, of the given lengths (B,); None = all have T tokens."""
        return GPTState(prompt, prompt.new_full((len(prompt),), prompt.shape[1]) if lengths is None else lengths)

    def step(self, tokens: Int[Tensor, "B"], state: GPTState) -> tuple[Float[Tensor, "B n_tokens"], GPTState]:
        """Read one more token (B,) of each sequence; return next-token logits (B, n_tokens) and the new state.

        The whole sequence is recomputed at each step; `generation.CachedGPT` computes the same from a key-value cache.

        Raises:
            ValueError: there are more than T_max tokens.
        """
        rows, read = torch.arange(len(tokens), device=tokens.device), F.pad(state.tokens, (0, 1))
        read[rows, state.lengths] = tokens
        states = self.states(read)[rows, state.lengths]
        return states @ self.tokens.weight.mT, GPTState(read, state.lengths + 1)

    def states(self, tokens: Tokens) -> Float[Tensor, "B T d_model"]:
        """Hidden states (B, T, d_model) after the last norm, before the output matrix.

        Raises:
            ValueError: there are more than T_max tokens.
        """
        T = tokens.shape[1]
        if self.T_max < T:
            raise ValueError(f"{T} tokens are too many for a model of {self.T_max} learned positions.")
        return self.stack(self.dropout(self.tokens(tokens) + self.positions.vectors[:T]))
