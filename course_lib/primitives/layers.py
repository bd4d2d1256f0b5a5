"""RNN, LSTM and GRU as modules with torch's parameter names, so that the state dicts of torch's own fit as they are."""

from collections.abc import Callable

import torch
from torch import nn

from course_lib.primitives.cells import State
from course_lib.primitives.recurrent import gru, lstm, rnn
from course_lib.shapes import Lengths, Sequence, States


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
