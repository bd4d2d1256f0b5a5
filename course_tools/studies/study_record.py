"""The recorded result of a study: scores, curves and cost of each run, as a small JSON file next to the study."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean


@dataclass(frozen=True)
class RecordedRun:
    """One training of a study: its scores by name, one score by step, its seconds, and its texts by name.

    The seconds are processor time on a CPU, and elapsed time on a GPU.
    """

    name: str
    seed: int
    scores: dict[str, float]
    curve: dict[int, float]
    seconds: float
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedStudy:
    """The results of a study, with the digests of its sources, the machine, and the cost."""

    name: str
    source: str
    library: str
    python: str
    torch: str
    machine: str
    runs: list[RecordedRun] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The settings that have runs, in the order of their first runs."""
        return list(dict.fromkeys(run.name for run in self.runs))

    def of(self, name: str) -> list[RecordedRun]:
        """Return the runs of a setting, in the order of the seeds.

        Raises:
            KeyError: no run has this name.
        """
        runs = sorted((run for run in self.runs if run.name == name), key=lambda run: run.seed)
        if not runs:
            raise KeyError(f"the study {self.name} has no run {name!r}; it has {self.names}.")
        return runs

    def scores(self, name: str, score: str) -> list[float]:
        """Return one score of a setting's runs, in the order of the seeds.

        Raises:
            KeyError: no run has this name.
        """
        return [run.scores[score] for run in self.of(name)]

    def mean(self, name: str, score: str) -> float:
        """Return one score of a setting, averaged over the seeds.

        Raises:
            KeyError: no run has this name.
        """
        return mean(self.scores(name, score))

    def curve(self, name: str) -> tuple[list[int], list[float]]:
        """Return the steps, and the score at each, averaged over the seeds.

        Raises:
            KeyError: no run has this name.
        """
        runs = self.of(name)
        steps = sorted(set.intersection(*(set(run.curve) for run in runs)))
        return steps, [mean(run.curve[step] for run in runs) for step in steps]

    @property
    def cost(self) -> str:
        """The cost of the study: "24 runs, 31 minutes of one CPU thread (x86_64), torch 2.13.0"."""
        minutes = sum(run.seconds for run in self.runs) / 60
        n = len(self.runs)
        return f"{n} run{'s' * (n != 1)}, {minutes:.0f} minutes of {self.machine}, torch {self.torch}"

    @property
    def digest(self) -> str:
        """A hash, of 16 digits, of all that a lecture shows of the record: not of the sources that it was made with."""
        shown = asdict(replace(self, source="", library=""))
        return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]

    def with_run(self, run: RecordedRun) -> "RecordedStudy":
        """Return the record with one more run, which replaces an earlier one with the same setting and seed."""
        others = [each for each in self.runs if (each.name, each.seed) != (run.name, run.seed)]
        return replace(self, runs=[*others, run])


def record_path(folder: Path, name: str, device: str = "cpu") -> Path:
    """Return the path of a study's record for a device: NAME.json, or NAME.cuda.json."""
    kind = device.partition(":")[0]
    return folder / (f"{name}.json" if kind == "cpu" else f"{name}.{kind}.json")


def read(path: Path) -> RecordedStudy | None:
    """Read a record; None if there is none."""
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    runs = [
        RecordedRun(**{**run, "curve": {int(step): score for step, score in run["curve"].items()}}) for run in found["runs"]
    ]
    return RecordedStudy(path.name.partition(".")[0], **{**found, "runs": runs})


def write(record: RecordedStudy, path: Path) -> None:
    """Write a record atomically, one line per run, scores with five significant digits."""
    fields = asdict(record)
    runs = fields.pop("runs")
    del fields["name"]
    for run in runs:
        if not run["texts"]:
            del run["texts"]
        run["scores"] = {key: _short(value) for key, value in run["scores"].items()}
        run["curve"] = {str(step): _short(value) for step, value in run["curve"].items()}
    head = "".join(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)},\n" for key, value in fields.items())
    lines = ",\n".join(f"  {json.dumps(run, ensure_ascii=False)}" for run in runs)
    partial = path.with_suffix(".partial")
    partial.write_text(f'{{\n{head} "runs": [\n{lines}\n ]\n}}\n', encoding="utf-8", newline="\n")
    partial.replace(path)


def _short(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.5g}")
