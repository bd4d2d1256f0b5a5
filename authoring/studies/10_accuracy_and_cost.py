"""Local attention or convolution: which accuracy for how many parameters and multiply-adds, after a long training?

Rivals: 3 × 3 convolution and local attention in windows of 3 × 3 with relative positions, at widths 8 and 16. One network for
both, the lecture's: features of each pixel separately, two residual layers of the kind, global max pooling, ten logits; digits of
7 × 7, 4,000 to learn from, 1,000 unseen.

Budget: 2,000 updates with 64 digits each (32 epochs), three seeds. Is that enough? At width 16 both are trained for half as many
updates, too: the doubling shows who still gains. One learning rate for both, 0.08 over the root of the width. Among 0.02, 0.04,
0.08 and 0.16, tried for 600 updates on digits of 14 × 14 at width 16, this was the best for local attention, and 0.01 below the
best for the convolution. About 7 minutes on one CPU thread. On a GPU: widths up to 128.
"""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import Attended, LocalAttention, local_attention, relative_logits
from course_lib.datasets import mnist, split
from course_lib.metrics import convolution_cost, local_attention_cost
from course_lib.primitives import window_mask
from course_lib.training import batches, train

SIDE, SIZE, STEPS = 7, 3, 2_000
LOOKS = (25, 50, 100, 200, 400, 700, 1_000, 1_400, 1_700, 2_000)
RATE = 0.08  # at width 1
KINDS = ("convolution", "local attention")
SETTINGS = {f"{kind}, width {width}": (kind, width, STEPS) for width in (16, 8) for kind in KINDS}
SETTINGS |= {f"{kind}, width 16, half as long": (kind, 16, STEPS // 2) for kind in KINDS}
GPU_SETTINGS = SETTINGS | {f"{kind}, width {width}": (kind, width, STEPS) for width in (32, 64, 128) for kind in KINDS}
TOLERANCE = {"accuracy": 0.03, "curve": 0.2}


def unfolded_local_attention(q, k, v, rows, columns, stride=1):
    """`local_attention` on windows cut by torch, features first: the fastest form for small pictures."""
    size, (B, h, H, W, d) = rows.shape[-2], k.shape

    def windows(x):
        cut = F.unfold(x.permute(0, 1, 4, 2, 3).reshape(B * h, d, H, W), size, padding=size // 2, stride=stride)
        return cut.view(B, h, d, size * size, -1)

    by_content = (q.flatten(2, 3).mT.unsqueeze(3) * windows(k)).sum(2)
    scores = by_content + relative_logits(q, rows, columns).flatten(2, 3).mT
    mask = window_mask(H, W, size, stride, device=k.device).flatten(0, 1).mT
    weights = scores.masked_fill(~mask, -torch.inf).softmax(2)
    context = (weights.unsqueeze(2) * windows(v)).sum(3)
    return Attended(*(x.mT.unflatten(2, q.shape[2:4]) for x in (context, weights)))


def require_equal_forms():
    """Refuse to run where the fast form differs from the definition."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 2, 5, 7, 5, 4, generator=generator)
    rows, columns = torch.randn(2, 5, SIZE, 2, generator=generator)
    for fast, defined in zip(*(f(q, k, v, rows, columns) for f in (unfolded_local_attention, local_attention)), strict=True):
        torch.testing.assert_close(fast, defined)


def mixing_layer(kind, width):
    """A layer of the kind; its offset vectors start twice as large as the library's, as in the lecture."""
    if kind == "convolution":
        return nn.Conv2d(width, width, SIZE, padding=SIZE // 2, bias=False)
    layer = LocalAttention(width, width, 4, SIZE, mechanism=unfolded_local_attention)
    for offsets in (layer.rows, layer.columns):
        offsets.data.mul_(2.0)
    return layer


class Residual(nn.Module):
    """x + ReLU(norm(layer(x)))."""

    def __init__(self, kind, width):
        super().__init__()
        self.layer, self.norm = mixing_layer(kind, width), nn.BatchNorm2d(width)

    def forward(self, x):
        mixed = self.layer(x)
        return x + self.norm(getattr(mixed, "context", mixed)).relu()


def network(kind, width):
    """Stem of 1 × 1, two residual layers, head."""
    stem = (nn.Conv2d(1, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
    head = (nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(width, 10))
    return nn.Sequential(*stem, Residual(kind, width), Residual(kind, width), *head)


def multiply_adds(kind, width):
    """Multiply-adds of one picture: stem, two layers, head; without norms and softmax."""
    cost = convolution_cost if kind == "convolution" else local_attention_cost
    return SIDE * SIDE * width + 2 * cost(width, width, SIZE, SIDE, SIDE).multiply_adds + 10 * width


def run(setting, seed, device):
    """Train one network; its accuracy on unseen digits, through training and at the end, and its cost."""
    kind, width, steps = setting
    require_equal_forms()
    pictures, labels = mnist()
    images, labels = F.avg_pool2d(pictures, 4).to(device), labels.to(device)
    part = split(range(len(labels)), 4_000, 0, 1_000, seed)
    learn, unseen = (torch.tensor(indices, device=device) for indices in (part.train, part.test))
    torch.manual_seed(seed)
    model = network(kind, width).to(device)

    @torch.no_grad()
    def accuracy():
        model.eval()
        share = (model(images[unseen]).argmax(-1) == labels[unseen]).float().mean().item()
        model.train()
        return share

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    stream = batches(images[learn], labels[learn], batch_size=64, seed=seed)
    curve = {}
    for step in train(model, stream, loss, steps=steps, lr=RATE * width**-0.5, warmup=20):
        if step.index + 1 in LOOKS:
            curve[step.index + 1] = accuracy()
    parameters = sum(p.numel() for p in model.parameters())
    return {"accuracy": curve[steps], "parameters": parameters, "multiply-adds": multiply_adds(kind, width), "curve": curve}


def figure(study):
    """Accuracy against parameters and against multiply-adds, and through training at width 16, means of the seeds."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook import plots

    drawn, said = Figure(figsize=(6.0, 4.0), layout="constrained"), []
    axes = list(drawn.subplot_mosaic([["parameters", "multiply-adds"], ["updates", "updates"]]).values())
    for kind, marker, colour in zip(KINDS, plots.MARKERS, sns.color_palette("colorblind"), strict=False):
        names = [f"{kind}, width {width}" for width in (8, 16)]
        heights = [study.mean(name, "accuracy") for name in names]
        for ax, cost in zip(axes, ("parameters", "multiply-adds"), strict=False):
            ax.plot([study.scores(name, cost)[0] for name in names], heights, color=colour, marker=marker)
            for name in names:
                ax.plot(study.scores(name, cost), study.scores(name, "accuracy"), ".", color=colour, markersize=5)
        axes[2].plot(*study.curve(names[1]), color=colour, marker=marker, label=kind)
        half = study.curve(f"{names[1]}, half as long")
        axes[2].plot(
            *half, color=colour, marker=marker, markersize=4, linestyle="--", linewidth=1, label=f"{kind}, half as long"
        )
        said.append(f"{kind} {heights[0]:.2f} and {heights[1]:.2f}, {half[1][-1]:.2f} with half the updates at width 16")
    costs = [sorted({run.scores[cost] for run in study.runs}) for cost in ("parameters", "multiply-adds")]
    labels = "parameters", "multiply-adds, in thousands", "update, width 16"
    units = (1, 1_000, 1)
    for ax, label, places, unit in zip(axes, labels, (*costs, (25, 100, 400, 1_000, 2_000)), units, strict=True):
        ax.set(xscale="log", xlabel=label, ylabel="accuracy")
        ax.set_xticks(places, [f"{place / unit:,.0f}" for place in places], fontsize=8)
        ax.set_xticks([], minor=True)
        ax.grid(alpha=0.25)
        sns.despine(ax=ax)
    axes[2].legend(fontsize=8, loc="lower right", edgecolor="none")
    drawn.suptitle(f"as recorded: {STEPS:,} updates, widths 8 and 16; lines: means; dots: seeds", fontsize=10)
    alt = f"Accuracy on unseen digits after {STEPS:,} updates, mean of the seeds, widths 8 and 16: {'; '.join(said)}."
    return drawn, alt


def finding(study):
    """Who leads at equal width and at fewer parameters, and what a doubling of the updates adds."""
    n_seeds = min(len(study.of(name)) for name in study.names)
    leads, late = [], []
    for width in (8, 16):
        ours, theirs = (study.scores(f"{kind}, width {width}", "accuracy") for kind in KINDS)
        leads.append(sum(a - b for a, b in zip(ours, theirs, strict=True)) / n_seeds)
    for kind in KINDS:
        name = f"{kind}, width 16"
        late.append(f"{kind} {study.mean(name, 'accuracy') - study.mean(f'{name}, half as long', 'accuracy'):+.3f}")
    small, large = "convolution, width 8", "local attention, width 16"
    return (
        f"After {STEPS:,} updates ({n_seeds} seeds) the convolution leads local attention by {leads[0]:.2f} at width 8 and by "
        f"{leads[1]:.2f} at width 16. With {study.scores(small, 'parameters')[0]:,} parameters it reaches "
        f"{study.mean(small, 'accuracy'):.2f}, local attention with {study.scores(large, 'parameters')[0]:,} reaches "
        f"{study.mean(large, 'accuracy'):.2f}. Twice as many updates add at width 16: {', '.join(late)}."
    )
