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


CHECKED = ["course_lib", *(f"course_tools.{name}" for name in ("checks", "grading", "notebook", "publishing", "cli"))]
"""Packages whose types and shapes are checked: all but the bank of answers, which are wrong on purpose."""

if find_spec("jaxtyping") and find_spec("beartype"):
    from jaxtyping import install_import_hook

    install_import_hook(CHECKED, "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")


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
