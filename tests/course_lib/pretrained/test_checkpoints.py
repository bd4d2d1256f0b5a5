"""Checkpoints of GPT-2, Llama and BERT from save_pretrained: loaded weight for weight, or refused with folder and key."""

import json
import sys
from pathlib import Path

import pytest
import torch

from course_lib.attention import rotary_speeds
from course_lib.pretrained import load_bert, load_gpt2, load_llama, load_vit
from course_lib.pretrained.checkpoint_reader import Checkpoint, read_checkpoint
from course_lib.pretrained.gpt2 import from_gpt2
from course_lib.pretrained.llama import from_llama
from tests.course_lib.models import peers
from tests.course_lib.models.peers import N_TOKENS, T_MAX

B, T = 3, 11
TOKENS = torch.randint(N_TOKENS, (B, T), generator=torch.Generator().manual_seed(0))
SEGMENTS = (torch.arange(T) > 4).long().expand(B, T)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def change_config(folder, **settings):
    """Overwrite settings of config.json; None removes one."""
    file = folder / "config.json"
    config = json.loads(file.read_text()) | settings
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def change_tensors(folder, change):
    """Rewrite model.safetensors by a function of the dict of its tensors."""
    safetensors = pytest.importorskip("safetensors.torch", reason=peers.REASON)
    file = folder / "model.safetensors"
    tensors = safetensors.load_file(file)
    change(tensors)
    safetensors.save_file(tensors, file, metadata={"format": "pt"})


def test_gpt_is_read_from_what_save_pretrained_writes(tmp_path):
    theirs = peers.gpt2(layer_norm_epsilon=1e-3)
    ours = load_gpt2(peers.saved(theirs, tmp_path))
    torch.testing.assert_close(ours(TOKENS), theirs(TOKENS).logits, **CLOSE)
    assert ours.T_max == T_MAX


def test_gpt_is_read_from_several_files_too(tmp_path):
    theirs = peers.gpt2()
    peers.saved(theirs, tmp_path, max_shard_size="4KB")
    assert not (tmp_path / "model.safetensors").exists()
    torch.testing.assert_close(load_gpt2(tmp_path)(TOKENS), theirs(TOKENS).logits, **CLOSE)


@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_llama_is_read_from_what_save_pretrained_writes(tmp_path, n_groups):
    theirs = peers.llama(n_groups, rms_norm_eps=1e-3, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    ours = load_llama(peers.saved(theirs, tmp_path))
    torch.testing.assert_close(ours(TOKENS), theirs(TOKENS).logits, **CLOSE)
    assert ours.stack.blocks[0].norm_1.eps == 1e-3


STRETCH = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 20}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Qwen2", {}),
        ("Llama", {"attention_bias": True}),
        ("Llama", {"rope_parameters": STRETCH | {"rope_type": "llama3"}}),
        ("Llama", {"head_dim": 10}),
        ("Mistral", {"sliding_window": None, "head_dim": 10}),
        ("Qwen3", {"head_dim": 10}),
        ("Qwen3", {"head_dim": 6, "attention_bias": True, "tie_word_embeddings": True}),
    ],
    ids=["Qwen 2", "biases", "Llama 3.1", "larger heads", "Mistral", "Qwen 3", "Qwen 3, biases, tied"],
)
def test_the_successors_of_llama_are_read(tmp_path, kind, settings):
    theirs = peers.llama(kind=kind, **settings)
    ours = load_llama(peers.saved(theirs, tmp_path))
    tokens = TOKENS.repeat(1, 3)  # longer than the old context
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, **CLOSE)
    if "rope_parameters" in settings:  # some speeds are kept, some slowed, one is between
        speeds = theirs.model.rotary_emb.inv_freq
        torch.testing.assert_close(rotary_speeds(6, ours.stack.blocks[0].mixer.attention.mechanism.base), speeds)
    assert not torch.allclose(theirs(tokens).logits, peers.llama()(tokens).logits, atol=0.1)
    torch.testing.assert_close(ours.step(tokens[:, 5], ours.start(tokens[:, :5]))[0], ours(tokens)[:, 5], **CLOSE)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("Gemma2", "scores bounded by tanh"),
        ("Gemma3Text", "and windows"),
        ("Olmo2", "instead of before it"),
        ("Phi3", "one matrix"),
    ],
)
def test_another_decoder_is_refused_by_what_it_has_beyond_llama(monkeypatch, tmp_path, kind, part):
    """With the config.json that its class writes."""
    transformers = pytest.importorskip("transformers", reason=peers.REASON)
    getattr(transformers, f"{kind}Config")().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=f"which has .*{part}.*; 'llama' or 'mistral' or 'qwen2' or 'qwen3' is expected"):
        load_llama(tmp_path)


