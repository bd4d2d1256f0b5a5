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
# A Vision Transformer cuts a picture into square patches and treats them as the tokens of a text.
#
# You will write patches and their embedding, train a Vision Transformer around your own functions to read the legend of a map,
# hide a cell from it, compare it with convolutions, and repair a run.
#
# **Prerequisites:** lectures 04 (self-attention) and 05 (blocks and positions), and the basics of convolutional networks.
# **Time:** {minutes}. {measured}
#
# ![](diagram:vit)

# %%
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.analysis import record, rollout
from course_lib.attention import attend, scaled_dot_product_attention
from course_lib.blocks import Sizes, encoder_stack, pre_norm
from course_lib.datasets import photographs, resize
from course_lib.losses import distillation_loss
from course_lib.losses.distillation import ClassLogits, Labels
from course_lib.metrics import LinearProbe, fine_tuned_head
from course_lib.primitives import embed_patches, interpolate_positions, patchify
from course_lib.primitives import unpatchify
from course_lib.primitives.patches import Patches
from course_lib.shapes import Image
from course_lib.training import batches, train
from course_tools.bank.drawn_maps import draw_maps, draw_maps_with_pins
from course_tools.lectures.lecture_11 import figures, rivals
from course_tools.lectures.lecture_11.looks import looks_of
from course_tools.notebook import check, claim, device, digit_split, explore, ledger
from course_tools.notebook import predict, progress, recorded, source
from course_tools.notebook.authorship import whose
from course_tools.notebook.digit_vit import small_cnn, small_vit
from course_tools.notebook.classifier import accuracy_of, classify
from course_tools.notebook.seed_scores import show_seeds
from course_tools.notebook.training_curve import show_recorded_losses

# %% [markdown]
# ## 1 Two questions about a map
#
# Each picture below is a map in colour, 48 × 48 pixels in sixteen cells: over a crop of a photograph lie a round pin and the
# four *entries* of a legend, coloured squares with a white symbol each. We ask two questions:
#
# - **beside**: which symbol is on the square to the right of the pin?
# - **colour**: which symbol is on the square of the pin's colour, wherever that square is?
#
# Above each map stand both answers, *beside / colour*. (Photographs: `china.jpg` by danielbuechele and `flower.jpg` by
# vultilion, [CC BY 2.0](https://creativecommons.org/licenses/by/2.0/), scaled down.)

# %%
source(draw_maps)
known = draw_maps(6_144, seed=0, device=device())
unseen = draw_maps(1_000, seed=1, unseen=True, device=device())
figures.show_maps(known)

# %% [markdown] tags=["predict"]
# Both questions have eight answers.
#
# **Predict.** A network recognises the symbols, and cannot tell which is on which colour. How often does it answer the second
# question correctly, at best?
#
# <details><summary>A. One time in eight.</summary>
#
# It can do better than a blind guess: it knows which four symbols occur.</details>
# <details><summary>B. One time in four.</summary>
#
# Yes: it chooses one of the four symbols in the map. This *bag of symbols* is a dashed line in later figures.</details>
# <details><summary>C. One time in two.</summary>
#
# For that it would have to exclude two of the four.</details>

# %% [markdown]
# The usual network for pictures comes first: three convolutions of 3 × 3, with steps of 3, 2 and 2 pixels, so that the last
# one sees windows of 21 × 21; then for each feature its largest value in the map, then a linear layer. `learn` is the loop of
# the whole lecture: Adam, batches of 64, a rate that rises for a tenth of the updates and then falls linearly, clipped at 1.


# %%
def loss_of(model, batch):
    """The cross-entropy of the answers, in nats; pixels are scaled to -2…2."""
    images, answers = batch
    return F.cross_entropy(model(4 * images - 2), answers)


def known_maps(answers):
    """Yield endless batches of 64 known maps with the answers to one question."""
    return batches(known.images, answers, batch_size=64, seed=0)


