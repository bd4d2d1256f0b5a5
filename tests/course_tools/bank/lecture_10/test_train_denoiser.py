"""The build task of lecture 10: what a context depends on shows a layer's own mistake and no other, trained or not."""

from functools import cache, partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import LocalAttention
from course_tools.bank.lecture_10 import train_denoiser as task
from course_tools.bank.lecture_10.train_denoiser import OneHead, SmallNetwork
from course_tools.bank.stained_glass import decibels
from course_tools.checks.training_record import measure

EVIDENCE = (
    task.wraps_around,
    task.leaves_neighbours_out,
    task.leaves_all_neighbours_out,
    task.reads_outside_with_another_border,
    task.reads_outside,
    task.is_a_padded_sum,
    task.is_a_sum_over_pixels,
    task.adds_up_fewer_at_the_border,
    task.adds_up_neighbours,
    task.depends_on_the_place,
    task.loses_weight_at_the_border,
    task.reads_beyond_the_border,
    task.mixes_pixels_later,
    task.restores_from_afar,
    task.adds_to_the_weighted_sum,
)


@cache
def questions():
    return task.exercise.questions(seed=0)


def shown(layer, model=SmallNetwork, **options):
    """What the contexts of an untrained network with such layers show: names of evidence, and whether the order counts."""
    (data, queries), truth = questions()
    torch.manual_seed(0)
    measured = measure(lambda *data: model(layer, **options).eval(), data, queries)
    trained = measured._replace(n_updates=100, moved=1.0)
    return {evidence.__name__ for evidence in EVIDENCE if evidence(measured, truth)}, not task.ignores_the_order_of_neighbours(
        trained, truth
    )


class Library(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = LocalAttention(16, 16, 4, 3)

    def forward(self, x):
        return self.layer(x).context


class WithResidualAndNorm(OneHead):
    def forward(self, x):
        of_each_pixel = F.layer_norm(x.movedim(1, -1), (16,)).movedim(-1, 1)
        return x + super().forward(of_each_pixel).relu()


class WithBiases(OneHead):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Conv2d(16, 16, 1) for _ in range(3))


class GlobalWithPlaces(task.GlobalAttention):
    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.randn(16, 16, 16))

    def forward(self, x):
        return super().forward(x + self.places)


class ValuesOfTheCentre(OneHead):
    """Sums the values of the centre by weights of the window, which sum to 1."""

    def forward(self, x):
        q, k, v = self.q(x).flatten(2), self.windows(self.k(x)), self.v(x).flatten(2)
        return (self.scores(q, k, self.offsets).softmax(1).unsqueeze(1) * v.unsqueeze(2)).sum(2).view_as(x)


class SoftmaxOverHeads(OneHead):
    """Four heads, and a softmax over them instead of the positions."""

    def forward(self, x):
        q, k, v = self.q(x).flatten(2), self.windows(self.k(x)), self.windows(self.v(x))
        q, k, v = (y.unflatten(1, (4, -1)) for y in (q, k, v))
        scores = torch.einsum("bhdp,bhdnp->bhnp", q, k) + self.offsets.unflatten(0, (4, -1)).mT @ q
        inside = self.windows(torch.ones_like(x[:1, :1]))[0, 0] > 0
        weights = scores.masked_fill(~inside, -1e9).softmax(1)
        return (weights.unsqueeze(2) * v).sum(3).reshape(x.shape)


class ContextAfterANorm(OneHead):
    def forward(self, x):
        return F.layer_norm(super().forward(x).movedim(1, -1), (16,)).movedim(-1, 1)


class ContextAfterALinearLayer(Library):
    def __init__(self):
        super().__init__()
        self.W_o = nn.Conv2d(16, 16, 1, bias=False)

    def forward(self, x):
        return self.W_o(super().forward(x))


@pytest.mark.parametrize("layer", [OneHead, Library, WithBiases])
def test_a_right_layer_shows_no_mistake(layer):
    assert shown(layer) == (set(), True)


