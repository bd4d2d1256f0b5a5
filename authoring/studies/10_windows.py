"""Local attention or convolutions: which restores stained glass from noise, for windows of 3, 5 and 7 pixels?

Rivals, each with about 1,000 parameters: one layer of local attention with 16 features and two heads between a stem and a head
of 1 × 1; a convolution of the same window and a ReLU; a depth-wise separable convolution; convolutions of 3 × 3 that together
see the same window. Convolutions of 32 features, with twenty times as many parameters, too. Without windows: the first network with
attention over all 256 pixels. Two layers of attention in windows of 5 × 5, with 12 features and 1,071 parameters. No network: the
bilateral filter without the pixel itself, whose two widths are best on images like those of the training, once and twice.
Images of 16 × 16 pixels, six panes, noise of 0.2; score: peak signal-to-noise ratio on 500 new images.

Budget: 2,000 updates with eight new images each, three seeds; also 10,000 for the wide convolutions and for the best
convolution of 1,000 parameters (attention of 7 × 7 has 22.6 dB then, with seed 0). The rates are the best with seed 0 at windows of 7, or within
0.05 dB of it: of 0.01, 0.02 and 0.04 for attention after 600 updates (over all pixels it has the same); of 0.01 and 0.03 for the
convolutions, and of 0.003, 0.01 and 0.02 for the wide ones, after 2,000. (After 10,000, 0.01 is better
than 0.003 for the wide ones.) About a quarter of an hour on one CPU thread. On a GPU: windows of 9 and 11 as well.
"""

from functools import cache, partial
from statistics import mean

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import Attended, LocalAttention
from course_lib.fast import tiled_local_attention
from course_lib.training import train
from course_tools.lectures.lecture_10 import rivals
from course_tools.bank.stained_glass import decibels, noisy_glass

SIDE, STEPS, LONGER = 16, 2_000, 10_000
LOOKS = (50, 100, 200, 400, 600, 1_000, 1_400, 2_000, 3_000, 4_000, 5_000, 7_000, 9_000, 10_000)
SIZES = (3, 5, 7)
TOLERANCE = {"dB": 0.3, "curve": 1.0}


def attention_over_all(q, k, v, rows, columns, stride):
    """Attend from each pixel to all of an image (H, H); rows and columns (h, 2 H - 1, d / 2) hold a vector for each offset."""
    H, half = q.shape[-2], rows.shape[-1]
    offset = torch.arange(H) - torch.arange(H)[:, None] + H - 1  # of a key's row (or column) from the query's
    by_row = torch.einsum("bhijd,hiad->bhija", q[..., :half], rows[:, offset])[..., None]
    by_column = torch.einsum("bhijd,hjcd->bhijc", q[..., half:], columns[:, offset])[..., None, :]
    scores = torch.einsum("bhijd,bhacd->bhijac", q, k) + by_row + by_column
    weights = scores.flatten(-2).softmax(-1)
    return Attended((weights.flatten(2, 3) @ v.flatten(2, 3)).view_as(q), weights)


class Attending(nn.Module):
    """The lecture's network, in a faster form: features of each pixel, layers of local attention, a colour of each pixel."""

    def __init__(self, size, d=16, n_layers=1, mechanism=tiled_local_attention):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, d, 1), nn.Conv2d(d, 3, 1)
        self.layers = nn.ModuleList(LocalAttention(d, d, 2, size, mechanism=mechanism) for _ in range(n_layers))

    def forward(self, x):
        x = self.stem(x).relu()
        for layer in self.layers:
            x = layer(x).context
        return self.head(x)


KINDS = {
    "local attention": (Attending, 2e-2),
    "convolution": (rivals.convolution, 1e-2),
    "separable convolution": (rivals.separable, 3e-2),
    "convolutions of 3 × 3": (rivals.stack, 3e-2),
}
WIDE, BILATERAL = "convolutions of 3 × 3, 32 features", "bilateral filter"
ALL, TWO, TWICE = "attention over all pixels", "two layers of local attention", "bilateral filter, twice"


TO_THE_END = (("separable convolution", 5), (WIDE, 7))


def settings(sizes):
    """Each kind at each size, and how many updates it gets; at 3 the stack is the convolution."""
    kinds = [(kind, size) for size in sizes for kind in KINDS if size > 3 or kind != [*KINDS][3]]
    kinds += [(WIDE, sizes[-1]), *((BILATERAL, size) for size in sizes), (TWO, 5), (TWICE, 5)]
    made = {f"{kind}, {size} × {size}": (kind, size, STEPS) for kind, size in kinds} | {ALL: (ALL, 2 * SIDE - 1, STEPS)}
    return made | {f"{kind}, {size} × {size}, {LONGER:,} updates": (kind, size, LONGER) for kind, size in TO_THE_END}


SETTINGS, GPU_SETTINGS = settings(SIZES), settings((*SIZES, 9, 11))


@cache
def examples(seed, device):
    """500 new images, noisy and clean, and 200 others to choose the widths of the bilateral filter by."""
    return [[part.to(device) for part in next(noisy_glass(1_000 + seed + extra, n))] for extra, n in ((0, 500), (500, 200))]


