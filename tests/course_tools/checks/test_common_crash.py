"""Errors that beginners make in any exercise are named from exact evidence, and earn points by what is right beside them."""

import math

import einops
import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from course_lib import shapes
from course_lib.attention import attend, pool, scaled_dot_product_attention
from course_lib.attention.linear import divide, mask_features
from course_lib.primitives import layer_norm, rnn_step
from course_tools.bank import exercise, verdict
from course_tools.checks.common_crash import KINDS
from course_tools.checks.exercise import Severity
from course_tools.checks.judge_answer import ONLY_CRASHES
from course_tools.checks.outcome import observe
from tests.course_tools.bank.answers.unusual import raises


def by_if(x):
    if x > 0:
        return x
    return -x


def until_small(x):
    while x > 1:
        x = x / 2
    return x


def into(x):
    x += 1
    return x


def shifts_in_place(mask):
    mask = mask.clone()
    mask[..., 1:] = mask[..., :-1]
    return mask


def cuts_into_pieces_of_two(x):
    a, b = x.split(2, dim=-1)
    return a + b


def needs_a_mask(x, mask=None):
    mask = mask[:, None]
    return x.masked_fill(mask, 0.0)


def reads_an_lstm(x):
    states = nn.LSTM(3, 3)(x)
    return F.linear(states, torch.ones(2, 3))


def unpacks(x):
    B, T, d = x.shape
    return B + T + d


def imports(x):
    import torch_scatter

    return torch_scatter.scatter(x)


def imports_of_torch(x):
    import torch.attention

    return torch.attention(x)


def a_helper_returns_nothing(x, mask=None):
    mask = print if mask else None
    return mask.shape


class WithoutInit(torch.nn.Module):
    def __init__(self):
        self.layer = torch.nn.Linear(3, 3)


def pair(x):
    return x, x


def twice(x):
    return pair(x) * 0.5


ONE, TWO, BATCH = torch.randn(3), torch.randn(2, 3), torch.randn(2, 5, 3)
MASK, CLASSES = TWO > 0, torch.zeros(2, 5, dtype=torch.long)

