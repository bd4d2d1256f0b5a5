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
# You will write attention over edges, the static scores of GAT, the dynamic scores of GATv2, and graph convolution. You will
# find a task that attention learns and fixed weights, in as many steps, do not; tasks where fixed weights suffice; and a task
# that one head with static scores cannot learn. You will see when edges help to classify whole graphs. At the end you build and
# train a graph attention network.
#
# **Prerequisites:** lecture 04 (self-attention, masks, heads). **Time:** {minutes}.
# {measured}

# %%
from functools import partial
from statistics import mean

import torch

from course_lib.datasets import karate_club
from course_tools.notebook import at_scale, claim, predict
from course_tools.lectures.lecture_15 import experiments, graph_networks

# %% [markdown]
# ## 1 Zachary's karate club
#
# From 1970 on, an anthropologist recorded who met whom among the 34 members of a karate club. Then the instructor and the
# officer who led the club quarrelled; the club split in two, and every member took a side.
#
# We are given the sides of the two *leaders* only and must predict the side of every other member. The features of a member
# only identify that member: they are a row of the identity matrix.

# %% [markdown] tags=["predict"]
# **Predict.** A network of two layers predicts a member's side from the member's features; it is trained on the two leaders.
# How many of the other 32 members does it classify correctly?
#
# <details><summary>A. Nearly all: it has more parameters than there are members.</summary>
#
# In the first layer, training changes only the weights that multiply the features of the two leaders. Those of all other
# members keep their random initial values.</details>
# <details><summary>B. About half.</summary>
#
# Yes: for a member without a label, the prediction depends on random initial weights. The information about the other members
# is in the edges, and this network does not use them.</details>
# <details><summary>C. Few: it predicts the wrong side for most members.</summary>
#
# That would need information too: with the two sides exchanged, its predictions would be right for most members.</details>


# %% tags=["nbval-check-output"]
club = experiments.here(karate_club())
leaders, others = torch.tensor([0, 33]), torch.arange(1, 33)
sides = experiments.transductive(club, leaders, others)
runs = {
    "each member alone": experiments.over_seeds(
        partial(experiments.Alone, 34, 16, 2), sides
    )
}
experiments.show_runs(
    runs,
    "accuracy on members",
    "cross-entropy on the two leaders, nats",
    across={"chance": 0.5},
)
on_leaders = experiments.accuracy_in_training(runs["each member alone"], sides)
claim("15.a", difference=mean(on_leaders) - mean(runs["each member alone"].scores))

# %% [markdown]
# ## 2 Edges as a mask
#
# Most graph networks fit one framework, **message passing** (Gilmer et al. 2017): each neighbour $j$ of a node $i$ sends a
# message, the messages are aggregated, and the aggregate updates the node:
#
# $$m_{ij} = M(h_i, h_j) \qquad m_i = \sum_{j \in \mathcal{N}_i} m_{ij} \qquad h'_i = U(h_i, m_i)$$
#
# Networks differ in message, aggregation and update. In graph convolution, section 4, the message is $W h_j / \sqrt{d_i d_j}$,
# with a weight that depends on the edges alone. In graph attention, sections 2 and 3, it is $\alpha_{ij} W h_j$: the score of a
# weight $\alpha_{ij}$ is computed from both nodes, and the softmax divides by a sum over all neighbours of $i$. Both aggregate
# by a sum, and both update by a nonlinearity, $\sigma(m_i)$. In sections 3 and 4, node $i$ is one of its own neighbours, so
# $h_i$ takes part.
#
# In lecture 04 every token attended to every other, except where masked. A graph *is* such a mask: node $i$ may attend to its
# neighbours $\mathcal{N}_i$. Veličković et al. score a pair of nodes with a single layer,
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
# **Which line is wrong, and what is its effect?**
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
# And the order of the nodes has no meaning: if they are renumbered, each node must still get the same context.

# %% tags=["nbval-check-output"]
generator = torch.Generator().manual_seed(0)
z, a = (torch.randn(*shape, generator=generator) for shape in ((2, 34, 8), (2, 16)))
edges, allowed = club.edges.cpu(), torch.zeros(34, 34, dtype=torch.bool)
allowed[tuple(edges)] = True
by_mask = attend(gat_scores(z, a), z, allowed).context
by_list = attend_edges(gat_edge_scores(z, a, edges), z, edges).context
claim("15.b", gap=(by_mask - by_list).abs().max())
order = torch.randperm(34, generator=generator)
moved, renumbered = z[:, order], order.argsort()[edges]
shuffled = attend_edges(gat_edge_scores(moved, a, renumbered), moved, renumbered)
claim("15.c", gap=(shuffled.context - by_list[:, order]).abs().max())

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
# a control, another is trained on a club whose edges were rewired at random: every member keeps its *number* of edges in each
# direction, but friendships are no longer mutual. How many members does each classify correctly?
#
# <details><summary>A. Both do well: attention learns which neighbours are informative.</summary>
#
# It can only choose among the neighbours it is given. Random neighbours carry no information about a member's side.</details>
# <details><summary>B. The real edges: nearly all members; random edges: about half.</summary>
#
# Yes: the real edges lead clearly (15.d, 15.e; the figure shows the accuracy over random edges). Information travels along the
# edges, two steps in two layers. In the real club, every member is within two steps of a leader, and most are more closely
# connected to their own than to the other.</details>
# <details><summary>C. Neither does well: two labels are too few.</summary>
#
# There are two labels, but also 78 friendships. Most of the information is in the graph.</details>

