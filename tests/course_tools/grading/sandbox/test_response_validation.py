"""What a worker says is read with suspicion: forgeries are malformed, errors come back as themselves, inputs stay outside."""

import math

import einops
import pytest
import torch

from course_tools.checks.cost import Cost
from course_tools.checks.failed_operation import FailedOperation, Operand
from course_tools.checks.judge_answer import is_same
from course_tools.checks.outcome import NotAFunction, TimedOut
from course_tools.grading.sandbox.response_validation import HIDDEN, error_of, outcome_of, without_values
from course_tools.grading.sandbox.wire_protocol import Malformed, flat

X = torch.tensor([[1.5, -2.25, 3.125]])
CALL = (X, torch.tensor([1, 2]), [X, X], 3)
SOURCE = "def f(x):\n    raise MyError('no')\n    return x * 0.5\n"


def output(results=None, gradients=None, changed=(), called=(), failure=None, failed=None, crash=None, cost=None, shared=()):
    tensors = []
    header = {
        "results": flat(results, tensors),
        "gradients": flat(gradients, tensors),
        "changed": list(changed),
        "shared": list(shared),
        "called": list(called),
        "failure": failure,
        "failed": failed,
        "crash": crash,
        "cost": cost,
    }
    body = b"".join(t.contiguous().numpy().tobytes() for t in tensors)
    return header, bytearray(body)


def read(**what):
    return outcome_of(*output(**what), CALL, False, False, SOURCE)


def failure(kind="ValueError", text="no", where="", module="builtins", bare=False):
    return {"module": module, "kind": kind, "text": text, "where": where, "bare": bare}


def test_the_message_of_an_error_can_be_written_to_any_file():
    """Half a character, which JSON can express, would end the writing of the whole table of marks."""
    error, _ = error_of(failure(text="no \ud800"), SOURCE)
    assert str(error) == "no ?"


def test_an_honest_outcome_is_what_was_observed():
    outcome = outcome_of(*output((X, 3), (X, X, X), (0, 2), ("grad",)), CALL, True, False, SOURCE)
    assert torch.equal(outcome.results[0], X)
    assert outcome.results[1] == 3
    assert (len(outcome.gradients), outcome.changed, outcome.called) == (3, (0, 2), frozenset({"grad"}))
    assert outcome.names == ("Result 1", "Result 2")


@pytest.mark.parametrize(
    "what",
    [
        {"results": X},
        {"results": [X]},
        {"results": (X,), "failure": failure()},
        {"results": (X,), "changed": [4]},
        {"results": (X,), "changed": [-1]},
        {"results": (X,), "changed": [True]},
        {"results": (X,), "changed": [0] * 9},
        {"results": (X,), "shared": [0] * 9},
        {"results": (X,), "shared": [-1]},
        {"results": (X,), "called": [3]},
        {"results": (X,), "called": ["x" * 500]},
        {"failure": {"kind": "ValueError"}},
        {"failure": failure(kind=3)},
        {"failure": failure(bare="yes")},
        {"failure": "ValueError"},
        {"failure": failure(), "failed": ["mul"]},
        {"failure": failure(), "failed": ["mul", [[[2, -3], "0.5", "1.5"]]]},
        {"failure": failure(), "failed": ["mul", [[[2, 3], 0.5, "1.5"]]]},
        {"failure": failure(), "failed": ["mul", [[[2, 3], "half", "1.5"]]]},
        {"failure": failure(), "failed": ["mul", [[[2, 3], "0.5", "0x1p9999"]]]},
        {"failure": failure(), "crash": "a kind that is not known"},
        {"failure": failure(), "crash": ["outer", True]},
        {"results": (X,), "gradients": (X, X, X)},
    ],
)
def test_what_no_honest_inmate_says_is_malformed(what):
    with pytest.raises(Malformed):
        read(**what)


@pytest.mark.parametrize("gradients", [(X,), (X, X, X, X), (X, X, X.mT), (X, X, None), [X, X, X], X, 3, (1, 2, 3)])
def test_gradients_of_other_inputs_are_malformed(gradients):
    with pytest.raises(Malformed):
        outcome_of(*output((X,), gradients), CALL, True, False, SOURCE)


def test_the_cost_that_was_asked_for_is_read():
    assert outcome_of(*output((X,), cost=[12, [3, 4], 5, 6]), CALL, False, True, SOURCE).cost == Cost(12, (3, 4), 5, 6)
    assert outcome_of(*output(failure=failure()), CALL, False, True, SOURCE).cost is None


@pytest.mark.parametrize(
    "cost",
    [
        *(None, 12, [12, [3], 1], [-1, [3], 1, 1], [True, [3], 1, 1], [12, [3.5], 1, 1], [12, 3, 1, 1]),
        *([12, [1] * 65, 1, 1], [12, [3], -1, 1], [12, [3], 1, -1], [12, [3], 1, 0.5]),
    ],
)
def test_a_cost_that_no_count_gives_is_malformed(cost):
    with pytest.raises(Malformed):
        outcome_of(*output((X,), cost=cost), CALL, False, True, SOURCE)


