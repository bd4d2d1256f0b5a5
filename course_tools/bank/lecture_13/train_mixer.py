"""Build task 13.8, train_mixer: an MLP-Mixer and its training loop from an empty cell; what students hand in.

The returned model also applies the two networks of its first block to features. What their results depend on is measured from
outside: token mixing processes each channel by itself and all alike, and reads every position; channel mixing the reverse.
"""

from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks import TokenMixing, channel_mixing, mixer_block, token_mixing
from course_lib.datasets import digits
from course_lib.models import Mixer
from course_lib.primitives import patchify
from course_tools.bank import image_classifiers as classifiers
from course_tools.bank import training_loops as loops
from course_tools.bank.image_classifiers import N_FEW, SIDE, SQUARE_PATCHES
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, N_STEPS = 60.0, 500
LEAST_PARAMETERS, MOST_PARAMETERS = 10_000, 12_500
"""A Mixer of the sizes that are given has 11,338 parameters; 10,700 without biases and gains in its networks and norms."""
ONE_BLOCK, NO_BLOCK = 6_800, 1_500
"""Fewer parameters than these are those of a single block, and those of embedding, norm and head."""
N_PATCHES, D_MODEL, N_BASES = 16, 32, 3
SOME = 1e-5
"""Influence on a result, relative to the largest, above which it is no rounding."""
ALIKE = 1e-4
"""Difference of two results, relative to the largest number, below which they are the same."""

HINTS = (
    (
        "Build it in this order, and print shapes after each step: patches (B, 16, 4); features (B, 16, 32) by one linear "
        "layer; a block, which adds the token mixing of the normed features and then the channel mixing of the normed sum; a "
        "norm; the mean over the positions (B, 32); logits. Then compare the number of parameters with your formula of 13.6."
    ),
    (
        "`nn.Linear` acts on the last axis of (B, 16, 32), the channels. Token mixing needs the positions there: transpose by "
        "`x.mT`, apply `Linear(16, 32)`, GELU, `Linear(32, 16)`, and transpose back. The images come sorted by their labels: "
        "draw each batch at random, `which = torch.randint(len(labels), (32,))`. Adam with a learning rate of 0.005 is a good "
        "start."
    ),
    (
        "`F.unfold(images, 2, stride=2).mT` gives the patches. Keep the blocks in an `nn.ModuleList` or `nn.Sequential`, each "
        "made by its own call. `def forward(self, x, tokens=None)` begins with `if tokens is not None: return "
        "self.blocks[0].tokens(x) if tokens else self.blocks[0].channels(x)`. The loop: `F.cross_entropy(model(images[which]), "
        "labels[which])`, `optimizer.zero_grad()`, `loss.backward()`, `optimizer.step()`; at the end `return model.eval()`."
    ),
)


