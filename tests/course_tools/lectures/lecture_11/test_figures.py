"""Patches are drawn in their places, and the hardest maps are those whose symbol is least probable."""

import torch

from course_lib.primitives import patchify
from course_tools.bank.drawn_maps import NAMES, draw_maps
from course_tools.lectures.lecture_11.figures import (
    laid_out,
    show_answers,
    show_few_pictures,
    show_hardest,
    show_maps,
    show_numbered_patches,
    show_offsets,
    show_patches,
    show_places,
    show_where,
)
from course_tools.studies.study_record import RecordedRun, RecordedStudy


def test_patches_lie_where_they_were_cut_with_white_gaps():
    image = torch.rand(1, 3, 6, 9)
    sheet = laid_out(patchify(image, 3)[0], 6, 9, 3)
    assert sheet.shape == (8, 13, 3)
    assert torch.equal(sheet[:3, 5:8], image[0, :, :3, 3:6].permute(1, 2, 0))
    assert torch.equal(sheet[5:, 10:], image[0, :, 3:, 6:].permute(1, 2, 0))
    assert (sheet[3:5] == 1).all()


def test_equal_patches_correlate_fully(capsys):
    show_patches(patchify, torch.rand(1, 3, 3, 3).repeat(1, 1, 2, 3), 3, "its patches")
    assert "by 1.00 on average" in capsys.readouterr().out


def test_a_map_is_shown_with_its_places_and_the_answer_of_the_model(capsys):
    maps, weights = draw_maps(2, seed=0), torch.zeros(16)
    weights[6] = 0.5
    show_where(maps, 1, {"class token": weights}, answer=2)
    text = capsys.readouterr().out
    row, column = divmod(int(maps.pin[1]), 4)
    assert f"pin in row {row + 1}, column {column + 1}" in text
    assert "class token row 2, column 3. The model names the umbrella" in text


def test_maps_are_shown_with_both_answers(capsys):
    maps = draw_maps(4, seed=0)
    show_maps(maps, n=2)
    assert f"2: {NAMES[maps.beside[1]]} / {NAMES[maps.colour[1]]}." in capsys.readouterr().out


def test_the_hardest_maps_come_first(capsys):
    maps, p = draw_maps(3, seed=0), torch.full((3, 8), 0.01)
    right = maps.colour
    other = (right + 1) % 8
    p[range(3), right] = torch.tensor([0.9, 0.4, 0.2])
    p[2, other[2]] = 0.7
    show_hardest(maps, p, "your model", n=2)
    text = capsys.readouterr().out
    assert f"1: {NAMES[right[2]]} 0.20, it says {NAMES[other[2]]}; 2: {NAMES[right[1]]} 0.40. It is right" in text
    assert "about 0.667 of all 3 maps" in text


def test_right_answers_are_those_to_one_question(capsys):
    runs = [
        RecordedRun(name, seed, {}, {1: 0.1, 9: 0.2 + seed}, 60.0) for name in ("ViT, beside", "ViT, colour") for seed in (0, 1)
    ]
    show_answers(RecordedStudy("11_maps", "", "", "3.12", "2.8", "one CPU thread", runs), "colour")
    text = capsys.readouterr().out
    assert "colour, recorded: mean of 2 seeds, and each: ViT 0.70 after 9, by seed 0.20, 1.20. A bag" in text
    assert "4 runs" in text


def test_the_largest_offset_is_told(capsys):
    number = torch.zeros(7, 7)
    number[3, 2], number[0, 0] = 0.7, -0.7
    show_offsets(number)
    assert "most, 0.7, where the key lies 0 rows down and 1 columns to the left; the mean is 0.0" in capsys.readouterr().out


def test_few_pictures_are_told_by_network_and_number(capsys):
    kinds, sizes = ("ViT", "CNN", "CNN, all positions"), ("250", "1,000", "4,000")
    runs = [
        RecordedRun(f"{kind}, {n} pictures", seed, {"accuracy": 0.1 * len(kind) / 10 + seed / 10}, {}, 60.0)
        for kind in kinds
        for n in sizes
        for seed in (0, 1)
    ]
    show_few_pictures(RecordedStudy("11_pictures", "", "", "3.12", "2.8", "one CPU thread", runs))
    assert "mean of 2 seeds: ViT 0.080 with 250, 0.080 with 1,000, 0.080 with 4,000; CNN 0.080" in capsys.readouterr().out


def test_numbered_patches_give_the_products_of_the_lecture(capsys):
    show_numbered_patches()
    assert (
        "0, 1, 4, 5 gives 54; 2, 3, 6, 7 gives 76; 8, 9, 12, 13 gives 142; 10, 11, 14, 15 gives 164." in capsys.readouterr().out
    )


def test_cosines_are_drawn_at_the_place_of_the_other_patch(capsys):
    scores = {f"5 to {other}": 1.0 if other in (1, 4, 5, 6, 9) else -0.25 for other in range(16)}
    run = RecordedRun("hidden", 0, scores | {"neighbours": 1.0}, {}, 1.0)
    show_places(RecordedStudy("11_toy", "s", "l", "3.11.7", "2.13.0", "one CPU thread", [run]), side=4)
    assert "row 2, column 2 0.44 and 0.14" in capsys.readouterr().out
