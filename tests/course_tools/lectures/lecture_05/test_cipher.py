"""A message is read by its key."""

from course_tools.lectures.lecture_05.cipher import DIGITS, LETTERS, messages


def test_the_key_of_a_message_reads_it():
    pairs = messages(53, seed=1)
    assert len({pair.source[:6] for pair in pairs}) > 43
    assert set("".join(pair.target for pair in pairs)) == set(LETTERS + DIGITS)
    for source, target in pairs:
        key, message = source[:6], source[6:]
        assert sorted(key) == list(LETTERS)
        assert "".join(LETTERS[key.index(c)] if c in key else c for c in message) == target


def test_no_message_to_learn_from_has_the_key_of_a_new_one():
    known, new = ({pair.source[:6] for pair in messages(9_001, seed=0, new=new)} for new in (False, True))
    assert (len(known), len(new), known & new) == (600, 120, set())
