"""Exercise 18.4, chunked_delta_attention: what students answer, wrong and right."""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention import chunked_delta_attention, decay_mask, delta_attention
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    costs_at_most,
    has_gradient,
    has_shape,
    leaves_inputs,
    loops_at_most,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Take one chunk, an empty memory and no decay. Position i writes k_i u_iᵀ with u_i = β_i (v_i - Σ_j<i (k_i · k_j) "
        "u_j). Write these equations for three positions, one below the other. Which matrix stands in front of u_1, u_2, u_3?"
    ),
    (
        "The matrix is I plus β_i times the strictly lower triangle of K Kᵀ, so `torch.linalg.solve_triangular` gives all U at "
        "once, with `unitriangular=True` for the ones on the diagonal. Contexts then are (Q Kᵀ, with the diagonal, no future) "
        "U. What the memory before the chunk says of a key belongs to the right side; what it says of a query, to the context."
    ),
    (
        "With decay, each product of positions i and j is multiplied by entry (i, j) of the chunk's `decay_mask`, and "
        "what was there before the chunk by the product of all gates up to i: once where the memory says something of "
        "a key, once where a query reads it. The next S is the old one, faded by all gates, plus each k_j u_jᵀ faded "
        "by the gates after j: that is the last row of the mask."
    ),
)


def _by_chunks(
    q,
    k,
    v,
    beta,
    log_decay=None,
    chunk=64,
    *,
    solved=None,
    right_side=None,
    read=None,
    written=None,
):
    """The sound form, of which a wrong answer replaces one step; each step takes what `_Chunk` holds, and S or U."""
    log_decay = torch.zeros_like(beta) if log_decay is None else log_decay
    S, contexts = torch.zeros(*v.shape[:-2], k.shape[-1], v.shape[-1]), []
    for at in torch.arange(v.shape[-2]).split(chunk):
        here = _Chunk(q[..., at, :], k[..., at, :], v[..., at, :], beta[..., at, None], log_decay[..., at])
        U = (solved or _Chunk.solved)(here, (right_side or _Chunk.right_side)(here, S))
        contexts.append((read or _Chunk.read)(here, S, U))
        S = (written or _Chunk.written)(here, S, U)
    return torch.cat(contexts, dim=-2)


