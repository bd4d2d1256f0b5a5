"""Exercise 04.3, padding_mask: what students answer, wrong and right."""

import torch
from einops import rearrange, repeat

from course_lib.primitives import padding_mask
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Take a sequence of 2 real tokens in a padded length of 4 and write its row of True and False by hand. Which "
        "positions are real, counting from 0? What is the row of a sequence of 0 tokens?"
    ),
    (
        "Number the T_k positions and compare them with each sequence's own length; broadcasting makes all rows at once "
        "if the lengths are a column. Then count the axes: scores are (B, T_q, T_k), and your comparison has two."
    ),
    (
        "An `arange` over T_k, on the device of `lengths`, is smaller than a (B, 1) column of lengths just where a token "
        "is real: that is (B, T_k). Put an axis of size 1 between the two, so that every query gets the same row."
    ),
)


@wrong.detail
def counts_one_too_many(lengths, T_k):
    """You allow one padding token: positions are counted from 0, so the position that equals the length is already the
    first one of the padding."""
    return (torch.arange(T_k, device=lengths.device) <= lengths[:, None])[:, None, :]


@wrong.detail
def drops_the_last_token(lengths, T_k):
    """You count the positions from 1 but compare as if they began at 0: the last real token of each sequence is
    hidden."""
    return (torch.arange(1, T_k + 1, device=lengths.device) < lengths[:, None])[:, None, :]


@wrong.idea
def marks_the_padding(lengths, T_k):
    """Your True marks the padding, as in torch's `key_padding_mask`. In this course True = may attend, so it belongs to the
    real tokens."""
    return (torch.arange(T_k, device=lengths.device) >= lengths[:, None])[:, None, :]


@wrong.part
def pads_on_the_left(lengths, T_k):
    """You take the last tokens of each row for the real ones. The padding follows the sequence, so the real tokens come
    first."""
    return (torch.arange(T_k, device=lengths.device) >= T_k - lengths[:, None])[:, None, :]


@wrong.detail
def forgets_the_query_axis(lengths, T_k):
    """Your mask is (B, T_k). Against scores (B, T_q, T_k), its rows are taken for queries instead of sequences; it
    needs an axis for the queries in the middle."""
    return torch.arange(T_k, device=lengths.device) < lengths[:, None]


@wrong.idea
def masks_the_queries(lengths, T_k):
    """Your mask is (B, T_k, 1): it masks the padded *queries* and allows the padding among the keys. The mask is over keys,
    the last axis."""
    return (torch.arange(T_k, device=lengths.device) < lengths[:, None])[:, :, None]


@wrong.part
def hides_the_padded_queries_too(lengths, T_k):
    """You also forbid every key to the padded queries. The mask is over keys only: the number of queries may differ, and
    every query may attend to the real tokens."""
    real = torch.arange(T_k, device=lengths.device) < lengths[:, None]
    return real[:, :, None] & real[:, None, :]


@wrong.case
def adds_a_head_axis(lengths, T_k):
    """Your mask is (B, 1, 1, T_k), with an axis for heads. It must broadcast to scores (B, T_q, T_k), and multi-head
    attention adds the head axis by itself."""
    return (torch.arange(T_k, device=lengths.device) < lengths[:, None])[:, None, None, :]


@wrong.case
def returns_ones_and_zeros(lengths, T_k):
    """Your mask holds the numbers 1 and 0. It must be bool: only then do `~` and `&` mean "not" and "and", and it can
    be joined to a causal mask."""
    return (torch.arange(T_k, device=lengths.device) < lengths[:, None])[:, None, :].float()


@wrong.case
def stops_at_the_longest_sequence(lengths, T_k):
    """Your mask ends at the longest sequence of the batch. The keys are padded to T_k, which may be longer, and the
    mask needs a column for each of them."""
    return (torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None])[:, None, :]


@wrong.case
def lets_an_empty_sequence_see_one_token(lengths, T_k):
    """You treat an empty sequence as if it had one token, perhaps to keep the softmax from an empty row. A length of 0
    means that nothing is real; `attend` gives weights of 0 to a row in which every key is forbidden."""
    return (torch.arange(T_k, device=lengths.device) < lengths.clamp(min=1)[:, None])[:, None, :]


@wrong.idea
def allows_everything(lengths, T_k):
    """Your mask allows every position, padding included: it must be False from lengths[b] on."""
    return torch.ones(len(lengths), 1, T_k, dtype=torch.bool)


