"""The gradient of each frame, worked by hand for a block that adds all frames, and for one that sees one frame only."""

import torch

from course_tools.lectures.lecture_09.experiments import frame_by_frame, gradient_of_each_frame

VIDEO = torch.ones(1, 2, 3, 5, 7)


def test_a_sum_over_weighted_frames_has_the_weights_as_gradients():
    weights = torch.tensor([2.0, -3.0, 0.5])

    def block(x, w):
        return (x * w[:, None, None]).sum(2, keepdim=True).expand(x.shape)

    found = gradient_of_each_frame(block, VIDEO, weights)
    torch.testing.assert_close(found, 2 * 5 * 7 * weights.abs())


def test_frame_by_frame_the_first_output_depends_on_the_first_frame_only():
    def block(x, factor):
        return factor * x.mean((-1, -2), keepdim=True).expand(x.shape)

    found = gradient_of_each_frame(frame_by_frame(block), VIDEO, torch.tensor(3.0))
    torch.testing.assert_close(found, torch.tensor([3.0 * 2 * 5 * 7, 0.0, 0.0]))
