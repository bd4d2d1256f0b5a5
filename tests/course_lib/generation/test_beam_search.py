"""Greedy and beam search, against brute force on a vocabulary so small that every sentence can be tried."""

import itertools

import pytest
import torch

from course_lib.generation import beam_search, extend_beam, greedy, rows_of
from course_lib.models.linear_transformer import LinearMemory

END, PADDING, V, B = 1, 0, 5, 3
WORDS = range(1, V)


def markov(seed=0, order=2):
    """A step whose logits depend on the sentence and on the last `order` words, which are the state; it never generates 0."""
    table = torch.randn(B, *([V] * order), V, generator=torch.Generator().manual_seed(seed)) * 2
    table[..., PADDING] = -torch.inf

    def step(words, state):
        row, past = state
        past = torch.cat([past, words[:, None]], dim=1)
        return table[(row, *past[:, -order:].unbind(1))], (row, past)

    return step, (torch.arange(B), torch.zeros(B, order - 1, dtype=torch.long))


def first():
    return torch.full((B,), 2)


def log_p(step, state, row, sentence):
    """Of one sentence, a word at a time."""
    state, word, total = rows_of(state, torch.tensor([row])), first()[:1], 0.0
    for said in sentence:
        logits, state = step(word, state)
        total += logits.log_softmax(-1)[0, said].item()
        word = torch.tensor([said])
    return total


def every_sentence(longest):
    """All sequences that end, and those of full length that do not."""
    open_words = [w for w in WORDS if w != END]
    for n in range(longest):
        for begin in itertools.product(open_words, repeat=n):
            yield (*begin, END)
    yield from itertools.product(open_words, repeat=longest)


def length_penalty(sentence, alpha):
    return ((5 + len(sentence)) / 6) ** alpha


