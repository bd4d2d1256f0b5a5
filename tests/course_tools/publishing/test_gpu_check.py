"""`course gpu-check`: without a GPU one sentence and a failure; with one, a report of every part."""

import pytest
import torch

from benchmarks import gpu
from course_tools import cli as command
from course_tools.publishing import PublishingFailed
from course_tools.publishing.gpu_check import gpu_check


def test_without_a_gpu_it_says_so_and_fails(course, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(command, "project_root", lambda: course)
    assert command.main(["gpu-check"]) == 1
    said = capsys.readouterr()
    assert said.err == "course: gpu-check needs a CUDA GPU, but torch finds none on this machine: nothing was run.\n"
    assert not said.out
    assert not (course / "docs" / "gpu_report.md").exists()


def test_the_report_holds_every_part_and_a_failure_is_a_failure(course):
    parts = {"First": ("platform",), "Second": ("no_such_module_anywhere",), "Third": ("this",)}
    report = course / "report.md"
    assert gpu_check(course, report, parts, lambda: "A GPU of 1 GiB") == 1
    written = report.read_text(encoding="utf-8")
    assert "A GPU of 1 GiB" in written
    assert "## First: passed" in written
    assert "## Second: failed with status 1" in written
    assert "No module named no_such_module_anywhere" in written
    assert "Although practicality beats purity." in written
    assert gpu_check(course, report, {"Third": ("this",)}, lambda: "A GPU") == 0
    assert "Second" not in report.read_text(encoding="utf-8")


def test_a_report_without_a_folder_is_refused_before_anything_runs(course):
    with pytest.raises(PublishingFailed, match="there is no folder"):
        gpu_check(course, course / "nowhere" / "report.md", {"First": ("no_such_module",)}, lambda: "A GPU")


def test_the_benchmark_times_every_form_on_any_device(capsys):
    gpu.main(["--device", "cpu", "--shape", "1", "2", "17", "8", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    n_forms = len(gpu.forms(8, torch.device("cpu")))
    assert [sum(dtype in line for line in lines) for dtype in ("| float32", "| bfloat16")] == [n_forms, n_forms]
