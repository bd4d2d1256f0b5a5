"""How many pairs of key and value does a memory of fixed size return, if each key is written once?

Multi-query associative recall (Arora et al. 2024, *Zoology*, section 3, https://arxiv.org/abs/2312.04927), without gaps between key and
value: 8, 16, 32 or 64 of 128 keys are written once each, in random order, with one of 16 values. Eight of them are asked for. The model is
that of `18_rewriting`, trained anew for each number of pairs.

Rivals: a sum whose writes have gates, and the delta rule, with memories of 16 × 16 numbers; the delta rule with 32 × 16; softmax
attention with keys and values of 16, which keeps all pairs, two to eight times the numbers of the small memories at 16 to 64 pairs.

Budget: 1,200 updates with 64 new sequences each, Adam at 0.01. With 0.02, 32 pairs and seed 100, all rules come within 0.003 of it. Five
minutes on one CPU thread.
On a GPU: the same settings.
"""

from functools import partial

import torch
import torch.nn.functional as F

from course_lib.training import train
from course_tools.lectures.lecture_18.experiments import KeyValueMemory, RecentSoftmax, delta_rule, sum_rule
from course_tools.lectures.lecture_18.rewritten_keys import N_VALUES, each_key_once, stream

N_KEYS, UPDATES, N_SEQUENCES, N_TESTS = 128, 1_200, 64, 2_000
PAIRS = (8, 16, 32, 64)
RULES = {  # with rows and first logits
    "sum": (sum_rule, 16, 3.0),
    "delta rule": (delta_rule, 16, 2.0),
    "delta rule, 32 × 16": (delta_rule, 32, 2.0),
    "softmax, growing cache": (RecentSoftmax, 16, 0.0),
}
SETTINGS = {f"{rule}, {n} pairs": (rule, n) for rule in RULES for n in PAIRS}
TOLERANCE = {"accuracy": 0.03, "curve": 0.1}


def run(setting, seed, device):
    """Train one rule on sequences of one length; the share of new questions that it answers."""
    name, n_pairs = setting
    rule, rows, begin = RULES[name]
    torch.manual_seed(seed)
    model = KeyValueMemory(rule() if rule is RecentSoftmax else rule, (begin,), d_k=rows, n_keys=N_KEYS).to(device)
    draw, curve = partial(each_key_once, n_pairs=n_pairs, n_keys=N_KEYS), {}
    tests = next(stream(draw, N_TESTS, 1_000 + seed, device))

    def loss(model, batch):
        return F.cross_entropy(model(*batch[:3]).flatten(0, 1), batch.wanted.flatten())

    for step in train(model, stream(draw, N_SEQUENCES, seed, device), loss, steps=UPDATES, lr=1e-2, warmup=UPDATES // 10):
        if (step.index + 1) % 200 == 0:
            with torch.no_grad():
                curve[step.index + 1] = (model(*tests[:3]).argmax(-1) == tests.wanted).float().mean().item()
    return {"accuracy": curve[UPDATES], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def figure(study):
    """Accuracy of each rule by the number of pairs; a point a seed."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook.plots import MARKERS
    from course_tools.notebook.style import despine

    drawn, said = Figure(figsize=(5.0, 3.4), layout="constrained"), []
    ax = drawn.subplots()
    for rule, colour, marker in zip(RULES, sns.color_palette("colorblind"), MARKERS, strict=False):
        means = [study.mean(f"{rule}, {n} pairs", "accuracy") for n in PAIRS]
        ax.plot(PAIRS, means, color=colour, marker=marker, markersize=5, label=rule)
        for n in PAIRS:
            scores = study.scores(f"{rule}, {n} pairs", "accuracy")
            ax.plot([n] * len(scores), scores, ".", color=colour, markersize=5)
        said.append(f"{rule} " + ", ".join(f"{mean:.2f} with {n}" for n, mean in zip(PAIRS, means, strict=True)))
    ax.axhline(1 / N_VALUES, color="0.5", linestyle="--", linewidth=1, label="chance")
    ax.set(xlabel="pairs that are written", ylabel="accuracy", xscale="log", ylim=(0, 1.02))
    ax.set_xticks(PAIRS, map(str, PAIRS))
    ax.set_xticks([], minor=True)
    ax.grid(alpha=0.25)
    despine(ax)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=3, frameon=False)
    return drawn, f"Share of new questions that are answered, means of the seeds: {'; '.join(said)}; chance {1 / N_VALUES:.2f}."


def finding(study):
    """Accuracy by seed."""
    return "Accuracy by seed: " + "; ".join(
        f"{name} {', '.join(f'{score:.3f}' for score in study.scores(name, 'accuracy'))}" for name in study.names
    )
