"""Exercise 03.4, compose_document: what students answer, wrong and right."""

from collections.abc import Callable

import torch

from course_lib.attention import pool
from course_lib.models import PooledDocument, compose_document
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Which vectors does the pooling of the sentences get, and how many are there to a document? A document of two "
        "sentences is padded to five: which of the five may be attended to, and how does the mask show it?"
    ),
    (
        "Pool twice. The first time over the words, with B and S as batch axes: a vector and weights for each sentence. The "
        "second time over these vectors, with the other weights and a mask (B, S) that you make from the mask of the words."
    ),
    (
        "`pool(states, *words, mask)` gives the sentences (B, S, d) and the word weights; a sentence is real where any of its "
        "words is, `mask.any(-1)`. Pool the sentences with `*sentences`, and return vector, sentence weights, word weights."
    ),
)


@wrong.idea
def reads_one_long_sentence(states, mask, words, sentences):
    """You pool all the words of a document at once, as if they were one long sentence. The second query is then never used,
    and the hierarchy is lost."""
    vector, weights = pool(states.flatten(1, 2), *words, mask.flatten(1))
    weights = weights.unflatten(1, mask.shape[1:])
    return PooledDocument(vector, weights.sum(-1), weights)


@wrong.part
def normalises_words_over_the_document(states, mask, words, sentences):
    """You normalise the weights of the words over the whole document. Your sentence vectors are then too small; the weights of
    the words of *each* sentence must sum to 1."""
    _, weights = pool(states.flatten(1, 2), *words, mask.flatten(1))
    weights = weights.unflatten(1, mask.shape[1:])
    vector, sentence_weights = pool((weights[..., None] * states).sum(2), *sentences, mask.any(-1))
    return PooledDocument(vector, sentence_weights, weights)


@wrong.detail
def exchanges_the_queries(states, mask, words, sentences):
    """You pool the words by the query for sentences, and the sentences by the query for words. They have the same sizes, so
    there is no error, but each was learned for the other level."""
    of_sentences, word_weights = pool(states, *sentences, mask)
    vector, sentence_weights = pool(of_sentences, *words, mask.any(-1))
    return PooledDocument(vector, sentence_weights, word_weights)


@wrong.part
def asks_the_same_twice(states, mask, words, sentences):
    """You pool with the weights for words at both levels. The sentences have their own W, b and u, which you never use."""
    of_sentences, word_weights = pool(states, *words, mask)
    vector, sentence_weights = pool(of_sentences, *words, mask.any(-1))
    return PooledDocument(vector, sentence_weights, word_weights)


@wrong.case
def weighs_empty_sentences(states, mask, words, sentences):
    """You pool the sentences without a mask. The empty ones that pad a short document are vectors of zeros, but they get
    weight, and the real ones get less."""
    of_sentences, word_weights = pool(states, *words, mask)
    vector, sentence_weights = pool(of_sentences, *sentences)
    return PooledDocument(vector, sentence_weights, word_weights)


@wrong.detail
def inverts_the_mask(states, mask, words, sentences):
    """You read True in the mask as padding. In this course True marks a real word: you pool the padding of each sentence, and
    leave out its words."""
    of_sentences, word_weights = pool(states, *words, ~mask)
    vector, sentence_weights = pool(of_sentences, *sentences, (~mask).any(-1))
    return PooledDocument(vector, sentence_weights, word_weights)


@wrong.detail
def wants_full_sentences(states, mask, words, sentences):
    """You count a sentence as real only where *all* of its positions hold a word. Any shorter sentence is then left out; a
    sentence is real if it has at least one word."""
    of_sentences, word_weights = pool(states, *words, mask)
    vector, sentence_weights = pool(of_sentences, *sentences, mask.all(-1))
    return PooledDocument(vector, sentence_weights, word_weights)


@wrong.part
def reads_the_padding(states, mask, words, sentences):
    """You use the mask for the sentences and not for the words. The padding after a short sentence then gets weight in the
    sentence's vector."""
    of_sentences, word_weights = pool(states, *words)
    vector, sentence_weights = pool(of_sentences, *sentences, mask.any(-1))
    return PooledDocument(vector, sentence_weights, word_weights)


