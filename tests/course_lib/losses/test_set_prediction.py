"""The set prediction loss: by hand, by a loop, in any order of objects and queries, and against the published code."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.losses import deep_set_loss, match, match_greedily, matching_cost, set_loss
from course_lib.losses.set_prediction import BoxWeights
from course_lib.primitives import giou, to_corners

B, N, M, K = 3, 7, 5, 11
EQUAL = BoxWeights(1.0, 1.0, 1.0)


def boxes(*batch, seed=0, dtype=torch.float32):
    return 0.1 + 0.4 * torch.rand(*batch, 4, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def scene(dtype=torch.float32):
    """Predictions and targets: five, two and no objects."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(B, N, K + 1, generator=generator, dtype=dtype)
    classes = torch.tensor([[3, 0, 10, 3, 7], [1, -1, 5, -1, -1], [-1] * 5])
    return logits, boxes(B, N, dtype=dtype), classes, boxes(B, M, seed=1, dtype=dtype)


def test_the_cost_by_hand():
    """The same box, and half of the probability: -½ + 5 · 0 - 2 · 1; a box moved by its width: L1 ½, GIoU 0."""
    logits = torch.zeros(2, 2)
    said = torch.tensor([[0.25, 0.5, 0.5, 1.0], [0.75, 0.5, 0.5, 1.0]])
    cost = matching_cost(logits, said, torch.tensor([0]), said[:1])
    torch.testing.assert_close(cost, torch.tensor([[-2.5], [-0.5 + 2.5]]))


def test_the_cost_is_that_of_a_loop():
    logits, said, classes, targets = scene()
    cost = matching_cost(logits, said, classes, targets, BoxWeights(0.7, 3.0, 1.3))
    for b in range(B):
        for n in range(N):
            for m in range(M):
                expected = 0.0
                if classes[b, m] >= 0:
                    p = logits[b, n].softmax(-1)[classes[b, m]]
                    near = giou(to_corners(said[b, n])[None], to_corners(targets[b, m])[None])[0, 0]
                    expected = -0.7 * p + 3.0 * F.l1_loss(said[b, n], targets[b, m], reduction="sum") - 1.3 * near
                torch.testing.assert_close(cost[b, n, m], torch.as_tensor(expected))


def test_the_loss_by_hand():
    """Two queries and one object. The logits give every class a half; the box is next to the object."""
    logits = torch.zeros(1, 2, 2)
    said = torch.tensor([[[0.25, 0.5, 0.5, 1.0], [0.1, 0.1, 0.1, 0.1]]])
    targets = torch.tensor([[[0.75, 0.5, 0.5, 1.0]]])
    loss = set_loss(logits, said, torch.tensor([[0]]), targets, torch.tensor([[0]]))
    torch.testing.assert_close(loss.classes, torch.tensor(math.log(2)))
    torch.testing.assert_close(loss.l1, torch.tensor(0.5))
    torch.testing.assert_close(loss.giou, torch.tensor(1.0))
    torch.testing.assert_close(loss.total(BoxWeights(1.0, 2.0, 3.0)), torch.tensor(math.log(2) + 4.0))


def test_the_classes_are_torchs_weighed_cross_entropy():
    logits, said, classes, targets = scene()
    queries = match(matching_cost(logits, said, classes, targets), classes)
    wanted = torch.full((B, N), K)
    for b in range(B):
        for m in range(M):
            if classes[b, m] >= 0:
                wanted[b, queries[b, m]] = classes[b, m]
    weight = torch.cat([torch.ones(K), torch.tensor([0.3])])
    expected = F.cross_entropy(logits.mT, wanted, weight)
    torch.testing.assert_close(set_loss(logits, said, classes, targets, queries, no_object=0.3).classes, expected)


def matched_loss(logits, said, classes, targets, matching=match):
    return deep_set_loss(logits[None], said[None], classes, targets, matching)


def test_the_order_of_the_objects_does_not_matter():
    logits, said, classes, targets = scene(torch.float64)
    order = torch.tensor([4, 1, 0, 2, 3])
    turned = matched_loss(logits, said, classes[:, order], targets[:, order])
    torch.testing.assert_close(turned, matched_loss(logits, said, classes, targets))


