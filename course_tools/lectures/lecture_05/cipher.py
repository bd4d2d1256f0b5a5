"""Messages that begin with their own key: one character of the answer takes two look-ups, one after the other."""

from random import Random

from course_lib.datasets import Pair

LETTERS, DIGITS = "abcdefgh", "01234567"


def messages(n: int, seed: int) -> list[Pair]:
    """Compose n messages: a key, which says how a, b, …, h are written; then eight characters, half of them plain digits."""
    draw, pairs = Random(seed), []
    for _ in range(n):
        key = "".join(draw.sample(LETTERS, len(LETTERS)))
        plain = "".join(draw.choice(draw.choice((LETTERS, DIGITS))) for _ in LETTERS)
        pairs.append(Pair(key + plain.translate(str.maketrans(LETTERS, key)), plain))
    return pairs
