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
# **The claim.** A small transformer that answers with a *set* learns to find and name up to three digits on a canvas. What makes it learn is that
# each object is matched with one query: give the objects to the queries in the order of a list, and in as many steps the same network learns
# little. With a backbone that was not trained before, it finds more than it can name. Two things of the paper are *not* shown at
# this scale, and stand here with their numbers: that the cheapest matching trains better than a greedy one, and that nothing is reported twice.
#
# **You need** lecture 05 (encoder, decoder, cross-attention). **Time:** about 85 minutes. {measured}
#
# **Papers.** Carion et al. 2020, *DETR*, eqs. 1 and 2, section 3 (https://arxiv.org/abs/2005.12872) · Rezatofighi et al. 2019, *Generalized
# Intersection over Union*, algorithm 1 (https://arxiv.org/abs/1902.09630) · Zhu et al. 2021, *Deformable DETR*, section 4.1, for reference points
# (https://arxiv.org/abs/2010.04159) · Liu et al. 2022, *DAB-DETR*, section 4, for queries that look about a point
# (https://arxiv.org/abs/2201.12329) · Kuhn 1955, the Hungarian method (https://doi.org/10.1002/nav.3800020109) · Lin et al. 2014, *COCO*
# (https://arxiv.org/abs/1405.0312).
#
# **Deck.** CSE 891: the table below leads from its section to ours.

# %% [markdown] tags=["companion"]
# <details><summary>Which section of the deck this follows, and where the library holds it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | CS | Transformers for Object Detection | 7 The experiment | `course_lib.models.DETR`, `course_lib.losses.match`, `course_lib.losses.set_loss` |
#
# </details>

# %%
from copy import deepcopy

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib import objectives, primitives
from course_lib.attention import fused_scaled_dot_product_attention, scaled_dot_product_attention
from course_lib.blocks import ConvNet, Sizes
from course_lib.datasets import LabelledImages, Scenes, digit_scenes, digits, split
from course_tools.notebook import check, predict
from course_lib.models import DETR, PointQueries
from course_lib.losses import SetLoss, deep_set_loss, match_greedily, match_in_order
from course_lib.metrics import mean_average_precision
from course_lib.losses.matching import require_queries
from course_lib.losses.set_prediction import DETR_WEIGHTS, Objects, Predictions
from course_lib.primitives import Overlap, area, iou
from course_lib.shapes import Boxes
from course_tools.notebook import at_scale, boxed, claim, device, explore, ledger, plots, progress, show
from course_lib.analysis import record
from course_lib.training import batches, train

SEED = 0

# %% [markdown]
# ## 1 A list has an order, a set has none
#
# So far a picture had one answer. A street has many: cars, people, dogs, each somewhere, and nobody knows beforehand how many. We scatter one to
# three real digits over a canvas; each has a class, and a box around its ink.
#
# Take a network with six **queries**, six mouths that each say one class and one box, or "no object". The data come as a *list* of objects, in
# whatever order they were put there. The obvious way to train: the first query says the first object of the list, the second the second.

# %% [markdown] tags=["predict"]
# **Predict.** The network sees thousands of scenes. How good does it get?
#
# <details><summary>A. Good: it is told class and box of every object.</summary>
#
# It is told which *mouth* is to say which object, too, and that cannot be seen in the picture.</details>
# <details><summary>B. It learns next to nothing.</summary>
#
# Yes. Of two digits, either may come first. The first query is asked for the one here and for the other there; the best it can do is a box
# between the two, and a class that is half of each.</details>
# <details><summary>C. It learns single digits, and fails where there are two.</summary>
#
# A good thought: of a single digit there is only one list. But the queries are trained on all scenes at once.</details>

# %%
sizes = Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=1)
SHORT, LONG = 500, at_scale(cpu=800, gpu=4_000)
drawn, named = digits()
part = split(range(len(named)), 1_400, 0, 397, SEED)


def scenes(which, n, seed, size=24, fewest=1, most=3):
    """Scatter some of the digits over n canvases; another seed scatters others."""
    chosen = torch.tensor(which)
    made = digit_scenes(LabelledImages(drawn[chosen][:, None], named[chosen]), n, seed, (size, size), (fewest, most))
    return Scenes(*(tensor.to(device()) for tensor in made))


known, new = scenes(part.train, 3_000, SEED), scenes(part.test, 300, SEED + 1)


def paper(image):
    """A scene (1, H, W) as dark ink on white paper, (H, W, 3)."""
    return (1 - image[0].cpu())[..., None].expand(-1, -1, 3)


first = {f"scene {i}": i for i in range(3)}
show(
    boxed(
        {title: paper(new.images[i]) for title, i in first.items()},
        {title: primitives.to_corners(new.boxes[i][new.classes[i] >= 0]).cpu() for title, i in first.items()},
        {title: [str(c) for c in new.classes[i].tolist() if c >= 0] for title, i in first.items()},
    ),
    alt="Three scenes with the boxes of their digits: "
    + "; ".join(f"{title} holds {[c for c in new.classes[i].tolist() if c >= 0]}" for title, i in first.items())
    + ".",
)

