"""Diagrams of Transformers: encoder-decoder, Universal Transformer, GPT, induction heads and the cache, ELMo, BERT."""

from course_tools.notebook.diagrams.drawing import Diagram


def transformer() -> Diagram:
    """Transformer, encoder and decoder."""
    d = Diagram(
        "The Transformer",
        "The encoder (left) turns the source (B, T_k) into a memory (B, T_k, d_model) by blocks of self-attention and a "
        "feed-forward network. The decoder (right) attends to its own past, then to the memory, and gives logits for the "
        "next token at every position in parallel. Each sublayer is added to its input and normalised.",
    )
    source = d.tensor("source", "B T_k", 118, 40, "Transformer.encode: source")
    target = d.tensor("target so far", "B T", 358, 40, "Transformer.decode: target")
    embed = d.op("embed + positions", 118, 108, "learned", w=180)
    embed_2 = d.op("embed + positions", 358, 108, "learned", w=180)
    x = d.tensor("x", "B T_k d_model", 118, 172, "Stack.forward: given.x")
    y = d.tensor("y", "B T d_model", 358, 172, "DecoderBlock.forward: given.x", w=130)
    d.frame("encoder", (14, 222), (212, 388))
    d.frame("decoder", (250, 466), (212, 464))
    d.note("N blocks", 128, 225, "start")
    d.note("N blocks", 368, 225, "start")
    attend = d.op("self-attention\nadd & norm", 118, 268, "softmax", w=184)
    network = d.op("feed-forward\nadd & norm", 118, 346, "learned", w=184)
    own = d.op("causal self-attention\nadd & norm", 358, 268, "softmax", w=196)
    cross = d.op("cross-attention\nadd & norm", 358, 346, "softmax", w=196)
    network_2 = d.op("feed-forward\nadd & norm", 358, 424, "learned", w=196)
    memory = d.tensor("memory", "B T_k d_model", 118, 432, "Transformer.decode: memory")
    states = d.tensor("states", "B T d_model", 358, 504, "Transformer.decode: states")
    out = d.op("output matrix = embedding", 340, 574, "learned")
    logits = d.tensor("logits of the next token", "B T n_target", 340, 642, "Transformer.decode: result")
    d.chain(source, embed, x, attend, network, memory)
    d.chain(target, embed_2, y, own, cross, network_2, states, out, logits)
    d.arrow(memory, cross, out="right", into="left", at=236)
    d.note("keys and values of\nthe cross-attention", 118, 480)
    return d


def residual_connections() -> Diagram:
    """Post-norm and pre-norm residual connections."""
    d = Diagram(
        "Post-norm and pre-norm",
        "Two encoder blocks, each with two residual connections. Post-norm (left): each sublayer reads the residual stream, its"
        " output is added to the stream, and the sum is normalised, so every path from x to y passes both norms. Pre-norm"
        " (right): each sublayer reads a normalised copy, and its output is added to the stream, so one path from x to y is the"
        " identity.",
    )
    x = d.tensor("x", "B T d_model", 118, 40, "encoder_block: given.x")
    d.frame("post-norm", (14, 230), (80, 520))
    attend = d.op("self-attention", 118, 148, "softmax", w=140)
    add = d.circle("+", 118, 220)
    norm = d.op("layer norm", 118, 282, "learned", w=140)
    network = d.op("feed-forward", 118, 362, "learned", w=140)
    add_2 = d.circle("+", 118, 424)
    norm_2 = d.op("layer norm", 118, 482, "learned", w=140)
    y = d.tensor("y", "B T d_model", 118, 562, "encoder_block: result")
    d.chain(x, attend, add, norm, network, add_2, norm_2, y)
    d.arrow(x, add, out="right", into="right", at=212)
    d.arrow(norm, add_2, out="right", into="right", at=212)
    x = d.tensor("x", "B T d_model", 358, 40, "pre_norm_encoder_block: given.x")
    d.frame("pre-norm", (254, 470), (80, 520))
    norm = d.op("layer norm", 358, 132, "learned", w=140)
    n = d.tensor("n", "B T d_model", 358, 192, "pre_norm_encoder_block: normalised")
    attend = d.op("self-attention", 358, 252, "softmax", w=140)
    add = d.circle("+", 358, 312)
    norm_2 = d.op("layer norm", 358, 370, "learned", w=140)
    network = d.op("feed-forward", 358, 432, "learned", w=140)
    add_2 = d.circle("+", 358, 494)
    y = d.tensor("y", "B T d_model", 358, 562, "pre_norm_encoder_block: result")
    d.chain(x, norm, n, attend, add, norm_2, network, add_2, y)
    d.arrow(x, add, out="right", into="right", at=452)
    d.arrow(add, add_2, out="left", into="left", at=268)
    return d


