"""What the sandbox may read: Python and packages, and nothing of the course, whatever leads to it."""

import inspect
from pathlib import Path

import torch

from course_tools.grading.sandbox import hardening
from course_tools.grading.sandbox.readable_files import (
    HELD_OUT,
    _entries,
    forbidden_sources,
    held_out,
    package_folders,
    readable,
    secrets,
)


def test_what_is_readable_holds_python_and_packages_and_nothing_of_the_course():
    granted = [Path(path).resolve() for path in readable()]
    assert all(Path(folder).is_dir() for folder in package_folders())
    assert any(path.name == "torch" or path.parent.name == "torch" for path in granted)
    assert len(secrets()) == 2
    for secret in map(Path, secrets()):
        assert not [path for path in granted if path == secret or path in secret.parents]


def test_the_source_of_a_forbidden_function_is_not_readable_and_what_lies_beside_it_is():
    granted = {Path(path).resolve() for path in readable()}
    source = Path(inspect.getsourcefile(torch.nn.functional.multi_head_attention_forward)).resolve()
    assert source in forbidden_sources()
    assert source.with_name("init.py") in granted
    for file in forbidden_sources():
        assert granted.isdisjoint({file, *file.parents})


def test_the_images_with_which_build_tasks_are_judged_are_not_readable():
    granted = {Path(path).resolve() for path in readable()}
    assert sorted(file.name for file in held_out()) == sorted(Path(name).name for name in HELD_OUT)
    for file in held_out():
        assert granted.isdisjoint({file, *file.parents})


def test_links_and_copies_of_the_course_are_not_readable(tmp_path):
    course = Path(hardening.__file__).parents[1]
    (tmp_path / "harmless").symlink_to(course)
    (tmp_path / "above").symlink_to(course.parent)
    (tmp_path / "below").symlink_to(course / "attention")
    for name in ("course_lib", "course_lib-1.dist-info", "attention_course-0.1.egg-info", "paths.pth", "numpy"):
        (tmp_path / name).mkdir()
    assert [path.name for path in _entries(tmp_path, ("course_lib", "attention_course"))] == ["numpy"]
