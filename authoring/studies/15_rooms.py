"""Attention over edges, filters or messages of an edge network: which finds whom a sensor must listen to?

Rivals with about 600 parameters each, as one head of dynamic attention has: static attention; attention by scaled products; networks
on [receiver, sender] with two hidden layers whose messages are summed, averaged, or reduced to their maximum; two graph
convolutions. Besides them, the sum with twice the parameters; the maximum with four times the parameters, as wide as attention;
products
with a hidden layer before the keys; eight heads of static scores with an update that reads the receiver; a filter with a trained scale for the difference of
each feature, and an oracle: a filter that was told the form of the answer, with constants chosen on a hundred labelled buildings.
The score is the root mean squared error in °C on a hundred new buildings in which each sensor hears twelve others, as in training,
and on the same with 24.

Budget: 2,000 updates with four new buildings each, three seeds; the maximum again for 4,000, and dynamic attention and the edge
networks for 16,000. The learning rate is the better of 0.01 and 0.02 after 1,000 updates on another seed; that of static attention
and of the filter of likeness was not tuned. About fourteen minutes on one CPU thread. On a GPU: the same settings.
"""

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import attend_edges, dynamic_edge_scores, merge_heads, split_heads
from course_lib.training import train
from course_tools.lectures.lecture_15.rivals import EdgeNetwork, FixedMixing, LikenessFilter, fit_oracle
from course_tools.lectures.lecture_15.rooms import Sensors, error, new_buildings, unseen_buildings

STEPS, TWICE, LONGER = 2_000, 4_000, 16_000
LOOKS = (50, 100, 200, 400, 800, 1_400, 2_000, 4_000, 8_000, 12_000, 16_000)
TOLERANCE = {"°C": 0.1, "°C, 24 neighbours": 0.5, "curve": 0.5}


def static_scores(q, k, a, edges):
    """The score of GAT: the nonlinearity comes last."""
    (of_receivers, of_senders), (receiver, sender) = a.chunk(2), edges
    return F.leaky_relu((q @ of_receivers)[receiver] + (k @ of_senders)[sender], 0.2)


def products(q, k, a, edges):
    """The score of lecture 04; `a` has no part in it."""
    return (q[edges[0]] * k[edges[1]]).sum(-1) / q.shape[-1] ** 0.5


class Attending(nn.Module):
    """The lecture's network: one head of attention over the edges, and a linear layer."""

    def __init__(self, scores, halves, d=24):
        super().__init__()
        self.W_q, self.W_k, self.W_v = nn.Linear(7, d), nn.Linear(7, d, bias=False), nn.Linear(7, d)
        self.a = nn.Parameter(torch.randn(halves * d) * d**-0.5)
        self.read_out, self.scores = nn.Linear(d, 1), scores

    def forward(self, x, edges):
        scores = self.scores(self.W_q(x), self.W_k(x), self.a, edges)
        return self.read_out(F.elu(attend_edges(scores, self.W_v(x), edges).context)).squeeze(-1)


class HiddenKeys(Attending):
    """The same with the products of lecture 04, and a hidden layer before the keys."""

    def __init__(self, d=24):
        super().__init__(products, 1, d)
        self.W_k = nn.Sequential(nn.Linear(7, d), nn.ReLU(), nn.Linear(d, d))


class StaticHeads(nn.Module):
    """Eight heads of static scores with four numbers each, and an update that reads what they bring and the receiver."""

    def __init__(self, h=8, d=4, d_ff=24):
        super().__init__()
        self.W_q, self.W_k, self.W_v, self.h = nn.Linear(7, h), nn.Linear(7, h), nn.Linear(7, h * d), h
        hidden = nn.Linear(h * d + 7, d_ff), nn.ReLU(), nn.Linear(d_ff, d_ff), nn.ReLU()
        self.update = nn.Sequential(*hidden, nn.Linear(d_ff, 1))

    def forward(self, x, edges):
        scores = F.leaky_relu(self.W_q(x)[edges[0]] + self.W_k(x)[edges[1]], 0.2).mT
        heard = merge_heads(attend_edges(scores, split_heads(self.W_v(x), self.h), edges).context)
        return self.update(torch.cat([heard, x], dim=1)).squeeze(-1)


def here(graph, device):
    """Move a graph to a device."""
    return Sensors(*(part.to(device) for part in graph))


