"""Figures of lecture 02: a padded batch, teacher forcing, a decoder step by step, an alignment map, the study."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_tools.notebook.plots import MARKERS, attention_map, describe
from course_tools.notebook.recorded_studies import recorded
from course_tools.notebook.show import show
from course_tools.notebook.style import despine, palette
from course_tools.studies import RecordedStudy


def show_padded_batch(texts: Sequence[str]) -> None:
    """Draw texts as a batch: a row for each text, a cell for each character, grey where it is padded."""
    width = max(map(len, texts))
    rows = {f"length {len(text)}": [*text, *[None] * (width - len(text))] for text in texts}
    padded = ", ".join(str(width - len(text)) for text in texts)
    show(_cells(rows), alt=f"A batch of {len(texts)} sources as a rectangle of width {width}; grey padding cells: {padded}.")


def show_teacher_forcing(answer: str) -> None:
    """Draw what the decoder reads and what it must predict at each position of an answer."""
    rows = {"reads": ["BEGIN", *answer, "END"], "must predict": [*answer, "END", None]}
    show(
        _cells(rows, wide=True),
        alt=f"Teacher forcing for {answer}: the decoder reads BEGIN and the answer, and must predict it shifted by one, "
        "with END last; the last logits are not used.",
    )


def _cells(rows: Mapping[str, Sequence[str | None]], wide: bool = False) -> Figure:
    """Draw rows of characters in cells, with a name before each row; a None is a grey cell."""
    width = max(map(len, rows.values()))
    side = 0.4 if wide else 0.27
    figure = Figure(figsize=(side * width + 1.1, 0.34 * len(rows) + 0.1))
    ax = figure.add_axes((0, 0, 1, 1))
    for y, (name, cells) in enumerate(rows.items()):
        ax.text(-0.2, y + 0.5, name, ha="right", va="center", fontsize=9)
        for x, cell in enumerate(cells):
            ax.add_patch(Rectangle((x, y), 1, 1, facecolor="0.8" if cell is None else "white", edgecolor="0.4", linewidth=0.8))
            ax.text(x + 0.5, y + 0.5, cell or "", ha="center", va="center", fontsize=8, family="monospace")
    ax.set(xlim=(-1.0 / side, width + 0.1 / side), ylim=(len(rows) + 0.1, -0.1))
    ax.axis("off")
    return figure


def show_study() -> tuple[RecordedStudy, dict[str, tuple[Sequence[int], Sequence[float]]]]:
    """Draw the exact match on pairs of dates through training, as recorded; return the record and the curves by name."""
    study = recorded("02_length_and_width")
    short = "last state, width 64"  # the longer training replaces it
    through = {name.removesuffix(", three times as long"): study.curve(name) for name in study.names if name != short}
    ends = "; ".join(f"{name} {scores[-1]:.2f} after {updates[-1]:,}" for name, (updates, scores) in through.items())
    show(
        _by_kind_and_width(through),
        alt=f"Exact match on new pairs of dates against the number of updates: {ends}. {study.cost}.",
    )
    return study, through


def _by_kind_and_width(through: Mapping[str, tuple[Sequence[int], Sequence[float]]]) -> Figure:
    """Draw curves named "kind, width n": a colour for each kind, a marker for each width."""
    named = {name: name.split(", width ") for name in through}
    kinds, widths = (list(dict.fromkeys(part[i] for part in named.values())) for i in (0, 1))
    figure = Figure(figsize=(6.0, 3.2), layout="constrained")
    ax = figure.subplots()
    for name in sorted(through, key=lambda name: (named[name][0], int(named[name][1]))):
        kind, width = (kinds.index(named[name][0]), widths.index(named[name][1]))
        ax.plot(*through[name], color=palette()[kind], marker=MARKERS[width], markersize=5, linewidth=1.6, label=name)
    ax.set_xscale("log")
    ticks = (200, 400, 800, 2_000, 6_000)
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set(xlabel="update", ylabel="exact match")
    ax.set_title("new pairs of dates, mean of three seeds", fontsize=10)
    ax.grid(alpha=0.25)
    despine(ax)
    ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def show_steps(model: Any, text: str, first: int, n: int) -> None:
    """Draw n steps of a decoder as frames: what it reads, the weights of the source characters, what it writes.

    Args:
        model: a `Translator` of the lecture, with attention.
        text: the source.
        first: the first step shown, from 0.
        n: the number of frames, in rows of three.
    """
    (answer,), weights = model.translate([text])
    read, written = ["BEGIN", *answer], [*answer, "END"]
    last = min(first + n, len(written))
    figure = Figure(figsize=(6.0, 1.6 * -(-n // 3)), layout="constrained")
    axes = figure.subplots(-(-n // 3), 3, sharey=True, squeeze=False).flatten()
    colour = palette()[0]
    told = []
    for ax, t in zip(axes, range(first, last), strict=False):
        row = weights[0, t, : len(text)].tolist()
        ax.bar(range(len(text)), row, color=colour)
        ax.set_xticks(range(len(text)), list(text), fontsize=8, family="monospace")
        ax.set_ylim(0, 1)
        ax.set_title(f"reads {read[t]}, writes {written[t]}", fontsize=9)
        told.append(f"{written[t]} from {text[max(range(len(row)), key=row.__getitem__)]!r} ({max(row):.2f})")
    for ax in axes[::3]:
        ax.set_ylabel("weight")
    for ax in axes[last - first :]:
        ax.remove()
    show(figure, alt=f"Steps {first + 1} to {last} of the decoder for '{text}', the largest weight in each: {', '.join(told)}.")


def show_alignment(
    model: Any, text: str, tokens: Callable[[str], list[str]] = list, x: str = "source", y: str = "answer"
) -> None:
    """Draw the attention weights while a model translates a text: a row for each token of the answer and one for its end.

    Args:
        model: a `Translator` of the lecture, with attention.
        text: the source.
        tokens: cuts a text into the tokens that the model reads and writes: `list` for characters, `str.split` for words.
        x: what the columns are.
        y: what the rows are.
    """
    (answer,), weights = model.translate([text])
    rows, columns = [*tokens(answer), "end"][: weights.shape[1]], tokens(text)
    weights = weights[0, : len(rows), : len(columns)]
    figure = attention_map(weights, rows, columns, x=x, y=y)
    show(figure, alt=f"Attention map for '{text}', answered by '{answer}'. {describe(weights, rows, columns, 4)}")
