"""Build task 13.8, train_mixer: an MLP-Mixer and its training loop from an empty cell; what students hand in.

The model marks the patches of puzzles at the end of a bundle of cables. It also applies the two networks of its first block to
features. What their results depend on is measured from outside: token mixing processes each channel by itself and all alike,
and reads every position; channel mixing the reverse. What the marks depend on shows whether the model has found which patches
belong together.
"""

from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks import TokenMixing, channel_mixing, mixer_block, token_mixing
from course_lib.models import Mixer
from course_lib.primitives import patchify, unpatchify
from course_tools.bank import training_loops as loops
from course_tools.bank.drawn_puzzles import H, N, P, W, counterparts, draw_bundle, draw_puzzles, through_bundle
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, N_STEPS = 60.0, 300
N_LEARN, N_UNSEEN, N_FEW, N_EXCHANGED = 3_000, 400, 16, 64
D_MODEL, D_TOKENS, D_CHANNELS, N_BASES = 24, 64, 48, 3
LEAST_PARAMETERS, MOST_PARAMETERS = 15_000, 17_000
"""A Mixer of the sizes that are given has 16,017 parameters; 15,416 without any bias or gain."""
ONE_BLOCK, NO_BLOCK = 9_800, 3_000
"""Fewer parameters than these are those of a single block, and those of embedding, norm and head."""
LEARNS, FOUND = 0.82, 20
"""Right marks, and counterparts of 32. Good solutions reach 0.91 and 27; plain distances of pixels 0.81; chance 0.5 and 1."""
GUESS, BY_HEART = 0.08, 0.15
"""How far from one half the right marks of a guess are at most, and the loss of puzzles that are known by heart."""
OUTSHINES = 1e4
"""A patch so many times as large as it was leaves nothing of the others where a norm is over positions."""
SOME = 1e-5
"""Influence on a result, relative to the largest, above which it is no rounding."""
ALIKE = 1e-4
"""Difference of two results, relative to the largest number, below which they are the same."""

HINTS = (
    (
        "Build it in this order, and print shapes after each step: patches (B, 32, 108); features (B, 32, 24) by one linear "
        "layer; a block, which adds the token mixing of the normed features and then the channel mixing of the normed sum; a "
        "norm; one number for each position (B, 32). Then compare the number of parameters with your formula of 13.7."
    ),
    (
        "`nn.Linear` acts on the last axis of (B, 32, 24), the channels. Token mixing needs the positions there: transpose by "
        "`x.mT`, apply `Linear(32, 64)`, GELU, `Linear(64, 32)`, and transpose back. Draw each batch at random, `which = "
        "torch.randint(len(images), (64,))`. Adam with a learning rate of 0.005 is a good start."
    ),
    (
        "`F.unfold(images, 6, stride=6).mT` gives the patches. Keep the blocks in an `nn.ModuleList` or `nn.Sequential`, each "
        "made by its own call. `def forward(self, x, tokens=None)` begins with `if tokens is not None: return "
        "self.blocks[0].tokens(x) if tokens else self.blocks[0].channels(x)`. The loop: `F.binary_cross_entropy_with_logits("
        "model(images[which]), marks[which].float())`, `optimizer.zero_grad()`, `loss.backward()`, `optimizer.step()`; at the "
        "end `return model.eval()`."
    ),
)


