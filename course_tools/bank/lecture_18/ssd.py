"""Exercise 18.5, ssd: what students answer, wrong and right."""

import torch

from course_lib.attention import decay_mask, gated_step, ssd
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
        "Compare the recurrence with `gated_step`, term by term: which letter is the key, which the query, what is written as "
        "the value, and what is the logarithm of the gate?"
    ),
    (
        "C are queries, B keys, dt x values, and dt A the logarithms of the gates. All positions at once are a masked "
        "attention without softmax, (C Bᵀ ⊙ L) times the values, and L is your `decay_mask`."
    ),
    (
        "A may be a number, or one for each head: make it a tensor with a last axis for the positions before it meets "
        "dt. dt as a factor of x needs a last axis, too. Then follow hint 2: the product of queries and keys, times "
        "the mask entry by entry, times the values."
    ),
)


def _gates(dt, A):
    """The logarithms of the gates, dt A (*batch, T)."""
    return dt * torch.as_tensor(A, dtype=dt.dtype)[..., None]


def _mask(log_decay):
    """The mask of any gates, also of those above 1."""
    total = log_decay.cumsum(-1)
    return (total[..., :, None] - total[..., None, :]).tril().exp().tril()


@wrong.idea
def forgets_nothing(x, dt, A, B, C):
    """You use the causal mask, and never A: nothing fades. The mask is that of the gates exp(dt A)."""
    return (C @ B.mT).tril() @ (dt[..., None] * x)


@wrong.idea
def takes_a_softmax(x, dt, A, B, C):
    """You take a softmax of C Bᵀ. A state-space model is linear: the products themselves are the weights, times the mask."""
    future = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).triu(1)
    return ((C @ B.mT).masked_fill(future, -torch.inf).softmax(-1) * decay_mask(_gates(dt, A))) @ (dt[..., None] * x)


@wrong.idea
def swaps_B_and_C(x, dt, A, B, C):
    """You exchange B and C. B says how an input enters the state, as a key; C says how the state is read, as a query."""
    return (B @ C.mT * decay_mask(_gates(dt, A))) @ (dt[..., None] * x)


@wrong.part
def writes_without_the_step(x, dt, A, B, C):
    """You write x, not dt x. The length of a step scales what is written, and not the decay alone: with dt = 0 a position
    leaves no trace."""
    return (C @ B.mT * decay_mask(_gates(dt, A))) @ x


@wrong.detail
def holds_the_input_through_the_step(x, dt, A, B, C):
    """You write (exp(dt A) - 1) / A times B x, which is exact for an input that is held through the step, as the papers of S4
    and Mamba have it. Mamba-2 writes dt B x: the two agree where dt A is small."""
    g, A = _gates(dt, A), torch.as_tensor(A, dtype=dt.dtype)[..., None]
    return (C @ B.mT * decay_mask(g)) @ (((g.exp() - 1) / A)[..., None] * x)


@wrong.part
def fades_by_A_alone(x, dt, A, B, C):
    """Your gates are exp(A), the same for each position. The length of the step belongs to it: exp(dt A), so that the state
    fades more in a long step."""
    return (C @ B.mT * decay_mask(_gates(torch.ones_like(dt), A))) @ (dt[..., None] * x)


@wrong.part
def fades_by_the_step_alone(x, dt, A, B, C):
    """Your gates are exp(-dt), without A. A says how fast the state of this head fades: exp(dt A)."""
    return (C @ B.mT * decay_mask(-dt)) @ (dt[..., None] * x)


@wrong.part
def leaves_the_logarithms(x, dt, A, B, C):
    """Your mask holds sums of dt A. The gates are their exponentials."""
    total = _gates(dt, A).cumsum(-1)
    return (C @ B.mT * (total[..., :, None] - total[..., None, :]).tril()) @ (dt[..., None] * x)


