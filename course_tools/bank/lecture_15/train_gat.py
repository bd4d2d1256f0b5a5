"""Build task 15.8, train_gat: a graph attention network and its training; what students hand in, wrong and right.

The graph is a look-up table: each reader has a key, and its class is the value of that neighbour which has the
same key. The labels of hidden nodes that a submission receives are false, so that one which reads them is found out.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import matching_neighbour
from course_lib.models import GAT, GATLayer
from course_tools.bank import training_loops as loops
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Severity, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 120.0, 30_000, 150
N_KNOWN, N_GROUPS, K = 80, 200, 8
LEAD, LEAST, FEW = 0.2, 0.8, 5
COPIES = 100
GROUP = 7
"""The query that is a single group, with which the model is probed."""
SLOW = (
    f"A matrix of all pairs of nodes has {(2 * K * N_GROUPS) ** 2:,} entries, and only {K * K * N_GROUPS:,} are edges: compute "
    "one score for each edge. A smaller model takes less time too."
)

HINTS = (
    (
        "One layer and a linear read-out are enough. Print the shapes: projected features (N, d); scores, one for each edge, "
        "(E,); weights (E,), whose sum over the edges of each receiver is 1; context (N, d); logits (N, n_classes)."
    ),
    (
        "The reader decides which neighbour matters, so a single head needs a dynamic score: `a · LeakyReLU(z_i + z_j)`, or a "
        "dot product of a query of node i and a key of node j. `edges[0]` attends to `edges[1]`; your `edge_softmax` and "
        "`attend_edges` do the rest, also for a node without edges."
    ),
    (
        "The loop reads the whole graph in each update: `loss = F.cross_entropy(model(features, edges)[known], labels[known])`,"
        " `optimizer.zero_grad()`, `loss.backward()`, `optimizer.step()`. Adam with a learning rate of 0.02 suffices. Return "
        "`model.eval()`."
    ),
)


def train_gat(features: Tensor, edges: Tensor, labels: Tensor, known: Tensor, n_classes: int, n_steps: int) -> nn.Module:
    """Build a graph attention network, train it on the known labels of a graph, and return it.

    The model maps (features, edges) of any graph with such features to logits (N, n_classes).

    Args:
        features: of the nodes, (N, d).
        edges: (2, E): node `edges[0, e]` attends to node `edges[1, e]`; a node may have no edges.
        labels: classes of the nodes, (N,); they mean something only where `known` is true.
        known: bool, (N,): the nodes to learn from.
        n_classes: number of classes.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """

    class Model(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.project, self.a = nn.Linear(features.shape[1], d, bias=False), nn.Parameter(torch.randn(d) * d**-0.5)
            self.read_out = nn.Linear(d, n_classes)

        def forward(self, x, edges):
            z, (i, j) = self.project(x), edges
            scores = F.leaky_relu(z[i] + z[j], 0.2) @ self.a
            largest = torch.full((len(x),), -torch.inf).scatter_reduce(0, i, scores.detach(), "amax")
            exponentials = (scores - largest[i]).exp()
            sums = torch.zeros(len(x)).index_add(0, i, exponentials)
            weights = exponentials / sums[i]
            context = torch.zeros_like(z).index_add(0, i, weights[:, None] * z[j])
            return self.read_out(F.elu(context))

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(n_steps):
        loss = F.cross_entropy(model(features, edges)[known], labels[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def _questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw a graph of groups of eight readers and eight neighbours, its nodes in any order.

    The queries (features, edges) are: the graph · the same with its nodes and edges in another order · with other features in
    all groups but the first five · with another value of the neighbour that has the key of the first reader of each group ·
    with another value of another neighbour · with readers without keys · five nodes without edges · the first group alone · the
    same with other keys of all readers but one · with a hundred twins of each neighbour · with two hundred · the group with
    readers without keys · the same with a hundred twins of one neighbour.
    """
    graph = matching_neighbour(N_GROUPS, 1, 1, k=K, seed=int(draw.integers(0, 2**31, 1))).train
    n = len(graph.labels)
    order = draw.uniform(n).argsort()
    place = order.argsort()
    edges, features, labels = place[graph.edges], graph.features[order], graph.labels[order]
    nodes = place.view(N_GROUPS, 2 * K)
    sources, readers = nodes[:, :K], nodes[:, K:]
    known = torch.zeros(n, dtype=torch.bool).index_fill(0, readers[:N_KNOWN].flatten(), True)
    given = torch.where(known, labels, torch.where(labels < 0, draw.integers(0, K, n), (labels + 1) % K))
    asked = readers[:, 0]
    keys = features[:, 1 : 1 + K]
    match = (keys[sources] * keys[asked][:, None]).sum(-1).argmax(1)
    rows = torch.arange(N_GROUPS)
    decisive, other = sources[rows, match], sources[rows, (match + 1) % K]
    mixed = draw.uniform(n).argsort()
    strangers = features[draw.uniform(n).argsort()]
    strangers[nodes[:FEW]] = features[nodes[:FEW]]
    rekeyed = features.clone()
    rekeyed[readers, 1 : 1 + K] = 0
    group, keyless = features[nodes[0]], rekeyed[readers[0]]
    turned = torch.cat([group[K + 1 :, :1], group[K + 1 :, 1 : 1 + K].roll(1, -1), group[K + 1 :, 1 + K :]], dim=1)
    queries = [
        (features, edges),
        (features[mixed], mixed.argsort()[edges][:, draw.uniform(edges.shape[1]).argsort()]),
        (strangers, edges),
        (_with_another_value(features, decisive), edges),
        (_with_another_value(features, other), edges),
        (rekeyed, edges),
        (features[:FEW], edges[:, :0]),
        _star(group[:K], group[K:]),
        _star(group[:K], torch.cat([group[K : K + 1], turned])),
        *(_star(group[:K].repeat(n * COPIES, 1), group[K:]) for n in (1, 2)),
        _star(group[:K], keyless),
        _star(torch.cat([group[:K], group[:1].expand(COPIES, -1)]), keyless),
    ]
    values = features[:, 1 + K :]
    average = (values[sources].sum(1).argmax(-1)[:, None] == labels[readers])[N_KNOWN:].float().mean().item()
    truth = {
        "labels": labels,
        "given": given,
        "hidden": readers[N_KNOWN:].flatten(),
        "nodes": nodes,
        "asked": asked[N_KNOWN:],
        "sources": sources,
        "mixed": mixed,
        "average": average,
        "n_steps": N_STEPS,
    }
    return ((features, edges, given, known, K, N_STEPS), queries, (), [queries[GROUP]]), truth