def train_mixer(images: Tensor, marks: Tensor, n_steps: int) -> nn.Module:
    """Build an MLP-Mixer, train it on puzzles at the end of a bundle of cables, and return it.

    The model maps images (B, 3, 24, 48) to logits (B, 32): for each patch, row by row, above 0 where it differs from its
    counterpart. It has patches of 6 × 6 pixels, so N = 32 positions, d = 24 channels, and two blocks with d_s = 64, d_c = 48.
    With a second argument, True or False, it takes features (B, 32, 24) instead of images and returns the output of one network
    of its first block, (B, 32, 24), without norm and residual connection: of the token-mixing network for True, of the
    channel-mixing network for False.

    Args:
        images: the puzzles to learn from, (S, 3, 24, 48), pixels scaled to about -2 to 2, grey is 0.
        marks: whether each patch differs from its counterpart, (S, 32), bool.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """
    P, N, d_model, d_tokens, d_channels = 6, 32, 24, 64, 48

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
            self.embed, self.blocks = nn.Linear(3 * P * P, d_model), nn.Sequential(Block(), Block())
            self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, 1)

        def forward(self, x, tokens=None):
            if tokens is not None:
                return self.blocks[0].tokens(x) if tokens else self.blocks[0].channels(x)
            x = self.blocks(self.embed(F.unfold(x, P, stride=P).mT))
            return self.head(self.norm(x)).squeeze(-1)

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(n_steps):
        which = torch.randint(len(images), (64,))
        loss = F.binary_cross_entropy_with_logits(model(images[which]), marks[which].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw a bundle of cables, puzzles at its end to learn from, and what the model is asked.

    The queries are: unseen puzzles (400, 3, 24, 48) · the last 16 of them · 64 of them as they are, then with the patch of each
    place exchanged for that of another puzzle, (33 · 64, 3, 24, 48) · features (180, 32, 24) with True and with False: three as
    they are · three times as large · with their channels in another order · with their positions in another order · with one
    position replaced, one after the other · with one channel replaced, one after the other; then one puzzle alone · and 16 of
    those with patches exchanged, with one patch 10,000 times as large, (33 · 16, 3, 24, 48). The model is probed with an image,
    first as it is and then with 1 added to the red of each corner of each patch (129, 3, 24, 48).
    """
    of_known, of_unseen, of_bundle = (int(draw.integers(0, 2**31, 1)) for _ in range(3))
    drawn = draw_puzzles(N_LEARN, of_known), draw_puzzles(N_UNSEEN, of_unseen, unseen=True)
    order, gain = draw_bundle(of_bundle)
    known, unseen = (through_bundle(puzzles, order, gain) for puzzles in drawn)
    learn, asked = (4 * puzzles.images - 2 for puzzles in (known, unseen))
    patches = patchify(asked[:N_EXCHANGED], P)
    exchanged = torch.where(torch.eye(N, dtype=torch.bool)[:, None, :, None], patches.roll(1, 0), patches)
    exchanged = torch.cat([patches[None], exchanged])
    outshone = exchanged[:, :N_FEW].clone()
    outshone[:, :, 0] = OUTSHINES * patches[:N_FEW, 0]
    exchanged, outshone = (unpatchify(each.flatten(0, 1), P, H, W) for each in (exchanged, outshone))
    x, other = draw.normal(2, N_BASES, N, D_MODEL)
    channels, positions = draw.uniform(D_MODEL).argsort(), draw.uniform(N).argsort()
    replaced = [torch.where(where[:, None], other, x) for where in torch.eye(N, dtype=torch.bool)]
    replaced += [torch.where(where, other, x) for where in torch.eye(D_MODEL, dtype=torch.bool)]
    features = torch.cat([x, 3 * x, x[:, :, channels], x[:, positions], *replaced])
    queries = [asked, asked[-N_FEW:], exchanged, (features, True), (features, False), asked[:1]]
    queries.append(outshone)
    truth = {
        "labels": unseen.differs,
        "counterparts": counterparts(order),
        "n_steps": N_STEPS,
        "channels": channels,
        "positions": positions,
    }
    return ((learn, known.differs, N_STEPS), queries, (), [asked[:1] + _corners()]), truth


def _corners() -> Tensor:
    """No change, and 1 in the red of each corner of each patch, patch by patch, (129, 3, 24, 48)."""
    found = torch.zeros(1 + 4 * N, 3, H, W)
    corners = [
        (row + y, column + x) for row in range(0, H, P) for column in range(0, W, P) for y in (0, P - 1) for x in (0, P - 1)
    ]
    for number, (y, x) in enumerate(corners, 1):
        found[number, 0, y, x] = 1.0
    return found


def _model(measured: Measured, truth: Truth) -> str | None:
    sizes = N_UNSEEN, N_FEW, (1 + N) * N_EXCHANGED
    for n, output in zip(sizes, measured.outputs[:3], strict=True):
        if fault := trained.fault_of_logits(output, (n, N), f"images {(n, 3, H, W)}"):
            return fault
        if not output.isfinite().all():
            return "Some logits are infinite or NaN."
    shape = ((4 + N + D_MODEL) * N_BASES, N, D_MODEL)
    for output in measured.outputs[3:5]:
        if tuple(output.shape) != shape:
            expected = f"For features {shape} and True or False it should return features of the same shape"
            return f"{expected}, not {tuple(output.shape)}."
        if not output.is_floating_point() or not output.isfinite().all():
            return "The features should be floating point and finite."
    return None


def right_marks(measured: Measured, truth: Truth) -> float:
    """The share of right marks on unseen puzzles."""
    return ((measured.outputs[0] > 0) == truth["labels"]).float().mean().item()


_learns = trained.at_least(LEARNS, right_marks, "On unseen puzzles the share of right marks", " (half are right by guessing)")


def _dependence(measured: Measured) -> Tensor:
    """How much the mark of each place (second axis) changes with the patch of each place (first), (32, 32)."""
    return _changes(measured.outputs[2])


def _changes(logits: Tensor) -> Tensor:
    plain, *exchanged = logits.double().unflatten(0, (1 + N, -1))
    return (torch.stack(exchanged) - plain).abs().mean(1)


def norms_over_positions(measured: Measured, truth: Truth) -> bool:
    """Evidence: beside one patch of very large numbers, marks depend on their own patches still, and no longer on others.

    What is normed by image, before the embedding or in the residual stream, would lose both.
    """
    if measured.outputs[6].shape != ((1 + N) * N_FEW, N):
        return False
    kept = []
    for dependence in (_dependence(measured), _changes(measured.outputs[6])):
        of_own, of_others = dependence.diagonal()[1:].mean(), dependence.clone().fill_diagonal_(0.0)[1:, 1:].mean()
        kept.append(torch.stack([of_own, of_others]))
    own, others = kept[1] / kept[0].clamp(min=1e-12)
    return bool(own > 0.1) and bool(others < 0.05)


def _finds(measured: Measured, truth: Truth) -> str | None:
    of_others = _dependence(measured).fill_diagonal_(0.0)
    n = int((of_others.argmax(0) == truth["counterparts"]).sum())
    if n >= FOUND:
        return None
    return (
        f"The patches of unseen puzzles were exchanged, one place at a time. Of 32 marks, {n} change most, besides with their "
        f"own patch, with that of their counterpart; at least {FOUND} are required."
    )


def _every_patch(measured: Measured, truth: Truth) -> str | None:
    n = int((_influences_of_patches(measured) < SOME).sum())
    return f"{n} of the 32 patches can be exchanged without changing a logit." if n else None


def _influences_of_patches(measured: Measured) -> Tensor:
    """How much the patch of each place changes any logit, relative to the largest such change, (32,)."""
    influences = _dependence(measured).amax(1)
    return influences / influences.max().clamp(min=1e-12)


def misses_patches(measured: Measured, truth: Truth) -> bool:
    """Evidence: some patches have no influence on the logits, others have one."""
    return bool(_influences_of_patches(measured).min() < SOME) and bool(_dependence(measured).max() > 0)


def _network(measured: Measured, tokens: bool) -> tuple[Tensor, ...]:
    """The output of one network for the features, in the order of the queries, (60, 3, 32, 24)."""
    return measured.outputs[3 if tokens else 4].double().unflatten(0, (-1, N_BASES))


def _influences(measured: Measured, tokens: bool) -> tuple[Tensor, Tensor]:
    """Which position (first axis) has an influence on the results of which (second), (32, 32); and which channel, (24, 24)."""
    plain, _, _, _, *replaced = _network(measured, tokens)
    moved = (torch.stack(replaced) - plain).abs().amax(1)
    moved = moved > SOME * moved.max().clamp(min=1e-12)
    return moved[:N].any(2), moved[N:].any(1)


def _reads_others(reads: Tensor) -> bool:
    """Whether a result depends on another position, or channel, than its own."""
    return bool(reads[~torch.eye(len(reads), dtype=torch.bool)].any())


def _moves_with(measured: Measured, truth: Truth, tokens: bool, axis: str) -> bool:
    """Whether the results are in another order, and are otherwise the same, when channels or positions are in this order."""
    plain, _, channels, positions, *_ = _network(measured, tokens)
    other, moved = (channels, plain[..., truth[axis]]) if axis == "channels" else (positions, plain[:, truth[axis]])
    return bool((other - moved).abs().max() <= ALIKE * plain.abs().max())


def _adds_up(measured: Measured, tokens: bool) -> bool:
    """Whether a network does to all positions, or channels, together the sum of what it does to each.

    If it processes each channel by itself, replacing one after the other adds up to replacing all. Only in a network without a
    nonlinear function between its layers do the positions add up to the same; and the reverse.
    """
    plain, _, _, _, *replaced = _network(measured, tokens)
    moved = torch.stack(replaced) - plain
    positions, channels = moved[:N].sum(0), moved[N:].sum(0)
    return bool((positions - channels).abs().max() <= ALIKE * positions.abs().max())


def _tokens(measured: Measured, truth: Truth) -> str | None:
    positions, channels = _influences(measured, tokens=True)
    if _reads_others(channels):
        return "The token mixing of a channel changes when another channel is replaced. Is there a norm in it?"
    if not positions.all():
        return f"In token mixing, {int((~positions).sum())} of 1,024 pairs of positions have no influence on each other."
    if not _moves_with(measured, truth, True, "channels"):
        return "Token mixing treats the channels differently: in another order they get other results."
    if _moves_with(measured, truth, True, "positions"):
        return "Token mixing treats all positions alike."
    if norms_over_positions(measured, truth):
        return "Beside one patch of very large numbers, marks no longer depend on other patches than their own."
    return "Token mixing has no nonlinear function between its layers." if _adds_up(measured, True) else None


def _channels(measured: Measured, truth: Truth) -> str | None:
    positions, channels = _influences(measured, tokens=False)
    if _reads_others(positions):
        return "The channel mixing of a position changes when another position is replaced. Is anything transposed?"
    if not channels.all():
        return f"In channel mixing, {int((~channels).sum())} of 576 pairs of channels have no influence on each other."
    if not _moves_with(measured, truth, False, "positions"):
        return "Channel mixing treats the positions differently: in another order they get other results."
    return "Channel mixing has no nonlinear function between its layers." if _adds_up(measured, False) else None


def _squares(measured: Measured, truth: Truth) -> str | None:
    return "The pixels of a token are no square of 6 × 6 pixels." if reads_no_squares(measured, truth) else None


def reads_no_squares(measured: Measured, truth: Truth) -> bool:
    """Evidence: in the features of the first layer a pixel changes one token, and the corners of a patch not the same one."""
    embedded = trained.probe_of(measured).embedded
    if embedded.shape != (1 + 4 * N, N * D_MODEL):
        return False
    moved = (embedded[1:] - embedded[0]).abs() > SOME * embedded.abs().max()
    by_token = (moved.view(-1, N, D_MODEL).any(2), moved.view(-1, D_MODEL, N).any(1))
    found = [one.int().argmax(1).view(N, 4) for one in by_token if bool((one.sum(1) == 1).all())]
    return bool(found) and not any(bool((token == token[:, :1]).all()) for token in found)


def _one_alone(measured: Measured, truth: Truth) -> str | None:
    return trained.fault_of_logits(measured.outputs[5], (1, N), f"one image {(1, 3, H, W)}")


def _size(measured: Measured, truth: Truth) -> str | None:
    if measured.n_parameters < 0:
        return "The model is not an `nn.Module`, so its parameters cannot be counted."
    if measured.n_parameters < LEAST_PARAMETERS:
        return f"`model.parameters()` has {measured.n_parameters:,} weights; at least {LEAST_PARAMETERS:,} are required."
    return None


MIXES_BOTH_WAYS = (
    trained.shown(
        "patches", "Each token is a square patch, and every patch influences the logits.", trained.every(_every_patch, _squares)
    ),
    trained.shown("tokens", "Token mixing: each channel by itself, all by one network that reads every position.", _tokens),
    trained.shown("channels", "Channel mixing: each position by itself, all by one network over the channels.", _channels),
    trained.shown("size", f"The model has at least {LEAST_PARAMETERS:,} weights, as many as two blocks have.", _size),
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
    """Evidence: in token mixing each channel is by itself, and positions depend on some others only, each on its own ones."""
    positions, channels = _influences(measured, tokens=True)
    some = _reads_others(positions) and not bool(positions.all()) and not _reads_others(channels)
    return some and not _moves_with(measured, truth, True, "positions")


def tokens_unlike(measured: Measured, truth: Truth) -> bool:
    """Evidence: in token mixing each channel is by itself, and channels in another order get other results."""
    return not _reads_others(_influences(measured, True)[1]) and not _moves_with(measured, truth, True, "channels")


def channels_unlike(measured: Measured, truth: Truth) -> bool:
    """Evidence: in channel mixing each position is by itself, and positions in another order get other results."""
    return not _reads_others(_influences(measured, False)[0]) and not _moves_with(measured, truth, False, "positions")


def mixes_runs(measured: Measured, truth: Truth) -> bool:
    """Evidence: in token mixing, results depend on some other positions only, and on other channels."""
    positions, channels = _influences(measured, tokens=True)
    return _reads_others(positions) and not bool(positions.all()) and _reads_others(channels)


def guesses(measured: Measured, truth: Truth) -> bool:
    """Evidence: about half of the marks are right."""
    return abs(right_marks(measured, truth) - 0.5) < GUESS


def gives_probabilities(measured: Measured, truth: Truth) -> bool:
    """Evidence: all logits are numbers between 0 and 1."""
    return bool((measured.outputs[0] >= 0).all()) and bool((measured.outputs[0] <= 1).all())


def knows_by_heart(measured: Measured, truth: Truth) -> bool:
    """Evidence: in the last tenth of the training the loss is small; unseen puzzles are judged by a guess, or little better.

    And the model has read few puzzles, each many times.
    """
    last = measured.losses[-max(len(measured.losses) // 10, 1) :]
    small = len(measured.losses) > 0 and bool(last.mean() < BY_HEART)
    return small and right_marks(measured, truth) < 0.5 + 2 * GUESS and _reads_few_puzzles(measured)


def _reads_few_puzzles(measured: Measured) -> bool:
    """Whether the batches that were recorded repeat a few puzzles, each four times or more often."""
    rows = [row.numpy().tobytes() for batch in measured.read for row in batch]
    return 0 < 4 * len(set(rows)) <= min(len(rows), N_LEARN)


def threshold_at_one_half(measured: Measured, truth: Truth) -> bool:
    """Evidence: more marks are right, and most are, if those above 1/2 count as marked and not those above 0."""
    share = ((measured.outputs[0] > 0.5) == truth["labels"]).float().mean().item()
    return share > max(right_marks(measured, truth) + GUESS, 0.5 + 2 * GUESS)


def marks_are_inverted(measured: Measured, truth: Truth) -> bool:
    """Evidence: far fewer marks are right than by guessing."""
    return right_marks(measured, truth) < 0.5 - 2 * GUESS


def loses_the_batch(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits of one puzzle alone have no batch axis, those of several have one."""
    return measured.outputs[0].shape == (N_UNSEEN, N) and measured.outputs[5].shape == (N,)


def no_weight_has_a_gradient(measured: Measured, truth: Truth) -> bool:
    """Evidence: losses were differentiated and the optimizer made steps, at none of which any of its weights had a gradient."""
    held = 1.0 - measured.untouched
    return len(measured.losses) > 2 and held > 0.01 and measured.without_gradient > 0.999 * held


def tokens_add_up(measured: Measured, truth: Truth) -> bool:
    """Evidence: token mixing processes each channel by itself, and its positions add up."""
    positions, channels = _influences(measured, True)
    return _reads_others(positions) and not _reads_others(channels) and _adds_up(measured, True)


def channels_add_up(measured: Measured, truth: Truth) -> bool:
    """Evidence: channel mixing processes each position by itself, and its channels add up."""
    positions, channels = _influences(measured, False)
    return _reads_others(channels) and not _reads_others(positions) and _adds_up(measured, False)


def has_learned_of_other_marks(measured: Measured, truth: Truth) -> bool:
    """Evidence: many updates moved the weights, the loss did not diverge, and about half of the marks are right."""
    loss = F.binary_cross_entropy_with_logits(measured.outputs[0].float(), truth["labels"].float())
    return measured.n_updates >= 50 and measured.moved > 0.05 and bool(loss < 0.9) and guesses(measured, truth)


def patches(images):
    """Cut images into 32 patches (B, 32, 108)."""
    return F.unfold(images, P, stride=P).mT


class Transposed(nn.Module):
    """A network over the positions of (B, 32, 24), the same for every channel."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x.mT).mT


def over_positions(n=N, d_tokens=D_TOKENS):
    """Make the token mixing of n positions."""
    return Transposed(network_of(n, d_tokens))


def network_of(n, d_hidden):
    """Make two layers with a GELU between."""
    return nn.Sequential(nn.Linear(n, d_hidden), nn.GELU(), nn.Linear(d_hidden, n))


over_channels = partial(network_of, D_MODEL, D_CHANNELS)
"""Make the channel mixing."""
over_features = partial(nn.LayerNorm, D_MODEL)
"""Make a norm."""


class SmallMixer(nn.Module):
    """A Mixer of the sizes that are asked for, and what a wrong submission changes.

    That is how it cuts images, how a block mixes tokens and channels, its norms, its list of blocks and its dropout.
    """

    def __init__(
        self,
        cut=patches,
        tokens=over_positions,
        channels=over_channels,
        norm=over_features,
        blocks=lambda make: nn.ModuleList([make(), make()]),
        dropout=0.0,
    ):
        super().__init__()
        self.embed, self.dropout, self.cut = nn.Linear(3 * P * P, D_MODEL), nn.Dropout(dropout), cut
        self.blocks = blocks(lambda: nn.ModuleList([norm(), tokens(), norm(), channels()]))
        self.norm, self.head = norm(), nn.Linear(D_MODEL, 1)

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
        return self.head(self.norm(x)).squeeze(-1)


def loss_of(logits, marks):
    """The cross-entropy of the marks, in nats."""
    return F.binary_cross_entropy_with_logits(logits, marks.float())


def submit(data, part=1.0, model=SmallMixer, lr=5e-3, shuffled=None, **change):
    *examples, n_steps = data
    batch = partial(loops.drawn_examples, shuffled(*examples) if shuffled else examples, 64)
    return loops.train(model, part * n_steps, batch, loss_of, lr, **change)


SAYS = loops.LOOP | {
    "dropout_left_on": "Asked twice about the same image, your model gives different logits: it is still in training mode, or "
    "something in it is drawn at each call. Return `model.eval()`.",
    "one_batch_for_all_updates": "Your model knows the puzzles of its training by heart, and no others: every update reads the "
    "same few, as where a batch is drawn once, before the loop. Draw other puzzles in each update.",
}
wrong = loops.Submissions(__name__, submit, rates="0.001 to 0.01")
_UNSOUND = trained.fails(_learns)
wrong.loop_mistakes(_UNSOUND, guesses, SAYS, part=0.5, same=knows_by_heart)


class _Sigmoided(loops.Softmaxed):
    def forward(self, x, *more):
        found = self.model(x, *more)
        return found if more else found.sigmoid()


@wrong(proof=trained.both(gives_probabilities, _UNSOUND))
def probabilities_for_logits(*data):
    """Your model returns numbers between 0 and 1: probabilities. Logits are above 0 where a patch differs, and below 0 where it
    does not. Leave out the sigmoid, and train with `F.binary_cross_entropy_with_logits`, which takes it itself."""
    return submit(data, 0.5, wrap=_Sigmoided)


@wrong(proof=trained.both(threshold_at_one_half, _UNSOUND))
def squares_of_errors_of_0_and_1(images, marks, n_steps):
    """The numbers of your model tell the patches that differ from others at 1/2 and not at 0, as where a squared error compares
    them with 0 and 1. Logits are above 0 where a patch differs: train with `F.binary_cross_entropy_with_logits`, or compare
    with -1 and 1."""
    batch = partial(loops.drawn_examples, (images, marks), 64)
    return loops.train(SmallMixer, n_steps, batch, lambda found, marks: F.mse_loss(found, marks.float()), 5e-3)


@wrong.change("shuffled", trained.both(marks_are_inverted, _UNSOUND))
def marks_inverted(images, marks):
    """Far fewer marks are right than by guessing: your model has learned the opposite. `marks` is True where a patch
    differs, and there the logit should be above 0."""
    return images, ~marks


@wrong(proof=no_weight_has_a_gradient)
def cleared_before_the_step(images, marks, n_steps):
    """The optimizer makes steps, but at none of them does any weight have a gradient. Either the gradients are cleared between
    `loss.backward()` and the step: the order is `optimizer.zero_grad()`, `loss.backward()`, `optimizer.step()`. Or the graph is
    cut between the weights and the loss, by `.data`, `.detach()`, `torch.tensor(...)` or `torch.no_grad()`."""
    model = SmallMixer()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(n_steps // 4):
        puzzles, wanted = loops.drawn_examples((images, marks), 64)
        loss_of(model(puzzles), wanted).backward()
        optimizer.zero_grad()
        optimizer.step()
    return model.eval()


@wrong.change("wrap", loses_the_batch, part=0.25)
class Squeezed(nn.Module):
    """For a single image your model returns logits (32,) and not (1, 32): `squeeze()` without an axis removes every axis of
    size 1, also that of the batch. Name the axis: `squeeze(-1)`."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, *more):
        found = self.model(x, *more)
        return found if more else found.squeeze()


@wrong(proof=trained.makes_too_many_updates)
def epochs_for_updates(*data):
    """You make more updates than `n_steps`. An update is one step of the optimizer; a pass over all puzzles makes many."""
    return submit(data, 1.08)


class _OwnNetworks(nn.Module):
    """For each index along the last axis of (B, n, m) a network of its own over n numbers."""

    def __init__(self, n, m, d_hidden):
        super().__init__()
        self.up = nn.Parameter(torch.randn(m, n, d_hidden) / n**0.5)
        self.down = nn.Parameter(torch.randn(m, d_hidden, n) / d_hidden**0.5)

    def forward(self, x):
        hidden = F.gelu(torch.einsum("bnm,mnh->bmh", x, self.up))
        return torch.einsum("bmh,mhn->bnm", hidden, self.down)


@wrong(proof=trained.both(trained.reads_other_examples, guesses))
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


@wrong(proof=misses_patches)
def stride_left_out(*data):
    """Your model does not read some parts of an image: what is there can be exchanged and no logit changes. Patches of 6 × 6
    next to each other make 32; put them back together to see whether they make up the whole image."""
    return submit(data, 0.5, cut=lambda images: F.unfold(images, P)[..., :N].mT)


@wrong(proof=reads_no_squares)
def strips_for_patches(*data):
    """Your tokens are no squares of 6 × 6 pixels: each holds numbers that follow each other in memory, as in a row. A `reshape`
    of the image cuts it so. Split both sides, (B, 3, 4, 6, 8, 6), and bring the two axes of size 6 together by `permute`, or
    use `patchify`, `rearrange` or `F.unfold`."""
    return submit(data, 0.5, cut=lambda images: images.reshape(-1, N, 3 * P * P))


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
    """Cut images into (B, 32, 108) by a reshape that takes the patches of one image for those of several."""
    squares = images.unfold(2, P, P).unfold(3, P, P)
    return squares.permute(2, 3, 0, 1, 4, 5).reshape(len(images), N, 3 * P * P)


class Reshaped(Transposed):
    def forward(self, x):
        return self.network(x.reshape(-1, D_MODEL, N)).reshape(x.shape)


@wrong(proof=mixes_runs)
def reshape_for_a_transpose(*data):
    """In your token mixing a result depends on some other positions only, and on other channels. `reshape` and `view` keep the
    order of the numbers in memory and transpose nothing: exchange the two axes by `x.mT` before and after the network."""
    return submit(data, 0.5, tokens=lambda: Reshaped(network_of(N, D_TOKENS)))


@wrong(proof=mixes_no_tokens)
def not_transposed(*data):
    """Your token mixing mixes no tokens: no position of its result depends on another position. `nn.Linear` acts on the last
    axis, and in (B, N, d) that is the channels. Exchange the two axes by `x.mT` before and after the network."""
    return submit(data, 0.5, tokens=over_channels)


@wrong(proof=mixes_no_channels)
def both_transposed(*data):
    """Your channel mixing mixes no channels: no channel of its result depends on another channel. `nn.Linear` acts on the last
    axis of (B, N, d), the channels, so nothing is transposed here."""
    return submit(data, 0.5, channels=over_positions)


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
        self.up, self.down = nn.Conv1d(1, 16, 3, padding=1), nn.Conv1d(16, 1, 3, padding=1)

    def forward(self, x):
        rows = x.mT.flatten(0, 1)[:, None]
        return self.down(F.gelu(self.up(rows)))[:, 0].unflatten(0, (-1, D_MODEL)).mT


@wrong(proof=tokens_add_up)
def no_gelu_over_positions(*data):
    """Your token mixing has no nonlinear function between its layers: what it does to all positions together is the sum of what
    it does to each, and so both layers are one. Put a GELU between them."""
    return submit(data, 0.5, tokens=lambda: Transposed(nn.Sequential(nn.Linear(N, D_TOKENS), nn.Linear(D_TOKENS, N))))


@wrong.change("model", norms_over_positions, part=0.5)
class NormOverThePositions(SmallMixer):
    """Beside one patch of very large numbers, marks no longer depend on other patches than their own: your norm before token
    mixing is over the positions, and not over the features of each. `nn.LayerNorm(24)` acts on the last axis: norm first, and
    transpose then."""

    def __init__(self):
        super().__init__(norm=lambda: Transposed(nn.LayerNorm(N)))
        self.norm = over_features()


@wrong(proof=channels_add_up)
def no_gelu_over_channels(*data):
    """Your channel mixing has no nonlinear function between its layers: what it does to all channels together is the sum of
    what it does to each, and so both layers are one. Put a GELU between them."""
    return submit(data, 0.5, channels=lambda: nn.Sequential(nn.Linear(D_MODEL, D_CHANNELS), nn.Linear(D_CHANNELS, D_MODEL)))


@wrong(proof=tokens_unlike)
def own_network_for_each_channel(*data):
    """Your token mixing treats the channels differently: two channels with the same numbers get different results. Either each
    channel has a network of its own, or something that each channel has of its own, such as a scale, is part of it. All
    channels share one network."""
    return submit(data, 0.5, tokens=lambda: _OwnNetworks(N, D_MODEL, 8))


@wrong(proof=channels_unlike)
def own_network_for_each_position(*data):
    """Your channel mixing treats the positions differently: two positions with the same features get different results. Either
    each position has a network of its own, or something that each position has of its own is part of it. All positions share
    one network."""
    return submit(data, 0.5, channels=lambda: Transposed(_OwnNetworks(D_MODEL, N, 8)))


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
        return self.head(self.norm(x)).squeeze(-1)


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


@wrong.change("shuffled", suspicion=has_learned_of_other_marks, part=0.5)
def marks_of_other_puzzles(images, marks):
    """The model is trained in a sound way and still guesses, as if the marks did not belong to the images. Do you take
    `images[which]` and `marks[which]` with the same `which`? Print a batch."""
    return images[torch.randperm(len(images))], marks[torch.randperm(len(marks))]


@right
def with_convolutions(images, marks, n_steps):
    """All layers are convolutions: of 6 × 6 for the patches, of width 1 over (B, positions, channels) for token mixing;
    dropout, AdamW with one cycle on shuffled epochs of small batches."""

    def convolutions(n, d_hidden):
        return nn.Sequential(nn.Conv1d(n, d_hidden, 1), nn.GELU(), nn.Dropout(0.02), nn.Conv1d(d_hidden, n, 1))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Conv2d(3, 24, 6, stride=6)
            self.over_positions = nn.ModuleList(convolutions(32, 64) for _ in range(2))
            self.over_channels = nn.ModuleList(convolutions(24, 48) for _ in range(2))
            self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(5))
            self.head = nn.Conv1d(24, 1, 1)

        def forward(self, pictures, of_tokens=None):
            if of_tokens is not None and bool(of_tokens):
                return self.over_positions[0](pictures)
            if of_tokens is not None:
                return self.over_channels[0](pictures.transpose(1, 2)).transpose(1, 2)
            x = self.embed(pictures).flatten(2).transpose(1, 2)
            for i in range(2):
                x = x + self.over_positions[i](self.norms[2 * i](x))
                x = x + self.over_channels[i](self.norms[2 * i + 1](x).transpose(1, 2)).transpose(1, 2)
            return self.head(self.norms[4](x).transpose(1, 2)).flatten(1)

    model, criterion = Model(), nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=n_steps)
    for pictures, differs in loops.epochs((images, marks.float()), n_steps, 32, drop_last=True):
        optimizer.zero_grad()
        criterion(model(pictures), differs).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    return model


