"""What the measurements of an adaptive adder show: each mistake is seen in a model that is not even trained, and no other."""

from functools import partial

import pytest
import torch

from course_lib.primitives import adaptive_step, halting_distribution, ponder_cost
from course_tools.bank.lecture_06 import train_adder as bank
from course_tools.bank.lecture_06.adaptive_step import lets_everyone_think_on
from course_tools.bank.lecture_06.halting_distribution import breaks_a_stick, forgets_the_remainder
from course_tools.bank.lecture_06.ponder_cost import counts_the_steps_only, expects_the_number_of_steps
from course_tools.checks.training_record import Measured

LOSSES = (bank._of_each_step, bank._of_the_last_step, bank._of_probabilities, bank._of_softmax, bank._of_reshaped)
COSTS = {
    bank._steps_alone: counts_the_steps_only,
    bank._remainder_alone: lambda h: ponder_cost(h) - counts_the_steps_only(h),
    bank._one_step_less: lambda h: ponder_cost(h) - 1,
}
MISTAKES = [
    (bank.forgets_the_remainder, {"weights": forgets_the_remainder}),
    (bank.weighs_after_the_sum, {"weights": lambda h: h}),
    (bank.never_halts, {"step": lets_everyone_think_on, "weights": breaks_a_stick}),
    (bank.updates_the_halted, {"step": lets_everyone_think_on}),
    (bank.halts_sums_as_a_whole, {"step": bank.whole_sum_halts_together}),
    (bank.has_no_ponder_cost, {"price": 0.0}),
    (bank.rewards_steps, {"price": -0.03}),
    (bank.pays_too_much, {"price": 1.0}),
    *((bank.has_cost(found), {"cost": cost}) for found, cost in COSTS.items()),
    *((bank.has_cross_entropy(loss), {"loss": loss}) for loss in LOSSES),
    (bank.reads_above, {"attends": None}),
    (bank.ignores_all_others, {"attends": torch.eye(bank.T, dtype=torch.bool)}),
    (bank.ignores_the_order, {"attends": None, "encoding": lambda T, d_model, step: 0.0}),
]
TOGETHER = {
    bank.ignores_the_order: {bank.reads_above},
    bank.weighs_after_the_sum: {bank.forgets_the_remainder, bank.never_halts},
}


@pytest.fixture(scope="module")
def questions():
    (_, queries), truth = bank.exercise.questions(seed=0)
    return queries, truth


def measured_of(queries, **mistake):
    torch.manual_seed(0)
    model = bank.SmallAdder(**mistake)
    torch.nn.init.normal_(model.halt.weight, std=0.5)
    torch.nn.init.normal_(model.readout.weight)
    with torch.no_grad():
        outputs = [model(*query) if isinstance(query, tuple) else model(query) for query in queries]
    return Measured(*[None] * len(Measured._fields))._replace(outputs=outputs)


@pytest.mark.parametrize(("shows", "mistake"), MISTAKES, ids=["-".join(mistake) for _, mistake in MISTAKES])
def test_a_mistake_is_seen_and_no_other(questions, shows, mistake):
    queries, truth = questions
    measured = measured_of(queries, **mistake)
    seen = {evidence for evidence, _ in MISTAKES if evidence(measured, truth)}
    assert seen == {shows} | TOGETHER.get(shows, set())


def test_nothing_is_seen_in_a_sound_model_and_its_price_is_found(questions):
    queries, truth = questions
    measured = measured_of(queries, price=0.07)
    assert not [shows for shows, _ in MISTAKES if shows(measured, truth)]
    assert bank._price(measured, truth) == pytest.approx(0.07, rel=1e-3)
    assert bank._ponder(measured, truth) is None


def test_another_threshold_is_no_mistake(questions):
    queries, truth = questions
    parts = {"step": adaptive_step, "weights": halting_distribution, "cost": ponder_cost}
    measured = measured_of(queries, **{name: partial(part, epsilon=0.2) for name, part in parts.items()})
    assert not [shows for shows, _ in MISTAKES if shows(measured, truth)]
    assert bank._ponder(measured, truth) is None


@pytest.mark.parametrize(("returned", "untrained"), [(0.3, False), (0.79, True)])
def test_a_copy_of_a_trained_model_is_not_taken_for_an_untrained_one(questions, returned, untrained):
    measured = measured_of(questions[0])
    outputs = [*measured.outputs[:4], torch.tensor(returned), *measured.outputs[5:]]
    measured = measured._replace(outputs=outputs, losses=torch.linspace(0.8, 0.3, 100))
    assert bank.begins_again(measured, questions[1]) is untrained


def test_another_cost_of_steps_is_refused_and_not_named(questions):
    queries, truth = questions
    measured = measured_of(queries, cost=expects_the_number_of_steps)
    assert "not proportional" in bank._ponder(measured, truth)
    assert not [shows for shows, _ in MISTAKES if shows(measured, truth)]


def test_the_answer_and_the_number_of_steps_follow_from_what_a_model_returns():
    h = torch.tensor([[[0.3, 0.5, 0.4, 0.9], [0.995, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1]]])
    logits = torch.randn(1, 3, 4, 2)
    output = torch.cat([logits, halting_distribution(h)[..., None]], dim=-1)
    assert bank.taken(output).tolist() == [[3, 1, 4]]
    assert torch.allclose(bank.taken(output) + bank._at_the_last(output)[..., 2], ponder_cost(h))
    assert torch.allclose(bank.answer(output)[0, 0], 0.3 * logits[0, 0, 0] + 0.5 * logits[0, 0, 1] + 0.2 * logits[0, 0, 2])
    assert torch.allclose(bank.answer(output)[0, 1], logits[0, 1, 0])


def test_a_model_may_stop_when_all_positions_have_halted(questions):
    queries, truth = questions
    measured = measured_of(queries)
    longest = max(int(bank.taken(output).max()) for output in measured.outputs[:4])
    shorter = [output[:, :, :longest] for output in measured.outputs[:4]]
    measured = measured._replace(outputs=[*shorter, *measured.outputs[4:]])
    assert bank._model(measured, truth) is None
    assert bank._ponder(measured, truth) is None
