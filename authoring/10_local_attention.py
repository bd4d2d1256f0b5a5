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
# **The claim.** Attention in a window can stand where a convolution stood, with fewer parameters and less work at the same
# width, and its parameters hardly grow with the window. It needs to know *where* in the window a neighbour stands: without
# relative places the neighbours may be shuffled and nothing changes, an identity, and its accuracy falls. That it also
# *beats* the convolution, as published for ImageNet, does not come out here: on small digits and after a training that is too
# short for both, it trails at every width.
#
# **You need** lecture 04 (scaled dot-product attention) and what a convolution is. **Time:** about 75 minutes. {measured}
#
# **Paper.** Ramachandran, Parmar, Vaswani, Bello, Levskaya, Shlens 2019, *Stand-Alone Self-Attention in Vision Models*, eqs.
# 1-3, section 3.1 and figure 5 (https://arxiv.org/abs/1906.05909).
#
# **Deck.** EE 559 13.2: the table below leads from its section to ours.

# %% [markdown] tags=["companion"]
# <details><summary>Which section of the deck this follows, and where the library holds it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Attention in computer vision: local attention | 5 Local attention | `course_lib.attention.local_attention`, `course_lib.attention.LocalAttention`, `course_lib.primitives.local_windows`, `course_lib.metrics.local_attention_cost` |
#
# </details>

# %%
from statistics import mean

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.attention import Attended, LocalAttention, attend, sliced_local_attention, tiled_local_attention
from course_lib.attention.local import (
    LocalQueries,
    ColumnEmbeddings,
    LocalValues,
    LocalKeys,
    RowEmbeddings,
    require_local_inputs,
)
from course_lib.metrics import OperationCount, convolution_cost, count_operations
from course_lib.datasets import mnist, photographs, split
from course_tools.notebook import check, predict
from course_lib.primitives.windows import require_window
from course_tools.notebook import at_scale, claim, device, explore, ledger, plots, progress, show
from course_lib.training import batches, train

SEEDS = (0,)

# %% [markdown]
# ## 1 Everybody looks at everybody
#
# In lecture 09 each pixel looked at every other. How many weights is that, on a map of 56 × 56 pixels, as a ResNet has it
# after its first layers, and how many if each pixel only looks at the 7 × 7 around it?

# %% [markdown] tags=["predict"]
# **Predict.** A convolution looks at a window too. Window and width stay the same, 3 × 3 and 32; we put local attention in the
# place of each convolution. What happens to the number of parameters?
#
# <details><summary>A. It grows: queries, keys and values need a matrix each.</summary>
#
# Three matrices, yes. A convolution has one for *each place* of its window: nine.</details>
# <details><summary>B. It falls to about a third.</summary>
#
# Yes: three matrices for nine, and a few vectors for the places. And for larger windows it hardly grows.</details>
# <details><summary>C. It stays: the window is the same.</summary>
#
# The window is, but attention *computes* its weights from the picture; a convolution has to store them.</details>

# %% tags=["nbval-check-output"]
n_pixels = 56 * 56
print(f"every pixel at every pixel: {n_pixels**2:,} weights a head; in windows of 7 × 7: {n_pixels * 49:,}")
claim(
    "10.a", "56 × 56 pixels: weights of attention over all of them, over those in windows of 7 × 7", n_pixels / 49, equals=64.0
)

# %% [markdown]
# ## 2 Windows
#
# A **window** 𝒩(i, j) holds the size × size places around pixel (i, j); size is odd, so that there is a middle. They are numbered
# row by row: number = a · size + b. At the border a window leaves the picture; there it holds zeros, for now.
#
# With a *stride*, only every stride-th pixel has a window, the first of them at (0, 0). Where the stride does not divide the
# height there is one more, so $H_q = \lceil H / \mathrm{stride} \rceil$.
#
# | name | shape |
# | --- | --- |
# | x | (…, H, W, d): features last |
# | windows | (…, H_q, W_q, size², d), the middle is number size² // 2 |

