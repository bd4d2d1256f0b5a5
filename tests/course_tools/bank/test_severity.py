"""Points follow severity: of two wrong answers of one exercise, the graver mistake earns fewer points."""

import pytest

from course_tools.bank import exercise, verdict

GRAVER_FIRST = [
    ("01.1", "leaves_out_the_tanh", "transposes_the_recurrent_matrix"),
    ("01.1", "ignores_the_state", "overwrites_the_state"),
    ("01.4", "interleaves_the_gates", "overwrites_the_cell_state"),
    ("02.4", "softmax_over_the_queries", "mask_inverted"),
    ("02.4", "mask_inverted", "nan_for_a_row_masked_whole"),
    ("02.5", "leaves_out_the_tanh", "padding_states_not_zeroed"),
    ("02.5", "starts_from_zero", "fails_without_steps"),
    ("02.6", "without_the_shift", "padding_counted"),
    ("02.6", "padding_counted", "probability_rounded_to_zero"),
    ("04.1", "normalises_over_the_queries", "ignores_the_mask"),
    ("04.1", "inverts_the_mask", "forgets_the_scale"),
    ("04.1", "forgets_the_scale", "gives_nan_for_a_row_masked_whole"),
    ("04.1", "forgets_the_scale", "masks_with_a_large_negative_number"),
    ("04.2", "takes_the_upper_triangle", "aligns_the_first_query_with_the_first_key"),
    ("04.2", "allows_everything", "ignores_the_device"),
    ("05.1", "exchanges_sine_and_cosine", "wants_a_cosine_for_every_sine"),
    ("05.4", "adds_nothing_to_the_attention", "forgets_the_mask"),
    ("08.2", "corrupts_the_whole_text", "types_the_rate_in"),
    ("12.7", "keeps_the_order_of_the_detections", "wants_a_detection"),
    ("14.1", "takes_the_absolute_value", "lets_the_unused_branch_overflow"),
    ("16.2", "competes_with_itself", "exponentiates_as_written"),
    ("16.5", "meets_halfway", "changes_the_target_in_place"),
]


@pytest.mark.parametrize(("id", "graver", "lighter"), GRAVER_FIRST)
def test_the_graver_of_two_mistakes_earns_fewer_points(id, graver, lighter):
    answers = {wrong.__name__: wrong for wrong in exercise(id).wrong}
    assert verdict(id, answers[graver]).points < verdict(id, answers[lighter]).points
