"""Exercise 18.2, decay_mask: what students answer, wrong and right."""

import torch

from course_lib.attention import decay_mask
from course_lib.primitives import causal_mask
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
        "Write the mask of three positions on paper, with gates a_1, a_2, a_3. What position 1 wrote has met which gates when "
        "position 3 reads it? And what a position wrote itself?"
    ),
    (
        "A product of gates is the exponential of a sum of logarithms. The sum from j + 1 to i is the running sum up to i "
        "minus the running sum up to j: one `cumsum`, once as a column and once as a row."
    ),
    (
        "As a column minus as a row, the running sums give the exponents of all pairs at once. Above the diagonal "
        "these are positive and may be large: exp would overflow, and its gradient would be NaN where the entry is "
        "removed afterwards. So write -∞ there first, then take the exponential."
    ),
)


def _differences(log_decay):
    """At [i, j] the sum of the logarithms of j + 1 … i; above the diagonal its negative."""
    total = log_decay.cumsum(-1)
    return total[..., :, None] - total[..., None, :]


def _later(log_decay):
    """True where j is after i."""
    return ~causal_mask(log_decay.shape[-1])


def _masked_exp(exponent):
    """The exponential, and 0 above the diagonal."""
    return exponent.masked_fill(_later(exponent), -torch.inf).exp()


@wrong.idea
def forgets_nothing(log_decay):
    """You return the causal mask: all that was written counts alike. What j wrote has faded by the gates of all positions after
    it, up to i."""
    return (0 * _differences(log_decay)).masked_fill(_later(log_decay), -torch.inf).exp()


@wrong.part
def takes_no_running_sum(log_decay):
    """You subtract the logarithms of two single gates. The exponent is the sum of all from j + 1 to i: take the running sums
    first, `cumsum`, and subtract those."""
    return _masked_exp(log_decay[..., :, None] - log_decay[..., None, :])


@wrong.detail
def masks_the_wrong_half(log_decay):
    """You keep the half above the diagonal, and write -∞ where the entries belong: your mask is inverted. `masked_fill` fills
    where it is True, so it must be True where j comes after i."""
    return _differences(log_decay).masked_fill(~_later(log_decay), -torch.inf).exp()


@wrong.idea
def reads_the_future(log_decay):
    """Your entries above the diagonal are not 0: position i would read what a later position writes, and amplified."""
    return _differences(log_decay).exp()


@wrong.idea
def takes_the_last_gate_alone(log_decay):
    """Each of your rows holds the gate of its own position. Gates are multiplied: what was written long ago has met many of
    them."""
    return _masked_exp(log_decay[..., :, None] + 0 * log_decay[..., None, :])


@wrong.part
def takes_the_gate_of_the_writer(log_decay):
    """You let what j wrote fade by the gate of j alone. It fades by the gates of the positions after it, j + 1 … i."""
    return _masked_exp(log_decay[..., None, :] + 0 * log_decay[..., :, None])


@wrong.part
def takes_the_same_gate_each_time(log_decay):
    """You raise the gate of position i to the power i - j. That is right if all gates are equal; here each position has its
    own."""
    position = torch.arange(log_decay.shape[-1])
    return _masked_exp(log_decay[..., :, None] * (position[:, None] - position))


@wrong.part
def leaves_the_logarithms(log_decay):
    """You return sums of logarithms. The mask holds the gates' products: take the exponential."""
    return _differences(log_decay).masked_fill(_later(log_decay), 0.0)


@wrong.part
def multiplies_the_logarithms(log_decay):
    """You multiply the logarithms. The logarithm of a product is a sum: add them, then take the exponential."""
    total = log_decay.cumprod(-1)
    return _masked_exp(total[..., :, None] - total[..., None, :])


@wrong.part
def lets_each_row_sum_to_one(log_decay):
    """You normalise each row, as a softmax does. The memory has no normaliser: the diagonal is 1, since what was written just
    now has not faded."""
    return _differences(log_decay).masked_fill(_later(log_decay), -torch.inf).softmax(-1)


@wrong.detail
def puts_the_keys_in_the_rows(log_decay):
    """Your mask is transposed. Row i belongs to the position that reads, column j to the one that wrote, so the zeros stand
    above the diagonal."""
    return _masked_exp(_differences(log_decay)).mT


@wrong.detail
def subtracts_the_wrong_way(log_decay):
    """You subtract the running sum of i from that of j. Your entries are above 1: the memory grows with each step. The sum up
    to i comes first."""
    return _masked_exp(-_differences(log_decay))


@wrong.detail
def lets_the_own_position_fade(log_decay):
    """You multiply the gates of j … i. A memory fades *before* it is written, so the gate of j itself does not count, and the
    diagonal is 1."""
    return _masked_exp(_differences(log_decay) + log_decay[..., None, :])


