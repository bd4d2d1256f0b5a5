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
    parts = {"MaskedWordHead", "SentenceHead", "SpanHead", "TagHead", "Encoder", "GATLayer", "GlobalAverage", "LearnedQueries"}
    parts |= {"ObjectBlock", "PatchEncoder", "PointQueries", "PositionalSelfAttention", "PooledDocument"}
    parts |= {"AdaptiveSteps", "SeparateSteps", "SharedSteps", "BahdanauDecoder", "LuongDecoder", "PlainDecoder"}
    parts |= {"LocalLuongDecoder", "AttentionMaps", "MaskHead"}
    exported = {
        name for name in public_names(models) if isinstance(made := getattr(models, name), type) and issubclass(made, nn.Module)
    }
    assert exported - parts == {name.replace(",", " ").split()[0] for name in MODELS}
