"""Exercise 11.8, hiding_mask: what students answer, wrong and right."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()


def hiding_mask(hidden: Int[Tensor, "B"], n_tokens: int) -> Bool[Tensor, "B n n"]:
    """Hide one token of each example from all others.

    Args:
        hidden: the number of the token to hide, one for each example.
        n_tokens: tokens of an example, at least two.

    Returns:
        the mask (B, n_tokens, n_tokens), True where a query (row) may attend to a key (column): all may attend to all, but to
        the hidden token only itself.
    """
    is_hidden = torch.arange(n_tokens, device=hidden.device) == hidden[:, None]  # (B, n)
    return ~is_hidden[:, None] | is_hidden[:, :, None]


HINTS = (
    (
        "Write the mask of one example by hand: three tokens, of which token 1 is hidden. How many entries are False, and in "
        "which row or column do they stand?"
    ),
    (
        "Compare the numbers of all tokens with that of the hidden one: (B, n_tokens). As keys, these bools need an axis for "
        "the queries before them; as queries, an axis for the keys after them."
    ),
    (
        "An entry is True where the key is not the hidden token, or where the query is. The comparison with an axis of size 1 "
        "in the middle is about keys, with one at the end about queries; `|` joins both."
    ),
)


def _is_hidden(hidden, n):
    return torch.arange(n, device=hidden.device) == hidden[:, None]


@wrong.idea
def blinds_the_token(hidden, n_tokens):
    """Your mask keeps the hidden token from seeing the others, and all still see it: you forbid its row. To hide it, forbid its
    column, that of the key."""
    return hiding_mask(hidden, n_tokens).mT


@wrong.detail
def hides_it_from_itself(hidden, n_tokens):
    """You forbid the whole column, and so the hidden token does not see itself either. Leave it the entry of its own row."""
    return (~_is_hidden(hidden, n_tokens)[:, None]).expand(-1, n_tokens, -1)


@wrong.idea
def says_what_is_hidden(hidden, n_tokens):
    """Your True marks what is hidden. In this course True = may attend."""
    return ~hiding_mask(hidden, n_tokens)


@wrong.part
def takes_the_token_out(hidden, n_tokens):
    """You forbid row and column: the hidden token sees no other, and none sees it. It should still see all of them."""
    seen = ~_is_hidden(hidden, n_tokens)
    return (seen[:, None] & seen[:, :, None]) | torch.eye(n_tokens, dtype=torch.bool, device=hidden.device)


@wrong.part
def hides_it_with_its_neighbours(hidden, n_tokens):
    """You forbid all columns from the hidden token on, as a padding mask does. Only one token is to be hidden."""
    later = torch.arange(n_tokens, device=hidden.device) >= hidden[:, None]
    return ~later[:, None] | _is_hidden(hidden, n_tokens)[:, :, None]


@wrong.part
def counts_from_one(hidden, n_tokens):
    """You hide the token after the one that is asked for: tokens are counted from 0, and the class token is the first."""
    return hiding_mask(hidden + 1, n_tokens)


@wrong.part
def hides_the_same_in_all(hidden, n_tokens):
    """You hide the token of the first example in every example. Each has its own."""
    return hiding_mask(hidden[:1].expand(len(hidden)), n_tokens)


@wrong.part
def hides_all_of_them_everywhere(hidden, n_tokens):
    """You write False into the columns of all hidden tokens in every example: `mask[:, :, hidden]` takes the whole batch. Each
    example has one hidden token."""
    mask = torch.ones(len(hidden), n_tokens, n_tokens, dtype=torch.bool, device=hidden.device)
    mask[:, :, hidden] = False
    return mask | _is_hidden(hidden, n_tokens)[:, :, None]


@wrong.part
def hides_and_shows_all_of_them_everywhere(hidden, n_tokens):
    """You hide every example's token in all examples: `mask[:, :, hidden]` and `mask[:, hidden, hidden]` take the whole batch.
    Each example has one hidden token: index the examples too, by `torch.arange(len(hidden))`."""
    mask = torch.ones(len(hidden), n_tokens, n_tokens, dtype=torch.bool, device=hidden.device)
    mask[:, :, hidden] = False
    mask[:, hidden, hidden] = True
    return mask


@wrong.case
def returns_ones_and_zeros(hidden, n_tokens):
    """Your mask holds the numbers 1 and 0. It must be bool, True where attention is allowed."""
    return hiding_mask(hidden, n_tokens).float()


@wrong.detail
def compares_without_the_axis_of_the_batch(hidden, n_tokens):
    """You compare the numbers of the tokens (n_tokens,) with those of the hidden ones (B,): the batch meets the tokens. Give
    `hidden` an axis of size 1 at the end."""
    is_hidden = torch.arange(n_tokens, device=hidden.device) == hidden
    return ~is_hidden[:, None] | is_hidden[:, :, None]


@right
def by_the_numbers_of_both(hidden, n_tokens):
    """The numbers of keys and queries, each compared with the hidden one."""
    token, each = hidden[:, None, None], torch.arange(n_tokens, device=hidden.device)
    return (each != token) | (each[:, None] == token)


@right
def example_by_example(hidden, n_tokens):
    """A loop that closes a column and opens its diagonal entry again."""
    mask = torch.ones(len(hidden), n_tokens, n_tokens, dtype=torch.bool, device=hidden.device)
    for one, token in zip(mask, hidden.tolist(), strict=True):
        one[:, token] = False
        one[token, token] = True
    return mask


@right
def by_scatter(hidden, n_tokens):
    """Columns closed by `scatter`, joined with the identity."""
    n, where = n_tokens, hidden.long()[:, None, None]
    mask = torch.ones(len(hidden), n, n, dtype=torch.bool, device=hidden.device)
    return mask.scatter(2, where.expand(-1, n, 1), False) | torch.eye(n, dtype=torch.bool, device=hidden.device)


@stranger
def hides_the_last(hidden, n_tokens):
    return hiding_mask(torch.full_like(hidden, n_tokens - 1), n_tokens)


@stranger
def hides_it_from_the_first_alone(hidden, n_tokens):
    mask = torch.ones(len(hidden), n_tokens, n_tokens, dtype=torch.bool)
    mask[torch.arange(len(hidden)), 0, hidden] = False
    return mask


@stranger
def hides_what_precedes_it(hidden, n_tokens):
    return hiding_mask(hidden - 1, n_tokens)


@stranger
def hides_nothing(hidden, n_tokens):
    return torch.ones(len(hidden), n_tokens, n_tokens, dtype=torch.bool)


@stranger(makes=[blinds_the_token])
def blinds_by_a_loop(hidden, n_tokens):
    return torch.tensor([[[q != int(h) or k == int(h) for k in range(n_tokens)] for q in range(n_tokens)] for h in hidden])


@stranger(makes=[says_what_is_hidden, returns_ones_and_zeros])
def zeros_and_ones_inverted(hidden, n_tokens):
    return (~hiding_mask(hidden, n_tokens)).float()


def _some(draw: Draw) -> list[Call]:
    """Examples of their own hidden tokens, in no order, neither the first token nor the last."""
    low, middle, high, more = *sorted(draw.sizes(3)), *draw.sizes(1)
    return [(torch.tensor([middle, high, low]), high + 1 + more), (torch.tensor([middle]), high + 1)]


exercise = Exercise(
    id="11.8",
    title="A mask that hides one token",
    reference=hiding_mask,
    properties=(
        runs_on(_some),
        has_shape("A bool for each query and key of each example.", _some),
        Property(
            "others",
            "Of one example: the others do not see the hidden token, and see each other.",
            lambda draw: [(torch.tensor([1]), 3), (torch.tensor([2]), 7)],
            points=2,
        ),
        Property("each", "Each example hides its own token.", _some, points=2, needs=("others",)),
        Property(
            "ends",
            "The first token and the last can be hidden.",
            lambda draw: [(torch.tensor([0, 4]), 5), (torch.tensor([1, 0]), 2)],
            needs=("others",),
        ),
        leaves_inputs(_some),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Both sides of an equality are alike.": (
            "swap sides: is_hidden = hidden[:, None] == torch.arange(n_tokens, device=hidden.device)",
        ),
        "Only the device is read, and the negative lives where the numbers do.": ("negate: (~hidden).device",),
    },
    missed_mutants={
        "Seen only where the numbers live on a GPU; the checks run on the CPU.": (
            "drop keyword: torch.arange(n_tokens) == hidden[:, None]",
        ),
    },
    hints=HINTS,
)
