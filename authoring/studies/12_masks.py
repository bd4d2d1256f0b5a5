"""DETR's mask head in clutter: do attention maps tell more about the mask of an object than its predicted box?

A DETR is trained on digits among pieces of other digits, then frozen. Its mask head (Carion et al. 2020, section 4.4) is trained
on attention maps of the queries that are matched with an object. Rivals, with the same frozen DETR: the same head, with positions
added to the queries and cells of its attention; the same head with the predicted box as a map instead, the fraction of each cell
that it covers; the same head without any map, trained to segment all digits, its mask cut to the predicted box; the dark ink in
the predicted box; and the filled box. Dark is at least half of full ink, as in the true masks. The mask of each object is compared
with that of its matched query, whether or not the query has found it: found is a box with an IoU of at least 0.5.

Budget: DETR 4,000 updates with 16 scenes each, a head 2,000 updates with 32 objects each, three seeds. The learning rate rises
over the first eighth of the updates. About 15 minutes on one CPU thread if one worker runs all settings of a seed. On a GPU:
heads trained four times as long, too.
"""

from functools import lru_cache
from statistics import mean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.blocks import ConvNet, Sizes
from course_lib.datasets import LabelledImages, digits, split
from course_lib.losses import deep_set_loss, dice_loss, focal_loss, match, matching_cost
from course_lib.metrics import mask_ious, mean_average_precision
from course_lib.models import DETR, AttentionMaps, MaskHead, ObjectFeatures, PointQueries, read_objects, sinusoidal_positions_2d
from course_lib.primitives import iou, to_corners
from course_lib.training import batches, train
from course_tools.lectures.lecture_12.data import SegmentedScenes, cluttered_scenes

N_KNOWN, DETR_STEPS, STEPS, LOOKS = 6_000, 4_000, 2_000, (250, 500, 1_000, 1_500, 2_000)
SIZES, N_MAPS, SIDE = Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=1), 4, 24
TOLERANCE = dict.fromkeys(("mask IoU", "mask IoU of found objects", "found", "ap50", "curve"), 0.05)


def scenes(which, n, seed, size=SIDE, most=3, n_pieces=20):
    (drawn, named), chosen = digits(), torch.tensor(which)
    pictures = LabelledImages(drawn[chosen][:, None], named[chosen])
    return cluttered_scenes(pictures, n, seed, (size, size), (1, most), n_pieces, side=3)


def parts(seed):
    """Indices of the digits for training and for testing."""
    return split(range(len(digits()[1])), 1_400, 0, 397, seed)


def unseen(seed):
    return scenes(parts(seed).test, 300, 10 * seed + 1)


def pretrained_backbone(seed, device):
    """The backbone of a network that was trained to classify single digits in clutter."""
    torch.manual_seed(seed)
    backbone = ConvNet(1, widths=(32, 64, 64), strides=(2, 2, 1))
    model = nn.Sequential(backbone, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(64, 10)).to(device)
    alone = scenes(parts(seed).train, N_KNOWN, 10 * seed, size=16, most=1, n_pieces=9)
    stream = batches(alone.images.to(device), alone.classes[:, 0].to(device), batch_size=64, seed=seed)
    for _ in train(model, stream, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]), steps=400, lr=3e-3):
        pass
    return backbone


