"""Real data that comes inside pip packages, small tasks with a known answer, and loaders of public sets beside them.

Everything is drawn by a seed, and no example stands in two parts of a set. This floor knows no model.
"""

from course_lib.datasets.alignment import Lookup, Reversal, lookup, reversal
from course_lib.datasets.augmentation import warp
from course_lib.datasets.cldr_dates import FORMATS, LOCALES, dates, joined
from course_lib.datasets.download import Unreachable, WrongChecksum, cache_folder, download
from course_lib.datasets.first_symbol import Recall, recall
from course_lib.datasets.handwritten import Digits, digits
from course_lib.datasets.sample_images import PHOTOGRAPHS, photographs, resize
from course_lib.datasets.sentence_pairs import multi30k
from course_lib.datasets.spelled_numbers import number_words, spelled
from course_lib.datasets.splits import Pair, Splits, split
from course_lib.datasets.vocabulary import BEGIN, END, PADDING, UNKNOWN, Vocabulary, pad

__all__ = [
    "BEGIN",
    "END",
    "FORMATS",
    "LOCALES",
    "PADDING",
    "PHOTOGRAPHS",
    "UNKNOWN",
    "Digits",
    "Lookup",
    "Pair",
    "Recall",
    "Reversal",
    "Splits",
    "Unreachable",
    "Vocabulary",
    "WrongChecksum",
    "cache_folder",
    "dates",
    "digits",
    "download",
    "joined",
    "lookup",
    "multi30k",
    "number_words",
    "pad",
    "photographs",
    "recall",
    "resize",
    "reversal",
    "spelled",
    "split",
    "warp",
]
