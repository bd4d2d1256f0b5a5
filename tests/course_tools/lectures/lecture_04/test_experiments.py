"""Layers by a function are the library's; readers of tokens learn, and their weights and answers are counted right."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.attention import Attended, multi_head_attention, scaled_dot_product_attention
from course_lib.datasets import lookup, reversal
from course_lib.models.bigru_encoder import bidirectional_gru
from course_lib.primitives import causal_mask
from course_tools.lectures.lecture_04 import experiments
from course_tools.lectures.lecture_04.experiments import (
    BidirectionalGRU,
    MultiHeadByFunction,
    ReaderExperiment,
    SelfAttentionByFunction,
    TokenReader,
    TokenTask,
    attends_correctly,
    best_guess_from_values,
    counting_task,
    fit_token_reader,
    logits_under_mask,
    lookup_experiment,
    lookup_in_words,
    lookup_task,
    loss_on_new,
    mixer_weights,
    only_symbols,
    reversal_experiment,
    reversal_task,
    show_heads,
    show_lookup,
    show_reversal,
    symbol_accuracies,
    token_accuracy,
    two_answers,
)

# Layers of self-attention by a function: they project the same tokens and pass on masks and heads.


B, T, D = 2, 7, 6


def tokens():
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(0))


def test_one_head_projects_the_same_tokens_three_times():
    layer, x = SelfAttentionByFunction(scaled_dot_product_attention, D), tokens()
    q, k, v = (x @ W.weight.mT for W in (layer.W_q, layer.W_k, layer.W_v))
    expected = ((q @ k.mT) / D**0.5).softmax(-1)
    assert_close(layer(x).weights, expected)
    assert_close(layer(x).context, expected @ v)


def test_several_heads_use_all_four_matrices_within_their_bound():
    torch.manual_seed(0)
    layer, x = MultiHeadByFunction(multi_head_attention, D, 3), tokens()
    assert_close(layer(x), multi_head_attention(x, x, x, layer.W_q, layer.W_k, layer.W_v, layer.W_o, 3))
    assert layer(x).weights.shape == (B, 3, T, T)
    assert all(p.abs().max() <= D**-0.5 for p in layer.parameters())
    assert len(list(layer.parameters())) == 4


def test_the_mask_reaches_the_function():
    mask, x = causal_mask(T), tokens()
    for layer in (
        SelfAttentionByFunction(scaled_dot_product_attention, D, mask),
        MultiHeadByFunction(multi_head_attention, D, 2, mask),
    ):
        assert not layer(x).weights.triu(1).any()


def test_results_in_float64_become_those_of_the_tokens():
    def doubled(q, k, v, mask):
        return scaled_dot_product_attention(q.double(), k.double(), v.double(), mask)

    found = SelfAttentionByFunction(doubled, D)(tokens())
    assert isinstance(found, Attended)
    assert (found.context.dtype, found.weights.dtype) == (torch.float32, torch.float32)


# A bidirectional GRU mixes tokens from both sides, as torch's own does with the same weights.


def test_it_is_torchs_bidirectional_layer_with_the_same_weights():
    torch.manual_seed(0)
    layer, of_torch = BidirectionalGRU(5, 3), nn.GRU(5, 3, batch_first=True, bidirectional=True)
    weights = [*layer.forwards.parameters(), *layer.backwards.parameters()]
    for ours, theirs in zip(weights, of_torch.parameters(), strict=True):
        ours.data.copy_(theirs)
    x = torch.randn(2, 7, 5)
    states, last = layer(x)
    wanted, ends = of_torch(x)
    torch.testing.assert_close(states, wanted)
    torch.testing.assert_close(last, torch.cat([*ends], dim=-1))


def test_every_position_depends_on_every_token_and_the_forms_agree():
    torch.manual_seed(0)
    layer, x = BidirectionalGRU(5, 3), torch.randn(1, 7, 5, requires_grad=True)
    states, _ = layer(x)
    for t in range(7):
        (gradient,) = torch.autograd.grad(states[0, t].sum(), x, retain_graph=True)
        assert gradient.abs().sum(-1).min() > 0
    layer.run = bidirectional_gru
    torch.testing.assert_close(layer(x)[0], states)


# A reader of tokens learns the easiest task, and its tasks, weights and masks are those of their descriptions.


class Keep(nn.Module):
    """A mixer that mixes nothing; as a recurrent layer it gives two results."""

    def forward(self, x):
        return x, None


class OneHead(nn.Module):
    """A mixer of attention without matrices, with an axis for its one head."""

    mask = None

    def forward(self, x):
        context, weights = scaled_dot_product_attention(x, x, x, self.mask)
        return Attended(context, weights[:, None])


def copying():
    tokens = torch.randint(0, 5, (64, 7), generator=torch.Generator().manual_seed(0))
    return TokenTask((tokens,), tokens, (tokens,), tokens)


def lookups():
    return lookup(11, 2, 3, T_q=2, T_k=5, n_keys=7, n_values=3, seed=0)


def test_a_token_is_copied_after_a_few_steps():
    model = fit_token_reader(Keep, copying(), seed=0, steps=60, lr=3e-2)
    assert not model.training
    assert token_accuracy(model, copying()) == 1.0
    assert loss_on_new(model, copying()) < 0.5


def test_the_seed_determines_the_model():
    one, two, again = (fit_token_reader(Keep, copying(), seed, steps=2, lr=3e-2).read_out.weight for seed in (0, 1, 0))
    assert one.equal(again)
    assert not one.equal(two)


def test_only_the_last_positions_answer():
    tokens, model = torch.zeros(2, 7, dtype=torch.long), TokenReader(Keep(), [5], 3)
    said = model(tokens)[:, -2:].argmax(-1)
    assert token_accuracy(model, TokenTask((tokens,), said, (tokens,), said)) == 1.0


def test_an_answer_of_two_parts_is_right_where_both_are():
    tokens, model = torch.zeros(1, 3, dtype=torch.long), TokenReader(Keep(), [5], 2 * 3)
    said = model(tokens)[:, -2:].unflatten(-1, (2, 3)).argmax(-1)
    half = said.clone()
    half[0, 0, 1] = (half[0, 0, 1] + 1) % 3
    scores = [token_accuracy(model, TokenTask((tokens,), wanted, (tokens,), wanted)) for wanted in (said, half)]
    assert scores == [1.0, 0.5]
    assert symbol_accuracies(model, TokenTask((tokens,), half, (tokens,), half)) == [1.0, 0.5]


def test_a_row_of_the_look_up_is_its_pairs_and_then_its_questions():
    parts = lookups()
    task = lookup_task(parts, n_values=3)
    keys, values = task.new
    assert keys.shape == values.shape == (3, 5 + 2)
    assert keys[:, :5].equal(parts.test.keys)
    assert keys[:, 5:].equal(parts.test.queries)
    assert (values[:, 5:] == 3).all()
    assert task.new_targets.equal(parts.test.targets)
    pairs, questions = lookup_in_words(parts.test, row=1)
    assert pairs[4] == f"k{keys[1, 4]}=v{values[1, 4]}"
    assert questions == [f"k{key}?" for key in keys[1, 5:]]


def test_the_right_weights_count_as_right():
    task = lookup_task(lookups(), n_values=3)
    weights = torch.zeros(3, 1, 7, 7)
    weights[:, 0, -2:, :5] = task.pattern

    class Known(nn.Module):
        def forward(self, x):
            return Attended(x, weights)

    model = TokenReader(Known(), [7, 4], 3)
    assert attends_correctly(model, task) == 1.0
    weights[0, 0, -1] = weights[0, 0, -1].roll(1)
    assert abs(attends_correctly(model, task) - 5 / 6) < 1e-6


def test_a_text_has_its_positions_and_its_reversal():
    task = reversal_task(reversal(11, 2, 3, T=5, n_symbols=7, seed=0))
    tokens, positions = task.known
    assert positions.tolist() == [[0, 1, 2, 3, 4]] * 11
    assert task.targets.equal(tokens.flip(1))


def test_without_positions_only_the_symbols_are_left():
    task = reversal_task(reversal(11, 2, 3, T=5, n_symbols=7, seed=0))
    without = only_symbols(task)
    assert [part.tolist() for part in (*without.known, *without.new)] == [task.known[0].tolist(), task.new[0].tolist()]
    assert without.targets.equal(task.targets)


def test_counting_goes_up_by_one_as_often_as_it_should():
    task = counting_task(seed=0, T=12, keep=0.75, n_symbols=8)
    assert task.known[0].shape == task.targets.shape == (4_000, 12)
    assert task.known[0][:, 1:].equal(task.targets[:, :-1])
    upwards = (task.targets == (task.known[0] + 1) % 8).float().mean()
    assert abs(upwards - 0.75) < 0.01


def test_a_masked_token_has_no_effect_and_the_mask_is_put_back():
    torch.manual_seed(0)
    tokens, model = torch.tensor([[1, 2, 3]]), TokenReader(OneHead(), [5], 3)
    mask = torch.tensor([True, True, False])
    masked = logits_under_mask(model, (tokens,), mask)
    other = logits_under_mask(model, (torch.tensor([[1, 2, 4]]),), mask)
    torch.testing.assert_close(masked[:, :2], other[:, :2])
    assert not masked[:, :2].allclose(logits_under_mask(model, (tokens,), None)[:, :2])
    assert model.mixer.mask is None


def test_the_mask_is_restored_after_an_error():
    tokens, model = torch.tensor([[1, 2, 3]]), TokenReader(OneHead(), [5], 3)
    with pytest.raises(ValueError, match="does not broadcast"):
        logits_under_mask(model, (tokens,), torch.ones(4, 4, dtype=torch.bool))
    assert model.mixer.mask is None


def test_the_figure_of_a_reversal_counts_the_rows_on_the_anti_diagonal(monkeypatch):
    shown = []
    monkeypatch.setattr(experiments, "show", lambda figure, alt: shown.append((figure, alt)))
    torch.manual_seed(0)
    model, text = TokenReader(OneHead(), [8, 3], 8), [3, 1, 4]
    show_reversal(model, text)
    ((figure, alt),) = shown
    weights = mixer_weights(model, (torch.tensor([text]), torch.tensor([[0, 1, 2]])))[0, 0]
    hits = sum(int(row.argmax()) == 2 - i for i, row in enumerate(weights))
    assert f"the largest weight of a row is there in {hits} of them" in alt
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["3", "1", "4"]
    assert len(figure.axes[0].patches) == 3


def test_two_answers_are_the_opposite_symbol_and_the_one_before():
    task = two_answers(reversal_task(reversal(3, 1, 2, T=5, n_symbols=8, seed=0)))
    tokens = task.new[0]
    assert task.new_targets.shape == (2, 5, 2)
    for i in range(5):
        assert task.new_targets[:, i].tolist() == torch.stack([tokens[:, 4 - i], tokens[:, i - 1]], -1).tolist()
        assert task.pattern[0, i].nonzero().flatten().tolist() == sorted({4 - i, (i - 1) % 5})


def test_the_map_of_a_look_up_outlines_the_pair_of_each_question(monkeypatch):
    shown = []
    monkeypatch.setattr(experiments, "show", lambda figure, alt: shown.append((figure, alt)))
    parts = lookup(5, 1, 3, T_q=2, T_k=4, n_keys=8, n_values=8, seed=0)
    task = lookup_task(parts, 8)
    torch.manual_seed(0)
    show_lookup(TokenReader(OneHead(), [8, 9], 8), task, parts.test)
    ((figure, alt),) = shown
    columns = [round(patch.get_x() + 0.5) for patch in figure.axes[0].patches]
    assert [parts.test.keys[0, column] for column in columns] == parts.test.queries[0].tolist()
    assert "of 2 rows" in alt


def test_the_maps_of_heads_have_the_names_of_their_models(monkeypatch):
    shown = []
    monkeypatch.setattr(experiments, "show", lambda figure, alt: shown.append((figure, alt)))
    task = two_answers(reversal_task(reversal(3, 1, 2, T=5, n_symbols=8, seed=0)))
    torch.manual_seed(0)
    show_heads({"one": TokenReader(OneHead(), [8, 5], 16)}, task)
    ((figure, alt),) = shown
    assert figure.axes[0].get_title() == "one"
    assert len(figure.axes[0].patches) == int(task.pattern[0].sum())
    assert " in one (" in alt


def test_the_best_guess_is_the_most_frequent_value():
    part = lookups().test._replace(values=torch.tensor([[0, 0, 1, 2], [2, 2, 2, 1]]))
    assert best_guess_from_values(part) == (0.5 + 0.75) / 2


# Readers of tokens are trained once for each seed, and measured and drawn by name.


@pytest.fixture
def experiment():
    tokens = torch.randint(0, 5, (64, 7), generator=torch.Generator().manual_seed(0))
    return ReaderExperiment(TokenTask((tokens,), tokens, (tokens,), tokens), (0, 1), n_steps=60)


def test_a_model_is_trained_for_each_seed_and_measured_on_new_texts(experiment):
    readers = experiment.fit(Keep, lr=3e-2)
    assert readers.accuracies == [1.0, 1.0]
    one, two = readers.models
    assert not one.read_out.weight.equal(two.read_out.weight)


def test_the_texts_of_the_look_up_are_those_of_its_task():
    texts, looking_up = lookup_experiment(8, (0,), n_steps=3)
    assert texts.test.keys.shape == (500, 8)
    assert looking_up.task.new[0][:, :8].equal(texts.test.keys)
    assert looking_up.task.known[0].shape == (4_000, 12)


def test_a_reversal_can_lose_its_positions_or_ask_for_two_symbols():
    reversing = reversal_experiment(10, (0, 2), n_steps=3)
    tokens, _ = reversing.task.known
    assert reversing.task.targets.equal(tokens.flip(1))
    without, twice = reversing.without_positions(), reversing.with_two_answers()
    assert (without.seeds, without.n_steps) == (twice.seeds, twice.n_steps) == ((0, 2), 3)
    assert [part.equal(tokens) for part in without.task.known] == [True]
    assert twice.task.targets[..., 0].equal(tokens.flip(1))
