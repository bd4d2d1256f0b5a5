"""Scores and counts: average precision, mean IoU, BLEU, linear probe, parameters, multiply-adds, and the bytes of a cache."""

from course_lib.metrics.average_precision import *
from course_lib.metrics.bleu import *
from course_lib.metrics.cache_size import *
from course_lib.metrics.linear_probe import *
from course_lib.metrics.mean_iou import *
from course_lib.metrics.operation_counts import *
from course_lib.metrics.parameter_counts import *
