"""Diagrams of mechanisms and models for images: non-local, co-occurrent, local window, ViT, DeiT, DETR, MLP-Mixer."""

from course_tools.notebook.diagrams.drawing import Diagram


def non_local() -> Diagram:
    """Non-local block."""
    d = Diagram(
        "A non-local block",
        "Every position of a feature map attends to every other: three linear maps give queries θ, keys φ and values g, a"
        " softmax over all N positions gives the weights, and the mixed values, projected back to C features, are added "
        "to the input.",
    )
    f = "non_local_embedded_gaussian"
    x = d.tensor("feature map x", "B C H W", 240, 40, "non_local_block: x")
    flat = d.tensor("N = H·W positions", "B H·W C", 240, 112, "non_local_block: tokens")
    names = (("θ queries", "B N d_k", "theta", 100), ("φ keys", "B N d_k", "phi", 240), ("g values", "B N d", "g", 380))
    layers = [d.op(f"W_{letter}", x_, 186, "learned", w=70) for letter, x_ in (("θ", 100), ("φ", 240), ("g", 380))]
    mapped = [d.tensor(name, axes, x_, 254, f"{f}: {var}") for name, axes, var, x_ in names]
    score = d.op("softmax(θ φᵀ) over the positions", 160, 330, "softmax", w=262)
    weights = d.tensor("weights", "B N N", 160, 400, "attend: weights")
    mix = d.op("mix: y_i = Σ_j weight_ij g_j", 280, 472, "mix", w=264)
    y = d.tensor("y", "B N d", 280, 540, "non_local_block: y")
    back = d.op("W_z", 280, 608, "learned", w=80)
    add = d.circle("+", 280, 664, "mix")
    z = d.tensor("z = W_z y + x", "B C H W", 280, 722, "non_local_block: result")
    d.chain(x, flat)
    for layer, tensor in zip(layers, mapped, strict=True):
        d.arrow(flat, layer, out="bottom", into="top", at=150)
        d.arrow(layer, tensor)
    d.arrow(mapped[0], score)
    d.arrow(mapped[1], score)
    d.arrow(mapped[2], mix)
    d.chain(score, weights)
    d.arrow(weights, mix)
    d.chain(mix, y, back, add, z)
    d.arrow(x, add, out="left", into="left", at=16)
    d.note("residual connection", 96, 684)
    return d


def co_occurrent() -> Diagram:
    """Co-occurrent features, attention by a mixture of softmaxes."""
    d = Diagram(
        "Co-occurrent features",
        "One linear map embeds all N positions; the embedding is cut into n_mix parts, and each part gives a softmax over the"
        " positions. Mixture weights, computed from the mean embedding of the image, add these softmaxes to one matrix of"
        " weights, which mixes the values.",
    )
    f = "co_occurrent_features"
    x = d.tensor("features x", "B N C", 240, 40, f"{f}: x")
    embed, to_values = d.op("W_k", 160, 112, "learned", w=80), d.op("W_v", 414, 112, "learned", w=80)
    z = d.tensor("embedding z", "B N d_k", 160, 180, f"{f}: z")
    parts = d.tensor("n_mix parts of z", "B n_mix N d_k/n_mix", 122, 256, f"{f}: parts")
    mean = d.op("mean over N\nW_π, softmax", 292, 256, "learned", w=130)
    softmax = d.op("softmax in each part\nz_i · z_j / √d_k, over j", 122, 332, "softmax", w=206)
    softmaxes = d.tensor("n_mix softmaxes", "B n_mix N N", 122, 406, f"{f}: softmaxes")
    shares = d.tensor("mixture weights π", "B n_mix", 310, 406, f"{f}: shares")
    mixture = d.op("mixture: Σ_m π_m · softmax_m", 200, 480, "mix", w=262)
    weights = d.tensor("weights", "B N N", 200, 546, f"{f}: weights")
    values = d.tensor("values", "B N d_v", 414, 546, f"{f}: x @ W_v.mT")
    mix = d.op("mix: Σ_j weight_ij · value_j", 260, 620, "mix", w=262)
    context = d.tensor("context", "B N d_v", 260, 688, f"{f}: result.context")
    d.arrow(x, embed, out="bottom", into="top", at=78)
    d.arrow(x, to_values, out="bottom", into="top", at=78)
    d.chain(embed, z)
    d.arrow(z, parts, out="bottom", into="top", at=216)
    d.arrow(z, mean, out="bottom", into="top", at=216)
    d.chain(parts, softmax, softmaxes)
    d.arrow(mean, shares)
    d.arrow(softmaxes, mixture)
    d.arrow(shares, mixture)
    d.chain(mixture, weights)
    d.arrow(to_values, values)
    d.arrow(weights, mix)
    d.arrow(values, mix, out="bottom", into="top", at=586)
    d.chain(mix, context)
    return d


