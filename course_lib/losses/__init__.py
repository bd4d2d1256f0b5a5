"""Training objectives, independent of any model."""

from course_lib.losses.bert_pretraining import *
from course_lib.losses.byol import *
from course_lib.losses.clip import *
from course_lib.losses.distillation import *
from course_lib.losses.hard_attention import *
from course_lib.losses.language_model import *
from course_lib.losses.matching import *
from course_lib.losses.nt_xent import *
from course_lib.losses.set_prediction import *
