"""GPT, BERT and the encoder-decoder against Hugging Face's classes, torch.nn.Transformer and a GPT written by hand.

Training rows compute the loss and its gradients, on the same sizes and the same activation, without dropout. Decoding rows
take the most likely token each time; "generate" is what a user of `transformers` calls, "step by step" its model in a loop
with its own cache.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.nano import NanoGPT
from benchmarks.timing import Row, compare, peer_from
from course_lib.blocks import Sizes
from course_lib.fast import CachedGPT, fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.generation import beam_search, generate
from course_lib.losses import mlm_loss, next_token_loss, teacher_forced_loss
from course_lib.models import BERT, GPT, PretrainingBERT, Transformer
from course_lib.primitives import causal_mask, sinusoidal_positions


class Scale(NamedTuple):
    """Batch, length, vocabulary, and the sizes of a model."""

    B: int
    T: int
    n_tokens: int
    sizes: Sizes

    def __str__(self) -> str:
        d, h, _, n = self.sizes
        return f"B {self.B}, T {self.T}, vocabulary {self.n_tokens}, d {d}, {h} heads, {n} layers"


COURSE = Scale(16, 64, 96, Sizes(128, 4, 512, 4))
WORDS = Scale(8, 128, 5000, Sizes(256, 8, 1024, 4))
WRITING = (
    Scale(1, 16, 96, COURSE.sizes),
    Scale(8, 16, 96, Sizes(64, 4, 256, 2)),
    *(Scale(B, 16, 96, COURSE.sizes) for B in (16, 64)),
)
BEAMS = Scale(4, 16, 96, COURSE.sizes)
WIDTH = 4
N_WRITTEN = 112
NOTE = """Decoding 16 texts with d 128: matrix products and torch's fused attention are seven tenths of our time, and the peer
needs the same ones. A cache of another layout, (B h, T, d), saved 2 to 7 % and was left out. Beams: a third of the time
is the copy of the cache into the new order of the beams. The peak is 1.2 caches and the copied matrices."""
Losses = tuple[str, Callable[[], Tensor]]


def rows(rounds: int) -> Iterator[Row]:
    """Time training steps at two scales, then decoding."""
    for scale in (COURSE, WORDS):
        for name, models in (("GPT", _gpt), ("BERT, masked words", _bert), ("encoder-decoder", _translator)):
            torch.manual_seed(0)
            ours, *peers = models(scale)
            for peer in peers:
                yield compare(f"{name}: training step", ours, peer, str(scale), rounds)
    for scale in WRITING:
        yield from _writing(scale, rounds)
    yield from _beams(BEAMS, rounds)


def _text(scale: Scale) -> Tensor:
    return torch.randint(4, scale.n_tokens, (scale.B, scale.T), generator=torch.Generator().manual_seed(0))


def _gpt(scale: Scale) -> Iterator[Losses]:
    text, (d, h, _, n) = _text(scale), scale.sizes
    ours = GPT(scale.n_tokens, scale.T, scale.sizes, fused_causal_attention)
    yield "fused", lambda: next_token_loss(ours(text), text)
    nano = NanoGPT(scale.n_tokens, scale.T, d, h, n)
    yield "nanoGPT style", lambda: F.cross_entropy(nano(text)[:, :-1].flatten(0, 1), text[:, 1:].flatten())
    if theirs := _gpt2(scale, scale.T):
        yield "transformers GPT2LMHeadModel", lambda: theirs(text, labels=text, use_cache=False).loss


def _gpt2(scale: Scale, T: int) -> nn.Module | None:
    if not (peer := peer_from("transformers", "GPT2Config", "GPT2LMHeadModel")):
        return None
    GPT2Config, GPT2LMHeadModel = peer
    d, h, _, n = scale.sizes
    sizes = {"vocab_size": scale.n_tokens, "n_positions": T, "n_embd": d, "n_head": h, "n_layer": n}
    dropout = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
    tokens = {"bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(**sizes, **dropout, **tokens, activation_function="gelu", attn_implementation="sdpa"))


def _bert(scale: Scale) -> Iterator[Losses]:
    """Ours predicts words at the 15 % of the positions that the loss takes; then at all, as the peer does."""
    text = _text(scale)
    chosen = torch.rand(text.shape, generator=torch.Generator().manual_seed(1)) < 0.15
    model = PretrainingBERT(BERT(scale.n_tokens, scale.T, scale.sizes, fused_scaled_dot_product_attention))
    yield "fused", lambda: F.cross_entropy(model(text, chosen=chosen).words, text[chosen])
    yield "ours, words at all positions", lambda: mlm_loss(model(text).words, text, chosen)
    if peer := peer_from("transformers", "BertConfig", "BertForMaskedLM"):
        BertConfig, BertForMaskedLM = peer
        d, h, d_ff, n = scale.sizes
        sizes = {"hidden_size": d, "num_attention_heads": h, "intermediate_size": d_ff, "num_hidden_layers": n}
        dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "attn_implementation": "sdpa"}
        config = BertConfig(vocab_size=scale.n_tokens, max_position_embeddings=scale.T, **sizes, **dropout)
        theirs, labels = BertForMaskedLM(config), text.masked_fill(~chosen, -100)
        yield "transformers BertForMaskedLM", lambda: theirs(text, labels=labels).loss


def _translator(scale: Scale) -> Iterator[Losses]:
    """A source of T words and a target of as many, a quarter of the batch shorter."""
    text, (d, h, d_ff, n) = _text(scale), scale.sizes
    lengths = torch.full((scale.B,), scale.T)
    lengths[: scale.B // 4] = scale.T // 2
    mechanisms = {"mechanism": fused_scaled_dot_product_attention, "causal": fused_causal_attention}
    ours = Transformer(scale.n_tokens, scale.n_tokens, scale.sizes, **mechanisms)
    yield "fused", lambda: teacher_forced_loss(ours(text, lengths, text), text, padding=0)
    theirs, words = (
        nn.Transformer(d, h, n, n, d_ff, 0.0, batch_first=True),
        nn.ModuleList(nn.Embedding(scale.n_tokens, d) for _ in range(2)),
    )
    later, padding = ~causal_mask(scale.T), torch.arange(scale.T) >= lengths[:, None]

    def torchs() -> Tensor:
        x, y = (d**0.5 * embedding(text) + sinusoidal_positions(scale.T, d) for embedding in words)
        states = theirs(x, y, None, later, None, padding, None, padding, tgt_is_causal=True)
        return teacher_forced_loss(states @ words[1].weight.mT, text, padding=0)

    yield "torch.nn.Transformer", torchs
    if peer := peer_from("transformers", "MarianConfig", "MarianMTModel"):
        MarianConfig, MarianMTModel = peer
        layers = {
            f"{side}_{what}": size
            for side in ("encoder", "decoder")
            for what, size in (("layers", n), ("attention_heads", h), ("ffn_dim", d_ff))
        }
        off = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "use_cache": False}
        tokens = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": None}
        config = MarianConfig(
            vocab_size=scale.n_tokens,
            d_model=d,
            max_position_embeddings=scale.T,
            activation_function="relu",
            scale_embedding=True,
            attn_implementation="sdpa",
            **layers,
            **off,
            **tokens,
        )
        marian = MarianMTModel(config)
        yield "transformers MarianMTModel", lambda: marian(text, attention_mask=(~padding).long(), labels=text).loss


def _writing(scale: Scale, rounds: int) -> Iterator[Row]:
    """Generate tokens after a prompt of T."""
    torch.manual_seed(0)
    prompt, T_max = _text(scale), scale.T + N_WRITTEN
    ours = GPT(scale.n_tokens, T_max, scale.sizes, fused_causal_attention)
    nano = NanoGPT(scale.n_tokens, T_max, scale.sizes.d_model, scale.sizes.n_heads, scale.sizes.n_layers)
    peers = [("nanoGPT style, uncached", lambda: nano.generate(prompt, N_WRITTEN))]
    if theirs := _gpt2(scale, T_max):
        theirs.eval()
        peers += [
            (
                "transformers, generate",
                lambda: theirs.generate(
                    prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=N_WRITTEN, do_sample=False
                ),
            ),
            ("transformers, step by step", lambda: _step_by_step(theirs, prompt)),
        ]
    for peer in peers:
        call = ("cached", lambda: generate(CachedGPT(ours), prompt, N_WRITTEN, lambda logits: logits.argmax(-1)))
        yield compare(f"GPT: {N_WRITTEN} tokens generated", call, peer, str(scale), rounds, trains=False)


def _beams(scale: Scale, rounds: int) -> Iterator[Row]:
    """Search with beams of `WIDTH` prefixes; no token ends a sequence, so both write as many."""
    torch.manual_seed(0)
    prompt, T_max = _text(scale), scale.T + N_WRITTEN
    ours = CachedGPT(GPT(scale.n_tokens, T_max, scale.sizes, fused_causal_attention))

    def search() -> Tensor:
        state = ours.start(prompt[:, :-1])
        return beam_search(ours.step, state, prompt[:, -1], end=-1, padding=0, max_length=N_WRITTEN, width=WIDTH).tokens

    if theirs := _gpt2(scale, T_max):
        theirs.eval()
        how = {"max_new_tokens": N_WRITTEN, "num_beams": WIDTH, "do_sample": False}
        peer = lambda: theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **how)  # noqa: E731
        name = f"GPT: {N_WRITTEN} tokens, {WIDTH} beams"
        yield compare(name, ("cached", search), ("transformers, generate", peer), str(scale), rounds, trains=False)


@torch.no_grad()
def _step_by_step(model: nn.Module, prompt: Tensor) -> Tensor:
    out = model(prompt, use_cache=True)
    written = [out.logits[:, -1:].argmax(-1)]
    for _ in range(N_WRITTEN - 1):
        out = model(written[-1], past_key_values=out.past_key_values, use_cache=True)
        written.append(out.logits.argmax(-1))
    return torch.cat(written, dim=1)
