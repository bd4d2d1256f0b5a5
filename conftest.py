"""What every test session needs before the first test: threads, types, kernels that find this course, parallel runs by file."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
_IPYTHONDIR = os.environ.get("IPYTHONDIR")

# Before torch is imported anywhere, here or in a notebook's kernel: one thread for each of the parallel processes.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ["COURSE_STRICT_CLAIMS"] = "1"  # in every kernel a claim that fails raises
# The kernels that nbval starts take `course_lib` from here, installed or not.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


CHECKED = ["course_lib", *(f"course_tools.{name}" for name in ("checks", "grading", "notebook", "publishing", "cli"))]
"""Packages whose types and shapes are checked: all except the bank of answers, which are wrong on purpose."""

if find_spec("jaxtyping") and find_spec("beartype"):
    from jaxtyping import install_import_hook

    install_import_hook(CHECKED, "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

NEED_A_TRAINED_MODEL = ("02", "03", "07", "12")
"""Lectures whose later cells analyse the answers of a trained model: these cells fail after only a few training steps."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--full` and `--seeds`."""
    parser.addoption("--full", action="store_true", help="everything: also solved lectures, mutants, the pretend accelerator")
    parser.addoption("--seeds", type=int, metavar="N", help="judge each answer of the bank on N seeds (default: 1; --full: 3)")


def pytest_configure(config: pytest.Config) -> None:
    """Find nbval's sanitize file from any working directory."""
    file = getattr(config.option, "nbval_sanitize_with", None)
    if file and not Path(file).is_absolute():
        config.option.nbval_sanitize_with = str(ROOT / file)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Make the kernel of an unsolved lecture train for a few steps only."""
    if item.path.parent == ROOT / "lectures" and not item.path.name.startswith(NEED_A_TRAINED_MODEL):
        os.environ["IPYTHONDIR"] = _quick_kernel()
    else:
        os.environ.pop("IPYTHONDIR", None)
        if _IPYTHONDIR is not None:
            os.environ["IPYTHONDIR"] = _IPYTHONDIR


@cache
def _quick_kernel() -> str:
    """Return a folder of IPython settings with which kernels run tests/quick_training.py before their first cell."""
    folder = Path(tempfile.mkdtemp(prefix="course-quick-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "profile_default" / "startup").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "quick_training.py", folder / "profile_default" / "startup")
    return str(folder)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep the cells of a notebook, and the tests of a file, together on one worker; they share a kernel or fixtures.

    The lectures on the pretend accelerator share nothing, and each takes half a minute: any worker takes the next one.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if "test_lectures_on_a_device.py" in nodeid else super()._split_scope(nodeid)

    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `--full` runs, and skip tests that need a GPU if there is none."""
    if not config.getoption("--full"):
        left_out = {item for item in items if item.get_closest_marker("full") or item.path.parent == ROOT / "solutions"}
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not on_gpu:
        return
    import torch

    if not torch.cuda.is_available():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
