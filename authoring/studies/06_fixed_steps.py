"""A fixed number of steps, shared or separate, or adaptive computation time: which adds sums longer than those of the training?

Rivals: eight steps of one block; the plain mean of the states after each of eight steps, which mixes the steps as adaptive
computation time does, but does not halt; eight separate layers; adaptive computation time without a price on steps. All with the
local mask of the lecture, at learning rates of 2e-3 and 5e-3; tested on sums of ten digits, the training length, and of twenty.
Separate layers and adaptive steps run without a mask, too: what does the mask add?

Budget: 400 updates with 16 sums each, and 1,200 at 2e-3: does the ranking depend on that? Eight seeds. On a GPU: four learning
rates, and every model with and without the mask.
"""

from statistics import mean


import torch
import torch.nn.functional as F
from course_lib.attention import MultiHead
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.blocks import Block, FeedForward, SelfAttention
from course_lib.datasets import sums
from course_lib.models import AdaptiveSteps, SeparateSteps, SharedSteps, Universal
from course_lib.models.universal import UniversalOutput, step_encoding
from course_lib.training import batches, train

T, N_STEPS, UPDATES, MORE = 21, 8, 400, 1_200
LOCAL = torch.ones(T, T, dtype=torch.bool).tril().triu(-1)
SEEDS = tuple(range(8))
TOLERANCE = {"ten digits": 0.2, "twenty digits": 0.3}


def block(d_model: int = 32) -> Block:
    """The encoder block of the lecture, untrained."""
    attention = MultiHead(d_model, 4, fused_scaled_dot_product_attention)
    return Block(SelfAttention(attention), FeedForward(d_model, 2 * d_model), d_model)


class MeanOfSteps(SharedSteps):
    """One block, applied eight times; the output is the mean of the states after each step."""

    def forward(self, x, mask=None):
        states = []
        for step in range(1, self.n_steps + 1):
            x = self.block(x + step_encoding(x.shape[1], x.shape[2], step, device=x.device).to(x.dtype), mask)
            states.append(x)
        weights = x.new_full((*x.shape[:-1], self.n_steps), 1 / self.n_steps)
        return UniversalOutput(torch.stack(states).mean(0), weights, x.new_full(x.shape[:-1], self.n_steps))


STEPS = {
    "eight shared steps": lambda: SharedSteps(block(), N_STEPS),
    "eight shared steps, mean of states": lambda: MeanOfSteps(block(), N_STEPS),
    "eight separate layers": lambda: SeparateSteps([block() for _ in range(N_STEPS)]),
    "adaptive": lambda: AdaptiveSteps(block(), 32, N_STEPS),
}
MASKS = {"": LOCAL, ", no mask": torch.ones(T, T, dtype=torch.bool)}
MODELS = [(name, mask) for mask in MASKS for name in STEPS if mask == "" or not name.startswith("eight shared steps")]
SETTINGS = {f"{name}{mask}, learning rate {lr:g}": (name, mask, lr, UPDATES) for lr in (2e-3, 5e-3) for name, mask in MODELS}
SETTINGS |= {f"{name}{mask}, learning rate 0.002, {MORE:,} updates": (name, mask, 2e-3, MORE) for name, mask in MODELS}
GPU_SETTINGS = {
    f"{name}{mask}, learning rate {lr:g}": (name, mask, lr, UPDATES)
    for mask in MASKS
    for lr in (1e-3, 2e-3, 5e-3, 1e-2)
    for name in STEPS
}


def run(setting, seed, device):
    """Train one model on sums of ten digits; exact match on new sums of ten and of twenty."""
    name, mask, lr, updates = setting
    torch.manual_seed(seed)
    model, mask = Universal(4, 2, 32, STEPS[name]()).to(device), MASKS[mask].to(device)
    short, long = sums(12_000, 1, 500, n_digits=10, T=T), sums(1, 1, 500, n_digits=20, T=T, seed=1)

    def loss(model, batch):
        return F.cross_entropy(model(batch[0], mask=mask)[0].mT, batch[1])

    stream = batches(short.train.columns.to(device), short.train.digits.to(device), batch_size=16, seed=seed)
    for _ in train(model, stream, loss, steps=updates, lr=lr, warmup=updates // 4):
        pass
    model.eval()
    return {"ten digits": exact_match(model, short.test, mask), "twenty digits": exact_match(model, long.test, mask)}


@torch.no_grad()
def exact_match(model, part, mask):
    """The fraction of sums that are right in every digit."""
    right = model(part.columns.to(mask.device), mask=mask)[0].argmax(-1) == part.digits.to(mask.device)
    return right.all(-1).float().mean().item()


def figure(study):
    """Exact match on twenty digits, one point a seed."""
    from course_tools.notebook import plots

    rows = {name: study.scores(name, "twenty digits") for name in study.names}
    each = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in values)}" for name, values in rows.items())
    return plots.seeds(
        rows, "exact match, twenty digits", "as recorded"
    ), f"Exact match on sums of twenty digits, by seed: {each}."


def finding(study):
    """Mean exact match on twenty digits."""
    each = "; ".join(f"{name} {mean(study.scores(name, 'twenty digits')):.2f}" for name in study.names)
    return f"Mean exact match on sums of twenty digits, twice the training length: {each}."
