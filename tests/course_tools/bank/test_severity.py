"""Points follow severity: of two wrong answers of one exercise, the graver mistake earns fewer points."""

from itertools import pairwise
from statistics import correlation, mean

import pytest
import torch
from torch.nn import functional as F

from course_lib.attention import attend, merge_heads, scaled_dot_product_attention, split_heads
from course_tools.bank import exercise, exercises, verdict
from course_tools.checks.exercise import Severity, severity_of
from course_tools.checks.judge_answer import COST_NOT_JUDGED, RUNS_AT_FIRST
from tests.course_tools.judged import examination, judged, misconception, outcomes

RANKED = {
    "04.2": """
        allows_everything marks_the_forbidden_keys looks_into_the_future takes_the_upper_triangle
        puts_the_keys_in_the_rows lets_the_next_token_in forbids_the_own_position shifts_the_wrong_way
        returns_ones_and_zeros ignores_the_device
    """,
    "05.1": """
        rounds_the_exponent_down doubles_the_exponent_twice halves_the_exponent gives_the_cosine_its_own_exponent
        counts_positions_from_one lists_the_sines_before_the_cosines lays_the_positions_along_the_columns
        adds_a_batch_axis wants_a_cosine_for_every_sine ignores_the_device
    """,
    "05.6": """
        forgets_the_memory exchanges_the_attentions_weights looks_into_the_future looks_at_the_memory_first
        adds_nothing_to_the_words adds_nothing_to_the_memory adds_the_first_input_again forgets_the_first_norm
        masks_the_words_by_the_memory forgets_the_memory_mask
    """,
    "05.7": """
        forgets_what_went_before normalises_over_the_beam counts_the_rows_by_the_width adds_the_logits_themselves
        lets_ended_sentences_go_on multiplies_by_the_penalty forgets_the_penalty carries_the_scores_on
        counts_the_new_word_twice exchanges_parent_and_word
    """,
    "06.4": """
        takes_one_step_only begins_anew_each_time never_encodes encodes_once encodes_after_the_block
        tells_the_place_only takes_one_step_too_few forgets_the_mask cuts_the_graph_between_steps
        overwrites_the_states
    """,
    "07.2": """
        keeps_the_first_k keeps_the_unlikely gives_the_k_alone ranks_the_whole_batch keeps_one_too_few
        normalises_what_is_left takes_a_very_small_logit keeps_all_that_are_equal asks_for_more_than_there_are
        overwrites_the_logits
    """,
    "08.1": """
        takes_the_top_layer averages_the_layers adds_up_the_features turns_the_features_into_shares
        takes_the_favourite_layer lays_the_layers_side_by_side normalises_without_exp puts_gamma_into_the_softmax
        forgets_gamma averages_after_weighing
    """,
    "09.2": """
        multiplies_the_means normalises_both_factors normalises_the_memory makes_them_positive
        divides_by_the_sum_of_weights divides_by_the_width adds_up_the_batch returns_it_transposed
        multiplies_from_the_left divides_by_the_queries
    """,
    "10.5": """
        looks_everywhere looks_along_one_side projects_in_every_window counts_one_product forgets_the_places
        multiplies_with_each_place forgets_the_work_of_the_places gives_both_all_features ignores_the_stride
        counts_every_operation
    """,
    "13.5": """
        changes_nothing turns_the_places_round reorders_the_hidden_units applies_the_order_twice
        reorders_only_the_output_side uses_the_inverse inverts_only_the_input_side reorders_the_inner_bias
        forgets_the_outer_bias overwrites_the_weights
    """,
    "14.5": """
        takes_relu_features subtracts_outside_the_exponential adds_the_norm forgets_the_norm takes_one_norm_for_all
        does_not_square_the_norm takes_the_mean_of_the_squares forgets_the_half scales_by_the_size_of_the_vectors
        forgets_to_divide
    """,
    "15.1": """
        uses_the_first_half_twice cuts_every_other_entry swaps_the_halves bends_the_features bends_each_half
        forgets_the_leaky_relu takes_the_softmax_already takes_tanh takes_relu takes_the_slope_of_torch
    """,
    "15.2": """
        forgets_the_exponential forgets_to_divide normalises_over_all_edges groups_by_the_node_looked_at
        takes_the_edges_for_sorted sums_over_the_heads_too leaves_the_weights_sorted goes_through_a_matrix
        cuts_the_gradient_of_the_sums starts_the_maximum_at_zero
    """,
    "15.4": """
        cuts_across_the_nodes shares_one_set_of_weights scores_all_heads_alike looks_against_the_arrows
        deals_out_the_features_in_turn exchanges_the_halves forgets_the_leaky_relu lets_each_node_see_itself
        ends_with_the_nonlinearity averages_the_weights
    """,
    "15.7": """
        takes_the_product compares_the_lengths squares_at_the_end takes_absolute_differences adds_up_distances
        divides_by_the_degrees averages_over_the_edges averages_over_the_features adds_up_the_batch
        counts_each_edge_once
    """,
}
"""Ten wrong answers of an exercise, gravest first: drawn by chance, ranked by reading them, before their points were known."""

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
    assert judged(id, answers[graver]).points < judged(id, answers[lighter]).points


