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
# # 10 · Local attention
#
# In local attention each pixel attends to the pixels in a window around it.
#
# Such windows are older (Parmar et al. 2018, https://arxiv.org/abs/1802.05751) than the network that this lecture follows
# (Ramachandran et al. 2019), and today they are everywhere: Swin attends within blocks of an image, language models such as
# Gemma 3 within windows of a text. You will write the windows, their mask, the relative positions and the attention, and
# train a network that removes noise and keeps edges.
#
# **Prerequisites:** lecture 04 (scaled dot-product attention) and convolutions. **Time:** {minutes}. {measured}
#
# ![](diagram:local_window)

# %%
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.attention import Attended, LocalAttention, attend
from course_lib.attention import local_attention, relative_logits
from course_lib.attention.local import ColumnEmbeddings, LocalKeys, LocalQueries
from course_lib.attention.local import LocalValues, RowEmbeddings, window_side
from course_lib.datasets import photographs
from course_lib.fast import sliced_local_attention
from course_lib.metrics import OperationCount, convolution_cost, count_operations
from course_lib.metrics import local_attention_cost
from course_lib.primitives import local_windows, window_mask
from course_lib.primitives.windows import require_window
from course_lib.training import train
from course_tools.bank.stained_glass import UNEVEN, decibels, noisy_glass
from course_tools.bank.stained_glass import stained_glass, uneven_glass, with_noise
from course_tools.lectures.lecture_10 import figures, rivals
from course_tools.notebook import check, claim, device, explore, ledger, predict
from course_tools.notebook import peak_memory, progress, show_study, source
from course_tools.notebook.authorship import whose
from course_tools.notebook.recorded_studies import recorded
from course_tools.notebook.seed_scores import show_seeds

# %% [markdown]
# ## 1 One kernel for every pixel
#
# The image below is stained glass: twenty panes of one colour each on 32 × 32 pixels, with noise of standard deviation 0.2 in every
# channel. A network should restore the clean colours. The usual tool is a **convolution**: windows of 5 × 5, a ReLU, and a linear layer at
# each pixel, with 13 features: 1,030 parameters. `learn` is the loop of the whole lecture: eight new images of 16 × 16 pixels and six panes in every
# update, Adam, a learning rate that rises for a tenth of the updates and then falls linearly, gradients clipped at 1. Each
# network has the best of a few learning rates. Quality is the peak signal-to-noise ratio in dB: 10 dB more is a tenth of the
# squared error, 0.5 dB more leaves 89 % of it.


# %%
def loss_of(model, batch):
    """The mean squared error of a batch of noisy and clean images."""
    noisy, clean = (part.to(device()) for part in batch)
    return F.mse_loss(model(noisy), clean)


