"""Mixer, Vision Transformer or convolutions: which finds the differences between two copies behind a bundle of cables?

The puzzles of the lecture: 32 patches in colour, of which half differ from their counterpart, shuffled by one order for all
puzzles, each place with a gain of its own, half of them negative. Rivals: a Mixer, a Vision Transformer with learned positions, and
free weights between places in place of its attention, all of two blocks of width 32, and convolutions, each with about 21,000 to
25,000 parameters; convolutions whose windows reach the whole image with 56,000; a hidden layer over all pixels with 112,000. The
Mixer and free weights also where either copy may hold the replaced patch. Without a network, a logistic regression for each place:
on its distances with either sign to the others, after each is divided by its spread over the known puzzles; and on the energies of
its common spatial patterns, which no invertible mixture of places changes.

Budget: 2,400 updates with 64 of 8,192 puzzles each, three seeds (without a network, nothing depends on the seed). Right marks on
400 unseen puzzles. The learning rate of each is the best of two to four at this length, tried on one seed and on other unseen
puzzles. About seven minutes on one CPU thread. On a GPU: the same settings.
"""

from functools import cache

import torch
import torch.nn.functional as F

from course_lib.training import batches, train
from course_tools.lectures.lecture_13 import rivals
from course_tools.bank.drawn_puzzles import Puzzles, draw_bundle, draw_puzzles, on_either_side, through_bundle

STEPS = 2_400
TOLERANCE = {"right marks": 0.03, "curve": 0.3}
SETTINGS = {  # name: (how to make it, learning rate, which puzzles); without a rate, how a logistic regression reads them
    "Mixer": (rivals.mixer, 1.2e-2, "bundle"),
    "Vision Transformer": (rivals.vision_transformer, 1.2e-2, "bundle"),
    "free weights": (rivals.free_weights, 1.2e-2, "bundle"),
    "hidden layer": (rivals.hidden_layer, 1e-3, "bundle"),
    "convolutions": (rivals.convolutions, 8e-3, "bundle"),
    "wide convolutions": (rivals.wide_convolutions, 4e-3, "bundle"),
    "Mixer, either copy": (rivals.mixer, 1.2e-2, "either"),
    "free weights, either copy": (rivals.free_weights, 1.2e-2, "either"),
    "no network, own spread": (rivals.by_spread, None, "bundle"),
    "no network, common patterns": (rivals.by_common_patterns, None, "bundle"),
}


@cache
def examples(which, device):
    """8,192 puzzles to learn from, and 400 unseen, behind the bundle, perhaps with replaced patches in either copy."""
    drawn = draw_puzzles(8_192, seed=0), draw_puzzles(400, seed=1, unseen=True)
    if which == "either":
        drawn = tuple(on_either_side(puzzles, seed) for seed, puzzles in enumerate(drawn))
    return [Puzzles(*(part.to(device) for part in through_bundle(puzzles, *draw_bundle(seed=0)))) for puzzles in drawn]


def loss(model, batch):
    """The cross-entropy of the marks, in nats; pixels are scaled to -2…2."""
    return F.binary_cross_entropy_with_logits(model(4 * batch[0] - 2), batch[1].float())


def run(setting, seed, device):
    """Train one model; its right marks on unseen puzzles, through training and at the end."""
    make, rate, which = setting
    known, (images, differs) = examples(which, device)
    if rate is None:
        found = rivals.logistic_regression(known, images, make(known))
        return {"right marks": (found == differs).float().mean().item()}
    torch.manual_seed(seed)
    model, curve = make().to(device), {}
    stream = batches(*known, batch_size=64, seed=seed)
    for step in train(model, stream, loss, steps=STEPS, lr=rate, warmup=STEPS // 10):
        if (step.index + 1) % 25 == 0:
            model.eval()
            with torch.no_grad():
                curve[step.index + 1] = ((model(4 * images - 2) > 0) == differs).float().mean().item()
            model.train()
    return {"right marks": curve[STEPS], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def figure(study):
    """Draw the right marks over the updates, means of the seeds, and each seed at the end."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook import plots

    drawn, said = Figure(figsize=(6.0, 3.6), layout="constrained"), []
    ax = drawn.subplots()
    names = [name for name in study.names if ", " not in name]
    for name, marker, colour in zip(names, plots.MARKERS, sns.color_palette("colorblind"), strict=False):
        ax.plot(*study.curve(name), label=name, color=colour, marker=marker, markersize=4, markevery=12)
        seeds = study.scores(name, "right marks")
        ax.plot([STEPS] * len(seeds), seeds, ".", color=colour, markersize=4)
        said.append(f"{name} {study.mean(name, 'right marks'):.2f}")
    without = study.mean("no network, common patterns", "right marks")
    ax.axhline(without, color="black", linestyle=":", linewidth=1, label="no network")
    ax.axhline(0.5, color="grey", linestyle="--", linewidth=1)
    ax.set(xlabel="update", ylabel="accuracy, unseen puzzles", ylim=(0.45, 1.0))
    ax.grid(alpha=0.25)
    sns.despine(ax=ax)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=3, edgecolor="none")
    alt = f"Accuracy on unseen puzzles after {STEPS:,} updates, means of the seeds; a guess is right about half: "
    return drawn, f"{alt}{'; '.join(said)}; without a network, common spatial patterns {without:.3f}."


def first_above(study, name, level=0.9):
    """The number of updates after which the mean of the seeds first reaches a level; None if it never does."""
    return next((int(step) for step, right in zip(*study.curve(name), strict=True) if right >= level), None)


def finding(study):
    """Name the right marks of each model, and the updates that each needs for nine of ten."""
    n_seeds = min(len(study.of(name)) for name in study.names)
    told = []
    for name in study.names:
        trained = study.curve(name)[0]
        after = f" (nine of ten after {first_above(study, name) or 'no number of'} updates)" if trained else ""
        told.append(f"{name} {study.mean(name, 'right marks'):.3f}{after}")
    return f"After {STEPS:,} updates ({n_seeds} seeds): {'; '.join(told)}."
