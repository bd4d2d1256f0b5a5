"""Refused words, each with what to write instead: the one list for code, documents and exercises."""

import re
from collections.abc import Mapping

REFUSED = {
    r"behind": "after, next, following",
    r"speaks? (?:of|about)": "predicts, describes, is about",
    r"hears?|heard(?: \w+){0,2} of": "depends on, is independent of",
    r"upon each other": "stacked, one after another",
    r"below each other": "stacked row-wise",
    r"beneath each other": "stacked row-wise",
    r"shall \w+": "must, should",
    r"inmates?": "worker",
    r"testimony": "response",
    r"interviews?": "session",
    r"mouths?": "object query",
    r"the desk": "the pipeline",
    r"other signs?": "other characters",
    r"may look": "may attend",
    r"looks? nowhere": "attends to none",
    r"say(?:s|ing)? nothing of": "does not mention, does not depend on",
    r"knows? nothing of": "does not import, is independent of",
    r"films?": "video",
    r"bends?": "nonlinearity",
    r"signs": "characters",
    r"(?<!there )(?:is|are) no (?:notebooks?|Python|texts?|numbers?|time|code)": "is not a …, is not valid …",
    r"nobody": "no one, or the passive voice",
    r"whoever": "anyone who, a student who",
    r"nothing complains": "there is no error",
    r"foretells?": "predicts",
    r"hands? over": "passes",
    r"(?<!colour-)blind": "without access to",
    r"who asks?": "query",
    r"share out": "distribute",
    r"but for rounding": "up to rounding",
    r"c[ao]mes? of (?:it|them|each|one)|what c[ao]mes? of": "the result of",
    r"passed over": "skipped, ignored",
    r"mend(?:s|ing)?": "fix",
}
"""Regular expressions of whole words, in any case."""
FOR_STUDENTS = REFUSED | {r"pictures?": "image"}
"""Texts of exercises avoid these as well."""


def refused_words(text: str, refused: Mapping[str, str]) -> list[str]:
    """Return the refused words in a text, each with what to write instead."""
    return [
        f"{found[0]!r}; write {better}"
        for word, better in refused.items()
        if (found := re.search(rf"\b(?:{word})\b", text, re.IGNORECASE))
    ]
