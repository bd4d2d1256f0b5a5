"""Exercises of lecture 10, Local attention."""

from course_tools.bank.lecture_10 import (
    local_attention,
    local_attention_cost,
    local_windows,
    relative_logits,
    train_local_attention,
    window_mask,
)

EXERCISES = (
    local_windows.exercise,
    window_mask.exercise,
    relative_logits.exercise,
    local_attention.exercise,
    local_attention_cost.exercise,
    train_local_attention.exercise,
)
