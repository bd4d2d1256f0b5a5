"""Exercises of lecture 11, Vision Transformer, distillation and fine-tuning."""

from course_tools.bank.lecture_11 import (
    distillation_loss,
    embed_patches,
    fine_tuned_head,
    interpolate_positions,
    patchify,
    repair_vit,
    rollout,
    train_vit,
)

EXERCISES = (
    patchify.exercise,
    embed_patches.exercise,
    rollout.exercise,
    interpolate_positions.exercise,
    distillation_loss.exercise,
    fine_tuned_head.exercise,
    train_vit.exercise,
    repair_vit.exercise,
)
