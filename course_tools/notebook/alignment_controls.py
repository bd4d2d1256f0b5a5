"""Controls of a translation model with attention: keys in reverse order, no mask, and how far its gradient reaches."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.attention import Attended
from course_lib.models.bigru_encoder import Encoded, reverse


class ReversedKeys(nn.Module):
    """An encoder with its keys in reverse order, so that each key stands for the value of another position."""

    def __init__(self, encoder: nn.Module) -> None:
        """Wrap a trained encoder."""
        super().__init__()
        self.encoder = encoder

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Encode source (B, T) with these lengths (B,); only real tokens are reversed, padding stays at the end."""
        encoded = self.encoder(source, lengths)
        return encoded._replace(keys=reverse(encoded.keys, lengths))


class Unmasked(nn.Module):
    """A mechanism that ignores its mask: padding gets weight as well."""

    def __init__(self, mechanism: nn.Module) -> None:
        """Wrap a mechanism `(q, k, v, mask)`."""
        super().__init__()
        self.mechanism = mechanism

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Attended:
        """Attend to every key."""
        return self.mechanism(q, k, v)


@torch.no_grad()
def change_in_a_batch(model: nn.Module, source: Tensor, lengths: Tensor, target: Tensor) -> float:
    """Measure how much the logits of a sentence change when a longer one is in the same batch.

    Args:
        model: `(source, lengths, target)` → a result with `logits`.
        source: (2, T_k), the shorter sentence first, padded.
        lengths: (2,).
        target: (1, T_q), what the decoder reads, for both.

    Returns:
        the largest difference of a logit of the first sentence, alone and in the batch.
    """
    alone = model(source[:1, : lengths[0]], lengths[:1], target).logits
    in_batch = model(source, lengths, target.expand(2, -1)).logits[:1]
    return (in_batch - alone).abs().max().item()


def gradient_reach(make_model: Callable[[], nn.Module], n_tokens: int, n: int, seed: int) -> list[float]:
    """Measure how far the gradient of the first output of an untrained model reaches into a source of n random tokens.

    Args:
        make_model: returns a new `Seq2Seq`, on the CPU.
        n_tokens: tokens below 4 are special and are not drawn.
        n: length of the source.
        seed: of the weights and the source.

    Returns:
        for each position, the norm of the gradient of the first logits with respect to its embedding: the mean of 32 sources.
    """
    torch.manual_seed(seed)
    model, embedded = make_model(), []
    model.encoder.embedding.register_forward_hook(lambda module, given, result: embedded.append(result))
    source = torch.randint(4, n_tokens, (32, n))
    logits = model(source, torch.full((32,), n), torch.ones(32, 1, dtype=torch.long)).logits
    (gradient,) = torch.autograd.grad((logits * torch.randn_like(logits)).sum(), embedded[0])
    return gradient.norm(dim=-1).mean(0).tolist()
