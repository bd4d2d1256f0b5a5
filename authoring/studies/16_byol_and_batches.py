"""SimCLR and BYOL on digits, longer: probes, spread of projections and features, and two batch sizes, three seeds.

The lecture's encoder, data and augmentation. About 15 minutes on one core.

    python authoring/studies/16_byol_and_batches.py
"""

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
from course_tools.notebook.recorded_studies import Study

STEPS, LOOKS, SEEDS = 1_000, (1, 30, 60, 120, 240, 480, 700, 1_000), (0, 1, 2)
RANGES = Augmentation(turn=0.25, zoom=1.25, shear=0.3, shift=0.06)
pictures, labels = mnist()
images = F.avg_pool2d(pictures, 2)


def backbone():
    return nn.Sequential(ConvNet(1), nn.AdaptiveMaxPool2d(1), nn.Flatten())


def view(batch, generator):
    A, t = RANGES.draw_affine(len(batch), batch.shape[-2:], generator)
    return warp(batch, A, t).to(batch.dtype)


def two_views(learn, seed, n_pairs):
    generator = torch.Generator().manual_seed(seed)
    for (batch,) in batches(images[learn], batch_size=n_pairs, seed=seed):
        yield view(batch, generator), view(batch, generator)


@torch.no_grad()
def probe(encoder, learn, unseen, n_each=4, draws=4):
    shares, new = [], unit(encoder(images[unseen]))
    for draw in range(draws):
        few = learn[few_of_each(labels[learn], n_each, draw)]
        weight, bias = linear_probe(unit(encoder(images[few])), labels[few], 10, 0.1)
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


RUNS = {  # name: (loss, pairs a batch, steps)
    "SimCLR": (simclr_loss, 32, STEPS),
    "BYOL": (bootstrap_loss, 32, STEPS),
    "no predictor": (bootstrap_loss, 32, STEPS),
    "no stop-gradient": (no_stop_gradient_loss, 32, STEPS),
    "SimCLR, 32 pairs, 240 steps": (simclr_loss, 32, 240),
    "SimCLR, 96 pairs, 240 steps": (simclr_loss, 96, 240),
}

study = Study(__file__, steps=STEPS, labels=40, pictures=4_000, tested_on=1_000, lr={"SimCLR": 3e-3, "BYOL": 5e-3}, decay=0.95)
for name, seed in study.missing(RUNS, SEEDS):
    part = split(range(len(labels)), 4_000, 0, 1_000, seed)
    learn, unseen = torch.tensor(part.train), torch.tensor(part.test)
    loss, n_pairs, steps = RUNS[name]
    torch.manual_seed(seed)
    is_simclr = loss is simclr_loss
    model = SimCLR(backbone(), 64) if is_simclr else BYOL(backbone(), 64, decay=0.95)
    if name == "no predictor":
        model.predictor = nn.Identity()
    encoder = model.encoder if is_simclr else model.online[0]
    projected = nn.Sequential(model.encoder, model.project) if is_simclr else model.online
    curve, value = {}, 0.0
    rate = 3e-3 if is_simclr else 5e-3
    for step in train(model, two_views(learn, seed, n_pairs), loss, steps=steps, lr=rate, warmup=steps // 10):
        if not is_simclr:
            model.update()
        value = step.loss
        if step.index + 1 in LOOKS:
            model.eval()
            curve[step.index + 1] = probe(encoder, learn, unseen)
            model.train()
    model.eval()
    with torch.no_grad():
        scores = {
            "probe": probe(encoder, learn, unseen),
            "pixels": probe(nn.Flatten(), learn, unseen),
            "spread of projections": spread(projected(images[unseen])),
            "spread of features": spread(encoder(images[unseen])),
            "loss": value,
        }
    study.record(name, seed, scores, curve)
    print(name, seed, scores, curve, flush=True)
