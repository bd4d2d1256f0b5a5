"""ViT and DeiT compared with Hugging Face's, weight for weight: states, maps, logits, gradients; also at another size."""

import json

import pytest
import torch
from torch import nn

from course_lib.analysis import record
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import DeiT, ViT
from course_lib.pretrained import load_deit, load_vit
from course_lib.pretrained.vit import from_vit
from tests.course_lib.models import peers
from tests.course_lib.models.peers import SIZES, outputs_of, saved, shaken

B, C, P, K, SIDE = 3, 2, 5, 7, 15
IMAGES = torch.randn(B, C, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
LOAD = {"vit": load_vit, "deit": load_deit}
HEADS = {"vit": "ViTForImageClassification", "deit": "DeiTForImageClassificationWithTeacher"}


def published(kind, name=None, **settings):
    """Hugging Face's model with a head, or the one named."""
    transformers = pytest.importorskip("transformers", reason=peers.REASON)
    make = {"vit": transformers.ViTConfig, "deit": transformers.DeiTConfig}[kind]
    config = make(
        image_size=SIDE,
        patch_size=P,
        num_channels=C,
        hidden_size=SIZES.d_model,
        num_attention_heads=SIZES.n_heads,
        intermediate_size=SIZES.d_ff,
        num_hidden_layers=SIZES.n_layers,
        num_labels=K,
        attn_implementation="eager",
        **settings,
    )
    return shaken(getattr(transformers, name or HEADS[kind])(config))


def ours(theirs, kind):
    model = {"vit": ViT, "deit": DeiT}[kind](K, (C, SIDE, SIDE), P, SIZES)
    model.load_state_dict(from_vit(theirs.state_dict()))
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-12
    return model


def test_vit_is_vit():
    theirs = published("vit")
    model = ours(theirs, "vit")
    expected = theirs(IMAGES, output_hidden_states=True, output_attentions=True)
    with record(model) as seen, torch.no_grad():
        hidden = outputs_of(model.encoder.stack.blocks, lambda: model(IMAGES))
    torch.testing.assert_close(model(IMAGES), expected.logits, **CLOSE)
    torch.testing.assert_close(hidden[0], expected.hidden_states[1], **CLOSE)
    maps = [attended[0].weights for attended in seen.values()]
    assert len(maps) == SIZES.n_layers
    for mine, their_map in zip(maps, expected.attentions, strict=True):
        torch.testing.assert_close(mine, their_map, **CLOSE)


def test_the_gradients_of_vit_are_those_of_vit():
    theirs = published("vit")
    model, labels = ours(theirs, "vit"), torch.tensor([0, 6, 3])
    for net, logits in ((theirs, theirs(IMAGES).logits), (model, model(IMAGES))):
        net.zero_grad()
        nn.functional.cross_entropy(logits, labels).backward()
    there = {name: p.grad for name, p in theirs.named_parameters()}
    here = {name: p.grad for name, p in model.named_parameters()}
    assert from_vit(there).keys() == here.keys()
    for name, gradient in from_vit(there).items():
        torch.testing.assert_close(here[name], gradient, **CLOSE, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("size", [(20, 25), (5, 30), (10, 10)])
@pytest.mark.parametrize("kind", ["vit", "deit"])
def test_images_of_another_size_are_read_as_they_read_them(kind, size):
    theirs = published(kind)
    images = torch.randn(B, C, *size, generator=torch.Generator().manual_seed(1))
    expected = theirs(images, interpolate_pos_encoding=True)
    found = ours(theirs, kind)(images)
    logits = found if kind == "vit" else (found.by_class + found.by_teacher) / 2
    torch.testing.assert_close(logits, expected.logits, **CLOSE)


def test_deit_is_deit():
    """Theirs averages the logits of the two heads, ours their probabilities, as in the paper."""
    theirs = published("deit")
    answers, expected = ours(theirs, "deit")(IMAGES), theirs(IMAGES)
    torch.testing.assert_close(tuple(answers), (expected.cls_logits, expected.distillation_logits), **CLOSE)


@pytest.mark.parametrize("kind", ["vit", "deit"])
@pytest.mark.parametrize("mechanism", [(), (fused_scaled_dot_product_attention,)])
def test_both_are_read_from_what_save_pretrained_writes(tmp_path, kind, mechanism):
    theirs = published(kind, layer_norm_eps=1e-3)
    model = LOAD[kind](saved(theirs, tmp_path), *mechanism)
    found = model(IMAGES)
    logits = found if kind == "vit" else (found.by_class + found.by_teacher) / 2
    torch.testing.assert_close(logits, theirs(IMAGES).logits, **CLOSE)


def test_the_names_of_the_published_files_are_read_too():
    """Those on the hub were written by transformers 4; the newest give the same weights other names."""
    theirs = published("vit")
    renamed = (
        ("vit.layers.", "vit.encoder.layer."),
        ("attention.q_proj.", "attention.attention.query."),
        ("attention.k_proj.", "attention.attention.key."),
        ("attention.v_proj.", "attention.attention.value."),
        ("attention.o_proj.", "attention.output.dense."),
        ("mlp.fc1.", "intermediate.dense."),
        ("mlp.fc2.", "output.dense."),
    )
    old = {}
    for name, tensor in theirs.state_dict().items():
        for new, before in renamed:
            name = name.replace(new, before)
        old[name] = tensor
    assert "vit.encoder.layer.0.attention.attention.query.weight" in old
    expected = from_vit(theirs.state_dict())
    found = from_vit(old)
    assert found.keys() == expected.keys()
    assert all(found[name].equal(expected[name]) for name in expected)


@pytest.mark.parametrize("kind", ["vit", "deit"])
def test_a_folder_without_a_head_is_told_so(tmp_path, kind):
    saved(published(kind, {"vit": "ViTModel", "deit": "DeiTModel"}[kind]), tmp_path)
    with pytest.raises(ValueError, match=r"no weights for .*classifier.*without its heads"):
        LOAD[kind](tmp_path)


def test_another_kind_of_model_is_refused(tmp_path):
    saved(published("vit"), tmp_path)
    with pytest.raises(ValueError, match="'vit'; 'deit' is expected"):
        load_deit(tmp_path)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"hidden_act": "swish"}, "the activation 'swish'"),
        ({"qkv_bias": False}, "with biases in its attention"),
        ({"patch_size": [5, 3]}, "only square patches"),
    ],
)
def test_equations_that_are_not_ours_are_refused(tmp_path, setting, message):
    file = saved(published("vit"), tmp_path) / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | setting))
    with pytest.raises(ValueError, match=message):
        load_vit(tmp_path)


