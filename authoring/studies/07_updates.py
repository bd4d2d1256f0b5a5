"""Does GPT overtake the table of counts on the language reference, with a larger model and more updates?

Rivals: the table of lecture 07 (Witten and Bell) and Kneser-Ney's counts, each with the length of runs that is best on held-out
text, and an LSTM with as many parameters as GPT that reads the same batches. All learn from the same third of a million
characters of Python's language reference and are tested on paragraphs that they never saw. Each network has one learning rate;
no others were tried.

Budget: 2,500 updates with 1,024 characters each; about 3 minutes for GPT and 2 for the LSTM on one CPU thread. On a GPU: the same
settings; the study of larger models is `07_text`.
"""

import math
from functools import partial

import torch
from torch import nn

from course_lib.fast import fused_causal_attention
from course_lib.blocks import Sizes
from course_lib.datasets import Vocabulary, language_reference
from course_lib.generation import generate, sample
from course_lib.fast import fused_lstm
from course_lib.losses import next_token_loss
from course_lib.models import GPT, KneserNey, NGram
from course_lib.primitives import LSTM
from course_lib.training import batches, train

T, UPDATES = 64, 2_500
SETTINGS = {name: name for name in ("table", "Kneser-Ney", "GPT", "LSTM")}
SEEDS = (0, 1, 2)
TOLERANCE = {"bits": 0.05, "held-out bits": 0.05, "curve": 0.15}


class Recurrent(nn.Module):
    """An LSTM as a language model: it reads tokens and gives logits for the next."""

    def __init__(self, n_tokens):
        super().__init__()
        self.tokens, self.lstm, self.read_out = nn.Embedding(n_tokens, 64), LSTM(64, 283, fused_lstm), nn.Linear(283, n_tokens)

    def forward(self, tokens):
        return self.read_out(self.lstm(self.tokens(tokens))[0])


def run(setting, seed, device):
    """Train or count; bits per character of new text, those of held-out text through the updates, and what GPT writes."""
    text = language_reference(seed=seed)
    characters = Vocabulary.of([text.train])
    known, valid, new = (torch.tensor(characters.encode(part), device=device) for part in (text.train, text.valid, text.test))
    if setting in ("table", "Kneser-Ney"):
        counter = NGram if setting == "table" else KneserNey
        counted = {n: counter(known.cpu().unfold(0, n, 1), len(characters)) for n in range(3, 9)}
        costs = {
            n: [-model.probability(part.cpu().unfold(0, n, 1)).log2().mean().item() for part in (valid, new)]
            for n, model in counted.items()
        }
        best = min(costs, key=lambda n: costs[n][0])
        return {"length of runs": best, "held-out bits": costs[best][0], "bits": costs[best][1]}
    torch.manual_seed(seed)
    if setting == "GPT":
        model, lr = GPT(len(characters), T, Sizes(128, 4, 512, 2), fused_causal_attention).to(device), 4e-3
    else:
        model, lr = Recurrent(len(characters)).to(device), 6e-3
    curve, stream = {}, batches(known.unfold(0, T, 1), batch_size=16, seed=seed)
    for step in train(
        model, stream, lambda model, batch: next_token_loss(model(batch[0]), batch[0]), steps=UPDATES, lr=lr, warmup=50
    ):
        if (step.index + 1) * 10 % UPDATES == 0:
            curve[step.index + 1] = bits(model.eval(), valid)
            model.train()
    report = {"held-out bits": curve[UPDATES], "bits": bits(model.eval(), new), "curve": curve, "lr": lr}
    report |= {"parameters": sum(p.numel() for p in model.parameters())}
    if setting == "GPT":
        choose = partial(sample, temperature=0.75, generator=torch.Generator(device).manual_seed(seed))
        written = new[: T // 2]
        for _ in range(20):
            written = torch.cat([written, generate(model, written[None, -T // 2 :], T // 2, choose)[0]])
        report |= {"texts": {"prompt": text.test[: T // 2], "sample": characters.decode(written[T // 2 :].tolist())}}
    return report


@torch.no_grad()
def bits(model, tokens):
    """Bits per character of a text by a network, each character with at least half a window of context."""
    windows = tokens.unfold(0, T, T // 2)
    asked = (torch.arange(T, device=tokens.device) >= T // 2).expand_as(windows)
    return next_token_loss(model(windows), windows, asked).item() / math.log(2)


def figure(study):
    """Bits per character of held-out text through the updates, and those of the counts."""
    from course_tools.notebook import plots

    curves = {kind: study.curve(kind) for kind in ("GPT", "LSTM")}
    heights = {kind: study.mean(kind, "held-out bits") for kind in ("table", "Kneser-Ney")}
    drawn = plots.curves(curves, "update", "bits per character, held-out text", "as recorded", "x", heights)
    said = "; ".join(f"{kind} {bits[0]:.2f} to {bits[-1]:.2f}" for kind, (_, bits) in curves.items())
    return drawn, (
        f"Bits per character of held-out text while the networks train for {UPDATES:,} updates: {said}; "
        + ", ".join(f"{kind} {height:.2f}" for kind, height in heights.items())
        + "."
    )


def finding(study):
    """Bits per character of new text, and what the second half of the updates gains."""
    scores = ", ".join(f"{kind} {study.mean(kind, 'bits'):.2f}" for kind in study.names)
    gains = []
    for kind in ("GPT", "LSTM"):
        updates, values = study.curve(kind)
        gains.append(f"{kind} {values[updates.index(UPDATES // 2)] - values[-1]:.2f}")
    n = len({run.seed for run in study.runs})
    return (
        f"Bits per character of new text: {scores}. The second half of the updates gains, in bits on held-out text: "
        f"{', '.join(gains)}. " + ("One seed: how far chance reaches is not known." if n == 1 else f"Means of {n} seeds.")
    )
