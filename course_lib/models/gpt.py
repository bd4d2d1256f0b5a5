"""GPT: a stack of blocks that each look back only, trained to say the next token.

Radford et al. 2018 (GPT-1) and 2019, *Language Models are Unsupervised Multitask Learners*, section 2.3
(https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf):

    h_0 = E[tokens] + P        h_l = Block_l(h_{l-1})        p(next token) = softmax(E Norm(h_L))

As in GPT-2: pre-norm, GELU, learned positions, one norm at the end, and E serves twice, as embedding and as last matrix.
Weights start as the papers' at their width (`blocks.draw_weights`), those that end in the residual path divided by √(2L).
There is no dropout.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.attention import Mechanism, causal_attention
from course_lib.blocks.block import pre_norm
from course_lib.blocks.stack import Activation, Sizes, draw_weights, encoder_stack
from course_lib.primitives import LearnedPositions
from course_lib.shapes import Lengths, Tokens

Choose = Callable[[Float[Tensor, "B n_tokens"]], Int[Tensor, "B"]]
"""Chooses the next token of each sequence from its logits, such as `sample`."""


class GPT(nn.Module):
    """A language model that reads from left to right, from tokens to logits."""

    def __init__(
        self,
        n_tokens: int,
        T_max: int,
        sizes: Sizes,
        mechanism: Mechanism = causal_attention,
        activation: Activation = F.gelu,
    ) -> None:
        """Set up the model.

        Args:
            n_tokens: size of the vocabulary.
            T_max: tokens that it can look at; there is a learned position for each.
            sizes: d_model, n_heads, d_ff (4 · d_model in the papers), n_layers.
            mechanism: `causal_attention`, or `fused_causal_attention`, which is faster and shows no weights; what is not
                causal lets the model see the token that it is to predict.
            activation: inside the feed-forward networks.
        """
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, sizes.d_model)
        self.positions = LearnedPositions(T_max, sizes.d_model)
        self.stack = encoder_stack(sizes, mechanism, activation, pre_norm)
        draw_weights(self, sizes.d_model)
        for name, weights in self.named_parameters():
            if name.endswith(("W_o.weight", "W_2.weight")):
                weights.data /= (2 * sizes.n_layers) ** 0.5

    @property
    def T_max(self) -> int:  # noqa: N802
        """How many tokens it can look at."""
        return len(self.positions.vectors)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T n_tokens"]:
        """Read tokens (B, T), T ≤ T_max; logits[:, t] (B, T, n_tokens) speaks about the token behind tokens[:, :t+1]."""
        return self.states(tokens) @ self.tokens.weight.mT

    def states(self, tokens: Tokens) -> Float[Tensor, "B T d_model"]:
        """Give what the model makes of each token, (B, T, d_model), before the last matrix.

        Raises:
            ValueError: there are more than T_max tokens.
        """
        return self.stack(self.tokens(tokens) + self.positions(tokens.shape[1]))


@torch.no_grad()
def generate(model: GPT, prompt: Tokens, n: int, choose: Choose, lengths: Lengths | None = None) -> Int[Tensor, "B n"]:
    """Write n more tokens behind each prompt, reading everything anew for each of them.

    Args:
        model: reads the prompts.
        prompt: (B, T) tokens, T ≥ 1; behind the end of a shorter one stands padding, whatever it is.
        n: tokens to write, ≥ 0; T + n ≤ T_max.
        choose: the next token of each sequence (B,) from its logits (B, n_tokens), such as `sample`.
        lengths: (B,), tokens of each prompt, 1 to T; None = all have T.

    Returns:
        (B, n), what was written behind each prompt.

    Raises:
        ValueError: prompts and new tokens together are more than T_max, a prompt is empty, or lengths do not fit.
    """
    require_prompts(prompt, n, model.T_max, lengths)
    at = torch.full((len(prompt),), prompt.shape[1], device=prompt.device) if lengths is None else lengths
    rows = torch.arange(len(prompt), device=prompt.device)
    tokens = torch.cat([prompt, prompt.new_zeros(len(prompt), n)], dim=1)
    for i in range(n):
        logits = model(tokens[:, : prompt.shape[1] + i])
        tokens[rows, at + i] = choose(logits[rows, at + i - 1])
    return tokens[rows[:, None], at[:, None] + torch.arange(n, device=prompt.device)]


def require_prompts(prompt: Tokens, n: int, T_max: int, lengths: Lengths | None) -> None:
    """Refuse prompts (B, T) behind which a model of T_max positions can write no n tokens; say how to mend it."""
    B, T = prompt.shape
    if B == 0 or T == 0 or n < 0:
        raise ValueError(f"need one or more prompts of at least one token, and n ≥ 0; got {B} of {T} tokens and n = {n}.")
    if T + n > T_max:
        raise ValueError(f"{T} tokens and {n} more are too many for a model of {T_max} positions.")
    if lengths is not None and (lengths.shape != (B,) or int(lengths.min()) < 1 or int(lengths.max()) > T):
        raise ValueError(f"lengths must be {B} numbers from 1 to {T}, one for each prompt; got {lengths.tolist()}.")