# %% [markdown] tags=["predict"]
# The network is DETR, and sections 2 to 6 take it apart. It stands on a small convolutional backbone. As in the paper, where the backbone comes from
# ImageNet, ours is **trained before**: to name digits that stand alone.
#
# **Predict.** What does a backbone that can name single digits already know of *several*?
#
# <details><summary>A. Nothing: it was asked for one answer a picture.</summary>
#
# The answer came from a maximum over places. Which place it was, the maximum forgot; the map before it did not.</details>
# <details><summary>B. What stands where, roughly: its map has a vector for each cell.</summary>
#
# Yes. Naming needs strokes, and strokes are found wherever they are. What is missing is who reads which cells.</details>
# <details><summary>C. Where the boxes end.</summary>
#
# Nobody asked it for edges. That is left to learn.</details>


# %%
def one_digit_namer(steps=200):
    """Train a backbone, and a linear layer on it, to name a digit that stands alone somewhere on a small canvas."""
    torch.manual_seed(SEED)
    backbone = ConvNet(1, widths=(32, 64, 64), strides=(2, 2, 1))
    model = nn.Sequential(backbone, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(64, 10)).to(device())
    alone = scenes(part.train, 3_000, SEED, size=16, most=1)
    stream = batches(alone.images, alone.classes[:, 0], batch_size=64, seed=SEED)
    training = train(model, stream, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]), steps=steps, lr=3e-3)
    for _ in progress(training, "one digit", total=steps):
        pass
    return model.eval()


@torch.no_grad()
def near_its_point(model):
    """Let each query look about its own point at first: points and cells are compared by one matrix, made twice as large (section 7)."""
    nn.init.eye_(model.queries.mix.weight)
    nn.init.zeros_(model.queries.mix.bias)
    cross = model.decoder[0].cross
    cross.W_k.weight.mul_(2)
    cross.W_q.load_state_dict(cross.W_k.state_dict())
    return model


def fit(matching=objectives.match, steps=SHORT, backbone=None):
    """Train a DETR of six queries on the scenes; its backbone begins as a copy of the one that names single digits."""
    torch.manual_seed(SEED)
    backbone = deepcopy(namer[0]) if backbone is None else backbone
    model = near_its_point(DETR(backbone, 64, 10, PointQueries(6, 64), sizes, fused_scaled_dot_product_attention)).to(device())

    def loss(model, batch):
        pictures, classes, boxes = batch
        return deep_set_loss(*model(pictures), classes, boxes, matching)

    training = train(model, batches(*known, batch_size=16, seed=SEED), loss, steps=steps, lr=2e-3, warmup=steps // 4)
    for _ in progress(training, f"{steps} steps on scenes", total=steps):
        pass
    return model.eval()


# %%
@torch.no_grad()
def say(model, images):
    """What the last layer says: the probability of each digit at each query (B, N, 10), and the corners of its box (B, N, 4)."""
    logits, boxes = (layers[-1] for layers in model(images))
    return logits.softmax(-1)[..., :-1], primitives.to_corners(boxes)


def ap50(said, scenes, naming=True):
    """How well a detector does on scenes, 0 to 1 (section 6); without naming, how well it finds digits, whichever they are."""
    p, corners = said
    p, classes = (p, scenes.classes) if naming else (p.sum(-1, keepdim=True), scenes.classes.clamp(max=0))
    return mean_average_precision(p, corners, classes, primitives.to_corners(scenes.boxes))


def judge(model):
    """The two numbers of a model on new scenes: finding and naming, and finding alone."""
    said = say(model, new.images)
    return ap50(said, new), ap50(said, new, naming=False)


# %% tags=["nbval-check-output"]
namer = one_digit_namer()
alone = scenes(part.test, 300, SEED, size=16, most=1)
with torch.no_grad():
    right = (namer(alone.images).argmax(-1) == alone.classes[:, 0]).float().mean().item()
judged = {"in order, long": judge(fit(match_in_order, steps=LONG))}
claim("12.a", "the backbone names a digit that stands alone: share of new digits", right, at_least=0.8)
claim(
    "12.b",
    "objects given to the queries in the order of the list: AP50 on new scenes",
    judged["in order, long"][0],
    at_most=0.2,
)

# %% [markdown]
# What is missing: somebody has to decide *which query speaks about which object*, and it should be the one that already speaks about it best. For that
# we must say how well a box fits another.
#
# ## 2 Boxes
#
# DETR predicts a box as its centre and size, in parts of the picture: $(x, y, w, h)$, each between 0 and 1 behind a sigmoid, the same for large
# and small pictures. To compare boxes one needs their edges: $(x_1, y_1, x_2, y_2)$, with $x$ to the right and $y$ *downwards*.
#
# $$x_{1,2} = x \mp w/2 \qquad y_{1,2} = y \mp h/2$$
#
# | name | shape |
# | --- | --- |
# | boxes, result | (…, 4) |

# %% exercise="12.1" difficulty="●○○" minutes=5
from course_lib.primitives import to_corners

# %% tags=["nbval-check-output"]
to_corners = check("12.1", to_corners)

# %% [markdown]
# Two boxes **share** a box (or nothing): it begins where the later one begins and ends where the first one ends. They **cover** the sum of their areas, less
# what was counted twice.
#
# $$|A \cap B| = \prod_{\text{x, y}} \max\!\big(0,\ \min(a_2, b_2) - \max(a_1, b_1)\big) \qquad |A \cup B| = |A| + |B| - |A \cap B|$$
#
# | name | shape |
# | --- | --- |
# | a, b: corners | (…, n, 4), (…, m, 4) |
# | shared, covered: every a with every b | (…, n, m) each |
#
# `area(corners)` is given.

# %% exercise="12.2" difficulty="●●○" minutes=12
from course_lib.primitives import overlap

# %% tags=["nbval-check-output"]
overlap = check("12.2", overlap)

# %% [markdown]
# ## 3 How well two boxes agree
#
# $\mathrm{IoU} = |A \cap B| / |A \cup B|$ is 1 for the same box. It has a hole: where two boxes do not touch it is 0, near or far, and no gradient says
# where to go. **GIoU** takes off how much of the smallest box $C$ around both is empty:
#
# $$\mathrm{GIoU} = \mathrm{IoU} - \frac{|C| - |A \cup B|}{|C|}$$
#
# | name | shape |
# | --- | --- |
# | a, b: corners | (…, n, 4), (…, m, 4) |
# | result, above -1 and up to 1 | (…, n, m); a ratio 0/0 counts 0 |
#
# **Bug hunt.** Somebody took for empty whatever in $C$ the boxes do not *share*. A box is right with itself, and a better overlap
# scores higher. Say what goes wrong *before* you run the check.

# %% exercise="12.3" bug="takes_the_shared_part_off"
from course_tools.bank.lecture_12.giou import takes_the_shared_part_off as suspect

# %% tags=["nbval-check-output"]
suspect = check("12.3", suspect)

# %% [markdown] tags=["predict"]
# **For which boxes does it matter most?**
#
# <details><summary>A. For boxes that do not touch.</summary>
#
# Yes. They share nothing, so *all* of C counts as empty: -1, at any distance. The hole that GIoU was to fill is back.</details>
# <details><summary>B. For boxes that agree well.</summary>
#
# There what they share and what they cover are nearly one area, and the two formulas too.</details>
# <details><summary>C. For large boxes.</summary>
#
# Both are ratios of areas: drawn at twice the size, nothing changes.</details>

# %% exercise="12.3" difficulty="●●○" minutes=10
from course_lib.primitives import giou

# %% tags=["nbval-check-output"]
giou = check("12.3", giou)

# %% tags=["nbval-check-output"]
by_hand = giou(torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 1.0, 3.0, 3.0]])).item()
claim("12.c", "boxes of 2 × 2 that share 1, cover 7 and lie in 9: GIoU = 1/7 - 2/9", by_hand, between=(-0.0795, -0.0793))


