"""Local attention, attention over the whole picture, or convolution: which accuracy for how many parameters and multiply-adds?

Rivals: 3 × 3 convolution, local attention in windows of 3 × 3, and attention over the whole picture (non-local), both with the
same relative positions. One network for all: features of each pixel separately, two residual layers of the kind (the first with
stride 2), global max pooling, ten logits. Widths 8, 16 and 32, the whole picture 8 and 16, so that accuracy can be compared at
equal width, equal parameters and equal multiply-adds; 14 × 14 digits, 4,000 to learn from, 1,000 unseen.

Budget: 1,200 updates with 16 digits each (almost 5 epochs), three seeds, of which the table counts those run; the curves show
who still gains. One learning rate for all, tried at width 16, 600 updates, on another seed. At 0.02, 0.04, 0.08, 0.16 over the
root of the width, local attention reached 0.53, 0.62, 0.62, 0.58, the whole picture 0.72, 0.75, 0.84, 0.79, the convolution
0.90, 0.91, 0.92, 0.93: 0.08 is the best for both forms of attention, and 0.01 below the best for the convolution. About 11
minutes on one CPU thread.
"""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import Attended, LocalAttention, attend, sliced_local_attention
from course_lib.datasets import mnist, split
from course_lib.metrics import OperationCount, convolution_cost, local_attention_cost
from course_lib.training import batches, train

SIDE, SIZE, STEPS, LOOKS = 14, 3, 1_200, (100, 200, 400, 600, 800, 1_000, 1_200)
RATE = 0.08  # at width 1; the learning rate falls with the square root of the width
WIDTHS = {"convolution": (8, 16, 32), "local attention": (8, 16, 32), "whole picture": (8, 16)}
SETTINGS = {f"{kind}, width {width}": (kind, width) for kind, widths in WIDTHS.items() for width in widths}
TOLERANCE = {"accuracy": 0.05, "curve": 0.15}


def over_whole_picture(q, k, v, rows, columns, stride=1):
    """`local_attention` in a window that covers the whole picture from each pixel, without copying the keys."""
    (H, W), half = k.shape[-3:-1], rows.shape[-1]
    far_rows, far_columns = (
        torch.arange(n, device=q.device) - torch.arange(0, n, stride, device=q.device)[:, None] + n - 1 for n in (H, W)
    )
    by_row = torch.einsum("bhyxd,hyad->bhyxa", q[..., :half], rows[:, far_rows])
    by_column = torch.einsum("bhyxd,hxcd->bhyxc", q[..., half:], columns[:, far_columns])
    by_place = (by_row[..., None] + by_column[..., None, :]).flatten(-2).flatten(2, 3)
    k, v = k.flatten(2, 3), v.flatten(2, 3)
    context, weights = attend(q.flatten(2, 3) @ k.mT + by_place, v)
    return Attended(context.unflatten(2, q.shape[2:4]), weights.unflatten(2, q.shape[2:4]))


