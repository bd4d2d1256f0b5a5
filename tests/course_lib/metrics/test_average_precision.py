"""Average precision: by hand, by a loop over thresholds, and against COCO's own code."""

import contextlib
import io

import pytest
import torch

from course_lib.metrics import average_precision, find_hits, mean_average_precision

B, N, M, K = 13, 7, 5, 3


def test_by_hand():
    """Three objects; hit, miss, hit: precision 1 up to a recall of 1/3, 2/3 up to 2/3, then nothing."""
    ap = average_precision(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([True, False, True]), 3)
    torch.testing.assert_close(ap, torch.tensor((34 * 1.0 + 33 * 2 / 3) / 101))


@pytest.mark.parametrize(("hits", "n_objects", "ap"), [([True] * 4, 4, 1.0), ([False] * 4, 4, 0.0), ([], 4, 0.0)])
def test_its_ends(hits, n_objects, ap):
    scores = torch.linspace(1, 0, len(hits))
    assert average_precision(scores, torch.tensor(hits, dtype=torch.bool), n_objects) == ap


def test_only_the_order_of_the_scores_counts():
    scores, hits = torch.rand(50, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 3 == 0
    assert average_precision(scores, hits, 20) == average_precision(scores.exp() * 5, hits, 20)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(1))
    assert average_precision(scores[order], hits[order], 20) == average_precision(scores, hits, 20)


def test_it_is_that_of_a_loop_over_recalls():
    generator = torch.Generator().manual_seed(2)
    scores, hits = torch.rand(40, generator=generator), torch.rand(40, generator=generator) < 0.4
    n_objects, best = 25, []
    for r in range(101):
        kept = [scores >= s for s in scores]
        reached = [hits[k].sum() / k.sum() for k in kept if hits[k].sum() / n_objects >= r / 100]
        best.append(max(reached) if reached else torch.tensor(0.0))
    torch.testing.assert_close(average_precision(scores, hits, n_objects), torch.stack(best).mean())


def test_an_object_is_found_once_and_by_the_most_confident():
    box = torch.tensor([[0.1, 0.1, 0.5, 0.5]])
    scores = torch.tensor([0.3, 0.9, 0.6])
    hits = find_hits(scores, box.repeat(3, 1), torch.zeros(3).long(), box, torch.zeros(1).long())
    assert hits.tolist() == [False, True, False]


def test_an_object_of_another_picture_is_not_found():
    box = torch.tensor([[0.1, 0.1, 0.5, 0.5]])
    one = torch.tensor([0.9])
    assert not find_hits(one, box, torch.tensor([1]), box, torch.tensor([0])).any()
    assert not find_hits(one, box, torch.tensor([0]), box[:0], torch.zeros(0).long()).any()


def test_nothing_to_find_is_refused():
    with pytest.raises(ValueError, match="leave the class out"):
        average_precision(torch.zeros(1), torch.zeros(1, dtype=torch.bool), 0)
    with pytest.raises(ValueError, match="no image contains an object"):
        mean_average_precision(torch.rand(1, 2, 3), torch.rand(1, 2, 4), torch.full((1, 2), -1), torch.rand(1, 2, 4))


def test_an_object_of_a_class_without_a_probability_is_refused():
    classes = torch.tensor([[0, -1], [1, 3]])
    with pytest.raises(ValueError, match="an object has class 3, but no probability"):
        mean_average_precision(torch.rand(2, 4, 3), torch.rand(2, 4, 4), classes, torch.rand(2, 2, 4))
    with pytest.raises(ValueError, match="no image contains an object"):
        mean_average_precision(torch.rand(2, 4, 3), torch.rand(2, 4, 4), classes[:, :0], torch.rand(2, 0, 4))


def corners(*batch, generator):
    points = torch.rand(*batch, 2, 2, generator=generator)
    return points.sort(dim=-2).values.flatten(-2)


@pytest.mark.parametrize("threshold", [0.5, 0.75])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_that_of_coco(seed, threshold):
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed: pip install -e '.[peers]'")
    from pycocotools.cocoeval import COCOeval

    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(-1, K, (B, M), generator=generator)
    targets = 100 * corners(B, M, generator=generator)
    near = (targets + 4 * torch.randn(B, M, 4, generator=generator)).unflatten(-1, (2, 2)).sort(dim=-2).values.flatten(-2)
    boxes = torch.cat([near, 100 * corners(B, N - M, generator=generator)], dim=1)
    probabilities = torch.rand(B, N, K, generator=generator)

    def as_coco(corner):
        x_1, y_1, x_2, y_2 = corner.double().tolist()
        return [x_1, y_1, x_2 - x_1, y_2 - y_1]

    truth = coco.COCO()
    truth.dataset = {
        "info": {},
        "images": [{"id": b} for b in range(B)],
        "categories": [{"id": c + 1} for c in range(K)],
        "annotations": [
            {"id": 1 + b * M + m, "image_id": b, "category_id": classes[b, m].item() + 1, "iscrowd": 0}
            | {"bbox": as_coco(targets[b, m]), "area": 1.0}
            for b in range(B)
            for m in range(M)
            if classes[b, m] >= 0
        ],
    }
    said = [
        {"image_id": b, "category_id": c + 1, "bbox": as_coco(boxes[b, n]), "score": probabilities[b, n, c].item()}
        for b in range(B)
        for n in range(N)
        for c in range(K)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        judge = COCOeval(truth, truth.loadRes(said), "bbox")
        judge.params.iouThrs = torch.tensor([threshold]).double().numpy()
        judge.evaluate()
        judge.accumulate()
    expected = judge.eval["precision"][0, :, :, 0, -1].mean()
    ours = mean_average_precision(probabilities, boxes, classes, targets, threshold)
    assert ours == pytest.approx(expected, abs=1e-6)
    assert 0.01 < ours < 0.9


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.5, float("nan")])
def test_a_threshold_that_every_detection_reaches_or_none_is_refused(threshold):
    """At 0, a detection that overlaps no object would be a hit."""
    apart = torch.tensor([[0.1, 0.1, 0.2, 0.2]]), torch.tensor([[0.7, 0.7, 0.9, 0.9]])
    one, zero = torch.tensor([0.9]), torch.zeros(1).long()
    with pytest.raises(ValueError, match=f"above 0 and at most 1, got {threshold}"):
        find_hits(one, apart[0], zero, apart[1], zero, threshold)
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        mean_average_precision(one[:, None, None], apart[0][None], zero[:, None], apart[1][None], threshold)
    assert find_hits(one, apart[0], zero, apart[0], zero, 1.0).tolist() == [True]
