"""Exercises of lecture 04, Self-attention."""

from course_tools.bank.lecture_04 import (
    attention_over_image,
    causal_mask,
    multi_head_attention,
    padding_mask,
    scaled_dot_product_attention,
    split_heads,
    train_attention_rival,
)

EXERCISES = (
    scaled_dot_product_attention.exercise,
    causal_mask.exercise,
    padding_mask.exercise,
    split_heads.exercise,
    multi_head_attention.exercise,
    attention_over_image.exercise,
    train_attention_rival.exercise,
)
