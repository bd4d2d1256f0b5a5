"""Vision Transformer or CNN: how does the answer depend on the number of pictures and on pre-training?

Rivals: a ViT with patches of 7 × 7 pixels (two layers, width 64, the lecture's) and two CNNs with nearly as many parameters, each
of three convolutions and a linear layer: one with global max pooling before this layer, as in the lecture, and one whose linear
layer gets all positions. First part: ten digits, learned from 250, 1,000 or 4,000 pictures, and from 4,000 that are shifted by up
to three pixels and rotated by up to 15 degrees, at random, each time they are used. Second part: the digits 5 to 9, learned from
10 or 50 pictures of each; all weights are trained, and they start at random or from a model trained on all pictures of the digits
0 to 4.

Budget: 2,000 updates with 64 pictures each in the first part; in the second 400 updates, after 1,000 of pre-training. Accuracy on
1,000 unseen pictures, in the second part on those that show the digits 5 to 9; three seeds. Each model has the learning rate that
was best in 500 updates with 1,000 pictures: of 0.0005, 0.001, 0.002 and 0.004 for the ViT, of 0.001, 0.002, 0.004 and 0.008 for
the CNNs. About 30 minutes on one CPU thread. On a GPU: more numbers of pictures, and smaller numbers distorted, too.
"""

from copy import deepcopy
from functools import cache

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.blocks import ConvNet, Sizes, zero_head
from course_lib.datasets import mnist, split
from course_lib.models import ViT
from course_lib.training import batches, train

STEPS, LOOKS = 2_000, (50, 100, 200, 400, 700, 1_000, 1_400, 2_000)
FIRST_STEPS, TUNING_STEPS, TUNING_LOOKS = 1_000, 400, (25, 50, 100, 200, 400)
RATES = {"ViT": 2e-3, "CNN": 8e-3, "CNN, all positions": 4e-3}
SIZES = Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=2)
WIDTHS = {"CNN": (32, 64, 80), "CNN, all positions": (32, 64, 48)}
PICTURES = ("250", "1,000", "4,000", "4,000 distorted")
SETTINGS = {f"{kind}, {n} pictures": (kind, n) for n in PICTURES for kind in RATES}
SETTINGS |= {
    f"{kind}, {start} start, {n} of each new digit": (kind, start, n)
    for n in (10, 50)
    for start in ("random", "pre-trained")
    for kind in RATES
}
GPU_SETTINGS = SETTINGS | {
    f"{kind}, {n} pictures": (kind, n) for n in ("125", "500", "2,000", "250 distorted", "1,000 distorted") for kind in RATES
}
TOLERANCE = {"accuracy": 0.04, "curve": 0.2}


def network(kind, n_classes):
    """A new classifier of digits."""
    if kind in WIDTHS:
        convolutions = ConvNet(1, widths=WIDTHS[kind], strides=(2, 2, 1))
        pooling, places = (nn.AdaptiveMaxPool2d(1), 1) if kind == "CNN" else (nn.Identity(), 7 * 7)
        return nn.Sequential(convolutions, pooling, nn.Flatten(), nn.Linear(places * WIDTHS[kind][-1], n_classes))
    model = ViT(n_classes, (1, 28, 28), 7, SIZES, fused_scaled_dot_product_attention)
    model.encoder.positions.data.mul_(4.0)  # as in the lecture
    return model


def distorted(pictures, generator, most=3, degrees=15):
    """Each picture rotated and moved at random."""
    B, side = len(pictures), pictures.shape[-1]
    drawn = 2 * torch.rand(3, B, generator=generator).to(pictures) - 1
    angle, moved = torch.deg2rad(degrees * drawn[0]), 2 * most / side * drawn[1:]
    rows = [angle.cos(), -angle.sin(), moved[0], angle.sin(), angle.cos(), moved[1]]
    grid = F.affine_grid(torch.stack(rows, 1).view(B, 2, 3), list(pictures.shape), align_corners=False)
    return F.grid_sample(pictures, grid, align_corners=False)


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    share = (model(images).argmax(-1) == labels).float().mean().item()
    model.train()
    return share


