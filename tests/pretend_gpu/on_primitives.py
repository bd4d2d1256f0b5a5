"""The functions that mechanisms are made of, and the blocks of models: on the device, with the numbers of the CPU."""

import pytest
import torch
import torch.nn.functional as F

import course_lib.blocks as L
import course_lib.primitives as P
from course_lib import fast
from course_lib.attention import LocalAttention, MultiHead, scaled_dot_product_attention
from course_lib.blocks.block import closing_norm
from tests.pretend_gpu.ran import never_ran

B, T, N, d, n = 2, 5, 7, 6, 3
GENERATOR = torch.Generator().manual_seed(0)


def real(*shape):
    return torch.randn(shape, generator=GENERATOR).requires_grad_()


def fixed(*shape):
    return torch.randn(shape, generator=GENERATOR)


def gates(k):
    return real(k * n, d), real(k * n, n), real(k * n), real(k * n)


LENGTHS = torch.tensor([5, 3])
EDGES = torch.tensor([[0, 0, 1, 3, 3, 2, 4], [1, 2, 0, 0, 1, 2, 3]])
CORNERS = torch.tensor([[0.1, 0.2, 0.5, 0.7], [0.3, 0.1, 0.9, 0.4], [0.0, 0.0, 0.2, 1.0]])
HALTS = torch.rand(B, T, n, generator=GENERATOR)
STATE, CELL = fixed(B, n), fixed(B, n)

PRIMITIVES = {
    "bptt_step": (P.bptt_step, fixed(B, n), fixed(B, d), STATE, fixed(B, n), fixed(n, d), fixed(n, n)),
    "carousel_gradient": (P.carousel_gradient, torch.rand(T, B, n, generator=GENERATOR)),
    "clip_gradients": (lambda *gradients: P.clip_gradients(gradients, 0.5), fixed(n, d), fixed(d)),
    "rnn_step": (P.rnn_step, real(B, d), real(B, n), real(n, d), real(n, n), real(n)),
    "gru_step": (P.gru_step, real(B, d), real(B, n), *gates(3)),
    "lstm_step": (P.lstm_step, real(B, d), real(B, n), real(B, n), *gates(4)[:3]),
    "encode": (P.encode, real(B, T, d), LENGTHS, STATE, real(n, d), real(n, n), real(n)),
    "rnn": (P.rnn, real(B, T, d), (STATE,), *gates(1), LENGTHS),
    "hoisted_rnn": (fast.hoisted_rnn, real(B, T, d), (STATE,), *gates(1), LENGTHS),
    "gru": (P.gru, real(B, T, d), (STATE,), *gates(3), LENGTHS),
    "fused_gru": (fast.fused_gru, real(B, T, d), (STATE,), *gates(3), LENGTHS),
    "lstm": (P.lstm, real(B, T, d), (STATE, CELL), *gates(4), LENGTHS),
    "fused_lstm": (fast.fused_lstm, real(B, T, d), (STATE, CELL), *gates(4), LENGTHS),
    "RNN": (P.RNN(d, n), real(B, T, d)),
    "GRU": (P.GRU(d, n), real(B, T, d)),
    "LSTM": (P.LSTM(d, n), real(B, T, d)),
    "layer_norm": (P.layer_norm, real(B, T, d), real(d), real(d)),
    "batch_norm": (P.batch_norm, real(B, T, d), real(d), real(d)),
    "rms_norm": (P.rms_norm, real(B, T, d), real(d)),
    "unit": (P.unit, real(B, d)),
    "causal_mask": (lambda x: P.causal_mask(n, T, x.device), fixed(1)),
    "padding_first": (P.padding_first, torch.arange(B * T).view(B, T), LENGTHS),
    "padding_mask": (lambda lengths: P.padding_mask(lengths, T), LENGTHS),
    "window_of_tokens": (lambda x: P.window_of_tokens(T, n, x.device), fixed(1)),
    "window_with_sinks": (lambda x: P.window_with_sinks(T, n, 2, x.device), fixed(1)),
    "window_mask": (lambda x: P.window_mask(T, N, 3, 2, x.device), fixed(1)),
    "local_windows": (lambda x: P.local_windows(x, 3, 2), real(B, T, N, d)),
    "sinusoidal_positions": (lambda x: P.sinusoidal_positions(T, d, x.device), fixed(1)),
    "sinusoidal_points": (lambda points: P.sinusoidal_points(points, 8), torch.rand(B, 2, generator=GENERATOR)),
    "sinusoids": (lambda x: P.sinusoids(n, T, d, x.device), fixed(1)),
    "LearnedPositions": (P.LearnedPositions(T, d), n),
    "interpolate_positions": (lambda positions: P.interpolate_positions(positions, 2, 3, 3, 5), real(2 * 3 + 1, d)),
    "patch_grid": (lambda x: P.patch_grid(*x.shape[-2:], 2), fixed(1, 1, 4, 6)),
    "patchify": (lambda x: P.patchify(x, 2), real(B, 3, 4, 6)),
    "unpatchify": (lambda x: P.unpatchify(x, 2, 4, 6), real(B, 6, 12)),
    "embed_patches": (P.embed_patches, real(B, N, 12), real(d, 12), real(d), real(1, d), real(N + 1, d)),
    "elu_feature_map": (P.elu_feature_map, real(B, T, d)),
    "lean_elu_feature_map": (P.lean_elu_feature_map, real(B, T, d)),
    "favor_features": (P.favor_features, real(B, T, d), fixed(n, d)),
    "trigonometric_features": (P.trigonometric_features, real(B, T, d), fixed(n, d)),
    "gaussian_projection": (lambda x: P.gaussian_projection(n, d, torch.Generator().manual_seed(1)).to(x.device), fixed(1)),
    "orthogonal_projection": (lambda x: P.orthogonal_projection(n, d, torch.Generator().manual_seed(1)).to(x.device), fixed(1)),
    "orthogonalised": (P.orthogonalised, fixed(N, d)),
    "halting_distribution": (P.halting_distribution, HALTS),
    "mix_states": (P.mix_states, real(B, T, n, d), HALTS),
    "ponder_cost": (P.ponder_cost, HALTS),
    "adaptive_step": (
        lambda x, y, h, *halt: tuple(P.adaptive_step(x, y, halt, h)),
        *(fixed(B, T, d), fixed(B, T, d), HALTS / n, real(d), real(1)[0]),
    ),
    "area": (P.area, CORNERS),
    "overlap": (P.overlap, CORNERS, CORNERS[:2]),
    "iou": (P.iou, CORNERS, CORNERS[:2]),
    "giou": (P.giou, CORNERS, CORNERS[:2]),
    "to_centres": (P.to_centres, CORNERS),
    "to_corners": (P.to_corners, CORNERS),
    "require_edges": (lambda edges: P.require_edges(edges, T), EDGES),
    "with_self_loops": (lambda edges: P.with_self_loops(edges, T), EDGES),
    "gcn_weights": (lambda edges: P.gcn_weights(edges, T), EDGES),
    "propagate": (P.propagate, real(B, T, d), EDGES, fixed(7)),
    "dirichlet_energy": (P.dirichlet_energy, real(B, T, d), EDGES),
}


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_primitive(name, same_there):
    form, *inputs = PRIMITIVES[name]
    same_there(form, *inputs)


