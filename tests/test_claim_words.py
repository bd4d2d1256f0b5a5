"""Strong words of claims rest on bounds that carry them: no "as well as", "little" or "no better" over a one-sided bound."""

import re

import pytest

from course_tools.publishing.outputs import claims
from tests.test_notebooks import LECTURES, solved

ABSENCE = r"nothing|little|hardly|barely|negligible|no (?:effect|difference|gain|change)|without effect|unaffected"
EQUALITY = r"as (?:well|good|much|accurate) as|equally (?:well|good)|no (?:better|worse|more|less|higher|lower) than"
STRONG = re.compile(rf"\b(?:{ABSENCE}|{EQUALITY})\b", re.IGNORECASE)
NUMBER = r"(-?[\d.]+(?:e-?\d+)?)"
WIDEST = 0.1
"""The widest interval around "no difference" in accuracy; a bound on one side alone lies within half of it."""
SMALL_RATIO = 0.25


def carries(words: str, threshold: str) -> bool:
    """Whether a bound excludes what the words deny."""
    if threshold.startswith("equals"):
        return True
    if found := re.fullmatch(rf"between {NUMBER} and {NUMBER}", threshold):
        low, high = map(float, found.groups())
        return high - low <= WIDEST or (low > 0 and high / low <= 1.5)
    if found := re.fullmatch(rf"at most {NUMBER}", threshold):  # of a gain, a distance or a ratio
        return float(found[1]) <= (SMALL_RATIO if "ratio" in words else WIDEST / 2)
    return False


def unsupported(texts: list[tuple[str, str]]) -> list[str]:
    """The texts with a strong word whose bound does not carry it."""
    return [f"{words} [{threshold}]" for words, threshold in texts if STRONG.search(words) and not carries(words, threshold)]


@pytest.mark.parametrize("lecture", LECTURES, ids=lambda lecture: lecture.number)
def test_strong_words_of_a_claim_rest_on_its_bound(lecture):
    notebook = solved(lecture)
    made = {claim["id"]: claim for claim in claims(notebook)}
    texts = [(claim["text"], claim["threshold"]) for claim in made.values()]
    assert unsupported(texts) == []


def test_a_one_sided_bound_carries_no_equality():
    assert unsupported([("it is as accurate as attention: difference", "at least -0.2")])
    assert unsupported([("the edges change the accuracy little: difference", "between -0.2 and 0.2")])
    assert not unsupported([("the edges change the accuracy little: difference", "between -0.03 and 0.03")])
    assert not unsupported([("the gradient is no more than rounding: largest", "at most 1e-06"), ("accuracy", "at least 0.9")])