@wrong.idea
def takes_the_mean_of_the_words(states, mask, words, sentences):
    """You take the plain mean of the words of each sentence, and attend only to sentences. Pool the words by their query
    too."""
    word_weights = mask / mask.sum(-1, keepdim=True).clamp(min=1)
    vector, sentence_weights = pool((word_weights[..., None] * states).sum(2), *sentences, mask.any(-1))
    return PooledDocument(vector, sentence_weights, word_weights)


@wrong.idea
def takes_the_mean_of_the_sentences(states, mask, words, sentences):
    """You attend to the words and then take the plain mean of the real sentences. Each sentence then has the same weight; pool
    the sentences by their query too."""
    of_sentences, word_weights = pool(states, *words, mask)
    real = mask.any(-1)
    weights = real / real.sum(-1, keepdim=True).clamp(min=1)
    return PooledDocument((weights[..., None] * of_sentences).sum(1), weights, word_weights)


@wrong.detail
def multiplies_the_weights(states, mask, words, sentences):
    """You return the product of both weights for the words. That is the weight of a word in the whole document; asked for is
    its weight within its sentence, where the weights sum to 1."""
    of_sentences, word_weights = pool(states, *words, mask)
    vector, sentence_weights = pool(of_sentences, *sentences, mask.any(-1))
    return PooledDocument(vector, sentence_weights, sentence_weights[..., None] * word_weights)


@wrong.case
def returns_words_before_sentences(states, mask, words, sentences):
    """You return the weights of the words second and those of the sentences third, in the order of computation. Asked for is
    the vector, then the sentences (B, S), then the words (B, S, T)."""
    of_sentences, word_weights = pool(states, *words, mask)
    vector, sentence_weights = pool(of_sentences, *sentences, mask.any(-1))
    return vector, word_weights, sentence_weights


@wrong.detail
def flattens_the_sentences_but_not_the_mask(states, mask, words, sentences):
    """You join documents and sentences in one axis, but not those of the mask, (B, S, T). Flatten both, or neither: `pool`
    takes any number of batch axes."""
    vectors, of_words = pool(states.flatten(0, 1), *words, mask)
    return *pool(vectors.unflatten(0, mask.shape[:2]), *sentences, mask.any(-1)), of_words


@right
def document_by_document(states, mask, words, sentences):
    """A loop over the documents and one over their sentences; what has no word is left out and stays 0."""
    vectors, of_sentences, of_words = [], [], []
    for text, real in zip(states, mask, strict=True):
        pairs = [pool(sentence[kept], *words) for sentence, kept in zip(text, real, strict=True)]
        some = real.sum(-1) > 0
        vector, chosen = pool(torch.stack([pair.context for pair in pairs])[some], *sentences)
        vectors.append(vector)
        of_sentences.append(text.new_zeros(len(text)).masked_scatter(some, chosen))
        of_words.append(text.new_zeros(real.shape).masked_scatter(real, torch.cat([pair.weights for pair in pairs])))
    return PooledDocument(torch.stack(vectors), torch.stack(of_sentences), torch.stack(of_words))


@right
def by_the_shares_of_the_words(states, mask, words, sentences):
    """The vector as one sum over all the words, each by the product of its weight and its sentence's; the pooling by the
    library, with all sentences of the batch in one row."""
    of_sentences, inner = pool(states.flatten(0, 1), *words, mask.flatten(0, 1))
    inner = inner.view(mask.shape)
    counts = mask.long().sum(-1)
    outer = pool(of_sentences.view(*mask.shape[:2], -1), *sentences, counts.ne(0)).weights
    return torch.einsum("bs,bst,bstd->bd", outer, inner, states), outer, inner


@right
def written_out_in_double_precision(states, mask, words, sentences):
    """One function for both levels that uses nothing of the library, in float64: exponentials, and 0 divided by 1."""

    def level(values, W, b, u, real):
        scores = torch.einsum("...a,a->...", torch.tanh(values @ W.double().T + b.double()), u.double())
        shares = torch.exp(scores - scores.detach().amax(-1, keepdim=True)) * real
        total = shares.sum(-1, keepdim=True)
        weights = shares / (total + (total == 0))
        return torch.einsum("...t,...td->...d", weights, values), weights

    of_sentences, inner = level(states.double(), *words, mask)
    vector, outer = level(of_sentences, *sentences, torch.amax(mask, dim=-1))
    return tuple(result.to(states.dtype) for result in (vector, outer, inner))