def test_the_features_of_llama_that_are_rotated_together_become_neighbours():
    """Two heads of six features: 0 is rotated with 3, 1 with 4, 2 with 5."""
    rows = torch.arange(12.0)[:, None]
    names = {letter: f"model.layers.1.self_attn.{letter}_proj.weight" for letter in "qkv"}
    weights = from_llama(dict.fromkeys(names.values(), rows), 6)
    read = {letter: weights[f"stack.blocks.1.mixer.attention.W_{letter}.weight"].flatten().tolist() for letter in "qkv"}
    assert read["q"] == read["k"] == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
    assert read["v"] == list(range(12))


@pytest.mark.parametrize("d_k", [0, 3, 5, 8])
def test_rows_that_do_not_divide_into_heads_of_pairs_are_refused(d_k):
    with pytest.raises(ValueError, match=f"12 rows does not divide into heads of d_k = {d_k} features in pairs"):
        from_llama({"model.layers.1.self_attn.q_proj.weight": torch.ones(12, 5)}, d_k)


def test_a_llama_of_before_transformers_5_is_read(tmp_path):
    """Its base stands beside the other settings, the size of a head does not, and its file has the speeds of the rotation."""
    theirs = peers.llama(rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    change_config(peers.saved(theirs, tmp_path), rope_parameters=None, rope_theta=500, head_dim=None)
    speeds = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.ones(3) for i in range(2)}
    change_tensors(tmp_path, lambda tensors: tensors.update(speeds))
    torch.testing.assert_close(load_llama(tmp_path)(TOKENS), theirs(TOKENS).logits, **CLOSE)


def test_a_tied_output_matrix_of_a_llama_is_its_embedding(tmp_path):
    theirs = peers.llama(tie_word_embeddings=True)
    ours = load_llama(peers.saved(theirs, tmp_path))
    torch.testing.assert_close(ours(TOKENS), theirs(TOKENS).logits, **CLOSE)
    assert ours.readout.weight is ours.tokens.weight
    change_tensors(tmp_path, lambda tensors: tensors.update({"lm_head.weight": tensors["model.embed_tokens.weight"] + 1}))
    with pytest.raises(ValueError, match=r"lm_head\.weight differs from model\.embed_tokens\.weight"):
        load_llama(tmp_path)


@pytest.mark.parametrize("kind", ["BertForPreTraining", "BertModel"])
def test_bert_is_read_from_what_save_pretrained_writes(tmp_path, kind):
    theirs = peers.bert(kind, layer_norm_eps=1e-3)
    ours = load_bert(peers.saved(theirs, tmp_path))
    body = theirs if kind == "BertModel" else theirs.bert
    expected = body(TOKENS, token_type_ids=SEGMENTS).last_hidden_state
    torch.testing.assert_close(ours(TOKENS, SEGMENTS), expected, **CLOSE)


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
    torch.testing.assert_close(load_bert(tmp_path)(TOKENS), theirs.bert(TOKENS).last_hidden_state, **CLOSE)


def test_another_kind_of_model_is_refused(tmp_path):
    peers.saved(peers.gpt2(), tmp_path)
    with pytest.raises(ValueError, match="'gpt2'; 'bert' is expected"):
        load_bert(tmp_path)


@pytest.mark.parametrize("setting", [{"scale_attn_by_inverse_layer_idx": True}, {"activation_function": "swish"}])
def test_equations_that_are_not_ours_are_refused(tmp_path, setting):
    peers.saved(peers.gpt2(), tmp_path)
    change_config(tmp_path, **setting)
    with pytest.raises(ValueError, match=r"scales its scores|the activation 'swish'"):
        load_gpt2(tmp_path)


