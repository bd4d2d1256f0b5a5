"""Exercise 19.3, accept: what students answer, wrong and right.

The token that follows is drawn, and an answer may turn the uniform number into a token in its own way. So its law is judged,
over many rows with the same probabilities, and not the token of a single row.
"""

import torch
from torch import Tensor

from course_lib.generation import Accepted, accept
from course_tools.checks.comparisons import Failure, right_result
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on
from course_tools.checks.outcome import Outcome

wrong, right, stranger = Answers(), Answers(), Answers()

ROWS, VOCABULARY = 8_000, 5

HINTS = (
    (
        "Take p = (0.5, 0.5, 0), q = (0.25, 0.25, 0.5). Is token 0 ever refused? Is token 2 ever accepted? After token 2 was "
        "refused, which tokens are still owed something, and how much each?"
    ),
    (
        "Three steps. Take p and q of the drafted tokens themselves (`gather`), and compare u · q < p. Accepted are the "
        "tokens before the first refusal: a product of what was accepted so far. At that position, draw from the positive "
        "part of p - q, or, if nothing was refused, from the last row of p."
    ),
    (
        "`cumprod` of what was accepted, as integers, turns all entries after the first refusal to 0; its sum is n. "
        "Give the draft's table one more row, of zeros: then the positive part of p - q is p itself in the last row, "
        "and no case is left. To draw from row n, find where its running sum passes the last uniform number times its "
        "total."
    ),
)


def _of_tokens(tokens: Tensor, law: Tensor) -> Tensor:
    return law[..., : tokens.shape[-1], :].gather(-1, tokens[..., None])[..., 0]


def _n(ok: Tensor) -> Tensor:
    return ok.long().cumprod(-1).sum(-1)


def _drawn(law: Tensor, u: Tensor) -> Tensor:
    """The first token whose running sum exceeds u times all."""
    steps = law.cumsum(-1)
    return (steps <= u[..., None] * steps[..., -1:]).sum(-1).clamp(max=law.shape[-1] - 1)


def _row(laws: Tensor, n: Tensor) -> Tensor:
    return laws.gather(-2, n[..., None, None].expand(*n.shape, 1, laws.shape[-1]))[..., 0, :]


def _rest(draft_p: Tensor, model_p: Tensor) -> Tensor:
    rest = (model_p - torch.nn.functional.pad(draft_p, (0, 0, 0, 1))).clamp(min=0)
    return torch.where(rest.sum(-1, keepdim=True) > 0, rest, model_p)


def _ok(tokens: Tensor, draft_p: Tensor, model_p: Tensor, uniforms: Tensor) -> Tensor:
    return uniforms[..., : tokens.shape[-1]] * _of_tokens(tokens, draft_p) < _of_tokens(tokens, model_p)


@wrong.part
def draws_from_the_model_again(tokens, draft_p, model_p, uniforms):
    """After a refusal you draw from p. Tokens that the draft proposes often have then had a chance already, and come too
    often: draw from what is still owed, (p - q)₊."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    return Accepted(n, _drawn(_row(model_p, n), uniforms[..., -1]))


@wrong.detail
def runs_past_the_last_token(tokens, draft_p, model_p, uniforms):
    """You compare the running sum of (p - q)₊ with a number between 0 and 1, although it ends below 1, and so may find a token
    that does not exist. Divide by its last entry, or multiply the number by it."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    return Accepted(n, (_row(_rest(draft_p, model_p), n).cumsum(-1) <= uniforms[..., -1:]).sum(-1))


@wrong.detail
def judges_by_the_row_after(tokens, draft_p, model_p, uniforms):
    """You judge each token by the model's row after its own. Row i of `model_p` stands at the place of token i: leave out the
    last row, not the first."""
    ok = uniforms[..., : tokens.shape[-1]] * _of_tokens(tokens, draft_p) < _of_tokens(tokens, model_p[..., 1:, :])
    n = _n(ok)
    return Accepted(n, _drawn(_row(_rest(draft_p, model_p), n), uniforms[..., -1]))


@wrong.idea
def accepts_everything(tokens, draft_p, model_p, uniforms):
    """You accept every drafted token. The text then has the law of the draft, not that of the model."""
    n = torch.full(tokens.shape[:-1], tokens.shape[-1])
    return Accepted(n, _drawn(model_p[..., -1, :], uniforms[..., -1]))


@wrong.idea
def accepts_by_the_model_alone(tokens, draft_p, model_p, uniforms):
    """You accept with the probability p(x), whatever q is. A token that the draft proposes rarely must be accepted more
    easily: divide by q(x)."""
    n = _n(uniforms[..., : tokens.shape[-1]] < _of_tokens(tokens, model_p))
    return Accepted(n, _drawn(_row(_rest(draft_p, model_p), n), uniforms[..., -1]))


