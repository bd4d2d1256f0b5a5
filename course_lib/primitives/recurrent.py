"""Recurrent networks: RNN, LSTM and GRU, by their equations, by fast forms, and as modules.

    RNN   h_t = tanh(W x_t + U h_{t-1} + b)                                  Elman 1990, https://doi.org/10.1207/s15516709cog1402_1

    LSTM  i, f, o = σ(W x_t + U h_{t-1} + b)   each with its own rows        Hochreiter & Schmidhuber 1997,
          g = tanh(W x_t + U h_{t-1} + b)                                    with the forget gate of Gers et al. 2000,
          c_t = f ⊙ c_{t-1} + i ⊙ g                                          https://doi.org/10.1162/neco.1997.9.8.1735
          h_t = o ⊙ tanh(c_t)

    GRU   r, z = σ(W x_t + b_W + U h_{t-1} + b_U)                            Cho et al. 2014, https://arxiv.org/abs/1406.1078
          n = tanh(W x_t + b_W + r ⊙ (U h_{t-1} + b_U))                      (r after the product, as in cuDNN and torch)
          h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}

`W` acts on the input x_t and `U` on the previous state h_{t-1}; both are stored as torch stores them, (out, in), with the gates
stacked row-wise in torch's order, so that the weights of torch.nn.RNN, LSTM and GRU fit without conversion.

`rnn_step`, `lstm_step` and `gru_step` are one step; `rnn`, `lstm` and `gru` run over a sequence. A padded batch comes with its
`lengths`: after the end of a sequence its state is constant and its output is 0, so that the last state is that of the last
real token. The fast forms have the same signatures: `hoisted_rnn` multiplies all inputs by W before the loop; `fused_lstm` and
`fused_gru` call torch's own kernels (oneDNN on a CPU, cuDNN on a GPU). The modules `RNN`, `LSTM` and `GRU` load the state dicts
of torch's own.

If T = 0, each form returns no outputs and the initial state. Each raises a ValueError if sizes do not match or a length is not
in 0…T (in `encode`, a greater length counts as T), and a TypeError if lengths are not integers.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.primitives.preconditions import shape_checked, values_are_known
from course_lib.shapes import Lengths, States, TokenFeatures

__all__ = ["GRU", "LSTM", "RNN", "encode", "gru", "gru_step", "lstm", "lstm_step", "rnn", "rnn_step"]

HiddenState = Float[Tensor, "*batch n"]
Input = Float[Tensor, "*batch d"]
CellState = TypeVar("CellState", bound=tuple[Tensor, ...])
"""State of a cell: (h,), or (h, c) of an LSTM."""
Run = Callable[..., tuple[States, tuple[Tensor, ...]]]
"""`rnn`, `lstm` or `gru`, or a fast form: (x, state, W, U, b_W, b_U, lengths) -> (states, last state)."""


def rnn_step(x: Input, h: HiddenState, W: Float[Tensor, "n d"], U: Float[Tensor, "n n"], b: Float[Tensor, "n"]) -> HiddenState:
    """Take one step of an Elman network, h_t = tanh(W x_t + U h_{t-1} + b).

    Args:
        x: the input at this step, (*batch, d).
        h: the state before it, (*batch, n).
        W: (n, d), acts on the input.
        U: (n, n), acts on the state.
        b: (n,).

    Returns:
        the new state (*batch, n).

    Source: Elman 1990; ITMO deck 7, "Parameters of RNN", with W = W_ax, U = W_aa.
    """
    return torch.tanh(x @ W.mT + h @ U.mT + b)


def lstm_step(
    x: Input,
    h: HiddenState,
    c: HiddenState,
    W: Float[Tensor, "4*n d"],
    U: Float[Tensor, "4*n n"],
    b: Float[Tensor, "4*n"],
) -> tuple[HiddenState, HiddenState]:
    """Take one step of an LSTM: gates, new cell state c_t = f ⊙ c_{t-1} + i ⊙ g, new state h_t = o ⊙ tanh(c_t).

    Args:
        x: the input at this step, (*batch, d).
        h: the state before it, (*batch, n).
        c: the cell state before it, (*batch, n).
        W: (4n, d), acts on the input; rows in torch's order: input gate i, forget gate f, candidate g, output gate o.
        U: (4n, n), acts on the state; rows in the same order.
        b: (4n,), in the same order.

    Returns:
        the new state and the new cell state, each (*batch, n).

    Source: Hochreiter & Schmidhuber 1997 with Gers et al. 2000; ITMO deck 7, "LSTM cell", with c' = g.
    """
    gates = x @ W.mT + h @ U.mT + b
    i, f, g, o = gates.chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return h, c


def gru_step(
    x: Input,
    h: HiddenState,
    W: Float[Tensor, "3*n d"],
    U: Float[Tensor, "3*n n"],
    b_W: Float[Tensor, "3*n"],
    b_U: Float[Tensor, "3*n"],
) -> HiddenState:
    """Take one step of a GRU: reset gate r, update gate z, candidate n, and h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}.

    Args:
        x: the input at this step, (*batch, d).
        h: the state before it, (*batch, n).
        W: (3n, d), acts on the input; rows in torch's order r, z, n.
        U: (3n, n), acts on the state; rows in the same order.
        b_W: (3n,), added to the input's product.
        b_U: (3n,), added to the state's product, before the reset gate.

    Returns:
        the new state (*batch, n).

    Source: Cho et al. 2014, eqs. 5-8, in the form of torch.nn.GRU.
    """
    r_x, z_x, n_x = (x @ W.mT + b_W).chunk(3, dim=-1)
    r_h, z_h, n_h = (h @ U.mT + b_U).chunk(3, dim=-1)
    r = torch.sigmoid(r_x + r_h)
    z = torch.sigmoid(z_x + z_h)
    n = torch.tanh(n_x + r * n_h)
    return (1 - z) * n + z * h


@shape_checked()
def encode(
    x: TokenFeatures,
    lengths: Lengths,
    h: Float[Tensor, "B n"],
    W: Float[Tensor, "n d"],
    U: Float[Tensor, "n n"],
    b: Float[Tensor, "n"],
) -> tuple[States, HiddenState]:
    """Run an Elman network over a padded batch of sequences.

    Args:
        x: inputs (B, T, d); the padding after the end of a sequence may contain any numbers.
        lengths: (B,), real tokens of each sequence, 0 to T; a greater length counts as T.
        h: the initial state (B, n).
        W: (n, d), acts on the input.
        U: (n, n), acts on the state.
        b: (n,).

    Returns:
        states (B, T, n), 0 at padding; and the state after the last real token of each sequence, (B, n) (the initial state
        if a sequence is empty). If T = 0, that is (B, 0, n) and the initial state.
    """
    states = x.new_zeros(*x.shape[:2], len(b))
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states[:, t] = torch.where(real, h, 0.0)
    return states, h


@shape_checked("A single sequence is x[None].")
def rnn(
    x: TokenFeatures,
    state: tuple[HiddenState],
    W: Float[Tensor, "n d"],
    U: Float[Tensor, "n n"],
    b_W: Float[Tensor, "n"],
    b_U: Float[Tensor, "n"],
    lengths: Lengths | None = None,
) -> tuple[States, tuple[HiddenState]]:
    """Run an Elman network over x (B, T, d) from state (h_0,); return its states (B, T, n) and the last (h_T,)."""
    require_state(x, state, U, lengths)
    return unroll(lambda x_t, s: (rnn_step(x_t, *s, W, U, b_W + b_U),), x, state, lengths)


@shape_checked("A single sequence is x[None].")
def lstm(
    x: TokenFeatures,
    state: tuple[HiddenState, HiddenState],
    W: Float[Tensor, "4*n d"],
    U: Float[Tensor, "4*n n"],
    b_W: Float[Tensor, "4*n"],
    b_U: Float[Tensor, "4*n"],
    lengths: Lengths | None = None,
) -> tuple[States, tuple[HiddenState, HiddenState]]:
    """Run an LSTM over x (B, T, d) from state (h_0, c_0); return its states (B, T, n) and the last (h_T, c_T)."""
    require_state(x, state, U, lengths, n_states=2)
    return unroll(lambda x_t, s: lstm_step(x_t, *s, W, U, b_W + b_U), x, state, lengths)


@shape_checked("A single sequence is x[None].")
def gru(
    x: TokenFeatures,
    state: tuple[HiddenState],
    W: Float[Tensor, "3*n d"],
    U: Float[Tensor, "3*n n"],
    b_W: Float[Tensor, "3*n"],
    b_U: Float[Tensor, "3*n"],
    lengths: Lengths | None = None,
) -> tuple[States, tuple[HiddenState]]:
    """Run a GRU over x (B, T, d) from state (h_0,); return its states (B, T, n) and the last (h_T,)."""
    require_state(x, state, U, lengths)
    return unroll(lambda x_t, s: (gru_step(x_t, *s, W, U, b_W, b_U),), x, state, lengths)


def unroll(
    step: Callable[[Tensor, CellState], CellState], x: TokenFeatures, state: CellState, lengths: Lengths | None
) -> tuple[States, CellState]:
    """Run a step over x (B, T, d); after the end of a sequence its state is constant and its output is 0."""
    outputs = []
    for t, x_t in enumerate(hide_padding(x, lengths).unbind(1)):
        new = step(x_t, state)
        if lengths is None:
            state, output = new, new[0]
        else:
            real = (t < lengths)[:, None]
            state = cast(CellState, tuple(torch.where(real, after, old) for after, old in zip(new, state, strict=True)))
            output = torch.where(real, new[0], 0.0)
        outputs.append(output)
    states = torch.stack(outputs, dim=1) if outputs else x.new_empty(x.shape[0], 0, state[0].shape[-1])
    return states, state


def hide_padding(x: TokenFeatures, lengths: Lengths | None) -> TokenFeatures:
    """Set the inputs x (B, T, d) after the end of each sequence to 0, so that no gradient is 0 · NaN."""
    if lengths is None:
        return x
    real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return torch.where(real[..., None], x, 0.0)


def require_state(x: TokenFeatures, state: tuple[Tensor, ...], U: Tensor, lengths: Lengths | None, n_states: int = 1) -> None:
    """Raise a ValueError unless the state has n_states tensors (B, n), and lengths are in 0…T; kernels would read beyond."""
    (B, T, _), n = x.shape, U.shape[-1]
    if len(state) != n_states or any(s.shape != (B, n) for s in state):
        raise ValueError(f"the state must be a tuple of tensors {[(B, n)] * n_states}, got {[tuple(s.shape) for s in state]}.")
    if lengths is not None and values_are_known(lengths) and not all(0 <= length <= T for length in lengths.tolist()):
        raise ValueError(f"lengths must be {B} numbers from 0 to T = {T}, got {lengths.tolist()}.")


class _Recurrent(nn.Module):
    """One layer of a recurrent network, with the parameter names, layout and initialisation of torch's own."""

    n_gates: int
    n_states: int

    def __init__(self, d_in: int, d_hidden: int, run: Run) -> None:
        super().__init__()
        bound = d_hidden**-0.5
        rows = self.n_gates * d_hidden
        self.d_hidden = d_hidden
        self.run = run
        self.weight_ih_l0 = nn.Parameter(torch.empty(rows, d_in).uniform_(-bound, bound))
        self.weight_hh_l0 = nn.Parameter(torch.empty(rows, d_hidden).uniform_(-bound, bound))
        self.bias_ih_l0 = nn.Parameter(torch.empty(rows).uniform_(-bound, bound))
        self.bias_hh_l0 = nn.Parameter(torch.empty(rows).uniform_(-bound, bound))

    def forward(
        self, x: TokenFeatures, state: tuple[HiddenState, ...] | None = None, lengths: Lengths | None = None
    ) -> tuple[States, tuple[HiddenState, ...]]:
        """Run over x (B, T, d_in) from `state` (zeros if None); return states (B, T, d_hidden) and the last state."""
        if state is None:
            state = (x.new_zeros(x.shape[0], self.d_hidden),) * self.n_states
        weights = (self.weight_ih_l0, self.weight_hh_l0, self.bias_ih_l0, self.bias_hh_l0)
        return self.run(x, state, *weights, lengths)