# %% exercise="10.1" difficulty="●●○" minutes=12
from course_lib.primitives import local_windows

# %% tags=["nbval-check-output"]
local_windows = check("10.1", local_windows)

# %% [markdown]
# A convolution is one line with it: the windows, laid flat, times a matrix. The deck writes it as
# $y_{ij} = \sum_{a,b} W_{i-a,\,j-b}\, x_{ab}$, which turns the kernel round. Look at what torch does.

# %% tags=["nbval-check-output"]
photo = photographs((27, 40))[0].permute(1, 2, 0)
kernel = torch.randn(5, 3, 3, 3, generator=torch.Generator().manual_seed(SEEDS[0]))
by_torch = F.conv2d(photo.permute(2, 0, 1), kernel, padding=1).permute(1, 2, 0)
windows = rearrange(local_windows(photo, 3), "H W place d -> H W (place d)")
straight = windows @ rearrange(kernel, "d_out d a b -> (a b d) d_out")
turned = windows @ rearrange(kernel.flip(-2, -1), "d_out d a b -> (a b d) d_out")
claim(
    "10.b",
    "your windows times a matrix are torch's convolution of a photograph: largest difference",
    (straight - by_torch).abs().max(),
    at_most=1e-4,
)
claim(
    "10.EE-turned",
    "with the kernel turned round, as the deck writes it, they differ by",
    (turned - by_torch).abs().max(),
    at_least=0.1,
)

# %% [markdown]
# ## 3 Where there is no picture
#
# For a convolution, zeros outside are harmless: they add nothing. For attention they are *keys*, with a score of 0 like any
# other, and take their share of the weight. So a mask must say which places of a window exist.
#
# | name | shape |
# | --- | --- |
# | mask | bool, (H_q, W_q, size²): True = inside, may be looked at |

# %% exercise="10.2" difficulty="●●○" minutes=8
from course_lib.primitives import window_mask

# %% tags=["nbval-check-output"]
window_mask = check("10.2", window_mask)

# %% tags=["nbval-check-output"]
inside = window_mask(5, 7, 3)
claim(
    "10.c",
    "places inside the picture: at a corner, at an edge, in the middle",
    [int(inside[at].sum()) for at in ((0, 0), (0, 3), (2, 3))],
    equals=[4, 6, 9],
)

# %% [markdown]
# ## 4 Where in the window?
#
# Attention over a window sees a *set* of neighbours: it cannot tell left from right. So each offset gets a learned vector $r$,
# and the query is asked how much it likes that place. One half of $r$ says the row, the other the column:
#
# $$r_{a-i,\,b-j} = [\,\mathrm{row}_{a-i}\,;\,\mathrm{column}_{b-j}\,] \qquad
# q^\top r = q_{[:d_{row}]}^\top\, \mathrm{row}_{a-i} + q_{[d_{row}:]}^\top\, \mathrm{column}_{b-j}$$
#
# so 2 · size products serve for size² places. In code the uppermost row of the window has index 0, and the leftmost column.
#
# | name | shape |
# | --- | --- |
# | q | (…, H, W, d_row + d_column) |
# | rows, columns | (size, d_row), (size, d_column), or with an axis of heads in front |
# | relative logits | (…, H, W, size²), row by row |

# %% exercise="10.3" difficulty="●●○" minutes=12
from course_lib.attention import relative_logits

# %% tags=["nbval-check-output"]
relative_logits = check("10.3", relative_logits)

# %% [markdown]
# ## 5 Local attention
#
# Everything is there. Score by content and by place, forbid what lies outside, normalise, mix:
#
# $$y_{ij} = \sum_{a,b \in \mathcal N(i,j)} \operatorname{softmax}_{ab}\big(q_{ij}^\top k_{ab} + q_{ij}^\top r_{a-i,\,b-j}\big)\, v_{ab}$$
#
# There is no $1/\sqrt d$ in this paper. **Bug hunt.** Somebody wrote this and trained with it for weeks; only the borders of
# the maps looked a little pale. Say what is wrong *before* you run the check.

