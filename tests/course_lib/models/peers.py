"""Published models, tiny and with random weights, and ours with the same weights; skipped without `transformers`."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from torch import nn

from course_lib.blocks import DecoderBlock, Sizes, Stack
from course_lib.models import GPT, PretrainingBERT, Transformer
from course_lib.pretrained.bert import from_bert
from course_lib.pretrained.checkpoint_reader import ACTIVATIONS, rename
from course_lib.pretrained.gpt2 import from_gpt2

REASON = "transformers is not installed: pip install -e '.[peers]'"
SIZES = Sizes(d_model=21, n_heads=3, d_ff=29, n_layers=2)
HEADS = (
    (r"^bert\.pooler\.dense\.", "follows.pool."),
    (r"^cls\.seq_relationship\.", "follows.classify."),
    (r"^cls\.predictions\.transform\.dense\.", "words.transform."),
    (r"^cls\.predictions\.transform\.LayerNorm\.", "words.norm."),
    (r"^cls\.predictions\.bias$", "words.bias"),
)
"""Published names of the heads of BERT's pre-training, and those of `PretrainingBERT`."""
N_TOKENS, T_MAX = 37, 13


@torch.no_grad()
def shaken(module: nn.Module) -> nn.Module:
    """Redraw every weight with a large variance, including biases and gains, so that a swap of two is detected."""
    generator = torch.Generator().manual_seed(5)
    for parameter in module.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return module.eval()


def gpt2(activation: str = "gelu_new", **settings: object) -> nn.Module:
    """Hugging Face's GPT-2 with a head."""
    transformers = pytest.importorskip("transformers", reason=REASON)
    config = transformers.GPT2Config(
        vocab_size=N_TOKENS,
        n_positions=T_MAX,
        n_embd=SIZES.d_model,
        n_head=SIZES.n_heads,
        n_inner=SIZES.d_ff,
        n_layer=SIZES.n_layers,
        activation_function=activation,
        attn_implementation="eager",
        bos_token_id=1,
        eos_token_id=2,
        **settings,
    )
    return shaken(transformers.GPT2LMHeadModel(config))


def bert(kind: str = "BertForPreTraining", **settings: object) -> nn.Module:
    """Hugging Face's BERT, by default with the heads of its pre-training."""
    transformers = pytest.importorskip("transformers", reason=REASON)
    config = transformers.BertConfig(
        vocab_size=N_TOKENS,
        max_position_embeddings=T_MAX,
        hidden_size=SIZES.d_model,
        num_attention_heads=SIZES.n_heads,
        intermediate_size=SIZES.d_ff,
        num_hidden_layers=SIZES.n_layers,
        attn_implementation="eager",
        **settings,
    )
    return shaken(getattr(transformers, kind)(config))


def llama(n_groups: int = 2, kind: str = "Llama", **settings: object) -> nn.Module:
    """Hugging Face's Llama, or Qwen2, with a head: four heads of six features, in groups."""
    transformers = pytest.importorskip("transformers", reason=REASON)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=N_TOKENS,
        hidden_size=24,
        num_attention_heads=4,
        num_key_value_heads=n_groups,
        intermediate_size=SIZES.d_ff,
        num_hidden_layers=SIZES.n_layers,
        attn_implementation="eager",
        **settings,
    )
    return shaken(getattr(transformers, f"{kind}ForCausalLM")(config))


def our_gpt(theirs: nn.Module, activation: str = "gelu_new") -> GPT:
    """Our GPT with the weights of theirs."""
    ours = GPT(N_TOKENS, T_MAX, SIZES, activation=ACTIVATIONS[activation])
    ours.load_state_dict(from_gpt2(theirs.state_dict()))
    return ours


def our_bert(theirs: nn.Module) -> PretrainingBERT:
    """Our BERT with the weights of theirs."""
    from course_lib.models import BERT

    ours = PretrainingBERT(BERT(N_TOKENS, T_MAX, SIZES))
    weights = theirs.state_dict()
    heads = rename(weights, HEADS, r"^bert\.(?!pooler)|decoder")
    ours.load_state_dict({f"bert.{name}": tensor for name, tensor in from_bert(weights).items()} | heads)
    return ours


def saved(model: nn.Module, folder: Path, **settings: object) -> Path:
    """A folder written by save_pretrained, without its progress bar."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    model.save_pretrained(folder, **settings)
    return folder


def take_from_torch(ours: Transformer, theirs: nn.Transformer) -> None:
    """Copy the layers of torch.nn.Transformer into ours."""
    take_stack(ours.encoder, theirs.encoder.layers)
    take_stack(ours.decoder, theirs.decoder.layers)


@torch.no_grad()
def take_stack(ours: Stack, theirs: Iterable[nn.Module]) -> None:
    """Copy layers of torch's encoder or decoder into a stack of ours."""
    for block, layer in zip(ours.blocks, theirs, strict=True):
        _copy_attention(block.mixer.attention, layer.self_attn)
        norms = [(block.norm_1, layer.norm1), (block.norm_2, layer.norm2)]
        if isinstance(block, DecoderBlock):
            _copy_attention(block.cross.attention, layer.multihead_attn)
            norms.append((block.norm_3, layer.norm3))
        for mine, other in [*norms, (block.feed_forward.W_1, layer.linear1), (block.feed_forward.W_2, layer.linear2)]:
            mine.load_state_dict(other.state_dict())


def _copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    for kind, joined in (("weight", theirs.in_proj_weight), ("bias", theirs.in_proj_bias)):
        for name, part in zip(("W_q", "W_k", "W_v"), joined.chunk(3), strict=True):
            getattr(getattr(ours, name), kind).copy_(part)
    ours.W_o.load_state_dict(theirs.out_proj.state_dict())


def outputs_of(layers: nn.ModuleList, run: Callable[[], object]) -> list[torch.Tensor]:
    """The results of each layer while `run` runs."""
    seen = []
    hooks = [layer.register_forward_hook(lambda _m, _i, out: seen.append(out)) for layer in layers]
    run()
    for hook in hooks:
        hook.remove()
    return seen
