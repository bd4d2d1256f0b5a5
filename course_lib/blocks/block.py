"""Transformer blocks and their stacks: token mixer, feed-forward network, residual connections and norms.

A block mixes tokens, then channels; the token mixer is an argument. Vaswani et al. 2017, sections 3.1 to 3.3 and figure 1
(https://arxiv.org/abs/1706.03762), with R = post-norm, as there, or pre-norm, as in Radford et al. 2019, section 2.3, and Xiong
et al. 2020, table 1 (https://arxiv.org/abs/2002.04745); the residual connection is that of He et al. 2016, eq. 1
(https://arxiv.org/abs/1512.03385):

    post-norm  R(x, Sublayer) = Norm(x + Sublayer(x))
    pre-norm   R(x, Sublayer) = x + Sublayer(Norm(x))

    encoder    h = R(x, Mixer)        y = R(h, FFN)
    decoder    h = R(x, Self)         m = R(h, Cross(·, memory))        y = R(m, FFN)

    FFN(x) = φ(x W₁ + b₁) W₂ + b₂        φ = ReLU in the paper, GELU in GPT and BERT

Causal mixers also compute a sequence step by step: `read` returns a layer's output for the first positions and its state, and
`step` the output of one more position and the next state. States are values. A block reads and steps by its mixers, and a
stack by its blocks. Neither applies the dropout of blocks; before `eval()`, `AttentionDropout` is applied.

A stack has N such blocks, each with its own weights. The output of pre-norm blocks is a sum that was never normalised: one
more norm follows the last block.

`encoder_block`, `pre_norm_encoder_block` and `decoder_block` are the same equations as functions with their weights passed in:
`attention` = (W_q, W_k, W_v, W_o) as in `multi_head_attention`, `network` = (W_1, b_1, W_2, b_2) as in `feed_forward`, and
`norms` = pairs (gain, bias) as in `layer_norm`, in the order of their use.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import (
    AnyMechanism,
    KeysValues,
    LayerState,
    MultiHead,
    multi_head_attention,
    scaled_dot_product_attention,
)
from course_lib.primitives import causal_mask, layer_norm
from course_lib.shapes import Mask, Memory, TokenFeatures

__all__ = [
    "AttentionWeights",
    "Block",
    "CrossAttention",
    "DecoderBlock",
    "FeedForward",
    "FeedForwardWeights",
    "NormWeights",
    "Residual",
    "SelfAttention",
    "Sizes",
    "Stack",
    "decoder_block",
    "decoder_stack",
    "draw_weights",
    "encoder_block",
    "encoder_stack",
    "feed_forward",
    "post_norm",
    "pre_norm",
    "pre_norm_encoder_block",
    "zero_head",
]

Part = TypeVar("Part")
Activation = Callable[[Tensor], Tensor]
NormFactory = Callable[[int], nn.Module]
"""`norm(d_model)` makes a normalisation of d_model features."""
Sublayer = Callable[..., Tensor]
"""Any map `(x, *context) -> y` of a sequence (B, T, d_model) to one of the same shape."""
AttentionWeights = tuple[Tensor, Tensor, Tensor, Tensor]
"""(W_q, W_k, W_v, W_o)."""
FeedForwardWeights = tuple[Tensor, Tensor, Tensor, Tensor]
"""(W_1, b_1, W_2, b_2)."""
NormWeights = tuple[Tensor, Tensor]
"""(gain, bias)."""


Residual = Callable[..., Tensor]
"""How a sublayer, its residual connection and its norm are combined: `post_norm`, `pre_norm`, or another function
`(x, sublayer, norm, *context)`, which calls the sublayer with x and the context."""


def post_norm(x: Tensor, sublayer: Sublayer, norm: Sublayer, *context: object) -> Tensor:
    """Add the sublayer's output to its input, then normalise the sum. x and result (B, T, d_model).

    Source: Vaswani et al. 2017, section 3.1.
    """
    return norm(x + sublayer(x, *context))


def pre_norm(x: Tensor, sublayer: Sublayer, norm: Sublayer, *context: object) -> Tensor:
    """Normalise the sublayer's input, and add its output to the unnormalised x. x and result (B, T, d_model).

    Source: Xiong et al. 2020, table 1.
    """
    return x + sublayer(norm(x), *context)


@runtime_checkable
class StepwiseMixer(Protocol):
    """A token mixer that also mixes step by step, one position at a time, from a state of what it has read."""

    def read(self, x: TokenFeatures, *context: Any) -> tuple[TokenFeatures, LayerState]:
        """Mix x (B, T, d_model), T ≥ 0, as the mixer itself does, and return the state that `step` continues from."""

    def step(
        self, x: Float[Tensor, "B 1 d_model"], state: Any, *context: Any
    ) -> tuple[Float[Tensor, "B 1 d_model"], LayerState]:
        """Mix one more position x (B, 1, d_model); return its row of the result, and the new state. `state` is not changed."""


class SelfAttention(nn.Module):
    """Token mixer in which each position attends to its own sequence."""

    def __init__(self, attention: nn.Module) -> None:
        """Set the attention, such as `MultiHead(d_model, n_heads)`."""
        super().__init__()
        self.attention = attention

    def forward(self, x: TokenFeatures, mask: Mask | None = None) -> Tensor:
        """Mix x (B, T, d_model) under a mask that broadcasts to (B, T, T), True = may attend; returns (B, T, d_model)."""
        return self.attention(x, x, x, mask).context

    def read(self, x: TokenFeatures, mask: Mask | None = None) -> tuple[TokenFeatures, LayerState]:
        """Mix x (B, T, d_model), T ≥ 0, as `MultiHead.read`, and return the state that `step` continues from.

        Raises:
            ValueError: the attention has no step-by-step form; it must be causal.
        """
        return _require_steps(self.attention).read(x, *(() if mask is None else (mask,)))

    def step(
        self, x: Float[Tensor, "B 1 d_model"], state: LayerState, *form: Any
    ) -> tuple[Float[Tensor, "B 1 d_model"], LayerState]:
        """Mix one more position x (B, 1, d_model), as `MultiHead.step`."""
        return cast(StepwiseMixer, self.attention).step(x, state, *form)


class CrossAttention(nn.Module):
    """Token mixer in which each position attends to another sequence, the memory."""

    def __init__(self, attention: nn.Module) -> None:
        """Set the attention; `MultiHead(d_model, n_heads, d_memory=…)` if the sizes differ."""
        super().__init__()
        self.attention = attention

    def forward(self, x: TokenFeatures, memory: Memory, mask: Mask | None = None) -> Tensor:
        """Attend from x (B, T_q, d_model) to memory (B, T_k, d_memory) under a mask for (B, T_q, T_k); returns x's shape."""
        return self.attention(x, memory, memory, mask).context

    def read(self, x: TokenFeatures, memory: Memory, mask: Mask | None = None) -> tuple[TokenFeatures, LayerState]:
        """Attend as `forward`, x (B, T_q, d_model), T_q ≥ 0; also return the projected memory, the same for all steps.

        Raises:
            ValueError: the attention is not `MultiHead`, or its mechanism is causal and does not attend to all of the memory.
        """
        if not isinstance(self.attention, MultiHead):
            raise ValueError(f"steps need MultiHead to attend to the memory, got {self.attention}.")
        if getattr(mechanism := self.attention.mechanism, "causal", False):
            raise ValueError(
                f"steps attend to all of the memory, but {getattr(mechanism, '__name__', mechanism)} does not: choose another "
                "mechanism."
            )
        projected = self.attention.project(memory, memory)
        return self.attention.attend_projected(x, projected, mask).context, projected

    def step(
        self, x: Float[Tensor, "B 1 d_model"], state: LayerState, mask: Mask | None = None
    ) -> tuple[Float[Tensor, "B 1 d_model"], LayerState]:
        """Attend from one more position x (B, 1, d_model) to the memory that `read` projected, under a mask for (B, 1, T_k)."""
        return cast(MultiHead, self.attention).attend_projected(x, KeysValues(*state), mask).context, state


