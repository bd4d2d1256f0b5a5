"""Long experiments, recorded once: a program in authoring/studies writes its scores here, and a lecture plots them.

    study = Study(__file__, steps=2_400)                     # authoring/studies/12_matching.py
    for name, seed in study.missing(("matched", "sorted"), seeds=(0, 1, 2)):
        study.record(name, seed, scores={"ap50": 0.61}, curve={400: 0.31, 2_400: 0.61})

    recorded("12_matching").scores("matched", "ap50")        # in a lecture: one number a seed

Every run is written as soon as it ends, so that a study that was stopped goes on where it was.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import torch

_RESULTS = Path(__file__).with_name("studies")


@dataclass(frozen=True)
class Run:
    """One training of a study: its scores by name, one score by step, and its processor time in seconds."""

    name: str
    seed: int
    scores: dict[str, float]
    curve: dict[int, float]
    seconds: float


@dataclass(frozen=True)
class RecordedStudy:
    """What a study measured, and what it cost."""

    name: str
    settings: dict[str, object]
    torch: str
    source_sha256: str
    runs: list[Run] = field(default_factory=list)

    def scores(self, name: str, score: str) -> list[float]:
        """One score of the runs of a name, in the order of the seeds.

        Raises:
            KeyError: no run has this name.
        """
        return [run.scores[score] for run in self._named(name)]

    def curve(self, name: str) -> tuple[list[int], list[float]]:
        """The steps, and the mean over the seeds of the score at each.

        Raises:
            KeyError: no run has this name.
        """
        runs = self._named(name)
        steps = sorted(set.intersection(*(set(run.curve) for run in runs)))
        return steps, [mean(run.curve[step] for run in runs) for step in steps]

    @property
    def cost(self) -> str:
        """What the study took: "24 runs, 31 minutes of one core, torch 2.13.0"."""
        minutes = sum(run.seconds for run in self.runs) / 60
        return f"{len(self.runs)} runs, {minutes:.0f} minutes of one core, torch {self.torch}"

    def _named(self, name: str) -> list[Run]:
        runs = sorted((run for run in self.runs if run.name == name), key=lambda run: run.seed)
        if not runs:
            raise KeyError(f"the study {self.name} has no run {name!r}; it has {sorted({run.name for run in self.runs})}.")
        return runs


def recorded(name: str) -> RecordedStudy:
    """Read the recorded result of a study, such as "12_matching".

    Raises:
        FileNotFoundError: the study was never run; `python authoring/studies/<name>.py` runs it.
    """
    path = _RESULTS / f"{name}.json"
    if not path.exists():
        raise FileNotFoundError(f"there is no recorded study {name!r}: python authoring/studies/{name}.py runs it.")
    found = json.loads(path.read_text(encoding="utf-8"))
    runs = [
        Run(run["name"], run["seed"], run["scores"], {int(step): score for step, score in run["curve"].items()}, run["seconds"])
        for run in found["runs"]
    ]
    return RecordedStudy(name, found["settings"], found["torch"], found["source_sha256"], runs)


class Study:
    """The runs of a study so far, kept in a file. Runs of another source or other settings are dropped."""

    def __init__(self, source: str | Path, *, results: Path = _RESULTS, **settings: object) -> None:
        self.path = results / f"{Path(source).stem}.json"
        self._head = {
            "settings": json.loads(json.dumps(settings)),
            "torch": torch.__version__.partition("+")[0],
            "source_sha256": hashlib.sha256(Path(source).read_bytes()).hexdigest(),
        }
        before = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        same = all(before.get(key) == value for key, value in self._head.items())
        self._runs = before["runs"] if same else []
        self._started = time.process_time()

    def missing(self, names: Iterable[str], seeds: Iterable[int]) -> Iterator[tuple[str, int]]:
        """Yield the runs that are not yet recorded, one seed of every name after another."""
        names = tuple(names)
        for seed in seeds:
            for name in names:
                if not any((run["name"], run["seed"]) == (name, seed) for run in self._runs):
                    self._started = time.process_time()
                    yield name, seed

    def record(self, name: str, seed: int, scores: dict[str, float], curve: dict[int, float]) -> None:
        """Keep one run, with the processor time since `missing` yielded it, and write the file."""
        rounded = {key: round(value, 4) for key, value in scores.items()}
        points = {str(step): round(value, 4) for step, value in curve.items()}
        seconds = round(time.process_time() - self._started, 1)
        self._runs.append({"name": name, "seed": seed, "scores": rounded, "curve": points, "seconds": seconds})
        whole = self._head | {"runs": self._runs}
        self.path.parent.mkdir(exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.path)