def test_an_output_matrix_that_differs_from_the_embedding_is_refused(tmp_path):
    """Ours is the embedding; a different one would be dropped silently."""
    peers.saved(peers.gpt2(tie_word_embeddings=False), tmp_path)
    with pytest.raises(ValueError, match="weight differs from"):
        load_gpt2(tmp_path)


def test_positions_of_another_kind_are_refused(tmp_path):
    peers.saved(peers.bert(), tmp_path)
    change_config(tmp_path, position_embedding_type="relative_key")
    with pytest.raises(ValueError, match="position"):
        load_bert(tmp_path)


def test_pickled_weights_are_never_opened(tmp_path):
    """The file would write another file if it were unpickled."""
    witness = tmp_path / "opened"

    class Trap:
        def __reduce__(self):
            return (witness.touch, ())

    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    torch.save(Trap(), tmp_path / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match="can run code and are not read"):
        load_gpt2(tmp_path)
    assert not witness.exists()


def test_a_folder_without_a_configuration_is_told_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config.json"):
        read_checkpoint(tmp_path, "gpt2")


def test_without_safetensors_the_error_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        read_checkpoint(tmp_path, "gpt2")


@pytest.mark.parametrize("name", ["gelu_new", "gelu_pytorch_tanh", "gelu_python", "gelu", "relu"])
def test_activations_are_read_by_their_published_names(tmp_path, name):
    theirs = peers.gpt2(name)
    torch.testing.assert_close(load_gpt2(peers.saved(theirs, tmp_path))(TOKENS), theirs(TOKENS).logits, **CLOSE)


@pytest.mark.parametrize("name", ["gelu_python", "gelu_pytorch_tanh", "relu"])
def test_berts_activation_is_that_of_its_layers(tmp_path, name):
    theirs = peers.bert(hidden_act=name)
    ours = load_bert(peers.saved(theirs, tmp_path))
    torch.testing.assert_close(ours(TOKENS), theirs.bert(TOKENS).last_hidden_state, **CLOSE)


@pytest.mark.parametrize("key", ["n_embd", "n_head", "n_layer", "vocab_size", "n_positions"])
def test_a_configuration_without_a_key_names_folder_and_key(tmp_path, key):
    change_config(peers.saved(peers.gpt2(), tmp_path), **{key: None})
    with pytest.raises(ValueError, match=f"{tmp_path.name}.* has no '{key}'"):
        load_gpt2(tmp_path)


@pytest.mark.parametrize(
    ("load", "make", "key", "told"),
    [
        (load_gpt2, peers.gpt2, "transformer.h.1.mlp.c_fc.bias", "stack.blocks.1.feed_forward.W_1.bias"),
        (load_gpt2, peers.gpt2, "transformer.wte.weight", "tokens.weight"),
        (load_bert, peers.bert, "bert.encoder.layer.0.output.dense.weight", "stack.blocks.0.feed_forward.W_2.weight"),
        (load_llama, peers.llama, "lm_head.weight", "readout.weight"),
        (load_llama, peers.llama, "model.layers.1.self_attn.q_proj.weight", "stack.blocks.1.mixer.attention.W_q.weight"),
    ],
)
def test_a_missing_tensor_is_named(tmp_path, load, make, key, told):
    change_tensors(peers.saved(make(), tmp_path), lambda tensors: tensors.pop(key))
    with pytest.raises(RuntimeError, match=rf'{tmp_path.name}: (.|\n)*Missing key.*"{told}'):
        load(tmp_path)


@pytest.mark.parametrize(("load", "make"), [(load_gpt2, peers.gpt2), (load_bert, peers.bert), (load_llama, peers.llama)])
def test_a_tensor_that_the_model_has_no_place_for_is_refused(tmp_path, load, make):
    change_tensors(peers.saved(make(), tmp_path), lambda tensors: tensors.update({"adapter.weight": torch.zeros(3)}))
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"adapter\.weight'):
        load(tmp_path)


