"""Do a GPT and an LSTM overtake a table of counts, if they train longer or are larger?

Rivals: a GPT of two layers, an LSTM with as many parameters that reads the same batches, and Kneser-Ney counts of runs of up to
eight characters, of whatever length is best on held-out plays. Each reads 4.2 million characters of Shakespeare (the counts also
0.2 and 1 million) and is tested on three plays that it never saw. For each network, three learning rates are tried first
for 800 updates, which keeps the one that is best on held-out plays; it reports the weights that were best there.

A network reads all earlier characters of its window, the counts only the last few. So two more rivals mix these counts with
counts of the new text itself: of these earlier characters, or of all new text before, earlier plays included, which is more
than a network sees.

Budget: 24,000 updates with 1,024 characters each, and the trials; 15 to 23 minutes for each network on one CPU thread,
trials included. On a GPU: twelve times the parameters, dropout of 0.1, and 4,000 updates with 16,384 characters each, after
trials of 300; about three minutes for each network. The counts run on the CPU there, too.
"""

import math
from collections import Counter, defaultdict
from copy import deepcopy
from functools import partial
from statistics import mean
from typing import NamedTuple

import torch
from torch import nn

from course_lib.fast import fused_causal_attention
from course_lib.blocks import Sizes
from course_lib.datasets import Vocabulary, shakespeare
from course_lib.generation import generate, sample
from course_lib.fast import fused_lstm
from course_lib.losses import next_token_loss
from course_lib.models import GPT, KneserNey
from course_lib.primitives import LSTM
from course_lib.training import batches, train


class Scale(NamedTuple):
    """Sizes of the two networks, dropout, how long they are trained, and the learning rates that are tried."""

    gpt: Sizes
    lstm: tuple[int, int]
    dropout: float
    T: int
    batch_size: int
    updates: int
    trial: int
    rates: dict[str, tuple[float, ...]]


SCALES = {
    "cpu": Scale(
        gpt=Sizes(128, 4, 512, 2),
        lstm=(64, 283),
        dropout=0.0,
        T=64,
        batch_size=16,
        updates=24_000,
        trial=800,
        rates={"GPT": (3e-3, 6e-3, 1.2e-2), "LSTM": (6e-3, 1.2e-2, 2.4e-2)},
    ),
    "cuda": Scale(
        gpt=Sizes(256, 8, 1_024, 6),
        lstm=(128, 1_024),
        dropout=0.1,
        T=256,
        batch_size=64,
        updates=4_000,
        trial=300,
        rates={"GPT": (1e-3, 2e-3, 4e-3), "LSTM": (2e-3, 4e-3, 8e-3)},
    ),
}
AMOUNTS = {"4.2 million": 4_200_000, "1 million": 1_000_000, "0.2 million": 200_000}
LONGEST, *FEWER = AMOUNTS
SETTINGS = {f"{kind}, {LONGEST}": (kind, LONGEST) for kind in ("counts", "GPT", "LSTM")}
SETTINGS |= {f"counts, {amount}": ("counts", amount) for amount in FEWER}
NETWORKS = "GPT", "LSTM"
MIXED = {"counts and window": False, "counts and all before": True}
"""Kinds of counts that are mixed with counts of the new text: False = of the window alone, True = of all text before."""
SETTINGS |= {f"{kind}, {LONGEST}": (kind, LONGEST) for kind in MIXED}
GPU_SETTINGS = SETTINGS
SEEDS = (0, 1)
MANNERS = {
    "sample": (1_000, {"temperature": 0.75}),
    "greedy": (200, {"k": 1}),
    "nucleus of 0.8": (200, {"p": 0.8}),
    "temperature 1": (200, {}),
    "temperature 1.5": (200, {"temperature": 1.5}),
}
N_VALID, N_NEW = 600, 3_000
PART = 100
LONGEST_CONTEXT = 6  # on held-out plays better than 4 and, for all text before, than 8
TOLERANCE = {"bits": 0.05, "held-out bits": 0.05, "curve": 0.15, "lr": 1e-2, "best update": 3_000}
PROMPT = "SCENE II. London. A room in the palace.\n\nEnter the KING, with Attendants\n\nKING:\n"


class Recurrent(nn.Module):
    """An LSTM as a language model, with the interface of GPT."""

    def __init__(self, n_tokens, d_in, n, dropout):
        super().__init__()
        self.tokens, self.lstm, self.read_out = nn.Embedding(n_tokens, d_in), LSTM(d_in, n, fused_lstm), nn.Linear(n, n_tokens)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens):
        return self.read_out(self.dropout(self.lstm(self.dropout(self.tokens(tokens)))[0]))

    def start(self, prompt):
        return self.lstm(self.tokens(prompt))[1]

    def step(self, tokens, state):
        states, state = self.lstm(self.tokens(tokens[:, None]), state)
        return self.read_out(states[:, 0]), state


