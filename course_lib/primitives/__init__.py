"""Building blocks of attention: masks, positions, patches, boxes, kernels, windows, recurrent cells and their gradients."""

from course_lib.primitives.backpropagation import *
from course_lib.primitives.boxes import *
from course_lib.primitives.halting import *
from course_lib.primitives.kernels import *
from course_lib.primitives.masks import *
from course_lib.primitives.message_passing import *
from course_lib.primitives.normalisation import *
from course_lib.primitives.patches import *
from course_lib.primitives.positions import *
from course_lib.primitives.recurrent import *
from course_lib.primitives.windows import *
