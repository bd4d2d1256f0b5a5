"""Exercise 08.5, nsp_pairs: what students answer, wrong and right."""

import torch

from course_lib.losses import SentencePairs, nsp_pairs
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Take the documents (7, 7, 7, 4, 9, 9) and write down which sentences have a next sentence in their document. For "
        "the pair that begins with sentence 4, which sentences may be drawn as a negative, and which of them is number 3?"
    ),
    (
        "First compute all `first`: their number tells how many coins and picks are used. A document with `own` of the n "
        "sentences has M = n - own negatives. One that stands before the document has its index as its number; what number has "
        "one that stands after it?"
    ),
    (
        "Of M negatives, the one drawn is number pick · M, rounded down and at most M - 1. Sentences that stand "
        "before the document have their index as number. For those after it, the whole document is left out of the "
        "counting: from its start on, add `own` to the number."
    ),
)


def _number(pick, M):
    """⌊pick · M⌋, at most M - 1."""
    return min(int(pick * M), M - 1)


def _others(document, i):
    """The sentences of the other documents."""
    return (document != document[i]).nonzero()[:, 0].tolist()


def _pairs(document, coins, picks, stranger, follows=None, first=None):
    """True pairs where `follows` says so, else with the sentence that `stranger(i, pick)` finds."""
    first = (document[1:] == document[:-1]).nonzero()[:, 0] if first is None else first
    follows = coins < 0.5 if follows is None else follows
    found = [stranger(i, pick) for i, pick in zip(first.tolist(), picks.tolist(), strict=True)]
    return SentencePairs(first, torch.where(follows, first + 1, torch.tensor(found, dtype=torch.long)), follows)


def _right(document, rounded=int):
    """Finds the stranger of a pair as it should be."""

    def stranger(i, pick):
        others = _others(document, i)
        return others[min(rounded(pick * len(others)), len(others) - 1)]

    return stranger


@wrong.part
def takes_strangers_from_the_whole_text(document, coins, picks):
    """You draw the negative from all sentences. It may then come from the same document, or even be the next sentence."""
    return _pairs(document, coins, picks, lambda i, pick: _number(pick, len(document)))


@wrong.part
def takes_the_number_for_the_index(document, coins, picks):
    """You count M negatives correctly and then use the number as an index into the text. From the pair's own document on,
    the two differ: its sentences must be skipped."""
    return _pairs(document, coins, picks, lambda i, pick: _number(pick, len(_others(document, i))))


@wrong.part
def always_steps_over_the_document(document, coins, picks):
    """You add the size of the own document to every number. Only the sentences after the document are shifted by that much;
    those before it are not, and yours never draws them."""

    def stranger(i, pick):
        M = len(_others(document, i))
        return _number(pick, M) + len(document) - M

    return _pairs(document, coins, picks, stranger)


@wrong.idea
def pairs_across_documents(document, coins, picks):
    """You begin a pair with every sentence from the start on, one for each coin. The last sentence of a document begins no
    pair; yours pairs it with the next document, and the pairs at the end are missing."""
    return _pairs(document, coins, picks, _right(document), first=torch.arange(len(coins)))


@wrong.detail
def turns_the_coin_round(document, coins, picks):
    """You take the next sentence where the coin is ½ or more. The pair is a true one where the coin is below ½."""
    return _pairs(document, coins, picks, _right(document), coins >= 0.5)


@wrong.detail
def names_the_false_pairs(document, coins, picks):
    """You make the right pairs and return True for the negatives. `follows` is True where the second sentence follows the
    first."""
    pairs = _pairs(document, coins, picks, _right(document))
    return pairs._replace(follows=~pairs.follows)


@wrong.idea
def makes_true_pairs_only(document, coins, picks):
    """You pair every sentence with the next one and never use the coins: there are no negatives."""
    return _pairs(document, coins, picks, lambda i, pick: i + 1)


@wrong.detail
def rounds_to_the_nearest(document, coins, picks):
    """You round pick · M to the nearest number. The first negative then has half the probability of the others; ⌊ ⌋ rounds
    down."""
    return _pairs(document, coins, picks, _right(document, round))


@wrong.case
def runs_past_the_last_stranger(document, coins, picks):
    """You take ⌊pick · M⌋ as it is. Where pick is 1 this is M, and the last negative is number M - 1."""
    return _pairs(document, coins, picks, lambda i, pick: _others(document, i)[int(pick * len(_others(document, i)))])