def universal_transformer() -> Diagram:
    """Universal Transformer with halting."""
    d = Diagram(
        "The Universal Transformer with adaptive halting",
        "One block, the same weights at every step, is applied again and again. After each step a halting unit gives each"
        " position a halting value h; once its h sum to 1 − ε, the position halts and keeps its state. The output mixes the"
        " states of all steps, each with its weight p.",
    )
    x = d.tensor("x_0", "B T d_model", 270, 40, "AdaptiveSteps.forward: given.x")
    d.frame("step t = 1, 2, … n", (14, 466), (76, 394))
    add = d.circle("+", 270, 136)
    position = d.tensor("position, step P_t", "T d_model", 112, 136, "step_encoding: result")
    block = d.op("the same block at every step\nself-attention, feed-forward", 270, 206, "learned", w=270)
    y = d.tensor("y", "B T d_model", 270, 282, "AdaptiveSteps.forward: y")
    choose = d.op("halted positions keep x, others take y", 240, 356, w=340)
    state = d.tensor("state x_t", "B T d_model", 310, 440, "adaptive_step: result.states")
    d.chain(x, add, block, y, choose)
    d.arrow(position, add)
    d.arrow(choose, state)
    d.arrow(state, add, out="right", into="right", at=454)
    halt = d.op("halting unit\nh_t = σ(w · x_t + b)", 112, 508, "learned")
    h = d.tensor("h of all steps", "B T n_steps", 112, 576, "mix_states: h")
    shares = d.op("weight of step t\nh_t until Σ h ≥ 1 − ε, then the rest", 150, 654, "softmax", w=264)
    p = d.tensor("p, sums to 1", "B T n_steps", 150, 732, "mix_states: weights")
    states = d.tensor("states of all steps", "B T n_steps d_model", 370, 576, "mix_states: states", w=190)
    mix = d.op("mix: Σ_t p_t · x_t", 370, 732, "mix", w=170)
    out = d.tensor("output", "B T d_model", 370, 802, "AdaptiveSteps.forward: result.states")
    d.arrow(state, halt, out="left", into="top")
    d.chain(halt, h, shares, p, mix, out)
    d.arrow(state, states)
    d.arrow(states, mix)
    return d


