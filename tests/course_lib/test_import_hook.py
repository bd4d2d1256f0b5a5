"""The import hook of docs/library.md: a model computes as before, and shapes that would broadcast are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("beartype", reason="beartype is not installed")

ROOT = Path(__file__).parents[2]
CODE = """
import jaxtyping
import torch
from course_lib.attention import scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.losses import next_token_loss
from course_lib.models import GPT

gpt, tokens = GPT(13, 7, Sizes(8, 2, 16, 1)), torch.randint(13, (2, 7))
next_token_loss(gpt(tokens), tokens).backward()
with torch.autocast("cpu", torch.bfloat16):
    assert gpt(tokens).dtype == torch.bfloat16
try:
    scaled_dot_product_attention(torch.ones(2, 5, 3), torch.ones(1, 7, 3), torch.ones(2, 7, 4))
except TypeError as error:
    assert "parameter 'k'" in str(error), error
else:
    raise SystemExit("one sequence of keys was shared by two of queries")
jaxtyping.config.update("jaxtyping_disable", True)
torch.testing.assert_close(torch.compile(gpt, backend="eager")(tokens), gpt(tokens))
"""


def test_the_hook_of_the_docs_checks_a_model_and_refuses_shapes_that_broadcast():
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    hook = page[page.index("from jaxtyping import install_import_hook") :].partition("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", hook + CODE], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
