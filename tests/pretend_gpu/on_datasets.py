"""Every data set: its batches on the device, and its functions of tensors."""

from dataclasses import fields, is_dataclass

import pytest
import torch
from torch import Tensor

from course_lib import datasets as D
from course_lib.training import batches
from tests.pretend_gpu.ran import never_ran

SIZES, SEED = (7, 3, 2), 1


MAKES = {
    "digits": D.digits,
    "karate_club": D.karate_club,
    "les_miserables": D.les_miserables,
    "lookup": lambda: D.lookup(*SIZES, seed=SEED),
    "matching_neighbour": lambda: D.matching_neighbour(*SIZES, seed=SEED),
    "photographs": lambda: D.photographs((8, 12)),
    "secret_orders": lambda: D.secret_orders(*SIZES, seed=SEED),
    "sums": lambda: D.sums(*SIZES, seed=SEED),
    "pad": lambda: D.pad([[4, 5, 6], [7], [8, 9]]),
}
"""Data sets of tensors, which are made on the CPU by a seed, and moved."""

IMAGES = torch.rand(5, 3, 6, 8, generator=torch.Generator().manual_seed(0))
TAKES = {
    "warp": (D.warp, IMAGES, torch.eye(2).repeat(5, 1, 1) * 0.8, torch.full((5, 2), 0.1)),
    "recolour": (lambda x, a, b, c: D.recolour(x, D.colour_matrix(a, b, c)), IMAGES, *torch.rand(3, 5)),
    "resize": (lambda x: D.resize(x, (3, 4)), IMAGES),
    "few_of_each": (lambda y: D.few_of_each(y, 2, SEED), torch.arange(12) % 3),
    "walks": (lambda orders: D.walks(orders, 4, seed=SEED), D.secret_orders(*SIZES, seed=SEED).train),
}
"""Functions of tensors that a program may already have moved."""

OTHERS = {"dates", "joined", "language_reference", "mnist", "number_words", "shakespeare", "spelled", "split", "word_pieces"}
"""Of text, or as `digits`."""


def tensors(x: object) -> list[Tensor]:
    """All tensors of a data set, of its parts and their fields."""
    if isinstance(x, Tensor):
        return [x]
    if is_dataclass(x):
        x = tuple(getattr(x, field.name) for field in fields(x))
    return [each for part in x for each in tensors(part)] if isinstance(x, tuple | list) else []


@pytest.mark.parametrize("name", MAKES)
def test_batches_of_a_data_set_are_those_of_the_cpu(name, device):
    found = [x for x in tensors(MAKES[name]()) if x.dim() and len(x)]
    assert found
    for x in found:
        here, there = batches(x, batch_size=2, seed=0), batches(x.to(device), batch_size=2, seed=0)
        for _ in range(3):
            (one,), (other,) = next(here), next(there)
            assert other.device.type == device.type
            assert torch.equal(one, other.cpu())


@pytest.mark.parametrize("name", TAKES)
def test_a_function_of_tensors(name, same_there):
    form, *inputs = TAKES[name]
    same_there(form, *inputs)


def test_every_data_set_is_among_them():
    assert never_ran(D) - {*MAKES} == OTHERS
