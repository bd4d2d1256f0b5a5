"""A lecture reads a recorded study and shows its figure with what it cost; what is missing or stale is refused."""

import pytest

from course_tools.notebook import recorded_studies
from course_tools.notebook.recorded_studies import recorded, show_study
from course_tools.studies import CannotStudy, RecordedRun, RecordedStudy, StaleStudy, load
from course_tools.studies.study_record import write

TOY = '''"""Is it?"""

SETTINGS = {"a": 1}


def run(setting, seed, device):
    return {}


def figure(study):
    from matplotlib.figure import Figure

    return Figure(), f"Scores {study.scores('a', 'score')}."
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "12_toy.py").write_text(TOY)
    study = load("12_toy", tmp_path)
    head = RecordedStudy("12_toy", study.source_on("cpu"), "", "3.11.7", "2.13.0", "one CPU thread")
    write(head.with_run(RecordedRun("a", 0, {"score": 0.5}, {}, 120.0)), tmp_path / "12_toy.json")
    return tmp_path


def test_the_caption_says_that_a_figure_is_recorded_and_what_it_cost(folder, monkeypatch):
    captions = []
    monkeypatch.setattr(recorded_studies, "show", lambda figure, alt: captions.append(alt))
    assert show_study("12_toy", folder) == recorded("12_toy", folder)
    assert captions == ["Scores [0.5]. As recorded by `course study 12_toy`: 1 run, 2 minutes of one CPU thread, torch 2.13.0."]


def test_a_gpu_has_a_record_of_its_own(folder, monkeypatch):
    captions = []
    monkeypatch.setattr(recorded_studies, "show", lambda figure, alt: captions.append(alt))
    with pytest.raises(CannotStudy, match="not recorded yet: `course study 12_toy --device cuda` runs it"):
        recorded("12_toy", folder, device="cuda")
    head = RecordedStudy("12_toy", load("12_toy", folder).source_on("cuda"), "", "3.12.3", "2.11.0", "one fast GPU")
    write(head.with_run(RecordedRun("a", 0, {"score": 0.75}, {}, 120.0)), folder / "12_toy.cuda.json")
    assert show_study("12_toy", folder, device="cuda").scores("a", "score") == [0.75]
    assert captions == [
        "Scores [0.75]. As recorded by `course study 12_toy --device cuda`: 1 run, 2 minutes of one fast GPU, torch 2.11.0."
    ]
    assert recorded("12_toy", folder).scores("a", "score") == [0.5]


def test_what_is_missing_or_stale_is_refused(folder):
    (folder / "12_toy.py").write_text(TOY.replace("return {}", "return {'score': 1}"))
    with pytest.raises(StaleStudy):
        recorded("12_toy", folder)
    (folder / "12_toy.json").unlink()
    with pytest.raises(CannotStudy, match="not recorded yet"):
        recorded("12_toy", folder)


def test_a_study_without_a_figure_says_so(folder):
    (folder / "12_toy.py").write_text(TOY.partition("\n\n\ndef figure")[0] + "\n")
    with pytest.raises(CannotStudy, match="has no figure"):
        show_study("12_toy", folder)