def learn(model, steps=600, lr=1e-2, glass=noisy_glass):
    """Train a model on new images in every update; return it."""
    run = train(model, glass(0), loss_of, steps=steps, lr=lr, warmup=steps // 10)
    for _ in progress(run, "training", total=steps):
        pass
    return model.eval()


@torch.no_grad()
def quality(model):
    """The peak signal-to-noise ratio in dB on two hundred new images."""
    return decibels(model(noisy), clean)


source(stained_glass)
noisy, clean = (part.to(device()) for part in next(noisy_glass(seed=100, n=200)))
generator = torch.Generator().manual_seed(5)
large = stained_glass(1, generator, side=32, panes=20).to(device())
large_noisy = with_noise(large.cpu(), generator).to(device())

source(rivals.convolution)
torch.manual_seed(0)
convolution = learn(rivals.convolution(5).to(device()))
with torch.no_grad():
    restored = {"noisy": large_noisy, "convolution": convolution(large_noisy)}
figures.show_restored(restored, large)

# %% [markdown] tags=["predict"]
# The noise is weaker, and the edges are blurred. Now you choose the weights yourself, for the mean of one window of 25 pixels. Its
# centre lies just beside the edge between a red pane and a blue one.
#
# **Predict.** Which weights restore the centre best?
#
# <details><summary>A. 1/25 each: the more pixels, the less noise is left.</summary>
#
# Ten of the 25 pixels are blue, and pull the mean towards blue.</details>
# <details><summary>B. Equal weights for the pixels of its own pane, none for the others.</summary>
#
# Yes. The mean of n pixels of one colour has a variance n times smaller. But which pixels these are depends on the image, and
# the kernel of a convolution is the same at every pixel of every image.</details>
# <details><summary>C. All weight on the centre: only it has the right colour for certain.</summary>
#
# Then all of its noise is left.</details>

# %% [markdown]
# **By hand.** Three neighbouring grey pixels have the values 0.9, 0.8 and 0.1; an edge lies before the last. What is the clean
# value of the middle one? The mean is 0.6, a mixture of both panes. Let the *content* decide: score each pixel $y$ by its
# difference from the middle, $-(0.8 - y)^2 / (2 \cdot 0.2^2)$, and apply a softmax:
#
# | pixel | score | exp | weight | weight × value |
# | --- | --- | --- | --- | --- |
# | 0.9 | −0.125 | 0.8825 | 0.4683 | 0.4214 |
# | 0.8 | 0 | 1 | 0.5306 | 0.4245 |
# | 0.1 | −6.125 | 0.0022 | 0.0012 | 0.0001 |
#
# The sum is **0.846**: the pixel beyond the edge has almost no part in it. This is one half of the **bilateral filter** (Tomasi and
# Manduchi 1998); the other half lowers the score with the distance from the middle. It is also attention: with $x$ for the middle
# pixel, $-(x-y)^2 = 2xy - y^2 - x^2$, and $x^2$ is the same for all keys, so it cancels in the softmax. What is left is the dot
# product of a query $(x, 1)$ and a key $(2y, -y^2)$, divided by $2 \cdot 0.2^2$. The bilateral filter is local attention with queries
# and keys set by hand; we will learn them.
#
# ## 2 From all pairs to a band
#
# In lecture 09 each pixel attended to every other. A feature map of 56 × 56 pixels, the size of an early map of a ResNet, then
# has $3136^2$ = 9,834,496 weights in each head. Windows of 7 × 7 leave 3136 · 49 = 153,664, one in 64. In the matrix of weights
# (rows are queries, columns are keys) they are bands: one in a text, and several in an image, since its pixels are numbered row by row.
# On the right, an image is cut into *blocks* that attend within themselves, as in Swin.

# %%
figures.show_bands()

# %% [markdown]
# ## 3 Windows
#
# A **window** 𝒩(i, j) contains the size × size positions around pixel (i, j); size is odd, so that the window has a centre. Its
# positions are numbered row by row. Where it extends beyond the image it contains zeros, for now. **By hand:** an image has the
# rows 1, 2, 3, 4 and 5, 6, 7, 8 and 9, 10, 11, 12. The 3 × 3 window of the corner, the pixel 1, has five such zeros:
#
# | left | middle | right |
# | --- | --- | --- |
# | 0 | 0 | 0 |
# | 0 | **1** | 2 |
# | 0 | 5 | 6 |
#
# With a *stride*, only every stride-th pixel has a window, starting at (0, 0), so $H_q = \lceil H / \mathrm{stride} \rceil$,
# and $W_q$ likewise.
#
# | name | shape |
# | --- | --- |
# | x | (…, H, W, d): features last |
# | windows | (…, H_q, W_q, size², d); the centre has index size² // 2 |

# %% exercise="10.1" difficulty="●●○" minutes=10
from course_lib.primitives import local_windows

# %% tags=["nbval-check-output"]
local_windows = check("10.1", local_windows)

# %% [markdown]
# With windows, a convolution is one matrix product.

# %%
x, kernel = torch.randn(5, 7, 3), torch.randn(11, 3, 3, 3)
windows = rearrange(local_windows(x, 3), "H W position d -> H W (position d)")
mine = windows @ rearrange(kernel, "d_out d a b -> (a b d) d_out")
theirs = F.conv2d(x.permute(2, 0, 1), kernel, padding=1).permute(1, 2, 0)
torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)

# %% [markdown] tags=["predict"]
# ## 4 The border
#
# For attention, zeros outside the image are *keys* like all others.
#
# **Predict a number** (within 0.01). All scores are equal, every pixel has the value 1, and the windows are 3 × 3. What is the
# output at a corner if the zeros are not excluded?
#
# <details><summary>0.444</summary>
#
# That is 4/9: four ones and five zeros share the weight equally. A convolution that averages darkens the border in the same way, in
# every layer. Attention can avoid it: a softmax over the pixels inside gives them weights that sum to 1.</details>
# <details><summary>1</summary>
#
# Count the ones in the window of the pixel 1 above.</details>
# <details><summary>0.667</summary>
#
# That is the output beside an edge, where a row of three is outside. At a corner five pixels are.</details>

# %% [markdown]
# A mask excludes them:
#
# | name | shape |
# | --- | --- |
# | mask | bool, (H_q, W_q, size²): True = inside the image, may be attended to |

# %% exercise="10.2" difficulty="●●○" minutes=6
from course_lib.primitives import window_mask

# %% tags=["nbval-check-output"]
window_mask = check("10.2", window_mask)

# %% [markdown]
# ## 5 Relative positions
#
# Attention over a window treats the neighbours as a *set*: it cannot distinguish near from far, or left from right. Therefore
# each offset has a learned vector $r$, and its dot product with the query is added to the score. One part of $r$ encodes the row
# of the window, the other the column. As the vector meets the query, each query can choose where to look. (Swin and T5 add one
# *number* for each offset, the same for all queries.)
#
# $$r_{ab} = [\,\mathrm{row}_a\,;\,\mathrm{column}_b\,] \qquad
# q^\top r_{ab} = q_{[:d_{row}]}^\top\, \mathrm{row}_a + q_{[d_{row}:]}^\top\, \mathrm{column}_b$$
#
# So 3 + 3 vectors give nine offsets. **By hand:** for one query, let the products with the three rows be 1, 2, 3, and those with
# the three columns 10, 20, 30. The position in row a and column b gets their sum:
#
# | row term | column 0: 10 | column 1: 20 | column 2: 30 |
# | --- | --- | --- | --- |
# | row 0: 1 | 11 | 21 | 31 |
# | row 1: 2 | 12 | 22 | 32 |
# | row 2: 3 | 13 | 23 | 33 |
#
# Row by row, as in a window: 11, 21, 31, 12, 22, 32, 13, 23, 33.
#
# | name | shape |
# | --- | --- |
# | q | (…, H, W, d_row + d_column) |
# | rows, columns | (size, d_row), (size, d_column), or with an axis of heads in front |
# | relative logits | (…, H, W, size²), row by row |

