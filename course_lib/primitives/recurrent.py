"""A cell run over a sequence: by its equations, by torch's fused kernels, and as modules with torch's parameter names.

The equation form takes one step at a time, h_t = step(x_t, h_{t-1}). A padded batch comes with its `lengths`: behind the end of
a sequence its state stands still and its output is 0, so that the last state is that of the last real token.

The fast forms have the same signatures. `hoisted_rnn` multiplies all inputs by W before the loop; `fused_lstm` and `fused_gru`
call torch's own kernels (oneDNN on a CPU, cuDNN on a GPU).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from course_lib.primitives.cells import State, gru_step, lstm_step, rnn_step
from course_lib.shapes import Lengths, Sequence, States


def encode(
    x: Sequence,
    lengths: Lengths,
    h: Float[Tensor, "B n"],
    W: Float[Tensor, "n d"],
    U: Float[Tensor, "n n"],
    b: Float[Tensor, "n"],
) -> tuple[States, State]:
    """Read a padded batch of sequences with an Elman network.

    Args:
        x: inputs (B, T, d); behind the end of a sequence stands padding, which may hold any number.
        lengths: (B,), real tokens of each sequence, 0 to T.
        h: the initial state (B, n).
        W: (n, d), acts on the input.
        U: (n, n), acts on the state.
        b: (n,).

    Returns:
        states (B, T, n), 0 at padding; and the state after the last real token of each sequence, (B, n) (the initial state
        where a sequence is empty).
    """
    states = []
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states, dim=1), h


def rnn(
    x: Sequence,
    state: tuple[State],
    W: Float[Tensor, "n d"],
    U: Float[Tensor, "n n"],
    b_W: Float[Tensor, "n"],
    b_U: Float[Tensor, "n"],
    lengths: Lengths | None = None,
) -> tuple[States, tuple[State]]:
    """Run an Elman network over x (B, T, d) from state (h_0,); return its states (B, T, n) and the last (h_T,)."""
    return _unroll(lambda x_t, s: (rnn_step(x_t, *s, W, U, b_W + b_U),), x, state, lengths)


def lstm(
    x: Sequence,
    state: tuple[State, State],
    W: Float[Tensor, "4n d"],
    U: Float[Tensor, "4n n"],
    b_W: Float[Tensor, "4n"],
    b_U: Float[Tensor, "4n"],
    lengths: Lengths | None = None,
) -> tuple[States, tuple[State, State]]:
    """Run an LSTM over x (B, T, d) from state (h_0, c_0); return its states (B, T, n) and the last (h_T, c_T)."""
    return _unroll(lambda x_t, s: lstm_step(x_t, *s, W, U, b_W + b_U), x, state, lengths)


def gru(
    x: Sequence,
    state: tuple[State],
    W: Float[Tensor, "3n d"],
    U: Float[Tensor, "3n n"],
    b_W: Float[Tensor, "3n"],
    b_U: Float[Tensor, "3n"],
    lengths: Lengths | None = None,
) -> tuple[States, tuple[State]]:
    """Run a GRU over x (B, T, d) from state (h_0,); return its states (B, T, n) and the last (h_T,)."""
    return _unroll(lambda x_t, s: (gru_step(x_t, *s, W, U, b_W, b_U),), x, state, lengths)


def _unroll(
    step: Callable[[Tensor, tuple[State, ...]], tuple[State, ...]],
    x: Sequence,
    state: tuple[State, ...],
    lengths: Lengths | None,
) -> tuple[States, tuple[State, ...]]:
    outputs = [x.new_empty(len(x), 0, state[0].shape[-1])]
    for t in range(x.shape[1]):
        new = step(x[:, t], state)
        if lengths is None:
            state, output = new, new[0]
        else:
            real = (t < lengths)[:, None]
            state = tuple(torch.where(real, after, before) for after, before in zip(new, state, strict=True))
            output = torch.where(real, new[0], 0.0)
        outputs.append(output[:, None])
    return torch.cat(outputs, dim=1), state


def hoisted_rnn(
    x: Sequence, state: tuple[State], W: Tensor, U: Tensor, b_W: Tensor, b_U: Tensor, lengths: Lengths | None = None
) -> tuple[States, tuple[State]]:
    """Compute the same as `rnn`, with the inputs' product taken out of the loop."""
    from_inputs = torch.addmm(b_W + b_U, x.flatten(0, 1), W.mT).unflatten(0, x.shape[:2])
    return _unroll(lambda a_t, s: (torch.addmm(a_t, s[0], U.mT).tanh(),), from_inputs, state, lengths)


