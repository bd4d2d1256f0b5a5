# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["header"]
# # 16 · Self-supervision: SimCLR and BYOL
#
# **The claim.** From four thousand digits without a label, an encoder learns what ten labels cannot teach: a linear read-out of
# it beats the same network trained on those ten. Without augmentation it learns hardly anything, with a temperature that
# hears everybody alike clearly less. BYOL does without negatives; take away its stop-gradient or its predictor, and its
# projections collapse, which the loss does not show and the spectrum does. With a hundred labels the advantage is gone.
#
# **You need** lecture 04 (a softmax over similarities) and a little about convolutions. **Time:** about 85 minutes. {measured}
#
# **Papers.** Chen, Kornblith, Norouzi, Hinton 2020, *SimCLR*, eq. 1, algorithm 1 (https://arxiv.org/abs/2002.05709) · Grill et
# al. 2020, *BYOL*, eq. 2 and section 3.1 (https://arxiv.org/abs/2006.07733) · Jing, Vincent, LeCun, Tian 2022, *Understanding
# Dimensional Collapse*, section 3 (https://arxiv.org/abs/2110.09348).
#
# **Deck.** Gaïffas lecture 8: the table below leads from its sections to ours.

# %% [markdown] tags=["companion"]
# <details><summary>Which sections of the deck this follows, and where the library holds them</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | GA | Self-supervised learning: SimCLR | 3 Find your partner | `course_lib.losses.nt_xent`, `course_lib.models.SimCLR`, `course_lib.datasets.Augmentation` |
# | GA | Self-supervised learning: BYOL | 8 Without negatives | `course_lib.losses.byol_loss`, `course_lib.models.BYOL`, `course_lib.models.ema_update` |
#
# </details>

# %%
import math
from collections.abc import Sequence
from statistics import mean

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.blocks import ConvNet
from course_lib.datasets import Augmentation, colour_matrix, few_of_each, mnist, photographs, recolour, split
from course_tools.notebook import check, predict
from course_lib.models import BYOL, SimCLR
from course_lib.metrics import LinearProbe
from course_lib.losses import lean_nt_xent
from course_lib.primitives import unit
from course_lib.losses.nt_xent import require_pairs
from course_lib.shapes import Image
from course_tools.notebook import at_scale, claim, clouds, device, explore, ledger, peak_memory, plots, progress, show
from course_lib.training import batches, train

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 Ten labels
#
# Pictures are cheap, labels are not. Take five thousand handwritten digits: four thousand to learn from, a thousand to be
# tested on. Of the four thousand, somebody has labelled *ten*, one of each digit.
#
# A small convolutional network is trained on those ten. To make the most of them it sees each one turned, slanted, zoomed
# and shifted a little, anew at every step.

# %% [markdown] tags=["predict"]
# **Predict.** How many of a thousand unseen digits will it name rightly, where a guess gets a hundred?
#
# <details><summary>A. About a hundred: ten examples say nothing.</summary>
#
# They say more than that: a 1 is thin, a 0 is hollow, whoever writes them.</details>
# <details><summary>B. About half.</summary>
#
# Yes. And which ten were labelled matters a good deal.</details>
# <details><summary>C. Nearly all: digits are easy.</summary>
#
# With thousands of labels they are. With one 4 to learn from, an open 4 and a closed one are different things.</details>

# %%
pictures, labels = mnist()
images, labels = F.avg_pool2d(pictures, 2).to(device()), labels.to(device())
parts = {seed: split(range(len(labels)), 4_000, 0, 1_000, seed) for seed in SEEDS}
learn = {seed: torch.tensor(part.train, device=device()) for seed, part in parts.items()}
unseen = {seed: torch.tensor(part.test, device=device()) for seed, part in parts.items()}
RANGES = Augmentation(turn=0.25, zoom=1.25, shear=0.3, shift=0.06)


def backbone():
    """Three convolutions, then the largest value of each of their 64 maps: 14 × 14 pixels become 64 numbers."""
    return nn.Sequential(ConvNet(1), nn.AdaptiveMaxPool2d(1), nn.Flatten())


def labelled(seed, n_each, draw):
    """The indices of n_each labelled digits of every kind, from those to learn from."""
    return learn[seed][few_of_each(labels[learn[seed]].cpu(), n_each, draw).to(device())]


def supervised(seed, n_each, draw, steps=150):
    """Train the backbone and a linear layer on a few labels, with augmentation; give the share of right answers on unseen digits."""
    torch.manual_seed(draw)
    few, generator = labelled(seed, n_each, draw), torch.Generator().manual_seed(draw)
    model = nn.Sequential(backbone(), nn.Linear(64, 10)).to(device())
    stream = batches(images[few], labels[few], batch_size=40, seed=draw)

    def loss(model, batch):
        return F.cross_entropy(model(RANGES(batch[0], generator)), batch[1])

    for _ in progress(train(model, stream, loss, steps=steps, lr=3e-3, warmup=15), f"{n_each} of each", total=steps):
        pass
    with torch.no_grad():
        said = model.eval()(images[unseen[seed]]).argmax(-1)
    return (said == labels[unseen[seed]]).float().mean().item()