# %% exercise="10.3" difficulty="●●○" minutes=10
from course_lib.attention import relative_logits

# %% tags=["nbval-check-output"]
relative_logits = check("10.3", relative_logits)

# %% [markdown]
# ## 6 Local attention
#
# All parts together: score by content and by relative position, mask what is outside the image, apply a softmax, and
# sum the values of the window:
#
# $$y_{ij} = \sum_{(a,b) \text{ in } \mathcal N(i,j)} \operatorname{softmax}_{ab}\big(q_{ij}^\top k_{ab} + q_{ij}^\top r_{ab}\big)\, v_{ab}$$
#
# As in section 5, $a$ and $b$ are row and column *in the window*, where $k_{ab}$ and $v_{ab}$ stand. The paper uses no factor $1/\sqrt d$.
#
# | name | shape |
# | --- | --- |
# | q | (…, H_q, W_q, d_k): already only for every stride-th pixel |
# | k, v | (…, H, W, d_k), (…, H, W, d_v): for all pixels |
# | context, weights | (…, H_q, W_q, d_v), (…, H_q, W_q, size²) |

# %% exercise="10.4" difficulty="●●●" minutes=12
from course_lib.attention import local_attention

# %% tags=["nbval-check-output"]
local_attention = check("10.4", local_attention)

# %% [markdown]
# **Bug hunt.** This implementation has been in use for weeks, and the borders of the feature maps are slightly darker than
# expected. Decide what is wrong *before* you run the check.

# %% exercise="10.4" bug="looks_outside"
from course_tools.bank.lecture_10.local_attention import looks_outside as suspect

# %% tags=["nbval-check-output"]
unmasked = suspect
suspect = check("10.4", suspect)

# %% [markdown]
# The corner of section 4, with the suspect and with your function; then your function against one of the library's faster forms
# (`course_lib.fast`), which copies no windows: the same result, in a tenth of the memory.

# %% tags=["nbval-check-output"]
ones, no_offsets = torch.ones(5, 7, 4), torch.zeros(3, 2)
without, masked = (
    form(torch.zeros(5, 7, 4), ones, ones, no_offsets, no_offsets)[0][0, 0, 0]
    for form in (unmasked, local_attention)
)
claim("10.d", without=without, masked=masked)

q, k, v = torch.randn(3, 5, 7, 8)
rows, columns = torch.randn(2, 3, 4)
mine, theirs = (
    f(q, k, v, rows, columns)[0] for f in (local_attention, sliced_local_attention)
)
torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)

inputs = *torch.randn(3, 56, 56, 32), *torch.zeros(2, 7, 16)
held = peak_memory(lambda: local_attention(*inputs)) / 2**20
less = peak_memory(lambda: sliced_local_attention(*inputs)) / 2**20
print(f"56 × 56 pixels, windows of 7 × 7: {held:.0f} MB; without copies {less:.0f} MB")

# %% [markdown] tags=["predict"]
# How does anything ever leave the window? By the next layer: its keys have seen their own neighbours.
#
# **Predict a number** (exactly). Three layers with windows of 3 × 3 follow one another. How many pixels of the image have an influence
# on the middle one?
#
# <details><summary>49</summary>
#
# That is 7 × 7: one pixel more in each direction, 3 × 3, 5 × 5, 7 × 7. In a text in which each token attends to three before it,
# three layers reach nine tokens back.</details>
# <details><summary>9</summary>
#
# The pixels of the last window. But their values come from windows of their own.</details>
# <details><summary>27</summary>
#
# A layer does not add 9 pixels: the area grows on all sides, by a ring.</details>


# %%
def window(x):
    """Local attention, windows of 3 × 3: x (12, 12, 4) is query, key and value."""
    return local_attention(x, x, x, torch.zeros(3, 2), torch.zeros(3, 2))[0]


def blocks(x):
    """Attention within blocks of 4 × 4."""
    inside = rearrange(x, "(H a) (W b) d -> H W (a b) d", a=4, b=4)
    context = attend(inside @ inside.mT, inside).context
    return rearrange(context, "H W (a b) d -> (H a) (W b) d", a=4)


def shifted(x):
    """The same, with all blocks shifted by half their side."""
    return blocks(x.roll((-2, -2), (0, 1))).roll((2, 2), (0, 1))


def reached(*layers):
    """Which pixels have an influence on the pixel (5, 5) after some layers."""
    x = y = torch.rand(12, 12, 4, requires_grad=True)
    for layer in layers:
        y = layer(y)
    y[5, 5].sum().backward()
    return x.grad.abs().sum(-1) > 0


maps = {f"windows × {n}": reached(*n * [window]) for n in (1, 2, 3)}
maps["blocks × 3"] = reached(blocks, blocks, blocks)
maps["shifted × 2"] = reached(blocks, shifted)
maps["shifted × 3"] = reached(blocks, shifted, blocks)
figures.show_reach(maps, 5, 5)

# %% [markdown]
# Blocks never exchange anything, however many layers follow. Swin shifts them by half their side in every second layer, and then
# they do. (It also masks what comes from the opposite border.)

