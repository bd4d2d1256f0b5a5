"""Recorded frames of an interactive figure: they move under sliders where no Python runs, as on the site."""

import base64
import contextlib
import io
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from matplotlib.figure import Figure
from PIL import Image

from course_tools.checks.inline_markup import to_html
from course_tools.notebook.show import MOST_COLOURS, caught, drawn

FRAME_DPI = 100
LEAST_FRAMES, MOST_FRAMES, MOST_BYTES = 9, 30, 50_000
"""Fewer frames are recorded if the image of all would be larger."""
PALETTE = 96
_SCRIPT = Path(__file__).with_suffix(".js")


def recorded_frames(draw: Callable[..., None], positions: Mapping[str, Sequence], start: Mapping[str, object]) -> str:
    """Draw a figure at a grid of its controls' positions; return it as HTML with sliders, or "" if it is not one figure.

    Args:
        draw: called with one keyword argument for each control; shows its figure with `show`.
        positions: for each control, the values it can take, in order.
        start: for each control, its initial value.
    """
    stops, frames, image = _fitting(draw, positions, start)
    if len(frames) < 2:
        return ""
    width, height = _size([figure for figure, _ in frames])
    controls = [
        {"name": name.replace("_", " "), "stops": list(map(_written, values)), "start": values.index(start[name])}
        for name, values in stops.items()
    ]
    data = {
        "controls": controls,
        "captions": [to_html(alt) for _, alt in frames],
        "width": width,
        "height": height,
        "image": f"data:image/webp;base64,{base64.b64encode(image).decode()}",
    }
    stored = json.dumps(data, ensure_ascii=False).replace("</", "<\\/")
    script = _SCRIPT.read_text(encoding="utf-8")
    return f'<div class="course-frames"><script type="application/json">{stored}</script><script>{script}</script></div>'


def _fitting(
    draw: Callable[..., None], positions: Mapping[str, Sequence], start: Mapping[str, object]
) -> tuple[dict[str, list], list[tuple[Image.Image, str]], bytes]:
    """Return the stops of each control, the frames at all their combinations, and the image of these frames."""
    most, drawn_already = MOST_FRAMES, {}
    while True:
        stops = chosen_stops(positions, start, most)
        grid = [dict(zip(stops, values, strict=True)) for values in itertools.product(*stops.values())]
        frames = []
        for values in ({**start, **each} for each in grid):
            at = tuple(values.values())
            if at not in drawn_already:
                drawn_already[at] = _frame(draw, values)
            frames.append(drawn_already[at])
        if None in frames:
            return stops, [], b""
        image = _sheet([figure for figure, _ in frames])
        if len(image) <= MOST_BYTES or most <= LEAST_FRAMES:
            return stops, frames, image
        most = max(LEAST_FRAMES, min(most - 5, int(0.9 * len(frames) * MOST_BYTES / len(image))))


def chosen_stops(positions: Mapping[str, Sequence], start: Mapping[str, object], most: int) -> dict[str, list]:
    """Choose evenly spaced positions of each control, its initial one among them, with at most `most` combinations.

    A control that would get fewer than three of its positions stays where it is, beginning with the last.
    """
    movable = dict(positions)
    while True:
        counts = dict.fromkeys(movable, 1)
        while growing := [
            name for name, n in counts.items() if n < len(movable[name]) and math.prod(counts.values()) // n * (n + 1) <= most
        ]:
            counts[min(growing, key=counts.__getitem__)] += 1
        few = [name for name, n in counts.items() if n < min(3, len(movable[name]))]
        if not few or len(movable) == 1:
            return {name: _spread(movable[name], start[name], counts[name]) for name in movable}
        del movable[few[-1]]


def _spread(values: Sequence, start: object, n: int) -> list:
    """Return n of the values from end to end, the initial one among them, evenly spaced on either side of it."""
    last, at = len(values) - 1, values.index(start)
    below = min(max(round((n - 1) * at / last), at > 0), n - 1 - (at < last)) if n > 1 else 0
    left = [round(i * at / below) for i in range(below)] if below else []
    right = [at + round(i * (last - at) / (n - 1 - below)) for i in range(1, n - below)]
    return [values[i] for i in (*left, at, *right)]


def _frame(draw: Callable[..., None], values: Mapping[str, object]) -> tuple[Image.Image, str] | None:
    """Draw one frame; what it draws at random leaves torch's generators as they were."""
    figures: list[tuple[Figure, str]] = []
    with torch.random.fork_rng(), caught(figures), contextlib.redirect_stdout(io.StringIO()):
        draw(**values)
    return (drawn(figures[0][0], FRAME_DPI), figures[0][1]) if len(figures) == 1 else None


def _sheet(frames: Sequence[Image.Image]) -> bytes:
    """Put the frames one below the other as WebP, which stores once what they share; photographs with loss."""
    width, height = _size(frames)
    sheet = Image.new("RGB", (width, height * len(frames)), "white")
    for i, frame in enumerate(frames):
        sheet.paste(frame, (0, i * height))
    written = io.BytesIO()
    if frames[0].getcolors(MOST_COLOURS) is None:
        sheet.save(written, format="webp", quality=50, method=6)
    else:
        few = sheet.quantize(PALETTE, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.convert("RGB").save(written, format="webp", lossless=True, quality=90, method=6)
    return written.getvalue()


def _size(frames: Sequence[Image.Image]) -> tuple[int, int]:
    return max(frame.width for frame in frames), max(frame.height for frame in frames)


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}".replace("-", "−") if isinstance(value, float) else str(value)