def pull(measure):
    """How strongly a measure pulls a box towards another that it does not touch: the length of its gradient."""
    box = torch.tensor([[0.1, 0.1, 0.3, 0.3]], requires_grad=True)
    measure(box, torch.tensor([[0.6, 0.5, 0.9, 0.7]])).sum().backward()
    return box.grad.norm().item()


claim("12.d", "boxes apart: length of the gradient of IoU", pull(iou), at_most=1e-9)
claim("12.e", "boxes apart: length of the gradient of GIoU", pull(giou), at_least=0.5)


# %% [markdown] tags=["interactive"]
# **Explore.** A box slides past another. Make it larger or smaller, and move it off the other's row. Where is IoU flat, and GIoU not? Can GIoU be highest
# in a place where the boxes do *not* lie centre on centre?


# %% tags=["interactive"]
def draw_slide(width=0.3, off_the_row=0.0):
    """IoU and GIoU of a box of 0.3 × 0.3 at the centre with another of a given width, which slides by."""
    x = torch.linspace(0, 1, 41)
    moving = to_corners(torch.stack([x, 0 * x + 0.5 + off_the_row, 0 * x + width, 0 * x + 0.3], dim=-1))
    still = to_corners(torch.tensor([[0.5, 0.5, 0.3, 0.3]]))
    lines = {"IoU": (x, iou(moving, still)[:, 0]), "GIoU": (x, giou(moving, still)[:, 0])}
    ends = {name: (values[0].item(), values.max().item()) for name, (_, values) in lines.items()}
    show(
        plots.curves(lines, "centre of the moving box", "agreement", across={"no agreement": 0.0}),
        alt=f"A box {width:.2f} wide slides past one of 0.30, {off_the_row:.2f} off its row. "
        + "; ".join(f"{name} begins at {low:.2f} and is at most {high:.2f}" for name, (low, high) in ends.items())
        + ".",
    )


explore(draw_slide, width=(0.05, 0.9, 0.05), off_the_row=(0.0, 0.6, 0.05))

# %% [markdown]
# ## 4 Who speaks about what
#
# Every query says something. What would it **cost** to let query $n$ speak about object $m$? Little, if it is sure of the class and its box is near
# (Carion et al., section 3.1; the 1 of $1 - \mathrm{GIoU}$ is the same for all and left out):
#
# $$K_{nm} = -\,\hat p_n(c_m) + 5\,\lVert b_m - \hat b_n \rVert_1 - 2\,\mathrm{GIoU}(b_m, \hat b_n)$$
#
# | name | shape |
# | --- | --- |
# | logits, boxes: said | (…, N, n_classes + 1), the last = no object; (…, N, 4) centre and size |
# | classes, targets: there | (…, M), -1 = no object here; (…, M, 4) |
# | cost | (…, N, M), 0 in a column of class -1 |

