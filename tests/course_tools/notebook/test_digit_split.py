"""No digit that a model learns from is among the unseen ones."""

from course_tools.notebook import digit_split


def test_the_parts_share_no_digit_and_differ_between_seeds():
    images, labels, learn, unseen = digit_split((0, 1))
    assert images.shape == (5000, 1, 28, 28)
    assert labels.shape == (5000,)
    for seed in (0, 1):
        parts = learn[seed].tolist(), unseen[seed].tolist()
        assert [len(part) for part in parts] == [4000, 1000]
        assert len(set(parts[0]) | set(parts[1])) == 5000
    assert learn[0].tolist() != learn[1].tolist()