def test_images_that_are_not_square_are_read(tmp_path):
    """Hugging Face takes height and width as a list, and resizes only from square grids: the training size is used."""
    transformers = pytest.importorskip("transformers", reason=peers.REASON)
    sizes = {"hidden_size": 21, "num_attention_heads": 3, "intermediate_size": 29, "num_hidden_layers": 2}
    config = transformers.ViTConfig(image_size=[10, 15], patch_size=P, num_channels=C, num_labels=K, **sizes)
    theirs = shaken(transformers.ViTForImageClassification(config))
    images = IMAGES[..., :10, :]
    torch.testing.assert_close(load_vit(saved(theirs, tmp_path))(images), theirs(images).logits, **CLOSE)


def test_a_patch_size_of_two_equal_sides_is_square(tmp_path):
    theirs = published("vit")
    file = saved(theirs, tmp_path) / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"patch_size": [P, P]}))
    torch.testing.assert_close(load_vit(tmp_path)(IMAGES), theirs(IMAGES).logits, **CLOSE)


@pytest.mark.parametrize("name", ["gelu_pytorch_tanh", "gelu_python", "relu"])
@pytest.mark.parametrize("kind", ["vit", "deit"])
def test_activations_are_read_by_their_published_names(tmp_path, kind, name):
    theirs = published(kind, hidden_act=name)
    found = LOAD[kind](saved(theirs, tmp_path))(IMAGES)
    logits = found if kind == "vit" else (found.by_class + found.by_teacher) / 2
    torch.testing.assert_close(logits, theirs(IMAGES).logits, **CLOSE)
