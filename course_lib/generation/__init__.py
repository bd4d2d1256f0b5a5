"""Step-by-step decoding: sampling, greedy and beam search, KV-cached GPT, few-shot prompts."""

from course_lib.generation.beam_search import Beam, Extension, beam_search, extend_beam, rows_of
from course_lib.generation.cached_gpt import Cache, CachedGPT
from course_lib.generation.decoding import Generated, LanguageModel, decode, generate, greedy, greedy_translation
from course_lib.generation.prompting import few_shot_prompt
from course_lib.generation.sampling import next_word_probabilities, sample, top_k, top_p

__all__ = [
    "Beam",
    "Cache",
    "CachedGPT",
    "Extension",
    "Generated",
    "LanguageModel",
    "beam_search",
    "decode",
    "extend_beam",
    "few_shot_prompt",
    "generate",
    "greedy",
    "greedy_translation",
    "next_word_probabilities",
    "rows_of",
    "sample",
    "top_k",
    "top_p",
]
