"""Same or different at opposite borders: one non-local block against more convolutions, strides and another pool, three seeds.

The lecture's networks and data, trained for twice as long. About 6 minutes on one core.

    python authoring/studies/09_reach.py
"""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import NonLocal, NonLocalBlock, associative_dot_product
from course_lib.blocks import ConvNet
from course_lib.datasets import same_or_different
from course_lib.training import batches, train
from course_tools.notebook.recorded_studies import Study

STEPS, LOOKS, SEEDS = 2_400, (300, 600, 900, 1_200, 1_800, 2_400), (0, 1, 2)


def network(*between, widths=(16, 32, 32), strides=(2, 2, 1), pool=nn.AdaptiveAvgPool2d):
    return nn.Sequential(ConvNet(1, widths, strides), *between, pool(1), nn.Flatten(), nn.Linear(widths[-1], 2))


FIVE = (16, 32, 32, 32, 32)
NETWORKS = {
    "three convolutions": lambda: network(),
    "one block": lambda: network(NonLocalBlock(32, NonLocal(32, mechanism=associative_dot_product))),
    "five convolutions, strides 2 2 1 1 1": lambda: network(widths=FIVE, strides=(2, 2, 1, 1, 1)),
    "five convolutions, strides 2 2 2 1 1": lambda: network(widths=FIVE, strides=(2, 2, 2, 1, 1)),
    "three convolutions, largest value": lambda: network(pool=nn.AdaptiveMaxPool2d),
}


def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


@torch.no_grad()
def accuracy(model, test):
    model.eval()
    predicted = torch.cat([model(part).argmax(-1) for part in test.images.split(100)])
    model.train()
    return (predicted == test.labels).float().mean().item()


study = Study(__file__, steps=STEPS, batch_size=16, lr=3e-3, pictures=4_000, tested_on=1_000, side=44)
for name, seed in study.missing(NETWORKS, SEEDS):
    scenes = same_or_different(4_000, 1, 1_000, side=44, n_kinds=3, seed=seed)
    torch.manual_seed(seed)
    model, curve = NETWORKS[name](), {}
    for step in train(model, batches(*scenes.train, batch_size=16, seed=seed), loss, steps=STEPS, lr=3e-3, warmup=30):
        if step.index + 1 in LOOKS:
            curve[step.index + 1] = accuracy(model, scenes.test)
    parameters = sum(p.numel() for p in model.parameters())
    study.record(name, seed, {"accuracy": accuracy(model, scenes.test), "parameters": parameters}, curve)
    print(name, seed, curve, flush=True)
