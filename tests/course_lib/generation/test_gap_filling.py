"""Filling gaps: one in each step, the surest first, and nothing else in the text changes."""

import torch

from course_lib.generation import fill_surest

B, T, N = 3, 7, 11
MASK = N - 1


def a_text(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, and texts with some gaps."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, MASK, (B, T), generator=generator)
    gaps = torch.rand(B, T, generator=generator) < 0.6
    return 3 * torch.randn(B, T, N, generator=generator), tokens.masked_fill(gaps, MASK)


def test_by_hand():
    """Of two gaps, one is sure of 0.6 for token 1, the other of 0.9 for token 0; the word between is never touched."""
    p = torch.tensor([[[0.4, 0.6, 0.0], [0.01, 0.99, 0.0], [0.9, 0.1, 0.0]]])
    once = fill_surest(p.log(), torch.tensor([[2, 0, 2]]), mask=2)
    assert once.tolist() == [[2, 0, 0]]
    assert fill_surest(p.log(), once, mask=2).tolist() == [[1, 0, 0]]


def test_the_same_as_a_loop_over_the_gaps():
    for seed in range(20):
        logits, tokens = a_text(seed)
        expected = tokens.clone()
        for b in range(B):
            best = (0.0, 0, MASK)
            for t in (tokens[b] == MASK).nonzero().flatten().tolist():
                p = logits[b, t, :MASK].softmax(-1)
                best = max(best, (p.max().item(), t, int(p.argmax())))
            if best[0] > 0:
                expected[b, best[1]] = best[2]
        assert torch.equal(fill_surest(logits, tokens, MASK), expected)


def test_after_as_many_steps_as_gaps_the_text_is_full_and_its_words_are_the_same():
    logits, tokens = a_text(0)
    text, left = tokens, (tokens == MASK).sum(1)
    while left.any():
        text = fill_surest(logits, text, MASK)
        left = (left - 1).clamp(min=0)
        assert torch.equal((text == MASK).sum(1), left)
    assert torch.equal(torch.where(tokens == MASK, MASK, text), tokens)
