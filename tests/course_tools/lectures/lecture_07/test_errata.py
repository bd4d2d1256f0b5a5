"""The slide's counts are confirmed but one, and those of GPTs follow the given function."""

from course_lib.metrics import gpt_parameters
from course_tools.lectures.lecture_07.errata import scaling_table


def test_one_count_of_ten_is_wrong():
    rows = scaling_table(gpt_parameters)
    assert len(rows) == 10
    assert [name for name, row in rows.items() if abs(row.ratio - 1) > 0.04] == ["XLNet-Large"]


def test_the_given_function_counts_the_gpts():
    rows = scaling_table(lambda n_tokens, T_max, d_model, n_layers: 7)
    assert [name for name, row in rows.items() if row.counted == 7] == ["GPT-2", "Megatron-LM", "Turing-NLG", "GPT-3"]
