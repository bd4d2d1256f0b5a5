"""Train the models of the attention microscope and store their weights: `python -m course_tools.microscope.train`.

Each of the three is trained whole and once without each of its parts, on the same examples from the same first weights. All
random draws come from one seed. On one core of a laptop it takes about six minutes.
"""

import json
from collections.abc import Callable, Iterator
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import digits, secret_orders, walks
from course_lib.losses import next_token_loss
from course_lib.training import batches, cosine_decay, train
from course_tools.microscope.models import (
    LETTERS,
    MAKE,
    PADDING,
    PARTS,
    SIDE,
    T_TEXT,
    T_WORD,
    WEIGHTS,
    packed,
    settings,
    unpacked,
    without,
)

SEED = 0
N_TEST = 400
N_POINTS = 50
"""Points of a stored loss curve, each the mean of as many updates."""


def words(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw n words of random letters followed by padding, (n, T_WORD); their reversals; and the mask of letters."""
    lengths = torch.randint(1, T_WORD + 1, (n, 1), generator=generator)
    held = torch.arange(T_WORD) < lengths
    source = torch.randint(len(LETTERS), (n, T_WORD), generator=generator).masked_fill(~held, PADDING)
    return source, source.gather(1, (lengths - 1 - torch.arange(T_WORD)).clamp_min(0)), held


def texts(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw n texts (n, T_TEXT), and where the next letter is predictable (n, T_TEXT): the text has shown it before.

    Each text has its own eight letters in a secret circular order (`datasets.secret_orders`); it takes the next letter of
    that order or, now and then, jumps to any of the eight.
    """
    seeds = torch.randint(2**31, (2,), generator=generator).tolist()
    tokens, known = walks(secret_orders(1000, 1, 1, seed=seeds[0]).train, n, T=T_TEXT, seed=seeds[1])
    alphabets = torch.rand(n, len(LETTERS), generator=generator).argsort(-1)
    return alphabets.gather(1, tokens), known


def trained(name: str, missing: str | None = None) -> tuple[nn.Module, list[float]]:
    """Train a model, whole or without a part; return it, rounded to the precision of the page, and its loss curve."""
    torch.manual_seed(SEED)
    model = without(missing, MAKE[name]()) if missing else MAKE[name]()
    steps, lr, stream, loss = _TASKS[name]()
    made = train(model, stream, loss, steps=steps, lr=lr, warmup=steps // 20, schedule=cosine_decay)
    losses = torch.tensor([step.loss for step in made]).reshape(N_POINTS, -1).mean(-1)
    model.load_state_dict({key: unpacked(packed(part)) for key, part in model.state_dict().items()})
    return model.eval(), [round(loss, 4) for loss in losses.tolist()]


@torch.no_grad()
def accuracy_of(name: str, model: nn.Module) -> float:
    """Return the accuracy on examples that the model was not trained on: letters, the letter after a text's end, or digits.

    After its end, since a model without causal mask has every letter before the end in view; only where the text has shown it.
    """
    fresh = torch.Generator().manual_seed(SEED + 1)
    if name == "reverse":
        source, target, held = words(N_TEST, fresh)
        right = (model(source, held[:, None]).argmax(-1) == target)[held]
    elif name == "continue":
        tokens, known = texts(4 * N_TEST, fresh)
        right = (model(tokens[:, :-1])[:, -1].argmax(-1) == tokens[:, -1])[known[:, -1]]
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
        return F.cross_entropy(model(source, held[:, None])[held], target[held])

    return 6000, 8e-3, (words(64, generator) for _ in count()), loss


def _continue() -> Task:
    def loss(model: nn.Module, batch: tuple) -> Tensor:
        return next_token_loss(model(batch[0]), *batch)

    return 3000, 8e-3, batches(*texts(20_000, torch.Generator().manual_seed(SEED)), batch_size=64, seed=SEED), loss


def _digit() -> Task:
    images, labels = (part[N_TEST:] for part in shuffled_digits())

    def loss(model: nn.Module, batch: tuple) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1])

    return 1500, 5e-3, batches(images, labels, batch_size=48, seed=SEED), loss


_TASKS: dict[str, Callable[[], Task]] = {"reverse": _reverse, "continue": _continue, "digit": _digit}


def main() -> None:
    """Train all and write weights.json, on one thread: more of them add in another order."""
    torch.set_num_threads(1)
    stored: dict[str, dict] = {}
    for name, parts in PARTS.items():
        runs = {missing: _stored(name, missing) for missing in (None, *parts)}
        stored[name] = {**settings(MAKE[name]()), **runs.pop(None), "without": runs}
    stored["digit"]["examples"] = examples()
    WEIGHTS.write_text(json.dumps(stored, separators=(",", ":")) + "\n", encoding="utf-8", newline="\n")


def _stored(name: str, missing: str | None) -> dict:
    model, losses = trained(name, missing)
    accuracy = round(accuracy_of(name, model), 3)
    print(f"{name} without {missing}: loss {losses[-1]:.4f}, {100 * accuracy:.1f} % right", flush=True)
    return {
        "accuracy": accuracy,
        "losses": losses,
        "weights": {key: packed(part) for key, part in model.state_dict().items()},
    }


if __name__ == "__main__":
    main()
