"""`course run`: execute the solved lectures and print one table of their claims, with the cost of each lecture."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_tools.publishing.claims_table import aligned, json_value, must_hold
from course_tools.publishing.execute import CELL_TIMEOUT, Execution, execute
from course_tools.publishing.outputs import claims, code_cells
from course_tools.publishing.project import Lecture, PublishingFailed, lectures

_SEEDS = re.compile(r"^(SEEDS?\b[^=\n]*= *)(\([\d, ]+\)|\d+)(?![\w.\[])", re.MULTILINE)
_LITERAL = re.compile(r"((?:\bmanual_seed\(|\bseeds?=))(\([\d, ]+\)|\d+)(?=[,)\s])")


def run(
    root: Path,
    numbers: Iterable[str] = (),
    json_file: Path | None = None,
    timeout: float = CELL_TIMEOUT,
    seeds: Sequence[int] | None = None,
    threads: int = 1,
) -> int:
    """Execute solutions without a front end; print claims, run times and peak memory; optionally write them as JSON.

    Args:
        root: the folder of the course.
        numbers: the lectures, such as "04"; none = all.
        json_file: where to write `{"seeds", "threads", "lectures": [{"lecture", "seconds", "peak_mb", "claims": […]}]}`; seeds
            is null if the lectures ran with their own.
        timeout: seconds that one cell may take.
        seeds: in place of those that the lectures train with, to see whether the claims hold for these, too. In a lecture that
            sets no SEED or SEEDS, every seed that is written as a number, as in `manual_seed(0)`, grows by the first of them.
        threads: CPU threads of each kernel.

    Returns:
        the exit status: 0, or 1 if a claim failed, a cell raised an exception or a kernel died.

    Raises:
        UnknownLecture: there is no lecture of that number.
        PublishingFailed: a solution has not been built, the folder of the JSON file does not exist, or the seeds are
            fewer than a lecture uses or not all different.
    """
    chosen = lectures(root, numbers)
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise PublishingFailed(f"there is no folder {json_file.parent} to write {json_file.name} into")
    for lecture in chosen:
        if not lecture.solution.exists():
            raise PublishingFailed(
                f"{lecture.name(lecture.solution)} does not exist: run `python course.py build {lecture.number}`"
            )
    notebooks = {lecture.number: (nbformat.read(lecture.solution, as_version=4), lecture.solution.parent) for lecture in chosen}
    if seeds is not None:
        if len(set(seeds)) < len(seeds):
            raise PublishingFailed(f"the seeds {', '.join(map(str, seeds))} are not all different")
        fixed = [number for number, (notebook, _) in notebooks.items() if not _trains_with(notebook, number, seeds)]
        if fixed:
            print(f"These lectures write no seed as a number, and run as they are: {', '.join(fixed)}.")
    done = execute(notebooks, root, timeout=timeout, threads=threads)
    if json_file is not None:
        json_file.write_text(
            json.dumps({"seeds": seeds, "threads": threads} | _summary(done), indent=2, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
    print(_report(chosen, done))
    failed = [f"lecture {number}, {line}" for number, execution in done.items() for line in execution.failures]
    refuted = [claim["id"] for claim in _all_claims(done) if not claim["held"]]
    untold = [f"claim {id} does not hold" for id in refuted if not any(id in line for line in failed)]
    for line in failed + untold:
        print(f"✗ {line}")
    return 1 if failed or refuted else 0


def _trains_with(notebook: NotebookNode, number: str, seeds: Sequence[int]) -> bool:
    """Set `SEED` and `SEEDS` of a lecture to the first of these seeds, or move its written ones; return whether any is."""

    def others(found: re.Match[str]) -> str:
        begins, value = found.groups()
        n = len(re.findall(r"\d+", value))
        if n > len(seeds):
            raise PublishingFailed(f"lecture {number} trains with {n} seeds; give {n} or more, such as --seeds 10,11,12")
        return begins + (str(tuple(seeds[:n])) if value.startswith("(") else str(seeds[0]))

    def moved(found: re.Match[str]) -> str:
        return found[1] + re.sub(r"\d+", lambda digits: str(int(digits[0]) + seeds[0]), found[2])

    cells = code_cells(notebook)
    for pattern, replaced in ((_SEEDS, others), (_LITERAL, moved)):
        if any(pattern.search(cell.source) for cell in cells):
            for cell in cells:
                cell.source = pattern.sub(replaced, cell.source)
            return True
    return False


def _report(chosen: list[Lecture], done: dict[str, Execution]) -> str:
    claim_rows = [("✓" if claim["held"] else "✗", claim["id"], must_hold(claim), claim["text"]) for claim in _all_claims(done)]
    tables = [aligned([("", "id", "must hold", "measured"), *claim_rows])] if claim_rows else []
    cost_rows = [_cost_row(lecture, done[lecture.number]) for lecture in chosen]
    tables.append(aligned([("lecture", "run time", "peak memory", "claims that hold", "errors"), *cost_rows]))
    return "\n\n".join(tables)


def _cost_row(lecture: Lecture, execution: Execution) -> tuple[str, ...]:
    stated = claims(execution.notebook)
    return (
        f"{lecture.number} {lecture.title}",
        f"{execution.seconds:.0f} s",
        f"{execution.peak_mb:.0f} MB",
        f"{sum(claim['held'] for claim in stated)} of {len(stated)}",
        str(len(execution.failures) or ""),
    )


def _all_claims(done: dict[str, Execution]) -> list[dict]:
    return [claim for execution in done.values() for claim in claims(execution.notebook)]


def _summary(done: dict[str, Execution]) -> dict:
    return {
        "lectures": [
            {
                "lecture": number,
                "seconds": round(execution.seconds, 1),
                "peak_mb": round(execution.peak_mb),
                "claims": [_finite(claim) for claim in claims(execution.notebook)],
            }
            for number, execution in done.items()
        ]
    }


def _finite(claim: dict) -> dict:
    return claim | {"values": {name: json_value(value) for name, value in claim["values"].items()}}
