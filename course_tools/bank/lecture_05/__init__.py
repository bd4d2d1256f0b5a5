"""Exercises of lecture 05, The Transformer."""

from course_tools.bank.lecture_05 import (
    decoder_block,
    encoder_block,
    extend_beam,
    feed_forward,
    layer_norm,
    pre_norm_encoder_block,
    repair_training,
    sinusoidal_positions,
    train_transformer,
)

EXERCISES = (
    sinusoidal_positions.exercise,
    layer_norm.exercise,
    feed_forward.exercise,
    encoder_block.exercise,
    pre_norm_encoder_block.exercise,
    decoder_block.exercise,
    extend_beam.exercise,
    repair_training.exercise,
    train_transformer.exercise,
)
