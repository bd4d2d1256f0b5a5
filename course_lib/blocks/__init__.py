"""A block = mix tokens, then mix channels: add & norm, the feed-forward network, the mixers, and what joins them."""

from course_lib.blocks.block import Block, DecoderBlock
from course_lib.blocks.feedforward import FeedForward, feed_forward
from course_lib.blocks.mixers import CrossAttention, SelfAttention
from course_lib.blocks.residual import Residual, Sublayer, post_norm, pre_norm

__all__ = [
    "Block",
    "CrossAttention",
    "DecoderBlock",
    "FeedForward",
    "Residual",
    "SelfAttention",
    "Sublayer",
    "feed_forward",
    "post_norm",
    "pre_norm",
]
