"""The teacher-forced loss: each next token that is real counts once, and nothing else counts."""

import math

import pytest
import torch

from course_lib.losses import label_smoothed_loss, next_token_loss, teacher_forced_loss

B, T, n_tokens = 3, 5, 11
PADDING = 0


def target():
    """Sentences of 5, 3 and 1 real tokens."""
    return torch.tensor([[1, 4, 10, 7, 2], [1, 9, 2, 0, 0], [1, 0, 0, 0, 0]])


def by_loop(logits, target, padding):
    """-log p of each next token, one position at a time."""
    losses = []
    for b in range(len(target)):
        for t in range(target.shape[1] - 1):
            token = target[b, t + 1]
            if token != padding:
                losses.append(logits[b, t].exp().sum().log() - logits[b, t, token])
    return sum(losses) / len(losses)


def test_the_loss_by_hand():
    """p = ½ for the first token and ¼ for the second: (ln 2 + ln 4) / 2 = 1½ ln 2; the last position does not count."""
    probabilities = torch.tensor([[[0.25, 0.25, 0.5], [0.5, 0.25, 0.25], [0.98, 0.01, 0.01]]])
    loss = teacher_forced_loss(probabilities.log(), torch.tensor([[1, 2, 1]]), padding=0)
    torch.testing.assert_close(loss.item(), 1.5 * math.log(2))


def test_smoothed_labels_are_those_of_their_definition():
    logits, epsilon = torch.randn(B, T, n_tokens, generator=torch.Generator().manual_seed(0)), 0.3
    wanted = torch.nn.functional.one_hot(target()[:, 1:], n_tokens) * (1 - epsilon) + epsilon / n_tokens
    each = -(wanted * logits[:, :-1].log_softmax(-1)).sum(-1)
    expected = each[target()[:, 1:] != PADDING].mean()
    torch.testing.assert_close(label_smoothed_loss(logits, target(), PADDING, epsilon), expected)
    torch.testing.assert_close(
        label_smoothed_loss(logits, target(), PADDING, 0.0), teacher_forced_loss(logits, target(), PADDING)
    )


@pytest.mark.parametrize("smoothing", [-0.5, 1.0, 1.5, math.nan])
def test_a_share_that_is_none_is_refused(smoothing):
    with pytest.raises(ValueError, match=f"from 0 to below 1, got {smoothing}"):
        label_smoothed_loss(torch.zeros(B, T, n_tokens), target(), PADDING, smoothing)


