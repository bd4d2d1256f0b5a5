"""Study for lecture 06: a fixed number of steps, shared or separate, against adaptive computation time.

Eight steps of one block, eight separate layers, and the adaptive model, all with the local mask, 400 updates without a price on
steps, at learning rates 2e-3 and 5e-3; prints the exact match on sums of ten digits (the training length) and of twenty.
Run it with `python authoring/studies/06_fixed_steps.py`; on a busy CPU thread a training took half a minute to four minutes.
"""

import torch
import torch.nn.functional as F
from course_lib.attention import MultiHead, fused_scaled_dot_product_attention
from course_lib.blocks import Block, FeedForward, SelfAttention
from course_lib.datasets import sums
from course_lib.models import AdaptiveSteps, SeparateSteps, SharedSteps, Universal
from course_lib.training import batches, train

T, N_STEPS, UPDATES, SEEDS = 21, 8, 400, (0, 1, 2)
LOCAL = torch.ones(T, T, dtype=torch.bool).tril().triu(-1)
short, long = sums(12_000, 1, 500, n_digits=10, T=T), sums(1, 1, 500, n_digits=20, T=T, seed=1)


def block(d_model: int = 32) -> Block:
    """The encoder block of the lecture, untrained."""
    attention = MultiHead(d_model, 4, fused_scaled_dot_product_attention)
    return Block(SelfAttention(attention), FeedForward(d_model, 2 * d_model), d_model)


STEPS = {
    "eight shared steps": lambda: SharedSteps(block(), N_STEPS),
    "eight separate layers": lambda: SeparateSteps([block() for _ in range(N_STEPS)]),
    "adaptive": lambda: AdaptiveSteps(block(), 32, N_STEPS),
}


def trained(steps, seed: int, lr: float) -> Universal:
    """A model around these steps, trained on short sums."""
    torch.manual_seed(seed)
    model = Universal(4, 2, 32, steps())

    def loss(model, batch):
        return F.cross_entropy(model(batch[0], mask=LOCAL)[0].mT, batch[1])

    stream = batches(short.train.columns, short.train.digits, batch_size=16, seed=seed)
    for _ in train(model, stream, loss, steps=UPDATES, lr=lr, warmup=UPDATES // 4):
        pass
    return model.eval()


@torch.no_grad()
def exact_match(model: Universal, part) -> float:
    """The fraction of sums that are right in every digit."""
    return (model(part.columns, mask=LOCAL)[0].argmax(-1) == part.digits).all(-1).float().mean().item()


if __name__ == "__main__":
    for lr in (2e-3, 5e-3):
        for seed in SEEDS:
            for name, steps in STEPS.items():
                model = trained(steps, seed, lr)
                print(
                    f"{name:22} lr {lr}  seed {seed}  "
                    f"ten digits {exact_match(model, short.test):.3f}  twenty digits {exact_match(model, long.test):.3f}",
                    flush=True,
                )
