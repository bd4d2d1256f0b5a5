"""`course run`: executes the solved lectures and prints one table of their claims, with what each lecture cost."""

import json
from collections.abc import Iterable
from pathlib import Path

import nbformat

from course_lib.publishing.claims import aligned, json_value, number_in_words
from course_lib.publishing.execute import CELL_TIMEOUT, Execution, execute
from course_lib.publishing.outputs import claims
from course_lib.publishing.project import Lecture, PublishingFailed, lectures


def run(root: Path, numbers: Iterable[str] = (), json_file: Path | None = None, timeout: float = CELL_TIMEOUT) -> int:
    """Execute solutions headless, print claims, run times and peak memory, and write them as JSON where asked.

    Args:
        root: the folder of the course.
        numbers: the lectures, such as "04"; none = all.
        json_file: where to write `{"lectures": [{"lecture", "seconds", "peak_mb", "claims": […]}]}`.
        timeout: seconds that one cell may take.

    Returns:
        the exit status: 0, or 1 where a claim failed, a cell raised or a kernel died.

    Raises:
        UnknownLecture: there is no lecture of a number.
        PublishingFailed: a solution has not been built.
    """
    chosen = lectures(root, numbers)
    for lecture in chosen:
        if not lecture.solution.exists():
            raise PublishingFailed(f"{lecture.name(lecture.solution)} does not exist: run `python course.py build {lecture.number}`.")
    notebooks = {lecture.number: (nbformat.read(lecture.solution, as_version=4), lecture.solution.parent) for lecture in chosen}
    done = execute(notebooks, root, timeout=timeout)
    if json_file is not None:
        json_file.write_text(json.dumps(_summary(done), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(_report(chosen, done))
    failed = [f"lecture {number}, {line}" for number, execution in done.items() for line in execution.failures]
    refuted = [f"claim {claim['id']} does not hold" for execution in done.values() for claim in _claims(execution) if not claim["holds"]]
    for line in failed + refuted:
        print(f"✗ {line}")
    return 1 if failed or refuted else 0


def _report(chosen: list[Lecture], done: dict[str, Execution]) -> str:
    stated = [claim for execution in done.values() for claim in _claims(execution)]
    claim_rows = [
        ("✓" if claim["holds"] else "✗", claim["id"], claim["text"], number_in_words(claim["value"]), claim["threshold"]) for claim in stated
    ]
    cost_rows = [
        (
            f"{lecture.number} {lecture.stem[3:].replace('_', ' ')}",
            f"{done[lecture.number].seconds:.0f} s",
            f"{done[lecture.number].peak_mb:.0f} MB",
            _tally(_claims(done[lecture.number])),
            "" if not done[lecture.number].failures else f"✗ {len(done[lecture.number].failures)}",
        )
        for lecture in chosen
    ]
    tables = [aligned([("", "id", "claim", "measured", "threshold"), *claim_rows])] if claim_rows else []
    tables.append(aligned([("lecture", "run time", "peak memory", "claims that hold", "errors"), *cost_rows]))
    return "\n\n".join(tables)


def _tally(stated: list[dict]) -> str:
    return f"{sum(claim['holds'] for claim in stated)} of {len(stated)}"


def _claims(execution: Execution) -> list[dict]:
    return claims(execution.notebook)


def _summary(done: dict[str, Execution]) -> dict:
    return {
        "lectures": [
            {
                "lecture": number,
                "seconds": round(execution.seconds, 1),
                "peak_mb": round(execution.peak_mb),
                "claims": [
                    {key: json_value(claim[key]) for key in ("id", "text", "value", "threshold", "holds")} for claim in _claims(execution)
                ],
            }
            for number, execution in done.items()
        ]
    }