def trained(make, rate, seed, device, steps=STEPS):
    """Train a network; return it, its size, and its errors on new buildings through training."""
    torch.manual_seed(seed)
    model, curve, near = make().to(device), {}, examples(device)[0]

    def loss(model, graph):
        features, edges, targets = (part.to(device) for part in graph[:3])
        return F.mse_loss(model(features, edges), targets)

    for step in train(model, new_buildings(seed), loss, steps=steps, lr=rate, warmup=steps // 10):
        if step.index + 1 in LOOKS:
            with torch.no_grad():
                curve[step.index + 1] = error(model(*near[:2]), near)
    return model, {"parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def told(seed, device):
    """Fit the oracle on a hundred labelled buildings."""
    return fit_oracle(here(next(new_buildings(seed, 100)), device)), {}


dynamic = partial(trained, partial(Attending, dynamic_edge_scores, 1), 2e-2)
summed, averaged, greatest = (
    partial(trained, partial(EdgeNetwork, 7, 10, aggregate), 2e-2) for aggregate in ("sum", "mean", "amax")
)
SETTINGS = {  # name: seed and device -> the model, and what else to record
    "dynamic attention": dynamic,
    "static attention": partial(trained, partial(Attending, static_scores, 2), 1e-2),
    "products": partial(trained, partial(Attending, products, 1), 1e-2),
    "filter of likeness": partial(trained, partial(LikenessFilter, 7), 5e-2),
    "oracle, told the form of the answer": told,
    "edge network, sum": summed,
    "edge network, mean": averaged,
    "edge network, maximum": greatest,
    "edge network, sum, twice the size": partial(trained, partial(EdgeNetwork, 7, 16, "sum"), 2e-2),
    "convolutions": partial(trained, partial(FixedMixing, 7, 16), 2e-2),
    "dynamic attention, longer": partial(dynamic, steps=LONGER),
    "edge network, sum, longer": partial(summed, steps=LONGER),
    "edge network, mean, longer": partial(averaged, steps=LONGER),
    "edge network, maximum, longer": partial(greatest, steps=LONGER),
    "edge network, maximum, 4,000 updates": partial(greatest, steps=TWICE),
    "edge network, maximum, four times the size": partial(trained, partial(EdgeNetwork, 7, 24, "amax"), 2e-2),
    "products, a hidden layer before the keys": partial(trained, HiddenKeys, 2e-2),
    "static attention, eight heads and an update": partial(trained, StaticHeads, 2e-2),
}
SHOWN = (
    "dynamic attention",
    "static attention",
    "products",
    "oracle, told the form of the answer",
    *(f"edge network, {each}" for each in ("sum", "mean", "maximum")),
    "edge network, maximum, four times the size",
)


@cache
def examples(device):
    """Return a hundred buildings with 12 neighbours of each sensor, and a hundred with 24."""
    return [here(unseen_buildings(k), device) for k in (12, 24)]


def run(setting, seed, device):
    """Fit one model; its errors on new buildings."""
    model, recorded = setting(seed, device)
    with torch.no_grad():
        near, far = (error(model(*graph[:2]), graph) for graph in examples(device))
    return {"°C": near, "°C, 24 neighbours": far, **recorded}


def figure(study):
    """Draw the error over the updates, and at the end with more neighbours than in training; dashed: of the longer training."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook import plots

    drawn, said = Figure(figsize=(6.0, 3.8), layout="constrained"), []
    left, right = drawn.subplots(1, 2, sharey=True)
    shown = [name for name in study.names if name in SHOWN]
    apart = torch.linspace(-1, 1, len(shown)).tolist()  # so that lines do not hide each other
    for name, marker, colour, offset in zip(shown, plots.MARKERS, sns.color_palette("colorblind"), apart, strict=False):
        style = {"color": colour, "marker": marker, "markersize": 5}
        updates, errors = study.curve(name)
        if updates:
            left.plot(updates, errors, label=name, **style)
        else:
            left.axhline(study.mean(name, "°C"), label=name, color=colour, linestyle=":")
        said.append(f"{name} {study.mean(name, '°C'):.2f} and {study.mean(name, '°C, 24 neighbours'):.2f}")
        last = name
        if f"{name}, longer" in study.names:
            last, style = f"{name}, longer", style | {"linestyle": "--"}
            later = [(update, near) for update, near in zip(*study.curve(last), strict=True) if update >= STEPS]
            left.plot(*zip(*later, strict=True), **style)
            said.append(f"{last} {study.mean(last, '°C'):.2f} and {study.mean(last, '°C, 24 neighbours'):.2f}")
        right.plot([12 + offset, 24 + offset], [study.mean(last, "°C"), study.mean(last, "°C, 24 neighbours")], **style)
        for score, k in (("°C", 12), ("°C, 24 neighbours", 24)):
            seeds = study.scores(last, score)
            right.plot([k + offset] * len(seeds), seeds, ".", color=colour, markersize=4)
    ticks = (50, 400, STEPS, LONGER)
    left.set(xlabel="update", ylabel="error, °C", xscale="log", xticks=ticks, xticklabels=[f"{each:,}" for each in ticks])
    left.set_xticks([], minor=True)
    left.set_title(f"dashed: trained for {LONGER:,} updates", fontsize=9)
    right.set_title(f"at the end (dashed: {LONGER:,} updates)", fontsize=9)
    right.set(xlabel="neighbours of a sensor", xticks=(12, 24), xlim=(9, 27))
    for ax in (left, right):
        ax.set_ylim(0)
        ax.grid(alpha=0.25)
        sns.despine(ax=ax)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=2, edgecolor="none")
    alt = "Root mean squared error in °C after training, with 12 neighbours and with 24, means of the seeds: "
    return drawn, f"{alt}{'; '.join(said)}."


def finding(study):
    """Name the errors of attention and of its rivals, and with twice as many neighbours."""
    n_seeds = min(len(study.of(name)) for name in study.names)
    said = ", ".join(
        f"{name} {study.mean(name, '°C'):.2f} and {study.mean(name, '°C, 24 neighbours'):.2f}" for name in study.names
    )
    return (
        f"Errors in °C with 12 neighbours and with 24, after {STEPS:,} updates ({n_seeds} seeds), or after {LONGER:,} where "
        f"it says longer: {said}."
    )
