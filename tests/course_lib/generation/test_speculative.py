"""Speculative decoding writes by the model's law, whatever the draft, in fewer calls."""

import math
from functools import partial

import pytest
import torch

from course_lib.blocks import Sizes
from course_lib.generation import accept, next_word_probabilities, speculative
from course_lib.models import GPT

N = 200_000


def laws(seed, n_tokens=8):
    """Two different laws over some tokens (n_tokens,)."""
    torch.manual_seed(seed)
    return torch.randn(2, n_tokens).double().mul(1.5).softmax(-1)


def one_token(p, q, accepting=accept):
    """Draw N times a token by q, and judge it by p: which token comes first, and whether it was accepted."""
    tokens = torch.multinomial(q, N, replacement=True)[:, None]
    n, token = accepting(tokens, q.expand(N, 1, -1), p.expand(N, 2, -1), torch.rand(N, 2).double())
    return torch.where(n > 0, tokens[:, 0], token), n > 0


def chi_squared(tokens, p):
    return ((tokens.bincount(minlength=len(p)) - N * p).square() / (N * p)).sum().item()


@pytest.mark.parametrize("seed", range(5))
def test_the_first_token_has_the_law_of_the_model(seed):
    """With 7 degrees of freedom, 24.3 is exceeded once in a thousand."""
    p, q = laws(seed)
    tokens, accepted = one_token(p, q)
    assert chi_squared(tokens, p) < 24.3
    distance = (p - q).abs().sum() / 2
    assert accepted.double().mean().item() == pytest.approx(1 - distance.item(), abs=0.005)


def test_the_law_is_lost_if_a_refused_token_is_drawn_from_the_model_again():
    def from_p_again(tokens, draft_p, model_p, uniforms):
        n, _ = accept(tokens, draft_p, model_p, uniforms)
        return n, torch.multinomial(model_p[:, 0], 1)[:, 0]

    p, q = laws(0)
    assert chi_squared(one_token(p, q, from_p_again)[0], p) > 1000


def test_by_hand():
    """p = (.5, .5, 0), q = (.25, .25, .5): tokens 0 and 1 are always accepted, 2 never; then (.5, .5) decide."""
    p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.25, 0.5])
    for token, u, wanted in [(0, 0.99, (1, 0)), (1, 0.99, (1, 0)), (2, 0.0, (0, 0)), (2, 0.0, (0, 1))]:
        last = 0.7 if wanted[1] == 0 else 0.2
        found = accept(torch.tensor([token]), q[None], p.expand(2, -1), torch.tensor([u, last]))
        assert tuple(x.item() for x in found) == wanted


def test_tokens_after_a_refused_one_are_dropped():
    p, q = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
    found = accept(torch.tensor([0, 1, 0]), q.expand(3, -1), p.expand(4, -1), torch.full((4,), 0.5))
    assert tuple(found) == (1, 0)


@pytest.mark.parametrize("u", [0.0, 1 - 2**-24])
def test_rounding_never_draws_a_token_that_the_model_excludes(u):
    p = torch.tensor([0.0, 0.3, 0.7, 0.0])
    found = accept(torch.zeros(0, dtype=torch.long), p[None][:0], p[None], torch.tensor([u]))
    assert found.token == (1 if u else 2)


def table(n_tokens=3, seed=1):
    """A model whose next token depends on the last one, and a draft that has another table."""
    torch.manual_seed(seed)
    logits, other = torch.randn(2, n_tokens, n_tokens).double()
    return lambda tokens: logits[tokens], lambda tokens: other[tokens[0, -1]].softmax(-1)


@pytest.mark.parametrize("n_drafts", [0, 1, 3])
def test_a_text_has_the_law_of_the_model(n_drafts):
    model, draft = table()
    first = model(torch.tensor([[0]]))[0, -1].softmax(-1)
    wanted = (first[:, None] * model(torch.arange(3)[None])[0].softmax(-1)).flatten()
    n, counts = 3000, torch.zeros(9)
    for _ in range(n):
        a, b = speculative(model, draft, torch.tensor([[0]]), 2, n_drafts).tokens[0, 1:].tolist()
        counts[3 * a + b] += 1
    assert ((counts - n * wanted).square() / (n * wanted)).sum() < 26.1  # exceeded once in a thousand, 8 degrees of freedom


def test_a_draft_as_good_as_the_model_saves_all_calls_that_can_be_saved():
    model, _ = table()
    text, calls = speculative(model, lambda tokens: model(tokens)[0, -1].softmax(-1), torch.tensor([[2]]), 30, n_drafts=4)
    assert text.shape == (1, 31)
    assert calls == math.ceil(30 / 5)


def test_greedy_text_of_a_gpt_is_the_same_in_fewer_calls():
    torch.manual_seed(0)
    model = GPT(11, 40, Sizes(16, 2, 32, 1)).eval()
    sharp = partial(next_word_probabilities, temperature=1e-4)
    prompt = torch.tensor([[3, 1, 4]])
    plain, n = speculative(model, lambda tokens: torch.full((11,), 1 / 11), prompt, 20, 0, sharp)
    text, calls = speculative(model, lambda tokens: sharp(model(tokens)[0, -1]), prompt, 20, 4, sharp)
    assert text.tolist() == plain.tolist()
    assert (n, calls) == (20, 4)


def test_the_generator_decides():
    model, draft = table()
    texts = [
        speculative(model, draft, torch.tensor([[0]]), 20, generator=torch.Generator().manual_seed(s)).tokens.tolist()
        for s in (5, 5, 6)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_bad_arguments_are_refused():
    model, draft = table()
    with pytest.raises(ValueError, match="got 2 prompts"):
        speculative(model, draft, torch.zeros(2, 1, dtype=torch.long), 2)
    with pytest.raises(ValueError, match="cannot be negative"):
        speculative(model, draft, torch.zeros(1, 1, dtype=torch.long), -2)
    with pytest.raises(ValueError, match="probability 0 under draft_p"):
        accept(torch.tensor([1]), torch.tensor([[1.0, 0]]), torch.full((2, 2), 0.5), torch.rand(2))
    with pytest.raises(ValueError, match="one position more: got 1 and 2"):
        accept(torch.tensor([0]), torch.tensor([[1.0, 0]]), torch.full((1, 2), 0.5), torch.rand(2))


def test_hugging_face_accepts_as_many_tokens_of_the_same_uniforms():
    """Its function draws its own: the same ones after the same seed. What follows a refusal is owed something in both."""
    reason = "transformers is not installed: pip install -e '.[peers]'"
    utils = pytest.importorskip("transformers.generation.utils", reason=reason)
    torch.manual_seed(0)
    seen = set()
    for seed in range(200):
        logits, other = 1.5 * torch.randn(1, 5, 7), 1.5 * torch.randn(1, 4, 7)
        p, q = logits.softmax(-1)[0], other.softmax(-1)[0]
        tokens = torch.multinomial(q, 1)[:, 0]
        torch.manual_seed(seed)
        valid, n = utils._speculative_sampling(tokens[None], other, 4, logits)
        torch.manual_seed(seed)
        uniforms = torch.cat([torch.rand(4), torch.rand(1)])
        ours = accept(tokens, q, p, uniforms)
        assert ours.n == n
        assert valid[0, :-1].tolist() == tokens[:n].tolist()
        for token in (ours.token, valid[0, -1]):
            assert n == 4 or p[n, token] > q[n, token]
        seen.add(int(n))
    assert seen == {0, 1, 2, 3, 4}