NAMED = [
    ("all axes", lambda x: x @ x.T, [BATCH]),
    ("all axes", lambda x: x @ x.t(), [BATCH]),
    ("not transposed", lambda x, W: x @ W, [TWO, torch.randn(5, 3)]),
    ("not transposed", lambda x, y: torch.matmul(x, y), [TWO, torch.randn(2, 7)]),
    ("other factor", lambda x, W: x.mT @ W, [torch.randn(5, 3), torch.randn(7, 3)]),
    ("classes", lambda x, y: F.cross_entropy(x, y), [BATCH, CLASSES]),
    ("integers", lambda x, y: F.cross_entropy(x, y), [TWO, torch.zeros(2)]),
    ("integers", lambda x, i: x[i], [TWO, torch.zeros(2)]),
    ("integers", lambda x, i: x.gather(-1, i), [TWO, torch.zeros(2, 1)]),
    ("integers", lambda x, i: F.embedding(i, x), [TWO, torch.zeros(2)]),
    ("not for integers", lambda x: x.long().softmax(-1), [TWO]),
    ("not for integers", lambda x: (x > 0).mean(), [TWO]),
    ("not for integers", lambda x: x.long().norm(), [TWO]),
    ("outer", lambda x: torch.outer(x, x), [TWO]),
    ("truth", by_if, [TWO]),
    ("truth", by_if, [torch.zeros(0)]),
    ("truth", until_small, [TWO]),
    ("truth", lambda x: max(x, torch.zeros(3)), [ONE]),
    ("empty", lambda xs: torch.stack(xs), [[]]),
    ("empty", lambda xs: torch.cat([x.norm()[None] for x in xs]), [[]]),
    ("list of shapes", lambda xs: torch.cat(xs), [[TWO, ONE]]),
    ("list of shapes", lambda xs: torch.stack(xs), [[TWO, torch.ones(5, 3)]]),
    ("cat lacks an axis", lambda x, y: torch.cat([x, y]), [TWO, ONE]),
    ("cat of numbers", lambda x: torch.cat([x.sum(), x.norm()]), [TWO]),
    ("cat does not broadcast", lambda x, y: torch.cat([x, y], -1), [BATCH, torch.randn(2, 1, 7)]),
    ("cat axis", lambda x, y: torch.cat([x, y]), [TWO, torch.randn(2, 5)]),
    ("None", lambda x, mask=None: x.masked_fill(~mask, 0.0), [TWO]),
    ("None", lambda x, mask: mask.shape, [TWO, None]),
    ("None", lambda n, m=None: torch.ones(n, m), [2]),
    ("None", lambda n, m=None: torch.arange(end=m), [2]),
    ("None", lambda x, bias=None: x + bias, [TWO]),
    ("number", lambda x: x / torch.sqrt(x.shape[-1]), [TWO]),
    ("math", lambda x: math.exp(x), [TWO]),
    ("one entry", lambda x: x.sum(-1).item(), [TWO]),
    ("one entry", lambda x: float(x), [torch.zeros(0)]),
    ("one entry", lambda x: int(x), [TWO]),
    ("no attribute of a number", lambda x: x.shape[-1].sqrt(), [TWO]),
    ("no attribute of a list", lambda x: x.tolist().sum(), [TWO]),
    ("lacks an axis", lambda x: x / x.sum(-1), [torch.randn(5, 3)]),
    ("lacks an axis", lambda x: x / x.sum(-1), [torch.randn(2, 3, 3)]),
    ("lacks an axis", lambda x, mask: torch.where(mask, x, 0 * x), [BATCH, torch.ones(2, 5).bool()]),
    ("column", lambda n, m: torch.arange(n) >= torch.arange(m), [3, 5]),
    ("column", lambda x, speeds: x * speeds, [torch.randn(7), torch.randn(5)]),
    ("chain", lambda x: x >= 0 & x < 3, [torch.arange(5)]),
    ("chain", lambda x: 0 < x < 1, [TWO]),
    ("axes", unpacks, [TWO]),
    ("reshape", lambda x: x.reshape(4, 2), [TWO]),
    ("reshape", lambda x: x.unflatten(-1, (2, 2)), [TWO]),
    ("invented", lambda x: x.sofmax(-1), [TWO]),
    ("invented", lambda x: torch.dot_product(x, x), [TWO]),
    ("invented", lambda x: x.astype("float32"), [TWO]),
    ("elsewhere", lambda x: torch.elu(x), [TWO]),
    ("elsewhere", lambda x: torch.repeat(x, 2), [TWO]),
    ("elsewhere", lambda x: torch.Linear(3, 3)(x), [TWO]),
    ("package", imports, [TWO]),
    ("package", imports_of_torch, [TWO]),
    ("several results", lambda x: x - x.max(-1), [TWO]),
    ("several results", lambda x: torch.exp(x.max(-1)), [TWO]),
    ("several results", lambda x: x.topk(2).exp(), [TWO]),
    ("several results", lambda x: x.max(-1) * 0.5, [TWO]),
    ("several results", lambda x: attend(x, x.mT) * 0.5, [TWO]),
    ("several results", lambda x: attend(x, x.mT) / 2, [TWO]),
    ("several results", twice, [TWO]),
    ("minus of bool", lambda mask: 1 - mask, [MASK]),
    ("minus of bool", lambda mask: -mask, [MASK]),
    ("mask of numbers", lambda x: x.masked_fill(~x, 0.0), [TWO]),
    ("mask of numbers", lambda x, mask: x.masked_fill(mask, 0.0), [TWO, TWO]),
    ("mask of numbers", lambda x: torch.where(x, x, 0.0), [TWO]),
    ("mask of numbers", lambda x: (x > 0) & x, [TWO]),
    ("index lacks axes", lambda x, i: x.gather(-1, i), [TWO, torch.zeros(2).long()]),
    ("dtypes", lambda x: x @ torch.ones(3, 2).long(), [TWO]),
    ("dtypes", lambda x: x @ torch.ones(3).long(), [TWO]),
    ("dtypes", lambda x: x @ torch.ones(2, 3, 5).double(), [BATCH]),
    ("dtypes", lambda x: torch.zeros(3).scatter_add(0, x, x), [torch.zeros(3).long()]),
    ("in place", into, [TWO]),
    ("view", lambda x: x.mT.view(6), [TWO]),
    ("einsum axes", lambda x: torch.einsum("nd,md->nm", x, x), [BATCH]),
    ("einsum sizes", lambda x, W: torch.einsum("nd,do->no", x, W), [TWO, torch.randn(5, 3)]),
    ("einsum letters", lambda x: torch.einsum("... T d_v -> ... d_v", x), [TWO]),
    ("einsum letters", lambda x: einops.einsum("... T d_v -> ... d_v", x), [TWO]),
    ("einops sizes", lambda x: rearrange(x, "... (h d) -> ... h d"), [TWO]),
    ("undefined", lambda x: tanh(x), [TWO]),
    ("float size", lambda x: x.unflatten(-1, (3, x.shape[-1] / 3)), [TWO]),
    ("float size", lambda x: [x for _ in range(x.shape[-1] / 3)], [TWO]),
    ("split", cuts_into_pieces_of_two, [torch.randn(2, 8)]),
    ("None", needs_a_mask, [TWO, None]),
    ("linear", lambda x, W: F.linear(x, W.mT), [TWO, torch.randn(5, 3)]),
    ("matrices only", lambda x: torch.mm(x, x.mT), [BATCH]),
    ("matrices only", lambda x: torch.bmm(x, x.mT), [TWO]),
    ("matrices only", lambda x, b: torch.addmm(b, x, x.mT), [BATCH, ONE]),
    ("matrices only", lambda x: torch.linalg.multi_dot([x, x.mT, x]), [BATCH]),
    ("permute", lambda x: x.permute(0, 2, 1), [TWO]),
    ("too many indices", lambda x: x[0, :, 0], [TWO]),
    ("no such axis", lambda x: x.sum().mean(1), [TWO]),
    ("mask shape", lambda x, mask: x[~mask], [BATCH, torch.ones(2, 1, 3).bool()]),
    ("norm shape", lambda x, gain: F.layer_norm(x, x.shape[-2:], gain), [BATCH, ONE]),
    ("rows", lambda x, y: F.cross_entropy(x.flatten(1), y.flatten()), [BATCH, CLASSES]),
    ("one by one", lambda x, pair: layer_norm(x, pair), [TWO, (ONE, ONE)]),
    ("one by one", lambda x, pairs: layer_norm(x, pairs[0]), [TWO, ((ONE, ONE),)]),
    ("one by one", lambda x, words: pool(x, words), [TWO, (TWO, ONE, ONE)]),
    ("overlap", shifts_in_place, [ONE.repeat(3) > 0]),
    ("grows in place", lambda x: torch.ones(3).mul_(x), [TWO]),
    ("nothing to reduce", lambda x: x[:0].max(), [ONE]),
    ("nothing to reduce", lambda x: x[:, :0].argmin(-1), [TWO]),
    ("negative size", lambda n: torch.zeros(n, n - 5), [3]),
    ("negative size", lambda n: torch.zeros(n - 5, dtype=torch.bool), [3]),
    ("no such class", lambda x: F.cross_entropy(x, torch.tensor([3, 0])), [TWO]),
    ("not transposed", lambda x, W: x @ W, [BATCH, torch.randn(5, 3)]),
    ("device", lambda x: x.to("meta") + x[0], [TWO]),
    ("None", lambda x, mask=None: x.masked_fill(mask == 0, -1.0), [TWO]),
    ("init", lambda x: WithoutInit(), [TWO]),
    ("numpy", lambda x: x.numpy(), [TWO]),
    ("float size", lambda x: x.unflatten(-1, (3 / 1, 1)), [TWO]),
    ("float size", lambda x: x.chunk(4 / 2), [TWO]),
    ("float size", lambda x: x[: 4 / 2], [TWO]),
    ("float size", lambda x: torch.ones(4 / 2), [TWO]),
    ("no multiple", lambda x: rearrange(x, "t (h d) -> h t d", h=2), [TWO]),
    ("no such row", lambda x: F.embedding(torch.tensor([2]), x), [TWO]),
    ("dtypes", lambda x: nn.LSTM(3, 2)(x.long()), [TWO]),
    ("several results", reads_an_lstm, [TWO]),
]

