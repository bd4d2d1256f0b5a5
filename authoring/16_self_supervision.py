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
# SimCLR and BYOL learn representations without labels: two augmented views of the same image should have similar embeddings.
#
# ![](diagram:simclr)
#
# You will write the augmentation, both losses, the moving average of BYOL and a linear probe, train both on unlabelled digits,
# remove each of their ingredients in turn, build SimCLR's whole training loop, and repair another one.
#
# **Prerequisites:** lecture 04 (a softmax over similarities) and the basics of convolutional networks. **Time:** about 140
# minutes. {measured}

# %%
import math
from statistics import mean

from course_tools.notebook import claim, few_labels, fitting, predict

# %% [markdown]
# ## 1 Ten labels
#
# Unlabelled images are easy to collect; labels are expensive. We have five thousand handwritten digits: four thousand for
# training and a thousand for testing. Of the four thousand, *ten* are labelled, one of each class.
#
# We train a small convolutional network on those ten: three convolutions, global max pooling of their 64 maps, a linear layer.
# Random augmentation (rotation, shear, zoom, shift) gives a new version of each digit at every step.

# %% [markdown] tags=["predict"]
# **Predict.** What accuracy does a network trained on ten labelled digits reach on a thousand unseen ones? Chance is 10 %.
#
# <details><summary>A. About 10 %: ten examples contain no information.</summary>
#
# They contain some: a 1 is thin and a 0 is hollow in every handwriting.</details>
# <details><summary>B. About half.</summary>
#
# Yes, and the accuracy depends strongly on which ten are labelled.</details>
# <details><summary>C. Nearly 100 %: digits are easy.</summary>
#
# With thousands of labels they are. With a single 4 to learn from, an open 4 and a closed 4 look like different classes.</details>

# %% tags=["nbval-check-output"]
SEEDS = (0, 1, 2)
digits = few_labels.small_digits(SEEDS)
models = {seed: few_labels.supervised_draws(digits, seed, 1) for seed in SEEDS}
by_labels = {
    1: [few_labels.mean_on_unseen(models[seed], digits, seed) for seed in SEEDS]
}
claim(
    "16.a",
    "ten labels with augmentation do not suffice to train a network: accuracy on "
    "unseen digits, mean",
    mean(by_labels[1]),
    at_most=0.7,
)
with_labels = {"10 labels": [one for drawn in models.values() for one in drawn]}
uniform_guess = {"log 10, a uniform guess": math.log(10)}
fitting.show_losses(with_labels, across=uniform_guess)

# %% [markdown]
# ## 2 Two views of one image
#
# The other 3,990 images have no label, but we know something about each: *rotated a little, it still shows the same digit.* To
# use this, we draw two random **views** of every image by augmentation.
#
# The transformation is affine: a pixel at $r$ moves to $r' = A r + t$, where $r$ is measured in pixels from the centre, $x$ to
# the right and $y$ down. Each image has its own matrix and shift, and the whole batch is transformed at once.
#
# An image is resampled with the **inverse** map: the new pixel at $r$ takes the value at $A^{-1}(r - t)$. `F.affine_grid` computes
# these positions for a batch and `F.grid_sample` interpolates the values; both use coordinates from -1 to 1 along each side.
#
# | name | shape |
# | --- | --- |
# | images | (B, C, H, W), H and W may differ |
# | A, t | (B, 2, 2), (B, 2): axes are (x, y) |
# | argument of `affine_grid` | (B, 2, 3), for coordinates from -1 to 1 |

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.shapes import Image
from course_tools.notebook import check

# %% exercise="16.1" difficulty="●●●" minutes=15
from course_lib.datasets import warp

# %% tags=["nbval-check-output"]
warp = check("16.1", warp)


# %%
from einops import rearrange

from course_tools.notebook import plots, show
from course_tools.notebook.few_labels import RANGES, few

images, labels, learn, unseen = digits


def view(batch, generator, ranges=RANGES):
    """Draw one view of each image of a batch, by `warp`."""
    A, t = ranges.draw_affine(len(batch), batch.shape[-2:], generator)
    return warp(batch, A.to(batch), t.to(batch)).to(batch.dtype)


def sheet(batch, rows):
    """Arrange grey images (B, 1, H, W) in rows, as one image with three equal
    channels."""
    pattern = "(rows columns) 1 H W -> (rows H) (columns W) 1"
    joined = rearrange(batch.cpu(), pattern, rows=rows)
    return joined.expand(-1, -1, 3).clamp(0, 1)


generator = torch.Generator().manual_seed(SEEDS[0])
some = images[few(digits, SEEDS[0], 2, 0)]
views = {
    "original": sheet(some, 4),
    "one view": sheet(view(some, generator), 4),
    "another": sheet(view(some, generator), 4),
}
changed = (view(some, generator) - some).abs().mean() / some.mean()
show(
    plots.pictures(views),
    alt="The same twenty digits three times: the originals and two views of each, "
    "slightly rotated, sheared, zoomed and shifted. The absolute difference "
    f"between a digit and its view is {100 * changed.item():.0f} % of the ink.",
)

# %% [markdown]
# **Colour** can be augmented too. Changes of brightness, saturation and hue are linear in red, green and blue, so one 3 × 3
# matrix performs all three: $c' = M c$ with $M = b\, R(\mathrm{hue})\,(s I + (1 - s)\,\mathbf 1 \ell^\top)$, where $\ell$ holds
# the weight of each colour in the luminance. `colour_matrix` builds it, `recolour` applies it to a batch.
#
# Our digits are grey. For photographs, colour distortion matters most together with cropping: crops of one image have similar
# colour histograms, and a network could match them by their histograms alone (Chen et al., section 3.1 and figure 6). We
# measure this on eight images, the quarters of two photographs, with 25 crops of each: how often is the crop with the nearest
# histogram from the same image?

# %% tags=["nbval-check-output"]
from course_lib.datasets import colour_matrix, photographs, recolour
from course_tools.notebook.colour_crops import colour_histograms, random_crops
from course_tools.notebook.nearest_neighbours import nearest_neighbour_accuracy

