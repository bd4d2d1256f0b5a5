"""The curve of a recorded training: means over blocks, an honest sentence, and one under every check of a build task."""

import importlib

import pytest
import torch
from torch import nn

from course_tools.bank import exercise
from course_tools.checks.judge_answer import Examination
from course_tools.checks.outcome import watch
from course_tools.checks.training_record import MOST_LOSSES, RecordedLosses
from course_tools.notebook import check
from course_tools.notebook.answer_lookup import NamedAnswer
from course_tools.notebook.training_curve import block_means, show_recorded_losses, show_training, trained_with_losses
from tests.course_tools.bank.answers.unusual import raises

training_curve = importlib.import_module("course_tools.notebook.training_curve")


@pytest.fixture
def drawn(monkeypatch):
    """What is drawn: each figure with its sentence."""
    figures = []
    monkeypatch.setattr(training_curve, "show", lambda figure, alt: figures.append((figure, alt)))
    return figures


def test_about_thirty_blocks_are_averaged_and_a_last_part_is_left_out():
    ends, means = block_means([[*range(90), 1000.0]])
    assert list(ends) == list(range(3, 91, 3))
    assert means == [float(3 * block + 1) for block in range(30)]


def test_a_short_training_has_a_point_for_each_loss(drawn):
    show_training("model", RecordedLosses((3.0, 2.0, 1.5), 3))
    ((figure, alt),) = drawn
    (line,) = figure.axes[0].lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2, 3], [3.0, 2.0, 1.5])
    assert figure.axes[0].get_xlabel() == "update"
    assert alt == "Training loss of model over 3 updates, the first and the last: 3.00 and 1.50."


def test_runs_are_averaged_up_to_the_end_of_the_shortest():
    assert block_means([[1.0, 3.0], [2.0, 4.0, 9.0]]) == (range(1, 3), [1.5, 3.5])


def test_the_sentence_says_what_the_ends_of_the_curve_are_means_of(drawn):
    show_training("model", RecordedLosses((5.0, 3.0) + (4.0, 2.0) * 43 + (100.0,), 89), "nats")
    assert drawn[0][1] == (
        "Training loss of model over 89 updates, mean of the first and of the last averaged block of 2: 4.00 and 3.00."
    )
    assert drawn[0][0].axes[0].get_ylabel() == "nats"


def test_the_axis_starts_at_0_unless_something_is_drawn_across_or_a_loss_is_below_it(drawn):
    show_training("model", RecordedLosses((3.0, 2.0), 2))
    show_training("model", RecordedLosses((3.0, 2.0), 2, {"a guess": 2.5}))
    show_training("model", RecordedLosses((3.0, -1.0), 2))
    whole, beside, below = (figure.axes[0].get_ylim()[0] for figure, _ in drawn)
    assert (whole, beside > 1.0, below < -1.0) == (0.0, True, True)


def test_losses_that_are_no_updates_are_counted_as_backward_passes(drawn):
    show_training("model", RecordedLosses((4.0, 2.0, 1.0, 0.5), 2))
    assert drawn[0][0].axes[0].get_xlabel() == "backward pass"
    assert "over 4 backward passes" in drawn[0][1]


def test_a_loss_that_is_not_finite_is_said(drawn):
    show_training("model", RecordedLosses((4.0, float("nan"), 1.0), 3))
    assert drawn[0][1] == "Training loss of model: at update 2 it is not a finite number."


def test_a_recording_that_ended_is_said(drawn):
    show_training("model", RecordedLosses((1.0,) * MOST_LOSSES, MOST_LOSSES + 5))
    assert drawn[0][0].axes[0].get_xlabel() == "update"
    assert drawn[0][1] == (
        "Training loss of model (at most 2,000 losses are recorded) over 2,000 updates, "
        "mean of the first and of the last averaged block of 66: 1.00 and 1.00."
    )