def local_window() -> Diagram:
    """Local attention in a window, with relative positions."""
    d = Diagram(
        "Local attention",
        "Each pixel attends only to the s × s window around it. The score of a neighbour adds what its key says and where"
        " it lies relative to the pixel. A softmax over the s² neighbours, then a weighted sum: the cost is linear in the"
        " number of pixels.",
    )
    d.grid(["........", ".###....", ".#Q#....", ".###....", "........"], 96, 70, 20, {"#": "softmax", "Q": "score"})
    d.note("a pixel and its window", 96, 136)
    q = d.tensor("queries", "B h H W d", 250, 40, "local_attention: q")
    k = d.tensor("keys", "B h H W d", 390, 40, "local_attention: k")
    windows = d.op("gather the windows", 386, 112, w=164)
    near = d.tensor("keys of the windows", "B h H W s² d", 380, 180, "local_windows: result", w=176)
    content = d.op("content: q · k", 300, 256, "score", w=330)
    offset = d.op("position: q · r_ab\nlearned for each offset", 110, 336, "learned", w=190)
    add = d.circle("+", 300, 336, "score")
    scores = d.tensor("scores", "B h H W s²", 300, 404, "local_attention: scores")
    softmax = d.op("softmax over the s² neighbours\nnone outside the image", 300, 482, "softmax", w=270)
    mix = d.op("mix: Σ_ab weight_ab · value_ab", 300, 562, "mix", w=280)
    context = d.tensor("context", "B h H W d", 300, 632, "local_attention: result.context")
    d.chain(k, windows, near)
    d.arrow(near, content)
    d.arrow(q, content)
    d.chain(content, add, scores, softmax, mix, context)
    d.arrow(offset, add)
    d.path([(220, 66), (220, 200), (110, 200), (110, 310)])
    values = d.tensor("values", "B h H W d", 78, 482, "local_attention: v")
    near_values = d.op("windows", 78, 562, w=110)
    d.chain(values, near_values, mix)
    return d


def vit() -> Diagram:
    """Vision Transformer."""
    d = Diagram(
        "The Vision Transformer",
        "An image is cut into N patches of P × P pixels; a linear layer makes a token of each. A learned class token "
        "comes first, learned positions are added, and a Transformer encoder mixes all tokens. The state of the class "
        "token gives the logits.",
    )
    d.grid(["####", "####", "####", "####"], 70, 66, 24, {"#": "tensor"})
    images = d.tensor("images", "B C H W", 210, 66, "PatchEncoder.forward: images")
    d.path([(118, 66), images.side("left")])
    patches = d.tensor("patches, flattened", "B N C·P²", 210, 140, "PatchEncoder.forward: patches")
    project = d.op("linear projection E", 210, 212, "learned", w=190)
    tokens = d.tensor("class token, then N patches", "B N+1 d_model", 210, 284, "embed_patches: tokens")
    cls = d.op("learned\nclass token", 410, 218, "learned", w=116)
    positions = d.op("learned\npositions", 410, 356, "learned", w=116)
    add = d.circle("+", 210, 356, "plain")
    encoder = d.op("encoder block × L\nself-attention among all N + 1 tokens", 210, 428, "softmax", w=300)
    states = d.tensor("states", "B N+1 d_model", 210, 506, "PatchEncoder.forward: result")
    head = d.op("the first state, linear head", 210, 578, "learned", w=230)
    logits = d.tensor("logits", "B n_classes", 210, 646, "ViT.forward: result")
    d.chain(images, patches, project, tokens, add, encoder, states, head, logits)
    d.arrow(cls, tokens, out="bottom", into="right")
    d.arrow(positions, add)
    d.note("N = H·W / P²", 70, 136)
    return d