def train_mixer(images: Tensor, labels: Tensor, n_classes: int, n_steps: int) -> nn.Module:
    """Build an MLP-Mixer, train it on images, and return it.

    The model maps images (B, 1, 8, 8) to logits (B, n_classes). It has patches of 2 × 2 pixels, so N = 16 positions, d = 32
    channels, and two blocks with d_s = 32 and d_c = 64. With a second argument, a tensor that holds True or False, it takes
    features (B, 16, 32) instead of images and returns the output of one network of its first block, (B, 16, 32), without norm
    and residual connection: of the token-mixing network for True, of the channel-mixing network for False.

    Args:
        images: the images to learn from, (N, 1, 8, 8), ink from 0 to 1, sorted by their labels.
        labels: their classes, (N,), integers below n_classes.
        n_classes: number of classes.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """
    P, N, d_model, d_tokens, d_channels = 2, 16, 32, 32, 64

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
            self.over_positions = nn.Sequential(nn.Linear(N, d_tokens), nn.GELU(), nn.Linear(d_tokens, N))
            self.channels = nn.Sequential(nn.Linear(d_model, d_channels), nn.GELU(), nn.Linear(d_channels, d_model))

        def tokens(self, x):
            return self.over_positions(x.mT).mT

        def forward(self, x):
            x = x + self.tokens(self.norm_1(x))
            return x + self.channels(self.norm_2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.blocks = nn.Linear(P * P, d_model), nn.Sequential(Block(), Block())
            self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, n_classes)

        def forward(self, x, tokens=None):
            if tokens is not None:
                return self.blocks[0].tokens(x) if tokens else self.blocks[0].channels(x)
            x = self.blocks(self.embed(F.unfold(x, P, stride=P).mT))
            return self.head(self.norm(x).mean(1))

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(n_steps):
        which = torch.randint(len(labels), (32,))
        loss = F.cross_entropy(model(images[which]), labels[which])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw the digits to learn from, and what the model is asked.

    The queries are those about images of `image_classifiers.questions`, and features (156, 16, 32) with True and with False:
    three as they are · three times as large · with their channels in another order · with their positions in another order ·
    with one position replaced, one after the other · with one channel replaced, one after the other. The model is probed with
    an image, first as it is and then with 1 added to each of its pixels in turn.
    """
    (data, queries, _, (_, pixels)), truth = classifiers.questions(N_STEPS, draw)
    x, other = draw.normal(2, N_BASES, N_PATCHES, D_MODEL)
    channels, positions = draw.uniform(D_MODEL).argsort(), draw.uniform(N_PATCHES).argsort()
    replaced = [torch.where(where[:, None], other, x) for where in torch.eye(N_PATCHES, dtype=torch.bool)]
    replaced += [torch.where(where, other, x) for where in torch.eye(D_MODEL, dtype=torch.bool)]
    features = torch.cat([x, 3 * x, x[:, :, channels], x[:, positions], *replaced])
    queries = [*queries, (features, torch.tensor(True)), (features, torch.tensor(False))]
    return (data, queries, (), [pixels]), {**truth, "channels": channels, "positions": positions}


def _model(measured: Measured, truth: Truth) -> str | None:
    if fault := classifiers.fault_of_classes(
        measured.outputs[:6], (len(truth["labels"]), N_FEW, N_FEW, 17 * N_FEW, 3 * N_FEW, 1)
    ):
        return fault
    shape = ((4 + N_PATCHES + D_MODEL) * N_BASES, N_PATCHES, D_MODEL)
    for output in measured.outputs[6:]:
        if tuple(output.shape) != shape:
            expected = f"For features {shape} and True or False it should return features of the same shape"
            return f"{expected}, not {tuple(output.shape)}. Both come as tensors: write `if tokens:`, not `is True`."
        if not output.is_floating_point() or not output.isfinite().all():
            return "The features should be floating point and finite."
    return None


def _network(measured: Measured, tokens: bool) -> tuple[Tensor, ...]:
    """The output of one network for the features, in the order of the queries, (52, 3, 16, 32)."""
    return measured.outputs[6 if tokens else 7].double().unflatten(0, (-1, N_BASES))


def _influences(measured: Measured, tokens: bool) -> tuple[Tensor, Tensor]:
    """Which position (first axis) has an influence on the results of which (second), (16, 16); and which channel, (32, 32)."""
    plain, _, _, _, *replaced = _network(measured, tokens)
    moved = (torch.stack(replaced) - plain).abs().amax(1)
    moved = moved > SOME * moved.max().clamp(min=1e-12)
    return moved[:N_PATCHES].any(2), moved[N_PATCHES:].any(1)


def _reads_others(reads: Tensor) -> bool:
    """Whether a result depends on another position, or channel, than its own."""
    return bool(reads[~torch.eye(len(reads), dtype=torch.bool)].any())


def _moves_with(measured: Measured, truth: Truth, tokens: bool, axis: str) -> bool:
    """Whether the results are in another order, and are otherwise the same, when channels or positions are in this order."""
    plain, _, channels, positions, *_ = _network(measured, tokens)
    other, moved = (channels, plain[..., truth[axis]]) if axis == "channels" else (positions, plain[:, truth[axis]])
    return bool((other - moved).abs().max() <= ALIKE * plain.abs().max())


def _tokens(measured: Measured, truth: Truth) -> str | None:
    positions, channels = _influences(measured, tokens=True)
    if _reads_others(channels):
        return "The token mixing of a channel changes when another channel is replaced. Is there a norm in it?"
    if not positions.all():
        return f"In token mixing, {int((~positions).sum())} of 256 pairs of positions have no influence on each other."
    if not _moves_with(measured, truth, True, "channels"):
        return "Token mixing treats the channels differently: in another order they get other results."
    if _moves_with(measured, truth, True, "positions"):
        return "Token mixing treats all positions alike."
    return None


def _channels(measured: Measured, truth: Truth) -> str | None:
    positions, channels = _influences(measured, tokens=False)
    if _reads_others(positions):
        return "The channel mixing of a position changes when another position is replaced. Is anything transposed?"
    if not channels.all():
        return f"In channel mixing, {int((~channels).sum())} of 1,024 pairs of channels have no influence on each other."
    if not _moves_with(measured, truth, False, "positions"):
        return "Channel mixing treats the positions differently: in another order they get other results."
    return None


def _squares(measured: Measured, truth: Truth) -> str | None:
    return "The four pixels of a token are no square of 2 × 2 pixels." if reads_no_squares(measured, truth) else None


def reads_no_squares(measured: Measured, truth: Truth) -> bool:
    """Evidence: in the features of the first layer each pixel changes one token, and the pixels of a token are no square."""
    embedded = trained.probe_of(measured).embedded
    if embedded.shape != (1 + SIDE**2, N_PATCHES * D_MODEL):
        return False
    moved = (embedded[1:] - embedded[0]).abs() > SOME * embedded.abs().max()
    by_token = (moved.view(-1, N_PATCHES, D_MODEL).any(2), moved.view(-1, D_MODEL, N_PATCHES).any(1))
    found = [one.int().argmax(1).view(SIDE, SIDE) for one in by_token if bool((one.sum(1) == 1).all())]
    return bool(found) and not any(classifiers.is_cut_into(token, 2) for token in found)


def _size(measured: Measured, truth: Truth) -> str | None:
    if measured.n_parameters < 0:
        return "The model is not an `nn.Module`, so its parameters cannot be counted."
    if measured.n_parameters < LEAST_PARAMETERS:
        return f"`model.parameters()` has {measured.n_parameters:,} weights; at least {LEAST_PARAMETERS:,} are required."
    return None


MIXES_BOTH_WAYS = (
    trained.shown("patches", SQUARE_PATCHES, trained.every(classifiers.every_patch, _squares)),
    trained.shown("tokens", "Token mixing: each channel by itself, all by one network that reads every position.", _tokens),
    trained.shown("channels", "Channel mixing: each position by itself, all by one network over the channels.", _channels),
    trained.shown("size", f"The model has at least {LEAST_PARAMETERS:,} weights: two blocks with both networks.", _size),
)


def networks_are_exchanged(measured: Measured, truth: Truth) -> bool:
    """Evidence: with True the positions do not mix, but the channels do; with False the reverse."""
    (positions, channels), (others, other_channels) = (_influences(measured, tokens) for tokens in (True, False))
    mix = (channels, others)
    return all(map(_reads_others, mix)) and not any(map(_reads_others, (positions, other_channels)))


def mixes_no_tokens(measured: Measured, truth: Truth) -> bool:
    """Evidence: in token mixing, results depend on the features of their own position only."""
    positions, _ = _influences(measured, tokens=True)
    return bool(positions.any()) and not _reads_others(positions)


def mixes_no_channels(measured: Measured, truth: Truth) -> bool:
    """Evidence: in channel mixing, results depend on their own channel only."""
    _, channels = _influences(measured, tokens=False)
    return bool(channels.any()) and not _reads_others(channels)


def norm_is_in_the_network(measured: Measured, truth: Truth) -> bool:
    """Evidence: in one of the two, features three times as large give the same result, which is not constant."""
    pairs = (_network(measured, tokens)[:2] for tokens in (True, False))
    return any(trained.is_near(once, thrice) and bool(once.std() > 0.01) for once, thrice in pairs)


def mixes_as_a_mean(measured: Measured, truth: Truth) -> bool:
    """Evidence: in token mixing, positions mix with the same weights for all, and channels do not mix."""
    positions, channels = _influences(measured, tokens=True)
    return _reads_others(positions) and not _reads_others(channels) and _moves_with(measured, truth, True, "positions")


def mixes_as_attention(measured: Measured, truth: Truth) -> bool:
    """Evidence: in token mixing, positions mix with the same weights for all, and so do channels."""
    positions, channels = _influences(measured, tokens=True)
    return _reads_others(positions) and _reads_others(channels) and _moves_with(measured, truth, True, "positions")


def mixes_neighbours(measured: Measured, truth: Truth) -> bool:
    """Evidence: in token mixing each channel is by itself, and some positions depend on some others only."""
    positions, channels = _influences(measured, tokens=True)
    return _reads_others(positions) and not bool(positions.all()) and not _reads_others(channels)


def tokens_unlike(measured: Measured, truth: Truth) -> bool:
    """Evidence: in token mixing each channel is by itself, and channels in another order get other results."""
    return not _reads_others(_influences(measured, True)[1]) and not _moves_with(measured, truth, True, "channels")


def channels_unlike(measured: Measured, truth: Truth) -> bool:
    """Evidence: in channel mixing each position is by itself, and positions in another order get other results."""
    return not _reads_others(_influences(measured, False)[0]) and not _moves_with(measured, truth, False, "positions")


def patches(images):
    """Cut images into sixteen patches (B, 16, 4)."""
    return F.unfold(images, 2, stride=2).mT


class Transposed(nn.Module):
    """A network over the positions of (B, 16, 32), the same for every channel."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x.mT).mT


