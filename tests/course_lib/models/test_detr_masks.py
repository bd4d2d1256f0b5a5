"""DETR's mask head: by hand, against the published layers weight for weight, and masks that follow their queries."""

import math
import re
from functools import partial

import pytest
import torch
from torch import nn

from course_lib.blocks import ConvNet, Sizes
from course_lib.models import DETR, AttentionMaps, DETRWithMasks, LearnedQueries, MaskHead, PointQueries, read_objects

B, N, K, H, W = 2, 5, 3, 19, 23
SIZES = Sizes(d_model=24, n_heads=3, d_ff=29, n_layers=2)
REASON = "transformers is not installed: pip install -e '.[peers]'"
close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5)


def drawn(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def model(queries=LearnedQueries, backbone=None):
    """A DETR whose backbone has maps of 10 × 12 and 5 × 6 cells, and a mask head on it."""
    torch.manual_seed(0)
    backbone = backbone or ConvNet(1, (7, 11, 13), (2, 2, 1))
    detr = DETR(backbone, 13, K, queries(N, SIZES.d_model), SIZES)
    head = MaskHead(SIZES.d_model, SIZES.n_heads, (7, 1), n_groups=3)
    return DETRWithMasks(detr, AttentionMaps(SIZES.d_model, SIZES.n_heads), head).eval()


def test_maps_by_hand():
    """One head, one query (1, 0), three cells whose keys are (0, ·), (0, ·) and (√2 ln 2, ·): weights ¼, ¼ and ½."""
    maps = AttentionMaps(2, 1)
    for projection in (maps.W_q, maps.W_k):
        nn.init.eye_(projection.weight)
    memory = torch.tensor([[0.0, 0.0, math.sqrt(2) * math.log(2)], [5.0, -3.0, 7.0]]).view(1, 2, 1, 3)
    weights = maps(torch.tensor([[[1.0, 0.0]]]), memory)
    torch.testing.assert_close(weights.detach(), torch.tensor([0.25, 0.25, 0.5]).view(1, 1, 1, 1, 3))


def test_the_maps_of_a_query_sum_to_1_over_the_cells_of_all_heads():
    """Over all heads together: the sum of one head is free."""
    weights = AttentionMaps(24, 3)(drawn(B, N, 24), drawn(B, 24, 5, 7, seed=1))
    assert weights.shape == (B, N, 3, 5, 7)
    assert (weights > 0).all()
    close(weights.sum((2, 3, 4)), torch.ones(B, N))
    assert (weights.sum((3, 4)) - 1 / 3).abs().max() > 0.05


def test_maps_are_those_of_a_loop_over_queries_heads_and_cells():
    maps, queries, memory = AttentionMaps(6, 3), drawn(1, 2, 6), drawn(1, 6, 2, 5, seed=1)
    weights = maps(queries, memory)
    for n in range(2):
        scores = torch.empty(3, 2, 5)
        for head, y, x in ((m, y, x) for m in range(3) for y in range(2) for x in range(5)):
            rows = slice(2 * head, 2 * head + 2)
            q = maps.W_q.weight[rows] @ queries[0, n] + maps.W_q.bias[rows]
            k = maps.W_k.weight[rows] @ memory[0, :, y, x] + maps.W_k.bias[rows]
            scores[head, y, x] = q @ k / math.sqrt(2)
        close(weights[0, n], scores.exp() / scores.exp().sum())


def test_maps_are_those_of_the_published_layer():
    """Hugging Face's port of DETR."""
    published = pytest.importorskip("transformers.models.detr.modeling_detr", reason=REASON)
    ours, theirs = AttentionMaps(24, 3), published.DetrMHAttentionMap(24, 3).eval()
    with torch.no_grad():
        for mine, other in ((ours.W_q, theirs.q_proj), (ours.W_k, theirs.k_proj)):
            other.bias.normal_()
            mine.load_state_dict(other.state_dict())
    queries, memory = drawn(B, N, 24), drawn(B, 24, 5, 7, seed=1)
    close(ours(queries, memory), theirs(queries, memory))


def test_the_head_is_the_published_one():
    """With three lateral maps, as published, each of another size that is no multiple of the one before."""
    published = pytest.importorskip("transformers.models.detr.modeling_detr", reason=REASON)
    d_laterals, sizes = (11, 7, 5), ((6, 9), (13, 17), (19, 37))
    ours = MaskHead(128, 8, d_laterals)
    theirs = published.DetrMaskHeadSmallConv(136, list(d_laterals), 128).eval()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(0.3 * drawn(*weight.shape, seed=weight.numel()))
    renamed = {}
    for name, weight in theirs.state_dict().items():
        name = re.sub(r"^conv(\d)\.", lambda found: f"layers.{int(found[1]) - 1}.", name)
        name = re.sub(r"^fpn_stages\.(\d)\.fpn_adapter", r"laterals.\1", name)
        name = re.sub(r"^fpn_stages\.(\d)\.\w+", lambda found: f"layers.{int(found[1]) + 2}", name)
        name = name.replace("output_conv", "mask")
        renamed[re.sub(r"(layers\.\d)\.(\w+)", lambda found: f"{found[1]}.{'01'['norm' in found[2]]}", name)] = weight
    ours.load_state_dict(renamed)
    features, maps = drawn(B, 128, 3, 5), drawn(B, N, 8, 3, 5, seed=1)
    laterals = [drawn(B, d, *size, seed=d) for d, size in zip(d_laterals, sizes, strict=True)]
    masks = ours(features, maps, laterals)
    assert masks.shape == (B, N, 19, 37)
    expected = theirs(features, maps, laterals).view(B, N, 19, 37)
    torch.testing.assert_close(masks, expected, atol=1e-4, rtol=1e-4)


def test_a_head_without_lateral_maps_keeps_the_size():
    head = MaskHead(24, 3, (), n_groups=3)
    assert head(drawn(B, 24, 5, 7), drawn(B, N, 3, 5, 7)).shape == (B, N, 5, 7)


def test_a_missing_lateral_map_is_refused():
    with pytest.raises(ValueError, match="zip"):
        MaskHead(24, 3, (7, 1), n_groups=3)(drawn(B, 24, 5, 7), drawn(B, N, 3, 5, 7), (drawn(B, 7, 9, 11),))


def test_heads_that_do_not_divide_the_features_are_refused():
    with pytest.raises(ValueError, match="24 features do not divide into 7 heads"):
        AttentionMaps(24, 7)(drawn(B, N, 24), drawn(B, 24, 5, 7))


@pytest.mark.parametrize("queries", [LearnedQueries, PointQueries])
@torch.no_grad()
def test_classes_and_boxes_are_those_of_the_detr(queries):
    """`read_objects` repeats the lines of `DETR.decode`."""
    net = model(queries)
    found, expected = net(drawn(B, 1, H, W)), net.detr(drawn(B, 1, H, W))
    assert torch.equal(found.logits, expected.logits)
    assert torch.equal(found.boxes, expected.boxes)
    assert found.masks.shape == (B, N, H, W)


@torch.no_grad()
def test_queries_in_another_order_predict_the_same_masks():
    """In float64, since the masks of an untrained head differ little: maps are about 1 / 90, features about 1."""
    net, order, images = model().double(), torch.tensor([3, 0, 4, 1, 2]), drawn(B, 1, H, W).double()
    before = net(images)
    net.detr.queries.vectors.copy_(net.detr.queries.vectors[order].clone())
    after = net(images)
    torch.testing.assert_close(after.masks, before.masks[:, order], atol=1e-12, rtol=0)
    assert (before.masks[:, 0] - before.masks[:, 1]).abs().max() > 1e-6


@torch.no_grad()
def test_the_masks_of_some_queries_alone_are_the_same():
    """So a head can be trained on matched queries, each with the features of its image."""
    net, b, n = model(), torch.tensor([0, 1, 1]), torch.tensor([4, 0, 2])
    images = drawn(B, 1, H, W)
    read = read_objects(net.detr, images)
    maps = net.maps(read.states[-1, b, n][:, None], read.memory[b])
    masks = net.head(read.features[b], maps, [lateral[b] for lateral in read.laterals])
    close(masks[:, 0], net(images).masks[b, n])


@torch.no_grad()
def test_an_image_does_not_change_the_masks_of_another():
    net, images = model(), drawn(B, 1, H, W)
    close(net(images[:1]).masks, net(images).masks[:1])


@torch.no_grad()
def test_lateral_maps_are_those_before_each_stride_and_the_images_last():
    net, images = model(), drawn(B, 1, H, W)
    read = read_objects(net.detr, images)
    assert [tuple(lateral.shape[1:]) for lateral in read.laterals] == [(7, 10, 12), (1, H, W)]
    assert read.laterals[-1] is images
    first, norm, relu, *_ = net.detr.backbone.layers
    assert torch.equal(read.laterals[0], relu(norm(first(images))))
    assert torch.equal(read.features, net.detr.project(net.detr.backbone(images)))


def test_a_backbone_whose_maps_are_not_known_is_refused():
    with pytest.raises(TypeError, match="of a ConvNet, but the backbone is a Conv2d"):
        model(backbone=nn.Conv2d(1, 13, 4, 4))(drawn(B, 1, H, W))


def test_every_weight_of_the_head_learns_and_a_frozen_detr_gets_no_gradient():
    net = model()
    net.detr.requires_grad_(False)
    net(drawn(B, 1, H, W)).masks.square().mean().backward()
    silent = {name for name, weight in net.named_parameters() if weight.grad is None or weight.grad.eq(0).all()}
    assert {name for name in silent if not name.startswith("detr.")} <= {"maps.W_k.bias"}
    assert {name for name, _ in net.named_parameters() if name.startswith("detr.")} <= silent


def test_gradients():
    torch.manual_seed(0)
    maps, head = AttentionMaps(6, 3).double(), MaskHead(6, 3, (2,), n_groups=1).double()
    inputs = [drawn(*size).double().requires_grad_() for size in ((1, 2, 6), (1, 6, 2, 3), (1, 6, 2, 3), (1, 2, 5, 3))]

    def masks(queries, memory, features, lateral):
        return head(features, maps(queries, memory), (lateral,))

    assert torch.autograd.gradcheck(masks, inputs)


def test_no_object_at_all_has_no_mask_and_a_gradient_of_0():
    head = MaskHead(8, 4, (3,), n_groups=2)
    masks = head(torch.randn(0, 8, 2, 3), torch.rand(0, 1, 4, 2, 3), [torch.randn(0, 3, 4, 6)])
    assert masks.shape == (0, 1, 4, 6)
    masks.sum().backward()
    assert all((weight.grad == 0).all() for weight in head.parameters())


@pytest.mark.parametrize(("d_model", "n_laterals", "n_groups"), [(8, 1, 3), (2, 2, 1), (8, 1, 0)])
def test_groups_that_do_not_divide_the_channels_are_refused(d_model, n_laterals, n_groups):
    with pytest.raises(ValueError, match=f"{n_groups} groups must divide the channels of each layer"):
        MaskHead(d_model, 4, (3,) * n_laterals, n_groups)


def test_scores_beyond_float16_choose_the_cell_of_float32():
    """With both projections the identity, the largest score is 2 · 600² / √2, about 509,000; float16 ends at 65,504."""
    maps = AttentionMaps(2, 1)
    nn.init.eye_(maps.W_q.weight)
    nn.init.eye_(maps.W_k.weight)
    queries, memory = torch.full((1, 1, 2), 600.0), torch.tensor([[[[300.0, 600.0, -600.0]], [[300.0, 600.0, -600.0]]]])
    assert maps.half()(queries.half(), memory.half()).flatten().tolist() == [0, 1, 0]
