"""Which network finds the one entry of a map that no pin points to, where everything has to be compared with everything?

Six entries, and five pins in the colours of five of them; asked for is the symbol of the sixth. New maps in every update. Rivals: the
lecture's Vision Transformer, cells that are compared with a summary of the map, and convolutions that see the whole map, with 79,000
to 98,000 weights.

Budget: 2,400 updates with 64 maps each for the Vision Transformer, 8,000 for the summary, 4,000 for the convolutions; three seeds.
Right answers about 1,000 maps with unseen drawings and crops. The learning rate is the better of 0.001 and 0.002 for each (with 0.002
the Vision Transformer ends at 0.69 and 0.75, the summary at 0.14 to 0.52, the convolutions at 0.18 to 0.25). About nine minutes on
one CPU thread. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F

from course_lib.blocks import Sizes
from course_lib.models import ViT
from course_lib.training import train
from course_tools.bank.drawn_maps import CELL, GRID, SYMBOLS, draw_maps_with_pins
from course_tools.lectures.lecture_11 import rivals

LOOKS = (200, 400, 600, 800, 1_000, 1_200, 1_600, 2_000, 2_400, 3_000, 4_000, 5_000, 6_000, 8_000)
TOLERANCE = {"right": 0.08, "curve": 0.3}


def vision_transformer():
    """The lecture's Vision Transformer, one patch a cell."""
    model = ViT(len(SYMBOLS), (3, GRID * CELL, GRID * CELL), CELL, Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=2))
    for drawn in (model.encoder.positions, model.encoder.learned):
        drawn.data.normal_(0, 0.5)
    return model


SETTINGS = {  # name: (what makes the model, learning rate, updates)
    "ViT, no pin": (vision_transformer, 1e-3, 2_400),
    "summary, no pin": (rivals.MapSummary, 1e-3, 8_000),
    "convolutions that see all, no pin": (rivals.convolutions_that_see_all, 1e-3, 4_000),
}


def new_maps(seed, device, n=64):
    """Endless batches of maps that nobody has seen, with their answers."""
    draw = 0
    while True:
        images, answers = draw_maps_with_pins(4 * n, seed=100_000 * (seed + 1) + draw, device=device)
        yield from zip(images.split(n), answers.split(n), strict=True)
        draw += 1


def loss_of(model, batch):
    """The cross-entropy of the answers; pixels are scaled to -2…2."""
    return F.cross_entropy(model(4 * batch[0] - 2), batch[1])


def run(setting, seed, device):
    """Train one model; its right answers about unseen maps, through training and at the end."""
    make, rate, steps = setting
    images, answers = draw_maps_with_pins(1_000, seed=1, unseen=True, device=device)
    torch.manual_seed(seed)
    model, curve = make().to(device), {}
    for step in train(model, new_maps(seed, device), loss_of, steps=steps, lr=rate, warmup=steps // 10):
        if step.index + 1 in LOOKS:
            model.eval()
            with torch.no_grad():
                curve[step.index + 1] = (model(4 * images - 2).argmax(-1) == answers).float().mean().item()
            model.train()
    return {"right": curve[steps], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def finding(study):
    """Name the right answers of each, by seed."""
    each = "; ".join(
        f"{name} {', '.join(f'{value:.2f}' for value in study.scores(name, 'right'))} after {study.curve(name)[0][-1]:,} updates"
        for name in study.names
    )
    return f"Right answers about the entry without a pin, by seed: {each}."
