"""The shapes in a diagram are those of the running library, and each drawing is a legible SVG with its words."""

import ast
import html
import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

import course_lib
from course_lib import models
from course_lib.attention import (
    GraphAttention,
    MultiHead,
    PerformerAttention,
    attend,
    co_occurrent_features,
    delta_rule_step,
    linear_attention_step,
    local_attention,
    merge,
    non_local_block,
    partial_attention,
    scaled_dot_product_attention,
)
from course_lib.attention.multihead import cached_step
from course_lib.blocks import (
    Block,
    FeedForward,
    SelfAttention,
    Sizes,
    encoder_block,
    mixer_block,
    pre_norm_encoder_block,
)
from course_lib.losses import nt_xent
from course_lib.losses.matching import match
from course_lib.losses.set_prediction import matching_cost
from course_lib.models.bert_heads import SpanHead, TagHead
from course_lib.models.universal import AdaptiveSteps, Universal
from course_lib.primitives import GRU, LSTM, RNN, causal_mask, gcn_weights, padding_mask, propagate
from course_tools.notebook import diagrams
from course_tools.notebook.diagrams import Diagram
from course_tools.notebook.diagrams.drawing import _width

LIBRARY = str(Path(course_lib.__file__).parent)
AUTHORING = Path(__file__).parents[3] / "authoring"
SVG = "{http://www.w3.org/2000/svg}"
Sized = dict[str, int]


class Frames:
    """What the wanted functions of the library held when they first returned: by qualified name, their variables."""

    def __init__(self, wanted):
        self.wanted, self.given, self.seen = wanted, {}, {}

    def __enter__(self):
        sys.setprofile(self._record)
        return self.seen

    def __exit__(self, *_):
        sys.setprofile(None)

    def _record(self, frame, event, value):
        name = frame.f_code.co_qualname
        if name not in self.wanted or not frame.f_code.co_filename.startswith((LIBRARY, str(AUTHORING))):
            return
        if event == "call":
            self.given[frame] = SimpleNamespace(**frame.f_locals)
        elif event == "return" and frame in self.given:
            self.seen.setdefault(name, dict(frame.f_locals) | {"given": self.given.pop(frame), "result": value, "torch": torch})


def size(written: str, sizes: Sized) -> int:
    """Evaluate the size of an axis as a diagram writes it."""
    return eval(written.replace("·", "*").replace("²", "**2").replace("/", "//"), {}, sizes)


def mismatches(diagram: Diagram, run: Callable[[], object], sizes: Sized) -> list[str]:
    """Run the library, and name the tensors whose shape is not the one in the diagram."""
    with Frames({tensor.point.split(": ")[0] for tensor in diagram.tensors}) as seen:
        run()
    wrong = []
    for axes, point in diagram.tensors:
        function, expression = point.split(": ", 1)
        if function not in seen:
            wrong.append(f"{point}: {function} did not run")
            continue
        measured = tuple(eval(expression, seen[function]).shape)
        if measured != tuple(size(axis, sizes) for axis in axes):
            wrong.append(f"{point} is {measured}, the diagram says {axes}")
    return wrong


def tokens(*shape):
    return torch.randint(3, 11, shape)


def recurrent(cell):
    return lambda s: lambda: cell(s["d"], s["n"])(torch.randn(s["B"], s["T"], s["d"]))


def seq2seq(decoder):
    def with_sizes(s):
        encoder = models.Encoder(11, 5, s["n_encoder"])
        lengths = torch.full((s["B"],), s["T_k"])
        return lambda: models.Seq2Seq(encoder, decoder(s))(tokens(s["B"], s["T_k"]), lengths, tokens(s["B"], s["T"]))

    return with_sizes


def of_lecture(name, names):
    """Define what the notebook of a lecture imports, and its classes."""
    path = AUTHORING / f"{name}.py"
    kept = [
        node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef | ast.Import | ast.ImportFrom)
    ]
    exec(compile(ast.Module(kept, []), path, "exec"), names)


def translator(decoder):
    """The model of lecture 02 with one of its decoders, as its notebook defines them."""

    def with_sizes(s):
        names = {"d": s["d"]}
        of_lecture("02_alignment", names)
        model, lengths = names["Translator"]((range(11), range(s["n_tokens"])), names[decoder]), torch.full((s["B"],), s["T_k"])
        return lambda: model(tokens(s["B"], s["T_k"]).clamp(max=10), lengths, tokens(s["B"], s["T"]))

    return with_sizes