def over_positions(n=N_PATCHES, d_tokens=32):
    """Make the token mixing of n positions."""
    return Transposed(network_of(n, d_tokens))


def network_of(n, d_hidden):
    """Make two layers with a GELU between."""
    return nn.Sequential(nn.Linear(n, d_hidden), nn.GELU(), nn.Linear(d_hidden, n))


over_channels = partial(network_of, D_MODEL, 64)
"""Make the channel mixing."""
over_features = partial(nn.LayerNorm, D_MODEL)
"""Make a norm."""


class SmallMixer(nn.Module):
    """A Mixer of the sizes that are asked for, and what a wrong submission changes.

    That is how it cuts images, how a block mixes tokens and channels, its norms, its list of blocks and its dropout.
    """

    def __init__(
        self,
        n_classes,
        cut=patches,
        tokens=over_positions,
        channels=over_channels,
        norm=over_features,
        blocks=lambda make: nn.ModuleList([make(), make()]),
        dropout=0.0,
    ):
        super().__init__()
        self.embed, self.dropout, self.cut = nn.Linear(4, D_MODEL), nn.Dropout(dropout), cut
        self.blocks = blocks(lambda: nn.ModuleList([norm(), tokens(), norm(), channels()]))
        self.norm, self.head = norm(), nn.Linear(D_MODEL, n_classes)

    def network(self, x, tokens):
        """Apply a network of the first block."""
        return self.blocks[0][1 if tokens else 3](x)

    def forward(self, x, tokens=None):
        if tokens is not None:
            return self.network(x, tokens)
        x = self.dropout(self.embed(self.cut(x)))
        for norm_1, mix_tokens, norm_2, mix_channels in self.blocks:
            x = x + mix_tokens(norm_1(x))
            x = x + mix_channels(norm_2(x))
        return self.head(self.norm(x).mean(1))