generator = torch.Generator().manual_seed(SEEDS[0])
quarters = rearrange(
    photographs((120, 180)), "n C (r H) (c W) -> (n r c) C H W", r=2, c=2
).float()
crops, origin = random_crops(quarters, 25, 40, generator)
amount = torch.rand(3, len(crops), generator=generator)
M = colour_matrix(*(0.2 + 1.6 * amount[:2]), 2 * math.pi * amount[2])
matched = [
    nearest_neighbour_accuracy(torch.cdist(points, points, p=1), origin)
    for points in map(colour_histograms, (crops, recolour(crops, M).clamp(0, 1)))
]
claim(
    "16.colour",
    "crops of eight colour images: the nearest colour histogram is that of a crop of "
    "the same image, fraction (chance 0.12)",
    matched[0],
    at_least=0.8,
)
claim(
    "16.colour-distorted",
    "the same crops, each with its own random brightness, saturation and hue: fraction",
    matched[1],
    at_most=0.65,
)

# %% [markdown] tags=["interactive"]
# **Explore.** Rotate, zoom and recolour a photograph. How far can you go before *you* would no longer call it the same object?
# The network is trained to be invariant to the whole range that you choose.

# %% tags=["interactive"]
from course_tools.notebook import explore

dahlia = photographs((60, 90))[1:]


def draw_views(turn=20.0, zoom=1.2, hue=40.0, saturation=1.2):
    """Show a photograph and its view: rotation in degrees, zoom factor, hue rotation in
    degrees, saturation factor."""
    angle = torch.tensor(math.radians(turn))
    A = zoom * torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(
        1, 2, 2
    )
    M = colour_matrix(
        torch.ones(1), torch.tensor([saturation]), torch.tensor([math.radians(hue)])
    )
    made = recolour(warp(dahlia, A, torch.zeros(1, 2)).float(), M).clamp(0, 1)
    show(
        plots.pictures(
            {"photograph": dahlia[0].permute(1, 2, 0), "view": made[0].permute(1, 2, 0)}
        ),
        alt=f"A dahlia and its view: rotated by {turn:g}°, zoomed by {zoom:g}, hue "
        f"rotated by {hue:g}°, saturation {saturation:g}; the mean of the red "
        f"channel changes from {dahlia.mean((0, 2, 3)).tolist()[0]:.2f} to "
        f"{made.mean((0, 2, 3)).tolist()[0]:.2f}.",
    )


explore(
    draw_views,
    turn=(-90.0, 90.0, 5.0),
    zoom=(0.5, 2.0, 0.1),
    hue=(0.0, 180.0, 10.0),
    saturation=(0.0, 2.0, 0.1),
)

# %% [markdown]
# ## 3 The contrastive loss NT-Xent
#
# $N$ images give $2N$ views. An **encoder** $f$ maps each view to a representation $h$, and a small **projection head**
# maps that to $z = W^{(2)}\,\mathrm{ReLU}(W^{(1)} h)$. For every view $i$ the task is a classification: which of the other
# $2N - 1$ views is the second view $j$ of the same image? The logits are cosines divided by a temperature $\tau$:
#
# $$\ell(i, j) = -\log \frac{\exp(\mathrm{sim}(z_i, z_j)/\tau)}{\sum_{k \ne i} \exp(\mathrm{sim}(z_i, z_k)/\tau)} \qquad
# L = \frac{1}{2N} \sum_{\text{pairs}} \ell(i, j) + \ell(j, i)$$
#
# Like the attention of lecture 04, it uses a softmax over similarities, here with the diagonal masked and with a known target.
# This is **NT-Xent**, the normalised temperature-scaled cross-entropy. The other views act as **negatives**.
#
# | name | shape |
# | --- | --- |
# | a, b | (N, d) each: row $i$ of both belongs to image $i$ |
# | similarities | (2N, 2N), the diagonal is masked |
# | loss | a number; 0 for a single pair, since there are no negatives |
#
# `unit` divides each vector by its norm. **Bug hunt.** The deck numbers the views of a pair $2k-1$ and $2k$. This
# implementation stacks all first views, then all second views, and pairs rows $2k-1$ and $2k$. It runs, and training lowers the
# loss. Decide what is wrong *before* you run the check.

# %%
from course_lib.losses.nt_xent import require_pairs
from course_lib.primitives import unit

# %% exercise="16.2" bug="seeks_the_partner_next_door"
from course_tools.bank.lecture_16.nt_xent import seeks_the_partner_next_door as suspect

# %% [markdown] tags=["predict"]
# **Which views does it pull together?**
#
# <details><summary>A. The two views of each image: the numbering does not matter.</summary>
#
# Print the targets for three pairs: 1, 0, 3, 2, 5, 4. Which image does row 1 belong to?</details>
# <details><summary>B. Each image with another image.</summary>
#
# Yes. `torch.cat` puts all first views before all second ones, so rows 0 and 1 are different images. Numbering and order of
# the rows must agree: interleave the views, or shift the targets by N.</details>
# <details><summary>C. Each view with itself.</summary>
#
# The diagonal is masked; that part is right.</details>

# %% tags=["nbval-check-output"]
suspect = check("16.2", suspect)

# %% exercise="16.2" difficulty="●●○" minutes=12
from course_lib.losses import nt_xent

# %% tags=["nbval-check-output"]
nt_xent = check("16.2", nt_xent)

# %% tags=["nbval-check-output"]
from course_lib.losses import lean_nt_xent

generator = torch.Generator().manual_seed(SEEDS[0])
a, b = torch.randn(2, 96, 64, generator=generator)
one_pair, all_equal = (
    nt_xent(a[:1], b[:1], 0.2),
    nt_xent(torch.ones(96, 64), torch.ones(96, 64), 0.2),
)
claim(
    "16.b",
    "the loss of a single pair is 0, at a temperature of 0.2: absolute value",
    abs(one_pair.item()),
    at_most=1e-5,
)
claim(
    "16.c",
    "96 pairs of equal embeddings have the loss of a uniform guess: loss over log 191",
    all_equal.item() / math.log(191),
    between=(0.999, 1.001),
)
gap = (nt_xent(a, b, 0.2) - lean_nt_xent(a, b, 0.2)).abs().item()
claim(
    "16.d",
    "`nt_xent` agrees with the library's memory-efficient form: difference",
    gap,
    at_most=1e-3,
)

