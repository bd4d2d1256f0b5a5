"""Show and Tell reads the image once; Show, Attend and Tell reads it at each word."""

from types import SimpleNamespace

import torch

from course_tools.lectures.lecture_03.errata import exchange_the_image


def test_only_the_model_with_attention_depends_on_the_image_after_its_initial_state():
    torch.manual_seed(0)
    task = SimpleNamespace(
        words=range(11), new_regions=torch.randn(2, 36, 66), new_captions=torch.tensor([[1, 4, 5, 2], [1, 3, 6, 2]])
    )
    found = exchange_the_image(task, seed=0)
    assert found.show_and_tell == 0.0
    assert found.show_attend_and_tell > 1e-3
    assert exchange_the_image(task, seed=1).show_attend_and_tell != found.show_attend_and_tell
    task.new_regions[1] = task.new_regions[0]
    assert exchange_the_image(task, seed=0) == (0.0, 0.0)
