"""Grading: runs submissions in a sandbox, judges them from outside, reports."""

from course_lib.grading.cells import Cell, Unreadable, read_cells
from course_lib.grading.engine import Engine
from course_lib.grading.isolation import Isolation, NotIsolated
from course_lib.grading.marks import Mark

__all__ = ["Cell", "Engine", "Isolation", "Mark", "NotIsolated", "Unreadable", "read_cells"]
