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
# Graph attention is masked attention whose mask is a list of edges: each node chooses among its neighbours.
#
# You will write dynamic scores, attention over edges and graph convolution, train a network that finds out to whom each sensor
# must listen, and see how many more weights or updates it takes to do the same without attention. You will also meet a graph on
# which no network is needed.
#
# **Prerequisites:** lecture 04 (self-attention, masks). **Time:** {minutes}. {measured}
#
# ![](diagram:room_attention)

# %%
from collections.abc import Callable
from functools import partial

import networkx
import torch
import torch.nn.functional as F
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from course_lib.attention import Attended, DynamicGraphAttention, attend, attend_edges
from course_lib.attention import average_heads, gat_edge_scores, merge_heads
from course_lib.attention import split_heads
from course_lib.datasets import karate_club, les_miserables, matching_neighbour
from course_lib.models import GAT, GCN
from course_lib.primitives import gcn_weights, propagate, require_edges
from course_lib.primitives import with_self_loops
from course_lib.shapes import Edges, Nodes, Scores
from course_lib.training import train
from course_tools.lectures.lecture_15 import figures, rivals, rooms
from course_tools.lectures.lecture_15.data import few_labels, see_also
from course_tools.notebook import check, claim, device, explore, ledger, predict
from course_tools.notebook import progress, show_study, source
from course_tools.notebook.authorship import whose
from course_tools.notebook.seed_scores import show_seeds

# %% [markdown]
# ## 1 Sensors that hear through walls
#
# A building has 16 rooms and 100 sensors. A duct brings each sensor air from *another* room. How warm is that room?
#
# A sensor measures its own room: the temperature, with noise of 1.5 °C (the rooms spread by 3 °C around their mean), and three
# gases. Three electronic noses smell the air of its duct. Each reacts to two or three of the gases, in proportions that are the
# same in every building, but that nobody has written down. And it receives what its twelve nearest neighbours measure. Radio passes
# through walls: of the 13, itself included, about six are in its own room, and three where its air comes from.
#
# Buildings differ, so we train on some and test on a hundred others. No sensor knows which room it is in, or where the others are.
#
# This is a **graph**: the sensors are its nodes, and an edge $(i, j)$ says that $i$ hears $j$. The edges are a list of two rows,
# (2, E): node `edges[0, e]` receives from node `edges[1, e]`. Every sensor hears itself, too. Here are three sensors, of which B does
# not hear C. (PyTorch Geometric lists the senders *first*: take its list by `.flip(0)`.)

# %%
three = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 0, 1, 2]])
figures.show_edge_list(three, "ABC")


# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.5). Every error here is the root of the mean squared error. The mean of 13 readings has little noise:
# $1.5/\sqrt{13} \approx 0.4$ °C. Whoever always guesses the mean of all rooms errs by 3 °C. By how many °C does the mean of 13 err, over all
# hundred buildings?
#
# <details><summary>2.8</summary>
#
# The three right ones are 3/13 of the sum, so 10/13 of the difference remain: 2.3 °C. The six in its own room bring in 6/13 of a
# temperature that has nothing to do with the question, 1.4 °C; the other four, of two rooms, and the noise bring in 0.8 °C.
# Together these are $\sqrt{2.3^2 + 1.4^2 + 0.8^2} \approx 2.8$ °C. The measured error is slightly larger, since not every sensor has
# three right ones.</details>
# <details><summary>0.4</summary>
#
# The noise averages out. But the rooms differ, and ten of the 13 are in another one.</details>
# <details><summary>1.0</summary>
#
# Three of the 13 are right, and their mean alone errs by 1 °C. But ten others are added to it.</details>
# <details><summary>4.6</summary>
#
# So much errs a single reading: the difference of two rooms, and its noise. In the mean of 13, three are in the right one.</details>


# %%
def here(graph):
    """Move the parts of a graph to the device of the notebook."""
    return graph._make(part.to(device()) for part in graph)


source(rooms.sensors)
unseen = here(rooms.unseen_buildings())
readings = unseen.features[:, 0]
everyone = torch.ones(unseen.edges.shape[1], device=device())
averaged = rooms.filtered(unseen, everyone)
right_room = rooms.from_the_duct(unseen)
asked_for = rooms.filtered(unseen, right_room)
panels = {
    "readings": readings,
    "mean of 13": averaged,
    "mean of the right room": asked_for,
}
figures.show_readings(unseen, panels)
for name, predicted in panels.items():
    print(f"{name}: error {rooms.error(predicted, unseen):.2f} °C")

