"""The characters of Python's language reference in short pieces: loss, counts, rivals of linear attention, sampling."""

import math
from dataclasses import dataclass
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import Attended, scaled_dot_product_attention
from course_lib.blocks import Sizes, encoder_stack, pre_norm
from course_lib.fast import fused_causal_attention
from course_lib.generation import LanguageModel, generate
from course_lib.models import LinearTransformer, NGram
from course_lib.primitives.masks import window_of_tokens
from course_tools.notebook.device import device


@dataclass(frozen=True)
class CharacterText:
    """A text, its different characters, and pieces of it (n, T + 1) to learn from and held out."""

    text: str
    letters: list[str]
    learn: Tensor
    held_out: Tensor

    def encode(self, text: str) -> Tensor:
        """Return the codes of a text's characters, (1, len(text))."""
        return torch.tensor([[self.letters.index(letter) for letter in text]], device=self.learn.device)

    def decode(self, codes: Tensor) -> str:
        """Return the text of codes (T,)."""
        return "".join(self.letters[code] for code in codes.tolist())


def character_text(T: int, n_held_out: int = 200) -> CharacterText:
    """Cut the language reference, without repeated paragraphs, into pieces of T characters and the next, in random order."""
    paragraphs = dict.fromkeys(paragraph for topic in topics.values() for paragraph in topic.split("\n\n"))
    text = "\n\n".join(paragraphs)
    letters = sorted(set(text))
    number = {letter: i for i, letter in enumerate(letters)}
    codes = torch.tensor([number[letter] for letter in text])
    pieces = codes[: len(codes) // (T + 1) * (T + 1)].view(-1, T + 1)
    pieces = pieces[torch.randperm(len(pieces), generator=torch.Generator().manual_seed(0))].to(device())
    return CharacterText(text, letters, pieces[n_held_out:], pieces[:n_held_out])


def next_character_loss(model: nn.Module, batch: tuple[Tensor]) -> Tensor:
    """Compute the cross-entropy of the next character in bits, for pieces (B, T + 1)."""
    pieces = batch[0]
    return F.cross_entropy(model(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten()) / math.log(2)


def counts(text: CharacterText, order: int) -> NGram:
    """Count runs of up to `order` characters in the pieces to learn from; the length of the table is its number of entries."""
    return NGram(text.learn.cpu().unfold(1, order, 1).flatten(0, 1), len(text.letters))


def bits_of(table: NGram, text: CharacterText) -> float:
    """Measure the bits per held-out character of interpolated counts, within each piece."""
    held_out = text.held_out.cpu()
    runs = (held_out[:, max(0, t - table.order + 1) : t + 1] for t in range(1, held_out.shape[1]))
    return -torch.stack([table.probability(run).log2() for run in runs]).mean().item()


def softmax_twin(n_tokens: int, sizes: Sizes) -> LinearTransformer:
    """Create a model that differs from `LinearTransformer` only in its mechanism: causal softmax attention."""
    model = LinearTransformer(n_tokens, sizes)
    model.stack = encoder_stack(sizes, fused_causal_attention, F.gelu, pre_norm)
    return model


def window_twin(n_tokens: int, sizes: Sizes, size: int = 8) -> LinearTransformer:
    """Create the softmax twin whose characters attend to the last `size` only, themselves included."""

    def windowed(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Attended:
        return scaled_dot_product_attention(q, k, v, window_of_tokens(q.shape[-2], size, q.device))

    model = LinearTransformer(n_tokens, sizes)
    model.stack = encoder_stack(sizes, windowed, F.gelu, pre_norm)
    return model


class ShortConvolution(nn.Module):
    """Mix each vector (B, T, d) with those of the three tokens before it, feature by feature, as Mamba does.

    Gu & Dao 2023, figure 3 (https://arxiv.org/abs/2312.00752). At the start each vector stays as it is.
    """

    def __init__(self, d: int, size: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(size)[-1].repeat(d, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Mix the vectors (B, T, d) of a text."""
        d, _, size = self.weight.shape
        return F.conv1d(F.pad(x.mT, (size - 1, 0)), self.weight, groups=d).mT


def convolved(model: LinearTransformer) -> LinearTransformer:
    """Put a short convolution between a model's embedding and its blocks."""
    model.stack = nn.Sequential(ShortConvolution(model.tokens.embedding_dim), model.stack)
    return model


def sampled(model: LanguageModel, prompt: Tensor, n: int, temperature: float = 0.6, seed: int = 0) -> Tensor:
    """Sample the codes of n characters after a prompt (1, T), one at a time.

    Returns:
        the codes of the prompt and of the sampled characters, (T + n,).
    """
    generator = torch.Generator(device=prompt.device).manual_seed(seed)

    def draw(logits: Tensor) -> Tensor:
        return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]

    return torch.cat([prompt[0], generate(model, prompt, n, draw)[0]])
