"""Controls of attention: reversed keys, no mask, and the reach of the gradient."""

import torch

from course_lib.attention import GeneralAttention
from course_lib.fast import stacked_bidirectional_gru
from course_lib.models import Encoder, LuongDecoder, PlainDecoder, Seq2Seq
from course_tools.lectures.lecture_02.experiments import ReversedKeys, Unmasked, change_in_a_batch, gradient_reach

N_TOKENS, D = 11, 6


def model(decoder):
    return Seq2Seq(Encoder(N_TOKENS, D // 2, D // 2, stacked_bidirectional_gru), decoder)


def luong():
    return model(LuongDecoder(7, D // 2, D, D, GeneralAttention(D, D)))


def test_only_the_keys_of_real_tokens_are_reversed():
    torch.manual_seed(0)
    encoder = luong().encoder
    source, lengths = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]), torch.tensor([4, 2])
    before, after = encoder(source, lengths), ReversedKeys(encoder)(source, lengths)
    torch.testing.assert_close(after.keys[0], before.keys[0].flip(0))
    torch.testing.assert_close(after.keys[1, :2], before.keys[1, :2].flip(0))
    torch.testing.assert_close(after.keys[1, 2:], before.keys[1, 2:])
    torch.testing.assert_close(after.values, before.values)


def test_without_the_mask_a_longer_sentence_changes_the_logits():
    torch.manual_seed(0)
    asked = luong()
    given = torch.tensor([[5, 6, 0, 0, 0], [9, 10, 7, 8, 5]]), torch.tensor([2, 5]), torch.tensor([[1, 3, 2]])
    assert change_in_a_batch(asked, *given) < 1e-5
    asked.decoder.attention = Unmasked(asked.decoder.attention)
    assert change_in_a_batch(asked, *given) > 1e-4


def test_the_gradient_reaches_every_position_with_attention_and_hardly_the_middle_without():
    with_attention = gradient_reach(luong, N_TOKENS, 31, seed=0)
    last_state = gradient_reach(lambda: model(PlainDecoder(7, D // 2, D, D)), N_TOKENS, 31, seed=0)
    assert len(with_attention) == len(last_state) == 31
    assert with_attention[15] / with_attention[-1] > 10 * last_state[15] / last_state[-1]
