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
# # 12 · Detection with DETR
#
# DETR detects the objects of an image as a *set*: each of its queries predicts one object or none, and the loss first matches
# queries with objects.
#
# You will write DETR's decoder layer, its matching and its set loss, and train a detector on crowds in which two creatures may
# share one place, where the usual remedy against duplicates removes one of the two.
#
# **Prerequisites:** lecture 05 (decoder, cross-attention). **Time:** {minutes}. {measured}
#
# ![](diagram:detr)

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Real
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from course_lib.attention import MultiHead, multi_head_attention
from course_lib.blocks import ConvNet, FeedForward, feed_forward
from course_lib.blocks.block import AttentionWeights, FeedForwardWeights, NormWeights
from course_lib.datasets import Scenes
from course_lib.losses import SetLoss, match, match_greedily, match_in_order
from course_lib.losses import matching_cost, set_loss
from course_lib.losses.set_prediction import DETR_WEIGHTS, Objects, Predictions
from course_lib.metrics import average_precision, find_hits
from course_lib.models import object_block, sinusoidal_positions_2d
from course_lib.primitives import Overlap, area, giou, iou, layer_norm
from course_lib.primitives import overlap, to_corners
from course_lib.shapes import Boxes
from course_lib.training import batches, train
from course_tools.bank.drawn_crowds import draw_crowds
from course_tools.lectures.lecture_12 import detections, figures, rivals
from course_tools.notebook import check, claim, device, explore, ledger, predict
from course_tools.notebook import progress, show_study, source
from course_tools.notebook.authorship import whose

SEED = 0  # of scenes and weights

# %% [markdown]
# ## 1 Crowds
#
# A **detector** finds all objects in an image: for each one a class and a box, without being told how many there are. Scenes
# hold one to four pixel creatures of two kinds, on photographs strewn with paper. A creature leans to either side, and its rows have
# colours without a meaning. Often a smaller one of its kind stands in front of it, at the same centre, so that
# their boxes share more than half of the area that they cover. A box goes around the whole creature, even where another hides it.

# %% tags=["try-it"]
source(draw_crowds)  # Try it: show other scenes, by their numbers
known = draw_crowds(8_000, 10 * SEED, device=device())
unseen = draw_crowds(300, 10 * SEED + 1, unseen=True, device=device())
figures.show_scenes(unseen, (3, 16))

# %% [markdown]
# A detection counts as right if it has the right class and the intersection of its box with that of the object is at least half of
# their union; a second detection of the same object counts as wrong. Go down the list by confidence: **precision** is the share of the
# detections so far that is right, **recall** the share of all objects that they find. **By hand**, for three objects:
#
# | confidence | right? | precision | recall |
# | --- | --- | --- | --- |
# | 0.9 | yes | 1 | 1/3 |
# | 0.8 | no: a second box of the same object | 1/2 | 1/3 |
# | 0.7 | yes | 2/3 | 2/3 |
# | 0.4 | no: nothing is there | 1/2 | 2/3 |
#
# **Average precision** gives each object the largest precision in the line in which it is found or below, 0 if it is missed, and takes
# the mean: (1 + 2/3 + 0) / 3 = 0.56. If the second box had a confidence below 0.7, it would be (1 + 1 + 0) / 3 = 0.67: only the *order*
# counts. **AP50** is the mean over the classes.
#
# A convolutional backbone turns the image into a map of 4 × 4 cells. Then follows one decoder layer of lecture 05 without a causal
# mask: 16 **object queries** attend to each other, then to the cells. Each predicts a class, or "no object", and a box, relative to
# its **reference point**, the centre of a cell.
#
# Let $x$ be what the object queries have found so far, $f$ the features of the cells. A learned vector $q_n$ says which query it is,
# $p_l$ where a cell is. They are added to the first two arguments of attention, queries and keys, never to values:
#
# $$x \leftarrow \mathrm{norm}\big(x + \mathrm{attention}(x + q,\ x + q,\ x)\big)$$
# $$x \leftarrow \mathrm{norm}\big(x + \mathrm{attention}(x + q,\ f + p,\ f)\big)$$
# $$x \leftarrow \mathrm{norm}\big(x + \mathrm{network}(x)\big)$$
#
# | name | shape |
# | --- | --- |
# | x, queries q | (B, N, d), (N, d) |
# | cells f, positions p | (B, L, d), (L, d) |
# | result | (B, N, d) |
# | given: `multi_head_attention(queries, keys, values, *own, n_heads)` | `.context` (B, N, d), `.weights` |
# | given: `feed_forward(x, *network)`, `layer_norm(x, *norms[0])` | as x |

# %% exercise="12.9" difficulty="●●○" minutes=10
from course_lib.models import object_block

# %% tags=["nbval-check-output"]
object_block = check("12.9", object_block)

# %% [markdown]
# DETR (Carion et al. 2020) has an encoder and several such layers, with the loss of section 4 after each; $x$ starts
# at zero, so that only $q$ tells queries apart. Ours has one layer and no encoder, and starts each query
# from the cell at its reference point: $x = f$, and $q$ starts at the positions. The network only says
# how a box differs from a first one: around the reference point, 0.36 of the image wide and high. (The difference is added to the
# logits of that box; a sigmoid keeps all four numbers between 0 and 1.)