# %% [markdown]
# ## 7 A filter that learns its weights
#
# `Denoiser` is the whole network: features of each pixel, one layer of local attention with your function and two heads, and
# a colour for each pixel. Nothing but the attention mixes pixels. It has 963 parameters.


# %%
class Denoiser(nn.Module):
    """One layer of local attention between two linear layers at each pixel."""

    def __init__(self, d=16, n_heads=2, size=5):
        super().__init__()
        self.n_heads, half = n_heads, d // n_heads // 2
        self.stem, self.head = nn.Linear(3, d), nn.Linear(d, 3)
        self.W_q, self.W_k, self.W_v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.rows = nn.Parameter(torch.randn(n_heads, size, half) * half**-0.5)
        self.columns = nn.Parameter(torch.randn(n_heads, size, half) * half**-0.5)

    def attended(self, images):
        """Context (B, h, H, W, d / h) and weights (B, h, H, W, size²)."""
        x = self.stem(rearrange(images, "B C H W -> B H W C")).relu()
        q, k, v = (
            rearrange(W(x), "B H W (h d) -> B h H W d", h=self.n_heads)
            for W in (self.W_q, self.W_k, self.W_v)
        )
        return Attended(*local_attention(q, k, v, self.rows, self.columns))

    def forward(self, images):
        context = rearrange(self.attended(images).context, "B h H W d -> B H W (h d)")
        return rearrange(self.head(context), "B H W C -> B C H W")


torch.manual_seed(0)
denoiser = learn(Denoiser().to(device()), lr=2e-2)
with torch.no_grad():
    restored["local attention"] = denoiser(large_noisy)
figures.show_restored(restored, large)

# %% [markdown] tags=["predict"]
# Now stronger rivals, each over the same windows of 5 × 5: a **depth-wise separable convolution** and two convolutions of
# 3 × 3, with about as many parameters and updates; and two filters that learn nothing, the median of each window, and the
# bilateral filter of section 1. Its two widths, of distance and of colour, are the best of 24 pairs on other images.
#
# **Predict.** Which of them comes closest to local attention?
#
# <details><summary>A. The two convolutions: between them is a nonlinearity.</summary>
#
# A ReLU can react to an edge, but so few features react to few colours and directions only.</details>
# <details><summary>B. The median: it keeps edges.</summary>
#
# It does, but it treats each colour channel by itself, and compares no pixel with the one in the middle.</details>
# <details><summary>C. The bilateral filter.</summary>
#
# Yes. It is local attention with queries and keys set by hand: its weights depend on the content, those of a kernel are
# fixed.</details>

# %%
source(rivals.bilateral_filter)
found = {"local attention": quality(denoiser)}  # after 600 updates
others = next(noisy_glass(seed=200, n=200))
widths = rivals.best_bilateral_filter(*others, 5)
found["bilateral"] = quality(lambda x: rivals.bilateral_filter(x, 5, *widths))
for name, make in (("separable", rivals.separable), ("3 × 3 twice", rivals.stack)):
    torch.manual_seed(0)
    found[name] = quality(learn(make(5).to(device()), lr=3e-2))
found["convolution"] = quality(convolution)
found["median"] = quality(lambda x: rivals.median(x, 5))
points = {name: [score] for name, score in found.items()}
level = {"noisy": decibels(noisy, clean)}
show_seeds(points, "quality, dB", "new stained glass", level)

# %% tags=["nbval-check-output"]
best = max(found[name] for name in ("separable", "3 × 3 twice", "convolution"))
claim(
    "10.filter",
    attention=found["local attention"],
    convolutions=best,
    bilateral=found["bilateral"],
)

# %% [markdown]
# **Local attention is the right tool here because which neighbours belong together depends on the image, and it finds out by
# comparing them.** Where do its weights go? The ringed pixel is beside an edge.

# %% tags=["cover"]
with torch.no_grad():
    weights = denoiser.attended(large_noisy).weights[0].mean(0)  # (H, W, 25)


def draw_weights(row=14, column=13):
    """Show the surroundings of a pixel and its weights, the mean of both heads."""
    figures.show_weights(large_noisy[0], large[0], weights, row, column)


draw_weights()

# %% [markdown] tags=["interactive"]
# **Explore.** Move the pixel into the middle of a pane, to the border, and along an edge: there some pixels have little weight on their own
# pane. What has gone wrong?
#
# <details><summary>Answer</summary>
#
# Their own noise: the query is one noisy pixel, which may look more like the pane beyond the edge.</details>

# %% tags=["interactive"]
explore(draw_weights, row=(0, 31, 1), column=(0, 31, 1))

# %% [markdown] tags=["predict"]
# In the bilateral filter the pixel itself gets the largest weight: it is most like itself, whatever its noise, and nothing is nearer.
# Yet its noise is as large as that of every other pixel of its pane, so it deserves no more weight than they. We train a second
# `Denoiser` whose offset vectors are 0 and stay so.
#
# **Predict.** Which of the two gives the pixel itself more weight?
#
# <details><summary>A. The one with relative positions: nothing is nearer than the pixel itself.</summary>
#
# True, but it gets too much weight already. Training uses the positions to lower it.</details>
# <details><summary>B. The one without.</summary>
#
# Yes: by content alone the pixel itself scores high, and its own noise remains. Relative positions can lower its score.</details>
# <details><summary>C. Both give it as much: its content is the same.</summary>
#
# The score is a sum of content and position. Position can lower it whatever the content.</details>