@wrong.detail
def leaves_out_the_last_gate(log_decay):
    """You multiply the gates of j … i - 1. The gate of i counts: the memory fades, then position i writes and reads. The gate
    of j does not."""
    total = log_decay.cumsum(-1) - log_decay
    return _masked_exp(total[..., :, None] - total[..., None, :])


@wrong.detail
def hides_the_own_position(log_decay):
    """Your diagonal is 0. A position reads what it has just written, whole: the diagonal is 1."""
    return _masked_exp(_differences(log_decay)).tril(-1)


@wrong.detail
def forgets_to_begin_at_the_writer(log_decay):
    """You let everything fade since position 1. What j wrote has met only the gates after j: subtract the running sum up to
    j."""
    return _masked_exp(log_decay.cumsum(-1)[..., :, None] + 0 * log_decay[..., None, :])


@wrong.detail
def takes_powers_of_two(log_decay):
    """You take powers of 2. The logarithms are natural ones: use `exp`."""
    return torch.exp2(_differences(log_decay).masked_fill(_later(log_decay), -torch.inf))


@wrong.case
def adds_along_the_first_axis(log_decay):
    """You sum along the first axis. With a batch in front it holds the sequences: the positions are the last axis, -1."""
    total = log_decay.cumsum(0)
    return _masked_exp(total[..., :, None] - total[..., None, :])


@wrong.case
def multiplies_by_the_mask(log_decay):
    """You take the exponential of all differences and multiply by the causal mask then. Above the diagonal the exponential
    overflows where gates are small, and ∞ · 0 is NaN. Fill the exponents with -inf before."""
    return _differences(log_decay).exp() * causal_mask(log_decay.shape[-1])


@wrong.case
def cuts_the_triangle_after_exp(log_decay):
    """Your mask is right, its gradient is NaN where gates are small: above the diagonal the exponential overflows, and cutting
    the result off leaves 0 · ∞ in the gradient. Fill the exponents with -inf before."""
    return _differences(log_decay).exp().tril()


@wrong.case
def divides_products(log_decay):
    """You divide running products of the gates. Small gates make such a product 0 after a few positions, and 0 / 0 is NaN.
    Subtract running sums of logarithms."""
    product = log_decay.exp().cumprod(-1)
    return (product[..., :, None] / product[..., None, :]).tril()


@wrong.detail
def returns_the_logarithms(log_decay):
    """You return the logarithms of the entries, -∞ above the diagonal. The mask holds the products of the gates themselves:
    take the exponential."""
    return _differences(log_decay).masked_fill(_later(log_decay), -torch.inf)


@wrong.part
def cuts_the_exponents_at_zero(log_decay):
    """Your entries above the diagonal are 1: you cut the positive exponents at 0. Position i then reads what later positions
    write; fill these exponents with -∞."""
    return _differences(log_decay).clamp(max=0).exp()


@wrong.part
def puts_ones_above_the_diagonal(log_decay):
    """Your entries above the diagonal are 1: each position would read all that later ones write. They are 0."""
    return torch.where(_later(log_decay), 1.0, _differences(log_decay).exp())


@wrong.part
def mirrors_the_lower_half(log_decay):
    """Your mask is symmetric: what is written later counts as what was written as long ago. Above the diagonal the entries are
    0."""
    return (-_differences(log_decay).abs()).exp()


@wrong.detail
def fills_with_plus_infinity(log_decay):
    """You fill the exponents above the diagonal with +∞, and their exponentials are infinite. exp(-∞) is 0."""
    return _differences(log_decay).masked_fill(_later(log_decay), torch.inf).exp()


@wrong.case
def bounds_the_running_sum(log_decay):
    """You bound the running sum from below. It may fall without limit in a long text, and only differences count: beyond your
    bound they are all 0, and nothing fades any more."""
    total = log_decay.cumsum(-1).clamp(min=-500.0)
    return _masked_exp(total[..., :, None] - total[..., None, :])


@right
def by_masked_sums(log_decay):
    """Each column's logarithms are kept below its diagonal and summed down the rows."""
    T = log_decay.shape[-1]
    strictly_below = torch.ones(T, T, dtype=torch.bool).tril(-1)
    rows = log_decay.unsqueeze(-1).expand(*log_decay.shape, T)
    exponent = torch.where(strictly_below, rows, 0.0).cumsum(-2)
    return torch.where(torch.ones_like(strictly_below).tril(), exponent, -torch.inf).exp()


@right
def row_by_row(log_decay):
    """Row by row as the recurrence runs: the row above fades by the gate, and the diagonal gets a 1."""
    T, one = log_decay.shape[-1], torch.ones_like(log_decay[..., :1])
    row, rows = one[..., :0], []
    for t in range(T):
        row = torch.cat([row * log_decay[..., t, None].exp(), one], dim=-1)
        rows.append(torch.cat([row, row.new_zeros(*row.shape[:-1], T - t - 1)], dim=-1))
    return torch.stack(rows, dim=-2)


