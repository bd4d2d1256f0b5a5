"""Exercises of lecture 09, Attention over pixels: non-local blocks."""

from course_tools.bank.lecture_09 import (
    associative_dot_product,
    co_occurrent_features,
    non_local_block,
    non_local_concatenation,
    non_local_embedded_gaussian,
    strongest_arrows,
    train_reach_rival,
)

EXERCISES = (
    non_local_embedded_gaussian.exercise,
    associative_dot_product.exercise,
    non_local_concatenation.exercise,
    non_local_block.exercise,
    strongest_arrows.exercise,
    co_occurrent_features.exercise,
    train_reach_rival.exercise,
)