# %% [markdown]
# ## 4 Evaluation: the linear probe
#
# How good is an encoder that was trained without labels? Freeze it and train only a *linear* classifier on its features. With a
# squared loss this has a closed-form solution (ridge regression), so no step size has to be chosen:
#
# $$\min_{W, b} \sum_i \lVert W x_i + b - y_i \rVert^2 + \lambda \lVert W \rVert^2$$
#
# with $y_i$ one-hot. For any $W$ the best bias, which is not penalised, is $b = \bar y - W \bar x$. Inserting it leaves a
# problem in centred features and labels:
#
# $$W^\top = (X^\top X + \lambda I)^{-1} X^\top Y \qquad X, Y \text{ centred}$$
#
# | name | shape |
# | --- | --- |
# | features, labels | (n, d), (n,); n may be smaller than d, or larger |
# | W, b | (n_classes, d), (n_classes,), as `LinearProbe(weight, bias)` |

# %%
from jaxtyping import Int

from course_lib.metrics import LinearProbe

# %% exercise="16.3" difficulty="●●○" minutes=12
from course_lib.metrics import linear_probe

# %% tags=["nbval-check-output"]
linear_probe = check("16.3", linear_probe)


# %%
from functools import partial

from course_tools.notebook.contrastive_training import probe_accuracy, untrained

probe = partial(probe_accuracy, digits=digits, fit_probe=linear_probe)
pixels, blank = nn.Flatten(), {seed: untrained(seed) for seed in SEEDS}
raw, random = {}, {}
for n in (1, 4, 10):
    raw[n] = [probe(pixels, seed=seed, n_each=n) for seed in SEEDS]
    random[n] = [probe(blank[seed], seed=seed, n_each=n) for seed in SEEDS]
    print(
        f"{10 * n} labels: pixels {mean(raw[n]):.2f}, untrained {mean(random[n]):.2f}"
    )

# %% [markdown]
# A probe of the pixels is more accurate than one of the features of an untrained network, in which max pooling discards *where*
# the ink is. Both are baselines for what follows.
#
# ## 5 SimCLR on unlabelled digits
#
# We train SimCLR for 240 steps with 32 pairs in a batch, with three seeds. Then we freeze the encoder, discard the projection
# head, and evaluate the encoder with the linear probe.


# %%
from course_lib.models import SimCLR
from course_tools.notebook import device
from course_tools.notebook.few_labels import backbone
from course_tools.notebook.contrastive_training import train_on_views, two_views


def fit_simclr(label, seed, temperature=0.2, ranges=RANGES, **looks):
    """Train SimCLR by `nt_xent` on views that `view` draws."""
    torch.manual_seed(seed)
    model = SimCLR(backbone(), 64).to(device())
    pairs = two_views(digits, seed, partial(view, ranges=ranges))

    def loss(model, pair):
        return nt_xent(*model(*pair), temperature).float()

    return train_on_views(model, pairs, loss, lr=3e-3, label=label, **looks)


# %% [markdown] tags=["predict"]
# **Predict.** We compare four classifiers that use few labels: the supervised network, trained with augmentation; and linear
# probes of SimCLR's encoder, of the pixels, and of an untrained encoder. There are one, four or ten labels of each class. Which
# classifier is best?
#
# <details><summary>A. SimCLR everywhere: it has seen four thousand digits.</summary>
#
# It has, but without any information on which differences define the classes. Labels provide this information, and with enough
# of them the supervised network reaches the same accuracy.</details>
# <details><summary>B. The supervised network everywhere: it is trained for the task itself.</summary>
#
# Ten labels are too few to train a whole network. The probe trains only one linear layer.</details>
# <details><summary>C. SimCLR with the fewest labels; with the most, the supervised network has caught up.</summary>
#
# Yes. The curves meet between four and ten labels of each class. Where they meet depends on the task: for digits,
# augmentation alone already helps a supervised network a great deal.</details>

# %%
from course_tools.notebook.training_curve import show_recorded_losses

LOOKS = (1, 15, 30, 60, 120, 240)


def look_at(model, seed=SEEDS[0]):
    """Embeddings of the unseen digits, and the accuracy of a probe with 40 labels."""
    points = unit(model.encoder(images[unseen[seed]])).cpu()
    return points, probe(model.encoder, seed=seed, n_each=4)


contrasted = [
    fit_simclr(
        f"seed {seed}", seed, looks=LOOKS if seed == SEEDS[0] else (), look=look_at
    )
    for seed in SEEDS
]
encoders = dict(zip(SEEDS, (run.model.encoder for run in contrasted), strict=True))
probed = {
    n: [probe(encoders[seed], seed=seed, n_each=n) for seed in SEEDS]
    for n in (1, 4, 10)
}
for n in (4, 10):
    with_labels[f"{10 * n} labels"] = models = [
        few_labels.supervised(digits, seed, n, 0) for seed in SEEDS
    ]
    by_labels[n] = [
        few_labels.on_unseen(model, digits, seed)
        for seed, model in zip(SEEDS, models, strict=True)
    ]
rivals = {
    "SimCLR, probed": probed,
    "supervised, augmented": by_labels,
    "pixels, probed": raw,
    "untrained, probed": random,
}
lines = {
    name: ([10 * n for n in (1, 4, 10)], [mean(accuracies[n]) for n in (1, 4, 10)])
    for name, accuracies in rivals.items()
}
uniform_guess = {"log 63, a uniform guess": math.log(63)}
by_seed = {
    f"seed {seed}": [run.losses] for seed, run in zip(SEEDS, contrasted, strict=True)
}
show_recorded_losses(by_seed, "NT-Xent, 32 pairs", uniform_guess)
fitting.show_losses(with_labels)
show(
    plots.curves(lines, "labels", "accuracy on unseen digits", log="x"),
    alt=f"Accuracy against the number of labels, {lines['pixels, probed'][0]}, mean of "
    f"{len(SEEDS)} seeds: "
    + "; ".join(
        f"{name} {', '.join(f'{accuracy:.2f}' for accuracy in accuracies)}"
        for name, (_, accuracies) in lines.items()
    )
    + ".",
)

# %% tags=["nbval-check-output"]
from course_tools.notebook.seed_scores import paired_differences

