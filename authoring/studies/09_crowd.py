"""A grey creature has the colour of its kind: does one non-local block find it, and can convolutions or a summary do so, too?

Rivals, all between the same first and last layers: one block as embedded Gaussian, and in the dot-product form; three residual
convolutions of 3 × 3, of which the second is dilated, so that every cell sees every other, with three times the parameters, and
with narrower layers throughout, as many parameters as the block's network; the maximum of each feature in the picture, a hidden
layer, and its result beside the features of every cell. Three controls are the block without a product of query and key: the
weights are the same for all cells, by the keys alone; query and key are added, the concatenation form; or a hidden layer reads
both, as in additive attention. (With one of four further seeds that layer stayed at chance for 750 updates.) Score: the share of
grey creatures, of kinds that no model has met, whose colour is nearest to that of their kind; a guess is right one time in four.

Budget: 2,000 updates with 32 new pictures each, three seeds. Other learning rates, tried on another seed, gave the convolutions and
the summary no more; those of the block and its forms were not tuned. About 25 minutes on one CPU thread. On a GPU: the dilated
convolutions with twice the width.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import associative_dot_product, attend, non_local_concatenation, non_local_embedded_gaussian
from course_lib.training import train
from course_tools.lectures.lecture_09 import rivals
from course_tools.lectures.lecture_09.crowd import draw_crowds, new_crowds, share_right

STEPS, LOOKS = 2_000, (100, 200, 300, 400, 600, 1_000, 1_500, 2_000)
TOLERANCE = {"right": 0.1, "curve": 0.75}


def without_softmax(x, W_theta, W_phi, W_g):
    return associative_dot_product(x @ W_theta.mT, x @ W_phi.mT, x @ W_g.mT)


def keys_alone(x, W_theta, W_phi, W_g):
    """One query for all cells: what a key weighs does not depend on who asks."""
    scores = (x @ W_phi.mT @ W_theta.sum(1)).unsqueeze(-2).expand(-1, x.shape[-2], -1)
    return attend(scores, x @ W_g.mT)


def added(x, W_theta, W_phi, W_g):
    """The concatenation form: a number of the query plus one of the key; the vector w_f is a part of W_theta and W_phi."""
    w_f = x.new_full((2 * len(W_theta),), len(W_theta) ** -0.5)
    return non_local_concatenation(x @ W_theta.mT, x @ W_phi.mT, x @ W_g.mT, w_f)


class Painter(nn.Module):
    """The lecture's network: features of each cell, one non-local block that starts as the identity, a colour of each cell."""

    def __init__(self, form, d=64, d_k=32):
        super().__init__()
        self.form, self.patches, self.head = form, rivals.patches(d), rivals.head(d)
        self.W_theta, self.W_phi, self.W_g = (nn.Parameter(torch.randn(d_k, d) / d**0.5) for _ in range(3))
        self.W_z = nn.Parameter(torch.zeros(d, d_k))

    def forward(self, images):
        x = self.patches(images)
        y = self.form(x.flatten(2).mT, self.W_theta, self.W_phi, self.W_g).context
        return self.head(x + (y @ self.W_z.mT).mT.unflatten(2, x.shape[2:]))


BLOCK, DILATED, POOLED = "non-local block", "dilated convolutions", "max pooling and a hidden layer"
SETTINGS = {
    BLOCK: (partial(Painter, non_local_embedded_gaussian), 5e-3),
    f"{BLOCK}, dot product": (partial(Painter, without_softmax), 5e-3),
    f"{BLOCK}, query and key added": (partial(Painter, added), 5e-3),
    f"{BLOCK}, keys alone": (partial(Painter, keys_alone), 5e-3),
    f"{BLOCK}, a hidden layer over both": (rivals.AdditivePainter, 5e-3),
    DILATED: (rivals.dilated, 2e-3),
    f"{DILATED}, narrow": (partial(rivals.dilated, 36, 128), 2e-3),
    POOLED: (rivals.pooled, 5e-3),
}
GPU_SETTINGS = SETTINGS | {f"{DILATED}, width 128": (partial(rivals.dilated, 128), 2e-3)}


def loss(model, crowds):
    """The squared error of the colours of the grey creatures."""
    given = model(2 * crowds.images - 1).flatten(2).mT
    return F.mse_loss(given[crowds.is_grey], crowds.colours[crowds.is_grey])


@torch.no_grad()
def right(model, crowds):
    model.eval()
    share = share_right(model(2 * crowds.images - 1), crowds)
    model.train()
    return share


def run(setting, seed, device):
    """Train one network; the share of grey creatures of new kinds that it paints right, through training and at the end."""
    make, rate = setting
    unseen = draw_crowds(500, torch.Generator().manual_seed(1_000 + seed), unseen=True)
    torch.manual_seed(seed)
    model, curve = make().to(device), {}
    for step in train(model, new_crowds(seed), loss, steps=STEPS, lr=rate, warmup=STEPS // 10):
        if step.index + 1 in LOOKS:
            curve[step.index + 1] = right(model, unseen)
    return {"right": curve[STEPS], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def figure(study):
    """The share painted right through training, mean of the seeds, and at the end by seed."""
    from course_tools.notebook import plots

    shown = {
        BLOCK: BLOCK,
        f"{BLOCK}, dot product": "without a softmax (section 7)",
        f"{BLOCK}, a hidden layer over both": "a hidden layer over both",
        POOLED: "summary",
        f"{BLOCK}, query and key added": "one number of each",
        f"{BLOCK}, keys alone": "keys alone",
        f"{DILATED}, narrow": "narrow convolutions",
        DILATED: DILATED,
    }
    lines = {label: study.curve(name) for name, label in shown.items()}
    title = "new kinds, mean of the seeds; dots: each seed at the end"
    drawn = plots.curves(lines, "update", "share painted right", title, across={"chance": 0.25})
    for line, name in zip(drawn.axes[0].lines, shown, strict=False):
        scores = study.scores(name, "right")
        drawn.axes[0].plot([STEPS] * len(scores), scores, ".", color=line.get_color(), markersize=5)
    last = "; ".join(f"{label} {ys[-1]:.2f}" for label, (_, ys) in lines.items())
    return drawn, f"Share of grey creatures of new kinds painted right through {STEPS:,} updates. At the end: {last}."


def finding(study):
    """The share painted right at the end, by seed."""
    rows = {name: study.scores(name, "right") for name in study.names}
    each = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in values)}" for name, values in rows.items())
    return f"Share of grey creatures painted right after {STEPS:,} updates, by seed; a guess is right in 0.25: {each}."