# %% tags=["nbval-check-output"]
by_labels = {1: [mean(supervised(seed, 1, draw) for draw in range(4)) for seed in SEEDS]}
claim(
    "16.a",
    "a network trained on ten labels, with augmentation: right answers on unseen digits, mean",
    mean(by_labels[1]),
    at_most=0.7,
)

# %% [markdown]
# ## 2 Two views of one picture
#
# The other 3,990 pictures have no label, but each has something to say: *turned a little, I am still the same.* That is
# knowledge that nobody had to write down. To use it, draw two **views** of every picture, each moved at random.
#
# A move is affine: a pixel at $r$ goes to $r' = A r + t$, where $r$ counts pixels from the centre, $x$ to the right and
# $y$ down. One matrix and one shift for each picture, and all pictures at once.
#
# A new image is made by **looking back**: its pixel at $r$ takes what stood at $A^{-1}(r - t)$. `F.affine_grid` computes
# such places for a whole batch and `F.grid_sample` fetches what stands there; both count from -1 to 1 across each side.
#
# | name | shape |
# | --- | --- |
# | images | (B, C, H, W), H and W may differ |
# | A, t | (B, 2, 2), (B, 2): axes are (x, y) |
# | what `affine_grid` takes | (B, 2, 3), for places from -1 to 1 |

# %% exercise="16.1" difficulty="●●●" minutes=15
from course_lib.datasets import warp

# %% tags=["nbval-check-output"]
warp = check("16.1", warp)


# %%
def view(batch, generator, ranges=RANGES):
    """Draw one view of each picture of a batch, moved by your `warp`."""
    A, t = ranges.draw_affine(len(batch), batch.shape[-2:], generator)
    return warp(batch, A.to(batch), t.to(batch)).to(batch.dtype)


def sheet(batch, rows):
    """Lay grey pictures (B, 1, H, W) out in rows, as one picture with three equal channels."""
    return rearrange(batch.cpu(), "(rows columns) 1 H W -> (rows H) (columns W) 1", rows=rows).expand(-1, -1, 3).clamp(0, 1)


generator = torch.Generator().manual_seed(SEEDS[0])
some = images[labelled(SEEDS[0], 2, 0)]
views = {"as they are": sheet(some, 4), "one view": sheet(view(some, generator), 4), "another": sheet(view(some, generator), 4)}
moved = (view(some, generator) - some).abs().mean() / some.mean()
show(
    plots.pictures(views),
    alt=f"Three sheets of the same twenty digits: as they are, and in two views of each, turned, slanted, zoomed and shifted by a "
    f"little; the ink that changes between a digit and its view is {100 * moved.item():.0f} % of all ink.",
)

# %% [markdown]
# **Colours** move too. Brightness, saturation and hue are linear in red, green and blue, so one 3 × 3 matrix does all three:
# $c' = M c$ with $M = b\, R(\mathrm{hue})\,(s I + (1 - s)\,\mathbf 1 \ell^\top)$, where $\ell$ says how much each colour weighs in a
# grey. `colour_matrix` builds it, `recolour` applies it to a whole batch. Our digits have no colour; for photographs this is
# the augmentation that matters most, because two crops of one picture share their colours, and a network finds that out
# before anything else (Chen et al., section 3.1).

# %% [markdown] tags=["interactive"]
# **Explore.** Turn, zoom and colour a photograph. Up to where would *you* still say that it shows the same thing? What you
# would call the same is what the network will be taught to call the same.

# %% tags=["interactive"]
dahlia = photographs((60, 90))[1:]


def draw_views(turn=20.0, zoom=1.2, hue=40.0, saturation=1.2):
    """Show a photograph and its view: turned by degrees, zoomed, its colours turned by degrees and exaggerated."""
    angle = torch.tensor(math.radians(turn))
    A = zoom * torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(1, 2, 2)
    M = colour_matrix(torch.ones(1), torch.tensor([saturation]), torch.tensor([math.radians(hue)]))
    made = recolour(warp(dahlia, A, torch.zeros(1, 2)).float(), M).clamp(0, 1)
    show(
        plots.pictures({"photograph": dahlia[0].permute(1, 2, 0), "view": made[0].permute(1, 2, 0)}),
        alt=f"A dahlia, and its view: turned by {turn:g}°, zoomed by {zoom:g}, hue turned by {hue:g}°, saturation {saturation:g}; "
        f"mean colour from {dahlia.mean((0, 2, 3)).tolist()[0]:.2f} to {made.mean((0, 2, 3)).tolist()[0]:.2f} of red.",
    )


explore(draw_views, turn=(-90.0, 90.0, 5.0), zoom=(0.5, 2.0, 0.1), hue=(0.0, 180.0, 10.0), saturation=(0.0, 2.0, 0.1))

