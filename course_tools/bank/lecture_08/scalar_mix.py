"""Exercise 08.1, scalar_mix: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.models import scalar_mix
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Take two layers of one token, (1, 0) and (0, 4), with w = (0, 0) and γ = 3, and work the result out by hand. How "
        "many numbers does it have, and what is the weight of each layer?"
    ),
    (
        "There is one weight for each layer, the same for all tokens and all features, and the weights sum to 1 before "
        "the multiplication by γ. Count the axes from the end: of the layers' axes, the last but one must go."
    ),
    (
        "The softmax of `w` is one row of n_layers numbers: as a matrix product from the left it mixes the axis of the "
        "layers and keeps every axis in front. γ comes last."
    ),
)


@wrong.part
def takes_the_weights_as_they_are(layers, w, gamma):
    """You weigh the layers by w itself. These numbers may be negative and need not sum to 1; the weights are their softmax."""
    return gamma * (w @ layers)


@wrong.part
def normalises_without_exp(layers, w, gamma):
    """You divide w by its sum. Where some w are negative your weights are too, and where their sum is near 0 your result is
    very large; the softmax takes exp first."""
    return gamma * (w / w.sum() @ layers)


@wrong.part
def takes_a_sigmoid(layers, w, gamma):
    """You apply a sigmoid to each weight. Your weights lie in 0…1, but do not sum to 1."""
    return gamma * (w.sigmoid() @ layers)


@wrong.detail
def forgets_gamma(layers, w, gamma):
    """You leave γ out. γ scales the mixture to the size that the task needs."""
    return w.softmax(0) @ layers


@wrong.detail
def puts_gamma_into_the_softmax(layers, w, gamma):
    """You multiply w by γ before the softmax. There it acts as an inverse temperature; γ scales the mixture."""
    return (gamma * w).softmax(0) @ layers


@wrong.idea
def averages_the_layers(layers, w, gamma):
    """You give every layer the same weight and never use w, which is learned for each task."""
    return gamma * layers.mean(-2)


@wrong.idea
def takes_the_top_layer(layers, w, gamma):
    """You take the last layer alone. Here all layers count, each with its own weight."""
    return gamma * layers[..., -1, :]


@wrong.part
def takes_the_favourite_layer(layers, w, gamma):
    """You take only the layer with the largest weight. A hard choice drops the others and passes no gradient to w; the
    softmax mixes all layers."""
    return gamma * layers[..., int(w.argmax()), :]


@wrong.idea
def turns_the_features_into_shares(layers, w, gamma):
    """You take the softmax of the layers, over the features, and not of w. The layers are mixed unchanged; the weights w
    are normalised."""
    return gamma * (w @ layers.softmax(-1))


@wrong.detail
def averages_after_weighing(layers, w, gamma):
    """You take the mean of the weighted layers. The weights sum to 1 already, so the sum is an average; yours is smaller by
    a factor of n_layers."""
    return gamma * (w.softmax(0)[:, None] * layers).mean(-2)


@wrong.idea
def adds_up_the_features(layers, w, gamma):
    """You sum over the last axis, the features, where the layers should be summed. One number is left for each layer of
    each token, instead of one vector for each token."""
    return gamma * (w.softmax(0)[:, None] * layers).sum(-1)


@wrong.part
def lays_the_layers_side_by_side(layers, w, gamma):
    """You weight the layers and concatenate them, n_layers · d features long. The sum in the formula adds them up, and the
    result is as wide as one layer."""
    return gamma * (w.softmax(0)[:, None] * layers).flatten(-2)


@wrong.detail
def adds_gamma(layers, w, gamma):
    """You add γ to the mixture. It is a factor that scales the whole."""
    return gamma + w.softmax(0) @ layers


@wrong.case
def takes_gamma_for_positive(layers, w, gamma):
    """You drop the sign of γ. It is learned without a bound and may be negative; the mixture changes its sign with it."""
    return gamma.abs() * (w.softmax(0) @ layers)


@wrong.detail
def weighs_layers_without_an_axis(layers, w, gamma):
    """You multiply the weights (n_layers,) by the layers (*batch, n_layers, d). The last axis of the layers is their features:
    give the weights an axis of size 1 after theirs."""
    return gamma * (w.softmax(-1) * layers).sum(-2)


@wrong.case
def takes_the_exponentials_as_they_are(layers, w, gamma):
    """You take the exponentials of w as they are. In float32 exp(89) is infinite and exp(-104) is 0, so your weights become
    NaN; subtract the largest w first, as torch's softmax does."""
    e = w.exp()
    return gamma * (e / e.sum() @ layers)


@wrong.part
def adds_up_axis_one(layers, w, gamma):
    """You sum over axis 1. The layers are the last axis but one, whatever comes before: sum over -2."""
    return gamma * (w.softmax(-1)[:, None] * layers).sum(1)


@right
def by_einsum(layers, w, gamma):
    """One einsum over layers and shares, γ scaling the shares beforehand."""
    return torch.einsum("...ld,l->...d", layers, gamma * F.softmax(w, dim=0))


