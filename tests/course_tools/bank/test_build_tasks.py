"""Build tasks: every wrong submission is told its own mistake, every right one earns all points, whatever its design.

Each of these trains a model: without `--full`, only the shortest wrong training of each task is tried, and what the engine says
of a model that was not trained in three tasks. The reference is tried by the grader of the solved notebooks
(tests/course_tools/grading/test_handed_out.py).
"""

import copy
import gc
import inspect
import logging
import sys
import traceback
from collections import namedtuple
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_tools.bank import exercise, exercises
from course_tools.bank.image_classifiers import adds_up_patches
from course_tools.bank.lecture_14.train_linear_transformer import SmallLinearTransformer
from course_tools.bank.lecture_14.train_linear_transformer import submit as submit_linear
from course_tools.bank.stepwise_models import steps
from course_tools.checks import Exercise
from course_tools.checks.judge_answer import Examination
from course_tools.checks.state_probe import read_by_steps
from course_tools.checks.trained import no_weight_is_stepped
from course_tools.checks.training_record import Measured, Recorder, measure
from course_tools.grading.sandbox.sandbox import LONGEST_TRAINING
from tests.course_tools.judged import examination, judged, misconception, outcomes

BUILDS = [item for item in exercises() if item.training is not None]


def submission(item, answer, *marks):
    """The arguments of a test that is given a submission to a build task."""
    return pytest.param(item.id, answer, marks=marks, id=f"{item.id}-{answer.__name__}")


FULL = pytest.mark.full
AT_ONCE = {
    "trained": {
        *("differs_when_asked_again", "gradients_are_kept", "weights_without_gradient", "weights_left_out"),
        *("reads_other_examples", "has_no_attention"),
    },
    "decoders": {"has_random_logits", "reads_the_token_it_predicts", "ignores_the_target", "ignores_the_inputs"},
    "language_models": {"reads_the_future", "ignores_the_order", "gives_probabilities"},
    "train_detector": {"changes_with_the_order", "changes_with_the_padding", "weighs_all_alike", "divides_by_the_queries"},
}
OF_THE_DESIGN = {
    *("stepwise_models", "train_adder", "train_llama", "train_mixer", "train_translator"),
}
"""Evidence that sees how a model is built or trained, and not what it has learned; all of a module, or these."""
SOONER = 4
"""With such evidence, a mistake is looked for after so small a part of the updates."""


def shows_at_once(wrong):
    """Never in a rival: it would be told that it is trained less than the model."""
    proof = getattr(wrong, "proof", None)
    if not inspect.isfunction(proof) or wrong.__module__.endswith("_rival"):
        return False
    module = proof.__module__.rpartition(".")[2]
    return module in OF_THE_DESIGN or proof.__name__ in AT_ONCE.get(module, ())


