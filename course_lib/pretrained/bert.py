"""Load BERT weights from a Hugging Face checkpoint, without the heads of its pre-training or of other tasks.

Devlin et al. 2019, *BERT* (https://arxiv.org/abs/1810.04805); names of the tensors as in `transformers`
(https://huggingface.co/docs/transformers/model_doc/bert).
"""

from pathlib import Path

from torch import Tensor

from course_lib.attention import AnyMechanism, scaled_dot_product_attention
from course_lib.models import BERT
from course_lib.pretrained.checkpoint_reader import Renaming, load, read_checkpoint, rename

__all__ = ["load_bert"]

_RENAMINGS: tuple[Renaming, ...] = (
    (r"LayerNorm\.gamma$", "LayerNorm.weight"),
    (r"LayerNorm\.beta$", "LayerNorm.bias"),
    (r"^bert\.", ""),
    (r"^embeddings\.word_embeddings\.", "tokens."),
    (r"^embeddings\.token_type_embeddings\.", "segments."),
    (r"^embeddings\.position_embeddings\.weight", "positions.vectors"),
    (r"^embeddings\.LayerNorm\.", "norm."),
    (r"^encoder\.layer\.", "stack.blocks."),
    (r"attention\.self\.([qkv])(?:uery|ey|alue)\.", r"mixer.attention.W_\1."),
    (r"attention\.output\.dense\.", "mixer.attention.W_o."),
    (r"attention\.output\.LayerNorm\.", "norm_1."),
    (r"intermediate\.dense\.", "feed_forward.W_1."),
    (r"(?<=\d\.)output\.dense\.", "feed_forward.W_2."),
    (r"(?<=\d\.)output\.LayerNorm\.", "norm_2."),
)
"""Published names → ours, applied in order. The oldest checkpoints call gain and bias of a norm gamma and beta."""

_UNUSED = r"position_ids$|^cls\.|^(?:bert\.)?pooler\.|^(?:classifier|qa_outputs)\."
"""A buffer, and the heads of pre-training and of other tasks."""


def load_bert(folder: str | Path, mechanism: AnyMechanism = scaled_dot_product_attention) -> BERT:
    """Load BERT without heads from a folder with config.json and safetensors.

    Args:
        folder: as `transformers` writes it by save_pretrained.
        mechanism: as for `BERT`.

    Raises:
        FileNotFoundError, ImportError: as `read_checkpoint`.
        ValueError: the checkpoint is damaged or not a BERT, or its equations differ from those of `BERT`.
    """
    checkpoint = read_checkpoint(folder, "bert")
    if checkpoint.config.get("is_decoder"):
        raise ValueError(f"{folder}: this BERT is a decoder; only the bidirectional encoder can be read.")
    if checkpoint.setting("position_embedding_type", "absolute") != "absolute":
        raise ValueError(f"{folder}: only a BERT with absolute position embeddings can be read.")
    n_tokens, T_max = checkpoint.number("vocab_size"), checkpoint.number("max_position_embeddings")
    n_segments = checkpoint.number("type_vocab_size")
    model = BERT(n_tokens, T_max, checkpoint.sizes(), mechanism, n_segments, checkpoint.activation("hidden_act"))
    load(checkpoint.folder, model, from_bert(checkpoint.tensors), checkpoint.number("layer_norm_eps", 1e-12, float))
    return model


def from_bert(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights of Hugging Face's BERT.

    Args:
        tensors: the state dict of BertModel, or of BERT with the heads of pre-training or of another task.

    Returns:
        a state dict for `BERT`, without the heads.
    """
    return rename(tensors, _RENAMINGS, _UNUSED)