class FeedForward(nn.Module):
    """The position-wise network with its weights: two linear layers `W_1`, `W_2` and an activation between them."""

    def __init__(self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        """Set up both layers; the activation is any function of a tensor, such as `F.gelu`."""
        super().__init__()
        self.W_1 = nn.Linear(d_model, d_ff)
        self.W_2 = nn.Linear(d_ff, d_model)
        self.activation = activation

    def forward(self, x: Float[Tensor, "*batch T d_model"]) -> Float[Tensor, "*batch T d_model"]:
        """Transform each position of x (*batch, T, d_model) by itself."""
        return self.W_2(self.activation(self.W_1(x)))


class Block(nn.Module):
    """Transformer block: mix tokens, then channels. Encoder, GPT, BERT, ViT, Mixer and linear transformer are made of it."""

    def __init__(
        self,
        mixer: nn.Module,
        feed_forward: nn.Module,
        d_model: int,
        residual: Residual = post_norm,
        norm: NormFactory = nn.LayerNorm,
        dropout: float = 0.0,
    ) -> None:
        """Set the parts.

        Args:
            mixer: mixes tokens, `(x, *context) -> (B, T, d_model)`, such as `SelfAttention(MultiHead(d_model, n_heads))`.
            feed_forward: mixes channels, `x -> (B, T, d_model)`.
            d_model: number of features.
            residual: `post_norm` or `pre_norm`.
            norm: makes a normalisation of d_model features.
            dropout: probability with which, in training, each output of a sublayer is set to 0 (Vaswani et al. 2017,
                section 5.4).

        Raises:
            TypeError: the mixer is a `MultiHead`, which takes queries, keys and values, or cannot be called.
        """
        super().__init__()
        _require_sublayer(mixer, "SelfAttention")
        self.mixer, self.feed_forward, self.residual = mixer, feed_forward, residual
        self.norm_1, self.norm_2 = norm(d_model), norm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: TokenFeatures, *context: object) -> Tensor:
        """Transform x (B, T, d_model); the context, such as a mask, goes to the mixer.

        Raises:
            TypeError: the mixer or the network does not return a tensor of the shape of x.
        """
        x = self.residual(x, _followed_by(self.dropout, self.mixer), self.norm_1, *context)
        return self.residual(x, _followed_by(self.dropout, self.feed_forward), self.norm_2)

    def read(self, x: TokenFeatures, *context: Any) -> tuple[TokenFeatures, LayerState]:
        """Transform x (B, T, d_model), T ≥ 0, and give the state that `step` continues from.

        Raises:
            ValueError: the mixer cannot mix step by step; it must be causal.
        """
        x, state = _with_state(self.residual, _require_steps(self.mixer).read, self.norm_1, x, *context)
        return self.residual(x, self.feed_forward, self.norm_2), state

    def step(
        self, x: Float[Tensor, "B 1 d_model"], state: LayerState, *context: Any
    ) -> tuple[Float[Tensor, "B 1 d_model"], LayerState]:
        """Transform one more position x (B, 1, d_model); give the last row of `forward`, and the new state."""
        x, state = _with_state(self.residual, cast(StepwiseMixer, self.mixer).step, self.norm_1, x, state, *context)
        return self.residual(x, self.feed_forward, self.norm_2), state


