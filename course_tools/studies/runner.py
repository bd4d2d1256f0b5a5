"""Run a study: every setting and seed that is not recorded yet, each recorded as soon as it ends; or repeat one run.

The runs go to an executor of `concurrent.futures`: processes of this machine, or those of a Dask cluster
(`Client(address).get_executor()`). A run uses one CPU thread, so its result does not depend on the number of parallel runs.
"""

import os
import platform
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

from course_tools.dask_cluster import dask_client
from course_tools.studies.study import CannotStudy, StaleStudy, Study, load
from course_tools.studies.study_record import RecordedRun, RecordedStudy, read, record_path, write


@contextmanager
def workers(jobs: int, dask: str | None = None) -> Iterator[Executor]:
    """Open an executor: `jobs` fresh processes of this machine, or a Dask cluster.

    Args:
        jobs: number of parallel processes.
        dask: the address of a Dask scheduler, such as "tcp://10.0.0.1:8786"; "local" starts one with `jobs` workers here.

    Raises:
        NoCluster: Dask is not installed, or does not respond.
    """
    if dask is None:
        pool = ProcessPoolExecutor(jobs, get_context("spawn"), _end_with_parent)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
        return
    with dask_client(dask, n_workers=jobs, threads_per_worker=1) as client, client.get_executor(pure=False) as executor:
        yield executor


def _end_with_parent() -> None:
    """End this process as soon as the one that started it has ended, even if that was killed."""
    parent = parent_process()

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def run_missing(
    study: Study, executor: Executor, seeds: Sequence[int] | None = None, device: str = "cpu", folder: Path | None = None
) -> RecordedStudy:
    """Run every setting and seed that is not recorded, and write the record after each.

    A record of another version of the study or the library, of another torch or machine is not continued but replaced.

    Args:
        study: what to run.
        executor: where the runs go.
        seeds: the seeds; those of the study by default.
        device: "cpu", "cuda" or "cuda:1".
        folder: where the workers find the studies; None = each in its own copy of the course.

    Returns:
        the complete record.

    Raises:
        CannotStudy: runs failed, or a worker was killed; all successful runs are recorded.
    """
    path = record_path(study.path.parent, study.name, device)
    fresh = _head(study, device)
    record = continued(read(path), fresh) or fresh
    seeds, settings = tuple(study.seeds if seeds is None else seeds), study.settings_on(device)
    done = {(run.name, run.seed) for run in record.runs}
    todo = [(name, seed) for seed in seeds for name in settings if (name, seed) not in done]
    started = {
        executor.submit(run_one, study.name, fresh.source, name, seed, device, folder): (name, seed) for name, seed in todo
    }
    failed = []
    for future in _watched(started, len(done), len(done) + len(todo), study.name):
        name, seed = started[future]
        try:
            record = record.with_run(future.result())
        except BrokenExecutor:
            raise CannotStudy(
                "a worker was killed from outside; finished runs are kept: run the same command to resume."
            ) from None
        except Exception as error:
            failed.append(f"{name}, seed {seed}: {type(error).__name__}: {error}")
        else:
            write(record, path)
    if failed:
        raise CannotStudy("; ".join([f"{len(failed)} of {len(todo)} runs failed", *failed]))
    return record


def check(study: Study, executor: Executor, device: str = "cpu", folder: Path | None = None) -> list[str]:
    """Repeat the recorded run that took the least time, and compare it with the record.

    What a study caches for its runs, such as a trained network, is computed again; that is not in the time of every run.
    If they agree, the record notes the current version of the library, because its numbers hold for that as well.

    Args:
        study: the study whose record is checked.
        executor: runs it.
        device: "cpu", "cuda" or "cuda:1".
        folder: where the workers find the studies; None = each in its own copy of the course.

    Returns:
        what differs by more than the tolerance of the study, one line each; empty if all agree.

    Raises:
        CannotStudy: the study has no record, or the run failed.
        StaleStudy: the record comes from another version of the study.
    """
    path = record_path(study.path.parent, study.name, device)
    record = require_fresh(study, read(path), device)
    before = min((run for run in record.runs if run.name in study.settings_on(device)), key=lambda run: run.seconds)
    try:
        now = executor.submit(run_one, study.name, record.source, before.name, before.seed, device, folder).result()
    except CannotStudy:
        raise
    except Exception as error:
        raise CannotStudy(f"{before.name}, seed {before.seed}: {type(error).__name__}: {error}") from error
    differences = _differences(study, before, now)
    if not differences and record.library != study.library:
        write(RecordedStudy(**{**vars(record), "library": study.library}), path)
    return differences