# %% exercise="10.4" bug="looks_outside"
from course_tools.bank.lecture_10.local_attention import looks_outside as suspect

# %% tags=["nbval-check-output"]
pale = suspect
suspect = check("10.4", suspect)

# %% [markdown]
# | name | shape |
# | --- | --- |
# | q | (…, H_q, W_q, d_k): of every stride-th pixel, already |
# | k, v | (…, H, W, d_k), (…, H, W, d_v): of all pixels |
# | context, weights | (…, H_q, W_q, d_v), (…, H_q, W_q, size²) |

# %% exercise="10.4" difficulty="●●●" minutes=15
from course_lib.attention import local_attention

# %% tags=["nbval-check-output"]
local_attention = check("10.4", local_attention)

# %% [markdown] tags=["predict"]
# **Ablate: leave the mask out.** All scores are equal and every pixel of the picture holds the value 1. Windows are 3 × 3. What
# comes out at a corner, without the mask?
#
# <details><summary>A. 1: a mean of ones is 1.</summary>
#
# With the mask it is. Without it, five of the nine places hold zeros.</details>
# <details><summary>B. 4/9.</summary>
#
# Yes. That is the pale border: a network can read off it where the picture ends, and darkens its rim in every layer.</details>
# <details><summary>C. 0: the corner sees only padding.</summary>
#
# It sees itself and three neighbours.</details>

# %% tags=["nbval-check-output"]
ones, no_places = torch.ones(5, 7, 4), torch.zeros(3, 2)
without, masked = (
    form(torch.zeros(5, 7, 4), ones, ones, no_places, no_places)[0][0, 0, 0].item() for form in (pale, local_attention)
)
claim("10.d", "a corner of a picture of ones, without the mask", without, between=(4 / 9 - 1e-4, 4 / 9 + 1e-4))
claim("10.e", "a corner of a picture of ones, with the mask", masked, between=(1 - 1e-4, 1 + 1e-4))

# %% [markdown]
# Two identities. A window that covers the whole picture is attention over all pixels. And with offsets of 0, neighbours may be
# exchanged at will: below, the pixels of a 5 × 7 picture are *shuffled*, and the middle looks at all of them.

# %% [markdown] tags=["predict"]
# **Predict.** The same shuffling, but with offsets that were drawn at random. Does the context of the middle change?
#
# <details><summary>A. No: the same keys and values are there.</summary>
#
# They are, at other places; and each place now adds a logit of its own.</details>
# <details><summary>B. Yes.</summary>
#
# Right: who stands where a query likes to look gets more weight.</details>

# %% tags=["nbval-check-output"]
generator = torch.Generator().manual_seed(SEEDS[0])
q, k, v = (torch.randn(5, 7, 8, generator=generator) for _ in range(3))
rows, columns, nothing = torch.randn(13, 4, generator=generator), torch.randn(13, 4, generator=generator), torch.zeros(13, 4)
flat_q, flat_k, flat_v = (x.flatten(0, 1) for x in (q, k, v))
everywhere = attend(flat_q @ flat_k.mT, flat_v).context.unflatten(0, (5, 7))
order = torch.randperm(35, generator=generator)
shuffled_k, shuffled_v = (x.flatten(0, 1)[order].unflatten(0, (5, 7)) for x in (k, v))


def moved(rows, columns):
    """How much the context changes when the pixels that are looked at are shuffled."""
    return (
        (local_attention(q, shuffled_k, shuffled_v, rows, columns)[0] - local_attention(q, k, v, rows, columns)[0]).abs().max()
    )