lead = {n: paired_differences(probed[n], by_labels[n]) for n in probed}
claim(
    "16.e",
    "with ten labels, SimCLR's probe leads the network trained on them: difference in "
    "accuracy, mean",
    mean(lead[1]),
    at_least=0.02,
)
claim(
    "16.f",
    "from ten labels to a hundred, this lead shrinks: decrease, mean",
    mean(lead[1]) - mean(lead[10]),
    at_least=0.02,
)
claim(
    "16.g",
    "with forty labels, SimCLR's probe leads that of the pixels: difference in "
    "accuracy, least of three seeds",
    min(paired_differences(probed[4], raw[4])),
    at_least=0.06,
)
claim(
    "16.h",
    "with forty labels, it leads that of an untrained encoder: difference in accuracy, "
    "least of three seeds",
    min(paired_differences(probed[4], random[4])),
    at_least=0.15,
)

# %% [markdown] tags=["predict"]
# ## 6 The embeddings during training
#
# Each point below is an unseen digit, shown as the numeral of its class, at three moments of training (one seed). The encoder
# has never seen a label. **t-SNE** arranges the embeddings in the plane so that digits with similar embeddings stay close together. The
# distances between groups, and the sizes of groups, have no meaning.
#
# **Predict.** For how many digits does the *nearest* other embedding, in all 64 dimensions, belong to the same class: before
# training, and after?
#
# <details><summary>A. 10 % before, nearly all after.</summary>
#
# The first part is wrong: an untrained network already maps similar images to similar vectors.</details>
# <details><summary>B. More than half before, nearly all after.</summary>
#
# Yes. Training separates the classes further, but the untrained network already separates them partly.</details>
# <details><summary>C. The same before and after: there are no classes without labels.</summary>
#
# No label defines the classes. But an augmented 4 can look like another 4, and rarely like a 0.</details>


# %%
from course_tools.notebook.contrastive_training import show_embeddings

kinds = labels[unseen[SEEDS[0]]].cpu()
snapshots = {f"step {step}": contrasted[0].seen[step][0] for step in (1, 30, 240)}
show_embeddings(snapshots, kinds)

# %% tags=["nbval-check-output"]
agree = {
    name: nearest_neighbour_accuracy(-points @ points.mT, kinds)
    for name, points in snapshots.items()
}
claim(
    "16.i",
    "nearest neighbours agree in class more often after training: gain from the first "
    "step to the last, one seed",
    agree["step 240"] - agree["step 1"],
    at_least=0.05,
)

# %% [markdown] tags=["try-it"]
# **Try it.** Pick an unseen digit by its number, 0 to 999, and look at the five digits with the nearest embeddings. Find a
# digit whose neighbours have another class. Would you have confused them too?


# %% tags=["try-it"]
def draw_neighbours(number):
    """Show one unseen digit and the five nearest to it in the embedding."""
    points = snapshots["step 240"]
    nearest = (points @ points[number]).topk(6).indices
    near = ", ".join(map(str, kinds[nearest[1:]].tolist()))
    title = f"a {kinds[number]}, then {near}"
    show(
        plots.pictures(
            {title: sheet(images[unseen[SEEDS[0]]][nearest.to(device())], 1)}
        ),
        alt=f"Unseen digit {number}, {title}: its five nearest neighbours, of which "
        f"{int((kinds[nearest[1:]] == kinds[number]).sum())} show the same digit.",
    )


draw_neighbours(7)

# %% [markdown] tags=["predict"]
# ## 7 Ablations: augmentation, temperature, head
#
# **Predict.** What is the accuracy of the probe (a) without augmentation; (b) with τ = 5 instead of 0.2; (c) on $z$ after the
# projection head instead of $h$ before it?
#
# <details><summary>A. Without augmentation nothing changes: the loss still has negatives.</summary>
#
# Both views are then the same image, and any feature that distinguishes images solves the task. No invariance is
# learned.</details>
# <details><summary>B. τ = 5 makes the task easier and the probe better.</summary>
#
# All cosines lie in [-1, 1]; divided by 5 they differ by at most 0.4. All negatives then have nearly equal weight in the
# gradient, whereas a low temperature concentrates it on the hard ones.</details>
# <details><summary>C. (a) and (b) are clearly worse; (c) differs little here.</summary>
#
# Yes. Chen et al. (section 4.2) find $h$ more than 10 points better than $z$ on ImageNet: the contrastive loss removes
# information from $z$ about what the augmentation changes. For our digits, the cell below prints both: $h$ leads $z$ on every
# seed, but only by 0.01 to 0.03.</details>

# %%
from course_lib.datasets import Augmentation
from course_tools.notebook.seed_scores import show_seeds

with_heads = {
    seed: nn.Sequential(run.model.encoder, run.model.project)
    for seed, run in zip(SEEDS, contrasted, strict=True)
}
after_head = {
    n: [probe(with_heads[seed], seed=seed, n_each=n) for seed in SEEDS] for n in (1, 4)
}
without = {
    "no augmentation": fit_simclr("no augmentation", SEEDS[0], ranges=Augmentation()),
    "τ = 5": fit_simclr("τ = 5", SEEDS[0], temperature=5.0),
}
runs = {"SimCLR, τ = 0.2": contrasted[0]} | without
show_recorded_losses(
    {name: [run.losses] for name, run in runs.items()},
    "NT-Xent, 32 pairs",
    uniform_guess,
)
ablated = {
    name: probe(run.model.encoder, seed=SEEDS[0], n_each=4)
    for name, run in without.items()
}
groups = {"SimCLR, h": probed[4], "SimCLR, z": after_head[4]} | {
    name: [accuracy] for name, accuracy in ablated.items()
}
show_seeds(groups, "probe accuracy, 40 labels", across={"chance": 0.1})

# %% tags=["nbval-check-output"]
lost = {name: probed[4][0] - accuracy for name, accuracy in ablated.items()}
claim(
    "16.j",
    "without augmentation the probe with forty labels loses accuracy: loss of one seed",
    lost["no augmentation"],
    at_least=0.15,
)
claim(
    "16.k",
    "with a temperature of 5 the probe with forty labels loses accuracy: loss of one "
    "seed",
    lost["τ = 5"],
    at_least=0.07,
)
for n_each in (1, 4):
    leads = paired_differences(probed[n_each], after_head[n_each])
    print(
        f"{10 * n_each} labels: accuracy of the probe of h minus that of z, by seed:",
        ", ".join(f"{lead:+.3f}" for lead in leads),
    )

