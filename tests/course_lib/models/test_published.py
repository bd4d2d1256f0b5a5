"""Compared with the published models, weight for weight: Hugging Face's GPT-2, Llama and BERT, and torch.nn.Transformer."""

import pytest
import torch
from torch import nn

from course_lib.analysis import record
from course_lib.blocks import Sizes, post_norm, pre_norm
from course_lib.models import Llama, Transformer
from course_lib.pretrained.llama import from_llama
from tests.course_lib.models import peers
from tests.course_lib.models.peers import N_TOKENS, SIZES

B, T = 3, 11
TOKENS = torch.randint(N_TOKENS, (B, T), generator=torch.Generator().manual_seed(0))
SEGMENTS = (torch.arange(T) > 4).long().expand(B, T)
LENGTHS = torch.tensor([11, 7, 2])
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.mark.parametrize("activation", ["gelu_new", "gelu", "relu"])
def test_gpt_is_gpt2(activation):
    theirs = peers.gpt2(activation)
    ours = peers.our_gpt(theirs, activation)
    expected = theirs(TOKENS, output_hidden_states=True, output_attentions=True)
    torch.testing.assert_close(ours(TOKENS), expected.logits, **CLOSE)
    with record(ours) as seen, torch.no_grad():
        hidden = peers.outputs_of(ours.stack.blocks, lambda: ours(TOKENS))
    torch.testing.assert_close(hidden[0], expected.hidden_states[1], **CLOSE)
    torch.testing.assert_close(ours.states(TOKENS), expected.hidden_states[-1], **CLOSE)
    maps = [attended[0].weights for attended in seen.values()]
    assert len(maps) == SIZES.n_layers
    for mine, their_map in zip(maps, expected.attentions, strict=True):
        torch.testing.assert_close(mine, their_map, **CLOSE)


def test_the_gradients_of_gpt_are_those_of_gpt2():
    theirs = peers.gpt2()
    ours = peers.our_gpt(theirs)
    for model, logits in ((theirs, theirs(TOKENS).logits), (ours, ours(TOKENS))):
        model.zero_grad()
        nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten()).backward()
    torch.testing.assert_close(ours.tokens.weight.grad, theirs.transformer.wte.weight.grad, **CLOSE)
    torch.testing.assert_close(ours.positions.vectors.grad, theirs.transformer.wpe.weight.grad, **CLOSE)


@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_llama_is_llama_states_maps_and_gradients(n_groups):
    theirs = peers.llama(n_groups)
    ours = Llama(N_TOKENS, Sizes(24, 4, SIZES.d_ff, SIZES.n_layers), n_groups).eval()
    ours.load_state_dict(from_llama(theirs.state_dict(), 6))
    expected = theirs(TOKENS, output_hidden_states=True, output_attentions=True)
    with record(ours) as seen:
        hidden = peers.outputs_of(ours.stack.blocks, lambda: ours(TOKENS))
    torch.testing.assert_close(ours(TOKENS), expected.logits, **CLOSE)
    torch.testing.assert_close(hidden[0], expected.hidden_states[1], **CLOSE)
    maps = [seen[f"stack.blocks.{i}.mixer.attention"][0].weights for i in range(SIZES.n_layers)]
    for mine, their_map in zip(maps, expected.attentions, strict=True):
        torch.testing.assert_close(mine, their_map, **CLOSE)
    for logits in (expected.logits, ours(TOKENS)):
        nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten()).backward()
    gradients = from_llama({name: parameter.grad for name, parameter in theirs.named_parameters()}, 6)
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], **CLOSE)


def test_bert_is_bert_states_maps_and_both_heads_also_with_padding():
    theirs = peers.bert()
    ours = peers.our_bert(theirs)
    real = torch.arange(T) < LENGTHS[:, None]
    settings = {"output_hidden_states": True, "output_attentions": True}
    expected = theirs(TOKENS, attention_mask=real.long(), token_type_ids=SEGMENTS, **settings)
    with record(ours) as seen, torch.no_grad():
        hidden = peers.outputs_of(ours.bert.stack.blocks, lambda: ours(TOKENS, SEGMENTS, LENGTHS))
        words, follows = ours(TOKENS, SEGMENTS, LENGTHS)
    torch.testing.assert_close(words[real], expected.prediction_logits[real], **CLOSE)
    torch.testing.assert_close(follows, expected.seq_relationship_logits, **CLOSE)
    for mine, their_states in zip(hidden, expected.hidden_states[1:], strict=True):
        torch.testing.assert_close(mine[real], their_states[real], **CLOSE)
    maps = [attended[0].weights for attended in seen.values()]
    for mine, their_map in zip(maps, expected.attentions, strict=True):
        torch.testing.assert_close(mine.movedim(1, 2)[real], their_map.movedim(1, 2)[real], **CLOSE)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("residual", [post_norm, pre_norm])
def test_the_transformer_is_torchs_own(residual):
    """torch always ends both stacks with a norm; ours do so only after pre-norm, so theirs is removed."""
    torch.manual_seed(0)
    d, h, d_ff, n = SIZES
    first = residual is pre_norm
    theirs = nn.Transformer(d, h, n, n, d_ff, 0.0, batch_first=True, norm_first=first).eval()
    ours = Transformer(N_TOKENS, N_TOKENS, SIZES, residual=residual)
    peers.shaken(theirs)
    peers.take_from_torch(ours, theirs)
    if first:
        ours.encoder.closing, ours.decoder.closing = theirs.encoder.norm, theirs.decoder.norm
    else:
        theirs.encoder.norm = theirs.decoder.norm = None
    target = TOKENS[:, :7]
    padding = torch.arange(T) >= LENGTHS[:, None]
    x, y = (ours._embed(words, tokens) for words, tokens in ((ours.source_words, TOKENS), (ours.target_words, target)))
    later = nn.Transformer.generate_square_subsequent_mask(7)
    states = theirs(x, y, tgt_mask=later, src_key_padding_mask=padding, memory_key_padding_mask=padding, tgt_is_causal=True)
    torch.testing.assert_close(ours(TOKENS, LENGTHS, target), states @ ours.target_words.weight.mT, **CLOSE)
