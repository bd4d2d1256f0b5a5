"""Same or different at opposite borders: does one non-local block help more than further convolutions, strides or another pool?

Rivals: three convolutions; these with one non-local block, in its dot-product form or with a softmax; five convolutions, without
and with one more stride, or with the last two dilated; three with max pooling in place of average pooling. The lecture's
networks and data.

Budget: 2,400 updates with 16 scenes each, twice those of the lecture, three seeds. About 8 minutes on one CPU thread. On a GPU: four
times the width, too.
"""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import NonLocal, NonLocalBlock, associative_dot_product
from course_lib.blocks import ConvNet
from course_tools.lectures.lecture_09.same_or_different import same_or_different
from course_lib.training import batches, train

STEPS, LOOKS = 2_400, (300, 600, 900, 1_200, 1_800, 2_400)


def network(*between, widths=(16, 32, 32), strides=(2, 2, 1), pool=nn.AdaptiveAvgPool2d):
    return nn.Sequential(ConvNet(1, widths, strides), *between, pool(1), nn.Flatten(), nn.Linear(widths[-1], 2))


def dilated(network, n=2):
    """Dilate the last n convolutions by 2: a larger receptive field, the same size of the map."""
    for layer in [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)][-n:]:
        layer.dilation = layer.padding = (2, 2)
    return network


FIVE = (16, 32, 32, 32, 32)
SETTINGS = {
    "three convolutions": lambda: network(),
    "one block": lambda: network(NonLocalBlock(32, NonLocal(32, mechanism=associative_dot_product))),
    "one block, softmax": lambda: network(NonLocalBlock(32, NonLocal(32))),
    "five convolutions, strides 2 2 1 1 1": lambda: network(widths=FIVE, strides=(2, 2, 1, 1, 1)),
    "five convolutions, strides 2 2 2 1 1": lambda: network(widths=FIVE, strides=(2, 2, 2, 1, 1)),
    "five convolutions, the last two dilated": lambda: dilated(network(widths=FIVE, strides=(2, 2, 1, 1, 1))),
    "three convolutions, max pooling": lambda: network(pool=nn.AdaptiveMaxPool2d),
}
GPU_SETTINGS = SETTINGS | {
    "three convolutions, width 128": lambda: network(widths=(64, 128, 128)),
    "one block, width 128": lambda: network(
        NonLocalBlock(128, NonLocal(128, mechanism=associative_dot_product)), widths=(64, 128, 128)
    ),
    "five convolutions, strides 2 2 1 1 1, width 128": lambda: network(widths=(64, *[128] * 4), strides=(2, 2, 1, 1, 1)),
    "five convolutions, strides 2 2 2 1 1, width 128": lambda: network(widths=(64, *[128] * 4), strides=(2, 2, 2, 1, 1)),
}
TOLERANCE = {"accuracy": 0.08, "curve": 0.2}


def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    predicted = torch.cat([model(part).argmax(-1) for part in images.split(100)])
    model.train()
    return (predicted == labels).float().mean().item()


def run(setting, seed, device):
    """Train one network; its accuracy on new scenes, through training and at the end."""
    scenes = same_or_different(4_000, 1, 1_000, side=44, n_kinds=3, seed=seed)
    torch.manual_seed(seed)
    model, curve = setting().to(device), {}
    known, test = ([part.to(device) for part in which] for which in (scenes.train, scenes.test))
    for step in train(model, batches(*known, batch_size=16, seed=seed), loss, steps=STEPS, lr=3e-3, warmup=30):
        if step.index + 1 in LOOKS:
            curve[step.index + 1] = accuracy(model, *test)
    return {"accuracy": curve[STEPS], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def figure(study):
    """Accuracy through training, mean of the seeds."""
    from course_tools.notebook import plots

    lines = {name: study.curve(name) for name in study.names}
    drawn = plots.curves(lines, "step", "accuracy", "as recorded, mean of the seeds", across={"chance": 0.5})
    last = "; ".join(f"{name} {ys[-1]:.2f}" for name, (_, ys) in lines.items())
    return drawn, f"Accuracy on new scenes through {STEPS:,} updates. At the end: {last}."


def finding(study):
    """Accuracy at the end, by seed."""
    rows = {name: study.scores(name, "accuracy") for name in study.names}
    each = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in values)}" for name, values in rows.items())
    return f"Accuracy after {STEPS:,} updates, by seed; chance is 0.5: {each}."
