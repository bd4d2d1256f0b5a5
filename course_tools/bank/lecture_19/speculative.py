"""Build task 19.4, speculative: what students answer, wrong and right.

A generator is judged by its law, by tests over the pairs of a long text whose law is known, and by the calls of the model,
which are counted from the operations that they take: not by seconds, and not by what it says of itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from course_lib.generation import accept, greedy_probabilities, next_word_probabilities, speculative
from course_lib.generation.known_language import (
    OPERATIONS_OF_A_CALL,
    certain_draft,
    known_draft,
    known_law,
    known_model,
    mistaken_draft,
    uniform_draft,
)
from course_lib.generation.speculative import Speculated
from course_tools.checks.comparisons import AtMost, Failure, runs
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, leaves_inputs, runs_on
from course_tools.checks.outcome import Outcome, is_close

wrong, right, stranger = Answers(), Answers(), Answers()

LONG, COUNTED, N_DRAFTS, PROMPT = 1_000, 120, 4, 3
MOST_AGREED = 27
"""24 calls add five tokens each; without the token that follows after a whole draft, 30 are needed."""
MOST_CHI_SQUARED = {30: 75.0, 5: 32.0, 1: 20.0}
"""By the degrees of freedom: a right generator exceeds each of them in one of 100,000 texts."""

HINTS = (
    (
        "One round: the draft proposes up to n_drafts tokens, each after the ones before it; one call of the model reads the "
        "text with all of them; `accept` says how many stay, and which token follows. How many tokens does a round add, at "
        "least and at most?"
    ),
    (
        "Keep the draft's probabilities of each proposed token: they are q. Of the model's logits, `accept` needs the rows "
        "from the last token of the text on, one more than there are drafts: the logits at a place are for the token after "
        "it. Near the end, propose no more than there is room for, minus one."
    ),
    (
        "With T tokens in the text, the logits at T - 1 are for the first draft. `accept` gets the drafted tokens "
        "alone, their q, these rows as probabilities, and as many uniform numbers as rows, from `generator`. The new "
        "text is the drafted one up to the n that stay, and the token. Where nothing is proposed, q has no rows: make "
        "it of the kind of p."
    ),
)


def _propose(draft, text, n, generator=None):
    """n drafted tokens, and the laws that they were drawn from."""
    laws = []
    for _ in range(n):
        laws.append(draft(text))
        text = torch.cat([text, torch.multinomial(laws[-1], 1, generator=generator)[None]], -1)
    return text, laws


def _write(
    model,
    draft,
    prompt,
    n_tokens,
    n_drafts=4,
    probabilities=next_word_probabilities,
    generator=None,
    judge=accept,
    propose=_propose,
    shift=1,
    room=1,
):
    """The loop, with a part exchanged."""
    text, end, calls = prompt, prompt.shape[-1] + n_tokens, 0
    while text.shape[-1] < end:
        T = text.shape[-1]
        drafted, laws = propose(draft, text, max(min(n_drafts, end - T - room), 0), generator)
        p = probabilities(model(drafted)[0])[T - shift :][: len(laws) + 1]
        n, token = judge(drafted[0, T:], torch.stack(laws) if laws else p[:0], p, torch.rand(len(p), generator=generator))
        text = torch.cat([drafted[:, : T + int(n)], token.view(1, 1)], -1)
        calls += 1
    return Speculated(text, calls)


@wrong.idea
def asks_for_every_token(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """You call the model for every token. The text is right, and nothing is saved: let one call judge all the tokens that the
    draft proposed."""
    text = prompt
    for _ in range(n_tokens):
        text = torch.cat([text, torch.multinomial(probabilities(model(text)[0, -1]), 1, generator=generator)[None]], -1)
    return Speculated(text, n_tokens)


@wrong.idea
def believes_the_draft(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """You keep every drafted token, or judge it by the draft's own probabilities: p are the model's, q the draft's. The calls
    are few, but the text has not the law of the model."""

    def judge(tokens, q, p, u):
        return torch.tensor(len(tokens)), torch.multinomial(p[-1], 1)

    return _write(model, draft, prompt, n_tokens, n_drafts, probabilities, generator, judge)


@wrong.idea
def judges_each_draft_by_a_call(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    """You call the model once for each drafted token. One call on the whole text has the logits at all places: read the last
    n_drafts + 1 of them."""
    text, end, calls = prompt, prompt.shape[-1] + n_tokens, 0
    while text.shape[-1] < end:
        T = text.shape[-1]
        drafted, laws = _propose(draft, text, min(n_drafts, end - T - 1), generator)
        p = torch.stack([probabilities(model(drafted[:, : T + i])[0, -1]) for i in range(len(laws) + 1)])
        n, token = accept(drafted[0, T:], torch.stack(laws) if laws else p[:0], p, torch.rand(len(p), generator=generator))
        text, calls = torch.cat([drafted[:, : T + int(n)], token.view(1, 1)], -1), calls + len(p)
    return Speculated(text, calls)


@wrong.part
def draws_from_the_model_again(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    """After a refusal you draw from p. What is owed then is (p - q)₊: use `accept`, or draw from that."""

    def judge(tokens, q, p, u):
        n, _ = accept(tokens, q, p, u)
        return n, torch.multinomial(p[int(n)], 1)

    return _write(model, draft, prompt, n_tokens, n_drafts, probabilities, generator, judge)


@wrong.part
def keeps_refused_tokens(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """You append the new token after *all* drafted tokens, also after the refused ones. Keep the first n, and drop the
    rest."""
    text, end, calls = prompt, prompt.shape[-1] + n_tokens, 0
    while text.shape[-1] < end:
        T = text.shape[-1]
        drafted, laws = _propose(draft, text, min(n_drafts, end - T - 1), generator)
        p = probabilities(model(drafted)[0, T - 1 :])
        _, token = accept(drafted[0, T:], torch.stack(laws) if laws else p[:0], p, torch.rand(len(p), generator=generator))
        text, calls = torch.cat([drafted, token.view(1, 1)], -1), calls + 1
    return Speculated(text, calls)


@wrong.part
def never_uses_the_probabilities(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    """You take the softmax of the logits whatever `probabilities` is. Temperature and top-p change the law of the text: call
    `probabilities(logits)`."""
    return speculative(model, draft, prompt, n_tokens, n_drafts, partial(torch.softmax, dim=-1), generator)


@wrong.detail
def reads_the_rows_after(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """You judge each token by the logits at its own place, which are for the token after it. The row of the token at place T
    is T - 1."""

    def judge(tokens, q, p, u):
        p = torch.cat([p, p[-1:]])[: len(tokens) + 1]
        return accept(tokens, q, p, torch.rand(len(p)))

    def shifted(logits):
        return probabilities(logits).roll(-1, -2)

    return _write(model, draft, prompt, n_tokens, n_drafts, shifted, generator, judge)


@wrong.detail
def draws_with_another_law(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """You draw the drafted tokens from the draft's probabilities, but hand `accept` other ones: those after the token, not
    those that it was drawn from."""

    def propose(draft, text, n, generator):
        drafted, laws = _propose(draft, text, n, generator)
        return drafted, [draft(drafted[:, : text.shape[-1] + i + 1]) for i in range(len(laws))]

    return _write(model, draft, prompt, n_tokens, n_drafts, probabilities, generator, propose=propose)


@wrong.part
def drops_the_token_that_follows(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    """Where drafted tokens were accepted, you drop the token that `accept` returns. It is owed after a refusal: in the next
    round that place is drawn from p again, and what the draft likes comes too often. Append it in every round."""
    text, end, calls = prompt, prompt.shape[-1] + n_tokens, 0
    while text.shape[-1] < end:
        T = text.shape[-1]
        drafted, laws = _propose(draft, text, min(n_drafts, end - T - 1), generator)
        p = probabilities(model(drafted)[0, T - 1 :])
        n, token = accept(drafted[0, T:], torch.stack(laws) if laws else p[:0], p, torch.rand(len(p), generator=generator))
        text, calls = drafted[:, : T + int(n)] if n else torch.cat([text, token.view(1, 1)], -1), calls + 1
    return Speculated(text, calls)


@wrong.detail
def goes_without_the_free_token(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    """Where all drafted tokens are accepted, you add no further one. The call that judged them has given the law of the next
    token, too: append what `accept` returns in every round."""
    text, end, calls = prompt, prompt.shape[-1] + n_tokens, 0
    while text.shape[-1] < end:
        T = text.shape[-1]
        drafted, laws = _propose(draft, text, min(n_drafts, end - T - 1), generator)
        p = probabilities(model(drafted)[0, T - 1 :])
        n, token = accept(drafted[0, T:], torch.stack(laws) if laws else p[:0], p, torch.rand(len(p), generator=generator))
        whole = laws and n == len(laws)
        text, calls = drafted if whole else torch.cat([drafted[:, : T + int(n)], token.view(1, 1)], -1), calls + 1
    return Speculated(text, calls)


@wrong.detail
def begins_at_its_own_row(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """Your rows of the model begin at T, the place of the first drafted token. The logits at a place are for the token after
    it, so they begin at T - 1: one row more than there are drafts."""

    def judge(tokens, q, p, u):
        return (u[: len(tokens)] * q[:, 0] < p[: len(tokens), 0]).sum(), (p - torch.nn.functional.pad(q, (0, 0, 0, 1)))[0]

    return _write(model, draft, prompt, n_tokens, n_drafts, probabilities, generator, judge, shift=0)


@wrong.detail
def writes_too_much(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """Your text may become longer than asked for: the last round proposes n_drafts tokens, and a further one follows. Propose
    at most what is missing, less one."""
    return _write(model, draft, prompt, n_tokens, n_drafts, probabilities, generator, room=-n_drafts)


@wrong.detail
def proposes_one_token_only(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """You propose one token a round whatever n_drafts is. A call then yields two tokens at most, and less than that as soon as
    one is refused: half as many calls is out of reach."""
    return speculative(model, draft, prompt, n_tokens, min(n_drafts, 1), probabilities, generator)


@wrong.case
def asks_the_draft_about_the_old_text(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    """All your drafted tokens of a round come from one law, that of the token after the text, so only the first is a good
    guess. Hand the draft the text with the tokens that it has proposed."""

    def propose(draft, text, n, generator):
        drafted, laws = text, [draft(text)] * n
        for law in laws:
            drafted = torch.cat([drafted, torch.multinomial(law, 1, generator=generator)[None]], -1)
        return drafted, laws

    return _write(model, draft, prompt, n_tokens, n_drafts, probabilities, generator, propose=propose)


@wrong.case
def counts_the_drafts(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """Your text is right, but the number that you return is not that of the calls of the model. One round is one call, however
    many tokens it judges."""
    text, calls = speculative(model, draft, prompt, n_tokens, n_drafts, probabilities, generator)
    return Speculated(text, calls * (n_drafts + 1))


@wrong.case
def returns_the_new_tokens(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """You return the new tokens without the prompt. The text begins with it."""
    text, calls = speculative(model, draft, prompt, n_tokens, n_drafts, probabilities, generator)
    return Speculated(text[:, prompt.shape[-1] :], calls)


@wrong.case
def needs_a_draft(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """Where no token is proposed, because n_drafts is 0 or one token is missing, there is nothing to stack. Then q has no
    rows, `p[:0]`, and the round is ordinary sampling."""
    text, end, calls = prompt, prompt.shape[-1] + n_tokens, 0
    while text.shape[-1] < end:
        T = text.shape[-1]
        drafted, laws = _propose(draft, text, min(n_drafts, end - T - 1), generator)
        p = probabilities(model(drafted)[0, T - 1 :])
        n, token = accept(drafted[0, T:], torch.stack(laws), p, torch.rand(len(p), generator=generator))
        text, calls = torch.cat([drafted[:, : T + int(n)], token.view(1, 1)], -1), calls + 1
    return Speculated(text, calls)


@wrong.case
def counts_every_call(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """Your text is right, but your number counts the calls of the draft, too. The calls of the large model are asked for: one a
    round."""
    drafts = 0

    def propose(draft, text, n, generator):
        nonlocal drafts
        drafts += n
        return _propose(draft, text, n, generator)

    text, calls = _write(model, draft, prompt, n_tokens, n_drafts, probabilities, generator, propose=propose)
    return Speculated(text, calls + drafts)


@wrong.part
def takes_the_most_likely_drafts(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    """You propose the draft's most likely token, but hand `accept` the probabilities of all. What it accepts must have
    been drawn from them: use `torch.multinomial`."""

    def propose(draft, text, n, generator):
        laws = []
        for _ in range(n):
            laws.append(draft(text))
            text = torch.cat([text, laws[-1].argmax()[None, None]], -1)
        return text, laws

    return _write(model, draft, prompt, n_tokens, n_drafts, probabilities, generator, propose=propose)


@wrong.detail
def hands_over_a_row_too_few(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """You hand `accept` as many rows of the model as there are drafts. It needs one more: the row before each draft, which
    judges it, and the last row, from which a token follows if all are accepted. With T tokens in the text they begin at
    T - 1."""
    text, end, calls = prompt, prompt.shape[-1] + n_tokens, 0
    while text.shape[-1] < end:
        T = text.shape[-1]
        drafted, laws = _propose(draft, text, min(n_drafts, end - T - 1), generator)
        p = probabilities(model(drafted)[0])[T:]
        n, token = accept(drafted[0, T:], torch.stack(laws) if laws else p[:0], p, torch.rand(len(p), generator=generator))
        text, calls = torch.cat([drafted[:, : T + int(n)], token.view(1, 1)], -1), calls + 1
    return Speculated(text, calls)


@wrong.detail
def proposes_all_that_is_missing(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    """Your text may become one token too long: you propose all that is missing, and one more token follows. Propose at most
    what is missing, less one."""
    return _write(model, draft, prompt, n_tokens, n_drafts, probabilities, generator, room=0)


@wrong.part
def keeps_the_refused_token(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """You keep the first token that was refused, before the one that replaces it. n tokens were accepted: the text goes on with
    T + n of the drafted one, and then the new token."""
    text, end, calls = prompt, prompt.shape[-1] + n_tokens, 0
    while text.shape[-1] < end:
        T = text.shape[-1]
        drafted, laws = _propose(draft, text, min(n_drafts, end - T - 1), generator)
        p = probabilities(model(drafted)[0])[T - 1 :]
        n, token = accept(drafted[0, T:], torch.stack(laws) if laws else p[:0], p, torch.rand(len(p), generator=generator))
        text, calls = torch.cat([drafted[:, : T + int(n) + 1], token.view(1, 1)], -1), calls + 1
    return Speculated(text, calls)


@wrong.detail
def reads_the_rows_before(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """You judge each token by the row of the token before: yours begin one row too early. With T tokens in the text, the row
    T - 1 is for the first draft."""
    return _write(model, draft, prompt, n_tokens, n_drafts, probabilities, generator, shift=2)


@right
def token_by_token(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """Plain Python: a list of tokens, and the rule of acceptance written out."""
    text, calls = prompt[0].tolist(), 0
    while (missing := len(prompt[0]) + n_tokens - len(text)) > 0:
        guesses, laws = [], []
        for _ in range(min(n_drafts, missing - 1)):
            laws.append(draft(torch.tensor([text + guesses])))
            guesses.append(torch.multinomial(laws[-1], 1, generator=generator).item())
        p = probabilities(model(torch.tensor([text + guesses])))[0, len(text) - 1 :]
        calls += 1
        for i, guess in enumerate(guesses):
            if torch.rand(1, generator=generator).item() < p[i, guess] / laws[i][guess]:
                text.append(guess)
                continue
            left = (p[i] - laws[i]).clamp(min=0)
            text.append(torch.multinomial(left, 1, generator=generator).item())
            break
        else:
            text.append(torch.multinomial(p[-1], 1, generator=generator).item())
    return torch.tensor([text]), calls


@right
def with_a_guess_too_many(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    """Always proposes n_drafts tokens, and cuts the text at the end: what is cut off changes nothing before it."""
    text, calls = prompt, 0
    while text.shape[1] < prompt.shape[1] + n_tokens:
        T = text.shape[1]
        drafted, laws = _propose(draft, text, n_drafts, generator)
        p = probabilities(model(drafted))[0, T - 1 :]
        q = torch.stack(laws) if n_drafts else torch.empty(0, p.shape[-1])
        n, token = accept(drafted[0, T:], q, p, torch.rand(n_drafts + 1, generator=generator))
        text, calls = torch.cat([drafted[:, : T + n.item()], token[None, None]], 1), calls + 1
    return Speculated(text[:, : prompt.shape[1] + n_tokens], calls)


@right
def with_fewer_guesses_after_a_refusal(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    """Adapts the number of guesses: one less after a refusal, one more after a success, at most n_drafts."""
    text, calls, guesses = prompt.clone(), 0, n_drafts
    while (missing := prompt.shape[-1] + n_tokens - text.shape[-1]) > 0:
        T = text.shape[-1]
        drafted, laws = _propose(draft, text, min(guesses, missing - 1), generator)
        p = probabilities(model(drafted)[0, T - 1 :])
        n, token = accept(drafted[0, T:], torch.stack(laws) if laws else p[:0], p, torch.rand(len(p), generator=generator))
        guesses = min(guesses + 1, n_drafts) if n == len(laws) else max(guesses - 1, min(2, n_drafts))
        text = torch.cat([drafted[:, : T + int(n)], token.reshape(1, 1)], -1)
        calls += 1
    return text, calls


@stranger
def generator_that_sharpens(model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None):
    return speculative(
        lambda x: 1.5 * model(x),
        lambda x: draft(x).pow(1.5) / draft(x).pow(1.5).sum(),
        prompt,
        n_tokens,
        n_drafts,
        probabilities,
    )


@stranger
def generator_with_sharpened_drafts(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    def propose(draft, text, n, generator):
        laws = []
        for _ in range(n):
            laws.append(draft(text))
            text = torch.cat([text, torch.multinomial(laws[-1].square(), 1, generator=generator)[None]], -1)
        return text, laws

    return _write(model, draft, prompt, n_tokens, n_drafts, probabilities, generator, propose=propose)


@stranger
def generator_that_mixes_the_laws(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    def mixed(text):
        q = torch.stack([draft(text[:, : i + 1]) for i in range(text.shape[1])])
        return (0.7 * probabilities(model(text)[0]) + 0.3 * q).log()[None]

    return speculative(mixed, draft, prompt, n_tokens, n_drafts)


@stranger
def generator_that_calls_twice(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    return speculative(lambda x: (model(x) + model(x)) / 2, draft, prompt, n_tokens, n_drafts, probabilities)


@stranger(makes=[believes_the_draft])
def generator_without_a_judge(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    text, calls = prompt, 0
    while text.shape[-1] < prompt.shape[-1] + n_tokens:
        T = text.shape[-1]
        for _ in range(min(n_drafts, prompt.shape[-1] + n_tokens - T - 1)):
            text = torch.cat([text, torch.multinomial(draft(text), 1).unsqueeze(0)], 1)
        p = probabilities(model(text)[0, T - 1 :])
        torch.rand(len(p))
        text, calls = torch.cat([text, torch.multinomial(p[-1], 1).unsqueeze(0)], 1), calls + 1
    return text, calls


@stranger(makes=[believes_the_draft, counts_the_drafts])
def generator_without_a_judge_that_counts_drafts(
    model, draft, prompt, n_tokens, n_drafts=4, probabilities=next_word_probabilities, generator=None
):
    text, calls = believes_the_draft(model, draft, prompt, n_tokens, n_drafts, probabilities, generator)
    return Speculated(text, calls * (n_drafts + 1))


def _prompt(draw: Draw, n: int | None = None) -> torch.Tensor:
    return draw.integers(0, 6, 1, draw.sizes(1)[0] if n is None else n)


def _texts(draw: Draw, n_tokens: int, n_drafts: int = N_DRAFTS, draft: Callable = mistaken_draft) -> Call:
    """Nothing is left to chance: all who decide alike write the same, whatever numbers they draw."""
    return known_model, draft, _prompt(draw, PROMPT), n_tokens, n_drafts, greedy_probabilities


def _long_texts(draw: Draw) -> list[Call]:
    """With a draft that is often right, one that knows nothing, so that much is refused, and one that proposes one token only,
    so that what is drawn after a refusal tells most."""
    return [
        (known_model, known_draft, _prompt(draw)[:, :1], 2 * LONG // 3, N_DRAFTS),
        (known_model, uniform_draft, torch.cat([_prompt(draw), _prompt(draw)], -1), LONG, 2),
        (known_model, certain_draft, _prompt(draw), LONG + 1, N_DRAFTS),
    ]


def chi_squared(text: torch.Tensor) -> dict[int, float]:
    """χ² of a text (T,) under the law of `known_model`, by its degrees of freedom.

    30: of the pairs of tokens. 5: of the step from each token to the next, modulo 6, since the law depends on it alone. 1: of
    the mean logarithm of the probabilities, on which a text that is too likely, or not likely enough, shows first.
    """
    law = known_law()
    pairs = torch.zeros(6, 6).index_put((text[:-1], text[1:]), torch.tensor(1.0), accumulate=True)
    wanted = pairs.sum(1, keepdim=True) * law
    step = (torch.arange(6) - torch.arange(6)[:, None]) % 6
    steps, wanted_steps = (torch.zeros(6).index_add(0, step.flatten(), x.flatten()) for x in (pairs, wanted))
    surprise = law[0].log()
    mean = (law[0] * surprise).sum()
    variance = (law[0] * (surprise - mean).square()).sum()
    n = len(text) - 1
    return {
        30: float(((pairs - wanted).square() / wanted.clamp(min=1e-9)).sum()),
        5: float(((steps - wanted_steps).square() / wanted_steps).sum()),
        1: float((pairs * law.log()).sum().sub(n * mean).square() / (n * variance)),
    }


def is_text(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that the results are a text with tokens as the prompt has, however long it is, and a number."""
    if (failure := runs(expected, got)) is not None:
        return failure
    if len(got.results) != 2:
        return Failure(f"It should return a text and the number of calls: 2 results, not {len(got.results)}.")
    text, calls = got.results
    if not isinstance(text, torch.Tensor) or text.is_floating_point() or text.dim() != 2 or len(text) != 1:
        return Failure("The text should be a tensor of integers, (1, T).")
    if type(calls) is not int:
        return Failure(f"The number of calls should be of type int, but it is of type {type(calls).__name__}.")
    return None