def test_the_order_of_the_queries_does_not_matter():
    logits, said, classes, targets = scene(torch.float64)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(3))
    turned = matched_loss(logits[:, order], said[:, order], classes, targets)
    torch.testing.assert_close(turned, matched_loss(logits, said, classes, targets))


def test_greed_makes_the_order_matter():
    """The negative control of the two above."""
    logits, said, classes, targets = scene(torch.float64)
    losses = {matched_loss(logits, said, classes.roll(i, 1), targets.roll(i, 1), match_greedily).item() for i in range(M)}
    assert max(losses) > min(losses) + 1e-3


def test_every_layer_is_matched_for_itself():
    logits, said, classes, targets = scene()
    other = torch.randn(B, N, K + 1, generator=torch.Generator().manual_seed(9)), boxes(B, N, seed=8)
    both = deep_set_loss(torch.stack([logits, other[0]]), torch.stack([said, other[1]]), classes, targets)
    torch.testing.assert_close(both, matched_loss(logits, said, classes, targets) + matched_loss(*other, classes, targets))


def test_pictures_without_objects_teach_only_that_there_is_none():
    logits, said, _, targets = scene()
    said = said.requires_grad_()
    nothing = torch.full((B, M), -1)
    loss = set_loss(logits, said, nothing, targets, nothing)
    torch.testing.assert_close(loss.classes, F.cross_entropy(logits.mT, torch.full((B, N), K)))
    assert loss.l1 == loss.giou == 0
    assert torch.autograd.grad(loss.total(), said)[0].eq(0).all()
    assert set_loss(logits, said, nothing[:, :0], targets[:, :0], nothing[:, :0]).l1 == 0


def test_pictures_without_objects_teach_nothing_where_no_object_weighs_nothing():
    logits, said, _, targets = scene()
    logits, nothing = logits.requires_grad_(), torch.full((B, M), -1)
    loss = set_loss(logits, said, nothing, targets, nothing, no_object=0.0)
    assert loss == (0, 0, 0)
    assert torch.autograd.grad(loss.total(), logits)[0].eq(0).all()


def test_classes_may_be_of_any_integers():
    logits, said, classes, targets = scene()
    queries = match(matching_cost(logits, said, classes, targets), classes)
    short = classes.int()
    assert torch.equal(matching_cost(logits, said, short, targets), matching_cost(logits, said, classes, targets))
    assert set_loss(logits, said, short, targets, queries.int()) == set_loss(logits, said, classes, targets, queries)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_costs_no_more_than_its_rounding(dtype):
    """Cost, losses and gradients of the same rounded numbers, against float64."""
    logits, said, classes, targets = scene()
    queries = match(matching_cost(logits, said, classes, targets), classes)
    results = []
    for kind in (dtype, torch.float64):
        z, b, t = (x.to(dtype).to(kind) for x in (logits, said, targets))
        z.requires_grad_()
        b.requires_grad_()
        loss = set_loss(z, b, classes, t, queries)
        values = [matching_cost(z, b, classes, t), *loss, *torch.autograd.grad(loss.total(), (z, b))]
        assert all(value.dtype == kind for value in values)
        results.append([value.double() for value in values])
    for ours, exact in zip(*results, strict=True):
        torch.testing.assert_close(ours, exact, rtol=0, atol=16 * torch.finfo(dtype).eps * exact.abs().max().item())
    deep = deep_set_loss(logits[None].to(dtype), said[None].to(dtype), classes, targets.to(dtype))
    assert deep.dtype == dtype
    torch.testing.assert_close(deep.float(), matched_loss(logits, said, classes, targets), rtol=0.05, atol=0)


def test_what_stands_at_padding_does_not_matter():
    logits, said, classes, targets = scene()
    wild = torch.where((classes >= 0)[..., None], targets, 1e3)
    torch.testing.assert_close(matched_loss(logits, said, classes, wild), matched_loss(logits, said, classes, targets))


