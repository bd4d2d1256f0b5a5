"""The committed record of what each lecture costs, rounded so that prose can quote it: seconds of processor time and megabytes.

A lecture that is built has one thread, so its processor time is its run time on an idle machine. A busy one does not change it.
"""

import json
from pathlib import Path

MeasuredCost = dict[str, int]
"""`{"seconds": …, "peak_mb": …}`."""


def load(root: Path) -> dict[str, MeasuredCost]:
    """Read authoring/measured.json: by lecture number; empty where there is none yet."""
    path = _path(root)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(root: Path, record: dict[str, MeasuredCost]) -> None:
    """Write the record, in the order of the lectures."""
    text = json.dumps(dict(sorted(record.items())), indent=2) + "\n"
    _path(root).write_text(text, encoding="utf-8", newline="\n")


def refreshed(old: MeasuredCost | None, seconds: float, peak_mb: float) -> MeasuredCost:
    """Take over new figures, rounded up to 5 s and 50 MB; a figure within a quarter of the recorded one changes nothing."""
    new = {"seconds": _up(seconds, 5), "peak_mb": _up(peak_mb, 50)}
    if old is None:
        return new
    raw = {"seconds": seconds, "peak_mb": peak_mb}
    return {key: old[key] if abs(raw[key] - old[key]) <= old[key] / 4 else new[key] for key in new}


def sentence(cost: MeasuredCost | None) -> str:
    """Say what a lecture costs, for its header."""
    if cost is None:
        return "Not measured yet."
    return f"Runs in about {cost['seconds']} s and {cost['peak_mb']} MB on two CPU cores."


def _up(value: float, step: int) -> int:
    return max(1, -int(-value // step)) * step


def _path(root: Path) -> Path:
    return root / "authoring" / "measured.json"
