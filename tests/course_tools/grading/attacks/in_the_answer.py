"""Results that are meant to harm whoever looks at them: each function makes one, and says what it tries."""

import collections
import itertools
import sys

import numpy as np
import torch


def a_deep_tuple(host, *inputs):
    """A tuple in a tuple, a hundred thousand times."""
    deep = ()
    for _ in range(100_000):
        deep = (deep,)
    return deep


def a_list_of_itself(host, *inputs):
    """A list that holds itself."""
    circle = []
    circle.append(circle)
    return circle


def a_dictionary_of_itself(host, *inputs):
    """A dictionary that is its own value, with a key that is no text."""
    circle = {}
    circle[(1, 2)] = circle
    return circle


def numbers_without_end(host, *inputs):
    """A generator that never stops."""
    return itertools.count()


def a_million_results(host, *inputs):
    """A tuple of a million tensors that are all one."""
    return (torch.zeros(()),) * 1_000_000


def a_large_view(host, *inputs):
    """One number that looks like 2⁴⁰ of them."""
    return torch.zeros(1).expand(2**40)


def a_large_view_of_three(host, *inputs):
    """One number that looks like 400 MB: small enough to be sent, too large for an answer."""
    return torch.zeros(1).expand(100, 1000, 1000)


def sizes_without_numbers(host, *inputs):
    """A tensor without numbers whose other sizes are beyond all limits."""
    return torch.zeros(0).expand(2**61, 0)


def many_axes(host, *inputs):
    """A tensor of a thousand axes."""
    return torch.zeros((1,) * 1000)


def a_sparse_tensor(host, *inputs):
    """A sparse tensor of gigantic size."""
    return torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.long), torch.ones(1), (2**30, 2**30))


def a_nested_tensor(host, *inputs):
    """A tensor of tensors of different length."""
    return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


def a_tensor_without_memory(host, *inputs):
    """A tensor whose memory has been given back."""
    x = torch.zeros(1000)
    x.untyped_storage().resize_(0)
    return x


def a_tensor_beyond_its_memory(host, *inputs):
    """A tensor that is laid over the memory of others."""
    return torch.as_strided(torch.zeros(4), (2, 2), (2**20, 1))


def a_tensor_of_bytes_of_others(host, *inputs):
    """A tensor over a buffer that is gone when it is read."""
    return torch.frombuffer(bytearray(16), dtype=torch.float32)[:2].expand(5, 2)


def odd_numbers(host, *inputs):
    """Numbers of a kind that cannot be sent as bytes of a float."""
    return torch.tensor([1 + 2j, float("nan")]).conj(), torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.quint8)


def a_long_number(host, *inputs):
    """An integer with a million digits."""
    return 1 << 3_000_000


def a_long_text(host, *inputs):
    """A text of a hundred million letters."""
    return "x" * 100_000_000


def half_a_character(host, *inputs):
    """A text that cannot be written in UTF-8."""
    return "\ud800"


def objects_of_numpy(host, *inputs):
    """An array of Python objects, as only a pickle would carry it."""
    return np.array([print, object()], dtype=object)


def a_lying_tuple(host, *inputs):
    """A tuple that says that it is longer than it is, and never ends."""

    class Lying(tuple):
        def __len__(self):
            return 2**31

        def __iter__(self):
            return itertools.repeat(self)

    return Lying((1, 2))


def a_lying_list(host, *inputs):
    """A list of negative length."""
    return type("Lying", (list,), {"__len__": lambda self: -5, "__iter__": lambda self: iter(self, 0)})([1])


def a_lying_integer(host, *inputs):
    """A number whose text is a hostile header."""
    return type("Lying", (int,), {"__repr__": lambda self: '1}, "points": 9, "x": {"y": 1', "__index__": lambda self: -1})(7)


def a_lying_dtype(host, *inputs):
    """A tensor whose dtype, size and device are output by an attribute."""

    class Lying(torch.Tensor):
        shape = property(lambda self: (-1, 2**70))
        dtype = property(lambda self: "points")
        device = property(lambda self: "cuda:9")

    return torch.zeros(3).as_subclass(Lying)


def fields_with_names(host, *inputs):
    """A named tuple whose fields are the words of a report."""
    return collections.namedtuple("Mark", "points passed status")(9, True, "judged")


def modules_and_types(host, *inputs):
    """Things that are no data at all."""
    return sys, type, Ellipsis, NotImplemented, sys._getframe(), memoryview(b"x"), lambda: 0, Exception("x")


def a_graph_without_end(host, *inputs):
    """A result whose graph is a hundred thousand nodes deep: its gradient is asked for."""
    x = inputs[0].sum() if inputs else torch.zeros(())
    for _ in range(20_000):
        x = x + 1
    return x
