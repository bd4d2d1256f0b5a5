"""Step-by-step decoding: sampling, greedy and beam search, cached GPT, prompts."""

from course_lib.generation.beam_search import Beam, Extension, beam_search, extend_beam, greedy, rows_of
from course_lib.generation.cached_gpt import Cache, CachedGPT, cached_generate
from course_lib.generation.prompting import few_shot_prompt
from course_lib.generation.sampling import next_word_probabilities, sample, top_k, top_p

__all__ = [
    "Beam",
    "Cache",
    "CachedGPT",
    "Extension",
    "beam_search",
    "cached_generate",
    "extend_beam",
    "few_shot_prompt",
    "greedy",
    "next_word_probabilities",
    "rows_of",
    "sample",
    "top_k",
    "top_p",
]