def test_a_tensor_of_another_shape_is_named(tmp_path):
    change_config(peers.saved(peers.gpt2(), tmp_path), vocab_size=N_TOKENS + 1)
    with pytest.raises(RuntimeError, match=rf"mismatch for tokens.weight: .*\[{N_TOKENS}, .* model is .*\[{N_TOKENS + 1},"):
        load_gpt2(tmp_path)


def test_causal_masks_of_old_files_are_left_out(tmp_path):
    theirs = peers.gpt2()
    buffers = {f"transformer.h.{i}.attn.{name}": torch.ones(1) for i in range(2) for name in ("bias", "masked_bias")}
    change_tensors(peers.saved(theirs, tmp_path), lambda tensors: tensors.update(buffers))
    torch.testing.assert_close(load_gpt2(tmp_path)(TOKENS), theirs(TOKENS).logits, **CLOSE)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_damaged_file_is_named(tmp_path, file):
    pytest.importorskip("safetensors", reason=peers.REASON)
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    (tmp_path / file).write_text('{"model_type":')
    with pytest.raises(ValueError, match=file):
        load_vit(tmp_path)


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        ({"weight_map": {"wte.weight": "model-2.safetensors"}}, FileNotFoundError, r"no \['model-2.safetensors'\]"),
        ({}, ValueError, "no 'weight_map'"),
    ],
)
def test_a_part_that_is_missing_is_named(tmp_path, index, error, message):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(error, match=message):
        read_checkpoint(tmp_path, "gpt2")


@pytest.mark.parametrize("content", ["[]", '"gpt2"', "7"])
def test_a_configuration_that_is_no_object_is_named(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=f"{tmp_path.name}.*config.json must contain a JSON object"):
        read_checkpoint(tmp_path, "gpt2")


@pytest.mark.parametrize("weight_map", [["model-1.safetensors"], {"wte.weight": 1}])
def test_an_index_of_another_form_is_named(tmp_path, weight_map):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ValueError, match=f"{tmp_path.name}.* has no 'weight_map'"):
        read_checkpoint(tmp_path, "gpt2")


def given(monkeypatch, kind, tensors=(), **settings):
    """Have the loaders read this model from the folder `there`, without files."""
    monkeypatch.setattr(
        f"course_lib.pretrained.{kind}.read_checkpoint", lambda *_, **__: Checkpoint(Path("there"), settings, dict(tensors))
    )
    return "there"


VIT = {"hidden_size": 6, "num_attention_heads": 2, "intermediate_size": 7, "num_hidden_layers": 1}
GPT2 = {"n_embd": 6, "n_head": 2, "n_layer": 1, "vocab_size": 5, "n_positions": 3}
BERT = VIT | {"vocab_size": 5, "max_position_embeddings": 3, "type_vocab_size": 2}
LLAMA = {"hidden_size": 12, "num_attention_heads": 2, "intermediate_size": 7, "num_hidden_layers": 1, "vocab_size": 5}
HEAD = {"classifier.weight": torch.zeros(3, 6), "classifier.bias": torch.zeros(3)}


@pytest.mark.parametrize("key", ["patch_size", "image_size"])
@pytest.mark.parametrize("size", [[4], [4, 4, 4], [4, "4"], "4", True, 0])
def test_sides_that_are_not_one_or_two_numbers_are_named(monkeypatch, key, size):
    with pytest.raises(ValueError, match=f"there: '{key}' in config.json must be a positive int"):
        load_vit(given(monkeypatch, "vit", HEAD, **VIT, **{key: size}))


@pytest.mark.parametrize(
    ("load", "kind", "settings"),
    [(load_gpt2, "gpt2", GPT2), (load_llama, "llama", LLAMA), (load_bert, "bert", BERT), (load_vit, "vit", VIT)],
)
@pytest.mark.parametrize("wrong", ["6", 6.0, True, -6])
def test_sizes_that_are_no_numbers_are_named(monkeypatch, load, kind, settings, wrong):
    for key in settings:
        with pytest.raises(ValueError, match=f"there: '{key}' in config.json must be a positive int, got {wrong!r}"):
            load(given(monkeypatch, kind, HEAD if kind == "vit" else {}, **settings | {key: wrong}))