def _star(neighbours: Tensor, readers: Tensor) -> tuple[Tensor, Tensor]:
    """A graph of the readers, first, and the neighbours, to all of which each reader attends."""
    n = len(readers)
    edges = torch.cartesian_prod(torch.arange(n), torch.arange(n, n + len(neighbours))).mT
    return torch.cat([readers, neighbours]), edges


def _with_another_value(features: Tensor, nodes: Tensor) -> Tensor:
    changed = features.clone()
    changed[nodes, 1 + K :] = features[nodes, 1 + K :].roll(1, -1)
    return changed


def accuracy(measured: Measured, truth: Truth, labels: str = "labels") -> float:
    """Accuracy on the hidden readers, or the fraction of them for which the false label is predicted."""
    hidden = truth["hidden"]
    return (measured.outputs[0][hidden].argmax(-1) == truth[labels][hidden]).float().mean().item()


def _model(measured: Measured, truth: Truth) -> str | None:
    n, more = len(truth["labels"]), K * COPIES
    sizes = (*[n] * 6, FEW, 2 * K, 2 * K, K + more, K + 2 * more, 2 * K, 2 * K + COPIES)
    for N, output in zip(sizes, measured.outputs, strict=True):
        if fault := trained.fault_of_logits(output, (N, K), f"{N} nodes"):
            return fault
    return None


def _isolated(measured: Measured, truth: Truth) -> str | None:
    if not measured.outputs[6].isfinite().all():
        return f"In a graph of {FEW} nodes and no edges the logits are not finite."
    return None


