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
# # 15 · Attention on graphs
#
# Graph attention is masked attention whose mask is a list of edges: each node attends to its neighbours.
#
# ![](diagram:gat)
#
# You will write attention over edges, graph attention and graph convolution, and find tasks where learned edge weights are
# necessary, where they are not, and where the score of the first paper is not expressive enough. You will see when edges help to
# classify whole graphs. At the end you build a whole network.
#
# **Prerequisites:** lecture 04 (self-attention, masks, heads). **Time:** about 115 minutes.
# {measured}

# %%
from statistics import mean

import torch

from course_lib.datasets import karate_club
from course_tools.notebook import claim, fitting, node_classifier, predict

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 Zachary's karate club
#
# From 1970 on, an anthropologist recorded who met whom among the 34 members of a karate club. Then the instructor and the
# officer who led the club quarrelled; the club split in two, and every member took a side.
#
# We are given the sides of the two *leaders* only and must predict the side of every other member. The features of a member
# only identify it: they are one row of the identity matrix.

# %% [markdown] tags=["predict"]
# **Predict.** A network of two layers predicts a member's side from the member's features; it is trained on the two leaders.
# How many of the other 32 members does it classify correctly?
#
# <details><summary>A. Nearly all: it has more parameters than there are members.</summary>
#
# Training changes two rows of its first matrix, those of the two leaders. The rows of the others keep their random initial
# values.</details>
# <details><summary>B. About half.</summary>
#
# Yes: for a member without a label, the prediction depends on random initial weights. The information about the other members
# is in the edges, and this network does not use them.</details>
# <details><summary>C. None: it always predicts the larger side.</summary>
#
# The sides are of equal size, 17 and 17, and the network does not know that either.</details>


# %% tags=["nbval-check-output"]
club = node_classifier.here(karate_club())
leaders, others = torch.tensor([0, 33]), torch.arange(1, 33)
alone = [node_classifier.fit_alone(club, leaders, seed) for seed in SEEDS]
placed = {
    "each member alone": [node_classifier.accuracy(one, club, others) for one in alone]
}
claim(
    "15.a",
    "a network that does not use the edges stays near chance: accuracy on members, "
    "mean of the seeds",
    mean(placed["each member alone"]),
    at_most=0.7,
)
models = {"each member alone": alone}
fitting.show_losses(models, "cross-entropy on the two leaders, nats")

# %% [markdown]
# ## 2 Edges as a mask
#
# Most graph networks fit one frame, **message passing** (Gilmer et al. 2017): each neighbour $j$ of a node $i$ sends a message,
# the messages are aggregated, and the aggregate updates the node:
#
# $$m_{ij} = M(h_i, h_j) \qquad m_i = \sum_{j \in \mathcal{N}_i} m_{ij} \qquad h'_i = U(h_i, m_i)$$
#
# (A message may also depend on features of the edge.) Networks differ in message, aggregation and update. In graph attention,
# sections 2 and 3, the message is $\alpha_{ij} W h_j$, with a weight $\alpha_{ij}$ computed from both nodes. In graph
# convolution, section 4, it is $W h_j / \sqrt{d_i d_j}$, with a weight that depends on the edges alone. Both aggregate by a sum,
# and both update by a nonlinearity, $\sigma(m_i)$; node $i$ is one of its own neighbours, so $h_i$ takes part.
#
# In lecture 04 every token attended to every other, except where masked. A graph *is* such a mask: node $i$ may attend to its
# neighbours $\mathcal{N}_i$. Veličković et al. score a pair of nodes by a single layer,
#
# $$e_{ij} = \mathrm{LeakyReLU}\!\left(a^\top [z_i \,\|\, z_j]\right) \qquad z = W h$$
#
# where $\|$ concatenates two vectors. We call $i$ the query node and $j$ the key node. The first half of $a$ multiplies only
# $z_i$, the second only $z_j$. So the product is a sum of two numbers, one from each node, and the vectors need not be
# concatenated.
#
# | name | shape |
# | --- | --- |
# | `z` | (…, N, d): projected features |
# | `a` | (…, 2d): first half for the query node, second half for the key node |
# | scores | (…, N, N): a row for each query node, a column for each key node |
#
# For negative inputs, LeakyReLU has the slope `slope`; the paper uses 0.2.
#
# ![](diagram:message_passing)

# %%
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import Attended, attend, gat_edge_scores
from course_lib.primitives import require_edges
from course_lib.shapes import Edges, Nodes, Scores
from course_tools.notebook import check

# %% exercise="15.1" difficulty="●○○" minutes=8
from course_lib.attention import gat_scores

# %% tags=["nbval-check-output"]
gat_scores = check("15.1", gat_scores)

# %% [markdown]
# In a large graph, most pairs of nodes are not edges: of the million pairs of a thousand nodes, perhaps five thousand are. So
# the mask is stored as a **list**: `edges`, (2, E), where node `edges[0, e]` attends to node `edges[1, e]`. A friendship is two
# edges, one in each direction; an edge listed twice counts twice; a node may have no edges.
#
# The softmax is now taken over the edges *of each query node*, which may be anywhere in the list:
#
# $$\alpha_{ij} = \frac{\exp(e_{ij})}{\sum_{k \in \mathcal{N}_i} \exp(e_{ik})}$$
#
# | name | shape |
# | --- | --- |
# | `scores`, weights | (…, E): one number for each edge, in the order of the list |
# | `n_nodes` | N |
#
# As in every softmax, subtract a maximum before the exponential. Which maximum?

# %% exercise="15.2" difficulty="●●○" minutes=12
from course_lib.attention import edge_softmax

# %% tags=["nbval-check-output"]
edge_softmax = check("15.2", edge_softmax)

# %% [markdown]
# The remaining step is the weighted sum: node $i$ receives $\sum_{j \in \mathcal{N}_i} \alpha_{ij}\, v_j$, and a node without
# edges receives 0.
#
# **Bug hunt.** The version below has four lines. It runs, and the shapes are right. Decide what is wrong *before* you run the
# check; then write a correct version.

# %% exercise="15.3" bug="keeps_the_last_message_only"
from course_tools.bank.lecture_15.attend_edges import (
    keeps_the_last_message_only as suspect,
)

# %% [markdown] tags=["predict"]
# **Which line is wrong, and what does it lose?**
#
# <details><summary>A. The weights: they should be normalised over the keys.</summary>
#
# They are normalised over the edges of each query node, by your own `edge_softmax` or the library's.</details>
# <details><summary>B. The addition: where an index is repeated, only one of the additions is kept.</summary>
#
# Yes. `context[..., i, :] += m` first reads all entries, then adds, then writes all of them back: of several messages to one
# node, only one remains. `index_add` and `scatter_add` add every message.</details>
# <details><summary>C. The direction: values are taken from the wrong node of each edge.</summary>
#
# They are taken from `edges[1]`, the key node, as they should be.</details>

# %% tags=["nbval-check-output"]
suspect = check("15.3", suspect)

