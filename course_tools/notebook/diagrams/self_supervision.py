"""Diagrams of self-supervised learning: SimCLR, BYOL."""

from course_tools.notebook.diagrams.drawing import Diagram


def simclr() -> Diagram:
    """SimCLR."""
    d = Diagram(
        "SimCLR",
        "Two photographs of each of B windows, in new colours, go through one encoder and a projection head. The loss is a "
        "cross-entropy over the 2B × 2B cosine similarities: each view must find its partner among all other views. "
        "Afterwards the head is discarded.",
    )
    d.op("B windows, four photographs each, no labels", 240, 36, w=345)
    a = d.tensor("first views", "B C H W", 120, 116, "SimCLR.forward: first")
    b = d.tensor("second views", "B C H W", 360, 116, "SimCLR.forward: second")
    d.path([(180, 53), (120, 66), (120, 90)])
    d.path([(300, 53), (360, 66), (360, 90)])
    d.note("one photograph\nin new colours", 240, 80)
    encoder = d.op("encoder f, one network for both", 240, 190, "learned", w=360)
    h = d.tensor("representation h", "2·B d_h", 240, 260, "SimCLR.forward: self.encoder(torch.cat([first, second]))", w=170)
    head = d.op("projection head g: a small MLP", 240, 332, "learned", w=260)
    z = d.tensor("z, unit length", "2·B d", 240, 402, "nt_xent: z")
    sim = d.op("similarity z zᵀ / τ", 160, 474, "score", w=200)
    table = d.tensor("similarities", "2·B 2·B", 160, 544, "nt_xent: similarity")
    loss = d.op("NT-Xent\nsoftmax over each row; −log of the partner", 190, 624, "loss", w=320)
    d.arrow(a, encoder)
    d.arrow(b, encoder)
    d.chain(encoder, h, head, z, sim, table, loss)
    d.note("kept after\ntraining", 386, 252)
    d.note("thrown\naway", 422, 324)
    rows = ["x..#..", ".x..#.", "..x..#", "#..x..", ".#..x.", "..#..x"]
    d.grid(rows, 406, 500, 19, {"#": "mix", "x": "plain", ".": "tensor"})
    d.note("each row: one partner (filled)", 376, 572)
    return d


def byol() -> Diagram:
    """BYOL."""
    d = Diagram(
        "BYOL",
        "The online network (left) predicts, from one view, the projection that the target network (right) makes of the "
        "other view. No gradient flows into the target: its weights are a moving average of the online weights. There are"
        " no negative examples.",
    )
    views = d.tensor("two views of each picture", "2·B C H W", 240, 40, "BYOL.forward: views")
    d.frame("online θ", (14, 226), (92, 394))
    d.frame("target ξ", (254, 466), (92, 330))
    d.note("learns", 130, 105, "start")
    d.note("follows", 370, 105, "start")
    f, f_2 = d.op("encoder f_θ", 120, 140, "learned", w=150), d.op("encoder f_ξ", 360, 200, "plain", w=150)
    g, g_2 = d.op("projector g_θ", 120, 200, "learned", w=150), d.op("projector g_ξ", 360, 264, "plain", w=150)
    z = d.tensor("z", "2·B d", 120, 264, "BYOL.forward: self.online(views)")
    swap = d.op("exchange the views", 360, 140, "plain", w=150)
    q = d.op("predictor q_θ", 120, 364, "learned", w=150)
    prediction = d.tensor("prediction", "2·B d", 120, 432, "BYOL.forward: result.predictions")
    target = d.tensor("target z'", "2·B d", 360, 432, "BYOL.forward: targets")
    loss = d.op("loss: 2 − 2 · cosine", 240, 510, "loss", w=400)
    d.arrow(views, f, out="bottom", into="top", at=80)
    d.arrow(views, swap, out="bottom", into="top", at=80)
    d.chain(f, g, z, q, prediction, loss)
    d.chain(swap, f_2, g_2, target, loss)
    d.path([(195, 200), (285, 200)])
    d.note("average", 240, 188)
    d.note("ξ ← τ ξ + (1 − τ) θ", 293, 352)
    d.note("no gradient", 372, 384, "start")
    return d