def gpt() -> Diagram:
    """GPT, a decoder-only Transformer."""
    d = Diagram(
        "GPT",
        "Tokens (B, T) are embedded with learned positions. Each block adds to the residual stream twice: causal self-"
        "attention of the normalised stream, then a feed-forward network. A last norm and the embedding matrix give "
        "logits for the next token at every position.",
    )
    tokens = d.tensor("tokens", "B T", 110, 40, "GPT.states: tokens")
    embed = d.op("token + position embedding", 128, 108, "learned")
    x = d.tensor("residual stream x", "B T d_model", 110, 176, "Stack.forward: given.x")
    d.frame("block × N", (14, 466), (214, 470))
    d.op("norm, causal self-attention\nT × T weights per head", 318, 268, "softmax", w=256)
    d.circle("+", 90, 318, "mix")
    d.op("norm, feed-forward\nd_model → d_ff → d_model", 318, 384, "learned", w=256)
    d.circle("+", 90, 434, "mix")
    states = d.tensor("states", "B T d_model", 110, 512, "GPT.states: result")
    out = d.op("output matrix Eᵀ = embedding", 140, 582, "learned")
    logits = d.tensor("logits of token t + 1", "B T n_tokens", 140, 650, "GPT.forward: result")
    d.chain(tokens, embed, x)
    d.path([(90, 202), (90, 305)])
    d.path([(90, 268), (190, 268)])
    d.path([(318, 294), (318, 318), (103, 318)])
    d.path([(90, 331), (90, 421)])
    d.path([(90, 384), (190, 384)])
    d.path([(318, 410), (318, 434), (103, 434)])
    d.path([(90, 447), (90, 486)])
    d.note("norm", 58, 478)
    d.chain(states, out, logits)
    d.grid([(i + 1) * "#" + (5 - i) * "." for i in range(6)], 376, 560, 18, {"#": "softmax"})
    d.note("causal mask: position t\nattends to 1 … t", 376, 636)
    return d


def llama() -> Diagram:
    """Llama, the decoder of today."""
    d = Diagram(
        "Llama",
        "Tokens (B, T) are embedded, without positions. Each block adds to the residual stream twice: after an RMSNorm, h "
        "heads of queries attend to g heads of keys and values, queries and keys rotated to their positions; after another "
        "RMSNorm, a gated network. A last RMSNorm and an output matrix give logits for the next token at every position.",
    )
    tokens = d.tensor("tokens", "B T", 90, 40, "Llama.forward: tokens")
    embed = d.op("token embedding", 90, 108, "learned", w=144)
    x = d.tensor("residual stream x", "B T d_model", 90, 176, "Stack.forward: given.x")
    d.frame("block × N", (14, 466), (214, 572))
    d.op("RMSNorm; W_q, W_k, W_v", 318, 268, "learned", w=256)
    q = d.tensor("queries", "B h T d_k", 246, 330, "RotaryAttention.forward: q")
    k = d.tensor("keys and values", "B g T d_k", 384, 330, "RotaryAttention.forward: k")
    d.op("rotate q, k; attend in g groups; W_o\ncausal, T × T weights per head", 318, 400, "softmax", w=256)
    d.circle("+", 104, 444, "mix")
    d.op("RMSNorm, SwiGLU\n(swish(x W_gate) ⊙ x W_up) W_down", 318, 500, "learned", w=270)
    d.circle("+", 104, 544, "mix")
    states = d.tensor("states", "B T d_model", 90, 618, "Stack.forward: result")
    out = d.op("output matrix", 240, 618, "learned", w=120)
    logits = d.tensor("logits of token t + 1", "B T n_tokens", 390, 618, "Llama.forward: result", w=150)
    d.chain(tokens, embed, x)
    d.path([(104, 202), (104, 431)])
    d.path([(104, 268), (190, 268)])
    for tensor in (q, k):
        d.path([(tensor.x, 285), (tensor.x, 304)])
        d.path([(tensor.x, 356), (tensor.x, 374)])
    d.path([(318, 426), (318, 444), (117, 444)])
    d.path([(104, 457), (104, 531)])
    d.path([(104, 500), (183, 500)])
    d.path([(318, 526), (318, 544), (117, 544)])
    d.path([(104, 557), (104, 592)])
    d.note("RMSNorm", 146, 583)
    d.chain(states, out, logits)
    return d