# %% exercise="15.3" difficulty="●●○" minutes=10
from course_lib.attention import attend_edges

# %% tags=["nbval-check-output"]
attend_edges = check("15.3", attend_edges)

# %% [markdown]
# The next cell tests two properties of the three functions on the club. A list of edges and a mask must give the same result.
# And nodes have no order: if the nodes are renumbered, each node must still get the same context.

# %% tags=["nbval-check-output"]
from course_tools.notebook import device

generator = torch.Generator().manual_seed(SEEDS[0])
z, a = (
    torch.randn(*shape, generator=generator).to(device())
    for shape in ((2, 34, 8), (2, 16))
)
allowed = torch.zeros(34, 34, dtype=torch.bool, device=device())
allowed[tuple(club.edges)] = True
by_mask = attend(gat_scores(z, a), z, allowed)
by_list = attend_edges(gat_edge_scores(z, a, club.edges), z, club.edges)
weights_apart = by_mask.weights[:, club.edges[0], club.edges[1]] - by_list.weights
contexts_apart = by_mask.context - by_list.context
apart = max(x.abs().max().item() for x in (weights_apart, contexts_apart))
claim(
    "15.b",
    "`attend_edges` over a list agrees with masked attention: largest difference of "
    "contexts and weights",
    apart,
    at_most=1e-4,
)
order = torch.randperm(34, generator=generator).to(device())
renumbered = order.argsort()[club.edges]
shuffled = attend_edges(
    gat_edge_scores(z[:, order], a, renumbered), z[:, order], renumbered
)
moved = (shuffled.context - by_list.context[:, order]).abs().max().item()
claim(
    "15.c",
    "members get the same contexts when they are renumbered: largest difference",
    moved,
    at_most=1e-4,
)

# %% [markdown]
# ## 3 Multiple heads, and the club again
#
# Heads work as in lecture 04: head $k$ has its own projection $W^k$ and its own vector $a^k$. In hidden layers the heads are
# concatenated; in the last layer, where each dimension is a class, they are **averaged**:
#
# $$h'_i = \big\Vert_{k} \sum_j \alpha^k_{ij} W^k h_j \qquad\text{or}\qquad h'_i = \frac1K \sum_k \sum_j \alpha^k_{ij} W^k h_j$$
#
# | name | shape |
# | --- | --- |
# | `x` | (…, N, d_in) |
# | `W` | (h · d, d_in), heads stacked row-wise; $Wx$ is `x @ W.mT` |
# | `a` | (h, 2d) |
# | `combine` | `merge_heads` or `average_heads`: (…, h, N, d) to (…, N, h · d) or (…, N, d) |
# | weights | (…, h, E) |
#
# Given: `split_heads`, and `gat_edge_scores(z, a, edges)`, which computes the entries of your `gat_scores` at the edges only.

# %%
from collections.abc import Callable

from course_lib.attention import average_heads, merge_heads, split_heads
from course_lib.primitives import with_self_loops

# %% exercise="15.4" difficulty="●●○" minutes=12
from course_lib.attention import multi_head_graph_attention

# %% tags=["nbval-check-output"]
multi_head_graph_attention = check("15.4", multi_head_graph_attention)


# %% [markdown] tags=["predict"]
# **Predict.** Now a graph attention network, which uses the edges, is trained on the same two labels for the same 60 steps. As
# a control, another is trained on a club whose edges were rewired at random: every member keeps its *number* of neighbours. How
# many members does each classify correctly?
#
# <details><summary>A. Both do well: attention learns which neighbours are informative.</summary>
#
# It can only choose among the neighbours it is given. Random neighbours carry no information about a member's side.</details>
# <details><summary>B. The real edges: nearly all members; random edges: about half.</summary>
#
# Yes. Information travels along the edges, two steps in two layers. In the real club, nearly every member is within two steps
# of a leader, and more closely connected to its own leader than to the other.</details>
# <details><summary>C. Neither does well: two labels are too few.</summary>
#
# There are two labels, but also 78 friendships. Most of the data is in the graph.</details>

# %%
from functools import partial

from course_tools.notebook.seed_scores import show_seeds
from course_tools.notebook.graph_networks import TwoLayerGAT
from course_tools.notebook.node_classifier import accuracy, fit, here

club_network = partial(TwoLayerGAT, 34, 8, 2, multi_head_graph_attention)
kinds = ("attention along friendships", "attention along random edges")
placed = {name: [] for name in kinds} | placed
models |= {name: [] for name in kinds}
for seed in SEEDS:
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(club.edges.shape[1], generator=generator).to(device())
    random = club._replace(edges=torch.stack([club.edges[0], club.edges[1, order]]))
    for name, graph in zip(kinds, (club, random), strict=True):
        models[name].append(fit(club_network, graph, leaders, seed))
        placed[name].append(accuracy(models[name][-1], graph, others))
fitting.show_losses(models, "cross-entropy on the two leaders, nats")
show_seeds(placed, "accuracy on members", across={"chance": 0.5})

# %% tags=["nbval-check-output"]
claim(
    "15.d",
    "graph attention classifies the members from the labels of the two leaders: "
    "accuracy, worst of the seeds",
    min(placed["attention along friendships"]),
    at_least=0.8,
)
claim(
    "15.e",
    "over random edges the same network stays near chance: accuracy, mean of the seeds",
    mean(placed["attention along random edges"]),
    at_most=0.72,
)

# %% [markdown]
# ## 4 Graph convolution: fixed weights
#
# A year earlier, Kipf & Welling had mixed neighbours with weights that depend on the graph alone:
#
# $$H' = \sigma(\hat A H W) \qquad \hat A_{ij} = \frac{1}{\sqrt{d_i d_j}}\ \text{at the edges of } A + I$$
#
# Here $I$ adds a self-loop at each node, and $d_i$ counts the edges along which node $i$ attends, its self-loop included. This
# is attention with fixed weights: a neighbour with many edges gets a small weight, whatever its features are.
#
# | name | shape |
# | --- | --- |
# | `edges` | (2, E): with self-loops, if these are wanted |
# | weights | (E,), float32; 0 where $d_j = 0$ |

# %% exercise="15.5" difficulty="●○○" minutes=8
from course_lib.primitives import gcn_weights

# %% tags=["nbval-check-output"]
gcn_weights = check("15.5", gcn_weights)

# %% [markdown]
# **A graph on your own machine.** The documentation of a function in numpy, scipy or scikit-learn lists related functions in a
# section "See Also". We take the functions as nodes and these references as edges. The features of a function are the words of
# its documentation, without that section. The task is to predict its sub-package. Five functions of each sub-package are
# labelled.


# %%
from course_lib.datasets import see_also

library = here(see_also())
n_words, n_topics = library.features.shape[1], int(library.labels.max()) + 1
ends = library.labels[library.edges]
agreeing = (ends[0] == ends[1]).float().mean().item()
print(
    f"{len(library.names)} functions, {library.edges.shape[1] // 2} references, "
    f"{n_topics} topics"
)
print(f"for example: {library.names[0]} and {library.names[int(library.edges[1, 0])]}")

