"""Local attention or filters: which restores stained glass whose colour channels have noise of different strength?

The noise has a standard deviation of 0.4 in red, 0.2 in green and 0.05 in blue. Networks of about 1,000 parameters that see 5 × 5
pixels: one layer of local attention; a convolution and a ReLU; a depth-wise separable convolution; two convolutions of 3 × 3. Two
layers of attention of 5 × 5 with 12 features (1,071 parameters), and two convolutions of 3 × 3 with 32 features (10,243). No network:
the bilateral filter without the pixel itself, once or twice in windows of 5 × 5, its widths the best on images like those of the
training; and both told how noisy each channel is: they divide each by its noise first. Images of 16 × 16 pixels, six panes; score:
peak signal-to-noise ratio on 500 new images.

Budget: 2,000 updates with eight new images each, three seeds; also 10,000 for one layer of attention, the best convolution of its size
and the convolutions with 32 features. The rates are the best with seed 0, or within 0.06 dB of it: of 0.01,
0.02, 0.04, 0.06 and 0.1 for attention after 600 updates; of 0.01, 0.03 and 0.05 for the convolutions after 2,000, and of 0.003 and
0.02 for those with 32 features. About seven minutes on one CPU thread. On a GPU: the same settings.
"""

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import LocalAttention
from course_lib.fast import tiled_local_attention
from course_lib.training import train
from course_tools.bank.stained_glass import UNEVEN, decibels, uneven_glass
from course_tools.lectures.lecture_10 import rivals

STEPS, LONGER, LOOKS = 2_000, 10_000, (50, 100, 200, 400, 600, 1_000, 1_400, 2_000, 3_000, 4_000, 5_000, 7_000, 9_000, 10_000)
TOLERANCE = {"dB": 0.3, "curve": 1.0}


class Attending(nn.Module):
    """The lecture's network, in a faster form: features of each pixel, layers of local attention, a colour of each pixel."""

    def __init__(self, *sizes, d=16, n_heads=2):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, d, 1), nn.Conv2d(d, 3, 1)
        self.layers = nn.ModuleList(LocalAttention(d, d, n_heads, size, mechanism=tiled_local_attention) for size in sizes)

    def forward(self, x):
        x = self.stem(x).relu()
        for layer in self.layers:
            x = layer(x).context
        return self.head(x)


NETWORKS = {  # name: (network, learning rate)
    "local attention": (partial(Attending, 5), 6e-2),
    "two layers of local attention": (partial(Attending, 5, 5, d=12), 6e-2),
    "convolution": (partial(rivals.convolution, 5), 1e-2),
    "separable convolution": (partial(rivals.separable, 5), 3e-2),
    "convolutions of 3 × 3": (partial(rivals.stack, 5), 3e-2),
    "convolutions of 3 × 3, 32 features": (partial(rivals.stack, 5, 32), 3e-2),
}
FILTERS = {  # name: (told, twice)
    "filter": (False, False),
    "filter, twice": (False, True),
    "filter, told": (True, False),
    "filter, told, twice": (True, True),
}
TO_THE_END = ("local attention", "separable convolution", "convolutions of 3 × 3, 32 features")
SETTINGS = {name: (*network, STEPS) for name, network in NETWORKS.items()} | FILTERS
SETTINGS |= {f"{name}, {LONGER:,} updates": (*NETWORKS[name], LONGER) for name in TO_THE_END}


@cache
def examples(seed, device):
    """500 new images, noisy and clean, and 200 others to choose the widths of the filter by."""
    return [[part.to(device) for part in next(uneven_glass(1_000 + seed + extra, n))] for extra, n in ((0, 500), (500, 200))]


def filtered(told, twice, seed, device):
    """The ratio of the bilateral filter on new images, its widths the best on others."""
    scale = torch.tensor(UNEVEN, device=device).view(3, 1, 1) / 0.2 if told else torch.ones((), device=device)
    (noisy, clean), others = examples(seed, device)
    others = [part / scale for part in others]
    if twice:
        restored = rivals.twice(noisy / scale, 5, *rivals.best_twice(*others, 5))
    else:
        widths = rivals.best_bilateral_filter(*others, 5, itself=False)
        restored = rivals.bilateral_filter(noisy / scale, 5, *widths, itself=False)
    return {"dB": decibels(scale * restored, clean)}


def run(setting, seed, device):
    """Train one network, or choose the widths of the filter; the ratio on new images, through training, too."""
    if len(setting) == 2:
        return filtered(*setting, seed, device)
    made, rate, steps = setting
    torch.manual_seed(seed)
    model, curve = made().to(device), {}
    noisy, clean = examples(seed, device)[0]

    def loss(model, batch):
        given, wanted = (part.to(device) for part in batch)
        return F.mse_loss(model(given), wanted)

    for step in train(model, uneven_glass(seed), loss, steps=steps, lr=rate, warmup=steps // 10):
        if step.index + 1 in LOOKS:
            with torch.no_grad():
                curve[step.index + 1] = decibels(model(noisy), clean)
    return {"dB": curve[steps], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def finding(study):
    """The ratio of each, the best first, with the range of the seeds."""
    ranges = {name: sorted(study.scores(name, "dB")) for name in study.names}
    order = sorted(ranges, key=lambda name: -study.mean(name, "dB"))
    said = ", ".join(f"{name} {ranges[name][0]:.2f} to {ranges[name][-1]:.2f}" for name in order)
    return f"Noise of 0.4, 0.2 and 0.05 in red, green and blue, dB ({len(study.of(order[0]))} seeds): {said}."