def sooner(wrong):
    return lambda *data: wrong(*data[:-1], max(1, data[-1] // SOONER))


def shortest(item):
    """The wrong submission that makes the fewest updates, but some."""
    some = [wrong for wrong in item.wrong if wrong.__name__ != "never_updated"]
    return min(some, key=lambda wrong: getattr(wrong, "part", 1.0) / (SOONER if shows_at_once(wrong) else 1))


WRONG = [submission(item, f, *[FULL][: f is not shortest(item)]) for item in BUILDS for f in item.wrong]
RIGHT = [submission(item, f, FULL) for item in BUILDS for f in item.right]


@pytest.mark.parametrize(("id", "wrong"), WRONG)
def test_a_wrong_submission_is_refused_with_its_own_mistake(id, wrong, request):
    """A mistake that shows at once is looked for early in the training; with `--seeds`, whatever the number, at its end."""
    early = shows_at_once(wrong) and request.config.getoption("--seeds") is None
    found = judged(id, sooner(wrong) if early else wrong)
    assert not found.passed
    assert 0 < found.points < found.max_points
    assert sum(finding.status == "adjusts" for finding in found.findings) <= 1
    assert (found.misconception if hasattr(wrong, "proof") else found.suspected) == misconception(wrong)


@pytest.mark.parametrize(("id", "right"), RIGHT)
def test_a_right_submission_of_any_design_earns_all_points(id, right):
    found = judged(id, right)
    assert (found.passed, found.points, found.misconception, found.suspected) == (True, found.max_points, None, None), (
        found.message
    )


def apart(item):
    """Leave a task to `--full`, unless it is one of three that differ: a classifier, a translator, a language model."""
    return [] if item.id in ("01.6", "05.8", "07.7") else [FULL]


NEVER = [submission(item, wrong, *apart(item)) for item in BUILDS for wrong in item.wrong if wrong.__name__ == "never_updated"]


@pytest.mark.parametrize(("id", "wrong"), NEVER)
def test_a_model_that_is_returned_as_it_was_drawn_is_told_so(id, wrong):
    found = judged(id, wrong)
    assert found.misconception == misconception(wrong)
    assert 0 < found.points <= found.max_points // 3


def without_an_update(build, monkeypatch):
    return lambda *data: build.reference(*data[:-1], 0)


class Idle(torch.optim.Optimizer):
    """Steps that change nothing, whatever learning rate a scheduler sets."""

    def __init__(self, parameters, lr=0.0, betas=(0.9, 0.999), **options):
        super().__init__(parameters, {"lr": lr, "betas": betas})

    def step(self, closure=None):
        pass


def with_updates_that_change_nothing(build, monkeypatch):
    for name in ("Adam", "AdamW", "SGD"):
        monkeypatch.setattr(torch.optim, name, Idle)
    return lambda *data: build.reference(*data[:-1], data[-1] // 10)


def after_a_twentieth_of_the_updates(build, monkeypatch):
    """The loss falls, and the model has hardly learned."""
    return lambda *data: build.reference(*data[:-1], max(data[-1] // 20, 1))


@pytest.mark.parametrize(
    "idle",
    [
        without_an_update,
        with_updates_that_change_nothing,
        pytest.param(after_a_twentieth_of_the_updates, marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("id", [pytest.param(item.id, marks=apart(item)) for item in BUILDS])
def test_a_model_that_has_not_learned_earns_a_third_of_the_points_at_most(id, idle, monkeypatch):
    build_task = exercise(id)
    found = examination(build_task.id).examine(idle(build_task, monkeypatch))
    learned = next(finding for finding in found.findings if finding.name == build_task.training.learned)
    assert learned.status != "holds" or idle is after_a_twentieth_of_the_updates
    assert 0 < found.points <= (found.max_points - 1 if learned.status == "holds" else found.max_points / 3), found.message


WITHOUT = {
    "no methods": {"steps": []},
    "no empty prompt": {"steps": [], "begins": False},
    "no module": {"n_parameters": -1, "read": [], "read_inside": []},
    "no loss": {"losses": torch.zeros(0), "n_updates": 0},
}


@pytest.mark.parametrize("lacks", WITHOUT)
@pytest.mark.parametrize("id", ["14.6", "17.7", "18.6"])
def test_no_evidence_and_no_judge_fails_where_a_model_lacks_something(id, lacks):
    asks, build = examination(id), exercise(id)
    [got] = outcomes(id, untrained(id))
    measured = Measured(*got.results)._replace(**WITHOUT[lacks])
    for wrong in build.wrong:
        for shows in (getattr(wrong, kind) for kind in ("proof", "suspicion") if hasattr(wrong, kind)):
            assert shows(measured, asks._truth) in (True, False)
    failed = [f.name for f in asks.judge([replace(got, results=tuple(measured))]).findings if f.status == "fails"]
    assert ("steps" in failed) == (WITHOUT[lacks].get("steps") == [])


@cache
def untrained(id):
    return lambda *data: exercise(id).reference(*data[:-1], 0)


class CountsFromOne(SmallLinearTransformer):
    """The first token that is stepped has the position 1, and in the parallel form 0."""

    def start(self, tokens):
        S, z, t = super().start(tokens[:, :0])
        state = S, z, t + 1
        for token in tokens.unbind(1):
            _, state = self.step(token, state)
        return state

    def embed(self, tokens, positions):
        return super().embed(tokens, positions.clamp(max=255))


def test_positions_that_are_counted_from_one_are_told_of_as_a_cause():
    found = examination("14.6").examine(lambda *data: submit_linear(data, model=CountsFromOne, part=0.1))
    assert "its position (0 in both" in found.misconception


def test_a_model_left_in_training_mode_is_judged_in_evaluation_mode():
    left_on = next(wrong for wrong in exercise("01.6").wrong if wrong.__name__ == "dropout_left_on")
    found = judged("01.6", left_on)
    assert [finding.name for finding in found.findings if finding.status != "holds"] == ["evaluation"]


@pytest.mark.parametrize(("name", "points"), [("a_plain_rnn", 6), ("a_gru", 9)])
def test_another_recurrence_is_no_lstm(name, points):
    answer = next(wrong for wrong in exercise("01.6").wrong if wrong.__name__ == name)
    found = judged("01.6", answer)
    assert (found.misconception, found.points) == (misconception(answer), points)


class ExponentialAverage(SmallLinearTransformer):
    """The state is the mean of the values with weights 0.1 · 0.9^age."""

    def __init__(self, n_tokens):
        super().__init__(n_tokens, mix=self.averages)

    def averages(self, q, k, v):
        age = torch.arange(v.shape[1])[:, None] - torch.arange(v.shape[1])
        return 0.1 * (0.9 ** age.clamp(min=0)).tril() @ v

    def write_and_read(self, S, z, phi_q, phi_k, v):
        z = 0.9 * z + 0.1 * v
        return z, S, z


class ReadsTheMean(SmallLinearTransformer):
    """A network writes, another reads the mean of the past beside the token: it learns nearly as well as with attention."""

    def __init__(self, n_tokens):
        super().__init__(n_tokens)
        self.qkv, self.read = None, nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32))
        self.write = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, tokens):
        x = self.embed(tokens, torch.arange(tokens.shape[1]))
        return self.reads(x, self.write(x).cumsum(1) / torch.arange(1, tokens.shape[1] + 1)[:, None])

    def reads(self, x, mean):
        return self.predict(x, self.read(torch.cat([x, mean], -1)))

    def step(self, token, state):
        S, total, t = state
        x = self.embed(token, t)
        total = total + self.write(x)
        return self.reads(x, total / (t + 1)[:, None]), (S, total, t + 1)


class ReadsTheMeanBesideSums(ReadsTheMean):
    """The same, with linear attention of a width of four beside it."""

    def __init__(self, n_tokens):
        super().__init__(n_tokens)
        self.qkv, self.out = nn.Linear(32, 12), nn.Linear(4, 32)

    def forward(self, tokens):
        x = self.embed(tokens, torch.arange(tokens.shape[1]))
        mean = self.write(x).cumsum(1) / torch.arange(1, tokens.shape[1] + 1)[:, None]
        q, k, v = self.qkv(x).chunk(3, -1)
        S, z = (sums.cumsum(1) for sums in (k.exp()[..., None] * v[..., None, :], k.exp()))
        return self.both(x, mean, S, z, q)

    def both(self, x, mean, S, z, q):
        looked_up = (q.exp()[..., None, :] @ S)[..., 0, :] / (q.exp() * z).sum(-1, keepdim=True)
        return self.reads(x + self.out(looked_up), mean)

    def start(self, tokens):
        state = tuple(torch.zeros(len(tokens), *sizes) for sizes in ((4, 4), (4,), (32,), ()))
        for token in tokens.unbind(1):
            _, state = self.step(token, state)
        return state

    def step(self, token, state):
        S, z, total, t = state
        x = self.embed(token, t.long())
        q, k, v = self.qkv(x).chunk(3, -1)
        S, z, total = S + k.exp()[..., None] * v[..., None, :], z + k.exp(), total + self.write(x)
        return self.both(x, total / (t + 1)[:, None], S, z, q), (S, z, total, t + 1)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (ExponentialAverage, "fading_mean"),
        (ReadsTheMean, "mean_of_values"),
        (ReadsTheMeanBesideSums, "one_query_for_all"),
    ],
)
def test_a_mean_of_the_past_is_no_linear_attention(model, name):
    answer = next(wrong for wrong in exercise("14.6").wrong if wrong.__name__ == name)
    found = judged("14.6", lambda *data: submit_linear(data, model=model))
    assert (found.misconception, found.points) == (misconception(answer), 3)


def test_a_build_task_is_large_enough_and_says_what_it_holds(build_task: Exercise):
    assert len(build_task.wrong) >= 8
    assert len(build_task.right) >= 2
    assert len({misconception(answer) for answer in (*build_task.wrong, *build_task.right)}) == len(build_task.wrong) + len(
        build_task.right
    )
    assert all(hasattr(wrong, "proof") or hasattr(wrong, "suspicion") for wrong in build_task.wrong)
    assert build_task.training.seconds <= LONGEST_TRAINING
    assert len(set(build_task.hints)) == 3
    assert build_task.points > 0


def test_what_a_student_must_not_know_never_goes_inside(build_task: Exercise):
    call, truth = build_task.questions(seed=0)
    sent = [tensor for part in call for tensor in part if isinstance(tensor, torch.Tensor)]
    hidden = {name: tensor for name, tensor in truth.items() if name.startswith(("next", "labels"))}
    assert hidden
    assert not any(one.shape == other.shape and torch.equal(one, other) for one in sent for other in hidden.values())


def nothing(*data):
    raise NotImplementedError()


def a_number(*data):
    return 3


def a_class(*data):
    return nn.Linear


def none(*data):
    return None


def fails(*data):
    return torch.zeros(2) @ torch.zeros(3)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (nothing, "Not started yet"),
        (a_number, "It should return the trained model, but it returned a value of type int."),
        (a_class, "It should return the trained model, but it returned a value of type type."),
        (none, "It returned None. Is a `return` statement missing?"),
        (fails, "It raised RuntimeError in the line `return torch.zeros(2) @ torch.zeros(3)`"),
        (nn.Linear, "got the class `Linear`"),
        (7, "Expected a function"),
    ],
)
def test_what_is_no_training_earns_nothing_and_is_told_why(answer, said):
    found = judged(BUILDS[0].id, answer)
    assert (found.points, found.passed, found.misconception) == (0, False, None)
    assert said in found.message


def test_a_training_without_end_is_stopped_at_its_own_limit():
    def endless(*data):
        while True:
            pass

    build = BUILDS[0]
    short = replace(build, properties=build.properties, training=replace(build.training, seconds=0.3))
    found = Examination(short, seed=0).examine(endless)
    assert found.points == 0
    assert "processor time" in found.message


def the_class_that_is_forbidden(text, n_tokens, n_steps):
    from course_lib.blocks import Sizes
    from course_lib.models import GPT

    return GPT(n_tokens, 32, Sizes(d_model=8, n_heads=2, d_ff=16, n_layers=1))


def test_the_library_model_is_no_answer_to_a_task_that_asks_for_it():
    found = judged("07.7", the_class_that_is_forbidden)
    assert found.points == 0
    assert "It calls GPT: write the model yourself" in found.message


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.used(x)


def tiny_training(clears=True, other=False):
    """Train `Tiny` for five updates, with or without two mistakes, and give what was measured."""

    def train(x):
        model = Tiny()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model = Tiny() if other else model
        for _ in range(5):
            if clears:
                optimizer.zero_grad()
            F.mse_loss(model(x), x).backward()
            optimizer.step()
        return model

    torch.manual_seed(0)
    return measure(train, [torch.randn(7, 3)], [torch.randn(2, 3)])


def test_a_record_counts_updates_losses_and_weights():
    found = tiny_training()
    assert (found.n_updates, found.n_parameters, len(found.losses), len(found.read)) == (5, 16, 5, 5)
    assert found.losses[-1] < found.losses[0]
    assert (found.kept, found.untouched, found.without_gradient) == (0.0, 0.0, 0.25)
    assert 0 < found.moved < 1
    assert torch.equal(found.outputs[0], found.again[0])


@pytest.mark.parametrize(("turns", "n_updates"), [(1, 5), (2, 10)])
def test_optimizers_of_different_weights_make_one_update_after_each_backward_pass(turns, n_updates):
    def train(x):
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in model]
        for _ in range(5):
            model.zero_grad()
            F.mse_loss(model(x), x).backward()
            for optimizer in optimizers * turns:
                optimizer.step()
        return model

    assert measure(train, [torch.randn(7, 3)], [torch.randn(2, 3)]).n_updates == n_updates


