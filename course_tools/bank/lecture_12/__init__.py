"""Exercises of lecture 12, detection."""

from course_tools.bank.lecture_12 import (
    average_precision,
    giou,
    match,
    matching_cost,
    overlap,
    set_loss,
    to_corners,
    train_detector,
)

EXERCISES = (
    to_corners.exercise,
    overlap.exercise,
    giou.exercise,
    matching_cost.exercise,
    match.exercise,
    set_loss.exercise,
    average_precision.exercise,
    train_detector.exercise,
)
