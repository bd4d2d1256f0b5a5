"""Real data that comes inside pip packages, small tasks with a known answer, and loaders of public sets beside them.

Everything is drawn by a seed, and no example stands in two parts of a set. This floor knows no model.
"""

from course_lib.datasets.alignment import Lookup, Reversal, lookup, reversal
from course_lib.datasets.augmentation import warp
from course_lib.datasets.citations import cora
from course_lib.datasets.cldr_dates import FORMATS, LOCALES, dates, joined
from course_lib.datasets.download import Unreachable, WrongChecksum, cache_folder, download
from course_lib.datasets.first_symbol import Recall, recall
from course_lib.datasets.graphs import Graph, karate_club, les_miserables
from course_lib.datasets.handwritten import Digits, digits
from course_lib.datasets.neighbours import marked_neighbour, matching_neighbour
from course_lib.datasets.references import see_also
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
    "Graph",
    "Lookup",
    "Pair",
    "Recall",
    "Reversal",
    "Splits",
    "Unreachable",
    "Vocabulary",
    "WrongChecksum",
    "cache_folder",
    "cora",
    "dates",
    "digits",
    "download",
    "joined",
    "karate_club",
    "les_miserables",
    "lookup",
    "marked_neighbour",
    "matching_neighbour",
    "multi30k",
    "number_words",
    "pad",
    "photographs",
    "recall",
    "resize",
    "reversal",
    "see_also",
    "spelled",
    "split",
    "warp",
]
