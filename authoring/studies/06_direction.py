"""Which columns must be hidden so that a model trained on sums of ten digits adds twenty: the higher ones or the distant ones?

Adaptive steps under four masks: none, two-sided local (one column either way), causal (no higher column) and local (itself and the
next lower column). Rivals under the causal mask: eight separate layers, eight fixed steps of one block, and a single layer.

Budget: 400 and 1,200 updates with 16 sums each, 3,600 without a mask, 4,800 for a single layer; adaptive steps and the single layer
at 5e-3, the others at 2e-3. Three seeds, about half an hour on one CPU thread. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F

from course_lib.attention import MultiHead
from course_lib.blocks import Block, FeedForward, SelfAttention
from course_lib.datasets import sums
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import AdaptiveSteps, SeparateSteps, SharedSteps, Universal
from course_lib.training import batches, train

T, N_STEPS, PRICE = 21, 8, 0.01
ALL = torch.ones(T, T, dtype=torch.bool)
MASKS = {"none": ALL, "two-sided local": ALL.tril(1).triu(-1), "causal": ALL.tril(), "local": ALL.tril().triu(-1)}
TOLERANCE = {"ten digits": 0.2, "twenty digits": 0.3, "steps at distance 1": 2.0, "steps at distance 7": 2.0}


def block(d_model: int = 32) -> Block:
    """The encoder block of the lecture, untrained."""
    attention = MultiHead(d_model, 4, fused_scaled_dot_product_attention, bias=False)
    return Block(SelfAttention(attention), FeedForward(d_model, 2 * d_model), d_model)


STEPS = {
    "adaptive": lambda: AdaptiveSteps(block(), 32, N_STEPS),
    "separate layers": lambda: SeparateSteps([block() for _ in range(N_STEPS)]),
    "fixed steps": lambda: SharedSteps(block(), N_STEPS),
    "one layer": lambda: SharedSteps(block(), 1),
}
RUNS = [
    *(("adaptive", mask, updates, 5e-3) for mask in MASKS for updates in (400, 1_200)),
    ("adaptive", "none", 3_600, 5e-3),
    *(("one layer", mask, 4_800, 5e-3) for mask in ("none", "causal")),
    *((name, "causal", 1_200, 2e-3) for name in ("separate layers", "fixed steps")),
]
SETTINGS = {f"{name}, {mask}, {updates:,} updates": (name, mask, updates, lr) for name, mask, updates, lr in RUNS}


def run(setting, seed, device):
    """Train one model on sums of ten digits; exact match on new sums of ten and twenty, and steps by the distance of a carry."""
    name, mask, updates, lr = setting
    torch.manual_seed(seed)
    model, mask = Universal(4, 2, 32, STEPS[name]()).to(device), MASKS[mask].to(device)
    short, long = sums(12_000, 1, 500, n_digits=10, T=T), sums(1, 1, 500, n_digits=20, T=T, seed=1)

    def loss(model, batch):
        logits, pondered = model(batch[0], mask=mask)
        return F.cross_entropy(logits.mT, batch[1]) + PRICE * pondered.cost.mean()

    stream = batches(short.train.columns.to(device), short.train.digits.to(device), batch_size=16, seed=seed)
    for _ in train(model, stream, loss, steps=updates, lr=lr, warmup=updates // 4):
        pass
    model.eval()
    with torch.no_grad():
        (ten, _), (twenty, pondered) = (model(part.test.columns.to(device), mask=mask) for part in (short, long))
    right = [(logits.argmax(-1).cpu() == part.test.digits).all(-1) for logits, part in ((ten, short), (twenty, long))]
    taken = (pondered.halting > 0).sum(-1).cpu().float()
    scores = dict(zip(("ten digits", "twenty digits"), (each.float().mean().item() for each in right), strict=True))
    return scores | {f"steps at distance {walk}": taken[long.test.walks == walk].mean().item() for walk in (1, 7)}
