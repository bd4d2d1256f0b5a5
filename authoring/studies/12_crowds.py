"""Detectors of crowds: one query for each object, or every cell on an object and suppression of duplicates?

Creatures on photographs, half of them right beside another of their kind. One network of 64 queries, and five ways to train it:
optimal matching; every cell in the middle of an object; the cell nearest to its centre; the order of the list; and optimal
matching without self-attention among the queries. Without a network: patches of one colour and a support vector machine.

Budget: 1,500 updates with 16 of 8,000 scenes each, three seeds, the learning rate 0.003 for all. AP50 on 300 unseen scenes, raw and
after suppression with the best of four thresholds. About 10 minutes on one CPU thread. On a GPU: the same settings.
"""

import torch

from course_lib.datasets import Scenes
from course_lib.losses import match_in_order
from course_lib.training import batches, train
from course_tools.lectures.lecture_12.crowds import draw_crowds
from course_tools.lectures.lecture_12.experiments import THRESHOLDS, Detections, ap50, boxes_per_object, detect, suppressed
from course_tools.lectures.lecture_12.rivals import CrowdDetector, OneColour, nearest_place, one_to_many, one_to_one

STEPS, LOOKS = 1_500, tuple(range(250, 1_501, 250))
TOLERANCE = dict.fromkeys(("ap50", "after suppression at 0.5", "after the best suppression"), 0.05)
TOLERANCE |= {"curve": 0.3, "boxes per object": 0.3}


def in_list_order(model, batch):
    """Object i of the list is given to query i."""
    return one_to_one(model, batch, match_in_order)


SETTINGS = {  # name: (loss, whether queries are alone); None = no network
    "matched": (one_to_one, False),
    "every cell": (one_to_many, False),
    "nearest cell": (nearest_place, False),
    "list order": (in_list_order, False),
    "matched, queries alone": (one_to_one, True),
    "patches of one colour": (None, False),
}


def judge(found, new):
    """Average precision, raw and suppressed, and boxes for each object."""
    after = [ap50(suppressed(found, threshold), new) for threshold in THRESHOLDS]
    return {
        "ap50": ap50(found, new),
        "after suppression at 0.5": after[0],
        "after the best suppression": max(after),
        "boxes per object": boxes_per_object(found, new),
    }


def run(setting, seed, device):
    """Train one detector, and judge it on unseen scenes."""
    loss, alone = setting
    known, new = draw_crowds(8_000, 10 * seed), draw_crowds(300, 10 * seed + 1, unseen=True)
    known, new = (Scenes(*(part.to(device) for part in made)) for made in (known, new))
    if loss is None:
        p, corners = OneColour(Scenes(*(part[:2_000] for part in known))).detect(new.images)
        return judge(Detections(p.to(device), corners.to(device)), new) | {"curve": {}}
    torch.manual_seed(seed)
    model, curve = CrowdDetector(alone).to(device), {}
    for step in train(model, batches(*known, batch_size=16, seed=seed), loss, steps=STEPS, lr=3e-3, warmup=STEPS // 10):
        if step.index + 1 in LOOKS:
            curve[step.index + 1] = ap50(detect(model, new.images), new)
    return judge(detect(model, new.images), new) | {"curve": curve}


def figure(study):
    """Draw AP50 over the updates, means of the seeds; beside it, AP50 of each seed before and after suppression."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook.plots import MARKERS

    drawn, said = Figure(figsize=(6.0, 3.8), layout="constrained"), []
    left, right = drawn.subplots(1, 2, sharey=True)
    for name, marker, colour in zip(study.names, MARKERS, sns.color_palette("colorblind"), strict=False):
        steps, values = study.curve(name)
        ends = study.scores(name, "ap50"), study.scores(name, "after the best suppression")
        if len(steps):
            left.plot(steps, values, color=colour, marker=marker, markersize=4, label=name)
        for before, after in zip(*ends, strict=True):
            right.plot([0, 1], [before, after], color=colour, marker=marker, markersize=4, linewidth=1, alpha=0.8)
        if not len(steps):
            left.plot([], [], color=colour, marker=marker, markersize=4, label=name)
        said.append(f"{name} {sum(ends[0]) / len(ends[0]):.2f}, after {sum(ends[1]) / len(ends[1]):.2f}")
    left.set(xlabel="update", ylabel="AP50, unseen scenes", ylim=(0, 1), title="through training, no suppression")
    right.set(
        xticks=[0, 1], xticklabels=["none", "best"], xlim=(-0.3, 1.3), xlabel="suppression", title="at the end, each seed"
    )
    for ax in (left, right):
        ax.grid(alpha=0.25)
        ax.title.set_fontsize(10)
        sns.despine(ax=ax)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=3, edgecolor="none")
    return drawn, f"AP50 on unseen scenes at the end, means of the seeds, before and after suppression: {'; '.join(said)}."


def finding(study):
    """Name AP50 before and after suppression, and the boxes for each object."""
    each = "; ".join(
        f"{name} {study.mean(name, 'ap50'):.3f}, after suppression {study.mean(name, 'after the best suppression'):.3f} "
        f"({study.mean(name, 'boxes per object'):.2f} boxes per object)"
        for name in study.names
    )
    return f"AP50 on unseen crowds after {STEPS:,} updates, means of {len(study.of(study.names[0]))} seeds: {each}."