def without_padding(row):
    return tuple(w for w in row.tolist() if w != PADDING)


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_of_width_1_is_greedy(seed):
    step, state = markov(seed)
    best = greedy(step, state, first(), END, PADDING, max_length=7)
    beam = beam_search(step, state, first(), END, PADDING, max_length=7, width=1)
    assert torch.equal(beam.tokens[:, 0], best)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_that_forgets_nothing_finds_what_brute_force_finds(seed, alpha):
    step, state = markov(seed)
    longest = 3
    sentences = list(every_sentence(longest))
    beam = beam_search(step, state, first(), END, PADDING, longest, width=len(sentences), penalty=alpha)
    for row in range(B):
        scored = {s: log_p(step, state, row, s) / length_penalty(s, alpha) for s in sentences}
        ranking = sorted(sentences, key=scored.get, reverse=True)
        assert [without_padding(line) for line in beam.tokens[row]][: len(ranking)] == ranking
        torch.testing.assert_close(beam.scores[row], torch.tensor([scored[s] for s in ranking]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_a_score_is_the_log_probability_of_its_sentence_best_first(width):
    step, state = markov(9)
    beam = beam_search(step, state, first(), END, PADDING, max_length=6, width=width)
    assert (beam.scores.diff(dim=1) <= 0).all()
    for row in range(B):
        for line, score in zip(beam.tokens[row], beam.scores[row], strict=True):
            assert score.item() == pytest.approx(log_p(step, state, row, without_padding(line)), abs=1e-4)


def test_a_search_extends_its_beam_by_the_function_that_it_is_given():
    step, state = markov(9)
    widths = []

    def extend(log_p, *rest):
        widths.append(log_p.shape[1])
        found = extend_beam(log_p, *rest)
        return found._replace(word=torch.full_like(found.word, END))

    beam = beam_search(step, state, first(), END, PADDING, max_length=6, width=3, extend=extend)
    assert widths == [3]
    assert beam.tokens.unique().tolist() == [END]


def test_a_beam_finds_what_greed_misses():
    """Greedy search takes 0.6 and then at best 0.5: 0.30; the other path has 0.4 · 0.9 = 0.36."""
    table = torch.zeros(4, 4)
    table[2] = torch.tensor([0.0, 0.0, 0.4, 0.6])
    table[3] = torch.tensor([0.0, 0.5, 0.25, 0.25])
    then = torch.tensor([0.0, 0.9, 0.05, 0.05])

    def step(words, said):
        return torch.where(((words == 2) & (said[:, 0] == 1))[:, None], then, table[words]).log(), said + 1

    start = torch.zeros(1, 1, dtype=torch.long)
    begin = torch.tensor([2])
    assert greedy(step, start, begin, END, PADDING, 2).tolist() == [[3, END]]
    beam = beam_search(step, start, begin, END, PADDING, 2, width=2)
    assert beam.tokens[0, 0].tolist() == [2, END]
    torch.testing.assert_close(beam.scores[0].exp(), torch.tensor([0.36, 0.30]))


def test_a_sentence_alone_is_found_as_in_the_batch():
    step, state = markov(2)
    together = beam_search(step, state, first(), END, PADDING, 6, width=3)
    for row in range(B):
        alone = beam_search(step, rows_of(state, torch.tensor([row])), first()[:1], END, PADDING, 6, width=3)
        T = alone.tokens.shape[-1]
        assert torch.equal(alone.tokens[0], together.tokens[row, :, :T])
        assert (together.tokens[row, :, T:] == PADDING).all()
        torch.testing.assert_close(alone.scores[0], together.scores[row])


def test_after_an_end_stands_padding_and_nothing_else_is_padding():
    beam = beam_search(*markov(4), first(), END, PADDING, 8, width=4)
    for line in beam.tokens.flatten(0, 1).tolist():
        said = line.index(END) + 1 if END in line else len(line)
        assert PADDING not in line[:said]
        assert set(line[said:]) <= {PADDING}


def test_greedy_says_the_likeliest_word_and_stops_when_all_have_ended():
    words = torch.tensor([[3, END, 4, 4], [END, 2, 2, 2], [4, 4, END, 3]])

    def step(_, t):
        return torch.nn.functional.one_hot(words.gather(1, t), V)[:, 0].float(), t + 1

    said = greedy(step, torch.zeros(B, 1, dtype=torch.long), first(), END, PADDING, max_length=9)
    assert said.tolist() == [[3, END, PADDING], [END, PADDING, PADDING], [4, 4, END]]


def test_both_stop_at_the_greatest_length():
    def step(words, state):
        return torch.tensor([0.0, 0.0, 1.0, 3.0, 2.0]).expand(len(words), -1), state

    assert greedy(step, None, first(), END, PADDING, 4).tolist() == [[3] * 4] * B
    assert beam_search(step, None, first(), END, PADDING, 4, width=2).tokens.shape == (B, 2, 4)


def test_room_for_more_sentences_than_there_are_stays_empty():
    """Two words, of which one ends: with one step to go there are two sentences."""

    def step(words, state):
        return torch.tensor([-torch.inf, 0.0, 0.0]).expand(len(words), -1), state

    scores = beam_search(step, None, torch.tensor([2]), END, PADDING, 1, width=3).scores
    assert scores[0, 2] == -torch.inf
    torch.testing.assert_close(scores[0, :2].exp(), torch.full((2,), 0.5))


def test_a_beam_is_extended_by_hand():
    """Of a (½) and b (¼): b has ended and stays at ¼; after a, word 2 has ¾ and word 3 has ¼: ⅜, ¼, ⅛ before any penalty.

    With α = 1 a sentence of 7 words divides its log p by 2, one of a single word by 1.
    """
    log_p = torch.tensor([[0.5, 0.25]]).log()
    odds = torch.tensor([[[0.0, 0.0, 0.75, 0.25], [0.0, 1.0, 0.0, 0.0]]])
    going, length = torch.tensor([[True, False]]), torch.tensor([[7.0, 1.0]])
    plain = extend_beam(log_p, odds.log(), going, length, PADDING)
    assert (plain.parent.tolist(), plain.word.tolist()) == ([[0, 1]], [[2, PADDING]])
    torch.testing.assert_close(plain.log_p.exp(), torch.tensor([[0.375, 0.25]]))
    assert plain.scores.equal(plain.log_p)
    longer = extend_beam(log_p, odds.log(), going, length, PADDING, penalty=1.0)
    assert (longer.parent.tolist(), longer.word.tolist()) == ([[0, 0]], [[2, 3]])
    torch.testing.assert_close(longer.log_p.exp(), torch.tensor([[0.375, 0.125]]))
    torch.testing.assert_close(longer.scores, longer.log_p / 2)


def test_rows_are_taken_of_every_tensor_in_a_state():
    rows = torch.tensor([2, 0, 0])
    x = torch.arange(3.0)
    state = ((x, (x[:, None],)), LinearMemory(((x, x + 1),), 7), None)
    taken = rows_of(state, rows)
    assert taken[0][0].tolist() == taken[0][1][0].flatten().tolist() == [2, 0, 0]
    assert isinstance(taken[1], LinearMemory)
    assert taken[1].layers[0][1].tolist() == [3, 1, 1]
    assert taken[1].T == 7
    assert taken[2] is None


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        greedy(*markov(), first(), END, PADDING, 0)
    for wrong in ({"max_length": 0, "width": 1}, {"max_length": 1, "width": 0}):
        with pytest.raises(ValueError, match="max_length ≥ 1 and width ≥ 1"):
            beam_search(*markov(), first(), END, PADDING, **wrong)


def test_lists_in_a_state_are_searched_too():
    tensor = torch.arange(6).view(3, 2)
    state = rows_of({"a": 1}, torch.tensor([2])), rows_of([tensor, (tensor, 5)], torch.tensor([2, 0]))
    assert state[0] == {"a": 1}
    assert isinstance(state[1], list)
    assert state[1][0].tolist() == state[1][1][0].tolist() == [[4, 5], [0, 1]]


@pytest.mark.parametrize("banned", [(torch.nan, 0.0, 0.0), (-torch.inf,) * 3, (0.0, torch.inf, 0.0)])
def test_logits_without_a_distribution_are_refused_at_whatever_step_they_come(banned):
    """The word 1, the second best, is followed by them."""

    def step(words, state):
        return torch.tensor([[0.0, 2.0, 3.0], banned, [0.0, 1.0, 2.0]])[words], state

    with pytest.raises(ValueError, match="the logits define no distribution"):
        beam_search(step, None, torch.tensor([0]), 7, PADDING, 3, width=2)
    with pytest.raises(ValueError, match="the logits define no distribution"):
        greedy(step, None, torch.tensor([1]), 7, PADDING, 3)


@pytest.mark.parametrize("padding", [-1, 3])
def test_padding_that_is_no_token_is_refused(padding):
    with pytest.raises(ValueError, match=f"it is a token, 0 to 2, got {padding}"):
        beam_search(lambda words, state: (torch.zeros(len(words), 3), state), None, torch.tensor([0]), 1, padding, 3, width=2)