# %% tags=["nbval-check-output"]
network = partial(graph_networks.TwoLayerGAT, 34, 8, 2, multi_head_graph_attention)
runs = {
    "attention along friendships": experiments.over_seeds(network, sides),
    "attention along random edges": experiments.over_seeds(
        network, experiments.random_edges(club, leaders, others)
    ),
} | runs
experiments.show_runs(
    runs,
    "accuracy on members",
    "cross-entropy on the two leaders, nats",
    across={"chance": 0.5},
)
claim("15.d", least=min(runs["attention along friendships"].scores))
difference = min(runs["attention along friendships"].scores) - max(
    runs["each member alone"].scores
)
claim("15.d-alone", difference=difference)
difference = min(runs["attention along friendships"].scores) - max(
    runs["attention along random edges"].scores
)
claim("15.e", difference=difference)

# %% [markdown]
# ## 4 Graph convolution: fixed weights
#
# A year earlier, Kipf & Welling had mixed neighbours with weights that depend on the graph alone:
#
# $$H' = \sigma(\hat A H W) \qquad \hat A_{ij} = \frac{1}{\sqrt{d_i d_j}}\ \text{at the edges of } A + I$$
#
# Here $I$ adds a self-loop at each node, and $d_i$ counts the edges along which node $i$ attends, those with $i$ in
# `edges[0]`, its self-loop included. ($H$ has a row for each node, so $W$ multiplies from the right.) This is attention with
# fixed weights: a neighbour with many edges gets a small weight, whatever its features are.
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
from course_tools.lectures.lecture_15.data import see_also

library = experiments.here(see_also())
n_words, n_topics = library.features.shape[1], len(library.labels.unique())
n_references = library.edges.shape[1] // 2
print(f"{len(library.names)} functions, {n_references} references, {n_topics} topics")
print(f"for example: {library.names[0]} and {library.names[int(library.edges[1, 0])]}")

# %% [markdown] tags=["predict"]
# **Predict.** We compare four networks of two layers: one that uses the text of each function alone, one with convolutions, one
# with attention, and one with uniform attention, whose weights are the same for all neighbours. Which is best?
#
# <details><summary>A. Attention, clearly: it can choose among the references.</summary>
#
# It could. But first ask whether there is anything to choose: most references lead to a function of the same topic (15.i
# measures how many), so one neighbour is about as informative as another.</details>
# <details><summary>B. The three that use the edges cannot be told apart, and are better than the texts alone.</summary>
#
# Yes. The edges help (15.f). The accuracies with learned and with fixed edge weights differ by less than four percentage points
# on average (15.g, 15.h), and the printed intervals contain 0. They also contain the one or two points that the papers report
# on graphs of this kind: three seeds cannot distinguish the two.</details>
# <details><summary>C. The texts alone: the words show what a function is about.</summary>
#
# The words are informative, but the five labelled texts on a topic do not contain all words that are typical of it.</details>

# %%
from course_lib.attention import GraphAttention
from course_lib.models import GAT

GAT_ATTENTION = partial(GraphAttention, form=attend_edges)
networks = {
    "texts alone": partial(experiments.Alone, n_words, 32, n_topics),
    "convolutions": partial(
        graph_networks.TwoLayerGCN, n_words, 32, n_topics, gcn_weights
    ),
    "attention": partial(GAT, n_words, 8, n_topics, 4, mechanism=GAT_ATTENTION),
    "uniform attention": partial(
        GAT, n_words, 8, n_topics, 4, mechanism=graph_networks.uniform
    ),
}
topics = experiments.few_labels(library, per_class=5)
documents = {
    name: experiments.over_seeds(make, topics) for name, make in networks.items()
}
experiments.show_runs(
    documents, "accuracy on functions", "cross-entropy on labelled functions, nats"
)

# %% tags=["nbval-check-output"]
from course_tools.notebook.seed_scores import paired_differences, print_mean_difference

