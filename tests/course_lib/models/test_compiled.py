"""Every model compiles as one graph (`torch.compile(fullgraph=True)`) and exports for any batch, with the same outputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

from course_lib import models
from tests.course_lib.models.compiled import MODELS
from tests.public_names import public_names


@pytest.fixture(scope="module")
def outcomes():
    """In a separate process: under pytest, a shape check wraps every function of the library."""
    script = Path(__file__).with_name("compiled.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("way", ["compile", "export"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_one_graph_with_the_same_outputs(outcomes, name, way):
    assert outcomes[name][way] == ""


def test_every_model_is_among_them():
    """A model is a class that the package exports and that is not a part of another; the inputs of `forward` are above."""
    parts = {"MaskedWordHead", "SentenceHead", "SpanHead", "TagHead", "Encoder", "GATLayer"}
    parts |= {"ObjectBlock", "PatchEncoder", "PositionalSelfAttention", "PooledDocument"}
    parts |= {"AdaptiveSteps", "SeparateSteps", "SharedSteps", "BahdanauDecoder", "LuongDecoder", "PlainDecoder"}
    parts |= {"LocalLuongDecoder"}
    exported = {
        name for name in public_names(models) if isinstance(made := getattr(models, name), type) and issubclass(made, nn.Module)
    }
    assert exported - parts == {name.replace(",", " ").split()[0] for name in MODELS}


ANY_LENGTH = """
import torch
from course_lib.blocks import Sizes
from course_lib.models import BERT

bert, tokens, any_size = BERT(7, 11, Sizes(6, 3, 11, 1)).eval(), torch.ones(3, 5).long(), torch.export.Dim.DYNAMIC
two, one = {0: any_size, 1: any_size}, {0: any_size}
inputs = tokens, tokens * 0, torch.tensor([2, 3, 5])
program = torch.export.export(bert, inputs, dynamic_shapes=(two, two, one), strict=True).module()
larger = torch.ones(4, 9).long(), torch.zeros(4, 9).long(), torch.tensor([2, 9, 5, 1])
torch.testing.assert_close(program(*larger), bert(*larger))
"""


@pytest.mark.full
@pytest.mark.slow
def test_a_model_is_traced_for_any_number_of_tokens():
    """Checks of arguments must not ask a symbolic size for its attributes."""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", ANY_LENGTH], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
