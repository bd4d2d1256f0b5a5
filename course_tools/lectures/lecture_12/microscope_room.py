"""Train the set predictors of the microscope's room: `python -m course_tools.lectures.lecture_12.microscope_room`.

Eight object queries predict the rectangles of a scene, each one or none, through two of DETR's decoder layers: once as they
are, and once without self-attention among the queries. All random draws come from one seed. On one core it takes two minutes.
"""

import json
from itertools import count
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor, nn

from course_lib.blocks import Sizes
from course_lib.datasets import Scenes
from course_lib.losses import SetLoss, match, matching_cost, set_loss
from course_lib.models.detr import ObjectBlock
from course_lib.primitives import iou, to_corners
from course_lib.training import cosine_decay, train
from course_tools.microscope import room_weights
from course_tools.microscope.models import packed, unpacked

MODELS = {"talk": True, "alone": False}
"""Each model, and whether its queries attend to each other."""
SIDE, PATCH, N_QUERIES, MOST, SMALLEST, LARGEST = 16, 2, 8, 4, 2, 7
"""Side of a scene and of a patch in pixels, object queries, the most objects of a scene, and their sides in pixels."""
SIZES = Sizes(d_model=20, n_heads=2, d_ff=32, n_layers=2)
SEED, STEPS = 0, 4_000


