"""Load the weights of Llama, up to 3.2, or Qwen 2 from a Hugging Face checkpoint.

Touvron et al. 2023 (https://arxiv.org/abs/2302.13971); Qwen 2 is a Llama whose queries, keys and values have biases. Names and
layout of the tensors as in `transformers` (https://huggingface.co/docs/transformers/model_doc/llama).

There, feature i of a query or key is rotated with feature i + d_k/2; in the paper, in Meta's own files and in `rotate`,
features 2i and 2i + 1 are a pair. The scores are equal if the rows of each head of W_q and W_k are put in the other order, as
`from_llama` does.
"""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_lib.attention import AnyMechanism, StretchedBase, causal_attention
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

_STRETCH = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
"""Settings of Llama 3.1's `StretchedBase`."""


def load_llama(folder: str | Path, mechanism: AnyMechanism = causal_attention) -> Llama:
    """Load Llama from a folder with config.json and safetensors; a tied output matrix is one with the embedding.

    Args:
        folder: as `transformers` writes it by save_pretrained.
        mechanism: as for `Llama`.

    Raises:
        FileNotFoundError, ImportError: as `read_checkpoint`.
        ValueError: the checkpoint is damaged, or neither a Llama nor a Qwen 2, or its equations differ from those of `Llama`:
            positions scaled otherwise than in Llama 3.1, biases in the networks, windows, another activation, heads of
            another size, or quantized weights.
    """
    checkpoint = read_checkpoint(folder, "llama", "qwen2")
    names = ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers")
    sizes = Sizes(*(checkpoint.number(name) for name in names))
    n_groups = checkpoint.number("num_key_value_heads", sizes.n_heads)
    base = _base(checkpoint, sizes)
    epsilon = checkpoint.number("rms_norm_eps", 1e-6, float)
    is_qwen = checkpoint.config.get("model_type") == "qwen2"
    bias = is_qwen or bool(checkpoint.setting("attention_bias", False))
    model = Llama(checkpoint.number("vocab_size"), sizes, n_groups, mechanism, base, epsilon, bias)
    weights = from_llama(checkpoint.tensors, sizes.d_model // sizes.n_heads)
    if is_qwen:  # has none there
        weights |= {name: torch.zeros_like(x) for name, x in model.state_dict().items() if name.endswith("W_o.bias")}
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
        if name.endswith(("W_q.weight", "W_k.weight", "W_q.bias", "W_k.bias")) and len(W) % d_k == 0:
            weights[name] = W.unflatten(0, (-1, 2, d_k // 2)).transpose(1, 2).flatten(0, 2)  # (h, 2, d_k / 2, …)
    return weights


def _base(checkpoint: Checkpoint, sizes: Sizes) -> float | StretchedBase:
    """Return the base of the speeds; ValueError if the equations are not those of `Llama`."""
    folder, config = checkpoint.folder, checkpoint.config
    windows = set(checkpoint.setting("layer_types", [])) - {"full_attention"}
    if other := [key for key in ("mlp_bias", "use_sliding_window") if config.get(key)] + sorted(windows):
        raise ValueError(f"{folder}: no Llama with biases in its networks or windows can be read: config.json sets {other}.")
    if (activation := checkpoint.setting("hidden_act", "silu")) != "silu":
        raise ValueError(f"{folder}: only a Llama with 'silu' as its activation can be read, got {activation!r}.")
    if (d_k := checkpoint.number("head_dim", sizes.d_model // sizes.n_heads)) * sizes.n_heads != sizes.d_model:
        raise ValueError(f"{folder}: {sizes.n_heads} heads of {d_k} features do not make the {sizes.d_model} of a token.")
    if config.get("quantization_config"):
        raise ValueError(f"{folder}: quantized weights cannot be read; save the model without quantization.")
    base, stretch = checkpoint.setting("rope_theta", 10_000.0), None
    for key in ("rope_parameters", "rope_scaling"):
        rope = checkpoint.setting(key, {})
        kinds = {str(rope[name]) for name in ("rope_type", "type") if name in rope} if isinstance(rope, dict) else {"none"}
        if kinds - {"default"} not in (set(), {"llama3"}) or len(kinds) > 1 or rope.get("partial_rotary_factor", 1.0) != 1.0:
            raise ValueError(f"{folder}: only positions that are not scaled, or as 'llama3', can be read, got {key} = {rope}.")
        if kinds == {"llama3"}:
            stretch = [_positive(folder, name, rope.get(name)) for name in _STRETCH]
        base = rope.get("rope_theta", base)
    base = _positive(folder, "rope_theta", base)
    if stretch and stretch[1] >= stretch[2]:
        raise ValueError(f"{folder}: 'low_freq_factor' must be below 'high_freq_factor', got {stretch[1]} and {stretch[2]}.")
    return StretchedBase(base, *stretch) if stretch else base


def _positive(folder: Path, name: str, found: Any) -> float:
    if type(found) not in (int, float) or not 0 < found < math.inf:
        raise ValueError(f"{folder}: {name!r} in config.json must be a positive number, got {found!r}.")
    return float(found)
