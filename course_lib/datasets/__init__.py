"""Real data from pip packages, small tasks with a known answer, and loaders of public data sets.

All random draws depend on a seed, and no example is in two parts of a data set. Data sets are independent of models.
"""

from course_lib.datasets.alignment import *
from course_lib.datasets.augmentation import *
from course_lib.datasets.byte_pairs import *
from course_lib.datasets.cifar10 import *
from course_lib.datasets.cldr_dates import *
from course_lib.datasets.composed_pictures import *
from course_lib.datasets.digit_scenes import *
from course_lib.datasets.display_names import *
from course_lib.datasets.docstrings import *
from course_lib.datasets.download import *
from course_lib.datasets.first_symbol import *
from course_lib.datasets.handwritten import *
from course_lib.datasets.language_reference import *
from course_lib.datasets.mnist import *
from course_lib.datasets.neighbours import *
from course_lib.datasets.pictures import *
from course_lib.datasets.same_or_different import *
from course_lib.datasets.sample_images import *
from course_lib.datasets.secret_orders import *
from course_lib.datasets.shakespeare import *
from course_lib.datasets.social_networks import *
from course_lib.datasets.spelled_numbers import *
from course_lib.datasets.splits import *
from course_lib.datasets.sums import *
from course_lib.datasets.vocabulary import *
from course_lib.datasets.word_pieces import *