# %% exercise="12.4" difficulty="●●○" minutes=15
from course_lib.losses import matching_cost

# %% tags=["nbval-check-output"]
matching_cost = check("12.4", matching_cost)

# %% [markdown] tags=["predict"]
# **Predict.** Two objects, two queries; costs: query 1 has 0.1 and 0.4, query 2 has 1 and 6. The first object chooses first, and each takes what
# is cheapest for itself. What is the sum, and what could it be?
#
# <details><summary>A. 0.5: both take query 1.</summary>
#
# A query says *one* class and *one* box.</details>
# <details><summary>B. 6.1, and it could be 1.4.</summary>
#
# Yes. The first object saves 0.9 and costs the second 5.6.</details>
# <details><summary>C. 1.4: choosing the cheapest each time gives the cheapest sum.</summary>
#
# Not when they want the same.</details>

# %% [markdown]
# The **cheapest one-to-one matching** $\hat\sigma = \arg\min_\sigma \sum_m K_{\sigma(m)\,m}$ looks at all of them together. There are $N!/(N-M)!$; the
# Hungarian method finds the best in about $N^3$ steps. SciPy has it: `linear_sum_assignment(matrix)` gives rows and columns of the pairs.
# Padding takes no query.
#
# | name | shape |
# | --- | --- |
# | cost, classes | (B, N, M), (B, M) |
# | queries: of each object, -1 where there is none | (B, M) |

# %% exercise="12.5" difficulty="●●○" minutes=12
from course_lib.losses import match

# %% tags=["nbval-check-output"]
match = check("12.5", match)


# %% tags=["nbval-check-output"]
def total(cost, classes, matching):
    """The sum of the costs of a matching, for each picture."""
    return cost.gather(1, matching(cost, classes)[:, None]).sum((1, 2))


example, both = torch.tensor([[[0.1, 0.4], [1.0, 6.0]]]), torch.zeros(1, 2, dtype=torch.long)
sums = [round(total(example, both, matching).item(), 3) for matching in (match_greedily, match)]
claim("12.f", "the example: sum of the greedy matching, and of the cheapest", sums, equals=[6.1, 1.4])

random_costs, three = (
    torch.rand(500, 6, 3, generator=torch.Generator().manual_seed(SEED)),
    torch.zeros(500, 3, dtype=torch.long),
)
more = total(random_costs, three, match_greedily) - total(random_costs, three, match)
claim(
    "12.g", "random costs, six queries, three objects: how often greedy pays more", (more > 1e-6).float().mean(), at_least=0.15
)
claim("12.h", "and the most that the cheapest matching pays above greedy", (-more).max().item(), at_most=1e-5)

# %% [markdown]
# ## 5 The loss of a set
#
# Once it is known who speaks about what, the loss is plain. Every query is asked for a class, those without an object for "no object", $\varnothing$; only
# matched ones are asked for a box (eq. 2):
#
# $$L = \frac{\sum_n w_n \cdot -\log \hat p_n(c_n)}{\sum_n w_n} + \frac1{\#}\sum_m \Big[5\,\lVert b_m - \hat b_{\hat\sigma(m)} \rVert_1 + 2\,(1 - \mathrm{GIoU})\Big]$$
#
# with $w_n = 1$ for a query with an object and `no_object` for one without; # is the number of objects in the batch, at least 1.
#
# | name | shape |
# | --- | --- |
# | logits, boxes, classes, targets | as above, with one batch axis B |
# | queries: what `match` gave | (B, M) |
# | classes, l1, giou: not yet weighed by 5 and 2 | three numbers |

# %% exercise="12.6" difficulty="●●●" minutes=18
from course_lib.losses import set_loss

# %% tags=["nbval-check-output"]
set_loss = check("12.6", set_loss)

# %% [markdown]
# Is it the loss of a *set*? Put the objects into another order, and the queries too: nothing may change. In the order of the list it does.


# %% tags=["nbval-check-output"]
def loss_of(said, there, matching):
    """The three parts of the loss, weighed and added, when queries and objects are matched in this way."""
    cost = matching_cost(*said, *there)
    return SetLoss(*set_loss(*said, *there, matching(cost, there[0]))).total().item()


generator = torch.Generator().manual_seed(SEED)
some = known.classes[:64].cpu(), known.boxes[:64].cpu()
said = torch.randn(64, 6, 11, generator=generator), torch.rand(64, 6, 4, generator=generator)
objects, queries = torch.tensor([2, 0, 1]), torch.randperm(6, generator=generator)
shuffled = [part[:, objects] for part in some]
changes = {m: abs(loss_of(said, some, m) - loss_of(said, shuffled, m)) for m in (match, match_in_order)}
asked = abs(loss_of(said, some, match) - loss_of([part[:, queries] for part in said], some, match))
claim("12.i", "objects in another order: change of the loss, matched", changes[match], at_most=1e-4)
claim("12.j", "queries in another order: change of the loss, matched", asked, at_most=1e-4)
claim("12.k", "objects in another order: change of the loss, in the order of the list", changes[match_in_order], at_least=0.001)