class RNN(_Recurrent):
    """Elman network; state (h,). Loads the state dict of torch.nn.RNN. `run` is `rnn` or `hoisted_rnn`."""

    n_gates, n_states = 1, 1

    def __init__(self, d_in: int, d_hidden: int, run: Run = rnn) -> None:
        """Draw weights uniformly within ± d_hidden^-½, as torch does."""
        super().__init__(d_in, d_hidden, run)


class LSTM(_Recurrent):
    """Long short-term memory; state (h, c). Loads the state dict of torch.nn.LSTM. `run` is `lstm` or `fused_lstm`."""

    n_gates, n_states = 4, 2

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        run: Run = lstm,
        forget_bias: float | None = None,
    ) -> None:
        """Draw weights as torch does; `forget_bias` sets the sum of the forget gate's two biases (Jozefowicz et al. 2015)."""
        super().__init__(d_in, d_hidden, run)
        if forget_bias is not None:
            forget = slice(d_hidden, 2 * d_hidden)
            nn.init.constant_(self.bias_ih_l0[forget], forget_bias)
            nn.init.zeros_(self.bias_hh_l0[forget])


class GRU(_Recurrent):
    """Gated recurrent unit; state (h,). Loads the state dict of torch.nn.GRU. `run` is `gru` or `fused_gru`."""

    n_gates, n_states = 3, 1

    def __init__(self, d_in: int, d_hidden: int, run: Run = gru) -> None:
        """Draw weights uniformly within ± d_hidden^-½, as torch does."""
        super().__init__(d_in, d_hidden, run)