# %% [markdown]
# ## 8 BYOL: no negatives
#
# In SimCLR, negatives keep the encoder from mapping all images to the same vector. **BYOL** has no negatives. An *online*
# network (encoder, projector) and a *target* network of the same architecture see one view each; a **predictor** $q$ on the
# online side predicts the target's output for the *other* view:
#
# $$L = \lVert \overline{q(z)} - \overline{z'} \rVert^2 = 2 - 2 \cos(q(z), z')$$
#
# The bar denotes normalisation to unit length. **No gradient** flows into $z'$; this is the *stop-gradient*.
#
# | name | shape |
# | --- | --- |
# | prediction, target | (B, d), each row of both from the same image |
# | loss | a number from 0 to 4, the mean over rows |
#
# ![](diagram:byol)

# %%
from collections.abc import Sequence

from course_lib.models import BYOL

# %% exercise="16.4" difficulty="●○○" minutes=6
from course_lib.losses import byol_loss

# %% tags=["nbval-check-output"]
byol_loss = check("16.4", byol_loss)

# %% [markdown]
# The target network is not trained by gradients. After every step it moves a little towards the online one:
#
# $$\xi \leftarrow \tau\, \xi + (1 - \tau)\, \theta$$
#
# with $\tau$ near 1 (not the temperature of section 3; both papers use the letter). The target is an exponential moving average
# of the online network: it varies more slowly than the online network, so the prediction target is more stable.
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
# The library's `BYOL.update` does this in place, with one call of `torch._foreach_lerp_` for all tensors. We compare it with
# the function of exercise 16.5, and check that the loss gives the target's weights no gradient. The training runs below use
# the function of the exercise.

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
model = BYOL(backbone(), 64, decay=0.9).to(device())
with torch.no_grad():
    for theta in model.online.parameters():
        theta.add_(torch.randn_like(theta))
expected = ema_update(
    [xi.clone() for xi in model.target.parameters()],
    list(model.online.parameters()),
    0.9,
)
model.update()
apart = max(
    (xi - own).abs().max().item()
    for xi, own in zip(model.target.parameters(), expected, strict=True)
)
byol_loss(*model(*next(two_views(digits, SEEDS[0], view)))).backward()
reached = sum(xi.grad is not None for xi in model.target.parameters())
claim(
    "16.m",
    "`ema_update` agrees with `BYOL.update`: largest difference",
    apart,
    at_most=1e-5,
)
claim(
    "16.n",
    "no tensor of the target network receives a gradient: number of those that do",
    reached,
    equals=0,
)

# %% [markdown] tags=["predict"]
# **Predict.** The loss has a trivial minimum: the same vector for every image gives loss 0. We train three variants, with one
# seed each: BYOL; BYOL without its predictor; BYOL without the stop-gradient, with one network on both sides. Which has the
# *lowest loss*?
#
# <details><summary>A. BYOL: it learns the best representation.</summary>
#
# It has the highest loss of the three.</details>
# <details><summary>B. BYOL without the stop-gradient.</summary>
#
# Yes. With a gradient on both sides, the network can lower the loss by making all outputs equal. When the target is trained
# too, a lower loss does not mean a better model.</details>
# <details><summary>C. All three are equal: the loss is the same formula.</summary>
#
# The formula is the same, but the targets differ.</details>


# %%
@torch.no_grad()
def follow(model):
    """Move the target network towards the online one by `ema_update`."""
    target = list(model.target.parameters())
    moved = ema_update(target, list(model.online.parameters()), model.decay)
    for xi, new in zip(target, moved, strict=True):
        xi.copy_(new)


def bootstrap(model, pair):
    """BYOL's loss."""
    return byol_loss(*model(*pair))


def without_stop_gradient(model, pair):
    """The loss without a stop-gradient, with one network on both sides."""
    z = model.online(torch.cat(pair))
    cosine = (unit(model.predictor(z)) * unit(z.roll(len(pair[0]), 0))).sum(-1)
    return (2 - 2 * cosine).mean()


def look_at_byol(model, seed=SEEDS[0]):
    """Projections of the unseen digits, and the accuracy of a probe with 40 labels."""
    points = model.online(images[unseen[seed]]).cpu()
    return points, probe(model.online[0], seed=seed, n_each=4)


def fit_byol(label, loss, predictor=None, seed=SEEDS[0]):
    """Train BYOL, or a variant without one of its parts."""
    torch.manual_seed(seed)
    model = BYOL(backbone(), 64, decay=0.95).to(device())
    model.predictor = model.predictor if predictor is None else predictor
    pairs, how = two_views(digits, seed, view), {"looks": LOOKS, "look": look_at_byol}
    return train_on_views(
        model, pairs, loss, lr=5e-3, update=follow, label=label, **how
    )


byol = {
    "BYOL": fit_byol("BYOL", bootstrap),
    "no predictor": fit_byol("no predictor", bootstrap, nn.Identity()),
    "no stop-gradient": fit_byol("no stop-gradient", without_stop_gradient),
}
lines = {
    name: (LOOKS, [max(run.losses[step - 1], 1e-6) for step in LOOKS])
    for name, run in byol.items()
}
show(
    plots.curves(lines, "step", "loss", log="xy"),
    alt="Loss of BYOL and two ablations at steps 1 to 240, logarithmic: "
    + "; ".join(
        f"{name} from {ys[0]:.3f} to {ys[-1]:.4f}" for name, (_, ys) in lines.items()
    )
    + ".",
)

# %% [markdown]
# ## 9 Collapse and the spectrum of embeddings
#
# The loss does not show whether the two views agree for a useful or a trivial reason. The embeddings do. Normalise them to unit
# length, subtract their mean, and compute the standard deviation along each principal axis. This is the **spectrum**: the
# singular values divided by $\sqrt n$.
#
# | embeddings | spectrum |
# | --- | --- |
# | all point in the same direction (complete collapse) | all 0 |
# | span a few directions (dimensional collapse) | a few values, then 0 |
# | spread over the whole sphere | flat; the squares sum to 1 |

# %% exercise="16.6" difficulty="●●○" minutes=6
from course_lib.metrics import spectrum

# %% tags=["nbval-check-output"]
spectrum = check("16.6", spectrum)

# %%
spectra = {name: spectrum(run.seen[240][0]).double() for name, run in byol.items()}
with torch.no_grad():
    embedded = with_heads[SEEDS[0]](images[unseen[SEEDS[0]]]).cpu()
