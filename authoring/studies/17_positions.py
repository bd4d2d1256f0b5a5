"""Do positions without parameters other than rotary ones serve a small Llama as well, also on longer texts than in training?

The last rung of `17_ladder`, in which rotary positions give way to ALiBi (Press et al. 2022, https://arxiv.org/abs/2108.12409), which
subtracts from a score the distance times a slope of its head, the paper's 1/4, 1/16, 1/64 and 1/256 or steeper ones, 1, 1/2, 1/4 and 1/8;
or to no positions at all, where only the causal mask tells the order. Parameters, batches and scores are those of the rung: bits per character of new text, of characters with half a
piece before them, and at the positions 128 to 255 of longer texts, where each attends to the whole text or to a window of 64.

Budget: that of the ladder, 1,200 updates with eight pieces each, Adam at 0.006, which is the best of 0.003, 0.006 and 0.012 for
ALiBi, too (seed 0). With seed 0, slopes from 1/2 to 1/16 gave 2.17, rotary positions with a base of 100 in place of 10,000 2.18, and no
positions 3.24 after 4,800 updates. Five minutes on one CPU thread. On a GPU: the same settings.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import GroupedQueryAttention, MultiHead
from course_lib.attention.core import ContextOnly
from course_lib.blocks import Block, GatedFeedForward, SelfAttention, Stack, draw_weights, pre_norm
from course_lib.datasets import Vocabulary, language_reference
from course_lib.fast import fused_causal_attention
from course_lib.losses import next_token_loss
from course_lib.primitives import causal_mask, window_of_tokens
from course_lib.training import batches, train

T, LONG, D, N_HEADS, N_GROUPS, D_FF, N_LAYERS, UPDATES = 64, 256, 64, 4, 2, 205, 2, 1_200
TOLERANCE = {"bits": 0.03, "bits of longer texts": 0.3, "with a window": 0.05}


class WithSlopes:
    """Attend causally by scores minus slope · distance (ALiBi, section 3); one slope for each head."""

    causal = True

    def __init__(self, *slopes):
        self.slopes = slopes

    def __call__(self, q, k, v, mask=None):
        T = q.shape[-2]
        position, slopes = torch.arange(T, device=q.device), torch.tensor(self.slopes, device=q.device)
        allowed = causal_mask(T, device=q.device) if mask is None else causal_mask(T, device=q.device) & mask
        bias = (slopes[:, None, None] * (position - position[:, None])).masked_fill(~allowed, -math.inf)
        return ContextOnly(F.scaled_dot_product_attention(q, k, v, attn_mask=bias))


SETTINGS = {
    "ALiBi": lambda: GroupedQueryAttention(WithSlopes(1 / 4, 1 / 16, 1 / 64, 1 / 256)),
    "ALiBi, steeper": lambda: GroupedQueryAttention(WithSlopes(1, 1 / 2, 1 / 4, 1 / 8)),
    "no positions": lambda: GroupedQueryAttention(fused_causal_attention),
}


class Decoder(nn.Module):
    """The last rung of the ladder with another mechanism; its embedding is its output matrix, too."""

    def __init__(self, n_tokens, mechanism):
        super().__init__()
        mixers = [SelfAttention(MultiHead(D, N_HEADS, mechanism(), bias=False, n_groups=N_GROUPS)) for _ in range(N_LAYERS)]
        blocks = [Block(mixer, GatedFeedForward(D, D_FF), D, pre_norm, nn.RMSNorm) for mixer in mixers]
        self.tokens, self.stack = nn.Embedding(n_tokens, D), Stack(blocks, nn.RMSNorm(D))
        draw_weights(self, D)
        for name, weights in self.named_parameters():
            if name.endswith(("W_o.weight", "W_down.weight")):
                weights.data /= (2 * N_LAYERS) ** 0.5

    def forward(self, tokens, mask=None):
        return self.stack(self.tokens(tokens), mask) @ self.tokens.weight.mT


def run(mechanism, seed, device):
    """Train one decoder; bits per character of new text, and of longer texts without and with a window."""
    text = language_reference(seed=0)
    characters = Vocabulary.of([text.train])
    known, new = (torch.tensor(characters.encode(part), device=device) for part in (text.train, text.test))
    torch.manual_seed(seed)
    model = Decoder(len(characters), mechanism).to(device)
    loss = lambda model, batch: next_token_loss(model(batch[0]), batch[0])  # noqa: E731
    for _ in train(model, batches(known.unfold(0, T, 1), batch_size=8, seed=seed), loss, steps=UPDATES, lr=6e-3, warmup=60):
        pass
    return {
        "bits": bits(model, new, T),
        "bits of longer texts": bits(model, new, LONG),
        "with a window": bits(model, new, LONG, window_of_tokens(LONG, T, device=device)),
        "parameters": sum(p.numel() for p in model.parameters()),
    }


@torch.no_grad()
def bits(model, tokens, length, mask=None):
    """Bits per character of the second half of each text of `length` tokens; they overlap by half."""
    texts = tokens.unfold(0, length, length // 2)
    asked = torch.arange(length, device=tokens.device) >= length // 2
    return next_token_loss(model(texts, mask), texts, asked.expand_as(texts)).item() / math.log(2)


def finding(study):
    """Bits by seed: in the length of the training, on longer texts, and there with a window."""
    said = (
        f"{name}: " + "; ".join(f"{score} {', '.join(f'{x:.2f}' for x in study.scores(name, score))}" for score in TOLERANCE)
        for name in SETTINGS
    )
    return f"Per character, by seed. {'. '.join(said)}."
