"""Diagrams of attention on graphs: message passing, one head with dynamic scores, a layer of static ones."""

from course_tools.notebook.diagrams.drawing import Box, Diagram


def _neighbourhood(d: Diagram, x: float, y: float) -> None:
    """Draw a node and its neighbours around (x, y)."""
    places = {"j": (x - 78, y - 40), "k": (x + 78, y - 40), "l": (x + 78, y + 44), "o": (x - 78, y + 44)}
    middle = d.circle("i", x, y, "score")
    nodes: dict[str, Box] = {name: d.circle(name, *place, "tensor") for name, place in places.items()}
    for name in "jkl":
        dx, dy = nodes[name].x - middle.x, nodes[name].y - middle.y
        long = (dx * dx + dy * dy) ** 0.5
        ux, uy = dx / long, dy / long
        d.path([(nodes[name].x - 14 * ux, nodes[name].y - 14 * uy), (middle.x + 14 * ux, middle.y + 14 * uy)])
    d.path([(nodes["o"].x, nodes["o"].y - 13), (nodes["j"].x, nodes["j"].y + 13)])


def message_passing() -> Diagram:
    """Message passing on a graph."""
    d = Diagram(
        "Message passing",
        "Node i collects the features of the nodes that it has an edge to, here j, k and l, each times the weight of the "
        "edge, and adds them up. Node i has no edge to o, so o contributes nothing. The arrows show the direction of the "
        "messages, from j to i. The mask of attention is the list of edges.",
    )
    _neighbourhood(d, 104, 76)
    x = d.tensor("features x", "N d", 302, 50, "propagate: x")
    edges = d.tensor("edges (i, j)", "2 E", 416, 50, "propagate: edges")
    gather = d.op("gather x_j along the edges", 330, 124, w=230)
    weights = d.tensor("weights w_ij", "E", 100, 200, "propagate: weights")
    messages = d.op("message: w_ij · x_j", 330, 200, "score", w=190)
    message = d.tensor("messages", "E d", 330, 270, "propagate: messages")
    add = d.op("add up by node: Σ_j w_ij x_j", 330, 342, "mix", w=250)
    out = d.tensor("new features", "N d", 330, 412, "propagate: result")
    d.arrow(x, gather)
    d.arrow(edges, gather)
    d.chain(gather, messages, message, add, out)
    d.arrow(weights, messages)
    d.note("fixed by the degrees: GCN\nfrom a softmax: GAT", 104, 246)
    return d


def room_attention() -> Diagram:
    """One head of attention over edges with dynamic scores, and a read-out."""
    d = Diagram(
        "Attention over the edges of a graph",
        "Linear layers make a query, a key and a value of each node. Each edge gets a score from the query of the node that "
        "receives and the key of the node that sends. A softmax over the edges of a node turns its scores into weights, by "
        "which it mixes the values of those that send to it. A linear layer reads one number off the result.",
    )
    _neighbourhood(d, 376, 72)
    x = d.tensor("features of N nodes", "N d_in", 120, 40, "RoomAttention.attended: x")
    W = d.op("W_q, W_k, W_v", 120, 108, "learned", w=150)
    z = d.tensor("queries q, keys k", "N d", 120, 200, "dynamic_edge_scores: q")
    v = d.tensor("values v", "N d", 420, 200, "attend_edges: values")
    edges = d.tensor("edges", "2 E", 290, 200, "attend_edges: edges")
    score = d.op("score of each edge\na · LeakyReLU(q_i + k_j)", 120, 276, "score", w=210)
    scores = d.tensor("scores", "E", 120, 352, "attend_edges: scores")
    softmax = d.op("softmax over the edges of node i", 160, 422, "softmax", w=280)
    weights = d.tensor("weights α", "E", 160, 490, "attend_edges: result.weights")
    mix = d.op("mix the values: Σ_j α_ij v_j", 180, 560, "mix", w=270)
    context = d.tensor("contexts", "N d", 180, 626, "attend_edges: result.context")
    out = d.op("ELU, read-out: a number for each node", 180, 696, "learned", w=320)
    d.chain(x, W, z, score, scores, softmax, weights, mix, context, out)
    d.arrow(W, v, out="bottom", into="top", at=154)
    d.arrow(edges, score, out="bottom", into="right")
    d.arrow(v, mix, out="bottom", into="right")
    return d


def gat() -> Diagram:
    """Graph attention layer."""
    d = Diagram(
        "A graph attention layer",
        "A linear layer projects the nodes to h heads. Each edge gets a score from its two ends, a softmax over the edges"
        " of a node turns the scores into weights, and each node adds up its neighbours by these weights. The heads are "
        "concatenated.",
    )
    _neighbourhood(d, 380, 84)
    x = d.tensor("features of N nodes", "N d_in", 150, 40, "GATLayer.forward: x")
    W = d.op("W, split into h heads", 150, 108, "learned", w=200)
    z = d.tensor("z", "h N d", 150, 176, "GraphAttention.forward: z")
    score = d.op("score of each edge\nLeakyReLU(a_1 · z_i + a_2 · z_j)", 240, 254, "score", w=290)
    scores = d.tensor("scores", "h E", 240, 332, "attend_edges: scores")
    softmax = d.op("softmax over the edges of node i", 240, 404, "softmax", w=290)
    weights = d.tensor("weights α", "h E", 240, 474, "attend_edges: result.weights")
    mix = d.op("mix the neighbours: Σ_j α_ij z_j", 220, 546, "mix", w=290)
    heads = d.tensor("contexts", "h N d", 220, 614, "GATLayer.forward: context")
    merge = d.op("concatenate the heads", 220, 684, w=210)
    out = d.tensor("output", "N h·d", 220, 752, "GATLayer.forward: result.context")
    edges = d.tensor("edges", "2 E", 400, 182, "GATLayer.forward: edges")
    d.chain(x, W, z)
    d.arrow(z, score)
    d.arrow(edges, score, out="bottom", into="top", at=218)
    d.chain(score, scores, softmax, weights, mix, heads, merge, out)
    d.arrow(z, mix, out="left", into="left", at=36)
    return d