# %% [markdown]
# ## 3 Find your partner
#
# $N$ pictures give $2N$ views. An **encoder** $f$ turns each into a representation $h$, and a small **projection head**
# turns that into $z = W^{(2)}\,\mathrm{ReLU}(W^{(1)} h)$. Every view $i$ is now asked: which of the other $2N - 1$ is your
# partner $j$? Answers are scored by the cosine over a temperature $\tau$, and it is a cross-entropy:
#
# $$\ell(i, j) = -\log \frac{\exp(\mathrm{sim}(z_i, z_j)/\tau)}{\sum_{k \ne i} \exp(\mathrm{sim}(z_i, z_k)/\tau)} \qquad
# L = \frac{1}{2N} \sum_{\text{pairs}} \ell(i, j) + \ell(j, i)$$
#
# It is attention of lecture 04 with the answer known: a softmax over similarities, where a view may not look at itself.
# That is **NT-Xent**, "normalised temperature-scaled cross-entropy".
#
# | name | shape |
# | --- | --- |
# | a, b | (N, d) each: row $i$ of both is of picture $i$ |
# | similarities | (2N, 2N), the diagonal is no answer |
# | loss | a number, 0 for one pair: there is nobody to take for the partner |
#
# `unit` divides each vector by its length. **Bug hunt.** The deck numbers the views of a pair $2k-1$ and $2k$. Somebody
# followed it to the letter; the loss runs, and training lowers it. Say what is wrong *before* you run the check.

# %% exercise="16.2" bug="seeks_the_partner_next_door"
from course_tools.bank.lecture_16.nt_xent import seeks_the_partner_next_door as suspect

# %% tags=["nbval-check-output"]
suspect = check("16.2", suspect)

# %% [markdown] tags=["predict"]
# **Which views does it pull together?**
#
# <details><summary>A. The right ones: a class is a class.</summary>
#
# Then the check would be content. Print the classes for three pairs: 1, 0, 3, 2, 5, 4. Who stands in row 1?</details>
# <details><summary>B. Each picture with the next picture.</summary>
#
# Yes. `torch.cat` puts all first views above all second ones, so rows 0 and 1 are different pictures. Numbering and layout
# must belong together: interleave the views, or roll the classes by N.</details>
# <details><summary>C. Each view with itself.</summary>
#
# The diagonal is excluded; that part is right.</details>

# %% exercise="16.2" difficulty="●●○" minutes=12
from course_lib.losses import nt_xent

# %% tags=["nbval-check-output"]
nt_xent = check("16.2", nt_xent)

# %% tags=["nbval-check-output"]
generator = torch.Generator().manual_seed(SEEDS[0])
a, b = torch.randn(2, 96, 64, generator=generator)
one_pair, all_equal = nt_xent(a[:1], b[:1], 0.2), nt_xent(torch.ones(96, 64), torch.ones(96, 64), 0.2)
claim("16.b", "one pair alone costs, at a temperature of 0.2", abs(one_pair.item()), at_most=1e-5)
claim(
    "16.c",
    "96 pairs whose views are all equal: loss over log 191, a blind guess",
    all_equal.item() / math.log(191),
    between=(0.999, 1.001),
)
gap = (nt_xent(a, b, 0.2) - lean_nt_xent(a, b, 0.2)).abs().item()
claim("16.d", "your loss and the library's lean form of one product and one pass differ by", gap, at_most=1e-3)

# %% [markdown]
# ## 4 A ruler: the linear probe
#
# How good is an encoder that was never told a label? Freeze it, and let a *linear* layer read the labels off its features: what
# it cannot do, the encoder must have done. By least squares it has one solution and needs no step size:
#
# $$\min_{W, b} \sum_i \lVert W x_i + b - y_i \rVert^2 + \lambda \lVert W \rVert^2$$
#
# with $y_i$ one-hot. For any $W$ the best bias is $b = \bar y - W \bar x$. Put it in, and only centred features and labels
# are left, so $b$ goes free of the penalty:
#
# $$W^\top = (X^\top X + \lambda I)^{-1} X^\top Y \qquad X, Y \text{ centred}$$
#
# | name | shape |
# | --- | --- |
# | features, labels | (n, d), (n,); n may be smaller than d, or larger |
# | W, b | (n_classes, d), (n_classes,), as `LinearProbe(weight, bias)` |

# %% exercise="16.3" difficulty="●●○" minutes=12
from course_lib.metrics import linear_probe

# %% tags=["nbval-check-output"]
linear_probe = check("16.3", linear_probe)


# %%
@torch.no_grad()
def probe(encoder, seed, n_each, draws=4):
    """The share of right answers of a linear probe of frozen features on unseen digits, mean over draws of its labels."""
    shares, new = [], unit(encoder(images[unseen[seed]]))
    for draw in range(draws):
        few = labelled(seed, n_each, draw)
        weight, bias = linear_probe(unit(encoder(images[few])), labels[few], 10, 0.1)
        said = (new @ weight.to(new).mT + bias.to(new)).argmax(-1)
        shares.append((said == labels[unseen[seed]]).float().mean().item())
    return mean(shares)


def untrained(seed):
    """The backbone as it comes."""
    torch.manual_seed(seed)
    return backbone().to(device()).eval()


pixels = nn.Flatten()
for n_each in (1, 4):
    shares = {
        "pixels": [probe(pixels, seed, n_each) for seed in SEEDS],
        "untrained": [probe(untrained(seed), seed, n_each) for seed in SEEDS],
    }
    print(f"{10 * n_each} labels:", ", ".join(f"{name} {mean(values):.2f}" for name, values in shares.items()))

