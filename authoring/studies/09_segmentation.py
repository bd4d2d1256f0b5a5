"""Which two of three digits are of one kind, pixel by pixel: does attention add more than a mean or further convolutions?

Rivals: no context; the mean of the picture; strided convolutions, interpolated back, with twice the parameters; a non-local
operation; co-occurrent features, alone and, as in the paper, with the mean. Each context is concatenated to the features of four
convolutions, whose receptive field of 23 × 23 pixels covers little more than a digit. A layer for each pixel with a ReLU
follows, so that any of them could compare a digit with the rest. Pictures of 32 × 32 pixels (`twins`). Loss and mIoU are those
of ink alone, of two classes: which pixels are ink can be read off the picture.

Budget: 1,600 updates with 16 pictures each, three seeds. About 5 minutes on one CPU thread. On a GPU: also wider
strided convolutions, and the non-local operation with the mean.
"""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import CoOccurrent, NonLocal
from course_lib.blocks import ContextOf, ConvNet
from course_tools.lectures.lecture_09.same_or_different import ALONE, PAPER, TWIN, twins
from course_lib.metrics import class_ious, count_operations
from course_lib.models import Segmenter
from course_tools.lectures.lecture_09.global_average import GlobalAverage
from course_lib.training import batches, train

STEPS, LOOKS, WIDTH = 1_600, (200, 400, 600, 800, 1_000, 1_200, 1_400, 1_600), 32


class Strided(ConvNet):
    """Convolutions with strides, their map interpolated back: (B, d_in, H, W) to (B, d_out, H, W)."""

    def forward(self, x):
        return F.interpolate(super().forward(x), x.shape[2:], mode="bilinear", align_corners=False)


SETTINGS = {
    "no context": lambda: (),
    "mean": lambda: (GlobalAverage(WIDTH),),
    "strided convolutions": lambda: (Strided(WIDTH, (WIDTH,) * 3, (2, 2, 1)),),
    "non-local": lambda: (ContextOf(NonLocal(WIDTH)),),
    "co-occurrent": lambda: (ContextOf(CoOccurrent(WIDTH, WIDTH, WIDTH // 2)),),
    "co-occurrent and mean": lambda: (ContextOf(CoOccurrent(WIDTH, WIDTH, WIDTH // 2)), GlobalAverage(WIDTH)),
}
GPU_SETTINGS = SETTINGS | {
    "strided convolutions, twice as wide": lambda: (Strided(WIDTH, (2 * WIDTH,) * 3, (2, 2, 1)),),
    "non-local and mean": lambda: (ContextOf(NonLocal(WIDTH)), GlobalAverage(WIDTH)),
}
TOLERANCE = {"mIoU": 0.05, "IoU of twins": 0.1, "curve": 0.15}


class InContext(nn.Module):
    """Four convolutions, contexts beside them, and a layer for each pixel: (B, 1, H, W) to (B, WIDTH, H / 4, W / 4)."""

    def __init__(self, contexts):
        super().__init__()
        self.convolutions, self.contexts = ConvNet(1, (16, WIDTH, WIDTH, WIDTH), (2, 2, 1, 1)), nn.ModuleList(contexts)
        d_in = WIDTH + sum(context.d_out for context in contexts)
        self.layer = nn.Sequential(nn.Conv2d(d_in, WIDTH, 1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU())
        self.d_out = WIDTH

    def forward(self, images):
        x = self.convolutions(images)
        return self.layer(torch.cat([x, *(context(x) for context in self.contexts)], dim=1))


def loss(model, batch):
    images, labels = batch
    return F.cross_entropy(model(images), labels - ALONE, ignore_index=PAPER - ALONE)


@torch.no_grad()
def ious(model, images, labels):
    """The IoU of each class of ink on unseen pictures."""
    model.eval()
    predicted = torch.cat([model(part).argmax(1) for part in images.split(100)])
    model.train()
    ink = labels != PAPER
    return class_ious(predicted[ink], labels[ink] - ALONE, 2)


def run(setting, seed, device):
    """Train one network; its mIoU on unseen pictures, through training and at the end, and what it costs."""
    scenes = twins(4_000, 1, 500, n_digits=3, n_cells=2, seed=seed)
    known, test = ([part.to(device) for part in which] for which in (scenes.train, scenes.test))
    torch.manual_seed(seed)
    model, curve = Segmenter(InContext(setting()), 2).to(device), {}
    for step in train(model, batches(*known, batch_size=16, seed=seed), loss, steps=STEPS, lr=3e-3, warmup=30):
        if step.index + 1 in LOOKS:
            reached = ious(model, *test)
            curve[step.index + 1] = reached.mean().item()
    cost = count_operations(model, lambda: ious(model, test[0][:1], test[1][:1]))
    return {
        "mIoU": curve[STEPS],
        "IoU of twins": reached[TWIN - ALONE].item(),
        "parameters": cost.parameters,
        "multiply-adds": cost.multiply_adds,
        "curve": curve,
    }


def figure(study):
    """mIoU through training, mean of the seeds."""
    from course_tools.notebook import plots

    lines = {name: study.curve(name) for name in study.names}
    drawn = plots.curves(lines, "update", "mIoU", "as recorded, mean of the seeds", across={"one class for all": 1 / 3})
    last = "; ".join(f"{name} {ys[-1]:.2f}" for name, (_, ys) in lines.items())
    return drawn, f"mIoU on new images through {STEPS:,} updates. At the end: {last}."


def finding(study):
    """mIoU at the end, by seed, and what the last quarter of the updates gains."""
    rows = {name: study.scores(name, "mIoU") for name in study.names}
    each = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in values)}" for name, values in rows.items())
    late = {name: ys[-1] - ys[-3] for name in study.names for _, ys in [study.curve(name)]}
    gains = ", ".join(f"{name} {gain:+.2f}" for name, gain in late.items())
    return (
        f"mIoU after {STEPS:,} updates, by seed; 0.33 is reached by one class for all ink: {each}. "
        f"The last quarter of the updates gains, mean of the seeds: {gains}."
    )
