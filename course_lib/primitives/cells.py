"""One step of a recurrent network, by its equations: RNN, LSTM, GRU.

`W` acts on the input x_t and `U` on the previous state h_{t-1}; both are stored as torch stores them, (out, in), with the gates
below each other in torch's order, so that the weights of torch.nn.RNN, LSTM and GRU fit as they are.

    RNN   h_t = tanh(W x_t + U h_{t-1} + b)                                  Elman 1990, https://doi.org/10.1207/s15516709cog1402_1

    LSTM  i, f, o = σ(W x_t + U h_{t-1} + b)   each with its own rows        Hochreiter & Schmidhuber 1997,
          g = tanh(W x_t + U h_{t-1} + b)                                    with the forget gate of Gers et al. 2000,
          c_t = f ⊙ c_{t-1} + i ⊙ g                                          https://doi.org/10.1162/neco.1997.9.8.1735
          h_t = o ⊙ tanh(c_t)

    GRU   r, z = σ(W x_t + b_W + U h_{t-1} + b_U)                            Cho et al. 2014, https://arxiv.org/abs/1406.1078
          n = tanh(W x_t + b_W + r ⊙ (U h_{t-1} + b_U))                      (r after the product, as cuDNN and torch have it)
          h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}
"""

import torch
from jaxtyping import Float
from torch import Tensor

State = Float[Tensor, "*batch n"]
Input = Float[Tensor, "*batch d"]


def rnn_step(x: Input, h: State, W: Float[Tensor, "n d"], U: Float[Tensor, "n n"], b: Float[Tensor, "n"]) -> State:
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
    h: State,
    c: State,
    W: Float[Tensor, "4*n d"],
    U: Float[Tensor, "4*n n"],
    b: Float[Tensor, "4*n"],
) -> tuple[State, State]:
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
    h: State,
    W: Float[Tensor, "3*n d"],
    U: Float[Tensor, "3*n n"],
    b_W: Float[Tensor, "3*n"],
    b_U: Float[Tensor, "3*n"],
) -> State:
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