class SetPredictor(nn.Module):
    """Scenes (B, 2, 16, 16) to logits (B, 8, 3), of two kinds and of no object, and boxes (B, 8, 4), of each layer.

    Cells know their row and column. Queries differ only in a learned vector: what they have found starts at 0, as in DETR.
    """

    def __init__(self, talk: bool) -> None:
        """Set up the cells, the queries and the layers; with `talk`, queries attend to each other."""
        super().__init__()
        d_model, n_cells = SIZES.d_model, SIDE // PATCH
        self.project = nn.Linear(2 * PATCH**2, d_model)
        self.rows, self.columns = (nn.Parameter(torch.randn(n_cells, d_model) / 2) for _ in range(2))
        self.queries = nn.Parameter(torch.randn(N_QUERIES, d_model))
        self.layers = nn.ModuleList(ObjectBlock(SIZES) for _ in range(SIZES.n_layers))
        self.classify = nn.Linear(d_model, 3)
        self.box = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, 4))
        if not talk:
            silence(self)

    def forward(self, images: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Predict the logits and the boxes of each layer."""
        patches = rearrange(images, "B kind (h y) (w x) -> B h w (kind y x)", y=PATCH, x=PATCH)
        cells = (self.project(patches) + self.rows[:, None] + self.columns).flatten(1, 2)  # (B, 64, d_model)
        x, found = torch.zeros(len(images), *self.queries.shape), []
        for layer in self.layers:
            x = layer(x, self.queries, cells, torch.zeros(()))  # positions are in the cells already
            found.append((self.classify(x), self.box(x).sigmoid()))
        return found


class Silent(nn.Module):
    """In place of the attention among the queries: 0."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return zeros (B, N, d_model)."""
        return torch.zeros_like(x)


def silence(model: SetPredictor) -> SetPredictor:
    """Switch the attention among the queries off, in place."""
    for layer in model.layers:
        layer.mixer = Silent()
    return model


def draw_rectangles(n: int, generator: torch.Generator) -> Scenes:
    """Draw n scenes (n, 2, 16, 16) of one to four rectangles, a channel for each kind; two of one kind never touch."""
    size = torch.randint(SMALLEST, LARGEST + 1, (n, MOST, 2), generator=generator)  # width, height
    low = (torch.rand(n, MOST, 2, generator=generator) * (SIDE + 1 - size)).long()
    kind = torch.randint(2, (n, MOST), generator=generator)
    there = torch.arange(MOST) < torch.randint(1, MOST + 1, (n, 1), generator=generator)
    for i in range(1, MOST):
        for j in range(i):
            apart = ((low[:, i] > (low + size)[:, j]) | (low[:, j] > (low + size)[:, i])).any(-1)
            there[:, i] &= apart | (kind[:, i] != kind[:, j]) | ~there[:, j]
    pixel = torch.arange(SIDE)
    inside = (pixel >= low[..., None]) & (pixel < (low + size)[..., None])  # (n, MOST, 2, SIDE)
    painted = inside[:, :, 1, :, None] & inside[:, :, 0, None, :] & there[..., None, None]
    images = torch.stack([(painted & (kind == each)[..., None, None]).any(1) for each in (0, 1)], 1).float()
    boxes = torch.cat([low + size / 2, size], -1) / SIDE
    return Scenes(images, kind.masked_fill(~there, -1), boxes * there[..., None])


class Judged(NamedTuple):
    """Of new objects, the shares found once, twice or more, and not at all; boxes elsewhere a scene; and scenes all right."""

    once: float
    twice: float
    missed: float
    elsewhere: float
    scenes: float


@torch.no_grad()
def judge(model: SetPredictor, n: int = 1_000) -> Judged:
    """Judge the boxes of new scenes that are more than half sure; one finds an object of its kind by an IoU of half or more."""
    scenes = draw_rectangles(n, torch.Generator().manual_seed(SEED + 1))
    logits, boxes = model(scenes.images)[-1]
    sure, kind = logits.softmax(-1)[..., :-1].max(-1)
    real = scenes.classes >= 0
    fits = (iou(to_corners(boxes), to_corners(scenes.boxes)) >= 0.5) & (kind[..., None] == scenes.classes[:, None])
    fits &= (sure > 0.5)[..., None]
    times, elsewhere = fits.sum(1), ((sure > 0.5) & ~fits.any(-1)).sum(-1)
    right = ((times == 1) | ~real).all(-1) & (elsewhere == 0)
    shares = (counted[real].float().mean().item() for counted in (times == 1, times > 1, times == 0))
    return Judged(*shares, elsewhere.float().mean().item(), right.float().mean().item())


def trained_predictor(name: str) -> SetPredictor:
    """Read a model with the weights of the page."""
    stored = json.loads(room_weights("queries").read_text(encoding="utf-8"))[name]
    return _filled(SetPredictor(MODELS[name]), stored["weights"]).eval()


def trained(name: str) -> dict:
    """Train a model, and return its weights as the page stores them, with what `judge` says of it."""
    torch.manual_seed(SEED)
    model, generator = SetPredictor(MODELS[name]), torch.Generator().manual_seed(SEED)
    scenes = (draw_rectangles(64, generator) for _ in count())
    for _ in train(model, scenes, _loss, steps=STEPS, lr=0.01, warmup=STEPS // 10, schedule=cosine_decay):
        pass
    return stored_form(name, model)


def stored_form(name: str, model: SetPredictor) -> dict:
    """Return what the page stores of a model: its weights, and what `judge` says of it, whole and with silent queries."""
    weights = [_packed(part) for part in model.state_dict().values()]
    judged = {"whole": judge(_filled(model, weights)), "silent": judge(silence(model))}
    print(name, judged, flush=True)
    rounded = {how: {key: round(share, 3) for key, share in each._asdict().items()} for how, each in judged.items()}
    return {**rounded, "weights": weights}


def main() -> None:
    """Train all and write their weights, on one thread: more of them add in another order."""
    torch.set_num_threads(1)
    stored = {name: trained(name) for name in MODELS}
    room_weights("queries").write_text(json.dumps(stored, separators=(",", ":")) + "\n", encoding="utf-8", newline="\n")


def _packed(weights: Tensor) -> list:
    """Write a tensor as shape, scale and characters: one scale for all of it, to keep the page small."""
    row = packed(weights.flatten())
    return [list(weights.shape), row["scales"][0], row["characters"]]


def _filled(model: SetPredictor, weights: list[list]) -> SetPredictor:
    """Fill a model with packed weights, in their order."""
    parts = [unpacked({"shape": shape, "scales": [scale], "characters": characters}) for shape, scale, characters in weights]
    model.load_state_dict(dict(zip(model.state_dict(), parts, strict=True)))
    return model


def _loss(model: SetPredictor, scenes: Scenes) -> Tensor:
    """DETR's loss of each layer, summed: match, then compare."""
    total = torch.zeros(())
    for logits, boxes in model(scenes.images):
        with torch.no_grad():
            queries = match(matching_cost(logits, boxes, scenes.classes, scenes.boxes), scenes.classes)
        total = total + SetLoss(*set_loss(logits, boxes, scenes.classes, scenes.boxes, queries, no_object=1.0)).total()
    return total


if __name__ == "__main__":
    main()