class DecoderBlock(nn.Module):
    """Decoder block: attend to its own sequence, then to a memory, then mix channels."""

    def __init__(
        self,
        mixer: nn.Module,
        cross: nn.Module,
        feed_forward: nn.Module,
        d_model: int,
        residual: Residual = post_norm,
        norm: NormFactory = nn.LayerNorm,
        dropout: float = 0.0,
    ) -> None:
        """Set the parts: as `Block`, with `cross`, `(x, memory, mask) -> (B, T, d_model)`, between the two."""
        super().__init__()
        _require_sublayer(mixer, "SelfAttention")
        _require_sublayer(cross, "CrossAttention")
        self.mixer, self.cross, self.feed_forward, self.residual = mixer, cross, feed_forward, residual
        self.norm_1, self.norm_2, self.norm_3 = norm(d_model), norm(d_model), norm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: TokenFeatures, memory: Memory, mask: Mask | None = None, memory_mask: Mask | None = None) -> Tensor:
        """Transform x (B, T_q, d_model), attending to itself under `mask` and to memory (B, T_k, d) under `memory_mask`."""
        x = self.residual(x, _followed_by(self.dropout, self.mixer), self.norm_1, mask)
        x = self.residual(x, _followed_by(self.dropout, self.cross), self.norm_2, memory, memory_mask)
        return self.residual(x, _followed_by(self.dropout, self.feed_forward), self.norm_3)

    def read(
        self, x: TokenFeatures, memory: Memory, memory_mask: Mask | None = None
    ) -> tuple[TokenFeatures, "DecoderBlockState"]:
        """Transform x (B, T, d_model), T ≥ 0, and give the state that `step` continues from, with the memory projected once.

        Raises:
            ValueError: the mixer cannot mix step by step; it must be causal.
        """
        x, past = _with_state(self.residual, _require_steps(self.mixer).read, self.norm_1, x)
        x, kept = _with_state(self.residual, _require_steps(self.cross).read, self.norm_2, x, memory, memory_mask)
        return self.residual(x, self.feed_forward, self.norm_3), DecoderBlockState(past, kept)

    def step(
        self, x: Float[Tensor, "B 1 d_model"], state: "DecoderBlockState", memory_mask: Mask | None = None
    ) -> tuple[Float[Tensor, "B 1 d_model"], "DecoderBlockState"]:
        """Transform one more position x (B, 1, d_model); give the last row of `forward`, and the new state."""
        x, past = _with_state(self.residual, cast(StepwiseMixer, self.mixer).step, self.norm_1, x, state.past)
        x, kept = _with_state(self.residual, cast(StepwiseMixer, self.cross).step, self.norm_2, x, state.memory, memory_mask)
        return self.residual(x, self.feed_forward, self.norm_3), DecoderBlockState(past, kept)


