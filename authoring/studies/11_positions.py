"""Does a Vision Transformer find out from pictures which of its patches are neighbours?

Crops of 48 × 48 pixels of the two photographs of the lecture, cut into 8 × 8 patches, of which three quarters are hidden: one
learned vector stands for each of them. An encoder of the lecture's size (two layers of width 64) has to paint them, and nothing
but its learned position vectors tells it where a patch is. They start at random, with a standard deviation of 0.02.

Budget: 600 updates with 64 crops each, three seeds, learning rate 0.003. Recorded is the cosine between the position vectors of
four patches and those of all patches; the same averaged over all pairs of neighbours, and over all pairs that are at least five
rows or columns apart; and the share of the variance of the hidden pixels that stays unexplained. About two minutes on one CPU
thread. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import scaled_dot_product_attention
from course_lib.blocks import Sizes, encoder_stack, pre_norm
from course_lib.datasets import photographs
from course_lib.primitives import patchify
from course_lib.training import train

STEPS, LR = 600, 3e-3
GRID, P = 8, 6
PLACES = (9, 21, 43, 54)
SIZES = Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=2)
SETTINGS = {"three quarters hidden": 0.75}
TOLERANCE = {"neighbours": 0.05, "far apart": 0.1, "unexplained": 0.05, "curve": 0.05}
TOLERANCE |= {f"{place} to {other}": 0.15 for place in PLACES for other in range(GRID * GRID)}


class Painter(nn.Module):
    """Paint hidden patches (B, N, 3 · P²) from those that are shown."""

    def __init__(self, std=0.02):
        super().__init__()
        self.project, self.paint = nn.Linear(3 * P * P, SIZES.d_model), nn.Linear(SIZES.d_model, 3 * P * P)
        self.hole = nn.Parameter(std * torch.randn(SIZES.d_model))
        self.positions = nn.Parameter(std * torch.randn(GRID * GRID, SIZES.d_model))
        self.stack = encoder_stack(SIZES, scaled_dot_product_attention, F.gelu, residual=pre_norm)

    def forward(self, patches, hidden):
        tokens = torch.where(hidden[..., None], self.hole, self.project(patches))
        return self.paint(self.stack(tokens + self.positions))


def crops(share, seed, device, n=64):
    """Endless batches of patches (n, N, 3 · P²) of random crops, and of which are hidden (n, N)."""
    photos, side, generator = photographs((214, 320)), GRID * P, torch.Generator().manual_seed(seed)
    limits = len(photos), photos.shape[-2] - side + 1, photos.shape[-1] - side + 1
    while True:
        drawn = zip(*(torch.randint(limit, (n,), generator=generator).tolist() for limit in limits), strict=True)
        images = torch.stack([photos[i, :, y : y + side, x : x + side] for i, y, x in drawn])
        hidden = torch.rand(n, GRID * GRID, generator=generator) < share
        yield (4 * patchify(images, P).float() - 2).to(device), hidden.to(device)


def loss_of(model, batch):
    """The mean squared error of the hidden pixels."""
    patches, hidden = batch
    return F.mse_loss(model(patches, hidden)[hidden], patches[hidden])


@torch.no_grad()
def cosines(model):
    """The cosine of each pair of position vectors (N, N)."""
    each = F.normalize(model.positions, dim=-1)
    return (each @ each.mT).cpu()


def run(share, seed, device):
    """Train one model; the cosines of its position vectors, and those of neighbours through training."""
    torch.manual_seed(seed)
    model, curve = Painter().to(device), {}
    cells = torch.cartesian_prod(*[torch.arange(GRID)] * 2)
    apart = (cells - cells[:, None]).abs()  # (N, N, 2)
    beside, far = apart.sum(-1) == 1, apart.amax(-1) >= 5
    for step in train(model, crops(share, seed, device), loss_of, steps=STEPS, lr=LR, warmup=STEPS // 10):
        if step.index == 0 or (step.index + 1) % 100 == 0:
            curve[step.index + 1] = cosines(model)[beside].mean().item()
    with torch.no_grad():
        patches, hidden = next(crops(share, 1_000 + seed, device, n=1_000))
        left = loss_of(model, (patches, hidden)).item() / patches[hidden].var().item()
    found = cosines(model)
    maps = {f"{place} to {other}": found[place, other].item() for place in PLACES for other in range(GRID * GRID)}
    ends = {"neighbours": found[beside].mean().item(), "far apart": found[far].mean().item(), "unexplained": left}
    return ends | maps | {"parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def finding(study):
    """Name the mean cosines, by seed."""

    def by_seed(score):
        return ", ".join(f"{value:.2f}" for value in study.scores("three quarters hidden", score))

    return (
        f"Mean cosine of the position vectors of neighbours, by seed: {by_seed('neighbours')}; of patches at least five rows or "
        f"columns apart: {by_seed('far apart')}. Of the variance of hidden pixels, {by_seed('unexplained')} stays unexplained."
    )
