"""Real data from pip packages, small tasks with a known answer, and loaders of public data sets.

All random draws depend on a seed, and no example is in two parts of a data set. Data sets are independent of models.
"""

from course_lib.datasets.alignment import Lookup, Reversal, lookup, reversal
from course_lib.datasets.augmentation import LUMA, Augmentation, colour_matrix, recolour, warp
from course_lib.datasets.bible_verses import verses
from course_lib.datasets.byte_pairs import BytePairs
from course_lib.datasets.cifar10 import cifar10
from course_lib.datasets.citations import cora
from course_lib.datasets.cldr_dates import FORMATS, LOCALES, dates, joined
from course_lib.datasets.clutter import clutter
from course_lib.datasets.cluttered_scenes import SegmentedScenes, cluttered_scenes
from course_lib.datasets.composed_pictures import Captions, captioned_digits
from course_lib.datasets.cross_references import see_also
from course_lib.datasets.digit_scenes import Scenes, digit_scenes, ink_edges
from course_lib.datasets.display_names import DisplayName, display_names
from course_lib.datasets.docstrings import LabelledText, docstrings, marked_sentences
from course_lib.datasets.download import Unreachable, WrongChecksum, cache_folder, download
from course_lib.datasets.first_symbol import Recall, recall
from course_lib.datasets.handwritten import Digits, digits
from course_lib.datasets.language_reference import language_reference
from course_lib.datasets.mnist import mnist
from course_lib.datasets.moving_digits import WALL, Videos, moving_digits
from course_lib.datasets.neighbours import marked_neighbour, matching_neighbour
from course_lib.datasets.pictures import LabelledImages, few_of_each
from course_lib.datasets.pixel_graphs import PixelGraphs, pixel_graphs
from course_lib.datasets.same_or_different import ALONE, PAPER, TWIN, LabelledPixels, same_or_different, twins
from course_lib.datasets.sample_images import PHOTOGRAPHS, photographs, resize
from course_lib.datasets.secret_orders import Walks, secret_orders, walks
from course_lib.datasets.sentence_pairs import multi30k
from course_lib.datasets.shakespeare import Play, shakespeare
from course_lib.datasets.social_networks import Graph, karate_club, les_miserables
from course_lib.datasets.spelled_numbers import number_words, spelled
from course_lib.datasets.splits import Pair, Splits, split
from course_lib.datasets.sums import Sums, sums
from course_lib.datasets.vocabulary import BEGIN, END, PADDING, UNKNOWN, Vocabulary, pad
from course_lib.datasets.word_pieces import word_pieces

__all__ = [
    "ALONE",
    "BEGIN",
    "END",
    "FORMATS",
    "LOCALES",
    "LUMA",
    "PADDING",
    "PAPER",
    "PHOTOGRAPHS",
    "TWIN",
    "UNKNOWN",
    "WALL",
    "Augmentation",
    "BytePairs",
    "Captions",
    "Digits",
    "DisplayName",
    "Graph",
    "LabelledImages",
    "LabelledPixels",
    "LabelledText",
    "Lookup",
    "Pair",
    "PixelGraphs",
    "Play",
    "Recall",
    "Reversal",
    "Scenes",
    "SegmentedScenes",
    "Splits",
    "Sums",
    "Unreachable",
    "Videos",
    "Vocabulary",
    "Walks",
    "WrongChecksum",
    "cache_folder",
    "captioned_digits",
    "cifar10",
    "clutter",
    "cluttered_scenes",
    "colour_matrix",
    "cora",
    "dates",
    "digit_scenes",
    "digits",
    "display_names",
    "docstrings",
    "download",
    "few_of_each",
    "ink_edges",
    "joined",
    "karate_club",
    "language_reference",
    "les_miserables",
    "lookup",
    "marked_neighbour",
    "marked_sentences",
    "matching_neighbour",
    "mnist",
    "moving_digits",
    "multi30k",
    "number_words",
    "pad",
    "photographs",
    "pixel_graphs",
    "recall",
    "recolour",
    "resize",
    "reversal",
    "same_or_different",
    "secret_orders",
    "see_also",
    "shakespeare",
    "spelled",
    "split",
    "sums",
    "twins",
    "verses",
    "walks",
    "warp",
    "word_pieces",
]