def bahdanau(s):
    return models.BahdanauDecoder(s["n_tokens"], s["d_y"], s["n"], s["d_memory"], 17)


def captioner(s):
    model = models.ShowAttendAndTell(s["n_tokens"], s["d_a"], s["d_y"], s["n"], 17)
    return lambda: model(torch.randn(s["B"], s["L"], s["d_a"]), tokens(s["B"], 3))


def hierarchical(s):
    model = models.Hierarchical(11, s["n_classes"], 13, s["n"])
    return lambda: model(tokens(s["B"], s["S"], s["T"]), torch.full((s["B"], s["S"]), s["T"]))


def scaled(s):
    q, k, v = (torch.randn(s["B"], s[T], s[d]) for T, d in (("T_q", "d_k"), ("T_k", "d_k"), ("T_k", "d_v")))
    return lambda: scaled_dot_product_attention(q, k, v)


def multi_head(s):
    q, k = (torch.randn(s["B"], s[T], s["d_model"]) for T in ("T_q", "T_k"))
    module = MultiHead(s["d_model"], s["h"], d_k=s["d_k"], d_v=s["d_v"])
    return lambda: module(q, k, k)


def masks(s):
    def run():
        mask = causal_mask(s["T"]) & padding_mask(torch.full((s["B"],), 2), s["T"])
        attend(torch.randn(s["B"], s["T"], s["T"]), torch.randn(s["B"], s["T"], 11), mask)

    return run


def sizes_of(s):
    return Sizes(s["d_model"], s["h"], 23, 2)


def transformer(s):
    model = models.Transformer(11, s["n_target"], sizes_of(s))
    return lambda: model(tokens(s["B"], s["T_k"]), torch.full((s["B"],), s["T_k"]), tokens(s["B"], s["T"]))


def post_and_pre_norm(s):
    d = s["d_model"]
    attention = tuple(torch.randn(d, d) for _ in range(4))
    network = torch.randn(23, d), torch.randn(23), torch.randn(d, 23), torch.randn(d)
    norms = ((torch.ones(d), torch.zeros(d)),) * 2

    def run():
        for block in (encoder_block, pre_norm_encoder_block):
            block(torch.randn(s["B"], s["T"], d), attention, network, norms, s["h"])

    return run


def universal(s):
    d = s["d_model"]
    block = Block(SelfAttention(MultiHead(d, s["h"])), FeedForward(d, 23), d)
    return lambda: Universal(11, 13, d, AdaptiveSteps(block, d, s["n_steps"]))(tokens(s["B"], s["T"]))


def gpt(s):
    return lambda: models.GPT(s["n_tokens"], 19, sizes_of(s))(tokens(s["B"], s["T"]))


def llama(s):
    return lambda: models.Llama(s["n_tokens"], sizes_of(s), s["g"])(tokens(s["B"], s["T"]))


def cache(s):
    h_d = s["h"] * s["d_k"]
    past = torch.randn(2, s["B"], s["h"], s["T"], s["d_k"])
    W = [torch.randn(h_d, s["d_model"]) for _ in range(3)]
    return lambda: cached_step(torch.randn(s["B"], s["d_model"]), *past, *W, torch.randn(s["d_model"], h_d))


def elmo(s):
    model = models.ELMo(11, s["d_model"], s["L"])

    mixture = torch.zeros(s["L"] + 1), torch.ones(())
    return lambda: models.scalar_mix(model(tokens(s["B"], s["T"]), torch.full((s["B"],), s["T"])), *mixture)


def bert(s):
    def run():
        encoder = models.BERT(s["n_tokens"], 19, sizes_of(s))
        states = encoder(tokens(s["B"], s["T"]), torch.zeros(s["B"], s["T"], dtype=torch.long))
        models.PretrainingBERT(encoder)(tokens(s["B"], s["T"]))
        SpanHead(s["d_model"])(states)
        TagHead(s["d_model"], s["n_tags"])(states)

    return run


def non_local(s):
    C, d_k, d = s["C"], s["d_k"], s["d"]
    W = torch.randn(d_k, C), torch.randn(d_k, C), torch.randn(d, C), torch.randn(C, d)
    return lambda: non_local_block(torch.randn(s["B"], C, s["H"], s["W"]), *W)


