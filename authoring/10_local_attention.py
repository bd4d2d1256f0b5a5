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
# # 10 · Local attention against convolution
#
# Local attention replaces a convolution: each pixel attends to the pixels in a window around it, with relative positions.
#
# ![](diagram:local_window)
#
# You will write the windows, the mask, the relative positions and the attention itself, count its parameters and multiply-adds,
# and compare it in training with convolutions of the same width. At the end you build and train a whole network of local
# attention.
#
# **Prerequisites:** lecture 04 (scaled dot-product attention) and convolutions. **Time:** {minutes}. {measured}

# %%
from course_tools.notebook import claim, predict

# %% [markdown]
# ## 1 Global attention has too many weights
#
# In lecture 09 each pixel attended to every other. After the question, a cell counts the attention weights for a feature map of
# 56 × 56 pixels, the size of an early map of a ResNet: first for global attention, then for windows of 7 × 7 pixels.

# %% [markdown] tags=["predict"]
# **Predict.** A convolution has a window too. We replace a convolution by local attention with the same window, 3 × 3, and the
# same width, 32. What happens to the number of parameters?
#
# <details><summary>A. It grows: queries, keys and values need a matrix each.</summary>
#
# Attention needs three matrices, but a convolution has one for *each position* of its window: nine.</details>
# <details><summary>B. It falls to about a third.</summary>
#
# Yes: three matrices instead of nine, and a few vectors for the relative positions (section 6 counts them: 10.t). Larger
# windows add hardly any parameters (10.u).</details>
# <details><summary>C. It stays the same: the window is the same.</summary>
#
# The window is the same, but attention *computes* its weights from the image, whereas a convolution stores them.</details>

# %% tags=["nbval-check-output"]
n_pixels = 56 * 56
print(
    f"global attention: {n_pixels**2:,} weights a head; in windows of 7 × 7: "
    f"{n_pixels * 49:,}"
)
claim("10.a", ratio=n_pixels / 49)

# %% [markdown]
# ## 2 Windows
#
# A **window** 𝒩(i, j) contains the size × size positions around pixel (i, j); size is odd, so that the window has a centre. The
# positions are numbered row by row: index = a · size + b, where a and b count rows and columns within the window. At the border
# a window extends beyond the image; for now, it contains zeros there.
#
# With a *stride*, only every stride-th pixel has a window, starting at (0, 0), so $H_q = \lceil H / \mathrm{stride} \rceil$,
# and $W_q$ likewise. (The paper downsamples by average pooling after the attention instead, section 3.1.)
#
# | name | shape |
# | --- | --- |
# | x | (…, H, W, d): features last |
# | windows | (…, H_q, W_q, size², d); the centre has index size² // 2 |

# %%
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from course_lib.primitives.windows import require_window
from course_tools.notebook import check

# %% exercise="10.1" difficulty="●●○" minutes=12
from course_lib.primitives import local_windows

# %% tags=["nbval-check-output"]
local_windows = check("10.1", local_windows)

# %% [markdown]
# With windows, a convolution takes one line of code: the flattened windows times a matrix. The deck, like the paper, writes
# $y_{ij} = \sum_{a,b} W_{i-a,\,j-b}\, x_{ab}$, the mathematical convolution with a flipped kernel. `F.conv2d` computes the
# cross-correlation, without the flip.

# %% tags=["nbval-check-output"]
from course_lib.datasets import photographs

SEEDS = (0, 1, 2)
photo = photographs((27, 40))[0].permute(1, 2, 0)
kernel = torch.randn(5, 3, 3, 3, generator=torch.Generator().manual_seed(SEEDS[0]))
by_torch = F.conv2d(photo.permute(2, 0, 1), kernel, padding=1).permute(1, 2, 0)
windows = rearrange(local_windows(photo, 3), "H W position d -> H W (position d)")
straight = windows @ rearrange(kernel, "d_out d a b -> (a b d) d_out")
flipped = windows @ rearrange(kernel.flip(-2, -1), "d_out d a b -> (a b d) d_out")
claim("10.b", gap=(straight - by_torch).abs().max())
print(
    "with the kernel flipped they differ by "
    f"{(flipped - by_torch).abs().max().item():.1f}"
)

