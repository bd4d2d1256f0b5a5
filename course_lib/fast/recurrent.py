"""Recurrent networks over whole sequences: torch's own LSTM and GRU, and an Elman network with the inputs' product hoisted.

They are the `run` of `LSTM`, `GRU` and `RNN`: `LSTM(d, n, fused_lstm)`.
"""

import warnings
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from course_lib.primitives.preconditions import shape_checked
from course_lib.primitives.recurrent import CellState, HiddenState, gru, hide_padding, lstm, require_state, rnn, unroll
from course_lib.shapes import Lengths, States, TokenFeatures

__all__ = ["fused_gru", "fused_lstm", "hoisted_rnn"]


@shape_checked("A single sequence is x[None].", of=rnn)
def hoisted_rnn(
    x: TokenFeatures, state: tuple[HiddenState], W: Tensor, U: Tensor, b_W: Tensor, b_U: Tensor, lengths: Lengths | None = None
) -> tuple[States, tuple[HiddenState]]:
    """Compute the same as `rnn`, with the product W x of all inputs before the loop."""
    require_state(x, state, U, lengths)
    x = hide_padding(x, lengths)
    from_inputs = torch.addmm(b_W + b_U, x.flatten(0, 1), W.mT).unflatten(0, x.shape[:2])
    return unroll(lambda a_t, s: (torch.addmm(a_t, s[0], U.mT).tanh_(),), from_inputs, state, lengths)


@shape_checked("A single sequence is x[None].", of=lstm)
def fused_lstm(
    x: TokenFeatures,
    state: tuple[HiddenState, HiddenState],
    W: Tensor,
    U: Tensor,
    b_W: Tensor,
    b_U: Tensor,
    lengths: Lengths | None = None,
) -> tuple[States, tuple[HiddenState, HiddenState]]:
    """Compute the same as `lstm` by torch's own kernel."""
    require_state(x, state, U, lengths, n_states=2)
    return _by_kernel(torch.lstm, x, state, [W, U, b_W, b_U], lengths)


@shape_checked("A single sequence is x[None].", of=gru)
def fused_gru(
    x: TokenFeatures, state: tuple[HiddenState], W: Tensor, U: Tensor, b_W: Tensor, b_U: Tensor, lengths: Lengths | None = None
) -> tuple[States, tuple[HiddenState]]:
    """Compute the same as `gru` by torch's own kernel."""
    require_state(x, state, U, lengths)
    return _by_kernel(torch.gru, x, state, [W, U, b_W, b_U], lengths)


def _by_kernel(
    kernel: Callable[..., tuple[Tensor, ...]],
    x: TokenFeatures,
    state: CellState,
    weights: list[Tensor],
    lengths: Lengths | None,
) -> tuple[States, CellState]:
    """Call torch.lstm or torch.gru: one layer, with biases, without dropout, forwards in time.

    The kernels accept no sequence of length 0: one in the batch runs for one step over zeros, which is then undone. cuDNN
    stores what the backward pass needs only if it is told to train.
    """
    trains = torch.is_grad_enabled()
    if 0 in x.shape[:2]:
        return x.new_empty(*x.shape[:2], state[0].shape[-1]), state
    if lengths is None:
        states, *last = _call(kernel, x, _as_layer(state), weights, True, 1, 0.0, trains, False, True)
        return states, cast(CellState, tuple(s[0] for s in last))
    packed = pack_padded_sequence(hide_padding(x, lengths), lengths.cpu().clamp(min=1), batch_first=True, enforce_sorted=False)
    layer = _as_layer(tuple(s[packed.sorted_indices] for s in state))
    data, *last = _call(kernel, packed.data, packed.batch_sizes, layer, weights, True, 1, 0.0, trains, False)
    states, _ = pad_packed_sequence(PackedSequence(data, *packed[1:]), batch_first=True, total_length=x.shape[1])
    last = [s[0, packed.unsorted_indices] for s in last]
    empty = (lengths == 0)[:, None]
    states = states.masked_fill(empty[..., None], 0.0)
    final = tuple(torch.where(empty, before, after) for before, after in zip(state, last, strict=True))
    return states, cast(CellState, final)


def _call(kernel: Callable[..., tuple[Tensor, ...]], x: Tensor, *rest: object) -> tuple[Tensor, ...]:
    """Call a kernel without cuDNN's warning that it must copy weights that are not contiguous."""
    if not x.is_cuda:
        return kernel(x, *rest)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
        return kernel(x, *rest)


def _as_layer(state: tuple[HiddenState, ...]) -> tuple[Tensor, ...] | Tensor:
    """Add a leading axis of one layer to the states; torch.lstm takes a tuple of two, torch.gru a tensor."""
    layers = tuple(s[None] for s in state)
    return layers if len(layers) > 1 else layers[0]