alone, convolved, attended, averaged = (each.scores for each in documents.values())
print_mean_difference("attention minus convolutions", attended, convolved)
print_mean_difference("attention minus uniform attention", attended, averaged)
claim("15.f", difference=mean(convolved) - mean(alone))
claim("15.g", difference=mean(attended) - mean(convolved))
claim("15.h", difference=mean(attended) - mean(averaged))
query_topics, key_topics = library.labels[library.edges]
claim("15.i", average=(query_topics == key_topics).float().mean())

# %% [markdown]
# ## 5 One informative neighbour of eight
#
# In section 4, the functions without a label were nodes of the graph that the network was trained on: the task was
# *transductive*. In sections 5, 6 and 9 the networks are tested on graphs that did not occur in training: these tasks are
# **inductive**.
#
# We now construct a graph in which neighbours are *not* equally informative. Each *reader* is a node with a label that attends
# to eight neighbours. Each neighbour has a value, one of the eight is marked, and the label is the value of the marked
# neighbour. The other seven values are noise.
#
# The model is one attention layer with one head, followed by an ELU and a linear layer. With `GAT_ATTENTION`, defined above,
# the attention layer uses your `attend_edges`. The control is the same model with uniform weights.

# %% [markdown] tags=["predict"]
# **Predict.** Each reader has eight neighbours, one of which has its label. What accuracy does the control with uniform
# attention reach, if chance is one in eight?
#
# <details><summary>A. One in eight: it has no information about the answer.</summary>
#
# It receives the mean of eight values, which shows which values occur and how often. One of them is the right one.</details>
# <details><summary>B. About a third: it guesses the most frequent value among the eight.</summary>
#
# Yes (15.l). A value that occurs three times is the right one in three cases out of eight. Marks and values are summed, and the
# sum does not show which value was marked.</details>
# <details><summary>C. Nearly 100 %: the mark is one of the features, and the linear layer can use it.</summary>
#
# After averaging, the mark only shows that *some* neighbour was marked, which is true for every reader.</details>


# %% tags=["nbval-check-output"]
from course_lib.datasets import marked_neighbour

task = experiments.inductive(
    marked_neighbour(at_scale(cpu=1_000, gpu=8_000), 10, 500, seed=0)
)
unseen = task(0).test
d_in = unseen.features.shape[1]
attention = experiments.over_seeds(
    partial(graph_networks.LookupGAT, GAT_ATTENTION, d_in), task, 150, 2e-2
)
control = experiments.over_seeds(
    partial(graph_networks.LookupGAT, graph_networks.uniform, d_in), task, 150, 2e-2
)
experiments.show_runs(
    {"attention": attention, "uniform attention": control},
    "accuracy on unseen readers",
    "cross-entropy on the readers, nats",
    across={"chance, 1/8": 1 / 8},
)
is_marked = unseen.features[unseen.edges[1], 1]
found = [
    graph_networks.attends_to_answer(model, unseen.features, unseen.edges, is_marked)
    for model in attention.models
]
claim("15.j", least=min(attention.scores))
claim("15.k", least=min(found))
claim("15.l", average=mean(control.scores))

# %% [markdown] tags=["predict"]
# **Predict.** We train a third model on the marked neighbours: a plain GCN, two graph convolutions with fixed edge weights.
# What accuracy does *it* reach?
#
# <details><summary>A. About a third, too: its weights are fixed.</summary>
#
# They are. But its first layer also transforms each *neighbour*, which attends only to itself, and a ReLU follows.</details>
# <details><summary>B. More than 90 %.</summary>
#
# Yes. Its first layer can suppress every value without a mark: $\mathrm{ReLU}(\text{value} + \text{mark} - 1)$. Then seven
# neighbours contribute zeros, and the average in the second layer is proportional to the value of the marked one. If a
# neighbour's own features determine whether it is relevant, attention is not necessary: a nonlinearity *before* the sum
# suffices.</details>

# %% tags=["nbval-check-output"]
from course_lib.models import GCN

convolutions = experiments.over_seeds(partial(GCN, d_in, 32, 8), task, 150, 2e-2)
experiments.show_runs(
    {"two convolutions": convolutions},
    "accuracy on unseen readers",
    "cross-entropy on the readers, nats",
    across={"uniform attention, mean": mean(control.scores)},
)
claim("15.m", least=min(convolutions.scores))

