"""An SVD of pairs joins the languages, as far as its number of directions allows."""

from course_tools.lectures.lecture_08.date_pairs import date_pairs, labelled_dates
from course_tools.lectures.lecture_08.rivals import season_accuracies


def test_the_svd_knows_other_languages():
    known, new = date_pairs(2_000, 200)
    foreign = [pair for pair in new if pair.languages[0] != "en"]
    found = season_accuracies(labelled_dates(known, "en", 3, seed=0), known, foreign)
    assert 0.3 < found["TF-IDF"] < 0.8
    assert found["TF-IDF + SVD, 12 directions"] > found["TF-IDF"]
