"""course.py: what it creates, repairs, refuses and prints, with a `pip` and a `venv` that only record their calls."""

import ast
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = (ROOT / "course.py").read_text(encoding="utf-8")
PYPROJECT = """
[project]
name = "small"
version = "1"
dependencies = ["torch>=2,<3", "a-package-that-is-nowhere>=1"]
[project.optional-dependencies]
data = ["data-that-are-nowhere>=1"]
course = []
test = ["another-that-is-nowhere>=1"]
site = []
dask = []
"""
FAKES = {
    "venv/__main__.py": """
import os, pathlib, sys
note = open(os.environ["CALLS"], "a").write("venv\\n")
(pathlib.Path(sys.argv[1]) / "bin").mkdir()
(pathlib.Path(sys.argv[1]) / "bin" / "python").symlink_to(sys.executable)
""",
    "pip/__main__.py": """
import os, pathlib, sys, time
if sys.argv[1:] == ["config", "list"]:
    sys.exit(print(os.environ.get("PIP_SETTINGS", "")))
note = open(os.environ["CALLS"], "a").write(" ".join(["pip", *sys.argv[1:]]) + "\\n")
print(os.environ.get("PIP_SAYS", ""))
assert (os.environ["PIP_USER"], sys.stdin.read()) == ("0", "")
while pathlib.Path(os.environ.get("PIP_WAITS_FOR", __file__)).exists() is False:
    time.sleep(0.02)
sys.exit(int(os.environ.get("PIP_EXITS", "0")))
""",
    "course_tools/__main__.py": """
import json, os, sys
kept = os.environ["MALLOC_TRIM_THRESHOLD_"]
print(json.dumps({"python": sys.executable, "arguments": sys.argv[1:], "path": os.environ["PYTHONPATH"], "kept": kept}))
sys.exit(7)
""",
}
WITHOUT_GPU = (sys.platform, platform.machine(), shutil.which("nvidia-smi")) == ("linux", "x86_64", None)
posix = pytest.mark.skipif(os.name == "nt", reason="the false pip and venv are made of POSIX paths and links")


