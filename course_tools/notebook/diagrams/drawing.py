"""Draw a schematic as SVG: tensors with their shapes, operations, arrows and frames, in one style.

A diagram is a short description of boxes, their positions, and the arrows between them. The style is defined only here: colours
that show the kind of an operation, a background card, so that the drawing is legible on light and dark pages, and text that is
legible at the width of a phone.

Each tensor names the point of the running library at which it occurs, as `qualified name of a function: expression`. The
expression is evaluated over the local variables of that function when it returns; `result` is the returned value. A test runs
the library and compares the shapes.
"""

import base64
import html
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

BoxKind = Literal["tensor", "learned", "score", "softmax", "mix", "plain", "loss"]
"""The kind of a box: a tensor, a layer with weights, scores, a softmax, a weighted sum, another operation, or a loss."""
Side = Literal["top", "bottom", "left", "right"]
Point = tuple[float, float]

WIDTH = 480
"""Width of every diagram in user units: at 350 pixels, the text column of a phone, 15-unit text is 11 pixels high."""
_MARGIN, _NAME, _SHAPE = 14.0, 15.0, 13.0
_INKS = {  # kind: fill and stroke on a light card, then on a dark one
    "tensor": ("#f6f8fa", "#8c959f", "#21262d", "#8b949e"),
    "learned": ("#ddf4ff", "#0969da", "#0c2d6b", "#58a6ff"),
    "score": ("#ece6ff", "#6639ba", "#2e1a5e", "#bc8cff"),
    "softmax": ("#fff3c4", "#9a6700", "#4b2e02", "#e3b341"),
    "mix": ("#d8f8df", "#1a7f37", "#0f5323", "#3fb950"),
    "plain": ("#ffffff", "#57606a", "#161b22", "#8b949e"),
    "loss": ("#ffe3e0", "#cf222e", "#490202", "#ff7b72"),
}


class Tensor(NamedTuple):
    """A tensor in a diagram: the sizes of its axes as written, and the `point` of the library at which it occurs."""

    axes: tuple[str, ...]
    point: str


@dataclass(frozen=True)
class Box:
    """A rectangle, circle or grid in a diagram: its centre and its size."""

    x: float
    y: float
    w: float
    h: float

    def side(self, side: Side) -> Point:
        """Return the middle of a side."""
        return {
            "top": (self.x, self.y - self.h / 2),
            "bottom": (self.x, self.y + self.h / 2),
            "left": (self.x - self.w / 2, self.y),
            "right": (self.x + self.w / 2, self.y),
        }[side]


