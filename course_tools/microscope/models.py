"""The three small transformers of the attention microscope, whole or without a part; a stored weight is one character.

All three are `course_lib.blocks.encoder_stack`, pre-norm, with GELU; page.js computes the same stack. A matrix is stored with
one scale for each row and 6 bits for each number, so that a character of base64 holds one weight:

    W[i, j] = scale[i] · (n[i, j] - 31)        n from 0 to 62
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import Attended, Mechanism, MultiHead, scaled_dot_product_attention
from course_lib.blocks import Block, Sizes, draw_weights, encoder_stack, pre_norm
from course_lib.models import GPT, ViT
from course_lib.primitives import LearnedPositions
from course_lib.shapes import Keys, Logits, Mask, Queries, Tokens, Values

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PADDING = len(LETTERS)
"""The token after the last letter of a word, in `WordReverser`."""
T_WORD, T_TEXT, SIDE = 6, 24, 8
"""Length of the longest word to reverse, length of the longest text to continue, and rows and columns of a digit."""
WEIGHTS = Path(__file__).with_name("weights.json")

_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_LARGEST = 31


class WordReverser(nn.Module):
    """Writes a word of up to `T_WORD` letters in reverse order; after a shorter word stands padding, so its length matters."""

    def __init__(self, sizes: Sizes) -> None:
        """Set up the embedding of letters and padding, learned positions, the stack, and the read-out."""
        super().__init__()
        self.tokens = nn.Embedding(len(LETTERS) + 1, sizes.d_model)
        self.positions = LearnedPositions(T_WORD, sizes.d_model)
        self.stack = encoder_stack(sizes, activation=F.gelu, residual=pre_norm)
        self.read_out = nn.Linear(sizes.d_model, len(LETTERS))
        draw_weights(self, sizes.d_model)

    def forward(self, words: Tokens, mask: Mask | None = None) -> Logits:
        """Return logits (B, T, 26) of words (B, T), the reversal from position 0. The mask (B, 1, T) is True at letters."""
        return self.read_out(self.stack(self.tokens(words) + self.positions(words.shape[1]), mask))


MAKE: dict[str, Callable[[], nn.Module]] = {
    "reverse": lambda: WordReverser(Sizes(d_model=24, n_heads=2, d_ff=48, n_layers=2)),
    "continue": lambda: GPT(len(LETTERS), T_TEXT, Sizes(d_model=24, n_heads=1, d_ff=32, n_layers=2)),
    "digit": lambda: ViT(10, (1, SIDE, SIDE), 1, Sizes(d_model=16, n_heads=2, d_ff=32, n_layers=2)),
}
"""The constructor of each model: one reverses a word, one continues a text, one reads a digit from its pixels."""
PARTS = {"reverse": ("scale", "mask", "positions"), "continue": ("scale", "mask", "positions"), "digit": ("scale", "positions")}
"""What each model is also trained without."""


def without(part: str, model: nn.Module) -> nn.Module:
    """Remove the "scale", the "mask" or the "positions" of a model in place; the positions become zeros that do not learn."""
    if part == "positions":
        positions = model.encoder.positions if isinstance(model, ViT) else model.positions.vectors
        nn.init.zeros_(positions.requires_grad_(False))
        return model
    for layer in (layer for layer in model.modules() if isinstance(layer, MultiHead)):
        layer.mechanism = _maskless if part == "mask" else partial(_unscaled, layer.mechanism)
    return model


def _maskless(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    return scaled_dot_product_attention(q, k, v)


def _unscaled(mechanism: Mechanism, q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    return mechanism(q * q.shape[-1] ** 0.5, k, v, mask)


def trained_model(name: str, missing: str | None = None) -> nn.Module:
    """Read a model with the weights that `train.py` stored, which are those of the page: whole, or trained without a part."""
    stored = json.loads(WEIGHTS.read_text(encoding="utf-8"))[name]
    model = without(missing, MAKE[name]()) if missing else MAKE[name]()
    weights = (stored["without"][missing] if missing else stored)["weights"]
    model.load_state_dict({key: unpacked(part) for key, part in weights.items()})
    return model.eval()


def settings(model: nn.Module) -> dict:
    """Return what the page needs of a model besides its weights: the number of heads, and ε of its norms."""
    blocks = [part for part in model.modules() if isinstance(part, Block)]
    (n_heads,) = {block.mixer.attention.n_heads for block in blocks}
    (eps,) = {norm.eps for norm in model.modules() if isinstance(norm, nn.LayerNorm)}
    return {"n_heads": n_heads, "eps": eps}


def packed(weights: Tensor) -> dict:
    """Write a tensor as {"shape", "scales", "characters"}: one scale for each row, one character for each number."""
    rows = weights.detach().reshape(-1, weights.shape[-1]) if weights.dim() > 1 else weights.detach()[None]
    scales = [float(f"{scale:.4g}") for scale in (rows.abs().amax(-1) / _LARGEST).clamp_min(1e-8).tolist()]
    numbers = (rows / torch.tensor(scales)[:, None]).round().clamp(-_LARGEST, _LARGEST).long() + _LARGEST
    return {
        "shape": list(weights.shape),
        "scales": scales,
        "characters": "".join(_CHARACTERS[n] for n in numbers.flatten().tolist()),
    }


def unpacked(stored: dict) -> Tensor:
    """Read a tensor that `packed` wrote."""
    numbers = torch.tensor([_CHARACTERS.index(character) - _LARGEST for character in stored["characters"]])
    return (numbers.reshape(len(stored["scales"]), -1) * torch.tensor(stored["scales"])[:, None]).reshape(stored["shape"])
