"""A forbidden function earns nothing, whichever way it is called and whatever is done to what watches."""

import pytest
import torch

from course_tools.bank import exercise, exercises, verdict
from course_tools.grading.extract.programs import Notebook
from tests.course_tools.grading.attacks import on_the_watcher
from tests.course_tools.grading.attacks.stage import _code
from tests.course_tools.grading.conftest import submitted

HIDDEN = [f.__name__ for f in vars(on_the_watcher).values() if getattr(f, "__module__", "") == on_the_watcher.__name__]
WAYS = {
    "01.2": HIDDEN,
    "01.3": ["from_its_bytecode", "from_its_text", "loaded_again"],
    "01.4": ["in_a_bare_thread", "unhooked"],
    "04.5": ["under_other_code", "unhooked", "without_its_notes"],
}
LSTM_BY_HAND = """
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    new = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new
"""
BPTT = """
def bptt_step(grad_h_new, x, h, h_new, W, U):
    b = torch.atanh(h_new) - x @ W.mT - h @ U.mT
    given = [t.detach().requires_grad_() for t in (x, h, W, U, b)]
    with torch.enable_grad():
        out = torch.tanh(given[0] @ given[2].mT + given[1] @ given[3].mT + given[4])
    found = {call}
    return (*found[:4], found[4].sum(0))
"""
LSTM = """
def lstm_step(x, h, c, W, U, b):
    wide = [t.reshape(-1, t.shape[-1]) for t in (x, h, c)]
    new = {call}
    return tuple(t.reshape(h.shape) for t in new)
"""
CLIP = """
def clip_gradients(gradients, max_norm):
    copies = [torch.nn.Parameter(g.clone()) for g in gradients]
    for copy, g in zip(copies, gradients):
        copy.grad = g.clone()
    {call}
    return [copy.grad for copy in copies]
"""
HEADS = """
def multi_head_attention(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = (t.reshape(-1, *t.shape[-2:]).transpose(0, 1) for t in (queries, keys, values))
    E = queries.shape[-1]
    if E % n_heads or not E == len(W_q) == len(W_v) == len(W_o):
        batch, pairs = queries.shape[:-2], (queries.shape[-2], keys.shape[-2])
        return queries.new_zeros(*queries.shape[:-1], len(W_o)), queries.new_zeros(*batch, n_heads, *pairs)
    hidden = None if mask is None else ~mask.expand(len(q), len(k))
    rest = (None, None, None, False, 0.0, W_o, None, False, None, True, hidden, True, W_q, W_k, W_v, None, None, False)
    context, weights = {call}
    return context.transpose(0, 1).reshape(*queries.shape[:-1], -1), weights.reshape(*queries.shape[:-2], *weights.shape[1:])
"""
GRAD = "out, given, grad_h_new"
CELL = "wide[0], tuple(wide[1:]), W, U, b, 0 * b"
ANSWERS = {
    "01.2": BPTT.format(call=f"way(torch.autograd.grad, {GRAD})"),
    "01.3": CLIP.format(call="way(torch.nn.utils.clip_grad_norm_, copies, max_norm)"),
    "01.4": LSTM.format(call=f"way(torch.lstm_cell, {CELL})"),
    "04.5": HEADS.format(call="way(torch.nn.functional.multi_head_attention_forward, q, k, v, E, n_heads, None, *rest)"),
}
ENGINE = (
    "torch.autograd.Variable._execution_engine.run_backward((out,), (grad_h_new,), False, False, tuple(given), True, False)"
)
BELOW = {
    "the engine of autograd": ("01.2", BPTT.format(call=ENGINE)),
    "another engine of autograd": (
        "01.2",
        BPTT.format(call=ENGINE.replace("Variable._execution_engine", "Variable._execution_engine.__class__()")),
    ),
    "the engine by its own function": (
        "01.2",
        BPTT.format(
            call="torch.autograd.graph._engine_run_backward((out,), (grad_h_new,), False, False, tuple(given),"
            " allow_unreachable=True, accumulate_grad=False)"
        ),
    ),
    "the operator": ("01.4", LSTM.format(call=f"torch.ops.aten.lstm_cell({CELL})")),
    "the operator without its name": ("01.4", LSTM.format(call=f"torch._C._jit_get_operation('aten::lstm_cell')[0]({CELL})")),
    "the kernel of the operator": ("01.4", LSTM.format(call=f"torch.ops.aten.lstm_cell.default.decompose({CELL})")),
    "a module of torch": (
        "01.4",
        LSTM.format(
            call="torch.func.functional_call(torch.nn.LSTMCell(x.shape[-1], h.shape[-1]), dict(weight_ih=W, weight_hh=U,"
            " bias_ih=b, bias_hh=0 * b), (wide[0], tuple(wide[1:])))"
        ),
    ),
    "a compiled function": (
        "01.4",
        "compiled = torch.jit.CompilationUnit('def f(x, h, c, W, U, b):\\n  return torch.lstm_cell(x, [h, c], W, U, b, 0 * b)')"
        + LSTM.format(call="compiled.f(wide[0], wide[1], wide[2], W, U, b)"),
    ),
    "the operator's definition for compilers": (
        "01.4",
        "from torch._decomp.decompositions import lstm_cell"
        + LSTM.format(call="lstm_cell(wide[0] @ W.mT + b, wide[1], wide[2], U, None, None, -1)"),
    ),
    "another operator": (
        "01.4",
        LSTM.format(
            call="torch.ops.aten.mkldnn_rnn_layer("
            "wide[0][None], W, U, b, 0 * b, wide[1], wide[2], False, [], 2, h.shape[-1], 1, True, False, False, True)[1:3]"
        ),
    ),
}


