"""Analysis of trained models: recorded attention, head statistics, attention rollout, strongest arrows."""

from course_lib.analysis.head_statistics import HeadStatistics, head_statistics
from course_lib.analysis.record import record
from course_lib.analysis.rollout import rollout
from course_lib.analysis.strongest_arrows import Arrows, strongest_arrows

__all__ = [
    "Arrows",
    "HeadStatistics",
    "head_statistics",
    "record",
    "rollout",
    "strongest_arrows",
]
