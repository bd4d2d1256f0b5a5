"""Load BERT weights from a Hugging Face checkpoint, with or without the heads of its pre-training.

Devlin et al. 2019, *BERT* (https://arxiv.org/abs/1810.04805); names of the tensors as in `transformers`
(https://huggingface.co/docs/transformers/model_doc/bert).
"""

from pathlib import Path

from torch import Tensor

from course_lib.attention import AnyMechanism, scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.models import BERT, PretrainingBERT
from course_lib.pretrained.checkpoint_reader import Checkpoint, Renaming, load, read_checkpoint, rename

__all__ = ["load_bert", "load_pretraining_bert"]

_RENAMINGS: tuple[Renaming, ...] = (
    (r"LayerNorm\.gamma$", "LayerNorm.weight"),
    (r"LayerNorm\.beta$", "LayerNorm.bias"),
    (r"^(?=embeddings|encoder|pooler)", "bert."),
    (r"^bert\.embeddings\.word_embeddings\.", "bert.tokens."),
    (r"^bert\.embeddings\.token_type_embeddings\.", "bert.segments."),
    (r"^bert\.embeddings\.position_embeddings\.weight", "bert.positions.vectors"),
    (r"^bert\.embeddings\.LayerNorm\.", "bert.norm."),
    (r"^bert\.encoder\.layer\.", "bert.stack.blocks."),
    (r"attention\.self\.([qkv])(?:uery|ey|alue)\.", r"mixer.attention.W_\1."),
    (r"attention\.output\.dense\.", "mixer.attention.W_o."),
    (r"attention\.output\.LayerNorm\.", "norm_1."),
    (r"intermediate\.dense\.", "feed_forward.W_1."),
    (r"(?<=\d\.)output\.dense\.", "feed_forward.W_2."),
    (r"(?<=\d\.)output\.LayerNorm\.", "norm_2."),
    (r"^bert\.pooler\.dense\.", "follows.pool."),
    (r"^cls\.seq_relationship\.", "follows.classify."),
    (r"^cls\.predictions\.transform\.dense\.", "words.transform."),
    (r"^cls\.predictions\.transform\.LayerNorm\.", "words.norm."),
    (r"^cls\.predictions\.bias$", "words.bias"),
)
"""Published names → ours, applied in order. The oldest checkpoints call gain and bias of a norm gamma and beta."""

_UNUSED = r"position_ids$|^cls\.predictions\.decoder\.|^(?:classifier|qa_outputs)\."
"""A buffer, the output matrix and its bias, which are the embedding and `words.bias`, and the heads of other tasks."""


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
    model = _empty_bert(checkpoint, mechanism)
    weights = from_bert(checkpoint.tensors).items()
    encoder = {name.removeprefix("bert."): tensor for name, tensor in weights if not name.startswith(("words.", "follows."))}
    load(model, encoder, checkpoint.number("layer_norm_eps", 1e-12, float))
    return model


def load_pretraining_bert(folder: str | Path, mechanism: AnyMechanism = scaled_dot_product_attention) -> PretrainingBERT:
    """Load BERT with both heads of its pre-training, as `load_bert`.

    Raises:
        FileNotFoundError, ImportError: as `read_checkpoint`.
        ValueError: as `load_bert`.
        RuntimeError: the checkpoint has no heads.
    """
    checkpoint = read_checkpoint(folder, "bert")
    checkpoint.require_tied(
        "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight", "embeddings.word_embeddings.weight"
    )
    checkpoint.require_tied("cls.predictions.decoder.bias", "cls.predictions.bias")
    model = PretrainingBERT(_empty_bert(checkpoint, mechanism), checkpoint.activation("hidden_act"))
    weights = from_bert(checkpoint.tensors)
    load(model, weights, checkpoint.number("layer_norm_eps", 1e-12, float))
    return model


def from_bert(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights of Hugging Face's BERT.

    Args:
        tensors: the state dict of BertForPreTraining, BertModel, or BERT with the head of another task.

    Returns:
        a state dict for `PretrainingBERT`, without the heads that are missing.
    """
    return rename(tensors, _RENAMINGS, _UNUSED)


def _empty_bert(checkpoint: Checkpoint, mechanism: AnyMechanism) -> BERT:
    """Build the BERT that the configuration describes; ValueError if its equations are not those of the paper."""
    if checkpoint.config.get("is_decoder"):
        raise ValueError(f"{checkpoint.folder}: this BERT is a decoder; only the bidirectional encoder can be read.")
    if checkpoint.setting("position_embedding_type", "absolute") != "absolute":
        raise ValueError(f"{checkpoint.folder}: only a BERT with absolute position embeddings can be read.")
    names = ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers")
    return BERT(
        checkpoint.number("vocab_size"),
        checkpoint.number("max_position_embeddings"),
        Sizes(*(checkpoint.number(name) for name in names)),
        mechanism,
        checkpoint.number("type_vocab_size"),
        checkpoint.activation("hidden_act"),
    )