spectra["SimCLR"] = spectrum(embedded).double()
spread = {name: values.square().sum().item() for name, values in spectra.items()}
lines = {
    name: (range(1, 31), values[:30].clamp_min(1e-5))
    for name, values in spectra.items()
}
show(
    plots.curves(
        lines,
        "principal axis",
        "standard deviation along it",
        "projections of unseen digits",
        log="y",
    ),
    alt="Standard deviation of the projections along their first 30 principal axes, "
    "logarithmic. Sum of squares, 1 for a full sphere: "
    + ", ".join(f"{name} {total:.4f}" for name, total in spread.items())
    + ".",
)
print(
    "encoder, probe with 40 labels:",
    ", ".join(f"{name} {run.seen[240][1]:.2f}" for name, run in byol.items()),
    f"pixels {raw[4][0]:.2f}",
)

# %% tags=["nbval-check-output"]
finals = {name: run.losses[-1] for name, run in byol.items()}
claim(
    "16.o",
    "BYOL's projections do not collapse: sum of the squared spectrum, one seed",
    spread["BYOL"],
    at_least=0.2,
)
claim(
    "16.p",
    "without the predictor the projections spread less: BYOL's sum of the squared "
    "spectrum over theirs, one seed",
    spread["BYOL"] / spread["no predictor"],
    at_least=4,
)
claim(
    "16.q",
    "without the stop-gradient the projections collapse: BYOL's sum of the squared "
    "spectrum over theirs, one seed",
    spread["BYOL"] / spread["no stop-gradient"],
    at_least=50,
)
claim(
    "16.r",
    "without the stop-gradient the loss is lower: BYOL's loss over it, one seed",
    finals["BYOL"] / finals["no stop-gradient"],
    at_least=10,
)

# %% [markdown]
# Note *which layer* collapses: the **projections**, on which the loss is computed. The features of the **encoder**, before the
# projector, suffer less. After 240 steps, with this one seed, the probes of all three encoders are still more accurate than that of an untrained
# encoder (printed in section 4); the lead is smallest without the stop-gradient. The recorded study below shows what happens to
# the features in a longer training.

# %% [markdown] tags=["predict"]
# **Predict.** BYOL and SimCLR are trained with the same encoder on the same batches of digits; the probe has forty labels.
# How does BYOL compare with SimCLR and with the pixels?
#
# <details><summary>A. It equals SimCLR from the start.</summary>
#
# Not from the start: see the curves at 120 and 240 steps.</details>
# <details><summary>B. It learns more slowly, becomes better than the pixels, and remains below SimCLR.</summary>
#
# Yes. One possible cause, not tested here: SimCLR's targets are fixed from the first step, whereas BYOL's targets are outputs
# of a random network at first, and improve only as fast as the online network does. How close it comes to SimCLR in 1,000 steps
# varies a lot between seeds. In trainings three times as long it comes close on all three (16.long).</details>
# <details><summary>C. It never becomes better than the pixels: without negatives there is nothing to learn.</summary>
#
# After 240 steps one might think so. That is a matter of training time, as the rest of the curve shows.</details>

# %%
from course_tools.notebook import recorded

study = recorded("16_byol_and_batches")
at_240 = [name for name in study.names if "240 steps" in name]
longer = {name: study.curve(name) for name in study.names if name not in at_240}
live = {
    "SimCLR": (LOOKS, [contrasted[0].seen[step][1] for step in LOOKS]),
    "BYOL": (LOOKS, [byol["BYOL"].seen[step][1] for step in LOOKS]),
}
of_pixels = mean(value for name in longer for value in study.scores(name, "pixels"))
ends = sorted({steps[-1] for steps, _ in longer.values()})
panels = {
    "this run": (live, raw[4][0], LOOKS),
    "recorded, mean of three seeds": (longer, of_pixels, (1, 30, 120, 480, *ends)),
}
for title, (lines, baseline, ticks) in panels.items():
    across = {"pixels": baseline}
    y = "probe accuracy, 40 labels"
    drawn = plots.curves(lines, "step", y, title, log="x", across=across)
    drawn.axes[0].set_xticks(ticks, [f"{step:,}" for step in ticks])
    show(
        drawn,
        alt=f"Accuracy of a probe with forty labels through training, {title}: "
        + "; ".join(
            f"{name} "
            f"{', '.join(f'{y:.2f} at step {x}' for x, y in zip(*line, strict=True))}"
            for name, line in lines.items()
        )
        + f"; the pixels {baseline:.2f}.",
    )
print(study.cost)
for name, (steps, _) in longer.items():
    print(f"{name}, {steps[-1]:,} steps, by seed:")
    for score in ("probe", "spread of projections", "spread of features"):
        values = ", ".join(f"{value:.3f}" for value in study.scores(name, score))
        print(f"    {score:<22} {values}")

# %% tags=["nbval-check-output"]
byol_probe = study.scores("BYOL", "probe")
over_pixels = paired_differences(byol_probe, study.scores("BYOL", "pixels"))
gains = [run.curve[1_000] - run.curve[240] for run in study.of("BYOL")]
claim(
    "16.s",
    "recorded, 1,000 steps: BYOL's probe leads that of the pixels, least of the seeds",
    min(over_pixels),
    at_least=0.02,
)
claim(
    "16.t",
    "recorded: BYOL's probe gains accuracy from step 240 to step 1,000, least of the "
    "seeds",
    min(gains),
    at_least=0.03,
)
simclr_leads = paired_differences(
    study.scores("SimCLR, three times as long", "probe"),
    study.scores("BYOL, three times as long", "probe"),
)
claim(
    "16.long",
    "recorded, 3,000 steps: SimCLR's probe less BYOL's, largest of the seeds",
    max(simclr_leads),
    at_most=0.06,
)
lost = paired_differences(byol_probe, study.scores("no stop-gradient", "probe"))
claim(
    "16.v",
    "recorded: without the stop-gradient the encoder's probe loses accuracy, least of "
    "the seeds",
    min(lost),
    at_least=0.15,
)
claim(
    "16.u",
    "after 240 steps, BYOL's probe leads that of an untrained encoder: difference in "
    "accuracy, one seed",
    byol["BYOL"].seen[240][1] - random[4][0],
    at_least=0.1,
)