# %%
def attention(d):
    """W_q, W_k, W_v, W_o."""
    return nn.ParameterList(torch.randn(d, d) * d**-0.5 for _ in range(4))


def network(d, d_ff):
    """W_1, b_1, W_2, b_2."""
    W_1, W_2 = torch.randn(d_ff, d) * d**-0.5, torch.randn(d, d_ff) * d_ff**-0.5
    return nn.ParameterList([W_1, torch.zeros(d_ff), W_2, torch.zeros(d)])


def norms(n, d):
    """A gain and a bias for each of n norms."""
    pairs = ([torch.ones(d), torch.zeros(d)] for _ in range(n))
    return nn.ModuleList(map(nn.ParameterList, pairs))


class SmallDETR(nn.Module):
    """Images (B, 3, 32, 32) to logits (B, 16, 3) and boxes (B, 16, 4): centre, size."""

    def __init__(self, d=64):
        super().__init__()
        self.backbone = ConvNet(3, widths=(32, 48, d), strides=(2, 2, 2))
        self.own, self.cross = attention(d), attention(d)
        self.network, self.norms = network(d, 2 * d), norms(3, d)
        self.register_buffer("positions", sinusoidal_positions_2d(4, 4, d))
        self.queries = nn.Parameter(self.positions.clone())  # (16, d), learned
        self.classify = nn.Linear(d, 3)  # two kinds, and "no object"
        self.box = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 4))
        points = torch.cat([rivals.cell_centres(), torch.full((16, 2), 0.36)], 1)
        self.register_buffer("points", points.logit())  # box of each query at first

    def forward(self, images):
        cells = self.backbone(2 * images - 1).flatten(2).mT  # (B, 16, d)
        parts = self.own, self.cross, self.network, self.norms
        x = object_block(cells, self.queries, cells, self.positions, *parts, n_heads=4)
        return self.classify(x), (self.box(x) + self.points).sigmoid()