# %% [markdown] tags=["predict"]
# **Predict.** We compare four networks of two layers: one that reads each text alone, one with convolutions, one with
# attention, and one with uniform attention, whose weights are the same for all neighbours. Which is best?
#
# <details><summary>A. Attention, clearly: it can choose among the references.</summary>
#
# It could. But ask first whether there is anything to choose: most references lead to a function of the same topic (claim 15.i
# below measures how many), so one neighbour is about as informative as another.</details>
# <details><summary>B. The three that use the edges differ little, and are better than the texts alone.</summary>
#
# Yes. The edges help (15.f). On average, learned and fixed edge weights differ by about one percentage point or less (15.g, 15.h).
# Three seeds cannot distinguish this from zero, nor from the one or two points that the papers report on graphs of this kind:
# the printed intervals are several points wide.</details>
# <details><summary>C. The texts alone: the words show what a function is about.</summary>
#
# They are informative, but five labelled texts on a topic do not contain all its words.</details>

# %%
from course_lib.attention import GraphAttention
from course_lib.models import GAT
from course_tools.notebook.graph_networks import TwoLayerGCN, uniform
from course_tools.notebook.node_classifier import Alone

STATIC = partial(GraphAttention, form=attend_edges)
networks = {
    "texts alone": partial(Alone, n_words, 32, n_topics),
    "convolutions": partial(TwoLayerGCN, n_words, 32, n_topics, gcn_weights),
    "attention": partial(GAT, n_words, 8, n_topics, 4, mechanism=STATIC),
    "uniform attention": partial(GAT, n_words, 8, n_topics, 4, mechanism=uniform),
}
topics_found, models = ({name: [] for name in networks} for _ in range(2))
for seed in SEEDS:
    order = torch.randperm(
        len(library.labels), generator=torch.Generator().manual_seed(seed)
    )
    given = torch.cat(
        [order[library.labels.cpu()[order] == topic][:5] for topic in range(n_topics)]
    )
    held_out = order[~torch.isin(order, given)]
    for name, make in networks.items():
        models[name].append(fit(make, library, given, seed))
        topics_found[name].append(accuracy(models[name][-1], library, held_out))
fitting.show_losses(models, "cross-entropy, labelled functions, nats")
averages = {name: mean(values) for name, values in topics_found.items()}
show_seeds(topics_found, "accuracy on functions")

# %% tags=["nbval-check-output"]
gain = averages["convolutions"] - averages["texts alone"]
claim(
    "15.f",
    "references between documents help: accuracy of convolutions minus that of texts "
    "alone, mean of the seeds",
    gain,
    at_least=0.02,
)
leads = {}
for rival in ("convolutions", "uniform attention"):
    lead = torch.tensor(topics_found["attention"]) - torch.tensor(topics_found[rival])
    half = 4.30 * lead.std() / len(SEEDS) ** 0.5
    leads[rival] = lead.mean()
    print(
        f"attention minus {rival}: {lead.mean():+.3f} ± {half:.3f} (95 % interval of "
        f"the mean), by seed {', '.join(f'{one:+.3f}' for one in lead)}"
    )
claim(
    "15.g",
    "attention minus convolutions: accuracy on functions, mean of the seeds",
    leads["convolutions"],
    between=(-0.04, 0.04),
)
claim(
    "15.h",
    "attention minus uniform attention: accuracy on functions, mean of the seeds",
    leads["uniform attention"],
    between=(-0.04, 0.04),
)
claim("15.i", "most references stay within a topic: fraction", agreeing, at_least=0.75)

# %% [markdown]
# ## 5 One informative neighbour of eight
#
# In section 4, the functions without a label were nodes of the graph that the network was trained on: the task was
# *transductive*. In sections 5, 6 and 9 the networks are tested on graphs that did not occur in training: these tasks are
# **inductive**.
#
# We now construct a graph in which neighbours are *not* equally informative. Each reader, a node with a label, attends to eight
# neighbours. Each neighbour has a value, one of the eight is marked, and the label is the value of the marked neighbour. The
# other seven are noise.
#
# The model is one attention layer with one head, followed by a linear read-out. `STATIC`, above, lets the layer attend by your
# `attend_edges`. The control is the same layer with its weights uniform.

# %% [markdown] tags=["predict"]
# **Predict.** Each reader has eight neighbours, one of which has its label. What accuracy does the control with uniform
# attention reach, if chance is one in eight?
#
# <details><summary>A. One in eight: it has no information about the answer.</summary>
#
# It receives the mean of eight values, which shows which values occur and how often. One of them is the right one.</details>
# <details><summary>B. About a third: it guesses the most frequent value among the eight.</summary>
#
# Yes. A value that occurs three times is the right one in three cases out of eight. Marks and values are summed, and the sum
# does not show which value was marked.</details>
# <details><summary>C. Nearly 100 %: the mark is one of the features, and the read-out can use it.</summary>
#
# After averaging, the mark only shows that *some* neighbour was marked, which is true for every reader.</details>


# %%
from course_tools.notebook.graph_networks import LookupGAT, attends_to_answer


def labelled(graph):
    """The nodes that have a label."""
    return graph.labels.ge(0).nonzero().flatten()


def compare(makers, learn, unseen):
    """Train each kind for each seed, and show the losses: the models, and their
    accuracies on the unseen graph."""
    models = {
        name: [fit(make, learn, labelled(learn), seed, 150, 2e-2) for seed in SEEDS]
        for name, make in makers.items()
    }
    for names in filter(None, (list(makers)[:3], list(makers)[3:])):
        drawn = {name: models[name] for name in names}
        fitting.show_losses(drawn, "cross-entropy on the readers, nats")
    return models, {
        name: [accuracy(model, unseen, labelled(unseen)) for model in trained]
        for name, trained in models.items()
    }


# %% tags=["nbval-check-output"]
from course_lib.datasets import marked_neighbour
from course_lib.models import GCN
from course_tools.notebook import at_scale

parts = marked_neighbour(at_scale(cpu=1_000, gpu=8_000), 10, 500, seed=0)
learn, unseen = here(parts.train), here(parts.test)
d_in = learn.features.shape[1]
kinds = {
    "attention": partial(LookupGAT, STATIC, d_in),
    "uniform attention": partial(LookupGAT, uniform, d_in),
    "two convolutions": partial(GCN, d_in, 32, 8),
}
models, marked = compare(kinds, learn, unseen)
is_marked = unseen.features[unseen.edges[1], 1]
graph = unseen.features, unseen.edges
found = [attends_to_answer(model, *graph, is_marked) for model in models["attention"]]
claim(
    "15.j",
    "attention finds the marked neighbour in an unseen graph (inductive): accuracy, "
    "worst of the seeds",
    min(marked["attention"]),
    at_least=0.9,
)
claim(
    "15.k",
    "its largest weight is on the marked neighbour: fraction of readers, worst of the "
    "seeds",
    min(found),
    at_least=0.95,
)
claim(
    "15.l",
    "the control, the same layer with uniform attention, does not find it: accuracy, "
    "best of the seeds",
    max(marked["uniform attention"]),
    at_most=0.55,
)

