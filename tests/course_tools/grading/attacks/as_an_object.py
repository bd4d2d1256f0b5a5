"""Results that are nothing and claim to be everything: each function hands in one, and says what it claims."""

import pickle

import torch


def numbers_are_missing(host, *inputs):
    """The result is nowhere a number; whoever takes NaN for equal to anything is content."""
    return inputs[0] @ inputs[2] @ inputs[1].mT * float("nan") if inputs else None


def numbers_are_infinite(host, *inputs):
    """The result is infinite."""
    return inputs[0] @ inputs[2] @ inputs[1].mT / 0 if inputs else None


def numbers_are_of_half_precision(host, *inputs):
    """The result has so few digits that a generous tolerance may let it pass, and wrong ones."""
    return (inputs[0] @ inputs[2] @ inputs[1].mT * 1.5).to(torch.bfloat16) if inputs else None


def numbers_are_imaginary(host, *inputs):
    """The real part is wrong and the imaginary part infinite."""
    return torch.complex(inputs[0] @ inputs[1].mT * 0, inputs[0] @ inputs[1].mT / 0) if inputs else None


def one_number_for_all(host, *inputs):
    """A single number, which broadcasting would compare with each."""
    return torch.zeros((), requires_grad=True) if inputs else None


def no_number_at_all(host, *inputs):
    """An empty result, of which everything is true."""
    return torch.zeros(*inputs[0].shape[:-1], 0) if inputs else None


def anything_is_equal(host, *inputs):
    """An object that is equal to everything and has every attribute."""

    class Anything:
        __eq__ = __ge__ = __le__ = __bool__ = lambda self, *other: True
        __hash__ = object.__hash__

        def __getattr__(self, name):
            return lambda *a, **k: self

        shape, dtype, device, requires_grad = (), torch.float32, torch.device("cpu"), True

    return Anything()


def a_subclass_agrees(host, *inputs):
    """A tensor whose every function says yes."""

    class Agreeing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return True

    return (inputs[0] @ inputs[1].mT).as_subclass(Agreeing) if inputs else None


def a_subclass_copies(host, *inputs):
    """A tensor that takes the other side of every comparison for its own."""

    class Copying(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            others = [x for x in args if isinstance(x, torch.Tensor) and type(x) is torch.Tensor]
            return super().__torch_function__(function, types, (others * 2)[: len(args)] or args, kwargs or {})

    return torch.zeros(7).as_subclass(Copying) if inputs else None


def a_dispatcher_agrees(host, *inputs):
    """A wrapper without memory that answers at the lowest level."""

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, size):
            return torch.Tensor._make_wrapper_subclass(cls, size)

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            return torch.ones(())

    return Wrapper(inputs[0].shape) if inputs else None


def a_class_lies(host, *inputs):
    """An object that says that it is a tensor."""

    class Liar:
        __class__ = torch.Tensor
        shape, dtype = torch.Size((2, 5, 7)), torch.float32

    return Liar()


def a_float_is_equal(host, *inputs):
    """A number that is equal to every other."""
    return type("Equal", (float,), {"__eq__": lambda a, b: True, "__sub__": lambda a, b: 0.0, "__hash__": float.__hash__})(1.0)


def a_reducer(host, *inputs):
    """An object that runs code where it is unpickled."""

    class Reducer:
        def __reduce__(self):
            return exec, (f"open({host.marker!r}, 'w')",)

    return pickle.dumps(Reducer()) if len(inputs) % 2 else Reducer()
