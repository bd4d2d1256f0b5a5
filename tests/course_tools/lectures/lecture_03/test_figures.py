"""Maps of a captioner: hits are counted where the largest weight lies in the window, and the sentence names the regions."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course_lib.datasets import Vocabulary
from course_lib.models import soft_attention
from course_tools.bank.lecture_03.soft_attention import has_no_tanh
from course_tools.lectures.lecture_03 import figures
from course_tools.lectures.lecture_03.figures import attends_to_named, change_of_weights, show_caption_weights

CAPTION = "three left of seven"


class Fixed(nn.Module):
    """A captioner whose largest weight before word t is in a given region."""

    def __init__(self, *regions):
        super().__init__()
        self.regions = regions

    def forward(self, seen, captions):
        weights = torch.full((len(seen), captions.shape[1], 36), 0.01)
        for t, region in enumerate(self.regions):
            weights[:, t, region] = 0.65
        return SimpleNamespace(weights=weights)


CORNERS = torch.tensor([[[0, 0], [0, 28]]])


@pytest.fixture
def task():
    new = SimpleNamespace(images=torch.rand(1, 1, 42, 42), captions=(CAPTION,), corners=CORNERS)
    words = Vocabulary.of([CAPTION], between=" ")
    return SimpleNamespace(
        examples=SimpleNamespace(test=new),
        words=words,
        new_regions=torch.zeros(1, 36, 66),
        new_captions=words.batch([CAPTION], begin=True, end=True)[0],
        captions_by=lambda model, seen: [CAPTION],
    )


@pytest.mark.parametrize(("regions", "hits"), [((0, 9, 9, 5), 1.0), ((0, 9, 9, 0), 0.5), ((5, 9, 9, 0), 0.0)])
def test_a_hit_is_a_largest_weight_inside_the_window_of_the_named_digit(task, regions, hits):
    assert attends_to_named(Fixed(*regions), task, CORNERS) == hits


def test_the_sentence_names_the_region_before_each_word(task, monkeypatch):
    shown = []
    monkeypatch.setattr(figures, "show", lambda figure, alt: shown.append((figure, alt)))
    show_caption_weights(Fixed(0, 9, 9, 5, 35), task, 0)
    ((figure, alt),) = shown
    assert "before 'three' 0.65 in row 1, column 1" in alt
    assert "before 'seven' 0.65 in row 1, column 6" in alt
    assert "before '(end)' 0.65 in row 6, column 6" in alt
    assert [ax.get_title() for ax in figure.axes[:5]] == ["1 three", "2 left", "3 of", "4 seven", "5 (end)"]


def test_the_state_changes_the_weights_through_the_tanh_only():
    regions = torch.randn(5, 7, 11, generator=torch.Generator().manual_seed(1))
    assert change_of_weights(soft_attention, regions) > 0.05
    assert change_of_weights(has_no_tanh, regions) < 1e-5
    assert change_of_weights(soft_attention, regions) != change_of_weights(soft_attention, regions, seed=1)
