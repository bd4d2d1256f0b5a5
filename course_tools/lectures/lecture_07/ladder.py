"""A language model to which the parts of a GPT are added one by one, and the loss with each."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.losses import next_token_loss
from course_lib.shapes import Logits, Tokens
from course_lib.training import batches, train
from course_tools.notebook.device import device

T, D_MODEL = 32, 64


class PartsOfGPT(NamedTuple):
    """Which parts a model has. Without layers, it reads one token."""

    n_layers: int = 0
    network: bool = False
    residual: bool = True


LADDER = {
    "one token": PartsOfGPT(),
    "+ attention, added to it": PartsOfGPT(1),
    "+ feed-forward network, added": PartsOfGPT(1, network=True),
    "two such layers": PartsOfGPT(2, network=True),
    "two, in which nothing is added": PartsOfGPT(2, network=True, residual=False),
}


class Layer(nn.Module):
    """Attention of four heads, and a network if there is one: each added to what it read, if there are residuals."""

    def __init__(self, parts: PartsOfGPT) -> None:
        super().__init__()
        self.parts = parts
        self.qkv, self.W_o = nn.Linear(D_MODEL, 3 * D_MODEL, bias=False), nn.Linear(D_MODEL, D_MODEL)
        hidden = nn.Linear(D_MODEL, 4 * D_MODEL)
        self.network = nn.Sequential(hidden, nn.GELU(), nn.Linear(4 * D_MODEL, D_MODEL))

    def attention(self, x: Tensor) -> Tensor:
        """Attend causally, in four heads."""
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.W_o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, d_model) to the same shape."""
        x = self.parts.residual * x + self.attention(x)
        return self.parts.residual * x + self.network(x) if self.parts.network else x


class Rung(nn.Module):
    """A language model of the given parts."""

    def __init__(self, n_tokens: int, parts: PartsOfGPT) -> None:
        super().__init__()
        self.parts = parts
        self.tokens, self.positions = nn.Embedding(n_tokens, D_MODEL), nn.Embedding(T, D_MODEL)
        self.layers = nn.Sequential(*(Layer(parts) for _ in range(parts.n_layers)))
        self.logits = nn.Linear(D_MODEL, n_tokens)

    def forward(self, tokens: Tokens) -> Logits:
        """Map tokens (B, T) to next-token logits (B, T, n_tokens)."""
        x = self.tokens(tokens)
        if self.parts.n_layers:
            x = self.layers(x + self.positions.weight[: x.shape[1]])
        return self.logits(x)


def losses_by_part(text: Tensor, new: Tensor, n_tokens: int, steps: int = 300, seed: int = 0) -> dict[str, float]:
    """Train the model of each rung in the same way: Adam, `steps` updates of 16 windows of 32 tokens.

    Args:
        text: tokens (N,) to learn from.
        new: tokens (N,) of held-out text.
        n_tokens: size of the vocabulary.
        steps: number of updates.
        seed: determines the weights and the windows.

    Returns:
        for each rung, the loss on the held-out text, in nats per token.
    """
    losses, windows = {}, new.unfold(0, T, T // 2).to(device())
    for name, parts in LADDER.items():
        torch.manual_seed(seed)
        model = Rung(n_tokens, parts).to(device())
        stream = batches(text.unfold(0, T, 1).to(device()), batch_size=16, seed=seed)
        for _ in train(model, stream, _loss, steps=steps, lr=8e-3, warmup=30):
            pass
        with torch.no_grad():
            losses[name] = next_token_loss(model(windows), windows).item()
    return losses


def _loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    return next_token_loss(model(batch[0]), batch[0])