class _Chunk:
    """Queries, keys, values, β as a column, and the decay of one chunk."""

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, b: Tensor, log_decay: Tensor) -> None:
        self.q, self.k, self.v, self.b, self.log_decay = q, k, v, b, log_decay
        self.L, self.since = decay_mask(log_decay), log_decay.cumsum(-1).exp()[..., None]

    def right_side(self, S: Tensor) -> Tensor:
        return self.b * (self.v - self.since * (self.k @ S))

    def solved(self, right: Tensor) -> Tensor:
        return self.solved_with(self.b * (self.k @ self.k.mT * self.L).tril(-1), right)

    def solved_with(self, below: Tensor, right: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(below, right, upper=False, unitriangular=True)

    def read(self, S: Tensor, U: Tensor) -> Tensor:
        return self.since * (self.q @ S) + (self.q @ self.k.mT * self.L) @ U

    def written(self, S: Tensor, U: Tensor) -> Tensor:
        return self.since[..., -1:, :] * S + (self.L[..., -1, :, None] * self.k).mT @ U


@wrong.idea
def adds_the_values(q, k, v, beta, log_decay=None, chunk=64):
    """You write β v and correct nothing: this is linear attention. What a position writes depends on what earlier positions
    wrote under similar keys, inside the chunk and before it."""
    return _by_chunks(
        q, k, v, beta, log_decay, chunk, solved=lambda here, right: right, right_side=lambda here, S: here.b * here.v
    )


@wrong.idea
def returns_what_is_written(q, k, v, beta, log_decay=None, chunk=64):
    """You return U, what the positions write. The context is what the queries read, from the memory before the chunk and from
    U."""
    return _by_chunks(q, k, v, beta, log_decay, chunk, read=lambda here, S, U: U)


@wrong.idea
def walks_from_position_to_position(q, k, v, beta, log_decay=None, chunk=64):
    """Your contexts are right, but you loop over the positions, one step each: that is the form that chunks are to replace. In
    a chunk, all positions are one triangular system and a few products."""
    return delta_attention(q, k, v, beta, log_decay)


@wrong.part
def corrects_by_the_memory_alone(q, k, v, beta, log_decay=None, chunk=64):
    """You correct by the memory before the chunk, but not by what the chunk itself has written before a position. That is what
    the triangular system is for."""
    return _by_chunks(q, k, v, beta, log_decay, chunk, solved=lambda here, right: right)


@wrong.part
def stops_after_one_correction(q, k, v, beta, log_decay=None, chunk=64):
    """You multiply by I - β A in place of solving (I + β A) U = …. Each position is then corrected by what others *would have*
    written without corrections of their own: the series I - A + A² - … is cut off."""
    return _by_chunks(
        q,
        k,
        v,
        beta,
        log_decay,
        chunk,
        solved=lambda here, right: right - here.b * (here.k @ here.k.mT * here.L).tril(-1) @ right,
    )


@wrong.part
def begins_each_chunk_anew(q, k, v, beta, log_decay=None, chunk=64):
    """You start each chunk from an empty memory: what earlier chunks wrote is lost to the later ones. Carry S over."""
    return _by_chunks(q, k, v, beta, log_decay, chunk, written=lambda here, S, U: S)


@wrong.part
def reads_the_chunk_alone(q, k, v, beta, log_decay=None, chunk=64):
    """Your queries read only what their own chunk wrote. They read the memory before the chunk too, faded since then."""
    return _by_chunks(q, k, v, beta, log_decay, chunk, read=lambda here, S, U: (here.q @ here.k.mT * here.L) @ U)


@wrong.part
def reads_the_future(q, k, v, beta, log_decay=None, chunk=64):
    """Your queries read what later positions of their chunk write. Cut Q Kᵀ off above its diagonal; `decay_mask` does."""
    return _by_chunks(
        q,
        k,
        v,
        beta,
        log_decay,
        chunk,
        read=lambda here, S, U: here.since * (here.q @ S) + (here.q @ here.k.mT * (here.L + here.L.mT.triu(1))) @ U,
    )


@wrong.part
def lets_nothing_fade(q, k, v, beta, log_decay=None, chunk=64):
    """You never use `log_decay`. Where it is given, the memory fades before each position."""
    return _by_chunks(q, k, v, beta, None, chunk)


@wrong.part
def forgets_beta_in_the_system(q, k, v, beta, log_decay=None, chunk=64):
    """Your matrix lacks β: you multiply only the right side by it. u_i is β_i times the *whole* error, so row i of the matrix
    has the factor β_i too."""
    return _by_chunks(
        q,
        k,
        v,
        beta,
        log_decay,
        chunk,
        solved=lambda here, right: here.solved_with((here.k @ here.k.mT * here.L).tril(-1), right),
    )


@wrong.part
def forgets_beta_on_the_right(q, k, v, beta, log_decay=None, chunk=64):
    """Your right side lacks β: you multiply only the matrix by it. u_i is β_i times the *whole* error, the value included."""
    return _by_chunks(q, k, v, beta, log_decay, chunk, right_side=lambda here, S: here.v - here.since * (here.k @ S))


@wrong.detail
def takes_the_beta_of_the_earlier(q, k, v, beta, log_decay=None, chunk=64):
    """You multiply the columns of the matrix by β. Row i belongs to the position that corrects, so β_i stands in front of the
    row."""
    return _by_chunks(
        q,
        k,
        v,
        beta,
        log_decay,
        chunk,
        solved=lambda here, right: here.solved_with(here.b.mT * (here.k @ here.k.mT * here.L).tril(-1), right),
    )


@wrong.detail
def turns_the_sign_around(q, k, v, beta, log_decay=None, chunk=64):
    """Your matrix is I - β A. What earlier positions wrote is *subtracted* from the value; on the left side of the system it
    stands with a plus."""
    return _by_chunks(
        q,
        k,
        v,
        beta,
        log_decay,
        chunk,
        solved=lambda here, right: here.solved_with(-here.b * (here.k @ here.k.mT * here.L).tril(-1), right),
    )


@wrong.detail
def hides_the_own_position(q, k, v, beta, log_decay=None, chunk=64):
    """Your queries do not read what their own position writes. The diagonal belongs to the reading; it is missing only in the
    triangle of the system."""
    return _by_chunks(
        q,
        k,
        v,
        beta,
        log_decay,
        chunk,
        read=lambda here, S, U: here.since * (here.q @ S) + (here.q @ here.k.mT * here.L).tril(-1) @ U,
    )


@wrong.detail
def keeps_the_memory_fresh(q, k, v, beta, log_decay=None, chunk=64):
    """You add to the memory at the end of a chunk without letting the old one fade. It fades by all gates of the chunk."""
    return _by_chunks(
        q, k, v, beta, log_decay, chunk, written=lambda here, S, U: S + (here.L[..., -1, :, None] * here.k).mT @ U
    )


@wrong.detail
def writes_without_fading(q, k, v, beta, log_decay=None, chunk=64):
    """What a chunk writes goes into the memory as if all of it were new. Position j has faded until the end of the chunk: row
    -1 of the decay mask says how much."""
    return _by_chunks(q, k, v, beta, log_decay, chunk, written=lambda here, S, U: here.since[..., -1:, :] * S + here.k.mT @ U)


@wrong.detail
def reads_an_old_memory_fresh(q, k, v, beta, log_decay=None, chunk=64):
    """Your queries read the memory before the chunk as it was. At position i it has faded by the gates of the chunk up to i."""
    return _by_chunks(q, k, v, beta, log_decay, chunk, read=lambda here, S, U: here.q @ S + (here.q @ here.k.mT * here.L) @ U)


@wrong.detail
def compares_with_an_old_memory(q, k, v, beta, log_decay=None, chunk=64):
    """You compare the values with the memory before the chunk as it was. At position i it has faded by the gates of the chunk
    up to i."""
    return _by_chunks(q, k, v, beta, log_decay, chunk, right_side=lambda here, S: here.b * (here.v - here.k @ S))


@wrong.detail
def corrects_what_has_not_faded(q, k, v, beta, log_decay=None, chunk=64):
    """Your system has no decay: what earlier positions of the chunk wrote has faded until position i compares. Multiply K Kᵀ by
    the decay mask."""
    return _by_chunks(
        q,
        k,
        v,
        beta,
        log_decay,
        chunk,
        solved=lambda here, right: here.solved_with(here.b * (here.k @ here.k.mT).tril(-1), right),
    )


@wrong.detail
def takes_all_positions_at_once(q, k, v, beta, log_decay=None, chunk=64):
    """Your contexts are right, but their cost grows with T², as that of softmax attention: you solve one system for all
    positions, or make the memory anew in every chunk. Solve chunk by chunk, and carry S over."""
    return _by_chunks(q, k, v, beta, log_decay, v.shape[-2])


@wrong.case
def needs_a_decay(q, k, v, beta, log_decay=None, chunk=64):
    """You use `log_decay` where it is None. Without it nothing fades: take zeros."""
    return _by_chunks(q, k, v, beta, log_decay + 0.0, chunk)


@wrong.case
def wants_whole_chunks(q, k, v, beta, log_decay=None, chunk=64):
    """You reshape the positions into whole chunks. The last one may be shorter: loop over slices, or fill up with positions
    whose β is 0."""
    k.unflatten(-2, (-1, min(chunk, v.shape[-2])))
    return _by_chunks(q, k, v, beta, log_decay, chunk)


@wrong.detail
def keeps_the_diagonal(q, k, v, beta, log_decay=None, chunk=64):
    """Your matrix A keeps its diagonal, β_i k_i · k_i, beside the ones. A position corrects what *earlier* positions wrote, so
    the triangle is strict: `tril(-1)`."""

    def solved(here, right):
        below = here.b * (here.k @ here.k.mT * here.L).tril()
        return torch.linalg.solve_triangular(torch.eye(below.shape[-1]) + below, right, upper=False)

    return _by_chunks(q, k, v, beta, log_decay, chunk, solved=solved)


@wrong.part
def leaves_out_the_last_chunk(q, k, v, beta, log_decay=None, chunk=64):
    """You compute full chunks alone: what is left at the end, or a text shorter than a chunk, gets a context of 0. The last
    chunk may be shorter than the others."""
    T = v.shape[-2] // chunk * chunk
    whole = chunked_delta_attention(q, k, v, beta, log_decay, chunk)
    return torch.cat([whole[..., :T, :], torch.zeros_like(whole[..., T:, :])], dim=-2)


@wrong.part
def writes_without_any_decay(q, k, v, beta, log_decay=None, chunk=64):
    """Nothing fades on its way to the next chunk, neither the old memory nor what the chunk writes. The old one fades by all
    gates of the chunk, and what is written at j by the gates after j."""
    return _by_chunks(q, k, v, beta, log_decay, chunk, written=lambda here, S, U: S + here.k.mT @ U)


@wrong.part
def leaves_the_identity_out(q, k, v, beta, log_decay=None, chunk=64):
    """Your matrix has β_i k_i · k_i on its diagonal in place of ones. It is I + A, with A strictly below the diagonal: a
    position's own u_i stands there with the factor 1."""

    def solved(here, right):
        below = here.b * (here.k @ here.k.mT * here.L).tril()
        return torch.linalg.solve_triangular(below, right, upper=False)

    return _by_chunks(q, k, v, beta, log_decay, chunk, solved=solved)


@wrong.part
def has_zeros_on_the_diagonal(q, k, v, beta, log_decay=None, chunk=64):
    """Your matrix has zeros on its diagonal, and solving divides by them. It is I + A: add the identity, or let the solver put
    ones there, `unitriangular=True`."""

    def solved(here, right):
        below = here.b * (here.k @ here.k.mT * here.L).tril(-1)
        return torch.linalg.solve_triangular(below, right, upper=False)

    return _by_chunks(q, k, v, beta, log_decay, chunk, solved=solved)


@wrong.case
def divides_by_beta(q, k, v, beta, log_decay=None, chunk=64):
    """You divide both sides of the system by β, which then stands on its diagonal. Your contexts are right, but where β is 0
    you divide by 0, and the gradient is NaN. Multiply the rows by β and keep the ones on the diagonal."""
    return _by_chunks(
        q,
        k,
        v,
        beta,
        log_decay,
        chunk,
        right_side=lambda here, S: here.v - here.since * (here.k @ S),
        solved=lambda here, right: torch.linalg.solve_triangular(
            (here.k @ here.k.mT * here.L).tril(-1) + torch.diag_embed(1 / here.b[..., 0]), right, upper=False
        ),
    )


@right
def with_rows_by_substitution(q, k, v, beta, log_decay=None, chunk=64):
    """The inverse of the triangular matrix by a general solver, in float64, over slices."""
    gates = torch.zeros_like(beta) if log_decay is None else log_decay
    S, contexts = torch.zeros(*v.shape[:-2], k.shape[-1], v.shape[-1], dtype=torch.float64), []
    for at in torch.arange(v.shape[-2]).split(chunk):
        Q, K, V = (x[..., at, :].double() for x in (q, k, v))
        rate, total = beta[..., at, None].double(), gates[..., at].double().cumsum(-1)
        left = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
        matrix = torch.eye(len(at), dtype=torch.float64) + (rate * left * (K @ K.mT)).tril(-1)
        faded = total.exp().unsqueeze(-1)
        U = torch.linalg.solve(matrix, rate * (V - faded * (K @ S)))
        contexts.append(faded * (Q @ S) + (left * (Q @ K.mT)) @ U)
        S = faded[..., -1:, :] * S + K.mT @ (left[..., -1, :].unsqueeze(-1) * U)
    return torch.cat(contexts, dim=-2).to(v.dtype)


@right
def with_an_inverse_by_rows(q, k, v, beta, log_decay=None, chunk=64):
    """As in published code: the inverse row by row, of all chunks at once; then a loop over the chunks."""
    T, gates = v.shape[-2], torch.zeros_like(beta) if log_decay is None else log_decay
    size, missing = min(chunk, T), -T % min(chunk, T)
    Q, K, V = (F.pad(x, (0, 0, 0, missing)).unflatten(-2, (-1, size)) for x in (q, k, v))
    rate, total = (F.pad(x, (0, missing)).unflatten(-1, (-1, size)) for x in (beta, gates))
    rate, total = rate[..., None], total.cumsum(-1)
    left = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
    lower = -(rate * left * (K @ K.mT)).tril(-1)
    rows = [lower[..., 0, :]]
    for i in range(1, size):
        rows.append(lower[..., i, :] + (lower[..., i, :i, None] * torch.stack(rows, -2)).sum(-2))
    inverse, faded = torch.stack(rows, -2) + torch.eye(size), total.exp()[..., None]
    values, keys = inverse @ (rate * V), inverse @ (rate * faded * K)
    read, S, contexts = left * (Q @ K.mT), 0 * K[..., 0, :, :].mT @ V[..., 0, :, :], []
    for n in range(Q.shape[-3]):
        U = values[..., n, :, :] - keys[..., n, :, :] @ S
        contexts.append(faded[..., n, :, :] * (Q[..., n, :, :] @ S) + read[..., n, :, :] @ U)
        S = faded[..., n, -1:, :] * S + (left[..., n, -1, :, None] * K[..., n, :, :]).mT @ U
    return torch.cat(contexts, dim=-2)[..., :T, :]


@right
def with_two_right_sides(q, k, v, beta, log_decay=None, chunk=64):
    """As in the paper: one system for the values and one for the keys, whose results meet the memory afterwards."""
    d_k, T = k.shape[-1], v.shape[-2]
    if log_decay is None:
        log_decay = 0 * beta
    S, contexts = None, []
    for start in range(0, T, chunk):
        Q, K, V = (x[..., start : start + chunk, :] for x in (q, k, v))
        rate, L = beta[..., start : start + chunk].unsqueeze(-1), decay_mask(log_decay[..., start : start + chunk])
        faded = torch.exp(torch.cumsum(log_decay[..., start : start + chunk], -1)).unsqueeze(-1)
        lower = torch.tril(rate * (K @ K.transpose(-1, -2)) * L, diagonal=-1)
        both = torch.cat([rate * V, rate * faded * K], dim=-1)
        values, keys = torch.linalg.solve_triangular(lower, both, upper=False, unitriangular=True).split(
            [v.shape[-1], d_k], dim=-1
        )
        U = values if S is None else values - keys @ S
        context = (Q @ K.transpose(-1, -2) * L) @ U
        contexts.append(context if S is None else context + faded * (Q @ S))
        grown = (K * L[..., -1, :].unsqueeze(-1)).transpose(-1, -2) @ U
        S = grown if S is None else grown + faded[..., -1:, :] * S
    return torch.cat(contexts, dim=-2)


@right
def filled_up_to_whole_chunks(q, k, v, beta, log_decay=None, chunk=64):
    """Positions with β = 0 fill up the last chunk; chunks become an axis, on which all systems are solved at once, and only S
    goes from one to the next."""
    T, n = v.shape[-2], -v.shape[-2] % chunk
    Q, K, V = (F.pad(x, (0, 0, 0, n)).unflatten(-2, (-1, chunk)) for x in (q, k, v))
    rate = F.pad(beta, (0, n)).unflatten(-1, (-1, chunk)).unsqueeze(-1)
    g = (beta.new_zeros(*beta.shape[:-1], T + n) if log_decay is None else F.pad(log_decay, (0, n))).unflatten(-1, (-1, chunk))
    L, faded = decay_mask(g), g.cumsum(-1).exp().unsqueeze(-1)
    lower = (rate * (K @ K.mT * L)).tril(-1)
    values = torch.linalg.solve_triangular(lower, rate * V, upper=False, unitriangular=True)
    keys = torch.linalg.solve_triangular(lower, rate * faded * K, upper=False, unitriangular=True)
    similar, ends = Q @ K.mT * L, K * L[..., -1, :, None]
    S, contexts = torch.zeros(*v.shape[:-2], k.shape[-1], v.shape[-1]), []
    for i in range(Q.shape[-3]):
        U = values[..., i, :, :] - keys[..., i, :, :] @ S
        contexts.append(faded[..., i, :, :] * (Q[..., i, :, :] @ S) + similar[..., i, :, :] @ U)
        S = faded[..., i, -1:, :] * S + ends[..., i, :, :].mT @ U
    return torch.cat(contexts, dim=-2)[..., :T, :]


@stranger
def chunks_of_half_the_rate(q, k, v, beta, log_decay=None, chunk=64):
    return chunked_delta_attention(q, k, v, beta / 2, log_decay, chunk)


@stranger
def chunks_without_a_gradient_of_the_keys(q, k, v, beta, log_decay=None, chunk=64):
    return chunked_delta_attention(q, k.detach(), v, beta, log_decay, chunk)


@stranger
def chunks_that_overlap(q, k, v, beta, log_decay=None, chunk=64):
    return chunked_delta_attention(q, k, v.roll(1, -2), beta, log_decay, chunk)


@stranger
def chunks_with_scaled_queries(q, k, v, beta, log_decay=None, chunk=64):
    return chunked_delta_attention(q / q.shape[-1] ** 0.5, k, v, beta, log_decay, chunk)


@stranger(makes=[begins_each_chunk_anew])
def chunks_one_by_one(q, k, v, beta, log_decay=None, chunk=64):
    pieces = zip(*(x.split(chunk, -2) for x in (q, k, v)), strict=True)
    gates = [x.split(chunk, -1) if x is not None else None for x in (beta, log_decay)]
    found = [chunked_delta_attention(*piece, gates[0][i], gates[1] and gates[1][i], chunk) for i, piece in enumerate(pieces)]
    return torch.cat(found, dim=-2)


@stranger(makes=[lets_nothing_fade, begins_each_chunk_anew])
def chunks(q, k, v, beta, log_decay=None, chunk=64):
    pieces = zip(*(x.split(chunk, -2) for x in (q, k, v)), beta.split(chunk, -1), strict=True)
    return torch.cat([chunked_delta_attention(*piece, None, chunk) for piece in pieces], dim=-2)


def _inputs(draw: Draw, *batch: int, T: int | None = None, fades: bool = False, chunk: int = 64) -> Call:
    """Queries, keys of length 1, which resemble each other, values, β, and a decay or none."""
    drawn, d_k, d_v = draw.sizes(3)
    T = drawn if T is None else T
    k = F.normalize(draw.normal(*batch, T, d_k) + 1.0, dim=-1)
    q, v, beta = draw.normal(*batch, T, d_k), draw.normal(*batch, T, d_v), 0.2 + 0.7 * draw.uniform(*batch, T)
    return q, k, v, beta, -draw.uniform(*batch, T) if fades else None, chunk


def _all_or_nothing(draw: Draw) -> Call:
    """Positions that write nothing, and such as correct all of the error."""
    q, k, v, beta, *rest = _inputs(draw, 1, T=7)
    beta[..., 1::3], beta[..., 2::3] = 0.0, 1.0
    return q, k, v, beta, *rest


def _long(draw: Draw) -> list[Call]:
    """So many positions that one matrix for all of them costs many times as much as the chunks'."""
    k = F.normalize(draw.normal(1, 512, 3), dim=-1)
    return [(draw.normal(1, 512, 3), k, draw.normal(1, 512, 2), draw.uniform(1, 512), None, 16)]


def _many(draw: Draw) -> list[Call]:
    """So many chunks that a loop over positions makes many times as many operations; a loop over a chunk's rows does not."""
    k = F.normalize(draw.normal(1, 512, 3), dim=-1)
    return [(draw.normal(1, 512, 3), k, draw.normal(1, 512, 2), draw.uniform(1, 512), None, 32)]


exercise = Exercise(
    id="18.4",
    title="The delta rule in chunks",
    extra=True,
    reference=chunked_delta_attention,
    properties=(
        runs_on(lambda draw: [_inputs(draw, 2, fades=True)]),
        has_shape("A context for each position.", lambda draw: [_inputs(draw, 2), _inputs(draw, fades=True)]),
        Property(
            "one position",
            "One position reads β (q · k) v.",
            lambda draw: [_inputs(draw, 1, T=1, fades=True), _inputs(draw, T=1)],
        ),
        Property(
            "one chunk",
            "Inside a chunk, each position is corrected by what all earlier ones wrote.",
            lambda draw: [_inputs(draw, 1, T=2), _inputs(draw, 1, T=7), _all_or_nothing(draw)],
            points=3,
            needs=("one position",),
        ),
        Property(
            "decay",
            "Where `log_decay` is given, what was written fades before each position.",
            lambda draw: [_inputs(draw, 1, T=7, fades=True)],
            needs=("one chunk",),
        ),
        Property(
            "chunks",
            "The memory goes from chunk to chunk; the last one may be shorter.",
            lambda draw: [_inputs(draw, 1, T=6, chunk=3), _inputs(draw, 1, T=11, chunk=4), _inputs(draw, 1, T=5, chunk=1)],
            points=2,
            needs=("one chunk",),
        ),
        Property(
            "faded chunks",
            "From chunk to chunk, the memory fades.",
            lambda draw: [_inputs(draw, 1, T=11, fades=True, chunk=4)],
            needs=("decay", "chunks"),
        ),
        loops_at_most(
            3, "The number of operations grows with the number of chunks, not of positions.", _many, needs=("one chunk",)
        ),
        costs_at_most(8, "The cost grows with the number of positions, not with its square.", _long, needs=("chunks",)),
        Property(
            "batch",
            "Each sequence and each head has its own memory.",
            lambda draw: [_inputs(draw, 3), _inputs(draw, 2, 3, fades=True), _inputs(draw)],
            needs=("faded chunks",),
        ),
        has_gradient(
            lambda draw: [_inputs(draw, 2, T=7, fades=True, chunk=2), _inputs(draw, 2, T=5), _all_or_nothing(draw)],
            needs=("batch",),
        ),
        leaves_inputs(lambda draw: [_inputs(draw, 2, fades=True)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only shapes and dtypes are read: those of the batch agree, and the first memory and context hold no numbers.": (
            "drop call: batch, d_k, d_v = (q.shape[:-2], k.shape[-1], v.shape[-1])",
            "drop call: batch, d_k, d_v = (k.shape[:-2], k.shape[-1], v.shape[-1])",
            "drop call: batch, d_k, d_v = (v.shape[:-2], k.shape[-1], v.shape[-1])",
            (
                "swap arguments: batch, d_k, d_v = (broadcast_shapes(k.shape[:-2], q.shape[:-2], v.shape[:-2]), k.sha"
                "pe[-1], v.shape[-1])"
            ),
            (
                "swap arguments: batch, d_k, d_v = (broadcast_shapes(q.shape[:-2], v.shape[:-2], k.shape[:-2]), k.sha"
                "pe[-1], v.shape[-1])"
            ),
            "drop argument: batch, d_k, d_v = (broadcast_shapes(k.shape[:-2], v.shape[:-2]), k.shape[-1], v.shape[-1])",
            "drop argument: batch, d_k, d_v = (broadcast_shapes(q.shape[:-2], v.shape[:-2]), k.shape[-1], v.shape[-1])",
            "drop argument: batch, d_k, d_v = (broadcast_shapes(q.shape[:-2], k.shape[:-2]), k.shape[-1], v.shape[-1])",
            "drop argument: S, contexts = (v.new_zeros(d_k, d_v), [v[..., :0, :].expand(*batch, 0, d_v)])",
            "detach: torch.zeros_like(beta.detach())",
            "drop call: [v[..., :0, :]]",
            "detach: k.detach().shape",
            "other name: q.shape",
            "detach: v.detach().shape",
            "detach: v.detach().new_zeros",
            "other name: log_decay.new_zeros",
            "other name: q.new_zeros",
            "other name: k.new_zeros",
            "other name: beta.new_zeros",
            "constant: v[..., :0, :].expand(*batch, -1, d_v)",
            "detach: v.detach().shape (2)",
            "other name: q.shape (3)",
            "other name: k.shape (2)",
            "detach: q.detach().shape",
            "other name: k.shape (3)",
            "other name: v.shape (2)",
            "detach: k.detach().shape (2)",
            "other name: q.shape (4)",
            "other name: v.shape (3)",
            "detach: v.detach().shape (3)",
            "other name: q.shape (5)",
            "other name: k.shape (4)",
            "detach: v.detach()[..., :0, :]",
            "constant: v[..., :1, :]",
        ),
        "The same test.": ("swap sides: torch.zeros_like(beta) if None is log_decay else log_decay",),
        "`solve_triangular` reads the strictly lower triangle alone.": (
            "drop call: A = K @ K.mT * L",
            "drop argument: A = (K @ K.mT * L).tril()",
            "drop sign: (K @ K.mT * L).tril(1)",
            "constant: (K @ K.mT * L).tril(-0)",
        ),
    },
    hints=HINTS,
)