@wrong.part
def reads_the_future(x, dt, A, B, C):
    """Position t reads inputs that come after it. The mask is 0 above its diagonal."""
    mask = decay_mask(_gates(dt, A))
    return (C @ B.mT * (mask + mask.mT.triu(1))) @ (dt[..., None] * x)


@wrong.part
def fades_between_neighbours_alone(x, dt, A, B, C):
    """Your mask holds one gate for each row. Gates are multiplied: what came in long ago has met many of them."""
    return (C @ B.mT * _gates(dt, A).exp()[..., None]).tril() @ (dt[..., None] * x)


@wrong.detail
def grows_instead_of_fading(x, dt, A, B, C):
    """You turn the sign of A around. A is negative already, and exp(dt A) is the gate, at most 1."""
    return (C @ B.mT * _mask(-_gates(dt, A))) @ (dt[..., None] * x)


@wrong.detail
def multiplies_by_the_step_twice(x, dt, A, B, C):
    """You multiply by dt twice, once at B and once at x. What is written is B (dt x)ᵀ, with a single dt."""
    return (C @ (dt[..., None] * B).mT * decay_mask(_gates(dt, A))) @ (dt[..., None] * x)


@wrong.detail
def multiplies_by_the_step_of_the_reader(x, dt, A, B, C):
    """You multiply by the dt of the position that reads. dt belongs to the input that is written: dt_j x_j."""
    return dt[..., None] * ((C @ B.mT * decay_mask(_gates(dt, A))) @ x)


@wrong.detail
def hides_the_own_position(x, dt, A, B, C):
    """Your outputs lack the input of their own position. The state is written first, then read: the diagonal of the mask is
    1."""
    return (C @ B.mT * decay_mask(_gates(dt, A))).tril(-1) @ (dt[..., None] * x)


@wrong.detail
def lets_the_own_position_fade(x, dt, A, B, C):
    """You let an input fade by its own gate. The state fades *before* it is written: the diagonal of the mask is 1."""
    g = _gates(dt, A)
    return (C @ B.mT * decay_mask(g)) @ ((g.exp() * dt)[..., None] * x)


@wrong.detail
def scales_by_the_root_of_n(x, dt, A, B, C):
    """You divide C Bᵀ by √n. No softmax follows that would saturate: the model has no scale."""
    return (C @ B.mT * decay_mask(_gates(dt, A))) @ (dt[..., None] * x) / B.shape[-1] ** 0.5


@wrong.detail
def adds_the_input(x, dt, A, B, C):
    """You add x to the outputs. Mamba-2 adds D x outside of this function; here there is no such term."""
    return (C @ B.mT * decay_mask(_gates(dt, A))) @ (dt[..., None] * x) + x


@wrong.case
def gives_A_no_axis(x, dt, A, B, C):
    """You multiply dt by A as it is. Where A holds a number for each head, its last axis meets the positions: give it one more
    axis of size 1."""
    return (C @ B.mT * decay_mask(dt * A)) @ (dt[..., None] * x)


@wrong.case
def wants_a_number(x, dt, A, B, C):
    """You convert A to a single number. It may be a tensor with one for each head, and a gradient."""
    return (C @ B.mT * decay_mask(dt * float(A))) @ (dt[..., None] * x)


@wrong.case
def cuts_the_triangle_after_exp(x, dt, A, B, C):
    """Your outputs are right, but NaN where the state fades fast: above the diagonal the exponential overflows, and ∞ · 0 is
    NaN. Fill the exponents with -inf before."""
    total = _gates(dt, A).cumsum(-1)
    mask = (total[..., :, None] - total[..., None, :]).exp() * torch.ones(dt.shape[-1], dt.shape[-1]).tril()
    return (C @ B.mT * mask) @ (dt[..., None] * x)


