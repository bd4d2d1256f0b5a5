"""Does a recurrent network that is trained for long look up as well as one layer of self-attention?

Rivals: the GRU of lecture 01 with a state of 64 numbers; one layer of self-attention of the same width. Both stand between
the same embeddings and read-out, and each update reads 64 new texts of eight pairs and four questions. Adam with a rate that
falls from 5e-3 to 0; in a trial of 6,000 updates the GRU did worse with 2.5e-3 and with 1e-2.

Budget: 30,000 updates for the GRU, about two minutes on one CPU thread; 300 for self-attention. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import scaled_dot_product_attention
from course_lib.fast import fused_gru
from course_lib.primitives import GRU
from course_lib.training import train
from course_tools.lectures.lecture_04.data import bag_of_values

WIDTH, N_KEYS, N_VALUES, N_PAIRS, N_QUESTIONS = 64, 16, 8, 8, 4
SETTINGS = {"GRU": ("GRU", 30_000), "self-attention": ("self-attention", 300)}
MEASURED = (5, 10, 20, 50, 100, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 25_000, 30_000)
TOLERANCE = {"accuracy": 0.05, "curve": 0.2}


class SelfAttention(nn.Module):
    """One head, as in the lecture."""

    def __init__(self):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def forward(self, x):
        return scaled_dot_product_attention(self.W_q(x), self.W_k(x), self.W_v(x))


class Reader(nn.Module):
    """Embeds keys and values, lets one layer mix the tokens, and reads the answers off at the questions."""

    def __init__(self, mixer):
        super().__init__()
        self.keys, self.values = nn.Embedding(N_KEYS, WIDTH), nn.Embedding(N_VALUES + 1, WIDTH)
        self.mixer, self.read_out = mixer, nn.Linear(WIDTH, N_VALUES)

    def forward(self, keys, values):
        return self.read_out(self.mixer(self.keys(keys) + self.values(values))[0][:, N_PAIRS:])


def texts(n, generator):
    """Draw n texts: keys and values (n, 12), answers (n, 4)."""
    keys = torch.rand(n, N_KEYS, generator=generator).argsort(dim=1)[:, :N_PAIRS]
    values = torch.randint(N_VALUES, (n, N_PAIRS), generator=generator)
    asked = torch.randint(N_PAIRS, (n, N_QUESTIONS), generator=generator)
    blank = torch.full((n, N_QUESTIONS), N_VALUES)
    return torch.cat([keys, keys.gather(1, asked)], 1), torch.cat([values, blank], 1), values.gather(1, asked)


def run(setting, seed, device):
    """Train on new texts in each update; the share of questions of 2,000 further texts that are answered right."""
    kind, updates = setting
    generator = torch.Generator().manual_seed(seed)
    new = [part.to(device) for part in texts(2_000, torch.Generator().manual_seed(1_000 + seed))]
    torch.manual_seed(seed)
    model = Reader(GRU(WIDTH, WIDTH, fused_gru) if kind == "GRU" else SelfAttention()).to(device)
    stream = ([part.to(device) for part in texts(64, generator)] for _ in range(updates))
    loss = lambda model, batch: F.cross_entropy(model(*batch[:2]).flatten(0, 1), batch[2].flatten())  # noqa: E731
    curve = {}
    for step in train(model, stream, loss, steps=updates, lr=5e-3):
        if step.index + 1 in MEASURED:
            curve[step.index + 1] = accuracy(model, *new)
    return {"accuracy": curve[updates], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


@torch.no_grad()
def accuracy(model, keys, values, answers):
    """The share of questions that are answered right."""
    return (model(keys, values).argmax(-1) == answers).float().mean().item()


def figure(study):
    """Questions answered right through the updates: means of the seeds."""
    from course_tools.notebook import plots

    bag, _ = bag_of_values(texts(4_000, torch.Generator().manual_seed(0))[1])
    curves = {name: study.curve(name) for name in study.names}
    labels = "updates", "questions answered right", "as recorded, mean of the seeds"
    drawn = plots.curves(curves, *labels, log="x", across={"a bag of values": bag})
    drawn.axes[0].set_ylim(0, 1.05)
    said = "; ".join(
        f"{name} {values[0]:.2f} after {updates[0]:,} updates, {values[-1]:.2f} after {updates[-1]:,}"
        for name, (updates, values) in curves.items()
    )
    return drawn, f"Questions of new texts that are answered right, against the updates: {said}; a bag of values {bag:.2f}."


def finding(study):
    """Accuracy at the end, by seed, and the first update with nine in ten right."""
    said = []
    for name in study.names:
        ends = ", ".join(f"{value:.3f}" for value in study.scores(name, "accuracy"))
        updates, values = study.curve(name)
        soon = next((f"{update:,}" for update, value in zip(updates, values, strict=True) if value >= 0.9), "never")
        said.append(f"{name}: {ends} after {updates[-1]:,} updates, on average nine in ten after {soon}")
    return "; ".join(said) + "."
