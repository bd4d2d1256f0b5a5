"""Lecture 05: a recurrence is a chain as long as its sentence, and the rival computes what lecture 02's model computes."""

import torch
from torch.testing import assert_close

from course_lib.blocks import Sizes
from course_lib.models import Transformer
from course_tools.lectures.lecture_05.experiments import GRUTranslator, longest_chain, unfused


def test_each_token_adds_as_many_operations_to_the_chain_of_a_recurrence_and_none_to_that_of_attention():
    gru, attention = unfused(7, 7), Transformer(7, 7, Sizes(8, 2, 16, 1))
    short, middle, long = (longest_chain(gru, length, 7) for length in (5, 11, 17))
    assert long - middle == middle - short > 6
    assert longest_chain(attention, 5, 7) == longest_chain(attention, 17, 7)


def test_a_chain_is_counted_along_its_longest_path():
    class Three(torch.nn.Module):
        def forward(self, source, lengths, target):
            x = torch.ones(1, requires_grad=True)
            return x.exp() + x.exp().sin()

    assert longest_chain(Three(), 5, 7) == 5  # the input, exp, sin, +, and the sum of the outputs


def test_fused_and_unfused_rivals_agree():
    torch.manual_seed(0)
    fused, slow = GRUTranslator(7, 11), unfused(7, 11)
    slow.load_state_dict(fused.state_dict())
    source, target, lengths = torch.randint(4, 7, (2, 5)), torch.randint(4, 11, (2, 3)), torch.tensor([5, 3])
    assert_close(slow(source, lengths, target), fused(source, lengths, target))
    assert slow.translate(source, lengths, 4).tolist() == fused.translate(source, lengths, 4).tolist()
