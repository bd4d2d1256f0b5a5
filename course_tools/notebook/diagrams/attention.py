"""Diagrams of attention itself: scaled dot product, multi-head, masks."""

from course_tools.notebook.diagrams.drawing import Diagram


def scaled_dot_product() -> Diagram:
    """Scaled dot-product attention."""
    d = Diagram(
        "Scaled dot-product attention",
        "Queries (B, T_q, d_k) and keys (B, T_k, d_k) give scores (B, T_q, T_k), divided by the square root of d_k. A "
        "softmax over the keys turns each row into weights of sum 1, and the weights mix the values (B, T_k, d_v) into a "
        "context (B, T_q, d_v).",
    )
    f = "scaled_dot_product_attention"
    q = d.tensor("queries q", "B T_q d_k", 90, 40, f"{f}: q")
    k = d.tensor("keys k", "B T_k d_k", 230, 40, f"{f}: k")
    v = d.tensor("values v", "B T_k d_v", 400, 40, f"{f}: v")
    score = d.op("score\nq kᵀ / √d_k", 160, 110, "score", w=240)
    scores = d.tensor("scores", "B T_q T_k", 160, 180, f"{f}: scores")
    softmax = d.op("softmax over the keys\nrows sum to 1; masked keys get 0", 160, 250, "softmax", w=240)
    weights = d.tensor("weights", "B T_q T_k", 160, 320, "attend: weights")
    mix = d.op("mix\nΣ_j weight_j · value_j", 280, 390, "mix", w=280)
    context = d.tensor("context", "B T_q d_v", 280, 460, f"{f}: result.context")
    d.arrow(q, score)
    d.arrow(k, score)
    d.chain(score, scores, softmax, weights)
    d.arrow(weights, mix)
    d.arrow(v, mix)
    d.arrow(mix, context)
    return d


def multi_head() -> Diagram:
    """Multi-head attention."""
    d = Diagram(
        "Multi-head attention",
        "Three linear layers project queries, keys and values, and split the features into h heads. Each head attends by "
        "scaled dot products, with weights (B, h, T_q, T_k) of its own. The heads' contexts are concatenated, and W_o "
        "mixes them.",
    )
    f, inner = "MultiHead.forward", "MultiHead.attend_projected"
    inputs = [
        d.tensor("queries", "B T_q d_model", 85, 40, f"{f}: queries"),
        d.tensor("keys", "B T_k d_model", 240, 40, f"{f}: keys"),
        d.tensor("values", "B T_k d_model", 395, 40, f"{f}: values"),
    ]
    layers = [
        d.op(f"W_{name}\nsplit into h heads", x, 110, "learned", w=140) for name, x in (("q", 85), ("k", 240), ("v", 395))
    ]
    heads = [
        d.tensor("q", "B h T_q d_k", 85, 180, f"{inner}: q"),
        d.tensor("k", "B h T_k d_k", 240, 180, f"{inner}: projected.keys"),
        d.tensor("v", "B h T_k d_v", 395, 180, f"{inner}: projected.values"),
    ]
    d.frame("", (14, 466), (214, 386))
    d.note("h heads in parallel", 318, 228)
    attend = d.op("scaled dot-product attention\nsoftmax(q kᵀ / √d_k) v, in each head", 240, 272, "softmax", w=400)
    weights = d.tensor("weights", "B h T_q T_k", 110, 348, f"{inner}: attended.weights")
    context = d.tensor("contexts of the heads", "B h T_q d_v", 330, 348, f"{inner}: attended.context")
    join = d.op("concatenate the heads, then W_o", 330, 417, "learned", w=272)
    out = d.tensor("context", "B T_q d_model", 330, 476, f"{f}: result.context")
    for given, layer, head in zip(inputs, layers, heads, strict=True):
        d.chain(given, layer, head, attend)
    d.arrow(attend, weights)
    d.chain(attend, context, join, out)
    return d


def masks() -> Diagram:
    """Causal and padding masks."""
    d = Diagram(
        "Causal mask and padding mask",
        "Rows are queries, columns are keys; a filled square may be attended to. The causal mask is a lower triangle: no "
        "position attends to a later one. The padding mask excludes the positions after the end of a sequence. Both "
        "together allow what both allow.",
    )
    d.grid([(i + 1) * "#" + (4 - i) * "." for i in range(5)], 86, 84, 22, {"#": "softmax"})
    d.grid(["###.."], 240, 84, 22, {"#": "softmax"})
    d.grid([min(i + 1, 3) * "#" + (5 - min(i + 1, 3)) * "." for i in range(5)], 394, 84, 22, {"#": "softmax"})
    d.note("keys →, queries ↓", 86, 14)
    d.note("filled: may\nbe attended to", 240, 30)
    d.note("a length of 3, T = 5", 240, 120)
    d.circle("&", 163, 84)
    d.circle("=", 317, 84)
    d.tensor("causal mask", "T T", 86, 178, "causal_mask: result")
    d.tensor("padding mask", "B 1 T", 240, 178, "padding_mask: result")
    c = d.tensor("allowed", "B T T", 394, 178, "attend: mask")
    softmax = d.op("softmax over the allowed keys\nscores elsewhere become −∞, weights 0", 318, 262, "softmax", w=296)
    scores = d.tensor("scores", "B T T", 84, 262, "attend: scores")
    weights = d.tensor("weights", "B T T", 318, 340, "attend: weights")
    d.arrow(c, softmax)
    d.arrow(scores, softmax)
    d.arrow(softmax, weights)
    return d


def tiled() -> Diagram:
    """Attention in tiles: two tiles of keys, each with its own softmax, and their merge."""
    d = Diagram(
        "Attention in tiles",
        "The queries (B, T_q, d_k) attend to one tile of keys and values (B, T_k, d) after the other. Of each tile they keep a "
        "context (B, T_q, d_v), the largest score and the sum of the exponentials (B, T_q). A merge rescales both sums to the "
        "larger maximum and averages the contexts: the result is the softmax over the keys of both tiles.",
    )
    f = "partial_attention"
    q = d.tensor("queries q", "B T_q d_k", 240, 40, f"{f}: q")
    sides = []
    for name, x in (("1", 116), ("2", 364)):
        tile = d.tensor(f"keys, values of tile {name}", "B T_k d_k", x, 110, f"{f}: given.k", w=190)
        attend = d.op(f"attend to tile {name} alone", x, 186, "softmax", w=210)
        context = d.tensor(f"context c_{name}", "B T_q d_v", x - 56, 264, f"{f}: result.context")
        kept = d.tensor(f"m_{name} and ℓ_{name}", "B T_q", x + 56, 264, f"{f}: maximum", w=96)
        d.arrow(tile, attend)
        inner = "right" if name == "1" else "left"
        at = q.x + (8 if name == "2" else -8)
        d.path([(at, q.side("bottom")[1]), (at, attend.y), attend.side(inner)])
        d.arrow(attend, context)
        d.arrow(attend, kept)
        sides.append((context, kept))
    merge = d.op("merge: rescale to the larger maximum, then average", 240, 346, "mix", w=400)
    for parts in sides:
        for part in parts:
            d.arrow(part, merge)
    result = d.tensor("context of all keys", "B T_q d_v", 160, 424, "merge: result.context", w=180)
    kept = d.tensor("their m and ℓ", "B T_q", 340, 424, "merge: maximum", w=130)
    d.arrow(merge, result)
    d.arrow(merge, kept)
    return d