def _order(measured: Measured, truth: Truth) -> str | None:
    if not trained.is_near(measured.outputs[0][truth["mixed"]], measured.outputs[1]):
        return "With its nodes and edges in another order, some nodes get different logits."
    return None


def _local(measured: Measured, truth: Truth) -> str | None:
    if reads_unconnected_nodes(measured, truth) or reads_other_readers(measured, truth):
        return "The logits of a node change when only nodes change that it cannot reach along the edges."
    return None


def _content(measured: Measured, truth: Truth) -> str | None:
    before, decisive, other = (output[truth["asked"]].argmax(-1) for output in (measured.outputs[i] for i in (0, 3, 4)))
    changed, kept = (decisive != before).float().mean().item(), (other == before).float().mean().item()
    if changed >= LEAST and kept >= LEAST:
        if grows_with_the_edges(measured, truth):
            return "The logits grow with the number of edges: the weights of a node do not sum to 1."
        if takes_an_extreme(measured, truth):
            return "A hundred twins of one neighbour change nothing: the context is no mean of the neighbours."
        if takes_no_exponentials(measured, truth):
            return "No exponential of a number for each edge is computed: the edges have no weights of a softmax."
        return None
    return (
        f"Another value of the neighbour with the reader's key changes {changed:.0%} of the predictions, and that of another "
        f"neighbour leaves {kept:.0%} unchanged; at least {LEAST:.0%} is required of both."
    )


_HIDDEN = "On the readers whose labels are hidden the accuracy"
_learns = trained.at_least(
    lambda truth: truth["average"] + LEAD, accuracy, _HIDDEN, f" ({LEAD:g} above the most frequent value among the neighbours)"
)
_score = trained.at_least(LEAST, accuracy, _HIDDEN)


