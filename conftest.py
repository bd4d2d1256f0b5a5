"""What every test session needs before the first test: threads, types, kernels that find this course, the order of tests."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
APART = ("tests/test_lectures.py", "tests/test_pretend_gpu.py", "publishing/test_planted_bugs.py")
"""Files whose tests share nothing and each take half a minute or more: any worker takes the next test."""
OF_AN_EXERCISE = re.compile(r"tests/course_tools/(?:bank/|checks/|grading/test_bank\.py).*\[(\d\d\.\d+)-")

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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--full` and `--seeds`."""
    parser.addoption("--full", action="store_true", help="everything: also solved lectures, mutants, the pretend accelerator")
    parser.addoption("--seeds", type=int, metavar="N", help="judge each answer of the bank on N seeds (default: 1; --full: 3)")


def pytest_configure(config: pytest.Config) -> None:
    """Find nbval's sanitize file from any working directory."""
    file = getattr(config.option, "nbval_sanitize_with", None)
    if file and not Path(file).is_absolute():
        config.option.nbval_sanitize_with = str(ROOT / file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep together on one worker the cells of a notebook, the tests of an exercise, and the tests of a file.

    They share a kernel, verdicts (tests/course_tools/judged.py), or fixtures. Tests of several kinds of work, such as a lecture
    each, share nothing. Workers take them in the order of collection: the longest first, so that all workers end together.
    """
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            if file.endswith(APART):
                return nodeid
            exercise = OF_AN_EXERCISE.match(nodeid)
            return exercise[1] if exercise else file

    return Scheduling(config, log)


def _after(item: pytest.Item) -> bool:
    """Return whether a test can wait until the long ones have begun."""
    return item.path.parent != ROOT / "solutions" and not item.get_closest_marker("slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `--full` runs, begin with what is long, and skip tests that need a GPU if there is none."""
    if not config.getoption("--full"):
        left_out = {item for item in items if item.get_closest_marker("full") or item.path.parent == ROOT / "solutions"}
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=_after)
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not on_gpu:
        return
    import torch

    if not torch.cuda.is_available():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
