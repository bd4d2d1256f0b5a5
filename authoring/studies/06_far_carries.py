"""Which model trained on short sums, in which a carry travels at most ten columns, follows one over 9 to 19 columns?

One block with the local mask (a column sees itself and the next lower one) takes eight steps in training and twenty in the test. It
halts, with the loss of each step weighted by the step's share, as in PonderNet, or with Graves's loss of the mixture; or it does not
halt. Rivals: eight separate layers under the local and under the causal mask (all lower columns), and a GRU.

Data: 6,000 random sums of ten digits, 6,000 of eight digits in which four of five columns pass a carry on; 200 sums for each distance
in the test. Budget: 1,000 updates with 16 sums each, 1,200 for Graves's loss, 2,000 for the layers under the causal mask. Five seeds,
about nine minutes on one CPU thread. On a GPU: the same settings.
"""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import MultiHead
from course_lib.blocks import Block, FeedForward, SelfAttention
from course_lib.datasets import sums
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import step_encoding
from course_lib.primitives import adaptive_step, halting_distribution, mix_states, ponder_cost, sinusoidal_positions
from course_lib.training import batches, train
from course_tools.lectures.lecture_06.steps_of_sums import far_sums, long_carries

T, D, N_STEPS, DISTANCES = 21, 32, 8, range(1, 20)
ALL = torch.ones(T, T, dtype=torch.bool)
MASKS = {"local": ALL.tril().triu(-1), "causal": ALL.tril(), "none": ALL}
SEEDS = (0, 1, 2, 3, 4)
SETTINGS = {
    "adaptive, local": ("adaptive", "local", 1_000),
    "adaptive, Graves's loss, local": ("mixture", "local", 1_200),
    "fixed steps, local": ("fixed", "local", 1_000),
    "eight layers, local": ("layers", "local", 1_000),
    "eight layers, causal": ("layers", "causal", 2_000),
    "GRU": ("GRU", "none", 1_000),
}
TOLERANCE = {"ten digits": 0.1, "twenty digits": 0.2, "far, 8 steps": 0.1, "far, 20 steps": 0.2, "curve": 0.3}
TOLERANCE |= {f"steps at distance {walk}": 2.0 for walk in (1, 4, 8, 16)} | {"rest at distance 16": 0.2}


def block() -> Block:
    """The encoder block of the lecture, untrained."""
    attention = MultiHead(D, 4, fused_scaled_dot_product_attention, bias=False)
    return Block(SelfAttention(attention), FeedForward(D, 2 * D), D)


class Loop(nn.Module):
    """One block, again and again; returns the answer, the halting values and the logits of each step."""

    def __init__(self):
        super().__init__()
        self.n_steps = N_STEPS
        self.embed, self.block = nn.Embedding(4, D), block()
        self.halt, self.readout = nn.Linear(D, 1), nn.Linear(D, 2)
        nn.init.zeros_(self.halt.weight)
        nn.init.constant_(self.halt.bias, -9.0)

    def forward(self, columns, mask):
        x = self.embed(columns)
        states, h = [], x.new_zeros(*columns.shape, 0)
        for t in range(1, self.n_steps + 1):
            y = self.block(x + step_encoding(*x.shape[1:], t, x.device), mask)
            x, h = adaptive_step(x, y, (self.halt.weight[0], self.halt.bias[0]), h)
            states.append(x)
        logits = self.readout(torch.stack(states, dim=-2))
        return mix_states(logits, h), h, logits


class Layers(nn.Module):
    """Eight blocks, one after the other."""

    def __init__(self):
        super().__init__()
        self.embed, self.readout = nn.Embedding(4, D), nn.Linear(D, 2)
        self.blocks = nn.ModuleList(block() for _ in range(N_STEPS))

    def forward(self, columns, mask):
        x = self.embed(columns)
        x = x + sinusoidal_positions(*x.shape[1:], x.device)
        for each in self.blocks:
            x = each(x, mask)
        return (self.readout(x),)


class Recurrent(nn.Module):
    """A GRU that reads the columns from the lowest on."""

    def __init__(self):
        super().__init__()
        self.embed, self.gru, self.readout = nn.Embedding(4, D), nn.GRU(D, D, batch_first=True), nn.Linear(D, 2)

    def forward(self, columns, mask):
        return (self.readout(self.gru(self.embed(columns))[0]),)


def answer_loss(model, columns, digits, mask, price):
    """The cross-entropy of the answer, plus the price of the steps, if there is one."""
    logits, *more = model(columns, mask)
    return F.cross_entropy(logits.mT, digits) + (price * ponder_cost(more[0]).mean() if price else 0)


