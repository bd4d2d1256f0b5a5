"""Which memory of fixed size finds the newest value of a key, when some keys are rewritten: one that adds, forgets or corrects?

64 writes of values under keys: four hot keys, new in each sequence, twelve times each and sixteen keys once. Eight questions ask for the
newest value of a key, one of 16; half of them ask for the four. All rules share one model, whose single head has keys and values of
size 16, so that a memory has 256 numbers; keys have length 1, and gates depend on the written key and value.

Rivals: a sum whose writes have gates; a forgetting gate for the head (Mamba-2's form); one for each channel of the keys (that of gated linear
attention), which has 975 more weights; the delta rule with a forgetting gate; and softmax with a learned temperature and a learned
bias for recent writes, whose cache of 64 keys and values is eight times as large.

Budget: 64 new sequences in each update; 1,200 updates, and 3,600 for the gates without delta rule, which are still improving then. Adam
at 0.01, and at 0.005 for the gates without delta rule: after 1,800 updates with 0.003, 0.005, 0.01 and 0.02, seed 0, the gate of a head
reaches 0.86, 0.86, 0.86 and 0.87, and with the first three the gates of channels 0.92, 0.93 and 0.92. Gates begin at 0.95, or at 0.99
beside a delta rule, and β at 0.5. Five minutes on one CPU thread. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F

from course_lib.training import train
from course_tools.lectures.lecture_18.experiments import KeyValueMemory, RecentSoftmax, delta_rule, gate_rule, sum_rule
from course_tools.lectures.lecture_18.rewritten_keys import N_VALUES, hot_keys, stream

N_SEQUENCES, N_TESTS, OPEN = 64, 2_000, 3.0
SETTINGS = {  # a rule, the logits at which its gates begin, its rate and its updates
    "sum": (sum_rule, (OPEN,), 1e-2, 1_200),
    "gate": (gate_rule, (OPEN,), 5e-3, 3_600),
    "gate per channel": (gate_rule, (OPEN,) * 16, 5e-3, 3_600),
    "delta rule": (delta_rule, (0.0,), 1e-2, 1_200),
    "delta rule with gate": (delta_rule, (0.0, 5.0), 1e-2, 1_200),
    "softmax, growing cache": (RecentSoftmax, (0.0,), 1e-2, 1_200),
}
TOLERANCE = {"accuracy": 0.03, "rewritten keys": 0.05, "keys written once": 0.05, "curve": 0.1}


def run(setting, seed, device):
    """Train one rule; the share of new questions that it answers, also by kind of key."""
    rule, logits, rate, updates = setting
    torch.manual_seed(seed)
    model, curve = KeyValueMemory(rule() if rule is RecentSoftmax else rule, logits).to(device), {}
    tests = next(stream(hot_keys, N_TESTS, 1_000 + seed, device))

    def loss(model, batch):
        return F.cross_entropy(model(*batch[:3]).flatten(0, 1), batch.wanted.flatten())

    for step in train(model, stream(hot_keys, N_SEQUENCES, seed, device), loss, steps=updates, lr=rate, warmup=updates // 10):
        if (step.index + 1) % 200 == 0:
            with torch.no_grad():
                found = (model(*tests[:3]).argmax(-1) == tests.wanted).float()
            curve[step.index + 1] = found.mean().item()
    return {
        "accuracy": curve[updates],
        "rewritten keys": found[:, :4].mean().item(),
        "keys written once": found[:, 4:].mean().item(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "curve": curve,
    }


def figure(study):
    """Accuracy by the number of updates."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook.plots import MARKERS

    drawn, said = Figure(figsize=(5.4, 3.6), layout="constrained"), []
    ax = drawn.subplots()
    for name, colour, marker in zip(study.names, sns.color_palette("colorblind"), MARKERS, strict=False):
        updates, means = study.curve(name)
        ax.plot(updates, means, color=colour, marker=marker, markersize=3.5, linewidth=1.3, label=name)
        scores = study.scores(name, "accuracy")
        ax.plot([updates[-1]] * len(scores), scores, ".", color=colour, markersize=5)
        said.append(f"{name} {study.mean(name, 'accuracy'):.2f} after {updates[-1]:,} updates")
    ax.axhline(1 / N_VALUES, color="0.5", linestyle="--", linewidth=1, label="chance")
    ax.set(xlabel="updates", ylabel="accuracy", ylim=(0, 1.02), xlim=(0, None))
    ax.grid(alpha=0.25)
    sns.despine(ax=ax)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=3, frameon=False)
    return drawn, f"Share of new questions that are answered, means of the seeds: {'; '.join(said)}."


def finding(study):
    """Accuracy by seed, and by kind of key."""
    return "Accuracy by seed; rewritten keys and keys written once: " + "; ".join(
        f"{name} {', '.join(f'{score:.3f}' for score in study.scores(name, 'accuracy'))} "
        f"({study.mean(name, 'rewritten keys'):.2f} and {study.mean(name, 'keys written once'):.2f})"
        for name in study.names
    )