# %% [markdown]
# The star in the figure receives from the sensors at the ends of the lines, and its air comes from the framed room. A mean has
# fixed weights; what is needed is a choice, and it is a different one for each sensor. Nor does it help to listen to those
# that are *alike*: what a sensor has in common with its neighbours tells who shares its own room, the one that it is not asked about.
# **What it looks for is not what it is.** So it needs two descriptions: one of what it looks for, a query, and one of what it
# offers to others, a key.
#
# ## 2 A score for each edge
#
# **By hand**, with one gas and one nose. Sensor A smells 1.0. It hears itself, B and C, in whose rooms the gas is −1.0, 0.8 and 1.0;
# their readings are 15, 22 and 24 °C. A scores each by how well smell and gas agree, $-4\,|\text{smell}_A - \text{gas}_j|$,
# and applies a softmax:
#
# | sensor | gas | score of A | exp | weight | weight × reading |
# | --- | --- | --- | --- | --- | --- |
# | A | −1.0 | −8 | 0.0003 | 0.0002 | 0.003 |
# | B | 0.8 | −0.8 | 0.449 | 0.310 | 6.82 |
# | C | 1.0 | 0 | 1 | 0.690 | 16.56 |
#
# A estimates **23.4 °C**; the plain mean is 20.3. C smells −1.0, so its ranking is reversed: A scores 0, B −7.2, and C itself
# −8. It gives A the weight 0.999 and estimates 15 °C.
#
# Can such a score be learned? Give each sensor two numbers as a receiver, $q_i = (1, -1) \cdot \text{smell}_i$, and two as a
# sender, $k_j = (-1, 1) \cdot \text{gas}_j$. If A receives from itself, the sum is $q_A + k_A = (1, -1) + (1, -1) = (2, -2)$, the
# difference of smell and gas with both signs. LeakyReLU with slope 0.2 makes it $(2, -0.4)$, which adds up to 1.6, $0.8$ times the
# *absolute* difference; the vector $a = (-5, -5)$ makes the score $-8$, as in the table. In general, with a vector $q_i$ of the
# receiver and $k_j$ of the sender,
#
# $$e_{ij} = a^\top\, \mathrm{LeakyReLU}(q_i + k_j)$$
#
# This is the **dynamic** score of Brody et al. (GATv2). Like Bahdanau's score in lecture 02, it adds a query and a key, applies a
# nonlinearity, and multiplies by a vector.
#
# | name | shape |
# | --- | --- |
# | `q`, `k` | (…, N, d) each: a row for each node |
# | `a` | (…, d) |
# | `edges` | (2, E) |
# | scores | (…, E), in the order of the list |
#
# Only the scores of the E edges are computed: the check counts the operations, and scores of all pairs fail.

# %% exercise="15.6" difficulty="●○○" minutes=8
from course_lib.attention import dynamic_edge_scores

# %% tags=["nbval-check-output"]
dynamic_edge_scores = check("15.6", dynamic_edge_scores)

# %%
smell, gas = torch.tensor([[[1.0], [-1.0], [-1.0]], [[-1.0], [0.8], [1.0]]])
q, k = smell @ torch.tensor([[1.0, -1.0]]), gas @ torch.tensor([[-1.0, 1.0]])
for score, (i, j) in zip(
    dynamic_edge_scores(q, k, torch.tensor([-5.0, -5.0]), three), three.T, strict=True
):
    print(f"{'ABC'[i]} hears {'ABC'[j]}: {score:.1f}")

# %% [markdown] tags=["predict"]
# The first graph attention network (GAT, 2018) has the nonlinearity at the end: $e_{ij} = \mathrm{LeakyReLU}(a_1^\top q_i + a_2^\top
# k_j)$, with a number from the receiver and a number from the sender.
#
# **Predict.** Can this score serve A and C, with any $a_1$, $a_2$, $q$ and $k$?
#
# <details><summary>A. Yes, if the vectors are long enough.</summary>
#
# However long $k_j$ is, the product with $a_2$ makes one number of it, before the receiver is seen.</details>
# <details><summary>B. Yes: the receiver's number shifts the scores.</summary>
#
# It shifts all scores of that receiver alike. With LeakyReLU this can make its weights more or less equal, but it never changes
# their order.</details>
# <details><summary>C. No: all receivers rank the senders in the same order.</summary>
#
# Yes. The receiver adds the same number to all its scores, and LeakyReLU is increasing, so the order is that of $a_2^\top k_j$ for
# everyone. A needs C before itself, and C needs A before itself. Brody et al. call this score **static**.</details>

# %% [markdown]
# ## 3 A softmax over the edges of each node
#
# The weights of node $i$ are a softmax over *its* edges, which may be anywhere in the list; $\mathcal{N}_i$ are the nodes that it
# hears:
#
# $$\alpha_{ij} = \frac{\exp(e_{ij})}{\sum_{k \in \mathcal{N}_i} \exp(e_{ik})}$$
#
# | name | shape |
# | --- | --- |
# | `scores`, weights | (…, E), in the order of the list |
# | `n_nodes` | N; some nodes may have no edges |
#
# As in every softmax, subtract a maximum before the exponential. Which maximum?

# %% exercise="15.2" difficulty="●●○" minutes=12
from course_lib.attention import edge_softmax

# %% tags=["nbval-check-output"]
edge_softmax = check("15.2", edge_softmax)

# %% [markdown]
# What remains is the weighted sum: node $i$ receives $\sum_{j \in \mathcal{N}_i} \alpha_{ij}\, v_j$, and a node without edges
# receives 0. The check counts the operations: going through N² pairs of nodes, or through all edges for each node, fails.

# %% [markdown]
# **Bug hunt.** The version below has four lines. It runs, and the shapes are right. Decide what is wrong *before* you run the
# check; then write a correct version.

# %% exercise="15.3" bug="keeps_the_last_message_only"
from course_tools.bank.lecture_15.attend_edges import (
    keeps_the_last_message_only as suspect,
)

# %% [markdown] tags=["predict"]
# **Which line is wrong, and what is its effect?**
#
# <details><summary>A. The addition: where an index is repeated, only one of the additions is kept.</summary>
#
# Yes. `context[..., i, :] += m` first reads all entries, then adds, then writes all of them back: of several messages to one
# node, only one remains. `index_add` and `scatter_add` add every message.</details>
# <details><summary>B. The weights: they should be normalised over the keys.</summary>
#
# They are normalised over the edges of each receiver, by your own `edge_softmax` or the library's.</details>
# <details><summary>C. The direction: values are taken from the wrong node of each edge.</summary>
#
# They are taken from `edges[1]`, the sender, as they should be.</details>

# %% tags=["nbval-check-output"]
suspect = check("15.3", suspect)

# %% exercise="15.3" difficulty="●●○" minutes=10
from course_lib.attention import attend_edges