def run(setting, seed, device):
    """Train or count; bits per character of unseen plays, those of held-out ones along the way, and texts that it writes.

    A mixture of counts writes none.
    """
    kind, amount = setting
    scale = SCALES[device.type]
    if kind not in NETWORKS:
        device = torch.device("cpu")
    plays = shakespeare()
    texts = ["\n".join(play.text for play in part) for part in (plays.train, plays.valid, plays.test)]
    characters = Vocabulary.of(texts)
    known, valid, new = (torch.tensor(characters.encode(text), device=device) for text in texts)
    known, valid, new = known[: AMOUNTS[amount]], spread(valid, scale.T, N_VALID), spread(new, scale.T, N_NEW)
    torch.manual_seed(seed)
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32
    if kind not in NETWORKS:
        orders = {order: KneserNey(known.unfold(0, order, 1), len(characters)) for order in range(3, 9)}
        best = min(orders, key=lambda order: bits_of_counts(orders[order], valid))
        model, report = orders[best], {"length of runs": best, "held-out bits": bits_of_counts(orders[best], valid)}
        report |= {"bits": bits_of_counts(model, new), "parameters": sum(len(table.grams) for table in model.tables)}
        if kind in MIXED:
            held_out, unseen = (
                both_counts(model, text, characters, scale.T, n, MIXED[kind])
                for text, n in ((texts[1], N_VALID), (texts[2], N_NEW))
            )
            shares = best_shares(*held_out)
            return report | {"held-out bits": mixed_bits(shares, *held_out), "bits": mixed_bits(shares, *unseen), "texts": {}}
    else:
        if kind == "GPT":
            untrained = GPT(len(characters), scale.T, scale.gpt, fused_causal_attention, dropout=scale.dropout).to(device)
        else:
            untrained = Recurrent(len(characters), *scale.lstm, scale.dropout).to(device)
        fit = partial(trained, untrained, known.unfold(0, scale.T, 1), valid, scale, seed)
        lr = min(scale.rates[kind], key=lambda lr: min(fit(lr, scale.trial)[1].values()))
        model, curve = fit(lr, scale.updates)
        report = {"bits": bits(model, new), "held-out bits": min(curve.values()), "curve": curve, "lr": lr}
        report |= {"best update": min(curve, key=curve.get), "parameters": sum(p.numel() for p in model.parameters())}
    prompt = torch.tensor(characters.encode(PROMPT), device=device)
    texts = {
        manner: characters.decode(continuation(model, prompt, n, scale.T // 2, seed, **how).tolist())
        for manner, (n, how) in MANNERS.items()
    }
    return report | {"texts": texts}


def trained(untrained, windows, valid, scale, seed, lr, updates):
    """Train a copy of a model; give it with the weights that were best on held-out text, and its bits there by update."""
    model, curve, best = deepcopy(untrained), {}, {}
    stream = batches(windows, batch_size=scale.batch_size, seed=seed)
    looks = {updates * share // 16 for share in (1, 2, 3, 4, 6, 8, 10, 12, 14, 16)}
    loop = train(
        model, stream, lambda model, batch: next_token_loss(model(batch[0]), batch[0]), steps=updates, lr=lr, warmup=100
    )
    for step in loop:
        if step.index + 1 in looks:
            curve[step.index + 1] = bits(model.eval(), valid)
            if min(curve.values()) == curve[step.index + 1]:
                best = deepcopy(model.state_dict())
            model.train()
    model.load_state_dict(best)
    return model.eval(), curve


def spread(tokens, T, n):
    """At most n windows (n, T) of a text, evenly over it."""
    windows = tokens.unfold(0, T, T // 2)
    return windows[torch.linspace(0, len(windows) - 1, min(n, len(windows))).long()]


@torch.no_grad()
def bits(model, windows):
    """Bits per character of windows (n, T), asked in their second half only, so that half a window precedes each."""
    asked = torch.arange(windows.shape[1], device=windows.device) >= windows.shape[1] // 2
    parts = [next_token_loss(model(part), part, asked.expand_as(part)).item() for part in windows.split(PART)]
    return mean(parts) / math.log(2)


def bits_of(probability):
    """Bits of characters with the given probabilities (n, T / 2), averaged in parts as in `bits`."""
    return mean(-part.log2().mean().item() for part in probability.split(PART))


def bits_of_counts(model, windows):
    """The same characters as in `bits`, by a model that counts."""
    return bits_of(probability_by_counts(model, windows))


def probability_by_counts(model, windows):
    """The probability of each of these characters, (n, T / 2), by a model that counts."""
    runs = windows[:, windows.shape[1] // 2 - model.order + 1 :].unfold(1, model.order, 1)
    return model.probability(runs.flatten(0, 1)).view(len(windows), -1)


def both_counts(model, text, characters, T, n, whole):
    """The same characters by a model that counts, and by counts of the text before each: all of it, or that of the window.

    Returns the two probabilities, and the length of the longest context that the latter have found, each (n, T / 2).
    """
    places = spread(torch.arange(len(text)), T, n)
    if whole:
        found = recent_counts(text, places[:, T // 2 :].flatten().tolist(), len(characters))
    else:
        parts = (text[first : first + T] for first in places[:, 0].tolist())
        found = (each for part in parts for each in recent_counts(part, range(T // 2, T), len(characters)))
    recent, lengths = (torch.tensor(each).view(len(places), -1) for each in zip(*found, strict=True))
    return probability_by_counts(model, torch.tensor(characters.encode(text))[places]), recent, lengths


def recent_counts(text, asked, n_tokens):
    """Yield the probability of each asked character by counts of the text before it, and the length of the longest context.

    Witten-Bell smoothing: each context is interpolated with the next shorter one, which has the share that method C of Witten
    and Bell 1991 (https://doi.org/10.1109/18.87000) gives to a novel character. `asked` are different places in their order.
    """
    asked = set(asked)
    followers = defaultdict(Counter)
    for place, character in enumerate(text):
        contexts = [text[place - length : place] for length in range(min(LONGEST_CONTEXT, place) + 1)]
        if place in asked:
            p, longest = 1 / n_tokens, 0
            for context in contexts:
                if context in followers:
                    seen = followers[context]
                    p, longest = (seen[character] + len(seen) * p) / (seen.total() + len(seen)), len(context)
            yield p, longest
        for context in contexts:
            followers[context][character] += 1


def mixed_bits(shares, counted, recent, lengths):
    """Bits per character of a mixture in which the share of the recent counts depends on the length of their context."""
    share = shares[lengths]
    return bits_of((1 - share) * counted + share * recent)


def best_shares(counted, recent, lengths):
    """The shares (LONGEST_CONTEXT + 1,) with the fewest bits, by expectation maximisation."""
    shares = torch.full((LONGEST_CONTEXT + 1,), 0.5, dtype=torch.double)
    n = lengths.flatten().bincount(minlength=len(shares)).clamp(min=1)
    for _ in range(50):
        share = shares[lengths]
        posterior = share * recent / (share * recent + (1 - share) * counted)
        shares = lengths.flatten().bincount(posterior.flatten(), minlength=len(shares)) / n
    return shares


def continuation(model, prompt, n, at_a_time, seed, **how):
    """Let a model go on after a prompt (T,), `how` for `sample`; from time to time it begins again with the last characters."""
    choose = partial(sample, generator=torch.Generator(prompt.device).manual_seed(seed), **how)
    text = prompt
    while len(text) < len(prompt) + n:
        text = torch.cat([text, generate(model, text[None, -at_a_time:], at_a_time, choose)[0]])
    return text[len(prompt) : len(prompt) + n]


def figure(study):
    """Bits per character of held-out plays through the updates, and those of the counts."""
    from course_tools.notebook import plots

    curves = {kind: study.curve(f"{kind}, {LONGEST}") for kind in ("GPT", "LSTM")}
    heights = {
        f"counts of {amount} characters": study.mean(f"counts, {amount}", "held-out bits") for amount in reversed(AMOUNTS)
    }
    drawn = plots.curves(
        curves, "update", "bits per character, held-out plays", f"{LONGEST} characters, as recorded", "x", heights
    )
    drawn.axes[0].set_ylim(bottom=0)
    said = "; ".join(
        f"{kind} {values[0]:.2f} after {updates[0]:,} updates and {values[-1]:.2f} after {updates[-1]:,}"
        for kind, (updates, values) in curves.items()
    )
    told = "; ".join(f"{name} {height:.2f}" for name, height in heights.items())
    return drawn, f"Bits per character of held-out plays while the networks train: {said}; {told}."


def finding(study):
    """Bits per character of unseen plays, when a network passes the counts, and what its last half of the updates gains."""
    scores = "; ".join(f"{name} {study.mean(name, 'bits'):.2f}" for name in study.names)
    said = [f"Bits per character of unseen plays: {scores}."]
    for kind in ("GPT", "LSTM"):
        updates, values = study.curve(f"{kind}, {LONGEST}")
        counts = study.mean(f"counts, {LONGEST}", "held-out bits")
        below = (n for n, value in zip(updates, values, strict=True) if value < counts)
        passed = next((f"first measured below the counts after update {n:,}" for n in below), "never measured below the counts")
        half = values[updates.index(updates[-1] // 2)] - values[-1]
        said.append(
            f"On held-out plays {kind} is {passed}; the second half of its updates gains {half:.2f} "
            f"bits; its learning rate is {' or '.join(f'{lr:g}' for lr in sorted({*study.scores(f'{kind}, {LONGEST}', 'lr')}))}."
        )
    n = min(len(study.of(name)) for name in study.names)
    return " ".join(said) + (" One seed: how far chance reaches is not known." if n == 1 else f" Means of {n} seeds.")
