"""A block = mix tokens, then mix channels: residual connections, feed-forward networks, token mixers, and stacks of them."""

from course_lib.blocks.block import *
from course_lib.blocks.convnet import *
from course_lib.blocks.gated_feed_forward import *
from course_lib.blocks.mlp_mixer import *
