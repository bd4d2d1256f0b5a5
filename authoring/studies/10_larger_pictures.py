"""Local attention or convolution on larger pictures: which accuracy for how many parameters and multiply-adds?

Rivals: two 3 × 3 convolutions, and two layers of local attention in windows of 3 × 3 with relative positions, at the widths 8, 16
and 32; at 16 also a convolution followed by local attention, because the paper finds attention weaker in the first layer. One
network for all: features of each pixel separately, a residual layer with a stride of 2 from 14 × 14 to 7 × 7 pixels, a residual
layer, global max pooling, ten logits. The digits are those of MNIST at half their resolution, averages of real pixels: digits of
8 × 8, interpolated to this size, would contain no further detail. 3,500 to learn from, 500 held out, 1,000 unseen.

Budget: 2,000 updates with 64 digits each (37 epochs), three seeds. Is that enough? At width 16 the first two are trained for half
as many updates, too: the doubling shows who still gains. Each network is trained with three learning rates; figure and finding
show the rate with the highest mean accuracy on held-out digits. One rate for all would not do: with 0.08 over the root of the
width and a warm-up of 20 updates, local attention of width 32 reached 0.74, and that of width 16 0.84, tried with one seed. About
55 minutes on one CPU thread. On a GPU: 28 × 28 pixels, widths up to 128, and ten times as many updates.
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

SIDE, SIZE, STRIDES, STEPS, WIDTHS = 14, 3, (2, 1), 2_000, (8, 16, 32)
LOOKS = (50, 100, 200, 400, 700, 1_000, 1_400, 2_000, 5_000, 10_000, 20_000)
RATES = (0.02, 0.04, 0.08)  # at width 1
KINDS = {
    "convolution": ("convolution", "convolution"),
    "local attention": ("local attention", "local attention"),
    "convolution, then local attention": ("convolution", "local attention"),
}
NETWORKS = {f"{kind}, width {width}": (kind, width, SIDE, STEPS) for width in WIDTHS for kind in list(KINDS)[:2]}
NETWORKS |= {f"{kind}, width 16, half as long": (kind, 16, SIDE, STEPS // 2) for kind in list(KINDS)[:2]}
NETWORKS["convolution, then local attention, width 16"] = ("convolution, then local attention", 16, SIDE, STEPS)
SETTINGS = {f"{name}, rate {rate}": (*network, rate) for name, network in NETWORKS.items() for rate in RATES}
GPU_SETTINGS = {
    f"{kind}, width {width}, rate {rate}": (kind, width, 28, 10 * STEPS, rate)
    for width in (*WIDTHS, 64, 128)
    for kind in KINDS
    for rate in RATES
}
TOLERANCE = {"accuracy": 0.03, "held-out accuracy": 0.04, "curve": 0.2}


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
    """Train one network; its accuracy on held-out and on unseen digits, the latter through training, too, and its cost."""
    kind, width, side, steps, rate = setting
    require_equal_forms()
    pictures, labels = mnist()
    images, labels = F.avg_pool2d(pictures, 28 // side).to(device), labels.to(device)
    part = split(range(len(labels)), 3_500, 500, 1_000, seed)
    learn, held_out, unseen = (torch.tensor(chosen, device=device) for chosen in (part.train, part.valid, part.test))
    torch.manual_seed(seed)
    model = network(kind, width).to(device)

    @torch.no_grad()
    def accuracy(which):
        model.eval()
        share = (model(images[which]).argmax(-1) == labels[which]).float().mean().item()
        model.train()
        return share

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    stream = batches(images[learn], labels[learn], batch_size=64, seed=seed)
    curve = {}
    for step in train(model, stream, loss, steps=steps, lr=rate * width**-0.5, warmup=steps // 8):
        if step.index + 1 in LOOKS:
            curve[step.index + 1] = accuracy(unseen)
    parameters = sum(p.numel() for p in model.parameters())
    costs = {"parameters": parameters, "multiply-adds": multiply_adds(kind, width, side)}
    return {"accuracy": curve[steps], "held-out accuracy": accuracy(held_out), **costs, "curve": curve}


def best(study, name):
    """The setting of a network with the learning rate that is best on held-out digits."""
    return max((f"{name}, rate {rate}" for rate in RATES), key=lambda setting: study.mean(setting, "held-out accuracy"))


def figure(study):
    """Accuracy against parameters and against multiply-adds, and through training at width 16, means of the seeds."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook import plots

    drawn, said = Figure(figsize=(6.0, 5.0), layout="constrained"), []
    axes = drawn.subplot_mosaic([["parameters", "multiply-adds"], ["updates", "updates"]])
    for kind, marker, colour in zip(KINDS, plots.MARKERS, sns.color_palette("colorblind"), strict=False):
        names = [best(study, f"{kind}, width {width}") for width in WIDTHS if f"{kind}, width {width}" in NETWORKS]
        heights, style = [study.mean(name, "accuracy") for name in names], {"color": colour, "marker": marker}
        for cost in ("parameters", "multiply-adds"):
            axes[cost].plot([study.scores(name, cost)[0] for name in names], heights, **style)
            for name in names:
                axes[cost].plot(study.scores(name, cost), study.scores(name, "accuracy"), ".", color=colour, markersize=5)
        axes["updates"].plot(*study.curve(best(study, f"{kind}, width 16")), label=kind, **style)
        said.append(f"{kind} {', '.join(f'{height:.3f}' for height in heights)}")
        if f"{kind}, width 16, half as long" in NETWORKS:
            half = best(study, f"{kind}, width 16, half as long")
            axes["updates"].plot(*study.curve(half), markersize=4, linestyle="--", linewidth=1, **style)
            said.append(f"with half the updates at width 16 {study.mean(half, 'accuracy'):.3f}")
    for ax, label in zip(axes.values(), ("parameters", "multiply-adds", "update, width 16; dashed: half as long"), strict=True):
        ax.set(xscale="log", xlabel=label, ylabel="accuracy")
        ax.grid(alpha=0.25)
        sns.despine(ax=ax)
    axes["updates"].legend(fontsize=8, loc="lower right", edgecolor="none")
    widths = ", ".join(map(str, WIDTHS))
    drawn.suptitle(f"as recorded: {STEPS:,} updates, widths {widths}; lines: means; dots: seeds", fontsize=10)
    alt = f"Accuracy on unseen digits of 14 × 14 pixels after {STEPS:,} updates, means of the seeds, widths {widths}: {'; '.join(said)}."
    return drawn, alt


def finding(study):
    """The lead of the convolution at each width, and what a doubling of the updates adds; each at its best learning rate."""
    n_seeds = min(len(study.of(name)) for name in study.names)
    reached = {name: study.mean(best(study, name), "accuracy") for name in NETWORKS}
    ours, theirs = ([reached[f"{kind}, width {w}"] for w in WIDTHS] for kind in list(KINDS)[:2])
    leads = ", ".join(f"{a - b:+.3f}" for a, b in zip(ours, theirs, strict=True))
    halves = {kind: f"{kind}, width 16, half as long" for kind in list(KINDS)[:2]}
    late = [f"{kind} {reached[f'{kind}, width 16'] - reached[half]:+.3f}" for kind, half in halves.items()]
    both = reached["convolution, then local attention, width 16"]
    return (
        f"After {STEPS:,} updates ({n_seeds} seed{'s' * (n_seeds != 1)}), at the widths {', '.join(map(str, WIDTHS))}, the accuracy of the convolutions "
        f"exceeds that of local attention by {leads}. A convolution followed by local attention reaches {both:.3f} at width 16, "
        f"convolutions {ours[1]:.3f}. Twice as many updates add at width 16: {', '.join(late)}."
    )
