"""Both models of the control are trained and measured with each seed, on both questions."""

import torch
from torch import nn

from course_tools.lectures.lecture_13.rival import OneBlockMixer, show_mixing_rival


class Constant(nn.Module):
    def __init__(self, digit):
        super().__init__()
        self.digit = digit

    def forward(self, patches):
        logits = torch.zeros(len(patches), 12)
        logits[:, self.digit] = 1
        return logits


def test_an_untrained_rival_is_measured_beside_the_mixer_on_both_questions(capsys):
    asked = []

    def train_rival(patches, labels, n_parameters, n_steps):
        asked.append((patches.shape[1:], n_parameters, n_steps))
        return Constant(3)

    show_mixing_rival(train_rival, (0, 1), {"bag": [0.25]}, n_steps=12)
    n_parameters = sum(p.numel() for p in OneBlockMixer().parameters())
    assert asked == [((49, 16), n_parameters, 12)] * 2
    out = capsys.readouterr().out
    assert "bag 0.250; digits: Mixer 0." in out
    assert "digits: rival 0.1" in out or "digits: rival 0.0" in out
    assert "grain: rival 0.5" in out or "grain: rival 0.4" in out
