"""Exercises of lecture 03, Looking and reading."""

from course_tools.bank.lecture_03 import (
    caption_step,
    compose_document,
    doubly_stochastic_penalty,
    hard_attention_loss,
    pool,
    soft_attention,
    train_captioner,
)

EXERCISES = (
    soft_attention.exercise,
    doubly_stochastic_penalty.exercise,
    pool.exercise,
    compose_document.exercise,
    caption_step.exercise,
    hard_attention_loss.exercise,
    train_captioner.exercise,
)