def induction_heads() -> Diagram:
    """Induction heads: a previous-token head in layer 1, a match-and-copy head in layer 2."""
    d = Diagram(
        "Induction heads",
        "The text A D B A. In layer 1, a head attends to the preceding token, so that each state also contains the token "
        "before it: D, after A. In layer 2, the query of the last A matches the key of that state, and its value D is copied "
        "to the last position: D gets the largest logit.",
    )
    columns = (60, 180, 300, 420)
    text = [d.op(token, x, 66, "learned", w=64) for token, x in zip("ADBA", columns, strict=True)]
    d.frame("layer 1: each position attends to the preceding token", (14, 466), (12, 216))
    states = [
        d.op(f"{token}\n{before}", x, 178, "softmax", w=84)
        for token, before, x in zip("ADBA", ("first", "after A", "after D", "after B"), columns, strict=True)
    ]
    for token, following in zip(text, states[1:], strict=False):
        d.path([(token.x + 14, 83), (following.x - 24, 152)])
    for token, state in zip(text, states, strict=True):
        d.arrow(token, state)
    d.frame("layer 2", (14, 466), (234, 374))
    d.note("the query matches this key", 300, 254)
    d.note("its value is\ncopied to the\nlast position", 68, 322)
    key = d.op("key: after A", 180, 290, "score", w=116)
    query = d.op("query: after A?", 398, 290, "score", w=128)
    value = d.op("value: D", 180, 344, "mix", w=116)
    d.path([(180, 204), (180, 273)])
    d.path([(420, 204), (420, 273)])
    d.arrow(query, key)
    d.arrow(key, value)
    weights = d.tensor("weights of a layer", "B h T T", 98, 432, "MultiHead.attend_projected: result.weights", w=164)
    logits = d.tensor("logits, D is the largest", "B T n_tokens", 360, 432, "GPT.forward: result", w=200)
    d.arrow(value, logits, out="right", into="top")
    d.note("a row for each query", weights.x, 476)
    d.note("last position: the next token", logits.x, 476)
    return d


def key_value_cache() -> Diagram:
    """Key-value cache: one decoding step."""
    d = Diagram(
        "One decoding step with a key-value cache",
        "Only the new token is projected. Its key and value are appended to those of the earlier tokens, its query "
        "attends to all of them with a single row of scores, and the longer cache is kept for the next step.",
    )
    f = "cached_step"
    x = d.tensor("new token x_t", "B d_model", 320, 40, f"{f}: x")
    W_kv, W_q = d.op("W_k, W_v", 256, 112, "learned"), d.op("W_q", 412, 112, "learned")
    past = d.tensor("cached K, V", "B h T d_k", 88, 184, f"{f}: given.keys")
    new = d.tensor("k, v", "B h 1 d_k", 256, 184, f"{f}: k")
    q = d.tensor("q", "B h 1 d_k", 412, 184, f"{f}: q")
    append = d.op("append", 172, 256, w=250)
    all_ = d.tensor("K, V", "B h T+1 d_k", 172, 324, f"{f}: keys")
    attend = d.op("softmax(q Kᵀ / √d_k) V\none row of T + 1 scores per head", 270, 404, "softmax", w=340)
    W_o = d.op("concatenate the heads, W_o", 270, 480, "learned")
    out = d.tensor("output", "B d_model", 270, 548, f"{f}: result.output")
    d.arrow(x, W_kv)
    d.arrow(x, W_q, out="bottom", into="top", at=80)
    d.chain(W_kv, new, append, all_, attend, W_o, out)
    d.arrow(past, append)
    d.arrow(q, attend)
    d.chain(W_q, q)
    d.arrow(all_, past, out="left", into="left", at=18)
    d.note("kept for the\nnext token", 62, 344)
    return d


