"""Exercise 18.3, delta_rule_step: what students answer, wrong and right."""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention import delta_rule_step
from course_tools.checks.comparisons import right_result
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
        "Ask the memory what it holds under the key before you write. If it says 1.8 and the value is 5, how much must be "
        "written so that it says 5 afterwards? And if it says 5 already?"
    ),
    (
        "Four steps: S fades, if `log_decay` is given; Sᵀk is what it says of the key; the error is v minus that; β times the "
        "outer product of key and error is added. The query reads last, and takes no part in what is written."
    ),
    (
        "Sᵀk is the sum of the rows of S, each times the key's entry for it: the key gets a last axis of size 1, and "
        "the sum runs over the axis before the last. For the outer product the error gets its new axis on the other "
        "side; β, a number, and the gates, a row's factor, get as many as they need. Return the context first, then "
        "S."
    ),
)


def _faded(S: Tensor, log_decay: Tensor | None) -> Tensor:
    return S if log_decay is None else log_decay.exp()[..., None, None] * S


def _read(q: Tensor, S: Tensor) -> Tensor:
    """What the memory says of a query or a key, (*batch, d_v)."""
    return (q[..., :, None] * S).sum(-2)


def _written(beta: Tensor, k: Tensor, error: Tensor) -> Tensor:
    return beta[..., None, None] * k[..., :, None] * error[..., None, :]


@wrong.idea
def adds_the_value(S, q, k, v, beta, log_decay=None):
    """You add β k vᵀ and never ask the memory what it holds under the key. A key that is written twice then has the sum of both
    values; the delta rule writes only the error."""
    S = _faded(S, log_decay)
    S = S + _written(beta, k, v)
    return _read(q, S), S


@wrong.part
def fades_by_what_it_writes(S, q, k, v, beta, log_decay=None):
    """You multiply the whole memory by 1 - β, and write the error besides. Fading is the gate's part; the error is added to the
    memory as it is."""
    S = _faded(S, log_decay)
    S = (1 - beta)[..., None, None] * S + _written(beta, k, v - _read(k, S))
    return _read(q, S), S


@wrong.detail
def gives_beta_no_axes(S, q, k, v, beta, log_decay=None):
    """You multiply what is written by β as it is. β is one number for each memory, and a memory has two axes: [..., None,
    None]. Without them β meets the last axis."""
    S = _faded(S, log_decay)
    S = S + beta * (k[..., :, None] * (v - _read(k, S))[..., None, :])
    return _read(q, S), S


@wrong.idea
def mixes_old_and_new(S, q, k, v, beta, log_decay=None):
    """You multiply the whole memory by 1 - β. That forgets every key a little; the delta rule changes only what is held under
    this one."""
    S = _faded(S, log_decay)
    S = (1 - beta)[..., None, None] * S + _written(beta, k, v)
    return _read(q, S), S


@wrong.idea
def swaps_query_and_key(S, q, k, v, beta, log_decay=None):
    """You exchange query and key: the key says where the memory is corrected, the query only reads."""
    S = _faded(S, log_decay)
    S = S + _written(beta, q, v - _read(q, S))
    return _read(k, S), S


@wrong.idea
def writes_the_error_alone(S, q, k, v, beta, log_decay=None):
    """You return β k (error)ᵀ in place of the memory. The correction is added to what is there."""
    S = _faded(S, log_decay)
    S = _written(beta, k, v - _read(k, S))
    return _read(q, S), S


@wrong.part
def compares_with_what_the_query_reads(S, q, k, v, beta, log_decay=None):
    """You compare the value with what the memory says of the query. The value belongs to the key: ask with the key."""
    S = _faded(S, log_decay)
    S = S + _written(beta, k, v - _read(q, S))
    return _read(q, S), S


@wrong.part
def corrects_everything(S, q, k, v, beta, log_decay=None):
    """You never use β, so each value replaces the old one. β says how much of the error is corrected: 0 nothing, 1 all of
    it."""
    S = _faded(S, log_decay)
    S = S + _written(torch.ones_like(beta), k, v - _read(k, S))
    return _read(q, S), S


@wrong.part
def lets_nothing_fade(S, q, k, v, beta, log_decay=None):
    """You never use `log_decay`. Where it is given, the memory fades by its exponential before it is compared."""
    S = S + _written(beta, k, v - _read(k, S))
    return _read(q, S), S


