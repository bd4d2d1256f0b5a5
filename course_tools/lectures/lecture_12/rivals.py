"""What could find creatures instead of a matched set: every place on one, the nearest place, a sliding window."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks import ConvNet, Sizes
from course_lib.datasets import Scenes
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.losses import SetLoss, match, matching_cost, set_loss
from course_lib.models.detr import ObjectBlock, sinusoidal_positions_2d
from course_lib.primitives import giou, iou, to_corners
from course_tools.bank.drawn_crowds import N_KINDS, SIDE

CELLS, WIDTH = 4, 64
"""Cells in a row of the map of features, each with one query; features of a cell."""
NO_OBJECT = 0.5
"""Weight of a query without an object in the loss of the classes."""


def cell_centres() -> Tensor:
    """Return the centres of the cells, row by row, as fractions of the image (16, 2): x, y."""
    at = (torch.arange(CELLS) + 0.5) / CELLS
    return torch.cartesian_prod(at, at).flip(-1)


class Alone(nn.Module):
    """In place of the self-attention among queries: each query keeps to itself."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add nothing to x."""
        return torch.zeros_like(x)


class Convolved(nn.Module):
    """In place of the decoder layer: three convolutions over the map of cells, and no attention."""

    def __init__(self, sides: tuple[int, int, int]) -> None:
        """Set up convolutions of these sides; the second doubles the features, the third halves them again."""
        super().__init__()
        widths = WIDTH, WIDTH, 2 * WIDTH, WIDTH
        first, second, third = (
            nn.Conv2d(before, after, side, padding=side // 2)
            for before, after, side in zip(widths, widths[1:], sides, strict=False)
        )
        self.layers = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)

    def forward(self, x: Tensor, asked: Tensor, cells: Tensor, positions: Tensor) -> Tensor:
        """Add to the cells x (B, 16, d) what the convolutions make of their map of 4 × 4; its padding says where a cell is."""
        return x + self.layers(x.mT.unflatten(2, (CELLS, CELLS))).flatten(2).mT