@wrong.case
def wants_a_number_for_each_head(x, dt, A, B, C):
    """You take a tensor A for a row with one number for each head, and index its first axis. It only has to broadcast to
    (*batch), and may have no axis at all: give it a last one, `A[..., None]`."""
    A = A[:, None] if torch.is_tensor(A) else A
    return (C @ B.mT * decay_mask(dt * A)) @ (dt[..., None] * x)


@wrong.case
def takes_the_logarithm_of_the_steps(x, dt, A, B, C):
    """You put dt into the exponent, by its logarithm. A step of length 0 leaves a position out, and your outputs do so, but its
    gradient is NaN: 0 · ∞. Multiply by dt outside of the exponential."""
    total = _gates(dt, A).cumsum(-1)
    exponent = total[..., :, None] - total[..., None, :] + dt.log()[..., None, :]
    future = torch.ones(dt.shape[-1], dt.shape[-1], dtype=torch.bool).triu(1)
    return (C @ B.mT * exponent.masked_fill(future, -torch.inf).exp()) @ x


@wrong.part
def takes_a_softplus_of_the_steps(x, dt, A, B, C):
    """You take a softplus of dt. Models do so before, to make a length of what they have learned; here `dt` holds the lengths
    themselves."""
    dt = torch.nn.functional.softplus(dt)
    return (C @ B.mT * _mask(_gates(dt, A))) @ (dt[..., None] * x)


@wrong.part
def takes_the_decay_for_its_logarithm(x, dt, A, B, C):
    """You take -exp(A) for the decay, as code does whose parameter is the logarithm of -A. Here A is the decay itself, and
    negative: with A = 0 nothing fades."""
    return (C @ B.mT * _mask(_gates(dt, -torch.as_tensor(A, dtype=dt.dtype).exp()))) @ (dt[..., None] * x)


@wrong.case
def takes_an_axis_of_a_number(x, dt, A, B, C):
    """You index A by [..., None], and a plain number has no axes. It may be a number or a tensor with one for each head."""
    return (C @ B.mT * decay_mask(dt * A[..., None])) @ (dt[..., None] * x)


@right
def by_the_recurrence(x, dt, A, B, C):
    """`gated_step` from an empty state, position by position."""
    gates, written = _gates(dt, A), dt.unsqueeze(-1) * x
    h, outputs = torch.zeros(*x.shape[:-2], B.shape[-1], x.shape[-1]), []
    for t in range(x.shape[-2]):
        y, h = gated_step(h, C[..., t, :], B[..., t, :], written[..., t, :], gates[..., t, None])
        outputs.append(y)
    return torch.stack(outputs, dim=-2)


@right
def in_einsum(x, dt, A, B, C):
    """One einsum over queries, keys, mask, steps and inputs."""
    mask = decay_mask(torch.einsum("...t,...->...t", dt, torch.as_tensor(A, dtype=dt.dtype).expand(dt.shape[:-1])))
    return torch.einsum("...in,...jn,...ij,...j,...jd->...id", C, B, mask, dt, x)


@right
def in_double_precision(x, dt, A, B, C):
    """In float64, with the mask row by row as the recurrence makes it, and cast back."""
    g = (dt * torch.as_tensor(A, dtype=dt.dtype).unsqueeze(-1)).double()
    row, rows, one = g[..., :0], [], torch.ones_like(g[..., :1])
    for t in range(g.shape[-1]):
        row = torch.cat([row * g[..., t, None].exp(), one], -1)
        rows.append(torch.nn.functional.pad(row, (0, g.shape[-1] - t - 1)))
    weights = torch.stack(rows, -2) * (C.double() @ B.double().mT)
    return (weights @ (x.double() * dt.double().unsqueeze(-1))).to(x.dtype)


@stranger
def model_of_half_the_decay(x, dt, A, B, C):
    return ssd(x, dt, A / 2, B, C)


@stranger
def model_without_a_gradient_of_the_steps(x, dt, A, B, C):
    return ssd(x, dt.detach(), A, B, C)


