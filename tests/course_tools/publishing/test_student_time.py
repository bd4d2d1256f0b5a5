"""The time that a lecture takes a student: its exercises, and its words."""

import pytest

from course_tools.publishing.lecture_cells import draft
from course_tools.publishing.project import PublishingFailed, lectures
from course_tools.publishing.student_time import StudentTime, exercise_minutes, n_words, student_time, time_phrase

WORDS = 1_020
"""17 minutes of reading."""
LECTURE = f"""\
# %% [markdown] tags=["header"]
# # 05 · Small
# **Time:** {{minutes}}. {{measured}}

# %% [markdown]
# {"word " * WORDS}
#
# <details><summary>An answer.</summary>{"folded " * 600}</details>

# %% exercise="05.2" minutes=13
from course_lib.primitives import layer_norm

# %%
layer_norm = check("05.2", layer_norm)

# %% exercise="05.2" minutes=13
from course_lib.primitives import layer_norm

# %%
layer_norm = check("05.2", layer_norm)
"""


@pytest.fixture
def lecture(course, author):
    author("05_small", LECTURE)
    return lectures(course, ["05"])[0]


def test_reading_and_exercises_add_up_and_an_exercise_counts_once(lecture):
    assert exercise_minutes(lecture) == {"05.2": 13}
    assert student_time(lecture) == StudentTime(30, 0)


def test_the_header_states_the_time(lecture):
    assert time_phrase(lecture) == "about 30 minutes"
    header = draft(lecture, "Runs in a second.").cells[0].source
    assert header.endswith("**Time:** about 30 minutes. Runs in a second.")


def test_the_header_names_the_exercises_of_the_core_where_their_numbers_are_out_of_order(course, author):
    norm = LECTURE[LECTURE.index("# %% exercise") : LECTURE.rindex("# %% exercise")]
    again = norm.replace("05.2", "05.1").replace("layer_norm", "sinusoidal_positions")
    author("05_small", f"{LECTURE.partition('# %% exercise')[0]}{norm}{again}")
    (lecture,) = lectures(course, ["05"])
    assert draft(lecture, "").cells[0].source.endswith("the core has 05.2 and 05.1, in this order.")


def test_what_goes_further_counts_apart(course, author):
    before, exercise, again = LECTURE.partition("# %% exercise")
    further = f"# %% [markdown]\n# # Going further\n# {'word ' * WORDS}\n\n"
    author("05_small", f"{before}{further}{exercise}{again}")
    (lecture,) = lectures(course, ["05"])
    assert student_time(lecture) == StudentTime(15, 30)
    assert time_phrase(lecture) == "about 15 minutes, and 30 more for *Going further*"
    with pytest.raises(
        PublishingFailed, match=r"exercise 05.2 stands after the heading '# Going further'.*`extra` must be True"
    ):
        draft(lecture, "")


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("Two words, a third: $x y$.", 4),
        ("| a table | of words |", 0),
        ("<details><summary>A. one</summary>\n\nfolded answer</details> seen", 1),
        ("[the text](of-an-address)", 2),
        ("$$a\nb$$ one", 1),
        ("a paper (https://arxiv.org/abs/1706.03762), read", 3),
    ],
)
def test_words_are_those_of_the_prose_that_stands_open(text, n):
    assert n_words(text) == n
