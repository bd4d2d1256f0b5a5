"""What becomes of BYOL without its batch normalisation, without its moving average, or with a target that stays random?

Variants of the lecture's BYOL on its digits: no batch normalisation in projector and predictor; one network on both sides; a target
network that is never trained. The probe sees 40 labels. BYOL itself, and other variants, are in 16_byol_and_batches, with the same
data and rate.

Budget: 1,000 updates with 32 pairs, with the frozen target 3,000 as well; three seeds. About four minutes on one CPU thread.
On a GPU: the same settings.
"""

from statistics import mean

import torch
from torch import nn

from course_lib.datasets import warp
from course_lib.losses import byol_loss
from course_lib.metrics import linear_probe, spectrum
from course_lib.models import BYOL
from course_lib.primitives import unit
from course_lib.training import train
from course_tools.lectures.lecture_16 import experiments

STEPS, LOOKS = 1_000, (1, 30, 60, 120, 240, 480, 700, 1_000, 2_000, 3_000)
SETTINGS = {
    "no batch normalisation": ("norm", STEPS),
    "one network": ("target", STEPS),
    "frozen target": ("frozen", STEPS),
    "frozen target, three times as long": ("frozen", 3 * STEPS),
}
TOLERANCE = {"probe": 0.05, "spread of projections": 0.1, "curve": 0.1}


def view(batch, generator):
    """Turn, shear, zoom and shift each digit, as the lecture does."""
    A, t = experiments.RANGES.draw_affine(len(batch), batch.shape[-2:], generator)
    return warp(batch, A.to(batch), t.to(batch)).to(batch.dtype)


@torch.no_grad()
def probe(encoder, digits, seed, device):
    """Right answers of linear probes from forty labels, mean of four draws."""
    shares, new = [], unit(encoder(digits.images[digits.unseen[seed]].to(device))).cpu()
    for draw in range(4):
        few = experiments.few(digits, seed, 4, draw)
        weight, bias = linear_probe(unit(encoder(digits.images[few].to(device))).cpu(), digits.labels[few].cpu(), 10, 0.1)
        guesses = (new @ weight.mT + bias).argmax(-1)
        shares.append((guesses == digits.labels[digits.unseen[seed]].cpu()).float().mean().item())
    return mean(shares)


def run(setting, seed, device):
    """Train one variant; the probe through training, and the spread of its projections at the end."""
    part, steps = setting
    digits = experiments.small_digits((seed,))
    torch.manual_seed(seed)
    model, curve = BYOL(experiments.backbone(), 64, decay=0.95), {}
    if part == "norm":
        for layers in (model.online[1], model.target[1], model.predictor):
            layers[1] = nn.Identity()
    elif part == "target":
        model.target = model.online
    model = model.to(device)
    stream = experiments.two_views(digits, seed, view)
    pairs = ([each.to(device) for each in pair] for pair in stream)
    for step in train(model, pairs, lambda m, pair: byol_loss(*m(*pair)), steps=steps, lr=5e-3, warmup=steps // 10):
        if part == "norm":
            model.update()
        if step.index + 1 in LOOKS:
            model.eval()
            curve[step.index + 1] = probe(model.online[0], digits, seed, device)
            model.train()
    with torch.no_grad():
        projections = model.eval().online(digits.images[digits.unseen[seed]].to(device))
    spread = spectrum(projections).double().square().sum().item()
    return {"probe": curve[steps], "spread of projections": spread, "curve": curve}


def finding(study):
    """Name the probes and spreads, by seed."""

    def by_seed(name, score):
        return ", ".join(f"{value:.2f}" for value in study.scores(name, score))

    each = (f"{name}: probe {by_seed(name, 'probe')}, spread {by_seed(name, 'spread of projections')}" for name in study.names)
    return f"After {STEPS:,} updates (three times as long: {3 * STEPS:,}), by seed: {'; '.join(each)}."
