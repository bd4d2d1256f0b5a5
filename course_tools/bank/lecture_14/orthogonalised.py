"""Exercise 14.6, orthogonalised: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.primitives import orthogonalised
from course_tools.checks.exercise import Answers, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "How many vectors of d entries can be perpendicular to each other at most? So into how many groups must m rows be "
        "cut, and how many rows has the last one if m is no multiple of d? Which two properties must a row keep?"
    ),
    (
        "Gram and Schmidt: from each row subtract its projection on every *finished* row above it in the block, then "
        "scale it to its old length. QR does the first half on the columns of a matrix, but it may flip the sign of a "
        "direction."
    ),
    (
        "For each block of `omega.split(d)`: take the QR of the transposed block, multiply each column of Q by the sign of its "
        "entry on the diagonal of R, transpose back, and multiply each row by the norm of the old row. Then `cat` the blocks."
    ),
)


@wrong.detail
def gives_every_row_length_one(omega):
    """Your rows are perpendicular, but all of length 1. The rows of a Gaussian draw have lengths of their own, near √d, and
    the mean of the features is exp(qᵀk) only with those."""
    blocks = []
    for rows in omega.split(omega.shape[1]):
        Q, R = torch.linalg.qr(rows.mT)
        blocks.append((Q * R.diagonal().sign()).mT)
    return torch.cat(blocks)


@wrong.detail
def gives_every_row_length_root_d(omega):
    """You scale every row to √d. With equal lengths a row is no longer distributed as N(0, I); each must keep its own."""
    blocks = []
    for rows in omega.split(omega.shape[1]):
        Q, R = torch.linalg.qr(rows.mT)
        blocks.append((Q * R.diagonal().sign()).mT * math.sqrt(omega.shape[1]))
    return torch.cat(blocks)


@wrong.case
def takes_the_signs_of_qr(omega):
    """You take Q as it comes. QR may flip the sign of a direction, with the sign in R; Gram-Schmidt keeps the first row,
    and the orientation of each further one."""
    blocks = []
    for rows in omega.split(omega.shape[1]):
        Q, _ = torch.linalg.qr(rows.mT)
        blocks.append(Q.mT * rows.norm(dim=1, keepdim=True))
    return torch.cat(blocks)


@wrong.part
def cuts_into_d_blocks(omega):
    """You cut the rows into d blocks, where blocks of d rows are asked for. Yours are mostly shorter than they could be, so
    fewer rows are perpendicular to each other."""
    blocks = []
    for rows in omega.chunk(omega.shape[1]):
        Q, R = torch.linalg.qr(rows.mT)
        blocks.append((Q * R.diagonal().sign()).mT * rows.norm(dim=1, keepdim=True))
    return torch.cat(blocks)


@wrong.part
def treats_the_first_block_only(omega):
    """You make the first d rows perpendicular and leave all others as they were. Each further block of d rows must be
    treated in the same way."""
    rows, rest = omega[: omega.shape[1]], omega[omega.shape[1] :]
    Q, R = torch.linalg.qr(rows.mT)
    return torch.cat([(Q * R.diagonal().sign()).mT * rows.norm(dim=1, keepdim=True), rest])


@wrong.case
def loses_the_short_block(omega):
    """You work on whole blocks of d rows only, and the rows that are left over at the end are lost. The last block may be
    shorter; its rows are made perpendicular like the others."""
    d = omega.shape[1]
    blocks = [omega[:0]]
    for start in range(0, omega.shape[0] - d + 1, d):
        rows = omega[start : start + d]
        Q, R = torch.linalg.qr(rows.mT)
        blocks.append((Q * R.diagonal().sign()).mT * rows.norm(dim=1, keepdim=True))
    return torch.cat(blocks)


@wrong.part
def goes_on_through_all_rows(omega):
    """You make each row perpendicular to all rows before it, also to those of earlier blocks. After d rows no direction is
    left: the remainder of the next one is rounding noise."""
    done = []
    for row in omega:
        left = row
        for u in done:
            left = left - (left @ u) * u
        done.append(F.normalize(left, dim=0))
    return torch.stack(done) * omega.norm(dim=1, keepdim=True)


@wrong.detail
def forgets_the_old_lengths(omega):
    """You do not restore the lengths. Every row but the first has become shorter; scale each to its old length."""
    blocks = []
    for rows in omega.split(omega.shape[1]):
        Q, R = torch.linalg.qr(rows.mT)
        blocks.append((Q * R.diagonal()).mT)
    return torch.cat(blocks)


@wrong.idea
def looks_at_the_row_above_only(omega):
    """You make each row perpendicular to the one just above it, and to no other. The third row of a block must be
    perpendicular to the first too."""
    blocks = []
    for rows in omega.split(omega.shape[1]):
        done = [F.normalize(rows[0], dim=0)]
        for row in rows[1:]:
            done.append(F.normalize(row - (row @ done[-1]) * done[-1], dim=0))
        blocks.append(torch.stack(done) * rows.norm(dim=1, keepdim=True))
    return torch.cat(blocks)


@wrong.part
def projects_on_the_old_rows(omega):
    """You subtract the projections on the original rows above. These are not perpendicular to each other; use the finished
    rows."""
    blocks = []
    for rows in omega.split(omega.shape[1]):
        unit = F.normalize(rows, dim=1)
        shared = (rows @ unit.mT).tril(-1) @ unit
        blocks.append(F.normalize(rows - shared, dim=1) * rows.norm(dim=1, keepdim=True))
    return torch.cat(blocks)


@wrong.part
def turns_all_rows_a_little(omega):
    """You take the nearest perpendicular directions, by a singular value decomposition, and so change all rows of a block.
    Gram-Schmidt keeps the direction of the first row."""
    blocks = []
    for rows in omega.split(omega.shape[1]):
        U, _, Vh = torch.linalg.svd(rows, full_matrices=False)
        blocks.append(U @ Vh * rows.norm(dim=1, keepdim=True))
    return torch.cat(blocks)


@wrong.part
def turns_all_rows_at_once(omega):
    """You decompose all rows at once. In d dimensions no more than d rows can be perpendicular, and QR gives no more: cut
    the rows into blocks of d, and treat each by itself."""
    Q, _ = torch.linalg.qr(omega.mT)
    return Q.mT * omega.norm(dim=1, keepdim=True)


@right
def gram_and_schmidt_by_hand(omega):
    """Three loops: over the blocks, over the rows, and over the finished rows above, one projection after the other."""
    turned = [omega[:0]]
    for start in range(0, omega.shape[0], omega.shape[1]):
        done = []
        for row in omega[start : start + omega.shape[1]]:
            left = row
            for u in done:
                left = left - (left @ u) * u
            done.append(left / left.norm())
            turned.append((done[-1] * row.norm()).unsqueeze(0))
    return torch.cat(turned)


@right
def by_cholesky_in_double_precision(omega):
    """The triangular root L of each block's dot products: its inverse times the block is perpendicular and of length 1."""
    blocks = []
    for rows in omega.double().split(omega.shape[1]):
        gram = rows @ rows.mT
        directions = torch.linalg.solve_triangular(torch.linalg.cholesky(gram), rows, upper=False)
        blocks.append(gram.diagonal().sqrt()[:, None] * directions)
    return torch.cat(blocks).to(omega.dtype)


