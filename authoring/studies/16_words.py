"""Does a small CLIP name what was never shown by its words, and does a classifier told things and colours do it as well?

The windows of the lecture; a name is a thing and a colour in one of four languages, and ten of the sixty combinations are never
shown. Three ways to learn from the same photographs: CLIP with the names; CLIP with names of random letters, which say nothing
about thing and colour; a classifier with one head for the ten things and one for the six colours, which is given what CLIP has to
read. Right is the nearest of sixty names, mean of four languages, or both heads. A single word, which was never a caption, asks
for the five nearest photographs.

Budget: 600 updates with 60 photographs at a rate of 0.003, as in the lecture; three seeds. About three minutes on one CPU thread.
On a GPU: the same settings.
"""

from functools import cache

import torch
from torch import nn

from course_lib.blocks import ConvNet
from course_lib.losses import clip_loss
from course_lib.primitives import unit
from course_lib.training import train
from course_tools.lectures.lecture_16 import captions, rivals
from course_tools.lectures.lecture_16.windows import Windows, draw_windows

STEPS, RATE = 600, 3e-3
TOLERANCE = {"shown": 0.04, "kept back": 0.15, "thing": 0.04, "colour": 0.15, "single words": 0.04, "curve": 0.2}
SETTINGS = {"CLIP, words": "words", "CLIP, made-up names": "made up", "two heads": "labels"}


