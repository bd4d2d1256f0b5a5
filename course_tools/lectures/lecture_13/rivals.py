"""What could mark the differences of a puzzle instead of a Mixer: attention, convolutions, logistic regression."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from course_lib.attention import AnyMechanism, MultiHead
from course_lib.blocks import Block, FeedForward, SelfAttention, Stack, TokenMixing, pre_norm
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.primitives import patchify
from course_tools.bank.drawn_puzzles import GRID, H, N, P, Puzzles, W

WIDTH, LAYERS = 32, 2
"""Channels of a patch, and blocks, of the Mixer and of the Vision Transformer."""


class PatchMarker(nn.Module):
    """Patches, perhaps with positions, blocks, and one number for each patch: how sure it is that the patch differs."""

    def __init__(self, blocks: list[Block], positions: Tensor | None = None) -> None:
        """Set the blocks, and the positions (32, 32) at the start; None = the patches get none."""
        super().__init__()
        self.project = nn.Linear(3 * P * P, WIDTH)
        self.positions = None if positions is None else nn.Parameter(positions)
        self.stack = Stack(blocks, nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, 32) of puzzles (n, 3, 24, 48)."""
        x = self.project(patchify(images, P))
        return self.head(self.stack(x if self.positions is None else x + self.positions)).squeeze(-1)


def mixer(d_tokens: int = 64) -> PatchMarker:
    """Make the lecture's Mixer from the blocks of the library."""
    mixing = (TokenMixing(N, d_tokens) for _ in range(LAYERS))
    return PatchMarker([Block(tokens, FeedForward(WIDTH, 2 * WIDTH, F.gelu), WIDTH, pre_norm) for tokens in mixing])


def vision_transformer(mechanism: AnyMechanism = fused_scaled_dot_product_attention) -> PatchMarker:
    """Make a Vision Transformer of that size, with learned positions."""
    attention = (SelfAttention(MultiHead(WIDTH, 4, mechanism=mechanism)) for _ in range(LAYERS))
    blocks = [Block(heads, FeedForward(WIDTH, 2 * WIDTH, F.gelu), WIDTH, pre_norm) for heads in attention]
    return PatchMarker(blocks, torch.randn(N, WIDTH))


class FreeWeights(nn.Module):
    """In place of attention: one number for each pair of places and each head, the same for every image, learned."""

    def __init__(self, heads: int = 4) -> None:
        """Draw the weights between places."""
        super().__init__()
        self.weights = nn.Parameter(torch.randn(heads, N, N) * N**-0.5)
        self.value, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the places of x (n, 32, 32)."""
        values = rearrange(self.value(x), "n places (heads d) -> n heads places d", heads=len(self.weights))
        return self.out(rearrange(self.weights @ values, "n heads places d -> n places (heads d)"))


def free_weights() -> PatchMarker:
    """Make the Vision Transformer without positions, its attention replaced by free weights between places."""
    return PatchMarker([Block(FreeWeights(), FeedForward(WIDTH, 2 * WIDTH, F.gelu), WIDTH, pre_norm) for _ in range(LAYERS)])


class LookAcross(nn.Module):
    """Add to a map of features what a convolution finds, in a window of places that are `apart` places apart."""

    def __init__(self, width: int, apart: int = 1, window: tuple[int, int] = (3, 3)) -> None:
        """Set up for `width` features; the window has odd sides."""
        super().__init__()
        self.norm = nn.BatchNorm2d(width)
        self.look = nn.Conv2d(width, width, window, padding=[side // 2 * apart for side in window], dilation=apart)
        self.back = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return x (n, width, rows, columns) plus what was found."""
        return x + self.back(F.relu(self.look(self.norm(x))))


def convolutions(width: int = 30) -> nn.Module:
    """Make convolutions on the patches: one whose window reaches the counterpart, one of the neighbours, one number a patch."""
    body = nn.Conv2d(3, width, P, stride=P), LookAcross(width, GRID), LookAcross(width)
    return nn.Sequential(*body, nn.Conv2d(width, 1, 1), nn.Flatten())