# %% [markdown]
# ## 6 Static and dynamic attention
#
# Look at the score again. In $\mathrm{LeakyReLU}(a_1^\top z_i + a_2^\top z_j)$ the query node $i$ contributes the same number
# $a_1^\top z_i$ to all its scores, and LeakyReLU is increasing. So **every** node ranks its neighbours in the same order, that
# of $a_2^\top z_j$. Brody et al. call this *static* attention. In their **dynamic** attention, the nonlinearity comes before
# the product with $a$:
#
# $$e_{ij} = a^\top\, \mathrm{LeakyReLU}(z_i + z_j)$$
#
# Like Bahdanau's score in lecture 02, this is a nonlinearity applied to the sum of a query term and a key term, followed by a
# product with a vector. **It is not exactly the published GATv2**: its eq. 7,
# $a^\top\, \mathrm{LeakyReLU}(W [h_i \,\|\, h_j])$, has separate weights for query node and key node. We use the same $z = Wh$
# for both (as common implementations do with `share_weights=True`), so $e_{ij} = e_{ji}$. The ranking of the neighbours can
# still depend on the query node.
#
# | name | shape |
# | --- | --- |
# | `z` | (…, N, d) |
# | `a` | (…, d): *one* vector of size d for the sum, not two halves |
# | `edges` | (2, E) |
# | scores | (…, E), in the order of the list |

# %% exercise="15.6" difficulty="●○○" minutes=8
from course_lib.attention import dynamic_edge_scores

# %% tags=["nbval-check-output"]
dynamic_edge_scores = check("15.6", dynamic_edge_scores)

# %% [markdown]
# The next cell draws the features of 34 nodes 20 times, and one random vector $a$ for each kind of score. Every node attends to
# every node. To which one does each attend most?

# %% tags=["nbval-check-output"]
z_20 = torch.randn(20, 34, 8, generator=generator)
a_static, a_dynamic = torch.randn(24, generator=generator).split([16, 8])
everyone = torch.ones(34, 34).nonzero().mT
static = gat_scores(z_20, a_static).argmax(-1)
dynamic = dynamic_edge_scores(z_20, a_dynamic, everyone).unflatten(-1, (34, 34))
claim("15.n", largest=max(len(best.unique()) for best in static))
claim("15.o", average=mean(len(best.unique()) for best in dynamic.argmax(-1)))

# %% [markdown] tags=["predict"]
# **Predict.** Eight readers attend to the same eight neighbours. Each neighbour has a key and a value; each reader has one of
# the keys, and its label is the value of the neighbour with that key. This is the look-up task of lecture 04, as a graph. Now
# the relevant neighbour depends on the *query node*. A reader does not attend to itself, so in an attention layer only the
# weights can depend on its key. (The convolutions add self-loops.) Which networks with one head can learn this?
#
# <details><summary>A. All that learned to select the marked neighbour: the keys are in the features.</summary>
#
# They are. But a static head ranks the neighbours in one order for all readers, and the eight readers need eight different
# neighbours ranked first. And whether a neighbour's value should be suppressed cannot be computed from the neighbour alone: it
# depends on the reader.</details>
# <details><summary>B. Of those in the next figure, only dynamic attention.</summary>
#
# Yes. The accuracy of one static head remains near that of uniform attention, even on the training examples (15.r). Several
# static heads are another matter, and so is a larger network with uniform attention that also reads the reader's own features:
# see below.</details>
# <details><summary>C. None: eight readers in a group are too few to learn the keys.</summary>
#
# We can generate as many groups as we like, and the keys are the same in all of them.</details>


# %%
from course_lib.datasets import matching_neighbour

DYNAMIC = partial(
    graph_networks.DynamicAttention, scores=dynamic_edge_scores, attend=attend_edges
)
groups = experiments.inductive(
    matching_neighbour(at_scale(cpu=150, gpu=1_000), 10, 75, seed=0)
)
unseen = groups(0).test
d_in = unseen.features.shape[1]
kinds = {
    "dynamic": partial(graph_networks.LookupGAT, DYNAMIC, d_in),
    "static": partial(graph_networks.LookupGAT, GAT_ATTENTION, d_in),
    "eight static heads": partial(
        graph_networks.LookupGAT, GAT_ATTENTION, d_in, n_heads=8
    ),
    "uniform attention": partial(
        graph_networks.LookupGAT, graph_networks.uniform, d_in
    ),
    "two convolutions": partial(GCN, d_in, 32, 8),
}
lookups = {
    name: experiments.over_seeds(make, groups, 150, 2e-2)
    for name, make in kinds.items()
}
experiments.show_runs(
    lookups,
    "accuracy on unseen readers",
    "cross-entropy on the readers, nats",
    across={"chance, 1/8": 1 / 8},
)