def ranks(values):
    """The rank of each value, equal ones sharing the mean of theirs."""
    return [sum(other < value for other in values) + values.count(value) / 2 for value in values]


@pytest.fixture
def ranked():
    """For each exercise of the ranking its answers and their verdicts, gravest first."""
    found = {}
    for id, names in RANKED.items():
        answers = {wrong.__name__: wrong for wrong in exercise(id).wrong}
        found[id] = [(answers[name], judged(id, answers[name])) for name in names.split()]
    return found


def test_points_follow_a_ranking_by_severity_that_was_made_without_them(ranked):
    found = {id: correlation(range(len(rows)), ranks([v.points for _, v in rows])) for id, rows in ranked.items()}
    assert mean(found.values()) >= 0.8, found
    assert min(found.values()) >= 0.5, found


def test_every_wrong_answer_says_how_grave_it_is():
    unmarked = [wrong for asked in exercises() if asked.training is None for wrong in asked.wrong if severity_of(wrong) is None]
    assert unmarked == []


@pytest.mark.parametrize("points", range(5, 25))
def test_the_limits_of_the_severities_follow_each_other_and_leave_no_full_marks(points):
    limits = [severity.limits(points) for severity in Severity]
    assert limits[0][0] == 0
    assert limits[-1][1] == points - 1
    assert all(low <= high for low, high in limits)
    assert all(high < low for (_, high), (low, _) in pairwise(limits))


def test_a_named_mistake_earns_between_the_limits_of_its_severity(ranked):
    outside = []
    for id, rows in ranked.items():
        for wrong, found in rows:
            low, high = severity_of(wrong).limits(found.max_points)
            status = {finding.name: finding.status for finding in found.findings}
            if found.points > high or (found.points < low and status["runs"] == "holds" and "inputs used" not in status):
                outside.append((id, wrong.__name__, found.points))
    assert outside == []


def test_what_severity_adds_is_told():
    found = verdict("04.1", next(wrong for wrong in exercise("04.1").wrong if wrong.__name__ == "inverts_the_mask"))
    change = next(finding for finding in found.findings if finding.status == "adjusts")
    held = sum(finding.points for finding in found.findings if finding.status == "holds")
    assert found.points == held + change.points
    assert f"{found.points} points, because {Severity.PART.law}." in found.message


def test_an_error_in_the_words_of_a_known_one_is_not_raised():
    for asked in exercises():
        for wrong in () if asked.training else asked.wrong:
            if severity_of(wrong) is Severity.IDEA:
                continue
            questions = examination(asked.id)
            error = next((r.error for r in questions._of(wrong, asked.properties[0]) if r.error is not None), None)
            if error is None:
                continue

            def answer(*inputs, error=error):
                raise error.with_traceback(None)

            assert questions.examine(answer).points == 0
            return
    pytest.fail("no wrong answer of the bank raises an error on every input")


