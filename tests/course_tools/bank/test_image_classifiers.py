"""Image classifiers of build tasks: what is asked of a model shows its patches, positions and attention, trained or not."""

from functools import cache, partial

import pytest
import torch
from torch import nn

from course_tools.bank import image_classifiers as judged
from course_tools.bank.language_models import gives_probabilities
from course_tools.bank.lecture_11 import repair_vit
from course_tools.bank.lecture_11.repair_vit import LayersSideBySide, PositionsAfterTheEncoder, SmallViT, cells, over_the_batch
from course_tools.checks.trained import reads_other_examples
from course_tools.checks.training_record import measure

EVIDENCE = (
    reads_other_examples,
    judged.misses_patches,
    judged.ignores_the_order,
    judged.adds_up_patches,
    judged.reads_no_squares,
    judged.patches_overlap,
    judged.reads_no_patch,
    judged.embeds_other_images,
    judged.weighs_over_the_queries,
    judged.layers_are_side_by_side,
    judged.reads_in_order,
    gives_probabilities,
)


@cache
def of_maps():
    return repair_vit.exercise.questions(seed=0)


def shown(make):
    """The names of what the measurements of a model show that was not trained."""
    (data, queries, _, probed), truth = of_maps()
    torch.manual_seed(0)
    measured = measure(lambda *data: make(8).eval(), data, queries, probed=probed)
    return {evidence.__name__ for evidence in EVIDENCE if evidence(measured, truth)}


def linear(n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 48**2, n_classes))


def constant(n_classes):
    return SmallViT(n_classes, mix=lambda q, k, v: torch.zeros_like(v))


def overlapping(images):
    return nn.functional.unfold(images, 12, dilation=2, stride=8).mT


def over_queries(q, k, v):
    return (q @ k.mT).softmax(-2) @ v


def with_a_head_of_zeros(n_classes):
    model = SmallViT(n_classes)
    nn.init.zeros_(model.logits.weight)
    nn.init.zeros_(model.logits.bias)
    return model


def with_probabilities(n_classes):
    return nn.Sequential(SmallViT(n_classes), nn.Softmax(dim=-1))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (SmallViT, set()),
        (partial(SmallViT, positions=0.0), {"ignores_the_order"}),
        (
            partial(SmallViT, cut=repair_vit.patches_across_images),
            {"reads_other_examples", "reads_no_squares", "embeds_other_images"},
        ),
        (partial(SmallViT, cut=lambda images: cells(images)[:, 8:]), {"misses_patches", "adds_up_patches", "reads_no_squares"}),
        (partial(SmallViT, cut=lambda images: images.reshape(len(images), 16, 432)), {"reads_no_squares"}),
        (partial(SmallViT, cut=overlapping), {"reads_no_squares", "patches_overlap"}),
        (LayersSideBySide, {"layers_are_side_by_side"}),
        (partial(SmallViT, mix=over_the_batch), {"reads_no_patch", "ignores_the_order", "adds_up_patches"}),
        (partial(SmallViT, mix=over_the_batch, of=lambda logits: logits.mean(1)), {"reads_other_examples"}),
        (partial(SmallViT, mix=over_queries), {"weighs_over_the_queries"}),
        (PositionsAfterTheEncoder, {"ignores_the_order"}),
        (constant, {"ignores_the_order", "adds_up_patches", "reads_no_patch"}),
        (with_a_head_of_zeros, {"ignores_the_order", "adds_up_patches", "reads_no_patch"}),
        (linear, {"adds_up_patches"}),
        (with_probabilities, {"gives_probabilities"}),
    ],
)
def test_a_model_shows_its_own_mistake_and_no_other(make, names):
    assert shown(make) == names


def test_the_images_to_learn_from_are_sorted_and_none_of_them_is_asked_about():
    ((images, labels, n_classes, n_steps), queries, *_), truth = of_maps()
    assert (len(images), n_classes, n_steps) == (3_000, 8, truth["n_steps"])
    assert bool((labels.diff() >= 0).all())
    known = {image.numpy().tobytes() for image in images}
    assert not any(image.numpy().tobytes() in known for image in queries[0])
    assert truth["frequencies"] == pytest.approx(2.079, abs=0.02)


@pytest.mark.parametrize(("order", "in_order"), [(slice(None), True), (torch.arange(2_999, -1, -1), False)])
@pytest.mark.parametrize(("batch_size", "n_recorded"), [(9, 6_912), (32, 1_728), (400, 161)])
def test_images_read_in_the_given_order_are_recognised_in_batches_of_any_size(order, in_order, batch_size, n_recorded):
    """Of a batch of more than nine maps, the record has every k-th number of each."""
    (data, *_), truth = of_maps()

    def train(images, labels, n_classes, n_steps):
        model = linear(n_classes)
        for batch in (2 * images[order] - 1).split(batch_size)[:20]:
            model(batch)
        return model

    found = measure(train, data, [])
    assert found.read[0].flatten(1).shape == (batch_size, n_recorded)
    assert judged.reads_in_order(found, truth) is in_order
