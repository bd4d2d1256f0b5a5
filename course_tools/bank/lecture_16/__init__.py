"""Exercises of lecture 16, Self-supervision."""

from course_tools.bank.lecture_16 import (
    byol_loss,
    ema_update,
    linear_probe,
    nt_xent,
    repair_simclr,
    spectrum,
    train_simclr,
    warp,
)

EXERCISES = (
    warp.exercise,
    nt_xent.exercise,
    linear_probe.exercise,
    byol_loss.exercise,
    ema_update.exercise,
    spectrum.exercise,
    train_simclr.exercise,
    repair_simclr.exercise,
)
