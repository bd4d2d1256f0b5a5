"""Losses; they know no model."""

from course_lib.objectives.bootstrap import byol_loss
from course_lib.objectives.contrastive import nt_xent
from course_lib.objectives.cosine import unit
from course_lib.objectives.language import teacher_forced_loss

__all__ = [
    "byol_loss",
    "nt_xent",
    "teacher_forced_loss",
    "unit",
]