def begins_with_the_prompt(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that the results are a text that begins with the prompt of `_texts`, and a number."""
    if (failure := is_text(expected, got)) is not None:
        return failure
    prompt = slice(0, PROMPT)
    return (
        None
        if is_close(expected.results[0][:, prompt], got.results[0][:, prompt])
        else Failure("The text does not begin with the prompt.")
    )


def right_length(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that exactly so many tokens are added as are asked for."""
    if (failure := is_text(expected, got)) is not None:
        return failure
    more = got.results[0].shape[1] - expected.results[0].shape[1]
    if not more:
        return None
    return Failure(f"The text is {abs(more)} token{'s' * (abs(more) > 1)} too {'long' if more > 0 else 'short'}.", stops=False)


def right_beginning(expected: Outcome, got: Outcome) -> Failure | None:
    """Check the tokens that are asked for, and none that follow."""
    if (failure := is_text(expected, got)) is not None:
        return failure
    wanted, text = expected.results[0], got.results[0]
    here = text[:, : wanted.shape[1]]
    if is_close(wanted, here):
        return None
    n = min(wanted.shape[1], here.shape[1])
    apart = (wanted[0, :n] != here[0, :n]).nonzero()
    if not len(apart):
        return Failure(f"The text ends after {n} of {wanted.shape[1]} tokens.")
    at = int(apart[0])
    return Failure("The text is wrong.", f"At place {at}: expected {int(wanted[0, at])}, got {int(here[0, at])}.")


def right_law(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that a long text has the law of the model."""
    if (failure := is_text(expected, got)) is not None:
        return failure
    text = got.results[0][0]
    if len(text) < expected.results[0].shape[1]:
        return Failure(f"The text has {len(text):,} tokens, and should have {expected.results[0].shape[1]:,}.")
    if not 0 <= int(text.min()) <= int(text.max()) < 6:
        return Failure("The text contains tokens that do not exist.")
    what = {30: "what follows what does", 5: "the steps from token to token do", 1: "the probabilities of the tokens do"}
    for freedom, found in chi_squared(text).items():
        if found > MOST_CHI_SQUARED[freedom]:
            return Failure(
                f"In {len(text):,} tokens, {what[freedom]} not have the law of the model: χ² is {found:.0f} with {freedom} "
                f"degrees of freedom, and at most {MOST_CHI_SQUARED[freedom]:.0f} by chance."
            )
    return None


@dataclass(frozen=True)
class FewCalls(AtMost):
    """Check that the model was called at most `times` times, as counted from the operations."""

    def __call__(self, expected: Outcome, got: Outcome) -> Failure | None:
        """Count the calls."""
        if (failure := is_text(expected, got)) is not None:
            return failure
        if (calls := _calls(got)) <= self.times:
            return None
        return Failure(f"It called the model {calls} times for {COUNTED} tokens; at most {self.times} are allowed.")


class SaysItsCalls(AtMost):
    """Check what the answer says of its calls against those that are counted."""

    def __call__(self, expected: Outcome, got: Outcome) -> Failure | None:
        """Compare the two numbers."""
        if (failure := is_text(expected, got)) is not None:
            return failure
        calls, said = _calls(got), got.results[1]
        return (
            None if calls == said else Failure(f"It says that it called the model {said} times, but it did so {calls} times.")
        )


def says_its_rounds(expected: Outcome, got: Outcome) -> Failure | None:
    """Check what the answer says of its calls where each adds one token, and those are not counted."""
    if (failure := is_text(expected, got)) is not None:
        return failure
    said, calls = got.results[1], expected.results[1]
    return None if said == calls else Failure("The number of calls is wrong.", f"Expected {calls}, got {said}.")


def _calls(got: Outcome) -> int:
    return round(got.cost.operations / OPERATIONS_OF_A_CALL)


exercise = Exercise(
    id="19.4",
    extra=True,
    title="A generator in half the calls",
    reference=speculative,
    properties=(
        runs_on(lambda draw: [_texts(draw, 12)]),
        Property(
            "shape",
            "The text with its prompt, (1, T), and a number.",
            lambda draw: [_texts(draw, 12), _texts(draw, 7, 3)],
            begins_with_the_prompt,
            needs=("runs",),
        ),
        Property(
            "length",
            "Exactly so many tokens are added as are asked for; 0 add none.",
            lambda draw: [_texts(draw, n) for n in (0, 1, 2, 12)],
            right_length,
        ),
        Property(
            "greedy",
            "With `greedy_probabilities` it writes the most likely token at each step, whatever the draft proposes.",
            lambda draw: [_texts(draw, 20), _texts(draw, 20, 2), _texts(draw, 20, draft=certain_draft)],
            right_beginning,
            points=2,
        ),
        Property(
            "no drafts",
            "With n_drafts = 0 each token takes a call.",
            lambda draw: [_texts(draw, 5, 0)],
            says_its_rounds,
        ),
        Property(
            "agreed",
            f"Where all that the draft proposes is accepted, {COUNTED} tokens take at most {MOST_AGREED} calls.",
            lambda draw: [_texts(draw, COUNTED, draft=certain_draft)],
            FewCalls(MOST_AGREED),
        ),
        Property(
            "number",
            "It says how many calls it made.",
            lambda draw: [_texts(draw, 20)],
            SaysItsCalls(1.0),
        ),
        Property("law", "A long text has the law of the model.", _long_texts, right_law, points=4, long=True, drawn=True),
        Property(
            "calls",
            f"{COUNTED} tokens take at most {COUNTED // 2} calls of the model.",
            lambda draw: [(known_model, known_draft, draw.integers(0, 6, 1, COUNTED // 2), COUNTED, N_DRAFTS)],
            FewCalls(COUNTED // 2),
            long=True,
            drawn=True,
        ),
        leaves_inputs(lambda draw: [_texts(draw, 12)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "There is one text, with two axes: -1 is 1, and the last text the first.": (
            "drop sign: text.shape[1]",
            "drop sign: text.shape[1] (2)",
            "drop sign: text.shape[1] (3)",
            "drop sign: text.shape[1] (4)",
            "drop sign: text.shape[1] (5)",
            "drop sign: prompt.shape[1]",
            "drop sign: torch.cat([drafted, token[None]], dim=1)",
            "drop sign: torch.cat([drafted[:, :text.shape[-1] + int(n)], token.view(1, 1)], dim=1)",
            "constant: model(drafted)[-1, text.shape[-1] - 1:]",
            "constant: drafted[-1, text.shape[-1]:]",
        ),
        "Only the shape is read.": (
            "negate: (~prompt).shape",
            "negate: (~text).shape",
            "negate: (~text).shape (2)",
            "negate: (~text).shape (3)",
            "negate: (~text).shape (4)",
            "negate: (~text).shape (5)",
            "other name: drafted.shape (3)",
        ),
        "A minimum is commutative, and a tensor of one integer an index.": (
            "swap arguments: range(min(end - text.shape[-1] - 1, n_drafts))",
            "drop call: text.shape[-1] + n",
        ),
        "The laws of model and draft are float32, and on one device.": (
            "drop keyword: uniforms = torch.rand(len(model_p), generator=generator, dtype=model_p.dtype)",
            "drop keyword: uniforms = torch.rand(len(model_p), generator=generator, device=model_p.device)",
            "other name: drafted.device",
            "other name: text.device",
            "other name: prompt.device",
            "drop call: [law for law in laws]",
            "drop argument: [law.to() for law in laws]",
            "other name: law.to(law)",
            "other name: law.to(uniforms)",
            "other name: law.to(generator)",
        ),
        "Where nothing is proposed, (p - p)₊ is 0, and `accept` draws from p.": (
            "drop index: torch.stack([law.to(model_p) for law in laws]) if laws else model_p",
            "open slice: model_p[:]",
            "swap slice: model_p[0:]",
            "constant: model_p[:1]",
            "constant: model_p[:-1]",
        ),
        "The last round may propose a token less.": ("constant: end - text.shape[-1] - 2",),
    },
    missed_mutants={
        "Whether all that is drawn comes from `generator` is not judged.": (
            "drop keyword: uniforms = torch.rand(len(model_p), device=model_p.device, dtype=model_p.dtype)",
            "drop keyword: token = torch.multinomial(laws[-1], 1)",
        ),
    },
    hints=HINTS,
)
