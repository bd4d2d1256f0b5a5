"""What could find creatures instead of a matched set: every place on one, the nearest place, patches of one colour."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks import ConvNet, Sizes
from course_lib.datasets import Scenes
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.losses import SetLoss, match, matching_cost, set_loss
from course_lib.models.detr import ObjectBlock, sinusoidal_positions_2d
from course_lib.primitives import giou, iou, to_corners
from course_tools.lectures.lecture_12.crowds import N_KINDS, SIDE

CELLS, WIDTH = 4, 64
"""Cells in a row of the map of features, each with one query; features of a cell."""
NO_OBJECT = 0.5
"""Weight of a query without an object in the loss of the classes."""
LARGEST = 18
"""The longest side of a creature in pixels."""


def cell_centres() -> Tensor:
    """Return the centres of the cells, row by row, as fractions of the image (16, 2): x, y."""
    at = (torch.arange(CELLS) + 0.5) / CELLS
    return torch.cartesian_prod(at, at).flip(-1)


class Alone(nn.Module):
    """In place of the self-attention among queries: each query keeps to itself."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add nothing to x."""
        return torch.zeros_like(x)


class CrowdDetector(nn.Module):
    """The lecture's detector, made of the parts of the library; perhaps without self-attention, or with two queries a cell."""

    def __init__(self, alone: bool = False, a_cell: int = 1) -> None:
        """Set up backbone, one decoder layer and two heads, for `a_cell` queries at each cell."""
        super().__init__()
        self.backbone = ConvNet(3, widths=(32, 48, WIDTH), strides=(2, 2, 2))
        self.decoder = ObjectBlock(Sizes(WIDTH, 4, 2 * WIDTH, 1), fused_scaled_dot_product_attention)
        if alone:
            self.decoder.mixer = Alone()
        self.classify = nn.Linear(WIDTH, N_KINDS + 1)
        self.box = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
        references = torch.cat([cell_centres(), torch.full((CELLS**2, 2), 0.36)], 1).logit()
        self.register_buffer("references", references.repeat(a_cell, 1))
        self.register_buffer("positions", sinusoidal_positions_2d(CELLS, CELLS, WIDTH))
        apart = 0.0 if a_cell == 1 else 0.5 * torch.randn(a_cell * CELLS**2, WIDTH)
        self.queries = nn.Parameter(self.positions.repeat(a_cell, 1) + apart)

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


