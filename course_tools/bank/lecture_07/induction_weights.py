"""Exercise 07.8, induction_weights: what students answer, wrong and right."""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_tools.checks.comparisons import Failure, same_shapes
from course_tools.checks.exercise import Answers, Draw, Exercise, Property, has_shape, runs_on
from course_tools.checks.outcome import Outcome

wrong, right, stranger = Answers(), Answers(), Answers()


def induction_weights(n_letters: int) -> tuple[Tensor, Tensor, Tensor]:
    """Set the weights of an induction head by hand.

    The state of a token, (2 · n_letters,), has two halves: its own letter, one-hot, and then the letter before it, one-hot
    (zeros if there is none).

    Args:
        n_letters: size of the alphabet.

    Returns:
        W_Q, W_K, W_V: (2 · n_letters, n_letters) each. With q = x W_Q, k = x W_K and v = x W_V, the score q · k is 1 where the
        letter before the key is the query's own letter, else 0; the value is the key's own letter, one-hot.
    """
    one, none = torch.eye(n_letters), torch.zeros(n_letters, n_letters)
    letter, before = torch.cat([one, none]), torch.cat([none, one])
    return letter, before, letter


HINTS = (
    (
        "Write down the states of A D B A, and multiply the last of them by a matrix whose upper half is the identity and "
        "whose lower half is 0. Which half of the state is left?"
    ),
    (
        "Each of the three matrices keeps one half of the state and drops the other. Ask of each: does the query, the key, the "
        "value need the token's own letter, or the letter before it?"
    ),
    (
        "There are only two different matrices: identity above zeros, and zeros above identity (`torch.cat` of `torch.eye` and "
        "`torch.zeros`). The key keeps the letter before; query and value keep the token's own letter."
    ),
)


def _halves(n):
    """The matrix that keeps the letter of a token, and that which keeps the letter before it."""
    one, none = torch.eye(n), torch.zeros(n, n)
    return torch.cat([one, none]), torch.cat([none, one])


@wrong.idea
def looks_for_itself(n_letters):
    """You compare the query's letter with the key's own letter, as in a look-up. Then the last A attends to the earlier A, and
    the value there is A again; wanted is the token *after* it, which knows A as the letter before."""
    letter, _ = _halves(n_letters)
    return letter, letter, letter


@wrong.idea
def asks_with_the_letter_before(n_letters):
    """You exchanged query and key: yours asks for tokens that *are* the letter before it. The query should ask with its own
    letter, and the key should answer with the letter before it."""
    letter, before = _halves(n_letters)
    return before, letter, letter


@wrong.idea
def looks_for_the_same_neighbour(n_letters):
    """Your query and your key both read the letter before. So a token attends to those that stood after the same letter, itself
    included; the query should ask with its own letter."""
    letter, before = _halves(n_letters)
    return before, before, letter


@wrong.part
def hands_over_the_letter_before(n_letters):
    """Your value is the letter before the key, and that is the letter that was asked for: A, where the answer is D. The value
    should be the key's own letter."""
    letter, before = _halves(n_letters)
    return letter, before, before


@wrong.part
def hands_over_both_letters(n_letters):
    """Your value adds up both halves of the state, so it names two letters. Only the key's own letter is the answer."""
    letter, before = _halves(n_letters)
    return letter, before, letter + before


@wrong.part
def asks_with_both_letters(n_letters):
    """Your query adds up both halves of the state. So it also finds what followed the letter before it; the query should ask
    with its own letter alone."""
    letter, before = _halves(n_letters)
    return letter + before, before, letter


@wrong.part
def answers_with_both_letters(n_letters):
    """Your key adds up both halves of the state. So the query also finds copies of itself; the key should hold the letter
    before it, and nothing else."""
    letter, before = _halves(n_letters)
    return letter, letter + before, letter


@wrong.part
def lets_every_letter_match(n_letters):
    """You fill a half with ones. Then every letter gives the same vector, and every query matches every key that has a letter
    before it. The half must be the identity, so that a one-hot letter stays one-hot."""
    ones, none = torch.ones(n_letters, n_letters), torch.zeros(n_letters, n_letters)
    return torch.cat([ones, none]), torch.cat([none, ones]), torch.cat([ones, none])


@wrong.detail
def stores_them_as_a_linear_layer(n_letters):
    """Your matrices have n_letters rows and 2 · n_letters columns, as `nn.Linear` stores them. Here the state is multiplied
    from the left, x W, so that a matrix has a row for each number of the state."""
    letter, before = _halves(n_letters)
    return letter.mT, before.mT, letter.mT


