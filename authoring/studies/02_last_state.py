"""Study for lecture 02: exact match of the decoder without attention against the number of updates.

Trains the encoder-decoder of section 1, which passes on the last state alone, for 400, 1,200 and 2,500 updates at learning rate
4e-3 (three seeds each) and writes `02_last_state.json` beside this file: exact match on new sentences of one and of two dates.
Run it with `python authoring/studies/02_last_state.py`; on one CPU thread of its own it takes some minutes.
"""

import json
import time
from pathlib import Path
from statistics import mean

import torch
from course_lib.datasets import PADDING, Vocabulary, dates, joined
from course_lib.generation import greedy_translation
from course_lib.losses import teacher_forced_loss
from course_lib.models import Encoder, PlainDecoder, Seq2Seq, stacked_bidirectional_gru
from course_lib.primitives import fused_gru
from course_lib.training import batches, train

D, LR, SEEDS, UPDATES = 64, 4e-3, (0, 1, 2), (2_500, 400, 1_200)
RESULT = Path(__file__).with_suffix(".json")

days = dates(4_000, 300, 500, formats=("medium",), seed=0)
known = joined(days.train, 1, 3_000, seed=1) + joined(days.train, 2, 6_000, seed=2)
new = {n: joined(days.test, n, 300, seed=9) for n in (1, 2)}
letters, characters = Vocabulary.of(pair.source for pair in known), Vocabulary.of(pair.target for pair in known)


def last_state() -> PlainDecoder:
    """The decoder of section 1: the encoder's last state is all that it gets."""
    return PlainDecoder(len(characters), D // 2, D, D, fused_gru)


def trained(seed: int, updates: int) -> Seq2Seq:
    """An encoder-decoder without attention after so many updates."""
    torch.manual_seed(seed)
    model = Seq2Seq(Encoder(len(letters), D // 2, D // 2, stacked_bidirectional_gru), last_state())
    source, lengths = letters.batch([pair.source for pair in known])
    target, _ = characters.batch([pair.target for pair in known], begin=True, end=True)

    def loss(model, batch):
        return teacher_forced_loss(model(batch[0][:, : batch[1].max()], batch[1], batch[2]).logits, batch[2], PADDING)

    stream = batches(source, lengths, target, batch_size=32, seed=seed)
    for _ in train(model, stream, loss, steps=updates, lr=LR, warmup=updates // 10):
        pass
    return model.eval()


@torch.no_grad()
def exact_match(model: Seq2Seq, pairs) -> float:
    """The share of new sentences whose answer is right in every character."""
    answer = greedy_translation(model, *letters.batch([pair.source for pair in pairs]), 36).tokens.tolist()
    return mean(characters.decode(row) == pair.target for row, pair in zip(answer, pairs, strict=True))


def main() -> None:
    """Train all models and write the result after each."""
    runs, start = [], time.perf_counter()
    for seed in SEEDS:
        for updates in UPDATES:
            model = trained(seed, updates)
            match = {str(n): exact_match(model, pairs) for n, pairs in new.items()}
            runs.append({"updates": updates, "seed": seed, "exact match": match})
            print(runs[-1], flush=True)
            record = {
                "settings": {"width": D, "learning rate": LR, "batch": 32},
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
                "seconds": round(time.perf_counter() - start),
                "runs": runs,
            }
            RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
