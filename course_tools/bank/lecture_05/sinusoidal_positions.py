"""Exercise 05.1, sinusoidal_positions: what students answer, wrong and right."""

import math

import torch

from course_lib.primitives import sinusoidal_positions
from course_tools.checks.comparisons import same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Write down the first four features of position 1, with their angles. Which of them share an angle, and how many "
        "different angles does a position with d_model features need?"
    ),
    (
        "Make the angles first, one for each position and each pair of features. The exponent of pair i is 2i / d_model, and "
        "2i is the index of the pair's sine among the features: 0, 2, 4, …"
    ),
    (
        "Divide a column of positions by 10000 to the power of (0, 2, 4, …) / d_model. The sines go into every second column "
        "from 0, the cosines into every second from 1; where d_model is odd there is one cosine less than there are sines."
    ),
)


@wrong.detail
def gives_the_cosine_its_own_exponent(T, d_model, device=None):
    """You put each feature's own index into the exponent, so a cosine has another frequency than its sine. The two share
    one angle: only then is a shift in position the same rotation everywhere."""
    t = torch.arange(T, device=device)[:, None]
    angle = t / 10_000 ** (torch.arange(d_model, device=device) / d_model)
    encoding = torch.empty(T, d_model, device=device)
    encoding[:, 0::2] = angle[:, 0::2].sin()
    encoding[:, 1::2] = angle[:, 1::2].cos()
    return encoding


