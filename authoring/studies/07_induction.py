"""Is it the second layer that finds a secret order in a text, or the preceding token that it can see, or only patience?

Rivals: a GPT of two layers; one layer with as many parameters; the same layer, to whose input the embedding of the preceding
token is added (288 weights); an LSTM with as many parameters. They read the same batches of texts that each follow a secret
order of eight letters. Each GPT has a learning rate of 5e-3; the LSTM has 2e-2, with 4e-2 the best of 5e-3, 1e-2, 2e-2
and 4e-2 in a trial of 450 updates.

Budget: 1,000 updates with 32 texts of 32 letters for the two models that have learned the task by then, 4,000 for the others;
at most a minute for each training on one CPU thread. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.blocks import Sizes
from course_lib.datasets.secret_orders import secret_orders, walks
from course_lib.fast import fused_causal_attention, fused_lstm
from course_lib.losses import next_token_loss
from course_lib.models import GPT
from course_lib.primitives import LSTM
from course_lib.training import batches, train

N_LETTERS, T = 8, 32
MEASURED = (50, 100, 150, 200, 300, 450, 700, 1_000, 1_500, 2_000, 3_000, 4_000)
TWO, ONE = Sizes(d_model=32, n_heads=4, d_ff=128, n_layers=2), Sizes(d_model=32, n_heads=4, d_ff=324, n_layers=1)
SEEDS = (0, 1, 2)
TOLERANCE = {"accuracy": 0.1, "curve": 0.2}


class WithPrevious(GPT):
    """A GPT that adds, to each token's embedding, an embedding of the token before it."""

    def __init__(self, sizes):
        super().__init__(N_LETTERS, T, sizes, fused_causal_attention)
        self.previous = nn.Embedding(N_LETTERS + 1, sizes.d_model)
        nn.init.normal_(self.previous.weight, std=(3 * sizes.d_model) ** -0.5)

    def _embed(self, tokens):
        return super()._embed(tokens) + self.previous(F.pad(tokens[:, :-1], (1, 0), value=N_LETTERS))


class Recurrent(nn.Module):
    """An LSTM as a language model: it reads tokens and gives logits for the next."""

    def __init__(self):
        super().__init__()
        self.tokens, self.lstm, self.read_out = nn.Embedding(N_LETTERS, 32), LSTM(32, 64, fused_lstm), nn.Linear(64, N_LETTERS)

    def forward(self, tokens):
        return self.read_out(self.lstm(self.tokens(tokens))[0])


SETTINGS = {
    "two layers": (lambda: GPT(N_LETTERS, T, TWO, fused_causal_attention), 5e-3, 1_000),
    "one layer": (lambda: GPT(N_LETTERS, T, ONE, fused_causal_attention), 5e-3, 4_000),
    "one layer, told the token before": (lambda: WithPrevious(ONE), 5e-3, 1_000),
    "LSTM": (Recurrent, 2e-2, 4_000),
}


def run(setting, seed, device):
    """Train on 8,000 texts; accuracy on the steps that 500 new texts, of orders never seen, have shown before."""
    make, lr, updates = setting
    orders = secret_orders(3_000, 100, 1_000, N_LETTERS, seed=seed)
    known, new = walks(orders.train, 8_000, seed=seed), walks(orders.test, 500, seed=100 + seed)
    known, new = ([part.to(device) for part in texts] for texts in (known, new))
    torch.manual_seed(seed)
    model = make().to(device)
    curve, stream = {}, batches(*known, batch_size=32, seed=seed)
    loss = lambda model, batch: next_token_loss(model(batch[0]), *batch)  # noqa: E731
    for step in train(model, stream, loss, steps=updates, lr=lr, warmup=30):
        if step.index + 1 in MEASURED:
            curve[step.index + 1] = accuracy(model, *new)
    return {
        "accuracy": curve[updates],
        "parameters": sum(p.numel() for p in model.parameters()),
        "lr": lr,
        "curve": curve,
    }


@torch.no_grad()
def accuracy(model, tokens, told):
    """The fraction of steps that the text has shown before, `told` (B, T), that a model predicts."""
    return (model(tokens)[:, :-1].argmax(-1) == tokens[:, 1:])[told[:, 1:]].float().mean().item()


def figure(study):
    """Accuracy through the updates: means of the seeds."""
    from course_tools.notebook import plots

    curves = {name: study.curve(name) for name in study.names}
    drawn = plots.curves(
        curves, "updates", "accuracy on repeated steps", "as recorded, mean of the seeds", "x", {"a guess": 1 / N_LETTERS}
    )
    said = "; ".join(
        f"{name} {values[0]:.2f} after {updates[0]} and {values[-1]:.2f} after {updates[-1]:,}"
        for name, (updates, values) in curves.items()
    )
    return drawn, f"Accuracy on repeated steps of new texts against the updates: {said}."


def finding(study):
    """Accuracy at the end, by seed."""
    each = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in study.scores(name, 'accuracy'))}" for name in study.names)
    return f"Accuracy at the end, by seed: {each}."
