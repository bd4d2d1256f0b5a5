"""Rivals without a network for the season of a date: TF-IDF of the labelled dates, and with an SVD of all pairs of dates."""

from collections.abc import Sequence

from torch import Tensor

from course_tools.lectures.lecture_08.date_pairs import DatePair, seasons


def season_accuracies(few: Sequence[DatePair], known: Sequence[DatePair], new: Sequence[DatePair]) -> dict[str, float]:
    """Measure how many seasons of new dates three methods find by logistic regression on the first writings of a few.

    TF-IDF takes groups of one to four letters, which relate languages; the SVD takes whole words, whose directions join what
    occurs on the same days.

    Args:
        few: the labelled dates.
        known: pairs without labels, for the SVD.
        new: the dates to classify.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    def words(text: str) -> str:
        return " ".join(word for word in text.split() if not word.isdigit())

    both = [words(f"{pair.first} {pair.second}") for pair in known]
    firsts, answers = [[words(pair.first) for pair in part] for part in (few, new)], (seasons(few), seasons(new))
    letters, tokens = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4)), TfidfVectorizer(token_pattern=r"\w+")
    letters.fit(both)
    found = {"TF-IDF": _accuracy(*map(letters.transform, firsts), *answers)}
    counted = tokens.fit_transform(both)
    for n in (12, 48):
        svd = TruncatedSVD(n, random_state=0).fit(counted)
        reduced = (normalize(svd.transform(tokens.transform(part))) for part in firsts)
        found[f"TF-IDF + SVD, {n} directions"] = _accuracy(*reduced, *answers)
    return found


def _accuracy(of_few: object, of_new: object, labels: Tensor, answers: Tensor) -> float:
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=100, max_iter=2_000).fit(of_few, labels.numpy())
    return float(fitted.score(of_new, answers.numpy()))