# %% [markdown]
# ## 3 Masking beyond the border
#
# For a convolution, zeros outside the image are harmless: they add nothing. For attention they are *keys* like all others,
# and the softmax gives them some of the weight. A mask must therefore exclude them.
#
# | name | shape |
# | --- | --- |
# | mask | bool, (H_q, W_q, size²): True = inside the image, may be attended to |

# %%
from jaxtyping import Bool

# %% exercise="10.2" difficulty="●●○" minutes=8
from course_lib.primitives import window_mask

# %% tags=["nbval-check-output"]
window_mask = check("10.2", window_mask)

# %% tags=["nbval-check-output"]
inside = window_mask(5, 7, 3)
claim("10.c", values=tuple(int(inside[at].sum()) for at in ((0, 0), (0, 3), (2, 3))))

# %% [markdown]
# ## 4 Relative positions
#
# Attention over a window treats the neighbours as a *set*: it cannot distinguish left from right. Therefore each offset has a
# learned vector $r$, and the dot product of $r$ with the query is added to the score. One half of $r$ encodes the row offset,
# the other the column offset:
#
# $$r_{a-i,\,b-j} = [\,\mathrm{row}_{a-i}\,;\,\mathrm{column}_{b-j}\,] \qquad
# q^\top r = q_{[:d_{row}]}^\top\, \mathrm{row}_{a-i} + q_{[d_{row}:]}^\top\, \mathrm{column}_{b-j}$$
#
# so 2 · size dot products per query suffice for size² positions. Here, as in the paper, $(a, b)$ is the neighbour's position in
# the *image*. In code, a and b count from 0 within the window, as in section 2: 0 is its top row or leftmost column.
#
# | name | shape |
# | --- | --- |
# | q | (…, H, W, d_row + d_column) |
# | rows, columns | (size, d_row), (size, d_column), or with an axis of heads in front |
# | relative logits | (…, H, W, size²), row by row |

# %%
from course_lib.attention.local import ColumnEmbeddings, LocalQueries, RowEmbeddings

# %% exercise="10.3" difficulty="●●○" minutes=12
from course_lib.attention import relative_logits

# %% tags=["nbval-check-output"]
relative_logits = check("10.3", relative_logits)

# %% [markdown]
# ## 5 Local attention
#
# Local attention combines these parts: it scores by content and relative position, masks positions outside the image, and
# applies a softmax and a weighted sum:
#
# $$y_{ij} = \sum_{a,b \in \mathcal N(i,j)} \operatorname{softmax}_{ab}\big(q_{ij}^\top k_{ab} + q_{ij}^\top r_{a-i,\,b-j}\big)\, v_{ab}$$
#
# The paper uses no factor $1/\sqrt d$. **Bug hunt.** Suppose that this implementation has been in use for weeks, and that the
# borders of the feature maps are slightly darker than expected. Decide what is wrong *before* you run the check.

# %%
from course_lib.attention import Attended, attend
from course_lib.attention.local import LocalKeys, LocalValues, window_side

# %% exercise="10.4" bug="looks_outside"
from course_tools.bank.lecture_10.local_attention import looks_outside as suspect

# %% tags=["nbval-check-output"]
unmasked = suspect
suspect = check("10.4", suspect)

# %% [markdown]
# | name | shape |
# | --- | --- |
# | q | (…, H_q, W_q, d_k): already only for every stride-th pixel |
# | k, v | (…, H, W, d_k), (…, H, W, d_v): for all pixels |
# | context, weights | (…, H_q, W_q, d_v), (…, H_q, W_q, size²) |

# %% exercise="10.4" difficulty="●●●" minutes=15
from course_lib.attention import local_attention

# %% tags=["nbval-check-output"]
local_attention = check("10.4", local_attention)

# %% [markdown] tags=["predict"]
# **Ablation: no mask.** All scores are equal, every pixel has the value 1, and the windows are 3 × 3. What is the output at a
# corner without the mask?
#
# <details><summary>A. 1: a mean of ones is 1.</summary>
#
# With the mask, the output is 1. Without it, five of the nine values in the mean are zeros.</details>
# <details><summary>B. 4/9.</summary>
#
# Yes. This darkens the border in every layer and reveals to the network where the image ends.</details>
# <details><summary>C. 0: the corner sees only padding.</summary>
#
# Its window contains the corner itself and three neighbours.</details>