NOT_NAMED = [
    (lambda x: x @ x, [torch.randn(2, 3, 5)]),  # no factor that is transposed makes it run
    (lambda x, y: x + y, [torch.randn(2, 3), torch.randn(2, 5)]),
    (lambda x, y: torch.cat([x, y]), [TWO, torch.randn(5, 7)]),
    (lambda x, y: F.cross_entropy(x, y), [BATCH, torch.zeros(2, 7).long()]),
    (lambda x: x.size() * 0.5, [TWO]),  # a size, and no several results of a function
    (lambda x: x.size() + 1, [TWO]),
    (lambda x: x.tolist() * 0.5, [TWO]),
    (lambda x: torch.stack([]), [TWO]),
    (lambda x, rows=None: pair(x)[2], [TWO]),
    (lambda x, mask=None: ({}.get(0)).shape, [TWO]),  # None, but not the argument
    (a_helper_returns_nothing, [TWO, True]),
    (lambda x: math.no_such_function(x), [TWO]),
    (lambda x, pair: layer_norm(x, *pair[:1]), [TWO, (ONE, ONE)]),  # unpacked, but too short
    (lambda x: round(x), [TWO]),
    (raises(RuntimeError("Boolean value of Tensor with more than one value is ambiguous")), []),
    (lambda x: scaled_dot_product_attention(x, x.mT, x), [TWO]),  # raised in the library
]


