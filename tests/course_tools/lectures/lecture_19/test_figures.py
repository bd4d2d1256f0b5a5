"""The figures of tiles, calls and authors state in words what they show."""

import math

from course_tools.lectures.lecture_19 import figures


def test_the_tiles_of_the_worked_example(capsys):
    figures.show_tiles([[0.0, math.log(2)], [math.log(6)]])
    said = capsys.readouterr().out
    assert "tile 1 has the terms 0.5, 1; tile 2 has the terms 1" in said
    assert "the terms are 0.17, 0.33, 1" in said


def test_one_tile_exists_where_the_whole_table_moved(capsys):
    figures.show_traffic(blocks=2, tiles=6)
    assert "of 2 blocks of queries one stays in fast memory" in capsys.readouterr().out


def test_tokens_per_call_and_speed_up_by_hand(capsys):
    assert figures.per_call(0.5, 2) == 1.75
    figures.draw_speed_up(0.5, 0.25, 2)  # 1.75 / 1.5; one draft: 1.5 / 1.25
    assert "2 give 1.17; the best number up to 12 is 1, with 1.20" in capsys.readouterr().out


def test_a_text_of_two_authors(capsys):
    figures.show_authors("ab cdefg", [4, 7], n_prompt=3)
    said = capsys.readouterr().out
    assert "The draft wrote 3 of them, the model itself 2" in said


def test_calls_by_draft(capsys):
    figures.show_calls({"hot": {"counts": [2.0, 3.0], "copying": [1.0, 1.5]}})
    assert "hot: counts 2.50, copying 1.25" in capsys.readouterr().out
