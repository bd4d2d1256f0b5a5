"""Local attention or convolution on larger pictures: which accuracy for how many parameters and multiply-adds?

Rivals: two 3 × 3 convolutions, at the widths 8, 16 and 32; two layers of local attention in windows of 3 × 3 with four heads
and relative positions, at 16 and 32 (at 8, a head would have two features); at 16 also a convolution followed by local
attention, because the paper finds attention weaker in the first layer. One network for all: features of each pixel separately,
a residual layer with a stride of 2 from 14 × 14 to 7 × 7 pixels, a residual layer, global max pooling, ten logits. The digits
are those of MNIST at half their resolution, averages of real pixels: digits of 8 × 8, interpolated to this size, would contain
no further detail. 3,500 to learn from, 500 held out, 1,000 unseen.

Budget: 2,000 updates with 64 digits each (37 epochs), three seeds. Each run first trains for half as many updates with each of
four learning rates, and then in full with the one that was best on held-out digits; the difference shows who still gains.
About 45 minutes on one CPU thread. On a GPU: 28 × 28 pixels, widths up to 128, and ten times as many updates.
"""

from functools import reduce
from itertools import product

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import Attended, LocalAttention, local_attention, relative_logits
from course_lib.datasets import mnist, split
from course_lib.metrics import convolution_cost, local_attention_cost
from course_lib.primitives import window_mask
from course_lib.training import batches, train

SIDE, SIZE, STRIDES, STEPS = 14, 3, (2, 1), 2_000
LOOKS = (50, 100, 200, 400, 700, 1_000, 1_400, 2_000, 5_000, 10_000, 20_000)
RATES = (0.015, 0.03, 0.06, 0.12)  # at width 1
KINDS = {
    "convolution": ("convolution", "convolution"),
    "local attention": ("local attention", "local attention"),
    "convolution, then local attention": ("convolution", "local attention"),
}
WIDTHS = {"convolution": (8, 16, 32), "local attention": (16, 32), "convolution, then local attention": (16,)}
SETTINGS = {f"{kind}, width {width}": (kind, width, SIDE, STEPS) for kind in KINDS for width in WIDTHS[kind]}
GPU_SETTINGS = {f"{kind}, width {width}": (kind, width, 28, 10 * STEPS) for kind in KINDS for width in (8, 16, 32, 64, 128)}
TOLERANCE = {"accuracy": 0.03, "accuracy, half as long": 0.03, "rate": RATES[-1], "curve": 0.2}
TOLERANCE |= {f"held-out accuracy, rate {rate}": 0.04 for rate in RATES}


