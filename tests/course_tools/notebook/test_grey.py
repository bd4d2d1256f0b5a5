"""A picture of one channel becomes one of three equal ones."""

import numpy as np
import torch

from course_tools.notebook import grey


def test_each_pixel_has_its_value_in_three_channels():
    image = torch.tensor([[0.0, 0.5, 1.0], [0.25, 0.75, 0.125]])
    for one_channel in (image, image[None]):
        assert np.array_equal(grey(one_channel), np.stack([image.numpy()] * 3, axis=-1))