# %% tags=["nbval-check-output"]
query_keys, keys = unseen.features[unseen.edges, 1:9]
found = [
    graph_networks.attends_to_answer(
        model, unseen.features, unseen.edges, (query_keys * keys).sum(-1)
    )
    for model in lookups["dynamic"].models
]
claim("15.p", least=min(lookups["dynamic"].scores))
claim("15.q", least=min(found))
claim("15.r", average=mean(experiments.accuracy_in_training(lookups["static"], groups)))
claim("15.s", average=mean(lookups["uniform attention"].scores))
claim("15.s-convolutions", average=mean(lookups["two convolutions"].scores))

# %% [markdown] tags=["predict"]
# **Predict.** Eight static heads could find the neighbours of eight readers, if each head ranked a different key first. In the
# figure they are less accurate than one dynamic head. We now train them for 400 updates with 50 groups each: once with the same
# 50 groups at each update, once with *new* groups at each update. How accurate are they on unseen groups?
#
# <details><summary>A. Neither is accurate: static attention cannot solve this task.</summary>
#
# *One* static head cannot. Eight heads rank the neighbours in eight orders.</details>
# <details><summary>B. With new groups, they are above 0.65 in the mean of the seeds; with the same groups, they are less accurate.</summary>
#
# Yes (15.s-new), with large differences between the seeds. On the same groups, they are more accurate on these than on unseen
# ones (15.s-heads): they memorise some of the answers. With new groups at each update, memorising does not help.</details>
# <details><summary>C. With the same groups they are more accurate: only repetition lets them learn the keys.</summary>
#
# The keys are the same in all groups; only their order and the values change.</details>


# %% tags=["nbval-check-output"]
trainings = {
    "new groups": experiments.new_look_up_graphs,
    "the same 50 groups": experiments.same_look_up_graphs,
}
eight = {
    name: experiments.over_seeds(
        kinds["eight static heads"], groups, 400, 2e-2, fresh=fresh
    )
    for name, fresh in trainings.items()
}
experiments.show_runs(
    {f"eight static heads, {name}": each for name, each in eight.items()},
    "accuracy on unseen readers",
    "cross-entropy on the readers, nats",
    across={
        "chance, 1/8": 1 / 8,
        "one dynamic head, mean": mean(lookups["dynamic"].scores),
    },
)
of_the_same = experiments.accuracy_on_first(
    eight["the same 50 groups"], experiments.same_look_up_graphs
)
difference = mean(of_the_same) - mean(eight["the same 50 groups"].scores)
claim("15.s-heads", difference=difference)
claim("15.s-new", average=mean(eight["new groups"].scores))
difference = mean(eight["new groups"].scores) - mean(eight["the same 50 groups"].scores)
claim("15.s-same", difference=difference)
larger = experiments.over_seeds(
    partial(graph_networks.UniformLookup, d_in, 128),
    groups,
    400,
    2e-2,
    fresh=experiments.new_look_up_graphs,
)
shares = ", ".join(f"{share:.2f}" for share in larger.scores)
print(f"larger network with uniform attention, accuracy on unseen groups: {shares}")
claim("15.s-larger", difference=min(lookups["dynamic"].scores) - max(larger.scores))

# %% [markdown]
# So the limitation is that of a *single* static head. With as many heads as keys, new groups at each update and more updates,
# static attention also learns most of the task (15.s-new). (The learning rate falls to 0, so the flat end of the curve does not
# show what a longer training would reach.) Dynamic attention needs one head, about an eighth of the parameters, and 150 groups.
# We do not measure other numbers of static heads.
#
# Even fixed weights are no obstacle in principle: each neighbour can send the product of its key and its value, and the reader
# can read the sum with its own key, as in lecture 14. A larger network with uniform attention begins to learn this in 400
# updates (printed above), but remains far behind dynamic attention after 150 (15.s-larger); in a trial with 1,500 updates it
# was right for three of four readers or more. So here attention is not the only way, but by far the fastest that we found.
#
# ## 7 The attention weights
#
# The next figure shows the weights of the first layer of *one* network that was trained on the club in section 3; another seed
# gives other weights. Each half of an edge shows how much the member at its end attends to the member at the other end; the
# weights of self-loops are not drawn. There is *no* ground truth to compare these weights with, so interpret them with caution:
# section 8 classifies the members about as well with fixed weights.

# %%
from course_tools.lectures.lecture_15.figures import (
    show_mean_weights,
    weights_of_a_node,
)

model = runs["attention along friendships"].models[0]
looped = with_self_loops(club.edges, 34)
heads = multi_head_graph_attention(club.features, model.W_1, model.a_1, looped).weights
leads = ["with the instructor (0)", "with the officer (33)"]
show_mean_weights(club, heads, leads)

# %% [markdown] tags=["try-it"]
# **Try it.** Which neighbours does one member attend to? Members 0 and 33 are the leaders; member 8 supported the officer, yet
# joined the instructor's side: his examination for a black belt was three weeks away. How does the weight of each neighbour
# compare with a uniform one?