blind_context = local_attention(q, k, v, nothing, nothing)[0]
claim(
    "10.f",
    "a window over the whole picture is attention over all pixels: largest difference",
    (blind_context - everywhere).abs().max(),
    at_most=1e-4,
)
claim(
    "10.g",
    "without relative places, shuffling the pixels inside the window changes the context by",
    moved(nothing, nothing),
    at_most=1e-4,
)
claim("10.h", "with relative places, the same shuffling changes it by", moved(rows, columns), at_least=0.1)

# %% [markdown]
# Windows copy each key size² times. The library has two faster forms with the same signature: one works offset by offset on
# shifted views, the other tile by tile. The experiment below uses the first; here both are held to yours.

# %% tags=["nbval-check-output"]
rows, columns = rows[:5], columns[:5]
yours = local_attention(q, k, v, rows, columns)[0]
gaps = [
    (form(q, k, v, rows, columns).context - yours).abs().max().item()
    for form in (sliced_local_attention, tiled_local_attention)
]
claim("10.i", "your local attention and the two fast forms differ by", max(gaps), at_most=1e-4)

# %% [markdown]
# ## 6 What it costs
#
# Count **parameters** and **multiply-adds** of one layer with $n = \lceil H/s \rceil \lceil W/s \rceil$ queries, all heads together:
#
# | | parameters | multiply-adds of one picture |
# | --- | --- | --- |
# | convolution | $\mathrm{size}^2 d_{in} d_{out}$ | $n\,\mathrm{size}^2 d_{in} d_{out}$ |
# | W_q, W_k, W_v | $3\, d_{in} d_{out}$ | queries at $n$ pixels, keys and values at all |
# | rows, columns | size vectors of $d_{out}/2$ each | a product of each query with each of them |
# | in the window | none | two products of size² · d_out for each query |

# %% exercise="10.5" difficulty="●●○" minutes=10
from course_lib.metrics import local_attention_cost

# %% tags=["nbval-check-output"]
local_attention_cost = check("10.5", local_attention_cost)

# %% tags=["nbval-check-output"]
layer, batch = LocalAttention(6, 8, 2, 5), torch.randn(1, 6, 9, 11)
counted = count_operations(layer, lambda: layer(batch))
claim(
    "10.j",
    "your count is torch's own, of parameters and of multiply-adds",
    list(counted) == list(local_attention_cost(6, 8, 5, 9, 11)),
    equals=True,
)


def cheaper_from(size):
    """The least width at which attention in windows of size × size takes fewer multiply-adds than a convolution of 3 × 3."""
    return next(d for d in range(2, 200) if local_attention_cost(d, d, size, 56, 56)[1] < convolution_cost(d, d, 3, 56, 56)[1])


of_3, of_7 = (local_attention_cost(64, 64, size, 56, 56).parameters for size in (3, 7))
claim(
    "10.k", "local attention in 3 × 3 takes less work than a convolution of 3 × 3 from this width on", cheaper_from(3), equals=4
)
claim(
    "10.l",
    "local attention in 7 × 7 takes less work than a convolution of 3 × 3 from this width on",
    cheaper_from(7),
    equals=18,
)
claim(
    "10.t",
    "64 features, windows of 3 × 3: parameters of local attention over those of a convolution",
    of_3 / convolution_cost(64, 64, 3, 56, 56).parameters,
    between=(0.3, 0.4),
)
claim("10.u", "64 features: parameters of local attention in 7 × 7 over those in 3 × 3", of_7 / of_3, at_most=1.05)

# %% [markdown] tags=["interactive"]
# **Explore.** Move width and stride. For which windows is the convolution cheaper?

# %% tags=["interactive"]


def draw_costs(width=32, stride=1):
    """Draw the multiply-adds of both layers over the side of the window."""
    sides = (1, 3, 5, 7, 9, 11)
    lines = {
        "convolution": (sides, [convolution_cost(width, width, size, 28, 28, stride)[1] for size in sides]),
        "local attention": (sides, [local_attention_cost(width, width, size, 28, 28, stride)[1] for size in sides]),
    }
    show(
        plots.curves(
            lines, "side of the window", "multiply-adds", f"{width} features, stride {stride}, 28 × 28 pixels", log="y"
        ),
        alt=f"Multiply-adds of a layer of {width} features over windows of side 1 to 11: convolution {lines['convolution'][1][0]:,} to "
        f"{lines['convolution'][1][-1]:,}, local attention {lines['local attention'][1][0]:,} to {lines['local attention'][1][-1]:,}.",
    )