def mixing_layer(kind, width, stride):
    """A layer of the kind; its offset vectors start twice as large as the library's, as in the lecture."""
    if kind == "convolution":
        return nn.Conv2d(width, width, SIZE, stride, padding=SIZE // 2, bias=False)
    size = SIZE if kind == "local attention" else 2 * (SIDE // (1 if stride == 2 else 2)) - 1
    form = sliced_local_attention if kind == "local attention" else over_whole_picture
    layer = LocalAttention(width, width, width // 4, size, stride, form)
    for offsets in (layer.rows, layer.columns):
        offsets.data.mul_(2.0)
    return layer


class Residual(nn.Module):
    """x + ReLU(norm(layer(x))), with every stride-th pixel of x."""

    def __init__(self, kind, width, stride):
        super().__init__()
        self.layer, self.norm, self.stride = mixing_layer(kind, width, stride), nn.BatchNorm2d(width), stride

    def forward(self, x):
        mixed = self.layer(x)
        mixed = mixed.context if isinstance(mixed, Attended) else mixed
        return x[:, :, :: self.stride, :: self.stride] + self.norm(mixed).relu()


def network(kind, width):
    """Stem of 1 × 1, two residual layers (14 × 14 to 7 × 7, then 7 × 7), head."""
    stem = (nn.Conv2d(1, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
    head = (nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(width, 10))
    return nn.Sequential(*stem, Residual(kind, width, 2), Residual(kind, width, 1), *head)


def multiply_adds(kind, width):
    """Multiply-adds of one picture: stem, two layers, head; without norms and softmax."""
    total = SIDE * SIDE * width + 10 * width
    for side, stride in ((SIDE, 2), (SIDE // 2, 1)):
        n_keys, n_queries = side * side, (side // stride) ** 2
        if kind == "convolution":
            total += convolution_cost(width, width, SIZE, side, side, stride).multiply_adds
        elif kind == "local attention":
            total += local_attention_cost(width, width, SIZE, side, side, stride).multiply_adds
        else:  # projections, scores and sums over all pixels, and one dot product with each row and column
            total += (n_queries + 2 * n_keys) * width**2 + n_queries * (2 * n_keys + side) * width
    return total


def run(setting, seed, device):
    """Train one network; its accuracy on unseen digits, through training and at the end, and its cost."""
    kind, width = setting
    pictures, labels = mnist()
    images, labels = F.avg_pool2d(pictures, 2).to(device), labels.to(device)
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

    stream = batches(images[learn], labels[learn], batch_size=16, seed=seed)
    curve = {}
    for step in train(model, stream, loss, steps=STEPS, lr=RATE * width**-0.5, warmup=20):
        if step.index + 1 in LOOKS:
            curve[step.index + 1] = accuracy()
    parameters = sum(p.numel() for p in model.parameters())
    return {"accuracy": curve[STEPS], "parameters": parameters, "multiply-adds": multiply_adds(kind, width), "curve": curve}


def figure(study):
    """Accuracy against parameters and against multiply-adds, and through training at width 16, means of the seeds."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook import plots

    drawn, said = Figure(figsize=(6.0, 4.0), layout="constrained"), []
    axes = list(drawn.subplot_mosaic([["parameters", "multiply-adds"], ["updates", "updates"]]).values())
    for kind, marker, colour in zip(WIDTHS, plots.MARKERS, sns.color_palette("colorblind"), strict=False):
        names = [name for name in study.names if name.startswith(kind)]
        heights = [study.mean(name, "accuracy") for name in names]
        for ax, cost in zip(axes, ("parameters", "multiply-adds"), strict=False):
            costs = [study.scores(name, cost)[0] for name in names]
            ax.plot(costs, heights, color=colour, marker=marker, label=kind)
            for name in names:
                ax.plot([study.scores(name, cost)[0]] * len(study.of(name)), study.scores(name, "accuracy"), ".", color=colour)
            ax.set(xscale="log", xlabel=f"{cost} of the network", ylabel="accuracy")
        axes[2].plot(*study.curve(f"{kind}, width 16"), color=colour, marker=marker, label=kind)
        said.append(f"{kind} " + ", ".join(f"{h:.2f} ({n.rpartition(' ')[2]})" for n, h in zip(names, heights, strict=True)))
    axes[2].set(xlabel="update, width 16", ylabel="accuracy")
    for ax in axes:
        ax.grid(alpha=0.25)
    axes[2].legend(fontsize=8, loc="lower right")
    drawn.suptitle(f"as recorded: digits of {SIDE} × {SIDE}, {STEPS:,} updates; a dot is a seed", fontsize=10)
    alt = f"Accuracy on unseen digits against parameters, multiply-adds and updates. By width, mean of the seeds: {'; '.join(said)}."
    return drawn, alt


def finding(study):
    """Who leads at equal width and at fewer parameters, and who still gains at the end."""
    by_name = {name: study.mean(name, "accuracy") for name in study.names}
    n_seeds = min(len(study.of(name)) for name in study.names)
    leads = [by_name[f"convolution, width {w}"] - by_name[f"local attention, width {w}"] for w in WIDTHS["local attention"]]
    small, large = "convolution, width 8", "local attention, width 32"
    gains = {}
    for kind in WIDTHS:
        steps, heights = study.curve(f"{kind}, width 16")
        gains[kind] = heights[-1] - heights[steps.index(800)]
    wider = ", ".join(f"{lead:.2f}" for lead in leads)
    late = ", ".join(f"{kind} {gain:+.2f}" for kind, gain in gains.items())
    return (
        f"After {STEPS:,} updates ({n_seeds} seeds) the convolution leads local attention by {wider} at widths 8, 16 and 32. "
        f"It also leads at equal cost: with {study.scores(small, 'parameters')[0]:,} parameters it reaches {by_name[small]:.2f}, "
        f"local attention with {study.scores(large, 'parameters')[0]:,} reaches {by_name[large]:.2f}. Attention over the whole "
        f"picture reaches {by_name['whole picture, width 16']:.2f} at width 16, local attention "
        f"{by_name['local attention, width 16']:.2f}. From update 800 to {STEPS:,} the networks of width 16 gain: {late}; "
        "where a gain is large, training had not converged, and the result is one about speed of learning, not about the layer."
    )