@stranger
def model_that_shifts_its_inputs(x, dt, A, B, C):
    return ssd(x.roll(1, -2), dt, A, B, C)


@stranger(makes=[swaps_B_and_C])
def model_by_einsum_with_its_letters_exchanged(x, dt, A, B, C):
    return torch.einsum("...in,...jn,...ij,...jd->...id", B, C, decay_mask(_gates(dt, A)), dt.unsqueeze(-1) * x)


@stranger(makes=[writes_without_the_step, swaps_B_and_C])
def model(x, dt, A, B, C):
    return torch.einsum("...in,...jn,...ij,...jd->...id", B, C, decay_mask(_gates(dt, A)), x)


def _inputs(draw: Draw, *batch: int, T: int | None = None, A: float | torch.Tensor = -0.7) -> Call:
    drawn, n, d = draw.sizes(3)
    T = drawn if T is None else T
    return draw.normal(*batch, T, d), 0.2 + draw.uniform(*batch, T), A, draw.normal(*batch, T, n), draw.normal(*batch, T, n)


def _left_out(draw: Draw) -> Call:
    """Steps of length 0 among the others."""
    x, dt, A, B, C = _inputs(draw, 2, T=7)
    dt[..., 1::3] = 0.0
    return x, dt, A, B, C


def _heads(draw: Draw) -> Call:
    """Each head fades at a rate of its own."""
    return _inputs(draw, 2, 3, T=5, A=-0.1 - draw.uniform(3))


def _of_any_shape(draw: Draw) -> list[Call]:
    """A number for each head, one for each sequence, and a tensor without axes."""
    return [_heads(draw), *(_inputs(draw, 2, 3, T=5, A=-0.1 - A) for A in (draw.uniform(2, 1), draw.uniform(1)[0]))]


exercise = Exercise(
    id="18.5",
    title="A state-space model is masked attention",
    extra=True,
    reference=ssd,
    properties=(
        runs_on(lambda draw: [_inputs(draw)]),
        has_shape("An output for each position.", lambda draw: [_inputs(draw, 2), _inputs(draw)]),
        Property("one position", "The first output is dt (C · B) x.", lambda draw: [_inputs(draw, 1, T=1)], points=2),
        Property(
            "kept",
            "With A = 0 nothing fades: each position reads all inputs so far.",
            lambda draw: [_inputs(draw, 1, T=5, A=0.0)],
            points=2,
            needs=("one position",),
        ),
        Property(
            "faded",
            "From step to step, the state fades by exp(dt A).",
            lambda draw: [_inputs(draw, 1, T=2), _inputs(draw, 1, T=7, A=-0.3), _left_out(draw)],
            points=3,
            needs=("one position",),
        ),
        Property(
            "fast",
            "Where the state fades fast, outputs are finite.",
            lambda draw: [_inputs(draw, 1, T=13, A=-40.0)],
            needs=("faded",),
        ),
        Property(
            "batch",
            "Each sequence and each head is computed independently.",
            lambda draw: [_inputs(draw, 3), _inputs(draw, 2, 3), _inputs(draw)],
            needs=("faded",),
        ),
        Property("heads", "A may hold one number for each head.", _of_any_shape, needs=("batch",)),
        has_gradient(lambda draw: [_inputs(draw, 2), _heads(draw), _left_out(draw)], needs=("heads", "fast")),
        leaves_inputs(lambda draw: [_inputs(draw, 2), _heads(draw)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "All arguments have one dtype and one device.": (
            "drop keyword: torch.as_tensor(A, device=dt.device)[..., None]",
            "drop keyword: torch.as_tensor(A, dtype=dt.dtype)[..., None]",
            "detach: dt.detach().dtype",
            "other name: x.dtype",
            "other name: B.dtype",
            "other name: C.dtype",
            "detach: dt.detach().device",
            "other name: x.device",
            "other name: B.device",
            "other name: C.device",
        ),
    },
    hints=HINTS,
)