def test_it_averages_over_tokens_and_not_over_sentences():
    """Two tokens at ½ in one sentence, one at ¼ in another: (2 ln 2 + ln 4) / 3 = 4/3 ln 2."""
    half, quarter, free = [0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [1 / 3] * 3
    probabilities = torch.tensor([[half, half, free], [quarter, free, free]])
    loss = teacher_forced_loss(probabilities.log(), torch.tensor([[2, 1, 1], [2, 1, 0]]), padding=0)
    torch.testing.assert_close(loss.item(), 4 / 3 * math.log(2))


@pytest.mark.parametrize("padding", [0, 7])
def test_it_is_the_mean_of_minus_log_p_one_position_at_a_time(normal, agree, padding):
    agree(
        lambda logits: teacher_forced_loss(logits, target(), padding),
        lambda logits: by_loop(logits, target(), padding),
        normal(B, T, n_tokens, scale=3),
    )


def test_only_the_logits_before_a_real_next_token_count(normal):
    """No gradient reaches the last logits, nor those whose target would be padding; the first token is never a target."""
    logits = normal(B, T, n_tokens)
    teacher_forced_loss(logits, target(), PADDING).backward()
    for b, length in enumerate([5, 3, 1]):
        assert logits.grad[b, : length - 1].all()
        assert not logits.grad[b, length - 1 :].any()


def test_the_logits_at_a_token_speak_about_the_next(normal):
    """Raising the logit of token t+1 at t lowers the loss; raising that of token t does not."""
    logits = normal(B, T, n_tokens)
    teacher_forced_loss(logits, target(), PADDING).backward()
    assert (logits.grad[0, torch.arange(4), target()[0, 1:]] < 0).all()
    assert (logits.grad[0, torch.arange(4), target()[0, :-1]] > 0).all()


def test_logits_that_know_nothing_cost_the_logarithm_of_the_vocabulary():
    loss = teacher_forced_loss(torch.full((B, T, n_tokens), 7.0), target(), PADDING)
    assert loss.item() == pytest.approx(math.log(n_tokens))


def test_logits_that_know_everything_cost_nothing():
    known = torch.nn.functional.one_hot(target().roll(-1, dims=1), n_tokens) * 1e4
    assert teacher_forced_loss(known.float(), target(), PADDING).item() == 0


def test_adding_one_number_to_the_logits_of_a_position_changes_nothing(normal, agree):
    shift = normal(B, T, 1, scale=50).detach()
    loss = lambda logits: teacher_forced_loss(logits, target(), PADDING)  # noqa: E731
    agree(lambda logits: loss(logits + shift), loss, normal(B, T, n_tokens))


def test_more_padding_changes_nothing(normal):
    logits = normal(B, T + 2, n_tokens)
    longer = torch.cat([target(), torch.zeros(B, 2, dtype=torch.int64)], dim=1)
    torch.testing.assert_close(
        teacher_forced_loss(logits, longer, PADDING), teacher_forced_loss(logits[:, :T], target(), PADDING)
    )


def test_gradients_against_differences(normal):
    assert torch.autograd.gradcheck(lambda logits: teacher_forced_loss(logits, target(), PADDING), normal(B, T, n_tokens))


@pytest.mark.parametrize("T", [0, 1, 5])
def test_the_mean_over_no_real_target_is_not_a_number(normal, T):
    loss = teacher_forced_loss(normal(B, T, n_tokens), torch.zeros(B, T, dtype=torch.int64), PADDING)
    assert loss.isnan()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision_costs_no_more_than_its_rounding(normal, dtype):
    logits = normal(B, T, n_tokens).detach().to(dtype)
    loss = teacher_forced_loss(logits, target(), PADDING)
    assert loss.dtype == dtype
    exact = teacher_forced_loss(logits.double(), target(), PADDING)
    torch.testing.assert_close(loss.double(), exact, atol=0, rtol=4 * torch.finfo(dtype).eps)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gpu_computes_the_same(normal, dtype):
    logits = normal(B, T, n_tokens).detach().to(dtype)
    there = teacher_forced_loss(logits.cuda(), target().cuda(), PADDING)
    assert there.device.type == "cuda"
    exact = teacher_forced_loss(logits.double(), target(), PADDING)
    torch.testing.assert_close(there.cpu().double(), exact, atol=0, rtol=4 * torch.finfo(dtype).eps)


def test_a_language_model_is_asked_for_every_token_but_the_first(normal, agree):
    """There is no padding: index 0 is an ordinary token."""
    agree(
        lambda logits: next_token_loss(logits, target()),
        lambda logits: by_loop(logits, target(), padding=-1),
        normal(B, T, n_tokens, scale=3),
    )


def test_tokens_that_do_not_count_are_as_padding(normal, agree):
    agree(
        lambda logits: next_token_loss(logits, target(), target() != PADDING),
        lambda logits: teacher_forced_loss(logits, target(), PADDING),
        normal(B, T, n_tokens, scale=3),
    )


def test_a_prompt_that_does_not_count_is_not_asked_for(normal):
    """Only tokens 3 and 4 count: gradients at the logits of 2 and 3 alone."""
    logits = normal(B, T, n_tokens)
    next_token_loss(logits, target(), torch.tensor([False, False, False, True, True]).expand(B, T)).backward()
    assert logits.grad[:, 2:4].all()
    assert not logits.grad[:, [0, 1, 4]].any()


def test_the_loss_of_a_language_model_by_hand():
    """p = ½ and ¼ for the next tokens: 1½ ln 2."""
    half, quarter = [0.25, 0.25, 0.5], [0.5, 0.25, 0.25]
    text, there = torch.tensor([[1, 2, 1]]), torch.tensor([[half, quarter, half]]).log()
    assert next_token_loss(there, text).item() == pytest.approx(1.5 * math.log(2))


def test_nothing_asked_for_is_not_a_number_and_gradients_are_those_of_differences(normal):
    assert next_token_loss(normal(B, 1, n_tokens), target()[:, :1]).isnan()
    assert torch.autograd.gradcheck(lambda logits: next_token_loss(logits, target()), normal(B, T, n_tokens))
