"""The committed record of each lecture's cost, rounded for quotation in prose: seconds of processor time and megabytes.

A build runs a lecture with one thread, so processor time equals run time on an idle machine, and a busy one does not change it.
"""

import json
from pathlib import Path

MeasuredCost = dict[str, int]
"""`{"seconds": …, "peak_mb": …}`."""


def load(root: Path) -> dict[str, MeasuredCost]:
    """Read authoring/measured.json, keyed by lecture number; empty if it does not exist yet."""
    path = _path(root)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(root: Path, record: dict[str, MeasuredCost]) -> None:
    """Write the record, in the order of the lectures."""
    text = json.dumps(dict(sorted(record.items())), indent=2) + "\n"
    _path(root).write_text(text, encoding="utf-8", newline="\n")


def refreshed(old: MeasuredCost | None, seconds: float, peak_mb: float) -> MeasuredCost:
    """Record new figures, rounded up to 5 s and 50 MB; a figure within a quarter of the recorded one is ignored."""
    new = {"seconds": _up(seconds, 5), "peak_mb": _up(peak_mb, 50)}
    if old is None:
        return new
    raw = {"seconds": seconds, "peak_mb": peak_mb}
    return {key: old[key] if abs(raw[key] - old[key]) <= old[key] / 4 else new[key] for key in new}


def sentence(cost: MeasuredCost | None) -> str:
    """Describe what a lecture costs, for its header."""
    if cost is None:
        return "Not measured yet."
    return f"Runs in about {cost['seconds']} s on one CPU thread, with {cost['peak_mb']} MB of memory."


def _up(value: float, step: int) -> int:
    return max(1, -int(-value // step)) * step


def _path(root: Path) -> Path:
    return root / "authoring" / "measured.json"