def _followed_by(dropout: nn.Module, sublayer: Sublayer) -> Sublayer:
    def run(x: Tensor, *context: object) -> Tensor:
        y = sublayer(x, *context)
        if not isinstance(y, Tensor) or y.shape != x.shape:  # another shape would broadcast in the residual connection
            got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise TypeError(f"{type(sublayer).__name__} must return a tensor of the shape of x, {tuple(x.shape)}, got {got}.")
        return dropout(y)

    return run


def _require_sublayer(mixer: nn.Module, wrapper: str) -> None:
    """Raise a TypeError for an attention of queries, keys and values, which cannot mix the tokens of a block by itself."""
    if isinstance(mixer, MultiHead):
        raise TypeError(f"a block passes x to its mixer; MultiHead takes queries, keys and values: {wrapper}(MultiHead(…)).")


def _with_state(
    residual: Residual, mix: Callable[..., tuple[Tensor, LayerState]], norm: Sublayer, x: Tensor, *context: object
) -> tuple[Tensor, LayerState]:
    """Apply a sublayer that returns a state with its output, with its residual connection and its norm."""
    states = []

    def sublayer(x: Tensor, *context: object) -> Tensor:
        y, state = mix(x, *context)
        states.append(state)
        return y

    return residual(x, sublayer, norm, *context), states[-1]


def _require_steps(mixer: nn.Module) -> StepwiseMixer:
    """Return a token mixer, or an attention, after checking that it has `read` and `step`.

    Raises:
        ValueError: it does not have both.
    """
    if not isinstance(mixer, StepwiseMixer):
        raise ValueError(f"steps need a layer with `read` and `step`; run this one on the whole sequence instead: {mixer}.")
    return mixer


class DecoderBlockState(NamedTuple):
    """State of a decoder block between steps: the state of its mixer, and keys and values of the memory (B, h, T_k, d)."""

    past: LayerState
    memory: LayerState


class Sizes(NamedTuple):
    """Size of a transformer: features of a token, heads, features inside the feed-forward network, and layers."""

    d_model: int
    n_heads: int
    d_ff: int
    n_layers: int


class Stack(nn.Module):
    """Stack of transformer blocks: the context, such as a mask, goes to each of them."""

    def __init__(self, blocks: Sequence[nn.Module], closing: nn.Module) -> None:
        """Set the blocks and the final layer: a norm after pre-norm blocks, `nn.Identity()` after others."""
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.closing = closing

    def forward(self, x: TokenFeatures, *context: object) -> Tensor:
        """Transform x (B, T, d_model) by all blocks."""
        for block in self.blocks:
            x = block(x, *context)
        return self.closing(x)

    def read(self, x: TokenFeatures, *context: Any) -> tuple[TokenFeatures, tuple[LayerState, ...]]:
        """Transform x (B, T, d_model), T ≥ 0, by all blocks, and return the state of each, from which `step` continues.

        The context is that of the blocks' `read`: nothing, or a mask, for encoder blocks; for decoder blocks the memory and its
        mask.

        Raises:
            ValueError: a block cannot compute step by step; it must be causal.
        """
        states = []
        for block in self.blocks:
            x, state = _require_steps(block).read(x, *context)
            states.append(state)
        return self.closing(x), tuple(states)

    def step(
        self, x: Float[Tensor, "B 1 d_model"], states: tuple[LayerState, ...], *context: Any
    ) -> tuple[Float[Tensor, "B 1 d_model"], tuple[LayerState, ...]]:
        """Transform one more position x (B, 1, d_model); give the last row of `forward`, and the new states.

        The context is that of the blocks' `step`: for encoder blocks nothing, or a form of linear attention's step; for
        decoder blocks the memory's mask.

        Raises:
            ValueError: the number of states is not that of the blocks.
        """
        new = []
        for block, state in zip(self.blocks, states, strict=True):
            x, state = cast(StepwiseMixer, block).step(x, state, *context)
            new.append(state)
        return self.closing(x), tuple(new)