def co_occurrent(s):
    W = torch.randn(s["d_k"], s["C"]), torch.randn(s["d_v"], s["C"]), torch.randn(s["n_mix"], s["d_k"])
    return lambda: co_occurrent_features(torch.randn(s["B"], s["N"], s["C"]), *W)


def local(s):
    q, k, v = torch.randn(3, s["B"], s["h"], s["H"], s["W"], s["d"])
    return lambda: local_attention(q, k, v, torch.randn(s["s"], 5), torch.randn(s["s"], s["d"] - 5))


def image(s):
    return s["C"], s["H"], s["W"]


def vision(make):
    return lambda s: lambda: make(s["n_classes"], image(s), s["P"], sizes_of(s))(torch.randn(s["B"], *image(s)))


def detr(s):
    sizes = sizes_of(s)._replace(n_layers=s["n_layers"])
    model = models.DETR(nn.Conv2d(s["C"], 29, 3), 29, s["n_classes"], s["N"], sizes)
    return lambda: model(torch.randn(s["B"], s["C"], s["h"] + 2, s["w"] + 2))


def matching(s):
    def run():
        classes = torch.zeros(s["B"], s["M"], dtype=torch.long)
        logits, boxes = torch.randn(s["B"], s["N"], s["n_classes"] + 1), torch.rand(s["B"], s["N"], 4)
        match(matching_cost(logits, boxes, classes, torch.rand(s["B"], s["M"], 4)), classes)

    return run


def mixer(s):
    N, d = s["N"], s["d"]
    tokens_, channels = ((torch.randn(w, n), torch.randn(w), torch.randn(n, w), torch.randn(n)) for n, w in ((N, 11), (d, 13)))
    norms = ((torch.ones(d), torch.zeros(d)),) * 2
    return lambda: mixer_block(torch.randn(s["B"], N, d), tokens_, channels, norms)


def recurrence(s):
    z, q, k = torch.rand(3, s["B"], s["h"], s["f"])
    S, v = torch.rand(s["B"], s["h"], s["f"], s["d_v"]), torch.randn(s["B"], s["h"], s["d_v"])
    return lambda: linear_attention_step(S, z, q, k, v)


def delta(s):
    S, (q, k) = torch.randn(s["B"], s["h"], s["d_k"], s["d_v"]), torch.randn(2, s["B"], s["h"], s["d_k"])
    return lambda: delta_rule_step(S, q, k, torch.randn(s["B"], s["h"], s["d_v"]), torch.rand(s["B"], s["h"]))


def tiled(s):
    q, k, v = (torch.randn(s["B"], s[T], s[d]) for T, d in (("T_q", "d_k"), ("T_k", "d_k"), ("T_k", "d_v")))
    return lambda: merge(partial_attention(q, k, v), partial_attention(q, k, v))


def performer(s):
    q, k, v = (torch.randn(s["B"], s["h"], s[T], s[d]) for T, d in (("T_q", "d_k"), ("T_k", "d_k"), ("T_k", "d_v")))
    return lambda: PerformerAttention(s["d_k"], s["m"])(q, k, v)


EDGES = torch.tensor([[0, 0, 0, 1, 2, 3, 4], [0, 1, 2, 1, 2, 3, 4]])


def messages(s):
    return lambda: propagate(torch.randn(s["N"], s["d"]), EDGES, gcn_weights(EDGES, s["N"]))


def gat(s):
    layer = models.GATLayer(s["d_in"], s["d"], s["h"], GraphAttention)
    return lambda: layer(torch.randn(s["N"], s["d_in"]), EDGES)


def room_attention(s):
    names = {}
    of_lecture("15_graphs", names)
    model = names["RoomAttention"](d=s["d"], d_a=s["d"])
    return lambda: model(torch.randn(s["N"], s["d_in"]), EDGES)


def flat_encoder(s):
    return nn.Sequential(nn.Flatten(), nn.Linear(s["C"] * s["H"] * s["W"], s["d_h"]))


def simclr(s):
    model = models.SimCLR(flat_encoder(s), s["d_h"], 23, s["d"])
    return lambda: nt_xent(*model(*torch.randn(2, s["B"], *image(s))), 0.5)