explore(draw_costs, width=(4, 128, 4), stride=(1, 3))

# %% [markdown] tags=["predict"]
# ## 7 The experiment
#
# Digits, averaged down to 7 × 7 pixels. A stem makes features of *each pixel alone*, so all knowledge of shape must come
# through windows of 3 × 3, in two layers with residuals: convolution, local attention with heads of four features, or the same attention
# without relative places. All three train for the same number of steps at the same rate; wider networks at a lower rate,
# whatever mixes their windows. Training is short, as a lecture must be; more on that below.
#
# **Predict.** Who names most digits rightly at the same width?
#
# <details><summary>A. Local attention: the deck's figure says so.</summary>
#
# That figure is of ImageNet, a ResNet-50 and long training. Here it is not so.</details>
# <details><summary>B. The convolution; attention without places comes last.</summary>
#
# Yes. A convolution may *subtract* neighbours, from the first step on; attention's weights are positive and sum to 1, and it
# must first learn where to look.</details>
# <details><summary>C. Both attentions are alike: content is what counts.</summary>
#
# Content is worth a good deal here, well above a guess. But without relative places right answers fall (10.p).</details>

# %%
WIDTHS = at_scale(cpu=(8, 16, 32), gpu=(16, 32, 64, 128))
STEPS = at_scale(cpu=160, gpu=2_000)
POOL = at_scale(cpu=4, gpu=2)
KINDS = ("convolution", "local attention", "without places")
pictures, labels = mnist()
images, labels = F.avg_pool2d(pictures, POOL).to(device()), labels.to(device())


class Mixing(nn.Module):
    """A residual step: x + ReLU(norm(layer(x)))."""

    def __init__(self, layer, width):
        super().__init__()
        self.layer, self.norm = layer, nn.BatchNorm2d(width)

    def forward(self, x):
        mixed = self.layer(x)
        return x + self.norm(mixed.context if isinstance(mixed, Attended) else mixed).relu()