# %% tags=["try-it"]
draw_member = weights_of_a_node(club, heads, leads)
draw_member(member=8, head=1)

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

# %% exercise="15.7" difficulty="●○○" minutes=6
from course_lib.primitives import dirichlet_energy

# %% tags=["nbval-check-output"]
dirichlet_energy = check("15.7", dirichlet_energy)

# %% [markdown] tags=["predict"]
# **Predict.** Apply $\hat A$ repeatedly, without any training. What happens to the energy of $x_i/\sqrt{d_i}$?
#
# <details><summary>A. It falls to a positive level that depends on the graph.</summary>
#
# What remains is the component along $\sqrt{d_i}$, and its energy is 0.</details>
# <details><summary>B. It falls towards 0; after the first steps, by nearly the same factor in every step.</summary>
#
# Yes: by the square of the second largest absolute eigenvalue of $\hat A$, once the components of the smaller ones have decayed
# (15.t). On a connected graph only one direction remains, and in it $x_i/\sqrt{d_i}$ is the same for all nodes.</details>
# <details><summary>C. It falls like 1 / depth.</summary>
#
# That would be slower. The decay is geometric: a straight line on a logarithmic axis.</details>


# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_15.figures import show_energies, smoothed

graphs = {"karate club": club, "Les Misérables": les_miserables()}
smooth = {
    name: smoothed(graph, 64, gcn_weights, dirichlet_energy)
    for name, graph in graphs.items()
}
show_energies(smooth)
claim("15.t", largest=max(abs(each.rate / each.limit - 1) for each in smooth.values()))
claim("15.u", largest=max(each.energy[-1].item() for each in smooth.values()))

# %% [markdown] tags=["predict"]
# **What does over-smoothing cost?** Deep networks can fail for many reasons. So we train a single matrix $W$ and change only
# the number $K$ of mixing steps before it: $\mathrm{softmax}(\hat A^K X\, W)$ (Wu et al. 2019). As a control, we remove from
# the features after 64 steps what all members have in common, and enlarge the rest: $x_i/\sqrt{d_i}$ minus its mean over the
# members, divided by its standard deviation.
#
# **Predict.** How well does a single matrix, trained for 60 steps after $K$ mixing steps, classify the members of the
# club?
#
# <details><summary>A. Better and better: each member receives information from more of the others.</summary>
#
# After one step, nearly all members are classified correctly, and a few more steps change little: after four, every member has
# received information from both leaders. With many more steps, the accuracy falls.</details>
# <details><summary>B. Well for small K, near chance for large K.</summary>
#
# Yes. The differences between members shrink in each mixing step, after the first ones by a nearly constant factor, until 60
# steps of training can no longer use them. But they do not vanish: the next cell enlarges them again.</details>
# <details><summary>C. The same for every K: W can undo the mixing.</summary>
#
# In principle it could undo much of it: a large $W$ enlarges small differences. Training from a small $W$ does not find it in
# 60 steps.</details>

# %% tags=["nbval-check-output"]
from course_tools.notebook import device
from course_tools.lectures.lecture_15.figures import rescaled

after = {f"K = {K}": smooth["karate club"].features[K] for K in (1, 4, 16, 64)}
after["K = 64, rescaled"] = rescaled(after["K = 64"], club.edges)
by_depth = {}
for name, features in after.items():
    mixed = club._replace(features=features.float().to(device()))
    by_depth[name] = experiments.over_seeds(
        partial(experiments.OneMatrix, 34, 2),
        experiments.transductive(mixed, leaders, others),
    )
experiments.show_runs(
    by_depth,
    "accuracy on members",
    "cross-entropy on the two leaders, nats",
    across={"chance": 0.5},
)
claim("15.v", least=min(by_depth["K = 4"].scores))
claim("15.w", difference=min(by_depth["K = 4"].scores) - max(by_depth["K = 64"].scores))
difference = min(by_depth["K = 64, rescaled"].scores) - max(by_depth["K = 64"].scores)
claim("15.w-rescaled", difference=difference)

# %% [markdown]
# So 64 steps of mixing have not removed the information about the sides: they have made it small beside what all members share
# (15.w-rescaled). A network whose layers only mix cannot enlarge it; residual connections and normalisation between layers are
# the usual remedies. Fixed weights also classify the members about as accurately as attention does in section 3
# (15.v, 15.d, and both figures).

# %% [markdown]
# Nodes become alike only within a connected component; over-smoothing is harmful where one component contains several classes,
# as in the karate club. The graph of section 4 has 150 components, most of them with a single topic, but the largest contains
# 442 functions of many topics.