def source(answer, way):
    return f"import torch\n{_code(on_the_watcher.__name__)}\nway = {way}\n{answer}"


def mark_of(engine, id, text):
    return engine.mark(Notebook(submitted(exercise(id), text), exercise(id).lecture), exercise(id))


def in_a_notebook(id, text):
    names = {}
    exec(text, names)
    return verdict(id, names[exercise(id).reference.__name__])


@pytest.mark.parametrize(("id", "way"), [(id, way) for id in ANSWERS for way in WAYS[id]])
def test_a_forbidden_function_earns_nothing_whichever_way_it_is_called(engine, id, way):
    mark = mark_of(engine, id, source(ANSWERS[id], way))
    assert (mark.points, mark.passed) == (0, False)


@pytest.mark.parametrize(("id", "answer"), BELOW.values(), ids=BELOW)
def test_what_lies_below_a_forbidden_function_earns_nothing(engine, id, answer):
    mark = mark_of(engine, id, f"import torch\n{answer}")
    assert (mark.points, mark.passed) == (0, False)


@pytest.mark.parametrize("id", ANSWERS)
def test_the_points_of_a_forbidden_call_are_those_of_the_notebook_and_it_is_flagged(engine, id):
    text = source(ANSWERS[id], "seen")
    mark, found = mark_of(engine, id, text), in_a_notebook(id, text)
    assert mark.points == found.points == 0
    assert mark.flags
    assert "by hand" in {finding.name for finding in mark.findings} & {finding.name for finding in found.findings}


def test_a_comparison_with_a_forbidden_function_beside_the_answer_costs_nothing(engine):
    right = "def lstm_step(x, h, c, W, U, b):\n" + LSTM_BY_HAND
    compared = "expected = torch.lstm_cell(torch.ones(1, 2), (torch.ones(1, 3),) * 2, torch.ones(12, 2), torch.ones(12, 3))"
    mark = mark_of(engine, "01.4", f"import torch\n{right}\n{compared}\nprint(expected)")
    assert (mark.passed, mark.flags) == (True, ())


def test_an_exercise_that_forbids_autograd_asks_for_no_gradient():
    """Inside the sandbox autograd is not there for such an exercise."""
    forbidding = [item for item in exercises() if torch.autograd.grad in item.forbids]
    assert forbidding
    assert not [item.id for item in forbidding if any(prop.with_gradients for prop in item.properties)]
