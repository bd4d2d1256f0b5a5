"""The characters of Python's language reference in short pieces, and the training of a model of them."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pydoc_data.topics import topics
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks import Sizes, encoder_stack, pre_norm
from course_lib.fast import fused_causal_attention
from course_lib.generation import LanguageModel, generate
from course_lib.models import LinearTransformer, NGram
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted, show_losses
from course_tools.notebook.seed_scores import show_seeds


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


def fit_characters(model: nn.Module, text: CharacterText, seed: int, steps: int, lr: float, label: str) -> float:
    """Train a language model in place on the pieces to learn from; return its bits per character on those held out."""
    stream = batches(text.learn, batch_size=16, seed=seed)
    fitted(model.to(device()), stream, next_character_loss, steps=steps, lr=lr, label=label, warmup=50)
    with torch.no_grad():
        return next_character_loss(model, (text.held_out,)).item()


def bits_of_counts(text: CharacterText, order: int) -> float:
    """Measure the bits per held-out character of interpolated counts of runs of `order` characters, within each piece."""
    table = NGram(text.learn.cpu().unfold(1, order, 1).flatten(0, 1), len(text.letters))
    held_out = text.held_out.cpu()
    runs = (held_out[:, max(0, t - order + 1) : t + 1] for t in range(1, held_out.shape[1]))
    return -torch.stack([table.probability(run).log2() for run in runs]).mean().item()


class Writer(NamedTuple):
    """A trained language model, and its bits per character on held-out text."""

    bits: float
    model: nn.Module


def softmax_twin(n_tokens: int, sizes: Sizes) -> LinearTransformer:
    """Create a model that differs from `LinearTransformer` only in its mechanism: causal softmax attention."""
    model = LinearTransformer(n_tokens, sizes)
    model.stack = encoder_stack(sizes, fused_causal_attention, F.gelu, pre_norm)
    return model


def train_writers(
    makers: Mapping[str, tuple[Callable[[], nn.Module], Iterable[int]]],
    text: CharacterText,
    steps: int,
    lr: float,
    across: Mapping[str, float] | None = None,
) -> dict[str, list[Writer]]:
    """Train language models of characters with `fit_characters`; draw their losses, and the bits per character of each seed.

    Args:
        makers: name -> what creates the model, and the seeds of its weights and batches.
        text: the text.
        steps: number of updates.
        lr: the maximum learning rate.
        across: name -> bits of a dashed line beside the models, such as a table of counts.
    """
    writers: dict[str, list[Writer]] = {}
    for name, (make, seeds) in makers.items():
        writers[name] = []
        for seed in seeds:
            torch.manual_seed(seed)
            model = make()
            writers[name].append(Writer(fit_characters(model, text, seed, steps, lr, name), model))
    show_losses({name: [one.model for one in trained] for name, trained in writers.items()}, "bits per character")
    of_seeds = {name: [one.bits for one in trained] for name, trained in writers.items()}
    show_seeds(of_seeds, "bits per character, held-out text", across=across)
    return writers


def sampled(model: LanguageModel, prompt: Tensor, n: int, temperature: float = 0.6, seed: int = 0) -> Tensor:
    """Sample the codes of n characters after a prompt (1, T), one at a time.

    Returns:
        the codes of the prompt and of the sampled characters, (T + n,).
    """
    generator = torch.Generator(device=prompt.device).manual_seed(seed)

    def draw(logits: Tensor) -> Tensor:
        return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]

    return torch.cat([prompt[0], generate(model, prompt, n, draw)[0]])


@torch.no_grad()
def gap_of_steps(model: LanguageModel, parallel: nn.Module, pieces: Tensor, n_prompt: int = 20) -> float:
    """Compare the last logits of pieces (B, T) read in parallel with those read step by step after a prompt.

    Args:
        model: has `start` and `step`.
        parallel: computes logits (B, T, n_tokens).
        pieces: (B, T), T > n_prompt.
        n_prompt: number of tokens that `start` reads.

    Returns:
        the largest difference.
    """
    state = model.start(pieces[:, :n_prompt])
    for tokens in pieces[:, n_prompt:].mT:
        logits, state = model.step(tokens, state)
    return (logits - parallel(pieces)[:, -1]).abs().max().item()
