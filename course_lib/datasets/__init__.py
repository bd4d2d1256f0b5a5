"""Real data from pip packages, and small tasks with a known answer.

All random draws depend on a seed, and no example is in two parts of a data set. Data sets are independent of models.
"""

from course_lib.datasets.augmentation import *
from course_lib.datasets.byte_pairs import *
from course_lib.datasets.cldr_dates import *
from course_lib.datasets.handwritten import *
from course_lib.datasets.language_reference import *
from course_lib.datasets.lookup import *
from course_lib.datasets.mnist import *
from course_lib.datasets.neighbours import *
from course_lib.datasets.pictures import *
from course_lib.datasets.sample_images import *
from course_lib.datasets.scenes import *
from course_lib.datasets.secret_orders import *
from course_lib.datasets.shakespeare import *
from course_lib.datasets.social_networks import *
from course_lib.datasets.spelled_numbers import *
from course_lib.datasets.splits import *
from course_lib.datasets.sums import *
from course_lib.datasets.vocabulary import *
from course_lib.datasets.word_pieces import *