def reads_unconnected_nodes(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits of a group change with the features of groups that no edge leads to."""
    few = truth["nodes"][:FEW].flatten()
    return not trained.is_near(measured.outputs[0][few], measured.outputs[2][few])


def reads_other_readers(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits of a reader change with the keys of others that attend to the same neighbours."""
    return not trained.is_near(measured.outputs[7][0], measured.outputs[8][0])


def grows_with_the_edges(measured: Measured, truth: Truth) -> bool:
    """Evidence: twice as many neighbours of each kind make the logits much larger, as those of a mean cannot become."""
    once, twice = (measured.outputs[i][:K].abs().max() for i in (9, 10))
    return bool(twice > 1.6 * once)


def takes_an_extreme(measured: Measured, truth: Truth) -> bool:
    """Evidence: a hundred twins of one neighbour leave the logits of readers that seek none as they are."""
    return trained.is_near(measured.outputs[11][:K], measured.outputs[12][:K], 1e-5)


def takes_no_exponentials(measured: Measured, truth: Truth) -> bool:
    """Evidence: exponentials are taken of fewer numbers than there are edges."""
    return int(trained.probe_of(measured).exponentials) < K * K


def reads_hidden_labels(measured: Measured, truth: Truth) -> bool:
    """Evidence: for hidden readers the false label, which only the data hold, is predicted far more often than by chance."""
    return accuracy(measured, truth, "given") > 0.5


def ignores_the_neighbours(measured: Measured, truth: Truth) -> bool:
    """Evidence: other features of the neighbours leave the logits of their readers as they are."""
    asked = truth["asked"]
    return all(trained.is_near(measured.outputs[0][asked], measured.outputs[i][asked], 1e-6) for i in (3, 4))


def sends_the_wrong_way(measured: Measured, truth: Truth) -> bool:
    """Evidence: readers do not depend on their neighbours, and these depend on their readers."""
    sources = truth["sources"].flatten()
    changed = not trained.is_near(measured.outputs[0][sources], measured.outputs[5][sources])
    return ignores_the_neighbours(measured, truth) and changed


def weighs_all_alike(measured: Measured, truth: Truth) -> bool:
    """Evidence: the neighbour with the key of the reader influences it less than twice as much as another one does.

    Static scores gave 1.0 to 1.6 times on twelve seeds, dynamic ones 2.5 times or more once the accuracy was 0.6.
    """
    before, decisive, other = (output[truth["asked"]].softmax(-1) for output in (measured.outputs[i] for i in (0, 3, 4)))
    one, another = ((part - before).abs().mean() for part in (decisive, other))
    return bool(another > 1e-6 and one < 2 * another)


def _dynamic(z, i, j, a):
    return F.leaky_relu(z[i] + z[j], 0.2) @ a[0]


def _static(z, i, j, a):
    return F.leaky_relu(z[i] @ a[0] + z[j] @ a[1], 0.2)


def _of_each_node(exponentials, i, j, n):
    return torch.zeros(n).index_add(0, i, exponentials)[i]


class _Network(nn.Module):
    """One layer and a read-out, and what a wrong submission changes: the score, the direction, the sums, dropout."""

    def __init__(self, d_in, n_classes, score=_dynamic, turned=False, sums=_of_each_node, dropout=0.0, d=32):
        super().__init__()
        self.project, self.a = nn.Linear(d_in, d, bias=False), nn.Parameter(torch.randn(2, d) * d**-0.5)
        self.read_out, self.dropout = nn.Linear(d, n_classes), nn.Dropout(dropout)
        self.score, self.turned, self.sums = score, turned, sums

    def forward(self, x, edges):
        z, (i, j) = self.project(x), edges.flip(0) if self.turned else edges
        exponentials = (self.score(z, i, j, self.a)).clamp(max=30).exp()
        weights = exponentials / (self.sums(exponentials, i, j, len(x)) + 1e-9)
        context = torch.zeros_like(z).index_add(0, i, weights[:, None] * z[j])
        return self.read_out(self.dropout(F.elu(context)))


def submit(data, part=1.0, model=_Network, known=None, lr=2e-2, **change):
    features, edges, labels, mask, n_classes, n_steps = data
    at = mask if known is None else known

    def loss(logits, labels):
        return F.cross_entropy(logits[at], labels[at])

    make = partial(model, features.shape[1], n_classes)
    return loops.train(make, part * n_steps, lambda: (features, edges, labels), loss, lr, **change)


wrong = loops.Submissions(__name__, submit, results="predictions", rates="0.005 to 0.05")
_UNSOUND = trained.fails(_score)
LOOP = {name: text for name, text in loops.LOOP.items() if name != "one_batch_for_all_updates"}
wrong.loop_mistakes(_UNSOUND, _UNSOUND, LOOP, part=1.0, short=1 / 3, dropout=0.2, too_large=10.0)


@wrong(proof=reads_hidden_labels)
def hidden_labels_read(*data):
    """Your model was trained on labels it must not use: for hidden nodes it predicts what `labels` holds there, which is false
    on purpose. Take the loss at the known nodes only: `logits[known]` and `labels[known]`."""
    return submit(data, known=torch.ones_like(data[3]))


@wrong.change("sums", reads_unconnected_nodes)
def softmax_over_all_edges(exponentials, i, j, n):
    """The logits of a node depend on nodes that no edge leads to: your softmax divides by a sum over all edges of the graph, or
    a normalisation uses the mean of all nodes. Divide by the sum over the edges of each node by itself."""
    return exponentials.sum() / 8 / n


@wrong.change("sums", reads_other_readers, severity=Severity.PART)
def softmax_over_the_readers(exponentials, i, j, n):
    """The logits of a node change with other nodes that attend to the same neighbours: your softmax runs over the edges that
    *arrive* at a neighbour, those with the same `edges[1]`. The weights of node i sum to 1 over its own edges, those with the
    same `edges[0]`."""
    return torch.zeros(n).index_add(0, j, exponentials)[j]


@wrong.change("sums", grows_with_the_edges, severity=Severity.PART)
def weights_without_a_softmax(exponentials, i, j, n):
    """The logits of a node grow with the number of its edges: your weights do not sum to 1. In graph attention they are a
    softmax over the edges of each node, so that the context is a mean of its neighbours however many there are."""
    return 1 + exponentials


@wrong.change("model", lambda measured, truth: not measured.outputs[6].isfinite().all())
class DivisionByZero(_Network):
    """Your logits are not finite in a graph without edges: a softmax over no edges divides 0 by 0. Give a node without edges a
    context of 0, or an edge to itself."""

    def forward(self, x, edges):
        has_edges = torch.zeros(len(x)).index_fill(0, edges[0], 1.0)
        return super().forward(x, edges) * (has_edges.mean() / has_edges.mean())


@wrong(proof=sends_the_wrong_way)
def messages_the_wrong_way(*data):
    """Your messages go the wrong way: the neighbours receive the features of those that attend to them, and the readers receive
    nothing. Node `edges[0]` attends to node `edges[1]`: the softmax and the sum run over the edges with the same `edges[0]`."""
    return submit(data, 0.5, turned=True)


class _Alone(nn.Sequential):
    def forward(self, x, edges):
        return super().forward(x)


@wrong(proof=ignores_the_neighbours)
def edges_not_used(*data):
    """Your model does not read the edges: other features of its neighbours leave the logits of a node as they are. Mix the
    features along the edges, with weights that are a softmax over the edges of each node."""
    return submit(data, model=lambda d_in, n_classes: _Alone(nn.Linear(d_in, 32), nn.ReLU(), nn.Linear(32, n_classes)))


class _Largest(nn.Module):
    """The largest of what a network makes of each reader and neighbour."""

    def __init__(self, d_in, n_classes, d=64):
        super().__init__()
        self.of_pairs, self.read_out = (
            nn.Sequential(nn.Linear(2 * d_in, d), nn.ReLU(), nn.Linear(d, d)),
            nn.Linear(d, n_classes),
        )

    def forward(self, x, edges):
        found = self.of_pairs(torch.cat([x[edges[0]], x[edges[1]]], dim=-1))
        return self.read_out(self.reduce(found, edges[0], len(x)))

    def reduce(self, found, i, n):
        return torch.zeros(n, found.shape[-1]).index_reduce(0, i, found, "amax", include_self=False)


@wrong(proof=takes_an_extreme, severity=Severity.IDEA)
def maximum_over_the_neighbours(*data):
    """Your context is the largest of what the neighbours give, feature by feature: no weights are computed, and a hundred twins
    of one neighbour count as one. Attention is a *mean* of the neighbours, with weights from a softmax over the edges of each
    node."""
    return submit(data, model=_Largest)


class _Mean(_Largest):
    """The mean of what a network makes of each reader and neighbour."""

    def reduce(self, found, i, n):
        return torch.zeros(n, found.shape[-1]).index_reduce(0, i, found, "mean", include_self=False)


@wrong(proof=takes_no_exponentials, severity=Severity.IDEA)
def mean_of_an_edge_network(*data):
    """Your model computes no softmax: the context is the plain mean of what a network makes of each pair of reader and
    neighbour. In graph attention the network gives a *score* for each edge; the softmax of the scores over the edges of a node
    weighs features of the neighbours."""
    return submit(data, model=_Mean)


@wrong(proof=trained.both(weighs_all_alike, trained.fails(_score)))
def weights_independent_of_the_reader(*data):
    """Your readers weigh their neighbours alike: the one with the reader's key has no more influence than another. Uniform
    attention does so, and so does the static score LeakyReLU(a₁ᵀz_i + a₂ᵀz_j), which ranks the neighbours in one order for all
    readers. Put the nonlinearity inside, aᵀ LeakyReLU(z_i + z_j), or take a dot product of a query and a key."""
    return submit(data, score=_static)


class _ManyHeads(nn.Module):
    """Four heads by static scores, beside the node's own features, and a network that reads them."""

    def __init__(self, d_in, n_classes, d=32):
        super().__init__()
        self.heads, self.own = nn.ModuleList(_Network(d_in, d, _static) for _ in range(4)), nn.Linear(d_in, d)
        self.read_out = nn.Sequential(nn.Linear(5 * d, 64), nn.ReLU(), nn.Linear(64, n_classes))

    def forward(self, x, edges):
        return self.read_out(torch.cat([self.own(x), *(head(x, edges) for head in self.heads)], dim=-1))


@wrong(suspicion=trained.both(trained.fails(_learns), trained.fails(trained.reads_one_batch)))
def static_scores_in_several_heads(*data):
    """Your score ranks the neighbours in the same order for all readers, as LeakyReLU(a₁ᵀz_i + a₂ᵀz_j) does, also with several
    heads. Put the nonlinearity inside, aᵀ LeakyReLU(z_i + z_j), or take a dot product of a query and a key."""
    return submit(data, model=_ManyHeads)


@right
def without_modules(features, edges, labels, known, n_classes, n_steps):
    """Weights in a dict, Bahdanau's score with a tanh, self-loops, gradients from autograd, and Adam by hand."""
    d = 24
    shapes = {
        "q": (features.shape[1], d),
        "k": (features.shape[1], d),
        "v": (features.shape[1], d),
        "a": (d, 1),
        "out": (d, n_classes),
    }
    weights = {name: (torch.randn(shape) * shape[0] ** -0.5).requires_grad_() for name, shape in shapes.items()}

    def model(x, edges):
        loops = torch.arange(len(x)).expand(2, -1)
        i, j = torch.cat([edges, loops], dim=1)
        scores = 4 * ((x @ weights["q"])[i] + (x @ weights["k"])[j]).tanh() @ weights["a"]
        e = scores.clamp(-40, 40).exp()
        mixed = torch.zeros(len(x), d).index_add(0, i, e * (x @ weights["v"])[j])
        return mixed / torch.zeros(len(x), 1).index_add(0, i, e) @ weights["out"]

    def loss():
        return -model(features, edges)[known].log_softmax(-1).gather(1, labels[known][:, None]).mean()

    loops.adam_by_hand(list(weights.values()), n_steps, loss, 2e-2)
    return model


@right
def padded_neighbours(features, edges, labels, known, n_classes, n_steps):
    """The neighbours of each node in a padded table and a masked softmax, on random parts of the known nodes, with RMSprop."""

    def table(edges, n):
        counts = torch.bincount(edges[0], minlength=n)
        order = edges[0].argsort(stable=True)
        ends = counts.cumsum(0)
        slot = torch.arange(edges.shape[1]) - (ends - counts)[edges[0][order]]
        neighbours = torch.zeros(n, max(int(counts.max()), 1), dtype=torch.long)
        neighbours[edges[0][order], slot] = edges[1][order]
        return neighbours, torch.arange(neighbours.shape[1]) < counts[:, None]

    class Model(nn.Module):
        def __init__(self, d=24):
            super().__init__()
            self.left, self.right = nn.Linear(features.shape[1], d), nn.Linear(features.shape[1], d, bias=False)
            self.score, self.out = nn.Linear(d, 1), nn.Linear(d, n_classes)

        def forward(self, x, edges):
            neighbours, allowed = table(edges, len(x))
            keys = self.right(x)[neighbours]
            scores = self.score(F.leaky_relu(self.left(x)[:, None] + keys, 0.2)).squeeze(-1)
            weights = scores.masked_fill(~allowed, -1e9).softmax(-1) * allowed
            return self.out(F.elu((weights[..., None] * keys).sum(1)))

    model = Model()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3)
    places = known.nonzero().flatten()
    for _ in range(n_steps):
        some = places[torch.randperm(len(places))[:600]]
        loss = F.cross_entropy(model(features, edges)[some], labels[some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


exercise = Exercise(
    id="15.8",
    title="A graph attention network and its training",
    reference=train_gat,
    properties=(
        *trained.sound_training(
            SECONDS,
            MOST_PARAMETERS,
            ("The model maps (features, edges) to logits (N, n_classes).", _model),
            trained.loss_falls(unless=_learns),
            SLOW,
        ),
        trained.shown("isolated", "The logits of a node without edges are finite.", _isolated),
        trained.shown("order", "Nodes and edges in another order give the same logits.", _order),
        trained.shown("local", "The logits of a node depend only on nodes that edges lead to.", _local),
        trained.shown("content", "The neighbour with the reader's key decides; weights sum to 1.", _content),
        trained.shown("learns", "The accuracy is 0.2 above that of the neighbours' most frequent value.", _learns),
        trained.holds("score", "The accuracy on hidden readers is at least 0.8.", _score, 2, needs=("learns",)),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={GAT: "write the network yourself.", GATLayer: "write the layer yourself."},
    training=Training(_questions, SECONDS),
    extra=True,
)
