"""A slow model is measured after short prompts only."""

import torch

from course_lib.blocks import Sizes
from course_lib.models import LinearTransformer
from course_tools.lectures.lecture_14.figures import show_generation_speed


def test_each_model_is_measured_at_its_lengths(capsys):
    torch.manual_seed(0)
    model = LinearTransformer(11, Sizes(12, 3, 24, 1)).eval()
    models = {"fast": model, "slow": model}
    speeds = show_generation_speed(models, [2, 5, 7], "tiny", n_sequences=2, slow=["slow"], longest_of_slow=5)
    assert {name: len(each) for name, each in speeds.items()} == {"fast": 3, "slow": 2}
    assert min(map(min, speeds.values())) > 0
    assert "slow from" in capsys.readouterr().out