def closing_norm(residual: Residual, d_model: int, norm: NormFactory = nn.LayerNorm) -> nn.Module:
    """Make the final layer of a stack of d_model features: `norm`, or the identity after `post_norm`, which has normalised."""
    return nn.Identity() if residual is post_norm else norm(d_model)


def encoder_stack(
    sizes: Sizes,
    mechanism: AnyMechanism = scaled_dot_product_attention,
    activation: Activation = F.relu,
    residual: Residual = post_norm,
    norm: NormFactory = nn.LayerNorm,
    dropout: float = 0.0,
) -> Stack:
    """Make a stack of blocks of self-attention and a feed-forward network; Vaswani's encoder, by default.

    Args:
        sizes: of the model.
        mechanism: how each head attends; `causal_attention` makes it a decoder without a memory, as GPT is. A module, such as
            `GeneralAttention(d_k, d_k)`, is copied for each layer, so that each layer owns its parameters.
        activation: inside the feed-forward networks; a module, such as `nn.PReLU()`, is copied for each layer.
        residual: `post_norm` or `pre_norm`.
        norm: makes a normalisation of d_model features.
        dropout: probability with which, in training, each output of a sublayer is set to 0.

    Returns:
        a module `(x (B, T, d_model), mask) -> (B, T, d_model)`.
    """
    d_model, n_heads, d_ff, n_layers = sizes

    def block() -> Block:
        mixer = SelfAttention(MultiHead(d_model, n_heads, of_one_layer(mechanism)))
        return Block(mixer, FeedForward(d_model, d_ff, of_one_layer(activation)), d_model, residual, norm, dropout)

    return Stack([block() for _ in range(n_layers)], closing_norm(residual, d_model, norm))


def decoder_stack(
    sizes: Sizes,
    mechanism: AnyMechanism = scaled_dot_product_attention,
    activation: Activation = F.relu,
    residual: Residual = post_norm,
    norm: NormFactory = nn.LayerNorm,
    own: AnyMechanism | None = None,
    dropout: float = 0.0,
) -> Stack:
    """Make a stack of decoder blocks: self-attention, attention to a memory, and a feed-forward network.

    Args:
        sizes: of the model.
        mechanism: how each head attends to the memory; a module is copied for each layer.
        activation: inside the feed-forward networks; a module, such as `nn.PReLU()`, is copied for each layer.
        residual: `post_norm` or `pre_norm`.
        norm: makes a normalisation of d_model features.
        own: how each head attends to its own sequence, such as `causal_attention`; None = as to the memory.
        dropout: probability with which, in training, each output of a sublayer is set to 0.

    Returns:
        a module `(x (B, T, d_model), memory (B, T_k, d_model), mask, memory_mask) -> (B, T, d_model)`.
    """
    d_model, n_heads, d_ff, n_layers = sizes

    def block() -> DecoderBlock:
        mixer = SelfAttention(MultiHead(d_model, n_heads, of_one_layer(mechanism if own is None else own)))
        cross = CrossAttention(MultiHead(d_model, n_heads, of_one_layer(mechanism)))
        return DecoderBlock(
            mixer, cross, FeedForward(d_model, d_ff, of_one_layer(activation)), d_model, residual, norm, dropout
        )

    return Stack([block() for _ in range(n_layers)], closing_norm(residual, d_model, norm))


def of_one_layer(part: Part) -> Part:
    """Copy a mechanism or activation that is a module, so that layers do not share its parameters; return a function as is."""
    return deepcopy(part) if isinstance(part, nn.Module) else part


def draw_weights(module: nn.Module, d_model: int) -> None:
    """Initialise every matrix of a module from N(0, 1 / (3 d_model)), and set every bias to 0.

    At d_model = 768, the width of GPT-1 and BERT-base, this is their standard deviation of 0.02. Narrower models need a
    larger one: with 0.02, a model of width 128 learns far more slowly. Parameters u and v of relative attention, which have a
    row for each head, are drawn as matrices are, as in the code of Transformer-XL
    (https://github.com/kimiyoung/transformer-xl).
    """
    for name, weights in module.named_parameters():
        if weights.dim() > 1:
            nn.init.normal_(weights, std=(3 * d_model) ** -0.5)
        elif name.endswith("bias"):
            nn.init.zeros_(weights)


