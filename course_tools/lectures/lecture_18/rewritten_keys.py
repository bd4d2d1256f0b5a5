"""Writes of values under keys, some of which are written again, and questions for the newest value of a key."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

N_KEYS, N_VALUES, N_ASKED = 32, 16, 8


class Writes(NamedTuple):
    """Keys and values in the order in which they are written (B, T), keys asked for (B, 8), and their newest values (B, 8)."""

    keys: Tensor
    values: Tensor
    asked: Tensor
    wanted: Tensor


def hot_keys(n: int, generator: torch.Generator, n_keys: int = N_KEYS) -> Writes:
    """Draw n sequences of 64 writes: sixteen keys once and four keys, new in each sequence, twelve times, in random order.

    The keys are twenty of n_keys. The first four questions ask for the keys that are rewritten, the last four for keys that are
    written once.
    """
    slots = torch.cat([torch.arange(4).repeat(12), torch.arange(4, 20)])
    key_of = torch.rand(n, n_keys, generator=generator).argsort(1)
    shuffled = slots[torch.rand(n, len(slots), generator=generator).argsort(1)]
    values = torch.randint(N_VALUES, shuffled.shape, generator=generator)
    last = ((shuffled[:, None] == torch.arange(N_ASKED)[:, None]) * torch.arange(1, len(slots) + 1)).argmax(-1)
    return Writes(key_of.gather(1, shuffled), values, key_of[:, :N_ASKED], values.gather(1, last))


def each_key_once(n: int, generator: torch.Generator, n_pairs: int, n_keys: int) -> Writes:
    """Draw n sequences that write n_pairs of n_keys once each, in random order; eight of them are asked for."""
    keys = torch.rand(n, n_keys, generator=generator).argsort(1)[:, :n_pairs]
    values = torch.randint(N_VALUES, keys.shape, generator=generator)
    some = torch.rand(keys.shape, generator=generator).argsort(1)[:, :N_ASKED]
    return Writes(keys, values, keys.gather(1, some), values.gather(1, some))


def new_subject(n: int, generator: torch.Generator) -> Writes:
    """Draw n sequences of 48 writes to twelve keys, new in each sequence; one write, the 21st to the 44th, is a marker instead.

    The marker is the last key with the last value. It makes void what was written before: eight of the twelve keys are asked
    for, and wanted is the newest value since the marker, or the last value, "none".
    """
    T, n_slots, marker, none = 48, 12, N_KEYS - 1, N_VALUES - 1
    key_of = torch.rand(n, marker, generator=generator).argsort(1)
    keys = key_of.gather(1, torch.randint(n_slots, (n, T), generator=generator))
    values = torch.randint(none, (n, T), generator=generator)
    some = torch.rand(n, n_slots, generator=generator).argsort(1)[:, :N_ASKED]
    asked = key_of.gather(1, some)
    at = torch.randint(20, 44, (n, 1), generator=generator)
    keys, values = keys.scatter(1, at, marker), values.scatter(1, at, none)
    since = (keys[:, None] == asked[..., None]) & (torch.arange(T) > at)[:, None]  # (n, 8, T)
    newest = values.gather(1, (since * torch.arange(1, T + 1)).argmax(-1))
    return Writes(keys, values, asked, torch.where(since.any(-1), newest, none))


def stream(draw, size: int, seed: int, device: torch.device) -> Iterator[Writes]:
    """Draw batches without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield Writes(*(x.to(device) for x in draw(size, generator)))