# %%
torch.manual_seed(0)
content = Denoiser().to(device())
for offsets in (content.rows, content.columns):
    nn.init.zeros_(offsets).requires_grad_(False)
content = learn(content, lr=2e-2)
with torch.no_grad():
    by_both, by_content = (m.attended(noisy).weights for m in (denoiser, content))
figures.show_heads(by_both)

# %% tags=["nbval-check-output"]
claim(
    "10.itself",
    itself=by_both[:, :, 2:-2, 2:-2, 12].mean(),
    by_content=by_content[:, :, 2:-2, 2:-2, 12].mean(),
    positions=found["local attention"],
    without=quality(content),
)

# %% [markdown]
# A row term plus a column term cannot lower the middle alone: a low term for the middle row lowers all five positions in it. In the
# figure, one head has given up the pixel's row and the other its column; together they see everything but the pixel itself. Not every
# training finds this division.
#
# What training has found can be taught to the filter that learns nothing: leave the pixel itself out of its average. And a query that
# is one noisy pixel cannot know its pane; in a second layer it is compared by colours that the first has smoothed. So we
# stack two layers, with 12 features so that the network stays about as large (1,071 parameters), train them for 1,000 updates, and apply
# the bilateral filter twice.


# %% tags=["nbval-check-output"]
class Stacked(nn.Module):
    """Two layers of local attention in windows of 5 × 5, with your function."""

    def __init__(self, d=12, n_heads=2):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, d, 1), nn.Conv2d(d, 3, 1)
        self.first, self.second = (
            LocalAttention(d, d, n_heads, 5, mechanism=local_attention)
            for _ in range(2)
        )

    def forward(self, images):
        x = self.first(self.stem(images).relu()).context
        return self.head(self.second(x).context)


torch.manual_seed(0)
stacked = quality(learn(Stacked().to(device()), steps=1_000, lr=4e-2))
without_itself = rivals.best_bilateral_filter(*others, 5, itself=False)
taught = quality(lambda x: rivals.bilateral_filter(x, 5, *without_itself, itself=False))
both_widths = rivals.best_twice(*others, 5)
twice = quality(lambda x: rivals.twice(x, 5, *both_widths))
claim(
    "10.taught",
    bilateral=found["bilateral"],
    taught=taught,
    twice=twice,
    attention=found["local attention"],
    stacked=stacked,
)

# %% [markdown]
# **One layer compares what it is given, a second compares the results.** This is one reason to stack layers.

# %% [markdown] tags=["predict"]
# So far a filter set by hand has done about as well: someone knew what "alike" means. Now the noise has a standard deviation of 0.4 in
# red, 0.2 in green and 0.05 in blue. The bilateral filter, without the pixel itself, gets the best widths for the new glass, and a new
# `Denoiser` is trained on it.
#
# **Predict.** Which of the two restores it better?
#
# <details><summary>A. The filter: its rule is right, whatever the noise.</summary>
#
# Its rule adds up the differences of the three channels. Now that of red decides which pixels are alike, and it is mostly noise.</details>
# <details><summary>B. Local attention.</summary>
#
# Yes: queries and keys are learned, so blue can count most in the scores. The filter can do that too, if someone tells it how noisy
# each channel is.</details>
# <details><summary>C. They stay level: attention is a bilateral filter.</summary>
#
# The other way round: the bilateral filter is one setting of attention, and its rule counts all three channels alike.</details>

# %%
torch.manual_seed(0)
learned = learn(Denoiser().to(device()), lr=6e-2, glass=uneven_glass)
tuning = [part.to(device()) for part in next(uneven_glass(seed=200, n=200))]
once = rivals.best_bilateral_filter(*tuning, 5, itself=False)

uneven = with_noise(large.cpu(), generator, UNEVEN).to(device())
filtered = rivals.bilateral_filter(uneven, 5, *once, itself=False)
with torch.no_grad():
    panels = {"noisy": uneven, "filter": filtered, "local attention": learned(uneven)}
figures.show_restored(panels, large)

# %% [markdown]
# A recorded study trains two layers for 2,000 updates, and for 10,000 one layer and convolutions, with three seeds: the best of three with
# as many parameters, and one with ten times as many. A filter that is *told* divides each channel by its noise first.

# %% tags=["nbval-check-output"]
study = recorded("10_uneven")
rows = {
    "one layer": "local attention, 10,000 updates",
    "two layers": "two layers of local attention",
    "convolution": "separable convolution, 10,000 updates",
    "ten times": "convolutions of 3 × 3, 32 features, 10,000 updates",
    "filter": "filter",
    "told": "filter, told",
    "told, twice": "filter, told, twice",
}
points = {label: study.scores(name, "dB") for label, name in rows.items()}
show_seeds(points, "quality, dB", "new stained glass")
claim(
    "10.uneven",
    **{label.replace(", ", " ").replace(" ", "_"): points[label] for label in points},
)

# %% [markdown]
# **A filter set by hand needs somebody who knows in what respect the pixels of one pane are alike; attention does not.** Two layers,
# told nothing, do better than the filter that is told and applied twice.