# %% tags=["nbval-check-output"]
ones, no_offsets = torch.ones(5, 7, 4), torch.zeros(3, 2)
without, masked = (
    form(torch.zeros(5, 7, 4), ones, ones, no_offsets, no_offsets)[0][0, 0, 0].item()
    for form in (unmasked, local_attention)
)
claim("10.d", without=without)
claim("10.e", masked=masked)

# %% [markdown]
# Two identities hold. With all offset vectors equal to 0, local attention in a window that covers the whole image is global
# attention, and its output is invariant to permutations of the neighbours: below, we *shuffle* the keys and values of a 5 × 7
# image, with windows that cover all of its pixels.

# %% [markdown] tags=["predict"]
# **Predict.** We shuffle the keys and values in the same way, but use random offset vectors. Does the context change?
#
# <details><summary>A. No: the keys and values are the same.</summary>
#
# They are the same, but at other positions, and each relative position adds its own logit.</details>
# <details><summary>B. Yes.</summary>
#
# Right: the weight of a key now depends on its relative position.</details>

# %% tags=["nbval-check-output"]
generator = torch.Generator().manual_seed(SEEDS[0])
q, k, v = (torch.randn(5, 7, 8, generator=generator) for _ in range(3))
rows, columns, nothing = (
    torch.randn(13, 4, generator=generator),
    torch.randn(13, 4, generator=generator),
    torch.zeros(13, 4),
)
flat_q, flat_k, flat_v = (x.flatten(0, 1) for x in (q, k, v))
everywhere = attend(flat_q @ flat_k.mT, flat_v).context.unflatten(0, (5, 7))
order = torch.randperm(35, generator=generator)
shuffled_k, shuffled_v = (x.flatten(0, 1)[order].unflatten(0, (5, 7)) for x in (k, v))


def moved(rows, columns):
    """How much the context changes when keys and values are shuffled."""
    return (
        (
            local_attention(q, shuffled_k, shuffled_v, rows, columns)[0]
            - local_attention(q, k, v, rows, columns)[0]
        )
        .abs()
        .max()
    )


content_only = local_attention(q, k, v, nothing, nothing)[0]
claim("10.f", gap=(content_only - everywhere).abs().max())
claim("10.g", moved=moved(nothing, nothing))
claim("10.h", moved=moved(rows, columns))

# %% [markdown]
# The tensor of windows stores each key size² times. The library has two faster forms with the same signature: one works offset
# by offset on shifted views, the other tile by tile. The next cell compares both with the function of exercise 10.4, and with
# the equation assembled from the functions of exercises 10.1 to 10.3.

# %% tags=["nbval-check-output"]
from course_lib.fast import sliced_local_attention, tiled_local_attention

rows, columns = rows[:5], columns[:5]
by_content = (local_windows(k, 5) * q[..., None, :]).sum(-1)
scores = (by_content + relative_logits(q, rows, columns))[..., None, :]
mask = window_mask(5, 7, 5)[..., None, :]
assembled = attend(scores, local_windows(v, 5), mask).context.squeeze(-2)
fast = [
    form(q, k, v, rows, columns).context
    for form in (sliced_local_attention, tiled_local_attention)
]
by_equation = local_attention(q, k, v, rows, columns)[0]
largest = max((other - by_equation).abs().max().item() for other in (assembled, *fast))
claim("10.i", largest=largest)

# %% [markdown]
# ## 6 Parameters and multiply-adds
#
# Count **parameters** and **multiply-adds** of one layer with $n = H_q W_q$ queries, all heads together:
#
# | Part | parameters | multiply-adds of one image |
# | --- | --- | --- |
# | convolution | $\mathrm{size}^2 d_{in} d_{out}$ | $n\,\mathrm{size}^2 d_{in} d_{out}$ |
# | W_q, W_k, W_v | $3\, d_{in} d_{out}$ | queries at $n$ pixels, keys and values at all |
# | rows, columns | size vectors of $d_{out}/2$ each | a dot product of each query with each vector |
# | scores and weighted sum | none | two products, of size² · d_out each, for each query |