class OneColour:
    """Without a network: patches of one colour, and a support vector machine that says what each patch is."""

    def __init__(self, known: Scenes, step: float = 0.15) -> None:
        """Learn from scenes which patches are creatures; two neighbours closer than `step` in colour join.

        So do the fragments of a half hidden one: patches of nearly one mean colour, four pixels apart or less.
        """
        from sklearn.svm import SVC

        self.step = step
        scene, corners, shapes = self._patches(known.images.cpu())
        overlaps = iou(corners[:, None], to_corners(known.boxes.cpu())[scene])[:, 0]  # (n, M)
        best, which = torch.where(known.classes.cpu()[scene] >= 0, overlaps, 0.0).max(-1)
        kinds = torch.where(best >= 0.5, known.classes.cpu()[scene, which], N_KINDS)
        self.machine = SVC(C=10.0).fit(shapes.numpy(), kinds.numpy())

    def detect(self, images: Tensor, most: int = 64) -> tuple[Tensor, Tensor]:
        """Return the confidence of each kind (B, 64, 2) and the corners (B, 64, 4) of the patches of each image."""
        scene, corners, shapes = self._patches(images.cpu())
        sure = torch.from_numpy(self.machine.decision_function(shapes.numpy())).float().softmax(-1)[:, :N_KINDS]
        p, boxes = torch.zeros(len(images), most, N_KINDS), torch.zeros(len(images), most, 4)
        for i in range(len(images)):
            mine = (scene == i).nonzero()[:most, 0]
            p[i, : len(mine)], boxes[i, : len(mine)] = sure[mine], corners[mine]
        return p, boxes

    def _patches(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Find patches of one colour: their scene (n,), corners (n, 4), and shape, 8 × 8 and the sides (n, 66)."""
        index = torch.arange(images[:, 0].numel()).view(len(images), SIDE, SIDE)
        beside = (images[..., 1:] - images[..., :-1]).abs().amax(1) < self.step
        below = (images[..., 1:, :] - images[..., :-1, :]).abs().amax(1) < self.step
        start = torch.cat([index[..., :-1][beside], index[:, :-1][below]])
        end = torch.cat([index[..., 1:][beside], index[:, 1:][below]])
        label = _components(start, end, index.numel())
        label = _fragments(images, label)[label]
        (low, high), area = _extents(label, len(images)), torch.bincount(label)
        sides = high[:, 1:] + 1 - low[:, 1:]
        kept = ((sides >= 5) & (sides <= LARGEST)).all(1) & (area >= 12)
        scenes, shapes, label = low[kept, 0], [], label.view(index.shape)
        for number in kept.nonzero()[:, 0].tolist():
            (i, y_1, x_1), (_, y_2, x_2) = low[number].tolist(), high[number].tolist()
            mask = (label[i, y_1 : y_2 + 1, x_1 : x_2 + 1] == number).float()
            shapes.append(F.interpolate(mask[None, None], size=(8, 8), mode="bilinear").flatten())
        corners = torch.stack([low[kept, 2], low[kept, 1], high[kept, 2] + 1, high[kept, 1] + 1], 1) / SIDE
        return scenes, corners, torch.cat([torch.stack(shapes), sides[kept] / 16], 1)


def _fragments(images: Tensor, label: Tensor, colour: float = 0.1, reach: int = 4) -> Tensor:
    """Join patches (labels of all pixels) of nearly one mean colour that are near, and together no larger than a creature.

    Returns:
        the new label of each old one.
    """
    (low, high), area = _extents(label, len(images)), torch.bincount(label)
    mean = torch.zeros(len(area), 3).index_add(0, label, images.permute(0, 2, 3, 1).reshape(-1, 3)) / area[:, None]
    small = ((area >= 3) & (high[:, 1:] + 1 - low[:, 1:] <= LARGEST).all(1)).nonzero()[:, 0]
    starts, ends = [], []
    for patches in small[low[small, 0].argsort(stable=True)].split(torch.bincount(low[small, 0]).tolist()):
        first, last, shade = low[patches, 1:], high[patches, 1:], mean[patches]
        alike = (shade[:, None] - shade).abs().amax(-1) < colour
        gap = torch.maximum(first[:, None] - last, first - last[:, None]).amax(-1)
        size = torch.maximum(last[:, None], last) + 1 - torch.minimum(first[:, None], first)
        i, j = (alike & (gap <= reach) & (size <= LARGEST).all(-1)).triu(1).nonzero(as_tuple=True)
        starts.append(patches[i])
        ends.append(patches[j])
    return _components(torch.cat(starts), torch.cat(ends), len(area))


def _components(start: Tensor, end: Tensor, n: int) -> Tensor:
    """Number the connected components of n nodes by their edges: the component of each node."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((torch.ones(len(start)).numpy(), (start.numpy(), end.numpy())), shape=(n, n))
    return torch.from_numpy(connected_components(edges, directed=False)[1]).long()


def _extents(label: Tensor, n_images: int) -> tuple[Tensor, Tensor]:
    """Find the least and the largest image, y and x of each label of all pixels, (n, 3) each."""
    at = torch.cartesian_prod(torch.arange(n_images), torch.arange(SIDE), torch.arange(SIDE))
    low, high = (
        torch.full((int(label.max()) + 1, 3), fill).scatter_reduce(0, label[:, None].expand(-1, 3), at, how)
        for fill, how in ((10**6, "amin"), (-1, "amax"))
    )
    return low, high
