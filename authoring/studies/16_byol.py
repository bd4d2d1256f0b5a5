"""SimCLR and BYOL on stickers: what do a target that follows, the predictor and the stop-gradient do, and a change of colours?

One sticker is one picture; its two views are moved, and in other colours, at random in negative. The lecture's encoder, data and
views. Rivals: SimCLR; SimCLR whose views keep their colours; BYOL; BYOL with a target that stays random; without its predictor; with
one network on both sides, with and without the stop-gradient. The probe sees forty labels, as do three ways without a network: a
probe of the pixels, the nearest neighbour, and label spreading over 1,500 stickers without labels.

Budget: 3,000 updates of 32 pairs for SimCLR, BYOL and the random target, 1,000 for the others, three seeds; one rate for all of
BYOL's. About four minutes on one CPU thread. On a GPU: the same settings.
"""

from functools import cache
from statistics import mean

import torch
from torch import nn

from course_lib.datasets import few_of_each, recolour, warp
from course_lib.losses import byol_loss, nt_xent
from course_lib.metrics import spectrum
from course_lib.models import BYOL, SimCLR
from course_lib.primitives import unit
from course_lib.training import train
from course_tools.bank.drawn_stickers import Stickers, draw_stickers
from course_tools.lectures.lecture_16 import experiments, rivals

STEPS, DECAY, LOOKS = 3_000, 0.95, (1, 30, 120, 240, 480, 1_000, 2_000, 3_000)
SETTINGS = {  # name: (method, the decay of its moving average, updates)
    "SimCLR": ("contrast", 0.0, STEPS),
    "SimCLR, colours kept": ("colours kept", 0.0, 1_000),
    "BYOL": ("byol", DECAY, STEPS),
    "frozen target": ("byol", 1.0, STEPS),
    "no predictor": ("no predictor", DECAY, 1_000),
    "one network": ("one network", 0.0, 1_000),
    "one network, both gradients": ("both gradients", 0.0, 1_000),
}
TOLERANCE = {"probe": 0.06, "probe at 1,000": 0.06, "spread of projections": 0.1, "curve": 0.1}


@cache
def data(seed):
    """Stickers to learn from, and unseen ones."""
    return draw_stickers(2_000, 2 * seed), draw_stickers(1_000, 2 * seed + 1, unseen=True)


def moved(batch, generator):
    A, t = experiments.MOVES.draw_affine(len(batch), batch.shape[-2:], generator)
    return warp(batch, A.to(batch), t.to(batch))


def changed(batch, generator):
    """Turn, shear, zoom and shift each sticker, and change its colours, at random to a negative."""
    sign = 1 - 2 * torch.randint(2, (len(batch), 1, 1), generator=generator)
    M = sign * rivals.COLOURS.draw_colours(len(batch), generator)
    return recolour(moved(batch, generator), M.to(batch))


def new_head():
    """The projection head of the lecture, from features (B, 64) to (B, 64)."""
    layers = nn.Linear(64, 128, bias=False), nn.BatchNorm1d(128), nn.ReLU()
    return nn.Sequential(*layers, nn.Linear(128, 64, bias=False), nn.BatchNorm1d(64))


def contrast(model, pair):
    return nt_xent(*model(*pair), 0.2).float()


def bootstrap(model, pair):
    return byol_loss(*model(*pair))


def both_gradients(model, pair):
    z = model.online(torch.cat(pair))
    return (2 - 2 * (unit(model.predictor(z)) * unit(z.roll(len(pair[0]), 0))).sum(-1)).mean()


def without_a_network(known, unseen):
    """Right answers from forty labels by nearest neighbours, and by label spreading over 1,500 others, mean of four draws."""
    from sklearn.semi_supervised import LabelSpreading

    (x, kinds), (new, truth) = ((part.images.flatten(1), part.kinds) for part in (known, unseen))
    neighbours, spread = [], []
    for draw in range(4):
        few = few_of_each(kinds, 4, draw)
        neighbours.append((kinds[few][torch.cdist(new, x[few]).argmin(1)] == truth).float().mean().item())
        points, labels = torch.cat([x[few], x[:1_500], new]), torch.full((40 + 1_500 + len(new),), -1)
        labels[:40] = kinds[few]
        fitted = LabelSpreading(kernel="knn", n_neighbors=10, alpha=0.8, max_iter=300).fit(points.numpy(), labels.numpy())
        spread.append((torch.from_numpy(fitted.transduction_[-len(new) :]) == truth).float().mean().item())
    return {"neighbours": mean(neighbours), "spreading": mean(spread)}


def run(setting, seed, device):
    """Train one encoder without labels; its probe through training, and the spread of its projections at the end."""
    method, decay, steps = setting
    known, unseen = data(seed)
    torch.manual_seed(seed)
    is_simclr = method in ("contrast", "colours kept")
    model, curve = SimCLR(experiments.backbone(), 64) if is_simclr else BYOL(experiments.backbone(), 64, decay=decay), {}
    if is_simclr:
        model.project = new_head()
    elif method == "no predictor":
        model.predictor = nn.Identity()
    elif method in ("one network", "both gradients"):
        model.target = model.online
    model = model.to(device)
    encoder, projected = (
        (model.encoder, nn.Sequential(model.encoder, model.project)) if is_simclr else (model.online[0], model.online)
    )
    loss = contrast if is_simclr else both_gradients if method == "both gradients" else bootstrap
    pairs = experiments.two_views(known.images, seed, moved if method == "colours kept" else changed)
    pairs = ([view.to(device) for view in pair] for pair in pairs)
    on_device = [Stickers(*(part.to(device) for part in each)) for each in (known, unseen)]
    for step in train(model, pairs, loss, steps=steps, lr=3e-3 if is_simclr else 5e-3, warmup=steps // 10):
        if method in ("byol", "no predictor"):
            model.update()
        if step.index + 1 in LOOKS:
            model.eval()
            curve[step.index + 1] = experiments.probe(encoder, *on_device)
            model.train()
    model.eval()
    with torch.no_grad():
        spread = spectrum(projected(on_device[1].images)).double().square().sum().item()
    found = {"probe": curve[steps], "probe at 1,000": curve[1_000], "spread of projections": spread, "curve": curve}
    if method == "contrast":
        found |= {"pixels": experiments.probe(nn.Flatten(), known, unseen), **without_a_network(known, unseen)}
    return found


def finding(study):
    """Name the probes and spreads, by seed."""

    def by_seed(name, score):
        return ", ".join(f"{value:.2f}" for value in study.scores(name, score))

    each = (f"{name}: probe {by_seed(name, 'probe')}, spread {by_seed(name, 'spread of projections')}" for name in study.names)
    plain = ", ".join(f"{way} {by_seed('SimCLR', way)}" for way in ("pixels", "neighbours", "spreading"))
    return f"By seed, from forty labels: {'; '.join(each)}. Without a network: {plain}."
