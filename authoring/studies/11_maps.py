"""Which network answers which question about a map, with new maps in every update: what has the pin's colour, or what is beside it?

The maps of the lecture, drawn anew for every update, so that none can be learned by heart. *Colour* is asked of the lecture's Vision
Transformer, of convolutions that see the whole map and have a hidden layer after the pooling, of cells that are compared with a summary
of the map, and of a hidden layer over all pixels; *beside* of the Vision Transformer. All have 79,000 to 98,000 weights.

Budget: 2,400 updates with 64 maps each, three seeds. Right answers about 1,000 maps with unseen drawings and crops: about all, and
about those on which pin and entry do not touch. Learning rates are the lecture's: 0.002, and 0.004 for the hidden layer over all
pixels. Not recorded: a Vision Transformer of one layer, 1,800 updates on the lecture's maps, 0.70, 0.27 and 0.27; with 0.004, the convolutions that see all end at 0.48, 0.93 and 0.98; *beside* stays at 0.31 after 7,200
updates, with seed 0. About nine minutes on one CPU thread. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F

from course_lib.blocks import Sizes
from course_lib.models import ViT
from course_lib.training import train
from course_tools.lectures.lecture_11 import rivals
from course_tools.bank.drawn_maps import CELL, GRID, SYMBOLS, Maps, draw_maps

STEPS = 2_400
LOOKS = (100, 200, 300, 400, 500, 600, 900, 1_200, 1_500, 1_800, 2_100, 2_400)
TOLERANCE = {"right": 0.06, "apart": 0.08, "right, known drawings": 0.08, "curve": 0.2}
SIZES = Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=2)


def vision_transformer():
    """The lecture's Vision Transformer, one patch a cell."""
    model = ViT(len(SYMBOLS), (3, GRID * CELL, GRID * CELL), CELL, SIZES)
    for drawn in (model.encoder.positions, model.encoder.learned):
        drawn.data.normal_(0, 0.5)
    return model


SETTINGS = {  # name: (what makes the model, question, learning rate)
    "ViT, colour": (vision_transformer, "colour", 2e-3),
    "convolutions that see all, colour": (rivals.convolutions_that_see_all, "colour", 2e-3),
    "summary, colour": (rivals.MapSummary, "colour", 2e-3),
    "network of pixels, colour": (rivals.network_of_pixels, "colour", 4e-3),
    "ViT, beside": (vision_transformer, "beside", 2e-3),
}


def on(maps, device):
    """Maps on a device."""
    return Maps(*(part.to(device) for part in maps))


def new_maps(question, seed, device, n=64):
    """Endless batches of maps that nobody has seen, with their answers."""
    draw = 0
    while True:
        maps = on(draw_maps(4 * n, seed=100_000 * (seed + 1) + draw), device)
        yield from zip(maps.images.split(n), getattr(maps, question).split(n), strict=True)
        draw += 1


def loss_of(model, batch):
    """The cross-entropy of the answers; pixels are scaled to -2…2."""
    return F.cross_entropy(model(4 * batch[0] - 2), batch[1])


@torch.no_grad()
def is_right(model, maps, question):
    """Which answers (n,) are right."""
    model.eval()
    right = model(4 * maps.images - 2).argmax(-1) == getattr(maps, question)
    model.train()
    return right.float()


def run(setting, seed, device):
    """Train one model; its right answers about unseen maps, through training and at the end."""
    make, question, rate = setting
    unseen, known = on(draw_maps(1_000, seed=1, unseen=True), device), on(draw_maps(1_000, seed=2), device)
    down, along = unseen.pin // GRID - unseen.entry // GRID, unseen.pin % GRID - unseen.entry % GRID
    apart = torch.maximum(down.abs(), along.abs()) > 1
    torch.manual_seed(seed)
    model, curve = make().to(device), {}
    for step in train(model, new_maps(question, seed, device), loss_of, steps=STEPS, lr=rate, warmup=STEPS // 10):
        if step.index + 1 in LOOKS:
            curve[step.index + 1] = is_right(model, unseen, question).mean().item()
    right = is_right(model, unseen, question)
    return {
        "right": right.mean().item(),
        "apart": right[apart].mean().item(),
        "right, known drawings": is_right(model, known, question).mean().item(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "curve": curve,
    }


def finding(study):
    """Name the right answers of each, by seed."""

    def by_seed(name, score):
        return ", ".join(f"{value:.2f}" for value in study.scores(name, score))

    each = "; ".join(
        f"{name} {by_seed(name, 'right')}"
        + f" (where pin and entry do not touch {by_seed(name, 'apart')})" * name.endswith("colour")
        for name in study.names
    )
    return f"Right answers about unseen maps, by seed: {each}."
