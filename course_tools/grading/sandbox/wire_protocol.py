"""Messages between grader and worker: their lengths, a small JSON header and the raw bytes of tensors.

    message = b"ATF1" · length of the header (4 bytes) · length of the body (8 bytes) · header (JSON) · body (tensors, one
    after the other)

Received data is never evaluated: no pickle, npz or zip. Sizes, counts and depths are limited before memory is allocated, and
invalid data raises Malformed, never another exception. This module also runs inside the sandbox: it requires only the standard
library and torch.
"""

import ctypes
import json
import math
import socket
import struct
import time
from collections.abc import Callable

import torch

MAGIC = b"ATF1"
PREFIX = struct.Struct("!4sIQ")
LARGEST_HEADER = 2**18
LARGEST_BODY = 2**25
MOST_ITEMS = 4096
DEEPEST = 16
LONGEST_TEXT = 2000

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    )
}


Left = Callable[[], float]
"""Returns for how many seconds to wait for a message before it is called again; 0 if the time is over."""


def until(deadline: float) -> Left:
    """Wait until a time of `time.monotonic()`; indefinitely if it is infinite."""
    return lambda: deadline - time.monotonic()


class Malformed(Exception):
    """The received data is not a valid message."""


class Late(Exception):
    """A message was not received or sent in time."""


class Ended(Exception):
    """The other side closed the connection."""


class Foreign:
    """Represents a value of a type that cannot be sent, by the name of the type."""

    def __init__(self, name: str) -> None:
        self.name = name