def test_a_record_shows_gradients_that_are_kept_and_a_model_that_is_not_trained():
    assert tiny_training(clears=False).kept == 1.0
    assert tiny_training(other=True).untouched == 1.0
    assert tiny_training(other=True).moved == 0.0


def test_a_record_shows_weights_that_no_optimizer_holds():
    def train(x):
        encoder, head = nn.Linear(3, 3), nn.Linear(3, 2)
        optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            head(encoder(x)).square().mean().backward()
            optimizer.step()
        return encoder

    found = measure(train, [torch.randn(7, 3)], [torch.randn(2, 3)])
    assert found.left_out == 8 / 20
    assert tiny_training().left_out == 0.0


def test_a_trained_copy_is_not_told_that_the_optimizer_holds_other_weights():
    def train(x, copies):
        model = nn.Linear(3, 3)
        optimizer = torch.optim.SGD((model if copies else nn.Linear(3, 3)).parameters(), lr=0.1)
        for _ in range(3):
            model(x).square().mean().backward()
            optimizer.step()
        return copy.deepcopy(model) if copies else model

    found = {copies: measure(train, [torch.randn(7, 3), copies], [torch.randn(2, 3)]) for copies in (True, False)}
    assert found[True].untouched == found[False].untouched == 1.0
    assert not no_weight_is_stepped(found[True], {})
    assert no_weight_is_stepped(found[False], {})