# %%
from course_lib.attention import LocalAttention
from course_lib.metrics import OperationCount, convolution_cost, count_operations

# %% exercise="10.5" difficulty="●●○" minutes=10
from course_lib.metrics import local_attention_cost

# %% tags=["nbval-check-output"]
local_attention_cost = check("10.5", local_attention_cost)

# %% tags=["nbval-check-output"]
layer, batch = LocalAttention(6, 8, 2, 5), torch.randn(1, 6, 9, 11)
counted = count_operations(layer, lambda: layer(batch))
claim("10.j", same=list(counted) == list(local_attention_cost(6, 8, 5, 9, 11)))


def cheaper_from(size):
    """The least width at which attention in windows of size × size takes fewer
    multiply-adds than a convolution of 3 × 3."""
    return next(
        d
        for d in range(2, 200)
        if local_attention_cost(d, d, size, 56, 56)[1]
        < convolution_cost(d, d, 3, 56, 56)[1]
    )


of_3, of_7 = (local_attention_cost(64, 64, size, 56, 56).parameters for size in (3, 7))
claim("10.k", limit=cheaper_from(3))
claim("10.l", limit=cheaper_from(7))
claim("10.t", ratio=of_3 / convolution_cost(64, 64, 3, 56, 56).parameters)
claim("10.u", ratio=of_7 / of_3)

# %% [markdown] tags=["interactive"]
# **Explore.** Change the width and the stride. For which window sizes is the convolution cheaper?

# %% tags=["interactive"]
from course_tools.notebook import explore
from course_tools.lectures.lecture_10.figures import show_costs


def draw_costs(width=32, stride=1):
    """Draw the multiply-adds of both layers over the side of the window."""
    costs = {"convolution": convolution_cost, "local attention": local_attention_cost}
    show_costs(costs, width, stride)


explore(draw_costs, width=(4, 128, 4), stride=(1, 3))

# %% [markdown] tags=["predict"]
# ## 7 Training: local attention against convolution
#
# The data are digits, downsampled to 7 × 7 pixels by averaging. A stem computes features of *each pixel separately*, so all
# information about shape must come from two residual layers with 3 × 3 windows. These are convolutions, local attention with
# `local_attention` and four heads, or the same attention without relative positions. All networks have 16 features per
# pixel, and are trained on the same batches at the same learning rate, with three seeds; at first for a few steps only.
#
# **Predict.** One network uses convolutions, one local attention, one local attention without relative positions. Which has the
# highest accuracy after a short training run, at equal width?
#
# <details><summary>A. Local attention, as in the deck's figure.</summary>
#
# That figure is for ImageNet, a ResNet-50 and long training. It does not show what happens after a few steps.</details>
# <details><summary>B. The convolution; attention without positions comes last.</summary>
#
# Yes. A possible reason, not tested here: a convolution can *subtract* neighbours from the first step on, whereas attention
# weights are positive and sum to 1, and attention must first learn where to attend.</details>
# <details><summary>C. Both forms of attention are equal: only the content matters.</summary>
#
# With content alone, the accuracy is well above chance, but lower than with relative positions (10.p).</details>

# %%
from statistics import mean

from torch import nn

from course_lib.training import batches
from course_tools.notebook import at_scale, device, digit_split
from course_tools.notebook.fitting import accuracy_of, classify, fitted, show_losses
from course_tools.notebook.seed_scores import paired_differences, show_seeds

WIDTH, STEPS = at_scale(cpu=16, gpu=64), at_scale(cpu=240, gpu=2_000)
KINDS = ("convolution", "local attention", "without positions")
images, labels, learn, unseen = digit_split(SEEDS)
images = F.avg_pool2d(images, at_scale(cpu=4, gpu=2))
SIDE = images.shape[-1]


class Mixing(nn.Module):
    """A residual step: x + ReLU(norm(layer(x)))."""

    def __init__(self, layer, width):
        super().__init__()
        self.layer, self.norm = layer, nn.BatchNorm2d(width)

    def forward(self, x):
        mixed = self.layer(x)
        return x + self.norm(getattr(mixed, "context", mixed)).relu()


def attending(*inputs):
    """The checked `local_attention`, its two results under their names."""
    return Attended(*local_attention(*inputs))