def trained_detr(seed, known, device):
    """The model and the training of the study 12_matching, in clutter."""
    backbone = pretrained_backbone(seed, device)
    torch.manual_seed(seed)
    model = DETR(backbone, 64, 10, PointQueries(6, 64), SIZES, fused_scaled_dot_product_attention)
    cross = model.decoder[0].cross
    with torch.no_grad():
        nn.init.eye_(model.queries.mix.weight)
        nn.init.zeros_(model.queries.mix.bias)
        cross.W_k.weight.mul_(2)
        cross.W_q.load_state_dict(cross.W_k.state_dict())
    stream = batches(known.images, known.classes, known.boxes, batch_size=16, seed=seed)

    def loss(model, batch):
        return deep_set_loss(*model(batch[0]), *batch[1:])

    for _ in train(model.to(device), stream, loss, steps=DETR_STEPS, lr=2e-3, warmup=DETR_STEPS // 8):
        pass
    return model.eval()


class Objects(NamedTuple):
    """What the frozen DETR computed for scenes; for each object its scene `b`, and its matched query: state, q and box."""

    read: ObjectFeatures
    b: Tensor
    states: Tensor
    asked: Tensor
    boxes: Tensor
    true_boxes: Tensor
    masks: Tensor
    masks_of_scene: Tensor
    ap50: float


@torch.no_grad()
def matched_objects(detr, made):
    reads = [read_objects(detr, images) for images in made.images.split(100)]
    memory, features = (torch.cat([getattr(read, name) for read in reads]) for name in ("memory", "features"))
    laterals = tuple(torch.cat(maps) for maps in zip(*(read.laterals for read in reads), strict=True))
    read = ObjectFeatures(torch.cat([read.states for read in reads], 1), reads[0].references, memory, features, laterals)
    logits, boxes = detr.classify(read.states[-1]), (detr.box(read.states[-1]) + read.references).sigmoid()
    queries = match(matching_cost(logits, boxes, made.classes, made.boxes), made.classes)
    b, m = (made.classes >= 0).nonzero(as_tuple=True)
    n = queries[b, m]
    p, corners = logits.softmax(-1)[..., :-1], to_corners(boxes)
    ap50 = mean_average_precision(p, corners, made.classes, to_corners(made.boxes))
    of_objects = read.states[-1, b, n], detr.queries().positions[n], boxes[b, n], made.boxes[b, m], made.masks[b, m]
    return Objects(read, b, *of_objects, made.masks.any(1)[b], ap50)


@lru_cache(maxsize=1)
def frozen(seed, device):
    """The objects of known and of unseen scenes, as a DETR that is not trained any further sees them."""
    known = SegmentedScenes(*(part.to(device) for part in scenes(parts(seed).train, N_KNOWN, 10 * seed)))
    detr = trained_detr(seed, known, device)
    return [matched_objects(detr, made) for made in (known, SegmentedScenes(*(part.to(device) for part in unseen(seed))))]


def covered(boxes, h, w):
    """The fraction of each cell of an h × w map that a box (n, 4) covers: (n, h, w)."""
    x_1, y_1, x_2, y_2 = to_corners(boxes).unbind(-1)

    def along(start, end, n):
        edges = torch.arange(n, device=boxes.device) / n
        return ((end[:, None].minimum(edges + 1 / n) - start[:, None].maximum(edges)) * n).clamp(0, 1)

    return along(y_1, y_2, h)[:, :, None] * along(x_1, x_2, w)[:, None, :]


def filled(boxes):
    return covered(boxes, SIDE, SIDE) > 0.5


class FromAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.maps = AttentionMaps(SIZES.d_model, N_MAPS)

    def forward(self, states, asked, boxes, memory):
        return self.maps(states[:, None], memory)


class FromPositionedAttention(FromAttention):
    """Positions added to queries and cells, as in the cross-attention of the decoder."""

    def forward(self, states, asked, boxes, memory):
        positions = sinusoidal_positions_2d(*memory.shape[-2:], memory.shape[1], memory.device).mT.view(memory.shape[1:])
        return super().forward(states + asked, asked, boxes, memory + positions)


class FromBox(nn.Module):
    def forward(self, states, asked, boxes, memory):
        return covered(boxes, *memory.shape[-2:])[:, None, None].expand(-1, 1, N_MAPS, -1, -1)


class FromNothing(nn.Module):
    def forward(self, states, asked, boxes, memory):
        return memory.new_zeros(len(memory), 1, N_MAPS, *memory.shape[-2:])


class Masker(nn.Module):
    """A mask head on maps of objects: state, q and box of the query, and the scene `b` among those read, to (n, H, W)."""

    def __init__(self, maps):
        super().__init__()
        self.maps, self.head = maps, MaskHead(SIZES.d_model, N_MAPS, (32, 1), n_groups=4)

    def forward(self, read, b, *query):
        maps = self.maps(*query, read.memory[b])
        return self.head(read.features[b], maps, [lateral[b] for lateral in read.laterals])[:, 0]


class Trained(NamedTuple):
    maps: type[nn.Module]
    whole_scene: bool = False  # segment all digits, and cut the mask to the box
    times: int = 1

    def masks(self, seed, known, new):
        """Train a head; yield the number of updates and the masks of new objects."""
        torch.manual_seed(seed)
        model = Masker(self.maps()).to(known.b.device)
        targets = known.masks_of_scene if self.whole_scene else known.masks
        stream = batches(known.b, known.states, known.asked, known.boxes, targets, batch_size=32, seed=seed)

        def loss(model, batch):
            *query, masks = batch
            logits = model(known.read, *query)
            return dice_loss(logits, masks) + focal_loss(logits, masks)

        steps = self.times * STEPS
        for step in train(model, stream, loss, steps=steps, lr=2e-3, warmup=steps // 8):
            if step.index + 1 in (*LOOKS, steps):
                with torch.no_grad():
                    masks = model(new.read, new.b, new.states, new.asked, new.boxes) > 0
                yield step.index + 1, masks & filled(new.boxes) if self.whole_scene else masks


class Untrained(NamedTuple):
    ink: bool

    def masks(self, seed, known, new):
        dark = new.read.laterals[-1][new.b, 0] >= 0.5
        yield STEPS, filled(new.boxes) & dark if self.ink else filled(new.boxes)


SETTINGS = {
    "attention maps": Trained(FromAttention),
    "attention maps, with positions": Trained(FromPositionedAttention),
    "box as a map": Trained(FromBox),
    "all digits, cut to the box": Trained(FromNothing, whole_scene=True),
    "ink in the box": Untrained(ink=True),
    "filled box": Untrained(ink=False),
}
GPU_SETTINGS = SETTINGS | {f"{name}, four times as long": SETTINGS[name]._replace(times=4) for name in list(SETTINGS)[:4]}


def as_text(masks):
    """One row of pixels a line: the number of the object, from 1, or a dot."""
    numbers = (masks * torch.arange(1, len(masks) + 1, device=masks.device)[:, None, None]).amax(0)
    return "\n".join("".join(".123"[number] for number in row) for row in numbers.tolist())


def run(setting, seed, device):
    """Segment the objects of unseen scenes: IoU of masks and boxes, and the masks of the first scene of three digits."""
    known, new = frozen(seed, device)
    overlaps = iou(to_corners(new.boxes)[:, None], to_corners(new.true_boxes)[:, None]).flatten()
    curve, scene = {}, new.b[2:][new.b[2:] == new.b[:-2]][0]
    for updates, masks in setting.masks(seed, known, new):
        ious = mask_ious(masks, new.masks)
        curve[updates] = ious.mean().item()
    return {
        "mask IoU": ious.mean().item(),
        "mask IoU of found objects": ious[overlaps >= 0.5].mean().item(),
        "found": (overlaps >= 0.5).float().mean().item(),
        "ap50": new.ap50,
        "curve": curve,
        "texts": {"masks": as_text(masks[new.b == scene])},
    }


def figure(study):
    """A scene of the first seed with the masks of its digits, true and predicted; below, mask IoU of each rival and seed."""
    import numpy as np
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook.grey import grey
    from course_tools.notebook.plots import MARKERS

    seed = study.of(study.names[0])[0].seed
    made = unseen(seed)
    scene = (made.classes >= 0).all(1).nonzero()[0].item()
    masks = {"true masks": as_text(made.masks[scene])}
    shown = ("attention maps", "box as a map", "all digits, cut to the box", "ink in the box")
    masks |= {name: study.of(name)[0].texts["masks"] for name in shown}
    palette = np.array([(1.0, 1.0, 1.0), *sns.color_palette("colorblind", 3)])
    drawn = Figure(figsize=(6.0, 4.0), layout="constrained")
    above, below = drawn.subfigures(2, 1, height_ratios=(3, 2))
    panels = above.subplots(2, 3).flatten()
    panels[0].imshow(grey(1 - made.images[scene]), vmin=0, vmax=1)
    panels[0].set_title("scene", fontsize=10)
    for ax, (name, text) in zip(panels[1:], masks.items(), strict=True):
        ax.imshow(palette[[[".123".index(sign) for sign in row] for row in text.split("\n")]])
        ax.set_title(name, fontsize=10)
    for ax in panels:
        ax.set(xticks=[], yticks=[])
    ax = below.subplots()
    for i, (name, marker, colour) in enumerate(zip(study.names, MARKERS, sns.color_palette("colorblind"), strict=False)):
        values = study.scores(name, "mask IoU")
        ax.plot(values, [i] * len(values), linestyle="none", color=colour, marker=marker, markersize=6, alpha=0.8)
    ax.set_yticks(range(len(study.names)), study.names)
    ax.invert_yaxis()
    ax.set(xlabel="mask IoU on unseen scenes, as recorded", xlim=(0, 1))
    ax.grid(alpha=0.25)
    sns.despine(ax=ax)
    each = "; ".join(f"{name} {', '.join(f'{value:.3f}' for value in study.scores(name, 'mask IoU'))}" for name in study.names)
    digits_there = ", ".join(str(digit) for digit in made.classes[scene].tolist())
    return drawn, (
        f"A scene in clutter with the digits {digits_there}, their true masks, and those that four methods predict. Mask IoU on "
        f"unseen scenes, by seed: {each}."
    )


def finding(study):
    """Mask IoU by rival, and what the heads still gain in the second half of their updates."""
    rows = {name: study.scores(name, "mask IoU") for name in study.names}
    each = "; ".join(f"{name} {mean(values):.3f} ({min(values):.3f} to {max(values):.3f})" for name, values in rows.items())
    late = {name: study.curve(name)[1] for name in study.names if len(study.curve(name)[1]) > 2}
    gains = ", ".join(f"{name} {values[-1] - values[-3]:+.3f}" for name, values in late.items())
    found, ap50 = (study.mean("attention maps", score) for score in ("found", "ap50"))
    return (
        f"Mask IoU on unseen scenes, mean over the objects, mean and range of the seeds: {each}. The DETR finds {found:.2f} of the "
        f"objects (AP50 {ap50:.2f}). From {LOOKS[-3]:,} to {STEPS:,} updates the heads gain, mean of the seeds: {gains}."
    )
