"""A recurrent encoder by a function: its states are those of torch in both directions, and padding changes nothing."""

import torch

from course_lib.primitives import encode
from course_tools.lectures.lecture_02.experiments import EncoderByFunction


def encoder(seed=0):
    torch.manual_seed(seed)
    return EncoderByFunction(encode, 7, 6)


def test_the_states_of_both_directions_are_those_of_torch():
    model, source = encoder(), torch.tensor([[3, 1, 6, 2]])
    encoded = model(source, torch.tensor([4]))
    x = model.embedding(source).transpose(0, 1)
    there, back = model.there(x)[0], model.back(x.flip(0))[0].flip(0)
    torch.testing.assert_close(encoded.values[0], torch.cat([there, back], dim=-1)[:, 0])
    torch.testing.assert_close(encoded.final[0], torch.cat([there[-1], back[0]], dim=-1)[0])
    assert encoded.keys is encoded.values


def test_a_sentence_is_encoded_alike_alone_and_padded():
    model = encoder()
    alone = model(torch.tensor([[3, 1]]), torch.tensor([2]))
    padded = model(torch.tensor([[3, 1, 0, 0], [5, 2, 4, 1]]), torch.tensor([2, 4]))
    torch.testing.assert_close(padded.values[0, :2], alone.values[0])
    torch.testing.assert_close(padded.final[0], alone.final[0])
    assert padded.mask[0].tolist() == [[True, True, False, False]]
