"""Train the decoders of the microscope's room: `python -m course_tools.lectures.lecture_17.microscope_room`.

A small Llama reads a word and a digit, and writes the last letters of the word again, as many as the digit says. It is trained
with 4, 2 and 1 heads of keys and values, and once without rotation. On one core it takes one minute.
"""

import json
from itertools import count

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from course_lib.attention import MultiHead
from course_lib.blocks import Sizes
from course_lib.models import Llama
from course_lib.shapes import Tokens
from course_lib.training import cosine_decay, train
from course_tools.microscope import room_weights
from course_tools.microscope.models import LETTERS, packed, unpacked

MODELS = {"4": (4, True, 1), "2": (2, True, 0), "1": (1, True, 0), "never": (2, False, 0)}
"""Each model: its heads of keys and values, whether it turns queries and keys, and its seed: the first with which it learns
almost all, for with other seeds these small models end between 0.8 and 0.9 of the letters. The last learns with none.
"""
SIZES, D_K, BASE = Sizes(d_model=12, n_heads=4, d_ff=8, n_layers=2), 8, 100.0
"""A base below Llama's 10,000: the texts are short, and of four pairs the slowest should turn, too."""
SHORTEST, LONGEST, LARGEST = 3, 14, 9
"""Letters of the shortest and the longest word, and the largest digit."""
STEPS = 800


def decoder(name: str) -> Llama:
    """Make a model by its name in `MODELS`; the tokens are 26 letters and the digits from 1."""
    n_groups, turned, _ = MODELS[name]
    model = Llama(len(LETTERS) + LARGEST, SIZES, n_groups, base=BASE, d_k=D_K)
    for layer in model.modules():
        if isinstance(layer, MultiHead) and not turned:
            layer.mechanism = layer.mechanism.mechanism  # what stands inside the rotation
    return model


def trained_decoder(name: str) -> Llama:
    """Read a model with the weights of the page."""
    stored = json.loads(room_weights("decoder").read_text(encoding="utf-8"))[name]
    model = decoder(name)
    return _filled(model, stored["weights"]).eval()


def echoes(n: int, generator: torch.Generator) -> tuple[Tokens, Bool[Tensor, "n T"], Bool[Tensor, "n T"]]:
    """Draw n texts (n, T): a word of random letters, a digit d, and then the last d letters and the digit, again and again.

    Returns:
        the tokens; True from the digit on, where the next token is known; and True where it is one of the first d.
    """
    T = LONGEST + 1 + LARGEST
    length = torch.randint(SHORTEST, LONGEST + 1, (n, 1), generator=generator)
    d = 1 + (torch.rand(n, 1, generator=generator) * length.clamp(max=LARGEST)).long()
    tokens = torch.randint(len(LETTERS), (n, T), generator=generator).scatter(1, length, len(LETTERS) - 1 + d)
    place = torch.arange(T)
    tokens = tokens.gather(1, torch.where(place > length, length - d + (place - length - 1) % (d + 1), place))
    return tokens, place >= length, (place >= length) & (place < length + d)


@torch.no_grad()
def shares_right(model: Llama) -> tuple[float, float]:
    """Return its share of right letters in new texts, each after the right ones before it, and of words without a mistake."""
    tokens, _, asked = echoes(2_000, torch.Generator().manual_seed(2))
    right = model(tokens).argmax(-1)[:, :-1] == tokens[:, 1:]
    asked = asked[:, :-1]
    return right[asked].float().mean().item(), (right | ~asked).all(-1).float().mean().item()


def main() -> None:
    """Train all and write their weights, on one thread: more of them add in another order."""
    torch.set_num_threads(1)
    stored = {name: trained(name) for name in MODELS}
    room_weights("decoder").write_text(json.dumps(stored, separators=(",", ":")) + "\n", encoding="utf-8", newline="\n")


def trained(name: str) -> dict:
    """Train a model, and return its weights as the page stores them, with its shares of letters and words that are right."""
    seed = MODELS[name][2]
    torch.manual_seed(seed)
    model, generator = decoder(name), torch.Generator().manual_seed(seed)
    texts = (echoes(64, generator) for _ in count())
    for _ in train(model, texts, _loss, steps=STEPS, lr=0.01, warmup=STEPS // 10, schedule=cosine_decay):
        pass
    weights = [{**packed(part.flatten()), "shape": list(part.shape)} for part in model.state_dict().values()]
    letters, words = (round(share, 3) for share in shares_right(_filled(model, weights)))
    print(f"{name}: {letters} of letters, {words} of words", flush=True)
    return {"letters": letters, "words": words, "weights": weights}


def _filled(model: Llama, weights: list[dict]) -> Llama:
    """Fill a model with packed weights, in their order; each has one scale, to keep the page small."""
    model.load_state_dict(dict(zip(model.state_dict(), map(unpacked, weights), strict=True)))
    return model


def _loss(model: Llama, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    tokens, known = batch[0], batch[1][:, :-1]
    return F.cross_entropy(model(tokens[:, :-1])[known], tokens[:, 1:][known])


if __name__ == "__main__":
    main()
