"""Analysis of trained models: recorded attention, head statistics, attention rollout, strongest arrows."""

from course_lib.analysis.head_statistics import *
from course_lib.analysis.record import *
from course_lib.analysis.rollout import *
from course_lib.analysis.strongest_arrows import *
