"""Losses; they know no model."""

from course_lib.objectives.language import teacher_forced_loss

__all__ = ["teacher_forced_loss"]
