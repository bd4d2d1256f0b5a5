"""Exercise 08.4, segment_input: what students answer, wrong and right."""

from functools import partial

import torch

from course_lib.losses import segment_input
from course_tools.checks.comparisons import Failure, right_result, runs
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on
from course_tools.checks.outcome import Outcome, tensors_in

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Write tokens and segments of the sentences (7, 8) and (9) one above the other, with [CLS] = 1 and [SEP] = 2. To "
        "which sentence does each [SEP] belong? And what is the result if the second sentence is empty?"
    ),
    "Build it from two parts: [CLS] first [SEP] with segment 0, and second [SEP] with segment 1, but not where it is None.",
    (
        "`torch.cat` joins `first.new_tensor([begin])`, `first`, `first.new_tensor([separate])`. The segments come from "
        "the lengths of the two parts, never from a search for [SEP] among the tokens: `zeros_like` and `ones_like` of "
        "each."
    ),
)


def _tokens(*pieces):
    """Sentences and special tokens in one row, and its beginning with 0 for each token."""
    return torch.cat([torch.as_tensor(piece, dtype=torch.long).reshape(-1) for piece in pieces])


def _laid_out(head, tail):
    """Two stretches, the second of which may be missing; segments by their lengths."""
    if tail is None:
        return head, torch.zeros_like(head)
    return torch.cat([head, tail]), torch.cat([torch.zeros_like(head), torch.ones_like(tail)])


@wrong.part
def leaves_the_end_open(first, second, begin, separate):
    """You put a [SEP] between two sentences and none at the end. Every sentence is followed by one, the last one too, and a
    single sentence as well."""
    if second is None:
        return _laid_out(_tokens(begin, first), None)
    return _laid_out(_tokens(begin, first, separate), _tokens(second))


@wrong.idea
def runs_the_sentences_together(first, second, begin, separate):
    """You put one [SEP] at the very end and none between the two sentences. Only the segments then say where one ends; the
    first sentence has its own [SEP]."""
    if second is None:
        return _laid_out(_tokens(begin, first, separate), None)
    return _laid_out(_tokens(begin, first), _tokens(second, separate))


@wrong.detail
def begins_twice(first, second, begin, separate):
    """You put a [CLS] before each sentence. There is one for the whole input, at its start."""
    return _laid_out(_tokens(begin, first, separate), None if second is None else _tokens(begin, second, separate))


@wrong.part
def forgets_the_beginning(first, second, begin, separate):
    """You leave [CLS] out. The classification head uses the state of the first token, which must be [CLS]."""
    return _laid_out(_tokens(first, separate), None if second is None else _tokens(second, separate))


@wrong.detail
def gives_the_first_separator_away(first, second, begin, separate):
    """You count the [SEP] between the sentences to the second. Your tokens are right, but this [SEP] closes the first sentence
    and has its segment, 0."""
    if second is None:
        return _laid_out(_tokens(begin, first, separate), None)
    return _laid_out(_tokens(begin, first), _tokens(separate, second, separate))


@wrong.detail
def gives_every_separator_to_the_first(first, second, begin, separate):
    """You give segment 1 to the tokens of the second sentence only; its [SEP] gets a 0. It closes the second sentence and
    belongs to it."""
    tokens, segments = _laid_out(_tokens(begin, first, separate), None if second is None else _tokens(second, separate))
    if second is not None:
        segments[-1] = 0
    return tokens, segments


@wrong.case
def looks_for_the_separator(first, second, begin, separate):
    """You search for the first [SEP] among the tokens and let segment 1 begin after it. Where the first sentence itself
    holds this token, that is too early; the length of the first sentence says where it ends."""
    marks = first.new_tensor([begin]), first.new_tensor([separate])
    tokens = torch.cat([marks[0], first, marks[1], *(() if second is None else (second, marks[1]))])
    end = (tokens == separate).nonzero()[0]
    return tokens, (torch.arange(len(tokens)) > end).long()


@wrong.case
def counts_the_separators(first, second, begin, separate):
    """You number the segments by how many [SEP] precede each token. A sentence that holds this token itself is then cut in
    two, and there is a third segment; only 0 and 1 exist."""
    tokens, _ = _laid_out(_tokens(begin, first, separate), None if second is None else _tokens(second, separate))
    is_separator = (tokens == separate).long()
    return tokens, is_separator.cumsum(0) - is_separator


