"""ViT is the encoder on patches; order comes only from position embeddings, which are resized for other sizes."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.analysis import record, rollout
from course_lib.blocks import Sizes, encoder_stack, pre_norm, zero_head
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import PatchEncoder, ViT
from course_lib.primitives import interpolate_positions, patchify

B, C, P, K = 2, 3, 5, 7
IMAGE = (C, 10, 15)
SIZES = Sizes(d_model=6, n_heads=3, d_ff=11, n_layers=2)


def shaken(model):
    """Weights with a large variance, including the head and the norms."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    return model


def vit(mechanism=None, image=IMAGE):
    return shaken(ViT(K, image, P, SIZES, *([mechanism] if mechanism else [])))


def test_vit_is_the_encoder_on_patches(normal):
    model, images = vit(), normal(B, *IMAGE)
    stack = encoder_stack(SIZES, activation=F.gelu, residual=pre_norm, norm=lambda d: torch.nn.LayerNorm(d, eps=1e-6)).double()
    stack.load_state_dict(model.encoder.stack.state_dict())
    tokens = [model.encoder.project(patchify(images, P))]
    tokens.insert(0, model.encoder.learned.expand(B, 1, -1))
    states = stack(torch.cat(tokens, dim=1) + model.encoder.positions)
    torch.testing.assert_close(model(images), model.head(states[:, 0]))


def test_the_fused_form_has_the_outputs_and_gradients_of_the_equations(normal):
    images, labels, results = normal(B, *IMAGE), torch.tensor([0, 6]), []
    for mechanism in (None, fused_scaled_dot_product_attention):
        model = vit(mechanism)
        logits = model(images)
        results.append((logits, *torch.autograd.grad(F.cross_entropy(logits, labels), list(model.parameters()))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_class_token_hears_of_every_patch(normal):
    images = normal(1, *IMAGE)
    (gradient,) = torch.autograd.grad(vit()(images)[0, 0], images)
    assert (gradient != 0).all()


def test_patches_in_another_order_are_another_image_only_by_their_positions(normal):
    """Without positions the prediction is that of a bag of patches."""
    model, images = vit(), normal(B, *IMAGE)
    swapped = torch.cat([images[..., P:], images[..., :P]], dim=-1)
    assert (model(swapped) - model(images)).abs().max() > 1e-3
    torch.nn.init.zeros_(model.encoder.positions)
    torch.testing.assert_close(model(swapped), model(images))


def test_a_new_model_finds_every_class_as_likely():
    torch.manual_seed(0)
    assert (ViT(K, IMAGE, P, SIZES)(torch.randn(B, *IMAGE)) == 0).all()


def test_images_of_another_size_are_read_at_resized_positions(normal):
    """As in a model made for that size, with the resized positions."""
    model, larger = vit(), vit(image=(C, 20, 10))
    images = normal(B, C, 20, 10)
    weights = model.state_dict()
    weights["encoder.positions"] = interpolate_positions(model.encoder.positions, 2, 3, 4, 2)
    larger.load_state_dict(weights)
    torch.testing.assert_close(larger(images), model(images))


@pytest.mark.parametrize("n_learned", [0, 1, 2, 5])
def test_an_encoder_gives_one_state_for_each_learned_token_and_patch(n_learned, normal):
    encoder = shaken(PatchEncoder(IMAGE, P, SIZES, n_learned=n_learned))
    assert encoder(normal(B, *IMAGE)).shape == (B, n_learned + 6, SIZES.d_model)


@pytest.mark.parametrize(("image", "P"), [((1, 1, 1), 1), ((2, 5, 5), 5), ((1, 1, 7), 1)])
def test_one_pixel_and_one_patch_are_an_image(image, P, normal):
    model = shaken(ViT(K, image, P, SIZES))
    assert model(normal(B, *image)).shape == (B, K)
    assert model(normal(0, *image)).shape == (0, K)


def test_a_new_head_learns_another_task(normal):
    model, images = vit(), normal(B, *IMAGE)
    before = model.encoder(images)
    model.head = zero_head(SIZES.d_model, 2).double()
    assert (model(images) == 0).all()
    torch.testing.assert_close(model.encoder(images), before)


def test_a_zero_head_passes_no_gradient_at_the_first_step(normal):
    model = vit()
    model.head = zero_head(SIZES.d_model, 2).double()
    F.cross_entropy(model(normal(B, *IMAGE)), torch.tensor([0, 1])).backward()
    assert all((p.grad == 0).all() for p in model.encoder.parameters())
    assert (model.head.weight.grad != 0).any()


def test_its_attention_can_be_rolled_out(normal):
    model = vit()
    with record(model) as seen, torch.no_grad():
        model(normal(B, *IMAGE))
    drawn = rollout(torch.stack([attended[0].weights for attended in seen.values()]))
    assert drawn.shape == (B, 7, 7)
    torch.testing.assert_close(drawn.sum(-1), torch.ones(B, 7).double())


@pytest.mark.parametrize("n_channels", [1, C + 1])
def test_images_of_other_channels_are_refused(normal, n_channels):
    with pytest.raises(ValueError, match=f"wrong channels: {C}, got {n_channels};"):
        vit()(normal(B, n_channels, *IMAGE[1:]))


def test_sizes_that_do_not_divide_are_refused(normal):
    with pytest.raises(ValueError, match="11 × 15 pixels do not divide into patches of 5 × 5"):
        ViT(K, (C, 11, 15), P, SIZES)
    with pytest.raises(ValueError, match="10 × 14 pixels do not divide"):
        vit()(normal(B, C, 10, 14))
