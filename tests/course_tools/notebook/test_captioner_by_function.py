"""A captioner by the library's step equals the library's model, and step by step it computes the same logits."""

import torch

from course_lib.models import ShowAttendAndTell, caption_step
from course_tools.lectures.lecture_03.captions import CaptionerByFunction

REGIONS = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(0))
CAPTION = torch.tensor([[1, 4, 2], [1, 3, 3], [1, 2, 4]])


def captioner(step=caption_step):
    torch.manual_seed(0)
    return CaptionerByFunction(ShowAttendAndTell(11, 7, 5, 13, 3), step)


def test_it_computes_what_the_librarys_model_computes():
    model = captioner()
    ours, theirs = model(REGIONS, CAPTION), model.model(REGIONS, CAPTION)
    torch.testing.assert_close(ours.logits, theirs.logits)
    torch.testing.assert_close(ours.weights, theirs.weights)


def test_reading_word_by_word_gives_the_same_logits():
    model = captioner()
    state, logits = model.start(REGIONS), []
    for tokens in CAPTION.unbind(1):
        of_word, state = model.step(tokens, state)
        logits.append(of_word)
    torch.testing.assert_close(torch.stack(logits, dim=1), model(REGIONS, CAPTION).logits)


def test_every_word_is_read_by_the_given_step():
    calls = []

    def noted(*given):
        calls.append(given[0].shape)
        return caption_step(*given)

    captioner(noted)(REGIONS, CAPTION)
    assert calls == [(3, 5)] * 3