@wrong.detail
def compares_without_the_axes_of_the_lengths(lengths, T_k):
    """You compare positions (…, T_k) with lengths (B,) as they are: the batch meets the keys. Give the lengths two axes of
    size 1, (B, 1, 1)."""
    return torch.arange(T_k, device=lengths.device).expand(len(lengths), 1, T_k) < lengths


@wrong.detail
def returns_minus_infinity_for_padding(lengths, T_k):
    """You return numbers to be added to scores, 0 and -inf. A mask of this course is bool, True where attention is allowed."""
    return torch.zeros(len(lengths), 1, T_k, device=lengths.device).masked_fill(~padding_mask(lengths, T_k), -torch.inf)


@right
def sequence_by_sequence(lengths, T_k):
    """A mask of False, in which a loop over the batch opens the first tokens of each sequence."""
    mask = torch.zeros(lengths.shape[0], 1, T_k, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        mask[b, :, :length] = True
    return mask


@right
def as_rows_of_a_triangle(lengths, T_k):
    """The row for each possible length looked up in one strictly lower triangle."""
    rows = torch.ones(T_k + 1, T_k, device=lengths.device).tril(-1).bool()
    return rows[lengths.long()].unsqueeze(1)


@right
def on_a_whole_grid(lengths, T_k):
    """Positions and lengths both spread over (B, 1, T_k) by einops, then compared entry by entry."""
    position = repeat(torch.arange(T_k, device=lengths.device), "T_k -> B 1 T_k", B=len(lengths))
    return torch.lt(position, rearrange(lengths, "B -> B 1 1"))


@right
def by_the_tokens_left(lengths, T_k):
    """How many tokens are left at each position, cut off below 0, and read as bool."""
    left = lengths.view(-1, 1, 1) - torch.arange(T_k, device=lengths.device).view(1, 1, -1)
    return left.clamp(min=0).to(torch.bool)


@stranger
def padding_takes_the_longest_for_all(lengths, T_k):
    return (torch.arange(T_k) < lengths.max()).expand(len(lengths), 1, T_k)


@stranger
def padding_sorts_the_sentences(lengths, T_k):
    return (torch.arange(T_k) < lengths.sort().values[:, None])[:, None, :]


@stranger
def padding_writes_every_query_out(lengths, T_k):
    return (torch.arange(T_k) < lengths[:, None])[:, None, :].expand(-1, T_k, -1)


@stranger
def padding_counts_the_lengths_down(lengths, T_k):
    columns = []
    for _ in range(T_k):
        columns.append(lengths > 0)
        lengths -= 1
    return torch.stack(columns, -1)[:, None]


@stranger(makes=[marks_the_padding])
def padding_in_loops_inverted(lengths, T_k):
    return torch.tensor([[[j >= int(n) for j in range(T_k)]] for n in lengths])


@stranger(makes=[marks_the_padding, returns_ones_and_zeros])
def padded_with_two_mistakes(lengths, T_k):
    return (torch.arange(T_k) >= lengths[:, None]).float()[:, None]


def _lengths(draw: Draw) -> list[Call]:
    """Different lengths, neither rising nor falling over the batch, the longest shorter than the padded length."""
    low, middle, high, more = *sorted(draw.sizes(3)), *draw.sizes(1)
    return [(torch.tensor([middle, high, low]), high + more), (draw.integers(1, 6, 4), 9)]


exercise = Exercise(
    id="04.3",
    extra=True,
    title="The padding mask",
    reference=padding_mask,
    properties=(
        runs_on(_lengths),
        has_shape("A bool for each key, with an axis of 1 for the queries.", _lengths),
        Property("real tokens", "Real tokens are True, padding is False.", _lengths, points=2),
        Property("whole", "A sequence that fills its row is all True.", lambda draw: [(torch.tensor([5, 5]), 5)]),
        Property("empty", "An empty sequence is all False.", lambda draw: [(torch.tensor([0, 3]), 3)]),
        leaves_inputs(_lengths),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only the device is read, and the negative lives where the lengths do.": ("negate: (~lengths).device",),
    },
    missed_mutants={
        "Seen only where the lengths live on a GPU; the checks run on the CPU.": (
            "drop keyword: position = torch.arange(T_k)",
        ),
    },
    hints=HINTS,
)