@wrong.detail
def counts_segments_from_one(first, second, begin, separate):
    """You number the segments 1 and 2. They are indices into a table of two rows, so 0 and 1."""
    tokens, segments = _laid_out(_tokens(begin, first, separate), None if second is None else _tokens(second, separate))
    return tokens, segments + 1


@wrong.idea
def knows_one_segment_only(first, second, begin, separate):
    """You give every token segment 0. The second sentence and its [SEP] have segment 1: that distinguishes the two
    sentences."""
    tokens, segments = _laid_out(_tokens(begin, first, separate), None if second is None else _tokens(second, separate))
    return tokens, torch.zeros_like(segments)


@wrong.case
def closes_a_sentence_that_is_not_there(first, second, begin, separate):
    """You treat None as an empty sentence, and close it with a [SEP] of segment 1. Without a second sentence the input ends
    after the first [SEP]."""
    return _laid_out(_tokens(begin, first, separate), _tokens([] if second is None else second, separate))


@wrong.case
def makes_segments_of_floats(first, second, begin, separate):
    """Your segments are floating-point numbers. Only integers are indices: take `zeros_like` of the tokens."""
    tokens, segments = _laid_out(_tokens(begin, first, separate), None if second is None else _tokens(second, separate))
    return tokens, segments.float()


@wrong.case
def asks_whether_a_sentence_is_true(first, second, begin, separate):
    """You test `if second`. The truth value of a tensor of several entries is an error; test `second is None`."""
    return _laid_out(_tokens(begin, first, separate), _tokens(second, separate) if second else None)


@wrong.case
def drops_an_empty_sentence(first, second, begin, separate):
    """You treat an empty second sentence as if there were none. Its [SEP] of segment 1 still follows. Test `second is
    None`."""
    there = second is not None and len(second) > 0
    return _laid_out(_tokens(begin, first, separate), _tokens(second, separate) if there else None)


@wrong.detail
def concatenates_numbers_with_tensors(first, second, begin, separate):
    """You concatenate the indices of [CLS] and [SEP] with tensors of words. They are plain numbers: make each a tensor with
    one entry, such as first.new_tensor([begin])."""
    parts = [begin, first, separate] if second is None else [begin, first, separate, second, separate]
    tokens = torch.cat(parts)
    return tokens, torch.zeros_like(tokens)


@right
def by_python_lists(first, second, begin, separate):
    """Python lists, turned into tensors at the end."""
    words = [begin, *first.tolist(), separate]
    n_first = len(words)
    if second is not None:
        words += [*second.tolist(), separate]
    segments = [0] * n_first + [1] * (len(words) - n_first)
    return torch.tensor(words, dtype=torch.long), torch.tensor(segments, dtype=torch.long)


@right
def by_filling_in(first, second, begin, separate):
    """A row full of separators, into which the other tokens are written; segments by comparing positions."""
    end = len(first) + 2
    T = end if second is None else end + len(second) + 1
    tokens = first.new_full((T,), separate)
    tokens[0] = begin
    tokens[1 : end - 1] = first
    if second is not None:
        tokens[end:-1] = second
    return tokens, (torch.arange(T) >= end).to(torch.int64)


@right
def sentence_by_sentence(first, second, begin, separate):
    """A loop over the sentences that are there, each with its number as its segment."""
    tokens, segments = [torch.tensor([begin])], [torch.tensor([0])]
    for i, sentence in enumerate(s for s in (first, second) if s is not None):
        closed = torch.nn.functional.pad(sentence, (0, 1), value=separate)
        tokens.append(closed)
        segments.append(torch.full_like(closed, i))
    return torch.hstack(tokens), torch.hstack(segments)


@stranger
def input_with_the_sentences_exchanged(first, second, begin, separate):
    return segment_input(first if second is None else second, second if second is None else first, begin, separate)


@stranger
def input_with_the_marks_exchanged(first, second, begin, separate):
    return segment_input(first, second, separate, begin)


