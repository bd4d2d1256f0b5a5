"""Train the memories of the microscope's room: `python -m course_tools.lectures.lecture_18.microscope_room`.

Three models of this lecture learn hot keys, which are letters here: one that adds, one that forgets, one that corrects. All
random draws come from one seed. On one core it takes half a minute.
"""

import json
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.training import cosine_decay, train
from course_tools.lectures.lecture_18.experiments import KeyValueMemory, delta_rule, gate_rule, sum_rule
from course_tools.lectures.lecture_18.rewritten_keys import Writes, hot_keys, stream
from course_tools.microscope import room_weights
from course_tools.microscope.models import LETTERS, packed, unpacked

RULES = {"sum": (sum_rule, 0.0), "gate": (gate_rule, 3.0), "delta": (delta_rule, 1.0)}
"""Each rule, and the logit at which its gate begins."""
SEED, STEPS = 0, 600


def memory(name: str) -> KeyValueMemory:
    """Make the model of a rule, "sum", "gate" or "delta", with a key for each letter."""
    rule, logit = RULES[name]
    return KeyValueMemory(rule, (logit,), d_model=32, n_keys=len(LETTERS))


def trained_memory(name: str) -> KeyValueMemory:
    """Read the model of a rule with the weights of the page."""
    stored = json.loads(room_weights("memory").read_text(encoding="utf-8"))[name]
    model = memory(name)
    model.load_state_dict({key: unpacked(part) for key, part in stored["weights"].items()})
    return model.eval()


@torch.no_grad()
def shares_right(model: KeyValueMemory) -> tuple[float, float]:
    """Return the shares of new questions that it answers: about hot keys, and about keys that are written once."""
    new = hot_keys(2_000, torch.Generator().manual_seed(SEED + 1), len(LETTERS))
    right = (model(*new[:3]).argmax(-1) == new.wanted).float()
    return right[:, :4].mean().item(), right[:, 4:].mean().item()


def main() -> None:
    """Train all and write their weights, on one thread: more of them add in another order."""
    torch.set_num_threads(1)
    stored = {}
    for name in RULES:
        torch.manual_seed(SEED)
        model = memory(name)
        writes = stream(partial(hot_keys, n_keys=len(LETTERS)), 64, SEED, torch.device("cpu"))
        for _ in train(model, writes, _loss, steps=STEPS, lr=0.01, warmup=STEPS // 10, schedule=cosine_decay):
            pass
        model.load_state_dict({key: unpacked(packed(part)) for key, part in model.state_dict().items()})
        hot, once = (round(share, 3) for share in shares_right(model))
        print(f"{name}: {hot} of hot keys, {once} of the others", flush=True)
        stored[name] = {"hot": hot, "once": once, "weights": {key: packed(part) for key, part in model.state_dict().items()}}
    room_weights("memory").write_text(json.dumps(stored, separators=(",", ":")) + "\n", encoding="utf-8", newline="\n")


def _loss(model: KeyValueMemory, writes: Writes) -> Tensor:
    return F.cross_entropy(model(*writes[:3]).flatten(0, 1), writes.wanted.flatten())


if __name__ == "__main__":
    main()
