"""Exams from the bank of exercises: several forms of equal difficulty, an answer key, as HTML and PDF."""

from course_tools.exams.forms import CannotCompose, Form, compose
from course_tools.exams.page import write_exam

__all__ = ["CannotCompose", "Form", "compose", "write_exam"]