def test_a_model_of_two_inputs_is_asked_with_tuples():
    found = measure(lambda: torch.matmul, [], [(torch.eye(2), torch.ones(2, 3))])
    assert torch.equal(found.outputs[0], torch.ones(2, 3))


class Counting(nn.Module):
    """A model whose state is the sum of the tokens read, and where `grows`, all of them; `in_place` changes the state given."""

    def __init__(self, grows=False, in_place=False):
        super().__init__()
        self.grows, self.in_place = grows, in_place

    def forward(self, tokens):
        return tokens.cumsum(1)[..., None].float()

    def start(self, tokens):
        return {"sum": tokens.sum(1), "read": [0] * tokens.shape[1]}

    def step(self, token, state):
        total = state["sum"].add_(token) if self.in_place else state["sum"] + token
        return total[:, None].float(), {"sum": total, "read": [*state["read"], 0] if self.grows else []}


@pytest.mark.parametrize(
    ("model", "held", "is_a_value"),
    [
        (Counting(), [2, 2, 2, 2, 2], True),
        (Counting(grows=True), [3, 4, 5, 6, 7], True),
        (Counting(in_place=True), [2, 2, 2, 2, 2], False),
    ],
)
def test_a_record_of_steps_shows_whether_a_state_grows_and_whether_it_is_a_value(model, held, is_a_value):
    text = torch.arange(10).reshape(2, 5)
    steps, after_detours, sizes, *_ = measure(lambda: model, (), [text], [text]).steps
    assert torch.equal(steps, model(text))
    assert torch.equal(after_detours, steps) is is_a_value
    assert sizes.tolist() == held