DROPOUT = (
    "Asked twice about the same image, your model gives different logits: it is still in training mode, or something in it is "
    "drawn at each call. Return `model.eval()`."
)
submit = classifiers.submission(SmallMixer)
wrong = loops.Submissions(__name__, submit, rates="0.001 to 0.01", **classifiers.WORDS)
classifiers.loop_mistakes(wrong, says=loops.LOOP | {"dropout_left_on": DROPOUT})
classifiers.data_mistakes(wrong)


class _OwnNetworks(nn.Module):
    """For each index along the last axis of (B, n, m) a network of its own over n numbers."""

    def __init__(self, n, m, d_hidden):
        super().__init__()
        self.up = nn.Parameter(torch.randn(m, n, d_hidden) / n**0.5)
        self.down = nn.Parameter(torch.randn(m, d_hidden, n) / d_hidden**0.5)

    def forward(self, x):
        hidden = F.gelu(torch.einsum("bnm,mnh->bmh", x, self.up))
        return torch.einsum("bmh,mhn->bnm", hidden, self.down)


@wrong(proof=trained.both(trained.reads_other_examples, classifiers.has_learned_nothing))
def patches_of_other_images(*data):
    """The logits of an image depend on the other images of its batch, and the model learns nothing: its tokens are patches of
    several images. A `reshape` or `view` does not know which axis is the batch: bring the batch axis to the front with
    `permute` first, or use `patchify`, `rearrange` or `F.unfold`."""
    return submit(data, 0.5, cut=patches_across_images)