def learn(model, stream, steps=600, lr=2e-3, loss=loss_of):
    """Train a model on a stream of batches; return the loss of each update."""
    run = train(model, stream, loss, steps=steps, lr=lr, warmup=steps // 10)
    losses = []
    for step in progress(run, "training", total=steps):
        losses.append(step.loss)
    return losses


@torch.no_grad()
def answered(model, images):
    """The answers (n,) of a trained model."""
    return model.eval()(4 * images - 2).argmax(-1)


def share(model, answers, where=...):
    """The share of right answers about the unseen maps, or about some of them."""
    return (answered(model, unseen.images) == answers)[where].float().mean().item()


down = unseen.pin // 4 - unseen.entry // 4
along = unseen.pin % 4 - unseen.entry % 4
far = torch.maximum(down.abs(), along.abs()) > 1  # pin and entry do not touch


source(rivals.convolutions)
torch.manual_seed(0)
cnn = rivals.convolutions().to(device())
beside_losses = [learn(cnn, known_maps(known.beside), steps=200, lr=4e-3)]
cnn_beside = share(cnn, unseen.beside)
cnn = rivals.convolutions().to(device())
cnn_losses = [learn(cnn, known_maps(known.colour), lr=4e-3)]
cnn_near, cnn_far = (share(cnn, unseen.colour, where) for where in (~far, far))
curves = {"beside": beside_losses, "colour": cnn_losses}
show_recorded_losses(curves, "cross-entropy, nats", {"a guess": 2.08})

# %% tags=["nbval-check-output"]
claim("11.cnn", beside=cnn_beside, near=cnn_near, far=cnn_far)

# %% [markdown]
# The first question is *local*: a window of 21 pixels shows most of two neighbouring cells, pin and symbol. The second is a
# *relation between two places*. Where the two touch, a window shows both, and the network learns to compare them; elsewhere no
# window does. The pooling keeps *that* there is a heart on green, and *that* there is a green pin, and a linear layer adds such
# facts up; but neither alone speaks for the heart. We need a layer in which each place can look at every other and compare.
#
# ## 2 Patches as tokens
#
# Self-attention is such a layer, and pixels could be its tokens (lecture 04). But a usual picture has 224 × 224 pixels: 50,176
# tokens, and 2.5 billion weights in each head of each layer.

# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). Instead of each pixel, each *square* of 16 × 16 pixels becomes a token. By what factor does the
# number of attention weights decrease?
#
# <details><summary>65,536</summary>
#
# That is $P^4$: $P^2 = 256$ times fewer queries, each with 256 times fewer keys.</details>
# <details><summary>16</summary>
#
# The side of a square is 16 pixels, but a square has two dimensions.</details>
# <details><summary>256</summary>
#
# There are that many fewer *tokens*. But each weight belongs to a pair of tokens.</details>

# %% [markdown]
# **By hand.** A grey picture of 4 × 4 pixels holds the numbers 0 to 15, row by row. With $P = 2$ it has four patches. Each is
# written as one vector and multiplied by the same matrix $E$, here a single row (0, 0, 1, 10):

# %%
figures.show_numbered_patches()

# %% [markdown]
# In general, with $C$ channels and patches of $P \times P$ pixels:
#
# $$x \in \mathbb R^{C \times H \times W} \;\to\; x_p \in \mathbb R^{N \times C P^2} \qquad N = HW / P^2$$
#
# The patches are ordered row by row from the top left. Within a patch, all values of the first channel come first, row by row,
# then those of the next channel. This is the memory order of convolution weights.
#
# | name | shape |
# | --- | --- |
# | `images` | (B, C, H, W); H and W may differ |
# | patches | (B, N, C · P²) |

# %% exercise="11.1" difficulty="●○○" minutes=8
from course_lib.primitives import patchify

# %% tags=["nbval-check-output"]
patchify = check("11.1", patchify)

# %% [markdown]
# **Bug hunt.** The version below raises no error, and its patches have the right shape. Look at the figure before you run the
# check.

# %% exercise="11.1" bug="takes_pixels_far_apart"
from course_tools.bank.lecture_11.patchify import takes_pixels_far_apart as suspect

# %%
photograph = photographs((96, 144))[:1].float().clamp(0, 1)
figures.show_patches(suspect, photograph, 24, "the suspect's patches")

# %% [markdown] tags=["predict"]
# **What does each of its patches contain?**
#
# <details><summary>A. Pixels that are far apart: every n-th of each row and column.</summary>
#
# Yes: the pattern has `(P_1 r)` where it should have `(r P_1)`. The axis named first is the one that varies slowest.</details>
# <details><summary>B. A square, but of the image rotated by a quarter turn.</summary>
#
# Then neighbouring pixels would still be neighbours. Here each patch shows the whole image.</details>
# <details><summary>C. A band of whole rows.</summary>
#
# That is the result of a plain `reshape`, another frequent mistake.</details>

# %% tags=["nbval-check-output"]
suspect = check("11.1", suspect)

# %% [markdown]
# One matrix for all patches *is* a convolution, with kernel size and stride $P$. The next cell is silent if both forms agree.

# %%
picture, row = torch.arange(16.0).view(1, 1, 4, 4), torch.tensor([0.0, 0.0, 1.0, 10.0])
assert (patchify(picture, 2).float() @ row).tolist() == [[54, 76, 142, 164]]

E, b = torch.randn(11, 3, 24, 24), torch.randn(11)
by_product = patchify(photograph, 24).float() @ E.flatten(1).mT + b
by_sliding = F.conv2d(photograph, E, b, stride=24).flatten(2).mT
torch.testing.assert_close(by_product, by_sliding, atol=1e-3, rtol=1e-3)

# %% [markdown]
# ## 3 Class token and positions
#
# Which token represents the whole picture? ViT adds a **class token**: one more learned vector, the same for every picture. It
# precedes the patches, attends to them in every layer, and a linear head classifies its output. Attention treats its tokens as a set, so a learned **position** vector is
# added to every token (Dosovitskiy et al., eq. 1):
#
# $$z_0 = [x_\mathrm{class};\, x_p^1 E;\, \dots;\, x_p^N E] + E_\mathrm{pos}$$
#
# | name | shape |
# | --- | --- |
# | `patches` | (B, N, d_patch) |
# | `E`, `b` | (d_model, d_patch), (d_model,): stored as `nn.Linear` does |
# | `learned` | (n_learned, d_model): ViT has one such token, other models more |
# | `positions` | (n_learned + N, d_model), for *all* tokens |
# | tokens | (B, n_learned + N, d_model) |

# %% exercise="11.2" difficulty="●●○" minutes=10
from course_lib.primitives import embed_patches

# %% tags=["nbval-check-output"]
embed_patches = check("11.2", embed_patches)

# %% [markdown]
# ## 4 The Vision Transformer
#
# The rest is the encoder of lecture 05: pre-norm blocks, GELU, and one norm at the end. `MapReader` is all of it, around your
# two functions. With $P = 12$ each patch is one of the sixteen cells.


# %%
class MapReader(nn.Module):
    """A Vision Transformer: patches, class token and positions, blocks, a head."""

    def __init__(
        self, mechanism=scaled_dot_product_attention, P=12, n_patches=16, d=64
    ):
        super().__init__()
        self.P, sizes = P, Sizes(d, n_heads=4, d_ff=2 * d, n_layers=2)
        self.project = nn.Linear(3 * P * P, d)
        self.learned = nn.Parameter(0.5 * torch.randn(1, d))
        self.positions = nn.Parameter(0.5 * torch.randn(1 + n_patches, d))
        self.stack = encoder_stack(sizes, mechanism, F.gelu, residual=pre_norm)
        self.head = nn.Linear(d, 8)

    def tokens(self, images):  # (B, 3, H, W) -> (B, 1 + N, d)
        patches = patchify(images, self.P).to(images)
        E, b = self.project.weight, self.project.bias
        return embed_patches(patches, E, b, self.learned, self.positions).to(images)

    def forward(self, images):
        return self.head(self.stack(self.tokens(images))[:, 0])


torch.manual_seed(0)
vit = MapReader().to(device())
vit_losses = learn(vit, known_maps(known.colour))
vit_colour, vit_far = (share(vit, unseen.colour, where) for where in (..., far))

# %% [markdown] tags=["try-it"]
# The fairest rivals have about as many weights (79,000 to 98,000), maps and updates: convolutions whose field covers the whole map,
# with a hidden layer after the pooling; cells that are compared with a *summary* of the map, the largest value of each feature; and a
# hidden layer over all pixels. One has no weights: it answers as for the known map whose pixels are nearest.
#
# **Try it.** Before you run the cell: which of them can use at other places what it has learned about a pin and an entry?
#
# <details><summary>Solution</summary>
#
# The summary; convolutions in part, at the same distance.</details>

# %%
source(rivals.convolutions_that_see_all)
torch.manual_seed(0)
wide = rivals.convolutions_that_see_all().to(device())
summary, dense = (
    rivals.MapSummary().to(device()),
    rivals.network_of_pixels().to(device()),
)
curves = {"ViT": [vit_losses], "convolutions": cnn_losses}
curves["convolutions that see all"] = [learn(wide, known_maps(known.colour))]
curves["summary"] = [learn(summary, known_maps(known.colour))]
curves["network of pixels"] = [learn(dense, known_maps(known.colour), lr=4e-3)]
show_recorded_losses(curves, "cross-entropy, nats", {"a bag of symbols": 1.386})

# %%
nearest = rivals.nearest_known(known.images, known.colour, unseen.images)
right = {"ViT": [vit_far], "convolutions": [cnn_far]}
right["see all"] = [share(wide, unseen.colour, far)]
right["summary"] = [share(summary, unseen.colour, far)]
right["pixels"] = [share(dense, unseen.colour, far)]
right["nearest map"] = [(nearest == unseen.colour)[far].float().mean().item()]
show_seeds(right, "right answers", "pin and entry apart", {"a bag of symbols": 0.25})

# %% [markdown]
# The summary does as well: there is *one* pin, with which all cells are compared. So take six entries, and five pins in the colours of
# five of them. **Which symbol has no pin?** Now each entry has to be compared with all pins. Recorded, with new maps in every update:

# %%
figures.show_pins(*draw_maps_with_pins(3, seed=0))
pins = recorded("11_pins")
figures.show_answers(pins, "no pin", chance=1 / 6)

# %% tags=["nbval-check-output"]
claim(
    "11.vit",
    vit=vit_far,
    summary=right["summary"][0],
    best=max(right[name][0] for name in ("convolutions", "see all", "pixels")),
    nearest=right["nearest map"][0],
    pins=pins.scores("ViT, no pin", "right"),
    then=[run.curve[2_400] for run in pins.of("summary, no pin")],
    of_summary=pins.scores("summary, no pin", "right"),
    of_convolutions=pins.scores("convolutions that see all, no pin", "right"),
)

# %% [markdown]
# **Attention compares many places with many others, wherever they are**: any two tokens meet in one layer. Convolutions hardly learn it;
# the summary does, with twice as many updates, each in half the time.

# %% [markdown] tags=["predict"]
# ## 5 Where it looks
#
# The class token must find the entry of the pin's colour.
#
# **Predict.** How many layers of this width does that take?
#
# <details><summary>A. One: the class token sees all patches at once.</summary>
#
# In the first layer it is the same vector for every map. Its query cannot ask for the colour of *this* pin, and what it adds up of
# all patches hardly tells which agree.</details>
# <details><summary>B. Four, one for each entry.</summary>
#
# All tokens have their own queries in the same layer, so all comparisons are made at once.</details>
# <details><summary>C. Two: one to compare pin and entries, one to read the entry that agrees.</summary>
#
# Yes. After the first layer a token can know something about another.</details>

# %% [markdown]
# Two layers suffice. In layer 1 every entry reads the pin, whatever its own colour, and the
# feed-forward network compares the two colours. In layer 2 the class token reads the entry that agrees. The figure shows
# both for an unseen map.


# %% tags=["cover"]
@torch.no_grad()
def weights_on_patches(model, images):
    """How much every token takes from the patches (layers, n, h, 1 + N, N)."""
    with record(model) as seen:
        model.eval()(4 * images - 2)
    return torch.stack([calls[0].weights for calls in seen.values()])[..., 1:]


source(looks_of)
looks = looks_of(weights_on_patches(vit, unseen.images), unseen)
replies = answered(vit, unseen.images)


def draw_map(number=2):
    """Show an unseen map, who looks at its pin, and the answer."""
    grids = {
        "layer 1: each cell to the pin": looks.to_pin[number],
        "layer 2: class token to each": looks.of_class[number],
    }
    figures.show_where(unseen, number, grids, replies[number].item())


draw_map()
print("wrong:", (replies != unseen.colour).nonzero()[:8, 0].tolist())


# %% [markdown]
# A weight does not show whether the answer needs it. So one cell is hidden from all other tokens, in one layer only. Write the mask:
#
# | name | shape |
# | --- | --- |
# | `hidden` | (B,): the number of the hidden token in each example |
# | mask | (B, n_tokens, n_tokens), True = may attend; the hidden token still sees all |

# %% exercise="11.8" difficulty="●●○" minutes=5
from course_tools.bank.lecture_11.hiding_mask import hiding_mask

# %% tags=["nbval-check-output"]
hiding_mask = check("11.8", hiding_mask)


# %%
@torch.no_grad()
def right_if_hidden(cell, layer):
    """The share of right answers if one layer hides a cell from other tokens."""
    x, mask = vit.tokens(4 * unseen.images - 2), hiding_mask(1 + cell, 17)
    for number, block in enumerate(vit.stack.blocks, start=1):
        x = block(x, mask) if number == layer else block(x)
    found = vit.head(vit.stack.closing(x)[:, 0]).argmax(-1)
    return (found == unseen.colour).float().mean().item()


# %% tags=["nbval-check-output"]
first, second = (right_if_hidden(unseen.pin, layer) for layer in (1, 2))
answer = right_if_hidden(unseen.entry, 2)
claim(
    "11.looks",
    pin=looks.at_pin,
    entry=looks.at_entry,
    first=first,
    second=second,
    answer=answer,
)

# %% [markdown]
# Without the pin in layer 1, a bag of symbols is left. In layer 2 nothing is lost: the entries know the pin's colour by then, and
# what is needed is the entry that agrees.

# %% [markdown] tags=["interactive"]
# **Explore.** Look at other unseen maps, and at those with a wrong answer, whose numbers are printed above.

# %% tags=["interactive"]
explore(draw_map, number=(0, 999, 1))

# %% [markdown] tags=["predict"]
# ## 6 What positions are for
#
# Now the cells of every unseen map change places at random. The same Vision Transformer is asked about
# the pin's colour.
#
# **Predict.** How many of its answers stay right?
#
# <details><summary>A. Nearly as many as before.</summary>
#
# Yes: the question is about a *set* of patches, and attention lets any two of them meet, wherever they are.</details>
# <details><summary>B. One in eight: its positions no longer fit.</summary>
#
# Each position vector is still added to the patch that is now there. The pin and the entries could be anywhere before,
# too.</details>
# <details><summary>C. About one in four: it finds the symbols, and not the one of the right colour.</summary>
#
# That would be so if it compared the colours of neighbouring cells only. In attention all pairs meet.</details>


# %%
def shuffle_cells(images):
    """Permute the sixteen cells of each map at random."""
    cells = patchify(images, 12).to(images)
    order = torch.rand(cells.shape[:2]).argsort(1).to(images.device)
    mixed = cells.gather(1, order[..., None].expand_as(cells))
    return unpatchify(mixed, 12, *images.shape[-2:])


torch.manual_seed(0)
mixed_maps = shuffle_cells(unseen.images)
in_pieces = (answered(vit, mixed_maps) == unseen.colour).float().mean().item()

# %% tags=["nbval-check-output"]
claim("11.pieces", whole=vit_colour, pieces=in_pieces)

# %% [markdown] tags=["predict"]
# The other question, *beside*, is about places. We shall train the Vision Transformer on it, with position vectors and
# without, and on *colour* without them.
#
# **Predict a number** (within 1). What percentage of the questions *beside* can a Vision Transformer without position vectors
# answer, at best?
#
# <details><summary>25</summary>
#
# Without positions a map is a *set* of patches. It shows which four symbols there are, and nothing tells which of them is to the
# right of the pin.</details>
# <details><summary>12.5</summary>
#
# That is one symbol of eight. But it sees which four symbols are on the map.</details>
# <details><summary>100</summary>
#
# It can compare what any two patches show. Where they lie, no patch shows.</details>


# %% [markdown] tags=["predict"]
# A position vector names a *place*. Another kind of positions names the *offset* between two: the score of query and key gets
# one more learned number, the same wherever the two cells have as many rows and columns between them: 7 × 7 numbers a layer.
#
# **Predict.** With these numbers beside the position vectors: how often does the model answer *beside* correctly?
#
# <details><summary>A. One time in four.</summary>
#
# That is for a set. Now the scores of a neighbour and of a distant cell differ.</details>
# <details><summary>B. As often as with position vectors alone: they already tell all places apart.</summary>
#
# They do, but have to learn for each of twelve pairs of places that these are neighbours.</details>
# <details><summary>C. Nearly always.</summary>
#
# Yes: "one to the left" is a single number, which every pair of neighbours trains.</details>


# %%
class Offsets(nn.Module):
    """Attention whose scores get a learned number for each offset of two cells."""

    def __init__(self, side=4):
        super().__init__()
        self.number = nn.Parameter(torch.zeros(2 * side - 1, 2 * side - 1))
        cells = torch.cartesian_prod(*[torch.arange(side)] * 2)  # (16, 2)
        self.offset = (cells - cells[:, None] + side - 1).unbind(-1)  # down, right

    def forward(self, q, k, v, mask=None):
        extra = F.pad(self.number[self.offset], (1, 0, 1, 0))  # class token: none
        return attend(q @ k.mT / q.shape[-1] ** 0.5 + extra, v, mask)


def new_reader(question, with_positions=True, **kind):
    """Train a map reader on one question; return it with its share of right answers."""
    torch.manual_seed(0)
    model = MapReader(**kind).to(device())
    if not with_positions:
        model.positions.requires_grad_(False).zero_()
    learn(model, known_maps(getattr(known, question)))
    return model, share(model, getattr(unseen, question))


by_offset, offsets = new_reader("beside", mechanism=Offsets())
right = {
    "beside: convolutions": [cnn_beside],
    "beside: ViT": [new_reader("beside")[1]],
    "beside: ViT, no positions": [new_reader("beside", with_positions=False)[1]],
    "beside: ViT, offsets": [offsets],
    "colour: ViT": [vit_colour],
    "colour: ViT, no positions": [new_reader("colour", with_positions=False)[1]],
}
show_seeds(right, "right answers", "unseen maps", {"a bag of symbols": 0.25})
figures.show_offsets(by_offset.stack.blocks[0].mixer.attention.mechanism.number)

# %% tags=["nbval-check-output"]
(cnn,), (vit_next,), (none,), *_, (colour,) = right.values()
claim("11.next", cnn=cnn, vit=vit_next, offsets=offsets, colour=colour, none=none)

# %% [markdown]
# The largest of the 49 numbers of layer 1 is that of the cell to the left: each entry asks whether the pin is there. **What
# the Vision Transformer lacks here is one weight that all pairs of neighbours share**, as in a convolution. Position vectors
# learn it for every pair anew; with new maps in each of 2,400 updates, 0.35 of the answers are
# right (recorded).
#
# Can position vectors find out which patches are neighbours? Yes, if every place teaches it at once. A masked auto-encoder (lecture
# 16) paints hidden patches of photographs, so it pays to look nearby. Each panel shows the cosines of one of its learned vectors
# with those of all 64 places.

# %%
places = recorded("11_positions")
figures.show_places(places)

# %% tags=["nbval-check-output"]
hidden_patches = "three quarters hidden"
claim(
    "11.places",
    near=places.scores(hidden_patches, "neighbours"),
    far=places.scores(hidden_patches, "far apart"),
    start=[run.curve[1] for run in places.of(hidden_patches)],
)

# %% [markdown] tags=["predict"]
# ## 7 Few pictures
#
# What convolutions have built in, a Vision Transformer must learn: the paper's models need more pictures than ImageNet to lead. The
# recorded study trains a ViT and two CNNs with as many weights on 250 to 4,000 handwritten digits, each with its best rate of
# four. One CNN keeps the largest value of each feature over all places, the other keeps all values.
#
# **Predict.** Which network is best on a few hundred digits?
#
# <details><summary>A. The Vision Transformer: it can look anywhere.</summary>
#
# It must first learn which patches are neighbours.</details>
# <details><summary>B. The CNN that keeps all positions.</summary>
#
# Yes: neighbourhood is built in, and its head knows where each feature is. The other CNN takes the largest value over all
# places: it forgets where a stroke is, and with 250 digits it is behind the Vision Transformer.</details>
# <details><summary>C. All are level: they have as many weights and the same pictures.</summary>
#
# As many weights are not the same assumptions.</details>

# %%
study = recorded("11_pictures")
figures.show_few_pictures(study)

# %% tags=["guard", "nbval-check-output"]
few, many = (
    {
        kind: study.scores(f"{kind}, {n} pictures", "accuracy")
        for kind in ("ViT", "CNN", "CNN, all positions")
    }
    for n in ("250", "4,000")
)
claim(
    "11.few",
    vit=few["ViT"],
    cnn=few["CNN, all positions"],
    pooled=few["CNN"],
    vit_many=many["ViT"],
    cnn_many=many["CNN, all positions"],
)

# %% [markdown]
# A digit needs no relation between distant places: the label of the nearest of 4,000 known digits is right in 0.94 to 0.95, about as
# often as the Vision Transformer. For few pictures with local patterns, choose convolutions, or a linear head on a Vision Transformer that
# was trained on very many.

# %% [markdown] tags=["try-it"]
# ## 8 Build it: repair a run
#
# **Build task (25 minutes, 12 points).** The code below trains a Vision Transformer to answer *colour*, but its model only guesses:
# we planted three faults. Run the check first: it names the faults that it can prove; one may hide another.

# %% exercise="11.7" bug="three_faults"
from course_tools.bank.lecture_11.repair_vit import three_faults as suspect

# %% tags=["nbval-check-output"]
suspect = check("11.7", suspect)

# %% [markdown]
# Write a repaired version of this training run, and reuse whatever is correct. The check calls `repair_vit(images, labels,
# n_classes, n_steps)` once, with 3,000 maps, sorted by their labels, and `n_steps=1000`. It asks the returned model about 500
# unseen maps. It has 60 seconds; ten are enough.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model maps images (B, 3, 48, 48) to logits (B, n_classes) |
# | 1 | at most `n_steps` updates and at most 200,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the loss falls by a tenth, or the line before the last holds |
# | 1 | the returned model gives the same logits for the same image |
# | 1 | the logits of one image do not depend on the other images of the batch |
# | 1 | patches are squares without overlap, and each influences the logits |
# | 1 | the logits depend on *where* a patch is, as in every Vision Transformer |
# | 2 | the influence of a patch depends on what the other patches show, as it does with attention |
# | 1 | loss on unseen maps: 1 nat below that of a guess, which is 2.1 nats; a bag of symbols has 1.4 |
# | 1 | where pin and entry do not touch, 0.6 of the answers are right; a bag of symbols, and convolutions that see all, have 0.25 |

# %% exercise="11.7" difficulty="●●○" minutes=25
from course_tools.bank.lecture_11.repair_vit import repair_vit

# %% tags=["nbval-check-output"]
repair_vit = check("11.7", repair_vit)

# %% [markdown]
# The next cell trains your model again, and shows the six unseen maps to whose symbol it gives the least probability; *it says*
# marks a wrong answer.

# %%
torch.manual_seed(0)
repaired = repair_vit(known.images[:3_000].cpu(), known.colour[:3_000].cpu(), 8, 1_000)
with torch.no_grad():
    odds = repaired(unseen.images.cpu()).softmax(-1)
figures.show_hardest(unseen, odds, f"{whose(repair_vit)} model")

# %% [markdown] tags=["quiz"]
# ## 9 Exit quiz
#
# **Question 1.** You halve the side of a patch. What happens to the number of attention weights?
#
# <details><summary>A. Twice as much.</summary>
#
# Half the side gives four times as many patches.</details>
# <details><summary>B. Four times.</summary>
#
# There are four times as many tokens. But each weight belongs to a pair of tokens.</details>
# <details><summary>C. Sixteen times.</summary>
#
# Right: it grows with $1/P^4$. The matrix $E$, in contrast, becomes four times *smaller*.</details>
#
# **Question 2.** One fixed permutation shuffles the patches of every picture, in training and afterwards. Whose accuracy
# changes?
#
# <details><summary>A. The convolutional network's.</summary>
#
# Right: its windows now hold pixels that do not belong together. For the Vision Transformer the permutation only renumbers the
# positions.</details>
# <details><summary>B. The Vision Transformer's: its positions are then wrong.</summary>
#
# They are learned. Position 3 belongs to another place of the picture, and to the same one in every picture.</details>
# <details><summary>C. Both, equally.</summary>
#
# Only one of them assumes which pixels are neighbours.</details>
#
# **Question 3.** In a trained Vision Transformer you exchange two patches of a picture, and also their two position vectors.
# What happens to the logits?
#
# <details><summary>A. They change a little.</summary>
#
# Compare the tokens before and after: each is a patch plus its position.</details>
# <details><summary>B. They stay the same.</summary>
#
# Right: the tokens are the same set, in another order, and the class token does not depend on the order.</details>
# <details><summary>C. They change as if the two patches had changed places.</summary>
#
# That would be so if only the patches were exchanged.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *Your company has 3,000 labelled photographs of parts, 100,000 without a label, and a
# colleague who wants a Vision Transformer. What do you propose, and which three numbers would you measure before deciding?*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | names a convolutional baseline with the same budget, and explains why it may win |
# | 1 | uses the images without a label, or a body that was trained on many images elsewhere |
# | 1 | asks whether the label depends on relations between distant places |
# | 1 | names a control: nearest neighbours on pixels, shuffled patches, a random body |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 10 What came of it
#
# - **Fewer pictures.** DeiT (Touvron et al. 2021, https://arxiv.org/abs/2012.12877) trains on ImageNet alone, with strong
#   augmentation and a convolutional teacher.
# - **Pictures and words.** CLIP (Radford et al. 2021, https://arxiv.org/abs/2103.00020) trains a ViT with a text encoder; language
#   models that see read its patch tokens as words.
# - **Positions.** DINOv3 (Siméoni et al. 2025, https://arxiv.org/abs/2508.10104) rotates queries and keys (lecture 05), half of
#   the pairs by the row, half by the column: offsets again.
#
# **Further reading.** Dosovitskiy et al. 2021, *An Image is Worth 16x16 Words*, eqs. 1-4 and section 4.3
# (https://arxiv.org/abs/2010.11929).

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each stands alone once the core has run, and their exercises are extra points.

# %% [markdown]
# ## Attention rollout
#
# In the last layer, the class token attends to tokens that are themselves mixtures of tokens. Abnar and Zuidema trace these
# mixtures back to the inputs. They model each layer as half identity (the residual connection) and half attention, averaged
# over the heads, and multiply the layers:
#
# $$A_l = \tfrac12 \bar W_l + \tfrac12 I \qquad \tilde A_l = A_l\, \tilde A_{l-1} \qquad \tilde A_0 = I$$
#
# It is a heuristic, not a gradient: it ignores values, feed-forward networks and norms.
#
# | name | shape |
# | --- | --- |
# | `weights` | (n_layers, …, h, T, T), from the first layer to the last |
# | rollout | (…, T, T): row $i$ holds the contribution of each input to output $i$ |

# %% exercise="11.3" difficulty="●●○" minutes=8
from course_lib.analysis import rollout

# %% tags=["nbval-check-output"]
rollout = check("11.3", rollout)

# %% [markdown]
# On maps we know which cells matter: the pin, and the entry of its colour. Are these the two cells with the largest rollout for
# the class token of the map reader? Two random cells would be right in one map of 120.


# %%
@torch.no_grad()
def followed(model, images):
    """What the class token takes from each patch (n, N), by your rollout."""
    with record(model) as seen:
        model.eval()(4 * images - 2)
    layers = torch.stack([calls[0].weights for calls in seen.values()])
    return rollout(layers)[:, 0, 1:].to(images)


flows = followed(vit, unseen.images)
answer = answered(vit, unseen.images[2:3]).item()
figures.show_where(unseen, 2, {"rollout": flows[2]}, answer, "rollout")
largest = flows.topk(2).indices.sort(-1).values
relevant = torch.stack([unseen.pin, unseen.entry], -1).sort(-1).values

# %% tags=["nbval-check-output"]
claim("11.rollout", both=(largest == relevant).all(-1).float().mean())

# %% [markdown]
# ## Changing the resolution
#
# Nothing in a block depends on the number of tokens. A larger image is a longer sequence, and only the position vectors do not
# fit. Treat those of the patches as an *image* with d_model channels and resize it by bicubic interpolation; that of the class
# token stays the same:
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

# %% [markdown]
# A Vision Transformer reads digits of 28 × 28 pixels, in patches of 7 × 7. Now they have twice the side: 64 patches, each of
# which shows a quarter of what a patch showed before. So the model is trained a little further, with your interpolated
# positions, with zeros, or with random ones for the patches. Scaling the image back needs no training.

# %%
split = digit_split((0,))
pictures, labels = split.images[split.learn[0]], split.labels[split.learn[0]]
new = split.images[split.unseen[0]], split.labels[split.unseen[0]]
reader = small_vit(0)
learn(reader, batches(pictures, labels, batch_size=32, seed=0), lr=3e-3, loss=classify)

weights = reader.state_dict()
own = weights["encoder.positions"]
starts = {
    "interpolated": interpolate_positions(own, 4, 4, 8, 8).to(own),
    "zeros": torch.cat([own[:1], torch.zeros(64, 64).to(own)]),
    "random": torch.cat([own[:1], own[1:].std() * torch.randn(64, 64).to(own)]),
}
large, large_new = (resize(x.cpu(), (56, 56)).to(device()) for x in (pictures, new[0]))
before, after = {}, {}
for name, positions in starts.items():
    resized = small_vit(0, grid=8)
    resized.load_state_dict(weights | {"encoder.positions": positions})
    before[name] = accuracy_of(resized, large_new, new[1])
    stream = batches(large, labels, batch_size=32, seed=1)
    learn(resized, stream, steps=40, lr=1e-3, loss=classify)
    after[name] = accuracy_of(resized, large_new, new[1])

# %% tags=["nbval-check-output"]
claim(
    "11.k-back",
    before=before["interpolated"],
    after=after["interpolated"],
    zeros=after["zeros"],
    random=after["random"],
    back=accuracy_of(reader, *new),
)

# %% [markdown]
# The patches show other things than before, and the model still begins far above chance: what it has learned about places is
# of use in the finer grid. Zeros and random vectors have to learn the places anew.
#
# ## Distillation
#
# A *student* model can learn from the predictions of another model, its *teacher*. A label contains only the class, such as
# "4". The distribution that a teacher predicts also shows how probable a 9 is. A temperature τ above 1 increases such small
# probabilities (Hinton et al. 2015):
#
# $$(1 - \lambda)\,\mathrm{CE}(\psi(Z_s), y) + \lambda\,\tau^2\,\mathrm{KL}\big(\psi(Z_t/\tau)\,\Vert\,\psi(Z_s/\tau)\big) \qquad \psi = \mathrm{softmax}$$
#
# The temperature scales the gradients by about $1/\tau^2$; the factor $\tau^2$ compensates for this. The teacher is not
# trained.
#
# | name | shape |
# | --- | --- |
# | `student`, `teacher` | logits (B, n_classes) |
# | `labels` | (B,) |
# | `temperature`, `share` | τ > 0, λ from 0 to 1 |
# | loss | a number, the mean over the batch, in nats |
#
# ![](diagram:deit)

# %% [markdown]
# DeiT trains a second learned token on the class that the teacher predicts; the model of the figure averages both tokens'
# probabilities.

# %% exercise="11.5" difficulty="●●○" minutes=12
from course_lib.losses import distillation_loss

# %% tags=["nbval-check-output"]
distillation_loss = check("11.5", distillation_loss)

# %% [markdown]
# A teacher pays off where it sees pictures without labels. **Five hundred** digits have a label, 3,500 more have none. A CNN is
# trained on the five hundred and predicts all four thousand; a ViT is trained on these predictions alone ($\lambda = 1$,
# $\tau = 2$). The rival is the same ViT, trained on the five hundred labels for as many updates.


# %%
def by_teacher(model, batch):
    """The distillation loss, without labels."""
    images, logits = batch
    return distillation_loss(model(images), logits, logits.argmax(-1), 2.0, 1.0).float()


split = digit_split((0,))
pictures, labels = split.images[split.learn[0]], split.labels[split.learn[0]]
few = pictures[:500], labels[:500]
teacher = small_cnn(0, widths=(32, 32, 64), strides=(2, 2, 1))
learn(teacher, batches(*few, batch_size=32, seed=0), 260, lr=4e-3, loss=classify)
alone, taught = small_vit(0), small_vit(0)
learn(alone, batches(*few, batch_size=32, seed=0), 440, lr=3e-3, loss=classify)
with torch.no_grad():
    lesson = teacher.eval()(pictures)
stream = batches(pictures, lesson, batch_size=32, seed=0)
_ = learn(taught, stream, 440, lr=3e-3, loss=by_teacher)

# %% tags=["nbval-check-output"]
new = split.images[split.unseen[0]], split.labels[split.unseen[0]]
accuracy = [accuracy_of(model, *new) for model in (teacher, alone, taught)]
claim("11.q", cnn=accuracy[0], vit=accuracy[1], taught=accuracy[2])

# %% [markdown]
# ## A new head
#
# A trained body can serve another task: replace the head by a new one whose weights start at **zero**, and train it by gradient
# descent with momentum:
#
# $$v \leftarrow \mu v + \partial L / \partial W \qquad W \leftarrow W - \eta v$$
#
# $L$ is the mean cross-entropy over the $n$ examples, $\eta$ the learning rate, $\mu$ the momentum; $b$ is treated like $W$.
# With weights of zero, all classes start with equal probability, and in the first step no gradient reaches the layers below the
# head: an untrained head cannot disturb the trained body. (In the paper, fine-tuning then changes *all* weights.)
#
# | name | shape |
# | --- | --- |
# | `features`, `labels` | (n, d), (n,): all examples at once |
# | W, b; their velocities | (n_classes, d), (n_classes,); all start at 0 |
# | result | `LinearProbe(weight, bias)` after n_steps |

# %% exercise="11.6" difficulty="●●○" minutes=12
from course_lib.metrics import fine_tuned_head

# %% tags=["nbval-check-output"]
fine_tuned_head = check("11.6", fine_tuned_head)

# %% [markdown] tags=["predict"]
# Two new tasks have four classes and 160 labelled maps each. *Group*: the eight symbols form four groups of two; to which
# group belongs the symbol of the pin's colour? *Row*: in which row is the pin? The features are the class token of the map
# reader, which stays frozen, or the raw pixels; the figure also shows the class token of a body that was never trained.
#
# **Predict.** For which task is the class token better than the pixels?
#
# <details><summary>A. For both: it was trained on six thousand maps.</summary>
#
# It was trained to answer one question, and its head reads nothing else from it.</details>
# <details><summary>B. For the row only.</summary>
#
# Positions are added to the tokens, but the class token has no reason to pass them on.</details>
# <details><summary>C. For the group only.</summary>
#
# Yes. The group follows from the answer that the class token holds, and from no pixel alone. Where the pin lies, the model
# needs nowhere: it asks for the colour wherever the pin is.</details>


# %%
@torch.no_grad()
def class_token(images, body=vit):
    """What the head of a map reader gets (n, d)."""
    return body.stack(body.tokens(4 * images - 2))[:, 0]


def with_new_head(features, task, rate):
    """The share of right answers of a head that you trained on 160 maps."""
    W, b = fine_tuned_head(
        features(known.images[:160]), task(known)[:160], 4, rate, 0.9, 100
    )
    found = features(unseen.images) @ W.mT.to(device()) + b.to(device())
    return (found.argmax(-1) == task(unseen)).float().mean().item()


tasks = {"group": lambda maps: maps.colour // 2, "row": lambda maps: maps.pin // 4}
torch.manual_seed(1)
random_body = MapReader().to(device()).eval()
bodies = {
    "class token": (class_token, 0.1),
    "pixels": (lambda images: (4 * images - 2).flatten(1), 1e-3),
    "random body": (lambda images: class_token(images, random_body), 0.1),
}
new_heads = {
    f"{name}, {body}": [with_new_head(features, task, rate)]
    for name, task in tasks.items()
    for body, (features, rate) in bodies.items()
}
show_seeds(new_heads, "right answers", "160 labelled maps", {"chance": 0.25})

# %% tags=["nbval-check-output"]
group, group_pixels, _, row, row_pixels, _ = (each for (each,) in new_heads.values())
claim("11.head", group=group, group_pixels=group_pixels, row=row, row_pixels=row_pixels)

# %% [markdown] tags=["companion"]
# ## Papers and decks
#
# **Papers.** Dosovitskiy et al. 2021, *An Image is Worth 16x16 Words*, eqs. 1-4, section 3.2
# (https://arxiv.org/abs/2010.11929) · Touvron et al. 2021, *DeiT*, eqs. 2-3 (https://arxiv.org/abs/2012.12877) · Hinton,
# Vinyals, Dean 2015, *Distilling the Knowledge*, section 2 (https://arxiv.org/abs/1503.02531) · Abnar, Zuidema 2020,
# *Quantifying Attention Flow*, eq. 1 (https://arxiv.org/abs/2005.00928).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | CS | Vision Transformer | 2 Patches as tokens | `course_lib.models.ViT`, `course_lib.primitives.patchify` |
# | CS | Vision Transformer Training and Finetuning | A new head | `course_lib.blocks.zero_head`, `course_lib.metrics.fine_tuned_head` |
# | IT | ViT model | 4 The Vision Transformer | `course_lib.models.ViT`, `course_lib.models.DeiT`, `course_lib.losses.distillation_loss` |

# %% tags=["ledger"]
ledger()