@wrong.part
def exchanges_the_first_sentence(document, coins, picks):
    """You replace the first sentence by the negative. The first one stays; the second is replaced."""
    first, stranger, _ = _pairs(document, coins, picks, _right(document), coins < 0)
    return SentencePairs(torch.where(coins < 0.5, first, stranger), first + 1, coins < 0.5)


@wrong.detail
def avoids_only_the_true_pair(document, coins, picks):
    """You draw the negative from all sentences but the two of the true pair. It may then come from the same document; take
    the sentences of all other documents."""

    def stranger(i, pick):
        others = [j for j in range(len(document)) if j not in (i, i + 1)]
        return others[_number(pick, len(others))]

    return _pairs(document, coins, picks, stranger)


@wrong.detail
def scales_by_one_less(document, coins, picks):
    """You compute ⌊pick · (M - 1)⌋, so that the last of the M sentences is drawn only where pick is exactly 1. The number is
    ⌊pick · M⌋."""

    def stranger(i, pick):
        others = _others(document, i)
        return others[int(pick * (len(others) - 1))]

    return _pairs(document, coins, picks, stranger)


@wrong.detail
def tosses_the_coin_of_the_sentence(document, coins, picks):
    """You take the coin with the number of the sentence. Coins are counted in pairs, and the last sentence of a document has
    none."""
    first = (document[1:] == document[:-1]).nonzero()[:, 0]
    return _pairs(document, coins, picks, _right(document), follows=coins[first % len(coins)] < 0.5)


@wrong.detail
def steps_over_its_document_too_late(document, coins, picks):
    """You step over the pair's own document where the number is *greater* than its first sentence. Where both are equal you
    draw that sentence: `>=`."""

    def stranger(i, pick):
        own = (document == document[i]).nonzero()[:, 0]
        number = _number(pick, len(document) - len(own))
        return number + len(own) if number > int(own[0]) else number

    return _pairs(document, coins, picks, stranger)


@right
def pair_by_pair(document, coins, picks):
    """Python lists and a list of strangers for each pair."""
    ids, rows = document.tolist(), []
    for i in (i for i in range(len(ids) - 1) if ids[i] == ids[i + 1]):
        others = [j for j, other in enumerate(ids) if other != ids[i]]
        follows = bool(coins[len(rows)] < 0.5)
        rows.append((i, i + 1 if follows else others[min(int(picks[len(rows)] * len(others)), len(others) - 1)], follows))
    first, second, follows = zip(*rows, strict=True) if rows else ((), (), ())
    whole = {"dtype": torch.long}
    return torch.tensor(first, **whole), torch.tensor(second, **whole), torch.tensor(follows, dtype=torch.bool)


@right
def by_a_table_of_strangers(document, coins, picks):
    """A matrix of pairs and sentences, True for strangers; running counts find the one of the wanted number."""
    first = torch.where(document.diff() == 0)[0]
    stranger = document[first][:, None] != document
    M = stranger.sum(1)
    number = (picks * M).floor().long().clamp(max=M - 1)
    wanted = stranger & (stranger.cumsum(1) == number[:, None] + 1)
    true = coins < 0.5
    return SentencePairs(first, torch.where(true, first + 1, wanted.long().argmax(1)), true)


@right
def by_sorting_strangers_first(document, coins, picks):
    """A stable sort that puts the own document last, and a look-up in each row."""
    is_first = torch.cat([document[1:] == document[:-1], torch.zeros(1, dtype=torch.bool)])
    first = torch.arange(len(document))[is_first]
    own = document[first, None] == document[None, :]
    order = own.int().argsort(dim=1, stable=True)
    M = len(document) - own.sum(1)
    number = torch.minimum((picks * M).long(), M - 1)
    second = order.gather(1, number[:, None]).flatten()
    return first, torch.where(coins >= 0.5, second, first + 1), coins < 0.5


@stranger
def pairs_with_one_stranger_for_all(document, coins, picks):
    return nsp_pairs(document, coins, picks[:1].expand_as(picks))


@stranger
def pairs_with_the_next_stranger(document, coins, picks):
    first, second, follows = nsp_pairs(document, coins, picks)
    return first, torch.where(follows, second, (second + 1) % len(document)), follows


