"""Step-by-step decoding: sampling, greedy and beam search, KV-cached GPT, gap filling, prompts, speculative decoding."""

from course_lib.generation.beam_search import *
from course_lib.generation.decoding import *
from course_lib.generation.gap_filling import *
from course_lib.generation.known_language import *
from course_lib.generation.prompting import *
from course_lib.generation.sampling import *
from course_lib.generation.speculative import *