# %% tags=["nbval-check-output"]
attend_edges = check("15.3", attend_edges)

# %% [markdown]
# In lecture 04 every token attended to every other, except where masked. A list of edges *is* such a mask, and gives the same
# result; but of the $N^2$ scores only E are computed. And nodes have no order: if they are numbered anew, the results are the same
# under their new numbers. (A Mixer of lecture 13 has weights for each place: they would have to be reordered, too.)

# %%
edges = karate_club().edges
allowed = torch.zeros(34, 34, dtype=torch.bool)
allowed[tuple(edges)] = True
scores, values = torch.randn(34, 34), torch.randn(34, 5)
by_mask = attend(scores, values, allowed).context
by_list = attend_edges(scores[tuple(edges)], values, edges)[0]
torch.testing.assert_close(by_list, by_mask, atol=1e-4, rtol=1e-4)
order = torch.randperm(34)  # new node n is the old node order[n]
anew = attend_edges(scores[tuple(edges)], values[order], order.argsort()[edges])[0]
torch.testing.assert_close(anew, by_list[order], atol=1e-4, rtol=1e-4)
print("The list does what the mask does, however the nodes are numbered.")

# %% [markdown]
# ## 4 To whom should I listen?
#
# `RoomAttention` is the whole network: your scores, your attention over the edges, and a linear layer. `score` and the size of `a`
# are arguments, so that the same network can have other scores, such as the static ones.
#
# The loop is that of every lecture: four new buildings in each of 400 updates, Adam, a learning rate that rises and then falls.


# %%
class RoomAttention(nn.Module):
    """One head of attention over the edges, then a linear layer at each sensor."""

    def __init__(self, score=dynamic_edge_scores, d=24, d_a=24):
        super().__init__()
        self.W_q, self.W_k = nn.Linear(7, d), nn.Linear(7, d, bias=False)
        self.W_v, self.read_out = nn.Linear(7, d), nn.Linear(d, 1)
        self.a = nn.Parameter(torch.randn(d_a) * d_a**-0.5)
        self.score = score

    def attended(self, x, edges):
        """Context (N, d) and weights (E,) of sensors x (N, 7)."""
        scores = self.score(self.W_q(x), self.W_k(x), self.a, edges)
        return Attended(*attend_edges(scores, self.W_v(x), edges))

    def forward(self, x, edges):
        return self.read_out(F.elu(self.attended(x, edges).context)).squeeze(-1)


def static_scores(q, k, a, edges):
    """The score of GAT: a number of the receiver, a number of the sender."""
    of_receivers, of_senders = a.chunk(2)
    return F.leaky_relu((q @ of_receivers)[edges[0]] + (k @ of_senders)[edges[1]], 0.2)


def loss_of(model, graph):
    """The mean squared error of the predicted temperatures of the rooms."""
    x, edges, targets = here(graph)[:3]
    return F.mse_loss(model(x, edges), targets)