def require_fresh(study: Study, record: RecordedStudy | None, device: str = "cpu") -> RecordedStudy:
    """Return the record of a study on a device.

    Raises:
        CannotStudy: there is none.
        StaleStudy: it comes from another version of the study.
    """
    if record is None or not record.runs:
        raise CannotStudy(f"the study {study.name} is not recorded yet: `{study.command_on(device)}` runs it.")
    if record.source != study.source_on(device):
        raise StaleStudy(
            f"the study {study.name} has changed since it was recorded: `{study.command_on(device)}` runs it again."
        )
    return record


def state(study: Study, device: str = "cpu") -> str:
    """Describe how much of a study is recorded, and whether its record is stale."""
    record = read(record_path(study.path.parent, study.name, device))
    if record is None or not record.runs:
        return "not recorded"
    if record.source != study.source_on(device):
        return "stale: the study has changed since"
    wanted = {(name, seed) for name in study.settings_on(device) for seed in study.seeds}
    n = len(wanted & {(run.name, run.seed) for run in record.runs})
    said = record.cost if n == len(wanted) else f"{n} of {len(wanted)} runs so far; {record.cost}"
    changed = record.library != study.library
    return said + ("; the library has changed since: use `--check` to see whether the numbers still hold" if changed else "")


def continued(before: RecordedStudy | None, fresh: RecordedStudy) -> RecordedStudy | None:
    """Return the earlier record if it can be continued (same sources, versions and machine), else None."""
    return before if before and RecordedStudy(**{**vars(before), "runs": []}) == fresh else None


def run_one(name: str, source: str, setting: str, seed: int, device: str, folder: Path | None) -> RecordedRun:
    """Perform one run, in a worker.

    Raises:
        StaleStudy: the worker's copy of the study differs from the one that was submitted.
    """
    import torch

    study = _loaded(name, source, device, folder)
    on_cpu = torch.device(device).type == "cpu"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    clock = time.process_time if on_cpu else time.perf_counter
    start = clock()
    try:
        scores = dict(study.run(study.settings_on(device)[setting], seed, torch.device(device)))
    finally:
        torch.set_num_threads(threads)
    curve, texts = scores.pop("curve", {}), scores.pop("texts", {})
    return RecordedRun(setting, seed, scores, curve, round(clock() - start, 1), texts)


@lru_cache(maxsize=1)
def _loaded(name: str, source: str, device: str, folder: Path | None) -> Study:
    """Load a study of this source once per worker, so that its runs can share what it caches, such as a trained network."""
    study = load(name, folder)
    if study.source_on(device) != source:
        raise StaleStudy(f"the worker has another version of the study {name}.")
    return study


def _head(study: Study, device: str) -> RecordedStudy:
    import torch

    if device == "cpu":
        machine = f"one CPU thread ({platform.machine()})"
    elif torch.cuda.is_available():
        machine = f"one {torch.cuda.get_device_name(device)}"
    else:
        raise CannotStudy(f"the device {device} is not available: torch finds no GPU.")
    versions = platform.python_version(), torch.__version__.partition("+")[0]
    return RecordedStudy(study.name, study.source_on(device), study.library, *versions, machine)


def _watched(futures, n_done: int, total: int, label: str):
    """Yield the futures as they end, with a progress bar on a terminal."""
    from tqdm import tqdm

    yield from tqdm(as_completed(futures), desc=label, initial=n_done, total=total, unit="run", disable=None)


def _differences(study: Study, before: RecordedRun, now: RecordedRun) -> list[str]:
    """Compare two runs of one setting and seed."""
    pairs = [(name, name, before.scores.get(name), now.scores.get(name)) for name in {**before.scores, **now.scores}]
    pairs += [(f"curve at {x}", "curve", before.curve.get(x), now.curve.get(x)) for x in {**before.curve, **now.curve}]
    told = []
    for label, score, was, value in pairs:
        allowed = study.tolerance.get(score, 0.0) + 1e-4 * abs(was or 0.0)  # a record stores five digits
        if was is None or value is None or abs(value - was) > allowed:
            told.append(f"{before.name}, seed {before.seed}: {label} was {was}, is {value}; the tolerance is {allowed:.3g}")
    return told
