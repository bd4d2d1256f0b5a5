"""SimCLR and BYOL on digits: where does collapse show, and do larger batches help at an equal number of updates?

Rivals: SimCLR; BYOL; BYOL without its predictor; without the stop-gradient; SimCLR with 32 and with 96 pairs in a batch, 240
updates each. The probe sees 40 labels and is compared with a probe of the pixels. The lecture's encoder, data and augmentation.

Budget: 1,000 updates with 32 pairs, and 3,000 for SimCLR and for BYOL; three seeds. About 16 minutes on one CPU thread. On a GPU:
also batches of 32 to 2,048 pairs, 3,000 updates each.
"""

from functools import cache
from statistics import mean

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.blocks import ConvNet
from course_lib.datasets import Augmentation, few_of_each, mnist, split, warp
from course_lib.losses import byol_loss, nt_xent
from course_lib.metrics import linear_probe, spectrum
from course_lib.models import BYOL, SimCLR
from course_lib.primitives import unit
from course_lib.training import batches, train

STEPS, LONG, LOOKS = 1_000, 3_000, (1, 30, 60, 120, 240, 480, 700, 1_000, 1_500, 2_000, 2_500, 3_000)
RANGES = Augmentation(turn=0.25, zoom=1.25, shear=0.3, shift=0.06)


@cache
def data():
    """Digits of 14 × 14 pixels, and their labels."""
    pictures, labels = mnist()
    return F.avg_pool2d(pictures, 2), labels


def backbone():
    return nn.Sequential(ConvNet(1), nn.AdaptiveMaxPool2d(1), nn.Flatten())


def view(batch, generator):
    A, t = RANGES.draw_affine(len(batch), batch.shape[-2:], generator)
    return warp(batch, A, t).to(batch.dtype)


def two_views(images, seed, n_pairs, device):
    generator = torch.Generator().manual_seed(seed)
    for (batch,) in batches(images, batch_size=n_pairs, seed=seed):
        yield view(batch, generator).to(device), view(batch, generator).to(device)


@torch.no_grad()
def probe(encoder, learn, unseen, device, n_each=4, draws=4):
    images, labels = data()
    shares, new = [], unit(encoder(images[unseen].to(device))).cpu()
    for draw in range(draws):
        few = learn[few_of_each(labels[learn], n_each, draw)]
        weight, bias = linear_probe(unit(encoder(images[few].to(device))).cpu(), labels[few], 10, 0.1)
        shares.append(((new @ weight.mT + bias).argmax(-1) == labels[unseen]).float().mean().item())
    return mean(shares)


def spread(points):
    return spectrum(points).double().square().sum().item()


def simclr_loss(model, pair):
    return nt_xent(*model(*pair), 0.2).float()


def bootstrap_loss(model, pair):
    return byol_loss(*model(*pair))


def no_stop_gradient_loss(model, pair):
    z = model.online(torch.cat(pair))
    return (2 - 2 * (unit(model.predictor(z)) * unit(z.roll(len(pair[0]), 0))).sum(-1)).mean()


SETTINGS = {  # name: (loss, pairs a batch, steps)
    "SimCLR": (simclr_loss, 32, STEPS),
    "BYOL": (bootstrap_loss, 32, STEPS),
    "SimCLR, three times as long": (simclr_loss, 32, LONG),
    "BYOL, three times as long": (bootstrap_loss, 32, LONG),
    "no predictor": (bootstrap_loss, 32, STEPS),
    "no stop-gradient": (no_stop_gradient_loss, 32, STEPS),
    "SimCLR, 32 pairs, 240 steps": (simclr_loss, 32, 240),
    "SimCLR, 96 pairs, 240 steps": (simclr_loss, 96, 240),
}
GPU_SETTINGS = SETTINGS | {
    f"{name}, {n:,} pairs, 3,000 steps": (loss, n, LONG)
    for name, loss in (("SimCLR", simclr_loss), ("BYOL", bootstrap_loss))
    for n in (32, 128, 512, 2_048)
}
TOLERANCE = {"probe": 0.05, "spread of projections": 0.1, "spread of features": 0.1, "loss": 0.2, "curve": 0.1}