@wrong.idea
def accepts_what_the_model_prefers(tokens, draft_p, model_p, uniforms):
    """You accept a token if p(x) ≥ q(x), and refuse it otherwise. Where p < q, it is to be accepted with the probability p/q:
    the uniform number decides."""
    n = _n(_of_tokens(tokens, model_p) >= _of_tokens(tokens, draft_p))
    return Accepted(n, _drawn(_row(_rest(draft_p, model_p), n), uniforms[..., -1]))


@wrong.part
def turns_the_ratio_around(tokens, draft_p, model_p, uniforms):
    """You accept if u < q(x)/p(x). It is p(x)/q(x): tokens that the model likes better than the draft does are always
    accepted."""
    ok = uniforms[..., : tokens.shape[-1]] * _of_tokens(tokens, model_p) < _of_tokens(tokens, draft_p)
    n = _n(ok)
    return Accepted(n, _drawn(_row(_rest(draft_p, model_p), n), uniforms[..., -1]))


@wrong.part
def counts_all_accepted(tokens, draft_p, model_p, uniforms):
    """You count accepted tokens wherever they stand. The ones after a refused token continue another text, and are dropped:
    count up to the first refusal."""
    n = _ok(tokens, draft_p, model_p, uniforms).long().sum(-1)
    return Accepted(n, _drawn(_row(_rest(draft_p, model_p), n), uniforms[..., -1]))


@wrong.part
def draws_from_the_difference_turned_around(tokens, draft_p, model_p, uniforms):
    """You draw from (q - p)₊: from the tokens that the draft proposes too often. What is owed are those that it proposes too
    rarely, (p - q)₊."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    padded = torch.nn.functional.pad(draft_p, (0, 0, 0, 1))
    rest = (padded - model_p).clamp(min=0)
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, model_p)
    return Accepted(n, _drawn(_row(rest, n), uniforms[..., -1]))


@wrong.part
def draws_from_the_absolute_difference(tokens, draft_p, model_p, uniforms):
    """You draw from |p - q|. Half of it belongs to tokens that come too often already: keep the positive part of p - q, by
    `clamp(min=0)`."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    rest = (model_p - torch.nn.functional.pad(draft_p, (0, 0, 0, 1))).abs()
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, model_p)
    return Accepted(n, _drawn(_row(rest, n), uniforms[..., -1]))


@wrong.part
def draws_another_token_from_the_model(tokens, draft_p, model_p, uniforms):
    """After a refusal you draw from p without the refused token. The other tokens that the draft proposes too often still come
    too often: draw from (p - q)₊, in which they all are 0."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    left = model_p.clone()
    left[..., :-1, :] = left[..., :-1, :].scatter(-1, tokens[..., None], 0.0)
    return Accepted(n, _drawn(_row(left, n), uniforms[..., -1]))


@wrong.detail
def takes_the_most_likely(tokens, draft_p, model_p, uniforms):
    """You take the most likely token of what is left. It is to be drawn from it, by the last uniform number."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    return Accepted(n, _row(_rest(draft_p, model_p), n).argmax(-1))


@wrong.detail
def draws_from_the_wrong_row(tokens, draft_p, model_p, uniforms):
    """You draw from the row before the refused token. n tokens are accepted, so the refused one stands in row n, counted from
    0."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    return Accepted(n, _drawn(_row(_rest(draft_p, model_p), (n - 1).clamp(min=0)), uniforms[..., -1]))


@wrong.detail
def uses_the_same_uniform_number(tokens, draft_p, model_p, uniforms):
    """You draw what follows by a uniform number that has decided on a token already. After a refusal it is known to be large,
    so it is no longer uniform: the last one is there for this."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    used = uniforms.gather(-1, n[..., None])[..., 0]
    return Accepted(n, _drawn(_row(_rest(draft_p, model_p), n), used))


@wrong.detail
def uses_the_first_uniform_number(tokens, draft_p, model_p, uniforms):
    """You draw what follows by the first uniform number, which has decided on the first token. Once that is refused it is known
    to be large, so it is no longer uniform: the last one is there for this."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    return Accepted(n, _drawn(_row(_rest(draft_p, model_p), n), uniforms[..., 0]))


@wrong.detail
def does_not_divide_by_the_sum(tokens, draft_p, model_p, uniforms):
    """You compare the running sum of (p - q)₊ with a number between 0 and 1, although it ends below 1. Divide it by its last
    entry, or the last token gets all that is missing."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    steps = _row(_rest(draft_p, model_p), n).cumsum(-1)
    return Accepted(n, (steps <= uniforms[..., -1:]).sum(-1).clamp(max=model_p.shape[-1] - 1))


