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
# # 11 · Vision Transformer
#
# A Vision Transformer classifies pictures by treating square patches as tokens.
#
# ![](diagram:vit)
#
# You will write patches, embeddings, roll-out, position interpolation, distillation and a new head, compare a ViT with convolutions on few
# pictures, and let a convolutional teacher help it.
#
# **Prerequisites:** lecture 04 (self-attention), 05 (blocks and positions), a little about convolutions. **Time:** about 90
# minutes. {measured}

# %%
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_tools.notebook import at_scale, check, claim, device, explore, ledger, plots
from course_tools.notebook import predict, progress, show, weight_maps

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 Too many tokens
#
# In lecture 04 every pixel attended to every other. For a small photograph that is feasible. The usual resolution for
# classification is 224 × 224 pixels: that many tokens, and a weight for each *pair* of them, in each head of each layer.

# %% [markdown] tags=["predict"]
# **Predict.** Each *square* of 16 × 16 pixels becomes a token, instead of each pixel. By what factor does the number of weights fall?
#
# <details><summary>A. 16 times.</summary>
#
# The side of a square is 16 pixels, but a square has two sides.</details>
# <details><summary>B. 256 times: there are 256 times fewer tokens.</summary>
#
# That many fewer *tokens*. Weights belong to pairs.</details>
# <details><summary>C. 65,536 times.</summary>
#
# Yes, $P^4$: $P^2$ fewer queries times $P^2$ fewer keys.</details>

# %% tags=["nbval-check-output"]
by_pixel, by_patch = (224 * 224) ** 2, (224 // 16 * (224 // 16)) ** 2
claim(
    "11.a",
    "224 × 224 pixels as tokens: gigabytes for the weights of one head in one layer, "
    "in float32",
    4 * by_pixel / 1e9,
    at_least=10,
)
claim(
    "11.b",
    "patches of 16 × 16 pixels instead of pixels: weights are fewer by a factor",
    by_pixel // by_patch,
    equals=16**4,
)

# %% [markdown]
# ## 2 Patches as tokens
#
# Cut the picture into squares of $P \times P$ pixels that do not overlap, and lay each out as one vector:
#
# $$x \in \mathbb R^{C \times H \times W} \;\to\; x_p \in \mathbb R^{N \times C P^2} \qquad N = HW / P^2$$
#
# The order is a convention, but it must be consistent: squares row by row from the top left; inside a square all of
# the first channel, row by row, then the next channel. This is the memory order of convolution weights.
#
# | name | shape |
# | --- | --- |
# | `images` | (B, C, H, W); H and W may differ |
# | patches | (B, N, C · P²) |
#
# **Bug hunt.** These patches have the right shape and contain every pixel once, and no error is raised. Look at the picture
# before you run the check.

# %%
from einops import rearrange

from course_lib.datasets import photographs
from course_lib.primitives import patch_grid
from course_lib.primitives.patches import Patches
from course_lib.shapes import Image

# %% exercise="11.1" bug="takes_pixels_far_apart"
from course_tools.bank.lecture_11.patchify import takes_pixels_far_apart as suspect

# %%
photograph = photographs((96, 144))[:1].float().clamp(0, 1)


def laid_out(cut, images, P):
    """The patches that `cut` makes, each drawn as a square in its place, with a gap
    between them, as (H', W', 3)."""
    rows = patch_grid(*images.shape[-2:], P)[0]
    squares = rearrange(
        cut(images, P)[0],
        "(rows columns) (C h w) -> rows columns h w C",
        rows=rows,
        C=3,
        h=P,
    )
    framed = F.pad(squares, (0, 0, 0, 2, 0, 2), value=1.0)
    return rearrange(framed, "rows columns h w C -> (rows h) (columns w) C")[:-2, :-2]


sheets = {
    "photograph": photograph[0].permute(1, 2, 0),
    "the suspect's patches": laid_out(suspect, photograph, 24),
}
squares = rearrange(suspect(photograph, 24)[0], "n (C pixels) -> n C pixels", C=3)
alike = torch.corrcoef(squares.flatten(1))[0, 1:].mean()
show(
    plots.pictures(sheets),
    alt="A photograph of 96 × 144 pixels, and the suspect's 24 patches of it, each in "
    "its place with a gap. The first of them correlates with the others by "
    f"{alike:.2f} on average: each is a small picture of the whole.",
)

# %% tags=["nbval-check-output"]
suspect = check("11.1", suspect)

# %% [markdown] tags=["predict"]
# **What does each of its patches hold?**
#
# <details><summary>A. A square, but of the picture turned by a quarter.</summary>
#
# Then neighbours would still be neighbours. Here each patch shows the whole.</details>
# <details><summary>B. Pixels that are far apart: every n-th of each row and column.</summary>
#
# Yes: `(P rows)` where `(rows P)` was meant. einops and `reshape` both read the *slowest* axis first.</details>
# <details><summary>C. A band of whole rows.</summary>
#
# That is what a plain `reshape` of the memory gives, another frequent slip.</details>

# %% exercise="11.1" difficulty="●○○" minutes=8
from course_lib.primitives import patchify

# %% tags=["nbval-check-output"]
patchify = check("11.1", patchify)

# %% [markdown]
# Each patch is now multiplied by one matrix $E$, the same for all. A matrix that slides over a picture is a convolution; this
# one slides by its own width. So the first layer of a Vision Transformer *is* a convolution, of size and stride $P$.

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
E, b = torch.randn(11, 3, 24, 24), torch.randn(11)
by_product = patchify(photograph, 24).float() @ E.flatten(1).mT + b
by_sliding = rearrange(
    F.conv2d(photograph, E, b, stride=24), "B d rows columns -> B (rows columns) d"
)
gap = ((by_product - by_sliding).abs().max() / by_sliding.abs().max()).item()
claim(
    "11.c",
    "patches times E, and a convolution of size and stride P: largest relative "
    "difference",
    gap,
    at_most=1e-4,
)

# %% [markdown]
# ## 3 Class token and positions
#
# Which token represents the whole picture? A **class token**: one more vector, learned, the same for every picture. It precedes
# the patches, attends to them in every layer, and a linear head classifies its output. And since attention is permutation-equivariant, a learned
# position vector is added to every token (Dosovitskiy et al., eq. 1):
#
# $$z_0 = [x_\mathrm{class};\, x_p^1 E;\, \dots;\, x_p^N E] + E_\mathrm{pos}$$
#
# | name | shape |
# | --- | --- |
# | `patches` | (B, N, d_patch) |
# | `E`, `b` | (d_model, d_patch), (d_model,): stored as `nn.Linear` does |
# | `learned` | (n_learned, d_model): ViT has one such token, DeiT two |
# | `positions` | (n_learned + N, d_model), for *all* tokens |
# | tokens | (B, n_learned + N, d_model) |

# %%
from jaxtyping import Float

from course_lib.attention import fused_scaled_dot_product_attention
from course_lib.blocks import ConvNet, Sizes
from course_lib.datasets import mnist, split
from course_lib.models import ViT
from course_lib.training import batches, train

# %% exercise="11.2" difficulty="●●○" minutes=10
from course_lib.primitives import embed_patches

# %% tags=["nbval-check-output"]
embed_patches = check("11.2", embed_patches)

# %% [markdown]
# From here on it is lecture 05's encoder: blocks with the norm first, GELU, one norm at the end. The library's `ViT` holds
# `encoder` and `head`. Our digits have 28 × 28 pixels, $P = 7$: sentences of sixteen words. Positions start four times as
# large as the library draws them, so that the patches do not drown them (lecture 05, section 10).

# %%
images, labels = (tensor.to(device()) for tensor in mnist())
parts = {seed: split(range(len(labels)), 4_000, 0, 1_000, seed) for seed in SEEDS}
learn = {
    seed: torch.tensor(part.train, device=device()) for seed, part in parts.items()
}
unseen = {
    seed: torch.tensor(part.test, device=device()) for seed, part in parts.items()
}
P, GRID, SIZES = 7, 4, Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=2)
STEPS = at_scale(cpu=220, gpu=1_500)


