"""BERT: a stack of blocks that look both ways, trained to restore words that were taken out.

Devlin, Chang, Lee, Toutanova 2019, *BERT*, section 3 and figure 2 (https://arxiv.org/abs/1810.04805):

    h_0 = Norm(E[token] + S[segment] + P[position])        h_l = Block_l(h_{l-1})

    p(word) = softmax(E Norm(GELU(W h_L + b)) + c)          at the places that were masked
    p(next sentence) = softmax(W' tanh(W_p h_L[CLS] + b_p) + b')

Post-norm, GELU, ε = 1e-12, as published; weights start as the paper's at its width (`blocks.draw_weights`). There is no
dropout.
"""

import re
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import Mechanism, scaled_dot_product_attention
from course_lib.blocks.block import post_norm
from course_lib.blocks.stack import Sizes, draw_weights, encoder_stack
from course_lib.models.bert_heads import MaskedWordHead, SentenceHead
from course_lib.pretrained.checkpoint_reader import read_checkpoint, require_tied
from course_lib.primitives import LearnedPositions, padding_mask
from course_lib.shapes import Lengths, Tokens

BertNorm = partial(nn.LayerNorm, eps=1e-12)


class BERT(nn.Module):
    """The encoder, from tokens to states; what a task needs on top stands in `bert_heads`."""

    def __init__(
        self,
        n_tokens: int,
        T_max: int,
        sizes: Sizes,
        mechanism: Mechanism = scaled_dot_product_attention,
        n_segments: int = 2,
    ) -> None:
        """Set up the model.

        Args:
            n_tokens: size of the vocabulary.
            T_max: the longest sequence; there is a learned position for each of its tokens.
            sizes: d_model, n_heads, d_ff (4 · d_model in the paper), n_layers.
            mechanism: what each head does; `fused_scaled_dot_product_attention` is faster and shows no weights.
            n_segments: sentences that a sequence can be made of.
        """
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, sizes.d_model)
        self.segments = nn.Embedding(n_segments, sizes.d_model)
        self.positions = LearnedPositions(T_max, sizes.d_model)
        self.norm = BertNorm(sizes.d_model)
        self.stack = encoder_stack(sizes, mechanism, F.gelu, post_norm, BertNorm)
        draw_weights(self, sizes.d_model)

    def forward(
        self, tokens: Tokens, segments: Tokens | None = None, lengths: Lengths | None = None
    ) -> Float[Tensor, "B T d_model"]:
        """Read a batch.

        Args:
            tokens: (B, T), T ≤ T_max; a sentence as `objectives.segment_input` lays it out, then padding.
            segments: (B, T), which sentence each token belongs to; None = all to the first.
            lengths: (B,), real tokens of each sequence; None = all have T.

        Returns:
            states (B, T, d_model); those at padding mean nothing.

        Raises:
            ValueError: there are more than T_max tokens, or a length is longer than T.
        """
        of_segments = self.segments.weight[0] if segments is None else self.segments(segments)
        x = self.norm(self.tokens(tokens) + of_segments + self.positions(tokens.shape[1]))
        return self.stack(x) if lengths is None else self.stack(x, padding_mask(lengths, tokens.shape[1]))

    @classmethod
    def from_pretrained(cls, folder: str | Path, mechanism: Mechanism = scaled_dot_product_attention) -> "BERT":
        """Read BERT as Hugging Face stores it: config.json and safetensors in one folder; heads are left out.

        Args:
            folder: as `transformers` writes it by save_pretrained.
            mechanism: as above.

        Raises:
            FileNotFoundError, ImportError: as `models.read_checkpoint`.
            ValueError: it is no BERT, or one whose equations differ from those above.
        """
        config, tensors = read_checkpoint(folder, "bert")
        model = cls(*_published_sizes(config, folder), mechanism, config["type_vocab_size"])
        _set_epsilon(model, config)
        weights = from_bert(tensors)
        model.load_state_dict({k.removeprefix("bert."): w for k, w in weights.items() if k.startswith("bert.")})
        return model


class Pretraining(NamedTuple):
    """What BERT says in pre-training: logits `words` (B, T, n_tokens) for each place, `follows` (B, 2): [yes, no]."""

    words: Float[Tensor, "B T n_tokens"]
    follows: Float[Tensor, "B 2"]


class PretrainingBERT(nn.Module):
    """BERT with its two heads: for masked words, and for whether the second sentence follows the first."""

    def __init__(self, bert: BERT) -> None:
        """Put heads on an encoder; the head for words shares its embedding."""
        super().__init__()
        d_model = bert.tokens.embedding_dim
        self.bert = bert
        self.words = MaskedWordHead(d_model, bert.tokens.num_embeddings)
        self.follows = SentenceHead(d_model, 2)
        draw_weights(self.words, d_model)
        draw_weights(self.follows, d_model)

    def forward(self, tokens: Tokens, segments: Tokens | None = None, lengths: Lengths | None = None) -> Pretraining:
        """Read a batch as `BERT` does; give the logits of both tasks, class 0 of the second for "it follows"."""
        states = self.bert(tokens, segments, lengths)
        return Pretraining(self.words(states, self.bert.tokens.weight), self.follows(states))

    @classmethod
    def from_pretrained(cls, folder: str | Path, mechanism: Mechanism = scaled_dot_product_attention) -> "PretrainingBERT":
        """Read BERT with its heads, as `BERT.from_pretrained`; ValueError where the folder has no heads."""
        config, tensors = read_checkpoint(folder, "bert")
        model = cls(BERT(*_published_sizes(config, folder), mechanism, config["type_vocab_size"]))
        _set_epsilon(model, config)
        require_tied(tensors, "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight")
        weights = from_bert(tensors)
        if missing := model.state_dict().keys() - weights.keys():
            raise ValueError(f"{folder} has no weights for {sorted(missing)}; `BERT.from_pretrained` needs no heads.")
        model.load_state_dict(weights)
        return model


def _published_sizes(config: dict[str, object], folder: str | Path) -> tuple[int, int, Sizes]:
    """Give n_tokens, T_max and the sizes; ValueError where the equations are not those of the paper."""
    if config.get("hidden_act", "gelu") != "gelu" or config.get("is_decoder"):
        raise ValueError(f"{folder}: only a BERT that looks both ways, with GELU, can be read.")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise ValueError(f"{folder}: only a BERT whose positions are added to its words can be read.")
    sizes = (config[name] for name in ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers"))
    return config["vocab_size"], config["max_position_embeddings"], Sizes(*sizes)


def _set_epsilon(model: nn.Module, config: dict[str, object]) -> None:
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = config.get("layer_norm_eps", 1e-12)


_RENAMED = (
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
"""Their names → ours, one after the other. The oldest checkpoints call gain and bias of a norm gamma and beta."""


def from_bert(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give the weights of Hugging Face's BERT our names.

    Args:
        tensors: the state dict of BertForPreTraining, BertModel or one between.

    Returns:
        a state dict for `PretrainingBERT`, without the heads that are not there; those of other tasks are left out.
    """
    ours = {}
    for name, tensor in tensors.items():
        for pattern, new in _RENAMED:
            name = re.sub(pattern, new, name)
        ours[name] = tensor
    return {name: tensor for name, tensor in ours.items() if re.match(r"(?:bert|words|follows)\.", name)}
