"""Does the same digit come out again from a wall: does one space-time block help more than convolutions, means or maxima?

Rivals: frames alone; a non-local block within each frame; the mean over all positions of all frames, concatenated; a temporal
convolution of the frames' means; convolutions of 3 × 3 × 3 with a stride; max pooling in place of average pooling; and one
block over all positions, in the dot-product form and as embedded Gaussian. After each stands a layer for each position with a
ReLU, so that any of them could compare. Three kinds of digits, four frames of 16 × 42 pixels (`moving_digits`).

Budget: 1,200 updates with 16 videos each, three seeds. About 7 minutes on one CPU thread. On a GPU: also two
blocks, and four convolutions of 3 × 3 × 3.
"""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import NonLocal, NonLocalBlock, associative_dot_product
from course_lib.blocks import ConvNet
from course_lib.metrics import count_operations
from course_lib.training import batches, train
from course_tools.lectures.lecture_09.data import moving_digits

STEPS, LOOKS, WIDTH = 1_200, (200, 400, 600, 800, 1_000, 1_200), 32


class EachFrame(nn.Module):
    """Apply a network of pictures to each frame of videos: (B, C, T, H, W) to (B, C', T, H', W')."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, videos):
        frames = videos.transpose(1, 2).flatten(0, 1)
        return self.network(frames).unflatten(0, (len(videos), -1)).transpose(1, 2)


class BesideMean(nn.Module):
    """Concatenate the mean over all positions of all frames: (B, C, T, H, W) to (B, 2 C, T, H, W)."""

    def forward(self, x):
        return torch.cat([x, x.mean((2, 3, 4), keepdim=True).expand_as(x)], dim=1)


def convolved(d_in, size, stride=1):
    """A convolution in space and time, a norm and a ReLU."""
    padding = tuple(n // 2 for n in size)
    return nn.Sequential(nn.Conv3d(d_in, WIDTH, size, stride, padding, bias=False), nn.BatchNorm3d(WIDTH), nn.ReLU())


def block(**form):
    return NonLocalBlock(WIDTH, NonLocal(WIDTH, **form))


def network(*between, d=WIDTH, pool=nn.AdaptiveAvgPool3d):
    """Convolutions in each frame, what mixes positions, a layer for each position, pooling, two logits."""
    frames = EachFrame(ConvNet(1, (16, WIDTH, WIDTH), (2, 2, 1)))
    return nn.Sequential(frames, *between, convolved(d, (1, 1, 1)), pool(1), nn.Flatten(), nn.Linear(WIDTH, 2))


SETTINGS = {
    "frames alone": lambda: network(),
    "block within frames": lambda: network(EachFrame(block(mechanism=associative_dot_product))),
    "space-time mean": lambda: network(BesideMean(), d=2 * WIDTH),
    "temporal convolution": lambda: network(nn.AdaptiveAvgPool3d((None, 1, 1)), convolved(WIDTH, (5, 1, 1))),
    "3-D convolutions": lambda: network(convolved(WIDTH, (3, 3, 3), (1, 2, 2)), convolved(WIDTH, (3, 3, 3))),
    "max pooling": lambda: network(pool=nn.AdaptiveMaxPool3d),
    "space-time block, dot product": lambda: network(block(mechanism=associative_dot_product)),
    "space-time block, softmax": lambda: network(block()),
}
GPU_SETTINGS = SETTINGS | {
    "two space-time blocks, dot product": lambda: network(*(block(mechanism=associative_dot_product) for _ in range(2))),
    "two space-time blocks, softmax": lambda: network(block(), block()),
    "3-D convolutions, four": lambda: network(
        convolved(WIDTH, (3, 3, 3), (1, 2, 2)), *(convolved(WIDTH, (3, 3, 3)) for _ in range(3))
    ),
}
TOLERANCE = {"accuracy": 0.08, "curve": 0.2}


def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


@torch.no_grad()
def accuracy(model, videos, labels):
    model.eval()
    predicted = torch.cat([model(part).argmax(-1) for part in videos.split(100)])
    model.train()
    return (predicted == labels).float().mean().item()


def run(setting, seed, device):
    """Train one network; its accuracy on new videos, through training and at the end, and what it costs."""
    parts = moving_digits(4_000, 1, 1_000, n_times=4, height=16, n_kinds=3, seed=seed)
    known, test = ([part.to(device) for part in which] for which in (parts.train, parts.test))
    torch.manual_seed(seed)
    model, curve = setting().to(device), {}
    for step in train(model, batches(*known, batch_size=16, seed=seed), loss, steps=STEPS, lr=3e-3, warmup=30):
        if step.index + 1 in LOOKS:
            curve[step.index + 1] = accuracy(model, *test)
    cost = count_operations(model, lambda: accuracy(model, test[0][:1], test[1][:1]))
    return {"accuracy": curve[STEPS], "parameters": cost.parameters, "multiply-adds": cost.multiply_adds, "curve": curve}


def figure(study):
    """Accuracy through training, mean of the seeds."""
    from course_tools.notebook import plots

    lines = {name: study.curve(name) for name in study.names}
    drawn = plots.curves(lines, "update", "accuracy", "as recorded, mean of the seeds", across={"chance": 0.5})
    last = "; ".join(f"{name} {ys[-1]:.2f}" for name, (_, ys) in lines.items())
    return drawn, f"Accuracy on new videos through {STEPS:,} updates. At the end: {last}."


def finding(study):
    """Accuracy at the end, by seed, and what the last third of the updates gains."""
    rows = {name: study.scores(name, "accuracy") for name in study.names}
    each = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in values)}" for name, values in rows.items())
    late = {name: ys[-1] - ys[-3] for name in study.names for _, ys in [study.curve(name)]}
    gains = ", ".join(f"{name} {gain:+.2f}" for name, gain in late.items())
    return (
        f"Accuracy after {STEPS:,} updates, by seed; chance is 0.5: {each}. "
        f"The last third of the updates gains, mean of the seeds: {gains}."
    )