def byol(s):
    model = models.BYOL(flat_encoder(s), s["d_h"], 23, s["d"])
    return lambda: model(*torch.randn(2, s["B"], *image(s)))


SIZES = {"B": 2, "T": 3, "T_q": 3, "T_k": 5, "d_k": 7, "d_v": 11, "n": 13, "d": 17}
WIDE = SIZES | {"d_model": 38, "h": 2, "n_tokens": 31, "n_classes": 29, "L": 2}
MEMORY = SIZES | {"n_encoder": 7, "d_memory": 14, "d_y": 19, "n_tokens": 29}
PICTURE = {"B": 2, "C": 3, "H": 5, "W": 7, "N": 35, "d_k": 11, "d": 13, "h": 17, "s": 3, "d_h": 19}
PATCHED = {"B": 2, "C": 3, "H": 10, "W": 14, "P": 2, "N": 35, "d_model": 38, "h": 2, "n_classes": 29}

RUNS = {
    "rnn": (recurrent(RNN), SIZES),
    "lstm_cell": (recurrent(LSTM), SIZES),
    "gru_cell": (recurrent(GRU), SIZES),
    "encoder_decoder": (translator("Decoder"), MEMORY | {"d": 46}),
    "aligned_decoder": (translator("AlignedDecoder"), MEMORY | {"d": 46}),
    "bahdanau": (seq2seq(bahdanau), MEMORY),
    "show_attend_and_tell": (captioner, MEMORY | {"L": 7, "d_a": 11}),
    "hierarchical": (hierarchical, SIZES | {"S": 5, "n_classes": 29}),
    "scaled_dot_product": (scaled, SIZES),
    "multi_head": (multi_head, SIZES | {"d_model": 19, "h": 2}),
    "masks": (masks, SIZES),
    "transformer": (transformer, WIDE | {"n_target": 31}),
    "residual_connections": (post_and_pre_norm, WIDE),
    "universal_transformer": (universal, WIDE | {"n_steps": 7}),
    "gpt": (gpt, WIDE),
    "induction_heads": (gpt, WIDE),
    "key_value_cache": (cache, WIDE | {"h": 5, "d_model": 19}),
    "elmo": (elmo, WIDE | {"d_model": 19, "L": 5}),
    "bert_input": (bert, WIDE | {"n_tags": 5, "n_classes": 2}),
    "bert_heads": (bert, WIDE | {"n_tags": 5, "n_classes": 2}),
    "non_local": (non_local, PICTURE),
    "co_occurrent": (co_occurrent, PICTURE | {"d_k": 22, "d_v": 13, "n_mix": 2}),
    "local_window": (local, PICTURE),
    "vit": (vision(models.ViT), PATCHED),
    "deit": (vision(models.DeiT), PATCHED),
    "detr": (detr, PATCHED | {"n_layers": 3, "w": 7, "h": 2, "N": 5, "d_model": 44, "H": 4, "W": 9}),
    "detr_matching": (matching, {"B": 2, "N": 7, "M": 3, "n_classes": 5}),
    "mixer": (mixer, {"B": 2, "N": 5, "d": 7}),
    "linear_recurrence": (recurrence, SIZES | {"h": 3, "f": 5}),
    "performer": (performer, SIZES | {"h": 13, "m": 17}),
    "message_passing": (messages, {"N": 5, "E": 7, "d": 11}),
    "room_attention": (room_attention, {"N": 5, "E": 7, "d": 11, "d_in": 7}),
    "gat": (gat, {"N": 5, "E": 7, "d": 11, "h": 3, "d_in": 13}),
    "simclr": (simclr, PICTURE),
    "byol": (byol, PICTURE),
    "llama": (llama, WIDE | {"d_model": 60, "h": 6, "g": 3, "d_k": 10}),
    "delta_rule": (delta, {"B": 2, "h": 3, "d_k": 5, "d_v": 7}),
    "tiled": (tiled, SIZES),
}
NAMES = [draw.__name__ for draw in diagrams.ALL]


@pytest.mark.parametrize("name", NAMES)
def test_every_shape_is_that_of_the_running_library(name):
    run, sizes = RUNS[name]
    assert mismatches(getattr(diagrams, name)(), run(sizes), sizes) == []