def fused_lstm(
    x: Sequence, state: tuple[State, State], W: Tensor, U: Tensor, b_W: Tensor, b_U: Tensor, lengths: Lengths | None = None
) -> tuple[States, tuple[State, State]]:
    """Compute the same as `lstm` by torch's own kernel."""
    return _by_kernel(torch.lstm, x, state, [W, U, b_W, b_U], lengths)


def fused_gru(
    x: Sequence, state: tuple[State], W: Tensor, U: Tensor, b_W: Tensor, b_U: Tensor, lengths: Lengths | None = None
) -> tuple[States, tuple[State]]:
    """Compute the same as `gru` by torch's own kernel."""
    return _by_kernel(torch.gru, x, state, [W, U, b_W, b_U], lengths)


def _by_kernel(
    kernel: Callable[..., tuple[Tensor, ...]],
    x: Sequence,
    state: tuple[State, ...],
    weights: list[Tensor],
    lengths: Lengths | None,
) -> tuple[States, tuple[State, ...]]:
    """Call torch.lstm or torch.gru: one layer, with biases, without dropout, forwards in time."""
    layers = tuple(s[None] for s in state)
    if lengths is None:
        hx = layers if kernel is torch.lstm else layers[0]
        states, *last = kernel(x, hx, weights, True, 1, 0.0, False, False, True)
        return states, tuple(s[0] for s in last)
    packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    layers = tuple(s[:, packed.sorted_indices] for s in layers)
    hx = layers if kernel is torch.lstm else layers[0]
    data, *last = kernel(packed.data, packed.batch_sizes, hx, weights, True, 1, 0.0, False, False)
    states, _ = pad_packed_sequence(PackedSequence(data, *packed[1:]), batch_first=True, total_length=x.shape[1])
    return states, tuple(s[0, packed.unsorted_indices] for s in last)


class _Recurrent(nn.Module):
    """One layer of a recurrent network, with the parameter names, layout and initialisation of torch's own."""

    n_gates: int
    n_states: int

    def __init__(self, d_in: int, d_hidden: int, run: Callable[..., tuple[States, tuple[State, ...]]]) -> None:
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
        self, x: Sequence, state: tuple[State, ...] | None = None, lengths: Lengths | None = None
    ) -> tuple[States, tuple[State, ...]]:
        """Run over x (B, T, d_in) from `state` (zeros if None); return states (B, T, d_hidden) and the last state."""
        if state is None:
            state = (x.new_zeros(len(x), self.d_hidden),) * self.n_states
        weights = (self.weight_ih_l0, self.weight_hh_l0, self.bias_ih_l0, self.bias_hh_l0)
        return self.run(x, state, *weights, lengths)


class RNN(_Recurrent):
    """Elman network; state (h,). Loads the state dict of torch.nn.RNN. `run` is `rnn` or `hoisted_rnn`."""

    n_gates, n_states = 1, 1

    def __init__(self, d_in: int, d_hidden: int, run: Callable[..., tuple[States, tuple[State, ...]]] = rnn) -> None:
        """Draw weights uniformly within ± d_hidden^-½, as torch does."""
        super().__init__(d_in, d_hidden, run)


class LSTM(_Recurrent):
    """Long short-term memory; state (h, c). Loads the state dict of torch.nn.LSTM. `run` is `lstm` or `fused_lstm`."""

    n_gates, n_states = 4, 2

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        run: Callable[..., tuple[States, tuple[State, ...]]] = lstm,
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

    def __init__(self, d_in: int, d_hidden: int, run: Callable[..., tuple[States, tuple[State, ...]]] = gru) -> None:
        """Draw weights uniformly within ± d_hidden^-½, as torch does."""
        super().__init__(d_in, d_hidden, run)