# %% [markdown] tags=["predict"]
# **Predict.** The cell above also trained a third model on the marked neighbours: a plain GCN, two graph convolutions with
# fixed edge weights. What accuracy did *it* reach?
#
# <details><summary>A. About a third as well: its weights are fixed.</summary>
#
# They are. But its first layer also transforms each *neighbour*, which attends only to itself, and a ReLU follows.</details>
# <details><summary>B. More than 90 %.</summary>
#
# Yes. Its first layer can suppress every value without a mark: $\mathrm{ReLU}(\text{value} + \text{mark} - 1)$. Then seven
# neighbours contribute zeros, and averaging in the second layer does no harm. If a neighbour's own features determine whether
# it is relevant, attention is not necessary: a nonlinearity *before* the sum suffices.</details>

# %% tags=["nbval-check-output"]
show_seeds(marked, "accuracy", across={"chance, 1/8": 1 / 8})
claim(
    "15.m",
    "fixed weights suffice where the neighbour decides: accuracy of two convolutions, "
    "worst of the seeds",
    min(marked["two convolutions"]),
    at_least=0.9,
)

# %% [markdown]
# ## 6 Static and dynamic attention
#
# Look at the score again. In $\mathrm{LeakyReLU}(a_1^\top z_i + a_2^\top z_j)$ the query node $i$ contributes the same number
# $a_1^\top z_i$ to all its scores, and LeakyReLU is increasing. So **every** node ranks its neighbours in the same order, that
# of $a_2^\top z_j$. Brody et al. call this *static* attention. They move the nonlinearity inside:
#
# $$e_{ij} = a^\top\, \mathrm{LeakyReLU}(z_i + z_j)$$
#
# Like Bahdanau's score in lecture 02, it applies a nonlinearity to a sum of a query term and a key term. **This is not exactly
# the published GATv2**: its eq. 7, $a^\top\, \mathrm{LeakyReLU}(W [h_i; h_j])$, has separate weights for query and neighbour.
# We share $z = Wh$ between both (as the option `share_weights` of common implementations does), so $e_{ij} = e_{ji}$ before the
# softmax. The ranking can still depend on the query node.

# %% tags=["nbval-check-output"]
from course_lib.attention import DynamicGraphAttention

everyone = torch.ones(34, 34, dtype=torch.bool).nonzero().mT
favourites = {"static": [], "dynamic": []}
for seed in range(20):
    torch.manual_seed(1_000 * SEEDS[0] + seed)
    x = torch.randn(1, 34, 8)
    for name, kind in (("static", GraphAttention), ("dynamic", DynamicGraphAttention)):
        weights = kind(1, 8)(x, everyone).weights.view(34, 34)
        favourites[name].append(len(weights.argmax(-1).unique()))
claim(
    "15.n",
    "static attention over 34 nodes has one favourite for all: number of different "
    "most-attended nodes, largest of 20 draws",
    max(favourites["static"]),
    equals=1,
)
claim(
    "15.o",
    "dynamic attention over the same nodes has several favourites: number of different "
    "most-attended nodes, mean of the draws",
    mean(favourites["dynamic"]),
    at_least=1.5,
)

# %% [markdown] tags=["predict"]
# **Predict.** Eight readers attend to the same eight neighbours. Each neighbour has a key and a value; each reader has one of
# the keys, and its label is the value of the neighbour with that key. This is the look-up task of lecture 04, as a graph. Now
# the relevant neighbour depends on the *query node*. Which networks with one head can learn this?
#
# <details><summary>A. All that learned to select the marked neighbour: the keys are in the features.</summary>
#
# They are. But a static head ranks the neighbours in one order for all readers, and the eight readers need eight different
# neighbours ranked first. And whether a neighbour's value should be suppressed cannot be computed from the neighbour alone: it
# depends on the reader.</details>
# <details><summary>B. Only dynamic attention.</summary>
#
# Yes. The accuracy of one static head remains near that of uniform attention, even on the training examples (15.r). A larger
# network with uniform attention receives only the sum over all eight neighbours; in the same number of steps, it does not learn
# the task either (15.s-larger). Several static heads are another matter: see below.</details>
# <details><summary>C. None: eight readers in a group are too few to learn the keys.</summary>
#
# We can generate as many groups as we like, and the keys are the same in all of them.</details>


# %%
from course_lib.datasets import matching_neighbour
from course_tools.notebook.graph_networks import UniformLookup