def test_a_full_record_with_fewer_updates_is_of_backward_passes(drawn):
    show_training("model", RecordedLosses((1.0,) * MOST_LOSSES, MOST_LOSSES // 2))
    assert drawn[0][0].axes[0].get_xlabel() == "backward pass"


@pytest.mark.parametrize("n", [5, 15])
def test_few_losses_of_several_seeds_are_all_drawn(drawn, n):
    falling = [float(n - update) for update in range(n)]
    show_recorded_losses({"model": [falling, [loss + 2 for loss in falling]]}, "nats", {"chance": 3.0})
    ((figure, alt),) = drawn
    assert len(figure.axes[0].lines[0].get_ydata()) == n
    assert alt == f"Training loss, mean of the seeds, in the first and in the last block of updates: model {n + 1}.00 and 2.00."


def test_runs_without_two_losses_have_no_curve(drawn):
    show_recorded_losses({"model": [[1.0, 2.0], [1.0]], "another": [[]]})
    assert drawn == []
    show_recorded_losses({"model": [[1.0]], "another": [[2.0, 1.0]]})
    assert drawn[0][1] == "Training loss, in the first and in the last block of updates: another 2.00 and 1.00."


@pytest.mark.parametrize("n", [5, 15])
def test_a_short_training_is_drawn_and_its_result_returned(drawn, n):
    def train():
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, 3.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        for update in range(n):
            optimizer.zero_grad()
            (model.weight.sum() * (update + 1)).backward()
            optimizer.step()
        return model

    assert trained_with_losses(train, "your model").weight.item() == 3.0
    ((_, alt),) = drawn
    assert alt == f"Training loss of your model over {n} updates, the first and the last: 3.00 and {3 * n}.00."


def test_a_function_that_trains_nothing_has_no_curve(drawn):
    assert trained_with_losses(lambda: 7, "your model") == 7
    assert drawn == []


@pytest.mark.parametrize("losses", [(), (1.0,)])
def test_what_is_no_training_has_no_curve(drawn, losses):
    show_training("model", RecordedLosses(losses, len(losses)))
    assert drawn == []


def seven_updates(text, n_tokens, n_steps):
    """Train a table of next characters for seven updates."""
    model = nn.Embedding(n_tokens, n_tokens)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for x, y in zip(text[:-1].split(64)[:7], text[1:].split(64)[:7], strict=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


def test_the_check_of_a_build_task_draws_the_training_each_time_it_runs(drawn):
    answer = seven_updates
    for _ in range(2):
        answer = check("01.6", answer)
    (first, alt), (_, again) = drawn
    assert alt == again
    assert alt.startswith("Training loss of train_lstm in check 01.6 over 7 updates")
    losses, bigram = first.axes[0].lines
    heights = losses.get_ydata()
    assert len(heights) == 7
    assert heights[-1] < heights[0]
    assert alt.endswith(f" A bigram table, new text: {bigram.get_ydata()[0]:.2f}.")


@pytest.mark.parametrize(
    "answer", [raises(NotImplementedError()), raises(ValueError("x")), None, lambda *data: nn.Embedding(27, 27)]
)
def test_an_answer_that_trains_nothing_has_no_curve(drawn, answer):
    check("01.6", answer)
    assert drawn == []


def test_an_exercise_without_a_training_has_no_curve(drawn):
    check("01.1", exercise("01.1").reference)
    assert drawn == []


def test_an_outcome_observed_elsewhere_carries_no_losses():
    examined = Examination(exercise("01.6"), seed=0)
    with torch.random.fork_rng():
        verdict = examined.examine(seven_updates)
    assert len(verdict.losses.values) == verdict.losses.n_updates == 7
    judged = examined.judge(watch(seven_updates, examined.calls, examined.n_preliminary, {}, examined.ask, examined.seconds))
    assert judged.losses is None
    assert judged.points == verdict.points


def test_the_curve_of_a_faulty_version_does_not_bear_the_name_of_the_right_one(drawn):
    check("01.6", NamedAnswer("suspect", lambda: seven_updates))
    ((_, alt),) = drawn
    assert alt.startswith("Training loss of the faulty version in check 01.6 over 7 updates")