class Called(SimpleNamespace):
    """A model of given parts that returns its inputs."""

    def __init__(self, parts):
        super().__init__(**vars(parts))

    def __call__(self, inputs):
        return inputs


def in_a_buffer(text, state):
    return torch.cat([state[:, 1:], text[:, None]], 1)


def as_a_string(text, state):
    return (state or "") + str(text.tolist())


def as_one_integer(text, state):
    return (state or 0) * 1000**2 + int(text.sum()) * 1000


@pytest.mark.parametrize(
    ("read", "start", "grows", "kept"),
    [
        (in_a_buffer, torch.zeros(2, 16, dtype=torch.long), False, 1.0),
        (as_a_string, None, True, 1.0),
        (as_one_integer, None, True, None),
        (lambda text, state: state * 0.9 + text[:, None], torch.zeros(2, 3), False, 0.0),
    ],
)
def test_a_record_of_steps_shows_a_state_that_lists_what_was_read(read, start, grows, kept):
    def step(tokens, state):
        state = read(tokens, state)
        return tokens[:, None].float(), state

    model = SimpleNamespace(start=lambda tokens: start, step=step)
    text = torch.arange(1, 33).reshape(2, 16)
    _, _, sizes, found, *_ = read_by_steps(model, text)
    assert (sizes[-1] > sizes[0]) == grows
    assert kept is None or found == kept


