"""Where does the summary end, the rival of the non-local block that is still rising after 2,000 updates?

The network of the study 09_crowd with the maximum of each feature in the picture, a hidden layer, and its result beside the
features of every cell; the same crowds, score and learning rate. Its rate now rises and falls within the longer training.

Budget: 10,000 updates with 32 new pictures each, three seeds. About six minutes on one CPU thread. On a GPU: the same.
"""

import torch
import torch.nn.functional as F

from course_lib.training import train
from course_tools.lectures.lecture_09 import rivals
from course_tools.lectures.lecture_09.crowd import draw_crowds, new_crowds, share_right

STEPS, LOOKS = 10_000, (1_000, 2_000, 3_000, 5_000, 7_000, 9_000, 10_000)
SETTINGS = {"summary": 5e-3}  # name: learning rate
TOLERANCE = {"right": 0.1, "curve": 0.75}


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


def run(rate, seed, device):
    """Train it; the share of grey creatures of new kinds that it paints right, through training and at the end."""
    unseen = draw_crowds(500, torch.Generator().manual_seed(1_000 + seed), unseen=True)
    torch.manual_seed(seed)
    model, curve = rivals.pooled().to(device), {}
    for step in train(model, new_crowds(seed), loss, steps=STEPS, lr=rate, warmup=STEPS // 10):
        if step.index + 1 in LOOKS:
            curve[step.index + 1] = right(model, unseen)
    return {"right": curve[STEPS], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def finding(study):
    """The share painted right, by seed."""
    last = ", ".join(f"{value:.2f}" for value in study.scores("summary", "right"))
    return f"Share of grey creatures painted right by the summary after {STEPS:,} updates, by seed: {last}."
