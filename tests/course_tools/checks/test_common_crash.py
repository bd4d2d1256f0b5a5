"""Errors that beginners make in any exercise are named from exact evidence, and earn points if the answer runs."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import attend, scaled_dot_product_attention
from course_lib.primitives import rnn_step
from course_tools.bank import exercise, verdict
from course_tools.checks.common_crash import KINDS
from course_tools.checks.exercise import Severity
from tests.course_tools.bank.answers.unusual import raises


def dot(scores):
    """An answer to 04.1 with other scores."""

    def answer(q, k, v, mask=None):
        return attend(scores(q, k) / k.shape[-1] ** 0.5, v, mask)

    return answer


def outer(S, z, phi_q, phi_k, v):
    S, z = S + torch.outer(phi_k, v), z + phi_k
    return (phi_q[..., None, :] @ S)[..., 0, :] / (phi_q * z).sum(-1, keepdim=True), S, z


def elu_by_if(x):
    if x > 0:
        return x + 1
    return x.exp()


def joined(gradients, max_norm):
    scale = min(1.0, max_norm / torch.cat(gradients).norm())
    return [scale * gradient for gradient in gradients]


def numbers_joined(gradients, max_norm):
    norm = torch.cat([gradient.norm() for gradient in gradients]).norm()
    return [gradient * (max_norm / norm).clamp(max=1.0) for gradient in gradients]


def for_none(gradients, max_norm):
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    return [gradient * (max_norm / norm).clamp(max=1.0) for gradient in gradients]


def causal(T_q, T_k=None, device=None):
    return torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril(T_k - T_q)


def padding(lengths, T_k):
    return (torch.arange(T_k, device=lengths.device) < lengths)[:, None]


def next_token(logits, tokens, chosen):
    return F.cross_entropy(logits, torch.where(chosen, tokens, -100))


def no_position_axis(q, k, v, mask=None):
    S, z = k.mT @ v, k.sum(-2)
    return q @ S / (q * z).sum(-1, keepdim=True)


def weights_by_the_other_factor(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U, delta @ x.mT, delta @ h.mT, delta.sum(0)


def pair(q, k, v, mask=None):
    return scaled_dot_product_attention(q, k, v, mask) * 1.0


CRASHES = [
    ("04.1", dot(lambda q, k: q @ k.T), "all axes"),
    ("17.3", lambda x, g, u, d: (F.silu(x @ g.mT) * (x @ u.mT)).matmul(d), "not transposed"),
    ("01.1", lambda x, h, W, U, b: torch.tanh(x.mT @ W.mT + h @ U.mT + b), None),
    ("04.1", lambda q, k, v, mask=None: attend(q @ k.mT / torch.sqrt(k.shape[-1]), v, mask), "number"),
    ("04.1", dot(lambda q, k: q @ k.mT / math.sqrt(k.square().sum(-1))), "math"),
    ("04.1", dot(lambda q, k: torch.dot_product(q, k)), "invented"),
    ("04.1", dot(lambda q, k: q.matmul_transposed(k)), "invented"),
    ("01.2", weights_by_the_other_factor, "other factor"),
    ("04.1", pair, "several results"),
    ("14.4", outer, "outer"),
    ("14.1", elu_by_if, "truth"),
    ("14.2", no_position_axis, "lacks an axis"),
    ("01.3", joined, "list of shapes"),
    ("01.3", for_none, "empty"),
    ("01.3", numbers_joined, "cat of numbers"),
    ("14.1", lambda x: torch.elu(x) + 1, "elsewhere"),
    ("01.1", lambda x, h, W, U, b: torch.tanh(torch.cat([x, h], -1) @ torch.cat([W, U]).mT + b), "cat axis"),
    ("04.2", causal, "None"),
    ("04.3", padding, "column"),
    ("08.3", next_token, "classes"),
]


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@pytest.mark.parametrize(("id", "answer", "kind"), CRASHES)
def test_a_common_error_is_named_by_what_fails(id, answer, kind):
    found = verdict(id, answer)
    assert found.misconception == (None if kind is None else KINDS[kind].text)
    if kind is not None and found.findings[0].status == "fails":
        assert found.points == 0
    elif kind is not None:
        least = Severity[KINDS[kind].severity].limits(found.max_points)[0]
        assert found.points >= least
        assert not found.passed


def test_an_error_in_the_words_of_a_common_one_is_not_named():
    words = "Boolean value of Tensor with more than one value is ambiguous"
    found = verdict("14.1", raises(RuntimeError(words)))
    assert (found.misconception, found.points) == (None, 0)


def test_an_answer_that_only_crashes_earns_nothing():
    found = verdict("04.1", lambda q, k, v, mask=None: (v, mask, torch.outer(q, k))[-1])
    assert (found.misconception, found.points) == (KINDS["outer"].text, 0)


def test_an_error_inside_a_function_of_the_course_is_not_named():
    found = verdict("04.1", lambda q, k, v, mask=None: scaled_dot_product_attention(q, k.mT, v, mask))
    assert found.misconception not in {kind.text for kind in KINDS.values()}


def test_of_an_error_of_shapes_the_shapes_in_its_line_are_told():
    message = verdict("04.1", dot(lambda q, k: q @ k)).message
    assert "Write its shape beside each factor of this line: `q` (" in message


def test_a_name_of_another_module_is_suggested():
    assert "`elu` is in torch.nn.functional: `F.elu`." in verdict("14.1", lambda x: torch.elu(x) + 1).message


def test_what_is_required_is_not_said_of_an_answer_that_does_not_run():
    message = verdict("01.1", raises(ValueError("no"))).message
    assert exercise("01.1").properties[0].law not in message
    wrong = verdict("01.1", lambda *inputs: rnn_step(*inputs) * 1.5).message
    assert ": Required: " in wrong
