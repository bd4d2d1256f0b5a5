"""Mistakes with graphs that students make: without type checks, each raises an error that says how to fix it."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PREPARE = """
import json, sys, warnings
from torch import empty, int64, ones, randn, tensor, zeros
from course_lib.attention import *
from course_lib.fast import *
from course_lib.models import GAT, GCN
from course_lib.primitives import *

assert "beartype" not in sys.modules
warnings.simplefilter("error")
N, H, d = 7, 3, 5
edges = tensor([[0, 1, 1, 4], [1, 0, 2, 4]])
nothing = empty(2, 0, dtype=int64)
z, a, x = randn(H, N, d), randn(H, 2 * d), randn(N, 11)
scores = gat_edge_scores(z, a, edges)

def tell(code):
    try:
        return "nothing", repr(eval(code))
    except Exception as error:
        return type(error).__name__, str(error)

json.dump([tell(code) for code in json.load(sys.stdin)], sys.stdout)
"""

TAKE_EDGES = [
    "attend_edges(zeros(4), zeros(N, d), {})",
    "csr_attend_edges(zeros(4), zeros(N, d), {})",
    "edge_softmax(zeros(4), {}, N)",
    "gat_edge_scores(z, a, {})",
    "dynamic_edge_scores(z, z, a[:, :d], {})",
    "multi_head_graph_attention(x, zeros(H * d, 11), a, {})",
    "GraphAttention(H, d)(z, {})",
    "gcn_weights({}, N)",
    "with_self_loops({}, N)",
    "propagate(x, {}, zeros(4))",
    "dirichlet_energy(x, {})",
    "GAT(11, 2, 2, 2)(x, {})",
    "GCN(11, 2, 2)(x, {})",
]
MISTAKES = [
    ("edges.float()", "TypeError", "edges must be integers (indices of nodes); got torch.float32."),
    ("edges + 3", "ValueError", "edges name nodes 3 to 7, but there are nodes 0 to 6."),
    ("edges - 1", "ValueError", "edges name nodes -1 to 3, but there are nodes 0 to 6."),
]
TURNED = "edges must be (2, E), first row receivers, second row senders; got (4, 2). From pairs (E, 2)"
REFUSED = [
    *((code.format(edges), error, text) for code in TAKE_EDGES for edges, error, text in MISTAKES),
    *((code.format("edges.mT"), "ValueError", TURNED) for code in TAKE_EDGES),
    ("gcn_weights(edges.mT, N)", "ValueError", TURNED),
    ("attend_edges(zeros(5), zeros(N, d), edges)", "ValueError", "one score: got scores (5,) for 4 edges."),
    ("csr_attend_edges(zeros(5), zeros(N, d), edges)", "ValueError", "one score: got scores (5,) for 4 edges."),
    ("csr_attend_edges(zeros(3), zeros(N, d), edges)", "ValueError", "one score: got scores (3,) for 4 edges."),
    ("gat_scores(z, a[:, :-2])", "RuntimeError", "size"),
    ("multi_head_graph_attention(x, zeros(13, 11), a, edges)", "ValueError", "13 features do not divide into 3 heads"),
]
HOLDS = [
    "attend_edges(zeros(H, 0), z, nothing).context.eq(0).all()",
    "csr_attend_edges(zeros(H, 0), z, nothing).context.eq(0).all()",
    "edge_softmax(zeros(0), nothing, 0).shape == (0,)",
    "gat_scores(z[:, :0], a).shape == (H, 0, 0)",
    "gcn_weights(nothing, 0).shape == (0,)",
    "dirichlet_energy(x[:0], nothing).eq(0)",
    "GAT(11, d, 2)(x[:1], nothing).isfinite().all()",
    "GCN(11, d, 2)(x[:0], nothing).shape == (0, 2)",
    "csr_attend_edges(scores, z, edges.int()).context.allclose(attend_edges(scores, z, edges).context, atol=1e-6)",
]
"""Graphs without edges or nodes are not mistakes."""


@cache
def told() -> dict[str, tuple[str, str]]:
    """Map the code of each call to the type of its error, or "nothing", and the text."""
    codes = [code for code, _, _ in REFUSED] + HOLDS
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PREPARE],
        input=json.dumps(codes),
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "PYTHONUTF8": "1"},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {code: (kind, text) for code, (kind, text) in zip(codes, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize(("code", "error", "text"), REFUSED, ids=[code for code, _, _ in REFUSED])
def test_a_mistake_meets_an_error_that_says_what_is_wrong(code, error, text):
    kind, said = told()[code]
    assert (kind, text in said) == (error, True), f"{code} said {kind}: {said}"


@pytest.mark.parametrize("code", HOLDS)
def test_what_is_empty_gives_what_is_stated(code):
    kind, said = told()[code]
    assert kind == "nothing", f"{code} said {kind}: {said}"
    assert said in ("True", "tensor(True)")
