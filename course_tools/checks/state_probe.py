"""Read a text step by step with a model that keeps a state, and measure what the state keeps and how it is read.

A growing state tells of a cache, a fading one of a recurrence, an outer product that the next token reads of linear attention.
Nothing is judged here, and this module contains no expected results: it also runs inside the sandbox.
"""

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from course_tools.checks.outcome import NotAFunction

MOST_WRITTEN = 20_000
"""Most numbers of a state among which products are looked for."""
MOST_READ_FROM = 100_000
"""Most numbers of a state, of all examples, whose part in the logits is measured."""
MOST_LOGITS, N_NEXT, N_TEXTS, N_READ, RECENT = 32, 8, 8, 32, 8
"""Numbers of logits, next tokens, texts and their tokens by which it is measured, and of their last tokens, which agree."""
LEAST_CHOSEN = 0.02
"""Least share, of the squares, by which the proportions of what is read depend on the next token if it is chosen by a query."""


def begins_without_a_token(model: object, text: Tensor) -> bool:
    """Whether `start` takes texts without a token."""
    try:
        model.start(text[:, :0])
    except Exception:
        model.start(text[:, :1])  # an error for every prompt is told as it is
        return False
    return True


def read_by_steps(model: object, text: Tensor) -> list[Tensor]:
    """Read a text (B, T) token by token: once directly, and once with another token read first and discarded at each step.

    Returns seven tensors: the logits (B, T, n_tokens); the logits after the detours (B, T, n_tokens); how many numbers the
    state holds after each step (T,); the fraction of the numbers in the state after a quarter of the text that are still
    there after half of it, (); the fraction of the numbers that the first token changes which it changes as much half a
    text later, (); whether what the first token writes into the state has the form of an outer product, (): 1, 0, or NaN
    for a state that is too large to tell; and the share of what the state says of the text that the next token chooses, (),
    or NaN: see `_chosen`.
    """
    state = model.start(text[:, :0])
    logits, held, numbers = [], [], []
    for t, tokens in enumerate(text.unbind(1), start=1):
        found, state = _stepped(model, tokens, state)
        logits.append(found)
        parts = _numbers_in(state)
        held.append(sum(map(len, parts)))
        if t in (text.shape[1] // 4, text.shape[1] // 2):
            numbers.append(_joined(parts))
    state, after_detours = model.start(text[:, :0]), []
    for tokens, others in zip(text.unbind(1), text.roll(1, 1).unbind(1), strict=True):
        _stepped(model, others, state)
        found, state = _stepped(model, tokens, state)
        after_detours.append(found)
    early, later = numbers[0], numbers[-1]
    early = early[early != 0]
    kept = torch.isin(early, later).double().mean().nan_to_num()
    shown = _lasting(model, text), _products(model, text), _chosen(model, text)
    return [torch.stack(logits, 1), torch.stack(after_detours, 1), torch.tensor(held), kept, *shown]


def _lasting(model: object, text: Tensor) -> Tensor:
    """Of the numbers in a state that depend on the first token, the share on which it has the same effect half a text later.

    The first effect is that after a few tokens, since a short convolution writes a token together with the next ones.
    """
    half = text.shape[1] // 2
    other = torch.cat([(text[:, :1] + 1) % (text.max() + 1), text[:, 1:]], dim=1)
    effects = []
    for n in (max(min(RECENT, half // 2), 1), half):
        one, two = (_joined(_numbers_in(model.start(x[:, :n]))) for x in (text, other))
        effects.append(one - two if len(one) == len(two) else torch.zeros(0))
    at_once, later = effects
    if len(at_once) != len(later) or not at_once.any():
        return torch.tensor(0.0)
    large = at_once.abs() > 0.1 * at_once.abs().max()
    return ((later - at_once).abs() <= 0.02 * at_once.abs())[large].double().mean()


def _products(model: object, text: Tensor) -> Tensor:
    """Whether one of 16 numbers that a first token writes into a state is in an outer product, (); NaN for a large state."""
    changes = []
    for token in text.unique()[:32]:
        state = model.start(text[:, :0])
        before = _joined(_numbers_in(state))
        after = _joined(_numbers_in(_stepped(model, token.expand(len(text)), state)[1]))
        changes.append(after - before if len(before) == len(after) else after)
    if {len(change) for change in changes} != {len(changes[0])} - {0}:
        return torch.tensor(0.0)
    written = torch.stack(changes).unique(dim=1)
    written = written[:, written.amax(0) - written.amin(0) > 1e-3 * written.abs().amax(0)]
    if written.shape[1] > MOST_WRITTEN:
        return torch.tensor(torch.nan)
    draw = torch.Generator().manual_seed(0)
    drawn = torch.randperm(written.shape[1], generator=draw)[:16].tolist()
    return torch.tensor(float(any(_is_in_a_product(written, i, draw) for i in drawn)))


def _is_in_a_product(written: Tensor, i: int, draw: torch.Generator) -> bool:
    """Whether, of what tokens write (n_tokens, n), the i-th number times another is, for every token, a product of two others.

    So it is with the corners of rectangles in φ vᵀ, wherever a state keeps them: φ_a v_c times φ_b v_d = φ_a v_d times φ_b v_c.
    The fourth corner is found by a random sum over the tokens. Numbers that differ by a factor are no corners: u times 2 v =
    2 u times v.
    """
    w = written[written[:, i].abs() > 1e-3 * written[:, i].abs().max()]
    free = (~_are_parallel(w, w[:, [i]])).nonzero()[:, 0]
    some = free[torch.randperm(len(free), generator=draw)[:300]]
    if len(w) < 4 or not len(some):
        return False
    factors = torch.randn(len(w), generator=draw, dtype=torch.double)
    sums, order = (factors @ w).sort()
    wanted = (w[:, free] * (factors / w[:, i])[:, None]).mT @ w[:, some]
    after = torch.searchsorted(sums, wanted).clamp(1, max(len(sums) - 1, 1))
    nearest = torch.where(wanted - sums[after - 1] < sums[after] - wanted, after - 1, after)
    j, k = ((sums[nearest] - wanted).abs() <= 1e-5 * wanted.abs()).nonzero()[:10_000].unbind(1)
    second, third, fourth = w[:, free[j]], w[:, some[k]], w[:, order[nearest[j, k]]]
    product = second * third
    equal = (product - w[:, [i]] * fourth).abs().amax(0) <= 1e-4 * product.abs().amax(0)
    same = _are_parallel(second * (third != 0), fourth) | _are_parallel(third * (second != 0), fourth)
    return bool((equal & ~same).any())


def _chosen(model: object, text: Tensor) -> Tensor:
    """Of what a state says of the tokens before the last ones, the share of which the next token chooses what is read, ().

    A state of φ(k) vᵀ is read by φ(q): the numbers of one column go to the same place in the logits, each times a number of
    φ(q), and these depend on the next token. Numbers that are read alone, or always in the same proportions, are not chosen.
    What they say is how the logits differ, to first order, from those after other texts with the same last tokens.
    """
    n = min(text.shape[1] // 4, N_READ)
    windows = [text[:, i * n : (i + 1) * n] for i in range(min(text.shape[1] // n, N_TEXTS))] if n > RECENT else []
    shares = torch.zeros(2, dtype=torch.double)
    for base in windows[:2]:
        others = [torch.cat([one[:, :-RECENT], base[:, -RECENT:]], dim=1) for one in windows if one is not base]
        try:
            shares += _shares_of_reading(model, base, others, text.unique()[: 2 * N_NEXT : 2])
        except Exception:  # what was not made to be differentiated may fail; it is not judged
            return torch.tensor(torch.nan)
    return shares[0] / shares.sum()


def _shares_of_reading(model: object, base: Tensor, others: list[Tensor], following: Tensor) -> Tensor:
    """What the logits show of a state, squared and added up: by numbers that the next token chooses, and by others, (2,)."""
    with _always_differentiating(), torch.set_grad_enabled(False):
        state, *differing = map(model.start, (base, *others))
    parts = _parts(state)
    read, *besides = (_joined([part.flatten().double() for part in _parts(one)]) for one in (state, *differing))
    if not len(read) or len(read) > MOST_READ_FROM:
        return torch.full((2,), torch.nan, dtype=torch.double)
    said = torch.stack([read - one for one in besides], dim=1).detach()
    gradients = _logits_by_state(model, base, state, parts, following)
    used = (gradients.norm(dim=1) * said.norm(dim=1)).sum(0)
    some = used > 1e-4 * used.max()
    is_chosen = _are_chosen(gradients[..., some], said[some].norm(dim=1))
    return torch.stack([(gradients[..., some][..., one] @ said[some][one]).square().sum() for one in (is_chosen, ~is_chosen)])


def _logits_by_state(model: object, text: Tensor, state: object, parts: list[Tensor], following: Tensor) -> Tensor:
    """The derivatives of the logits of the first example by the numbers of a state, for each next token (A, n_logits, n)."""
    rows = []
    with _always_differentiating():
        for part in parts:
            part.requires_grad_()
        for token in following:
            logits = model.step(token.expand(len(text)).clone(), state)[0][0]
            logits = (logits - logits.mean())[:MOST_LOGITS]
            found = [torch.autograd.grad(one, parts, retain_graph=True, materialize_grads=True) for one in logits]
            rows.append(torch.stack([_joined([part.flatten().double() for part in one]) for one in found]))
    return torch.stack(rows)


def _are_chosen(gradients: Tensor, sizes: Tensor) -> Tensor:
    """Whether numbers (n,) that go to the same place do so in proportions that depend on the next token (A, n_logits, n)."""
    strength = gradients.norm(dim=1)
    directions = gradients / strength.clamp(min=1e-300)[:, None]
    left, is_chosen = (strength * sizes).square().sum(0), torch.zeros(len(sizes), dtype=torch.bool)
    end = 0.001 * left.sum()
    while left.sum() > end:
        seed = left.argmax()
        cosines = (directions * directions[..., [seed]]).sum(1)
        both = (strength > 0) & (strength[:, [seed]] > 0)
        group = (((cosines.abs() > 0.9999) | ~both).all(0) & both.any(0) & (left > 0)).nonzero()[:, 0]
        proportions = (cosines * strength)[:, group][both[:, seed]]
        proportions = proportions / proportions.norm(dim=1, keepdim=True)
        is_chosen[group] = 1 - torch.linalg.matrix_norm(proportions, ord=2).square() / len(proportions) > LEAST_CHOSEN
        left[group] = 0
    return is_chosen


@contextlib.contextmanager
def _always_differentiating() -> Iterator[None]:
    """Differentiate also what is computed under `torch.no_grad` or `torch.inference_mode`, as in a decorated `step`."""
    modes = torch.no_grad, torch.inference_mode
    before = [(mode, mode.__enter__, mode.__exit__) for mode in modes]
    with torch.enable_grad():
        for mode in modes:
            mode.__enter__, mode.__exit__ = lambda self: None, lambda self, *error: None
        try:
            yield
        finally:
            for mode, enter, leave in before:
                mode.__enter__, mode.__exit__ = enter, leave


def _parts(value: object, seen: frozenset[int] = frozenset()) -> list[Tensor]:
    """The tensors of floating-point numbers that a state holds, in any nesting."""
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    if id(value) in seen:
        return []
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple | set) else ()
    parts = [*parts, *getattr(value, "__dict__", {}).values()]
    return [part for one in parts for part in _parts(one, seen | {id(value)})]


def _are_parallel(one: Tensor, other: Tensor) -> Tensor:
    """Whether columns (n, m) differ by a factor; zeros do from anything."""
    return (one * other).sum(0).abs() >= 0.9999 * one.norm(dim=0) * other.norm(dim=0)


def _joined(parts: list[Tensor]) -> Tensor:
    return torch.cat([torch.zeros(0, dtype=torch.double), *parts])


def _stepped(model: object, tokens: Tensor, state: object) -> tuple[Tensor, object]:
    result = model.step(tokens.clone(), state)
    if not isinstance(result, tuple | list) or len(result) != 2 or not isinstance(result[0], Tensor):
        raise NotAFunction("`step` should return two results: the logits, a tensor, and the new state.")
    return result[0].detach().cpu().clone(), result[1]


def _numbers_in(value: object, seen: frozenset[int] = frozenset()) -> list[Tensor]:
    """The numbers that a state holds, in tensors and outside of them, in any nesting: each a tensor (n,) in double precision.

    A text holds as many as characters, an integer one for each 64 bits.
    """
    if isinstance(value, Tensor):
        numbers = torch.view_as_real(value) if value.is_complex() else value
        return [numbers.detach().flatten().cpu().double()]
    if isinstance(value, str | bytes | bytearray):
        return [torch.tensor([*(value.encode() if isinstance(value, str) else value)], dtype=torch.double)]
    if isinstance(value, int) and value.bit_length() > 64:
        return [torch.ones(-(-value.bit_length() // 64), dtype=torch.double)]
    if isinstance(value, int | float):
        return [torch.tensor([value], dtype=torch.double)]
    if id(value) in seen:
        return []
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple | set) else ()
    parts = [*parts, *getattr(value, "__dict__", {}).values()]
    return [numbers for part in parts for numbers in _numbers_in(part, seen | {id(value)})]