def wide_convolutions(width: int = 16) -> nn.Module:
    """Make convolutions on the patches whose windows reach, from each place, the whole image."""
    whole = (2 * GRID - 1, 4 * GRID - 1)
    body = nn.Conv2d(3, width, P, stride=P), LookAcross(width, window=whole), LookAcross(width, window=whole)
    return nn.Sequential(*body, nn.Conv2d(width, 1, 1), nn.Flatten())


def hidden_layer(width: int = 32) -> nn.Module:
    """Make a hidden layer over all pixels, and a linear layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * H * W, width), nn.GELU(), nn.Linear(width, N))


def nearest_known(known: Puzzles, images: Tensor) -> Tensor:
    """Mark the patches of each puzzle (n, 3, 24, 48) as those of the known puzzle nearest in its pixels: (n, 32)."""
    return known.differs[torch.cdist(images.flatten(1), known.images.flatten(1)).argmin(1)]


def distances(patches: Tensor) -> Tensor:
    """Read from patches (n, 32, 108) the logarithm of how far each is from each other one: (n, 32, 32)."""
    return torch.cdist(patches, patches).log1p()


def by_spread(known: Puzzles) -> Callable[[Tensor], Tensor]:
    """Say how to read distances with either sign after each place is divided by its spread over known puzzles: no marks."""
    spread = patchify(known.images, P).std((0, 2))[:, None]

    def read(patches: Tensor) -> Tensor:
        signals = (patches - 0.5) / spread
        return torch.minimum(torch.cdist(signals, signals), torch.cdist(signals, -signals)).log1p()

    return read


def by_common_patterns(known: Puzzles, n: int = 8) -> Callable[[Tensor], Tensor]:
    """Say how to read energies of sums over all places, whose weights the marks decide (common spatial patterns).

    The weights of a place are n eigenvectors: their sums vary least where its patch has an equal, against where it has none.
    Each place is read with its own n sums, and with the first of every place: (·, 32, n + 32). See Blankertz et al. 2008,
    https://doi.org/10.1109/MSP.2008.4408441.
    """
    from scipy.linalg import eigh

    def products(patches: Tensor) -> Tensor:
        return (patches - 0.5) @ (patches - 0.5).mT

    of_pairs, weights = products(patchify(known.images, P)), []
    for differs in known.differs.unbind(1):
        alike, unlike = (of_pairs[part].mean(0).double().cpu() for part in (~differs, differs))
        weights.append(torch.from_numpy(eigh(alike, unlike)[1][:, :n]).to(of_pairs))

    def read(patches: Tensor) -> Tensor:
        of_pairs = products(patches)
        own = torch.stack([((of_pairs @ each) * each).sum(1) for each in weights], 1)
        return torch.cat([own, own[:, None, :, 0].expand(-1, N, -1)], -1).log()

    return read


def logistic_regression(known: Puzzles, images: Tensor, read: Callable[[Tensor], Tensor] = distances) -> Tensor:
    """Mark patches (n, 32) by a logistic regression for each place, on what is read from its patch and the others."""
    from sklearn.linear_model import LogisticRegression

    old, new = (read(patchify(each, P)).cpu() for each in (known.images, images))
    marks = [
        torch.from_numpy(LogisticRegression(max_iter=300).fit(old[:, place], differs).predict(new[:, place]))
        for place, differs in enumerate(known.differs.cpu().unbind(1))
    ]
    return torch.stack(marks, 1).to(images.device)


def often_alike(images: Tensor) -> Tensor:
    """Find without any marks, for each place, the place whose patch most often has its texture, with either sign: (32,)."""
    patches = patchify(images, P)
    texture = F.normalize(patches - patches.mean(-1, keepdim=True), dim=-1)
    return ((texture @ texture.mT).abs() > 0.9).float().mean(0).fill_diagonal_(0).argmax(1)
