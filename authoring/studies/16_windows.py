"""Few labels and 2,000 windows without: SimCLR and a linear probe, a network on the labels, or pseudo-labels?

The windows of the lecture: four photographs each, on which one thing of ten stays and all others are exchanged; one window of each
kind is labelled. Rivals: the encoder with a linear layer, trained on the labels alone; the same with pseudo-labels for the others
(FixMatch), where the network is at least 0.8 sure; and these with distribution alignment. All draw views in the same way, from the
same four photographs. The probe and the network on labels also with 50 and 200 labels.

Budget: 500 updates with 40 windows each, three seeds; 1,000 with alignment, which still rises at 500. Right answers on 1,000
unseen windows. The learning rate of the rivals is the best of three on another seed; that of SimCLR was not tuned. About nine
minutes on one CPU thread. On a GPU: the same settings.
"""

from functools import cache

import torch
from torch import nn

from course_lib.datasets import few_of_each
from course_lib.losses import nt_xent
from course_lib.metrics import linear_probe
from course_lib.primitives import unit
from course_lib.training import train
from course_tools.lectures.lecture_16 import rivals
from course_tools.lectures.lecture_16.windows import Windows, draw_windows, one_of_each

STEPS = 500
TOLERANCE = {"right": 0.06, "right, 50 labels": 0.06, "right, 200 labels": 0.06, "curve": 0.2}
SETTINGS = {  # name: (how it learns, updates, labels of each kind)
    "SimCLR, linear probe": ("pairs", STEPS, 1),
    "ten labels": ("labels", STEPS, 1),
    "pseudo-labels": ("guesses", STEPS, 1),
    "pseudo-labels, aligned": ("aligned guesses", 2 * STEPS, 1),
    "50 labels": ("labels", STEPS, 5),
    "200 labels": ("labels", STEPS, 20),
}
RATE = 3e-3


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


def labelled(known, few, seed):
    """Forty views of labelled windows each, however many are labelled."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        chosen = few[torch.randint(len(few), (rivals.N_WINDOWS,), generator=generator).to(few.device)]
        yield rivals.photo_in_new_colours(known.photos[chosen], generator), known.kinds[chosen]


def labels_of_each(known, n, seed):
    """Which windows are labelled, n of each kind."""
    return few_of_each(known.kinds.cpu(), n, seed).to(known.kinds.device)


def run(setting, seed, device):
    """Train one model; its right answers on unseen windows, through training and at the end."""
    way, steps, n_each = setting
    known, unseen = windows(device)
    few = one_of_each(known.kinds, seed)
    torch.manual_seed(seed)
    if way == "pairs":
        model, stream, loss = nn.Sequential(rivals.encoder(), new_head()), pairs(known, seed), contrast
    elif way == "labels":
        model, loss = rivals.classifier(), rivals.from_labels
        more = labelled(known, labels_of_each(known, n_each, seed), seed)
        stream = rivals.labelled(known, few, seed) if n_each == 1 else more
    else:
        model, loss = rivals.classifier(), rivals.with_pseudo_labels(sure=0.8, aligned=way == "aligned guesses")
        stream = rivals.with_unlabelled(known, few, seed)
    model, curve = model.to(device), {}

    def right(few=few):
        return probed(model[0], known, few, unseen) if way == "pairs" else rivals.right(model, unseen)

    for step in train(model, stream, loss, steps=steps, lr=RATE, warmup=steps // 10):
        if step.index == 0 or (step.index + 1) % 100 == 0:
            model.eval()
            curve[step.index + 1] = right()
            model.train()
    model.eval()
    more = {f"right, {10 * n} labels": right(labels_of_each(known, n, seed)) for n in (5, 20)} if way == "pairs" else {}
    return {"right": curve[steps], **more, "curve": curve}


def figure(study):
    """Draw the right answers over the updates from ten labels, and at the end from more labels, means of the seeds."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook import plots

    drawn, said = Figure(figsize=(6.0, 3.4), layout="constrained"), []
    left, right = drawn.subplots(1, 2, sharey=True)
    lines = {name: study.curve(name) for name, (_, _, n_each) in SETTINGS.items() if n_each == 1}
    for (name, line), marker, colour in zip(lines.items(), plots.MARKERS, sns.color_palette("colorblind"), strict=False):
        left.plot(*line, label=name, marker=marker, markersize=4, color=colour)
        said.append(f"{name} {study.mean(name, 'right'):.2f} after {line[0][-1]} updates")
    probe = "SimCLR, linear probe"
    more = {
        probe: [study.mean(probe, score) for score in ("right", "right, 50 labels", "right, 200 labels")],
        "the labels alone": [study.mean(name, "right") for name in ("ten labels", "50 labels", "200 labels")],
    }
    for values, marker, colour in zip(more.values(), plots.MARKERS, sns.color_palette("colorblind"), strict=False):
        right.plot((10, 50, 200), values, marker=marker, markersize=4, color=colour)
    left.set(xlabel="update", ylabel="right, unseen windows", ylim=(0, 1.03), title="ten labels")
    right.set(xlabel="labels", xscale="log", title="at the end")
    right.set_xticks((10, 50, 200), ("10", "50", "200"))
    right.set_xticks([], minor=True)
    for ax in (left, right):
        ax.axhline(0.1, color="0.5", linestyle="--", linewidth=0.8)
        ax.grid(alpha=0.25)
        sns.despine(ax=ax)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=2, edgecolor="none")
    from_more = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in values)}" for name, values in more.items())
    return drawn, (
        f"Right answers on unseen windows, means of the seeds, chance 0.10. From ten labels: {'; '.join(said)}. "
        f"From 10, 50 and 200 labels: {from_more}."
    )


def finding(study):
    """Name the right answers of each, by seed."""
    each = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in study.scores(name, 'right'))}" for name in study.names)
    return f"Right answers on unseen windows at the end of the training, by seed: {each}."
