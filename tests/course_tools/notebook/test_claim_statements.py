"""claims.toml: malformed statements are refused, and those of the lectures fit the calls in the lectures."""

import ast

import pytest

from course_tools.notebook import claim_statements
from course_tools.notebook.claim_statements import statements
from course_tools.notebook.prediction_options import prediction
from course_tools.publishing.project import lectures, project_root

ROOT = project_root()
LECTURES = lectures(ROOT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[a]\nsays = "x {y}."', r"\[a\] needs `says`, a sentence, `holds`"),
        ('[a]\nsays = "x {y}."\nholds = "y > 1"', "a list of strings"),
        ('[a]\nsays = "x {y}."\nholds = []', "at least one condition"),
        ('[a]\nsays = "x {y}."\nholds = ["y > 1"]\nteach = true', "and nothing else"),
        ('[a]\nsays = "x {y}."\nholds = ["y > 1"]\nrepeated = 3', "and nothing else"),
        ('[a]\nsays = "x {y}."\nholds = ["y > 1"]\npredicted = 3', "and nothing else"),
        ('[a]\nsays = "x {y:.2f}."\nholds = ["y > 1"]', "the name of a value, with :% for a share or"),
        ('[a]\nsays = "x {min(y)}."\nholds = ["y > 1"]', "the name of a value, with :% for a share or"),
        ('[a]\nsays = "x {y}."\nholds = ["y >"]', "is not an expression"),
        ('[a]\nsays = "x {y}."\nholds = ["1 > 0"]', "names no measured value"),
        ('[a]\nsays = "x {y}."\nholds = ["y.max() > 0"]', "Compute the rest in the cell"),
        ('[a\nsays = "x"', r"lecture_04/claims\.toml: "),
    ],
)
def test_a_malformed_statement_is_refused_with_its_place(text, message, tmp_path, monkeypatch):
    (tmp_path / "lecture_04").mkdir()
    (tmp_path / "lecture_04" / "claims.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(claim_statements, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=message):
        statements("04")


@pytest.mark.parametrize("lecture", LECTURES, ids=lambda lecture: lecture.number)
def test_each_claim_of_a_lecture_has_its_statement_and_its_values_and_none_is_claimed_twice(lecture):
    known, claimed = statements(lecture.number), []
    for call in ast.walk(ast.parse(lecture.authoring.read_text(encoding="utf-8"))):
        match call:
            case ast.Call(func=ast.Name(id="claim"), args=[ast.Constant(value=id)], keywords=values):
                ids = [id]
            case ast.Call(
                func=ast.Name(id="claim"), args=[ast.JoinedStr(values=[ast.Constant(value=stem), *_])], keywords=values
            ):
                ids = [f"{lecture.number}.{name}" for name in known if f"{lecture.number}.{name}".startswith(stem)]
                ids = [id for id in ids if id not in claimed and known[id[3:]].names == {value.arg for value in values}]
            case _:
                continue
        for id in ids:
            assert id.startswith(f"{lecture.number}.")
            if all(value.arg for value in values):  # `**values` has no names before it runs
                known[id[3:]].require({value.arg for value in values})
        claimed += ids
    assert sorted(claimed) == sorted(f"{lecture.number}.{name}" for name in known)


def test_what_was_predicted_for_a_claim_is_a_number_of_the_same_lecture():
    predicted = [each for lecture in LECTURES for each in statements(lecture.number).values() if each.predicted]
    assert predicted
    for each in predicted:
        assert prediction(each.predicted).within, each.id
        assert each.predicted[:2] == each.id[:2]