# %% [markdown] tags=["predict"]
# ## 8 Larger windows
#
# A recorded study trains each network for 2,000 updates, with three seeds and windows of 3, 5 and 7, with about 1,000
# parameters whatever the window. Dotted: attention without windows, over all 256 pixels.
#
# **Predict.** Which networks gain from larger windows?
#
# <details><summary>A. Attention.</summary>
#
# Yes, and so does the bilateral filter: both take only the neighbours that fit. A larger window costs attention a few row and
# column vectors. Most of the gain comes from 3 to 5.</details>
# <details><summary>B. All: there is more to average.</summary>
#
# There is, but also more beyond an edge. And with as many parameters, a convolution of 7 × 7 has 7 features and one of 3 × 3 has 32.</details>
# <details><summary>C. The convolutions: their kernels get more parameters.</summary>
#
# The total is fixed. Larger kernels mean fewer features.</details>

# %%
study = show_study("10_windows")
widest = "convolutions of 3 × 3, 32 features, 7 × 7"
names = {
    "small": "local attention, 3 × 3",
    "large": "local attention, 7 × 7",
    "all": "attention over all pixels",
    "two": "two layers of local attention, 5 × 5",
    "wide": widest,
    "wide_later": f"{widest}, 10,000 updates",
    "taught": "bilateral filter, 7 × 7",
}
scores = {key: study.scores(name, "dB") for key, name in names.items()}
small_convolutions = [
    study.mean(name, "dB")
    for name in study.names
    if "convolution" in name and "32 features" not in name
]

# %% tags=["nbval-check-output"]
claim("10.windows", **scores, equal=max(small_convolutions))

# %% [markdown]
# **In one layer the window costs nothing:** over all pixels, five times as many keys add nothing. What limits it is the query, one
# noisy pixel: two layers of 5 × 5 are far ahead. **With 1,000 parameters, attention is the right tool: it computes a kernel where a
# convolution stores kernels for many cases.** Convolutions with twenty times as many pass one layer after 10,000 updates, but
# not two.
#
# **Count them.** A layer with 64 features in and out, of which 32 meet the row vectors and 32 the column vectors:
#
# | layer | parameters | 3 × 3 | 7 × 7 |
# | --- | --- | --- | --- |
# | convolution | size² · 64² | 36,864 | 200,704 |
# | local attention | 3 · 64² + 2 · size · 32 | 12,480 | 12,736 |
#
# `Denoiser` was trained on nothing but drawn glass, yet it restores a photograph about as well as the filter by hand: what it has
# learned is a filter. (`flower.jpg` by vultilion, [CC BY 2.0](https://creativecommons.org/licenses/by/2.0/), scaled down.)

# %%
photo = photographs((64, 96))[1:]
noisy_photo = with_noise(photo, torch.Generator().manual_seed(0)).to(device())
with torch.no_grad():
    panels = {"noisy": noisy_photo, "convolution": convolution(noisy_photo)}
    panels["bilateral filter"] = rivals.bilateral_filter(
        noisy_photo, 5, *without_itself, itself=False
    )
    panels["local attention"] = denoiser(noisy_photo)
figures.show_restored(panels, photo.to(device()))

# %% [markdown] tags=["quiz"]
# ## 9 Exit quiz
#
# **Question 1.** You widen the window from 3 to 7. What happens to the parameters of a layer with 64 features in and
# out?
#
# <details><summary>A. Those of convolution and attention both grow by a factor of 49 / 9.</summary>
#
# Those of the convolution do. Attention needs only four more row vectors and four more column vectors.</details>
# <details><summary>B. Those of the convolution grow by a factor of 49 / 9, those of attention by about two percent.</summary>
#
# Right: attention gets 2 · 4 · 32 more, in addition to 12,480.</details>
# <details><summary>C. Neither grows.</summary>
#
# A convolution has a matrix for each position of the window.</details>
#
# **Question 2.** Why are keys outside the image masked rather than left at zero?
#
# <details><summary>A. Zeros would make the softmax divide by 0.</summary>
#
# They would not: they only make the denominator larger.</details>
# <details><summary>B. Masking is only faster.</summary>
#
# The mask changes the result: a corner of ones would become 4/9.</details>
# <details><summary>C. A zero key still receives a positive weight from the softmax.</summary>
#
# Right. That weight is missing from the positions inside the image.</details>
#
# **Question 3.** A filter should *find* edges: its output is the difference between the right and the left neighbour. Which layer
# computes it most directly?
#
# <details><summary>A. A convolution.</summary>
#
# Right: its weights may be negative, here -1 and 1. Attention needs two heads, and a linear layer after them that subtracts.</details>
# <details><summary>B. One head of local attention.</summary>
#
# Its weights are positive and sum to 1: it can average and choose, and cannot subtract.</details>
# <details><summary>C. The bilateral filter.</summary>
#
# It averages what is alike, and removes differences within a pane.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague wants to replace all convolutions of a network by local attention, "to save
# parameters and get better". What do you answer? Use two measurements from this lecture.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says what is saved, and that it depends on the window |
# | 1 | names a task in which the weights must depend on the content, with a number |
# | 1 | names what a convolution does better, subtract, or what attention needs for it: a linear layer after it |
# | 1 | asks for a control: equal parameters, equal updates, a filter without training |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 10 What came of it
#
# - **Blocks instead of windows.** Swin (Liu et al. 2021, https://arxiv.org/abs/2103.14030) attends within blocks, which it shifts: all
#   queries of a block share their keys, so no key is copied. SwinIR (Liang et al. 2021, https://arxiv.org/abs/2108.10257) removes
#   noise from photographs with it.
# - **Windows again.** Neighborhood attention (Hassani et al. 2022, https://arxiv.org/abs/2204.07143) gives each pixel its own
#   window, with kernels written for it. PyTorch's `flex_attention` (Dong et al. 2024, https://arxiv.org/abs/2412.05496) compiles a
#   kernel from a function of two indices, such as `abs(q - k) <= 3`.
# - **Convolutions again.** ConvNeXt (Liu et al. 2022, https://arxiv.org/abs/2201.03545) takes depth-wise convolutions of 7 × 7, and is
#   level with Swin on ImageNet.
# - **Text.** Gemma 3 (2025, https://arxiv.org/abs/2503.19786) has five layers with windows of 1,024 tokens for each that sees all
#   (lecture 17).
#
# **Further reading.** Ramachandran et al. 2019, *Stand-Alone Self-Attention in Vision Models*, eqs. 1-3 and section 2.2
# (https://arxiv.org/abs/1906.05909): a ResNet-50 of local attention, on ImageNet more accurate than with convolutions, with fewer
# parameters and multiply-adds.

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each stands alone once the core has run, and their exercises are extra points.

