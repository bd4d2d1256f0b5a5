"""Things in colour that lectures draw into images: glyphs of DejaVu Sans, which Matplotlib contains, and colours by hue."""

import math
from pathlib import Path

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

_CANVAS, _LARGER = 128, 6


def glyphs(symbols: str, n: int, side: int, generator: torch.Generator) -> Tensor:
    """Draw each symbol n times, turned, scaled and moved at random: ink (n_symbols, n, side, side) in 0…1."""
    return torch.stack([_variants(symbol, n, side, generator) for symbol in symbols])


def _variants(symbol: str, n: int, side: int, generator: torch.Generator) -> Tensor:
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")), 90)
    canvas = Image.new("L", (_CANVAS, _CANVAS))
    pen = ImageDraw.Draw(canvas)
    left, top, right, bottom = pen.textbbox((0, 0), symbol, font=font)
    pen.text(((_CANVAS - left - right) / 2, (_CANVAS - top - bottom) / 2), symbol, font=font, fill=255)
    drawn = torch.from_numpy(np.array(canvas)).float() / 255
    turn, size, x, y = 2 * torch.rand(4, n, generator=generator) - 1
    angle = math.radians(15) * turn
    scale = max(right - left, bottom - top) / _CANVAS * side / (9.2 + 0.8 * size)
    rows = [scale * angle.cos(), -scale * angle.sin(), 0.08 * x, scale * angle.sin(), scale * angle.cos(), 0.08 * y]
    shape = [n, 1, _LARGER * side, _LARGER * side]
    grid = F.affine_grid(torch.stack(rows, 1).view(-1, 2, 3), shape, align_corners=False)
    large = F.grid_sample(drawn.expand(n, 1, -1, -1), grid, align_corners=False)
    return F.avg_pool2d(large, _LARGER)[:, 0]


def hsv(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Convert HSV, the hue in turns, to red, green and blue in 0…1 on a new last axis."""
    sector = (hue[..., None] * 6 + torch.tensor([0.0, 4.0, 2.0])) % 6
    return value[..., None] * (1 - saturation[..., None] * (1 - ((sector - 3).abs() - 1).clamp(0, 1)))
