"""Ten labels and 2,000 windows without: SimCLR and a linear probe, a network on the labels, or pseudo-labels?

The windows of the lecture: four photographs each, on which one thing of ten stays and all others are exchanged; one window of each
kind is labelled. Rivals: the encoder with a linear layer, trained on the labels alone; the same with pseudo-labels for the others
(FixMatch), where the network is at least 0.8 sure. All draw views in the same way, from the same four photographs.

Budget: 500 updates with 40 windows each, three seeds. Right answers on 1,000 unseen windows. The learning rate of the rivals is
the best of three on another seed; that of SimCLR was not tuned. About five minutes on one CPU thread. On a GPU: the same settings.
"""

from functools import cache

import torch
from torch import nn

from course_lib.losses import nt_xent
from course_lib.metrics import linear_probe
from course_lib.primitives import unit
from course_lib.training import train
from course_tools.lectures.lecture_16 import rivals
from course_tools.lectures.lecture_16.windows import Windows, draw_windows, one_of_each

STEPS = 500
LOOKS = (1, *range(100, STEPS + 1, 100))
TOLERANCE = {"right": 0.06, "curve": 0.2}
SETTINGS = {  # name: (how it learns, learning rate)
    "SimCLR, linear probe": ("pairs", 3e-3),
    "ten labels": ("labels", 3e-3),
    "pseudo-labels": ("labels and guesses", 3e-3),
}


@cache
def windows(device):
    """2,000 windows to learn from, and 1,000 unseen."""
    drawn = draw_windows(2_000, seed=0), draw_windows(1_000, seed=1, unseen=True)
    return [Windows(*(part.to(device) for part in each)) for each in drawn]


def pairs(known, seed):
    """Two views of 40 windows each."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        chosen = known.photos[torch.randint(len(known.photos), (rivals.N_WINDOWS,), generator=generator)]
        yield tuple(rivals.photo_in_new_colours(chosen, generator) for _ in range(2))


def new_head():
    """The projection head of the lecture, from features (B, 64) to (B, 64)."""
    layers = nn.Linear(64, 128, bias=False), nn.BatchNorm1d(128), nn.ReLU()
    return nn.Sequential(*layers, nn.Linear(128, 64, bias=False), nn.BatchNorm1d(64))


def contrast(model, pair):
    """NT-Xent at a temperature of 0.2."""
    return nt_xent(*model(torch.cat(pair)).chunk(2), 0.2).float()


@torch.no_grad()
def probed(encoder, known, few, unseen):
    """Right answers of a linear probe that sees the four photographs of the ten labelled windows."""
    weight, bias = linear_probe(unit(encoder(known.photos[few].flatten(0, 1))), known.kinds[few].repeat_interleave(4), 10, 0.1)
    found = torch.cat([unit(encoder(photos)) for photos in unseen.photos[:, 0].split(250)])
    return ((found @ weight.mT + bias).argmax(-1) == unseen.kinds).float().mean().item()


def run(setting, seed, device):
    """Train one model; its right answers on unseen windows, through training and at the end."""
    way, rate = setting
    known, unseen = windows(device)
    few = one_of_each(known.kinds, seed)
    torch.manual_seed(seed)
    if way == "pairs":
        model, stream, loss = nn.Sequential(rivals.encoder(), new_head()), pairs(known, seed), contrast
    elif way == "labels":
        model, stream, loss = rivals.classifier(), rivals.labelled(known, few, seed), rivals.from_labels
    else:
        model, loss = rivals.classifier(), rivals.with_pseudo_labels(sure=0.8)
        stream = rivals.with_unlabelled(known, few, seed)
    model, curve = model.to(device), {}
    for step in train(model, stream, loss, steps=STEPS, lr=rate, warmup=STEPS // 10):
        if step.index + 1 in LOOKS:
            model.eval()
            share = probed(model[0], known, few, unseen) if way == "pairs" else rivals.right(model, unseen)
            curve[step.index + 1] = share
            model.train()
    return {"right": curve[STEPS], "curve": curve}


def figure(study):
    """Draw the right answers over the updates, means of the seeds."""
    from course_tools.notebook import plots

    lines = {name: study.curve(name) for name in study.names}
    drawn = plots.curves(lines, "update", "right, unseen windows", "ten labels, mean of the seeds", across={"chance": 0.1})
    drawn.axes[0].set_ylim(0, 1)
    said = "; ".join(f"{name} {study.mean(name, 'right'):.2f}" for name in study.names)
    return (
        drawn,
        f"Right answers on unseen windows from ten labels, after {STEPS} updates, means of the seeds: {said}; chance 0.10.",
    )


def finding(study):
    """Name the right answers of each, by seed."""
    each = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in study.scores(name, 'right'))}" for name in study.names)
    return f"Right answers on unseen windows from ten labels, after {STEPS} updates, by seed: {each}."
