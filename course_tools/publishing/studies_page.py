"""The site's page of studies: every study with its question, recorded scores, a description of its figure, and its finding."""

from pathlib import Path
from statistics import mean

from course_tools.publishing.claims_table import cell
from course_tools.studies import RecordedStudy, Study, load, names
from course_tools.studies.study_record import read, record_path

_HEAD = """# Studies

Experiments that take longer than a lecture has time for. Each is one file in `authoring/studies`; its record, with every seed,
is next to it, and lectures plot it as recorded. A record of another version of its study is refused.

`course study --list` lists what has been recorded. `course study NAME` runs what is missing, and resumes after an interruption.
`course study --check` repeats one run of each and compares. `--device cuda` runs the larger settings of a GPU, `--dask ADDRESS`
sends the runs to a Dask cluster.
"""


def studies_page(root: Path) -> str:
    """Write the page from the studies of a course and their records."""
    folder = root / "authoring" / "studies"
    return "\n".join([_HEAD, *(_section(load(name, folder), folder) for name in names(folder))])


def _section(study: Study, folder: Path) -> str:
    lines = [f"## {study.name}", "", f"**{study.question}**{study.text.removeprefix(study.question)}", ""]
    lines += _recorded(study, read(record_path(folder, study.name)), "cpu")
    if on_gpu := read(record_path(folder, study.name, "cuda")):
        lines += ["**On a GPU**, with its own settings:", "", *_recorded(study, on_gpu, "cuda")]
    return "\n".join(lines)


def _recorded(study: Study, record: RecordedStudy | None, device: str) -> list[str]:
    command = f"`{study.command_on(device)}`"
    if record is None or not record.runs:
        return [f"*Not recorded yet: {command} runs it.*", ""]
    if record.source != study.source_on(device):
        return [f"*Changed since it was recorded: {command} runs it again.*", ""]
    lines = [_table(record), "", f"*{record.cost}.*", ""]
    if missing := [name for name in study.settings_on(device) if name not in record.names]:
        return [*lines, f"*Not recorded yet: {', '.join(missing)}. {command} runs them.*", ""]
    if study.figure:
        lines += [f"**Figure.** {study.drawn(record)[1]}", ""]
    if study.finding:
        lines += [f"**Finding.** {study.finding(record)}", ""]
    return lines


def _table(record: RecordedStudy) -> str:
    """Make one row for each setting: the mean of each score, with its smallest and largest value over the seeds."""
    scores = list(dict.fromkeys(score for run in record.runs for score in run.scores))
    rows = [f"| setting | seeds | {' | '.join(map(cell, scores))} |", "| --- " * (len(scores) + 2) + "|"]
    for name in record.names:
        runs = record.of(name)
        values = ([run.scores[score] for run in runs if score in run.scores] for score in scores)
        rows.append(f"| {cell(name)} | {len(runs)} | {' | '.join(map(_spread, values))} |")
    return "\n".join(rows)


def _spread(values: list[float]) -> str:
    if not values:
        return ""
    middle, least, most = (_number(value) for value in (mean(values), min(values), max(values)))
    return middle if least == most else f"{middle} ({least} to {most})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