def deit() -> Diagram:
    """DeiT, distillation by a token."""
    d = Diagram(
        "DeiT: learning from labels and from a teacher",
        "A Vision Transformer with two learned tokens before the patches. The class token's head learns the true label, "
        "the distillation token's head learns the class that a trained teacher predicts. At test time both predictions "
        "are averaged.",
    )
    images = d.tensor("images", "B C H W", 240, 40, "DeiT.forward: images")
    encoder = d.op("patches, two learned tokens, positions\nencoder block × L", 180, 122, "softmax", w=320)
    states = d.tensor("states", "B N+2 d_model", 180, 202, "DeiT.forward: states", w=240)
    teacher = d.op("teacher\na trained CNN", 414, 202, "plain", w=110)
    head, head_2 = d.op("class head", 100, 290, "learned", w=130), d.op("distillation head", 268, 290, "learned", w=164)
    a = d.tensor("by class", "B n_classes", 100, 360, "DeiT.forward: result.by_class")
    b = d.tensor("by teacher", "B n_classes", 268, 360, "DeiT.forward: result.by_teacher")
    guess = d.op("its class", 414, 360, "plain", w=90)
    loss, loss_2 = (
        d.op("cross-entropy\nwith the label", 100, 440, "loss", w=140),
        d.op("cross-entropy\nwith the teacher", 290, 440, "loss", w=150),
    )
    total = d.op("loss: the mean of both", 195, 516, "loss", w=220)
    d.arrow(images, encoder)
    d.arrow(images, teacher, out="right", into="top")
    d.chain(encoder, states)
    d.arrow(states, head, label="state 0")
    d.arrow(states, head_2, label="state 1")
    d.chain(head, a, loss, total)
    d.chain(head_2, b, loss_2)
    d.arrow(loss_2, total)
    d.chain(teacher, guess)
    d.arrow(guess, loss_2, out="bottom", into="right")
    return d


def detr() -> Diagram:
    """DETR."""
    d = Diagram(
        "DETR",
        "A convolutional network turns the image into a feature map; its positions are the tokens of a Transformer "
        "encoder. The decoder starts from N learned object queries; each attends to the other queries and to the image,"
        " and predicts one class, or no object, and one box.",
    )
    images = d.tensor("images", "B C H W", 118, 40, "DETR.forward: images")
    cnn = d.op("CNN, 1 × 1 projection", 118, 108, "learned", w=196)
    features = d.tensor("features", "B d_model h w", 118, 176, "DETR.decode: features")
    d.frame("encoder", (14, 222), (218, 318))
    d.note("L blocks", 128, 231, "start")
    encode = d.op("self-attention, FFN\n+ positions at q and k", 118, 276, "softmax", w=186)
    memory = d.tensor("memory", "B h·w d_model", 118, 362, "DETR.decode: memory")
    queries = d.tensor("object queries", "N d_model", 358, 176, "DETR.decode: self.queries")
    d.frame("decoder", (250, 466), (218, 394))
    d.note("L blocks", 368, 231, "start")
    own = d.op("self-attention\namong the N queries", 358, 276, "softmax", w=196)
    cross = d.op("cross-attention, FFN\nto the image", 358, 352, "softmax", w=196)
    states = d.tensor("states of every layer", "n_layers B N d_model", 358, 440, "DETR.decode: states")
    classes, boxes = d.op("linear", 150, 514, "learned", w=110), d.op("MLP, sigmoid", 396, 514, "learned", w=130)
    a = d.tensor("classes, or none", "n_layers B N n_classes+1", 150, 584, "DETR.decode: result.logits")
    b = d.tensor("boxes", "n_layers B N 4", 396, 584, "DETR.decode: result.boxes")
    d.chain(images, cnn, features, encode, memory)
    d.chain(queries, own, cross, states)
    d.arrow(memory, cross, out="right", into="left", at=236)
    d.arrow(states, classes, out="bottom", into="top")
    d.arrow(states, boxes)
    d.arrow(classes, a)
    d.arrow(boxes, b)
    return d