@dataclass
class Diagram:
    """A schematic with a title and a description in one or two sentences for readers who cannot see it."""

    title: str
    alt: str
    tensors: list[Tensor] = field(default_factory=list)
    _frames: list[str] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _boxes: list[str] = field(default_factory=list)
    _words: list[str] = field(default_factory=list)
    _bottom: float = 0.0

    def tensor(self, name: str, axes: str, x: float, y: float, point: str, w: float = 0.0) -> Box:
        """Draw a tensor: its name, and its shape below.

        Args:
            name: as written in the lecture; `h_t` and `h_{t-1}` are set with subscripts.
            axes: the sizes of its axes, divided by blanks, such as "B T_q d_k"; a product is "h·d_k".
            x: its centre, 0 to 480.
            y: its centre; the diagram is as high as it must be.
            point: where it occurs in the library, see the docstring of the module.
            w: its width; 0 = the width of its text.
        """
        sizes = tuple(axes.split())
        self.tensors.append(Tensor(sizes, point))
        return self._rectangle([(name, "name"), (f"({', '.join(sizes)})", "shape")], "tensor", x, y, w, radius=20)

    def op(self, text: str, x: float, y: float, kind: BoxKind = "plain", w: float = 0.0) -> Box:
        """Draw an operation; a second line of its text, such as a formula, is set smaller."""
        first, *more = text.split("\n")
        return self._rectangle([(first, "name"), *((line, "shape") for line in more)], kind, x, y, w, radius=6)

    def circle(self, sign: str, x: float, y: float, kind: BoxKind = "plain") -> Box:
        """Draw a small operation with a single symbol, such as + or ×."""
        self._boxes.append(f'<circle class="{kind}" cx="{_n(x)}" cy="{_n(y)}" r="13"/>')
        self._text(sign, x, y + 6, "sign")
        return self._reach(Box(x, y, 26, 26))

    def grid(
        self, rows: Sequence[str], x: float, y: float, cell: float = 16.0, legend: dict[str, BoxKind] | None = None
    ) -> Box:
        """Draw a grid of small squares, one per character: `legend` gives its kind, a dot is empty, a blank draws nothing."""
        legend = legend or {"#": "learned"}
        box = Box(x, y, cell * max(map(len, rows)), cell * len(rows))
        for i, row in enumerate(rows):
            for j, sign in enumerate(row):
                if sign != " ":
                    left, top = box.x - box.w / 2 + j * cell, box.y - box.h / 2 + i * cell
                    kind = legend.get(sign, "plain")
                    square = f'x="{_n(left)}" y="{_n(top)}" width="{_n(cell)}" height="{_n(cell)}"'
                    self._boxes.append(f'<rect class="{kind} thin" {square}/>')
        return self._reach(box)

    def note(self, text: str, x: float, y: float, anchor: Literal["start", "middle", "end"] = "middle") -> None:
        """Write a remark, line by line; y is the middle of its first line."""
        for i, line in enumerate(text.split("\n")):
            self._text(line, x, y + 5 + 17 * i, "note", anchor)
            left = {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * _width(line, _SHAPE)
            self._reach(Box(x - left + _width(line, _SHAPE) / 2, y + 17 * i, _width(line, _SHAPE), 17))

    def frame(self, label: str, x: tuple[float, float], y: tuple[float, float]) -> Box:
        """Draw a dashed frame from x[0] to x[1] and y[0] to y[1], its label, if any, inside the upper left corner."""
        box = Box(sum(x) / 2, sum(y) / 2, x[1] - x[0], y[1] - y[0])
        self._frames.append(
            f'<rect class="frame" x="{_n(x[0])}" y="{_n(y[0])}" width="{_n(box.w)}" height="{_n(box.h)}" rx="10"/>'
        )
        if label:
            self._text(label, x[0] + 10, y[0] + 18, "note", "start")
        return self._reach(box)

    def arrow(
        self,
        source: Box,
        target: Box,
        out: Side | None = None,
        into: Side | None = None,
        at: float | None = None,
        label: str = "",
    ) -> None:
        """Draw an arrow: straight if source and target are vertically or horizontally aligned, else with rounded corners.

        Args:
            source: the box where it begins.
            target: the box where it ends.
            out: the side that it leaves; None = the one that faces the target.
            into: the side that it enters; None = the opposite one.
            at: the position of its middle segment: y if it leaves from the top or bottom, else x.
            label: a text next to its longest segment.
        """
        points = _route(source, target, out, into, at)
        self._line(points, head=True)
        if label:
            (x_1, y_1), (x_2, y_2) = max(itertools.pairwise(points), key=lambda ends: _distance(*ends))
            if x_1 == x_2:
                self._text(label, x_1 + 8, (y_1 + y_2) / 2 + 5, "label", "start")
            else:
                self._text(label, (x_1 + x_2) / 2, y_1 - 9, "label")

    def chain(self, *boxes: Box) -> None:
        """Draw an arrow from each box to the next."""
        for source, target in itertools.pairwise(boxes):
            self.arrow(source, target)

    def path(self, points: Sequence[Point], head: bool = True) -> None:
        """Draw an arrow, or with head=False a line, through given points."""
        self._line(list(points), head)

    def svg(self) -> str:
        """Return the drawing as SVG, with a title and a description; it follows the colour scheme of the system."""
        height = self._bottom + _MARGIN
        title, alt = html.escape(self.title), html.escape(self.alt)
        body = "\n".join([*self._frames, *self._lines, *self._boxes, *self._words])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_n(height)}" width="{WIDTH}" height="{_n(height)}" '
            f'role="img">\n<title>{title}</title>\n<desc>{alt}</desc>\n<style>{_STYLE}</style>\n'
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{_n(height - 1)}" rx="12"/>\n{body}\n</svg>\n'
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Show the drawing in a notebook, as an image with its description as `alt`."""
        return {"text/html": self.image(), "text/plain": self.words()}

    def words(self) -> str:
        """Return title and description."""
        return f"{self.title}: {self.alt}"

    def image(self) -> str:
        """Return the drawing as an HTML image with embedded data and its description as `alt`."""
        data = base64.b64encode(self.svg().encode()).decode()
        alt = html.escape(self.words())
        return f'<img alt="{alt}" width="{WIDTH}" src="data:image/svg+xml;base64,{data}">'

    def _rectangle(self, lines: list[tuple[str, str]], kind: BoxKind, x: float, y: float, w: float, radius: float) -> Box:
        sizes = {"name": _NAME, "shape": _SHAPE}
        w = w or max(_width(line, sizes[style]) for line, style in lines) + 22
        h = 14.0 + 19 * len(lines)
        radius = min(radius, h / 2)
        corner = f'x="{_n(x - w / 2)}" y="{_n(y - h / 2)}"'
        self._boxes.append(f'<rect class="{kind}" {corner} width="{_n(w)}" height="{_n(h)}" rx="{_n(radius)}"/>')
        for i, (line, style) in enumerate(lines):
            self._text(line, x, y - 19 * (len(lines) - 1) / 2 + 19 * i + 5, style)
        return self._reach(Box(x, y, w, h))

    def _text(self, text: str, x: float, y: float, style: str, anchor: str = "middle") -> None:
        style = style if anchor == "middle" else f"{style} {anchor}"
        self._words.append(f'<text class="{style}" x="{_n(x)}" y="{_n(y)}">{_marked_up(text)}</text>')

    def _line(self, points: list[Point], head: bool) -> None:
        self._lines.append(f'<path class="line" d="{_rounded(points)}"/>')
        if head:
            (x_1, y_1), (x_2, y_2) = points[-2:]
            long = _distance((x_1, y_1), (x_2, y_2)) or 1.0
            dx, dy = (x_2 - x_1) / long, (y_2 - y_1) / long
            left, right = (x_2 - 9 * dx - 4.5 * dy, y_2 - 9 * dy + 4.5 * dx), (x_2 - 9 * dx + 4.5 * dy, y_2 - 9 * dy - 4.5 * dx)
            corners = " ".join(f"{_n(px)},{_n(py)}" for px, py in ((x_2, y_2), left, right))
            self._lines.append(f'<polygon class="head" points="{corners}"/>')
        for x, y in points:
            self._reach(Box(x, y, 0, 0))

    def _reach(self, box: Box) -> Box:
        """Extend the drawing to include a box.

        Raises:
            ValueError: it crosses the left, right or upper edge of the diagram.
        """
        if box.x - box.w / 2 < 4 or box.x + box.w / 2 > WIDTH - 4 or box.y - box.h / 2 < 4:
            raise ValueError(f"{self.title}: the box at ({box.x:g}, {box.y:g}) crosses the edge of the diagram: {box}.")
        self._bottom = max(self._bottom, box.y + box.h / 2)
        return box


def _route(source: Box, target: Box, out: Side | None, into: Side | None, at: float | None) -> list[Point]:
    """Find the corners of an arrow between two boxes."""
    if out is None and into is None:
        if abs(source.y - target.y) >= (source.h + target.h) / 2:
            down = target.y > source.y
            out, into = ("bottom", "top") if down else ("top", "bottom")
            shared = _shared(source.x, source.w, target.x, target.w)
            if shared is not None and at is None:
                return [(shared, source.side(out)[1]), (shared, target.side(into)[1])]
        else:
            out, into = ("right", "left") if target.x > source.x else ("left", "right")
            shared = _shared(source.y, source.h, target.y, target.h)
            if shared is not None and at is None:
                return [(source.side(out)[0], shared), (target.side(into)[0], shared)]
    opposite: dict[Side, Side] = {"top": "bottom", "bottom": "top", "left": "right", "right": "left"}
    out = out or opposite[into or "top"]
    into = into or opposite[out]
    (x_1, y_1), (x_2, y_2) = source.side(out), target.side(into)
    leaves_down, enters_down = out in ("top", "bottom"), into in ("top", "bottom")
    if leaves_down and enters_down:
        y = (y_1 + y_2) / 2 if at is None else at
        corners = [(x_1, y_1), (x_1, y), (x_2, y), (x_2, y_2)]
    elif not leaves_down and not enters_down:
        x = (x_1 + x_2) / 2 if at is None else at
        corners = [(x_1, y_1), (x, y_1), (x, y_2), (x_2, y_2)]
    else:
        corners = [(x_1, y_1), (x_1, y_2) if leaves_down else (x_2, y_1), (x_2, y_2)]
    return [corner for i, corner in enumerate(corners) if i == 0 or corner != corners[i - 1]]


def _shared(a: float, a_size: float, b: float, b_size: float) -> float | None:
    """Find where two boxes face each other: the centre of one that lies within the other, the smaller first."""
    for centre, other, size in ((a, b, b_size), (b, a, a_size)) if a_size <= b_size else ((b, a, a_size), (a, b, b_size)):
        if abs(centre - other) <= size / 2 - 8:
            return centre
    return None


def _rounded(points: list[Point]) -> str:
    """Write a path through points, with rounded corners."""
    parts = [f"M{_n(points[0][0])} {_n(points[0][1])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        radius = min(8.0, _distance(before, corner) / 2, _distance(corner, after) / 2)
        start, end = _towards(corner, before, radius), _towards(corner, after, radius)
        parts.append(f"L{_n(start[0])} {_n(start[1])}Q{_n(corner[0])} {_n(corner[1])} {_n(end[0])} {_n(end[1])}")
    parts.append(f"L{_n(points[-1][0])} {_n(points[-1][1])}")
    return "".join(parts)


def _towards(start: Point, end: Point, by: float) -> Point:
    share = by / (_distance(start, end) or 1.0)
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def _distance(a: Point, b: Point) -> float:
    return ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) ** 0.5


_SUBSCRIPT = re.compile(r"_(?:\{([^}]*)\}|([^\W_]+))")


def _width(text: str, size: float) -> float:
    """Estimate the width of a text: slightly more than in common sans-serif fonts."""
    plain = _SUBSCRIPT.sub(lambda found: (found[1] or found[2]).lower()[: (2 * len(found[1] or found[2]) + 2) // 3], text)
    narrow, wide = "iljtfrI.,:;'()[]| ·", "mwMW→⊙√Σ⊗"
    return sum(0.36 if sign in narrow else 0.9 if sign in wide else 0.62 for sign in plain) * size


def _marked_up(text: str) -> str:
    """Escape a text, and format its subscripts."""
    parts, last = [], 0
    for found in _SUBSCRIPT.finditer(text):
        parts.append(html.escape(text[last : found.start()]))
        below = html.escape(found[1] or found[2])
        parts.append(f'<tspan class="sub" dy="4">{below}</tspan><tspan dy="-4">\u200b</tspan>')
        last = found.end()
    return "".join(parts) + html.escape(text[last:])


def _n(number: float) -> str:
    """Write a number with at most one decimal."""
    return f"{number:.1f}".removesuffix(".0")


def _rules(card: str, edge: str, text: str, muted: str, line: str, dark: bool) -> str:
    fills = "".join(f".{kind}{{fill:{inks[2 * dark]};stroke:{inks[2 * dark + 1]}}}" for kind, inks in _INKS.items())
    return (
        f".card{{fill:{card};stroke:{edge}}}text{{fill:{text}}}.shape{{fill:{muted}}}.note,.label{{fill:{muted};stroke:{card}}}"
        f".line,.frame{{stroke:{line}}}.head{{fill:{line}}}{fills}"
    )


_STYLE = (
    "text{font-family:'Helvetica Neue',Arial,'Liberation Sans','DejaVu Sans',sans-serif;text-anchor:middle}"
    ".name{font-size:15px;font-weight:600}.shape,.note,.label{font-size:13px}.note{font-style:italic}"
    ".note,.label{stroke-width:4px;paint-order:stroke;stroke-linejoin:round}.sign{font-size:19px;font-weight:600}"
    ".start{text-anchor:start}.end{text-anchor:end}.sub{font-size:75%}"
    ".line{fill:none;stroke-width:1.6}.frame{fill:none;stroke-width:1.2;stroke-dasharray:5 4}"
    "rect,circle{stroke-width:1.5}.thin{stroke-width:0.8}"
    + _rules("#ffffff", "#d0d7de", "#1f2328", "#4d5661", "#57606a", dark=False)
    + "@media (prefers-color-scheme:dark){"
    + _rules("#161b22", "#3d444d", "#f0f3f6", "#b7bdc8", "#9198a1", dark=True)
    + "}"
)
