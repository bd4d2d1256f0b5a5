"""The losses of a training loop are drawn in blocks of ten updates, and its result comes back."""

import torch
from torch import nn

from course_tools.notebook.recorded_losses import trained_with_losses


def test_the_curve_averages_ten_updates_and_the_model_comes_back(capsys):
    def train():
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, 3.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        for update in range(25):
            optimizer.zero_grad()
            (model.weight.sum() * (1.0 if update < 10 else 2.0)).backward()
            optimizer.step()
        return model

    model = trained_with_losses(train, "your model")
    assert model.weight.item() == 3.0
    assert (
        "Training loss of your model, means of the first and of the last ten updates: 3.00 and 6.00." in capsys.readouterr().out
    )