def learn(loss, steps=2_000, lr=3e-3):
    """Train a detector on known crowds: Adam, warm-up, linear decay, batches of 16."""
    torch.manual_seed(SEED)
    model = SmallDETR().to(device())
    stream = batches(*known, batch_size=16, seed=SEED)
    run = train(model, stream, loss, steps=steps, lr=lr, warmup=steps // 10)
    for _step in progress(run, "training", total=steps):
        pass
    return model.eval()


# %% [markdown] tags=["predict"]
# Which query is trained to predict which object? Many detectors before DETR, such as FCOS (2019), answer: **every** cell in
# the middle of an object predicts it. Many queries then find the same creature. **Non-maximum suppression** (NMS) cleans up: go from
# the most confident box down, and remove each box whose intersection with one already kept is more than half of their union.
#
# **Predict a number** (exactly). Two creatures of one kind stand so close that their boxes overlap by 0.6 (intersection over
# union). The network finds both, each with three boxes that fit exactly. How many boxes remain after NMS at 0.5?
#
# <details><summary>1</summary>
#
# A box of the more confident creature. All six overlap it by more than a half: NMS cannot tell a duplicate from a neighbour. A
# higher threshold keeps the neighbour, and may keep duplicates with it.</details>
# <details><summary>2</summary>
#
# One for each creature is what we want. But NMS does not know which box belongs to which object. It compares boxes, and those of
# the two overlap by more than a half.</details>
# <details><summary>6</summary>
#
# Those of one creature overlap by 1, so at most one of each three remains.</details>

# %%
source(rivals.one_to_many)
every_cell = learn(rivals.one_to_many)
source(detections.suppressed)
many = detections.detect(every_cell, unseen.images)
kept = detections.suppressed(many, 0.5)
there = (unseen.classes >= 0).sum(1)
three = (many.confidence > 0.5).sum(1) == 3
pair = (there == 2) & (detections.close_pairs(unseen) == 1) & three
scene = detections.best_fit([many], unseen, pair.nonzero()[:, 0])
# a box has the colour of the creature that it fits best
figures.show_detections(unseen, scene, {"every cell": many, "after NMS": kept})

# %% tags=["nbval-check-output"]
without_pairs = detections.judged_apart(many, unseen)
claim("12.many", **detections.judged(many, unseen), **without_pairs)

# %% [markdown]
# At 0.5, NMS removes one of two creatures that share a place: we drew them so, with an IoU of 0.51 to 0.6. At 0.9 both remain, and with
# them duplicates: what suits pairs harms lone creatures. To predict each creature *once*, exactly one query must be
# trained on it. Which? We have to compare boxes.
#
# ## 2 Boxes
#
# DETR predicts a box as centre and size relative to the image, $(x, y, w, h)$, each between 0 and 1. To compare boxes we need their
# corners $(x_1, y_1, x_2, y_2)$, with $y$ *downwards*:
#
# $$x_{1,2} = x \mp w/2 \qquad y_{1,2} = y \mp h/2$$
#
# **By hand.** Box $A$ has corners $(0, 0, 2, 2)$, box $B$ has $(1, 1, 3, 3)$. Their intersection is a square of area 1, their union
# has area $4 + 4 - 1 = 7$. **IoU**, intersection over union, is $1/7 = 0.14$.
#
# Move $B$ away: IoU is 0, however far it is, and its gradient does not say where a box should move. **GIoU** subtracts the share of
# the smallest box $C$ around both that neither covers, hatched below:
#
# $$\mathrm{IoU} = \frac{|A \cap B|}{|A \cup B|} \qquad \mathrm{GIoU} = \mathrm{IoU} - \frac{|C| - |A \cup B|}{|C|}$$
#
# Here $C$ has corners $(0, 0, 3, 3)$ and area 9, so GIoU is $1/7 - 2/9 = -0.08$. It is 1 for equal boxes and goes to $-1$ for
# distant ones.

# %%
figures.show_smallest_box(
    (0, 0, 2, 2), {"near": (1, 1, 3, 3), "moved by 2": (3, 3, 5, 5)}
)


def gradient_norm(measure):
    """The norm of the gradient of a measure, for two boxes that do not touch."""
    box = torch.tensor([[0.1, 0.1, 0.3, 0.3]], requires_grad=True)
    measure(box, torch.tensor([[0.6, 0.5, 0.9, 0.7]])).sum().backward()
    return box.grad.norm().item()


for measure in (iou, giou):
    print(f"{measure.__name__}: gradient of norm {gradient_norm(measure):.3f}")

# %% [markdown]
# ## 3 Matching
#
# The **matching cost** of query $n$ and object $m$ is low if the query gives the object's class a high probability and its box is
# close, in L1 distance and in GIoU:
#
# $$K_{nm} = -\,\hat p_n(c_m) + 5\,\lVert b_m - \hat b_n \rVert_1 - 2\,\mathrm{GIoU}(b_m, \hat b_n)$$
#
# **By hand.** One creature stands in front of another of its kind. Three queries predict:
#
# | query | probability | L1, GIoU to the front one | cost | L1, GIoU to the one behind | cost |
# | --- | --- | --- | --- | --- | --- |
# | 1 | 0.9 | 0.02, 0.9 | −0.9 + 0.1 − 1.8 = **−2.6** | 0.20, 0.5 | −0.9 + 1.0 − 1.0 = **−0.9** |
# | 2 | 0.8 | 0.04, 0.8 | −0.8 + 0.2 − 1.6 = **−2.2** | 0.30, 0.2 | −0.8 + 1.5 − 0.4 = **0.3** |
# | 3 | 0.3 | 0.40, −0.2 | −0.3 + 2.0 + 0.4 = **2.1** | 0.40, −0.1 | −0.3 + 2.0 + 0.2 = **1.9** |
#
# Queries 1 and 2 both predict the front one: a duplicate. Each object is to get a query of its own, so that the total cost is
# smallest. (With $\log \hat p$, as in a loss, the class could outweigh the box: $-\log 0.001 = 6.9$.)

# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.01). What is the smallest possible total cost?
#
# <details><summary>-3.1</summary>
#
# Query 2 takes the front one, −2.2, and query 1 the one behind, −0.9. So query 1 learns to look behind, and query 2 keeps the front
# one.</details>
# <details><summary>-2.3</summary>
#
# That is *greedy* matching: each object in turn, the front one first, takes the cheapest query that is still free. Query 1 goes to
# the front one, and query 2 costs 0.3 for the other.</details>
# <details><summary>-3.5</summary>
#
# Then both take query 1. A query predicts *one* class and *one* box, so it can be matched once.</details>

# %% [markdown]
# ![](diagram:detr_matching)

# %% [markdown]
# The lists of objects are padded to one length by the class −1.
#
# | name | shape |
# | --- | --- |
# | logits (`Predictions`), boxes | (…, N, n_classes + 1), the last = no object; (…, N, 4) centre and size |
# | classes (`Objects`), targets: of the objects | (…, M), -1 = padding; (…, M, 4) |
# | cost | (…, N, M), 0 in a column of class -1 |
# | given: `to_corners(boxes)`; `giou(a, b)`, of corners, every a with every b | (…, N, 4); (…, N, M) |

# %% exercise="12.4" difficulty="●●○" minutes=12
from course_lib.losses import matching_cost

# %% tags=["nbval-check-output"]
matching_cost = check("12.4", matching_cost)

# %% [markdown]
# There are $N!/(N-M)!$ ways to match $M$ objects with $N$ queries. *Greedy* matching, where each object in turn takes the cheapest
# free query, misses the cheapest here. The Hungarian method finds it in $O(N^3)$
# time: `linear_sum_assignment(matrix)` of `scipy.optimize` returns the rows (queries) and columns (objects) of the pairs.
#
# | name | shape |
# | --- | --- |
# | cost, classes | (B, N, M), (B, M) |
# | queries: the query of each object, -1 for padding | (B, M) |

# %% exercise="12.5" difficulty="●●○" minutes=8
from course_lib.losses import match

# %% tags=["nbval-check-output"]
match = check("12.5", match)


# %%
def total(cost, classes, matching):
    """The total cost of a matching, for each image."""
    return cost.gather(1, matching(cost, classes)[:, None]).sum((1, 2))


by_hand = torch.tensor([[[-2.6, -0.9], [-2.2, 0.3], [2.1, 1.9]]])
both = torch.zeros(1, 2, dtype=torch.long)
greedy, best = (total(by_hand, both, way).item() for way in (match_greedily, match))
print(f"total cost: greedy {greedy:.1f}, optimal {best:.1f}")

# %% [markdown]
# ## 4 The loss of a set
#
# Once objects are matched, every query is trained on a class: a matched one on that of its object, all others on "no object",
# $\varnothing$. Only matched queries are trained on a box:
#
# $$L = \frac{\sum_n w_n \cdot -\log \hat p_n(c_n)}{\sum_n w_n} + \frac1{\#}\sum_m \Big[5\,\lVert b_m - \hat b_{\hat\sigma(m)} \rVert_1 + 2\,(1 - \mathrm{GIoU})\Big]$$
#
# with $c_n$ the target class of query $n$, $\hat\sigma(m)$ the query of object $m$, and $w_n = 1$ for a matched query, `no_object` for an
# unmatched one; # is the number of objects in the batch, at least 1.
#
# | name | shape |
# | --- | --- |
# | logits, boxes, classes, targets | as above, with one batch axis B |
# | queries: the result of `match` | (B, M) |
# | `SetLoss(classes, l1, giou)`: not yet weighted by 5 and 2 | three numbers |

# %% exercise="12.6" difficulty="●●●" minutes=15
from course_lib.losses import set_loss

# %% tags=["nbval-check-output"]
set_loss = check("12.6", set_loss)

# %% [markdown]
# Why is an unmatched query worth less? In our scenes, with 2.25 creatures on average, 13.75 of 16 queries have no object. A network that
# does not yet see anything does best by saying "no object" everywhere, with a probability of 86 %; with a weight of 0.5 for each of
# them, 75 %. The paper, with 100 queries, takes 0.1.

# %% [markdown] tags=["predict"]
# ## 5 Each creature once
#
# Train the network of section 1 again. All is the same but the loss, that of your three functions.
#
# **Predict.** What will NMS do to its detections?
#
# <details><summary>A. Lower AP50.</summary>
#
# Yes. There is little to remove, and each pair that NMS takes for duplicates costs a creature. In the paper, too, it removes
# detections that are right.</details>
# <details><summary>B. Raise AP50, as for every detector: some duplicates are left.</summary>
#
# A few are. But a query that repeats another's object learns "no object".</details>
# <details><summary>C. Nothing: no two boxes overlap.</summary>
#
# The boxes of two creatures that stand together do.</details>


# %%
def matched(model, batch):
    """DETR's loss from your functions: match each object with a query, then compare."""
    images, classes, boxes = batch
    logits, found = model(images)
    with torch.no_grad():
        queries = match(matching_cost(logits, found, classes, boxes), classes)
    parts = set_loss(logits, found, classes, boxes, queries, no_object=0.5)
    of_classes, l1, of_overlap = parts
    return of_classes + 5 * l1 + 2 * of_overlap


# a loss with loops takes minutes; quicker: from course_lib.losses import set_loss
once = learn(matched)
sets = detections.detect(once, unseen.images)
panels = {"every cell": many, "after NMS": kept, "matched": sets}
mine, all_of_them, rest = (
    (found.confidence > 0.5).sum(1) for found in (sets, many, kept)
)
suited = (mine == there) & (all_of_them >= there) & (rest < there)
scene = detections.best_fit((sets, many), unseen, suited.nonzero()[:, 0])
figures.show_detections(unseen, scene, panels)

# %% [markdown]
# We chose a scene in which both find all creatures, and NMS removes some. AP50 is lenient here: the box of one of two at a
# place counts for either. So we also count the pairs of which both are found:

# %% tags=["nbval-check-output"]
claim("12.matched", **detections.judged(sets, unseen))
pairs, _, apart = detections.told_apart(sets, unseen)
every, after_nms = (
    detections.told_apart(found, unseen).apart for found in (many, kept)
)
claim("12.apart", pairs=pairs, apart=apart, every=every, kept=after_nms)

# %% [markdown]
# Nobody has told a query what to answer for. Each square below is the whole image, for one query: the cross is its reference point,
# the dots are the centres of its boxes in the 300 scenes.

# %%
figures.show_shares(sets, rivals.cell_centres())

# %% [markdown]
# Many queries predict nothing. The others share the work by place, as they start, and in most places two of them by *size*: one draws
# the larger creature, its neighbour the smaller. Nobody wrote that rule down: an object goes to the query that predicts it best already,
# so that a small lead can grow into a division of labour.


# %% tags=["cover", "interactive"]
def draw_scene(number=3, threshold=0.5):
    """What both networks detect in an unseen scene, above a confidence."""
    shown = {"after NMS": kept, "matched": sets}
    figures.show_detections(unseen, number, shown, threshold)


explore(draw_scene, number=(0, 99), threshold=(0.1, 0.9, 0.1))

# %% [markdown] tags=["predict"]
# ## 6 The fairest rivals
#
# The study trains the same network with the loss of section 1, with yours, and with *fixed* assignments, for 2,000 updates, with
# three seeds. All have the learning rate 0.003 and `no_object` = 0.5, tuned for none of them.
#
# - **list order**: object $i$ of the list takes query $i$; the order of the list is arbitrary;
# - **nearest cell**: each object takes the cell nearest to its centre; of two at one place, either takes it, by chance;
# - **larger first**: the same, but the larger takes it;
# - **two queries a cell**: the larger takes the first, the smaller the second.
#
# Without a network, a **sliding window** scores 5,000 windows a scene, by least squares on random features, fitted to 1,000 of the
# 8,000 scenes.
#
# The study judges by COCO's **AP**, the mean over overlaps of 0.5, 0.55 … 0.95: from 0.65 on, the box of one at a place does not count for
# the other.
#
# **Predict.** Which of the first three can be learned well?
#
# <details><summary>A. None: without matching, DETR cannot be trained.</summary>
#
# What a query needs is a target that can be seen in the image.</details>
# <details><summary>B. The nearest cell, with or without a rule: where a centre is can be seen.</summary>
#
# It can. But which of two creatures takes the cell cannot, unless a rule says so: the cell is trained on both.</details>
# <details><summary>C. The nearest cell, if the larger takes it.</summary>
#
# Yes. Then place and size say which query predicts which creature, and both can be seen. Which comes first in an arbitrary list
# cannot, so that each query is trained on all of them, and learns something between them.</details>

# %% [markdown] tags=["predict"]
# How does a query know that another one predicts the same creature? It can ask the others, by self-attention. The study also trains a
# network without it, and one with convolutions over the map, and as many weights, in place of the whole layer.
#
# **Predict a number** (within 0.01). Two queries see the same creature, and nothing tells them apart. Matching takes each half of the
# time. With `no_object` = 0.5, which probability of the creature does each learn?
#
# <details><summary>0.667</summary>
#
# 0.5 · 1 against 0.5 · 0.5, as in section 4: 2/3. So both draw a box. If they can ask each other, one can yield.</details>
# <details><summary>0.5</summary>
#
# It would be with a weight of 1 for "no object". Here the half in which a query is matched counts twice as much as the other.</details>
# <details><summary>1</summary>
#
# For one to learn 1, and the other 0, something must tell them apart: what they see, or what they say.</details>

# %%
source(rivals.larger_first)
source(rivals.two_a_cell)
source(rivals.Convolved)
source(rivals.SlidingWindows)
study = show_study("12_crowds")


# %% tags=["nbval-check-output"]
def scores(of, **settings):
    """One score of some settings of the study, for each seed."""
    return {name: study.scores(setting, of) for name, setting in settings.items()}


fixed = {"nearest": "nearest cell", "larger": "nearest, larger first"}
fixed |= {"two": "two queries a cell", "listed": "list order"}
fixed |= {"longer": "matched, longer", "two_longer": "two queries a cell, longer"}
claim("12.fit", **scores("AP", matched="matched", **fixed))
remedies = scores("AP after Soft-NMS", every="every cell", window="sliding window")
remedies |= scores("AP after the best suppression", tuned="every cell")
claim("12.rivals", **scores("AP", matched="matched"), **remedies)

# %% [markdown]
# With a rule that can be seen, fixed assignments come close: two queries a cell are level with matching, after 2,000 updates and after
# 4,500. But whoever wrote these rules knew that two of a place differ in size. **Matching is the right tool where two may share a place:
# it needs neither a rule nor a threshold.**
#
# **Soft-NMS** removes no box (*Going further*): by AP50 it is about level with matching, by AP behind.
#
# The pairs make the difference: without them, the nearest cell and NMS at 0.5 do as well as matching. And without
# attention?

# %% tags=["nbval-check-output"]
alike = {"matched": "matched, no pairs", "nearest": "nearest cell, no pairs"}
kept_apart = scores("AP after suppression at 0.5", every="every cell, no pairs")
kept_apart |= scores("AP after the best suppression", tuned="every cell, no pairs")
claim("12.single", **scores("AP", **alike), **kept_apart)

# %% tags=["nbval-check-output"]
alone = "matched, queries alone"
layers = {"alone": alone, "matched": "matched", "longer": "matched, longer"}
layers |= {"convolved": "matched, no attention"}
layers |= {"convolved_longer": "matched, no attention, longer"}
boxes = scores("boxes per object", boxes=alone, fewer="matched")
claim("12.alone", **scores("AP", **layers), **boxes)

# %% [markdown]
# **Queries must know of each other; on 16 cells, each with one query, convolutions do that as well.** But they have one output a cell,
# and DETR's queries belong to no cell: they start alike. In the paper, NMS still helps after the first layer, in which they have told
# each other nothing, and no longer after the last.

# %% [markdown] tags=["quiz"]
# ## 7 Exit quiz
#
# **Question 1.** In scenes of digits, someone uses ten queries and assigns every 3 to query 3, and so on. Can this model be trained
# without matching?
#
# <details><summary>A. No: without matching, DETR cannot learn.</summary>
#
# A fixed assignment can be learned if it can be seen in the image, as the nearest cell can.</details>
# <details><summary>B. Yes, as long as no scene contains two objects of the same class.</summary>
#
# Right. The class is visible, so each query becomes a detector of one class. Two 3s would compete for query 3, and one of them
# could not be assigned.</details>
# <details><summary>C. Yes, and it is the same as matching.</summary>
#
# Matching depends on the predictions; this assignment does not.</details>
#
# **Question 2.** A detector finds every object and detects each of them twice, the second time with a lower confidence than
# *any* first detection. What is its average precision?
#
# <details><summary>A. One half: every second detection is wrong.</summary>
#
# The duplicates all rank last, where every object has been found.</details>
# <details><summary>B. Zero: an object may be found only once.</summary>
#
# Each object is matched once, by the detection that ranks higher. That one is right.</details>
# <details><summary>C. One.</summary>
#
# Right: average precision depends on the ranking, not on a threshold. This is why we also count boxes for each creature.</details>
#
# **Question 3.** Why does no gradient flow through the matching?
#
# <details><summary>A. The matching is piecewise constant: a small change of the costs leaves it unchanged.</summary>
#
# Right. The loss of the matched pairs has a gradient; where the matching changes, the loss may jump.</details>
# <details><summary>B. Because SciPy has no gradients; it is a software limitation.</summary>
#
# An implementation in PyTorch would have no gradients either: indices are integers.</details>
# <details><summary>C. It does flow, through the cost.</summary>
#
# The cost only selects the pairs. The loss of these pairs is minimised.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague counts sheep in photographs of a flock. Her detector finds every lonely sheep,
# and too few in the flock.* What do you measure first, what do you change, and what can go wrong? Use two numbers from this lecture.
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | measures before and after suppression, and counts boxes for each sheep |
# | 1 | explains what a threshold trades between duplicates and neighbours, with a number |
# | 1 | proposes one query for each object, by matching or by a place that can be seen, and says what it costs |
# | 1 | names the weight of "no object", or what lets queries know of each other |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 8 What came of it
#
# - **The paper.** On COCO, DETR reaches an AP of 42.0, level with an improved Faster R-CNN: about 8 more on large objects, about 6 less on small.
# - **Faster.** In Deformable DETR (Zhu et al. 2021, https://arxiv.org/abs/2010.04159) a query looks at a few places around a
#   reference point: 50 epochs instead of 500.
# - **In real time.** YOLOv10 (Wang et al. 2024, https://arxiv.org/abs/2405.14458) trains in both ways, many cells for an object and
#   one, and needs no NMS. RF-DETR (Robinson et al. 2025, https://arxiv.org/abs/2511.09554) passed an AP of 60 in real time.
# - **By words.** SAM 3 (Carion et al. 2026, https://openreview.net/forum?id=r35clVtGzw) is told a phrase, such as "yellow school
#   bus". Each object query answers with a score and a mask: every such bus once.
# - **Real crowds.** On crowds of people, DETR was *behind* Faster R-CNN with NMS until the decoder was changed (Lin
#   et al. 2020, https://arxiv.org/abs/2012.06785).
#
# **Further reading.** Sun et al. 2021, *What Makes for End-to-End Object Detection?* (https://arxiv.org/abs/2012.05780).

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each stands alone once the core has run, and their exercises are extra points.

# %% [markdown]
# ## Corners
#
# A box as centre and size, $(x, y, w, h)$, becomes its corners $(x_1, y_1, x_2, y_2)$ (section 2).
#
# | name | shape |
# | --- | --- |
# | boxes, result | (…, 4) |

# %% exercise="12.1" difficulty="●○○" minutes=5
from course_lib.primitives import to_corners

# %% tags=["nbval-check-output"]
to_corners = check("12.1", to_corners)

# %% [markdown]
# ## Intersection and union
#
# The **intersection** of two boxes is either a box or empty: it extends from the larger of the two left edges to the smaller of
# the two right edges, and likewise from top to bottom. The area of their **union** is the sum of their areas minus that of the
# intersection.
#
# $$|A \cap B| = \prod_{\text{x, y}} \max\!\big(0,\ \min(a_2, b_2) - \max(a_1, b_1)\big) \qquad |A \cup B| = |A| + |B| - |A \cap B|$$
#
# | name | shape |
# | --- | --- |
# | a, b: corners | (…, n, 4), (…, m, 4) |
# | intersection, union: every a with every b | (…, n, m) each |
#
# `area(corners)` is given.

# %% exercise="12.2" difficulty="●●○" minutes=12
from course_lib.primitives import overlap

# %% tags=["nbval-check-output"]
overlap = check("12.2", overlap)

# %% [markdown]
# ## GIoU
#
# $C$ is the smallest box around $A$ and $B$; GIoU is their IoU less the share of $C$ that neither covers (section 2).
#
# | name | shape |
# | --- | --- |
# | a, b: corners | (…, n, 4), (…, m, 4) |
# | result, above -1 and up to 1 | (…, n, m); a ratio 0/0 counts as 0 |

# %% exercise="12.3" difficulty="●●○" minutes=10
from course_lib.primitives import giou

# %% tags=["nbval-check-output"]
giou = check("12.3", giou)

# %% [markdown]
# **Bug hunt.** The next implementation subtracts the fraction of $C$ that lies outside the *intersection*. It returns 1 for
# identical boxes, and a larger overlap gets a higher score. Decide what goes wrong *before* you run the check.

# %% exercise="12.3" bug="takes_the_shared_part_off"
from course_tools.bank.lecture_12.giou import takes_the_shared_part_off as suspect

# %% [markdown] tags=["predict"]
# **For which boxes does this error matter most?**
#
# <details><summary>A. For boxes that nearly coincide.</summary>
#
# For such boxes the intersection and the union are nearly equal, and so are the two formulas.</details>
# <details><summary>B. For disjoint boxes.</summary>
#
# Yes. Their intersection is empty, so *all* of C is subtracted: -1 at any distance. This brings back the zero gradient that
# GIoU was meant to remove.</details>
# <details><summary>C. For large boxes.</summary>
#
# Both formulas consist of ratios of areas, so they do not depend on scale.</details>

# %% tags=["nbval-check-output"]
suspect = check("12.3", suspect)

# %% [markdown] tags=["interactive"]
# **Explore.** One box slides past another. Change its width, and move it vertically. Where is IoU constant while GIoU is not?
# Can GIoU reach its maximum at a position where the centres do *not* coincide?


# %% tags=["interactive"]
def draw_slide(width=0.3, vertical_offset=0.15):
    """IoU and GIoU of a box with another of a given width that slides past it."""
    figures.show_slide({"GIoU": giou, "IoU": iou}, width, vertical_offset)


explore(draw_slide, width=(0.05, 0.9, 0.05), vertical_offset=(0.0, 0.6, 0.05))

# %% [markdown]
# ## Average precision
#
# A detector gives many boxes, some with low confidence. Where should we cut? **Average precision** considers all thresholds. Sort
# the detections of one class over all images by confidence. A detection is a **true positive** if its IoU with an object of that
# class is at least 0.5 (hence AP*50*) and no higher-ranked detection already matched that object. After the $k$ highest-ranked
# detections
#
# $$\text{precision}_k = \frac{\text{true positives}}{k} \qquad \text{recall}_k = \frac{\text{true positives}}{\text{objects}} \qquad
# \mathrm{AP} = \operatorname*{mean}_{r = 0,\, 0.01,\, \dots,\, 1}\ \max_{\text{recall}_k \ge r} \text{precision}_k$$
#
# | name | shape |
# | --- | --- |
# | scores, hits (true positives) | (n,), (n,) bool, in any order |
# | n_objects | an int |
# | result | a number; the precision at a recall that is never reached counts as 0 |

# %% exercise="12.7" difficulty="●●○" minutes=12
from course_lib.metrics import average_precision

# %% tags=["nbval-check-output"]
average_precision = check("12.7", average_precision)

# %% [markdown]
# AP50 is the mean over the classes. The next cell computes that of the matched detector with your function. Dividing all confidences
# by three changes nothing: only the ranking counts.


# %%
def my_ap50(found, made):
    """AP50 by the checked `average_precision`: its mean over the classes."""
    image_of = torch.arange(len(found.p), device=found.p.device)
    image_of = image_of.repeat_interleave(found.p.shape[1])
    of_class = []
    for kind in range(found.p.shape[-1]):
        b, m = (made.classes == kind).nonzero(as_tuple=True)
        scores, targets = found.p[..., kind].flatten(), to_corners(made.boxes[b, m])
        hits = find_hits(scores, found.corners.flatten(0, 1), image_of, targets, b)
        of_class.append(float(average_precision(scores, hits, len(b))))
    return sum(of_class) / len(of_class)


ours, theirs = my_ap50(sets, unseen), detections.ap50(sets, unseen)
print(f"AP50: yours {ours:.3f}, the library's {theirs:.3f}")
print(
    f"confidences divided by three: {my_ap50(sets._replace(p=sets.p / 3), unseen):.3f}"
)

# %% [markdown] tags=["predict"]
# ## Softer suppression
#
# CenterNet (Zhou et al. 2019, https://arxiv.org/abs/1904.07850) keeps a cell only if it is the most confident of the nine
# around it. **Soft-NMS** (Bodla et al. 2017, https://arxiv.org/abs/1704.04503) removes nothing: it multiplies the confidence of a box
# by $e^{-\mathrm{IoU}^2/0.5}$ for each more confident one.
#
# **Predict.** The first box of a list is right. A duplicate of it has confidence 0.8, and overlaps it by 0.9; the box of a neighbour has
# confidence 0.4, and overlaps it by 0.55. Which of these two comes first after Soft-NMS?
#
# <details><summary>A. The duplicate: a factor for each box changes no order.</summary>
#
# All boxes with the same overlap keep their order. But these two get different factors.</details>
# <details><summary>B. The neighbour.</summary>
#
# Yes. The duplicate falls to $0.8 \cdot e^{-1.62} = 0.16$, the neighbour to $0.4 \cdot e^{-0.605} = 0.22$. Average precision judges
# only this order. Local maxima cannot do that: the two creatures of a place are found by cells next to each other, and one of them
# is removed.</details>
# <details><summary>C. Neither: both fall to 0, since both overlap the first by more than a half.</summary>
#
# That is NMS. Here even a box that fits exactly keeps $e^{-2} = 0.14$ of its confidence.</details>

# %% tags=["nbval-check-output"]
source(detections.softly_suppressed)
source(detections.local_maxima)
ways = {"soft": detections.softly_suppressed(many), "matched": sets}
ways["peaks"] = detections.local_maxima(many)
claim("12.softer", **{name: detections.ap50(ways[name], unseen) for name in ways})

# %% [markdown]
# **By AP50, Soft-NMS makes the network of every cell about level with the set, without any tuning** (your two networks). By
# AP, for which boxes must fit better, the set is ahead (section 6). Local maxima remove one of two as NMS does.
#
# `python3 course.py microscope` writes `microscope_queries.html`: switch off what the queries of the set read from each other.

# %% [markdown]
# ## A mask for each object
#
# DETR also predicts which *pixels* belong to an object (Carion et al., section 4.4): the last state of a query attends to the image
# once more, and convolutions turn these weights and the features of the image into a mask. Mask2Former made queries the usual way to
# segment; there, a mask is the product of a query's state with the features of each pixel.

# %% [markdown] tags=["try-it"]
# ## Build it: a detector
#
# **Build task (35 minutes, 14 points).** Starting from an empty cell, write a detector, its set-prediction loss and its
# training loop. The scenes are crowds, as above. A `ConvNet` gives a map of 4 × 4 cells; let 16 queries start from them, attend to
# each other and to the cells, and predict a class and a box relative to the centre of a cell.
#
# The model returns its predictions when it is called with images, and its loss when it is also given the objects, in training
# mode and after `eval()`. With the numbers of some queries instead, it returns what these predict if the others do not exist: so one
# can see whether queries know of each other.
#
# | call | result |
# | --- | --- |
# | `model(images)` | (B, N, n_classes + 5): logits of the classes, logit of "no object", box (centre and size between 0 and 1) |
# | `model(images, which)` | (B, n, n_classes + 5): the same for the queries of the numbers `which`, (n,), alone |
# | `model(images, classes, boxes)` | one number, as in section 4: the class loss divided by the sum of its weights, with a weight below 1 for "no object", plus the sum of 5 L1 + 2 (1 - GIoU) divided by the number of objects |
#
# You may use your `to_corners`, `giou`, `matching_cost` and `match`, and the library's layers, such as `MultiHead`. You may also use
# your own `set_loss` of 12.6. If it did not pass, the name `set_loss` refers to the library's function, which is not allowed;
# then write the loss here. The check calls `train_detector(images, classes, boxes, n_classes, n_steps)` once, with 1,500 scenes
# and `n_steps=500`. It evaluates the returned model on 120 scenes on other photographs. The function has at most 60 seconds of
# processor time; a good answer needs about eight.
#
# | points | what is judged |
# | --- | --- |
# | 1 | predictions (B, N, n_classes + 5), boxes between 0 and 1, and a loss that is one finite number |
# | 1 | at most `n_steps` updates and at most 200,000 weights |
# | 1 | each update uses only its own gradients, and every weight in the optimizer has a gradient |
# | 1 | the loss falls during the training |
# | 1 | the returned model gives the same predictions for the same scenes |
# | 1 | the predictions for a scene do not depend on the other scenes of the batch |
# | 1 | every weight that has a gradient is in the optimizer |
# | 2 | queries attend to each other: what one predicts depends on which others exist, and not on their order |
# | 1 | the loss does not change with the order of the objects, nor with the padding |
# | 1 | when boxes move, the loss changes as 5 L1 + 2 (1 - GIoU) of the matched pairs, for each object |
# | 1 | unmatched queries are trained to predict "no object", with a weight between 0.02 and 0.95; no two objects share a query |
# | 1 | AP50 of at least 0.4, by queries that attend; objects in list order reach about 0.25, an untrained model at most 0.01 |
# | 1 | AP50 of at least 0.55 |

# %% exercise="12.8" difficulty="●●●" minutes=35
from course_tools.bank.lecture_12.train_detector import train_detector

# %% tags=["nbval-check-output"]
train_detector = check("12.8", train_detector)

# %% [markdown]
# The next cell trains your detector once more, on the first scenes of section 1, and draws what it finds in unseen ones, each box with
# the number of its kind; the true boxes are dashed. Two boxes around one creature are duplicates: after so few updates, many are left.

# %%
torch.manual_seed(0)
built = train_detector(*(part[:1_500].cpu() for part in known), 2, 500)
fresh = Scenes(*(part[:100].cpu() for part in unseen))
with torch.no_grad():
    predicted = built(fresh.images)
p, corners = predicted[..., :3].softmax(-1)[..., :2], to_corners(predicted[..., -4:])
name = f"{whose(train_detector)} detector"
figures.show_found(fresh, detections.Detections(p, corners), name)

# %% [markdown] tags=["companion"]
# ## Papers and decks
#
# **Papers.** Carion et al. 2020, *DETR*, eqs. 1 and 2, sections 3 and 4.2 (https://arxiv.org/abs/2005.12872) · Rezatofighi et
# al. 2019, *Generalized Intersection over Union*, algorithm 1 (https://arxiv.org/abs/1902.09630) · Zhu et al. 2021, *Deformable
# DETR*, section 4.1, for reference points (https://arxiv.org/abs/2010.04159) · Kuhn 1955, the Hungarian method
# (https://doi.org/10.1002/nav.3800020109) · Crouse 2016, *On implementing 2D rectangular assignment algorithms*, the algorithm
# in SciPy (https://doi.org/10.1109/TAES.2016.140952) · Lin et al. 2014, *COCO* (https://arxiv.org/abs/1405.0312).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | CS | Transformers for Object Detection | 5 Each creature once | `course_lib.models.DETR`, `course_lib.losses.match`, `course_lib.losses.set_loss` |

# %% tags=["ledger"]
ledger()