# %% [markdown]
# ## Multiply-adds
#
# Count **parameters** and **multiply-adds** of one layer with $n = H_q W_q$ queries, all heads together:
#
# | Part | parameters | multiply-adds of one image |
# | --- | --- | --- |
# | convolution | $\mathrm{size}^2 d_{in} d_{out}$ | $n\,\mathrm{size}^2 d_{in} d_{out}$ |
# | W_q, W_k, W_v | $3\, d_{in} d_{out}$ | queries at $n$ pixels, keys and values at all |
# | rows, columns | size vectors of $d_{out}/2$ each | a dot product of each query with each vector |
# | scores and weighted sum | none | two products, of size² · d_out each, for each query |

# %% exercise="10.5" difficulty="●●○" minutes=10
from course_lib.metrics import local_attention_cost

# %% tags=["nbval-check-output"]
local_attention_cost = check("10.5", local_attention_cost)

# %% [markdown]
# torch counts the same for the library's layer. At 64 features, how much do windows of 3 × 3 save?

# %% tags=["nbval-check-output"]
layer, batch = LocalAttention(6, 8, 2, 5), torch.randn(1, 6, 9, 11)
counted = count_operations(layer, lambda: layer(batch))
assert list(counted) == list(local_attention_cost(6, 8, 5, 9, 11))

of_attention = local_attention_cost(64, 64, 3, 56, 56)
of_convolution = convolution_cost(64, 64, 3, 56, 56)
fewer, less = (a / b for a, b in zip(of_attention, of_convolution, strict=True))
claim("10.cost", fewer=fewer, less=less)

# %% [markdown] tags=["interactive"]
# **Explore.** Change the width and the stride. For which window sizes is the convolution cheaper?
#
# <details><summary>Answer</summary>
#
# For windows of one pixel; with a stride of 2 or 3 for those of 3 × 3, too: attention computes keys and values at all pixels, whatever
# the stride.</details>


# %% tags=["interactive"]
def draw_costs(width=32, stride=1):
    """Draw the multiply-adds of both layers over the side of the window."""
    costs = {"convolution": convolution_cost, "local attention": local_attention_cost}
    figures.show_costs(costs, width, stride)


explore(draw_costs, width=(4, 128, 4), stride=(1, 3))

# %% [markdown]
# ## What subtracts?
#
# Digits are recognised by their strokes, and a stroke is found by *subtracting* the pixels beside it. A head of attention has
# positive weights that sum to 1: only a linear layer after it can subtract what two heads found. In a recorded study, two residual
# layers over windows of 3 × 3 read digits of 14 × 14 pixels: convolutions, local attention, or one of each, 2,000 updates at the best of
# four learning rates. The attention there is followed by a norm and a ReLU alone. A second study gives it the layer $W_o$ that every
# Transformer has there, a matrix of 16 × 16, at one learning rate.

# %%
study = show_study("10_larger_pictures")
with_layer = recorded("10_output_layer")

# %% tags=["nbval-check-output"]
read = {
    kind: study.scores(f"{name}, width 16", "accuracy")
    for kind, name in (
        ("convolution", "convolution"),
        ("attention", "local attention"),
        ("both", "convolution, then local attention"),
    )
}
narrow = study.scores("convolution, width 8", "accuracy")
layer = with_layer.scores("local attention and a linear layer, width 16", "accuracy")
claim("10.digits", narrow=narrow, layer=layer, **read)

# %% [markdown]
# $W_o$ closes most of the gap, with half the weights of the convolution: what attention lacked was a way to subtract what it has averaged. A
# convolution as the first layer closes some of it, too: in the paper, networks with convolutions in the early groups of layers and
# attention in the later ones do best (section 4.3).