@wrong.detail
def lists_the_sines_before_the_cosines(T, d_model, device=None):
    """Your first half of the features holds all sines and the second half all cosines. In the formula they alternate: a
    sine at 2i, and its cosine at 2i + 1."""
    t = torch.arange(T, device=device)[:, None]
    angle = t / 10_000 ** (torch.arange(0, d_model, 2, device=device) / d_model)
    return torch.cat([angle.sin(), angle.cos()[:, : d_model // 2]], dim=1)


@wrong.detail
def counts_positions_from_one(T, d_model, device=None):
    """You begin at position 1, so every row is the one that belongs to the next position. The first position is 0: its sines
    are 0 and its cosines 1."""
    t = torch.arange(1, T + 1, device=device)[:, None]
    angle = t / 10_000 ** (torch.arange(0, d_model, 2, device=device) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]


@wrong.part
def halves_the_exponent(T, d_model, device=None):
    """You put the number of the pair into the exponent, i, where 2i belongs. Your exponents end near 1/2 instead of 1, so
    the lowest frequency is about a hundred times too high."""
    t = torch.arange(T, device=device)[:, None]
    pair = torch.arange((d_model + 1) // 2, device=device)
    angle = t / 10_000 ** (pair / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]


@wrong.part
def doubles_the_exponent_twice(T, d_model, device=None):
    """You count the features in steps of 2 and then multiply by 2 once more. What you count is 2i already; your exponents
    run to 2, and the later features are nearly constant."""
    t = torch.arange(T, device=device)[:, None]
    even = torch.arange(0, d_model, 2, device=device)
    angle = t / 10_000 ** (2 * even / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]


@wrong.part
def doubles_the_index_of_every_feature(T, d_model, device=None):
    """You count all features as i, and multiply by 2. In the formula i counts the *pairs* of features: feature 2i and feature
    2i + 1 share the exponent 2i / d_model. Your exponents run to 2, and sine and cosine of a pair differ in frequency."""
    t = torch.arange(T, device=device)[:, None]
    feature = torch.arange(d_model, device=device)
    angle = t / 10_000 ** (2 * feature / d_model)
    return torch.where(feature % 2 == 0, angle.sin(), angle.cos())


@wrong.idea
def speeds_up_along_the_features(T, d_model, device=None):
    """You multiply the position by the power of 10000 instead of dividing by it. The frequencies of your later features are
    far too high; they should be low."""
    t = torch.arange(T, device=device)[:, None]
    angle = t * 10_000 ** (torch.arange(0, d_model, 2, device=device) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]


@wrong.detail
def lays_the_positions_along_the_columns(T, d_model, device=None):
    """Your result has a row for each feature and a column for each position. It is added to embeddings, which have a row for
    each position: (T, d_model)."""
    t = torch.arange(T, device=device)
    even = torch.arange(0, d_model, 2, device=device)[:, None]
    angle = t / 10_000 ** (even / d_model)
    encoding = torch.empty(d_model, T, device=device)
    encoding[0::2] = angle.sin()
    encoding[1::2] = angle.cos()[: d_model // 2]
    return encoding


@wrong.detail
def exchanges_sine_and_cosine(T, d_model, device=None):
    """Your even features are cosines and your odd ones sines. Features are counted from 0, so the first of each pair is the
    sine: position 0 begins with 0."""
    t = torch.arange(T, device=device)[:, None]
    angle = t / 10_000 ** (torch.arange(0, d_model, 2, device=device) / d_model)
    return torch.stack([angle.cos(), angle.sin()], dim=-1).flatten(1)[:, :d_model]


@wrong.case
def wants_a_cosine_for_every_sine(T, d_model, device=None):
    """You write as many cosines as sines. With an odd number of features the last sine has no cosine, and your cosines do
    not fit into the remaining columns."""
    t = torch.arange(T, device=device)[:, None]
    angle = t / 10_000 ** (torch.arange(0, d_model, 2, device=device) / d_model)
    encoding = torch.zeros(T, d_model, device=device)
    encoding[:, 0::2] = torch.sin(angle)
    encoding[:, 1::2] = torch.cos(angle)
    return encoding


@wrong.idea
def rounds_the_exponent_down(T, d_model, device=None):
    """You divide 2i by d_model in whole numbers. 2i is always the smaller of the two, so all your exponents are 0, and all
    features have the frequency of the first."""
    t = torch.arange(T, device=device)[:, None]
    angle = t / 10_000 ** (torch.arange(0, d_model, 2, device=device) // d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]


@wrong.case
def adds_a_batch_axis(T, d_model, device=None):
    """You put an axis of size 1 in front, (1, T, d_model). The encoding is the same for every sentence and broadcasts to
    (B, T, d_model) as it is; the result asked for has two axes."""
    t = torch.arange(T, device=device)[:, None]
    angle = t / 10_000 ** (torch.arange(0, d_model, 2, device=device) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[None, :, :d_model]


@wrong.detail
def takes_1000_for_10000(T, d_model, device=None):
    """Your wavelengths end at 1000 · 2π. The base of the powers is 10000."""
    t = torch.arange(T, device=device)[:, None]
    angle = t / 1000 ** (torch.arange(0, d_model, 2, device=device) / d_model)
    encoding = torch.empty(T, d_model, device=device)
    encoding[:, 0::2], encoding[:, 1::2] = angle.sin(), angle.cos()[:, : d_model // 2]
    return encoding


@wrong.idea
def forgets_the_cosines(T, d_model, device=None):
    """All of your features are sines. Odd features are cosines, of the same frequency as the sine before them."""
    t = torch.arange(T, device=device)[:, None]
    angle = t / 10000 ** (torch.arange(0, d_model, 2, device=device) / d_model)
    encoding = torch.empty(T, d_model, device=device)
    encoding[:, 0::2], encoding[:, 1::2] = angle.sin(), angle.sin()[:, : d_model // 2]
    return encoding


@wrong.case
def ignores_the_device(T, d_model, device=None):
    """You create the encoding on the CPU whatever `device` is: with a model on a GPU the next operation fails. Pass `device`
    to every tensor that you create."""
    return sinusoidal_positions(T, d_model)


@wrong.detail
def reaches_the_last_frequency(T, d_model, device=None):
    """You space the frequencies so that the last pair has exactly 1/10000, as tensor2tensor does. Here the exponent is
    2i / d_model, which never reaches 1."""
    n = d_model // 2 + d_model % 2
    angles = torch.arange(T, device=device)[:, None] * 10000 ** (-torch.arange(n, device=device) / max(n - 1, 1))
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :d_model]


@right
def entry_by_entry(T, d_model, device=None):
    """Every entry by itself, in Python's own numbers."""
    rows = []
    for t in range(T):
        row = []
        for feature in range(d_model):
            angle = t / 10_000 ** ((feature - feature % 2) / d_model)
            row.append(math.cos(angle) if feature % 2 else math.sin(angle))
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float32, device=device).reshape(T, d_model)


@right
def by_the_logarithm_of_the_frequencies(T, d_model, device=None):
    """Frequencies as an exponential, angles as an outer product, written into a matrix of zeros."""
    n_pairs = (d_model + 1) // 2
    rate = torch.exp(torch.arange(n_pairs, device=device) * (-2 * math.log(10_000) / max(d_model, 1)))
    angle = torch.outer(torch.arange(T, dtype=torch.float32, device=device), rate)
    encoding = torch.zeros(T, d_model, device=device)
    encoding[:, ::2] = torch.sin(angle)
    if d_model > 1:
        encoding[:, 1::2] = torch.cos(angle[:, : d_model // 2])
    return encoding


@right
def as_shifted_sines(T, d_model, device=None):
    """One sine for all features, in float64: a cosine is a sine that is a quarter turn ahead."""
    feature = torch.arange(d_model, dtype=torch.float64, device=device)
    odd = feature.remainder(2)
    rate = torch.pow(10_000.0, (odd - feature) / d_model)
    position = torch.arange(T, dtype=torch.float64, device=device).unsqueeze(1)
    return torch.sin(position * rate + odd * (math.pi / 2)).float()


@right
def as_turning_hands(T, d_model, device=None):
    """Complex numbers of length 1, turned by one more step at each position; a hand's two coordinates are the pair."""
    even = torch.arange(0, d_model, 2, dtype=torch.float64, device=device)
    rate = 10_000.0 ** (-even / d_model)
    turn = torch.polar(torch.ones_like(rate), rate)
    hands = turn.expand(T, -1).cumprod(0) / turn
    return torch.stack([hands.imag, hands.real], dim=-1).reshape(T, -1)[:, :d_model].to(torch.float32)


@stranger
def positions_of_a_shorter_wave(T, d_model, device=None):
    return sinusoidal_positions(2 * T, d_model, device)[::2]


@stranger
def positions_squared(T, d_model, device=None):
    return sinusoidal_positions(T, d_model, device).square()


@stranger
def positions_all_zero(T, d_model, device=None):
    return torch.zeros(T, d_model, device=device)


@stranger(makes=[counts_positions_from_one, exchanges_sine_and_cosine])
def positions_from_one_exchanged(T, d_model, device=None):
    table = sinusoidal_positions(T + 1, d_model + d_model % 2, device)[1:]
    return table.unflatten(1, (-1, 2)).flip(-1).flatten(1)[:, :d_model]


def _sizes(draw: Draw) -> list[Call]:
    T, d_model = sorted(draw.sizes(2))
    return [(T, 2 * d_model), (d_model + 1, 2 * T)]


exercise = Exercise(
    id="05.1",
    title="Sinusoidal positions",
    reference=sinusoidal_positions,
    properties=(
        runs_on(_sizes),
        has_shape("One vector of d_model features for each position.", _sizes),
        Property("origin", "Position 0 comes first: all its sines are 0, all its cosines 1.", lambda draw: [(1, 4), (1, 10)]),
        Property("one pair", "With two features, position t is (sin t, cos t).", lambda draw: [(2, 2), (5, 2)], points=2),
        Property(
            "frequencies",
            "Sine and cosine of a pair share a frequency, which falls from 1 towards 1/10000.",
            lambda draw: [(2, 4), (3, 6), *_sizes(draw)],
            points=4,
            needs=("one pair",),
        ),
        Property("far", "A large position follows the same formula.", lambda draw: [(500, 8)], needs=("frequencies",)),
        Property("odd", "With an odd number of features, the last sine has no cosine.", lambda draw: [(3, 5), (4, 1)]),
        Property(
            "device",
            "The encoding is created on the device that is passed in.",
            lambda draw: [(5, 6, "meta")],
            same_shapes,
            needs=("frequencies",),
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
