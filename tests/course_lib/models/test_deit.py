"""DeiT is a ViT with a second token, which learns from the teacher."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.blocks import Sizes
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import DeiT
from course_lib.models.deit import DeiTLogits

B, C, P, K = 2, 3, 5, 7
IMAGE = (C, 10, 15)
SIZES = Sizes(d_model=6, n_heads=3, d_ff=11, n_layers=2)
LABELS = torch.tensor([0, 6])


def deit(*mechanism):
    generator = torch.Generator().manual_seed(0)
    model = DeiT(K, IMAGE, P, SIZES, *mechanism).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    return model


def test_each_answer_is_read_from_its_own_token(normal):
    model, images = deit(), normal(B, *IMAGE)
    states = model.encoder(images)
    answers = model(images)
    torch.testing.assert_close(answers.by_class, model.head(states[:, 0]))
    torch.testing.assert_close(answers.by_teacher, model.teacher_head(states[:, 1]))
    assert (answers.by_class - answers.by_teacher).abs().max() > 0.1


def test_two_tokens_that_start_alike_stay_alike(normal):
    """They differ only by the learned tokens, their positions and heads."""
    model = deit()
    with torch.no_grad():
        for tensor in (model.encoder.learned, model.encoder.positions):
            tensor[1] = tensor[0]
        model.teacher_head.load_state_dict(model.head.state_dict())
    torch.testing.assert_close(*model(normal(B, *IMAGE)))


def test_probabilities_are_averaged_not_logits():
    sure, unsure = torch.tensor([[100.0, 0.0]]), torch.tensor([[0.0, 0.0]])
    assert DeiTLogits(sure, unsure).probabilities().tolist() == [[0.75, 0.25]]


def test_the_teacher_trains_its_own_head_alone(normal):
    model = deit()
    answers = model(normal(B, *IMAGE))
    F.cross_entropy(answers.by_class, LABELS).backward()
    assert model.teacher_head.weight.grad is None
    assert model.head.weight.grad.abs().max() > 0


def test_the_fused_form_has_the_outputs_and_gradients_of_the_equations(normal):
    images, teacher, results = normal(B, *IMAGE), normal(B, K), []
    for mechanism in ((), (fused_scaled_dot_product_attention,)):
        model = deit(*mechanism)
        answers = model(images)
        loss = F.cross_entropy(answers.by_class, LABELS) + F.cross_entropy(answers.by_teacher, teacher.argmax(-1))
        results.append((*answers, *torch.autograd.grad(loss, list(model.parameters()))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_images_of_another_size_are_read_too(normal):
    assert deit()(normal(B, C, 20, 5)).by_teacher.shape == (B, K)
    with pytest.raises(ValueError, match="do not divide"):
        deit()(normal(B, C, 20, 6))