@stranger
def document_of_doubled_words(states, mask, words, sentences):
    return compose_document(2 * states, mask, words, sentences)


@stranger
def document_of_the_last_sentence(states, mask, words, sentences):
    _, of_sentences, of_words = compose_document(states, mask, words, sentences)
    return pool(states[:, -1], *words, mask[:, -1]).context, of_sentences, of_words


@stranger
def document_without_gradient(states, mask, words, sentences):
    return compose_document(states.detach(), mask, words, sentences)


@stranger(makes=[asks_the_same_twice, weighs_empty_sentences])
def document_with_one_query_and_no_mask_of_sentences(states, mask, words, sentences):
    of_sentences, of_words = pool(states, *words, mask)
    vector, weights = pool(of_sentences, *words)
    return vector, weights, of_words


def _level(draw: Draw, d: int, d_a: int, asks: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return draw.normal(d_a, d), draw.normal(d_a), draw.normal(d_a, scale=asks)


def _documents(draw: Draw, B: int, *, full: bool = False, words: float = 1.0, sentences: float = 1.0, spare: int = 0) -> Call:
    """Documents of sentences of different lengths, or `full`; after each stand `spare` sentences without a word."""
    S, T, d, d_a = (size + 1 for size in draw.sizes(4))
    lengths = torch.full((B, S), T) if full else draw.integers(1, T + 1, B, S)
    lengths[:, 0] = T if full else T - 1
    lengths = torch.cat([lengths, torch.zeros(B, spare, dtype=torch.long)], dim=1)
    mask = torch.arange(T) < lengths[..., None]
    states = 1.0 + draw.normal(*mask.shape, d)
    return states, mask, _level(draw, d, d_a, words), _level(draw, d, d_a, sentences)


def _texts(*B: int, **how: object) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_documents(draw, b, **how) for b in B]


def _empty(draw: Draw) -> list[Call]:
    """One document of the batch has no sentence at all."""
    states, mask, *levels = _documents(draw, 3)
    mask[1] = False
    return [(states, mask, *levels)]


def _padded(draw: Draw) -> list[Call]:
    """Empty sentences after the last; one real sentence has words of zeros, and is a sentence all the same."""
    calls = _texts(1, 2, spare=2)(draw)
    calls[1][0][0, 0] = 0.0
    return calls


exercise = Exercise(
    id="03.4",
    title="Hierarchical attention: words, sentences, a document",
    extra=True,
    reference=compose_document,
    properties=(
        runs_on(_texts(2)),
        has_shape("A vector, weights of the sentences, weights of the words.", _texts(2, 1)),
        Property(
            "means",
            "Queries of 0: the mean of the sentences, each the mean of its words.",
            _texts(1, full=True, words=0.0, sentences=0.0),
        ),
        Property(
            "words",
            "The weights of the words of each sentence sum to 1, by the query for words.",
            _texts(1, full=True),
            right_result(2),
            points=2,
            needs=("means",),
        ),
        Property(
            "sentences",
            "The weights of the sentences sum to 1, by their own query.",
            _texts(1, 1, full=True),
            points=2,
            needs=("words",),
        ),
        Property("short", "Sentences differ in length, and padding has weight 0.", _texts(1, 1), needs=("sentences",)),
        Property("no sentence", "A sentence without a word has weight 0.", _padded, points=2, needs=("short",)),
        Property("no document", "A document without a sentence gives zeros.", _empty, needs=("no sentence",)),
        Property("batch", "Each document is computed independently.", _texts(3, 2), needs=("short",)),
        has_gradient(lambda draw: [*_texts(2)(draw), *_padded(draw), *_empty(draw)], needs=("no document", "batch")),
        leaves_inputs(_texts(2)),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        ("A bool tensor carries no gradient; and the words of a real sentence weigh 1 in all, those of an empty one 0."): (
            "detach: mask.detach().any",
            "detach: pool(states, *words, mask.detach())",
            "other name: word_weights.any",
        ),
    },
    hints=HINTS,
)
