"""Diagrams of encoder-decoder models and their attention: translation, captioning, documents."""

from course_tools.notebook.diagrams.drawing import Diagram


def encoder_decoder() -> Diagram:
    """Encoder-decoder with a fixed-size context vector: lecture 02's translator without attention."""
    d = Diagram(
        "Encoder-decoder without attention",
        "A bidirectional GRU reads the source (B, T_k) and keeps its last state (B, d), one vector for a source of any length. "
        "A GRU decoder starts from this vector and reads it again at every step; the next token is computed from it and the "
        "decoder's state.",
    )
    source = d.tensor("source", "B T_k", 110, 40, "Translator.forward: source")
    read = d.op("encoder\nembedding, bidirectional GRU", 110, 120, "learned", w=196)
    last = d.tensor("last state c", "B d", 110, 204, "BiGRU.forward: last")
    d.chain(source, read, last)
    d.note("one vector,\nhowever long the source", 110, 256)
    target = d.tensor("target so far", "B T", 350, 40, "Decoder.forward: tokens")
    embed = d.op("embedding", 350, 110, "learned")
    words = d.tensor("embedded y", "B T d/2", 350, 172, "Decoder.forward: self.embedding(tokens)")
    cell = d.op("GRU over [y; c]\nstarts at c", 350, 256, "learned", w=220)
    states = d.tensor("states s", "B T d", 350, 334, "Decoder.forward: states")
    out = d.op("linear layer of [s; c]", 350, 404, "learned", w=220)
    logits = d.tensor("logits of the next token", "B T n_tokens", 350, 474, "Translator.forward: result")
    d.chain(target, embed, words, cell, states, out, logits)
    d.arrow(last, cell, out="right", into="left", at=220)
    d.path([(165, 204), (220, 204), (220, 404), (240, 404)])
    return d


def bahdanau() -> Diagram:
    """Additive attention of Bahdanau et al., one decoder step."""
    d = Diagram(
        "One step of Bahdanau's decoder",
        "The previous decoder state is the query, the encoder's annotations are keys and values. An additive score for "
        "each source position, a softmax over the positions, and the weighted sum of the annotations give the context, "
        "which enters the GRU together with the previous word.",
    )
    s = d.tensor("previous state s_{t-1}", "B n", 110, 40, "bahdanau_steps: given.s")
    h = d.tensor("annotations h", "B T_k d_memory", 370, 40, "bahdanau_steps: encoded.keys")
    score = d.op("additive score of every h_j\nv · tanh(W s_{t-1} + U h_j)", 240, 122, "score", w=300)
    scores = d.tensor("scores e_t", "B 1 T_k", 170, 198, "additive_scores: result")
    softmax = d.op("softmax over the source\nsums to 1; padding gets 0", 170, 276, "softmax", w=220)
    weights = d.tensor("weights α_t", "B 1 T_k", 170, 352, "bahdanau_steps: row")
    mix = d.op("mix: c_t = Σ_j α_tj h_j", 290, 424, "mix", w=250)
    context = d.tensor("context c_t", "B 1 d_memory", 290, 492, "bahdanau_steps: context")
    y = d.tensor("word y_{t-1}", "B d_y", 425, 492, "bahdanau_steps: y", w=98)
    cell = d.op("GRU step\n[y_{t-1}; c_t] and s_{t-1}", 290, 574, "learned", w=300)
    new = d.tensor("state s_t", "B n", 170, 650, "bahdanau_steps: s")
    out = d.op("W_o [s_t; c_t; y_{t-1}]", 350, 650, "learned", w=200)
    logits = d.tensor("logits", "B T n_tokens", 350, 720, "BahdanauDecoder.forward: logits")
    d.arrow(s, score)
    d.arrow(h, score, out="bottom", into="top", at=80)
    d.chain(score, scores, softmax, weights)
    d.arrow(weights, mix)
    d.arrow(h, mix, out="right", into="right", at=464)
    d.chain(mix, context, cell)
    d.arrow(y, cell)
    d.arrow(s, cell, out="left", into="left", at=18)
    d.arrow(cell, new)
    d.arrow(new, out)
    d.chain(out, logits)
    d.note("logits of all T steps", 178, 724)
    return d


def aligned_decoder() -> Diagram:
    """Additive attention whose queries are the current states, as Luong's: lecture 02's translator."""
    d = Diagram(
        "A translator with attention",
        "A bidirectional GRU reads the source; its states are keys and values. A GRU reads the target so far and the encoder's "
        "last state; its states are the queries. An additive score for each pair, a softmax over the source and a weighted "
        "sum give a context for each query, and the next token is computed from query and context.",
    )
    target = d.tensor("target so far", "B T", 110, 40, "Decoder.forward: tokens")
    embed = d.op("embedding", 110, 112, "learned", w=150)
    cell = d.op("GRU over [y; last state]\nstarts at the last state", 110, 190, "learned", w=186)
    queries = d.tensor("queries q", "B T d", 110, 272, "Decoder.forward: states")
    d.chain(target, embed, cell, queries)
    source = d.tensor("source", "B T_k", 348, 40, "Translator.forward: source")
    read = d.op("encoder\nembedding, bidirectional GRU", 348, 112, "learned", w=220)
    last = d.tensor("last state", "B d", 276, 190, "BiGRU.forward: last")
    states = d.tensor("states h", "B T_k d", 398, 190, "BiGRU.forward: states")
    d.arrow(source, read)
    d.path([(276, 138), (276, 164)])
    d.path([(398, 138), (398, 164)])
    d.arrow(last, cell)
    score = d.op("additive score of every pair\nv · tanh(W q + U h)", 240, 354, "score", w=290)
    scores = d.tensor("scores", "B T T_k", 180, 430, "attend: scores")
    softmax = d.op("softmax over the source\nsums to 1; padding gets 0", 180, 508, "softmax", w=220)
    weights = d.tensor("weights α", "B T T_k", 180, 584, "attend: weights")
    mix = d.op("mix: c = Σ_j α_j h_j", 280, 654, "mix", w=230)
    context = d.tensor("contexts c", "B T d", 280, 722, "Decoder.forward: context")
    out = d.op("linear layer of [q; c]", 240, 796, "learned", w=250)
    logits = d.tensor("logits of the next token", "B T n_tokens", 240, 866, "Translator.forward: result")
    d.arrow(queries, score, out="bottom", into="top", at=312)
    d.arrow(states, score, out="bottom", into="top", at=312)
    d.chain(score, scores, softmax, weights)
    d.arrow(weights, mix)
    d.arrow(states, mix, out="right", into="right", at=464)
    d.chain(mix, context, out, logits)
    d.arrow(queries, out, out="left", into="left", at=24)
    return d


