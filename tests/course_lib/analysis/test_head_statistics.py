"""Head statistics: five numbers by hand and by a loop; padding does not count."""

import math

import pytest
import torch

from course_lib.analysis import head_statistics

B, H, T = 2, 3, 5
LENGTHS = torch.tensor([5, 3])
DELIMITERS = torch.tensor([[True, False, False, True, False], [True, False, True, False, False]])


def weights():
    real = torch.arange(T) < LENGTHS[:, None, None, None]
    drawn = torch.randn(B, H, T, T, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return drawn.masked_fill(~real, -torch.inf).softmax(-1)


def test_they_are_the_means_over_real_tokens_one_by_one():
    got, a = head_statistics(weights(), DELIMITERS, LENGTHS), weights().tolist()
    for h in range(H):
        before, itself, behind, separators, entropy = [], [], [], [], []
        for b, n in enumerate(LENGTHS.tolist()):
            for i in range(n):
                row = a[b][h][i]
                itself.append(row[i])
                separators.append(sum(row[j] for j in range(n) if DELIMITERS[b, j]))
                entropy.append(-sum(w * math.log(w) for w in row[:n]))
                if i > 0:
                    before.append(row[i - 1])
                if i < n - 1:
                    behind.append(row[i + 1])
        expected = [sum(x) / len(x) for x in (before, itself, behind, separators, entropy)]
        assert [x[h].item() for x in got] == pytest.approx(expected)


def test_heads_that_do_one_thing_by_hand():
    """The first attends to the previous token (the first token to itself), the second uniformly, the third to a delimiter."""
    a = torch.zeros(1, 3, 4, 4)
    a[0, 0, [0, 1, 2, 3], [0, 0, 1, 2]] = 1.0
    a[0, 1] = 0.25
    a[0, 2, :, 3] = 1.0
    got = head_statistics(a, torch.tensor([[False, False, False, True]]), torch.tensor([4]))
    assert got.previous.tolist() == [1.0, 0.25, 0.0]
    assert got.current.tolist() == [0.25, 0.25, 0.25]
    assert got.following.tolist() == pytest.approx([0.0, 0.25, 1 / 3])
    assert got.delimiters.tolist() == [0.0, 0.25, 1.0]
    torch.testing.assert_close(got.entropy, torch.tensor([0.0, math.log(4), 0.0]))


def test_rows_of_padding_do_not_count():
    other = weights()
    other[1, :, 3:] = torch.nan
    for ours, theirs in zip(
        head_statistics(other, DELIMITERS, LENGTHS), head_statistics(weights(), DELIMITERS, LENGTHS), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_the_token_before_of_sequences_of_one_token_is_not_a_number():
    got = head_statistics(torch.ones(2, 1, 1, 1), torch.ones(2, 1, dtype=torch.bool), torch.tensor([1, 1]))
    assert got.previous.isnan().all()
    assert got.following.isnan().all()
    assert got.current.tolist() == got.delimiters.tolist() == [1.0]


def test_the_entropy_lies_between_0_and_that_of_an_even_look():
    got = head_statistics(weights(), DELIMITERS, LENGTHS)
    assert ((got.entropy > 0) & (got.entropy < math.log(T))).all()


def test_gradients_against_differences():
    a = weights()[:1].requires_grad_()
    assert torch.autograd.gradcheck(lambda w: tuple(head_statistics(w, DELIMITERS[:1], LENGTHS[:1])), a)
