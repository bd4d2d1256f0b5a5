"""mypy is clean on the library, and reports the planted errors of users."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy is not installed")

ROOT = Path(__file__).parents[2]
N_FILES = len(list((ROOT / "course_lib").rglob("*.py")))
HEAD = """
import torch
from course_lib.attention import (
    Attended, ContextOnly, GeneralAttention, Mechanism, MultiHead,
    causal_attention, dot_attention, linear_attention, scaled_dot_product_attention,
)
from course_lib.blocks import SelfAttention, Sizes, encoder_stack, pre_norm
from course_lib.fast import fused_causal_attention, fused_dot_attention
from course_lib.models import GPT, Encoded
from course_lib.models.bahdanau import bahdanau_steps
from course_lib.primitives import GRU, causal_mask, iou

q = k = v = torch.randn(2, 3, 5)
sizes = Sizes(12, 3, 24, 2)


def needs_weights(mechanism: Mechanism) -> torch.Tensor:
    return mechanism(q, k, v).weights
"""
CLEAN = """
needs_weights(dot_attention)
GPT(11, 7, sizes, fused_causal_attention)
GPT(11, 7, sizes, causal_attention)
encoder_stack(sizes, scaled_dot_product_attention, residual=pre_norm)
weights_of_heads: torch.Tensor = MultiHead(12, 3)(q, k, v).weights.mean(0)
general: torch.Tensor = MultiHead(12, 3, GeneralAttention(4, 4))(q, k, v).context
context: torch.Tensor = fused_dot_attention(q, k, v).context
weights: torch.Tensor = scaled_dot_product_attention(q, k, v, causal_mask(3)).weights.mean(0)
"""
PLANTED = {
    "needs_weights(fused_dot_attention)": 'incompatible type "Callable[[Tensor, Tensor, Tensor, Tensor | None], ContextOnly]"',
    "fused_causal_attention(q, k, v).weights.mean(0)": '"None" has no attribute "mean"',
    "MultiHead(12, 3, fused_causal_attention)(q, k, v).weights.mean(0)": '"None" has no attribute "mean"',
    "needs_weights(linear_attention)": "arg-type",
    "GPT(11, 7, 12)": 'incompatible type "int"; expected "Sizes"',
    "GPT(11, 7, sizes, 'causal')": 'incompatible type "str"; expected "MechanismOf[Attended | ContextOnly]"',
    "encoder_stack(sizes, residual='pre')": 'incompatible type "str"; expected "Callable[..., Tensor]"',
    "encoder_stack(sizes, n_layers=3)": 'Unexpected keyword argument "n_layers"',
    "dot_attention(q, k)": 'Missing positional argument "v"',
    "causal_mask(3.5)": 'incompatible type "float"; expected "int"',
    "GRU(3, 5, run='fused')": 'incompatible type "str"',
    "iou(q, k).n": '"Tensor" has no attribute "n"',
    "SelfAttention(causal_attention)": 'Argument 1 to "SelfAttention" has incompatible type',
    "encoder_stack(sizes).read(q)[1].keys": 'has no attribute "keys"',
    "bahdanau_steps(q, q[0], Encoded(k, v, q[0], causal_mask(3)), fused_dot_attention, GRU(8, 5))": (
        'Argument 4 to "bahdanau_steps" has incompatible type "Callable[[Tensor, Tensor, Tensor, Tensor | None], ContextOnly]"'
    ),
    "lone: int = dot_attention(q, k, v).context": "assignment",
}


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """The errors of one run over the library and a file with all planted errors: by line of that file, and its output."""
    path = tmp_path_factory.mktemp("user") / "user.py"
    path.write_text(HEAD + CLEAN + "\n".join(PLANTED) + "\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": "", "MYPYPATH": str(ROOT)}
    command = [sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "course_lib", str(path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    first = (HEAD + CLEAN).count("\n") + 1
    lines = [line for line in done.stdout.splitlines() if ": error: " in line and "user.py" in line]
    return {int(line.split("user.py:")[1].partition(":")[0]) - first: line for line in lines}, done.stdout + done.stderr


@pytest.mark.slow
def test_the_library_is_clean(reported):
    _, output = reported
    assert re.search(rf"Found \d+ errors in 1 file \(checked {N_FILES + 1} source files\)", output), output


@pytest.mark.slow
@pytest.mark.parametrize("snippet", PLANTED)
def test_a_planted_error_is_reported(reported, snippet):
    found, output = reported
    assert PLANTED[snippet] in found.get(list(PLANTED).index(snippet), ""), output


@pytest.mark.slow
def test_correct_code_is_clean(reported):
    found, output = reported
    assert set(found) <= set(range(len(PLANTED))), output
