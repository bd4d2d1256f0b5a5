"""Optional packages: found, or reported with the install command; a missing requirement of a package keeps its own error."""

import sys

import pytest

from course_lib.optional_import import optional_import


def test_a_package_that_is_there_is_given():
    assert optional_import("json.decoder", "json", "A test") is sys.modules["json.decoder"]


def test_a_missing_package_is_named_with_its_command():
    with pytest.raises(ImportError, match=r"^A test needs the package no-such: run `pip install no-such`\.$"):
        optional_import("no_such.part", "no-such", "A test")


def test_what_a_package_lacks_itself_is_not_blamed_on_the_package(tmp_path, monkeypatch):
    (tmp_path / "half_there.py").write_text("import no_such\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such'"):
        optional_import("half_there", "half-there", "A test")
