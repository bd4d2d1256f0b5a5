"""Translation with attention: an encoder by the student's function, controls, and where the attention weights lie."""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.attention import Attended
from course_lib.generation import greedy_translation
from course_lib.models.bigru_encoder import Encoded, reverse
from course_lib.primitives import padding_mask
from course_tools.notebook.device import device
from course_tools.notebook.plots import attention_map, describe
from course_tools.notebook.show import show
from course_tools.notebook.translation import Vocabularies

# A bidirectional recurrent encoder computed by a function for one direction.


Encode = Callable[..., tuple[Tensor, Tensor]]
"""`(x, lengths, h, W, U, b)` → states (B, T, n) and last state (B, n), as `course_lib.primitives.encode`."""


class EncoderByFunction(nn.Module):
    """An encoder that reads a source forwards and backwards by `encode`, with the weights of two `nn.RNN`."""

    def __init__(self, encode: Encode, n_tokens: int, d: int) -> None:
        """Create an encoder for n_tokens tokens, with states of size d: d / 2 from each direction."""
        super().__init__()
        self.encode = encode
        self.embedding = nn.Embedding(n_tokens, d // 2)
        self.there, self.back = (nn.RNN(d // 2, d // 2) for _ in range(2))

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Compute keys and values (B, T, d), the last states (B, d) and the mask of source (B, T) with these lengths (B,)."""
        x = self.embedding(source)
        there, last = self._read(x, lengths, self.there)
        back, first = self._read(reverse(x, lengths), lengths, self.back)
        states = torch.cat([there, reverse(back, lengths)], dim=-1)
        return Encoded(states, states, torch.cat([last, first], dim=-1), padding_mask(lengths, source.shape[1]))

    def _read(self, x: Tensor, lengths: Tensor, cell: nn.RNN) -> tuple[Tensor, Tensor]:
        W, U, b_W, b_U = cell.parameters()
        return self.encode(x, lengths, x.new_zeros(len(x), len(U)), W, U, b_W + b_U)


# Controls of a translation model with attention: keys in reverse order, no mask, and how far its gradient reaches.


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


# Translate with the attention weights of each token: draw them as a map, and measure where they lie.


_DATE = len("1987-03-05")
"""Characters of one date in the answer; a separator stands between two dates."""


@torch.no_grad()
def aligned(model: nn.Module, texts: Sequence[str], words: Vocabularies, most: int = 36) -> tuple[list[str], Tensor | None]:
    """Translate texts by greedy decoding, at most `most` tokens each.

    Returns:
        the answers, and the attention weights (B, T_q, T_k) on the CPU; None if the model has no attention.
    """
    source, lengths = words[0].batch(texts)
    output = greedy_translation(model, source.to(device()), lengths.to(device()), most)
    weights = None if output.weights is None else output.weights.cpu()
    return [words[1].decode(row) for row in output.tokens.tolist()], weights


def _with_attention(model: nn.Module, texts: Sequence[str], words: Vocabularies) -> tuple[list[str], Tensor]:
    """Translate as `aligned` does; raise ValueError if the model has no attention."""
    answers, weights = aligned(model, texts, words)
    if weights is None:
        raise ValueError("the model has no attention, so there are no weights.")
    return answers, weights


def weight_in_own_date(model: nn.Module, pairs: Sequence[Any], words: Vocabularies) -> float:
    """Measure where a model attends while it writes two dates: the fraction of the weight in the source date that it converts.

    Args:
        model: as `aligned` takes it, with attention.
        pairs: sources of two dates, separated by "; "; a pair is left out if its answer does not have the length of two dates.
        words: the two vocabularies.

    Returns:
        the mean over the characters of the answers; uniform weights give about a half.

    Raises:
        ValueError: the model has no attention, or no answer has the length of two dates.
    """
    texts = [pair.source for pair in pairs]
    answers, weights = _with_attention(model, texts, words)
    found = []
    for text, rows, answer in zip(texts, weights, answers, strict=True):
        half, second = text.index(";"), _DATE + 1
        if len(answer) == second + _DATE:
            own = rows[:_DATE, :half].sum(1), rows[second : second + _DATE, half : len(text)].sum(1)
            found.append(torch.cat(own).mean().item())
    if not found:
        raise ValueError("no answer has the length of two dates.")
    return mean(found)


def show_alignment(
    model: nn.Module,
    text: str,
    words: Vocabularies,
    tokens: Callable[[str], list[str]] = list,
    x: str = "source",
    y: str = "answer",
    note: str = "",
) -> None:
    """Draw the attention weights while a model translates a text: a row for each token of the answer and one for its end.

    Args:
        model: as `aligned` takes it, with attention.
        text: the source.
        words: the two vocabularies.
        tokens: cuts a text into the tokens that the model reads and writes: `list` for characters, `str.split` for words.
        x: what the columns are.
        y: what the rows are.
        note: a sentence for the alternative text; by default the largest weights of the first rows.

    Raises:
        ValueError: the model has no attention.
    """
    (answer,), weights = _with_attention(model, [text], words)
    rows, columns = [*tokens(answer), "end"][: weights.shape[1]], tokens(text)
    weights = weights[0, : len(rows), : len(columns)]
    figure = attention_map(weights, rows, columns, x=x, y=y)
    show(figure, alt=f"Attention map for '{text}', answered by '{answer}'. {note or describe(weights, rows, columns, 9)}")