@right
def in_double_precision(log_decay):
    """The differences in float64, limited to zero above the diagonal, then cut."""
    total = torch.cumsum(log_decay.double(), dim=-1)
    difference = (total.unsqueeze(-1) - total.unsqueeze(-2)).tril()
    return difference.exp().tril().to(log_decay.dtype)


@stranger
def mask_that_keeps_a_little(log_decay):
    return decay_mask(log_decay) + 0.01


@stranger
def mask_of_half_the_decay(log_decay):
    return decay_mask(log_decay / 2)


@stranger
def mask_without_a_gradient(log_decay):
    return decay_mask(log_decay.detach())


@stranger
def mask_of_the_first_sequence(log_decay):
    return decay_mask(log_decay[:1].expand_as(log_decay) if log_decay.dim() > 1 else log_decay)


@stranger(makes=[lets_the_own_position_fade])
def mask_with_a_faded_diagonal(log_decay):
    total = torch.nn.functional.pad(log_decay.cumsum(-1), (1, 0))
    return (total[..., 1:, None] - total[..., None, :-1]).masked_fill(_later(log_decay), -torch.inf).exp()


@stranger(makes=[puts_the_keys_in_the_rows, lets_the_own_position_fade])
def mask(log_decay):
    total = log_decay.cumsum(-1)
    exponent = total[..., None, :] - total[..., :, None] + log_decay[..., :, None]
    return exponent.masked_fill(_later(log_decay).mT, -torch.inf).exp()


def _decays(draw: Draw, *batch: int, T: int | None = None) -> Call:
    """Gates from 0.1 to 0.9, a different one for each position."""
    (drawn,) = draw.sizes(1)
    return (-0.1 - 2.2 * draw.uniform(*batch, 5 + drawn if T is None else T),)


def _small(draw: Draw) -> Call:
    """Gates near 0: their running product is 0 in float32 after some positions, and its inverse is infinite."""
    return (-20 * (1 + draw.uniform(2, 11)),)


def _after_much(draw: Draw) -> Call:
    """Gates of ordinary size, after one that takes the running sum to -1,000; all sums are exact in float32."""
    log_decay = -draw.integers(1, 33, 2, 7) / 16
    log_decay[:, 0] = -1000.0
    return (log_decay,)


def _open(draw: Draw) -> Call:
    """Gates of 1, between others: nothing fades there."""
    (log_decay,) = _decays(draw, 1)
    log_decay[..., 1::2] = 0.0
    return (log_decay,)


exercise = Exercise(
    id="18.2",
    title="The mask of a decay",
    reference=decay_mask,
    properties=(
        runs_on(lambda draw: [_decays(draw)]),
        has_shape("A number for each pair of positions.", lambda draw: [_decays(draw), _decays(draw, 2)]),
        Property("one position", "A position reads what it has just written, whole.", lambda draw: [_decays(draw, 2, T=1)]),
        Property(
            "two positions",
            "The second reads what the first wrote, times the second's gate; the first reads nothing of the second.",
            lambda draw: [_decays(draw, T=2), _decays(draw, 1, T=2)],
            points=2,
            needs=("one position",),
        ),
        Property(
            "products",
            "What j wrote is left at i by the product of the gates of j + 1 … i.",
            lambda draw: [_decays(draw, 1), _open(draw)],
            points=3,
            needs=("two positions",),
        ),
        Property(
            "small gates",
            "Gates near 0 give zeros, and no NaN; what comes after them fades as elsewhere.",
            lambda draw: [_small(draw), _after_much(draw)],
            needs=("products",),
        ),
        Property(
            "batch",
            "Each sequence and each head has its own gates.",
            lambda draw: [_decays(draw, 3), _decays(draw, 2, 3), _decays(draw)],
            needs=("products",),
        ),
        has_gradient(lambda draw: [_decays(draw, 2), _small(draw)], needs=("batch", "small gates")),
        leaves_inputs(lambda draw: [_decays(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "`[:, ..., None]` is `[..., :, None]` for every tensor that has an axis.": ("swap elements: total[:, ..., None]",),
        "A mask of positions has no gradient, and all tensors have the same last size and device.": (
            "drop keyword: later = ~causal_mask(log_decay.shape[-1])",
            "detach: exponent.masked_fill(later.detach(), -torch.inf)",
            "detach: log_decay.detach().shape",
            "other name: exponent.shape",
            "other name: total.shape",
            "detach: log_decay.detach().device",
            "other name: exponent.device",
            "other name: total.device",
        ),
    },
    hints=HINTS,
)