def mixing_layer(kind, width):
    """What mixes the pixels of a window of 3 × 3: offsets are drawn twice as large as usual, or are 0 and stay so."""
    if kind == "convolution":
        return nn.Conv2d(width, width, 3, padding=1, bias=False)
    layer = LocalAttention(width, width, width // 4, 3, mechanism=sliced_local_attention)
    for offsets in (layer.rows, layer.columns):
        offsets.data.mul_(2.0 if kind == "local attention" else 0.0)
        offsets.requires_grad_(kind == "local attention")
    return layer


def network(kind, width):
    """Features of each pixel alone, two layers that mix windows, the largest value of each feature, ten logits."""
    layers = [Mixing(mixing_layer(kind, width), width) for _ in range(2)]
    head = (nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(width, 10))
    return nn.Sequential(nn.Conv2d(1, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), *layers, *head).to(device())


def digits_loss(model, batch):
    """The cross-entropy of a batch of digits."""
    return F.cross_entropy(model(batch[0]), batch[1])


def fit(kind, width, seed, steps=STEPS):
    """Train one network; give it, and its share of right answers on a thousand unseen digits."""
    part = split(range(len(labels)), 4_000, 0, 1_000, seed)
    learn, unseen = (torch.tensor(indices, device=device()) for indices in (part.train, part.test))
    torch.manual_seed(seed)
    model = network(kind, width)
    stream = batches(images[learn], labels[learn], batch_size=32, seed=seed)
    training = train(model, stream, digits_loss, steps=steps, lr=0.04 * width**-0.5, warmup=20)
    for _ in progress(training, f"{kind}, {width}", total=steps):
        pass
    with torch.no_grad():
        said = model.eval()(images[unseen]).argmax(-1)
    return model, (said == labels[unseen]).float().mean().item()


# %%
fitted = {(kind, width, seed): fit(kind, width, seed) for kind in KINDS for width in WIDTHS for seed in SEEDS}
share = {(kind, width): mean(fitted[kind, width, seed][1] for seed in SEEDS) for kind in KINDS for width in WIDTHS}
SIDE = images.shape[-1]


def cost(kind, width):
    """Parameters that learn, of stem, two layers and head, and multiply-adds of one digit."""
    layer = (
        convolution_cost(width, width, 3, SIDE, SIDE) if kind == KINDS[0] else local_attention_cost(width, width, 3, SIDE, SIDE)
    )
    parameters = sum(p.numel() for p in fitted[kind, width, SEEDS[0]][0].parameters() if p.requires_grad)
    return OperationCount(parameters, 2 * layer[1] + SIDE * SIDE * width + 10 * width)


for axis, unit in enumerate(("parameters", "multiply-adds of one digit")):
    lines = {kind: ([cost(kind, w)[axis] for w in WIDTHS], [share[kind, w] for w in WIDTHS]) for kind in KINDS}
    show(
        plots.curves(lines, unit, "right answers", f"windows of 3 × 3, widths {WIDTHS}", log="x", across={"a guess": 0.1}),
        alt=f"Right answers on unseen digits against {unit}: "
        + "; ".join(
            f"{kind} " + ", ".join(f"{y:.2f} at {x:,}" for x, y in zip(*line, strict=True)) for kind, line in lines.items()
        )
        + ".",
    )

# %% tags=["nbval-check-output"]
of = {kind: mean(share[kind, width] for width in WIDTHS) for kind in KINDS}
widest = WIDTHS[-1]
fewer, less = (cost(KINDS[1], widest)[axis] / cost(KINDS[0], widest)[axis] for axis in (0, 1))
claim(
    "10.m",
    "at the largest width, parameters of the network with local attention over those with convolutions",
    fewer,
    at_most=0.5,
)
claim(
    "10.n",
    "at the largest width, multiply-adds of the network with local attention over those with convolutions",
    less,
    at_most=0.6,
)
claim(
    "10.o",
    "with relative places, local attention names digits: mean over the widths, where a guess gets 0.1",
    of[KINDS[1]],
    at_least=0.3,
)
claim(
    "10.p",
    "without relative places local attention loses right answers: how many, mean over the widths",
    of[KINDS[1]] - of[KINDS[2]],
    at_least=0.02,
)
claim(
    "10.s",
    "local attention at the largest width has more parameters than convolutions at the one below; its lead in right answers",
    share[KINDS[1], widest] - share[KINDS[0], WIDTHS[-2]],
    at_most=at_scale(cpu=-0.05, gpu=0.02),
)
claim(
    "10.EE-better",
    "local attention does not improve on convolutions of the same width here: its lead in right answers, where it is best",
    max(share[KINDS[1], width] - share[KINDS[0], width] for width in WIDTHS),
    at_most=at_scale(cpu=-0.05, gpu=0.02),
)

# %% [markdown]
# Fewer parameters, less work, and fewer right answers, at every width. Compare at equal *parameters* as well, along the first
# figure: there too the convolution's curve lies above (10.s). The likely cause: a mean with positive weights blurs, and where a
# pixel is one grey value, its query has little to ask with. The paper says as much of its stem, where pixels are colours:
# attention as in eq. 3 does worse there than a convolution (section 3.2).

# %% [markdown] tags=["predict"]
# **Predict.** Has training finished? The narrowest networks train once more, three times as long.
#
# <details><summary>A. Yes: both stay where they are.</summary>
#
# Neither does. The next cell prints how far each goes on.</details>
# <details><summary>B. Both gain, and the convolution still leads.</summary>
#
# Yes (10.v, 10.w). Both were stopped early.</details>
# <details><summary>C. Local attention overtakes: it only needed time.</summary>
#
# It gains a good deal, but not that much in this time.</details>

# %%
long = {kind: fit(kind, WIDTHS[0], SEEDS[0], 3 * STEPS)[1] for kind in KINDS[:2]}
print(", ".join(f"{kind}: {fitted[kind, WIDTHS[0], SEEDS[0]][1]:.2f} -> {long[kind]:.2f}" for kind in long))

# %% tags=["nbval-check-output"]
claim(
    "10.v",
    "three times the steps, least width: right answers that local attention gains",
    long[KINDS[1]] - fitted[KINDS[1], WIDTHS[0], SEEDS[0]][1],
    at_least=at_scale(cpu=0.05, gpu=-0.05),
)
claim(
    "10.w",
    "three times the steps, least width: the lead of local attention over convolutions",
    long[KINDS[1]] - long[KINDS[0]],
    at_most=at_scale(cpu=-0.05, gpu=0.02),
)

# %% [markdown]
# So the figures above show the *start* of training, in which a convolution is quicker. How far apart the two would end, they do
# not say.
#
# The control that knows no places has a stranger fault. It cannot tell a digit from its mirror image, nor from itself upside down:
# all these are the same sets of neighbours.

# %% [markdown] tags=["predict"]
# **Predict.** A digit is turned by half a turn. By how much do the ten logits of the network without places change?
#
# <details><summary>A. A lot: it never saw digits upside down.</summary>
#
# It never saw them upright either: it saw sets of neighbours.</details>
# <details><summary>B. By rounding only.</summary>
#
# Yes. Windows turned round are the same sets, and the largest value of a map does not ask where it stands.</details>

# %% tags=["nbval-check-output"]
with torch.no_grad():
    apart = {}
    for kind in KINDS:
        model, digits = fitted[kind, widest, SEEDS[0]][0], images[::10]
        upright, half_turned, mirrored = (model(x) for x in (digits, digits.flip(-2, -1), digits.mT))
        apart[kind] = max((other - upright).abs().max().item() for other in (half_turned, mirrored))
claim(
    "10.q",
    "five hundred digits, half turned or mirrored at the diagonal: largest change of a logit, without relative places",
    apart[KINDS[2]],
    at_most=0.01,
)
claim(
    "10.r",
    "five hundred digits, half turned or mirrored at the diagonal: largest change of a logit, with relative places",
    apart[KINDS[1]],
    at_least=0.5,
)

# %% [markdown]
# ## 8 See it
#
# Where does a head look? The mean of its weights over all inked pixels of a hundred digits, in the first layer: the middle of each
# map is the pixel that asks. Looking by place *and* content, each head has its favourite neighbours.

# %%
with torch.no_grad():
    model = fitted[KINDS[1], WIDTHS[1], SEEDS[0]][0]
    some = images[::50]
    weights = model[3].layer(model[:3](some)).weights.cpu()
inked = (some[:, 0] > 0.3).cpu()
means = torch.stack([weights[:, head][inked].mean(0) for head in range(4)]).unflatten(-1, (3, 3))
maps = {f"head {head + 1}": means[head] for head in range(4)}
names = ("above left", "above", "above right", "left", "itself", "right", "below left", "below", "below right")
show(
    plots.pictures(maps, most=means.max().item()),
    alt="Mean weights in windows of 3 × 3, first layer. Most looked at: "
    + "; ".join(
        f"{name} {names[int(m.argmax())]} ({m.max().item():.2f} where an even share is 0.11)" for name, m in maps.items()
    )
    + ".",
)

# %% [markdown] tags=["try-it"]
# **Try it.** Choose a pixel of a digit and a head, and see what it looks at.

# %% tags=["interactive"]


def draw_window(row=3, column=3, head=1):
    """Show a digit with the asking pixel, and that pixel's weights laid over the picture."""
    over = torch.zeros(SIDE + 2, SIDE + 2)
    over[row : row + 3, column : column + 3] = weights[40, head - 1, row, column].view(3, 3)
    over = over[1:-1, 1:-1]
    show(
        plots.pictures(
            {"digit (ink)": some[40, 0].cpu(), "weights": over}, {"digit (ink)": (row, column)}, label="ink, or weight"
        ),
        alt=f"A digit, and what pixel ({row}, {column}) looks at by head {head}: the largest weight is {over.max().item():.2f}, "
        f"its own {over[row, column].item():.2f}.",
    )


explore(draw_window, row=(0, 6), column=(0, 6), head=(1, 4))

# %% [markdown] tags=["quiz"]
# ## 9 Before you go
#
# **Question 1.** You widen the window from 3 to 7. What happens to the parameters of a layer with 64 features in and out?
#
# <details><summary>A. Convolution and attention both grow by 49 / 9.</summary>
#
# The convolution does. Attention only gets four more rows and four more columns.</details>
# <details><summary>B. The convolution's grow by 49 / 9, attention's by about two per cent.</summary>
#
# Right: 4 · 64 more, beside 3 · 64² + 3 · 64.</details>
# <details><summary>C. Neither grows.</summary>
#
# A convolution holds a matrix for each place.</details>
#
# **Question 2.** Why are keys outside the picture masked, when a convolution does well with zeros?
#
# <details><summary>A. A zero key still has e⁰ = 1 in the softmax.</summary>
#
# Right. It takes weight from places that exist.</details>
# <details><summary>B. Zeros would make the softmax divide by 0.</summary>
#
# They would not: the sum only gets larger.</details>
# <details><summary>C. It is only faster.</summary>
#
# It changes the result: 10.d.</details>
#
# **Question 3.** The network of section 7 without relative places, all offsets 0. Which pictures can it tell apart?
#
# <details><summary>A. A 6 and the same 6 upside down.</summary>
#
# No: 10.q. All windows hold the same sets, and the largest value of a map does not ask where.</details>
# <details><summary>B. A thick stroke and a thin one.</summary>
#
# Right: their windows hold different values.</details>
# <details><summary>C. A stroke to the left and one to the right of a pixel.</summary>
#
# That is just what it cannot see.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague wants to replace all convolutions of a network by local attention, "to save
# parameters and get better". What do you answer? Use two measurements of this lecture.*
#
# | points | what earns them |
# | --- | --- |
# | 1 | says what is saved, and that it depends on width and window |
# | 1 | says that accuracy was not better here, and with what data and training |
# | 1 | says why the first layer is the hardest place for attention |
# | 1 | asks for a control: relative places, or equal parameters in place of equal width |
# | 1 | is clear and short |

# %% [markdown]
# ## 10 Ledger
#
# **Where the deck and the code part ways**, each by a number:
#
# - *EE* writes local attention as $\mathrm{softmax}((W_Q x_{ij})^\top (W_K x_{ab}))\, v_{ab}$, without relative places. So it cannot tell a
#   digit from itself upside down (10.g, 10.q); the paper's eq. 3 has them.
# - *EE*: $W_{i-a,\,j-b}$ is the mathematical convolution; what `conv2d` computes is $W_{a-i,\,b-j}$, the kernel not turned round
#   (10.EE-turned). For learned kernels it makes no difference.
# - *EE*: attention has "fewer parameters and FLOPS while improving upon the accuracy". The first half holds (10.m, 10.n), the second
#   does not here (10.EE-better): the pictures are small, there is no convolution at the stem, and training stops long before local
#   attention has learned what it can (10.v).
#
# **What this lecture does not show.** One seed, three widths, 7 × 7 pixels, and networks that had not finished learning: a figure
# to learn to read, no verdict on ImageNet. On three other seeds the order of the three was the same at every width. And fewer
# multiply-adds are not less time: convolutions have decades of tuned kernels behind them.

# %% tags=["ledger"]
ledger()