def test_every_public_primitive_ran_here():
    assert never_ran(P) == set()


HEADS = real(d, d), real(d, d), real(d, d), real(d, d)
NETWORK = real(N, d), real(N), real(d, N), real(d)
TOKENS = real(n, T), real(n), real(T, n), real(T)
NORMS = ((real(d), real(d)),) * 3
SIZES = L.Sizes(d_model=d, n_heads=2, d_ff=N, n_layers=2)
CONVOLVED = real(B, d, 1, T)


def attention():
    return MultiHead(d, 2, scaled_dot_product_attention)


BLOCKS = {
    "feed_forward": (L.feed_forward, real(B, T, d), *NETWORK),
    "encoder_block": (lambda *given: L.encoder_block(*given, 2), real(B, T, d), HEADS, NETWORK, NORMS[:2]),
    "pre_norm_encoder_block": (lambda *given: L.pre_norm_encoder_block(*given, 2), real(B, T, d), HEADS, NETWORK, NORMS[:2]),
    "decoder_block": (
        lambda *given: L.decoder_block(*given, 2),
        *(real(B, T, d), real(B, N, d), HEADS, HEADS, NETWORK, NORMS),
    ),
    "post_norm": (lambda x: L.post_norm(x, torch.tanh, torch.sigmoid), real(B, d)),
    "pre_norm": (lambda x: L.pre_norm(x, torch.tanh, torch.sigmoid), real(B, d)),
    "encoder_stack": (L.encoder_stack(SIZES), real(B, T, d)),
    "decoder_stack": (L.decoder_stack(SIZES), real(B, T, d), real(B, N, d)),
    "Block": (L.Block(L.SelfAttention(attention()), L.FeedForward(d, N, F.gelu), d, L.pre_norm), real(B, T, d)),
    "gated_feed_forward": (L.gated_feed_forward, real(B, T, d), real(N, d), real(N, d), real(d, N)),
    "GatedFeedForward": (L.GatedFeedForward(d, N), real(B, T, d)),
    "CrossAttention": (L.CrossAttention(attention()), real(B, T, d), real(B, N, d)),
    "ContextOf": (L.ContextOf(LocalAttention(3, d, 3, 3)), real(B, 3, 4, 6)),
    "closing_norm": (closing_norm(L.pre_norm, d), real(B, T, d)),
    "convolution": (L.convolution(3, d, 2), real(B, 3, 8, 8)),
    "ConvNet": (L.ConvNet(3, (4, 5), (2, 1)).eval(), real(B, 3, 8, 8)),
    "TokenMixing": (L.TokenMixing(T, n), real(B, T, d)),
    "token_mixing": (L.token_mixing, real(B, T, d), *TOKENS),
    "lean_token_mixing": (fast.lean_token_mixing, real(B, T, d), *TOKENS),
    "reordered_token_mixing": (lambda *given: L.reordered_token_mixing(*given, given[3].argsort()), *TOKENS),
    "token_mixing_by_convolution": (L.token_mixing_by_convolution, CONVOLVED, *TOKENS),
    "token_mixing_kernels": (lambda *given: tuple(L.token_mixing_kernels(*given, d, 1, T)), *TOKENS),
    "channel_mixing": (L.channel_mixing, real(B, T, d), *NETWORK),
    "channel_mixing_by_convolution": (L.channel_mixing_by_convolution, CONVOLVED, *NETWORK),
    "mixer_block": (L.mixer_block, real(B, T, d), TOKENS, NETWORK, NORMS[:2]),
    "zero_head": (L.zero_head(d, n), real(B, d)),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block(name, same_there):
    form, *inputs = BLOCKS[name]
    same_there(form, *inputs)


def test_every_public_block_ran_here():
    """What only makes modules or draws their weights computes nothing."""
    makers = {"convolution", "decoder_stack", "draw_weights", "encoder_stack", "zero_head"}
    assert never_ran(L) <= makers
    for module in (fast.mlp_mixer, fast.recurrent):
        assert never_ran(module) == set()