def test_a_cost_that_was_not_asked_for_is_malformed():
    with pytest.raises(Malformed):
        read(results=(X,), cost=[12, [3, 4], 5, 6])


@pytest.mark.parametrize("header", [None, [], 3, "x", {}, {"results": None}, {"results": None, "gradients": None}])
def test_what_is_no_outcome_is_malformed(header):
    with pytest.raises(Malformed):
        outcome_of(header, bytearray(), CALL, False, False, SOURCE)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("not this"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x5 and 7x11)"),
        KeyError("name"),
        KeyError(3),
        IndexError("a", "b"),
        NotImplementedError(),
        NotImplementedError("later"),
        SystemExit(3),
        KeyboardInterrupt(),
        ZeroDivisionError("division by zero"),
        RecursionError("too deep"),
        einops.EinopsError("no such axis"),
        torch.OutOfMemoryError("out of memory"),
        NotAFunction("Expected a function."),
        SyntaxError("bad"),
    ],
)
def test_an_error_comes_back_as_itself(error):
    kind = type(error)
    outcome = read(failure=failure(kind.__name__, str(error), module=kind.__module__, bare=not error.args))
    assert type(outcome.error) is kind
    assert str(outcome.error) == str(error)
    assert bool(outcome.error.args) == bool(error.args)
    assert is_same(outcome, read(failure=failure(kind.__name__, str(error), module=kind.__module__)))


def test_the_operation_that_failed_comes_back_as_itself():
    told = ["mul", [[[2, 3], (0.25).hex(), (1.5).hex()], [[3], "-inf", "inf"]]]
    outcome = read(failure=failure("RuntimeError"), failed=told)
    assert outcome.failed == FailedOperation("mul", (Operand((2, 3), 0.25, 1.5), Operand((3,), -math.inf, math.inf)))
    assert not is_same(outcome, read(failure=failure("RuntimeError")))


@pytest.mark.parametrize(
    ("module", "kind", "shown"),
    [
        ("__main__", "MyError", "MyError"),
        ("__main__", "Values_1_5_2_25", "AnError"),
        ("course_tools.checks.time_limit", "TimedOut", "AnError"),
        ("os", "system", "AnError"),
        ("builtins", "eval", "AnError"),
        ("builtins", "__import__", "AnError"),
        ("torch", "Tensor", "AnError"),
        ("numpy.exceptions", "AxisError", "AnError"),
        ("", "", "AnError"),
        ("course_tools.grading.sandbox.import_shim", "NotAvailable", "NotAvailable"),
    ],
)
def test_an_unknown_error_is_a_harmless_one_of_a_name_that_tells_nothing(module, kind, shown):
    error, _ = error_of(failure(kind, module=module), SOURCE)
    assert type(error).__name__ == shown
    assert type(error).__bases__ == (Exception,) or shown == "MyError"
    assert not isinstance(error, TimedOut)


def test_errors_that_cannot_be_made_from_words_keep_their_name():
    error, _ = error_of(failure("UnicodeDecodeError", "bad byte"), SOURCE)
    assert (type(error).__name__, str(error)) == ("UnicodeDecodeError", "bad byte")


@pytest.mark.parametrize(
    ("where", "kept"),
    [("return x * 0.5", True), ("raise MyError('no')", True), ("x = 1.5, -2.25", False), ("return x", False), ("", False)],
)
def test_a_line_is_kept_where_the_student_wrote_it(where, kept):
    assert error_of(failure(where=where), SOURCE)[1] == (where if kept else "")


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("no", False),
        ("mat1 and mat2 shapes cannot be multiplied (3x5 and 7x11)", False),
        ("The size of tensor a (3) must match the size of tensor b (5) at non-singleton dimension 1", False),
        ("mask is (2, 1, 3), scores are (2, 4, 3)", False),
        (str(X.tolist()), True),
        ("tensor([[ 1.5000, -2.2500]])", True),
        ("1e-05", True),
        ("152503125", True),
        (" ".join(map(str, range(40))), True),
        ("tensor([1., 2.])", True),
    ],
)
def test_words_that_could_tell_an_input_are_not_shown(text, hidden):
    shown = without_values(f"It raised ValueError: {text}", ValueError(text))
    assert shown == f"It raised ValueError: {HIDDEN if hidden else text}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [({}, "dict"), (b"x", "bytes"), (lambda: 0, "function"), (torch.eye(2).to_sparse(), "object"), (1j, "complex")],
)
def test_a_value_of_another_type_is_known_by_a_name_that_tells_nothing(value, shown):
    (result,) = read(results=(value,)).results
    assert type(result).__name__ in (shown, "object")
    assert result != value


@pytest.mark.parametrize("kind", ["FileNotFoundError", "PermissionError", "IsADirectoryError", "OSError"])
def test_an_error_reveals_neither_a_path_nor_whether_a_file_exists(kind):
    failure = {"module": "builtins", "kind": kind, "text": f"[Errno 2] {kind}: '/elsewhere/exam'", "where": "", "bare": False}
    error, _ = error_of(failure, "open('/elsewhere/exam')")
    assert (type(error), str(error)) == (OSError, "a file or system call was refused")