# %% [markdown] tags=["predict"]
# **Predict.** Why is `no_object` a tenth, and not 1? Think of a model that knows nothing: each query always says the same probability of $\varnothing$,
# and shares the rest among the classes. Our scenes hold two objects on average and there are six queries; in the paper, seven and a hundred. Which
# probability of $\varnothing$ costs least?
#
# <details><summary>A. Two thirds and 93 %: the share of queries without an object.</summary>
#
# That is so for a weight of 1. Such a model begins by saying nothing at all, and hears little about classes.</details>
# <details><summary>B. With a weight of a tenth: about 17 %, and 57 %.</summary>
#
# Yes: $w n_\varnothing / (w n_\varnothing + n_{\text{objects}})$. A tenth was chosen for a hundred queries. With six it leans to the other side: it makes a
# model say *something* too often. Section 9 comes back to that.</details>
# <details><summary>C. The weight does not move it: it is the same loss.</summary>
#
# It moves what is best to say when in doubt, and a young model is always in doubt.</details>


# %% tags=["nbval-check-output"]
def best_silence(no_object):
    """The probability of "no object" at which a model that says the same everywhere has the lowest loss of the classes."""
    silence = torch.linspace(0.005, 0.995, 199)
    spoken = match_in_order(torch.zeros(64, 6, 3), some[0])
    losses = []
    for p in silence:
        logits = torch.cat([((1 - p) / 10).log().expand(64, 6, 10), p.log().expand(64, 6, 1)], dim=-1)
        losses.append(set_loss(logits, said[1], *some, spoken, no_object)[0])
    return silence[torch.stack(losses).argmin()].item()


claim("12.l", "six queries, weight 1: the probability of no object that costs least", best_silence(1.0), between=(0.58, 0.75))
claim("12.m", "six queries, weight 0.1: the probability of no object that costs least", best_silence(0.1), between=(0.1, 0.25))

# %% [markdown]
# ## 6 How good is a detector?
#
# It says six things about every picture, some of them with little confidence. Where to draw the line? **Average precision** draws it everywhere. Line up the
# detections of one class over all pictures, the most confident first. A detection is a **hit** if its IoU with an object of the class is at least a
# half (hence AP*50*) and nobody more confident has claimed that object. After $k$ detections
#
# $$\text{precision}_k = \frac{\text{hits}}{k} \qquad \text{recall}_k = \frac{\text{hits}}{\text{objects}} \qquad
# \mathrm{AP} = \operatorname*{mean}_{r = 0,\, 0.01,\, \dots,\, 1}\ \max_{\text{recall}_k \ge r} \text{precision}_k$$
#
# | name | shape |
# | --- | --- |
# | scores, hits | (n,), (n,) bool, in no order |
# | n_objects | an int |
# | result | a number; a recall that is never reached counts 0 |

# %% exercise="12.7" difficulty="●●○" minutes=12
from course_lib.metrics import average_precision

# %% tags=["nbval-check-output"]
average_precision = check("12.7", average_precision)

# %% tags=["nbval-check-output"]
confidence = torch.tensor([0.9, 0.8, 0.6, 0.3])
hits = torch.tensor([True, False, True, False])
example = average_precision(confidence, hits, 3).item()
claim(
    "12.n",
    "hit, miss, hit, miss; one of three objects never found: AP = (34 + 33 · 2/3) / 101",
    example,
    between=(0.554, 0.555),
)
surer = average_precision(confidence / 3, hits, 3).item()
claim(
    "12.o", "all confidences divided by three: change of AP, which knows their order only", abs(example - surer), at_most=1e-6
)

# %% [markdown]
# ## 7 The experiment
#
# | what happens | shape |
# | --- | --- |
# | picture → backbone → one vector for each cell | (B, 1, 24, 24) → (B, 36, 64) |
# | encoder: cells look at cells | (B, 36, 64) |
# | decoder: queries look at queries, then at cells | (B, 6, 64) |
# | classes and boxes, all at once | (B, 6, 11), (B, 6, 4) |
#
# Queries are not causal and not written one after the other: nothing needs to be said before anything else. What tells one from another is a learned vector
# $q_n$ alone. In DETR it is free, and has no place. Ours come with a **reference point** each, learned too: the box is predicted relative to the
# point, and $q_n$ is the point's sinusoids through a linear layer. At first that layer is the identity, and cells and queries go through one matrix, so
# that each query looks about its own point. These are crutches, and so is the backbone trained before; all are in the literature. What the backbone
# is worth is measured below, what the points are worth is not.
#
# First a training as long as that in the order of the list, with *your* `match`. Then, in fewer steps each, on the same batches: the same once more; greedy matching; a
# fresh backbone.

# %%
detector = fit(match, steps=LONG)

# %%
judged["matched"] = judge(fit())
judged["greedy"] = judge(fit(match_greedily))

