"""Which columns mislead a model without a mask on sums longer than those of its training: the higher ones or the distant lower ones?

Two trainings: all columns in view, or the higher ones and the next lower one (the fifth mask beside those of 06_direction). Then, for
each digit, the columns above it are emptied (0 + 0), or those more than ten below; neither changes a digit whose carry comes from
at most ten columns away, and only such digits are judged.

Budget: 1,200 updates with 16 sums each at 5e-3. Three seeds, about six minutes on one CPU thread. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F

from course_lib.attention import MultiHead
from course_lib.blocks import Block, FeedForward, SelfAttention
from course_lib.datasets import sums
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import AdaptiveSteps, Universal
from course_lib.training import batches, train

T, N_STEPS, PRICE, KNOWN, UPDATES = 21, 8, 0.01, 10, 1_200
ALL = torch.ones(T, T, dtype=torch.bool)
SETTINGS = {"no mask": ALL, "next lower column and all higher ones": ALL.triu(-1)}
TOLERANCE = {"ten digits": 0.2, "twenty digits": 0.3, "as it is": 0.3, "emptied above": 0.3, "emptied far below": 0.3}


def as_it_is(columns, i):
    """Change no column."""


def emptied_above(columns, i):
    """Empty the columns above column i."""
    columns[:, i + 1 :] = 0


def emptied_far_below(columns, i):
    """Empty the columns more than ten below column i."""
    columns[:, : max(0, i - KNOWN)] = 0


def run(setting, seed, device):
    """Train one model on sums of ten digits; exact match on new sums of ten and twenty, and with columns emptied."""
    torch.manual_seed(seed)
    attention = MultiHead(32, 4, fused_scaled_dot_product_attention, bias=False)
    block = Block(SelfAttention(attention), FeedForward(32, 64), 32)
    model, mask = Universal(4, 2, 32, AdaptiveSteps(block, 32, N_STEPS)).to(device), setting.to(device)
    short, long = sums(12_000, 1, 500, n_digits=10, T=T), sums(1, 1, 500, n_digits=20, T=T, seed=1)

    def loss(model, batch):
        logits, pondered = model(batch[0], mask=mask)
        return F.cross_entropy(logits.mT, batch[1]) + PRICE * pondered.cost.mean()

    stream = batches(short.train.columns.to(device), short.train.digits.to(device), batch_size=16, seed=seed)
    for _ in train(model, stream, loss, steps=UPDATES, lr=5e-3, warmup=UPDATES // 4):
        pass
    model.eval()

    @torch.no_grad()
    def digits(columns):
        return model(columns.to(device), mask=mask)[0].argmax(-1).cpu()

    scores = {}
    for name, part in {"ten digits": short.test, "twenty digits": long.test}.items():
        scores[name] = (digits(part.columns) == part.digits).all(-1).float().mean().item()
    far = long.test.walks > KNOWN
    for change in (as_it_is, emptied_above, emptied_far_below):
        right = far.clone()
        for i in range(T):
            columns = long.test.columns.clone()
            change(columns, i)
            right[:, i] |= digits(columns)[:, i] == long.test.digits[:, i]
        scores[change.__name__.replace("_", " ")] = right.all(-1).float().mean().item()
    return scores