def shifted_local_attention(q, k, v, rows, columns, stride=1):
    """`local_attention` on shifted views of the picture, features before pixels: the fastest form for small windows."""
    size, (H, W), (H_q, W_q) = rows.shape[-2], k.shape[-3:-1], q.shape[-3:-1]
    q_first, k_first, v_first = (x.movedim(-1, -3).contiguous() for x in (q, k, v))
    k_padded, v_padded = (F.pad(x, (size // 2,) * 4) for x in (k_first, v_first))
    down, across = ([slice(a, a + stride * n, stride) for a in range(size)] for n in (H_q, W_q))
    shifts = [(..., *windows) for windows in product(down, across)]
    by_content = torch.stack([(q_first * k_padded[shift]).sum(-3) for shift in shifts], dim=-3)
    scores = by_content + relative_logits(q, rows, columns).movedim(-1, -3)
    mask = window_mask(H, W, size, stride, device=k.device).movedim(-1, 0)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-3)
    mixed = (weights[..., i, None, :, :] * v_padded[shift] for i, shift in enumerate(shifts))
    return Attended(reduce(torch.add, mixed).movedim(-3, -1), weights.movedim(-3, -1))


def require_equal_forms():
    """Refuse to run where the fast form differs from the definition."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 2, 5, 7, 6, 4, generator=generator)
    rows, columns = torch.randn(2, 5, SIZE, 2, generator=generator)
    for stride in (1, 2):
        given = q[..., ::stride, ::stride, :], k, v, rows, columns, stride
        for fast, defined in zip(shifted_local_attention(*given), local_attention(*given), strict=True):
            torch.testing.assert_close(fast, defined)


def mixing_layer(layer, width, stride):
    """A layer over windows; the offset vectors of attention start twice as large as the library's, as in the lecture."""
    if layer == "convolution":
        return nn.Conv2d(width, width, SIZE, stride, padding=SIZE // 2, bias=False)
    attention = LocalAttention(width, width, 4, SIZE, stride, shifted_local_attention)
    for offsets in (attention.rows, attention.columns):
        offsets.data.mul_(2.0)
    return attention


class Residual(nn.Module):
    """x + ReLU(norm(layer(x))); with a stride, the largest x of each stride × stride pixels."""

    def __init__(self, layer, width, stride):
        super().__init__()
        self.layer, self.norm = mixing_layer(layer, width, stride), nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(stride)

    def forward(self, x):
        mixed = self.layer(x)
        return self.pool(x) + self.norm(getattr(mixed, "context", mixed)).relu()


def network(kind, width):
    """Stem of 1 × 1, a residual layer with a stride, another without, head."""
    layers = (Residual(layer, width, stride) for layer, stride in zip(KINDS[kind], STRIDES, strict=True))
    stem = (nn.Conv2d(1, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
    head = (nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(width, 10))
    return nn.Sequential(*stem, *layers, *head)


def multiply_adds(kind, width, side):
    """Multiply-adds of one picture: stem, two layers, head; without norms and softmax."""
    costs = {"convolution": convolution_cost, "local attention": local_attention_cost}
    first, second = (costs[layer] for layer in KINDS[kind])
    layers = first(width, width, SIZE, side, side, 2), second(width, width, SIZE, side // 2, side // 2)
    return side * side * width + sum(layer.multiply_adds for layer in layers) + 10 * width


def run(setting, seed, device):
    """Choose a learning rate on held-out digits, then train; accuracy on unseen digits, through training, too, and cost."""
    kind, width, side, steps = setting
    require_equal_forms()
    pictures, labels = mnist()
    images, labels = F.avg_pool2d(pictures, 28 // side).to(device), labels.to(device)
    part = split(range(len(labels)), 3_500, 500, 1_000, seed)
    learn, held_out, unseen = (torch.tensor(chosen, device=device) for chosen in (part.train, part.valid, part.test))

    @torch.no_grad()
    def accuracy(model, which):
        model.eval()
        share = (model(images[which]).argmax(-1) == labels[which]).float().mean().item()
        model.train()
        return share

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    def trained(rate, steps):
        torch.manual_seed(seed)
        model, curve = network(kind, width).to(device), {}
        stream = batches(images[learn], labels[learn], batch_size=64, seed=seed)
        for step in train(model, stream, loss, steps=steps, lr=rate * width**-0.5, warmup=steps // 8):
            if step.index + 1 in LOOKS:
                curve[step.index + 1] = accuracy(model, unseen)
        return accuracy(model, held_out), curve

    short = {rate: trained(rate, steps // 2) for rate in RATES}
    chosen = max(RATES, key=lambda rate: short[rate][0])
    curve = trained(chosen, steps)[1]
    parameters = sum(p.numel() for p in network(kind, width).parameters())
    return {
        "accuracy": curve[steps],
        "accuracy, half as long": short[chosen][1][steps // 2],
        "rate": chosen,
        **{f"held-out accuracy, rate {rate}": short[rate][0] for rate in RATES},
        "parameters": parameters,
        "multiply-adds": multiply_adds(kind, width, side),
        "curve": curve,
    }


def figure(study):
    """Accuracy against parameters and against multiply-adds, and through training at width 16, means of the seeds."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook import plots

    drawn, said = Figure(figsize=(6.0, 4.0), layout="constrained"), []
    axes = drawn.subplot_mosaic([["parameters", "multiply-adds"], ["updates", "updates"]])
    for kind, marker, colour in zip(KINDS, plots.MARKERS, sns.color_palette("colorblind"), strict=False):
        names = [f"{kind}, width {width}" for width in WIDTHS[kind]]
        heights, style = [study.mean(name, "accuracy") for name in names], {"color": colour, "marker": marker}
        for cost in ("parameters", "multiply-adds"):
            axes[cost].plot([study.scores(name, cost)[0] for name in names], heights, **style)
            for name in names:
                axes[cost].plot(study.scores(name, cost), study.scores(name, "accuracy"), ".", color=colour, markersize=5)
        axes["updates"].plot(*study.curve(f"{kind}, width 16"), label=kind, **style)
        half = study.mean(f"{kind}, width 16", "accuracy, half as long")
        axes["updates"].plot(STEPS // 2, half, markersize=10, fillstyle="none", **style)
        reached = (f"{height:.3f} at width {width}" for height, width in zip(heights, WIDTHS[kind], strict=True))
        said.append(f"{kind} {', '.join(reached)} ({half:.3f} at width 16 with half the updates)")
    labels = ("parameters", "multiply-adds, in thousands", "update, width 16; hollow: trained for half as many")
    ticks = (1_000, 2_000, 5_000, 10_000, 20_000), (50, 100, 200, 500, 1_000), [look for look in LOOKS if look <= STEPS]
    for ax, label, marks, unit in zip(axes.values(), labels, ticks, (1, 1_000, 1), strict=True):
        ax.set(xscale="log", xlabel=label, ylabel="accuracy")
        ax.set_xticks([mark * unit for mark in marks], [f"{mark:,}" for mark in marks], fontsize=8)
        ax.set_xticks([], minor=True)
        ax.axhline(0.1, color="0.35", linestyle="--", linewidth=1.2, label="chance")
        ax.set_ylim(0, 1.03)
        ax.grid(alpha=0.25)
        sns.despine(ax=ax)
    axes["updates"].legend(fontsize=8, loc="lower right", edgecolor="none")
    drawn.suptitle(f"as recorded: {STEPS:,} updates; lines: means; dots: seeds", fontsize=10)
    alt = f"Accuracy on unseen digits of 14 × 14 pixels after {STEPS:,} updates, means of the seeds: {'; '.join(said)}."
    return drawn, alt


def finding(study):
    """The lead of the convolution at equal and at half width, what a doubling of the updates adds, and the rates chosen."""
    n_seeds = min(len(study.of(name)) for name in study.names)
    widths = WIDTHS["local attention"]
    reached = {name: study.mean(name, "accuracy") for name in study.names}
    three = (f"{kind} {reached[f'{kind}, width 16']:.3f}" for kind in KINDS)
    equal, half = (
        [reached[f"convolution, width {w // part}"] - reached[f"local attention, width {w}"] for w in widths] for part in (1, 2)
    )
    added = (f"{name} {reached[name] - study.mean(name, 'accuracy, half as long'):+.3f}" for name in study.names)
    chosen = [run.scores["rate"] for run in study.runs]
    counts = ", ".join(f"{rate} in {chosen.count(rate)}" for rate in RATES)
    return (
        f"After {STEPS:,} updates ({n_seeds} seed{'s' * (n_seeds != 1)}), at the widths {' and '.join(map(str, widths))}, the "
        f"lead in accuracy over local attention is {' and '.join(f'{x:+.3f}' for x in equal)} for convolutions of equal width, "
        f"and {' and '.join(f'{x:+.3f}' for x in half)} for convolutions of half the width. At width 16: {'; '.join(three)}. "
        f"Twice as many updates add: {'; '.join(added)}. Of {len(chosen)} runs, the best rate on held-out digits was {counts}, "
        f"over the root of the width."
    )