@wrong.detail
def follows_with_the_draft(tokens, draft_p, model_p, uniforms):
    """Where all tokens are accepted, you subtract the last row of q once more. There is no drafted token at that place: what
    follows comes from the last row of p."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    again = torch.cat([draft_p, draft_p[..., -1:, :]], dim=-2) if draft_p.shape[-2] else torch.zeros_like(model_p)
    rest = (model_p - again).clamp(min=0)
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, model_p)
    return Accepted(n, _drawn(_row(rest, n), uniforms[..., -1]))


@wrong.detail
def counts_the_new_token(tokens, draft_p, model_p, uniforms):
    """Your number is one too large: `n` counts the accepted tokens of the draft, without the one that follows."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    return Accepted(n + 1, _drawn(_row(_rest(draft_p, model_p), n), uniforms[..., -1]))


@wrong.case
def draws_excluded_tokens(tokens, draft_p, model_p, uniforms):
    """You mix a little of the uniform law into what you draw from, perhaps so that nothing is 0. A token that the model
    excludes must never come."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    return Accepted(n, _drawn(_row(_rest(draft_p, model_p), n) + 1e-2, uniforms[..., -1]))


@wrong.case
def accepts_an_excluded_token(tokens, draft_p, model_p, uniforms):
    """You accept if u ≤ p/q. A uniform number can be 0, and then you accept a token that the model excludes: it is u <
    p/q."""
    n = _n(uniforms[..., : tokens.shape[-1]] * _of_tokens(tokens, draft_p) <= _of_tokens(tokens, model_p))
    return Accepted(n, _drawn(_row(_rest(draft_p, model_p), n), uniforms[..., -1]))


@wrong.case
def draws_an_excluded_token(tokens, draft_p, model_p, uniforms):
    """You take the first token whose running sum reaches u times all. A uniform number can be 0, and then this is token 0, even
    if nothing is owed to it: take the first whose running sum exceeds it (`torch.searchsorted` does so with `right=True`)."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    steps = _row(_rest(draft_p, model_p), n).cumsum(-1)
    return Accepted(n, torch.searchsorted(steps, uniforms[..., -1:] * steps[..., -1:])[..., 0])


