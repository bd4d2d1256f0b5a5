"""Load the weights of Llama, up to 3.3, Mistral, Qwen 2 or Qwen 3 from a Hugging Face checkpoint.

Touvron et al. 2023 (https://arxiv.org/abs/2302.13971). Mistral is a Llama, where it has no windows, as from 0.2 on; in Qwen 2,
queries, keys and values have biases; in Qwen 3 each head normalises its queries and keys. Names and layout of the tensors as in
`transformers` (https://huggingface.co/docs/transformers/model_doc/llama).

There, feature i of a query or key is rotated with feature i + d_k/2; in the paper, in Meta's own files and in `rotate`,
features 2i and 2i + 1 are a pair. The scores are equal if the rows of each head of W_q and W_k are put in the other order, as
`from_llama` does.
"""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_lib.attention import AnyMechanism, MultiHead, QKNorm, StretchedBase, causal_attention
from course_lib.models import Llama
from course_lib.pretrained.checkpoint_reader import Checkpoint, Renaming, load, read_checkpoint, rename

__all__ = ["load_llama"]

_RENAMINGS: tuple[Renaming, ...] = (
    (r"^model\.", ""),
    (r"^embed_tokens\.", "tokens."),
    (r"^norm\.", "stack.closing."),
    (r"^layers\.", "stack.blocks."),
    (r"self_attn\.([qkvo])_proj\.", r"mixer.attention.W_\1."),
    (r"self_attn\.([qk])_norm\.", r"mixer.attention.mechanism.norm_\1."),
    (r"mlp\.(gate|up|down)_proj\.", r"feed_forward.W_\1."),
    (r"input_layernorm\.", "norm_1."),
    (r"post_attention_layernorm\.", "norm_2."),
    (r"^lm_head\.", "readout."),
)

_UNUSED = r"\.rotary_emb\.inv_freq$"
"""The speeds of the rotation, in old files."""

_OTHERS = {
    "gemma": "gains of 1 + w and embeddings times √d_model",
    "gemma2": "norms after each layer as well, windows, and scores bounded by tanh",
    "gemma3_text": "norms after each layer as well, and windows",
    "mixtral": "a mixture of experts",
    "olmo2": "norms after each layer instead of before it",
    "phi3": "one matrix for queries, keys and values",
    "qwen3_moe": "a mixture of experts",
    "smollm3": "layers without positions",
}
"""What other decoders have that `Llama` does not."""

_STRETCH = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
"""Settings of Llama 3.1's `StretchedBase`."""


def load_llama(folder: str | Path, mechanism: AnyMechanism = causal_attention) -> Llama:
    """Load Llama from a folder with config.json and safetensors; a tied output matrix is one with the embedding.

    Args:
        folder: as `transformers` writes it by save_pretrained.
        mechanism: as for `Llama`.

    Raises:
        FileNotFoundError, ImportError: as `read_checkpoint`.
        ValueError: the checkpoint is damaged, or no Llama, Mistral, Qwen 2 or Qwen 3, or its equations differ from those of
            `Llama`: positions scaled otherwise than in Llama 3.1, biases in the networks, windows, another activation, or
            quantized weights.
    """
    checkpoint = read_checkpoint(folder, "llama", "mistral", "qwen2", "qwen3", others=_OTHERS)
    sizes = checkpoint.sizes()
    n_groups = checkpoint.number("num_key_value_heads", sizes.n_heads)
    d_k = checkpoint.number("head_dim", sizes.d_model // sizes.n_heads)
    base = _base(checkpoint)
    epsilon = checkpoint.number("rms_norm_eps", 1e-6, float)
    kind = checkpoint.config.get("model_type")
    bias = kind == "qwen2" or bool(checkpoint.setting("attention_bias", False))
    model = Llama(checkpoint.number("vocab_size"), sizes, n_groups, mechanism, base, epsilon, bias, d_k)
    if kind == "qwen3":
        for attention in (module for module in model.modules() if isinstance(module, MultiHead)):
            attention.mechanism = QKNorm(d_k, attention.mechanism)
    weights = from_llama(checkpoint.tensors, d_k)
    if kind == "qwen2":  # has none there
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
        tensors: the state dict of LlamaForCausalLM. A file of a tied model has no "lm_head.weight": `load_llama` reads it.
        d_k: features of a query or key of one head: `head_dim` of the configuration, or else d_model / n_heads. Another
            divisor orders the rows otherwise, without an error.

    Returns:
        a state dict for `Llama`.

    Raises:
        ValueError: the rows of a matrix do not divide into heads of d_k features, or d_k is odd.
    """
    weights = rename(tensors, _RENAMINGS, _UNUSED)
    rotated = tuple(f"{name}.{kind}" for name in ("W_q", "W_k", "norm_q", "norm_k") for kind in ("weight", "bias"))
    for name, W in weights.items():
        if name.endswith(rotated):
            if d_k < 2 or d_k % 2 or len(W) % d_k:
                raise ValueError(f"{name} with {len(W)} rows does not divide into heads of d_k = {d_k} features in pairs.")
            weights[name] = W.unflatten(0, (-1, 2, d_k // 2)).transpose(1, 2).flatten(0, 2)  # (h, 2, d_k / 2, …)
    return weights


def _base(checkpoint: Checkpoint) -> float | StretchedBase:
    """Return the base of the speeds; ValueError if the equations are not those of `Llama`."""
    folder, config = checkpoint.folder, checkpoint.config
    windows = set(checkpoint.setting("layer_types", [])) - {"full_attention"}
    if config.get("model_type") == "mistral" and config.get("sliding_window", 4096):  # unsaid, it is that of Mistral 0.1
        windows.add("sliding_window")
    if other := [key for key in ("mlp_bias", "use_sliding_window") if config.get(key)] + sorted(windows):
        raise ValueError(f"{folder}: no Llama with biases in its networks or windows can be read: config.json sets {other}.")
    if (activation := checkpoint.setting("hidden_act", "silu")) != "silu":
        raise ValueError(f"{folder}: only a Llama with 'silu' as its activation can be read, got {activation!r}.")
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
