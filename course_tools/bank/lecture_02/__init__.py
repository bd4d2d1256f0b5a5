"""Exercises of lecture 02, Alignment."""

from course_tools.bank.lecture_02 import (
    additive_scores,
    attend,
    concat_scores,
    encode,
    general_scores,
    teacher_forced_loss,
    train_translator,
)

EXERCISES = (
    additive_scores.exercise,
    general_scores.exercise,
    concat_scores.exercise,
    attend.exercise,
    encode.exercise,
    teacher_forced_loss.exercise,
    train_translator.exercise,
)