def show_attend_and_tell() -> Diagram:
    """Captioning with attention over the regions of an image, one word."""
    d = Diagram(
        "One word of Show, Attend and Tell",
        "A convolutional network turns the image into L regions. The previous LSTM state scores every region; the "
        "softmax weights mix the regions to a context, which a gate scales; with the previous word it enters the LSTM.",
    )
    d.grid(["....", ".##.", ".##.", "...."], 60, 58, 20, {"#": "softmax"})
    d.note("image", 60, 114)
    cnn = d.op("CNN", 148, 58, "learned", w=62)
    d.path([(102, 58), (116, 58)])
    regions = d.tensor("regions a", "B L d_a", 262, 58, "caption_step: regions")
    h = d.tensor("state h_{t-1}", "B n", 410, 58, "caption_step: given.h")
    score = d.op("additive score of every region\nv · tanh(W_a a_i + W_h h_{t-1})", 310, 146, "score", w=290)
    softmax = d.op("softmax over the L regions", 310, 222, "softmax", w=240)
    weights = d.tensor("weights α_t", "B L", 310, 292, "caption_step: weights")
    mix = d.op("mix: Σ_i α_ti a_i", 250, 366, "mix", w=190)
    context = d.tensor("context", "B d_a", 250, 436, "caption_step: context")
    gate = d.op("gate β = σ(f · h_{t-1} + b)", 250, 508, "learned", w=236)
    z = d.tensor("ẑ = β · context", "B d_a", 250, 578, "caption_step: z")
    y = d.tensor("word y_{t-1}", "B d_y", 80, 578, "caption_step: y")
    lstm = d.op("LSTM step: [y_{t-1}; ẑ], h_{t-1}, c_{t-1}", 230, 652, "learned", w=400)
    new = d.tensor("state h_t", "B n", 130, 722, "caption_step: h")
    logits = d.tensor("logits of the word", "B n_tokens", 340, 722, "caption_step: result.logits")
    d.chain(cnn, regions)
    d.arrow(regions, score)
    d.arrow(h, score)
    d.chain(score, softmax, weights)
    d.arrow(weights, mix)
    d.path([(236, 84), (236, 102), (136, 102), (136, 366), (155, 366)])
    d.chain(mix, context, gate, z)
    d.arrow(z, lstm)
    d.arrow(y, lstm)
    d.arrow(h, lstm, out="right", into="right", at=466)
    d.arrow(h, gate, out="right", into="right", at=466)
    d.arrow(lstm, new)
    d.chain(new, logits)
    d.note("logits: L_o (E y_{t-1} + L_h h_t + L_z ẑ)", 250, 768)
    return d


def hierarchical() -> Diagram:
    """Hierarchical attention: words to sentences, sentences to a document."""
    d = Diagram(
        "Hierarchical attention",
        "A bidirectional GRU reads the words of each sentence, and attention pooling with a learned query makes one "
        "vector of a sentence; the same again makes one vector of the document.",
    )
    words = d.tensor("words", "B S T", 150, 40, "Hierarchical.forward: words")
    read = d.op("embedding, BiGRU", 150, 112, "learned", w=220)
    pool = d.op("pool the words\nsoftmax over T words, then mix", 150, 190, "softmax", w=236)
    sentences = d.tensor("sentences", "B S 2·n", 150, 268, "Hierarchical.forward: of_sentences")
    read_2 = d.op("BiGRU", 150, 340, "learned", w=220)
    pool_2 = d.op("pool the sentences\nsoftmax over S sentences, then mix", 150, 418, "softmax", w=256)
    vector = d.tensor("document", "B 2·n", 150, 496, "Hierarchical.forward: vector")
    out = d.op("linear layer", 150, 566, "learned", w=130)
    logits = d.tensor("logits", "B n_classes", 150, 634, "Hierarchical.forward: result[0]")
    d.chain(words, read, pool, sentences, read_2, pool_2, vector, out, logits)
    d.op("learned query u", 390, 116, "learned")
    alpha = d.tensor("weights", "B S T", 390, 190, "Hierarchical.forward: word_weights")
    d.op("learned query u", 390, 344, "learned")
    alpha_2 = d.tensor("weights", "B S", 390, 418, "Hierarchical.forward: sentence_weights")
    d.path([(390, 133), (390, 150), (240, 150), (240, 164)])
    d.arrow(pool, alpha)
    d.path([(390, 361), (390, 378), (240, 378), (240, 392)])
    d.arrow(pool_2, alpha_2)
    d.note("which word matters?", 390, 232)
    d.note("which sentence?", 390, 460)
    return d