@stranger
def input_with_two_separators_between(first, second, begin, separate):
    if second is None:
        return segment_input(first, second, begin, separate)
    return segment_input(torch.cat([first, first.new_tensor([separate])]), second, begin, separate)


@stranger
def input_in_floats(first, second, begin, separate):
    return tuple(part.float() for part in segment_input(first, second, begin, separate))


@stranger(makes=[knows_one_segment_only])
def input_of_one_segment_by_multiplying(first, second, begin, separate):
    tokens, segments = segment_input(first, second, begin, separate)
    return tokens, segments * 0


@stranger(makes=[leaves_the_end_open, counts_segments_from_one])
def input_open_and_from_one(first, second, begin, separate):
    tokens, segments = segment_input(first, second, begin, separate)
    return tokens[:-1], segments[:-1] + 1


def _call(draw: Draw, n_first: int, n_second: int | None) -> Call:
    """Sentences of these lengths, and two marks that do not occur in them."""
    begin, separate = (draw.uniform(6).argsort()[:2]).tolist()
    sentences = (None if n is None else draw.integers(6, 90, n) for n in (n_first, n_second))
    return *sentences, begin, separate


def _marked(draw: Draw, n_first: int, n_second: int | None) -> Call:
    """Sentences that hold the two marks as tokens of their own."""
    first, second, begin, separate = _call(draw, n_first, n_second)
    first[1], first[-1] = separate, begin
    if second is not None:
        second[0], second[-2] = separate, begin
    return first, second, begin, separate


def _pairs(draw: Draw) -> list[Call]:
    n, m, *_ = draw.sizes(6)
    return [_call(draw, 1, 2), _call(draw, n, m)]


def _lone(draw: Draw) -> list[Call]:
    return [_call(draw, 1, None), _call(draw, draw.sizes(1)[0], None)]


def _same_tokens(expected: Outcome, got: Outcome, but_marks: bool = False) -> Failure | None:
    """Hold where the tokens are right, whatever the segments are; `but_marks` looks at the tokens alone."""
    if (failure := runs(expected, got)) is not None:
        return failure
    want, have = (next(tensors_in(o.results), torch.empty(0)).flatten().tolist() for o in (expected, got))
    marks = (want[0], want[-1]) if but_marks else ()
    same = [token for token in want if token not in marks] == [token for token in have if token not in marks]
    return None if same else Failure("tokens is wrong.")


exercise = Exercise(
    id="08.4",
    title="The input of BERT: one sentence or two",
    extra=True,
    reference=segment_input,
    properties=(
        runs_on(lambda draw: [*_lone(draw), *_pairs(draw)]),
        has_shape("Tokens and segments: integers, of the same length.", _pairs),
        Property("content", "All tokens of both, in order.", _pairs, partial(_same_tokens, but_marks=True), needs=("runs",)),
        Property("tokens", "[CLS] first [SEP] second [SEP].", _pairs, _same_tokens, 2, needs=("content",)),
        Property("segments", "0 from [CLS] to the first [SEP], 1 after it to the end.", _pairs, right_result(1), points=4),
        Property("alone", "A single sentence: [CLS] first [SEP], all of segment 0.", _lone, points=2, needs=("runs",)),
        Property(
            "special tokens",
            "The tokens [CLS] and [SEP] may occur inside the sentences too.",
            lambda draw: [_marked(draw, 3, 2), _marked(draw, 5, None), _marked(draw, 5, 7)],
            needs=("tokens", "segments"),
        ),
        Property(
            "empty",
            "An empty second sentence still has its [SEP].",
            lambda draw: [_call(draw, 0, None), _call(draw, 2, 0), _call(draw, 0, 3), _call(draw, 0, 0)],
            needs=("tokens", "segments", "alone"),
        ),
        leaves_inputs(lambda draw: [*_lone(draw), *_pairs(draw)], needs=("content",)),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only the kind and the length of these tensors are read, and `is` has no direction.": (
            "swap sides: if None is second:",
            "negate: torch.zeros_like(~tokens)",
            "negate: (~first).new_tensor",
            "negate: (~first).new_tensor (2)",
            "negate: torch.ones_like(~rest)",
        ),
    },
    hints=HINTS,
)