# %% [markdown]
# ## 9 Whole graphs
#
# So far, each label belonged to a node. Now it belongs to a whole **graph**, as in chemistry, where a graph is a molecule: the
# task is **graph-level** classification, again inductive. We turn handwritten digits of 8 × 8 pixels into graphs: each pixel
# with ink is a node, and pixels that touch are joined. The features of a node are its ink and its number of neighbours, but
# *not its position*.
#
# A batch of graphs is one graph whose parts have no edges between them, so the layers need no change. A **readout** then turns
# the nodes of each graph into one vector. Ours concatenates two vectors: a weighted mean of the nodes, by `attend_edges` with
# the graph as the query, and their plain sum.

# %% [markdown] tags=["predict"]
# **Predict.** We train the same network three times, for 60 updates with 64 graphs each: on these graphs, on the nodes without
# any edges, and on graphs that are rewired at random each time they are used. The features stay the same, and each rewired node
# keeps its number of edges. Then we give all nodes their positions as well. With three seeds: where do the edges help?
#
# <details><summary>A. With and without positions: the shape of a digit is in its edges.</summary>
#
# It is also in the positions: the edges can be computed from them.</details>
# <details><summary>B. Without positions; with positions, the edges add little.</summary>
#
# Yes, after 60 updates. Without positions, the edges raise the accuracy (15.z), and the real edges are ahead of rewired ones
# (15.A). With positions, the edges change the mean accuracy by at most 0.03 (15.C).</details>
# <details><summary>C. Nowhere: the numbers of neighbours describe the shape well enough.</summary>
#
# With ink and numbers of neighbours alone, the accuracy is far above chance, but different shapes can have the same
# numbers.</details>

# %%
from course_tools.lectures.lecture_15.experiments import (
    fit_graph_classifiers,
    kept,
    removed,
    rewired,
)

classifier = partial(graph_networks.GraphClassifier, GAT_ATTENTION, attend_edges)
whole = {
    "no edges": fit_graph_classifiers(classifier, removed, False),
    "rewired edges": fit_graph_classifiers(classifier, rewired, False),
    "edges": fit_graph_classifiers(classifier, kept, False),
    "positions, no edges": fit_graph_classifiers(classifier, removed, True),
    "positions and edges": fit_graph_classifiers(classifier, kept, True),
}
experiments.show_runs(whole, "accuracy on unseen graphs", across={"chance": 0.1})

# %% tags=["nbval-check-output"]
none, random, edges_only, places_only, both = (each.scores for each in whole.values())
claim("15.z", least=min(paired_differences(edges_only, none)))
claim("15.A", least=min(paired_differences(edges_only, random)))
claim("15.C", difference=mean(both) - mean(places_only))
claim("15.D", least=min(paired_differences(places_only, edges_only)))

# %% [markdown]
# After 60 updates, positions without edges give a far higher accuracy than edges without positions (15.D). We do not measure
# how the accuracies develop in longer training. Before you use a graph network, train the same readout without edges, on
# everything that you know about the nodes.

# %% [markdown] tags=["predict"]
# ## 10 Ablation: the nonlinearity
#
# **Predict.** We remove the nonlinearity of the static score: with `slope=1`, LeakyReLU is the identity. What happens to the
# attention weights of a node $i$?
#
# <details><summary>A. They become uniform.</summary>
#
# $a_2^\top z_j$ still differs from neighbour to neighbour.</details>
# <details><summary>B. They no longer depend on $z_i$ at all.</summary>
#
# Yes: $a_1^\top z_i$ is added to all scores of the row and cancels in the softmax. In a GAT, the query node influences its
# weights only through the nonlinearity: it can change how *sharp* they are, never their order.</details>
# <details><summary>C. Some of them become negative.</summary>
#
# The result of a softmax is positive, whatever the scores are.</details>

# %% tags=["nbval-check-output"]
linear, leaky = (gat_scores(z, a, slope).softmax(-1) for slope in (1.0, 0.2))
claim("15.x", gap=(linear - linear[:, :1]).abs().max())
claim("15.y", gap=(leaky - leaky[:, :1]).abs().max())

# %% [markdown]
# ## 11 Build it
#
# **Build task (30 minutes, 12 points).** Write a graph attention network and its training from an empty cell. The graph is the
# look-up graph of section 6: the relevant neighbour depends on the reader, so a single head needs a dynamic score. You may use
# your `dynamic_edge_scores` and `attend_edges`, but not the library's `GAT` and `GATLayer`.
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

# %% exercise="15.8" difficulty="●●●" minutes=30
from course_tools.bank.lecture_15.train_gat import train_gat

# %% tags=["nbval-check-output"]
train_gat = check("15.8", train_gat)

# %% [markdown]
# The next cell trains your network on the groups of section 6, and prints its accuracy on the unseen graph of that section
# beside those of the networks that you saw there.