CRASHES = [
    ("01.1", lambda x, h, W, U, b: torch.tanh(b + torch.matmul(W, x) + torch.matmul(U, h)), "multiplies_a_column"),
    (
        "04.5",
        lambda Q, K, V, A, B, C, D, n, mask=None: (
            merge_heads((heads := heads_of(Q, K, V, A, B, C, n)).context) @ D,
            heads.weights,
        ),
        "multiplies_the_output_by_the_stored_matrix",
    ),
    (
        "04.5",
        lambda Q, K, V, A, B, C, D, n, mask=None: F.linear(heads_of(Q, K, V, A, B, C, n).context.flatten(-2), D),
        "joins_positions_and_not_heads",
    ),
    (
        "04.6",
        lambda x, A, B, C: heads_of(*3 * [x.flatten(2).mT], A, B, C, 1).context.squeeze(1).mT.reshape(x.shape),
        "reshapes_to_the_channels_of_the_input",
    ),
    (
        "10.3",
        lambda q, rows, columns: torch.einsum("...ijc,...ac->...ija", q[..., : q.shape[-1] // 2], rows),
        "cuts_the_query_at_half_its_length",
    ),
    (
        "11.1",
        lambda x, P: x.view(*x.shape[:2], n := x.shape[2] // P, P, n, P).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2),
        "counts_as_many_columns_as_rows",
    ),
    (
        "11.2",
        lambda patches, E, b, learned, positions: torch.cat((learned[None], F.linear(patches, E, b)), 1).add(positions),
        "puts_one_learned_token_before_a_batch",
    ),
    ("11.2", lambda patches, E, b, learned, positions: F.linear(patches, E, b).add(positions), "adds_the_positions_too_early"),
]


def heads_of(q, k, v, W_q, W_k, W_v, n_heads):
    """The contexts and weights of all heads."""
    return scaled_dot_product_attention(*(split_heads(x @ W.mT, n_heads) for x, W in ((q, W_q), (k, W_k), (v, W_v))))


@pytest.mark.parametrize(("id", "answer", "slip"), CRASHES)
def test_a_crash_in_other_words_is_named_and_earns_points(id, answer, slip):
    known = next(wrong for wrong in exercise(id).wrong if wrong.__name__ == slip)
    found = verdict(id, answer)
    assert found.misconception == misconception(known)
    assert found.points == severity_of(known).limits(found.max_points)[0] > 0


def test_an_error_on_a_later_input_and_a_wrong_value_are_not_taken_for_what_holds_and_for_a_cost():
    later = judged("10.1", next(one for one in exercise("10.1").wrong if one.__name__ == "rounds_the_windows_of_unfold_down"))
    assert later.findings[0].status == "holds"
    assert later.findings[0].law == RUNS_AT_FIRST
    wrong = judged("10.4", next(one for one in exercise("10.4").wrong if one.__name__ == "masks_the_grid_of_the_queries"))
    assert next(found.law for found in wrong.findings if found.name == "cost") == COST_NOT_JUDGED
    dear = judged("10.4", next(one for one in exercise("10.4").wrong if one.__name__ == "scores_all_pixels"))
    assert "does not grow" in next(found.law for found in dear.findings if found.name == "cost")
    assert dear.findings[0].law == exercise("10.4").properties[0].law


def test_a_known_crash_earns_the_minimum_of_its_severity(asked):
    other = []
    for wrong in asked.wrong:
        raised = any(got.crashed for got in outcomes(asked.id, wrong)[: examination(asked.id).n_preliminary])
        found = judged(asked.id, wrong)
        if raised and found.points != severity_of(wrong).limits(found.max_points)[0]:
            other.append((wrong.__name__, found.points))
    assert other == []


def test_an_answer_that_no_mistake_explains_earns_the_points_of_its_properties():
    found = verdict("04.1", lambda q, k, v, mask=None: attend((q @ k.mT).sin(), v, mask))
    assert found.misconception is None
    assert found.points == sum(finding.points for finding in found.findings if finding.status == "holds")
    assert "adjusts" not in {finding.status for finding in found.findings}
