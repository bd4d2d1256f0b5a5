"""Checks of exercises: their definition, and how an answer is observed, compared and judged. Independent of attention."""

from course_tools.checks.exercise import Exercise, Property
from course_tools.checks.judge_answer import Finding, Verdict

__all__ = ["Exercise", "Finding", "Property", "Verdict"]