class FunctionReference:
    """Represents a function of the library by its name, "module:name"."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def of(cls, function: Callable[..., object]) -> "FunctionReference":
        """Make the reference of a function."""
        return cls(f"{function.__module__}:{function.__qualname__}")


def send(connection: socket.socket, header: object, tensors: list[torch.Tensor], left: Left, body: bytes = b"") -> None:
    """Send a header, made by `flat`, and its tensors or another body; raises Late if no time is left."""
    text = json.dumps(header, allow_nan=False).encode()
    body = body or b"".join(map(_bytes, tensors))
    message = memoryview(PREFIX.pack(MAGIC, len(text), len(body)) + text + body)
    while message:
        _hurry(connection, left)
        try:
            message = message[connection.send(message) :]
        except TimeoutError:
            continue
        except OSError as error:
            raise Ended from error


def receive(
    connection: socket.socket, left: Left, largest_header: int = LARGEST_HEADER, largest_body: int = LARGEST_BODY
) -> tuple[object, bytearray]:
    """Receive a header, which `full` converts to values, and the bytes of its tensors.

    Raises:
        Malformed: the data is not a valid message, or is larger than allowed.
        Late: the message was not complete while time was left.
        Ended: the connection was closed before a message began.
    """
    magic, n_header, n_body = PREFIX.unpack(_exactly(connection, PREFIX.size, left, first=True))
    if magic != MAGIC or n_header > largest_header or n_body > largest_body:
        raise Malformed("not a message, or too large")
    text, body = _exactly(connection, n_header, left), _exactly(connection, n_body, left)
    try:
        return json.loads(text.decode("utf-8"), parse_constant=_no_constant), body
    except (ValueError, RecursionError) as error:
        raise Malformed("the header is not valid JSON") from error


def flat(value: object, tensors: list[torch.Tensor], depth: int = 0) -> object:
    """Convert a value to JSON, appending its tensors to `tensors`; a value that cannot be sent becomes its type's name."""
    kind = type(value)
    if kind in (bool, type(None)) or (kind is int and abs(value) < 2**63):
        return value
    if kind is float:
        return {"float": value.hex()}
    if kind is str:
        return {"text": value[:LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8")}
    if isinstance(value, torch.Tensor):
        return _flat_tensor(value, tensors)
    if kind is torch.device or kind is torch.dtype:
        return {kind.__name__: str(value)}
    if kind is FunctionReference:
        return {"function": value.name}
    if isinstance(value, tuple | list) and depth < DEEPEST and len(value) <= MOST_ITEMS:
        name = "tuple" if isinstance(value, tuple) else "list"
        return {name: [flat(item, tensors, depth + 1) for item in value]}
    return {"foreign": kind.__name__[:100]}


def full(header: object, body: bytearray) -> object:
    """Convert a header made by `flat`, and its body, back to values and tensors; raises Malformed if they are invalid."""
    reader = _Reader(body)
    try:
        value = reader.value(header, 0)
    except Malformed:
        raise
    except Exception as error:
        raise Malformed("the header is invalid") from error
    if reader.used != len(body):
        raise Malformed("the body is longer than its tensors")
    return value


class _Reader:
    def __init__(self, body: bytearray) -> None:
        self.body, self.used, self.items = body, 0, 0

    def value(self, header: object, depth: int) -> object:
        self.items += 1
        if depth > DEEPEST or self.items > MOST_ITEMS:
            raise Malformed("nested too deeply, or too many values")
        if header is None or isinstance(header, bool):
            return header
        if isinstance(header, int):
            return self.checked(header, abs(header) < 2**63)
        ((kind, content),) = self.checked(header, isinstance(header, dict)).items()
        match kind:
            case "tuple" | "list":
                values = [self.value(item, depth + 1) for item in self.checked(content, isinstance(content, list))]
                return tuple(values) if kind == "tuple" else values
            case "tensor" | "meta":
                return self.tensor(kind == "meta", *content)
            case "float":
                return float.fromhex(content)
            case "text":
                return self.checked(content, isinstance(content, str) and len(content) <= LONGEST_TEXT)
            case "device":
                return torch.device(content)
            case "dtype":
                return DTYPES[content.removeprefix("torch.")]
            case "foreign" | "function":
                return (FunctionReference if kind == "function" else Foreign)(
                    self.checked(content, isinstance(content, str) and len(content) <= 100)
                )
        raise Malformed("an unknown kind of value")

    def tensor(self, meta: bool, dtype: str, shape: list[int]) -> torch.Tensor:
        sizes = all(type(n) is int and 0 <= n < 2**31 for n in shape) and math.prod(n for n in shape if n) < 2**40
        self.checked(shape, isinstance(shape, list) and len(shape) <= 16 and sizes)
        if meta:
            return torch.empty(shape, dtype=DTYPES[dtype], device="meta")
        count = math.prod(shape)
        start, self.used = self.used, self.used + count * DTYPES[dtype].itemsize
        if self.used > len(self.body):
            raise Malformed("the body is shorter than its tensors")
        if count == 0:
            return torch.empty(shape, dtype=DTYPES[dtype])
        part = self.body[start : self.used]
        if dtype == "bool" and torch.frombuffer(part, dtype=torch.uint8).max() > 1:
            raise Malformed("a Boolean that is neither 0 nor 1")
        return torch.frombuffer(part, dtype=DTYPES[dtype]).reshape(shape)

    @staticmethod
    def checked(value: object, right: bool) -> object:
        if not right:
            raise Malformed("a value out of range")
        return value


def _flat_tensor(tensor: torch.Tensor, tensors: list[torch.Tensor]) -> object:
    dtype, shape = str(tensor.dtype).removeprefix("torch."), list(tensor.shape)
    if dtype not in DTYPES or tensor.layout != torch.strided or len(shape) > 16:
        return {"foreign": f"{type(tensor).__name__} of {tensor.dtype}"[:100]}
    if tensor.is_meta:
        return {"meta": [dtype, shape]}
    tensors.append(tensor.detach().cpu().resolve_conj().resolve_neg().contiguous())
    return {"tensor": [dtype, shape]}


def _bytes(tensor: torch.Tensor) -> bytes:
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


def _exactly(connection: socket.socket, n: int, left: Left, first: bool = False) -> bytearray:
    data = bytearray()
    while len(data) < n:
        _hurry(connection, left)
        try:
            part = connection.recv(min(n - len(data), 2**20))
        except TimeoutError:
            continue
        except OSError as error:
            raise Ended from error
        if not part:
            raise Ended if first and not data else Malformed("the message is incomplete")
        data += part
    return data


def _hurry(connection: socket.socket, left: Left) -> None:
    seconds = left()
    if seconds <= 0:
        raise Late
    connection.settimeout(None if seconds == math.inf else seconds)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not allowed in a header")
