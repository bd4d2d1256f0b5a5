"""Exercises of lecture 08, Bidirectional pre-training."""

from course_tools.bank.lecture_08 import (
    classification_head,
    head_statistics,
    mask_tokens,
    mlm_loss,
    nsp_pairs,
    scalar_mix,
    segment_input,
    train_bert,
)

EXERCISES = (
    scalar_mix.exercise,
    mask_tokens.exercise,
    mlm_loss.exercise,
    segment_input.exercise,
    nsp_pairs.exercise,
    classification_head.exercise,
    head_statistics.exercise,
    train_bert.exercise,
)