PHI, V = torch.randn(2, 12, 3, 7, generator=torch.Generator().manual_seed(0))
OUTER = PHI[..., :4, None] * V[..., None, :]


@pytest.mark.parametrize(
    ("writes", "held"),
    [
        (OUTER, 1),
        (OUTER.flatten(1), 1),
        (OUTER.permute(0, 3, 2, 1), 1),
        (torch.cat([PHI.flatten(1), (PHI[..., :4, None].relu() * V[..., None, :]).flatten(1), torch.ones(12, 9)], dim=1), 1),
        (torch.cat([PHI, V, torch.ones(12, 3, 1)], dim=-1), 0),
        (torch.cat([V, 2 * V, V.relu(), V.exp()], dim=1), 0),
        (torch.zeros(12, 0), 0),
    ],
)
def test_a_record_of_steps_shows_whether_a_token_writes_an_outer_product(writes, held):
    model = SimpleNamespace(
        start=lambda tokens: 3 + torch.zeros(len(tokens), *writes.shape[1:]),
        step=lambda token, state: (token[:, None].float(), state + writes[token]),
    )
    assert read_by_steps(model, torch.arange(24).reshape(2, 12) % 12)[5] == held


READ = torch.randn(12, 4, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("query", "mean", "least", "most"),
    [(READ, 0.0, 1.0, 1.0), (READ[:1].expand(12, 4), 0.0, 0.0, 0.0), (READ, 0.1, 0.5, 1.0), (READ, 30.0, 0.0, 0.5)],
)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_a_record_of_steps_shows_how_much_of_the_state_the_next_token_chooses(query, mean, least, most, mode):
    """A state of outer products, read by the query of the token, with a mean of the values beside it."""

    @mode()
    def start(tokens):
        return OUTER[tokens].sum((1, 2)), V[tokens].sum((1, 2))

    @mode()
    def step(token, state):
        S, total = state[0] + OUTER[token].sum(1), state[1] + V[token].sum(1)
        return (query[token][:, None] @ S)[:, 0] + mean * total.flip(-1), (S, total)

    found = read_by_steps(
        SimpleNamespace(start=start, step=step), torch.randint(12, (2, 48), generator=torch.Generator().manual_seed(2))
    )[6]
    assert least <= found.round(decimals=4) <= most


def test_a_record_of_steps_is_empty_where_a_model_does_not_step():
    assert measure(lambda: nn.Identity(), (), [torch.zeros(2, 3)], [torch.zeros(2, 3)]).steps == []


def test_a_model_whose_start_takes_no_empty_prompt_has_no_steps_and_says_so():
    def start(tokens):
        return tokens.float().amax(-1, keepdim=True)

    model = SimpleNamespace(start=start, step=lambda tokens, state: (tokens[:, None].float(), state))
    found = measure(lambda: Called(model), (), [torch.zeros(2, 3)], [torch.arange(6).reshape(2, 3)])
    assert (found.begins, found.steps) == (False, [])
    assert "empty prompt" in steps(found, {})


def test_a_record_leaves_torch_as_it_was():
    before = torch.autograd.backward, torch.autograd.grad
    tiny_training()
    assert (torch.autograd.backward, torch.autograd.grad) == before
    assert not nn.modules.module._global_forward_pre_hooks
    assert not nn.modules.module._global_forward_hooks


