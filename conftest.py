"""What every test session needs before the first test: threads, types, kernels that find this course, parallel runs by file."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

# Before torch is imported anywhere, here or in a notebook's kernel: one thread a process, for the processes run side by side.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# The kernels that nbval starts take `course_lib` from here, installed or not.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def checked_modules() -> list[str]:
    """Give the modules whose types and shapes are checked: all but the banks of answers, which are wrong on purpose."""
    rooms = [path for path in (ROOT / "course_lib").iterdir() if path.stem not in ("exercises", "__main__", "__init__")]
    banked = [path for path in (ROOT / "course_lib" / "exercises").glob("*.py") if path.stem != "__init__"]
    names = [f"course_lib.{path.stem}" for path in rooms if path.is_dir() or path.suffix == ".py"]
    return names + [f"course_lib.exercises.{path.stem}" for path in banked]


if find_spec("jaxtyping") and find_spec("beartype"):
    from jaxtyping import install_import_hook

    install_import_hook(checked_modules(), "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")


def pytest_configure(config: pytest.Config) -> None:
    """Find nbval's sanitize file from any working directory."""
    file = getattr(config.option, "nbval_sanitize_with", None)
    if file and not Path(file).is_absolute():
        config.option.nbval_sanitize_with = str(ROOT / file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep the cells of a notebook, and the tests of a file, together on one worker; they share a kernel or fixtures."""
    from xdist.scheduler import LoadScopeScheduling

    return LoadScopeScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none."""
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not on_gpu:
        return
    import torch

    if not torch.cuda.is_available():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
