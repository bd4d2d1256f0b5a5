"""A block = mix tokens, then mix channels: add & norm, the feed-forward network, the mixers, and what joins them."""

from course_lib.blocks.block import Block, DecoderBlock
from course_lib.blocks.convnet import ContextOf, ConvNet, Layer, convolution
from course_lib.blocks.costs import Cost, convolution_cost, counted_cost, local_attention_cost
from course_lib.blocks.equations import decoder_block, encoder_block, pre_norm_encoder_block
from course_lib.blocks.feedforward import FeedForward, feed_forward
from course_lib.blocks.mixers import CrossAttention, SelfAttention
from course_lib.blocks.residual import Residual, Sublayer, post_norm, pre_norm
from course_lib.blocks.stack import Sizes, Stack, closing_norm, decoder_stack, draw_weights, encoder_stack
from course_lib.blocks.token_convolution import (
    Kernels,
    channel_mixing_by_convolution,
    token_mixing_by_convolution,
    token_mixing_kernels,
)
from course_lib.blocks.token_mixing import (
    TokenMixing,
    channel_mixing,
    lean_token_mixing,
    mixer_block,
    reordered_token_mixing,
    token_mixing,
)

__all__ = [
    "Block",
    "ContextOf",
    "ConvNet",
    "Cost",
    "CrossAttention",
    "DecoderBlock",
    "FeedForward",
    "Kernels",
    "Layer",
    "Residual",
    "SelfAttention",
    "Sizes",
    "Stack",
    "Sublayer",
    "TokenMixing",
    "channel_mixing",
    "channel_mixing_by_convolution",
    "closing_norm",
    "convolution",
    "convolution_cost",
    "counted_cost",
    "decoder_block",
    "decoder_stack",
    "draw_weights",
    "encoder_block",
    "encoder_stack",
    "feed_forward",
    "lean_token_mixing",
    "local_attention_cost",
    "mixer_block",
    "post_norm",
    "pre_norm",
    "pre_norm_encoder_block",
    "reordered_token_mixing",
    "token_mixing",
    "token_mixing_by_convolution",
    "token_mixing_kernels",
]