@wrong.part
def keeps_the_whole_state(n_letters):
    """Your matrices are square and pass on the whole state, both halves. Each of them should keep one half and drop the
    other."""
    n = 2 * n_letters
    return torch.eye(n), torch.roll(torch.eye(n), n_letters, 0), torch.eye(n)


@wrong.detail
def alternates_the_halves(n_letters):
    """You read the state as if the two letters alternated, number by number. It holds its own letter first, n_letters numbers,
    and then the letter before it."""
    both = torch.eye(2 * n_letters)
    return both[:, 0::2], both[:, 1::2], both[:, 0::2]


@wrong.case
def knows_eight_letters(n_letters):
    """Your matrices are those of eight letters, whatever `n_letters` is."""
    return induction_weights(8)


@wrong.detail
def puts_beta_into_the_weights(n_letters):
    """You put the β of the example into a matrix. The score should be 1 where the letters match; the head multiplies it by β
    afterwards."""
    letter, before = _halves(n_letters)
    return 5 * letter, before, letter


@right
def by_halves_of_the_identity(n_letters):
    """The first and the last columns of a large identity."""
    letter, before = torch.eye(2 * n_letters).chunk(2, dim=1)
    return letter, before, letter


@right
def entry_by_entry(n_letters):
    """Zeros, and a one for each letter."""
    W_Q, W_K, W_V = (torch.zeros(2 * n_letters, n_letters) for _ in range(3))
    for letter in range(n_letters):
        W_Q[letter, letter] = W_V[letter, letter] = 1
        W_K[n_letters + letter, letter] = 1
    return W_Q, W_K, W_V


@right
def with_the_letters_in_another_order(n_letters):
    """Query and key name the letters by other features, both by the same ones: the scores do not change."""
    letter, before = F.pad(torch.eye(n_letters), (0, 0, 0, n_letters)), F.pad(torch.eye(n_letters), (0, 0, n_letters, 0))
    return letter.flip(1), before.flip(1), letter


@stranger
def weights_at_random(n_letters):
    return tuple(torch.linspace(-1, 1, 2 * n_letters * n_letters).view(2 * n_letters, n_letters) for _ in range(3))


@stranger
def weights_that_find_the_next_letter(n_letters):
    letter, before = _halves(n_letters)
    return letter, before.roll(1, 1), letter


@stranger
def weights_that_flip_the_value(n_letters):
    letter, before = _halves(n_letters)
    return letter, before, -letter


@stranger
def weights_of_a_mean(n_letters):
    letter, before = _halves(n_letters)
    return letter, before / n_letters, letter


@stranger(makes=[looks_for_itself, hands_over_the_letter_before])
def weights_that_find_themselves_and_look_back(n_letters):
    letter, before = _halves(n_letters)
    return letter, letter, before


def _match(expected: Outcome, got: Outcome) -> Failure | None:
    """Hold where the scores of all pairs of states are right, whatever the features of queries and keys mean."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    (q, k, _), (W_Q, W_K, _) = expected.results, got.results
    wanted, scores = q @ k.mT, W_Q.to(q) @ W_K.to(k).mT
    if torch.allclose(wanted, scores, atol=1e-4):
        return None
    n = len(q) // 2
    places = divmod(int((wanted - scores).abs().argmax()), 2 * n)
    query, key = (("the letter before is", "it is")[place < n] + f" letter {place % n}" for place in places)
    has, should = scores[places], wanted[places]
    return Failure(
        "The scores are wrong.", f"Query of which {query}, key of which {key}: the score gets {has:g}, not {should:g}."
    )


def _hand_over(expected: Outcome, got: Outcome) -> Failure | None:
    """Hold where the values are right."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    wanted, W_V = expected.results[2], got.results[2].to(expected.results[2])
    return (
        None
        if torch.allclose(wanted, W_V, atol=1e-4)
        else Failure("The values are wrong.", "W_V does not give the key's own letter.")
    )


def _sizes(draw: Draw) -> list[tuple[int]]:
    return [(n,) for n in draw.sizes(3)]


exercise = Exercise(
    id="07.8",
    title="An induction head by hand",
    reference=induction_weights,
    properties=(
        runs_on(lambda draw: [(4,)]),
        has_shape("Three matrices, each from a state of 2 · n_letters numbers to n_letters.", lambda draw: [(4,)]),
        Property(
            "scores",
            "A query matches exactly the keys that have its own letter before them.",
            lambda draw: [(4,)],
            _match,
            points=3,
        ),
        Property("values", "The value is the key's own letter, one-hot.", lambda draw: [(4,)], _hand_over, points=2),
        Property("sizes", "So it is for alphabets of other sizes.", _sizes, _match, points=2, needs=("scores",)),
        Property("values of all sizes", "Values, too.", _sizes, _hand_over, needs=("values",)),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
    results=("W_Q", "W_K", "W_V"),
)