@wrong.change("norm", trained.reads_other_examples)
class NormOverTheBatch(nn.Module):
    """The logits of an image depend on the other images of its batch: something is normalised, or mixed, over the batch axis.
    The norm of a Mixer is over the features of each position, `nn.LayerNorm(d)`."""

    def forward(self, x):
        return F.layer_norm(x - x.mean(0), (D_MODEL,))


@wrong(proof=classifiers.misses_patches)
def stride_left_out(*data):
    """Your model does not read some parts of an image: what is there can be replaced and no logit changes. Patches of 2 × 2
    next to each other make sixteen; put them back together to see whether they make up the whole image."""
    return submit(data, 0.5, cut=lambda images: F.unfold(images, 2)[..., :16].mT)


@wrong.detail(proof=reads_no_squares)
def strips_for_patches(*data):
    """Your tokens are no squares of 2 × 2 pixels: each holds four pixels that follow each other in memory, as in a row. A
    `reshape` of the image cuts it so. Split both sides, (B, 4, 2, 4, 2), and bring the two axes of size 2 together by
    `permute`, or use `patchify`, `rearrange` or `F.unfold`."""
    return submit(data, 0.5, cut=lambda images: images.reshape(-1, 16, 4))


@wrong.change("model", networks_are_exchanged)
class NetworksExchanged(SmallMixer):
    """Your two networks are exchanged: with `True` the model mixes the channels of each position, with `False` the positions of
    each channel. Token mixing passes information between positions."""

    def network(self, x, tokens):
        return super().network(x, not tokens)


@wrong.change("model", norm_is_in_the_network)
class WithTheNorm(SmallMixer):
    """Features three times as large give the same result: the network that you apply for the second argument has a norm before
    it. Return the output of the network alone; the norm belongs to the block."""

    def network(self, x, tokens):
        return super().network(self.blocks[0][0 if tokens else 2](x), tokens)


def patches_across_images(images):
    """Cut images into (B, 16, 4) by a reshape that takes the patches of one image for those of several."""
    squares = images.unfold(2, 2, 2).unfold(3, 2, 2)
    return squares.permute(2, 3, 0, 1, 4, 5).reshape(len(images), 16, 4)


class _Reshaped(Transposed):
    def forward(self, x):
        return self.network(x.reshape(-1, D_MODEL, N_PATCHES)).reshape(x.shape)


@wrong(proof=mixes_no_tokens)
def reshape_for_a_transpose(*data):
    """Your token mixing mixes no tokens: no position of its result depends on another position. `nn.Linear` acts on the last
    axis, and in (B, N, d) that is the channels. Exchange the two axes by `x.mT` before and after the network; `reshape` and
    `view` keep the order of the numbers in memory and transpose nothing."""
    return submit(data, 0.5, tokens=lambda: _Reshaped(network_of(16, 32)))


@wrong(proof=mixes_no_channels)
def both_transposed(*data):
    """Your channel mixing mixes no channels: no channel of its result depends on another channel. `nn.Linear` acts on the last
    axis of (B, N, d), the channels, so nothing is transposed here."""
    return submit(data, 0.5, channels=partial(over_positions, d_tokens=128))


