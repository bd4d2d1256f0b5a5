"""Messages that begin with their own key: one character of the answer takes two look-ups, one after the other."""

from itertools import permutations
from random import Random

from course_lib.datasets import Pair

LETTERS, DIGITS = "abcdef", "012345"


def messages(n: int, seed: int, new: bool = False) -> list[Pair]:
    """Compose n messages: a key, which says how a, b, …, f are written; then six characters, half of them plain digits.

    Of the 720 keys, 120 are kept for new messages.
    """
    keys, draw, pairs = ["".join(key) for key in permutations(LETTERS)], Random(seed), []
    Random(0).shuffle(keys)
    kept = keys[600:] if new else keys[:600]
    for _ in range(n):
        key = draw.choice(kept)
        plain = "".join(draw.choice(draw.choice((LETTERS, DIGITS))) for _ in LETTERS)
        pairs.append(Pair(key + plain.translate(str.maketrans(LETTERS, key)), plain))
    return pairs
