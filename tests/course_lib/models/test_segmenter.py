"""The segmenter predicts a class for every pixel; global context reaches all of them."""

import torch
import torch.nn.functional as F

from course_lib.analysis import record
from course_lib.attention import CoOccurrent, NonLocal
from course_lib.blocks import ContextOf, ConvNet
from course_lib.models import Segmenter
from course_tools.lectures.lecture_09.global_average import GlobalAverage

B, H, W, n_classes = 2, 13, 17, 3


def segmenter(*contexts):
    torch.manual_seed(0)
    return Segmenter(ConvNet(1, (5, 8), (2, 1)), n_classes, contexts).double().eval()


def images(*size):
    return torch.randn(B, 1, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_every_pixel_gets_a_class_also_of_one_pixel_and_of_odd_sides():
    for size in ((H, W), (1, 1), (1, 9)):
        model = segmenter(GlobalAverage(8), ContextOf(CoOccurrent(8, 4, 6)), ContextOf(NonLocal(8)))
        assert model(images(*size)).shape == (B, n_classes, *size)


def test_it_is_the_parts_side_by_side_and_one_product():
    mean, attention = GlobalAverage(8), CoOccurrent(8, 4, 6).double()
    model = segmenter(mean, ContextOf(attention))
    x = model.backbone(images(H, W))
    everything = torch.cat([x, x.mean((2, 3))[..., None, None].expand(-1, -1, 7, 9), attention(x).context], dim=1)
    logits = torch.einsum("bdhw,cd->bchw", everything, model.W.weight[..., 0, 0]) + model.W.bias[:, None, None]
    torch.testing.assert_close(model(images(H, W)), F.interpolate(logits, (H, W), mode="bilinear"))


def far_pixel_matters(*contexts):
    model, before, after = segmenter(*contexts), images(H, W), images(H, W)
    after[:, :, -1, -1] += 1.0
    return not torch.equal(model(before)[:, :, 0, 0], model(after)[:, :, 0, 0])


def test_without_context_a_pixel_knows_its_surroundings_alone():
    assert not far_pixel_matters()
    assert far_pixel_matters(GlobalAverage(8))
    assert far_pixel_matters(ContextOf(CoOccurrent(8, 4, 6)))


def test_its_attention_is_recorded():
    model = segmenter(ContextOf(CoOccurrent(8, 4, 6)))
    with record(model) as seen:
        model(images(H, W))
    assert seen["contexts.0.attention"][0].weights.shape == (B, 7 * 9, 7 * 9)


def test_every_weight_learns():
    model = segmenter(GlobalAverage(8), ContextOf(CoOccurrent(8, 4, 6))).train()
    model(images(H, W)).square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in model.parameters())