def run(setting, seed, device):
    """Train one encoder without labels; linear probes of its features and of the pixels, and the spread of its outputs."""
    loss, n_pairs, steps = setting[:3]
    images, labels = data()
    part = split(range(len(labels)), 4_000, 0, 1_000, seed)
    learn, unseen = torch.tensor(part.train), torch.tensor(part.test)
    torch.manual_seed(seed)
    is_simclr = loss is simclr_loss
    model = (SimCLR(backbone(), 64) if is_simclr else BYOL(backbone(), 64, decay=0.95)).to(device)
    if setting is SETTINGS["no predictor"]:
        model.predictor = nn.Identity()
    encoder = model.encoder if is_simclr else model.online[0]
    projected = nn.Sequential(model.encoder, model.project) if is_simclr else model.online
    curve, value = {}, 0.0
    pairs = two_views(images[learn], seed, n_pairs, device)
    for step in train(model, pairs, loss, steps=steps, lr=3e-3 if is_simclr else 5e-3, warmup=steps // 10):
        if not is_simclr:
            model.update()
        value = step.loss
        if step.index + 1 in LOOKS:
            model.eval()
            curve[step.index + 1] = probe(encoder, learn, unseen, device)
            model.train()
    model.eval()
    with torch.no_grad():
        seen = images[unseen].to(device)
        return {
            "probe": probe(encoder, learn, unseen, device),
            "pixels": probe(nn.Flatten(), learn, unseen, device),
            "spread of projections": spread(projected(seen)),
            "spread of features": spread(encoder(seen)),
            "loss": value,
            "curve": curve,
        }


def figure(study):
    """The probe through training, mean of the seeds."""
    from course_tools.notebook import plots

    lines = {name: study.curve(name) for name in study.names if study.curve(name)[0][-1] >= STEPS}
    pixels = mean(value for name in lines for value in study.scores(name, "pixels"))
    drawn = plots.curves(lines, "step", "accuracy of the probe", "as recorded, mean of the seeds", across={"pixels": pixels})
    last = "; ".join(f"{name} {ys[-1]:.2f}" for name, (_, ys) in lines.items())
    return (
        drawn,
        f"Accuracy of a linear probe with 40 labels through {STEPS:,} or {LONG:,} updates. At the end: {last}; pixels {pixels:.2f}.",
    )


def finding(study):
    """Batch size at equal updates; collapse of projections and of features; the probe without a predictor."""

    def by_seed(name, score):
        return ", ".join(f"{value:.2f}" for value in study.scores(name, score))

    few, many = "SimCLR, 32 pairs, 240 steps", "SimCLR, 96 pairs, 240 steps"
    gains = [m - f for f, m in zip(study.scores(few, "probe"), study.scores(many, "probe"), strict=True)]
    return (
        f"At 240 updates each, 96 pairs in a batch rather than 32 change SimCLR's probe by {mean(gains):+.3f} "
        f"(by seed {', '.join(f'{gain:+.3f}' for gain in gains)}); they see three times as many pictures. "
        f"After {STEPS:,} updates BYOL's probe reads {by_seed('BYOL', 'probe')} and SimCLR's {by_seed('SimCLR', 'probe')}; after "
        f"{LONG:,}, in a training of its own, {by_seed('BYOL, three times as long', 'probe')} and "
        f"{by_seed('SimCLR, three times as long', 'probe')}. That of the pixels reads {by_seed('BYOL', 'pixels')}. "
        f"Without the predictor the spread of the projections is {by_seed('no predictor', 'spread of projections')} "
        f"(BYOL {by_seed('BYOL', 'spread of projections')}): they collapse. The features before the projector keep a spread of "
        f"{by_seed('no predictor', 'spread of features')} and the probe reads {by_seed('no predictor', 'probe')} from them. "
        f"Without the stop-gradient the projections have a spread of {by_seed('no stop-gradient', 'spread of projections')} and "
        f"the probe reads {by_seed('no stop-gradient', 'probe')}."
    )