def elmo() -> Diagram:
    """ELMo: two language models and a weighted sum of their layers."""
    d = Diagram(
        "ELMo",
        "Two stacks of LSTMs read the sentence, one from left to right, one from right to left; each predicts the next "
        "token in its direction. A task takes a weighted sum of all layers, with softmax weights that it learns.",
    )
    tokens = d.tensor("tokens", "B T", 240, 40, "ELMo._directions: tokens")
    embed = d.op("embedding", 240, 108, "learned")
    x = d.tensor("x", "B T d_model", 240, 172, "ELMo._directions: x")
    d.chain(tokens, embed, x)
    outs = []
    for name, centre in (("left to right →", 120), ("← right to left", 360)):
        d.frame(name, (centre - 106, centre + 106), (222, 376))
        first = d.op("LSTM, layer 1", centre, 270, "learned", w=150)
        last = d.op("LSTM, layer L, + input", centre, 340, "learned", w=200)
        d.arrow(x, first, out="bottom", into="top", at=212)
        d.chain(first, last)
        outs.append(last)
    layers = d.tensor("embedding and all layers, both directions", "B T L+1 2·d_model", 240, 434, "ELMo.forward: result")
    mix = d.op("weighted sum of the layers\nγ Σ_j softmax(w)_j · layer_j", 240, 512, "mix", w=260)
    out = d.tensor("contextual embedding", "B T 2·d_model", 240, 590, "scalar_mix: result")
    for last in outs:
        d.arrow(last, layers)
    d.chain(layers, mix, out)
    return d


def bert_input() -> Diagram:
    """BERT's input: token, segment and position embeddings."""
    d = Diagram(
        "The input of BERT",
        "A pair of sentences is one sequence: CLS, the first sentence, SEP, the second sentence, SEP. For every token "
        "three embeddings are added, of the token, of its segment 0 or 1, and of its position; then they are normalised.",
    )
    words = ("[CLS]", "it", "[MASK]", "[SEP]", "I", "stay", "[SEP]")
    for i, word in enumerate(words):
        x = 48 + 64 * i
        d.op(word, x, 40, w=58)
        d.op("E", x, 108, "learned", w=50)
        d.op("S_0" if i < 4 else "S_1", x, 170, "score", w=50)
        d.op(f"P_{i}", x, 232, "mix", w=50)
        d.path([(x, 57), (x, 91)])
        d.note("+", x, 139)
        d.note("+", x, 201)
        d.path([(x, 249), (x, 294)])
    d.note("E of the token · S of the segment · P of the position", 240, 426)
    norm = d.op("add the three, layer norm", 240, 311, "learned", w=450)
    h = d.tensor("h_0", "B T d_model", 240, 380, "BERT.forward: x")
    d.chain(norm, h)
    return d


def bert_heads() -> Diagram:
    """BERT's heads for pre-training and for tasks."""
    d = Diagram(
        "BERT and its heads",
        "One encoder gives a state (B, T, d_model) for every token, to which words on both sides contribute. Heads read "
        "them: the masked-word head at every masked position, the sentence head at CLS, the span head start and end of an"
        " answer, the tag head every token.",
    )
    tokens = d.tensor("tokens and segments", "B T", 240, 40, "BERT.forward: tokens")
    encoder = d.op("embeddings, norm, N encoder blocks\nself-attention in both directions", 240, 116, "softmax", w=320)
    states = d.tensor("states, [CLS] first", "B T d_model", 240, 194, "BERT.forward: result", w=250)
    d.chain(tokens, encoder, states)
    heads = (
        (128, 276, "masked word\ntransform, then Eᵀ", "words", "B T n_tokens", "PretrainingBERT.forward: result.words"),
        (352, 276, "sentence\npool [CLS] by tanh", "classes", "B n_classes", "classification_head: result"),
        (128, 434, "span\none vector each", "start, end", "B T", "SpanHead.forward: result.start"),
        (352, 434, "tag\nat every token", "tags", "B T n_tags", "TagHead.forward: result"),
    )
    for x, y, text, name, axes, point in heads:
        head = d.op(text, x, y, "learned", w=166)
        d.chain(head, d.tensor(name, axes, x, y + 74, point))
        if y == 276:
            d.arrow(states, head, out="bottom", into="top", at=234)
        else:
            edge = 24 if x < 240 else 456
            inner = x - 83 if x < 240 else x + 83
            d.path([(115 if x < 240 else 365, 194), (edge, 194), (edge, y), (inner, y)])
    return d