def vit(
    seed,
    kind=ViT,
    n_classes=10,
    mechanism=fused_scaled_dot_product_attention,
    scale=4.0,
):
    """A new Vision Transformer for digits, its first weights drawn by the seed."""
    torch.manual_seed(seed)
    model = kind(n_classes, (1, 28, 28), P, SIZES, mechanism).to(device())
    model.encoder.positions.data.mul_(scale)
    return model


def cnn(seed):
    """Three convolutions of 3 × 3, the largest value of each of their 64 maps, and a
    linear layer."""
    torch.manual_seed(seed)
    body = ConvNet(1, widths=(32, 32, 64), strides=(2, 2, 1))
    return nn.Sequential(
        body, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    ).to(device())


def by_labels(model, batch):
    """Cross-entropy to the labels."""
    return F.cross_entropy(model(batch[0]), batch[1])


def fit(model, seed, *tensors, loss=by_labels, steps=STEPS, lr=3e-3, name="ViT"):
    """Train a model on batches of 32 of the tensors."""
    stream = batches(*tensors, batch_size=32, seed=seed)
    for _ in progress(
        train(model, stream, loss, steps=steps, lr=lr, warmup=steps // 4),
        f"{name}, seed {seed}",
        total=steps,
    ):
        pass
    return model.eval()


@torch.no_grad()
def accuracy(model, seed, change=lambda pictures: pictures):
    """The accuracy on unseen digits, which `change` may change before they are
    shown."""
    return (
        (model(change(images[unseen[seed]])).argmax(-1) == labels[unseen[seed]])
        .float()
        .mean()
        .item()
    )


# %% [markdown] tags=["predict"]
# ## 4 ViT and CNN on 2,500 pictures
#
# A deck states: "with a dataset of ~ 2-3 thousand pictures, doesn't work very well - classic ResNet more stable
# and better". We take 2,500 digits and give both models the same budget of *arithmetic*: the CNN takes as many steps as cost no
# more than those of the Vision Transformer. (Their learning rates are 0.003 for the ViT and 0.004 for the CNN.)
#
# **Predict.** Which has the higher accuracy on a thousand unseen digits?
#
# <details><summary>A. The Vision Transformer: attention sees the whole picture at once.</summary>
#
# From the first layer on, yes. But it must *learn* that a stroke is the same stroke one pixel further left.</details>
# <details><summary>B. The convolutions, by some points in a hundred.</summary>
#
# Yes. Locality and translation equivariance are built into them. With few pictures, what
# need not be learned is an advantage.</details>
# <details><summary>C. They come out alike: digits are easy.</summary>
#
# Easy enough for most of them. The rest are not alike.</details>

# %%
from torch.utils.flop_counter import FlopCounterMode

from course_lib.attention import scaled_dot_product_attention

few_thousand = {
    seed: (images[learn[seed][:2_500]], labels[learn[seed][:2_500]]) for seed in SEEDS
}
vits = {seed: fit(vit(seed), seed, *few_thousand[seed]) for seed in SEEDS}
cnns = {
    seed: fit(
        cnn(seed),
        seed,
        *few_thousand[seed],
        steps=4 * STEPS // 5,
        lr=4e-3,
        name="convolutions",
    )
    for seed in SEEDS
}
right = {
    "convolutions": [accuracy(cnns[seed], seed) for seed in SEEDS],
    "ViT": [accuracy(vits[seed], seed) for seed in SEEDS],
}
show(
    plots.seeds(
        right,
        "accuracy on unseen digits",
        "2,500 digits to learn from, one point a seed",
    ),
    alt="Accuracy on unseen digits after 2,500 to learn from: "
    + "; ".join(
        f"{name} {', '.join(f'{share:.3f}' for share in shares)}"
        for name, shares in right.items()
    )
    + ".",
)


# %% tags=["nbval-check-output"]
def operations(model):
    """Count the floating-point operations of a forward pass over one picture."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(images[:1])
    return counter.get_total_flops()


plain = vit(SEEDS[0], mechanism=scaled_dot_product_attention).eval()
effort = 4 / 5 * operations(cnns[SEEDS[0]]) / operations(plain)
behind = [
    ours - theirs
    for ours, theirs in zip(right["convolutions"], right["ViT"], strict=True)
]
claim(
    "11.d",
    "2,500 digits: arithmetic spent on training the convolutions over that spent on "
    "the ViT",
    effort,
    at_most=1.0,
)
claim(
    "11.e",
    "2,500 digits: the convolutions lead the ViT on unseen digits, worst of the seeds",
    min(behind),
    at_least=0.01,
)
claim(
    "11.f",
    "2,500 digits: accuracy of the ViT on unseen digits, worst of the seeds",
    min(right["ViT"]),
    at_least=0.7,
)

# %% [markdown] tags=["predict"]
# So *better* is confirmed on digits at this budget. *More stable* remains open: three seeds cannot distinguish a
# standard deviation of 0.01 from one of 0.02.
#
# ## 5 Learned positions and attention roll-out
#
# **Position similarity.** The model is not told that patch 5 lies below patch 1; its position vectors are initialised at random. In the next
# figure, each small map shows the cosine between one position vector and all sixteen, arranged like the patches.
#
# **Predict.** What do these maps look like after training?
#
# <details><summary>A. A map: each position most like its neighbours.</summary>
#
# That is the paper's figure 7, after millions of pictures. It takes longer than this.</details>
# <details><summary>B. Nothing that one can see.</summary>
#
# Yes. Sixteen random vectors can be told apart from the start, and to begin with the blocks need no more.</details>
# <details><summary>C. All alike: the digits are in the middle anyway.</summary>
#
# Then the model could not tell a patch at the top from one at the bottom; section 9 shows what that costs.</details>


# %%
from statistics import mean

from course_lib.analysis import record


def likeness(model):
    """Cosines (16, 4, 4) between the position of each patch and those of all, each less
    the mean over the patches."""
    places = model.encoder.positions.detach()[-GRID * GRID :].cpu()
    directions = F.normalize(places - places.mean(0), dim=-1)
    return (directions @ directions.mT).unflatten(-1, (GRID, GRID))


def nearer(maps):
    """How much more alike neighbours are than patches three or more steps apart."""
    row, column = torch.arange(GRID * GRID) // GRID, torch.arange(GRID * GRID) % GRID
    steps = (row[:, None] - row).abs() + (column[:, None] - column).abs()
    return (
        maps.flatten(1)[steps == 1].mean() - maps.flatten(1)[steps >= 3].mean()
    ).item()


before, after = likeness(vit(SEEDS[0])), likeness(vits[SEEDS[0]])
show(
    weight_maps(
        {"before training": before, "after": after},
        columns=4,
        label="cosine of two positions",
    ),
    alt="Two panels of sixteen small maps: cosines between the learned position of "
    "each patch and those of all. Neighbours are more alike than patches three "
    f"steps apart by {nearer(before):.2f} before training and {nearer(after):.2f} "
    "after it.",
)

# %% [markdown]
# **Attention roll-out.** The class token of the last layer mixes tokens that are mixtures themselves. Abnar and
# Zuidema trace this back to the inputs: each layer is modelled as half identity (the residual connection) and half attention,
# averaged over the heads:
#
# $$A_l = \tfrac12 \bar W_l + \tfrac12 I \qquad \tilde A_l = A_l\, \tilde A_{l-1} \qquad \tilde A_0 = I$$
#
# It is a heuristic, not a gradient: it ignores values, feed-forward networks and norms.
#
# | name | shape |
# | --- | --- |
# | `weights` | (n_layers, …, h, T, T), from the first layer to the last |
# | roll-out | (…, T, T): row $i$ holds the contribution of each input to output $i$ |

# %% exercise="11.3" difficulty="●●○" minutes=8
from course_lib.analysis import rollout

# %% tags=["nbval-check-output"]
rollout = check("11.3", rollout)


# %%
def followed(model, pictures):
    """What the class token draws from each patch (B, 4, 4), by your roll-out, as shares
    that sum to 1."""
    with record(plain) as seen, torch.no_grad():
        plain.load_state_dict(model.state_dict())
        plain(pictures)
    layers = [
        calls[0].weights for calls in seen.values() if calls[0].weights is not None
    ]
    drawn = rollout(torch.stack(layers))[:, 0, 1:].to(pictures)
    return (drawn / drawn.sum(-1, keepdim=True)).unflatten(-1, (GRID, GRID))


def grey(picture):
    """A picture (1, H, W) as one with three equal channels."""
    return picture.permute(1, 2, 0).expand(-1, -1, 3).cpu()


shown = images[unseen[SEEDS[0]][[3, 5, 8]]]
maps = followed(vits[SEEDS[0]], shown).cpu()
panels = {f"digit {n + 1}": grey(picture) for n, picture in enumerate(shown)}
panels |= {f"digit {n + 1}, drawn on": drawn for n, drawn in enumerate(maps)}
show(
    plots.pictures(panels, label="share"),
    alt="Three unseen digits, and under each what the class token draws from its "
    "sixteen patches by roll-out; the largest share is "
    + ", ".join(f"{drawn.max():.2f}" for drawn in maps)
    + f", where even shares would be {1 / 16:.2f}.",
)

# %% [markdown] tags=["predict"]
# **Predict.** Does that picture mean anything? Wipe out the four patches of every digit on which the class token draws *most*;
# or the four on which it draws *least*. In which case are more digits lost?
#
# <details><summary>A. The most: that is what it looks at.</summary>
#
# Yes, and by far. It is the least that a map must pass before anybody tells a story about it; a harder test stands beside it
# in the cell, and that one it does not pass.</details>
# <details><summary>B. No difference: roll-out ignores the values.</summary>
#
# It does, and it could have failed for that reason. Here it does not.</details>
# <details><summary>C. The least: those are the background, and a dark background matters.</summary>
#
# They are mostly background; wiping out what is black already changes nothing. For that very reason two controls stand in
# the next cell: wipe out four patches at random; and the four drawn on most *on average*, the same for all digits.</details>


# %% tags=["nbval-check-output"]
def wiped(order):
    """A change of pictures that blackens the first four patches of each in the order
    (B, 16)."""
    keep = (
        torch.ones(len(order), GRID * GRID, device=device())
        .scatter(1, order[:, :4], 0.0)
        .unflatten(1, (1, GRID, GRID))
    )
    return lambda pictures: (
        pictures * keep.repeat_interleave(P, -2).repeat_interleave(P, -1)
    )


lost = {"most": [], "same for all": [], "at random": [], "least": []}
for seed in SEEDS:
    drawn = followed(vits[seed], images[unseen[seed]]).flatten(1)
    most, same = (
        drawn.argsort(descending=True),
        drawn.mean(0).argsort(descending=True).expand(len(drawn), -1),
    )
    any_order = (
        torch.rand(most.shape, generator=torch.Generator().manual_seed(seed))
        .argsort()
        .to(device())
    )
    for name, order in zip(lost, (most, same, any_order, most.flip(1)), strict=True):
        lost[name].append(
            accuracy(vits[seed], seed) - accuracy(vits[seed], seed, wiped(order))
        )
print(
    ", ".join(
        f"{name}: " + " ".join(f"{share:.2f}" for share in shares)
        for name, shares in lost.items()
    )
)

# %% [markdown] tags=["try-it"]
# **Try it.** Another digit, by its number from 0 to 999. Look for one that the model gets wrong: where did it look?


# %% tags=["try-it"]
def draw_digit(number):
    """Show an unseen digit, what the class token draws on, and the answer."""
    picture, kind = (
        images[unseen[SEEDS[0]]][number : number + 1],
        labels[unseen[SEEDS[0]]][number].item(),
    )
    drawn = followed(vits[SEEDS[0]], picture)[0].cpu()
    with torch.no_grad():
        said = vits[SEEDS[0]](picture).argmax(-1).item()
    row, column = divmod(drawn.argmax().item(), GRID)
    show(
        plots.pictures(
            {f"a {kind}, taken for a {said}": grey(picture[0]), "drawn on": drawn},
            label="share",
        ),
        alt=f"Unseen digit {number}, a {kind}, taken for a {said}; the class token "
        f"draws most on the patch in row {row + 1}, column {column + 1}, a share "
        f"of {drawn.max():.2f}.",
    )


draw_digit(17)

# %% [markdown] tags=["interactive"]
# **Explore.** Turn the digits one by one. What moves with the stroke, and what stays where it is, whatever is drawn?

# %% tags=["interactive"]
explore(draw_digit, number=(0, 999, 1))

# %% tags=["nbval-check-output"]
start, end = (
    model.encoder.positions.detach() for model in (vit(SEEDS[0]), vits[SEEDS[0]])
)
print(
    f"cosine of neighbouring minus that of distant positions: {nearer(before):+.2f} "
    f"before training, {nearer(after):+.2f} after it"
)
print(
    "change of the positions in training, relative to their norm: "
    f"{((end - start).norm() / start.norm()).item():.2f}"
)
claim(
    "11.h",
    "wiping out the 4 of 16 patches drawn on most, by roll-out: accuracy lost, mean",
    mean(lost["most"]),
    at_least=0.4,
)
over_chance = min(
    most - other for most, other in zip(lost["most"], lost["at random"], strict=True)
)
claim(
    "11.i",
    "wiping out the 4 patches drawn on most costs more than wiping out 4 at random: "
    "least difference of the seeds",
    over_chance,
    at_least=0.1,
)
by_picture = mean(lost["most"]) - mean(lost["same for all"])
claim(
    "11.i-same",
    "but no more than wiping out the same 4 of all digits, those drawn on most on "
    "average: mean difference",
    by_picture,
    at_most=0.05,
)
claim(
    "11.j",
    "wiping out the 4 of 16 patches drawn on least: accuracy lost, mean",
    mean(lost["least"]),
    at_most=0.25,
)

# %% [markdown]
# The paper's figure 7 shows that each learned position is most similar to
# its neighbours and to its row and column. That is after millions of pictures. In our few hundred steps the sixteen random
# vectors change little, as the printed numbers say; they distinguish the patches without forming a map. This training is too short to say more.
#
# For the roll-out, read both controls. It beats random patches clearly (11.i). But compare 11.i-same:
# masking the same four patches in all digits costs at least as much. So the roll-out shows where digits are in general, and little
# about the individual picture.
#
# ## 6 Changing the resolution
#
# Nothing in a block depends on the number of tokens. A larger picture is a longer sentence, and only the positions are
# missing. Read those of the patches as an *image* of d_model channels, and resize it as one would a photograph, by bicubic
# interpolation; the class token's stays as it is:
#
# $$(H W, d) \to (1, d, H, W) \to (1, d, H', W') \to (H' W', d)$$
#
# | name | shape |
# | --- | --- |
# | `positions` | (T, d_model), T = number of learned tokens + H · W |
# | H, W; H_new, W_new | sides of the grids, in *patches* |
# | result | (T - H · W + H_new · W_new, d_model) |

# %% exercise="11.4" difficulty="●●○" minutes=10
from course_lib.primitives import interpolate_positions

# %% tags=["nbval-check-output"]
interpolate_positions = check("11.4", interpolate_positions)

# %% [markdown] tags=["predict"]
# **Predict.** Show the trained model digits enlarged to 56 × 56 pixels: 64 patches of the old size. Give it interpolated
# positions; or the sixteen that it has, over and over. It was right on about nine in ten.
#
# <details><summary>A. Still nine in ten with interpolation, chance without.</summary>
#
# The positions are then right, but each patch now shows a quarter of what a patch used to show.</details>
# <details><summary>B. Far from nine in ten with interpolation, and still clearly better than without.</summary>
#
# Yes. Interpolation is where fine-tuning at the new size *starts*, not what replaces it; the paper says so too.</details>
# <details><summary>C. It makes no difference: attention sees a set.</summary>
#
# Not this attention: section 9 removes its positions.</details>


# %%
def enlarged(side):
    """A change of pictures that resizes them to side × side pixels."""
    return lambda pictures: F.interpolate(
        pictures, (side, side), mode="bicubic", align_corners=False
    ).clamp(0, 1)


def resized(model, side, by):
    """The same model for pictures of side × side pixels, its positions made by
    `by(positions, H, W, H_new, W_new)`."""
    larger = ViT(10, (1, side, side), P, SIZES, fused_scaled_dot_product_attention).to(
        device()
    )
    positions = by(model.encoder.positions.detach(), GRID, GRID, side // P, side // P)
    larger.load_state_dict(
        model.state_dict()
        | {"encoder.positions": positions.to(model.encoder.positions)}
    )
    return larger.eval()


def over_and_over(positions, H, W, H_new, W_new):
    """The positions of the patches repeated until there are enough."""
    return torch.cat(
        [positions[:1], positions[1:].repeat(H_new * W_new, 1)[: H_new * W_new]]
    )


ways = {"interpolated": interpolate_positions, "over and over": over_and_over}
sides = [28, 42, 56]
at_size = {
    name: [
        mean(
            accuracy(resized(vits[seed], side, by), seed, enlarged(side))
            for seed in SEEDS
        )
        for side in sides
    ]
    for name, by in ways.items()
}
show(
    plots.curves(
        {name: (sides, shares) for name, shares in at_size.items()},
        "side of the picture, in pixels",
        "accuracy on unseen digits",
        across={"chance": 0.1},
    ),
    alt=f"Accuracy on enlarged digits of {sides} pixels, mean of the seeds: "
    + "; ".join(
        f"positions {name} {', '.join(f'{share:.2f}' for share in shares)}"
        for name, shares in at_size.items()
    )
    + ".",
)

# %% tags=["nbval-check-output"]
seed = SEEDS[0]
at_35 = (enlarged(35)(few_thousand[seed][0]), few_thousand[seed][1])
tuned = fit(
    resized(vits[seed], 35, interpolate_positions),
    seed,
    *at_35,
    steps=STEPS // 5,
    name="fine-tuned at 35 pixels",
)
untuned = accuracy(resized(vits[seed], 35, interpolate_positions), seed, enlarged(35))
claim(
    "11.k",
    "digits enlarged to twice their side: accuracy with interpolated positions less "
    "those with repeated ones, mean",
    at_size["interpolated"][-1] - at_size["over and over"][-1],
    at_least=0.1,
)
claim(
    "11.l",
    "digits enlarged to twice their side: accuracy with interpolated positions and no "
    "fine-tuning, mean",
    at_size["interpolated"][-1],
    at_most=0.75,
)
claim(
    "11.m",
    "digits enlarged to 35 pixels: what a fifth of the training's steps at that size "
    "adds to interpolation",
    accuracy(tuned, seed, enlarged(35)) - untuned,
    at_least=0.15,
)

# %% [markdown]
# ## 7 Distillation
#
# A student can learn from a convolutional teacher's *predictions*. A label contains only the class, "4". A teacher's distribution also contains
# that it might be a 9. A temperature τ above 1 increases the weight of such small probabilities (Hinton et al.):
#
# $$(1 - \lambda)\,\mathrm{CE}(\psi(Z_s), y) + \lambda\,\tau^2\,\mathrm{KL}\big(\psi(Z_t/\tau)\,\Vert\,\psi(Z_s/\tau)\big) \qquad \psi = \mathrm{softmax}$$
#
# Gradients of a softmax at τ shrink by $1/\tau^2$; the factor puts that right. The teacher does not learn.
#
# | name | shape |
# | --- | --- |
# | `student`, `teacher` | logits (B, n_classes) |
# | `labels` | (B,) |
# | `temperature`, `share` | τ > 0, λ from 0 to 1 |
# | loss | a number, the mean over the batch, in nats |
#
# ![](diagram:deit)

# %%
from course_lib.losses import hard_distillation_loss
from course_lib.losses.distillation import ClassLogits, Labels
from course_lib.models import DeiT

# %% exercise="11.5" difficulty="●●○" minutes=12
from course_lib.losses import distillation_loss

# %% tags=["nbval-check-output"]
distillation_loss = check("11.5", distillation_loss)

# %% [markdown] tags=["predict"]
# **DeiT** gives the student a second learned token. The class token answers the labels, the *distillation token* the class that
# the teacher decides for; at the end their probabilities are averaged.
#
# **Predict.** Train a DeiT on the 2,500 digits of section 4, taught by the convolutions that learned from the same 2,500. Does
# it do better than the ViT?
#
# <details><summary>A. Yes: the convolutions do better, and hand that on.</summary>
#
# By what message? Count the pictures on which their decision differs from the label.</details>
# <details><summary>B. Hardly: on those pictures, the teacher's prediction is almost always the label.</summary>
#
# Yes: see 11.n for their agreement, and the printed accuracies (one seed). Targets equal to the labels add no information. In the paper, the teacher sees *cropped and recoloured*
# pictures, whose label may no longer be correct; there its predictions differ from the labels.</details>
# <details><summary>C. No, it does worse: two goals disturb each other.</summary>
#
# It may come out a little lower, by chance or because a second token must be learned as well. But not for this reason:
# the two goals ask for the same class on nearly every picture.</details>


# %%
@torch.no_grad()
def answers(model, pictures):
    """What a trained model says of many pictures: logits (n, 10)."""
    return model.eval()(pictures)


def by_both(model, batch):
    """DeiT's loss: the class token answers the labels, the other the teacher's
    decisions."""
    return hard_distillation_loss(*model(batch[0]), batch[2], batch[1])


seed = SEEDS[0]
lesson = answers(cnns[seed], few_thousand[seed][0])
deit = fit(
    vit(seed, DeiT), seed, *few_thousand[seed], lesson, loss=by_both, name="DeiT"
)
agreed = (lesson.argmax(-1) == few_thousand[seed][1]).float().mean().item()
with_deit = (
    accuracy(lambda pictures: deit(pictures).probabilities(), seed) - right["ViT"][0]
)

# %% tags=["nbval-check-output"]
claim(
    "11.n",
    "training digits on which the teacher's prediction equals the label: fraction",
    agreed,
    at_least=0.95,
)
print(f"accuracy of the DeiT minus that of the ViT, one seed: {with_deit:+.3f}")

# %% [markdown] tags=["predict"]
# So we use the teacher on pictures without labels. **Five hundred** digits have a label, 3,500 more have none. The CNN is trained
# on the five hundred, in three fifths of the ViT's steps. Then it predicts all four thousand, and a ViT is trained on
# its predictions alone ($\lambda = 1$, $\tau = 2$), without any label. We compare it with a ViT trained on the five
# hundred labels, and with two controls (two seeds; one for the shuffled predictions). All Vision Transformers take the same number of steps,
# twice that of section 4:
#
# | teacher | question |
# | --- | --- |
# | the CNN | does the gap close? |
# | the ViT trained on the labels | are more pictures alone enough? |
# | the CNN, predictions shuffled over the pictures | do the predictions matter? |
#
# **Predict.** How much of the gap closes?
#
# <details><summary>A. None: a teacher with five hundred labels knows five hundred labels.</summary>
#
# Its inductive bias adds information: it generalises from them to the other pictures, and its predictions contain that.</details>
# <details><summary>B. It grows: the student copies the teacher's errors.</summary>
#
# It copies some. But 3,500 mostly correct targets outweigh them.</details>
# <details><summary>C. More than a third of it.</summary>
#
# Yes (11.q). The inductive bias of the convolutions is contained in their predictions, if there are enough of them. Whether a convolutional teacher is better than a ViT as the
# teacher, the figure shows for two seeds; that is too few for a claim.</details>


# %%
def by_teacher(model, batch):
    """Learn from the teacher's answers alone."""
    pictures, logits = batch
    return distillation_loss(
        model(pictures), logits, logits.argmax(-1), 2.0, 1.0
    ).float()


def taught(seed, lesson, name):
    """Accuracy of a ViT that learned from a lesson (4000, 10) about all pictures."""
    student = fit(
        vit(seed),
        seed,
        images[learn[seed]],
        lesson,
        loss=by_teacher,
        steps=2 * STEPS,
        name=name,
    )
    return accuracy(student, seed)


columns = (
    "ViT, labels",
    "taught by a ViT",
    "taught by convolutions",
    "convolutions, labels",
)
five_hundred = {name: [] for name in columns}
for seed in SEEDS[:2]:
    few = images[learn[seed][:500]], labels[learn[seed][:500]]
    teacher = fit(cnn(seed), seed, *few, steps=6 * STEPS // 5, lr=4e-3, name="teacher")
    alone = fit(vit(seed), seed, *few, steps=2 * STEPS, name="ViT, 500 labels")
    lesson = answers(teacher, images[learn[seed]])
    five_hundred["convolutions, labels"].append(accuracy(teacher, seed))
    five_hundred["ViT, labels"].append(accuracy(alone, seed))
    five_hundred["taught by convolutions"].append(taught(seed, lesson, "taught"))
    five_hundred["taught by a ViT"].append(
        taught(seed, answers(alone, images[learn[seed]]), "taught by a ViT")
    )
shuffled = taught(
    seed,
    lesson[torch.randperm(len(lesson), generator=torch.Generator().manual_seed(seed))],
    "shuffled",
)
show(
    plots.seeds(
        five_hundred, "accuracy on unseen digits", "500 labels, one point a seed"
    ),
    alt="Accuracy on unseen digits with 500 labels: "
    + "; ".join(
        f"{name} {', '.join(f'{share:.3f}' for share in shares)}"
        for name, shares in five_hundred.items()
    )
    + f"; taught with shuffled answers {shuffled:.2f}.",
)

# %% tags=["nbval-check-output"]
level = {name: mean(shares) for name, shares in five_hundred.items()}
gap = level["convolutions, labels"] - level["ViT, labels"]
closed = (level["taught by convolutions"] - level["ViT, labels"]) / gap
claim(
    "11.p",
    "500 labels: the convolutions lead the ViT, mean of two seeds",
    gap,
    at_least=0.01,
)
claim(
    "11.q",
    "a ViT taught by those convolutions on 3,500 more pictures without a label: share "
    "of their lead that it makes up for",
    closed,
    at_least=0.35,
)
difference = level["taught by convolutions"] - level["taught by a ViT"]
print(
    "taught by convolutions minus taught by a ViT, mean of two seeds: "
    f"{difference:+.3f}"
)
useful = level["taught by convolutions"] - shuffled
claim(
    "11.s",
    "the teacher's predictions over the same predictions shuffled: accuracy of the "
    "student, difference",
    useful,
    at_least=0.5,
)

# %% [markdown]
# ## 8 Fine-tuning a new head
#
# The other way out of few pictures is to learn from many *of another kind* first. Throw the head away, put a new one in its
# place that starts at **zero**, and train it with momentum:
#
# $$v \leftarrow \mu v + \partial L / \partial W \qquad W \leftarrow W - \eta v$$
#
# From zero, every class starts equally likely, and at the first step no gradient reaches what lies below: the body is not
# shaken by a head that knows nothing yet.
#
# | name | shape |
# | --- | --- |
# | `features`, `labels` | (n, d), (n,): all examples at once |
# | W, b; their velocities | (n_classes, d), (n_classes,); all start at 0 |
# | result | `LinearProbe(weight, bias)` after n_steps |

# %%
from jaxtyping import Int

from course_lib.blocks import zero_head
from course_lib.metrics import LinearProbe

# %% exercise="11.6" difficulty="●●○" minutes=12
from course_lib.metrics import fine_tuned_head

# %% tags=["nbval-check-output"]
fine_tuned_head = check("11.6", fine_tuned_head)

# %% [markdown] tags=["predict"]
# **Predict.** A ViT learns to tell the digits 0 to 4 apart, from more than a thousand pictures. Now the digits 5 to 9, with
# ten labels each. Which does best: a new head on its frozen body; on a body with random weights; on the pixels themselves
# (100 steps each); or the whole model trained on, head and body (40 steps)?
#
# <details><summary>A. The new head on the trained body: strokes are strokes.</summary>
#
# It beats the random body. But five digits are no ImageNet: nothing asks the body to keep more than what tells 0 to 4
# apart.</details>
# <details><summary>B. The pixels.</summary>
#
# Yes, here: an honest negative, and a reason to put the pixels beside every claim about features.</details>
# <details><summary>C. The whole model.</summary>
#
# It is what the paper does. With fifty labels and two seeds, the figure does not separate it from the head alone.</details>


# %%
def whole(model, pictures, kinds, steps=40):
    """Put a new head of zeros on a model, and train all of it by SGD with momentum
    0.9."""
    model.head = zero_head(SIZES.d_model, 5).to(device())
    optimiser = torch.optim.SGD(model.train().parameters(), lr=0.03, momentum=0.9)
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(model(pictures), kinds).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return model.eval()


def right_on_new(say, seed):
    """The accuracy on unseen digits from 5 to 9, called 0 to 4."""
    new = unseen[seed][labels[unseen[seed]] >= 5]
    with torch.no_grad():
        return (say(images[new]).argmax(-1) == labels[new] - 5).float().mean().item()


def with_new_head(body, pictures, kinds):
    """A body, frozen, with a head that you fine-tuned."""
    with torch.no_grad():
        W, b = fine_tuned_head(body(pictures).float(), kinds, 5, 0.1, 0.9, 100)
    return lambda seen: body(seen) @ W.mT.to(seen) + b.to(seen)


moved = {
    name: []
    for name in (
        "head, trained body",
        "head, random body",
        "head, pixels",
        "whole, trained",
        "whole, random",
    )
}
for seed in SEEDS[:2]:
    ours = few_thousand[seed][1] < 5
    trained = fit(
        vit(seed, n_classes=5),
        seed,
        *(part[ours] for part in few_thousand[seed]),
        steps=3 * STEPS // 5,
        name="digits 0 to 4",
    )
    chosen = torch.cat(
        [learn[seed][labels[learn[seed]] == kind][:10] for kind in range(5, 10)]
    )
    task = images[chosen], labels[chosen] - 5
    bodies = {"trained body": trained, "random body": vit(seed, n_classes=5)}
    for name, model in bodies.items():
        say = with_new_head(lambda seen, model=model: model.encoder(seen)[:, 0], *task)
        moved[f"head, {name}"].append(right_on_new(say, seed))
    moved["head, pixels"].append(right_on_new(with_new_head(nn.Flatten(), *task), seed))
    moved["whole, trained"].append(right_on_new(whole(trained, *task), seed))
    moved["whole, random"].append(
        right_on_new(whole(vit(seed, n_classes=5), *task), seed)
    )
show(
    plots.seeds(
        moved,
        "accuracy on new digits",
        "ten labels of each new digit, one point a seed",
        across={"chance": 0.2},
    ),
    alt="Accuracy on the digits 5 to 9 with ten labels each: "
    + "; ".join(
        f"{name} {', '.join(f'{share:.2f}' for share in shares)}"
        for name, shares in moved.items()
    )
    + ".",
)

# %% tags=["nbval-check-output"]
gained = {name: mean(shares) for name, shares in moved.items()}
claim(
    "11.t",
    "new digits, a new head alone: the body trained on other digits leads a random "
    "body, mean of two seeds",
    gained["head, trained body"] - gained["head, random body"],
    at_least=0.03,
)
claim(
    "11.u",
    "new digits, a new head alone: the pixels lead the body trained on other digits, "
    "mean of two seeds",
    gained["head, pixels"] - gained["head, trained body"],
    at_least=0.02,
)
tuned_whole, pretrained = (
    gained["whole, trained"] - gained[name]
    for name in ("head, trained body", "whole, random")
)
print(
    f"the whole model over the head alone: {tuned_whole:+.3f}; a trained over a random "
    f"start: {pretrained:+.3f}; mean of two seeds"
)

# %% [markdown] tags=["predict"]
# ## 9 Ablation: no positions
#
# **Predict.** No position vectors: set to 0 and never trained. What accuracy remains?
#
# <details><summary>A. About 10 %: without positions it cannot classify.</summary>
#
# It still sees sixteen pieces of stroke, and which pieces occur says a good deal about a digit.</details>
# <details><summary>B. Far more than chance, and clearly less than with positions.</summary>
#
# Yes: that much a *bag of patches* knows. It can take the jigsaw apart and shuffle it without noticing.</details>
# <details><summary>C. Nearly all: the blocks infer the positions from the content.</summary>
#
# From black squares? Many patches of a digit are empty, and all alike.</details>

# %%
seed, jigsaw = (
    SEEDS[0],
    torch.randperm(GRID * GRID, generator=torch.Generator().manual_seed(SEEDS[0])).to(
        device()
    ),
)


def shuffle_patches(pictures):
    """Deal the patches of every picture anew, all pictures alike."""
    pieces = rearrange(
        pictures, "B C (rows h) (columns w) -> B (rows columns) C h w", h=P, w=P
    )[:, jigsaw]
    return rearrange(
        pieces, "B (rows columns) C h w -> B C (rows h) (columns w)", rows=GRID
    )


bag = vit(seed, scale=0.0)
bag.encoder.positions.requires_grad_(False)
fit(bag, seed, *few_thousand[seed], name="no positions")
in_a_bag = accuracy(bag, seed)
with torch.no_grad():
    digits = images[unseen[seed]]
    unmoved = (bag(shuffle_patches(digits)) - bag(digits)).abs().max().item() / bag(
        digits
    ).abs().max().item()
dealt = [accuracy(vits[seed], seed, shuffle_patches) for seed in SEEDS]
panels = {
    "a digit": grey(shown[0]),
    "its patches dealt anew": grey(shuffle_patches(shown)[0]),
}
show(
    plots.pictures(panels),
    alt="A digit, and its sixteen patches dealt anew. Without positions the model is "
    f"right on {in_a_bag:.2f} of the digits and on as many when dealt anew; with "
    f"them on {mean(right['ViT']):.2f}, and on {mean(dealt):.2f} when dealt anew.",
)

# %% tags=["nbval-check-output"]
claim(
    "11.x",
    "without positions, dealing the patches anew changes the answer by no more than, "
    "relative",
    unmoved,
    at_most=1e-3,
)
claim(
    "11.y",
    "positions are worth, in accuracy",
    right["ViT"][0] - in_a_bag,
    at_least=0.08,
)
claim("11.z", "a bag of patches still knows: accuracy", in_a_bag, at_least=0.4)

# %% [markdown] tags=["predict"]
# ## 10 Parameters of the published models
#
# A block has $4 d^2$ weights in its attention and $2\, d\, d_{ff}$ in its network; the rest is small. Count all, and compare with
# the paper's table 1, which says nothing of the head for a thousand classes.
#
# **Predict.** In ViT-Base, $d = 768$ and $d_{ff} = 4d$. Which holds the most?
#
# <details><summary>A. The positions: 197 vectors.</summary>
#
# 0.15 million of some 86.</details>
# <details><summary>B. The attention of its twelve blocks.</summary>
#
# Half as much as the networks: $4d^2$ against $8d^2$.</details>
# <details><summary>C. The networks of its twelve blocks.</summary>
#
# Yes, two thirds of everything. The head and the matrix $E$ have less than a million each.</details>

# %%
from functools import partial

from course_lib.metrics import VIT_BASE, VIT_HUGE, VIT_LARGE, vit_parameters

published = {"Base, P = 16": 86, "Large, P = 16": 307, "Huge, P = 14": 632}
sizes = {
    "Base, P = 16": (VIT_BASE, 16),
    "Large, P = 16": (VIT_LARGE, 16),
    "Huge, P = 14": (VIT_HUGE, 14),
}
counted = {}
for name, (shape, side) in sizes.items():
    count = partial(
        vit_parameters,
        shape.d_model,
        shape.d_ff,
        shape.n_layers,
        (224 // side) ** 2,
        3 * side * side,
    )
    counted[name] = count(0) / 1e6, count(1_000) / 1e6
    print(
        f"{name:<14} published {published[name]:>4}M   without head "
        f"{counted[name][0]:7.2f}M   with {counted[name][1]:7.2f}M"
    )

# %% tags=["nbval-check-output"]
off = max(
    min(abs(ours / published[name] - 1) for ours in both)
    for name, both in counted.items()
)
ours = vit_parameters(SIZES.d_model, SIZES.d_ff, SIZES.n_layers, GRID**2, P * P, 10)
claim(
    "11.A",
    "ViT-Base, -Large and -Huge: counted parameters against table 1, largest relative "
    "difference",
    off,
    at_most=0.01,
)
same = ours == sum(theta.numel() for theta in vits[SEEDS[0]].parameters())
claim(
    "11.B",
    "the formula counts the parameters of our own model exactly",
    same,
    equals=True,
)

# %% [markdown] tags=["quiz"]
# ## 11 Exit quiz
#
# **Question 1.** You halve the side of a patch. What happens to the work of attention's weights, and to their number?
#
# <details><summary>A. Twice as much.</summary>
#
# Half the side makes four times the patches.</details>
# <details><summary>B. Four times.</summary>
#
# So many more tokens. Weights are for pairs.</details>
# <details><summary>C. Sixteen times.</summary>
#
# Right: $P^4$. The matrix $E$ meanwhile gets four times *smaller*.</details>
#
# **Question 2.** A colleague distils a large model into a small one on the large model's own training set, and gains nothing.
# What would you look at first?
#
# <details><summary>A. The temperature.</summary>
#
# Second. Where teacher and label agree with certainty, a temperature has little to make louder.</details>
# <details><summary>B. How often the teacher's answer differs from the label there.</summary>
#
# Right: 11.n. Then give it pictures on which it can say something: augmented ones, or ones without a label.</details>
# <details><summary>C. The student's size.</summary>
#
# It sets a ceiling. But first ask whether there was anything to learn.</details>
#
# **Question 3.** Why does a new head start at zero and not at random?
#
# <details><summary>A. Zero is the best solution.</summary>
#
# It is the most ignorant: all classes equally likely.</details>
# <details><summary>B. A random head would send random gradients into a good body.</summary>
#
# Right: from zero, the first step moves the head alone.</details>
# <details><summary>C. Random heads do not train.</summary>
#
# They do. They only shake the body first.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *Your company has 3,000 labelled photographs of parts, 100,000 without a label, and a
# colleague who wants a Vision Transformer. What do you propose, and which three numbers would you measure before deciding?*
#
# | points | criterion |
# | --- | --- |
# | 1 | names a convolutional baseline at equal effort, and explains why it may win |
# | 1 | uses the pictures without a label: a teacher, or a body trained on many pictures elsewhere |
# | 1 | names a control: a teacher of the student's kind, shuffled answers, a random body, bare pixels |
# | 1 | says what the digits of this lecture cannot tell about photographs |
# | 1 | is clear and short |

# %% [markdown] tags=["companion"]
# ## 12 Summary and sources
#
# **Where the decks, the papers and the code part ways**, each by a number:
#
# - *IT*, on ViT: "It was published in early December 2020 (implementation)." The paper appeared on arXiv on 22 October 2020 (2010.11929).
# - *IT*: "Deit improvement of ViT from Facebook greatly simplified training and inference." Training, yes: no external pictures. Inference is unchanged, apart from one
#   more token and, in the distilled form, a second head (11.IT-DeiT).
# - *CS* orders a patch as (p1 p2 c), channels last, in its code of the Mixer; a convolution's weights lie as (c p1 p2). For grey
#   pictures it is the same, for colours a matrix $E$ of one does not fit the other.
# - *CS*: fine-tuning replaces the head and tunes "its parameters". In the paper *all* weights are tuned.
# - *DeiT*, eq. 2 writes KL(student, teacher); its code computes KL(teacher ‖ student), as Hinton's paper has it. They are not
#   the same.
#
# **What this lecture does not show.** The paper's own claim, that with enough pictures the Vision Transformer wins, needs
# hundreds of millions of them. Nor that pre-training pays: five digits taught it less than the pixels know (11.u). And a gap on
# digits is a gap on digits.
#
# **Papers.** Dosovitskiy et al. 2021, *An Image is Worth 16x16 Words*, eqs. 1-4, section 3.2, table 1
# (https://arxiv.org/abs/2010.11929) · Touvron et al. 2021, *DeiT*, eqs. 2-3 (https://arxiv.org/abs/2012.12877) · Hinton,
# Vinyals, Dean 2015, *Distilling the Knowledge*, section 2 (https://arxiv.org/abs/1503.02531) · Abnar, Zuidema 2020,
# *Quantifying Attention Flow*, eq. 1 (https://arxiv.org/abs/2005.00928).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | CS | Vision Transformer | 2 Patches as tokens | `course_lib.models.ViT`, `course_lib.primitives.patchify` |
# | CS | Vision Transformer Training and Finetuning | 8 Fine-tuning a new head | `course_lib.blocks.zero_head`, `course_lib.metrics.fine_tuned_head` |
# | IT | ViT model | 4 ViT and CNN on 2,500 pictures | `course_lib.models.ViT`, `course_lib.models.DeiT`, `course_lib.losses.distillation_loss` |

# %% tags=["nbval-check-output"]
base = (VIT_BASE.d_model, VIT_BASE.d_ff, VIT_BASE.n_layers, 196, 768)
more = vit_parameters(*base, 1_000, n_learned=2) - vit_parameters(*base, 1_000)
claim(
    "11.IT-DeiT",
    "parameters that a distilled DeiT-Base has beyond a ViT-Base: token, position and "
    "head",
    more,
    equals=2 * 768 + 769_000,
)


def channels_last(pictures, P):
    """Patches in the order of the deck's code."""
    return rearrange(pictures, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=P, p2=P)


pair = photograph, photograph[:, :1]
equal = [
    torch.equal(channels_last(pictures, 24), patchify(pictures, 24).to(pictures))
    for pictures in pair
]
claim(
    "11.CS",
    "the deck's order within a patch is the convolution's: for colours, for grey",
    equal,
    equals=[False, True],
)
sure, torn = torch.tensor([0.9, 0.1]), torch.tensor([0.5, 0.5])
both_ways = [
    round((p * (p / q).log()).sum().item(), 2) for p, q in ((sure, torn), (torn, sure))
]
claim(
    "11.DeiT",
    "a sure teacher and a torn student: KL(teacher ‖ student), KL(student ‖ teacher)",
    both_ways,
    equals=[0.37, 0.51],
)

# %% tags=["ledger"]
ledger()