def observed(answer, inputs):
    return observe(answer, tuple(inputs), gradients=any(torch.is_tensor(x) and x.is_floating_point() for x in inputs))


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@pytest.mark.parametrize(("kind", "answer", "inputs"), NAMED)
def test_an_error_is_of_its_kind(kind, answer, inputs):
    found = observed(answer, inputs)
    assert found.crash is not None, found.error
    assert found.crash.kind == kind, found.error


def test_each_kind_is_tried():
    assert {kind for kind, _, _ in NAMED} == set(KINDS)


@pytest.mark.parametrize(("answer", "inputs"), NOT_NAMED)
def test_an_error_without_exact_evidence_has_no_kind(answer, inputs):
    found = observed(answer, inputs)
    assert found.error is not None
    assert found.crash is None or found.crash.kind == "", found.error


def applies_weights(x):
    x, W = torch.ones(3, 4), torch.ones(6, 8)
    return x @ W


def applies_turned_weights(x):
    x, W = torch.ones(3, 4), torch.ones(6, 8)
    return x @ W.mT


ADVISED = [
    (lambda x: torch.stack([]), "may be empty"),
    (lambda x: x.sum().size(0), "summed too far"),
    (applies_weights, "Weights W (out, in) are applied as `x @ W.mT`."),
    (lambda x: torch.ones(3, 4) @ torch.ones(6, 8), "the one before the last of the right."),
    (lambda x: torch.ones(3, 4) @ torch.ones(3, 4), "entry by entry, as ⊙ is, write `*`"),
    (lambda x: torch.ones(2, 3, 4) @ torch.ones(7), "A vector needs an axis of size 1"),
    (lambda x: torch.ones(3, 4) + torch.ones(5, 7), "cut, repeated or padded"),
    (lambda x: torch.cat([torch.ones(3, 4), torch.ones(6, 8)]), "`stack` makes a new axis"),
    (lambda x: F.cross_entropy(torch.ones(2, 5, 7), torch.zeros(2, 5).long()[:, 1:]), "classes on axis 1"),
    (lambda x: x[torch.tensor([-4])], "negative index"),
    (lambda x: [a for a, b in [(x,)]], "on the left"),
]


