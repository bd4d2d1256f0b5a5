"""Which of the changes from GPT-2's decoder to Llama's make a small language model better: positions, norm, network or heads?

Each rung makes one more change: rotary instead of learned positions; RMSNorm without biases instead of LayerNorm; a gated network
(SwiGLU) instead of GELU; two heads of keys and values for four of queries. The width of the network is what gives every rung as
many parameters as the first. Rivals: the last rung with learned positions; GPT-2 with more updates; no network, counts of runs of
eight characters. Two layers of 64 features, 390,000 characters of Python's language reference in pieces of 64; score: bits per
character of new text, of characters with half a piece before them.

Budget: 1,200 updates with eight pieces each; for the two ends of the ladder 4,800 as well. The learning rate is the best of 0.003,
0.006 and 0.012 for both ends, after 800 updates with seed 0. Half an hour on one CPU thread. On a GPU: the same settings.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import GroupedQueryAttention, MultiHead, RotaryAttention
from course_lib.blocks import Block, FeedForward, GatedFeedForward, SelfAttention, Stack, draw_weights, pre_norm
from course_lib.datasets import Vocabulary, language_reference
from course_lib.fast import fused_causal_attention
from course_lib.losses import next_token_loss
from course_lib.models import KneserNey
from course_lib.primitives import window_of_tokens
from course_lib.training import batches, train

T, LONG, D, N_HEADS, N_LAYERS = 64, 256, 64, 4, 2
FEW, TWICE, MANY, RATE = 1_200, 2_400, 4_800, 6e-3
COUNTS = "counts of Kneser and Ney"
TOLERANCE = {"bits": 0.03, "bits of longer texts": 0.3, "with a window": 0.05}


class Rung(NamedTuple):
    """A decoder: its changes, and the width of its network."""

    rotary: bool
    rms: bool
    gated: bool
    n_groups: int
    d_ff: int


LADDER = {
    "GPT-2": Rung(False, False, False, 4, 256),
    "+ rotary": Rung(True, False, False, 4, 272),
    "+ RMSNorm": Rung(True, True, False, 4, 274),
    "+ SwiGLU": Rung(True, True, True, 4, 184),
    "+ grouped queries": Rung(True, True, True, 2, 205),
    "the last, learned positions": Rung(False, True, True, 2, 194),
}
FIRST, LAST = "GPT-2", "+ grouped queries"
SETTINGS = {name: (rung, FEW) for name, rung in LADDER.items()}
SETTINGS |= {f"{name}, {n:,} updates": (LADDER[name], n) for name, n in ((FIRST, TWICE), (FIRST, MANY), (LAST, MANY))}
SETTINGS[COUNTS] = None


class Decoder(nn.Module):
    """The language model of a rung; its embedding is its output matrix, too."""

    def __init__(self, n_tokens, rung):
        super().__init__()
        norm = nn.RMSNorm if rung.rms else nn.LayerNorm

        def block():
            mechanism = GroupedQueryAttention(fused_causal_attention)
            mechanism = RotaryAttention(D // N_HEADS, mechanism) if rung.rotary else mechanism
            mixer = SelfAttention(MultiHead(D, N_HEADS, mechanism, bias=not rung.rms, n_groups=rung.n_groups))
            network = GatedFeedForward(D, rung.d_ff) if rung.gated else FeedForward(D, rung.d_ff, F.gelu)
            return Block(mixer, network, D, pre_norm, norm)

        self.tokens = nn.Embedding(n_tokens, D)
        self.positions = None if rung.rotary else nn.Parameter(torch.empty(T, D))
        self.stack = Stack([block() for _ in range(N_LAYERS)], norm(D))
        draw_weights(self, D)
        for name, weights in self.named_parameters():
            if name.endswith(("W_o.weight", "W_2.weight", "W_down.weight")):
                weights.data /= (2 * N_LAYERS) ** 0.5

    def forward(self, tokens, mask=None):
        x = self.tokens(tokens)
        return self.stack(x if self.positions is None else x + self.positions, mask) @ self.tokens.weight.mT


def run(setting, seed, device):
    """Train one decoder; bits per character of new text, and of the last rung at the positions 128 to 255 of longer texts."""
    text = language_reference(seed=0)
    characters = Vocabulary.of([text.train])
    known, new = (torch.tensor(characters.encode(part), device=device) for part in (text.train, text.test))
    if setting is None:
        counts = KneserNey(known.unfold(0, 8, 1), len(characters))
        return {"bits": -counts.probability(new.unfold(0, 8, 1)).log2().mean().item()}
    rung, updates = setting
    torch.manual_seed(seed)
    model = Decoder(len(characters), rung).to(device)
    stream = batches(known.unfold(0, T, 1), batch_size=8, seed=seed)
    loss = lambda model, batch: next_token_loss(model(batch[0]), batch[0])  # noqa: E731
    for _ in train(model, stream, loss, steps=updates, lr=RATE, warmup=updates // 20):
        pass
    report = {"bits": bits(model, new, T), "parameters": sum(p.numel() for p in model.parameters())}
    if rung == LADDER[LAST]:
        window = window_of_tokens(LONG, T, device=device)
        report |= {"bits of longer texts": bits(model, new, LONG), "with a window": bits(model, new, LONG, window)}
    return report


@torch.no_grad()
def bits(model, tokens, length, mask=None):
    """Bits per character of the second half of each text of `length` tokens; they overlap by half."""
    texts = tokens.unfold(0, length, length // 2)
    asked = torch.arange(length, device=tokens.device) >= length // 2
    return next_token_loss(model(texts, mask), texts, asked.expand_as(texts)).item() / math.log(2)


def figure(study):
    """Bits per character of each rung, and of the two ends by the number of updates."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook.plots import MARKERS

    drawn, said = Figure(figsize=(6.0, 3.6), layout="constrained"), []
    by_rung, by_updates = drawn.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    colours = sns.color_palette("colorblind")
    counts = study.mean(COUNTS, "bits")
    for place, (name, marker) in enumerate(zip(LADDER, MARKERS, strict=False)):
        scores = study.scores(name, "bits")
        by_rung.plot([place] * len(scores), scores, marker, color=colours[place], markersize=6)
        by_rung.annotate(
            f"{study.mean(name, 'bits'):.2f}", (place, max(scores)), (0, 6), textcoords="offset points", fontsize=8, ha="center"
        )
        said.append(f"{name} {study.mean(name, 'bits'):.2f}")
    names = [
        name.replace(" ", "\n", 2).replace("\n", " ", 1) if name[0] == "+" else name.replace(", ", ",\n") for name in LADDER
    ]
    by_rung.set_xticks(range(len(names)), names, fontsize=8, rotation=90)
    by_rung.set(ylabel="bits per character", title=f"{FEW:,} updates", ylim=(0, 2.8))
    for name, each in ((FIRST, (TWICE, MANY)), (LAST, (MANY,))):
        settings = {FEW: name, **{n: f"{name}, {n:,} updates" for n in each}}
        place = list(LADDER).index(name)
        style = {"color": colours[place], "marker": MARKERS[place], "linestyle": "-" if len(each) > 1 else ""}
        by_updates.plot(list(settings), [study.mean(each, "bits") for each in settings.values()], label=name, **style)
        said += [f"{each} {study.mean(each, 'bits'):.2f}" for n, each in settings.items() if n > FEW]
    by_updates.set(
        xlabel="updates", xscale="log", xticks=(FEW, TWICE, MANY), xticklabels=(f"{n:,}" for n in (FEW, TWICE, MANY))
    )
    by_updates.set(title="the two ends, longer")
    by_updates.set_xticks([], minor=True)
    for ax in (by_rung, by_updates):
        ax.axhline(counts, color="0.35", linestyle="--", linewidth=1.2, label=COUNTS if ax is by_updates else None)
        ax.title.set_fontsize(10)
        ax.grid(alpha=0.25)
        sns.despine(ax=ax)
    drawn.legend(*by_updates.get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=3, frameon=False)
    return drawn, f"Bits per character of new text, means of the seeds: {'; '.join(said)}; {COUNTS} {counts:.2f}."


def finding(study):
    """Bits by seed, and longer texts."""
    said = "; ".join(f"{name} {', '.join(f'{score:.3f}' for score in study.scores(name, 'bits'))}" for name in study.names)
    longest = f"{LAST}, {MANY:,} updates"
    longer, windowed = (study.mean(longest, score) for score in ("bits of longer texts", "with a window"))
    return (
        f"Bits per character of new text, by seed: {said}. The last rung, after {MANY:,} updates, at the positions {LONG // 2} to "
        f"{LONG - 1} of longer texts: {longer:.2f}, or {windowed:.2f} with a window of {T}."
    )
