"""Which memory of fixed size finds the newest value of a key, when some keys are rewritten: one that adds, forgets or corrects?

Values are written under keys, and eight questions ask for the newest value of a key, one of 16. Hot keys: 64 writes, four keys, new in
each sequence, twelve times each and sixteen keys once; half of the questions ask for the four. Every key twice: 64 writes to 32
keys, so that they cannot all be orthogonal in 16 rows; another shape of the memory may order the rules otherwise. Every key once: 20 writes to 20 keys. All rules share one model, whose single head has keys and values of size 16, so that a
memory has 256 numbers; keys have length 1, and gates depend on the written key and value.

Rivals: a sum whose writes have gates; a forgetting gate for the head (Mamba-2's form); one for each channel of the keys (that of gated linear
attention), which has 975 more weights; the delta rule with a forgetting gate; and softmax with a learned temperature and a learned
bias for recent writes, whose cache of 64 keys and values is eight times as large.

Budget: 64 new sequences in each update; on hot keys 1,200 updates, and 3,600 for the gates without delta rule; 3,600 for all rules
where every key is written twice; 1,200 where every key is written once. Adam at 0.01, and at 0.005 for the gates without delta rule:
after 1,800 updates with 0.003, 0.005, 0.01 and 0.02, seed 0, the gate of a head reaches 0.86, 0.86, 0.86 and 0.87 on hot keys, and with the
first three the gates of channels 0.92, 0.93 and 0.92. Gates begin at 0.95, or at 0.99 beside a delta rule, and β at 0.5. A quarter of
an hour on one CPU thread. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F

from course_lib.training import train
from course_tools.lectures.lecture_18 import rewritten_keys
from course_tools.lectures.lecture_18.experiments import KeyValueMemory, RecentSoftmax, delta_rule, gate_rule, sum_rule

N_SEQUENCES, N_TESTS, OPEN = 64, 2_000, 3.0
RULES = {
    "sum": (sum_rule, (OPEN,)),
    "gate": (gate_rule, (OPEN,)),
    "gate per channel": (gate_rule, (OPEN,) * 16),
    "delta rule": (delta_rule, (0.0,)),
    "delta rule with gate": (delta_rule, (0.0, 5.0)),
}
SOFTMAX = "softmax, growing cache"
HOT, TWICE, ONCE = "hot keys", "every key twice", "every key once"
DATA = {HOT: rewritten_keys.hot_keys, TWICE: rewritten_keys.every_key_twice, ONCE: rewritten_keys.every_key_once}
RATES = {"gate": 5e-3, "gate per channel": 5e-3}
PLAN = {
    HOT: {
        "sum": 1_200,
        "gate": 3_600,
        "gate per channel": 3_600,
        "delta rule": 1_200,
        "delta rule with gate": 1_200,
        SOFTMAX: 1_200,
    },
    TWICE: {"gate": 3_600, "gate per channel": 3_600, "delta rule": 3_600, "delta rule with gate": 3_600},
    ONCE: {"sum": 1_200, "gate per channel": 1_200, "delta rule": 1_200},
}
SETTINGS = {f"{data}: {rule}": (data, rule, n) for data, rules in PLAN.items() for rule, n in rules.items()}
TOLERANCE = {"accuracy": 0.03, "rewritten keys": 0.05, "keys written once": 0.05, "curve": 0.1}


def run(setting, seed, device):
    """Train one rule on one kind of sequences; the share of new questions that it answers, also by kind of key."""
    data, rule, updates = setting
    torch.manual_seed(seed)
    model = KeyValueMemory(*((RecentSoftmax(),) if rule == SOFTMAX else RULES[rule])).to(device)
    tests = next(rewritten_keys.stream(DATA[data], N_TESTS, 1_000 + seed, device))
    stream, curve = rewritten_keys.stream(DATA[data], N_SEQUENCES, seed, device), {}

    def loss(model, batch):
        return F.cross_entropy(model(*batch[:3]).flatten(0, 1), batch.wanted.flatten())

    for step in train(model, stream, loss, steps=updates, lr=RATES.get(rule, 1e-2), warmup=updates // 10):
        if (step.index + 1) % 200 == 0:
            with torch.no_grad():
                found = (model(*tests[:3]).argmax(-1) == tests.wanted).float()
            curve[step.index + 1] = found.mean().item()
    report = {"accuracy": curve[updates], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}
    if data == HOT:
        report |= {"rewritten keys": found[:, :4].mean().item(), "keys written once": found[:, 4:].mean().item()}
    return report


def figure(study):
    """Accuracy on hot keys by the number of updates."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook.plots import MARKERS

    drawn, said = Figure(figsize=(5.4, 3.6), layout="constrained"), []
    ax = drawn.subplots()
    for rule, colour, marker in zip((*RULES, SOFTMAX), sns.color_palette("colorblind"), MARKERS, strict=False):
        updates, means = study.curve(f"{HOT}: {rule}")
        ax.plot(updates, means, color=colour, marker=marker, markersize=3.5, linewidth=1.3, label=rule)
        scores = study.scores(f"{HOT}: {rule}", "accuracy")
        ax.plot([updates[-1]] * len(scores), scores, ".", color=colour, markersize=5)
        said.append(f"{rule} {study.mean(f'{HOT}: {rule}', 'accuracy'):.2f} after {updates[-1]:,} updates")
    ax.axhline(1 / rewritten_keys.N_VALUES, color="0.5", linestyle="--", linewidth=1, label="chance")
    ax.set(xlabel="updates", ylabel="accuracy on hot keys", ylim=(0, 1.02), xlim=(0, None))
    ax.grid(alpha=0.25)
    sns.despine(ax=ax)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=3, frameon=False)
    return drawn, f"Share of new questions about hot keys and others that are answered, means of the seeds: {'; '.join(said)}."


def finding(study):
    """Accuracy by seed, and on hot keys by kind of key."""
    said = "; ".join(f"{name} {', '.join(f'{score:.3f}' for score in study.scores(name, 'accuracy'))}" for name in study.names)
    kinds = "; ".join(
        f"{rule} {study.mean(f'{HOT}: {rule}', 'rewritten keys'):.2f} and {study.mean(f'{HOT}: {rule}', 'keys written once'):.2f}"
        for rule in PLAN[HOT]
    )
    return f"Accuracy by seed: {said}. On hot keys, those that are rewritten and those written once: {kinds}."