@right
def layer_by_layer(layers, w, gamma):
    """exp and sum by hand, largest weight taken off first; a running sum over the layers."""
    e = torch.exp(w - w.max())
    mixed = torch.zeros_like(layers[..., 0, :])
    for j in range(len(w)):
        mixed = mixed + e[j] * layers[..., j, :]
    return mixed * gamma / e.sum()


@right
def with_the_layers_in_front(layers, w, gamma):
    """The axis of the layers moved to the front, a tensordot over it, in float64."""
    shares = w.double().softmax(0)
    return (gamma.double() * torch.tensordot(shares, layers.double().movedim(-2, 0), dims=1)).to(layers.dtype)


@right
def as_one_long_matrix(layers, w, gamma):
    """All batch axes folded into one and unfolded after the product with features in front."""
    flat = layers.reshape(-1, *layers.shape[-2:])
    return (flat.transpose(1, 2) @ w.softmax(dim=-1) * gamma).reshape(*layers.shape[:-2], layers.shape[-1])


@stranger
def mixture_upside_down(layers, w, gamma):
    return scalar_mix(layers, w.flip(0), gamma)


@stranger
def mixture_by_a_double_softmax(layers, w, gamma):
    return scalar_mix(layers, w.softmax(0), gamma)


@stranger
def mixture_of_normed_layers(layers, w, gamma):
    return scalar_mix(F.layer_norm(layers, layers.shape[-1:]), w, gamma)


@stranger
def mixture_without_gradient_in_the_shares(layers, w, gamma):
    return scalar_mix(layers, w.detach(), gamma)


@stranger
def mixture_that_adds_the_scale(layers, w, gamma):
    return w.softmax(0) @ layers + gamma


@stranger(makes=[averages_the_layers])
def mixture_by_exp_over_the_sum(layers, w, gamma):
    return gamma * layers.sum(-2) / layers.shape[-2]


@stranger(makes=[takes_a_sigmoid, forgets_gamma])
def mixture_unscaled_by_sigmoids(layers, w, gamma):
    return w.sigmoid() @ layers


def _layers(draw: Draw, *batch: int, n_layers: int, d: int) -> Call:
    """Layers of tokens, weights of either sign and a scale far from 1."""
    return draw.normal(*batch, n_layers, d), draw.normal(n_layers, scale=1.5), draw.uniform(1)[0] + 1.5


def _words(draw: Draw) -> list[Call]:
    B, T, n_layers, d = draw.sizes(4)
    return [_layers(draw, B, T, n_layers=n_layers, d=d), _layers(draw, 2, 2, n_layers=3, d=5)]


def _one_word(draw: Draw) -> list[Call]:
    return [_layers(draw, n_layers=2, d=3), _layers(draw, n_layers=5, d=3)]


def _plain(draw: Draw) -> list[Call]:
    """Weights that are all the same, and γ = 1: the mean of the layers, whatever the weights are."""
    layers, w, gamma = _layers(draw, n_layers=3, d=2)
    return [(layers, 0 * w, gamma / gamma), (layers, 0 * w + 0.5, gamma / gamma)]


def _scaled(draw: Draw) -> list[Call]:
    layers, w, gamma = _layers(draw, n_layers=3, d=2)
    return [(layers, 0 * w, gamma), (layers, 0 * w, -gamma)]


def _unequal(draw: Draw) -> list[Call]:
    drawn = [_layers(draw, n_layers=n, d=3) for n in (2, 5)]
    return [(layers, w, gamma / gamma) for layers, w, gamma in drawn]


def _far_apart(draw: Draw) -> list[Call]:
    """Weights whose exponentials overflow, and others whose exponentials are all 0."""
    layers, w, gamma = _layers(draw, n_layers=3, d=3)
    return [(layers, w + 200, gamma), (layers, w - 200, gamma)]


exercise = Exercise(
    id="08.1",
    title="The mixture of layers",
    extra=True,
    reference=scalar_mix,
    properties=(
        runs_on(_one_word),
        has_shape("One vector of d features for each token.", lambda draw: [*_one_word(draw), *_words(draw)]),
        Property("uniform", "Where all w are equal, the mixture is the plain mean.", _plain),
        Property("weights", "The weights of the layers are softmax(w).", _unequal, points=2, needs=("uniform",)),
        Property("scale", "γ multiplies the mixture.", _scaled, needs=("uniform",)),
        Property("mixture", "γ times the mixture by softmax(w).", _one_word, needs=("weights", "scale")),
        Property("any w", "Any numbers may be w, also where exp(w) overflows.", _far_apart, needs=("mixture",)),
        Property("batch", "Every token is mixed independently, with the same weights.", _words, needs=("mixture",)),
        has_gradient(_words, needs=("batch",)),
        leaves_inputs(lambda draw: [*_one_word(draw), *_words(draw)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "w has one axis: the first is the last.": ("constant: w.softmax(-1)",),
    },
    hints=HINTS,
)
