"""Recurrent layers whose initial weights preserve or halve the gradient: the controls of lecture 01."""

from torch import nn

from course_lib.primitives import GRU, RNN, fused_gru, hoisted_rnn


def orthogonal_rnn(d: int, n: int, input_scale: float = 1.0, stretch: float = 1.0) -> RNN:
    """Create a plain network with torch's initial weights, except that U = stretch · Q, where Q is orthogonal.

    Args:
        d: size of the inputs.
        n: number of units.
        input_scale: multiplies torch's initial W; below 1, tanh is more nearly linear.
        stretch: all singular values of U; 1 preserves the length of every vector.
    """
    cell = RNN(d, n, hoisted_rnn)
    nn.init.orthogonal_(cell.weight_hh_l0, gain=stretch)
    cell.weight_ih_l0.data.mul_(input_scale)
    return cell


def gru_with_bias(d: int, n: int, update_bias: float) -> GRU:
    """Create a GRU of n units for inputs of size d whose update gate starts near σ(update_bias)."""
    cell = GRU(d, n, fused_gru)
    nn.init.constant_(cell.bias_ih_l0[n : 2 * n], update_bias)
    nn.init.zeros_(cell.bias_hh_l0[n : 2 * n])
    return cell
