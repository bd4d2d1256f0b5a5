"""Which outputs of ELMo change with the words that follow; for lecture 08."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.models import ELMo


class Changes(NamedTuple):
    """Largest change of the forward logits, and the number of features of the mixture that change."""

    logits: float
    n_features: int


@torch.no_grad()
def changes_with_the_future(elmo: ELMo, mix: Callable[[Tensor, Tensor, Tensor], Tensor], seed: int) -> Changes:
    """Change the words 6 to 8 of a random sentence of nine, and compare the outputs at words 0 to 5.

    Args:
        elmo: a model.
        mix: mixes its layers, as `scalar_mix` does; all layers have the same weight.
        seed: determines the sentence.
    """
    generator, n_tokens = torch.Generator().manual_seed(seed), len(elmo.tokens.weight)
    first, other = torch.randint(4, n_tokens, (2, 1, 9), generator=generator)
    texts, lengths = (first, torch.cat([first[:, :6], other[:, 6:]], 1)), torch.tensor([9])
    logits, logits_of_changed = (elmo.language_models(text, lengths).next[:, :6] for text in texts)
    layers, layers_of_changed = (elmo(text, lengths)[:, 5] for text in texts)
    w, gamma = torch.zeros(layers.shape[1]), torch.ones(())
    moved = (mix(layers, w, gamma) - mix(layers_of_changed, w, gamma)).abs()
    return Changes((logits - logits_of_changed).abs().max().item(), int((moved > 0).sum()))
