"""A study is read from its file; code that affects its numbers changes its digest, code that describes them does not."""

import pytest

from course_tools.studies import CannotStudy, UnknownStudy, load, names


def test_a_file_gives_question_settings_and_run(toy, folder):
    assert toy.question == "Does the second letter come later than the first?"
    assert toy.text.endswith("Budget: none.")
    assert (toy.settings, toy.seeds, toy.settings_on("cuda:1")) == ({"a": 1, "b": 2}, (0, 1), {"c": 3})
    assert names(folder) == ["12_other", "12_toy"]
    assert load("12_other", folder).settings_on("cuda") == {}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("12_tyo", "similar names are: 12_toy"),
        ("12", "similar names are: 12_other, 12_toy"),
        ("zebra", "the studies are: 12_other, 12_toy"),
    ],
)
def test_an_unknown_name_gives_near_names(folder, wanted, said):
    with pytest.raises(UnknownStudy, match=f"no study '{wanted}'; {said}"):
        load(wanted, folder)


def test_the_beginning_of_a_name_suffices(folder):
    assert load("12_t", folder).name == "12_toy"


def test_a_file_without_a_run_is_no_study(folder):
    (folder / "13_nothing.py").write_text('"""Words."""\n')
    with pytest.raises(CannotStudy, match=r"13_nothing\.py is not a study: it has no SETTINGS and no run\."):
        load("13", folder)


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        ("SEEDS = (0, 1)", "SEEDS = (0, 1, 2)", {"cpu", "cuda"}),
        ("seed / 3", "seed / 4", {"cpu", "cuda"}),
        ('GPU_SETTINGS = {"c": 3}', 'GPU_SETTINGS = {\n    "c": 3,\n    "d": 4,\n}', {"cuda"}),
        ("Budget: none.", "Budget: nothing\nat all.", set()),
        (" runs.", " runs in all.", set()),
        ("\n\n\ndef run", "\n\ndef run", set()),
    ],
)
def test_the_digest_of_a_device_leaves_out_what_does_not_affect_its_record(toy, old, new, differs):
    before, text = {device: toy.source_on(device) for device in ("cpu", "cuda")}, toy.path.read_text()
    assert old in text
    toy.path.write_text(text.replace(old, new))
    assert {device for device in before if toy.source_on(device) != before[device]} == differs


def test_a_definition_that_moves_to_another_file_makes_no_record_stale(toy):
    text, digests = toy.path.read_text(), []
    for place in (
        "from course_lib.a import f, g",
        "from course_lib.b import g\nfrom course_lib.a import f",
        "from course_lib.a import f",
    ):
        toy.path.write_text(text.replace("SETTINGS =", f"{place}\nSETTINGS =", 1))
        digests.append(toy.source_on("cpu"))
    assert digests[0] == digests[1] != digests[2]
