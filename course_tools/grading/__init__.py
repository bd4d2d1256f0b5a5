"""Grading: run submissions in a sandbox, judge them outside of it, and report."""

from course_tools.grading.extract.notebook_reader import Cell, Unreadable, read_cells
from course_tools.grading.judge_notebook import Engine
from course_tools.grading.marks import Mark
from course_tools.grading.sandbox.measured_isolation import Isolation, NotIsolated

__all__ = ["Cell", "Engine", "Isolation", "Mark", "NotIsolated", "Unreadable", "read_cells"]