class CLIP(nn.Module):
    """The lecture's encoders of photographs and of names, both with 64 features."""

    def __init__(self):
        super().__init__()
        self.see = nn.Sequential(ConvNet(3, (32, 64, 128)), nn.AdaptiveMaxPool2d(1), nn.Flatten())
        self.letters = nn.Embedding(1 + len(captions.LETTERS), 64, padding_idx=0)
        self.read = nn.Sequential(nn.Conv1d(64, 128, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(1))
        self.photo_head, self.name_head = nn.Linear(128, 64), nn.Linear(128, 64)

    def forward(self, photos, spelled):
        """Map photographs (n, 3, H, W) and spelled names (m, T) to features."""
        read = self.read(self.letters(spelled).mT).flatten(1)
        return self.photo_head(self.see(photos)), self.name_head(read)


@cache
def windows(device):
    """2,000 windows to learn from, and 1,000 unseen, each with the numbers of the names of its photographs."""
    drawn = draw_windows(2_000, seed=0), draw_windows(1_000, seed=1, unseen=True)
    moved = [Windows(*(part.to(device) for part in each)) for each in drawn]
    return [(each, 6 * each.kinds[:, None] + captions.colours(each)) for each in moved]


def kept_back(names):
    """Whether the combinations of these numbers are never shown: the star on red, and so on."""
    return names // 6 % 6 == names % 6


def shown(known, names, seed, n=60):
    """Photographs of shown combinations, the numbers of their names, and a language for each, without end."""
    generator = torch.Generator().manual_seed(seed)
    there = (~kept_back(names)).nonzero()
    while True:
        window, photo = there[torch.randint(len(there), (n,), generator=generator).to(there.device)].mT
        language = torch.randint(len(captions.LANGUAGES), (n,), generator=generator).to(there.device)
        yield known.photos[window, photo], names[window, photo], language


def run(setting, seed, device):
    """Train one model; which combinations it names right, shown and kept back, through training and at the end."""
    (known, names), (unseen, right_names) = windows(device)
    photos, right_names = unseen.photos[:, 0], right_names[:, 0]
    torch.manual_seed(seed)
    if setting == "labels":
        model, loss = rivals.two_heads().to(device), rivals.from_both_labels
        stream = ((photo, name) for photo, name, _ in shown(known, names, seed))
    else:
        words = captions.IN_WORDS if setting == "words" else captions.made_up(seed)
        model, spelled = CLIP().to(device), torch.stack([captions.spell(each) for each in words]).to(device)
        stream = ((photo, spelled[language, name]) for photo, name, language in shown(known, names, seed))

        def loss(model, pair):
            return clip_loss(*model(*pair), 0.1)

    @torch.no_grad()
    def guessed():
        """The number of a name for each photograph, in each language: (n, 4), or (n, 1)."""
        if setting == "labels":
            things, colours = model(photos).split([10, 6], dim=1)
            return (6 * things.argmax(1) + colours.argmax(1))[:, None]
        x, y = map(unit, model(photos, spelled.flatten(0, 1)))
        return (x @ y.mT).unflatten(1, (4, 60)).argmax(-1)

    def share(right, which):
        return right[which].float().mean().item()

    new, curve = kept_back(right_names), {}
    for step in train(model, stream, loss, steps=STEPS, lr=RATE, warmup=STEPS // 10):
        if (step.index + 1) % (STEPS // 6) == 0:
            model.eval()
            curve[step.index + 1] = share(guessed() == right_names[:, None], new)
            model.train()
    model.eval()
    guesses = guessed()
    scores = {
        "shown": share(guesses == right_names[:, None], ~new),
        "kept back": curve[STEPS],
        "thing": share(guesses // 6 == right_names[:, None] // 6, new),
        "colour": share(guesses % 6 == right_names[:, None] % 6, new),
    }
    if setting == "words":
        scores["single words"] = by_single_words(model, photos, right_names)
    return {**scores, "curve": curve}


@torch.no_grad()
def by_single_words(model, photos, right_names):
    """Share of the five photographs nearest to a word that show it, mean of all words of all languages."""
    x, y = map(unit, model(photos, captions.spell(list(captions.WORDS)).to(photos.device)))
    found = right_names[(x @ y.mT).topk(5, dim=0).indices].mT.tolist()
    hits = [name in meant for names, meant in zip(found, captions.WORDS.values(), strict=True) for name in names]
    return sum(hits) / len(hits)


def figure(study):
    """Draw the right answers about combinations that were kept back over the updates, and all at the end."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook import plots

    drawn, said = Figure(figsize=(6.0, 3.0), layout="constrained"), []
    left, right = drawn.subplots(1, 2, sharey=True)
    columns = "shown", "kept back"
    for name, marker, colour in zip(study.names, plots.MARKERS, sns.color_palette("colorblind"), strict=False):
        left.plot(*study.curve(name), label=name, marker=marker, markersize=4, color=colour)
        for x, column in enumerate(columns):
            values = study.scores(name, column)
            right.plot([x + 0.12 * (study.names.index(name) - 1)] * len(values), values, marker, markersize=4, color=colour)
        said.append(f"{name} {study.mean(name, 'shown'):.2f} and {study.mean(name, 'kept back'):.2f}")
    left.set(xlabel="update", ylabel="named right, unseen windows", ylim=(-0.03, 1.03), title="kept back")
    right.set(xlim=(-0.5, 1.5), title="at the end, each seed")
    right.set_xticks(range(2), columns)
    for ax in (left, right):
        ax.axhline(1 / 60, color="0.5", linestyle="--", linewidth=0.8)
        ax.grid(alpha=0.25)
        sns.despine(ax=ax)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=3, edgecolor="none")
    return drawn, (
        f"Photographs of unseen windows named right after {STEPS:,} updates, means of the seeds, a guess 0.02; combinations that "
        f"were shown, and kept back: {'; '.join(said)}."
    )


def finding(study):
    """Name the right answers of each, by seed."""
    each = "; ".join(
        f"{name} {', '.join(f'{value:.2f}' for value in study.scores(name, score))} ({score})"
        for name in study.names
        for score in ("shown", "kept back", "thing", "colour")
    )
    words = ", ".join(f"{value:.3f}" for value in study.scores("CLIP, words", "single words"))
    return f"Named right at the end, by seed: {each}. Photographs found by single words: {words}."