def zero_head(d_model: int, n_classes: int) -> nn.Linear:
    """Make a linear layer (n_classes, d_model) whose weights and biases are all 0, to replace a trained head."""
    head = nn.Linear(d_model, n_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def feed_forward(
    x: Float[Tensor, "*batch T d_model"],
    W_1: Float[Tensor, "d_ff d_model"],
    b_1: Float[Tensor, "d_ff"],
    W_2: Float[Tensor, "d_model d_ff"],
    b_2: Float[Tensor, "d_model"],
) -> Float[Tensor, "*batch T d_model"]:
    """Apply a position-wise feed-forward network: widen to d_ff features, ReLU, and narrow to d_model.

    Args:
        x: (*batch, T, d_model).
        W_1: (d_ff, d_model), stored as torch.nn.Linear stores it: the paper's x W₁ is `x @ W_1.mT`.
        b_1: (d_ff,).
        W_2: (d_model, d_ff).
        b_2: (d_model,).

    Returns:
        (*batch, T, d_model); no position depends on another.

    Source: Vaswani et al. 2017, eq. 2.
    """
    return (x @ W_1.mT + b_1).relu() @ W_2.mT + b_2


def encoder_block(
    x: TokenFeatures,
    attention: AttentionWeights,
    network: FeedForwardWeights,
    norms: tuple[NormWeights, NormWeights],
    n_heads: int,
    mask: Mask | None = None,
) -> TokenFeatures:
    """Mix tokens by self-attention, then channels by the network; add and normalise after each (post-norm).

    Args:
        x: (B, T, d_model).
        attention: (W_q, W_k, W_v, W_o) of `multi_head_attention`, stored as (out, in).
        network: (W_1, b_1, W_2, b_2) of `feed_forward`.
        norms: (gain, bias) of the norm after the attention, and of the one after the network.
        n_heads: number of heads.
        mask: bool, broadcastable to (B, T, T); True = may attend.

    Returns:
        (B, T, d_model).

    Source: Vaswani et al. 2017, section 3.1.
    """
    x = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])
    return layer_norm(x + feed_forward(x, *network), *norms[1])


def pre_norm_encoder_block(
    x: TokenFeatures,
    attention: AttentionWeights,
    network: FeedForwardWeights,
    norms: tuple[NormWeights, NormWeights],
    n_heads: int,
    mask: Mask | None = None,
) -> TokenFeatures:
    """Mix tokens, then channels, each on a normalised input; the sum itself is never normalised (pre-norm).

    Args:
        x: (B, T, d_model).
        attention: (W_q, W_k, W_v, W_o) of `multi_head_attention`, stored as (out, in).
        network: (W_1, b_1, W_2, b_2) of `feed_forward`.
        norms: (gain, bias) of the norm before the attention, and of the one before the network.
        n_heads: number of heads.
        mask: bool, broadcastable to (B, T, T); True = may attend.

    Returns:
        (B, T, d_model).

    Source: Xiong et al. 2020, table 1.
    """
    normalised = layer_norm(x, *norms[0])
    x = x + multi_head_attention(normalised, normalised, normalised, *attention, n_heads, mask).context
    return x + feed_forward(layer_norm(x, *norms[1]), *network)


def decoder_block(
    x: TokenFeatures,
    memory: Memory,
    own: AttentionWeights,
    cross: AttentionWeights,
    network: FeedForwardWeights,
    norms: tuple[NormWeights, NormWeights, NormWeights],
    n_heads: int,
    memory_mask: Mask | None = None,
) -> TokenFeatures:
    """Attend to its own earlier positions, then to the encoder's memory, then mix channels; post-norm after each.

    Args:
        x: (B, T, d_model), the target so far; no position attends to a later one.
        memory: (B, T_k, d_model), the encoder's output.
        own: (W_q, W_k, W_v, W_o) of the attention over x.
        cross: (W_q, W_k, W_v, W_o) of the attention from x over the memory.
        network: (W_1, b_1, W_2, b_2) of `feed_forward`.
        norms: three pairs (gain, bias), in the order of their use.
        n_heads: number of heads, in both attentions.
        memory_mask: bool, broadcastable to (B, T, T_k), over the memory only; True = may attend.

    Returns:
        (B, T, d_model).

    Source: Vaswani et al. 2017, sections 3.1 and 3.2.3.
    """
    causal = causal_mask(x.shape[1], device=x.device)[None]
    x = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads, causal).context, *norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])