def steps_loss(model, columns, digits, mask, price):
    """The cross-entropy of each step, weighted by its share, plus the price; without a price all steps count alike."""
    _, h, logits = model(columns, mask)
    truth = digits[..., None].expand(logits.shape[:-1])
    nats = F.cross_entropy(logits.movedim(-1, 1), truth, reduction="none")
    return (halting_distribution(h) * nats).sum(-1).mean() + price * ponder_cost(h).mean() if price else nats.mean()


PHASES = {  # loss, price, updates (0 = all), learning rate, and the bias that halting starts with
    "adaptive": [(steps_loss, 0.0, 400, 5e-3, -9.0), (steps_loss, 0.06, 600, 2e-3, -1.0)],
    "mixture": [(answer_loss, 0.0, 400, 5e-3, -1.0), (answer_loss, 0.1, 800, 5e-3, None)],
    "fixed": [(steps_loss, 0.0, 0, 5e-3, -9.0)],
    "layers": [(answer_loss, 0.0, 0, 2e-3, None)],
    "GRU": [(answer_loss, 0.0, 0, 5e-3, None)],
}


@lru_cache
def data():
    """Columns and digits to learn from, and the tests by name."""
    short, long = sums(6_000, 1, 500, n_digits=10, T=T), sums(1, 1, 500, n_digits=20, T=T, seed=1)
    far = long_carries(6_000, 8, T, "cpu")
    known = [torch.cat(both) for both in ((short.train.columns, far.columns), (short.train.digits, far.digits))]
    return known, {"ten digits": short.test, "twenty digits": long.test} | {k: far_sums(k, 200, T, "cpu") for k in DISTANCES}


def run(setting, seed, device):
    """Train one model; exact match on random sums and, as the curve, by the distance that a carry travels; steps taken."""
    name, mask, updates = setting
    torch.manual_seed(seed)
    model = (Layers() if name == "layers" else Recurrent() if name == "GRU" else Loop()).to(device)
    known, tests = data()
    known, mask = [part.to(device) for part in known], MASKS[mask].to(device)
    for loss, price, steps, lr, bias in PHASES[name]:
        if bias is not None:
            nn.init.constant_(model.halt.bias, bias)
        stream, steps = batches(*known, batch_size=16, seed=seed), steps or updates

        def of_batch(model, batch, loss=loss, price=price):
            return loss(model, *batch, mask, price)

        for _ in train(model, stream, of_batch, steps=steps, lr=lr, warmup=steps // 4):
            pass
    model.eval()

    @torch.no_grad()
    def exact(test, n_steps):
        model.n_steps = n_steps
        guesses = model(test.columns.to(device), mask)[0].argmax(-1).cpu()
        return (guesses == test.digits).all(-1).float().mean().item()

    loops = isinstance(model, Loop)
    longest = 20 if loops else N_STEPS
    curve = {k: exact(tests[k], longest) for k in DISTANCES}
    scores = {each: exact(tests[each], longest) for each in ("ten digits", "twenty digits")}
    scores["far, 8 steps"] = sum(exact(tests[k], N_STEPS) for k in DISTANCES[8:]) / 11
    if loops:
        scores["far, 20 steps"] = sum(list(curve.values())[8:]) / 11
    if loops and name != "fixed":
        model.n_steps = longest
        for walk in (1, 4, 8, 16):
            test = tests["twenty digits"] if walk == 1 else tests[walk]
            with torch.no_grad():
                p = halting_distribution(model(test.columns.to(device), mask)[1]).cpu()[test.walks == walk]
            taken = (p > 0).sum(-1)
            scores[f"steps at distance {walk}"] = taken.float().mean().item()
        scores["rest at distance 16"] = p.gather(-1, taken[:, None] - 1).mean().item()
    return scores | {"parameters": sum(each.numel() for each in model.parameters()), "curve": curve}


def figure(study):
    """Right sums where a carry travels 9 to 19 columns, one point per seed."""
    from course_tools.notebook import plots

    rows = {}
    for name in study.names:
        longest = "far, 20 steps" if "far, 20 steps" in study.of(name)[0].scores else "far, 8 steps"
        rows[name] = study.scores(name, longest)
    drawn = plots.seeds(rows, "right sums, carries of 9 to 19 columns", "as recorded", across={"a guessed carry": 0.5})
    drawn.axes[0].set_ylim(0, 1.05)
    each = "; ".join(f"{name} {', '.join(f'{share:.2f}' for share in shares)}" for name, shares in rows.items())
    return drawn, f"Right sums where a carry travels 9 to 19 columns, one point per seed: {each}."


def finding(study):
    """Right sums where a carry travels 9 to 19 columns, and steps taken, by setting."""
    told = []
    for name in study.names:
        longest = "far, 20 steps" if "far, 20 steps" in study.of(name)[0].scores else "far, 8 steps"
        told.append(f"{name} {min(study.scores(name, longest)):.2f} to {max(study.scores(name, longest)):.2f}")
    return f"Right sums where a carry travels 9 to 19 columns: {'; '.join(told)}."