def learn(make, seed=0, steps=400, lr=2e-2):
    """Train a network on new buildings; return it and its error on unseen ones."""
    torch.manual_seed(seed)
    model, stream = make().to(device()), rooms.new_buildings(seed)
    run = train(model, stream, loss_of, steps=steps, lr=lr, warmup=steps // 10)
    for _step in progress(run, f"seed {seed}", total=steps):
        pass
    with torch.no_grad():
        return model.eval(), rooms.error(model(unseen.features, unseen.edges), unseen)


dynamic = [learn(RoomAttention, seed) for seed in range(3)]
static, static_error = learn(partial(RoomAttention, static_scores, d_a=48))

# %% [markdown] tags=["try-it"]
# The rivals, in no order:
#
# | rival | how it weighs what sensor $j$ sends to $i$ |
# | --- | --- |
# | static | by the score of GAT |
# | product | by the score of lecture 04, $q_i^\top k_j/\sqrt d$ |
# | distance | by $(q_i^\top k_j - \lVert k_j \rVert^2 / 2)/\sqrt d$ |
# | filter | by how alike $i$ and $j$ are: each feature's squared difference has a trained scale, of either sign |
# | mixed | by fixed weights, twice (those of section 6); then least squares, from a hundred labelled buildings |
# | oracle | by a softmax of $-4\,\lvert \text{smell}_i - 1.5\, B\, \text{gas}_j \rvert^2$: it is told this form. The hundred buildings give the matrix $B$, by least squares of the smells on the mean gases heard, and the numbers 4 and 1.5 |
#
# **Try it.** Before you run the cell, order them by their errors on paper, from the mechanism alone.


# %%
def products(q, k, a, edges):
    """The scores of lecture 04."""
    return (q[edges[0]] * k[edges[1]]).sum(-1) / q.shape[-1] ** 0.5


def distances(q, k, a, edges):
    """The same less half the square of the key: minus half of |q - k|² but for q."""
    return products(q, k, a, edges) - products(k, k, a, edges[[1, 1]]) / 2


source(rivals.LikenessFilter)
source(rivals.fit_oracle)
labelled = here(next(rooms.new_buildings(7, n=100)))
x, y = rivals.mixed(*labelled[:2]), labelled.targets[:, None]
line = torch.linalg.lstsq(x, y).solution
of_mixed = (rivals.mixed(*unseen[:2]) @ line).squeeze(1)
errors = {
    "dynamic": [each for _, each in dynamic],
    "static": [static_error],
    "product": [learn(partial(RoomAttention, products))[1]],
    "distance": [learn(partial(RoomAttention, distances))[1]],
    "filter": [learn(partial(rivals.LikenessFilter, 7), lr=5e-2)[1]],
    "mixed": [rooms.error(of_mixed, unseen)],
    "oracle": [rooms.error(rivals.fit_oracle(labelled)(*unseen[:2]), unseen)],
}
limit = {"mean of the right room": rooms.error(asked_for, unseen)}
show_seeds(errors, "error on unseen buildings, °C", across=limit, lowest=0)

# %% tags=["nbval-check-output"]
claim("15.rooms", **errors)

# %% [markdown]
# **Each sensor must listen to others, and to whom follows from a comparison of two different things: what the receiver looks for and
# what the sender is. Attention with dynamic scores learns this comparison.** The filter compares the same feature at both ends. Its best use of
# that is to listen to those that are *unlike*, and so at least not to its own room. One head of static scores cannot compare, nor
# can fixed mixing, if what reads them is linear. (An update that reads the receiver compares, too: after eight static heads it errs by
# 1.6 °C, on record.) The oracle compares the right things, and comes within a tenth of a degree of attention without a network:
# somebody told it which three numbers to compare with which. Attention was told nothing, and found this out from the temperatures.
#
# The product of lecture 04 compares, but measures a direction: the longer a key, the more it is worth to every query that points
# its way. Less $\lVert k_j\rVert^2/2$, it is $-\lVert q_i - k_j\rVert^2/2$ up to a constant for each $i$, a distance, and nearly as
# good as the dynamic score. So is the product, at 1.26 to 1.27 °C on record, if its keys have passed a hidden layer, as after any
# feed-forward network: what fails here is the product of keys that are *linear* in the features. Look at the weights:

# %% tags=["cover"]
with torch.no_grad():
    weights = {
        name: model.attended(unseen.features, unseen.edges).weights
        for name, model in (("dynamic", dynamic[0][0]), ("static", static))
    }


def draw_sensor(sensor=40):
    """Draw whom a sensor of the first unseen building attends to."""
    figures.show_attended(unseen, weights, sensor)


share = {
    name: (right_room * each).sum() / len(readings)
    for name, each in (weights | {"equal": everyone / 13}).items()
}
print(
    "weight on the right room:", *(f"{name} {each:.2f}" for name, each in share.items())
)
draw_sensor()

# %% [markdown] tags=["interactive"]
# **Explore.** The map shows the sensors that the star hears; a large circle has a large weight, and its air comes from the framed room.
# Find two sensors side by side with different frames: what does each kind of attention do for them? Find a frame with a single
# sensor in it.

# %% tags=["interactive"]
explore(draw_sensor, sensor=(0, 99))

# %% [markdown]
# Suppose that all sensors of the building heard each other. Each row below holds the weights of one receiver. Rows are sorted by the room
# that the air comes from, columns by the room of the sender. How many sensors attend most to one in the right room?

# %% tags=["nbval-check-output"]
pairs = torch.ones(100, 100).nonzero().mT.to(device())
right = unseen.asked[:100, None] == unseen.rooms[:100]
favoured, all_weights = {}, {}
for name, model in (("dynamic", dynamic[0][0]), ("static", static)):
    with torch.no_grad():
        to = model.attended(unseen.features[:100], pairs).weights.view(100, 100)
    all_weights[name], most = to, to.argmax(1)
    favoured[name] = right[torch.arange(100), most].sum()
figures.show_all_pairs(all_weights, unseen.asked[:100], unseen.rooms[:100])
claim("15.n", **favoured)

# %% [markdown]
# About half of the weight is in the blocks on the diagonal. This is harder than the task: among all sensors, three gases must tell
# sixteen rooms apart, among 13 neighbours about four.
#
# ## 5 Messages instead of attention
#
# Attention is one kind of **message passing** (Gilmer et al. 2017, https://arxiv.org/abs/1704.01212): each neighbour sends a message,
# the messages are aggregated, and the result updates the node.
#
# $$m_{ij} = M(h_i, h_j) \qquad m_i = \mathrm{aggregate}_{j \in \mathcal{N}_i}\, m_{ij} \qquad h'_i = U(h_i, m_i)$$
#
# Where the message is $w_{ij} x_j$ and the aggregate a sum, GAT and the graph convolution of section 6 (GCN) differ in $w_{ij}$ alone:
#
# ![](diagram:message_passing)

# %% [markdown]
# A network for $M$ that reads both ends can compare as well. What does it lack? Take the three sensors again, as A hears them. Let the
# messages be 0, 22 and 24: the network has recognised that A's own room is not asked for, and silenced it.
#
# | aggregate | of 0, 22, 24 | what this number does not say |
# | --- | --- | --- |
# | sum | 46 | how many took part: the update must divide |
# | mean | 15.3 | that A was left out: it counts as a third |
# | maximum | 24 | the others: the noise of the largest remains |
# | attention | 23.4 | how many there were: its weights sum to 1 |

# %% [markdown] tags=["predict"]
# A message has several numbers, so the update can learn to make up for it: one of them may count who took part. A recorded study
# trains each kind, with about as many parameters as attention, for 2,000 updates and anew for 16,000, with three seeds. Then each sensor
# hears 24 others instead of 12.
#
# **Predict.** With 24 neighbours, which aggregate takes values never seen in training?
#
# <details><summary>A. The sum.</summary>
#
# Yes. There are nearly twice as many messages from the right room, and twice as many of what is left of the others. The weights of
# attention sum to 1, however many are heard.</details>
# <details><summary>B. The maximum: more readings, so a larger maximum.</summary>
#
# A little. But a message that is silenced does not become the largest.</details>
# <details><summary>C. Attention: it must now choose among 25.</summary>
#
# The sensors in other rooms have little weight, so more of them change little.</details>

# %%
source(rivals.EdgeNetwork)
study = show_study("15_rooms")
attention, maximum = "dynamic attention", "edge network, maximum"
recorded = {
    "attention": attention,
    "longer": f"{attention}, longer",
    "early": maximum,
    "twice": f"{maximum}, 4,000 updates",
    "greatest": f"{maximum}, longer",
    "wide": f"{maximum}, four times the size",
    "averaged": "edge network, mean, longer",
    "summed": "edge network, sum, longer",
}

# %% tags=["nbval-check-output"]
near = {key: study.scores(name, "°C") for key, name in recorded.items()}
far = {
    f"{key}_24": study.scores(name, "°C, 24 neighbours")
    for key, name in recorded.items()
    if key not in ("early", "twice")
}
others = {
    "hidden_keys": study.scores("products, a hidden layer before the keys", "°C"),
    "eight_heads": study.scores("static attention, eight heads and an update", "°C"),
}
claim("15.rivals", **near, **far, **others)

# %% [markdown]
# Messages that read both ends can do without attention: the maximum is level if it has four times the weights, and nearly so if it has as
# many and is trained for twice as long. **Attention is the right tool here because it needs a quarter of the weights, or about half the
# updates**, and an update takes no longer. Its weights sum to 1, however many are heard: with 24 neighbours it errs by 0.04 °C less than
# the large maximum, and after 16,000 updates by 0.04 to 0.08 °C less than mean and maximum.
#
# With 24, these three and the oracle err *less* than with 12, since they hear more sensors of the right room. The sum falls back to
# about 2.5 °C, where fixed mixing is with 12; so it does with twice the parameters, after 2,000 updates.
#
# ## 6 Where no choice is needed
#
# A year before GAT, Kipf and Welling (https://arxiv.org/abs/1609.02907) mixed neighbours with weights that depend on the edges
# alone:
#
# $$H' = \sigma(\hat A H W) \qquad \hat A_{ij} = \frac{1}{\sqrt{d_i d_j}}\ \text{at the edges of } A + I$$
#
# $I$ adds a self-loop at each node, and $d_i$ counts the edges with $i$ in `edges[0]`, the self-loop included. **By hand:** A is
# joined to B, and B to C; with self-loops they have 2, 3 and 2 edges. A gives itself $1/\sqrt{2 \cdot 2} = 0.5$ and B
# $1/\sqrt{2 \cdot 3} = 0.41$.
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
# section "See Also". The functions are nodes, and these references are edges. The features are the words of the documentation
# without that section, rare words with a larger weight (TF-IDF). The task is to name the sub-package. Five functions of each are
# labelled.

# %%
library = see_also()
counts, topics, n = library.features, library.labels, len(library.labels)
rarity = 1 + ((1 + n) / (1 + (counts > 0).sum(0))).log()
words = F.normalize(counts * rarity, dim=-1)
of_receivers, of_senders = topics[library.edges]
same = (of_receivers == of_senders).float().mean()
print(f"{n} functions, {len(topics.unique())} topics, {words.shape[1]} words")
print(f"for example: {library.names[0]} refers to {library.names[library.edges[1, 0]]}")
print(f"references that stay within a topic: {same:.2f}")
looped = with_self_loops(library.edges, n)
heard, every_edge = torch.eye(n), torch.ones(looped.shape[1])
for rounds in (1, 2, 3):
    heard = (propagate(heard, looped, every_edge) > 0).float()
    print(f"functions heard after round {rounds}: {heard.sum(1).median():.0f} (median)")

# %% [markdown] tags=["predict"]
# Nine of ten references stay within a topic. After one round a node has heard its neighbours, after two also *their* neighbours:
# $k$ layers see $k$ steps far.
#
# **Predict.** We mix the words by $\hat A$, twice, and then fit a logistic regression, without any network:
# $\mathrm{softmax}(\hat A^2 X\, W)$. Scikit-learn's regression penalises large weights, so the networks have such a penalty, too. How
# does it do against a graph attention network of two layers?
#
# <details><summary>A. Worse: attention can leave out the wrong references.</summary>
#
# It could. But from 80 labels it would have to learn which these are, and nine of ten are right anyway.</details>
# <details><summary>B. As well.</summary>
#
# Yes. Where one neighbour is as good as another, there is nothing to choose. This is SGC (Wu et al. 2019,
# https://arxiv.org/abs/1902.07153).</details>
# <details><summary>C. Much better: networks of two layers cannot learn from 80 labels.</summary>
#
# They can: they, too, start from good words and good edges.</details>

# %%
A_hat = gcn_weights(looped, n)
mixed = propagate(propagate(words, looped, A_hat), looped, A_hat)


def regression(x, known, asked):
    """The accuracy of a logistic regression from the labels of the known nodes."""
    model = LogisticRegression(max_iter=1_000).fit(x[known], topics[known])
    return model.score(x[asked], topics[asked])


def network(make, known, asked, seed):
    """The accuracy of a graph network after 200 updates."""
    torch.manual_seed(seed)
    x, edges, labels = (part.to(device()) for part in (words, library.edges, topics))
    model = make(words.shape[1]).to(device())

    def loss(model, _):
        penalty = sum(weight.square().sum() for weight in model.parameters())
        return F.cross_entropy(model(x, edges)[known], labels[known]) + penalty / 400

    run = train(model, iter(int, 1), loss, steps=200, lr=1e-2)
    for _step in progress(run, f"seed {seed}", total=200):
        pass
    with torch.no_grad():
        return (
            (model(x, edges)[asked].argmax(-1) == labels[asked]).float().mean().item()
        )


splits = [few_labels(topics, 5, seed) for seed in range(3)]
makers = {
    "convolutions": lambda d: GCN(d, 32, 16),
    "attention": lambda d: GAT(d, 8, 16, 4, mechanism=DynamicGraphAttention),
}
found = {
    "alone": [regression(words, *split) for split in splits],
    "mixed": [regression(mixed, *split) for split in splits],
}
for name, make in makers.items():
    found[name] = [network(make, *split, seed) for seed, split in enumerate(splits)]
show_seeds(found, "accuracy on functions", across={"chance": 1 / 16})

# %% tags=["nbval-check-output"]
claim("15.f", alone=found.pop("alone"), mixed=found["mixed"])
claim("15.g", **found)

# %% [markdown]
# So first ask what the edges know. If neighbours are alike, mix them and fit a line. If a node must choose, let it attend: in the
# build task below, each of eight readers needs another one of the same eight neighbours.

# %% [markdown] tags=["quiz"]
# ## 7 Exit quiz
#
# **Question 1.** A graph has 100,000 nodes and 500,000 edges, and a layer has 8 heads. How many attention weights are there?
#
# <details><summary>A. 8 · 100,000²: one for each pair.</summary>
#
# That is dense attention: eighty billion weights, nearly all of which are masked.</details>
# <details><summary>B. 100,000: a softmax gives each node one weight.</summary>
#
# A softmax gives each node a weight for each of its neighbours.</details>
# <details><summary>C. 8 · 500,000.</summary>
#
# Right: one for each edge and head.</details>
#
# **Question 2.** You subtract the largest score of the *whole graph* before the exponential. What goes wrong?
#
# <details><summary>A. A node whose scores are all far below those of other nodes gets NaN.</summary>
#
# Right. Each node needs its own maximum; the property `large scores` of the check tests this.</details>
# <details><summary>B. Nothing: any constant cancels.</summary>
#
# That holds in exact arithmetic. But in floating point $e^{-2000}$ is 0, and a node all of whose scores are that low computes
# 0/0.</details>
# <details><summary>C. Weights no longer sum to 1.</summary>
#
# They do, unless they are NaN.</details>
#
# **Question 3.** All neighbours of a node have equal features. It has three of them, and then six. What does attention over them
# return?
#
# <details><summary>A. Twice as much for six.</summary>
#
# That is what a sum returns.</details>
# <details><summary>B. The same both times.</summary>
#
# Right: weights that sum to 1 over equal values give that value. Attention cannot count; a sum can.</details>
# <details><summary>C. That depends on the scores.</summary>
#
# Whatever the scores are, they are the same for equal neighbours.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague has a network of bank transfers and wants to find the accounts that launder
# money. "A graph attention network will show us which transfer gave them away: we just look at the weights." Advise.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says what a weight is: a fraction of the sum at one node, in one head of one layer |
# | 1 | proposes a control: equal weights, or fixed mixing and logistic regression; and says what each would show |
# | 1 | asks whether the relevant neighbour depends on the receiver, which requires dynamic scores; or whether a number of transfers matters, which attention cannot count |
# | 1 | uses the two graphs of this lecture, one on which a choice decides and one on which it does not |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 8 What came of it
#
# - **Dynamic scores.** GATv2 (Brody et al. 2022, https://arxiv.org/abs/2105.14491) is the form that libraries offer beside GAT.
# - **What message passing can see.** It cannot tell apart graphs that the test of Weisfeiler and Leman cannot; a sum of
#   messages can reach this limit, a mean or a maximum cannot (Xu et al. 2019, https://arxiv.org/abs/1810.00826; *Going further*).
# - **Graph transformers** let every node attend to every other; positions say who is near whom. RelGT (Dwivedi et al. 2026,
#   https://openreview.net/forum?id=2d3j6bt21A) reads the tables of a database as such a graph. On 21 tasks it is level with message
#   passing or ahead, by up to 18 %.
# - **Simple rivals.** On 14 benchmarks about whole graphs, well-equipped GCN, GIN and GatedGCN are always among the best three, and
#   eight times the best, graph transformers included (Luo et al. 2025, https://arxiv.org/abs/2502.09263).
# - **In use.** GraphCast (Lam et al. 2023, https://arxiv.org/abs/2212.12794) forecasts the weather by messages on a mesh over the globe.
#
# **Further reading.** Veličković et al. 2018, *Graph Attention Networks*, eqs. 1 to 6 (https://arxiv.org/abs/1710.10903): on Cora, a
# graph of citations, 83.0 % against 81.5 % of graph convolutions.

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each stands alone once the core has run, and their exercises are extra points.

# %% [markdown]
# ## The static score, heads, and a club that split
#
# Veličković et al. score a pair of nodes with a single layer:
#
# $$e_{ij} = \mathrm{LeakyReLU}\!\left(a^\top [z_i \,\|\, z_j]\right) \qquad z = W h$$
#
# where $\|$ concatenates two vectors. The first half of $a$ multiplies only $z_i$, the receiver, the second only $z_j$, the
# sender. So the product is a sum of two numbers, one from each node, and the vectors need not be concatenated.
#
# | name | shape |
# | --- | --- |
# | `z` | (…, N, d): projected features |
# | `a` | (…, 2d): first half for the receiver, second half for the sender |
# | scores | (…, N, N): a row for each receiver, a column for each sender |

# %% exercise="15.1" difficulty="●○○" minutes=8
from course_lib.attention import gat_scores

# %% tags=["nbval-check-output"]
gat_scores = check("15.1", gat_scores)

# %% [markdown]
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
#
# ![](diagram:gat)

# %% exercise="15.4" difficulty="●●○" minutes=12
from course_lib.attention import multi_head_graph_attention

# %% tags=["nbval-check-output"]
multi_head_graph_attention = check("15.4", multi_head_graph_attention)

# %% [markdown] tags=["predict"]
# From 1970 on, an anthropologist recorded who met whom among the 34 members of a karate club. Then its instructor and its officer
# quarrelled; the club split, and every member took a side. We are given the sides of the two *leaders* only. The features of a
# member only identify it: a row of the identity matrix.
#
# **Predict a number** (within 4). Two layers at each member, without the edges, learn the sides of the two leaders. Half of the
# other 32 members are on either side. How many of them do they classify correctly, on average over many trainings?
#
# <details><summary>16</summary>
#
# For all others the prediction depends on random initial weights, so half are right. What is known about them is in the
# edges.</details>
# <details><summary>32</summary>
#
# There are enough parameters. But in the first layer, training changes only the weights that multiply the features of the two
# leaders.</details>
# <details><summary>0</summary>
#
# To be wrong about all would need information, too: exchange the sides, and all would be right.</details>

# %% [markdown]
# With the edges, the two labels travel from neighbour to neighbour. `ClubGAT` has two layers of your function; without edges, each
# member attends to itself alone. Its rival is the mixing of section 6, four times, with a logistic regression.


# %%
class ClubGAT(nn.Module):
    """Two layers of graph attention, four heads; every node attends to itself, too."""

    def __init__(self, d_in=34, d=8, n_out=2, h=4):
        super().__init__()
        shapes = [(h * d, d_in), (h, 2 * d), (h * n_out, h * d), (h, 2 * n_out)]
        drawn = [nn.init.xavier_uniform_(torch.empty(shape)) for shape in shapes]
        self.W_1, self.a_1, self.W_2, self.a_2 = map(nn.Parameter, drawn)

    def forward(self, x, edges):
        edges, layer = with_self_loops(edges, len(x)), multi_head_graph_attention
        x = F.elu(layer(x, self.W_1, self.a_1, edges, merge_heads)[0])
        return layer(x, self.W_2, self.a_2, edges, average_heads)[0]


club, leaders, others = karate_club(), torch.tensor([0, 33]), torch.arange(1, 33)
edges, x, sides = (part.to(device()) for part in club[:3])


def side_of_others(seed, edges=edges):
    """Train on two labels; return the accuracy on the other members."""
    torch.manual_seed(seed)
    model = ClubGAT().to(device())

    def loss(model, _):
        return F.cross_entropy(model(x, edges)[leaders], sides[leaders])

    for _step in train(model, iter(int, 1), loss, steps=100, lr=1e-2):
        pass
    with torch.no_grad():
        right = model(x, edges)[others].argmax(-1) == sides[others]
    return right.float().mean().item()


def club_regression(features):
    """The accuracy on the other members of a logistic regression on the leaders."""
    model = LogisticRegression().fit(features[leaders], club.labels[leaders])
    return model.score(features[others], club.labels[others])


looped = with_self_loops(club.edges, 34)
features = club.features
for _round in range(4):
    features = propagate(features, looped, gcn_weights(looped, 34))

# %% tags=["nbval-check-output"]
claim(
    "15.d",
    attention=[side_of_others(seed) for seed in range(3)],
    edgeless=[side_of_others(seed, edges[:, :0]) for seed in range(3)],
    mixing=club_regression(features),
)

# %% [markdown]
# ## Depth and over-smoothing
#
# In one round a node receives from its direct neighbours only, so more rounds bring more information. But each round also makes
# neighbours more alike. The **Dirichlet energy** measures how much they still differ:
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

# %% exercise="15.7" difficulty="●○○" minutes=6
from course_lib.primitives import dirichlet_energy

# %% tags=["nbval-check-output"]
dirichlet_energy = check("15.7", dirichlet_energy)

# %% [markdown] tags=["predict"]
# **Predict.** Apply $\hat A$ repeatedly, without any training. What happens to the energy of $x_i/\sqrt{d_i}$?
#
# <details><summary>A. It falls towards 0; after the first steps, by nearly the same factor in every step.</summary>
#
# Yes: by the square of the second largest absolute eigenvalue of $\hat A$, once the components of the smaller ones have decayed. On
# a connected graph only one direction remains, and in it $x_i/\sqrt{d_i}$ is the same for all nodes.</details>
# <details><summary>B. It falls to a positive level that depends on the graph.</summary>
#
# What remains is the component along $\sqrt{d_i}$, and its energy is 0.</details>
# <details><summary>C. It falls like 1 / depth.</summary>
#
# That would be slower. The decay is geometric: a straight line on a logarithmic axis.</details>

# %%
graphs = {"karate club": karate_club(), "Les Misérables": les_miserables()}
smooth = {
    name: figures.smoothed(graph, 64, gcn_weights, dirichlet_energy)
    for name, graph in graphs.items()
}
figures.show_energies(smooth)

# %% [markdown] tags=["predict"]
# Now classify the members of the club after 64 rounds, by logistic regression from the sides of its two leaders.
#
# **Predict.** Is what tells the members apart still there?
#
# <details><summary>A. No: averaging has removed it.</summary>
#
# Each round shrinks it by a factor, and a factor is never 0.</details>
# <details><summary>B. Yes: the regression finds it by itself.</summary>
#
# It finds the largest difference between the two leaders, and that is their number of friends, 16 and 17.</details>
# <details><summary>C. Yes, but too small beside what all members share.</summary>
#
# Yes. Divide by $\sqrt{d_i}$, subtract the mean of all members, and multiply what is left back to size: the sides are there.</details>

# %% tags=["nbval-check-output"]
after = smooth["karate club"].features
told = karate_club().labels
scored = {}
for name, features in (
    ("before", after[4]),
    ("after", after[64]),
    ("rescaled", figures.rescaled(after[64], karate_club().edges)),
):
    model = LogisticRegression().fit(features[[0, 33]], told[[0, 33]])
    scored[name] = model.score(features[1:33], told[1:33])
left = max(each.energy[-1].item() for each in smooth.values())
claim("15.smooth", left=left, **scored)

# %% [markdown]
# A network whose layers only mix cannot multiply the difference back; residual connections and normalisation between the layers are
# the usual remedies.
#
# ## What message passing cannot see
#
# The **test of Weisfeiler and Leman** (1968) gives all nodes the same colour, and then, round after round, a new colour for each
# combination of a node's colour and the colours of its neighbours, each as often as it occurs. Message passing can do no better: nodes
# of one colour send and receive the same. **By hand:** in both graphs below, from the atlas of networkx, every node has three neighbours. After the first
# round all nodes have the same new colour, and so on for ever.

# %%
prism, other = (networkx.graph_atlas(number) for number in (174, 175))
figures.show_small_graphs({"the prism": prism, "no triangle": other})

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
outputs, spectra = [], []
layers = GAT(1, 8, 4, mechanism=DynamicGraphAttention)
for graph in (prism, other):
    edges = torch.tensor(list(graph.to_directed().edges)).mT
    with torch.no_grad():
        outputs.append(layers(torch.ones(6, 1), edges))
    spectra.append(torch.tensor(networkx.laplacian_spectrum(graph)))
claim(
    "15.wl",
    triangles=sum(networkx.triangles(prism).values()) // 3,
    gap=(outputs[0] - outputs[1]).abs().max(),
    spectra=(spectra[0] - spectra[1]).abs().max(),
)

# %% [markdown]
# The **Laplacian** is $D - A$, the degrees minus the edges. Its eigenvectors are the slow and fast waves of the graph; their
# eigenvalues tell the two graphs apart. Graph transformers take the eigenvectors as positions. But the sign of each is arbitrary,
# as is the basis where an eigenvalue repeats: Dwivedi and Bresson
# (https://arxiv.org/abs/2012.09699) draw the signs anew in every update.
#
# Attention stays below even this limit: with equal features it cannot count. One node has two leaves, another has five; between
# equal features all scores are equal, here 0, and attention is the mean:

# %%
two, five = (
    torch.stack([torch.zeros(k).long(), torch.arange(1, k + 1)]) for k in (2, 5)
)
ones = torch.ones(6, 1)
for name, mix in (
    ("sum", lambda edges: propagate(ones, edges, torch.ones(edges.shape[1]))),
    (
        "attention",
        lambda edges: attend_edges(torch.zeros(edges.shape[1]), ones, edges)[0],
    ),
):
    print(f"{name}: {mix(two)[0].item():.0f} and {mix(five)[0].item():.0f}")

# %% [markdown] tags=["try-it"]
# ## Build it
#
# **Build task (30 minutes, 12 points).** Write a graph attention network and its training from an empty cell. The graph is a
# look-up table: eight *readers* attend to the same eight neighbours. Each neighbour has a key and a value; each reader has one of
# the keys, and its label is the value of the neighbour with that key. You may use your `dynamic_edge_scores` and `attend_edges`,
# but not the library's `GAT` and `GATLayer`.
#
# The check calls `train_gat(features, edges, labels, known, n_classes, n_steps)` once, on a graph of 200 groups and with
# `n_steps=150`. The labels of the readers of 80 groups are known. Elsewhere `labels` contains *false* classes, so the check
# detects a model that learned from them. The function has at most 120 seconds of processor time; a good solution needs about
# four.
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
# | 1 | the logits of a node depend only on itself and on nodes that it reaches along the edges, not on others that attend to the same neighbours |
# | 1 | the prediction depends on the neighbour with the reader's key: changing its value changes the prediction, and changing the value of another does not (each for at least 0.8 of the readers); the weights of a node sum to 1, however many neighbours it has |
# | 1 | accuracy on hidden readers: 0.2 above that of predicting the most frequent value among the neighbours, which has about 0.32 |
# | 2 | accuracy on hidden readers: at least 0.8 (without the edges it is 0.12) |

# %% exercise="15.8" difficulty="●●●" minutes=30
from course_tools.bank.lecture_15.train_gat import train_gat

# %% tags=["nbval-check-output"]
train_gat = check("15.8", train_gat)

# %% [markdown]
# The next cell trains your network on 150 groups, and measures it on 75 new ones.

# %%
parts = matching_neighbour(150, 10, 75, seed=0)
seen, new = parts.train, parts.test
torch.manual_seed(0)  # on the CPU, as in the check
built = train_gat(seen.features, seen.edges, seen.labels, seen.labels >= 0, 8, 150)
asked = new.labels >= 0
with torch.no_grad():
    right = built(new.features, new.edges)[asked].argmax(-1) == new.labels[asked]
print(
    f"{whose(train_gat)} network, accuracy on new readers: {right.float().mean():.2f}"
)

# %% [markdown] tags=["companion"]
# ## Papers and decks
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | GA | Graph Neural Networks and Graph Attention Networks | 3 A softmax over the edges of each node | `course_lib.attention.gat_scores`, `course_lib.attention.attend_edges`, `course_lib.models.GAT` |
# | GA | Graph Neural Networks and Graph Attention Networks | 2 A score for each edge | `course_lib.attention.dynamic_edge_scores` |
# | GA | Graph Neural Networks and Graph Attention Networks | 6 Where no choice is needed | `course_lib.primitives.gcn_weights`, `course_lib.models.GCN` |

# %% tags=["ledger"]
ledger()
