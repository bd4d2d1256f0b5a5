"""A classifier's loss is a mean over the batch, its accuracy the fraction of right answers."""

import math

import pytest
import torch
from torch import nn

from course_tools.notebook.classifier import accuracy_of, classify


def test_accuracy_is_the_fraction_of_right_answers_without_dropout():
    model = nn.Sequential(nn.Identity(), nn.Dropout(0.9)).train()
    logits = torch.tensor([[2.0, 1.0], [2.0, 1.0], [1.0, 2.0], [1.0, 2.0]])
    assert accuracy_of(model, logits, torch.tensor([0, 1, 1, 1])) == pytest.approx(0.75)


def test_the_loss_is_minus_the_mean_logarithm_of_the_labels_probability():
    logits = torch.tensor([[0.0, math.log(3)], [0.0, 0.0]])
    assert classify(nn.Identity(), (logits, torch.tensor([0, 1]))).item() == pytest.approx((math.log(4) + math.log(2)) / 2)
