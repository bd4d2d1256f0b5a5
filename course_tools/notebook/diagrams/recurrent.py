"""Diagrams of recurrent networks: unrolled RNN, LSTM cell with its carousel, GRU cell."""

from course_tools.notebook.diagrams.drawing import Diagram


def rnn() -> Diagram:
    """Recurrent network, unrolled over time."""
    d = Diagram(
        "A recurrent network, unrolled",
        "One step with the same weights W, U and b is applied at every time: it takes the input x_t (B, d) and the "
        "previous state (B, n), and gives the next state (B, n). The states of all steps are (B, T, n).",
    )
    start = d.tensor("h_0", "B n", 46, 130, "rnn_step: h")
    steps, last = [], start
    for name, x in (("1", 150), ("2", 275), ("T", 420)):
        given = d.tensor(f"x_{name}", "B d", x, 40, "rnn_step: x")
        step = d.op("step", x, 130, "learned", w=70)
        state = d.tensor(f"h_{name}", "B n", x, 216, "rnn_step: result")
        d.chain(given, step, state)
        d.arrow(last, step, label="" if last is start else "h_1" if name == "2" else "…")
        steps.append((step, state))
        last = step
    every = d.tensor("all states h", "B T n", 275, 302, "rnn: result[0]", w=330)
    for _, state in steps:
        d.arrow(state, every)
    d.note("step: tanh(W x_t + U h_{t-1} + b), the same W, U, b at every time", 240, 352)
    return d


def lstm_cell() -> Diagram:
    """LSTM cell and constant error carousel."""
    d = Diagram(
        "One step of an LSTM",
        "The cell state runs along the top, the constant error carousel: it is multiplied by the forget gate f, and the "
        "input gate i times the candidate g is added. The output gate o times tanh of the new cell state is the new "
        "hidden state. All states and gates are (B, n); the four gates come from one product of size (B, 4n).",
    )
    before = d.tensor("c_{t-1}", "B n", 48, 56, "lstm_step: given.c")
    forget, add = d.circle("×", 196, 56, "mix"), d.circle("+", 268, 56, "mix")
    after = d.tensor("c_t", "B n", 436, 56, "lstm_step: result[1]")
    enter, squash, leave = d.circle("×", 268, 134, "mix"), d.op("tanh", 380, 128, w=62), d.circle("×", 380, 204, "mix")
    hidden = d.tensor("h_t", "B n", 446, 204, "lstm_step: result[0]")
    i, f = (
        d.tensor("i input", "B n", 108, 286, "lstm_step: i", w=74),
        d.tensor("f forget", "B n", 196, 286, "lstm_step: f", w=88),
    )
    g, o = d.tensor("g new", "B n", 290, 286, "lstm_step: g", w=74), d.tensor("o output", "B n", 380, 286, "lstm_step: o", w=92)
    d.note("σ", 97, 243)
    d.note("σ", 184, 243)
    d.note("tanh", 309, 243)
    d.note("σ", 392, 243)
    gates = d.tensor("gates: rows i, f, g, o of one product", "B 4·n", 252, 370, "lstm_step: gates", w=370)
    product = d.op("W x_t + U h_{t-1} + b", 252, 442, "learned", w=370)
    x, h = d.tensor("x_t", "B d", 150, 512, "lstm_step: x"), d.tensor("h_{t-1}", "B n", 354, 512, "lstm_step: given.h")
    d.chain(before, forget, add, after)
    d.path([(380, 56), (380, 111)])
    d.chain(squash, leave, hidden)
    d.arrow(f, forget)
    d.path([(108, 260), (108, 134), (255, 134)])
    d.path([(290, 260), (290, 134), (281, 134)])
    d.arrow(enter, add)
    d.arrow(o, leave)
    for gate in (i, f, g, o):
        d.arrow(gates, gate)
    d.arrow(product, gates)
    d.arrow(x, product)
    d.arrow(h, product)
    d.note("constant error carousel: c_t = f ⊙ c_{t-1} + i ⊙ g", 246, 18)
    return d


def gru_cell() -> Diagram:
    """GRU cell."""
    d = Diagram(
        "One step of a GRU",
        "The update gate z mixes the previous state with a candidate n: the new state is z times the previous state plus "
        "1 minus z times n. The reset gate r scales what the candidate sees of the previous state. States, gates and "
        "candidate are (B, n).",
    )
    before = d.tensor("h_{t-1}", "B n", 48, 50, "gru_step: h")
    keep, add = d.circle("×", 150, 50, "mix"), d.circle("+", 300, 50, "mix")
    after = d.tensor("h_t", "B n", 432, 50, "gru_step: result")
    take = d.circle("×", 300, 124, "mix")
    z = d.tensor("z update", "B n", 150, 200, "gru_step: z")
    n = d.tensor("n candidate", "B n", 300, 200, "gru_step: n")
    r = d.tensor("r reset", "B n", 428, 200, "gru_step: r", w=86)
    squash = d.op("tanh\nn_x + r ⊙ n_h", 300, 288, w=128)
    sigmoid_z, sigmoid_r = d.op("σ\nz_x + z_h", 150, 288, w=100), d.op("σ\nr_x + r_h", 428, 288, w=88)
    products = d.op("r_x, z_x, n_x = W x_t + b_W\nr_h, z_h, n_h = U h_{t-1} + b_U", 284, 374, "learned", w=376)
    x, h = d.tensor("x_t", "B d", 190, 450, "gru_step: x"), d.tensor("h_{t-1}", "B n", 380, 450, "gru_step: h")
    d.chain(before, keep, add, after)
    d.arrow(z, keep, label="z")
    d.path([z.side("right"), (222, 200), (222, 124), (287, 124)])
    d.note("1 − z", 254, 110)
    d.chain(squash, n, take, add)
    d.chain(sigmoid_z, z)
    d.chain(sigmoid_r, r)
    d.path([(385, 212), (375, 212), (375, 276), (364, 276)])
    for op in (sigmoid_z, squash, sigmoid_r):
        d.arrow(products, op)
    d.arrow(x, products)
    d.arrow(h, products)
    return d
