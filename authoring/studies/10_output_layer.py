"""Local attention and digits: is a linear layer after the attention enough to read strokes?

The network of the study 10_larger_pictures at width 16, two residual layers of local attention in windows of 3 × 3 with four
heads, and in each a linear layer W_o at every pixel between the attention and its norm: 512 more weights. A head averages; a
linear layer after it can subtract what two heads found. Same digits of 14 × 14 pixels, same splits.

Budget: 2,000 updates with 64 digits each, three seeds, at one learning rate, while those of 10_larger_pictures have the best of
four. About five minutes on one CPU thread. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import LocalAttention
from course_lib.datasets import mnist, split
from course_lib.fast import sliced_local_attention
from course_lib.training import batches, train

SIDE, SIZE, WIDTH, STEPS, RATE = 14, 3, 16, 2_000, 0.06
LOOKS = (200, 400, 700, 1_000, 1_400, 2_000)
TOLERANCE = {"accuracy": 0.03, "curve": 0.2}
SETTINGS = {"local attention and a linear layer, width 16": True}


class Residual(nn.Module):
    """x + ReLU(norm(W_o attention(x))); with a stride, the largest x of each stride × stride pixels."""

    def __init__(self, stride):
        super().__init__()
        self.layer = LocalAttention(WIDTH, WIDTH, 4, SIZE, stride, sliced_local_attention)
        for offsets in (self.layer.rows, self.layer.columns):
            offsets.data.mul_(2.0)
        self.W_o, self.norm = nn.Conv2d(WIDTH, WIDTH, 1, bias=False), nn.BatchNorm2d(WIDTH)
        self.pool = nn.MaxPool2d(stride)

    def forward(self, x):
        return self.pool(x) + self.norm(self.W_o(self.layer(x).context)).relu()


def network():
    """Stem of 1 × 1, a residual layer with a stride, another without, head."""
    stem = (nn.Conv2d(1, WIDTH, 1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU())
    head = (nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(WIDTH, 10))
    return nn.Sequential(*stem, Residual(2), Residual(1), *head)


def run(_, seed, device):
    """Train one network; accuracy on unseen digits, through training and at the end."""
    pictures, labels = mnist()
    images, labels = F.avg_pool2d(pictures, 28 // SIDE).to(device), labels.to(device)
    part = split(range(len(labels)), 3_500, 500, 1_000, seed)
    learn, unseen = (torch.tensor(chosen, device=device) for chosen in (part.train, part.test))

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    torch.manual_seed(seed)
    model, curve = network().to(device), {}
    stream = batches(images[learn], labels[learn], batch_size=64, seed=seed)
    for step in train(model, stream, loss, steps=STEPS, lr=RATE * WIDTH**-0.5, warmup=STEPS // 8):
        if step.index + 1 in LOOKS:
            model.eval()
            with torch.no_grad():
                curve[step.index + 1] = (model(images[unseen]).argmax(-1) == labels[unseen]).float().mean().item()
            model.train()
    return {"accuracy": curve[STEPS], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def finding(study):
    """The accuracy at the end, by seed."""
    (name,) = study.names
    each = ", ".join(f"{score:.3f}" for score in study.scores(name, "accuracy"))
    return f"Accuracy on unseen digits after {STEPS:,} updates, by seed: {name} {each}."