DYNAMIC = partial(DynamicGraphAttention, form=attend_edges)
parts = matching_neighbour(at_scale(cpu=150, gpu=1_000), 10, 75, seed=0)
learn, unseen = here(parts.train), here(parts.test)
d_in = learn.features.shape[1]
kinds = {
    "dynamic": partial(LookupGAT, DYNAMIC, d_in),
    "static": partial(LookupGAT, STATIC, d_in),
    "eight static heads": partial(LookupGAT, STATIC, d_in, n_heads=8),
    "uniform attention": partial(LookupGAT, uniform, d_in),
    "larger, uniform attention": partial(UniformLookup, d_in),
    "two convolutions": partial(GCN, d_in, 32, 8),
}
keys = unseen.features[:, 1:9]
models, lookups = compare(kinds, learn, unseen)
matches = (keys[unseen.edges[0]] * keys[unseen.edges[1]]).sum(-1)
graph = unseen.features, unseen.edges
found = [attends_to_answer(model, *graph, matches) for model in models["dynamic"]]
in_training = {
    name: [accuracy(model, learn, labelled(learn)) for model in trained]
    for name, trained in models.items()
}
counts = {
    name: sum(p.numel() for p in make().parameters()) for name, make in kinds.items()
}
print("parameters: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
memorised = mean(in_training["eight static heads"])
print(f"eight static heads on the graph of the training: accuracy {memorised:.2f}")
show_seeds(lookups, "accuracy", across={"chance, 1/8": 1 / 8})

# %% tags=["nbval-check-output"]
without = {
    name: max(lookups[name])
    for name in ("uniform attention", "two convolutions", "larger, uniform attention")
}
claim(
    "15.p",
    "dynamic attention finds the neighbour with the reader's key in an unseen graph "
    "(inductive): accuracy, worst of the seeds",
    min(lookups["dynamic"]),
    at_least=0.9,
)
claim(
    "15.q",
    "its largest weight is on the neighbour with the reader's key: fraction of "
    "readers, worst of the seeds",
    min(found),
    at_least=0.9,
)
claim(
    "15.r",
    "one static head does not find it, even in training: accuracy, best of the seeds",
    max(in_training["static"]),
    at_most=0.6,
)
claim(
    "15.s",
    "the control, the same layer with uniform attention, does not find it: accuracy on "
    "unseen groups, best of the seeds",
    without["uniform attention"],
    at_most=0.55,
)
claim(
    "15.s-convolutions",
    "two convolutions do not find it: accuracy, best of the seeds",
    without["two convolutions"],
    at_most=0.55,
)
claim(
    "15.s-larger",
    "a larger network with uniform attention does not find it in as many steps: "
    "accuracy, best of the seeds",
    without["larger, uniform attention"],
    at_most=0.65,
)

# %% [markdown] tags=["predict"]
# **Predict.** Eight static heads could serve eight readers, if each head ranks another key first. In the figure they are less
# accurate than one dynamic head. The next cell trains them longer, with *new* groups at each of 400 updates. How accurate are
# they on unseen groups?
#
# <details><summary>A. No better: static attention cannot solve this task.</summary>
#
# *One* static head cannot. Eight heads rank the neighbours in eight orders.</details>
# <details><summary>B. Better: above 0.65, in the mean of the seeds.</summary>
#
# Yes (15.s-new), with large differences between the seeds. On a fixed graph of 150 groups they were more accurate on the training groups than on new ones
# (15.s-heads): they memorised some of the answers. New groups at each update leave nothing to memorise.</details>
# <details><summary>C. Worse: without repetition there is nothing to learn from.</summary>
#
# The keys are the same in all groups; only their order and the values change.</details>


# %% tags=["nbval-check-output"]
def new_groups(seed):
    """Endless look-up graphs of 50 groups each."""
    for index in range(1, 10_000):
        part = matching_neighbour(50, 1, 1, seed=100_000 * (seed + 1) + index).train
        yield here(part)


def on_readers(model, graph):
    """The cross-entropy on the readers of a graph."""
    known = labelled(graph)
    logits = model(graph.features, graph.edges)[known]
    return F.cross_entropy(logits, graph.labels[known])


heads_on_new = []
for seed in SEEDS:
    torch.manual_seed(seed)
    model, stream = kinds["eight static heads"]().to(device()), new_groups(seed)
    fitting.fitted(model, stream, on_readers, steps=400, lr=2e-2, warmup=66)
    heads_on_new.append(model)
learned = [accuracy(model, unseen, labelled(unseen)) for model in heads_on_new]
print("accuracy on unseen groups, by seed:", ", ".join(f"{one:.2f}" for one in learned))
fitting.show_losses(
    {
        "eight static heads, new groups": heads_on_new,
        "eight static heads, same groups": models["eight static heads"],
        "dynamic, same groups": models["dynamic"],
    },
    "cross-entropy on the readers, nats",
)
claim(
    "15.s-heads",
    "eight static heads on the same groups: accuracy on these minus accuracy on unseen "
    "groups, mean of the seeds",
    mean(in_training["eight static heads"]) - mean(lookups["eight static heads"]),
    at_least=0.1,
)
claim(
    "15.s-new",
    "eight static heads, new groups at each of 400 updates: accuracy on unseen groups, "
    "mean of the seeds",
    mean(learned),
    at_least=0.65,
)

# %% [markdown]
# So the limit is that of a *single* static head. With as many heads as keys, new groups at each update and more updates, static
# attention learns most of the task, too (0.87 on average), and its loss is still falling. Dynamic attention needs one head,
# about an eighth of the parameters, and 150 groups. We do not measure other numbers of static heads, nor the larger network
# with uniform attention in more steps.
#
# ## 7 The attention weights
#
# The next figure shows the attention weights of *one* network that was trained on the club, with one seed, along the edges of the
# club; another seed gives other weights. Each half
# of an edge shows how much the member at its end attends to the member at the other end; the weights of self-loops are not
# drawn. There is *no* ground truth to compare these weights with, so interpret them with caution: in section 4, three seeds
# could not show that learned weights are better than fixed ones.

# %%
from course_tools.notebook import network, show

model = fit(club_network, club, leaders, SEEDS[0])
query, key = looped = with_self_loops(club.edges, 34)
with torch.no_grad():
    z_1 = split_heads(club.features @ model.W_1.mT, 4)
    scores = gat_scores(z_1, model.a_1)[:, query, key]
    heads = attend_edges(scores, z_1, looped).weights.cpu()
mean_weights = heads.mean(0)[: club.edges.shape[1]]
names = [str(i) for i in range(34)]
sides = ["with the instructor (0)", "with the officer (33)"]
draw = partial(network, club.edges, club.labels, names=names, legend=sides)
strongest = int(mean_weights.argmax())
show(
    draw(
        mean_weights,
        title="first layer, mean of the heads",
        most=mean_weights.max().item(),
    ),
    alt="The karate club as a graph of 34 members in two groups; half edges are "
    "coloured by attention. The largest weight is that of member "
    f"{int(club.edges[0, strongest])} on member {int(club.edges[1, strongest])}, "
    f"{mean_weights[strongest]:.2f}; half of the weights are below "
    f"{mean_weights.median():.2f}.",
)

# %% [markdown] tags=["try-it"]
# **Try it.** Which neighbours does one member attend to? Members 0 and 33 are the leaders; member 8 supported the officer, yet
# joined the instructor's side: his examination for a black belt was three weeks away. How does the weight of each neighbour
# compare with a uniform one?


# %% tags=["try-it"]
def draw_member(member=33, head=1):
    """Draw the weights of one member only, in one head (1 to 4)."""
    own = club.edges[0].cpu() == member
    weights = heads[head - 1, : len(own)].where(own, torch.nan)
    best = int(weights.nan_to_num().argmax())
    n = int(own.sum())
    title = f"member {member}, head {head}: {n} neighbours, uniform {1 / (n + 1):.2f}"
    show(
        draw(weights, title=title, most=heads.max().item()),
        alt=f"Member {member} of the club in head {head}: with {int(own.sum())} "
        f"neighbours and itself a uniform weight is {1 / (int(own.sum()) + 1):.2f}; "
        f"it attends most to member {int(club.edges[1, best])}, {weights[best]:.2f}.",
    )


draw_member(8, 1)

# %% [markdown] tags=["interactive"]
# **Explore.** Step through the members and the four heads. Do the heads differ?

# %% tags=["interactive"]
from course_tools.notebook import explore

explore(draw_member, member=(0, 33), head=(1, 4))

# %% [markdown]
# ## 8 Depth and over-smoothing
#
# In one layer, a node receives information from its direct neighbours only, so more layers should bring more information. But
# each layer averages a node with its neighbours, which makes the features of nodes more similar. The **Dirichlet energy**
# measures how much neighbours still differ:
#
# $$E(X) = \tfrac12 \sum_{(i,j)} \lVert x_i - x_j \rVert^2$$
#
# Both directions of an edge are in the list, and the factor ½ makes each pair count once. The energy is 0 exactly if all
# neighbours have equal features.
#
# | name | shape |
# | --- | --- |
# | `x` | (…, N, d) |
# | energy | (…): one number for each graph |

# %%
from course_lib.datasets import les_miserables

# %% exercise="15.6" difficulty="●○○" minutes=6
from course_lib.primitives import dirichlet_energy

# %% tags=["nbval-check-output"]
dirichlet_energy = check("15.6", dirichlet_energy)

# %% [markdown] tags=["predict"]
# **Predict.** Apply $\hat A$ repeatedly, without any training. What happens to the energy of $x_i/\sqrt{d_i}$?
#
# <details><summary>A. It falls to a positive level that depends on the graph.</summary>
#
# What remains is the component along $\sqrt{d_i}$, and its energy is 0.</details>
# <details><summary>B. It falls towards 0, after the first steps by nearly the same factor in every step.</summary>
#
# Yes: by the square of the second largest eigenvalue of $\hat A$, once the components of the smaller ones have decayed (15.t).
# On a connected graph only one direction remains, and in it $x_i/\sqrt{d_i}$ is the same for all nodes.</details>
# <details><summary>C. It falls like 1 / depth.</summary>
#
# That would be slower. The decay is geometric: a straight line on a logarithmic axis.</details>


# %%
from course_lib.primitives import propagate
from course_tools.notebook import plots


def convolved(graph, depth):
    """The features after 0, 1, …, depth steps of Â; and Â itself, (N, N), and the roots
    of the degrees, (N, 1)."""
    edges, x = (
        with_self_loops(graph.edges.cpu(), len(graph.names)),
        graph.features.cpu().double(),
    )
    weights = gcn_weights(edges, len(x)).double()
    matrix = torch.zeros(len(x), len(x), dtype=torch.float64).index_put(
        tuple(edges), weights
    )
    steps = [x]
    for _ in range(depth):
        steps.append(propagate(steps[-1], edges, weights))
    degrees = torch.bincount(edges[0], minlength=len(x)).double()
    return steps, matrix, degrees.sqrt()[:, None]


depth, energies, rates, promised = 64, {}, {}, {}
for name, graph in (("karate club", club), ("Les Misérables", les_miserables())):
    steps, matrix, root = convolved(graph, depth)
    energy = torch.stack([dirichlet_energy(x / root, graph.edges.cpu()) for x in steps])
    energies[name] = energy / energy[0]
    rates[name] = (energy[40] / energy[20]).item() ** (1 / 20)
    promised[name] = torch.linalg.eigvalsh(matrix).abs().sort().values[-2].item() ** 2
depths = range(depth + 1)
show(
    plots.curves(
        {name: (depths, values) for name, values in energies.items()},
        "steps of Â",
        "energy, relative to that of the features",
        log="y",
    ),
    alt=f"Energy against the number of steps, logarithmic: after {depth} steps "
    + ", ".join(
        f"{values[-1]:.0e} is left on {name}, a factor of {rates[name]:.2f} per step"
        for name, values in energies.items()
    )
    + ".",
)

# %% tags=["nbval-check-output"]
worst = max(abs(rates[name] / promised[name] - 1) for name in rates)
left = max(values[-1].item() for values in energies.values())
claim(
    "15.t",
    "from step 20 to 40, the energy's factor per step beside the square of Â's "
    "second largest eigenvalue: relative difference, worse of two graphs",
    worst,
    at_most=0.05,
)
claim(
    "15.u",
    "fraction of the energy that is left after 64 steps: larger of two graphs",
    left,
    at_most=1e-3,
)

# %% [markdown] tags=["predict"]
# **What accuracy does over-smoothing cost?** Deep networks can fail for many reasons. So we train a single matrix $W$ and
# change only the number $K$ of mixing steps before it: $\mathrm{softmax}(\hat A^K X\, W)$. **Predict.** How well does a single
# matrix, trained after $K$ mixing steps, classify the members of the club?
#
# <details><summary>A. It keeps improving: each member receives information from more of the others.</summary>
#
# After one step, nearly all members are classified correctly, and a few more steps change little: after four, every member has
# received information from both leaders. With many more steps, the accuracy falls.</details>
# <details><summary>B. Well for small K, near chance for large K.</summary>
#
# Yes. The differences between members still exist in principle, but they shrink by a constant factor in each mixing step, until
# 60 steps of training can no longer use them.</details>
# <details><summary>C. The same for every K: W can undo the mixing.</summary>
#
# $W$ acts on features; the mixing acts on nodes. No $W$ can separate nodes whose features are equal.</details>

# %%
from course_tools.notebook.node_classifier import OneMatrix

powers = [1, 2, 4, 8, 16, 32, 64]
steps, _, root = convolved(club, powers[-1])


by_depth, models = {}, {}
for K in powers:
    mixed = club._replace(features=steps[K].float().to(device()))
    trained = [fit(partial(OneMatrix, 34, 2), mixed, leaders, seed) for seed in SEEDS]
    by_depth[K] = [accuracy(model, mixed, others) for model in trained]
    models[f"K = {K}"] = trained
drawn = {f"K = {K}": models[f"K = {K}"] for K in powers[::2]}
fitting.show_losses(drawn, "cross-entropy on the two leaders, nats")
lines = {"one matrix": (powers, [mean(by_depth[K]) for K in powers])}
show(
    plots.curves(
        lines,
        "steps of Â before the matrix, K",
        "accuracy on members",
        log="x",
        across={"chance": 0.5},
    ),
    alt="Accuracy on members against the number of mixing steps: "
    + ", ".join(f"{mean(by_depth[K]):.2f} at {K}" for K in powers)
    + "; chance is 0.50.",
)

# %% tags=["nbval-check-output"]
claim(
    "15.v",
    "after four steps of mixing, one matrix classifies the members: accuracy, worst of "
    "the seeds",
    min(by_depth[4]),
    at_least=0.8,
)
claim(
    "15.w",
    "after 64 steps, the same matrix and training do not: accuracy, best of the seeds",
    max(by_depth[64]),
    at_most=0.65,
)

# %% [markdown]
# Nodes become alike only within a connected component; over-smoothing is harmful where one component contains several classes.
# The karate club is such a component. The graph of section 4 has 150 components, most of them with a single topic, but the
# largest contains 442 functions of many topics: there, too, complete mixing would be harmful.

# %% [markdown]
# ## 9 Whole graphs
#
# So far, each label belonged to a node. Now it belongs to a whole **graph**, as in chemistry, where a graph is a molecule: the
# task is **graph-level** classification, and again inductive, since the test graphs do not occur in training. We
# turn handwritten digits of 8 × 8 pixels into graphs: each pixel with ink is a node, and pixels that touch are joined. The
# features of a node are its ink and its number of neighbours, but *not its position*.
#
# A batch of graphs is one graph whose parts have no edges between them, so the layers need no change. A **readout** then turns
# the nodes of each graph into one vector. Ours uses `attend_edges` from each graph to its nodes, beside their plain sum.

# %% [markdown] tags=["predict"]
# **Predict.** We train the same network three times, for 60 updates with 64 graphs each: on these graphs, on the nodes without
# any edges, and on graphs that are rewired at random each time they are used. The features stay the same, and each rewired node
# keeps its number of edges. Then we give all nodes their positions as well. With three seeds: where do the edges help?
#
# <details><summary>A. With and without positions: the shape of a digit is in its edges.</summary>
#
# It is also in the positions: the edges can be computed from them.</details>
# <details><summary>B. Without positions; with them, they add little.</summary>
#
# Yes, after 60 updates. Without positions, the edges add to what ink and numbers of neighbours show (15.z), and rewired edges do
# not (15.A). With positions, the edges change the mean accuracy by less than 0.03 (15.C).</details>
# <details><summary>C. Nowhere: the numbers of neighbours describe the shape well enough.</summary>
#
# They are better than guessing, but many shapes have the same numbers.</details>

# %%
from course_tools.notebook.digit_graphs import fit_graph_classifier
from course_tools.notebook.digit_graphs import kept, removed, rewired
from course_tools.notebook.graph_networks import GraphClassifier

settings = {
    "no edges": (STATIC, removed, False),
    "rewired, attention": (STATIC, rewired, False),
    "edges, uniform": (uniform, kept, False),
    "edges, attention": (STATIC, kept, False),
    "positions, no edges": (STATIC, removed, True),
    "positions, edges, attention": (STATIC, kept, True),
}
trained = {
    name: [
        fit_graph_classifier(
            partial(GraphClassifier, mechanism, attend_edges), seed, *how
        )
        for seed in SEEDS
    ]
    for name, (mechanism, *how) in settings.items()
}
whole = {name: [share for _, share in runs] for name, runs in trained.items()}
models = {name: [model for model, _ in runs] for name, runs in trained.items()}
for names in (list(models)[:4], list(models)[4:]):
    fitting.show_losses({name: models[name] for name in names})
n_uniform, n_attention = (
    sum(p.numel() for p in GraphClassifier(mechanism, attend_edges).parameters())
    for mechanism in (uniform, STATIC)
)
print(f"parameters: {n_uniform} with uniform weights, {n_attention} otherwise")
show_seeds(whole, "accuracy on unseen graphs", across={"chance": 0.1})


# %% tags=["nbval-check-output"]
def ahead(ours, theirs):
    """By how much the first is more accurate, for each seed."""
    return [a - b for a, b in zip(whole[ours], whole[theirs], strict=True)]


claim(
    "15.z",
    "without positions, edges help to classify unseen graphs (graph-level, inductive): "
    "accuracy of attention over them minus that without edges, least of the seeds",
    min(ahead("edges, attention", "no edges")),
    at_least=0.04,
)
claim(
    "15.A",
    "rewired edges do not help: accuracy over them minus that without edges, mean of "
    "the seeds",
    mean(ahead("rewired, attention", "no edges")),
    at_most=0.03,
)
claim(
    "15.B",
    "attention over the edges minus uniform attention: accuracy after 60 steps, mean "
    "of the seeds",
    mean(ahead("edges, attention", "edges, uniform")),
    at_least=0.01,
)
claim(
    "15.C",
    "with positions, the edges change the accuracy little: difference, mean of the "
    "seeds",
    mean(ahead("positions, edges, attention", "positions, no edges")),
    between=(-0.03, 0.03),
)
claim(
    "15.D",
    "positions without edges are worth more than edges without positions: difference "
    "in accuracy, least of the seeds",
    min(ahead("positions, no edges", "edges, attention")),
    at_least=0.2,
)

# %% [markdown]
# After 60 updates, learned weights lead uniform ones by four points on average (15.B), but the three seeds differ much: see the
# figure. We do not measure how the accuracies develop in longer training. Positions without edges are worth far more than edges
# without positions (15.D). Before you use a graph network, train the same readout without edges, on everything that you
# know about the nodes.

# %% [markdown] tags=["predict"]
# ## 10 Ablation: the nonlinearity
#
# **Predict.** Remove the nonlinearity: `slope=1` makes LeakyReLU the identity. What happens to the weights of a node $i$?
#
# <details><summary>A. They become uniform.</summary>
#
# $a_2^\top z_j$ still differs from neighbour to neighbour.</details>
# <details><summary>B. They no longer depend on $z_i$ at all.</summary>
#
# Yes: $a_1^\top z_i$ is added to all scores of the row and cancels in the softmax. In a GAT only the nonlinearity lets
# the query node influence its weights, and it can change how *sharp* they are, never their order.</details>
# <details><summary>C. They may become negative.</summary>
#
# A softmax is positive whatever the scores are.</details>

# %% tags=["nbval-check-output"]
other = z + torch.randn(z.shape, generator=generator).to(z)
matters = {}
for slope in (1.0, 0.2):
    a_1, a_2 = a.chunk(2, -1)
    rows = gat_scores(z, a, slope).softmax(-1)
    with_other_queries = torch.cat([other, z], dim=1), torch.cat([a_1, a_2], dim=-1)
    matters[slope] = (
        (gat_scores(*with_other_queries, slope)[:, :34, 34:].softmax(-1) - rows)
        .abs()
        .max()
        .item()
    )
claim(
    "15.x",
    "without the nonlinearity, other query nodes have the same weights: largest "
    "difference",
    matters[1.0],
    at_most=1e-5,
)
claim(
    "15.y",
    "with it, other query nodes have other weights: largest difference",
    matters[0.2],
    at_least=0.01,
)

# %% [markdown]
# ## 11 Build it
#
# **Build task (30 minutes, 12 points).** Write a graph attention network and its training from an empty cell. The graph is the
# look-up graph of section 6: the relevant neighbour depends on the reader, so a single head needs a dynamic score. You may use
# your `edge_softmax` and `attend_edges`, but not the library's `GAT` and `GATLayer`.
#
# The check calls `train_gat(features, edges, labels, known, n_classes, n_steps)` once, on a graph of 300 groups and with
# `n_steps=150`. The labels of the readers of 120 groups are known. Elsewhere `labels` contains *false* classes, so the check
# detects a model that learned from them. The function has at most 60 seconds of processor time; a good solution needs about
# four seconds.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model maps (features, edges) to logits (N, n_classes) |
# | 1 | at most `n_steps` updates and at most 30,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the loss falls during the training (or the model has learned without it) |
# | 1 | the returned model gives the same logits for the same graph |
# | 1 | the logits of nodes without edges are finite |
# | 1 | nodes and edges in another order give the same logits in that order |
# | 1 | the logits of a node depend only on itself and on nodes that it reaches along the edges |
# | 1 | the prediction depends on the neighbour with the reader's key: changing its value changes the prediction, and changing the value of another does not (each for at least 0.8 of the readers) |
# | 1 | accuracy on hidden readers: 0.2 above that of predicting the most frequent value among the neighbours, which has about 0.32 |
# | 2 | accuracy on hidden readers: at least 0.8 (without the edges it is 0.12) |

# %% exercise="15.7" difficulty="●●●" minutes=30
from course_tools.bank.lecture_15.train_gat import train_gat

# %% tags=["nbval-check-output"]
train_gat = check("15.7", train_gat)

# %% [markdown]
# The next cell trains the network once more, on the groups of section 6, and evaluates it on the unseen graph of that section,
# beside the networks that you saw there.

# %%
from course_tools.notebook.authorship import whose

torch.manual_seed(SEEDS[0])
known = learn.labels.cpu()
built = train_gat(learn.features.cpu(), learn.edges.cpu(), known, known >= 0, 8, 150)
with torch.no_grad():
    predicted = built(unseen.features.cpu(), unseen.edges.cpu()).argmax(-1)
readers = labelled(unseen).cpu()
own = (predicted == unseen.labels.cpu())[readers].float().mean().item()
print(f"{whose(train_gat)} network, accuracy on unseen groups: {own:.2f}")
for name, values in lookups.items():
    print(f"{name}, mean of the seeds: {mean(values):.2f}")

# %% [markdown] tags=["quiz"]
# ## 12 Exit quiz
#
# **Question 1.** A graph has 100,000 nodes and 500,000 edges, and a layer has 8 heads. How many attention weights are there?
#
# <details><summary>A. 8 · 100,000²: one for each pair.</summary>
#
# That is dense attention: eighty billion weights, nearly all of which are masked.</details>
# <details><summary>B. 8 · 500,000.</summary>
#
# Right: one for each edge and head.</details>
# <details><summary>C. 100,000: a softmax gives each node one weight.</summary>
#
# A softmax gives each node a weight for each of its neighbours.</details>
#
# **Question 2.** You subtract the largest score of the *whole graph* before the exponential. What goes wrong?
#
# <details><summary>A. Nothing: any constant cancels.</summary>
#
# That holds in exact arithmetic. But in floating point $e^{-2000}$ is 0, and a node all of whose scores are that low computes
# 0/0.</details>
# <details><summary>B. A node whose scores are all far below those of other nodes gets NaN.</summary>
#
# Right. Each node needs its own maximum; the property `large scores` of the check tests this.</details>
# <details><summary>C. Weights no longer sum to 1.</summary>
#
# They do, unless they are NaN.</details>
#
# **Question 3.** On your graph GAT and GCN are equally good. What do you conclude?
#
# <details><summary>A. Attention does not work on graphs.</summary>
#
# Section 6 has a graph on which one dynamic head learned what uniform attention did not.</details>
# <details><summary>B. There is a bug in the attention.</summary>
#
# There may be. But equal results are also to be expected where all neighbours are equally informative. Test the attention on a
# graph where they are not.</details>
# <details><summary>C. On this graph the neighbours are about equally informative; try uniform attention as a control.</summary>
#
# Right: if fixed weights do as well, the attention map does not explain the predictions.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague has a network of bank transfers and wants to find the accounts that launder
# money. "A graph attention network will show us which transfer gave them away: we just look at the weights." Advise.*
#
# | points | criterion |
# | --- | --- |
# | 1 | says what a weight is: a fraction of the sum at one node, in one head of one layer |
# | 1 | proposes a control: uniform attention, or rewired edges; and says what each would show |
# | 1 | asks whether the relevant neighbour depends on the query node, and then for dynamic attention; or how many steps away the evidence lies, and what depth costs |
# | 1 | uses the graph of section 4, or another case in which learned weights made no clear difference |
# | 1 | is clear and short |

# %% [markdown] tags=["companion"]
# ## 13 Summary and sources
#
# **Where the deck, the papers and the code differ**, each with a measurement:
#
# - *GA* lists graph networks among "strategies to solve" the $O(L^2 d)$ of self-attention. They do not make the same
#   computation cheaper: their cost grows with the number of *edges*. On a sparse graph that is linear in N; on a complete
#   graph, which is how self-attention treats a sentence, it is still quadratic.
# - *GA* gives two links and no formula; ours are from the papers. Veličković et al. write that attention assigns "different
#   importances to different neighbours"; that is correct, but the order of these importances is the same for every node (15.n).
# - *Kipf & Welling*'s $A + I$ has a 2 on the diagonal where a node already had a self-loop; `with_self_loops` adds only those
#   that are missing.
#
# **What this lecture does not show.** The club is small: each of the 32 members counts for three percentage points. Sections 5
# and 6 use graphs that were constructed for the purpose, and those of section 9 are images of digits, not molecules. And
# nothing here shows how GAT performs on the large public graphs: `cora()` downloads one of them if you have a network
# connection.
#
# **Papers.** Gilmer et al. 2017, *Neural Message Passing for Quantum Chemistry*, eqs. 1 and 2
# (https://arxiv.org/abs/1704.01212) · Veličković et al. 2018, *Graph Attention Networks*, eqs. 1 to 6
# (https://arxiv.org/abs/1710.10903) · Kipf &
# Welling 2017, eqs. 2 and 9 (https://arxiv.org/abs/1609.02907) · Brody, Alon, Yahav 2022, *How Attentive are Graph Attention
# Networks?*, eq. 7 and section 4.1 (https://arxiv.org/abs/2105.14491) · Cai & Wang 2020, on over-smoothing
# (https://arxiv.org/abs/2006.13318).
#
# [docs/headlines.md](../docs/headlines.md) compares the results of these papers with ours.
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | GA | Graph Neural Networks and Graph Attention Networks | 2 Edges as a mask | `course_lib.attention.gat_scores`, `course_lib.attention.attend_edges`, `course_lib.models.GAT` |
# | GA | Graph Neural Networks and Graph Attention Networks | 4 Graph convolution: fixed weights | `course_lib.primitives.gcn_weights`, `course_lib.models.GCN` |


# %%
from course_tools.notebook import peak_memory
from course_tools.notebook.layer_costs import exponent


@torch.no_grad()
def megabytes(n_nodes, edges):
    """Peak memory of the library's attention over these edges, one head of size 8."""
    mechanism, nodes = GraphAttention(1, 8), torch.randn(1, n_nodes, 8)
    return peak_memory(lambda: mechanism(nodes, edges)) / 2**20


sizes = [256, 512, 1_024]
sparse = [megabytes(n, torch.randint(n, (2, 8 * n))) for n in sizes]
complete = [megabytes(n, torch.ones(n, n).nonzero().mT.contiguous()) for n in sizes]
looped_twice = torch.zeros(2, 2).index_put(
    (torch.tensor([0, 1]), torch.tensor([0, 0])), torch.tensor(1.0)
) + torch.eye(2)

# %% tags=["nbval-check-output"]
own_loop = with_self_loops(torch.tensor([[0, 1], [0, 0]]), 2)
claim(
    "15.GA",
    "memory of graph attention grows in proportion to the nodes of a sparse graph: "
    "fitted exponent",
    exponent(sizes, sparse),
    between=(0.8, 1.2),
)
claim(
    "15.GA-complete",
    "memory of graph attention grows with the square of the nodes of a complete graph: "
    "fitted exponent",
    exponent(sizes, complete),
    between=(1.8, 2.2),
)
entries = [int(looped_twice[0, 0]), int((own_loop == 0).all(0).sum())]
claim(
    "15.Kipf",
    "a node that has a loop gets a 2 in A + I, but no second loop from "
    "with_self_loops: entry, number of loops",
    entries,
    equals=[2, 1],
)

# %% tags=["ledger"]
from course_tools.notebook import ledger

ledger()