@pytest.mark.parametrize(
    ("layer", "first"),
    [
        (partial(nn.Conv2d, 16, 16, 3, padding=1), "is_a_padded_sum"),
        (partial(nn.Conv2d, 16, 16, 3, padding=1, padding_mode="replicate"), "is_a_sum_over_pixels"),
        (partial(nn.Conv2d, 16, 16, 1), "leaves_all_neighbours_out"),
        (partial(nn.Conv2d, 16, 16, 3, padding=1, padding_mode="circular"), "wraps_around"),
        (partial(nn.Conv2d, 16, 16, 5, padding=2), "reads_outside"),
        (partial(nn.Conv2d, 16, 16, 3, padding=2, dilation=2), "reads_outside"),
        (partial(OneHead, masked=False), "loses_weight_at_the_border"),
        (partial(OneHead, normalised=partial(torch.softmax, dim=-1)), "reads_outside_with_another_border"),
        (partial(OneHead, windows=task.windows_that_wrap_around), "wraps_around"),
        (partial(OneHead, windows=task.windows_not_centred), "leaves_neighbours_out"),
        (partial(OneHead, scores=task.weights_of_positions_alone), "is_a_sum_over_pixels"),
        (partial(OneHead, scores=task.keys_left_out), "adds_up_neighbours"),
        (partial(OneHead, normalised=torch.sigmoid), "adds_up_fewer_at_the_border"),
        (SoftmaxOverHeads, "adds_up_fewer_at_the_border"),
        (task.AbsolutePositions, "depends_on_the_place"),
        (task.GlobalAttention, "reads_outside"),
        (GlobalWithPlaces, "reads_outside"),
        (task.HeadsAttendToEachOther, "leaves_all_neighbours_out"),
        (ValuesOfTheCentre, "leaves_all_neighbours_out"),
        (task.PositionsInValues, "reads_beyond_the_border"),
        (WithResidualAndNorm, "adds_to_the_weighted_sum"),
        (ContextAfterANorm, "adds_to_the_weighted_sum"),
        (ContextAfterALinearLayer, "adds_to_the_weighted_sum"),
    ],
)
def test_a_wrong_layer_shows_its_own_mistake_first(layer, first):
    found, _ = shown(layer)
    assert next(evidence.__name__ for evidence in EVIDENCE if evidence.__name__ in found) == first


def test_without_positions_nothing_but_the_order_of_neighbours_is_lost():
    assert shown(partial(OneHead, positions=0.0)) == (set(), False)


def nearly_one_hot(scores):
    """The weights of a softmax whose scores became so large in training that each pixel attends to itself alone."""
    return (scores + 99 * F.one_hot(torch.tensor(4), 9)[:, None]).softmax(1)


def test_positions_that_a_softmax_suppresses_are_not_said_to_be_missing():
    assert shown(partial(OneHead, normalised=nearly_one_hot))[1]


def test_a_convolution_before_the_attention_is_seen():
    assert shown(OneHead, stem=3)[0] == {"reads_outside"}


def test_a_convolution_after_the_attention_is_seen():
    assert shown(OneHead, head=3)[0] == {"mixes_pixels_later"}


def test_global_attention_after_the_first_layer_is_seen():
    assert shown(OneHead, model=task.GlobalAttentionLater)[0] == {"restores_from_afar"}


def test_three_layers_reach_no_further_than_allowed():
    def three_layers(layer):
        network = SmallNetwork(layer)
        network.second = nn.Sequential(layer(), layer())
        return network

    assert shown(OneHead, model=three_layers) == (set(), True)


def test_a_model_that_takes_true_for_no_true_is_told_how_it_is_called():
    def train(noisy, clean, n_steps):
        network = SmallNetwork().eval()
        return lambda images, context=False: network(images, context is True)

    (data, queries), truth = questions()
    fault = task._model(measure(train, data, queries), truth)
    assert "True comes as a tensor" in fault


def test_the_filter_restores_more_than_the_kernel_and_that_more_than_one_colour():
    _, truth = questions()
    assert decibels(truth["noisy"], truth["labels"]) < truth["kernel"] < truth["filter"]
    assert truth["mean colour"] < truth["kernel"]


def test_the_neighbours_of_one_pixel_change_places_and_nothing_else():
    _, queries = questions()[0]
    same, mixed = queries[6][0].chunk(2)
    where = (same != mixed).any(0)[0]
    assert where[task.ROWS, task.COLUMNS].flatten().tolist() == [True] * 4 + [False] + [True] * 4
    assert int(where.sum()) == 8
    assert torch.equal(same.flatten(1).sort().values, mixed.flatten(1).sort().values)


def test_one_pixel_is_replaced_at_a_time():
    _, queries = questions()[0]
    plain, *replaced = queries[4][0].split(1)
    changed = [(one != plain).any(1)[0].nonzero().tolist() for one in replaced]
    assert changed == [[place] for place in task.REPLACED.tolist()]
