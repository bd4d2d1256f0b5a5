"""Load Llama weights from a Hugging Face checkpoint.

Touvron et al. 2023 (https://arxiv.org/abs/2302.13971); names and layout of the tensors as in `transformers`
(https://huggingface.co/docs/transformers/model_doc/llama).

There, feature i of a query or key is rotated with feature i + d_k/2; in the paper, in Meta's own files and in `rotate`,
features 2i and 2i + 1 are a pair. The scores are equal if the rows of each head of W_q and W_k are put in the other order, as
`from_llama` does.
"""

import math
from pathlib import Path

from torch import Tensor

from course_lib.attention import AnyMechanism, causal_attention
from course_lib.blocks import Sizes
from course_lib.models import Llama
from course_lib.pretrained.checkpoint_reader import Checkpoint, Renaming, load, read_checkpoint, rename

__all__ = ["load_llama"]

_RENAMINGS: tuple[Renaming, ...] = (
    (r"^model\.", ""),
    (r"^embed_tokens\.", "tokens."),
    (r"^norm\.", "stack.closing."),
    (r"^layers\.", "stack.blocks."),
    (r"self_attn\.([qkvo])_proj\.", r"mixer.attention.W_\1."),
    (r"mlp\.(gate|up|down)_proj\.", r"feed_forward.W_\1."),
    (r"input_layernorm\.", "norm_1."),
    (r"post_attention_layernorm\.", "norm_2."),
    (r"^lm_head\.", "readout."),
)

_UNUSED = r"\.rotary_emb\.inv_freq$"
"""The speeds of the rotation, in old files."""

_PLAIN = {"rope_type": "default", "type": "default", "partial_rotary_factor": 1.0}
"""Settings of rotary positions without scaling; each may be missing."""


def load_llama(folder: str | Path, mechanism: AnyMechanism = causal_attention) -> Llama:
    """Load Llama from a folder with config.json and safetensors; a tied output matrix is one with the embedding.

    Args:
        folder: as `transformers` writes it by save_pretrained.
        mechanism: as for `Llama`.

    Raises:
        FileNotFoundError, ImportError: as `read_checkpoint`.
        ValueError: the checkpoint is damaged or not a Llama, or its equations differ from those of `Llama`: scaled positions,
            biases, another activation, heads of another size, or quantized weights.
    """
    checkpoint = read_checkpoint(folder, "llama")
    names = ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers")
    sizes = Sizes(*(checkpoint.number(name) for name in names))
    n_groups = checkpoint.number("num_key_value_heads", sizes.n_heads)
    base = _base(checkpoint, sizes)
    epsilon = checkpoint.number("rms_norm_eps", 1e-6, float)
    model = Llama(checkpoint.number("vocab_size"), sizes, n_groups, mechanism, base, epsilon)
    weights = from_llama(checkpoint.tensors, sizes.d_model // sizes.n_heads)
    if checkpoint.setting("tie_word_embeddings", False):
        checkpoint.require_tied("lm_head.weight", "model.embed_tokens.weight")
        model.readout.weight = model.tokens.weight
        weights |= {"readout.weight": weights["tokens.weight"]} if "tokens.weight" in weights else {}
    load(checkpoint.folder, model, weights, epsilon)
    return model


def from_llama(tensors: dict[str, Tensor], d_k: int) -> dict[str, Tensor]:
    """Rename the weights of Hugging Face's Llama, and put the features that are rotated together next to each other.

    Args:
        tensors: the state dict of LlamaForCausalLM.
        d_k: features of a query or key, of one head.

    Returns:
        a state dict for `Llama`.
    """
    weights = rename(tensors, _RENAMINGS, _UNUSED)
    for name, W in weights.items():
        if name.endswith(("W_q.weight", "W_k.weight")) and len(W) % d_k == 0:
            weights[name] = W.unflatten(0, (-1, 2, d_k // 2)).transpose(1, 2).flatten(0, 2)  # (h, 2, d_k / 2, d_model)
    return weights


def _base(checkpoint: Checkpoint, sizes: Sizes) -> float:
    """Return the base of the speeds; ValueError if the equations are not those of the paper."""
    folder, config = checkpoint.folder, checkpoint.config
    if biased := [key for key in ("attention_bias", "mlp_bias") if config.get(key)]:
        raise ValueError(f"{folder}: only a Llama without biases can be read, but config.json sets {biased}.")
    if (activation := checkpoint.setting("hidden_act", "silu")) != "silu":
        raise ValueError(f"{folder}: only a Llama with 'silu' as its activation can be read, got {activation!r}.")
    if (d_k := checkpoint.number("head_dim", sizes.d_model // sizes.n_heads)) * sizes.n_heads != sizes.d_model:
        raise ValueError(f"{folder}: {sizes.n_heads} heads of {d_k} features do not make the {sizes.d_model} of a token.")
    if config.get("quantization_config"):
        raise ValueError(f"{folder}: quantized weights cannot be read; save the model without quantization.")
    base = checkpoint.setting("rope_theta", 10_000.0)
    for key in ("rope_parameters", "rope_scaling"):
        rope = checkpoint.setting(key, {})
        if not isinstance(rope, dict) or any(rope.get(name, plain) != plain for name, plain in _PLAIN.items()):
            raise ValueError(f"{folder}: only rotary positions without scaling can be read, got {key} = {rope}.")
        base = rope.get("rope_theta", base)
    if not isinstance(base, int | float) or not 0 < base < math.inf:
        raise ValueError(f"{folder}: 'rope_theta' in config.json must be a positive number, got {base!r}.")
    return float(base)