@pytest.mark.parametrize("wrong", [-2, K, K + 1])
def test_a_class_without_a_logit_is_refused(wrong):
    """K is the logit of "no object", which is not a class of an object; only -1 is padding."""
    logits, said, classes, targets = scene()
    queries = match(matching_cost(logits, said, classes, targets), classes)
    classes[0, 1] = wrong
    for call in (
        lambda: matching_cost(logits, said, classes, targets),
        lambda: set_loss(logits, said, classes, targets, queries),
        lambda: matched_loss(logits, said, classes, targets),
    ):
        with pytest.raises(ValueError, match=f"0 to {K - 1}, and -1 means no object; got .*{wrong}"):
            call()


@pytest.mark.parametrize("wrong", [-1, -2, N, N + 1])
def test_a_query_that_there_is_not_is_refused(wrong):
    """-1 would be read as the last query. For class -1, which means no object, any number is allowed."""
    logits, said, classes, targets = scene()
    queries = match(matching_cost(logits, said, classes, targets), classes)
    usual = set_loss(logits, said, classes, targets, queries)
    assert set_loss(logits, said, classes, targets, torch.where(classes < 0, wrong, queries)) == usual
    queries[1, 2] = wrong
    with pytest.raises(ValueError, match=rf"from 0 to {N - 1}, got (-?\d+ to {wrong}|{wrong} to \d+);"):
        set_loss(logits, said, classes, targets, queries)


def test_two_objects_of_one_query_are_refused():
    """The class of the second would overwrite that of the first. In two images, and beside the class -1, they may be equal."""
    logits, said, classes, targets = scene()
    classes, queries = torch.zeros_like(classes), torch.arange(M).expand(B, M).clone()
    set_loss(logits, said, classes, targets, queries)
    queries[1, 2] = queries[1, 4]
    with pytest.raises(ValueError, match="1 queries have two objects"):
        set_loss(logits, said, classes, targets, queries)
    classes[1, 2] = -1
    set_loss(logits, said, classes, targets, queries)


def test_gradients():
    logits, said, classes, targets = scene(torch.float64)
    queries = match(matching_cost(logits, said, classes, targets), classes)
    leaves = logits[:2].clone().requires_grad_(), said[:2].clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda z, b: set_loss(z, b, classes[:2], targets[:2], queries[:2]).total(), leaves, atol=1e-6
    )


def test_matching_and_loss_are_those_of_the_published_code():
    """Hugging Face's port of DETR's matcher and criterion."""
    theirs = pytest.importorskip("transformers.loss.loss_for_object_detection", reason="transformers is not installed")
    logits, said, classes, targets = scene()
    objects = [{"class_labels": c[c >= 0], "boxes": t[c >= 0]} for c, t in zip(classes, targets, strict=True)]
    matcher = theirs.HungarianMatcher(class_cost=1, bbox_cost=5, giou_cost=2)
    outputs = {"logits": logits, "pred_boxes": said}
    queries = match(matching_cost(logits, said, classes, targets), classes)
    for row, kind, (n, m) in zip(queries, classes, matcher(outputs, objects), strict=True):
        assert torch.equal(row[kind >= 0][m], n)
    criterion = theirs.ImageLoss(matcher, K, eos_coef=0.1, losses=["labels", "boxes"])
    expected = criterion(outputs, objects)
    ours = set_loss(logits, said, classes, targets, queries)
    torch.testing.assert_close(ours.classes, expected["loss_ce"])
    torch.testing.assert_close(ours.l1, expected["loss_bbox"])
    torch.testing.assert_close(ours.giou, expected["loss_giou"])


def test_one_query_and_one_object():
    loss = matched_loss(torch.zeros(1, 1, 2), boxes(1, 1), torch.zeros(1, 1, dtype=torch.long), boxes(1, 1))
    torch.testing.assert_close(loss, torch.tensor(math.log(2)))
    with pytest.raises(ValueError, match="2 objects, but the model only 1 queries"):
        matched_loss(torch.zeros(1, 1, 2), boxes(1, 1), torch.zeros(1, 2, dtype=torch.long), boxes(1, 2))
