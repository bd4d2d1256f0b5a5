"""Messages carry honest values through unchanged, and whatever else comes is Malformed, Late or Ended, and nothing worse."""

import json
import math
import random
import socket
import time

import pytest
import torch

from course_tools.grading.sandbox import wire_protocol
from course_tools.grading.sandbox.wire_protocol import (
    DTYPES,
    PREFIX,
    Ended,
    Foreign,
    Late,
    Malformed,
    flat,
    full,
    receive,
    send,
    until,
)


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def soon():
    return until(time.monotonic() + 300.0)


def through(value):
    """Send a value through a connection and read it again."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        tensors = []
        send(ours, flat(value, tensors), tensors, soon())
        header, body = receive(theirs, soon())
    return full(header, body)


def message(header, body=b"", magic=b"ATF1", n_header=None, n_body=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    sizes = (len(text) if n_header is None else n_header, len(body) if n_body is None else n_body)
    return PREFIX.pack(magic, *sizes) + text + body


def read(data):
    """Read bytes as the grader reads what a worker wrote before it ended."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        return full(*receive(theirs, soon()))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 5), (2, 0, 7)])
def test_a_tensor_of_every_kind_comes_through_bit_for_bit(name, shape):
    tensor = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 7).to(DTYPES[name])
    came = through(tensor)
    assert came.dtype == tensor.dtype
    assert came.shape == tensor.shape
    assert torch.equal(came, tensor)


def test_views_and_lazy_signs_come_through_as_what_they_show():
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.complex64)
    for view in (x.mT, x[::2, 1:], x.conj(), x[0].expand(3, 7), x.real, x.conj().imag, x.flip(0)):
        assert torch.equal(through(view), view)


def test_not_a_number_and_the_infinite_come_through():
    values = torch.tensor([math.nan, math.inf, -math.inf, -0.0])
    came = through((values, math.nan, -math.inf, 1e-320))
    assert torch.equal(came[0].view(torch.int32), values.view(torch.int32))
    assert math.isnan(came[1])
    assert came[2:] == (-math.inf, 1e-320)


@pytest.mark.parametrize("value", [None, True, False, 0, -7, 2**62, 0.1, "", "é\n", (), [], (1, [2.0, "x"], (None,))])
def test_plain_values_come_through_with_their_types(value):
    came = through(value)
    assert came == value
    assert type(came) is type(value)


def test_a_tensor_without_numbers_comes_through_by_its_kind():
    came = through(torch.empty(3, 5, dtype=torch.bool, device="meta"))
    assert (came.is_meta, came.shape, came.dtype) == (True, (3, 5), torch.bool)
    assert through(torch.device("meta")) == torch.device("meta")
    assert through(torch.float16) == torch.float16


@pytest.mark.parametrize(
    "value", [{}, {1}, b"x", 2**70, 1j, lambda: 0, object(), torch.eye(2).to_sparse(), torch.zeros(2, dtype=torch.uint16)]
)
def test_what_cannot_be_sent_is_known_by_its_type_alone(value):
    came = through(value)
    assert isinstance(came, Foreign)
    assert came.name.startswith(type(value).__name__)


def test_what_is_too_deep_is_cut_off():
    nested = 1
    for _ in range(100):
        nested = (nested,)
    came = through(nested)
    while isinstance(came, tuple):
        (came,) = came
    assert isinstance(came, Foreign)


@pytest.mark.parametrize(
    "data",
    [
        message(None, magic=b"ATF2"),
        message(None, n_header=2**31),
        message(None, n_body=2**40),
        message(None, n_header=100),
        message(None, b"x"),
        message(b"\xff\xfe"),
        message(b"{"),
        message(b"NaN"),
        message(b"[" * 100_000 + b"]" * 100_000),
        message(b"9" * 5000),
        message("text"),
        message([]),
        message({}),
        message({"a": 1, "b": 2}),
        message({"pickle": "gASV"}),
        message(1.5),
        message(2**70),
        message({"float": "nonsense"}),
        message({"float": 3}),
        message({"text": 3}),
        message({"text": "x" * 5000}),
        message({"tuple": 3}),
        message({"list": [[]]}),
        message({"device": "nowhere"}),
        message({"dtype": "torch.nonsense"}),
        message({"foreign": ["x"]}),
        message({"tensor": ["float32", [2]]}, b"1234567"),
        message({"tensor": ["float32", [2]]}, b"123456789"),
        message({"tensor": ["float32", [-1]]}),
        message({"tensor": ["float32", [2**40]]}),
        message({"tensor": ["float32", [2**30, 2**30, 0]]}),
        message({"tensor": ["float32", [True]]}, b"1234"),
        message({"tensor": ["float32", [1.0]]}, b"1234"),
        message({"tensor": ["float32", "12"]}, b"12345678"),
        message({"tensor": ["float32", 3]}, b"12345678"),
        message({"tensor": ["float32", [1] * 30]}, b"1234"),
        message({"tensor": ["object", [1]]}, b"12345678"),
        message({"tensor": ["float32"]}),
        message({"tensor": []}),
        message({"tensor": ["bool", [2]]}, b"\x00\x02"),
        message({"meta": ["float32", [-1]]}),
        message({"tuple": [0] * 5000}),
        message({"tuple": [{"tensor": ["uint8", [3]]}, {"tensor": ["uint8", [3]]}]}, b"1234"),
    ],
)
def test_a_forged_message_is_malformed_and_nothing_else(data):
    with pytest.raises(Malformed):
        read(data)


def test_no_mutation_of_a_message_raises_anything_else():
    """Bytes are changed, cut and repeated at random; what is still a message may only be another value."""
    tensors = []
    header = flat((torch.randn(2, 3), [True, None, 0.5], "text", torch.zeros(3, dtype=torch.bool)), tensors)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(ours, header, tensors, soon())
        honest = theirs.recv(10_000)
    chance, outcomes = random.Random(0), set()
    for _ in range(3000):
        data = bytearray(honest)
        for _ in range(chance.randint(1, 4)):
            i = chance.randrange(len(data))
            match chance.randrange(3):
                case 0:
                    data[i] = chance.randrange(256)
                case 1:
                    del data[i : i + chance.randint(1, 9)]
                case 2:
                    data[i:i] = data[i : i + chance.randint(1, 9)]
            data = data or bytearray(b"x")
        try:
            read(bytes(data))
            outcomes.add("value")
        except (Malformed, Ended) as error:
            outcomes.add(type(error).__name__)
    assert outcomes == {"value", "Malformed"}


def test_a_message_that_trickles_is_late(pair):
    ours, theirs = pair
    ours.sendall(PREFIX.pack(wire_protocol.MAGIC, 100, 0) + b"{")
    begun = time.monotonic()
    with pytest.raises(Late):
        receive(theirs, until(begun + 0.05))
    assert time.monotonic() - begun < 600.0


def test_nothing_is_read_after_the_deadline(pair):
    ours, theirs = pair
    ours.sendall(message(None))
    with pytest.raises(Late):
        receive(theirs, until(time.monotonic() - 1.0))


def test_who_does_not_read_is_late_too(pair):
    ours, _ = pair
    with pytest.raises(Late):
        send(ours, None, [torch.zeros(2**22)], until(time.monotonic() + 0.05))


def test_a_closed_connection_has_ended(pair):
    ours, theirs = pair
    theirs.close()
    with pytest.raises(Ended):
        receive(ours, soon())
    with pytest.raises(Ended):
        send(ours, None, [torch.zeros(2**22)], soon())


def test_a_message_that_breaks_off_is_malformed():
    with pytest.raises(Malformed):
        read(message(None)[:-2])
