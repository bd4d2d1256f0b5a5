"""Exercises of lecture 13, MLP-Mixer."""

from course_tools.bank.lecture_13 import (
    channel_mixing,
    mixer_block,
    mixer_parameters,
    reordered_token_mixing,
    token_mixing,
    token_mixing_kernels,
    train_mixer,
    train_mixing_rival,
)

EXERCISES = (
    token_mixing.exercise,
    channel_mixing.exercise,
    mixer_block.exercise,
    reordered_token_mixing.exercise,
    token_mixing_kernels.exercise,
    mixer_parameters.exercise,
    train_mixing_rival.exercise,
    train_mixer.exercise,
)