# %% [markdown] tags=["predict"]
# **Predict.** SimCLR's negatives come from the batch. We compare 32 with 96 pairs in a batch at an equal number of *updates*
# (at an equal number of images, the larger batch would have a third of the updates). How good is the probe with 32 pairs?
#
# <details><summary>A. SimCLR fails: it needs thousands of negatives.</summary>
#
# On ImageNet larger batches help (Chen et al., figure 9). Here, 62 negatives for each view suffice to be better than the
# pixels.</details>
# <details><summary>B. It is better than the pixels; with 96 pairs it is a few points better still.</summary>
#
# Yes. The next cell prints both, for each recorded seed.</details>
# <details><summary>C. It is better than with 96 pairs: the gradient is noisier.</summary>
#
# Compare the two printed accuracies.</details>

# %% tags=["nbval-check-output"]
by_size = {n: study.scores(f"SimCLR, {n} pairs, 240 steps", "probe") for n in (32, 96)}
for n, values in by_size.items():
    print(
        f"recorded, 240 updates with {n} pairs: probe "
        f"{', '.join(f'{value:.3f}' for value in values)}, by seed"
    )
pixels_there = study.scores("SimCLR, 32 pairs, 240 steps", "pixels")
least = min(paired_differences(by_size[32], pixels_there))
claim(
    "16.GA",
    "recorded, 32 pairs in a batch: SimCLR's probe leads that of the pixels, least of "
    "the seeds",
    least,
    at_least=0.06,
)

# %% [markdown]
# ## 10 More than one device
#
# On photographs, batches of thousands are usual, and a single device cannot hold them. `gathered_nt_xent` distributes one batch
# over several processes: each encodes its own pairs, the *projections* of all are gathered, and each view has the views of all
# processes as negatives. The gradients are sent back in the same way, since a view is also a negative for the views of other
# processes. A test compares the loss and gradients of two processes with those of one process on the joint batch. Start it with
# PyTorch's launcher:
#
# `torchrun --nproc-per-node 2 examples/simclr_on_several_devices.py`
#
# `docs/several_devices.md` lists other points to consider.

# %% [markdown]
# ## 11 Build it
#
# **Build task (30 minutes, 12 points).** Starting from an empty cell, write all of SimCLR: the views, the encoder, the
# projection head, NT-Xent, and the training loop, which no cell above shows in full. You may use your `warp`, your `nt_xent`,
# and `view(batch, generator)` of section 2. The library's `SimCLR` and `nt_xent` are not allowed: if your 16.2 did not pass, the
# name `nt_xent` refers to the library's function; then write the loss here.
#
# The check calls `train_simclr(images, n_steps)` once, with 2,000 unlabelled digits and `n_steps=240`. Then it trains linear
# probes of the returned encoder on other digits, with four labels of each class, and averages their accuracies over eight draws
# of the labelled digits. The function has at most 60 seconds of processor time; a good solution needs about six seconds.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the encoder maps images (B, 1, 14, 14) to features (B, n) |
# | 1 | at most `n_steps` updates and at most 150,000 weights |
# | 1 | each update uses only its own gradients, and every weight of the encoder that is trained has one |
# | 1 | the loss falls during the training (or the encoder has learned without it) |
# | 1 | the returned encoder gives the same features for the same digits |
# | 1 | it returns the 64 features of the encoder, not the 32 of the projection |
# | 1 | the features of a digit do not depend on the other digits of the batch |
# | 1 | every weight that has a gradient is in the optimizer |
# | 1 | views of different digits are at least twice as far apart as two views of one digit (1 minus the cosine) |
# | 1 | accuracy of the probe: 0.2 above that of an untrained encoder, which has 0.42 |
# | 2 | accuracy of the probe: 0.02 above that of the pixels, which have about 0.65 |

# %% exercise="16.7" difficulty="●●●" minutes=30
from course_tools.bank.lecture_16.train_simclr import train_simclr

# %% tags=["nbval-check-output"]
train_simclr = check("16.7", train_simclr)

# %% [markdown]
# The next cell trains the encoder once more, on the digits of section 5, and draws its loss and its embeddings of unseen digits.
# The encoder of section 5 was trained on the same 4,000 digits for the same number of updates.

# %%
from course_tools.checks.training_record import Recorder
from course_tools.notebook.authorship import whose

torch.manual_seed(SEEDS[0])
with Recorder() as training:
    built = train_simclr(images[learn[SEEDS[0]]].cpu(), 240)
name = f"{whose(train_simclr)} encoder"
show_recorded_losses({name: [training.losses]})


def features_of(batch):
    """The features of this encoder, computed on the CPU."""
    return built(batch.cpu()).to(batch.device)


with torch.no_grad():
    points = unit(features_of(images[unseen[SEEDS[0]]])).cpu()
show_embeddings({name: points}, kinds)
print(
    f"probe with 40 labels: {name} {probe(features_of, seed=SEEDS[0], n_each=4):.2f}, "
    f"section 5 {probed[4][0]:.2f}, pixels {raw[4][0]:.2f}, an untrained encoder "
    f"{random[4][0]:.2f}"
)

# %% [markdown]
# ## 12 Build it: repair a run
#
# **Build task (25 minutes, 12 points).** The code below trains an encoder by SimCLR on the same digits. It runs to the end. We
# planted three faults; none of them raises an error. Measure before you read the code: the cell below the code runs it for a few updates and has
# room for your own measurements. The check names the faults that it can prove; one fault may hide another.

# %% exercise="16.8" bug="three_faults"
from course_tools.bank.lecture_16.repair_simclr import three_faults as suspect

# %%
torch.manual_seed(SEEDS[0])
suspected = suspect(images[learn[SEEDS[0]]].cpu(), 20)
with torch.no_grad():
    features = suspected(images[:64].cpu())
print(f"{tuple(features.shape)}, standard deviation {features.std(0).mean():.2f}")
# Are the two views equal? Which weights change? At which loss does it end?

# %% tags=["nbval-check-output"]
suspect = check("16.8", suspect)

# %% [markdown]
# Write a repaired version of this training run, and reuse whatever is correct. The check calls `repair_simclr(images, n_steps)` as
# it called `train_simclr`, and judges the returned encoder by the table of section 11. The function has at most 60 seconds of
# processor time.

# %% exercise="16.8" difficulty="●●○" minutes=25
from course_tools.bank.lecture_16.repair_simclr import repair_simclr

# %% tags=["nbval-check-output"]
repair_simclr = check("16.8", repair_simclr)

