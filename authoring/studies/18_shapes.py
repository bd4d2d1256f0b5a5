"""Does the shape of a memory decide between correcting and forgetting, when there are more keys than it has rows?

Hot keys as in `18_rewriting`, but the twenty keys of a sequence are drawn from 128, more than any memory here has rows. Three memories of 256
numbers, of 16, 32 and 64 rows, are written by the delta rule or under a forgetting gate for each row (that of gated linear attention), in
the same model. Rows of two numbers cannot tell 16 values apart: the layer norm in front of the read-out leaves a pair one sign.

Budget: 3,600 updates with 64 new sequences each, for both rules: after 1,200, 64 rows of 4 are still improving, the gates more
(from 0.85 to 0.89, the delta rule from 0.88 to 0.90). Rates and first gates are the best of these trials of 1,200, 32 × 8, seed 100:
Adam at 0.01, 0.02 and 0.04 with gates from 0.95 on gave 0.837, 0.845 and 0.844, at 0.02 from 0.993 on 0.841; the delta rule had 0.946
at 0.01 with β from 0.5 on after 600 updates, 0.949 at 0.02, and 0.950 at 0.02 with β from 0.88 on. A quarter of an hour on one CPU
thread. On a GPU: the same settings.
"""

from functools import partial

import torch
import torch.nn.functional as F

from course_lib.training import train
from course_tools.lectures.lecture_18.experiments import KeyValueMemory, delta_rule, gate_rule
from course_tools.lectures.lecture_18.rewritten_keys import N_VALUES, hot_keys, stream

N_KEYS, UPDATES, N_SEQUENCES, N_TESTS = 128, 3_600, 64, 2_000
SHAPES = {"16 × 16": (16, 16), "32 × 8": (32, 8), "64 × 4": (64, 4)}
RULES = {"delta rule": (delta_rule, 2.0, 2e-2), "gate per row": (gate_rule, 3.0, 2e-2)}  # with first logits and rate
SETTINGS = {f"{shape}: {rule}": (rule, sizes) for shape, sizes in SHAPES.items() for rule in RULES}
TOLERANCE = {"accuracy": 0.03, "rewritten keys": 0.05, "keys written once": 0.05, "curve": 0.1}


def run(setting, seed, device):
    """Train one rule on one shape; the share of new questions that it answers, also by kind of key."""
    name, (d_k, d_v) = setting
    rule, begin, rate = RULES[name]
    torch.manual_seed(seed)
    logits = (begin,) * (d_k if rule is gate_rule else 1)
    model = KeyValueMemory(rule, logits, d_k=d_k, d_v=d_v, n_keys=N_KEYS).to(device)
    draw, curve = partial(hot_keys, n_keys=N_KEYS), {}
    tests = next(stream(draw, N_TESTS, 1_000 + seed, device))

    def loss(model, batch):
        return F.cross_entropy(model(*batch[:3]).flatten(0, 1), batch.wanted.flatten())

    for step in train(model, stream(draw, N_SEQUENCES, seed, device), loss, steps=UPDATES, lr=rate, warmup=UPDATES // 10):
        if (step.index + 1) % 600 == 0:
            with torch.no_grad():
                found = (model(*tests[:3]).argmax(-1) == tests.wanted).float()
            curve[step.index + 1] = found.mean().item()
    return {
        "accuracy": curve[UPDATES],
        "rewritten keys": found[:, :4].mean().item(),
        "keys written once": found[:, 4:].mean().item(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "curve": curve,
    }


def figure(study):
    """Accuracy of each rule by the shape of the memory; a point a seed."""
    from matplotlib.figure import Figure

    from course_tools.notebook.style import despine

    drawn, said = Figure(figsize=(5.0, 3.2), layout="constrained"), []
    ax = drawn.subplots()
    for rule, colour, marker in zip(RULES, ("#2a7f9e", "#c44e52"), "Ds", strict=True):
        means = [study.mean(f"{shape}: {rule}", "accuracy") for shape in SHAPES]
        ax.plot(list(SHAPES), means, color=colour, marker=marker, markersize=6, label=rule)
        for shape in SHAPES:
            scores = study.scores(f"{shape}: {rule}", "accuracy")
            ax.plot([shape] * len(scores), scores, ".", color=colour, markersize=5)
        said.append(f"{rule} " + ", ".join(f"{mean:.2f} with {shape}" for shape, mean in zip(SHAPES, means, strict=True)))
    ax.axhline(1 / N_VALUES, color="0.5", linestyle="--", linewidth=1, label="chance")
    ax.set(xlabel="rows × columns of the memory", ylabel="accuracy", xlim=(-0.2, 2.2), ylim=(0, 1.02))
    ax.grid(alpha=0.25)
    despine(ax)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=3, frameon=False)
    return drawn, f"Share of new questions that are answered, means of the seeds: {'; '.join(said)}; chance {1 / N_VALUES:.2f}."


def finding(study):
    """Accuracy by seed, and by kind of key."""
    return "Accuracy by seed; rewritten keys and keys written once: " + "; ".join(
        f"{name} {', '.join(f'{score:.3f}' for score in study.scores(name, 'accuracy'))} "
        f"({study.mean(name, 'rewritten keys'):.2f} and {study.mean(name, 'keys written once'):.2f})"
        for name in study.names
    )
