"""Exercise 17.5, cache_bytes: what students answer, wrong and right."""

import math

import torch

from course_lib.metrics import cache_bytes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Take one token, one layer and one head of keys and values. How many numbers are kept of this token? It is not only "
        "the key that later queries need."
    ),
    (
        "The rest are factors: tokens, layers, heads of keys and values, bytes of a number. Heads of queries do not matter, "
        "for queries are not kept. With a window, how many tokens does a layer keep of a short text, and how many of a long "
        "one?"
    ),
    (
        "With a window, a layer keeps as many tokens as the text has, but at most as many as the window. Multiply "
        "that number by two, for key and value, and by layers, groups, features of a head and the bytes of a number."
    ),
)


def _kept(T, window):
    return T if window is None else min(T, window)


@wrong.part
def counts_the_keys_alone(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You count one vector a token: the keys, or the values. Both are kept: without its value, a key that is found leads
    nowhere."""
    return n_layers * n_groups * d_k * _kept(T, window) * bytes_per_number


@wrong.detail
def keeps_one_token_less(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You keep one token fewer than the window has. The window counts the token itself: its key and value are in the cache,
    too."""
    kept = T if window is None else min(T, window - 1)
    return 2 * n_layers * n_groups * d_k * kept * bytes_per_number


@wrong.part
def counts_the_queries_too(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You count queries, keys and values. A query is used in its own step alone: later tokens have queries of their own, and
    only keys and values are kept."""
    return 3 * n_layers * n_groups * d_k * _kept(T, window) * bytes_per_number


@wrong.idea
def counts_the_weights(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """Your number grows with T²: those are the weights of attention. They are made anew in each step and thrown away; what is
    kept are one key and one value for each token."""
    return 2 * n_layers * n_groups * d_k * T * _kept(T, window) * bytes_per_number


@wrong.idea
def divides_by_the_groups(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You divide by `n_groups`. It is the number of heads of keys and values that there are: more of them take more memory, not
    less."""
    return 2 * n_layers * d_k * _kept(T, window) * bytes_per_number // n_groups


@wrong.part
def counts_one_head(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You never use `n_groups`, as if all heads of queries shared one head of keys and values. Each of the n_groups heads has
    its own key and value of d_k numbers."""
    return 2 * n_layers * d_k * _kept(T, window) * bytes_per_number


@wrong.part
def counts_one_layer(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You count one layer. Each layer has keys and values of its own, and keeps them."""
    return 2 * n_groups * d_k * _kept(T, window) * bytes_per_number


@wrong.part
def ignores_the_window(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You never use the window: your cache grows with the text. A layer with a window forgets a token as soon as no later query
    may attend to it."""
    return 2 * n_layers * n_groups * d_k * T * bytes_per_number


@wrong.detail
def fills_the_window(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You count a whole window even where the text is shorter. What was not read takes no place: the smaller of T and the
    window."""
    return 2 * n_layers * n_groups * d_k * (T if window is None else window) * bytes_per_number


@wrong.detail
def takes_the_larger(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You take the larger of T and the window. A window bounds the number of tokens from above: the smaller one."""
    return 2 * n_layers * n_groups * d_k * (T if window is None else max(T, window)) * bytes_per_number


@wrong.detail
def keeps_one_token_more(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You keep one token more than the window holds, as if the token itself did not count. A window of n tokens is that token
    and the n - 1 before it."""
    return 2 * n_layers * n_groups * d_k * (T if window is None else min(T, window + 1)) * bytes_per_number


@wrong.detail
def counts_numbers(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You count numbers, and not the bytes that they take. Multiply by `bytes_per_number`."""
    return 2 * n_layers * n_groups * d_k * _kept(T, window)


@wrong.detail
def counts_bits(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You count bits: eight for each byte. Asked for are bytes, in which memory is sold."""
    return 8 * cache_bytes(n_layers, n_groups, d_k, T, window, bytes_per_number)


@wrong.detail
def counts_gigabytes(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You divide by 10⁹. The result is a whole number of bytes; gigabytes are for printing it."""
    return cache_bytes(n_layers, n_groups, d_k, T, window, bytes_per_number) / 1e9


@wrong.case
def takes_two_bytes_always(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You take two bytes a number whatever `bytes_per_number` is. Training in float32 has four, and some caches are kept in one
    byte."""
    return cache_bytes(n_layers, n_groups, d_k, T, window)


@wrong.case
def always_wants_a_window(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You take the smaller of T and the window where there is no window: None cannot be compared. Without one, all T tokens
    are kept."""
    return 2 * n_layers * n_groups * d_k * min(T, window) * bytes_per_number


@wrong.case
def keeps_at_least_one_token(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """You count one token even where none has been read. Before the first token the cache is empty: with T = 0 it takes 0
    bytes."""
    return 2 * n_layers * n_groups * d_k * max(_kept(T, window), 1) * bytes_per_number


@right
def by_tensors_without_memory(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """The tensors themselves, on a device that has no memory, and their bytes."""
    dtype = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32}[bytes_per_number]
    n = T if not window or window > T else window
    keys = torch.empty(n_layers, n_groups, n, d_k, dtype=dtype, device="meta")
    values = torch.empty_like(keys)
    return keys.nbytes + values.nbytes


@right
def token_by_token(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """Bytes of one token, for each token that is still kept at the end."""
    of_a_token = sum(2 * n_groups * d_k for _ in range(n_layers)) * bytes_per_number
    first = 0 if window is None else max(0, T - window)
    return len(range(first, T)) * of_a_token


@right
def as_a_product(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    """All factors in a list, the window as a bound that may be infinite."""
    bound = math.inf if window is None else window
    return int(math.prod([n_layers, 2, n_groups, d_k, bytes_per_number, sorted([T, bound])[0]]))


@stranger
def cache_of_one_token_less(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    return cache_bytes(n_layers, n_groups, d_k, T - 1, window, bytes_per_number)


@stranger
def cache_with_all_the_weights(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    return cache_bytes(n_layers, n_groups, d_k, T, window, bytes_per_number) + n_layers * T * bytes_per_number


@stranger
def cache_that_halves_the_heads(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    return cache_bytes(n_layers, max(1, n_groups // 2), d_k, T, window, bytes_per_number)


@stranger(makes=[counts_the_keys_alone])
def cache_of_vectors(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    return cache_bytes(n_layers, n_groups, d_k, T, window, bytes_per_number) // 2


@stranger(makes=[counts_the_keys_alone, fills_the_window])
def cache_of_keys_in_a_whole_window(n_layers, n_groups, d_k, T, window=None, bytes_per_number=2):
    return fills_the_window(n_layers, n_groups, d_k, T, window, bytes_per_number) // 2


def _sizes(draw: Draw) -> Call:
    """Layers, heads, features and tokens, all different and all more than one."""
    n_layers, n_groups, d_k, T = draw.sizes(4)
    return n_layers, n_groups, d_k, 4 * T


exercise = Exercise(
    id="17.5",
    title="Bytes of a cache",
    reference=cache_bytes,
    properties=(
        runs_on(lambda draw: [_sizes(draw)]),
        has_shape("One whole number.", lambda draw: [_sizes(draw)]),
        Property(
            "one token",
            "One token, in one layer with one head: a key and a value of d_k numbers, two bytes each.",
            lambda draw: [(1, 1, draw.sizes(1)[0], 1)],
            points=2,
        ),
        Property(
            "factors",
            "Each layer, each head of keys and values and each token takes as much.",
            lambda draw: [_sizes(draw), (1, 1, 5, 7), (1, 7, 5, 1), (7, 1, 5, 1), (3, 2, 5, 0)],
            points=3,
            needs=("one token",),
        ),
        Property("bytes", "A number takes `bytes_per_number` bytes.", lambda draw: [(*_sizes(draw), None, n) for n in (1, 4)]),
        Property(
            "window",
            "With a window, a layer keeps the last tokens alone, and never more than there are.",
            lambda draw: [(*_sizes(draw), 5), (*_sizes(draw), 8), (*_sizes(draw), 100), (3, 2, 5, 7, 7), (3, 2, 5, 7, 6)],
            points=2,
            needs=("factors",),
        ),
        Property(
            "published",
            "GPT-3, Llama 2 with 70 billion parameters, and Mistral 7B with its window.",
            lambda draw: [(96, 96, 128, 2_048), (80, 8, 128, 4_096), (32, 8, 128, 32_768, 4_096)],
            needs=("factors", "window"),
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "The smaller of two numbers, and `is`, have no sides.": (
            "swap arguments: T if window is None else min(window, T)",
            "swap sides: T if None is window else min(T, window)",
        ),
    },
    hints=HINTS,
)