@right
def with_the_functions_of_the_lecture(images, marks, n_steps):
    """`mixer_block` with weights in parameter lists, a head that starts at 0, and Adam by hand on gradients from autograd."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = self.linear(108, 24), self.linear(24, 1, scale=0.0)
            self.tokens = nn.ModuleList(self.linear(32, 64, 32) for _ in range(2))
            self.channels = nn.ModuleList(self.linear(24, 48, 24) for _ in range(2))
            self.norms = nn.ParameterList(nn.Parameter(torch.full((24,), 1.0 - i % 2)) for i in range(10))

        def linear(self, *widths, scale=1.0):
            weights = nn.ParameterList()
            for n, m in pairwise(widths):
                weights.extend([nn.Parameter(scale * torch.randn(m, n) / n**0.5), nn.Parameter(torch.zeros(m))])
            return weights

        def forward(self, x, tokens=None):
            if tokens is not None:
                return token_mixing(x, *self.tokens[0]) if tokens else channel_mixing(x, *self.channels[0])
            x = F.linear(patchify(x, 6), *self.embed)
            gains = list(zip(self.norms[::2], self.norms[1::2], strict=True))
            x = mixer_block(x, tuple(self.tokens[0]), tuple(self.channels[0]), (gains[0], gains[1]))
            x = mixer_block(x, tuple(self.tokens[1]), tuple(self.channels[1]), (gains[2], gains[3]))
            return F.linear(F.layer_norm(x, (24,), *gains[4]), *self.head)[..., 0]

    model = Model()

    def error():
        which = torch.randint(len(images), (48,))
        sign = 1.0 - 2.0 * marks[which]
        return F.softplus(sign * model(images[which])).mean()

    loops.adam_by_hand(list(model.parameters()), n_steps, error, 3e-3)
    return model.eval()


@right
def with_squares_of_errors(images, marks, n_steps):
    """Networks with ReLU and without biases, the squared distance from 1 and -1 in place of a cross-entropy, RMSprop."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norms = nn.Linear(108, 24), nn.ModuleList(nn.LayerNorm(24) for _ in range(5))
            sizes = [(32, 64), (24, 48)] * 2
            self.up = nn.ModuleList(nn.Linear(n, hidden, bias=False) for n, hidden in sizes)
            self.down = nn.ModuleList(nn.Linear(hidden, n, bias=False) for n, hidden in sizes)
            self.say = nn.Parameter(torch.zeros(24))

        def network(self, i, x):
            x = x.transpose(1, 2) if i % 2 == 0 else x
            x = self.down[i](self.up[i](x).relu())
            return x.transpose(1, 2) if i % 2 == 0 else x

        def forward(self, x, tokens=None):
            if tokens is not None:
                return self.network(0 if tokens is True else 1, x)
            x = x.reshape(-1, 3, 4, 6, 8, 6).permute(0, 2, 4, 1, 3, 5).reshape(-1, 32, 108)
            x = self.embed(x)
            for i in range(4):
                x = x + self.network(i, self.norms[i](x))
            return self.norms[4](x) @ self.say

    model, wanted = Model(), 2.0 * marks - 1.0
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    for which in torch.randint(len(images), (n_steps, 100)):
        optimizer.zero_grad()
        F.mse_loss(model(images[which]), wanted[which]).backward()
        optimizer.step()
    return model.eval()


exercise = Exercise(
    id="13.8",
    extra=True,
    title="An MLP-Mixer and its training loop",
    reference=train_mixer,
    properties=(
        *trained.sound_training(
            SECONDS,
            MOST_PARAMETERS,
            ("The model maps images (B, 3, 24, 48) to logits (B, 32), and features with True or False to features.", _model),
            trained.every(trained.makes_updates, trained.loss_falls(by=0.1, unless=_learns)),
        ),
        trained.shown(
            "batch",
            "The logits of an image do not depend on the other images of its batch, and those of one alone are (1, 32).",
            trained.every(trained.each_alone("images"), _one_alone),
        ),
        *MIXES_BOTH_WAYS,
        trained.shown("learns", f"On unseen puzzles at least {LEARNS} of the marks are right.", _learns),
        trained.holds(
            "finds",
            f"At least {FOUND} of 32 marks depend, besides on their own patch, on the counterpart.",
            _finds,
            1,
            ("learns",),
        ),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        Mixer: "write the model yourself: patches, blocks, norm, head.",
        TokenMixing: "write the module yourself; your functions from above may be used.",
        draw_puzzles: "learn from the puzzles that you are given.",
    },
    training=Training(questions, SECONDS),
)