# %%
from course_tools.notebook.authorship import whose

learn, unseen = (experiments.here(part, "cpu") for part in groups(0)[::2])
torch.manual_seed(0)  # on the CPU, as in the check
built = train_gat(learn.features, learn.edges, learn.labels, learn.labels >= 0, 8, 150)
reached = experiments.accuracy(built, unseen, groups(0).asked.cpu())
print(f"{whose(train_gat)} network, accuracy on unseen readers: {reached:.2f}")
for name, run in lookups.items():
    print(f"{name}, mean of the seeds: {mean(run.scores):.2f}")

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
# That is possible. But equal results are also to be expected where all neighbours are equally informative. Test the attention
# on a graph where they are not.</details>
# <details><summary>C. Only that learned weights were not needed here; try uniform attention as a control, and look at the edges.</summary>
#
# Right. The neighbours may be equally informative (section 4), or a nonlinearity may find the informative one (section
# 5).</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague has a network of bank transfers and wants to find the accounts that launder
# money. "A graph attention network will show us which transfer gave them away: we just look at the weights." Advise.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says what a weight is: a fraction of the sum at one node, in one head of one layer |
# | 1 | proposes a control: uniform attention, or rewired edges; and says what each would show |
# | 1 | asks whether the relevant neighbour depends on the query node, which requires dynamic attention; or how many steps away the evidence lies, and what depth costs |
# | 1 | uses the graph of section 4, or another case in which learned weights made no clear difference |
# | 1 | is clear and short |
#
# </details>

# %% [markdown] tags=["companion"]
# ## 13 Summary and sources
#
# **Where the deck, the papers and the code differ**, each with a measurement:
#
# - *GA* lists graph networks among "strategies to solve" the $O(L^2 d)$ of self-attention. They do not make the same
#   computation cheaper: their cost grows with the number of *edges*. On a sparse graph that is linear in N; on a complete
#   graph, which is how self-attention treats a sentence, it is still quadratic.
# - *GA* gives two links and no formula; ours are from the papers. Veličković et al. write of "assigning different importances
#   to different nodes within a neighborhood"; that is correct, but their order is the same for every node (15.n).
# - *Kipf & Welling*'s $A + I$ has a 2 on the diagonal where a node already had a self-loop; `with_self_loops` adds only those
#   that are missing.
#
# **What this lecture does not show.** The club is small: each of the 32 members counts for three percentage points. Sections 5
# and 6 use graphs that were constructed for the purpose, and those of section 9 are images of digits, not molecules. Nothing
# here shows how GAT performs on the large public graphs: `cora()` downloads one of them if you have a network connection.
#
# **Papers.** Gilmer et al. 2017, *Neural Message Passing for Quantum Chemistry*, eqs. 1 and 2
# (https://arxiv.org/abs/1704.01212) · Veličković et al. 2018, *Graph Attention Networks*, eqs. 1 to 6
# (https://arxiv.org/abs/1710.10903) · Kipf &
# Welling 2017, eqs. 2 and 9 (https://arxiv.org/abs/1609.02907) · Brody, Alon, Yahav 2022, *How Attentive are Graph Attention
# Networks?*, eq. 7 and section 4.1 (https://arxiv.org/abs/2105.14491) · Cai & Wang 2020, on over-smoothing
# (https://arxiv.org/abs/2006.13318).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | GA | Graph Neural Networks and Graph Attention Networks | 2 Edges as a mask | `course_lib.attention.gat_scores`, `course_lib.attention.attend_edges`, `course_lib.models.GAT` |
# | GA | Graph Neural Networks and Graph Attention Networks | 6 Static and dynamic attention | `course_lib.attention.dynamic_edge_scores` |
# | GA | Graph Neural Networks and Graph Attention Networks | 4 Graph convolution: fixed weights | `course_lib.primitives.gcn_weights`, `course_lib.models.GCN` |


# %% tags=["nbval-check-output"]
from course_tools.notebook.attention_costs import graph_attention_mib
from course_tools.notebook.layer_costs import exponent

sizes = [256, 512, 1_024]
sparse = [graph_attention_mib(n, torch.randint(n, (2, 8 * n))) for n in sizes]
complete = [graph_attention_mib(n, torch.ones(n, n).nonzero().mT) for n in sizes]
claim("15.GA", exponent=exponent(sizes, sparse))
claim("15.GA-complete", exponent=exponent(sizes, complete))
looped = with_self_loops(torch.tensor([[0, 1], [0, 0]]), 2)
claim("15.Kipf", count=(looped == 0).all(0).sum())

# %% tags=["ledger"]
from course_tools.notebook import ledger

ledger()