@wrong.part
def takes_a_part_of_the_value(S, q, k, v, beta, log_decay=None):
    """You multiply the value by β, but not what the memory says. β scales the whole error, β (v - Sᵀk): with β = 0 nothing
    changes."""
    S = _faded(S, log_decay)
    S = S + k[..., :, None] * (beta[..., None] * v - _read(k, S))[..., None, :]
    return _read(q, S), S


@wrong.part
def removes_all_of_the_old(S, q, k, v, beta, log_decay=None):
    """You write all of the value, but take away only a part β of what the memory said. β scales the whole error,
    β (v - Sᵀk)."""
    S = _faded(S, log_decay)
    S = S + k[..., :, None] * (v - beta[..., None] * _read(k, S))[..., None, :]
    return _read(q, S), S


@wrong.part
def returns_the_old_memory(S, q, k, v, beta, log_decay=None):
    """Your context is right, but the memory that you return is the one that came in. The next step then lacks the
    correction."""
    faded = _faded(S, log_decay)
    return _read(q, faded + _written(beta, k, v - _read(k, faded))), S


@wrong.part
def writes_all_sequences_into_one_memory(S, q, k, v, beta, log_decay=None):
    """You sum the corrections over the batch, and add them to every S. Each sequence and each head has its own memory; with a
    single one the mistake has no effect."""
    S = _faded(S, log_decay)
    S = S + torch.einsum("...,...k,...d->kd", beta, k, v - _read(k, S))
    return _read(q, S), S


@wrong.part
def transposes_the_outer_product(S, q, k, v, beta, log_decay=None):
    """You exchange the axes of S: it is (d_k, d_v), the key down the rows and the value along the columns, and so it is written
    and read. The other way fits only where d_k = d_v, and then it is transposed."""
    S = _faded(S, log_decay)
    S = S + beta[..., None, None] * (v - _read(k, S))[..., :, None] * k[..., None, :]
    return _read(q, S), S


@wrong.detail
def turns_the_error_around(S, q, k, v, beta, log_decay=None):
    """Your error has the wrong sign, Sᵀk - v. Each step then moves the memory away from the value; add v - Sᵀk, or subtract
    what you have."""
    S = _faded(S, log_decay)
    S = S + _written(beta, k, _read(k, S) - v)
    return _read(q, S), S


@wrong.detail
def answers_before_it_writes(S, q, k, v, beta, log_decay=None):
    """You read the memory before it is corrected. A query equal to the key then finds the old value, not the new one."""
    S = S if log_decay is None else log_decay.exp()[..., None, None] * S
    error = v - (k[..., :, None] * S).sum(-2)
    written = beta[..., None, None] * k[..., :, None] * error[..., None, :]
    return (q[..., :, None] * S).sum(-2), S + written


@wrong.detail
def compares_before_it_fades(S, q, k, v, beta, log_decay=None):
    """You compare with the memory before it fades, and correct the faded one. After that it does not hold the value: let it
    fade first."""
    S = _faded(S, log_decay) + _written(beta, k, v - _read(k, S))
    return _read(q, S), S


@wrong.detail
def fades_last(S, q, k, v, beta, log_decay=None):
    """You let the memory fade after the correction, and so also what was written just now. It fades before it is compared."""
    S = _faded(S + _written(beta, k, v - _read(k, S)), log_decay)
    return _read(q, S), S


@wrong.detail
def multiplies_by_the_logarithm(S, q, k, v, beta, log_decay=None):
    """You multiply the memory by `log_decay` itself. It is the logarithm of the gate: take its exponential."""
    S = S if log_decay is None else log_decay[..., None, None] * S
    S = S + _written(beta, k, v - _read(k, S))
    return _read(q, S), S


@wrong.detail
def doubles_the_gradient(S, q, k, v, beta, log_decay=None):
    """You correct twice the error, as the gradient of ‖v - Sᵀk‖² without the ½ would have it. With β = 1 the memory then
    overshoots: it must hold exactly the value."""
    S = _faded(S, log_decay)
    S = S + _written(2 * beta, k, v - _read(k, S))
    return _read(q, S), S


@wrong.detail
def multiplies_key_by_error(S, q, k, v, beta, log_decay=None):
    """You multiply key and error entry by entry, d_k numbers against d_v. What is written is an outer product:
    k[..., None] * error[..., None, :]."""
    S = _faded(S, log_decay)
    S = S + (beta[..., None] * (k * (v - _read(k, S))))[..., None, :]
    return _read(q, S), S


