"""docs/performance.md has one section per group; a group that is measured again replaces only its own section."""

from benchmarks import __main__ as command
from benchmarks import report
from benchmarks.timing import Pass, Row

ROW = Row("attention", "fused", "equation", "T 7", Pass(1.0, 2.5, 2.5), None, Pass(3.0, 6.0, 2.0))


def test_a_row_has_a_cell_for_each_column_and_none_for_what_was_not_measured():
    assert report.line(ROW) == "| attention | fused | equation | T 7 | 1.00 / 2.50 | 2.50 |  |  | 3.00 / 6.00 | 2.00 |"
    assert {part.count("|") for part in (*report.HEAD.splitlines(), report.line(ROW))} == {11}


def test_lines_come_while_rows_are_measured():
    measured = []

    def rows():
        for i in range(2):
            measured.append(i)
            yield ROW

    lines = report.streamed(rows())
    assert (next(lines), measured) == (report.HEAD, [])
    assert (next(lines), measured) == (report.line(ROW), [0])


def test_a_group_measured_again_replaces_its_own_section_alone(tmp_path):
    page = tmp_path / "performance.md"
    for name, table in (("linear", "| a |"), ("graph", "| b |"), ("linear", "| c |")):
        report.record(name, table, "torch 2.13", page=page)
    text = page.read_text()
    assert [line for line in text.splitlines() if line.startswith(("#", "|"))] == [
        "# Performance of the library",
        "## graph",
        "| b |",
        "## linear",
        "| c |",
    ]
    report.record("linear", "| c |", "torch 2.13", page=page)
    assert page.read_text() == text


def test_a_note_stands_under_its_table_once(tmp_path):
    page = tmp_path / "performance.md"
    for note in ("too slow", "still too slow"):
        report.record("linear", "| a |", "torch 2.13", note, page)
    assert page.read_text().endswith("torch 2.13\n\n| a |\n\nstill too slow\n")


def test_the_committed_page_holds_every_note():
    sections = report._sections(report.PAGE.read_text(encoding="utf-8"))
    for name, note in command.NOTES.items():
        assert sections[name].endswith(f"\n\n{note}")


def test_the_command_prints_and_records_what_it_measures(monkeypatch, tmp_path, capsys):
    page = tmp_path / "performance.md"
    monkeypatch.setitem(command.GROUPS, "graph", lambda rounds: iter([ROW]))
    monkeypatch.setattr(command, "record", lambda *texts: report.record(*texts, page=page))
    command.main(["graph", "--rounds", "1"])
    assert not page.exists()
    command.main(["graph", "--rounds", "1", "--record"])
    assert report.line(ROW) in page.read_text()
    assert capsys.readouterr().out.count(report.line(ROW)) == 2


def test_the_committed_page_is_one_that_the_command_writes(tmp_path):
    page = tmp_path / "performance.md"
    page.write_text(report.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    for name, body in report._sections(page.read_text(encoding="utf-8")).items():
        measured_with, _, table = body.partition("\n\n")
        report.record(name, table, measured_with, page=page)
    assert page.read_text(encoding="utf-8") == report.PAGE.read_text(encoding="utf-8")