def run(setting, seed, device):
    """Train one network, or choose the widths of the filter; the ratio on new images, through training, too."""
    kind, size, steps = setting
    (noisy, clean), others = examples(seed, device)
    if kind == BILATERAL:
        widths = rivals.best_bilateral_filter(*others, size, itself=False)
        return {"dB": decibels(rivals.bilateral_filter(noisy, size, *widths, itself=False), clean)}
    if kind == TWICE:
        return {"dB": decibels(rivals.twice(noisy, size, *rivals.best_twice(*others, size)), clean)}
    torch.manual_seed(seed)
    extra = {WIDE: (partial(rivals.stack, width=32), 1e-2), ALL: (partial(Attending, mechanism=attention_over_all), 2e-2)}
    extra[TWO] = (partial(Attending, d=12, n_layers=2), 2e-2)
    make, rate = (KINDS | extra)[kind]
    model, curve = make(size).to(device), {}

    def loss(model, batch):
        noisy, clean = (part.to(device) for part in batch)
        return F.mse_loss(model(noisy), clean)

    for step in train(model, noisy_glass(seed), loss, steps=steps, lr=rate, warmup=steps // 10):
        if step.index + 1 in LOOKS:
            with torch.no_grad():
                curve[step.index + 1] = decibels(model(noisy), clean)
    return {"dB": curve[steps], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def figure(study):
    """The ratio over the side of the window, and over the updates at 7 × 7."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook import plots

    drawn, said = Figure(figsize=(6.0, 3.6), layout="constrained"), []
    by_size, by_update = drawn.subplots(1, 2, sharey=True)
    kinds = (*list(KINDS)[:1], BILATERAL, WIDE, *list(KINDS)[1:])
    for kind, marker, colour in zip(kinds, plots.MARKERS, sns.color_palette("colorblind"), strict=False):
        sizes = [size for size in SIZES if f"{kind}, {size} × {size}" in study.names]
        names, style = [f"{kind}, {size} × {size}" for size in sizes], {"color": colour, "marker": marker, "markersize": 5}
        heights = [study.mean(name, "dB") for name in names]
        by_size.plot(sizes, heights, label=kind, **style)
        for size, name in zip(sizes, names, strict=True):
            scores = study.scores(name, "dB")
            by_size.plot([size] * len(scores), scores, ".", color=colour, markersize=4)
        if kind != BILATERAL:
            by_update.plot(*study.curve(names[-1]), **style)
        said.append(f"{kind} {', '.join(f'{height:.1f}' for height in heights)}")
    by_size.set(xlabel="window (receptive field of a stack)", ylabel="dB", xticks=SIZES)
    by_update.set(xlabel="update, 7 × 7", xscale="log", xticks=(50, 200, 600, 2_000), xticklabels=("50", "200", "600", "2,000"))
    by_update.set_xticks([], minor=True)
    by_size.axhline(study.mean(ALL, "dB"), color="black", linestyle=":", linewidth=1.4, label=ALL)
    for ax in (by_size, by_update):
        ax.axhline(NOISY, color="0.35", linestyle="--", linewidth=1.2, label="noisy" if ax is by_size else None)
        ax.grid(alpha=0.25)
        sns.despine(ax=ax)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=3, edgecolor="none")
    alt = f"Peak signal-to-noise ratio in dB by the side of the window ({', '.join(map(str, SIZES))}), means of the seeds: "
    said.append(f"{ALL} {study.mean(ALL, 'dB'):.1f}")
    return drawn, f"{alt}{'; '.join(said)}; noisy {NOISY:.1f}."


NOISY = 13.98
"""-10 log₁₀ of 0.2², the ratio of the noisy images."""


def finding(study):
    """Who leads at the largest window, by how much, and what larger windows add."""
    n_seeds = min(len(study.of(name)) for name in study.names)
    kinds = {name.rpartition(",")[0] for name in study.names if name.endswith(f"{SIZES[-1]} × {SIZES[-1]}")}
    last = {kind: study.mean(f"{kind}, {SIZES[-1]} × {SIZES[-1]}", "dB") for kind in kinds}
    ours = last.pop("local attention")
    larger = ours - study.mean(f"local attention, {SIZES[0]} × {SIZES[0]}", "dB")
    others = ", ".join(f"{kind} {score:.2f}" for kind, score in sorted(last.items(), key=lambda item: -item[1]))
    early = mean(run.curve[600] for run in study.of(f"local attention, {SIZES[-1]} × {SIZES[-1]}"))
    return (
        f"In windows of {SIZES[-1]} × {SIZES[-1]} local attention reaches {ours:.2f} dB after {STEPS:,} updates ({n_seeds} seeds; "
        f"{early:.2f} after 600), {larger:.2f} more than in windows of {SIZES[0]} × {SIZES[0]}. Attention over all "
        f"pixels: {study.mean(ALL, 'dB'):.2f}. Two layers of 5 × 5: {study.mean(f'{TWO}, 5 × 5', 'dB'):.2f}. The others: {others}."
    )