@wrong.detail
def gives_beta_no_axis(S, q, k, v, beta, log_decay=None):
    """You multiply β, one number for each sequence, by a key as it is, and the batch meets the features. Give β a last axis of
    size 1, beta[..., None]."""
    S = _faded(S, log_decay)
    S = S + (beta * k)[..., :, None] * (v - _read(k, S))[..., None, :]
    return _read(q, S), S


@wrong.case
def needs_a_decay(S, q, k, v, beta, log_decay=None):
    """You use `log_decay` where it is None. Without it the memory keeps everything: test for None first."""
    S = log_decay.exp()[..., None, None] * S
    S = S + _written(beta, k, v - _read(k, S))
    return _read(q, S), S


@wrong.case
def normalises_the_key(S, q, k, v, beta, log_decay=None):
    """You divide the key by its length. It has length 1 when it arrives, so your numbers are right; but the gradient that
    reaches the key is then another one. The caller decides how long keys are."""
    k = F.normalize(k, dim=-1)
    S = _faded(S, log_decay)
    S = S + _written(beta, k, v - _read(k, S))
    return _read(q, S), S


@wrong.case
def takes_the_error_for_a_number(S, q, k, v, beta, log_decay=None):
    """You detach the error, as if it were a constant. The values are right, but no gradient reaches the earlier positions
    through what the memory said."""
    S = _faded(S, log_decay)
    S = S + _written(beta, k, v - _read(k, S).detach())
    return _read(q, S), S


@wrong.case
def changes_the_memory_in_place(S, q, k, v, beta, log_decay=None):
    """You change S in place, and with it the memory that the caller holds, who can then neither step from it again nor
    differentiate through it. Make a new tensor."""
    if log_decay is not None:
        S *= log_decay.exp()[..., None, None]
    S += _written(beta, k, v - _read(k, S))
    return _read(q, S), S


@wrong.detail
def lets_the_new_fade_too(S, q, k, v, beta, log_decay=None):
    """You let what is written fade at once: the gate multiplies the sum. The memory fades first, and the correction is added
    whole."""
    error = v - _read(k, _faded(S, log_decay))
    kept = _faded(S + _written(beta, k, error), log_decay)
    return _read(q, kept), kept


@right
def in_einsum(S, q, k, v, beta, log_decay=None):
    """All products as einsum."""
    if log_decay is not None:
        S = torch.einsum("...,...kd->...kd", torch.exp(log_decay), S)
    error = v - torch.einsum("...k,...kd->...d", k, S)
    S = S + torch.einsum("...,...k,...d->...kd", beta, k, error)
    return torch.einsum("...k,...kd->...d", q, S), S


@right
def by_a_householder_matrix(S, q, k, v, beta, log_decay=None):
    """(I - β k kᵀ) S + β k vᵀ: what is under the key is removed, then the value is written."""
    rate = beta[..., None, None]
    gate = 1.0 if log_decay is None else log_decay.exp()[..., None, None]
    removes = torch.eye(k.shape[-1]) - rate * k.unsqueeze(-1) @ k.unsqueeze(-2)
    S = removes @ (gate * S) + rate * (k.unsqueeze(-1) @ v.unsqueeze(-2))
    return (S.mT @ q.unsqueeze(-1)).squeeze(-1), S


@right
def row_by_row(S, q, k, v, beta, log_decay=None):
    """Loops over the rows: the first asks, the second corrects and reads."""
    gate = torch.ones_like(beta) if log_decay is None else log_decay.exp()
    rows = [gate[..., None] * row for row in S.unbind(-2)]
    says = sum(k[..., i, None] * row for i, row in enumerate(rows))
    rows = [row + (beta * k[..., i])[..., None] * (v - says) for i, row in enumerate(rows)]
    return sum(q[..., i, None] * row for i, row in enumerate(rows)), torch.stack(rows, dim=-2)


@right
def in_double_precision(S, q, k, v, beta, log_decay=None):
    """In float64, with the old memory and the correction read apart, and both results cast back."""
    wide, query, key = S.double(), q.double(), k.double()
    if log_decay is not None:
        wide = wide * log_decay.double().exp()[..., None, None]
    correction = beta.double()[..., None] * (v.double() - (key.unsqueeze(-2) @ wide).squeeze(-2))
    context = (query.unsqueeze(-2) @ wide).squeeze(-2) + (query * key).sum(-1, keepdim=True) * correction
    return context.to(v.dtype), torch.addcmul(wide, key.unsqueeze(-1), correction.unsqueeze(-2)).to(S.dtype)


@stranger
def step_that_squares_beta(S, q, k, v, beta, log_decay=None):
    return delta_rule_step(S, q, k, v, beta.square(), log_decay)