@right
def by_removing_directions_from_all_rows_below(omega):
    """Row by row, each finished direction is taken out of everything below it in the block by one outer product."""
    blocks = []
    for rows in omega.split(omega.shape[1]):
        rest, directions = rows, [rows[:0]]
        while len(rest):
            u = F.normalize(rest[:1], dim=1, eps=0.0)
            rest = rest[1:] - (rest[1:] @ u.mT) @ u
            directions.append(u)
        blocks.append(torch.einsum("r,rd->rd", torch.linalg.vector_norm(rows, dim=1), torch.cat(directions)))
    return torch.cat(blocks)


@stranger
def turned_from_the_last_row_on(omega):
    return torch.cat([orthogonalised(rows.flip(0)).flip(0) for rows in omega.split(omega.shape[1])])


@stranger
def turned_with_sorted_lengths(omega):
    lengths = omega.norm(dim=1, keepdim=True)
    return orthogonalised(omega) / lengths * lengths.sort(dim=0).values


@stranger
def turned_in_half_blocks(omega):
    return torch.cat([orthogonalised(rows) for rows in omega.split(max(1, omega.shape[1] // 2))])


@stranger
def turned_with_the_first_row_reversed(omega):
    turned = orthogonalised(omega).clone()
    turned[0] *= -1
    return turned


@stranger(makes=[gives_every_row_length_one])
def rows_of_length_one_in_loops(omega):
    done = []
    for i, row in enumerate(omega):
        for above in done[i - i % omega.shape[1] :]:
            row = row - (row @ above) * above
        done.append(row / row.norm())
    return torch.stack(done)


@stranger(makes=[gives_every_row_length_one, takes_the_signs_of_qr])
def turned(omega):
    return torch.cat([torch.linalg.qr(rows.mT).Q.mT for rows in omega.split(omega.shape[1])])


def _rows(draw: Draw, m: int, d: int) -> Tensor:
    """Independent rows, drawn again until none is nearly a sum of the others: where one is, rounding decides its direction."""
    while True:
        omega = draw.normal(m, d)
        if all(torch.linalg.svdvals(rows)[-1] > 0.2 for rows in omega.split(d)):
            return omega


exercise = Exercise(
    id="14.6",
    title="Orthogonal random directions",
    extra=True,
    reference=orthogonalised,
    properties=(
        runs_on(lambda draw: [(_rows(draw, 2, 3),)]),
        has_shape("As many rows as came in.", lambda draw: [(_rows(draw, 5, 3),), (_rows(draw, 2, 5),)]),
        Property("one row", "A single row stays as it is.", lambda draw: [(_rows(draw, 1, 5),)]),
        Property(
            "two rows",
            "The second row loses its projection on the first, and keeps its length and orientation.",
            lambda draw: [(_rows(draw, 2, 3),), (_rows(draw, 2, 5),)],
            points=2,
            needs=("one row",),
        ),
        Property(
            "block",
            "Up to d rows are perpendicular to each other.",
            lambda draw: [(_rows(draw, 3, 3),), (_rows(draw, 3, 5),), (_rows(draw, 5, 5),)],
            points=2,
            needs=("two rows",),
        ),
        Property(
            "blocks",
            "Each block of d rows is made perpendicular separately, also a shorter last one.",
            lambda draw: [(_rows(draw, 6, 3),), (_rows(draw, 5, 3),), (_rows(draw, 7, 3),), (_rows(draw, 11, 2),)],
            points=2,
            needs=("block",),
        ),
        leaves_inputs(lambda draw: [(_rows(draw, 5, 3),)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "A sign is its own inverse; Q is not used elsewhere, so it may be changed in place; torch.qr is the old name "
            "of torch.linalg.qr."
        ): (
            "operator: directions = Q / R.diagonal().sign()",
            "in place: directions = Q.mul_(R.diagonal().sign())",
            "drop attribute: torch.qr",
        ),
    },
    hints=HINTS,
)