# %% [markdown] tags=["try-it"]
# ## Build it: a network that removes noise
#
# **Build task (35 minutes, 12 points).** Starting from an empty cell, write a network whose *only spatial operation is local
# attention*, and the loop that trains it to remove noise from stained glass. The noise has another strength in each channel, and
# you are not told which. Every attention layer attends to windows of 3 × 3 pixels with relative positions; everything else (stem,
# norms, MLPs) acts on each pixel separately. How many layers is your choice, up to three: one sees 3 × 3 pixels, two see 5 × 5,
# three 7 × 7. Define the classes that you need above `train_denoiser`, in the same cell. You may use torch's layers and your own
# functions from above, but not the library's `LocalAttention`.
#
# The model is called in two ways:
#
# | call | returns |
# | --- | --- |
# | `model(noisy)` | restored images (B, 3, H, W) for noisy ones of the same shape |
# | `model(noisy, True)` | the context of the *first* attention layer, (B, d, H, W): the weighted sum of the values, before $W_o$, a residual connection or a norm |
#
# The check calls `train_denoiser(noisy, clean, n_steps)` once, with 1,500 images of 16 × 16 pixels and `n_steps=600`, and lets the
# model restore 200 others. Two rivals have no network: the best *kernel* of 5 × 5 (least squares over all channels), which is
# the same at every pixel, and the best *bilateral filter* without the pixel itself: one pass over 5 × 5 pixels or two over
# 3 × 3, whichever restores more. The check also replaces pixels, exchanges neighbours, moves images and asks for the context, so
# it can tell your first layer from a convolution or from global attention without reading your code. Of later layers it sees only
# how far they reach, and what they do with an image of a single colour: a small convolution there may escape it, but is not what
# the task asks for. The function has at most 60 seconds of processor time; a good solution needs about ten.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model returns images and context of the shapes above |
# | 1 | at most `n_steps` updates and at most 20,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the updates read different images, and the loss falls (waived if the model has learned anyway) |
# | 1 | the returned model gives the same results for the same image |
# | 1 | what an image becomes does not depend on the other images of the batch |
# | 1 | *local*: the context depends on the pixels of the window around it, and on no others; a restored pixel depends on nothing outside the 7 × 7 pixels around it |
# | 1 | *weights*: in an image of a single colour the context is the same at every pixel, and so is the restored colour: the weights inside the image sum to 1, and relative positions are added to the scores, not to the values; in an image of two colours each feature of the context is between its values for the two |
# | 1 | *content*: what a neighbour adds to the context depends on the content of the other neighbours |
# | 1 | *positions*: reordering the neighbours changes the context; shifting the whole image only shifts it |
# | 1 | it restores unseen glass better than the best kernel |
# | 1 | it restores unseen glass better than the best bilateral filter |

# %% exercise="10.6" difficulty="●●●" minutes=35
from course_tools.bank.lecture_10.train_denoiser import train_denoiser

# %% tags=["nbval-check-output"]
train_denoiser = check("10.6", train_denoiser)

# %% [markdown]
# The next cell gives your function other images to learn from: tiles of the left halves of two photographs, with most noise in red.
# Then the network restores the right half of one, which it has not seen. In a photograph the channels go together, so the kernel
# can restore the noisy red from the cleaner green and blue. The bilateral filter averages each channel by itself, and falls behind;
# so does a kernel for each channel alone ("channelwise").

# %%
photos, generator = photographs((107, 160)), torch.Generator().manual_seed(0)
tiles = photos[..., :80].unfold(2, 16, 7).unfold(3, 16, 7)
tiles = rearrange(tiles, "B C rows columns a b -> (B rows columns) C a b")
noisy_tiles = with_noise(tiles, generator, UNEVEN)
torch.manual_seed(0)
built = train_denoiser(noisy_tiles, tiles, 600)

new = photos[1:, :, :, 80:]
new_noisy = with_noise(new, generator, UNEVEN)
widths = rivals.best_bilateral_filter(noisy_tiles, tiles, 5, itself=False)
panels = {"noisy": new_noisy}
panels["filter"] = rivals.bilateral_filter(new_noisy, 5, *widths, itself=False)
panels["kernel"] = rivals.by_the_best_kernel(noisy_tiles, tiles, new_noisy, 5)
given = noisy_tiles, tiles, new_noisy
channels = zip(*(images.split(1, dim=1) for images in given), strict=True)
alone = [rivals.by_the_best_kernel(*channel, 5) for channel in channels]
panels["channelwise"] = torch.cat(alone, dim=1)
with torch.no_grad():
    panels[f"{whose(train_denoiser)} network"] = built(new_noisy)
figures.show_restored(panels, new)

# %% [markdown] tags=["companion"]
# ## Papers and decks
#
# **Papers.** Ramachandran et al. 2019, *Stand-Alone Self-Attention in Vision Models*, eqs. 1-3
# (https://arxiv.org/abs/1906.05909) · Tomasi, Manduchi 1998, *Bilateral Filtering for Gray and Color Images*
# (https://doi.org/10.1109/ICCV.1998.710815).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Attention in computer vision: local attention | 6 Local attention | `course_lib.attention.local_attention`, `course_lib.attention.LocalAttention`, `course_lib.primitives.local_windows`, `course_lib.metrics.local_attention_cost` |

# %% tags=["ledger"]
ledger()
