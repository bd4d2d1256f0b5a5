"""Show, Attend and Tell computed by a function for one step, such as the `caption_step` of lecture 03."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.models import ShowAttendAndTell
from course_lib.models.captioner import Captioned

CaptionStepFunction = Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]]
"""`(y, h, c, regions, attention, gate, cell, readout)` → logits, h, c, weights, as `course_lib.models.caption_step`."""


def captioner_weights(model: ShowAttendAndTell) -> tuple[tuple[Tensor, ...], ...]:
    """Return the weights of a model as a step takes them: those of the attention, the gate, the cell and the readout."""
    attention, cell = model.attention, model.cell
    return (
        (attention.U, attention.W, attention.v),
        (model.gate.weight, model.gate.bias),
        (cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0 + cell.bias_hh_l0),
        (model.from_h.weight, model.from_z.weight, model.readout.weight),
    )


class CaptionerByFunction(nn.Module):
    """A `ShowAttendAndTell` that reads each word by the given step, in training as well."""

    def __init__(self, model: ShowAttendAndTell, step_by: CaptionStepFunction) -> None:
        """Wrap a model; `step_by` computes one step."""
        super().__init__()
        self.model, self.start, self.step_by = model, model.start, step_by

    def forward(self, regions: Tensor, caption: Tensor, state: tuple[Tensor, Tensor] | None = None) -> Captioned:
        """Read a caption (B, T) word by word, from the state (h, c); if None, from the mean of regions (B, L, d_a)."""
        h, c = self.model.initial_state(regions) if state is None else state
        weights, logits, rows = captioner_weights(self.model), [], []
        for y in self.model.words(caption).unbind(1):
            of_word, h, c, row = self.step_by(y, h, c, regions, *weights)
            logits.append(of_word)
            rows.append(row)
        return Captioned(torch.stack(logits, dim=1), torch.stack(rows, dim=1), (h, c))

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read one token (B,): the logits of the next (B, n_tokens), and the new state."""
        regions, *hidden = state
        logits, _, (h, c) = self(regions, tokens[:, None], hidden)
        return logits[:, 0], state._replace(h=h, c=c)