def mixing_layer(kind, width):
    """A layer over windows of 3 × 3: offset vectors start twice as large as the
    library's, or are 0 and stay so."""
    if kind == "convolution":
        return nn.Conv2d(width, width, 3, padding=1, bias=False)
    layer = LocalAttention(width, width, 4, 3, mechanism=attending)
    for offsets in (layer.rows, layer.columns):
        offsets.data.mul_(2.0 if kind == "local attention" else 0.0)
        offsets.requires_grad_(kind == "local attention")
    return layer


def network(kind, width=WIDTH):
    """Features of each pixel separately, two layers over windows, global max pooling,
    ten logits."""
    return nn.Sequential(
        nn.Conv2d(1, width, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        *(Mixing(mixing_layer(kind, width), width) for _ in range(2)),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(width, 10),
    ).to(device())


def fit(kind, seed):
    """Train one network on batches of 32 digits."""
    torch.manual_seed(seed)
    known = images[learn[seed]], labels[learn[seed]]
    stream = batches(*known, batch_size=32, seed=seed)
    label = f"{kind}, seed {seed}"
    return fitted(network(kind), stream, classify, steps=STEPS, lr=1e-2, label=label)


# %%
models = {kind: [fit(kind, seed) for seed in SEEDS] for kind in KINDS}
show_losses(models)
accuracies = {
    kind: [
        accuracy_of(model, images[unseen[seed]], labels[unseen[seed]])
        for seed, model in zip(SEEDS, models[kind], strict=True)
    ]
    for kind in KINDS
}
show_seeds(
    accuracies,
    "accuracy on unseen digits",
    f"width {WIDTH}, {STEPS} steps",
    {"chance": 0.1},
)

# %% tags=["nbval-check-output"]
by_convolution, by_attention, by_content = accuracies.values()
claim("10.o", least=min(by_attention))
claim("10.p", difference=mean(by_attention) - mean(by_content))


def cost(kind, width):
    """Trained parameters of stem, two layers and head, and multiply-adds for one
    digit."""
    of_layer = convolution_cost if kind == KINDS[0] else local_attention_cost
    parameters = sum(p.numel() for p in network(kind, width).parameters())
    layers = 2 * of_layer(width, width, 3, SIDE, SIDE)[1]
    return OperationCount(parameters, layers + SIDE * SIDE * width + 10 * width)


fewer, less = (
    ours / theirs
    for ours, theirs in zip(cost(KINDS[1], 32), cost(KINDS[0], 32), strict=True)
)
claim("10.m", fewer=fewer)
claim("10.n", less=less)

# %% [markdown] tags=["predict"]
# After this short training run, the convolution is more accurate. There are three objections: the training is short; all
# networks have the same learning rate; and the images are tiny. The study `10_larger_pictures` takes them up.
# Its digits have 14 × 14 pixels; the first of the two layers has a stride of 2. Each network is trained for 2,000 updates with
# 64 digits each, which is 37 epochs, with three seeds and widths up to 32. Its learning rate is the best of four on held-out
# digits (the optimiser's rate is the one printed below, divided by the square root of the width). Each network is also trained
# for half as many updates: the difference in accuracy shows which network is still improving.
#
# **Predict.** What happens to the lead of the convolution with longer training?
#
# <details><summary>A. It stays the same: the convolution is the better layer.</summary>
#
# Compare the curves at update 200 and at the last one.</details>
# <details><summary>B. It shrinks: local attention learns more slowly and gains more.</summary>
#
# Yes, after it has grown at first (at width 16, in the mean, until update 700). 10.v and 10.w compare update 200 with update
# 2,000. But it does not vanish (10.lead). A short training run shows mainly which network learns *faster*.</details>
# <details><summary>C. It grows: the convolution gains more from training.</summary>
#
# Only at first. Then the convolution is close to its final accuracy, and local attention catches up.</details>

# %%
from course_tools.notebook import show_study
from course_tools.notebook.study_scores import print_scores

study = show_study("10_larger_pictures")
scores = ("accuracy", "accuracy, half as long", "rate")
print_scores(study, *scores, costs=["parameters", "multiply-adds"], decimals=3)

# %% tags=["nbval-check-output"]
long_convolution, long_attention = (
    [run.curve for run in study.of(f"{kind}, width 16")] for kind in KINDS[:2]
)
lead = {
    update: [
        theirs[update] - ours[update]
        for ours, theirs in zip(long_attention, long_convolution, strict=True)
    ]
    for update in (200, 2_000)
}
claim("10.v", least=min(curve[2_000] - curve[200] for curve in long_attention))
least = min(early - late for early, late in zip(lead[200], lead[2_000], strict=True))
claim("10.w", least=least)


def lead_at(width, of_convolution):
    """By how much a convolution leads local attention of this width, for each seed."""
    ours = study.scores(f"local attention, width {width}", "accuracy")
    theirs = study.scores(f"convolution, width {of_convolution}", "accuracy")
    return paired_differences(theirs, ours)


def gained(width):
    """What twice as many updates add to the accuracy of local attention, mean."""
    name = f"local attention, width {width}"
    return study.mean(name, "accuracy") - study.mean(name, "accuracy, half as long")


claim("10.lead", least=min(*lead_at(16, 16), *lead_at(32, 32)))
least = min(mean(lead_at(width, width)) - gained(width) for width in (16, 32))
claim("10.converged", least=least)
claim("10.narrow", least=min(mean(lead_at(width, width // 2)) for width in (16, 32)))
mixed = study.mean("convolution, then local attention, width 16", "accuracy")
for kind in KINDS[:2]:
    over = mixed - study.mean(f"{kind}, width 16", "accuracy")
    print(f"convolution, then local attention, less {kind}, width 16: {over:+.3f}")

# %% [markdown]
# Part of the convolution's early lead came from faster learning: it shrinks with more updates (10.w). This does not explain the
# rest: at both widths the convolution stays ahead with every seed (10.lead). In two of the six runs of local attention, the
# best of the four rates is the highest (printed above), but no rate brings it near the convolution. Local attention still
# improves, but the lead is larger than what another doubling of the updates would add if it added as much as the last one
# (10.converged). At equal width, local attention has fewer parameters and takes fewer multiply-adds. But here the same savings
# are available without attention: a convolution of *half the width* has fewer of both, and is more accurate (10.narrow).
#
# The paper reports that local attention *improves* on convolutions on ImageNet, with fewer parameters and FLOPs. Our small
# images can neither confirm nor contradict that: with one grey value per pixel, the queries carry little information in the
# first layer. The paper, too, finds attention weaker than a convolution in the stem (section 3.2). The last lines printed above
# show what our network gains if only its first layer is a convolution, and what it still lacks.

# %% [markdown] tags=["predict"]
# **Predict.** A digit is rotated by 180° or mirrored. By how much do the ten logits of the network without relative positions
# change?
#
# <details><summary>A. A lot: it was never trained on such digits.</summary>
#
# For this network, the images contain the same sets of neighbours.</details>
# <details><summary>B. By rounding errors only.</summary>
#
# Yes. A rotated or mirrored window contains the same set of neighbours, and global max pooling discards the position.</details>

# %% tags=["nbval-check-output"]
with torch.no_grad():
    apart = {}
    for kind in KINDS:
        model, digits = models[kind][0], images[::10]
        upright, half_turned, mirrored = (
            model(x) for x in (digits, digits.flip(-2, -1), digits.flip(-1))
        )
        apart[kind] = max(
            (other - upright).abs().max().item() for other in (half_turned, mirrored)
        )
claim("10.q", apart=apart[KINDS[2]])
claim("10.r", apart=apart[KINDS[1]])

# %% [markdown]
# ## 8 The attention weights of each head
#
# The figure shows the mean weights of each head in the first layer, averaged over those ink pixels of a hundred digits whose
# window lies inside the image (your `window_mask`). The centre of each map is the query pixel. The weights depend on relative
# position *and* content; each head prefers certain positions.

# %%
from course_tools.lectures.lecture_10.figures import show_head_means, show_window

with torch.no_grad():
    model = models[KINDS[1]][0]
    some = images[::50]
    weights = model[3].layer(model[:3](some)).weights.cpu()
inside = (some[:, 0].cpu() > 0.3) & window_mask(SIDE, SIDE, 3).all(-1)
show_head_means(weights, inside)

# %% [markdown] tags=["try-it"]
# **Try it.** Choose a head and a pixel of a digit, and see what the pixel attends to.

# %% tags=["interactive"]


def draw_window(row=3, column=3, head=1):
    """Show a digit, and the weights of one of its pixels in one head."""
    show_window(some[40], weights[40, head - 1], row, column)


explore(draw_window, row=(0, 6), column=(0, 6), head=(1, 4))

# %% [markdown]
# ## 9 Build it: a network of local attention
#
# **Build task (35 minutes, 12 points).** Starting from an empty cell, write a classifier whose *only spatial operation is local
# attention*, and the loop that trains it. Every attention layer attends to windows of 3 × 3 pixels with relative positions.
# Everything else (stem, norms, MLPs) acts on each pixel separately, except for a mean or maximum over all pixels at the end.
# Several heads help: one head computes a single weighted mean of each window, whereas the difference of two heads can detect an
# edge. Define the classes that you need above `train_local_attention`, in the same cell. You may use torch's layers and your
# own functions from above, but not the library's `LocalAttention`.
#
# The model is called in two ways:
#
# | call | returns |
# | --- | --- |
# | `model(images)` | logits (B, n_classes) for images (B, 1, 8, 8) |
# | `model(images, True)` | the context of the *first* attention layer, (B, d, 8, 8): the weighted sum of the values, without residual connection, norm or activation after it |
#
# The check calls `train_local_attention(images, labels, n_classes, n_steps)` once, with 1,297 of scikit-learn's handwritten
# digits (8 × 8 pixels, sorted by their labels) and `n_steps=400`. It evaluates the model on the other 500 digits. It also
# replaces pixels, exchanges neighbours, moves images and asks for the context, so it can tell your layer from a convolution
# or from global attention without reading your code. The function has at most 60 seconds of processor time; a good solution
# needs about ten seconds.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model returns logits and context of the shapes above |
# | 1 | at most `n_steps` updates and at most 50,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the loss falls during training (waived if the model has learned anyway) |
# | 1 | the returned model gives the same results for the same image |
# | 1 | the logits of one image do not depend on the other images of the batch |
# | 1 | *local*: the context depends on the pixels of the window around it, and on no others |
# | 1 | *weights*: in an image of a single grey value the context is the same at every pixel: the weights inside the image sum to 1, and relative positions are added to the scores, not to the values |
# | 1 | *content*: what a neighbour adds to the context depends on the content of the other neighbours |
# | 1 | *positions*: reordering the neighbours changes the context; shifting the whole image only shifts it |
# | 1 | loss on held-out digits: at least 1 nat below the 2.3 nats of predicting from class frequencies alone |
# | 1 | accuracy on held-out digits: at least 0.8 |

# %% exercise="10.6" difficulty="●●●" minutes=35
from course_tools.bank.lecture_10.train_local_attention import train_local_attention

# %% tags=["nbval-check-output"]
train_local_attention = check("10.6", train_local_attention)

# %% [markdown]
# The next cell trains the model once more and draws its loss. Then it replaces one pixel of a digit and shows how much the
# context of each pixel changes, in the first layer of the model and in a convolution with the same window. At which pixels do
# you expect a change? Why might the changes within the window differ in size?

# %%
from course_lib.datasets import digits as handwritten_digits
from course_tools.notebook.training_curve import trained_with_losses
from course_tools.notebook.authorship import whose
from course_tools.lectures.lecture_10.figures import show_changes

small, kinds = handwritten_digits()
order = kinds.argsort(stable=True)
torch.manual_seed(SEEDS[0])
owner = whose(train_local_attention)
built = trained_with_losses(
    lambda: train_local_attention(small[order, None], kinds[order], 10, 400),
    f"{owner} model",
)
digit, convolved = small[:1, None], nn.Conv2d(1, 16, 3, padding=1)
changed = digit.clone()
changed[..., 3, 4] = 1 - changed[..., 3, 4]
with torch.no_grad():
    changes = {
        f"{owner} first layer": built(changed, True) - built(digit, True),
        "a convolution": convolved(changed) - convolved(digit),
    }
norms = {name: change[0].norm(dim=0) for name, change in changes.items()}
show_changes(digit[0], (3, 4), norms)

# %% [markdown]
# In both layers, the outputs of nine pixels change. The convolution multiplies the change by the same weights in every image.
# In attention, the replaced pixel provides a key and a value for its neighbours, and its own query changes too. How much a
# neighbour's context changes therefore depends on the other pixels in that neighbour's window.

# %% [markdown] tags=["quiz"]
# ## 10 Exit quiz
#
# **Question 1.** You widen the window from 3 to 7. What happens to the parameters of a layer with 64 features in and out?
#
# <details><summary>A. Those of convolution and attention both grow by a factor of 49 / 9.</summary>
#
# The parameters of the convolution do. Attention needs only four more row vectors and four more column vectors.</details>
# <details><summary>B. Those of the convolution grow by a factor of 49 / 9, those of attention by about two percent.</summary>
#
# Right: attention gets 4 · 64 more parameters, in addition to 3 · 64² + 3 · 64.</details>
# <details><summary>C. Neither grows.</summary>
#
# A convolution has a matrix for each position of the window.</details>
#
# **Question 2.** Why are keys outside the image masked, while zero padding is fine for a convolution?
#
# <details><summary>A. A zero key still receives a positive weight from the softmax.</summary>
#
# Right. That weight is missing from the positions inside the image.</details>
# <details><summary>B. Zeros would make the softmax divide by 0.</summary>
#
# They would not: they only make the denominator larger.</details>
# <details><summary>C. Masking is only faster.</summary>
#
# The mask changes the result (10.d).</details>
#
# **Question 3.** In the network of section 7 without relative positions, all offset vectors are 0. Which images can it
# distinguish?
#
# <details><summary>A. A 6 and the same 6 upside down.</summary>
#
# No (10.q). All windows contain the same sets of neighbours, and max pooling discards the position.</details>
# <details><summary>B. A thick stroke and a thin one.</summary>
#
# Right: their windows contain different values.</details>
# <details><summary>C. A stroke to the left and one to the right of a pixel.</summary>
#
# That is exactly what this network cannot distinguish.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague wants to replace all convolutions of a network by local attention, "to save
# parameters and get better". What do you answer? Use two measurements from this lecture.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says what is saved, and that it depends on width and window |
# | 1 | says by how much the accuracies differed here, on which data and after how many steps |
# | 1 | says why the first layer is the hardest for attention |
# | 1 | asks for a control: relative positions, equal numbers of parameters instead of equal width, or longer training |
# | 1 | is clear and short |
#
# </details>

# %% [markdown] tags=["companion"]
# ## 11 Summary and sources
#
# **Remarks on the deck.** *EE* writes local attention first as $\mathrm{softmax}((W_Q x_{ij})^\top (W_K x_{ab}))\, v_{ab}$, the
# paper's eq. 2 without relative positions; section 7 shows what that form cannot distinguish. The kernel $W_{i-a,\,j-b}$ of the
# deck is the paper's eq. 1; for learned kernels the flip makes no difference. *EE* quotes "fewer parameters and FLOPS while
# improving upon the accuracy", a result on ImageNet. The first half of this holds here too (10.m, 10.n); digits of 14 × 14
# pixels are no test of the second.
#
# **What this lecture does not show.** The comparisons use digits of 7 × 7 or 14 × 14 pixels, networks of at most 32 features
# per pixel, and windows of 3 × 3 pixels; the paper attends to windows of 7 × 7. The live runs have one learning rate for all
# networks; the recorded study tried four for each network and seed (section 7). Fewer multiply-adds do not mean less time:
# convolutions have highly optimised kernels.
#
# **Paper.** Ramachandran, Parmar, Vaswani, Bello, Levskaya, Shlens 2019, *Stand-Alone Self-Attention in Vision Models*, eqs.
# 1-3, sections 2, 3.1 and 3.2, and figure 5 (https://arxiv.org/abs/1906.05909).
#
# The site compares the numbers of this paper with ours ([docs/evidence.md](../docs/evidence.md)).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Attention in computer vision: local attention | 5 Local attention | `course_lib.attention.local_attention`, `course_lib.attention.LocalAttention`, `course_lib.primitives.local_windows`, `course_lib.metrics.local_attention_cost` |

# %% tags=["ledger"]
from course_tools.notebook import ledger

ledger()
