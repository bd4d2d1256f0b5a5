"""What a student's code does inside, it cannot do outside: each act is tried outside, where it succeeds, and inside."""

import pytest

from tests.course_tools.grading.attacks import (
    as_an_object,
    by_reading,
    by_searching,
    exits_and_floods,
    for_comparison,
    in_the_answer,
    on_comparisons,
    on_files,
    on_processes,
    on_the_line,
    on_the_network,
    on_the_system,
    without_end,
)
from tests.course_tools.grading.attacks.stage import attacks, for_a_deed, named, submission

HARMFUL = (on_files, by_reading, on_processes, on_the_system, on_the_network)
OTHERS = (as_an_object, by_searching, exits_and_floods, in_the_answer, on_comparisons, on_the_line, without_end)
NOT_EVERYWHERE = {
    # what only root, another kernel, another processor or another machine lets anybody do
    "a_fork_of_another_kind",
    "a_fork_of_thirty_two_bits",
    "a_higher_place",
    "a_connection_of_the_new_kind",
    "a_debugger",
    "a_file_of_the_grader",
    "a_key_that_stays",
    "a_program_from_memory",
    "an_inherited_line",
    "among_the_packages",
    "another_attribute",
    "another_file_system",
    "another_name_of_the_machine",
    "another_root",
    "another_session",
    "another_way_to_call",
    "faults_by_hand",
    "in_the_home",
    "its_own_limits",
    "other_namespaces",
    "programs_in_the_kernel",
    "raw_packets",
    "the_cipher_of_the_kernel",
    "the_environment_of_the_parent",
    "the_history",
    "the_last_to_be_killed",
    "the_machine_below",
    "the_memory_of_the_grader",
    "the_memory_of_the_grader_by_a_call",
    "the_messages_of_the_system",
    "to_watch_the_machine",
    "what_python_keeps",
    "without_a_name",
}


@pytest.mark.parametrize("act", attacks(*HARMFUL), ids=named)
def test_an_act_that_succeeds_outside_fails_inside(act, judged, host, outside):
    done = outside.succeeds(act, host.known)
    done = bool(host.traces()) or done
    if not done and act.__name__ in NOT_EVERYWHERE:
        pytest.skip("this machine allows it to nobody")
    assert done
    mark = judged(submission({"02.2": for_a_deed(act, host.known)}))
    assert mark.points == 0


def test_an_act_that_succeeds_would_be_seen(judged, host, outside):
    """Else the tests above would pass whatever the sandbox let through."""
    assert outside.succeeds(for_comparison.always, host.known)
    assert not outside.succeeds(for_comparison.never, host.known)
    assert judged(submission({"02.2": for_a_deed(for_comparison.always, host.known)})).passed
    assert judged(submission({"02.2": for_a_deed(for_comparison.never, host.known)})).points == 0
    for name in host.markers:
        host.markers[name].touch()
        assert host.traces() == [f"{name} exists"]
    host.witness.write_text("")
    assert host.traces() == ["the witness has changed"]
    assert host.traces() == []


def test_there_are_many_attacks_and_each_says_what_it_tries():
    every = attacks(*HARMFUL, *OTHERS)
    assert len(every) >= 200
    assert len({named(attack) for attack in every}) == len(every)
    assert [named(f) for f in every if not (f.__doc__ or "").endswith(".") or "\n" in f.__doc__] == []
    assert {attack.__name__ for attack in every} >= NOT_EVERYWHERE