# %% [markdown]
# The pixels themselves are a better representation than an untrained network: pooling throws away *where* the ink is. Both
# are rulers' ends for what follows.
#
# ## 5 What digits teach without a label
#
# Now train: 240 steps of 32 pairs, three seeds. Then freeze the encoder, throw the head away, and probe.


# %%
def two_views(seed, n_pairs=32, ranges=RANGES):
    """Endless batches of two views of the digits to learn from; no label comes near."""
    generator = torch.Generator().manual_seed(seed)
    for (batch,) in batches(images[learn[seed]], batch_size=n_pairs, seed=seed):
        yield view(batch, generator, ranges), view(batch, generator, ranges)


def fit_simclr(seed, temperature=0.2, steps=240, look=None, **how):
    """Train SimCLR on views; `look(step, encoder)` may look at the encoder after every step."""
    torch.manual_seed(seed)
    model = SimCLR(backbone(), 64).to(device())

    def loss(model, pair):
        return nt_xent(*model(*pair), temperature).float()

    training = train(model, two_views(seed, **how), loss, steps=steps, lr=3e-3, warmup=steps // 10)
    for step in progress(training, f"SimCLR, seed {seed}", total=steps):
        if look is not None:
            look(step.index + 1, model.encoder)
    return model.eval()


# %% [markdown] tags=["predict"]
# **Predict.** Four ways to name digits from a few labels: the network trained on them with augmentation; a linear probe of
# SimCLR's encoder; of the pixels; of an untrained encoder. Labels: one, four and ten of each digit. Who wins?
#
# <details><summary>A. SimCLR everywhere: it has seen four thousand digits.</summary>
#
# It has, but it was told nothing about which differences matter to *us*. Labels say just that, and at some number they have
# said enough.</details>
# <details><summary>B. The supervised network everywhere: nothing beats labels.</summary>
#
# With ten labels there is too little to learn three layers from. The probe has only its last layer to learn.</details>
# <details><summary>C. SimCLR with the fewest labels; with the most, the supervised network has caught up.</summary>
#
# Yes. The lines meet, here somewhere from four to ten of each. Where they meet depends on the task: for digits,
# augmentation alone already tells a supervised network a great deal.</details>

# %%
snapshots, curve = {}, {}


@torch.no_grad()
def look_at(step, encoder):
    """Keep the embeddings of unseen digits at some steps of the first seed, and the probe's success at others."""
    encoder.eval()
    if step in (1, 30, 240):
        snapshots[f"step {step}"] = unit(encoder(images[unseen[SEEDS[0]]])).cpu()
    if step in (1, 15, 30, 60, 120, 240):
        curve[step] = probe(encoder, SEEDS[0], 4)
    encoder.train()


contrasted = {seed: fit_simclr(seed, look=look_at if seed == SEEDS[0] else None) for seed in SEEDS}
probed = {n_each: [probe(contrasted[seed].encoder, seed, n_each) for seed in SEEDS] for n_each in (1, 4, 10)}
raw = {n_each: [probe(pixels, seed, n_each) for seed in SEEDS] for n_each in (1, 4, 10)}
blank = {n_each: [probe(untrained(seed), seed, n_each) for seed in SEEDS] for n_each in (1, 4, 10)}
by_labels |= {n_each: [supervised(seed, n_each, 0) for seed in SEEDS] for n_each in (4, 10)}
rivals = {"SimCLR, probed": probed, "supervised, augmented": by_labels, "pixels, probed": raw, "untrained, probed": blank}
lines = {name: ([10 * n for n in sorted(shares)], [mean(shares[n]) for n in sorted(shares)]) for name, shares in rivals.items()}
show(
    plots.curves(lines, "labels", "right answers on unseen digits", log="x"),
    alt=f"Right answers against the number of labels, {lines['pixels, probed'][0]}, mean of {len(SEEDS)} seeds: "
    + "; ".join(f"{name} {', '.join(f'{share:.2f}' for share in shares)}" for name, (_, shares) in lines.items())
    + ".",
)

# %% tags=["nbval-check-output"]
lead = {n_each: [ours - theirs for ours, theirs in zip(probed[n_each], by_labels[n_each], strict=True)] for n_each in probed}
claim("16.e", "ten labels: SimCLR's probe leads the network trained on them, mean", mean(lead[1]), at_least=0.02)
claim("16.f", "a hundred labels: the lead is gone; mean", mean(lead[10]), at_most=0.03)
over_pixels = min(ours - theirs for ours, theirs in zip(probed[4], raw[4], strict=True))
over_untrained = min(ours - theirs for ours, theirs in zip(probed[4], blank[4], strict=True))
claim("16.g", "forty labels: SimCLR's probe leads that of the pixels, worst of the seeds", over_pixels, at_least=0.06)
claim("16.h", "forty labels: it leads that of an untrained encoder, worst of the seeds", over_untrained, at_least=0.15)

# %% [markdown] tags=["predict"]
# ## 6 See it
#
# Each point below is an unseen digit, drawn as what it is, along the two widest axes of its embedding, at three moments of
# training. The encoder has not been told what the numerals mean.
#
# **Predict.** How often is the *nearest* other digit, in all 64 directions, of the same kind: before training, and after?
#
# <details><summary>A. A tenth before, nearly always after.</summary>
#
# Before is wrong: an untrained network already maps like pictures to like vectors, and a 1 is like a 1.</details>
# <details><summary>B. More often than not before, nearly always after.</summary>
#
# Yes. Gathering the digits into neighbourhoods is the encoder's own doing, but it does not start from nothing.</details>
# <details><summary>C. The same before and after: no labels, no kinds.</summary>
#
# No label says what a kind is. But views of a 4 can be taken for another 4, and hardly for a 0.</details>


# %%
def neighbours_agree(points, kinds):
    """How often the nearest other point shows the same digit."""
    nearest = (points @ points.mT).fill_diagonal_(-torch.inf).argmax(-1)
    return (kinds[nearest] == kinds).float().mean().item()


kinds = labels[unseen[SEEDS[0]]].cpu()
agree = {name: neighbours_agree(points, kinds) for name, points in snapshots.items()}
show(
    clouds({name: points[:300] for name, points in snapshots.items()}, kinds[:300]),
    alt="Embeddings of 300 unseen digits along their two widest axes, three panels through training; the nearest other digit is of "
    "the same kind in " + ", ".join(f"{100 * share:.0f} % at {name}" for name, share in agree.items()) + ".",
)

# %% tags=["nbval-check-output"]
gain = agree["step 240"] - agree["step 1"]
claim(
    "16.i",
    "how much more often the nearest embedding shows the same digit after training than at its start",
    gain,
    at_least=0.05,
)

# %% [markdown] tags=["try-it"]
# **Try it.** Pick an unseen digit by its number, 0 to 999, and see the five whose embeddings lie nearest. Look for a digit
# that the encoder takes for another: is it a mistake that you would forgive?


# %% tags=["try-it"]
def draw_neighbours(number):
    """Show one unseen digit and the five nearest to it in the embedding."""
    points = snapshots["step 240"]
    nearest = (points @ points[number]).topk(6).indices
    title = f"a {kinds[number]}, then {', '.join(str(kind) for kind in kinds[nearest[1:]].tolist())}"
    show(
        plots.pictures({title: sheet(images[unseen[SEEDS[0]]][nearest.to(device())], 1)}),
        alt=f"Unseen digit {number}, {title}: its five nearest neighbours, of which "
        f"{int((kinds[nearest[1:]] == kinds[number]).sum())} show the same digit.",
    )


draw_neighbours(7)

# %% [markdown] tags=["predict"]
# ## 7 Take one away
#
# **Predict.** Three ingredients: augmentation, the temperature, and the head that is thrown away. What does the probe say
# (a) without augmentation; (b) with τ = 5 in place of 0.2; (c) of $z$ behind the head, in place of $h$ before it?
#
# <details><summary>A. Without augmentation nothing changes: the loss still has negatives.</summary>
#
# Two views are then one and the same picture, and anything that tells pictures apart solves the task: nothing has to be
# *forgotten*.</details>
# <details><summary>B. τ = 5 is milder and therefore safer.</summary>
#
# All cosines lie in -1…1; over 5 they differ by less than a half. Every negative pushes nearly alike, the near ones no more
# than the far ones, and it is the near ones that there is something to learn from.</details>
# <details><summary>C. z is better than h: it is what was trained.</summary>
#
# It is trained to forget what augmentation changes: slant, size, place. Some of that helps to tell digits apart. The head
# takes that loss upon itself, so that $h$ need not.</details>
# <details><summary>D. All three are worse.</summary>
#
# Yes: the first by far, the second clearly, the third by a little, and that is Chen et al., section 4.2.</details>

# %%
heads_on = {seed: nn.Sequential(model.encoder, model.project) for seed, model in contrasted.items()}
behind = {n_each: [probe(heads_on[seed], seed, n_each) for seed in SEEDS] for n_each in (1, 4)}
without = {
    "no augmentation": fit_simclr(SEEDS[0], ranges=Augmentation()),
    "τ = 5": fit_simclr(SEEDS[0], temperature=5.0),
}
ablated = {name: probe(model.encoder, SEEDS[0], 4) for name, model in without.items()}
groups = {"SimCLR": probed[4], "z, behind the head": behind[4]} | {name: [share] for name, share in ablated.items()}
show(
    plots.seeds(groups, "right answers, 40 labels", across={"chance": 0.1}),
    alt="Right answers of a probe with forty labels, a point for each seed: "
    + "; ".join(f"{name} {', '.join(f'{share:.2f}' for share in shares)}" for name, shares in groups.items())
    + ".",
)

# %% tags=["nbval-check-output"]
lost = {name: probed[4][0] - share for name, share in ablated.items()}
claim("16.j", "forty labels: what the probe loses without augmentation", lost["no augmentation"], at_least=0.15)
claim("16.k", "forty labels: what the probe loses with a temperature of 5", lost["τ = 5"], at_least=0.07)
before = mean(probed[1]) - mean(behind[1])
claim("16.l", "ten labels: before the head the probe does better than behind it, mean of the seeds", before, at_least=0.01)

# %% [markdown]
# ## 8 Without negatives
#
# Negatives keep the encoder from saying the same of everything. **BYOL** leaves them out. An *online* network (encoder,
# projector) and a *target* network of the same form see one view each; a **predictor** $q$ on the online side must say what
# the target says of the *other* view:
#
# $$L = \lVert \overline{q(z)} - \overline{z'} \rVert^2 = 2 - 2 \cos(q(z), z')$$
#
# The bar means length 1. The target is taken as it stands: **no gradient** flows into $z'$. That is the *stop-gradient*.
#
# | name | shape |
# | --- | --- |
# | prediction, target | (B, d), row by row of the same picture |
# | loss | a number from 0 to 4, the mean over rows |

# %% exercise="16.4" difficulty="●○○" minutes=6
from course_lib.losses import byol_loss

# %% tags=["nbval-check-output"]
byol_loss = check("16.4", byol_loss)

# %% [markdown]
# The target network is not trained. After every step it moves a little towards the online one:
#
# $$\xi \leftarrow \tau\, \xi + (1 - \tau)\, \theta$$
#
# with $\tau$ near 1 (another τ than that of section 3; both papers chose the letter). So it is an average of what the online
# network has been, recent steps counting most: steadier than any single one, a goal that does not run away.
#
# | name | shape |
# | --- | --- |
# | target ξ, online θ | two lists of tensors of any shapes, in the same order |
# | result | a list of *new* tensors |

# %% exercise="16.5" difficulty="●○○" minutes=5
from course_lib.models import ema_update

# %% tags=["nbval-check-output"]
ema_update = check("16.5", ema_update)

# %% [markdown]
# The library's `BYOL.update` does it in place, all tensors in one call of `torch._foreach_lerp_`. Below both are held together, and
# a step is taken whose loss knows nothing of the target's weights.

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
model = BYOL(backbone(), 64, decay=0.9).to(device())
with torch.no_grad():
    for theta in model.online.parameters():
        theta.add_(torch.randn_like(theta))
yours = ema_update([xi.clone() for xi in model.target.parameters()], list(model.online.parameters()), 0.9)
model.update()
apart = max((xi - own).abs().max().item() for xi, own in zip(model.target.parameters(), yours, strict=True))
byol_loss(*model(*next(two_views(SEEDS[0])))).backward()
reached = sum(xi.grad is not None for xi in model.target.parameters())
claim("16.m", "your moving average and the one in place of BYOL.update differ by", apart, at_most=1e-5)
claim("16.n", "tensors of the target network that a backward pass reaches", reached, equals=0)

# %% [markdown] tags=["predict"]
# **Predict.** "Say the same of both views" has a perfect answer that is worthless: the same vector for every picture. Loss 0.
# Train three times: BYOL; BYOL without its predictor; BYOL without the stop-gradient, online and target one network. Who has
# the *lowest loss*?
#
# <details><summary>A. BYOL: it learns best.</summary>
#
# It has the highest of the three, and the best reason for it.</details>
# <details><summary>B. The one without stop-gradient.</summary>
#
# Yes. With a gradient on both sides, the shortest way to agreement is to say less and less. A lower loss is no better
# model when the goal moves along.</details>
# <details><summary>C. All the same: the loss is the same formula.</summary>
#
# The same formula over other goals.</details>

# %%
collapse = {}


def both_sides_learn(model, pair):
    """The loss without a stop-gradient, and with one network on both sides."""
    z = model.online(torch.cat(pair))
    return (2 - 2 * (unit(model.predictor(z)) * unit(z.roll(len(pair[0]), 0))).sum(-1)).mean()


def fit_byol(name, seed, loss=lambda model, pair: byol_loss(*model(*pair)), predictor=None, steps=240, looks=(120,)):
    """Train BYOL or a cripple of it; keep loss, embeddings of unseen digits and the probe at the steps in `looks`."""
    torch.manual_seed(seed)
    model = BYOL(backbone(), 64, decay=0.95).to(device())
    model.predictor = model.predictor if predictor is None else predictor
    training = train(model, two_views(seed), loss, steps=steps, lr=5e-3, warmup=steps // 10)
    for step in progress(training, name, total=steps):
        model.update()
        if step.index + 1 in looks:
            with torch.no_grad():
                points = model.eval().online(images[unseen[seed]]).cpu()
            collapse[name, step.index + 1] = step.loss, points, probe(model.online[0], seed, 4)
            model.train()
    return model.eval()


bootstrapped = fit_byol("BYOL", SEEDS[0], looks=(1, 15, 30, 60, 120, 240))
fit_byol("no predictor", SEEDS[0], predictor=nn.Identity(), steps=120)
fit_byol("no stop-gradient", SEEDS[0], loss=both_sides_learn, steps=120)
KINDS = ("BYOL", "no predictor", "no stop-gradient")
for name in KINDS:
    print(f"{name:<17} loss at step 120: {collapse[name, 120][0]:.4f}")

# %% [markdown]
# ## 9 Watch it collapse
#
# The loss cannot tell a good agreement from an empty one. The embeddings can. Divide each by its length, take off their mean,
# and ask how far they spread along each of their principal axes: that is the **spectrum**, the singular values over $\sqrt n$.
#
# | what has happened | the spectrum |
# | --- | --- |
# | all point the same way (total collapse) | all 0 |
# | only a few directions are used (dimensional collapse) | a few values, then 0 |
# | the whole sphere is used | even; the squares sum to 1 |

# %% exercise="16.6" difficulty="●●○" minutes=6
from course_lib.metrics import spectrum

# %% tags=["nbval-check-output"]
spectrum = check("16.6", spectrum)

# %%
spectra = {name: spectrum(collapse[name, 120][1]).double() for name in KINDS}
with torch.no_grad():
    model = contrasted[SEEDS[0]]
    spectra["SimCLR"] = spectrum(model.project(model.encoder(images[unseen[SEEDS[0]]])).cpu()).double()
spread = {name: values.square().sum().item() for name, values in spectra.items()}
lines = {name: (range(1, 31), values[:30].clamp_min(1e-5)) for name, values in spectra.items()}
print("probes, forty labels:", ", ".join(f"{name} {collapse[name, 120][2]:.2f}" for name in KINDS))
show(
    plots.curves(lines, "principal axis", "spread along it", "projections of unseen digits", log="y"),
    alt="Spread of the projections along their first 30 principal axes, logarithmic. Sum of the squares, which is 1 for a full sphere: "
    + ", ".join(f"{name} {total:.4f}" for name, total in spread.items())
    + ".",
)

# %% tags=["nbval-check-output"]
losses = {name: collapse[name, 120][0] for name in KINDS}
claim("16.o", "BYOL's projections spread: sum of the squared spectrum", spread["BYOL"], at_least=0.2)
claim("16.p", "without its predictor they spread less, by a factor", spread["BYOL"] / spread["no predictor"], at_least=4)
claim(
    "16.q",
    "without the stop-gradient they collapse: spread over BYOL's",
    spread["no stop-gradient"] / spread["BYOL"],
    at_most=0.02,
)
claim(
    "16.r",
    "and yet the loss without the stop-gradient is lower than BYOL's, by a factor",
    losses["BYOL"] / losses["no stop-gradient"],
    at_least=10,
)

# %% [markdown] tags=["predict"]
# **And is BYOL any good, here?** SimCLR and BYOL had the same encoder, the same digits and the same 240 steps.
#
# <details><summary>A. As good as SimCLR: the papers say so.</summary>
#
# They say so after hundreds of epochs on a million photographs. Here it trails.</details>
# <details><summary>B. It trails SimCLR, and hardly beats the pixels.</summary>
#
# Yes. SimCLR's goal is there from the first step: push 62 strangers away. BYOL's goal is what a random network happens to
# say, and gets better only as fast as the online network does.</details>
# <details><summary>C. Useless: without negatives there is nothing to learn.</summary>
#
# It learns: see the curve rise from where an untrained encoder stands.</details>

# %%
learned = {"SimCLR": curve, "BYOL": {step: share for (name, step), (_, _, share) in collapse.items() if name == "BYOL"}}
lines = {name: (list(shares), list(shares.values())) for name, shares in learned.items()}
show(
    plots.curves(lines, "step", "right answers, 40 labels", "probes through training", log="x", across={"pixels": raw[4][0]}),
    alt="Right answers of a probe with forty labels through training: "
    + "; ".join(
        f"{name} {', '.join(f'{share:.2f} at step {step}' for step, share in shares.items())}"
        for name, shares in learned.items()
    )
    + f"; the pixels {raw[4][0]:.2f}.",
)
if (longer := at_scale(cpu=0, gpu=3_000)) > 0:
    fit_byol("BYOL, longer", SEEDS[0], steps=longer, looks=(longer,))
    print(f"BYOL after {longer} steps: {collapse['BYOL, longer', longer][2]:.3f}")

# %% tags=["nbval-check-output"]
at_the_end = [collapse["BYOL", 240][2]]
for seed in SEEDS[1:]:
    fit_byol(f"BYOL {seed}", seed, looks=(240,))
    at_the_end.append(collapse[f"BYOL {seed}", 240][2])
behind_simclr = min(ours - theirs for ours, theirs in zip(probed[4], at_the_end, strict=True))
over_pixels = mean(at_the_end) - mean(raw[4])
claim("16.s", "after 240 steps BYOL trails SimCLR: least lead of SimCLR's probe", behind_simclr, at_least=0.02)
claim("16.t", "BYOL's probe leads that of the pixels by no more than, mean of the seeds", over_pixels, at_most=0.12)
claim(
    "16.u",
    "BYOL has learned all the same: it leads an untrained encoder, mean",
    mean(at_the_end) - mean(blank[4]),
    at_least=0.1,
)

# %% [markdown]
# ## 10 More than one device
#
# With photographs, batches of thousands are usual, and no single device holds them. `gathered_nt_xent` spreads one batch over
# several processes: each encodes its own pairs, the *projections* of all are gathered, and everybody's view is a negative to
# everybody. The gradient must travel back the same way: a view is told off by the views of other processes too. A test holds
# two processes to the loss and the gradients of one with the joint batch. Start it with PyTorch's own launcher:
#
# `torchrun --nproc-per-node 2 examples/simclr_on_several_devices.py`
#
# `docs/several_devices.md` says what else to mind.

# %% [markdown] tags=["quiz"]
# ## 11 Before you go
#
# **Question 1.** You train SimCLR on satellite pictures, with rotations among the augmentations, and then probe for the wind
# direction from the smoke of chimneys. What do you expect?
#
# <details><summary>A. Good results: more augmentation is better.</summary>
#
# More is better only for what the task does not ask. Here the answer *is* the rotation.</details>
# <details><summary>B. Poor results.</summary>
#
# Right: the encoder was paid for saying the same of all rotations.</details>
# <details><summary>C. It depends on the temperature.</summary>
#
# No temperature brings back what both views were told to share.</details>
#
# **Question 2.** Your SimCLR loss sits at $\log(2N - 1)$ and does not move. What has happened?
#
# <details><summary>A. All embeddings are equal, or look so.</summary>
#
# Right: a blind guess among $2N - 1$. The loss itself warns you here, unlike BYOL's.</details>
# <details><summary>B. It has converged.</summary>
#
# It has not begun. A trained model is far below that.</details>
# <details><summary>C. The batch is too small.</summary>
#
# The value moves with N, the trouble does not.</details>
#
# **Question 3.** Somebody evaluates an encoder by training a deep network on top of it. What is wrong with that ruler?
#
# <details><summary>A. Nothing: more accuracy is better.</summary>
#
# A deep network could learn from the pixels alone. It measures itself.</details>
# <details><summary>B. It does not separate what the encoder has done from what the network does.</summary>
#
# Right. A linear probe can only read off what already lies on a straight line.</details>
# <details><summary>C. It needs too many labels.</summary>
#
# It does, but with enough of them it would still be the wrong ruler.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague reports a new method without negatives: "The loss goes to 0.001, a tenth of
# BYOL's." What would you ask to see, and why? Use two measurements of this lecture.*
#
# | points | what earns them |
# | --- | --- |
# | 1 | says that the loss compares with a goal that moves, so that a low one may be empty |
# | 1 | asks for the spectrum, or the spread, of the embeddings, and says what a collapse looks like |
# | 1 | asks for a probe, with a baseline of pixels or of an untrained encoder |
# | 1 | asks for several seeds, or for the supervised network with the same labels and augmentation |
# | 1 | is clear and short |

# %% [markdown]
# ## 12 Ledger
#
# **Where the deck and the code part ways**, each by a number:
#
# - *GA*: SimCLR "requires the use of large mini-batches, so that enough negatives are used". On digits, a third of the batch,
#   with as many pictures seen in all, is no worse. What helps ImageNet for a hundred epochs is no requirement of the loss.
# - *GA*: "strong computational and memory footprint". It is the encoder's, on all those pictures; the loss itself, with
#   its $2N \times 2N$ matrix, holds a small share of what the encoder holds.
# - *GA* numbers the views of a pair $2k-1$ and $2k$. That is right for interleaved views, and a silent error for stacked ones,
#   as `torch.cat` gives them: views that agree perfectly then cost more than a blind guess (16.GA-order).
# - *GA* calls BYOL "a convincing alternative". Not at this budget (16.s); it needs many more steps.
#
# **What this lecture does not show.** Digits are easy and grey: the augmentations that they allow already say most of what a
# label would, which is why supervision catches up so soon. On photographs the gap is wider and colours matter. Without its
# predictor or its stop-gradient, BYOL's projections collapse, but its *encoder* is still fit for a probe after 120 steps; we
# did not wait for more. And nobody has a full theory of why BYOL does not collapse: stop-gradient and predictor are known to be needed,
# more than known to be enough.


# %%
def held(call):
    """The most bytes that a forward and backward pass holds at one time."""
    return peak_memory(lambda: call().backward())


def numbered_as_in_the_deck(a, b, temperature):
    """NT-Xent of stacked views whose partners are the rows 2k - 1 and 2k."""
    z = unit(torch.cat([a, b]))
    similarity = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(similarity, torch.arange(len(z)) ^ 1)


generator = torch.Generator().manual_seed(SEEDS[0])
encoder, batch = backbone(), images[:192].cpu()
z = torch.randn(2, 96, 64, generator=generator, requires_grad=True)
share_of_the_loss = held(lambda: nt_xent(*z, 0.2).float()) / held(lambda: encoder(batch).square().mean())
same = torch.randn(96, 64, generator=generator)
by_the_deck = numbered_as_in_the_deck(same, same, 0.2).item()
large = probe(fit_simclr(SEEDS[0], n_pairs=96, steps=80).encoder, SEEDS[0], 4)

# %% tags=["nbval-check-output"]
claim("16.GA", "32 pairs a batch against 96, as many pictures seen: probe over probe", probed[4][0] / large, at_least=0.95)
claim("16.GA-memory", "96 pairs: memory that the loss holds over what a small encoder holds", share_of_the_loss, at_most=0.25)
ratio = by_the_deck / math.log(191)
claim(
    "16.GA-order",
    "stacked views that agree perfectly, paired by the deck's numbers: loss over a blind guess",
    ratio,
    at_least=0.9,
)

# %% tags=["ledger"]
ledger()