# %% [markdown] tags=["quiz"]
# ## 13 Exit quiz
#
# **Question 1.** You train SimCLR on satellite images, with rotations among the augmentations, and then probe for the wind
# direction from the smoke of chimneys. What do you expect?
#
# <details><summary>A. Good results: more augmentation is better.</summary>
#
# Only if the task is invariant to it. Here the answer *is* the rotation.</details>
# <details><summary>B. Poor results.</summary>
#
# Right: the encoder was trained to be invariant to rotation.</details>
# <details><summary>C. It depends on the temperature.</summary>
#
# No temperature restores information that both views were trained to ignore.</details>
#
# **Question 2.** Your SimCLR loss stays at $\log(2N - 1)$. What has happened?
#
# <details><summary>A. All embeddings are equal, or nearly so.</summary>
#
# Right: this is a uniform guess among $2N - 1$ views (wrong pairs give the same value, so check the pairs first). Here the loss
# itself reveals the collapse, unlike BYOL's.</details>
# <details><summary>B. It has converged.</summary>
#
# A trained model has a much lower loss.</details>
# <details><summary>C. The batch is too small.</summary>
#
# The value depends on N, but a small batch does not keep the loss from falling.</details>
#
# **Question 3.** Someone evaluates an encoder by training a deep network on top of it. What is wrong with this evaluation?
#
# <details><summary>A. Nothing: higher accuracy is better.</summary>
#
# A deep network could learn from the pixels alone. The result would then measure that network and not the encoder.</details>
# <details><summary>B. It does not separate the encoder's contribution from that of the network.</summary>
#
# Right. A linear probe can only use what is linearly separable in the features.</details>
# <details><summary>C. It needs too many labels.</summary>
#
# It does need more labels, but even with enough of them it would measure the wrong thing.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague reports a new method without negatives: "The loss goes to 0.001, a tenth of
# BYOL's." What would you ask to see, and why? Use two measurements from this lecture.*
#
# | points | criterion |
# | --- | --- |
# | 1 | says that the target of the loss changes during training, so that a low value may be trivial |
# | 1 | asks for the spectrum of the embeddings, and says of which layer, and what a collapse looks like |
# | 1 | asks for a probe, with a baseline of pixels or of an untrained encoder |
# | 1 | asks for several seeds, or for the supervised network with the same labels and augmentation |
# | 1 | is clear and short |

# %% [markdown] tags=["companion"]
# ## 14 Summary and sources
#
# **Where the deck and the code differ**, each with a measurement:
#
# - *GA* numbers the views of a pair $2k-1$ and $2k$. That is right for interleaved views. For stacked views, as `torch.cat`
#   produces them, it is an error that raises no exception: the loss of identical views is then near or above that of a uniform
#   guess (16.GA-order).
# - *GA*: "strong computational and memory footprint". This is the footprint of the encoder; the loss itself, with its
#   $2N \times 2N$ matrix, needs a small fraction of the encoder's memory for 96 pairs (16.GA-memory); the matrix of 4,096
#   pairs takes 268 MB.
#
# **Remarks.** *GA*: SimCLR "requires the use of large mini-batches, so that enough negatives are used". Chen et al. measure
# this on ImageNet. On our digits, 32 pairs already give a better probe than the pixels do (16.GA); section 9 shows what 96
# pairs add at an equal number of updates. *GA* calls BYOL "a convincing alternative". Here its probe is better than that of the
# pixels after 1,000 steps (16.s) and close to SimCLR's after 3,000 (16.long): it needs more steps.
#
# **What this lecture does not show.** Digits are easy and grey: with augmentation, a supervised network is about as accurate
# as SimCLR's probe from forty labels on (0.82 and 0.83). On photographs the gap is wider and colour distortion matters: section
# 2 shows why, on two photographs, but no network is trained on colour images here. How BYOL avoids collapse is not fully understood; in our runs the projections
# collapsed without the stop-gradient, and nearly collapsed without the predictor (16.q, 16.p).
#
# **Papers.** Chen, Kornblith, Norouzi, Hinton 2020, *SimCLR*, eq. 1, algorithm 1 (https://arxiv.org/abs/2002.05709) · Grill et
# al. 2020, *BYOL*, eq. 2 and section 3.1 (https://arxiv.org/abs/2006.07733) · Jing, Vincent, LeCun, Tian 2022, *Understanding
# Dimensional Collapse*, section 3 (https://arxiv.org/abs/2110.09348) · van der Maaten and Hinton 2008, *Visualizing Data using
# t-SNE* (https://www.jmlr.org/papers/v9/vandermaaten08a.html).
#
# [docs/headlines.md](../docs/headlines.md) compares the results of these papers with ours.
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | GA | Self-supervised learning: SimCLR | 3 The contrastive loss NT-Xent | `course_lib.losses.nt_xent`, `course_lib.models.SimCLR`, `course_lib.datasets.Augmentation` |
# | GA | Self-supervised learning: BYOL | 8 BYOL: no negatives | `course_lib.losses.byol_loss`, `course_lib.models.BYOL`, `course_lib.models.ema_update` |


# %%
from course_tools.notebook import peak_memory


def peak(call):
    """The peak memory of a forward and backward pass, in bytes."""
    return peak_memory(lambda: call().backward())


def numbered_as_in_the_deck(a, b, temperature):
    """NT-Xent of stacked views where rows 2k - 1 and 2k are taken as pairs."""
    z = unit(torch.cat([a, b]))
    similarity = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(similarity, torch.arange(len(z)) ^ 1)


generator = torch.Generator().manual_seed(SEEDS[0])
encoder, batch = backbone(), images[:192].cpu()
z = torch.randn(2, 96, 64, generator=generator, requires_grad=True)
memory_of_the_loss = peak(lambda: nt_xent(*z, 0.2).float()) / peak(
    lambda: encoder(batch).square().mean()
)
same = torch.randn(96, 64, generator=generator)
by_the_deck = numbered_as_in_the_deck(same, same, 0.2).item()

# %% tags=["nbval-check-output"]
claim(
    "16.GA-memory",
    "the loss of 96 pairs needs little of the memory of a small encoder: ratio of the "
    "peaks",
    memory_of_the_loss,
    at_most=0.25,
)
ratio = by_the_deck / math.log(191)
claim(
    "16.GA-order",
    "stacked identical views, paired by the deck's numbers, have about the loss of a "
    "uniform guess or more: ratio",
    ratio,
    at_least=0.9,
)

# %% tags=["ledger"]
from course_tools.notebook import ledger

ledger()