# %% [markdown] tags=["predict"]
# **Predict.** A fresh backbone, after the short training. Which suffers more?
#
# <details><summary>A. Finding: the features say nothing yet.</summary>
#
# Ink against paper is an easy feature. Compare the right points of the pairs in the figure below.</details>
# <details><summary>B. Naming.</summary>
#
# Yes. Boxes give a gradient from the first step. A class is one of ten behind a query that must first look at the right place.</details>
# <details><summary>C. Both, equally.</summary>
#
# See how much of what is found is named too, with the one backbone and with the other (12.u, 12.v).</details>

# %%
torch.manual_seed(SEED)
judged["fresh backbone"] = judge(fit(backbone=ConvNet(1, widths=(32, 64, 64), strides=(2, 2, 1))))

# %%
judged["matched, long"] = judge(detector)
groups = {name: judged[name] for name in ("matched, long", "in order, long", "matched", "greedy", "fresh backbone")}
show(
    plots.seeds(groups, "AP50 on new scenes", "of each pair of points: left finding and naming, right finding alone"),
    alt="AP50 on new scenes, finding and naming, then finding alone: "
    + "; ".join(f"{name} {both:.2f} and {finding:.2f}" for name, (both, finding) in groups.items())
    + f". The first two were trained for {LONG} steps, the others for {SHORT}.",
)

# %% tags=["nbval-check-output"]
naming = {name: both / max(finding, 1e-3) for name, (both, finding) in judged.items()}
claim("12.p", "DETR of one layer, one to three digits: AP50 on new scenes", judged["matched, long"][0], at_least=0.3)
claim("12.q", "the same, finding alone", judged["matched, long"][1], at_least=0.35)
claim(
    "12.r",
    "AP50 in the order of the list, as a share of AP50 matched, after as many steps",
    judged["in order, long"][0] / judged["matched, long"][0],
    at_most=0.4,
)
claim(
    "12.s",
    "short training: AP50 with greedy matching, as a share of AP50 matched",
    judged["greedy"][0] / judged["matched"][0],
    at_least=0.25,
)
claim("12.t", "short training, fresh backbone: finding alone", judged["fresh backbone"][1], at_least=0.05)
claim(
    "12.u",
    "short training, fresh backbone: of the AP50 of finding, what is left with naming",
    naming["fresh backbone"],
    at_most=0.5,
)
claim(
    "12.v",
    "short training: what is left with naming, backbone trained before to a fresh one: ratio",
    naming["matched"] / max(naming["fresh backbone"], 1e-2),
    at_least=1.2,
)

# %% [markdown] tags=["predict"]
# **Predict.** Greedy matching trains too (12.s). On random costs it was often dearer (12.g). In how many new scenes does it differ from the cheapest matching, once the
# model has learned?
#
# <details><summary>A. In as many as with random costs.</summary>
#
# The costs of a trained model are not random: few queries fit an object, and few objects want the same one.</details>
# <details><summary>B. In hardly any.</summary>
#
# Yes. Queries are specialists by then, and few objects want the same one. Where objects crowd, the Hungarian method may earn its keep; our
# canvas is too empty to tell.</details>
# <details><summary>C. It cannot be said without training greedily.</summary>
#
# A matching is only a function of costs: try both on the same model.</details>


# %% tags=["nbval-check-output"]
@torch.no_grad()
def both_matchings(model):
    """The cheapest and the greedy matching of new scenes, (B, M) each."""
    cost = matching_cost(*(layers[-1] for layers in model(new.images)), new.classes, new.boxes)
    return match(cost.cpu(), new.classes.cpu()), match_greedily(cost, new.classes).cpu()


cheapest, greedy = both_matchings(detector)
differ = (cheapest != greedy).any(-1).float().mean().item()
claim("12.x", "new scenes in which the trained model's greedy matching is not the cheapest one", differ, at_most=0.1)

# %% [markdown]
# ## 8 See it
#
# What is said with a probability above a half, and where the queries look that say it: the weights of the decoder's attention over the 36 cells,
# mean of the heads.


