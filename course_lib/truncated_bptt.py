"""Truncated backpropagation through time: a long text in segments, the state carried over, the gradient stopped between them.

Williams & Peng 1990, their BPTT(h; h') with h = h' = T (https://doi.org/10.1162/neco.1990.2.4.490); the texts of a batch
continue from one batch to the next as in Zaremba, Sutskever, Vinyals 2014, section 4 (https://arxiv.org/abs/1409.2329). With SG
for "stop the gradient", and L_n the loss of segment n:

    L_n, s_n = loss(segment n, SG(s_{n-1}))        s_0 = the model's own initial state

    def loss(model, segment, state):
        logits, state = model.read(segment.inputs, state)
        return F.cross_entropy(logits.flatten(0, 1), segment.targets.flatten()), state

    for step in train(model, segments(text, batch_size=16, T=32), truncated_bptt(loss), steps=500):
        losses.append(step.loss)

A state is a tensor or a tuple: (h,) of an RNN, (h, c) of an LSTM, the memory of `models.TransformerXL`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

from jaxtyping import Int
from torch import Tensor, nn

from course_lib.shapes import Tokens

__all__ = ["detached", "segments", "truncated_bptt"]

_State = TypeVar("_State")
_Outcome = TypeVar("_Outcome", Tensor, tuple[Tensor, dict[str, float]])


class Segment(NamedTuple):
    """A piece of B texts: `inputs` (B, T), the token after each as `targets` (B, T); `first` where the texts start."""

    inputs: Tokens
    targets: Tokens
    first: bool


def segments(text: Int[Tensor, "N"], batch_size: int, T: int) -> Iterator[Segment]:
    """Split a long text into `batch_size` texts, and yield them in parallel, segment after segment, epoch after epoch.

    Args:
        text: tokens (N,), N > batch_size; the remainder of a division by batch_size is dropped at the end.
        batch_size: number B of texts, each of (N - 1) // B tokens and the one after them.
        T: tokens of a segment; the last one of an epoch may be shorter.

    Yields:
        Segments, endlessly; row b continues row b of the previous segment, except in the first segment of an epoch.

    Raises:
        ValueError: the text is too short, or batch_size or T is not positive.
    """
    if T < 1 or batch_size < 1 or len(text) <= batch_size:
        raise ValueError(f"need {T=} ≥ 1, {batch_size=} ≥ 1, and more tokens than texts, got {len(text)}.")
    read = (len(text) - 1) // batch_size * batch_size
    inputs, targets = (part.view(batch_size, -1).split(T, dim=1) for part in (text[:read], text[1 : read + 1]))
    return _endless([Segment(*pair, first=n == 0) for n, pair in enumerate(zip(inputs, targets, strict=True))])


def _endless(epoch: list[Segment]) -> Iterator[Segment]:
    while True:
        yield from epoch


def truncated_bptt(
    loss: Callable[[nn.Module, Segment, Any], tuple[_Outcome, Any]],
) -> Callable[[nn.Module, Segment], _Outcome]:
    """Convert a loss with a state for `train`: carry the state from segment to segment, without its gradient.

    Args:
        loss: from model, segment and state (None where the texts start), the loss, alone or with a dict of metrics, and the
            state after the segment.

    Returns:
        a function of model and segment, for one training run, that keeps the state of the last segment.
    """
    kept: Any = None

    def loss_of_segment(model: nn.Module, segment: Segment) -> _Outcome:
        nonlocal kept
        outcome, state = loss(model, segment, None if segment.first else kept)
        kept = detached(state)
        return outcome

    return loss_of_segment


def detached(state: _State) -> _State:
    """Detach every tensor in a state; tuples are searched, other objects are unchanged."""
    if isinstance(state, Tensor):
        return cast(_State, state.detach())
    if isinstance(state, tuple):
        parts = [detached(part) for part in state]
        return cast(_State, type(state)(*parts) if hasattr(state, "_fields") else tuple(parts))
    return state