def test_a_label_with_two_axes_exchanged_is_found():
    run, sizes = RUNS["multi_head"]
    wrong = diagrams.multi_head()
    i = next(i for i, tensor in enumerate(wrong.tensors) if tensor.axes == ("B", "h", "T_q", "d_k"))
    wrong.tensors[i] = wrong.tensors[i]._replace(axes=("B", "T_q", "h", "d_k"))
    (found,) = mismatches(wrong, run(sizes), sizes)
    assert found.startswith("MultiHead.attend_projected: q is (2, 2, 3, 7)")


def test_a_point_that_the_library_does_not_reach_is_found():
    wrong = Diagram("a title", "a sentence")
    wrong.tensor("x", "B", 240, 40, "no_such_function: x")
    assert mismatches(wrong, lambda: None, {"B": 2}) == ["no_such_function: x: no_such_function did not run"]


@pytest.mark.parametrize("name", NAMES)
def test_every_drawing_is_an_image_with_its_words(name):
    diagram = getattr(diagrams, name)()
    root = ElementTree.fromstring(diagram.svg())
    assert (root.find(f"{SVG}title").text, root.find(f"{SVG}desc").text) == (diagram.title, diagram.alt)
    assert diagram.alt.endswith(".")
    assert "prefers-color-scheme:dark" in root.find(f"{SVG}style").text
    written = "".join("".join(text.itertext()) for text in root.iter(f"{SVG}text")).replace("\u200b", "")
    for tensor in diagram.tensors:
        assert f"({', '.join(tensor.axes)})".replace("_", "") in written
    assert html.escape(f"{diagram.title}: {diagram.alt}") in diagram._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("name", NAMES)
def test_no_two_boxes_overlap(name):
    root = ElementTree.fromstring(getattr(diagrams, name)().svg())
    boxes = [tuple(float(r.get(k)) for k in ("x", "y", "width", "height")) for r in root.iter(f"{SVG}rect") if is_box(r)]
    for (x, y, w, h), (x_2, y_2, w_2, h_2) in itertools.combinations(boxes, 2):
        assert x + w <= x_2 or x_2 + w_2 <= x or y + h <= y_2 or y_2 + h_2 <= y


def crossed_notes(diagram: Diagram) -> list[str]:
    """Name the notes and labels that an arrow or a line crosses."""
    root = ElementTree.fromstring(diagram.svg())
    lines = []
    for path in root.iter(f"{SVG}path"):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.get("d"))]
        lines += itertools.pairwise(zip(numbers[::2], numbers[1::2], strict=True))
    crossed = []
    for text in root.iter(f"{SVG}text"):
        style, written = text.get("class").split(), "".join(text.itertext())
        if style[0] in ("note", "label"):
            w, x, y = _width(written, 13), float(text.get("x")), float(text.get("y"))
            left = x if "start" in style else x - w if "end" in style else x - w / 2
            if any(
                max(x_1, x_2) >= left and min(x_1, x_2) <= left + w and max(y_1, y_2) >= y - 11 and min(y_1, y_2) <= y + 3
                for (x_1, y_1), (x_2, y_2) in lines
            ):
                crossed.append(written)
    return crossed


@pytest.mark.parametrize("name", NAMES)
def test_no_arrow_crosses_a_note(name):
    assert crossed_notes(getattr(diagrams, name)()) == []


def test_a_note_across_an_arrow_is_found():
    wrong = Diagram("a title", "a sentence")
    wrong.arrow(wrong.op("above", 240, 40), wrong.op("below", 240, 140))
    wrong.note("beside", 250, 90, "start")
    wrong.note("across", 230, 90, "start")
    assert crossed_notes(wrong) == ["across"]


def is_box(rectangle: ElementTree.Element) -> bool:
    """A box, and no card, frame or square of a grid."""
    return not {"card", "frame", "thin"} & set(rectangle.get("class").split())


def test_what_crosses_the_edge_is_refused():
    with pytest.raises(ValueError, match="crosses the edge"):
        Diagram("a title", "a sentence").op("a box", 470, 40)


def test_a_subscript_is_set_lower_and_the_rest_is_escaped():
    diagram = Diagram("a < b", "a sentence")
    diagram.op("W_q & h_{t-1}", 240, 40)
    assert '<tspan class="sub" dy="4">t-1</tspan>' in diagram.svg()
    assert "W<tspan" in diagram.svg()
    assert "&amp;" in diagram.svg()
    assert "<title>a &lt; b</title>" in diagram.svg()