@right
def by_multinomial(tokens, draft_p, model_p, uniforms):
    """Draws the following token by torch.multinomial, and lets the last uniform number be."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    law = _row(_rest(draft_p, model_p), n)
    return Accepted(n, torch.multinomial(law.reshape(-1, law.shape[-1]), 1).view(n.shape))


@right
def with_an_argmin(tokens, draft_p, model_p, uniforms):
    """The first refusal by argmax, a loop over positions, and the uniform number from the other side."""
    refused = torch.cat([~_ok(tokens, draft_p, model_p, uniforms), torch.ones(*tokens.shape[:-1], 1, dtype=torch.bool)], -1)
    n = refused.int().argmax(-1)
    rest = _row(_rest(draft_p, model_p), n)
    steps = rest.cumsum(-1) / rest.sum(-1, keepdim=True)
    return Accepted(n, (steps < 1 - uniforms[..., -1:]).sum(-1).clamp(max=rest.shape[-1] - 1))


@right
def by_exponential_races(tokens, draft_p, model_p, uniforms):
    """Each token runs a race at the speed of its probability; the winner has the law."""
    n = _n(_ok(tokens, draft_p, model_p, uniforms))
    law = _row(_rest(draft_p, model_p), n)
    return n, (torch.empty_like(law).exponential_() / law).argmin(-1)


@stranger
def accepted_half_of_the_time(tokens, draft_p, model_p, uniforms):
    return accept(tokens, draft_p, model_p, uniforms.sqrt())


@stranger
def accepted_at_the_previous_place(tokens, draft_p, model_p, uniforms):
    return accept(tokens, draft_p, model_p.roll(1, -2), uniforms)


@stranger
def accepted_by_a_flat_model(tokens, draft_p, model_p, uniforms):
    flat = model_p.sqrt()
    return accept(tokens, draft_p, flat / flat.sum(-1, keepdim=True), uniforms)


@stranger(makes=[counts_all_accepted])
def counted_everywhere_then_drawn_by_multinomial(tokens, draft_p, model_p, uniforms):
    n = (uniforms[..., : tokens.shape[-1]] < _of_tokens(tokens, model_p) / _of_tokens(tokens, draft_p)).sum(-1)
    return n, torch.multinomial(_row(_rest(draft_p, model_p), n).reshape(-1, VOCABULARY), 1).view(n.shape)


@stranger(makes=[accepts_by_the_model_alone])
def accepted_by_the_model_then_drawn_by_multinomial(tokens, draft_p, model_p, uniforms):
    n = _n(uniforms[..., : tokens.shape[-1]] < _of_tokens(tokens, model_p))
    return n, torch.multinomial(_row(_rest(draft_p, model_p), n).reshape(-1, VOCABULARY), 1).view(n.shape)


@stranger(makes=[draws_from_the_model_again])
def accepted_then_drawn_by_the_model(tokens, draft_p, model_p, uniforms):
    n, _ = accept(tokens, draft_p, model_p, uniforms)
    steps = torch.stack([model_p[..., i, :] for i in range(model_p.shape[-2])], -2)
    law = torch.take_along_dim(steps, n[..., None, None], -2).squeeze(-2)
    total = law.cumsum(-1)
    return n, (total <= uniforms[..., -1:] * total[..., -1:]).sum(-1).clamp(max=law.shape[-1] - 1)


@stranger(makes=[draws_from_the_model_again, counts_all_accepted])
def counted_everywhere_then_drawn_by_the_model(tokens, draft_p, model_p, uniforms):
    n = _ok(tokens, draft_p, model_p, uniforms).long().sum(-1)
    return Accepted(n, _drawn(_row(model_p, n), uniforms[..., -1]))


def _laws(draw: Draw, n: int) -> Tensor:
    """n laws over a few tokens, of which the last token but one is excluded in every second."""
    logits = 1.2 * draw.normal(n, VOCABULARY)
    return logits.softmax(-1)


def _rows(draw: Draw, n: int, rows: int = ROWS, excluded: bool = False) -> Call:
    """Many rows of n tokens drawn from the same laws of a draft."""
    p, q = _laws(draw, n + 1), _laws(draw, n)
    if excluded:
        p[:, 0] = 0
        p = p / p.sum(-1, keepdim=True)
    tokens = (
        torch.stack([_drawn(law.expand(rows, -1), draw.uniform(rows)) for law in q], -1) if n else draw.integers(0, 1, rows, 0)
    )
    return tokens, q.expand(rows, -1, -1).clone(), p.expand(rows, -1, -1).clone(), draw.uniform(rows, n + 1)


def _settled(draw: Draw, n: int) -> list[Call]:
    """Rows of n tokens after which only one token can follow: one is owed at each place, and the model writes one at the end.

    So results are the same however the token is drawn, and a mistake in the number is known by them.
    """
    tokens, q, p, uniforms = _rows(draw, n, 400)
    owed = draw.integers(0, VOCABULARY, n + 1)
    kept = draw.uniform(n, VOCABULARY).scatter(1, owed[:n, None], 1.0) * q[0]
    one = torch.nn.functional.one_hot(owed, VOCABULARY).float()
    law = torch.cat([kept + (1 - kept.sum(1, keepdim=True)) * one[:n], one[n:]])
    return [(tokens, q, law.expand_as(p).clone(), uniforms)]


def _refused(draw: Draw, token: int = 2) -> list[Call]:
    """One token, which the model excludes, so that it is refused in all rows."""
    p, q = _laws(draw, 2), _laws(draw, 1)
    p[0, token] = 0
    p[0] /= p[0].sum()
    tokens = torch.full((ROWS, 1), token)
    return [(tokens, q.expand(ROWS, 1, -1).clone(), p.expand(ROWS, 2, -1).clone(), draw.uniform(ROWS, 2))]


def _zero(draw: Draw) -> list[Call]:
    """Token 0, which the model excludes, and uniform numbers of 0."""
    ((tokens, q, p, uniforms),) = _refused(draw, 0)
    return [(tokens[:3], q[:3], p[:3], 0 * uniforms[:3])]


def _welcome(draw: Draw) -> list[Call]:
    """Two tokens that the model likes better than the draft does, so that both are accepted in all rows."""
    p, q = _laws(draw, 3), _laws(draw, 2)
    tokens = (p[:2] - q).argmax(-1).expand(ROWS, 2).clone()
    return [(tokens, q.expand(ROWS, 2, -1).clone(), p.expand(ROWS, 3, -1).clone(), draw.uniform(ROWS, 3))]


def same_law(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that the tokens after equal numbers of accepted ones have the same law, by χ² for two samples."""
    if (failure := right_result(0)(expected, got)) is not None:
        return failure
    n, wanted, found = expected.results[0].flatten(), expected.results[1].flatten(), got.results[1].flatten()
    if not found.numel():
        return None
    if not 0 <= int(found.min()) <= int(found.max()) < 64:
        return Failure("The token is not one of the vocabulary.")
    for accepted in n.unique().tolist():
        rows = n == accepted
        a, b = (x[rows].bincount(minlength=64).double() for x in (wanted, found))
        never = ((a == 0) & (b > 20)).nonzero().flatten().tolist()
        if never:
            return Failure(
                f"After {accepted} accepted tokens, token {never[0]} came {int(b[never[0]])} times, although nothing is owed "
                "to it."
            )
        seen = (a + b) > 0
        apart = ((a - b).square() / (a + b).clamp(min=1))[seen]
        freedom = int(seen.sum()) - 1
        if float(apart.sum()) > 30 + 8 * freedom:
            worst = int((a - b).square().div((a + b).clamp(min=1)).argmax())
            return Failure(
                f"After {accepted} accepted tokens, token {worst} came in {b[worst] / b.sum():.0%} of the rows, and should "
                f"come in about {a[worst] / a.sum():.0%} (χ² = {float(apart.sum()):.0f} with {freedom} degrees of freedom)."
            )
    return None