@wrong.change("tokens", mixes_as_a_mean, part=0.5)
class MeanForTokenMixing(nn.Module):
    """Your token mixing treats all positions alike, as a mean over them does: in another order, each gets the same result. In a
    Mixer each position has weights of its own, a column of W_1 and a row of W_2, and so the model knows where a patch is."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.scale * (x.mean(1, keepdim=True) + F.gelu(x))


@wrong.change("tokens", mixes_as_attention, part=0.5)
class AttentionForTokenMixing(nn.Module):
    """Your token mixing treats all positions alike, as attention does, and the result for a channel depends on other channels.
    In a Mixer each position has fixed weights of its own, a column of W_1 and a row of W_2, the same for every channel."""

    def __init__(self, d=16):
        super().__init__()
        self.qkv, self.out = nn.Linear(D_MODEL, 3 * d, bias=False), nn.Linear(d, D_MODEL, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v)


@wrong.change("tokens", mixes_neighbours, part=0.5)
class ConvolutionForTokenMixing(nn.Module):
    """Your token mixing reads some positions only, as a convolution reads a neighbourhood. In a Mixer each hidden unit of token
    mixing reads all N positions, by a row of W_1."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Conv1d(1, 32, 3, padding=1), nn.Conv1d(32, 1, 3, padding=1)

    def forward(self, x):
        rows = x.mT.flatten(0, 1)[:, None]
        return self.down(F.gelu(self.up(rows)))[:, 0].unflatten(0, (-1, D_MODEL)).mT


@wrong(proof=tokens_unlike)
def own_network_for_each_channel(*data):
    """Your token mixing treats the channels differently: two channels with the same numbers get different results. Either each
    channel has a network of its own, or something that each channel has of its own, such as a scale, is part of it. All
    channels share one network."""
    return submit(data, 0.5, tokens=lambda: _OwnNetworks(16, 32, 8))


@wrong(proof=channels_unlike)
def own_network_for_each_position(*data):
    """Your channel mixing treats the positions differently: two positions with the same features get different results. Either
    each position has a network of its own, or something that each position has of its own is part of it. All positions share
    one network."""
    return submit(data, 0.5, channels=lambda: Transposed(_OwnNetworks(32, 16, 8)))


@wrong.change("model", trained.weights_without_gradient)
class EmbeddingsCutOff(SmallMixer):
    """A part of your model never gets a gradient and stays as it was drawn: the graph is cut by `.data`, `.detach()`,
    `torch.tensor(...)` or `torch.no_grad()`, or these weights are not used at all, as where the result of a network is not
    added to its input."""

    def forward(self, x, tokens=None):
        if tokens is not None:
            return super().forward(x, tokens)
        x = self.embed(self.cut(x))
        for norm_1, mix_tokens, norm_2, mix_channels in self.blocks:
            x = x + mix_tokens(norm_1(x.detach()))
            x = x + mix_channels(norm_2(x)).detach()
        return self.head(self.norm(x).mean(1))


@wrong(suspicion=lambda measured, truth: 0 < measured.n_parameters <= NO_BLOCK)
def blocks_in_a_list(*data):
    """`model.parameters()` holds hardly more than an embedding, a norm and a head. Blocks in a Python list are no submodules:
    the optimizer never gets their weights. Put them into an `nn.ModuleList` or `nn.Sequential`."""
    return submit(data, blocks=lambda make: [make(), make()])


@wrong(suspicion=lambda measured, truth: NO_BLOCK < measured.n_parameters < ONE_BLOCK)
def the_same_block_twice(*data):
    """Your model has as few weights as a Mixer with a single block. `[block] * 2` is a list that holds the same block twice:
    make each block by its own call."""
    return submit(data, blocks=lambda make: nn.ModuleList([make()] * 2))