@pytest.mark.parametrize(("answer", "advice"), ADVISED)
def test_an_error_whose_kind_is_not_certain_comes_with_advice(answer, advice):
    message = verdict("14.1", answer).message
    assert advice in message
    assert verdict("14.1", answer).misconception is None


def dot(scores):
    """An answer to 04.1 with other scores."""

    def answer(q, k, v, mask=None):
        return attend(scores(q, k) / k.shape[-1] ** 0.5, v, mask)

    return answer


def for_none(gradients, max_norm):
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    return [gradient * (max_norm / norm).clamp(max=1.0) for gradient in gradients]


def causal(T_q, T_k=None, device=None):
    return torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril(T_k - T_q)


def no_position_axis(q, k, v, mask=None):
    S, z = k.mT @ v, k.sum(-2)
    return q @ S / (q * z).sum(-1, keepdim=True)


def all_axes(phi_q, phi_k, v, mask=None):
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k.T @ v), phi_q @ phi_k.sum(-2)[..., None])


VERDICTS = [
    ("14.2", all_axes, "all axes"),
    ("17.3", lambda x, g, u, d: (F.silu(x @ g.mT) * (x @ u.mT)).matmul(d), "not transposed"),
    ("01.1", lambda x, h, W, U, b: torch.tanh(x.mT @ W.mT + h @ U.mT + b), None),
    ("14.2", lambda phi_q, phi_k, v, mask=None: torch.outer(phi_q, phi_k) @ v, "outer"),
    ("14.2", no_position_axis, "lacks an axis"),
    ("01.3", for_none, "empty"),
    ("04.2", causal, "None"),
]


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@pytest.mark.parametrize(("id", "answer", "kind"), VERDICTS)
def test_a_common_error_is_told_and_earns_points_if_the_answer_runs(id, answer, kind):
    found = verdict(id, answer)
    assert found.misconception == (None if kind is None else KINDS[kind].text)
    if kind is None:
        return
    low, high = Severity[KINDS[kind].severity].limits(found.max_points)
    assert not found.passed
    assert found.points <= high or found.findings[0].status == "holds"
    assert found.points >= low or found.findings[0].status == "fails"


def for_a_mask(q, k, v, mask=None):
    return attend((q @ k.mT / k.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf), v, mask)


def for_a_mask_without_the_scale(q, k, v, mask=None):
    return attend((q @ k.mT).masked_fill(~mask, -torch.inf), v, mask)


def only_the_second_time(answer):
    """An answer that is right except on the first of its calls, where a line raises an error."""
    calls = []

    def stumbles(*inputs):
        calls.append(inputs)
        return {}[0] if len(calls) < 3 else answer(*inputs)  # the first call is repeated to see where it raised

    return stumbles


def test_an_answer_that_crashes_on_the_first_inputs_is_judged_where_it_runs():
    """It loses each property with an input on which it crashes, and is told of the error once."""
    found, wrong = verdict("04.1", for_a_mask), verdict("04.1", for_a_mask_without_the_scale)
    assert found.misconception == wrong.misconception == KINDS["None"].text
    assert found.points == Severity.DETAIL.limits(found.max_points)[0] > wrong.points > 0
    status = {f.name: f.status for f in found.findings}
    assert (status["mask"], status["average"], status["shape"]) == ("holds", "skipped", "skipped")
    assert found.message.count("It raised") == wrong.message.count("It raised") == 1


@pytest.mark.parametrize("id", ["01.1", "04.1", "14.1"])
def test_a_crash_always_costs(id):
    """Even one that happens on no input for which a property earns points."""
    found = verdict(id, only_the_second_time(exercise(id).reference))
    assert not found.passed
    assert 0 < found.points == Severity.DETAIL.limits(found.max_points)[1] < found.max_points


def test_what_an_answer_prints_is_shown_until_its_first_error():
    def prints(q, k, v, mask=None):
        print("shapes", q.shape)
        return for_a_mask(q, k, v, mask)

    assert verdict("04.1", prints).printed.count("shapes") == 1