class Prepared(nn.Module):
    """A recurrent model that is not trained at all."""

    def __init__(self, n_tokens):
        super().__init__()
        self.embed, self.lstm, self.logits = (
            nn.Embedding(n_tokens, 8),
            nn.LSTM(8, 16, batch_first=True),
            nn.Linear(16, n_tokens),
        )

    def forward(self, tokens):
        return self.logits(self.lstm(self.embed(tokens))[0])


def forged(record, n_tokens, n_steps):
    record.n_steps, record.losses = n_steps, [3.3 - i / n_steps for i in range(n_steps)]
    return Prepared(n_tokens).eval()


def by_the_frame(text, n_tokens, n_steps):
    return forged(sys._getframe(1).f_locals["record"], n_tokens, n_steps)


def by_inspect(text, n_tokens, n_steps):
    return forged(inspect.currentframe().f_back.f_locals["record"], n_tokens, n_steps)


def by_the_stack(text, n_tokens, n_steps):
    frames = [info.frame for info in inspect.stack()]
    return forged(next(f.f_locals["record"] for f in frames if "record" in f.f_locals), n_tokens, n_steps)


def by_walking(text, n_tokens, n_steps):
    frames = [frame for frame, _ in traceback.walk_stack(None)]
    return forged(next(f.f_locals["record"] for f in frames if "record" in f.f_locals), n_tokens, n_steps)


def by_a_traceback(text, n_tokens, n_steps):
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
    return forged(frame.f_back.f_locals["record"], n_tokens, n_steps)


def by_a_generator(text, n_tokens, n_steps):
    def found():
        yield generator.gi_frame.f_back

    generator = found()
    frame = next(generator)
    while "record" not in frame.f_locals:
        frame = frame.f_back
    return forged(frame.f_locals["record"], n_tokens, n_steps)


def by_the_collector(text, n_tokens, n_steps):
    return forged(next(one for one in gc.get_objects() if type(one) is Recorder), n_tokens, n_steps)


FORGERS = [by_the_frame, by_inspect, by_the_stack, by_walking, by_a_traceback, by_a_generator, by_the_collector]


@pytest.mark.parametrize("forger", FORGERS)
def test_a_forged_record_earns_nothing(forger):
    found = judged("01.6", forger)
    assert found.points == 0
    assert "such as the record of the training" in found.message


def by_the_hooks(text, n_tokens, n_steps):
    hooks = [*nn.modules.module._global_forward_pre_hooks.values(), torch.autograd.backward]
    reached = [getattr(hook, "__self__", None) for hook in hooks]
    reached += [cell.cell_contents for hook in hooks for cell in hook.__closure__ or ()]
    reached += [getattr(value, "__self__", None) for value in reached]
    assert not [value for value in reached if isinstance(value, Recorder)]
    return Prepared(n_tokens).eval()


def test_no_hook_leads_to_the_record():
    found = judged("01.6", by_the_hooks)
    assert 0 < found.points < found.max_points / 2, found.message


def quiet(text, n_tokens, n_steps):
    """What libraries and errors do on their own is not looking for the record."""
    namedtuple("Pair", "a b")
    logging.getLogger("course").debug("a line")
    try:
        torch.zeros(2) @ torch.zeros(3)
    except RuntimeError:
        traceback.format_exc()
    gc.collect()
    return Prepared(n_tokens).eval()


def test_what_a_training_calls_otherwise_is_not_taken_for_forgery():
    assert judged("01.6", quiet).points > 0


def test_what_was_measured_can_be_sent_and_read_by_its_names():
    assert isinstance(tiny_training(), Measured)
    assert Measured._fields[0] == "outputs"


def test_a_model_that_has_learned_little_does_not_pass_for_a_sum_over_patches():
    """Its logits hardly change, but the change is not the sum of the two single changes, as here 3 is not 1 + 1."""
    plain = torch.zeros(4, 10)
    for both, is_sum in ((3e-5, False), (2e-5, True)):
        quadrants = torch.cat([plain + 1e-5, plain + 1e-5, plain + both])
        assert adds_up_patches(SimpleNamespace(outputs=[None, plain, None, None, quadrants]), {}) is is_sum