def trained(model, known, unseen, seed, rate, steps, looks, change=lambda pictures: pictures):
    """Train a model; its accuracy on unseen pictures by the number of updates."""

    def loss(model, batch):
        return F.cross_entropy(model(change(batch[0])), batch[1])

    curve = {}
    for step in train(model, batches(*known, batch_size=64, seed=seed), loss, steps=steps, lr=rate, warmup=steps // 8):
        if step.index + 1 in looks:
            curve[step.index + 1] = accuracy(model, *unseen)
    return curve


def pictures_of(seed, device):
    """4,000 pictures to learn from and 1,000 unseen, with their labels."""
    images, labels = mnist()
    part = split(range(len(labels)), 4_000, 0, 1_000, seed)
    return tuple((images[list(which)].to(device), labels[list(which)].to(device)) for which in (part.train, part.test))


@cache
def pretrained(kind, seed, device):
    """A model trained on the digits 0 to 4."""
    known, unseen = ((images[labels < 5], labels[labels < 5]) for images, labels in pictures_of(seed, device))
    torch.manual_seed(seed)
    model = network(kind, 5).to(device)
    trained(model, known, unseen, seed, RATES[kind], FIRST_STEPS, ())
    return model


def on_new_digits(kind, start, n, seed, device):
    """Train a model on n pictures of each digit from 5 to 9."""
    known, unseen = ((images[labels >= 5], labels[labels >= 5] - 5) for images, labels in pictures_of(seed, device))
    chosen = torch.cat([(known[1] == digit).nonzero()[:n, 0] for digit in range(5)])
    torch.manual_seed(seed)
    model = network(kind, 5).to(device) if start == "random" else deepcopy(pretrained(kind, seed, device))
    if kind == "ViT":
        model.head = zero_head(SIZES.d_model, 5).to(device)
    else:
        model[-1] = zero_head(model[-1].in_features, 5).to(device)
    few = known[0][chosen], known[1][chosen]
    curve = trained(model, few, unseen, seed, RATES[kind], TUNING_STEPS, TUNING_LOOKS)
    return {"accuracy": curve[TUNING_STEPS], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def run(setting, seed, device):
    """Train one model; its accuracy on unseen pictures, through training and at the end."""
    if len(setting) == 3:
        return on_new_digits(*setting, seed, device)
    kind, n = setting
    (images, labels), unseen = pictures_of(seed, device)
    size = int(n.split()[0].replace(",", ""))
    torch.manual_seed(seed)
    model = network(kind, 10).to(device)
    generator = torch.Generator().manual_seed(seed)
    change = (lambda x: distorted(x, generator)) if n.endswith("distorted") else (lambda x: x)
    curve = trained(model, (images[:size], labels[:size]), unseen, seed, RATES[kind], STEPS, LOOKS, change)
    return {"accuracy": curve[STEPS], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def figure(study):
    """Accuracy against the number of pictures; right, on new digits by the start of the training."""
    import seaborn as sns
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(6.0, 3.4), layout="constrained")
    left, right = drawn.subplots(1, 2, width_ratios=(1, 1))
    colours = dict(zip(RATES, sns.color_palette("colorblind"), strict=False))
    few = [f"{start} start, {n} of each new digit" for n in (10, 50) for start in ("random", "pre-trained")]
    for kind, marker in zip(RATES, "os^", strict=True):
        for ax, names in ((left, [f"{n} pictures" for n in PICTURES]), (right, few)):
            scores = [study.scores(f"{kind}, {name}", "accuracy") for name in names]
            style = {"color": colours[kind], "marker": marker, "markersize": 4}
            ax.plot(range(len(names)), [sum(each) / len(each) for each in scores], label=kind, linewidth=1.4, **style)
            for place, each in enumerate(scores):
                ax.plot([place] * len(each), each, linestyle="", alpha=0.4, **style)
    left.set_xticks(range(len(PICTURES)), [n.replace(" ", "\n") for n in PICTURES])
    right.set_xticks(range(4), ["10,\nrandom", "10, pre-\ntrained", "50,\nrandom", "50, pre-\ntrained"])
    left.set(xlabel="images to learn from", ylabel="accuracy on unseen digits", title="ten digits")
    right.set(xlabel="images of each digit, start", title="digits 5 to 9")
    left.legend(fontsize=8, loc="lower right")
    for ax in (left, right):
        ax.grid(alpha=0.25)
        sns.despine(ax=ax)
    drawn.suptitle("as recorded; lines: mean of the seeds", fontsize=10)
    return drawn, f"Accuracy on unseen digits, mean of the seeds. {_in_words(study)}"


def _in_words(study):
    def each(names):
        return "; ".join(
            f"{name}: " + ", ".join(f"{kind} {study.mean(f'{kind}, {name}', 'accuracy'):.3f}" for kind in RATES)
            for name in names
        )

    few = [f"{start} start, {n} of each new digit" for n in (10, 50) for start in ("random", "pre-trained")]
    return f"Ten digits, {each(f'{n} pictures' for n in PICTURES)}. Digits 5 to 9, {each(few)}."


def finding(study):
    """Accuracy by the number of pictures and by the start, and how much the second half of the updates still gained."""
    gains = {}
    for kind in RATES:
        curve = dict(zip(*study.curve(f"{kind}, 4,000 distorted pictures"), strict=True))
        gains[kind] = curve[STEPS] - curve[STEPS // 2]
    late = ", ".join(f"{kind} {gain:+.3f}" for kind, gain in gains.items())
    return f"{_in_words(study)} From update {STEPS // 2:,} to {STEPS:,}, with distorted pictures: {late}."
