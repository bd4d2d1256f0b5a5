"""Diagrams of linear attention: the recurrent state, and the random features of the Performer."""

from course_tools.notebook.diagrams.drawing import Diagram


def linear_recurrence() -> Diagram:
    """Linear attention as a recurrent network."""
    d = Diagram(
        "Causal linear attention as a recurrent network",
        "The past is summarised in a matrix S (B, h, f, d_v) and a vector z (B, h, f) of fixed size. A new token adds the"
        " outer product of its key features and its value to S, and its key features to z; its query features read the "
        "context from both.",
    )
    f = "linear_attention_step"
    S = d.tensor("S_{t-1}", "B h f d_v", 64, 130, f"{f}: given.S")
    z = d.tensor("z_{t-1}", "B h f", 64, 218, f"{f}: given.z")
    k = d.tensor("φ(k_t)", "B h f", 170, 40, f"{f}: phi_k")
    v = d.tensor("v_t", "B h d_v", 270, 40, f"{f}: v")
    q = d.tensor("φ(q_t)", "B h f", 390, 40, f"{f}: phi_q")
    add, add_2 = d.op("+ φ(k_t) v_{t}ᵀ", 222, 130, "mix", w=130), d.op("+ φ(k_t)", 222, 218, "mix", w=130)
    S_t = d.tensor("S_t", "B h f d_v", 356, 130, f"{f}: S")
    z_t = d.tensor("z_t", "B h f", 356, 218, f"{f}: z")
    read = d.op("read: φ(q_t)ᵀ S_t / φ(q_t)ᵀ z_t\na weighted mean of v_1 … v_t", 290, 300, "softmax", w=300)
    context = d.tensor("context c_t", "B h d_v", 290, 376, f"{f}: result[0]")
    d.chain(S, add, S_t)
    d.chain(z, add_2, z_t)
    d.arrow(k, add)
    d.arrow(v, add)
    d.path([(150, 66), (150, 84), (134, 84), (134, 174), (190, 174), (190, 201)])
    d.arrow(q, read, out="right", into="right", at=464)
    d.path([S_t.side("right"), (430, 130), (430, 274)])
    d.arrow(z_t, read)
    d.arrow(read, context)
    d.note("the state has the same size for every t", 240, 422)
    return d


def delta_rule() -> Diagram:
    """A step of the gated delta rule: fade, compare, write, read."""
    d = Diagram(
        "A step of the gated delta rule",
        "The state S (B, h, d_k, d_v) fades by a gate. The key then reads from it what is stored, and the difference from the "
        "new value, times β, is written back under the same key. At last the query reads the context.",
    )
    f = "delta_rule_step"
    S = d.tensor("S_{t-1}", "B h d_k d_v", 66, 40, f"{f}: given.S")
    fade = d.op("1. fade: × α_t", 66, 118, "plain", w=120)
    k = d.tensor("k_t", "B h d_k", 214, 40, f"{f}: k")
    v = d.tensor("v_t", "B h d_v", 330, 40, f"{f}: v")
    d.tensor("q_t", "B h d_k", 426, 40, f"{f}: q")
    compare = d.op("2. compare: v_t − Sᵀ k_t", 262, 118, "loss", w=190)
    error = d.tensor("error e_t", "B h d_v", 262, 196, f"{f}: error")
    write = d.op("3. write: S + β_t k_t e_{t}ᵀ", 132, 274, "mix", w=220)
    S_t = d.tensor("S_t", "B h d_k d_v", 132, 352, f"{f}: S")
    read = d.op("4. read: S_{t}ᵀ q_t", 340, 352, "softmax", w=140)
    context = d.tensor("context c_t", "B h d_v", 340, 430, f"{f}: result[0]")
    d.chain(S, fade)
    d.arrow(fade, compare, out="right", into="left")
    d.arrow(k, compare)
    d.arrow(v, compare)
    d.arrow(compare, error)
    d.path([error.side("bottom"), (262, 240), (200, 240), (200, write.side("top")[1])])
    d.arrow(fade, write)
    d.chain(write, S_t)
    d.arrow(S_t, read, out="right", into="left")
    d.path([(426, 64), (426, 300), (380, 300), (380, read.side("top")[1])])
    d.path([(198, 66), (198, 84), (147, 84), (147, write.side("top")[1])])
    d.note("α_t and β_t are gates of this token, 0 … 1", 142, 430)
    d.arrow(read, context)
    return d


def performer() -> Diagram:
    """Performer: positive random features."""
    d = Diagram(
        "The Performer",
        "Random directions Ω turn queries and keys, each divided by the fourth root of d_k, into m positive features whose "
        "dot products estimate exp(qᵀk/√d_k). The keys' features are multiplied with the values first, so no T_q × T_k "
        "matrix is built.",
    )
    d.tensor("queries", "B h T_q d_k", 80, 40, "performer_attention: q")
    d.tensor("keys", "B h T_k d_k", 240, 40, "performer_attention: k")
    v = d.tensor("values", "B h T_k d_v", 400, 40, "performer_attention: v")
    omega = d.tensor("random directions Ω", "m d_k", 160, 124, "performer_attention: omega")
    phi = d.op("φ(x) = exp(Ω x − ‖x‖² / 2) / √m\nfor x = q / ∜d_k and x = k / ∜d_k", 160, 196, "score", w=280)
    phi_q = d.tensor("φ(q)", "B h T_q m", 80, 266, "linear_attention: phi_q")
    phi_k = d.tensor("φ(k)", "B h T_k m", 240, 266, "linear_attention: phi_k")
    total = d.op("sum over the keys first\nS = Σ_j φ(k_j) v_{j}ᵀ,  z = Σ_j φ(k_j)", 320, 346, "mix", w=290)
    S = d.tensor("S", "B h m d_v", 270, 424, "linear_attention: S")
    z = d.tensor("z", "B h m", 400, 424, "linear_attention: z")
    read = d.op("φ(q)ᵀ S / φ(q)ᵀ z", 240, 498, "softmax", w=420)
    context = d.tensor("context", "B h T_q d_v", 240, 566, "linear_attention: result")
    d.path([(56, 66), (56, 179)])
    d.path([(264, 66), (264, 179)])
    d.arrow(omega, phi)
    d.arrow(phi, phi_q)
    d.arrow(phi, phi_k)
    d.arrow(phi_k, total)
    d.arrow(v, total)
    d.arrow(total, S)
    d.arrow(total, z)
    d.arrow(phi_q, read)
    d.arrow(S, read)
    d.arrow(z, read)
    d.arrow(read, context)
    return d
