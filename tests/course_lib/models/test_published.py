"""Held against the published models, weight for weight: Hugging Face's GPT-2 and BERT, and torch.nn.Transformer."""

import json
import sys

import pytest
import torch
from torch import nn

from course_lib.analysis import record
from course_lib.blocks import post_norm, pre_norm
from course_lib.models import BERT, GPT, PretrainingBERT, Transformer
from course_lib.pretrained import read_checkpoint
from tests.course_lib.models import peers
from tests.course_lib.models.peers import N_TOKENS, SIZES, T_MAX

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
    """torch closes both stacks by a norm, always; ours only behind pre-norm, so that it is taken off theirs."""
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


def test_gpt_is_read_from_what_save_pretrained_writes(tmp_path):
    theirs = peers.gpt2(layer_norm_epsilon=1e-3)
    ours = GPT.from_pretrained(peers.saved(theirs, tmp_path))
    torch.testing.assert_close(ours(TOKENS), theirs(TOKENS).logits, **CLOSE)
    assert ours.T_max == T_MAX


def test_gpt_is_read_from_several_files_too(tmp_path):
    theirs = peers.gpt2()
    peers.saved(theirs, tmp_path, max_shard_size="4KB")
    assert not (tmp_path / "model.safetensors").exists()
    torch.testing.assert_close(GPT.from_pretrained(tmp_path)(TOKENS), theirs(TOKENS).logits, **CLOSE)


@pytest.mark.parametrize("kind", ["BertForPreTraining", "BertModel"])
def test_bert_is_read_from_what_save_pretrained_writes(tmp_path, kind):
    theirs = peers.bert(kind, layer_norm_eps=1e-3)
    ours = BERT.from_pretrained(peers.saved(theirs, tmp_path))
    body = theirs if kind == "BertModel" else theirs.bert
    expected = body(TOKENS, token_type_ids=SEGMENTS).last_hidden_state
    torch.testing.assert_close(ours(TOKENS, SEGMENTS), expected, **CLOSE)


def test_bert_is_read_with_its_heads(tmp_path):
    theirs = peers.bert()
    ours = PretrainingBERT.from_pretrained(peers.saved(theirs, tmp_path))
    expected = theirs(TOKENS)
    torch.testing.assert_close(ours(TOKENS), (expected.prediction_logits, expected.seq_relationship_logits), **CLOSE)


def test_bert_is_read_under_the_names_of_its_first_years(tmp_path):
    """The files of 2018 call gain and bias of a norm gamma and beta."""
    theirs = peers.bert()
    safetensors = pytest.importorskip("safetensors.torch", reason=peers.REASON)
    file = peers.saved(theirs, tmp_path) / "model.safetensors"
    old = {
        k.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): v
        for k, v in safetensors.load_file(file).items()
    }
    assert "bert.embeddings.LayerNorm.gamma" in old
    safetensors.save_file(old, file, metadata={"format": "pt"})
    torch.testing.assert_close(
        PretrainingBERT.from_pretrained(tmp_path)(TOKENS).words, theirs(TOKENS).prediction_logits, **CLOSE
    )


def test_a_folder_without_heads_is_told_so(tmp_path):
    peers.saved(peers.bert("BertModel"), tmp_path)
    with pytest.raises(ValueError, match=r"no weights for .*needs no heads"):
        PretrainingBERT.from_pretrained(tmp_path)


def test_another_kind_of_model_is_refused(tmp_path):
    peers.saved(peers.gpt2(), tmp_path)
    with pytest.raises(ValueError, match="'gpt2'; 'bert' is needed"):
        BERT.from_pretrained(tmp_path)


@pytest.mark.parametrize("setting", [{"scale_attn_by_inverse_layer_idx": True}, {"activation_function": "swish"}])
def test_equations_that_are_not_ours_are_refused(tmp_path, setting):
    peers.saved(peers.gpt2(), tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | setting))
    with pytest.raises(ValueError, match=r"scales its scores|the activation 'swish'"):
        GPT.from_pretrained(tmp_path)


def test_a_last_matrix_of_its_own_is_refused(tmp_path):
    """Ours is the embedding; another one would be dropped without a word."""
    peers.saved(peers.gpt2(tie_word_embeddings=False), tmp_path / "gpt")
    with pytest.raises(ValueError, match="a last matrix of its own"):
        GPT.from_pretrained(tmp_path / "gpt")
    peers.saved(peers.bert(tie_word_embeddings=False), tmp_path / "bert")
    with pytest.raises(ValueError, match="a last matrix of its own"):
        PretrainingBERT.from_pretrained(tmp_path / "bert")
    assert BERT.from_pretrained(tmp_path / "bert")


def test_positions_of_another_kind_are_refused(tmp_path):
    peers.saved(peers.bert(), tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"position_embedding_type": "relative_key"}))
    with pytest.raises(ValueError, match="position"):
        BERT.from_pretrained(tmp_path)


def test_pickled_weights_are_never_opened(tmp_path):
    """The file would write a witness if it were unpickled."""
    witness = tmp_path / "opened"

    class Trap:
        def __reduce__(self):
            return (witness.touch, ())

    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    torch.save(Trap(), tmp_path / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match=r"can run code when they are opened and are not read"):
        GPT.from_pretrained(tmp_path)
    assert not witness.exists()


def test_a_folder_without_a_configuration_is_told_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no config.json"):
        read_checkpoint(tmp_path, "gpt2")


def test_without_safetensors_the_error_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        read_checkpoint(tmp_path, "gpt2")
