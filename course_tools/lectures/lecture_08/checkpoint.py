"""The BERT that the study 08_checkpoint pre-trains: its weights in float16, written by the study and read by the lecture."""

import hashlib
import io
from pathlib import Path

import torch

from course_lib.attention import AnyMechanism, scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.models import BERT, PretrainingBERT
from course_tools.lectures.lecture_08.date_pairs import T_MAX, DateTexts

SIZES = Sizes(d_model=64, n_heads=4, d_ff=256, n_layers=2)
WEIGHTS = Path(__file__).with_name("pretrained.pt")


class OtherWeights(ValueError):
    """The stored weights are not those of the study's record."""


def new_bert(texts: DateTexts, mechanism: AnyMechanism = scaled_dot_product_attention) -> PretrainingBERT:
    """Create an untrained BERT with both heads, for pairs of dates."""
    return PretrainingBERT(BERT(texts.mask + 1, T_MAX, SIZES, mechanism))


def save(model: PretrainingBERT, path: Path = WEIGHTS) -> str:
    """Write the weights in float16, and return the digest of the file, of 16 digits."""
    buffer = io.BytesIO()
    torch.save({name: weights.half().cpu() for name, weights in model.state_dict().items()}, buffer)
    path.write_bytes(buffer.getvalue())
    return digest(path)


def digest(path: Path = WEIGHTS) -> str:
    """Hash the file of the weights to 16 digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def load(texts: DateTexts, expected: str, mechanism: AnyMechanism = scaled_dot_product_attention) -> PretrainingBERT:
    """Read the weights into a BERT in evaluation mode.

    Args:
        texts: whose vocabulary the study used.
        expected: the digest of the file, as the study recorded it.
        mechanism: `scaled_dot_product_attention`, whose weights can be looked at, or a fused form.

    Raises:
        OtherWeights: the file has another digest.
    """
    if digest(WEIGHTS) != expected:
        found = f"{WEIGHTS.name} has the digest {digest(WEIGHTS)}, the record {expected}"
        raise OtherWeights(f"{found}: run `course study 08_checkpoint`.")
    model = new_bert(texts, mechanism)
    model.load_state_dict({name: weights.float() for name, weights in torch.load(WEIGHTS, weights_only=True).items()})
    return model.eval()