@stranger
def step_that_cuts_the_past_off(S, q, k, v, beta, log_decay=None):
    return delta_rule_step(S.detach(), q, k, v, beta, log_decay)


@stranger
def step_that_forgets_by_beta(S, q, k, v, beta, log_decay=None):
    return delta_rule_step(S, q, k, v, beta, -beta if log_decay is None else log_decay - beta)


@stranger
def step_that_reads_with_half_the_query(S, q, k, v, beta, log_decay=None):
    return delta_rule_step(S, q / 2, k, v, beta, log_decay)


@stranger(makes=[answers_before_it_writes])
def step_by_einsum_on_the_old_memory(S, q, k, v, beta, log_decay=None):
    if log_decay is not None:
        S = torch.exp(log_decay)[..., None, None].mul(S)
    error = v.sub(torch.einsum("...k,...kd->...d", k, S))
    return torch.einsum("...k,...kd->...d", q, S), S.add(torch.einsum("...,...k,...d->...kd", beta, k, error))


@stranger(makes=[answers_before_it_writes, turns_the_error_around])
def step(S, q, k, v, beta, log_decay=None):
    S = S if log_decay is None else log_decay.exp()[..., None, None] * S
    error = (k[..., None, :] @ S)[..., 0, :] - v
    return (q[..., None, :] @ S)[..., 0, :], S + beta[..., None, None] * k[..., :, None] * error[..., None, :]


def _inputs(draw: Draw, *batch: int, seen: bool = True, fades: bool = False) -> Call:
    """A memory that has seen something, or nothing, and one more position, whose key has length 1."""
    d_k, d_v = draw.sizes(2)
    S = draw.normal(*batch, d_k, d_v) * seen
    q, v = draw.normal(*batch, d_k), draw.normal(*batch, d_v)
    k, share = F.normalize(draw.normal(*batch, d_k), dim=-1), draw.uniform(*batch, 2)
    beta, log_decay = 0.2 + 0.6 * share[..., 0], -0.1 - 2 * share[..., 1]
    return (S, q, k, v, beta, log_decay) if fades else (S, q, k, v, beta)


def _replaced(draw: Draw) -> Call:
    """All of the error is corrected, and the query asks for the key."""
    S, _, k, v, beta = _inputs(draw, 1)
    return S, k.clone(), k, v, torch.ones_like(beta)


def _by_beta(draw: Draw) -> list[Call]:
    """Some of the error is corrected, then nothing of it."""
    S, q, k, v, beta = _inputs(draw, 1)
    return [(S, q, k, v, beta), (S, q, k, v, 0 * beta)]


exercise = Exercise(
    id="18.3",
    title="A memory that corrects itself",
    reference=delta_rule_step,
    results=("context", "S"),
    properties=(
        runs_on(lambda draw: [_inputs(draw, 2)]),
        has_shape("A context, and a memory of the old size.", lambda draw: [_inputs(draw, 2), _inputs(draw)]),
        Property(
            "first",
            "From an empty memory, β k vᵀ is written.",
            lambda draw: [_inputs(draw, 1, seen=False)],
            right_result(1),
        ),
        Property(
            "replaced",
            "With β = 1, a query equal to the key reads exactly the value.",
            lambda draw: [_replaced(draw)],
            right_result(0),
            points=2,
        ),
        Property(
            "corrected",
            "β k times the error, v - Sᵀk, is added to S; with β = 0 nothing changes.",
            _by_beta,
            right_result(1),
            points=3,
            needs=("first",),
        ),
        Property(
            "context",
            "The context is read from the new memory.",
            lambda draw: [_inputs(draw, 1)],
            needs=("replaced", "corrected"),
        ),
        Property(
            "decay",
            "Where `log_decay` is given, the memory fades before it is compared.",
            lambda draw: [_inputs(draw, 1, fades=True)],
            points=2,
            needs=("context",),
        ),
        Property(
            "batch",
            "Each sequence and each head has its own memory, β and decay.",
            lambda draw: [_inputs(draw, 3), _inputs(draw, 2, 3, fades=True), _inputs(draw)],
            needs=("decay",),
        ),
        has_gradient(lambda draw: [_inputs(draw, 2), _inputs(draw, 3, fades=True)], needs=("batch",)),
        leaves_inputs(lambda draw: [_inputs(draw, 2), _inputs(draw, 2, fades=True)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={"The same test.": ("swap sides: if None is not log_decay:",)},
    hints=HINTS,
)