@stranger
def pairs_two_apart(document, coins, picks):
    first, second, follows = nsp_pairs(document, coins, picks)
    return first, torch.where(follows, (second + 1) % len(document), second), follows


@stranger(makes=[turns_the_coin_round, names_the_false_pairs])
def pairs_turned_round_twice(document, coins, picks):
    first, second, follows = nsp_pairs(document, torch.where(coins < 0.5, 0.75, 0.25), picks)
    return first, second, ~follows


def _text(draw: Draw, sizes: list[int], coins: str = "?") -> Call:
    """Documents of these sizes, their ids in no order; "t" makes a pair true, "f" gives it a stranger, "?" leaves it to chance.

    No pick lies near an edge at which the number of its stranger changes.
    """
    ids = (draw.uniform(10 * len(sizes)).argsort()[: len(sizes)] - 5).tolist()
    document = torch.tensor([id for id, n in zip(ids, sizes, strict=True) for _ in range(n)])
    own = torch.tensor([n for n in sizes for _ in range(n - 1)])
    low = {"t": 0.0, "f": 0.5, "?": 0.0}[coins]
    high = {"t": 0.5, "f": 1.0, "?": 1.0}[coins]
    M = len(document) - own
    picks = ((draw.uniform(len(own)) * M).floor() + 0.1 + 0.8 * draw.uniform(len(own))) / M
    return document, low + (high - low) * 0.98 * draw.uniform(len(own)), picks


def _texts(draw: Draw, coins: str = "?") -> list[Call]:
    return [_text(draw, [3, 2], coins), _text(draw, [5, 1, 3, 7, 2], coins), _text(draw, [2, 1, 1, 11, 3], coins)]


def _lasts(draw: Draw) -> list[Call]:
    """Every pick is 1: the last stranger, which for the last document stands before it."""
    return [(document, coins, torch.ones_like(picks)) for document, coins, picks in _texts(draw, "f")]


def _coin_at_half(draw: Draw) -> list[Call]:
    document, coins, picks = _text(draw, [3, 5])
    return [(document, torch.full_like(coins, 0.5), picks), (document, torch.zeros_like(coins), picks)]


exercise = Exercise(
    id="08.5",
    title="Pairs for next-sentence prediction",
    extra=True,
    reference=nsp_pairs,
    properties=(
        runs_on(_texts),
        has_shape("One number for each pair: first, second, and whether it follows.", _texts),
        Property(
            "first", "Every sentence with a next sentence in its document begins a pair.", _texts, right_result(0), points=2
        ),
        Property("coin", "A pair is true where its coin is below ½.", _texts, right_result(2)),
        Property(
            "true pairs", "The second of a true pair is the next sentence.", lambda draw: _texts(draw, "t"), needs=("first",)
        ),
        Property(
            "negatives",
            "The second of a false pair is number ⌊pick · M⌋ of the sentences of all other documents.",
            lambda draw: _texts(draw, "f"),
            right_result(1),
            points=3,
            needs=("first",),
        ),
        Property("mixed", "Each pair has its own coin and its own pick.", _texts, needs=("coin", "true pairs", "negatives")),
        Property("last", "Where the pick is 1, the last negative is drawn.", _lasts, needs=("negatives",)),
        Property("half", "A coin of exactly ½ gives a negative.", _coin_at_half, needs=("negatives", "true pairs")),
        Property(
            "lone",
            "A document of one sentence begins no pair, and can be drawn as a negative.",
            lambda draw: [_text(draw, [1, 3, 1, 1], "f"), _text(draw, [1, 1, 1])],
            needs=("negatives",),
        ),
        leaves_inputs(_texts),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "Equality and minimum have no direction; flat tensors have one axis; ids that differ still differ when "
            "their bits are turned."
        ): (
            "swap arguments: number = torch.minimum(M - 1, (picks * M).long())",
            "negate: (~document).unique_consecutive",
            "swap sides: torch.nonzero(document[:-1] == document[1:])",
            "constant: torch.nonzero(document[1:] == document[:-1])[:, -1]",
            "negate: len(~document)",
            "constant: sizes.cumsum(-1)",
        ),
        "M is not read again, and the sentence at which a document starts belongs to it.": (
            "in place: torch.minimum((picks * M).long(), M.sub_(1))",
            "other name: document[start] (2)",
        ),
    },
    hints=HINTS,
)
