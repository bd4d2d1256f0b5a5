"""Which memory of fixed size answers where the subject changes: one that forgets, one that corrects, or one that does both?

48 writes to twelve keys, new in each sequence; one of them, at a random place, is a marker, which makes void all that was written before.
Eight questions ask for the newest value of a key since the marker, one of 15, or "none". The model is that of `18_rewriting`, with a
memory of 16 × 16 numbers.

Rivals: a forgetting gate for the head; one for each row; the delta rule; both, a gate for the head and the delta rule; and softmax with a
learned temperature and a learned bias for recent writes, whose cache of 48 keys and values is six times as large.

Budget: 1,200 updates with 64 new sequences each. Rates and first gates are the best of these trials of 600 updates, seed 100:
the delta rule with its gate 0.988 at 0.01, 0.987 at 0.02, 0.987 at 0.005; the gate 0.956 at 0.01, 0.956 at 0.02, 0.956 at
0.005, 0.946 at 0.005 from logit 5 on; the gates of rows 0.948 at 0.01, 0.943 at 0.02, 0.955 at 0.005, 0.938 at 0.005 from
logit 5 on; the delta rule 0.946 at 0.01, 0.946 at 0.02, 0.944 at 0.005, 0.943 at 0.01 from logit 2 on; softmax 0.954 at 0.01,
0.998 at 0.02. Two minutes on one CPU thread. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F

from course_lib.training import train
from course_tools.lectures.lecture_18.experiments import KeyValueMemory, RecentSoftmax, delta_rule, gate_rule
from course_tools.lectures.lecture_18.rewritten_keys import N_VALUES, new_subject, stream

N_SEQUENCES, N_TESTS, UPDATES = 64, 2_000, 1_200
SETTINGS = {  # a rule, the logits at which its gates begin, and its rate
    "delta rule with gate": (delta_rule, (0.0, 5.0), 0.01),
    "gate": (gate_rule, (3.0,), 0.005),
    "gate per row": (gate_rule, (3.0,) * 16, 0.005),
    "delta rule": (delta_rule, (0.0,), 0.01),
    "softmax, growing cache": (RecentSoftmax, (0.0,), 0.02),
}
TOLERANCE = {"accuracy": 0.03, "values": 0.05, "none": 0.05, "curve": 0.1}


def run(setting, seed, device):
    """Train one rule; the share of new questions that it answers, also of those whose answer is a value, and is "none"."""
    rule, logits, rate = setting
    torch.manual_seed(seed)
    model, curve = KeyValueMemory(rule() if rule is RecentSoftmax else rule, logits).to(device), {}
    tests = next(stream(new_subject, N_TESTS, 1_000 + seed, device))
    void = tests.wanted == N_VALUES - 1

    def loss(model, batch):
        return F.cross_entropy(model(*batch[:3]).flatten(0, 1), batch.wanted.flatten())

    sequences = stream(new_subject, N_SEQUENCES, seed, device)
    for step in train(model, sequences, loss, steps=UPDATES, lr=rate, warmup=UPDATES // 10):
        if (step.index + 1) % 200 == 0:
            with torch.no_grad():
                found = (model(*tests[:3]).argmax(-1) == tests.wanted).float()
            curve[step.index + 1] = found.mean().item()
    return {
        "accuracy": curve[UPDATES],
        "values": found[~void].mean().item(),
        "none": found[void].mean().item(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "curve": curve,
    }


def figure(study):
    """Errors of each rule, on keys whose value still counts and on keys whose value is void; a point a seed."""
    from matplotlib.figure import Figure

    from course_tools.notebook.style import despine

    drawn, said = Figure(figsize=(6.0, 2.9), layout="constrained"), []
    ax = drawn.subplots()
    gone, kept = ("none", "gone: not written since the marker"), ("values", "kept: written since the marker")
    for (kind, label), colour, offset in ((gone, "#c44e52", -0.19), (kept, "#2a7f9e", 0.19)):
        wrong = [[1 - score for score in study.scores(name, kind)] for name in study.names]
        rows, means = [i + offset for i in range(len(wrong))], [sum(scores) / len(scores) for scores in wrong]
        ax.barh(rows, means, 0.36, color=colour, alpha=0.75, label=label)
        for row, scores in zip(rows, wrong, strict=True):
            ax.plot(scores, [row] * len(scores), ".", color="0.15", markersize=4)
    for name in study.names:
        said.append(f"{name} {1 - study.mean(name, 'none'):.3f} and {1 - study.mean(name, 'values'):.3f}")
    ax.set_yticks(range(len(study.names)), study.names)
    ax.set(xlabel="share of questions that are answered wrongly", xlim=(0, None))
    ax.invert_yaxis()
    ax.grid(axis="x", alpha=0.25)
    despine(ax)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=2, frameon=False)
    return drawn, f"Share of wrong answers, means of the seeds, on keys that are gone and that are kept: {'; '.join(said)}."


def finding(study):
    """Accuracy by seed, and by kind of question."""
    return 'Accuracy by seed; where the answer is a value, and where it is "none": ' + "; ".join(
        f"{name} {', '.join(f'{score:.3f}' for score in study.scores(name, 'accuracy'))} "
        f"({study.mean(name, 'values'):.2f} and {study.mean(name, 'none'):.2f})"
        for name in study.names
    )
