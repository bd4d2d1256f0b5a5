"""Load GPT-2 weights from a Hugging Face checkpoint.

Radford et al. 2019, *Language Models are Unsupervised Multitask Learners*
(https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf); names and layout of the
tensors as in `transformers` (https://huggingface.co/docs/transformers/model_doc/gpt2).
"""

from pathlib import Path

from torch import Tensor

from course_lib.attention import AnyMechanism, causal_attention
from course_lib.blocks import Sizes
from course_lib.models import GPT
from course_lib.pretrained.checkpoint_reader import Renaming, load, read_checkpoint, rename

__all__ = ["load_gpt2"]

_RENAMINGS: tuple[Renaming, ...] = (
    (r"^transformer\.", ""),
    (r"^wte\.", "tokens."),
    (r"^wpe\.weight$", "positions.vectors"),
    (r"^ln_f\.", "stack.closing."),
    (r"^h\.", "stack.blocks."),
    (r"attn\.c_attn\.", "mixer.attention.W_qkv."),
    (r"attn\.c_proj\.", "mixer.attention.W_o."),
    (r"mlp\.c_fc\.", "feed_forward.W_1."),
    (r"mlp\.c_proj\.", "feed_forward.W_2."),
    (r"\.ln_([12])\.", r".norm_\1."),
)

_UNUSED = r"^lm_head\.weight$|\.attn\.(?:masked_)?bias$"
"""The output matrix, which is the embedding, and causal masks in old files."""
_HEADS = ("score.", "classifier.", "qa_outputs.", "multiple_choice_head.")
"""How the names of heads for other tasks begin."""


def load_gpt2(folder: str | Path, mechanism: AnyMechanism = causal_attention) -> GPT:
    """Load GPT-2 from a folder with config.json and safetensors.

    Args:
        folder: as `transformers` writes it by save_pretrained.
        mechanism: as for `GPT`.

    Raises:
        FileNotFoundError, ImportError: as `read_checkpoint`.
        ValueError: the checkpoint is damaged or not a GPT-2, has a head for another task, or its equations differ from those of
            `GPT`.
    """
    checkpoint = read_checkpoint(folder, "gpt2")
    if checkpoint.config.get("scale_attn_by_inverse_layer_idx") or not checkpoint.setting("scale_attn_weights", True):
        raise ValueError(f"{folder}: this GPT-2 scales its scores otherwise than by √d_k.")
    if heads := [name for name in checkpoint.tensors if name.startswith(_HEADS)]:
        raise ValueError(f"{folder}: this GPT-2 has a head for another task, {heads}; a language model is expected.")
    d_model = checkpoint.number("n_embd")
    sizes = Sizes(d_model, checkpoint.number("n_head"), checkpoint.number("n_inner", 4 * d_model), checkpoint.number("n_layer"))
    n_tokens, T_max = checkpoint.number("vocab_size"), checkpoint.number("n_positions")
    model = GPT(n_tokens, T_max, sizes, mechanism, checkpoint.activation("activation_function", "gelu_new"))
    checkpoint.require_tied("lm_head.weight", "transformer.wte.weight", "wte.weight")
    load(checkpoint.folder, model, from_gpt2(checkpoint.tensors), checkpoint.number("layer_norm_epsilon", 1e-5, float))
    return model


def from_gpt2(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights of Hugging Face's GPT-2; its matrices are (in, out), with queries, keys and values in one.

    Args:
        tensors: the state dict of GPT2LMHeadModel or GPT2Model.

    Returns:
        a state dict for `GPT`.
    """
    weights: dict[str, Tensor] = {}
    for name, tensor in rename(tensors, _RENAMINGS, _UNUSED).items():
        ours = tensor.mT if ".W_" in name and tensor.dim() == 2 else tensor
        if name.endswith(("W_qkv.weight", "W_qkv.bias")) and ours.dim() and len(ours) % 3 == 0:
            parts = zip("qkv", ours.chunk(3), strict=True)
            weights |= {name.replace("qkv", letter): part for letter, part in parts}
        else:
            weights[name] = ours
    return weights
