"""Graph attention over an edge list, by its equation and by sparse products, against PyTorch Geometric, pairs and a mask."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.timing import Row, compare, peer_from
from course_lib.attention import attend, attend_edges, gat_scores, split_heads
from course_lib.attention.graph import DynamicGraphAttention, GraphAttention
from course_lib.fast import csr_attend_edges
from course_lib.models import GATLayer

LARGE, D_IN, N_HEADS, D = (20_000, 200_000), 64, 8, 8
SMALL = (30, 100, 300, 1_000)
NOTE = """At 30 nodes a mask is faster than every form over edges, even one that makes the mask from the edges: every call
checks, gathers and scatters the edges, about twenty short operations, while the mask is made once. For such graphs
write `attend(gat_scores(z, a), z, mask)`, which is the form timed in the masked rows."""


def rows(rounds: int) -> Iterator[Row]:
    """Time one layer on a large random graph, also with sorted edges, then both forms against a mask on small graphs."""
    x, edges = _graph(*LARGE)
    sizes = f"{LARGE[0]} nodes, {LARGE[1]} edges, {N_HEADS} heads of {D}"
    forms = (("equation", attend_edges), ("sparse products", csr_attend_edges))
    for name, form in forms:
        ours = _layer(GraphAttention, form)
        yield compare("GAT", (name, _run(ours, x, edges)), ("pairs, scattered", _run(Pairs(), x, edges)), sizes, rounds)
    for mechanism, module, named in (("GAT", GraphAttention, "GATConv"), ("GATv2", DynamicGraphAttention, "GATv2Conv")):
        if peer := peer_from("torch_geometric.nn", named):
            by_query = edges[:, edges[0].argsort(stable=True)]
            for name, form in forms:
                for order, given in (("", edges), (", sorted", by_query)):
                    ours, theirs = (name, _run(_layer(module, form), x, given)), (f"PyG {named}", _pyg(peer[0], x, given))
                    yield compare(mechanism, ours, theirs, sizes + order, rounds)
    for n_nodes in SMALL:
        x, edges = _graph(n_nodes, 10 * n_nodes)
        sizes = f"{n_nodes} nodes, {10 * n_nodes} edges, {N_HEADS} heads of {D}"
        for name, form in forms:
            ours = _layer(GraphAttention, form)
            yield compare("GAT", (name, _run(ours, x, edges)), ("dense, masked", _masked(ours, x, edges)), sizes, rounds)


class Pairs(nn.Module):
    """GAT by its formula: aᵀ [z_i ‖ z_j] over the joined features of both ends of each edge, then scattered sums."""

    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Linear(D_IN, N_HEADS * D, bias=False)
        self.a = nn.Parameter(torch.randn(N_HEADS, 2 * D) / D)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Mix x (N, D_IN) over the edges (2, E)."""
        query, key = edges
        z = self.W(x).view(-1, N_HEADS, D)
        scores = F.leaky_relu((torch.cat([z[query], z[key]], dim=-1) * self.a).sum(-1), 0.2)
        exponentials = (scores - scores.max()).exp()
        place = query[:, None].expand_as(scores)
        sums = torch.zeros(len(x), N_HEADS).scatter_add(0, place, exponentials)
        messages = (exponentials / sums[query]).unsqueeze(-1) * z[key]
        return torch.zeros_like(z).index_add(0, query, messages).flatten(1)


def _graph(n_nodes: int, n_edges: int) -> tuple[Tensor, Tensor]:
    """Draw features that need a gradient, and unsorted random edges."""
    torch.manual_seed(0)
    return torch.randn(n_nodes, D_IN, requires_grad=True), torch.randint(n_nodes, (2, n_edges))


def _layer(mechanism: Callable[..., nn.Module], form: Callable[..., object]) -> nn.Module:
    return GATLayer(D_IN, D, N_HEADS, lambda n_heads, d: mechanism(n_heads, d, form))


def _run(layer: nn.Module, x: Tensor, edges: Tensor) -> Callable[[], Tensor]:
    def call() -> Tensor:
        out = layer(x, edges)
        return getattr(out, "context", out)

    return call


def _masked(layer: GATLayer, x: Tensor, edges: Tensor) -> Callable[[], Tensor]:
    """The same layer as masked attention of all nodes over all nodes; the mask is made beforehand."""
    mask = torch.zeros(len(x), len(x), dtype=torch.bool).index_put((edges[0], edges[1]), torch.tensor(True))

    def call() -> Tensor:
        z = split_heads(layer.W(x), N_HEADS)
        return attend(gat_scores(z, layer.mechanism.a), z, mask).context

    return call


def _pyg(convolution: type, x: Tensor, edges: Tensor) -> Callable[[], Tensor]:
    """The peer's own layer without self-loops and bias; its edge list holds sources in row 0, ours in row 1."""
    same = {} if convolution.__name__ == "GATConv" else {"share_weights": True}
    layer = convolution(D_IN, D, heads=N_HEADS, add_self_loops=False, bias=False, **same)
    turned = edges.flip(0)
    return lambda: layer(x, turned)