def detr_matching() -> Diagram:
    """Matching of queries and objects, and the set-prediction loss."""
    d = Diagram(
        "Matching queries with objects",
        "Every query is compared with every object: the cost is small where class and box agree. The Hungarian method "
        "picks one query for each object so that the total cost is smallest. Matched queries learn class and box, the "
        "others learn no object.",
    )
    logits = d.tensor("classes", "B N n_classes+1", 92, 40, "matching_cost: logits")
    boxes = d.tensor("boxes", "B N 4", 216, 40, "matching_cost: boxes")
    true = d.tensor("true class", "B M", 320, 40, "matching_cost: classes")
    targets = d.tensor("true box", "B M 4", 420, 40, "matching_cost: targets")
    cost = d.op("cost = −p(class) + 5 · L1 − 2 · GIoU", 250, 122, "score", w=436)
    table = d.tensor("cost of every pair", "B N M", 150, 194, "matching_cost: result")
    match = d.op("Hungarian method\nminimise the total cost", 150, 272, "plain", w=220)
    chosen = d.tensor("the query of each object", "B M", 150, 350, "match: result")
    loss = d.op("set-prediction loss\nmatched: class, L1, GIoU; others: no object", 220, 430, "loss", w=330)
    for tensor in (logits, boxes, true, targets):
        d.arrow(tensor, cost)
    d.chain(cost, table, match, chosen, loss)
    d.grid(["..#", "...", "#..", "...", ".#."], 380, 262, 28, {"#": "mix"})
    d.note("M = 3 objects", 380, 176)
    d.note("N = 5 queries: one per\nobject, two stay free", 380, 350)
    return d


def mixer() -> Diagram:
    """MLP-Mixer block."""
    d = Diagram(
        "A block of the MLP-Mixer",
        "The first network runs along the N patches, the same for every channel; the second along the channels, the same "
        "for every patch. Both read a normalised copy, and their outputs are added to the stream.",
    )
    d.tensor("N patches", "B N d", 90, 40, "mixer_block: given.x")
    norm = d.op("layer norm", 220, 102, "learned", w=110)
    d.op("layer norm", 220, 390, "learned", w=110)
    turn = d.op("transpose", 390, 102, w=106)
    token = d.op("token mixing: MLP over N\nW_2 GELU(W_1 · ), shared by channels", 330, 182, "mix", w=264)
    turn_2 = d.op("transpose", 390, 260, w=106)
    mixed = d.tensor("mixed", "B N d", 220, 260, "token_mixing: result")
    d.circle("+", 70, 316, "mix")
    d.circle("+", 70, 536, "mix")
    d.op("channel mixing: MLP over d\nW_4 GELU(W_3 · ), shared by patches", 330, 464, "learned", w=264)
    d.tensor("output", "B N d", 90, 600, "mixer_block: result")
    d.path([(70, 66), (70, 303)])
    d.path([(70, 102), (165, 102)])
    d.chain(norm, turn)
    d.arrow(turn, token)
    d.arrow(token, turn_2)
    d.chain(turn_2, mixed)
    d.path([(220, 286), (220, 316), (83, 316)])
    d.path([(70, 329), (70, 523)])
    d.path([(70, 390), (165, 390)])
    d.path([(275, 390), (330, 390), (330, 438)])
    d.path([(330, 490), (330, 536), (83, 536)])
    d.path([(70, 549), (70, 574)])
    d.grid(["#...", "#...", "#...", "#..."], 390, 330, 13, {"#": "mix"})
    d.note("a channel at a time:\nall N patches", 358, 322, "end")
    d.grid(["####", "....", "....", "...."], 390, 576, 13, {"#": "learned"})
    d.note("a patch at a time:\nall d channels", 358, 568, "end")
    return d
