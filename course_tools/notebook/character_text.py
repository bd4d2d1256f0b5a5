"""The characters of Python's language reference in short pieces, and the training of a model of them: for lecture 14."""

import math
from dataclasses import dataclass
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted


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