# %%
def query_maps(model, images):
    """The attention of each query over the cells, (B, N, H / 4, W / 4), by the equation form, which keeps its weights."""
    H, W = (side // 4 for side in images.shape[2:])
    cross = model.decoder[-1].cross
    cross.mechanism = scaled_dot_product_attention
    with record(model) as seen, torch.no_grad():
        model(images)
    cross.mechanism = fused_scaled_dot_product_attention
    return seen["decoder.0.cross"][0].weights.mean(1).unflatten(-1, (H, W)).cpu()


def draw_scene(scenes, i, line=0.5):
    """Draw what is said about a scene above a line of confidence, and the maps of the three queries that are surest."""
    image, there = scenes.images[i], f"said; there: {[c for c in scenes.classes[i].tolist() if c >= 0]}"
    p, corners = (part[0].cpu() for part in say(detector, image[None]))
    sure, digit = p.sum(-1), p.argmax(-1)
    speak = [n for n in sure.argsort(descending=True).tolist() if sure[n] > line]
    maps, best = query_maps(detector, image[None])[0], sure.argsort(descending=True)[:3].tolist()
    pictures = {there: paper(image)} | {f"query {n} says {digit[n]}, {100 * sure[n]:.0f} %": maps[n] for n in best}
    found = {there: corners[speak]} | {title: corners[[n]] for title, n in zip(list(pictures)[1:], best, strict=True)}
    words = {there: [f"{digit[n]}" for n in speak]} | {title: [""] for title in list(pictures)[1:]}
    told = ", ".join(f"query {n} a {digit[n]} at ({corners[n, 0]:.2f}, {corners[n, 1]:.2f})" for n in speak)
    show(
        boxed(pictures, found, words),
        alt=f"{there[6:]}. Above {line:g} it says: {told or 'nothing'}. Then where the three surest queries look.",
    )


draw_scene(new, (new.classes >= 0).all(-1).nonzero()[1].item())

# %% tags=["nbval-check-output"]
b, m = (new.classes.cpu() >= 0).nonzero(as_tuple=True)
n, corners = cheapest[b, m], to_corners(new.boxes.cpu()[b, m])
cells = torch.tensor([[x, y, x + 1, y + 1] for y in range(6) for x in range(6)]) / 6
inside = overlap(corners[:, None], cells.expand(len(b), 36, 4))[0][:, 0] * 36
maps = query_maps(detector, new.images).flatten(2)
looks, another = (maps[b, n] * inside).sum(-1).mean().item(), (maps[b, (n + 1) % 6] * inside).sum(-1).mean().item()
claim(
    "12.y",
    "share of its attention that a query puts on its own object's box, over the share of the picture",
    looks / area(corners).mean().item(),
    at_least=1.5,
)
claim("12.z", "the same of a query, as a multiple of that of another query of the same scene", looks / another, at_least=1.2)

# %% [markdown] tags=["predict"]
# **Predict.** Below, the centres of all that each query says with a probability above a half, over 300 scenes. What divides the work among the queries?
#
# <details><summary>A. The digit: one query for each few classes.</summary>
#
# Nothing holds a query to a class; six would be too few for ten.</details>
# <details><summary>B. The place: each has a region, and neighbours overlap.</summary>
#
# Yes. It starts near its point, is matched with what is near, and so learns to be good there. Where two regions overlap, doubles can come from.</details>
# <details><summary>C. Nothing: any query may say anything.</summary>
#
# It may. Matching makes specialists of them, because who is nearest is asked again.</details>

# %%
p, corners = (part.cpu() for part in say(detector, new.images))
said_by = {f"query {n}": corners[p.sum(-1)[:, n] > 0.5, n] for n in range(6)}
centres = {name: (own[:, :2] + own[:, 2:]) / 2 for name, own in said_by.items()}
white = torch.ones(24, 24, 3)
show(
    boxed(dict.fromkeys(said_by, white), dots=centres),
    alt="Centres of the boxes that each query says: "
    + "; ".join(
        f"{name} {len(own)} boxes, mean centre ({own[:, 0::2].mean():.2f}, {own[:, 1::2].mean():.2f})"
        for name, own in said_by.items()
    )
    + ".",
)

# %% tags=["nbval-check-output"]
everywhere = torch.cat(list(centres.values()))
about_own = torch.cat([own - own.mean(0) for own in centres.values()])
regions = (about_own.square().sum() / (everywhere - everywhere.mean(0)).square().sum()).item()
claim(
    "12.z-place",
    "spread of the centres about their query's mean centre, over their spread about one centre",
    regions,
    at_most=0.8,
)

# %% [markdown] tags=["try-it"]
# **Try it.** Four digits on a larger canvas: one more, and more room, than the detector has ever seen. Nothing in it forbids either. Move the line: what
# comes in when you lower it, and what goes first when you raise it?

# %% tags=["try-it"]
crowd = scenes(part.test, 100, SEED + 2, size=28, fewest=4, most=4)
draw_scene(crowd, 0, line=0.3)
print(
    f"four digits on 28 × 28: AP50 {ap50(say(detector, crowd.images), crowd):.2f}, one to three on 24 × 24: {judged['matched, long'][0]:.2f}"
)

# %% [markdown] tags=["predict"]
# ## 9 Take one away
#
# Older detectors say everything many times and then strike out: of two boxes that overlap by more than a half, the less sure one goes. That is
# **non-maximum suppression**. The paper: DETR needs none, since matching lets one query speak for each object, and self-attention among queries lets
# them agree who.
#
# **Predict.** With our trained model: (a) strike out doubles; (b) cut the self-attention among the queries.
#
# <details><summary>A. Both change little: there are only six queries.</summary>
#
# Six queries cover a small canvas densely, so neighbours see the same digit, and must hear of each other to agree who says it.</details>
# <details><summary>B. (a) helps a little, (b) destroys.</summary>
#
# Yes, here. Doubles remain after so short a training, with a loss that makes queries say something when in doubt (section 5). And what the queries
# learn of each other is not an extra: cut it, and what follows has never seen such states. (A detector *trained* without it is another question.)</details>
# <details><summary>C. (a) hurts: it strikes out true neighbours.</summary>
#
# It would where objects overlap. Our digits never do.</details>


# %%
def struck_out(said, most=0.5):
    """What stays when of two boxes with an IoU above `most` the less sure one goes, the surest first, (B, N)."""
    p, corners = said
    sure = p.sum(-1)
    above = iou(corners, corners) > most
    keep, rows = torch.ones_like(sure, dtype=torch.bool), torch.arange(len(sure), device=sure.device)
    order = sure.argsort(-1, descending=True)
    for i in range(1, sure.shape[1]):
        for j in range(i):
            keep[rows, order[:, i]] &= ~(above[rows, order[:, i], order[:, j]] & keep[rows, order[:, j]])
    return keep


class Silent(nn.Module):
    """In the place of the queries' self-attention: they hear nothing."""

    def forward(self, x, places):
        """Give zeros of the shape of x."""
        return torch.zeros_like(x)


# %% tags=["nbval-check-output"]
said = say(detector, new.images)
keep = struck_out(said)
sure = said[0].sum(-1) > 0.5
doubles = (sure & ~keep).sum().item() / sure.sum().item()
with_striking, plain = ap50((said[0] * keep[..., None], said[1]), new), judged["matched, long"][0]
deaf = deepcopy(detector)
deaf.decoder[0].mixer = Silent()
alone = judge(deaf)[0]
reported = sure.sum().item() / (new.classes >= 0).sum().item()
claim("12.A", "reports above a half for each object that there is: more than one", reported, at_least=1.05)
claim("12.B", "of the reports above a half, those that repeat a surer one", doubles, at_least=0.005)
claim(
    "12.C",
    "what striking out doubles adds to AP50",
    with_striking - plain,
    between=(-0.03, 0.2),
)
claim(
    "12.D",
    "AP50 when queries do not hear of each other, cut after training, as a share of AP50",
    alone / plain,
    at_most=0.5,
)

# %% [markdown] tags=["quiz"]
# ## 10 Before you go
#
# **Question 1.** Somebody sorts the objects of each scene from left to right, and gives the leftmost to query 1, and so on. Better than the list?
#
# <details><summary>A. No: without matching it cannot work.</summary>
#
# The trouble was not that nothing is matched. It was that the order could not be *seen*.</details>
# <details><summary>B. Yes: this order can be seen in the picture.</summary>
#
# Right. Query 1 can learn "leftmost". It is still hard: one digit more at the left edge moves all others to another query.</details>
# <details><summary>C. It is the same as matching.</summary>
#
# Matching depends on what the queries say; this does not.</details>
#
# **Question 2.** A detector finds every object and reports each of them twice, the second time less surely than *any* first report. Its AP?
#
# <details><summary>A. A half: half of the reports are wrong.</summary>
#
# They all stand at the end of the line, where recall is already 1.</details>
# <details><summary>B. 1.</summary>
#
# Right: the best precision that reaches each recall is 1 before the first double comes. AP sees the order, not the line that a user will draw.</details>
# <details><summary>C. 0: an object may be claimed once only.</summary>
#
# It is claimed once, by the surer report; that one is a hit.</details>
#
# **Question 3.** Why does no gradient flow through the matching?
#
# <details><summary>A. It is a choice: a small change of the costs leaves it as it is.</summary>
#
# Right. The loss of the chosen pairs has the gradient; where the choice flips, the loss has a kink.</details>
# <details><summary>B. SciPy has no gradients, it is a matter of software.</summary>
#
# One in torch would have none either: indices are whole numbers.</details>
# <details><summary>C. It flows, through the cost.</summary>
#
# The cost only decides. What is minimised is the loss of the pairs.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague's DETR on drone pictures says "no object" everywhere after a day of training. The loss of the classes is
# low. What do you measure, and in which order do you change things? Use three numbers of this lecture.*
#
# | points | what earns them |
# | --- | --- |
# | 1 | computes which probability of no object costs least for a model that knows nothing, from queries, objects and weight |
# | 1 | looks at the loss of the boxes, or at AP without naming, apart from the classes |
# | 1 | asks where the backbone comes from, and shows that naming is what a fresh one lacks |
# | 1 | asks how the queries are told apart, and whether the training was long enough |
# | 1 | is clear and short |

# %% [markdown]
# ## 11 Ledger
#
# **Where paper and deck and the code part ways**, each by a number:
#
# - The *deck* (CSE 891) has DETR as a transformer for detection and a figure. What makes it learn is the loss: with objects in the order of a list, the
#   same transformer fails (12.b, 12.r).
# - The *paper* matches by the Hungarian method. With three objects and six queries one seed cannot tell it from a greedy matching (12.s); in the trained
#   model the two hardly ever differ (12.x).
# - The *paper*: no non-maximum suppression. After our short training, and with a weight for a hundred queries used for six, doubles remain (12.B), and
#   striking them out is worth something or nothing, as the seed will have it (12.C).
# - Our queries have points to start from, which the paper's have not. What that is worth is not measured here. The paper trains for 500 epochs.
#
# **What this lecture does not show.** One seed a run. Runs with other seeds differed a good deal while this was written, so the thresholds are wide: that
# matching beats the order of the list held in all of them, which of greedy and cheapest matching leads did not. The scenes are composed: digits on
# nothing. Objects that overlap, that are small, that crowd, are where detectors differ.

# %% tags=["ledger"]
ledger()