def without_token_0(expected: Outcome, got: Outcome) -> Failure | None:
    """Check the number of accepted tokens, and that none that follows is token 0."""
    if (failure := right_result(0)(expected, got)) is not None:
        return failure
    if (got.results[1] == 0).any():
        return Failure("Token 0 came where the last uniform number is 0, although the model excludes it.")
    return None


def _few(draw: Draw) -> list[Call]:
    two_axes = tuple(x.unflatten(0, (1, 3)) for x in _rows(draw, 2, 3))
    return [_rows(draw, 1, 40), _rows(draw, 3, 40), _rows(draw, 2, 1), tuple(x[0] for x in _rows(draw, 2, 2)), two_axes]


exercise = Exercise(
    id="19.3",
    title="Accept or refuse",
    reference=accept,
    properties=(
        runs_on(_few),
        has_shape("A number and a token for each row.", _few),
        Property(
            "one",
            "A single token is accepted with the probability p/q, at most 1.",
            lambda draw: _settled(draw, 1),
            right_result(0),
            points=2,
        ),
        Property(
            "several",
            "Tokens after the first refused one are dropped.",
            lambda draw: _settled(draw, 4),
            right_result(0),
            points=2,
            needs=("one",),
        ),
        Property("refused", "After a refusal, the token is drawn from (p - q)₊.", _refused, same_law, points=3, drawn=True),
        Property(
            "excluded",
            "A token that the model excludes is refused, and never drawn, even where u is 0.",
            _zero,
            without_token_0,
            needs=("one",),
        ),
        Property(
            "welcome",
            "If all are accepted, the next token is drawn from the last row of p.",
            _welcome,
            same_law,
            points=2,
            drawn=True,
        ),
        Property(
            "law",
            "Over many rows, the tokens that follow have their law, whatever was refused where.",
            lambda draw: [_rows(draw, 3), _rows(draw, 1, excluded=True)],
            same_law,
            points=2,
            needs=("several", "refused", "welcome"),
            drawn=True,
        ),
        Property(
            "none", "Without drafted tokens it is ordinary sampling.", lambda draw: [_rows(draw, 0)], same_law, drawn=True
        ),
        leaves_inputs(lambda draw: [_rows(draw, 3, 40)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only the shape is read.": (
            "negate: (~tokens).shape",
            "negate: (~n).shape",
            "other name: draft_p.shape (3)",
            "other name: model_p.shape (3)",
        ),
        "`gather` reads as many rows as the index has.": (
            "drop index: (x.gather(-1, tokens[..., None]).squeeze(-1) for x in (model_p, draft_p))",
            "open slice: model_p[..., :, :]",
        ),
        "A mean is positive where the sum is.": ("cousin: rest.mean(-1, keepdim=True)",),
    },
    missed_mutants={
        "p instead of (p - q)₊ where that is 0 although a token was refused: only rounding does this, and no input has it.": (
            "remove statement: rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, model_p)",
            "drop call: rest = rest",
            "comparison: torch.where(rest.sum(-1, keepdim=True) >= 0, rest, model_p)",
            "other name: torch.where(rest.sum(-1, keepdim=True) > 0, rest, n_drafts)",
            "other name: torch.where(rest.sum(-1, keepdim=True) > 0, rest, rest)",
            "constant: rest.sum(-1, keepdim=True) > -1",
            "drop sign: rest.sum(1, keepdim=True)",
            "constant: rest.sum(-2, keepdim=True)",
            "other name: model_p.sum",
        ),
    },
    hints=HINTS,
)