class Clone:
    """A copy of the course with a fake `pip` and `venv`; its command ends with status 7."""

    def __init__(self, root):
        self.root, self.venv, self.log = root, root / ".venv", root / "calls.txt"
        shutil.copy(ROOT / "course.py", root)
        (root / "pyproject.toml").write_text(PYPROJECT)
        for name, text in FAKES.items():
            path = root / ("" if name.startswith("course_tools") else "fakes") / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
            (path.parent / "__init__.py").touch()

    def start(self, *arguments, **settings):
        """Start course.py; the variables in capitals control the fake pip."""
        own = {"PYTHONPATH": str(self.root / "fakes"), "CALLS": str(self.log), "PIP_FIND_LINKS": "here", "PIP_INDEX_URL": ""}
        known = {**os.environ, **own, "PIP_EXTRA_INDEX_URL": "", **settings}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen([sys.executable, str(self.root / "course.py"), *arguments], env=known, text=True, **pipes)

    def call(self, *arguments, **settings):
        process = self.start(*arguments, **settings)
        process.out, process.err = process.communicate("typed by a person", timeout=300)
        assert "Traceback" not in process.err
        return process

    def calls(self):
        """Return the calls of venv and pip since the last call of this function."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line.replace("--no-input --disable-pip-version-check ", "") for line in lines]

    def install(self, extras="course,data"):
        return f"pip install --editable {self.root}[{extras}]"


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path)


def test_older_pythons_can_read_the_file_and_are_told_what_to_do(monkeypatch):
    tree = ast.parse(SOURCE, feature_version=(3, 7))
    oldest = ROOT.joinpath("pyproject.toml").read_text().split('requires-python = ">=')[1].split('"')[0]
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    with pytest.raises(SystemExit, match=rf"needs Python {oldest} or newer; this is .*\n.*python\.org"):
        exec(compile(tree, "course.py", "exec"), {"__name__": "course"})


def test_the_file_needs_nothing_but_the_standard_library():
    nodes = [node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in nodes for alias in node.names if isinstance(node, ast.Import)}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert len(names) > 10
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"], ["help"]])
def test_help_sets_nothing_up(clone, arguments):
    done = clone.call(*arguments)
    assert done.returncode == 0
    assert all(f"course.py {name}" in done.out for name in ("lab", "run", "test", "build", "exercises"))
    assert not clone.venv.exists()


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["labb"], 2, "no command 'labb'. Did you mean lab?"),
        (["--port", "9"], 2, "no command '--port'. `python3 course.py help` lists the commands."),
        (["slides", "--help"], 0, "course.py slides NN [--pdf]"),
        (["--version"], 0, metadata.version("attention-course")),
    ],
)
def test_a_call_that_needs_no_package_sets_nothing_up(clone, arguments, status, told):
    (clone.root / "course_lib").mkdir()
    shutil.copy(ROOT / "course_lib" / "__init__.py", clone.root / "course_lib")
    done = clone.call(*arguments)
    assert (done.returncode, clone.venv.exists()) == (status, False)
    assert told in done.out + done.err


@posix
def test_the_first_call_installs_and_the_second_only_starts(clone):
    first = clone.call("run", "01", "--json", "file")
    assert clone.calls() == ["venv", clone.install()]
    assert "Setting up" in first.err
    told = json.loads(first.out)
    assert (first.returncode, told["arguments"]) == (7, ["run", "01", "--json", "file"])
    assert told["python"] == str(clone.venv / "bin" / "python")
    assert told["path"].split(os.pathsep)[0] == str(clone.root)
    second = clone.call("lab")
    assert (second.returncode, second.err, clone.calls()) == (7, "", [])


@posix
def test_testing_adds_its_tools_and_nothing_takes_them_away(clone):
    clone.call("lab")
    clone.calls()
    clone.call("test")
    assert clone.calls() == [clone.install("course,dask,data,site,test")]
    clone.call("lab")
    assert clone.calls() == []
    (clone.root / "pyproject.toml").write_text(PYPROJECT.replace("nowhere>=1", "nowhere>=2"))
    clone.call("lab")
    assert clone.calls() == [clone.install("course,dask,data,site,test")]


@posix
def test_the_set_up_alone_starts_nothing_and_takes_extras_by_name(clone):
    done = clone.call("setup", "--cpu")
    assert (done.returncode, done.out) == (0, "")
    assert clone.calls()[-1] == clone.install()
    assert clone.call("setup", "site").returncode == 0
    assert clone.calls() == [clone.install("course,data,site")]
    unknown = clone.call("setup", "sites")
    assert unknown.returncode == 1
    assert "pyproject.toml has no extra sites; it has data, course, test, site, dask." in unknown.err
    assert clone.calls() == []


@posix
def test_pages_need_the_extra_site_and_lectures_do_not(clone):
    clone.call("lab")
    assert clone.calls() == ["venv", clone.install()]
    clone.call("site", "--out", "pages")
    assert clone.calls() == [clone.install("course,data,site")]


@posix
def test_settings_of_other_tools_install_nothing(clone):
    clone.call("lab")
    clone.calls()
    (clone.root / "pyproject.toml").write_text(PYPROJECT + "[tool.ruff]\nline-length = 99\n")
    clone.call("lab")
    assert clone.calls() == []


@posix
def test_cpu_takes_torch_alone_from_the_index_of_pytorch(clone):
    done = clone.call("lab", "--cpu", "--no-browser")
    pip = "pip install --index-url https://download.pytorch.org/whl/cpu torch>=2,<3"
    assert clone.calls() == ["venv", pip, clone.install()]
    assert json.loads(done.out)["arguments"] == ["lab", "--no-browser"]
    assert json.loads(done.out)["kept"] == str(2**29)
    assert json.loads(clone.call("lab", MALLOC_TRIM_THRESHOLD_="1").out)["kept"] == "1"


@posix
@pytest.mark.skipif(not WITHOUT_GPU, reason="PyTorch comes with CUDA on Linux alone, and is wanted so where there is a GPU")
@pytest.mark.parametrize(
    ("settings", "small"), [("", True), ("global.index-url='https://here/simple'", False), ("global.timeout='9'", True)]
)
def test_without_a_gpu_cuda_is_not_taken_unless_pip_has_an_index_of_its_own(clone, settings, small):
    clone.call("lab", PIP_FIND_LINKS="", PIP_SETTINGS=settings)
    pip = "pip install --index-url https://download.pytorch.org/whl/cpu --retries 1 torch>=2,<3"
    assert clone.calls() == ["venv", *[pip] * small, clone.install()]


@posix
def test_a_python_that_has_everything_is_used_as_it_is(clone):
    version = metadata.version("pytest")
    (clone.root / "pyproject.toml").write_text(
        PYPROJECT.replace("a-package-that-is-nowhere>=1", f"pytest=={version}").replace('"data-that-are-nowhere>=1"', "")
    )
    told = json.loads(clone.call("lab").out)
    assert told["python"] == sys.executable
    assert told["path"].split(os.pathsep)[0] == str(clone.root)
    assert not clone.venv.exists()
    clone.call("test")
    assert clone.calls() == ["venv", clone.install("course,dask,data,site,test")]


@posix
def test_an_environment_of_somebody_else_is_completed_and_never_wiped(clone):
    (clone.venv / "bin").mkdir(parents=True)
    (clone.venv / "bin" / "python").symlink_to(sys.executable)
    (clone.venv / "work of hours").touch()
    assert clone.call("lab", PIP_EXITS="1").returncode == 1
    assert clone.call("lab").returncode == 7
    assert clone.calls() == [clone.install(), clone.install()]
    assert (clone.venv / "work of hours").exists()


@posix
def test_what_cannot_be_added_offline_leaves_what_worked(clone):
    clone.call("lab")
    clone.calls()
    assert clone.call("test", PIP_EXITS="1", PIP_SAYS="NewConnectionError").returncode == 1
    assert clone.call("lab", PIP_EXITS="1").returncode == 7
    assert clone.calls() == [clone.install("course,dask,data,site,test")]


@posix
def test_a_python_that_has_gone_is_replaced(clone):
    clone.call("lab")
    clone.calls()
    (clone.venv / "bin" / "python").unlink()
    (clone.venv / "bin" / "python").symlink_to(clone.root / "uninstalled")
    assert clone.call("lab").returncode == 7
    assert clone.calls() == ["venv", clone.install()]


@posix
def test_a_set_up_killed_half_way_is_waited_for_and_made_anew(clone):
    gate = clone.root / "gate"
    killed = clone.start("lab", PIP_WAITS_FOR=str(gate))
    until(lambda: clone.log.exists() and "pip" in clone.log.read_text())
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    (clone.venv / "lib").mkdir()
    (clone.venv / "lib" / "half-written").touch()
    clone.calls()
    second = clone.start("lab")  # the pip of the killed one is still running
    assert "Another set-up" in second.stderr.readline()
    assert clone.calls() == []
    gate.touch()
    second.communicate(timeout=300)
    assert (second.returncode, clone.calls()) == (7, ["venv", clone.install()])
    assert not (clone.venv / "lib").exists()


@posix
def test_two_at_once_set_up_once(clone):
    gate = clone.root / "gate"
    both = [clone.start("lab", PIP_WAITS_FOR=str(gate)) for _ in range(2)]
    until(lambda: clone.log.exists() and "pip" in clone.log.read_text())
    gate.touch()
    for process in both:
        process.communicate(timeout=300)
    assert [process.returncode for process in both] == [7, 7]
    assert clone.calls() == ["venv", clone.install()]


def until(holds):
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@posix
def test_ci_calls_the_test_command_without_input_and_passes_its_status_on(clone):
    (clone.root / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", clone.root / ".ci")
    (clone.root / "course.py").write_text(
        "import os, sys; print(sys.argv[1:], os.environ['CI'], sys.stdin.read()); sys.exit(3)"
    )
    without = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(["bash", ".ci/run"], cwd=clone.root, env=without, input="typed", capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (3, ["['test',", "'--durations=30']", "true"])