class CrowdDetector(nn.Module):
    """The lecture's detector, made of the parts of the library; perhaps with less attention, or with two queries a cell."""

    def __init__(self, alone: bool = False, a_cell: int = 1, sides: tuple[int, int, int] | None = None) -> None:
        """Set up backbone, a decoder layer (or convolutions of these sides) and two heads, for `a_cell` queries a cell."""
        super().__init__()
        self.backbone = ConvNet(3, widths=(32, 48, WIDTH), strides=(2, 2, 2))
        self.decoder = ObjectBlock(Sizes(WIDTH, 4, 2 * WIDTH, 1), fused_scaled_dot_product_attention)
        if alone:
            self.decoder.mixer = Alone()
        if sides is not None:
            self.decoder = Convolved(sides)
        self.classify = nn.Linear(WIDTH, N_KINDS + 1)
        self.box = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
        references = torch.cat([cell_centres(), torch.full((CELLS**2, 2), 0.36)], 1).logit()
        self.register_buffer("references", references.repeat(a_cell, 1))
        self.register_buffer("positions", sinusoidal_positions_2d(CELLS, CELLS, WIDTH))
        apart = 0.0 if a_cell == 1 else 0.5 * torch.randn(a_cell * CELLS**2, WIDTH)
        self.queries = nn.Parameter(self.positions.repeat(a_cell, 1) + apart, requires_grad=sides is None)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (B, N, 3) and boxes (B, N, 4) of images (B, 3, 32, 32); N = 16 or 32."""
        cells = self.backbone(2 * images - 1).flatten(2).mT
        a_cell = len(self.queries) // CELLS**2
        start = cells if a_cell == 1 else cells.repeat(1, a_cell, 1)
        x = self.decoder(start, self.queries, cells, self.positions)
        return self.classify(x), (self.box(x) + self.references).sigmoid()


def one_to_one(model: nn.Module, batch: tuple[Tensor, ...], matching=match) -> Tensor:
    """Compute the set loss when a matching of the costs gives one query to each object."""
    images, classes, boxes = batch
    logits, found = model(images)
    with torch.no_grad():
        queries = matching(matching_cost(logits, found, classes, boxes), classes)
    return set_loss(logits, found, classes, boxes, queries, NO_OBJECT).total()


def nearest_place(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """Compute the set loss when each object is given the cell nearest to its centre, whatever the queries predict.

    Two objects get different cells, so that the sum of the distances is smallest.
    """
    centres = batch[2][..., :2]
    far = (cell_centres().to(centres)[None, :, None] - centres[:, None]).norm(dim=-1)
    return one_to_one(model, batch, lambda cost, classes: match(far, classes))


def larger_first(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """Compute the set loss as `nearest_place`; of two creatures at one place, the larger takes the nearest cell.

    A distance counts in proportion to the area: so a rule that can be seen decides between them.
    """
    centres, areas = batch[2][..., :2], batch[2][..., 2:].prod(-1)
    far = (cell_centres().to(centres)[None, :, None] - centres[:, None]).norm(dim=-1) * areas[:, None]
    return one_to_one(model, batch, lambda cost, classes: match(far, classes))


def two_a_cell(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """Compute the set loss of a model with two queries a cell: of two creatures at one cell, the smaller takes the second."""
    centres, areas, real = batch[2][..., :2], batch[2][..., 2:].prod(-1), batch[1] >= 0
    cell = (cell_centres().to(centres)[None, :, None] - centres[:, None]).norm(dim=-1).argmin(1)
    together = (cell[:, :, None] == cell[:, None]) & real[:, None]  # (B, M, M)
    smaller = (together & (areas[:, None] > areas[:, :, None])).any(-1)
    return one_to_one(model, batch, lambda cost, classes: torch.where(real, cell + CELLS**2 * smaller, -1))


def one_to_many(model: nn.Module, batch: tuple[Tensor, ...], reach: float = 0.6) -> Tensor:
    """Compute the loss of a detector before DETR: *every* cell in the middle of an object is trained to predict it.

    Of objects that cover a cell, it predicts the one to whose middle it is nearest, relative to the size. Each object has at
    least one cell, that of `larger_first`. The parts of the loss and their weights are those of the set loss.

    Args:
        model: images → logits (B, 16, n_classes + 1) and boxes (B, 16, 4).
        batch: images, classes (B, M) and boxes (B, M, 4).
        reach: the middle is this share of the box's sides.
    """
    images, classes, boxes = batch
    logits, found = model(images)
    offset = (cell_centres().to(boxes)[None, :, None] - boxes[:, None, :, :2]).abs()
    apart = (2 * offset / boxes[:, None, :, 2:].clamp(min=1e-6)).amax(-1)
    apart = torch.where((classes >= 0)[:, None], apart, torch.inf)  # (B, 16, M)
    least, which = apart.min(-1)
    b, m = (classes >= 0).nonzero(as_tuple=True)
    nearest = match(offset.norm(dim=-1) * boxes[:, None, :, 2:].prod(-1), classes)[b, m]
    which[b, nearest] = m
    inside = least < reach
    inside[b, nearest] = True
    wanted = torch.where(inside, classes.gather(1, which), N_KINDS)
    weights = torch.tensor([1.0] * N_KINDS + [NO_OBJECT]).to(logits)
    targets, predicted = boxes.gather(1, which[..., None].expand(-1, -1, 4))[inside], found[inside]
    n = max(len(targets), 1)
    agreement = giou(to_corners(predicted)[:, None], to_corners(targets)[:, None])
    of_boxes = (predicted - targets).abs().sum() / n, (1 - agreement).sum() / n
    return SetLoss(F.cross_entropy(logits.mT, wanted, weights), *of_boxes).total()


class SlidingWindows:
    """Without a network: a machine on random features scores every second window of a scene, and the neighbours of the best."""

    def __init__(self, known: Scenes, width: int = 1_000) -> None:
        """Learn from windows near the creatures and elsewhere, and once more with those that score best by then.

        The score of a window for each kind is to be how far its overlap (IoU) with a creature of that kind exceeds 0.6.

        Args:
            known: scenes to learn from.
            width: number of random features, the cosines of random directions of the windows' contrasts.
        """
        self.generator = torch.Generator().manual_seed(0)
        known = Scenes(*(part.cpu() for part in known))
        scene, windows = self._windows_to_learn_from(known)
        shown = self._contrasts(known.images)
        seen = self._look(shown, scene, windows)
        self.mean, self.spread = seen.mean(0), seen.std(0) + 0.05
        self.directions = 0.5 * torch.randn(seen.shape[1], width, generator=self.generator) / seen.shape[1] ** 0.5
        self.phases = 2 * torch.pi * torch.rand(width, generator=self.generator)
        self.weights = self._fitted(known, shown, scene, windows)
        best = self.detect(known.images[:300])[1]
        again = torch.arange(len(best)).repeat_interleave(best.shape[1])
        self.weights = self._fitted(known, shown, torch.cat([scene, again]), torch.cat([windows, best.flatten(0, 1)]))

    def detect(self, images: Tensor, most: int = 64) -> tuple[Tensor, Tensor]:
        """Return the score of each kind (B, 64, 2) and the corners (B, 64, 4) of the best windows of each image."""
        sides, step = range(10, 26, 3), torch.tensor([-1.0, 0.0, 1.0])
        every = torch.cat([_grid(height, width) for height in sides for width in sides])
        shown, moves, found = self._contrasts(images.cpu()), torch.cartesian_prod(step, step, step, step), []
        for i in range(len(images)):
            windows = every
            for n in (24, 24, most):
                score = self._score(shown, torch.full((len(windows),), i), windows)
                top = score.amax(1).topk(n).indices
                near = (SIDE * windows[top][:, None] + moves).flatten(0, 1).round().unique(dim=0)
                last, windows = (score[top], windows[top]), near[((near >= 0) & (near <= SIDE)).all(1)] / SIDE
            found.append(last)
        p, corners = (torch.stack(part) for part in zip(*found, strict=True))
        return p.clamp(0, 1), corners

    def _windows_to_learn_from(self, known: Scenes) -> tuple[Tensor, Tensor]:
        """Draw windows (n, 4), corners, and their scenes (n,): 12 around each creature, and 30 anywhere in each scene."""
        b, m = (known.classes >= 0).nonzero(as_tuple=True)
        moved = torch.randint(-2, 3, (len(b), 12, 4), generator=self.generator)
        near = (SIDE * to_corners(known.boxes[b, m])).round()[:, None] + moved
        size = torch.randint(10, 26, (30 * len(known.images), 2), generator=self.generator)
        low = (torch.rand(len(size), 2, generator=self.generator) * (SIDE - size)).round()
        scene = torch.cat([b.repeat_interleave(12), torch.arange(len(known.images)).repeat_interleave(30)])
        return scene, torch.cat([near.flatten(0, 1), torch.cat([low, low + size], 1)]) / SIDE

    def _fitted(self, known: Scenes, shown: Tensor, scene: Tensor, windows: Tensor) -> Tensor:
        """Solve for the weights of the features, by least squares with a small penalty."""
        overlaps, classes = iou(windows[:, None], to_corners(known.boxes)[scene])[:, 0], known.classes[scene]
        excess = (overlaps - 0.6).clamp(min=0) / 0.4
        wanted = torch.stack([torch.where(classes == kind, excess, 0.0).amax(1) for kind in range(N_KINDS)], 1)
        n = len(self.phases) + 1
        gram, moment = 10 * torch.eye(n), torch.zeros(n, N_KINDS)
        for of, at, target in zip(scene.split(8_000), windows.split(8_000), wanted.split(8_000), strict=True):
            features = self._features(self._look(shown, of, at))
            gram, moment = gram + features.T @ features, moment + features.T @ target
        return torch.linalg.solve(gram, moment)

    def _score(self, shown: Tensor, scene: Tensor, windows: Tensor) -> Tensor:
        return self._features(self._look(shown, scene, windows)) @ self.weights

    def _features(self, seen: Tensor) -> Tensor:
        cosines = torch.cos((seen - self.mean) / self.spread @ self.directions + self.phases)
        return torch.cat([cosines, torch.ones(len(seen), 1)], 1)

    @staticmethod
    def _contrasts(images: Tensor) -> Tensor:
        """Measure how bright the colour of each pixel is, and how it differs from the next to the right and below."""
        right = F.pad((images[..., 1:] - images[..., :-1]).abs().amax(1), (0, 1))
        below = F.pad((images[..., 1:, :] - images[..., :-1, :]).abs().amax(1), (0, 0, 0, 1))
        return torch.stack([images.amax(1) - images.amin(1), right, below], -1)

    @staticmethod
    def _look(shown: Tensor, scene: Tensor, windows: Tensor, points: int = 12) -> Tensor:
        """Read the contrasts at 12 × 12 points in and around each window, and its sides: (n, 434)."""
        at, sides = (torch.arange(points) + 0.5) / points * 1.4 - 0.2, windows[:, 2:] - windows[:, :2]
        x, y = ((SIDE * (windows[:, i, None] + at * sides[:, i, None])).floor().long().clamp(0, SIDE - 1) for i in (0, 1))
        return torch.cat([shown[scene[:, None, None], y[:, :, None], x[:, None]].flatten(1), 2 * sides], 1)


def _grid(height: int, width: int) -> Tensor:
    """Place a window of this height and width at every second pixel of a scene: corners (n, 4)."""
    y, x = (torch.arange(0, SIDE - side + 1, 2) for side in (height, width))
    low = torch.cartesian_prod(x, y)
    return torch.cat([low, low + torch.tensor([width, height])], 1) / SIDE