@pytest.mark.parametrize(
    ("load", "kind", "key"), [(load_gpt2, "gpt2", "layer_norm_epsilon"), (load_bert, "bert", "layer_norm_eps")]
)
def test_an_epsilon_that_is_no_number_is_named(monkeypatch, load, kind, key):
    with pytest.raises(ValueError, match=f"there: '{key}' in config.json must be a positive float, got '1e-5'"):
        load(given(monkeypatch, kind, **(GPT2 if kind == "gpt2" else BERT), **{key: "1e-5"}))


def test_a_tensor_beside_those_of_the_attention_is_named(monkeypatch):
    tensors = {"h.0.attn.c_attn.lora.extra": torch.ones(1)}
    with pytest.raises(RuntimeError, match=r"there: (.|\n)*W_qkv\.lora\.extra"):
        load_gpt2(given(monkeypatch, "gpt2", tensors, **GPT2))
    assert list(from_gpt2(tensors)) == ["stack.blocks.0.mixer.attention.W_qkv.lora.extra"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "not scaled, or as 'llama3', can be read, got .*'linear'"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}}, "'factor' in config.json must be a positive number"),
        (
            {"rope_scaling": STRETCH | {"type": "llama3", "high_freq_factor": 1}},
            "must be below 'high_freq_factor'",
        ),
        ({"rope_scaling": STRETCH | {"type": "llama3", "rope_type": "default"}}, "not scaled, or as"),
        ({"rope_scaling": STRETCH | {"type": "llama3", "partial_rotary_factor": 0.5}}, "not scaled, or as"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "not scaled"),
        ({"rope_parameters": {"rope_type": "default"}, "rope_scaling": {"type": "linear"}}, "not scaled"),
        ({"rope_scaling": ["linear"]}, "not scaled"),
        ({"rope_theta": "big"}, "'rope_theta' in config.json must be a positive number, got 'big'"),
        ({"quantization_config": {"bits": 8}}, "quantized weights cannot be read"),
        ({"mlp_bias": True}, r"no Llama with biases in its networks .* sets \['mlp_bias'\]"),
        ({"use_sliding_window": True}, r"windows can be read: .* sets \['use_sliding_window'\]"),
        ({"layer_types": ["sliding_attention"]}, r"windows can be read: .* sets \['sliding_attention'\]"),
        ({"hidden_act": "gelu"}, "'silu' as its activation can be read, got 'gelu'"),
        ({"model_type": "mistral"}, r"windows can be read: .* sets \['sliding_window'\]"),
    ],
)
def test_a_llama_with_other_equations_is_refused(monkeypatch, setting, message):
    with pytest.raises(ValueError, match=f"there: .*{message}"):
        load_llama(given(monkeypatch, "llama", **LLAMA, **setting))


def test_a_tensor_of_integers_is_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"there: .*blocks\.0\.norm has the type torch\.int8; quantized"):
        load_gpt2(given(monkeypatch, "gpt2", {"h.0.norm": torch.ones(1, dtype=torch.int8)}, **GPT2))


@pytest.mark.parametrize("head", ["score.weight", "classifier.weight", "qa_outputs.bias", "multiple_choice_head.summary.bias"])
def test_a_gpt2_for_another_task_is_refused_by_its_head(monkeypatch, head):
    with pytest.raises(ValueError, match=f"there: this GPT-2 has a head for another task, .'{head}'"):
        load_gpt2(given(monkeypatch, "gpt2", {head: torch.zeros(3, 6)}, **GPT2))


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_another_output_matrix_is_refused_with_and_without_a_prefix(monkeypatch, prefix):
    tensors = {"lm_head.weight": torch.zeros(5, 6), f"{prefix}wte.weight": torch.ones(5, 6)}
    with pytest.raises(ValueError, match=f"there: the tensor lm_head.weight differs from {prefix}wte.weight"):
        load_gpt2(given(monkeypatch, "gpt2", tensors, **GPT2))
