"""A Transformer whose blocks are functions gives the library's logits, trains the same weights, and decodes with its steps."""

import torch

from course_lib.blocks import Sizes, decoder_block, encoder_block
from course_lib.generation import greedy
from course_lib.models import Transformer
from course_tools.lectures.lecture_05.experiments import TransformerByFunctions

SOURCE = torch.tensor([[4, 5, 6, 7, 8], [6, 4, 5, 0, 0], [9, 9, 4, 5, 0]])
LENGTHS, TARGET = torch.tensor([5, 3, 4]), torch.tensor([[1, 4, 6, 5, 8, 7, 2]] * 3)


def by_functions(encoder=encoder_block, decoder=decoder_block):
    torch.manual_seed(0)
    return TransformerByFunctions(Transformer(11, 13, Sizes(14, 2, 23, 3)), encoder, decoder)


def test_its_logits_and_gradients_are_those_of_the_library():
    model = by_functions()
    logits = {whose: each(SOURCE, LENGTHS, TARGET) for whose, each in (("functions", model), ("library", model.model))}
    assert torch.allclose(logits["functions"], logits["library"], atol=1e-4)
    weights = list(model.model.parameters())
    ours, theirs = (torch.autograd.grad(each.square().sum(), weights) for each in logits.values())
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(ours, theirs, strict=True))


def test_a_mistake_in_either_function_changes_the_logits():
    right = by_functions()(SOURCE, LENGTHS, TARGET)
    for mistaken in (by_functions(encoder=lambda x, *parts: x), by_functions(decoder=lambda x, *parts: x)):
        assert not torch.allclose(mistaken(SOURCE, LENGTHS, TARGET), right, atol=1e-2)


def test_it_decodes_what_its_logits_choose():
    model = by_functions().eval()
    with torch.no_grad():
        written = greedy(model.step, model.start(SOURCE, LENGTHS), torch.ones(3, dtype=torch.long), 2, 0, 6)
        read = torch.cat([torch.ones(3, 1, dtype=torch.long), written[:, :-1]], 1)
        chosen = model(SOURCE, LENGTHS, read).argmax(-1)
    going = (written == 2).cumsum(1) - (written == 2).long() == 0
    assert torch.equal(written[going], chosen[going])
