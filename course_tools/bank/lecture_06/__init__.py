"""Exercises of lecture 06, Universal Transformer."""

from course_tools.bank.lecture_06 import (
    adaptive_step,
    halting_distribution,
    mix_states,
    ponder_cost,
    shared_encoder,
    step_encoding,
    train_adder,
)

EXERCISES = (
    step_encoding.exercise,
    halting_distribution.exercise,
    ponder_cost.exercise,
    shared_encoder.exercise,
    adaptive_step.exercise,
    mix_states.exercise,
    train_adder.exercise,
)