def test_an_error_of_its_own_ends_an_answer():
    def asserts(q, k, v, mask=None):
        assert mask is not None
        return attend((q @ k.mT / k.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf), v, mask)

    assert verdict("04.1", asserts).points == 0


def test_an_error_in_the_words_of_a_common_one_earns_nothing():
    words = "Boolean value of Tensor with more than one value is ambiguous"
    found = verdict("14.1", raises(RuntimeError(words)))
    assert (found.misconception, found.points) == (None, 0)


def test_an_answer_that_only_crashes_earns_nothing():
    found = verdict("04.1", lambda q, k, v, mask=None: (v, mask, torch.outer(q, k))[-1])
    assert (found.misconception, found.points) == (KINDS["outer"].text, 0)
    assert ONLY_CRASHES in found.message
    assert ONLY_CRASHES not in verdict("04.1", for_a_mask).message


def test_of_an_error_of_shapes_the_shapes_in_its_line_are_told():
    message = verdict("04.1", dot(lambda q, k: q @ k)).message
    assert "Write its shape beside each factor of this line: `q` (" in message
    assert "The operation that fails" not in message
    assert "Failing input: q (2, 5, 7) = (*batch, T_q, d_q), " in message


@pytest.mark.parametrize(
    ("line", "met"),
    [(lambda x: x.flatten() @ (x.mT @ x), "(143,) @ (11, 11)"), (lambda x: x.mT.square() + x.flatten(), "(11, 13) and (143,)")],
)
def test_the_shapes_that_meet_are_told_where_no_name_has_them(line, met):
    assert f"The operation that fails is given {met}." in verdict("14.1", lambda x: line(torch.ones(13, 11))).message


def divides_by(d_k):
    """An answer to 04.1 that names a size as the signature does."""
    text = f"def answer(q: Queries, k: Keys, v, mask=None):\n    return q @ k.mT / {d_k}**0.5\n"
    scope = vars(shapes).copy()
    exec(text, scope)
    return scope["answer"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("d_k", "In the signature, `d_k` is the name of an axis: its size is `k.shape[-1]`."),
        ("T_k", "its size is `k.shape[-2]`."),
        ("tanh", "`tanh` exists as `torch.tanh`."),
        ("np", "NumPy is not imported here: take the functions of torch."),
        ("masks", "The nearest name that is defined is `mask`."),
    ],
)
def test_what_is_meant_by_a_name_that_is_not_defined_is_told(name, said):
    assert said in verdict("04.1", divides_by(name)).message


def test_the_name_that_exists_is_told():
    assert "`F.elu`" in verdict("14.1", lambda x: torch.elu(x) + 1).message
    assert "`x.repeat`" in verdict("14.1", lambda x: torch.repeat(x, 2)).message


@pytest.mark.parametrize("answer", [applies_turned_weights, lambda x: torch.ones(3, 4) @ torch.ones(6, 8)])
def test_of_weights_nothing_is_said_where_there_are_none_or_they_are_turned(answer):
    message = verdict("14.1", answer).message
    assert "the last axis of the left tensor" in message
    assert "W.mT`" not in message.replace("line `return x @ W.mT`", "")


def test_the_argument_that_is_none_is_told_and_shown_among_the_inputs():
    for id, answer, name in (
        ("04.1", lambda q, k, v, mask=None: attend((q @ k.mT).masked_fill(~mask, -torch.inf), v), "mask"),
        ("04.2", causal, "T_k"),
    ):
        message = verdict(id, answer).message
        assert f"It is `{name}`." in message
        assert f"{name} = None" in message


def test_a_line_that_ends_in_a_colon_is_quoted_without_it():
    assert "in the line `if x > 0`: Boolean value" in verdict("14.1", by_if).message


def test_what_is_required_is_not_said_of_an_answer_that_does_not_run():
    message = verdict("01.1", raises(ValueError("no"))).message
    assert exercise("01.1").properties[0].law not in message
    wrong = verdict("01.1", lambda *inputs: rnn_step(*inputs) * 1.5).message
    assert ": Required: " in wrong
