"""Train the three models of the attention microscope and store their weights: `python -m course_tools.microscope.train`.

All random draws come from one seed. On one core of a laptop it takes about two minutes.
"""

import json
from collections.abc import Callable, Iterator
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import digits, secret_orders, walks
from course_lib.losses import next_token_loss
from course_lib.training import batches, train
from course_tools.microscope.models import LETTERS, MAKE, PADDING, SIDE, T_TEXT, T_WORD, WEIGHTS, packed, settings, unpacked

SEED = 0
N_TEST = 400


def words(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw n words of random letters with padding in front, (n, T_WORD); their reversals; and the mask of letters."""
    lengths = torch.randint(2, T_WORD + 1, (n, 1), generator=generator)
    held = torch.arange(T_WORD) >= T_WORD - lengths
    source = torch.randint(len(LETTERS), (n, T_WORD), generator=generator).masked_fill(~held, PADDING)
    return source, source.flip(1), held


def texts(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw n texts (n, T_TEXT), and where the next letter is predictable (n, T_TEXT): the text has shown it before.

    Each text has its own eight letters in a secret circular order (`datasets.secret_orders`); it takes the next letter of
    that order or, now and then, jumps to any of the eight.
    """
    seeds = torch.randint(2**31, (2,), generator=generator).tolist()
    tokens, known = walks(secret_orders(1000, 1, 1, seed=seeds[0]).train, n, T=T_TEXT, seed=seeds[1])
    alphabets = torch.rand(n, len(LETTERS), generator=generator).argsort(-1)
    return alphabets.gather(1, tokens), known


def trained(name: str, model: nn.Module) -> nn.Module:
    """Train one of the models in place, and round its weights to the precision of the page."""
    steps, lr, stream, loss = _TASKS[name]()
    for step in train(model, stream, loss, steps=steps, lr=lr, warmup=steps // 20):
        if step.index % 250 == 0:
            print(f"{name}: step {step.index} of {steps}, loss {step.loss:.3f}", flush=True)
    model.load_state_dict({key: unpacked(packed(part)) for key, part in model.state_dict().items()})
    return model.eval()


@torch.no_grad()
def accuracy_of(name: str, model: nn.Module) -> float:
    """Return the accuracy of a model on `N_TEST` examples that it was not trained on."""
    fresh = torch.Generator().manual_seed(SEED + 1)
    if name == "reverse":
        source, target, held = words(N_TEST, fresh)
        right = (model(source, held[:, None]).argmax(-1) == target)[held.flip(1)]
    elif name == "continue":
        tokens, known = texts(N_TEST, fresh)
        right = (model(tokens)[:, :-1].argmax(-1) == tokens[:, 1:])[known[:, 1:]]
    else:
        images, labels = shuffled_digits()
        right = model(images[:N_TEST]).argmax(-1) == labels[:N_TEST]
    return right.float().mean().item()


def shuffled_digits() -> tuple[Tensor, Tensor]:
    """Return the digits (n, 1, SIDE, SIDE) and their labels in a random order: the first `N_TEST` are held out."""
    images, labels = digits()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(SEED))
    return images[order].reshape(-1, 1, SIDE, SIDE), labels[order]


def examples() -> list[str]:
    """Write one held-out digit of each class: 64 pixels, characters 0 to g for 0 to 16 sixteenths of ink."""
    images, labels = shuffled_digits()
    first = [images[:N_TEST][labels[:N_TEST] == digit][0] for digit in range(10)]
    return ["".join("0123456789abcdefg"[ink] for ink in (image * 16).round().long().flatten().tolist()) for image in first]


Task = tuple[int, float, Iterator, Callable[[nn.Module, tuple], Tensor]]
"""Steps, learning rate, batches, and the loss of a model on a batch."""


def _reverse() -> Task:
    generator = torch.Generator().manual_seed(SEED)

    def loss(model: nn.Module, batch: tuple) -> Tensor:
        source, target, held = batch
        return F.cross_entropy(model(source, held[:, None])[held.flip(1)], target[held.flip(1)])

    return 1000, 8e-3, (words(64, generator) for _ in count()), loss


def _continue() -> Task:
    def loss(model: nn.Module, batch: tuple) -> Tensor:
        return next_token_loss(model(batch[0]), *batch)

    return 1600, 6e-3, batches(*texts(8_000, torch.Generator().manual_seed(SEED)), batch_size=64, seed=SEED), loss


def _digit() -> Task:
    images, labels = (part[N_TEST:] for part in shuffled_digits())

    def loss(model: nn.Module, batch: tuple) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1])

    return 1000, 4e-3, batches(images, labels, batch_size=48, seed=SEED), loss


_TASKS: dict[str, Callable[[], Task]] = {"reverse": _reverse, "continue": _continue, "digit": _digit}


def main() -> None:
    """Train all three and write weights.json."""
    stored: dict[str, dict] = {}
    for name, make in MAKE.items():
        torch.manual_seed(SEED)
        model = trained(name, make())
        accuracy = accuracy_of(name, model)
        print(f"{name}: {accuracy:.3f} of {N_TEST} new examples")
        stored[name] = {
            "accuracy": round(accuracy, 3),
            **settings(model),
            "weights": {key: packed(part) for key, part in model.state_dict().items()},
        }
    stored["digit"]["examples"] = examples()
    WEIGHTS.write_text(json.dumps(stored, separators=(",", ":")) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