@right
def with_convolutions(images, labels, n_classes, n_steps):
    """All layers are convolutions: of 2 × 2 for the patches, of width 1 over (B, positions, channels) for token mixing;
    dropout, AdamW with one cycle on shuffled epochs."""

    def convolutions(n, d_hidden):
        return nn.Sequential(nn.Conv1d(n, d_hidden, 1), nn.GELU(), nn.Dropout(0.02), nn.Conv1d(d_hidden, n, 1))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Conv2d(1, 32, 2, stride=2)
            self.over_positions = nn.ModuleList(convolutions(16, 32) for _ in range(2))
            self.over_channels = nn.ModuleList(convolutions(32, 64) for _ in range(2))
            self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(5))
            self.head = nn.Linear(32, n_classes)

        def forward(self, pictures, of_tokens=None):
            if of_tokens is not None and bool(of_tokens):
                return self.over_positions[0](pictures)
            if of_tokens is not None:
                return self.over_channels[0](pictures.transpose(1, 2)).transpose(1, 2)
            x = self.embed(pictures).flatten(2).transpose(1, 2)
            for i in range(2):
                x = x + self.over_positions[i](self.norms[2 * i](x))
                x = x + self.over_channels[i](self.norms[2 * i + 1](x).transpose(1, 2)).transpose(1, 2)
            return self.head(self.norms[4](x).mean(dim=1))

    model, criterion = Model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=n_steps)
    for pictures, targets in loops.epochs((images, labels), n_steps, 32, drop_last=True):
        optimizer.zero_grad()
        criterion(model(pictures), targets).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    return model


@right
def with_the_functions_of_the_lecture(images, labels, n_classes, n_steps):
    """`mixer_block` with weights in parameter lists, a head that starts at 0, and Adam by hand on gradients from autograd."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = self.linear(4, 32), self.linear(32, n_classes, scale=0.0)
            self.tokens = nn.ModuleList(self.linear(16, 32, 16) for _ in range(2))
            self.channels = nn.ModuleList(self.linear(32, 64, 32) for _ in range(2))
            self.norms = nn.ParameterList(nn.Parameter(torch.full((32,), 1.0 - i % 2)) for i in range(10))

        def linear(self, *widths, scale=1.0):
            weights = nn.ParameterList()
            for n, m in pairwise(widths):
                weights.extend([nn.Parameter(scale * torch.randn(m, n) / n**0.5), nn.Parameter(torch.zeros(m))])
            return weights

        def forward(self, x, tokens=None):
            if tokens is not None:
                return token_mixing(x, *self.tokens[0]) if tokens else channel_mixing(x, *self.channels[0])
            x = F.linear(patchify(x, 2), *self.embed)
            gains = list(zip(self.norms[::2], self.norms[1::2], strict=True))
            x = mixer_block(x, tuple(self.tokens[0]), tuple(self.channels[0]), (gains[0], gains[1]))
            x = mixer_block(x, tuple(self.tokens[1]), tuple(self.channels[1]), (gains[2], gains[3]))
            return F.linear(F.layer_norm(x, (32,), *gains[4]).mean(1), *self.head)

    model = Model()
    weights = list(model.parameters())
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    for step in range(1, n_steps + 1):
        which = torch.randint(len(labels), (48,))
        loss = -model(images[which]).log_softmax(-1).gather(1, labels[which][:, None]).mean()
        for w, m, v, gradient in zip(weights, first, second, torch.autograd.grad(loss, weights), strict=True):
            m.mul_(0.9).add_(gradient, alpha=0.1)
            v.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
            w.data -= 5e-3 * (m / (1 - 0.9**step)) / ((v / (1 - 0.99**step)).sqrt() + 1e-8)
    return model.eval()


exercise = Exercise(
    id="13.8",
    extra=True,
    title="An MLP-Mixer and its training loop",
    reference=train_mixer,
    properties=classifiers.properties(
        SECONDS,
        MOST_PARAMETERS,
        model=(
            "The model maps images (B, 1, 8, 8) to logits (B, n_classes), and features with True or False to features.",
            _model,
        ),
        mixing=MIXES_BOTH_WAYS,
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        Mixer: "write the model yourself: patches, blocks, norm, mean, head.",
        TokenMixing: "write the module yourself; your functions from above may be used.",
        digits: "learn from the images that you are given.",
    },
    training=Training(questions, SECONDS),
)
