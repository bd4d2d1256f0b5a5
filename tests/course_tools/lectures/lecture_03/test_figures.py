"""Maps of a captioner: hits are counted where the largest weight lies in the window, and the sentence names the regions."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course_lib.datasets import Vocabulary
from course_tools.lectures.lecture_03 import figures
from course_tools.lectures.lecture_03.figures import (
    attends_to_named,
    largest_share,
    show_caption_weights,
    show_exact_match,
    show_summed_weights,
)

CAPTION = "three left of seven"
WORDS = Vocabulary.of([CAPTION], between=" ")


class Fixed(nn.Module):
    """A captioner whose largest weight before word t is in a given region."""

    def __init__(self, *regions):
        super().__init__()
        self.regions = regions

    def forward(self, seen, captions):
        weights = torch.full((len(seen), captions.shape[1], 36), 0.01)
        for t, region in enumerate(self.regions):
            weights[:, t, region] = 0.65
        return torch.zeros(len(seen), captions.shape[1], 5), weights

    def write(self, seen):
        return WORDS.batch([CAPTION] * len(seen), end=True)[0]


CORNERS = torch.tensor([[[0, 0], [0, 28]]])


@pytest.fixture
def task():
    new = SimpleNamespace(images=torch.rand(1, 1, 42, 42), captions=(CAPTION,), corners=CORNERS)
    return SimpleNamespace(
        examples=SimpleNamespace(test=new),
        words=WORDS,
        new_regions=torch.zeros(1, 36, 66),
        new_captions=WORDS.batch([CAPTION], begin=True, end=True)[0],
    )


@pytest.mark.parametrize(("regions", "hits"), [((0, 9, 9, 5), 1.0), ((0, 9, 9, 0), 0.5), ((5, 9, 9, 0), 0.0)])
def test_a_hit_is_a_largest_weight_inside_the_window_of_the_named_digit(task, regions, hits):
    assert attends_to_named(Fixed(*regions), task, CORNERS) == hits


@pytest.fixture
def shown(monkeypatch):
    calls = []
    monkeypatch.setattr(figures, "show", lambda figure, alt: calls.append((figure, alt)))
    return calls


def test_the_sentence_names_the_region_before_each_word(task, shown):
    show_caption_weights(Fixed(0, 9, 9, 5, 35), task, 0)
    ((figure, alt),) = shown
    assert "before 'three' 0.65 in row 1, column 1" in alt
    assert "before 'seven' 0.65 in row 1, column 6" in alt
    assert "before '(end)' 0.65 in row 6, column 6" in alt
    assert [ax.get_title() for ax in figure.axes[:5]] == ["1 three", "2 left", "3 of", "4 seven", "5 (end)"]


def test_the_largest_sum_over_the_words_is_that_of_the_region_looked_at_most(task, shown):
    model = Fixed(0, 9, 9, 5, 35, 35)
    assert largest_share(model, task) == pytest.approx(2 * 0.65 + 3 * 0.01)
    show_summed_weights({"ours": model}, task)
    assert "ours 1.33" in shown[0][1]


def test_the_exact_match_is_drawn_from_0_to_1(shown):
    show_exact_match({"ours": {1: 0.0, 100: 0.25}}, "captions")
    ((figure, alt),) = shown
    assert alt == "Exact match, captions: ours 0.25 after 100 updates."
    assert figure.axes[0].get_ylim() == (0.0, 1.0)
