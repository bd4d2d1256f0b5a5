"""A block = mix tokens, then mix channels: add & norm, the feed-forward network, the mixers, and what joins them."""

from course_lib.blocks.block import Block, DecoderBlock
from course_lib.blocks.convnet import ConvNet
from course_lib.blocks.equations import decoder_block, encoder_block, pre_norm_encoder_block
from course_lib.blocks.feedforward import FeedForward, feed_forward
from course_lib.blocks.mixers import CrossAttention, SelfAttention
from course_lib.blocks.residual import Residual, Sublayer, post_norm, pre_norm
from course_lib.blocks.stack import Sizes, Stack, closing_norm, decoder_stack, draw_weights, encoder_stack

__all__ = [
    "Block",
    "ConvNet",
    "CrossAttention",
    "DecoderBlock",
    "FeedForward",
    "Residual",
    "SelfAttention",
    "Sizes",
    "Stack",
    "Sublayer",
    "closing_norm",
    "decoder_block",
    "decoder_stack",
    "draw_weights",
    "encoder_block",
    "encoder_stack",
    "feed_forward",
    "post_norm",
    "pre_norm",
    "pre_norm_encoder_block",
]
