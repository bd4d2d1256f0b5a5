"""Building blocks of attention: masks, positions, patches, boxes, kernels, windows, recurrent cells and their gradients."""

from course_lib.primitives.backpropagation import StepGradients, bptt_step, carousel_gradient, clip_gradients
from course_lib.primitives.boxes import Overlap, area, giou, iou, overlap, to_centres, to_corners
from course_lib.primitives.halting import HaltingStep, adaptive_step, halting_distribution, mix_states, ponder_cost
from course_lib.primitives.kernels import (
    elu_feature_map,
    favor_features,
    gaussian_projection,
    orthogonal_projection,
    orthogonalised,
    trigonometric_features,
)
from course_lib.primitives.masks import causal_mask, padding_mask
from course_lib.primitives.message_passing import dirichlet_energy, gcn_weights, propagate, require_edges, with_self_loops
from course_lib.primitives.normalisation import batch_norm, layer_norm, unit
from course_lib.primitives.patches import embed_patches, interpolate_positions, patch_grid, patchify, unpatchify
from course_lib.primitives.positions import LearnedPositions, sinusoidal_points, sinusoidal_positions, sinusoids
from course_lib.primitives.recurrent import (
    GRU,
    LSTM,
    RNN,
    encode,
    fused_gru,
    fused_lstm,
    gru,
    gru_step,
    hoisted_rnn,
    lstm,
    lstm_step,
    rnn,
    rnn_step,
)
from course_lib.primitives.windows import local_windows, window_mask

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "HaltingStep",
    "LearnedPositions",
    "Overlap",
    "StepGradients",
    "adaptive_step",
    "area",
    "batch_norm",
    "bptt_step",
    "carousel_gradient",
    "causal_mask",
    "clip_gradients",
    "dirichlet_energy",
    "elu_feature_map",
    "embed_patches",
    "encode",
    "favor_features",
    "fused_gru",
    "fused_lstm",
    "gaussian_projection",
    "gcn_weights",
    "giou",
    "gru",
    "gru_step",
    "halting_distribution",
    "hoisted_rnn",
    "interpolate_positions",
    "iou",
    "layer_norm",
    "local_windows",
    "lstm",
    "lstm_step",
    "mix_states",
    "orthogonal_projection",
    "orthogonalised",
    "overlap",
    "padding_mask",
    "patch_grid",
    "patchify",
    "ponder_cost",
    "propagate",
    "require_edges",
    "rnn",
    "rnn_step",
    "sinusoidal_points",
    "sinusoidal_positions",
    "sinusoids",
    "to_centres",
    "to_corners",
    "trigonometric_features",
    "unit",
    "unpatchify",
    "window_mask",
    "with_self_loops",
]
