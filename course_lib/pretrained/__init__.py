"""Published weights: read a checkpoint and map its tensors to the models of this library."""

from course_lib.pretrained.checkpoint_reader import Checkpoint, read_checkpoint

__all__ = [
    "Checkpoint",
    "read_checkpoint",
]
