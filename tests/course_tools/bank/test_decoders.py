"""Decoders of build tasks: what is asked of a model shows what it reads and how it writes, trained or not."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.datasets import BEGIN, END, PADDING
from course_tools.bank import decoders as judged
from course_tools.bank.lecture_02 import train_translator
from course_tools.bank.lecture_03 import train_captioner
from course_tools.checks.exercise import Draw
from course_tools.checks.training_record import measure

N_TOKENS, T = 11, 7
EVIDENCE = (
    judged.reads_the_token_it_predicts,
    judged.ignores_the_target,
    judged.ignores_the_inputs,
    judged.repeats_the_token_read,
    judged.predicts_padding,
    judged.never_ends,
    judged.writes_at_random,
    judged.has_random_logits,
    judged.strays_from_its_logits,
)


def sequences(n, draw):
    """Inputs (n, 5) of 4 to 10, and their targets (n, 8): the first two to five of them between BEGIN and END."""
    inputs = draw.integers(4, N_TOKENS, n, 5)
    lengths = draw.integers(2, 6, n)
    place = torch.arange(5)
    text = inputs.masked_fill(place > lengths[:, None] - 1, PADDING)
    text = F.pad(text, (1, 2)).scatter(1, lengths[:, None] + 1, END)
    text[:, 0] = BEGIN
    return torch.cat([inputs, lengths[:, None]], 1), text


def questions():
    draw = Draw(0)
    (asked, labels), (forced, target) = sequences(13, draw), sequences(judged.N_FORCED, draw)
    queries = judged.common_queries((asked,), (forced,), target, 3, N_TOKENS, draw)
    return queries, judged.common_truth(labels, target, 3, N_TOKENS, 5)


class Copies(nn.Module):
    """Copy the inputs, position by position: a right model; a subclass has one fault."""

    def following(self, inputs, t):
        """The token after position t, (B,)."""
        ends = inputs[:, -1] == t
        return torch.where(ends, END, inputs[:, min(t, 4)])

    def logits_at(self, inputs, target, t):
        small = 0.1 * F.one_hot(target[:, : t + 1].sum(1) % 7 + 4, N_TOKENS)
        return F.one_hot(self.following(inputs, t), N_TOKENS) + small

    def forward(self, inputs, target=None):
        if target is None:
            return torch.stack([self.following(inputs, t) for t in range(T)], 1)
        return torch.stack([self.logits_at(inputs, target, t) for t in range(target.shape[1])], 1).float()


class SeesTheNext(Copies):
    def logits_at(self, inputs, target, t):
        return super().logits_at(inputs, torch.cat([target[:, :t], target[:, t:].sum(1, keepdim=True)], 1), t)


class IgnoresTheTarget(Copies):
    def logits_at(self, inputs, target, t):
        return super().logits_at(inputs, torch.zeros_like(target), t)


class IgnoresTheInputs(Copies):
    def following(self, inputs, t):
        return torch.full((len(inputs),), 4 + t % 5)


class Repeats(Copies):
    def logits_at(self, inputs, target, t):
        return F.one_hot(target[:, t], N_TOKENS) + 0.1 * super().logits_at(inputs, target, t)


class PadsAfterTheEnd(Copies):
    def logits_at(self, inputs, target, t):
        logits = super().logits_at(inputs, target, t)
        logits[:, PADDING] += 5.0 * (inputs[:, -1] < t)
        return logits


class NeverEnds(Copies):
    def following(self, inputs, t):
        return inputs[:, min(t, 4)]


class WritesAtRandom(Copies):
    def forward(self, inputs, target=None):
        return super().forward(inputs, target) if target is not None else torch.randint(4, N_TOKENS, (len(inputs), T))


class RandomLogits(Copies):
    def logits_at(self, inputs, target, t):
        return super().logits_at(inputs, target, t) + 0.05 * torch.rand(N_TOKENS)


class WritesAnother(Copies):
    def forward(self, inputs, target=None):
        return super().forward(inputs, target) if target is not None else super().forward(inputs).roll(1, 1)


class StopsBeforeEnd(Copies):
    """The answers of `Copies`, without END."""

    def forward(self, inputs, target=None):
        tokens = super().forward(inputs, target)
        return tokens if target is not None else tokens.masked_fill((tokens == END).cumsum(1) > 0, PADDING)


class CutShort(Copies):
    """The answers of `Copies`, of three tokens at most."""

    def forward(self, inputs, target=None):
        return super().forward(inputs, target) if target is not None else super().forward(inputs)[:, :3]


def shown(model):
    queries, truth = questions()
    torch.manual_seed(0)
    measured = measure(lambda: model, (), queries)
    return {evidence.__name__ for evidence in EVIDENCE if evidence(measured, truth)}


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (Copies(), set()),
        (SeesTheNext(), {"reads_the_token_it_predicts"}),
        (IgnoresTheTarget(), {"ignores_the_target"}),
        (IgnoresTheInputs(), {"ignores_the_inputs"}),
        (Repeats(), {"repeats_the_token_read", "strays_from_its_logits"}),
        (PadsAfterTheEnd(), {"predicts_padding"}),
        (NeverEnds(), {"never_ends"}),
        (WritesAtRandom(), {"writes_at_random", "strays_from_its_logits"}),
        (RandomLogits(), {"has_random_logits", "reads_the_token_it_predicts"}),
        (WritesAnother(), {"strays_from_its_logits"}),
        (StopsBeforeEnd(), set()),
        (CutShort(), set()),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_the_queries_show_each_fault_and_no_other(model, names):
    assert shown(model) == names


def test_an_answer_that_stops_before_its_end_is_told_so_and_not_that_it_strays():
    queries, truth = questions()
    stops, cut, another = (
        judged._decoding(measure(lambda model=model: model, (), queries), truth)
        for model in (StopsBeforeEnd(), CutShort(), WritesAnother())
    )
    assert stops == "In 100% of the sequences the answer stops before END, which belongs to the answer."
    assert "the answer stops before END" in cut
    assert "a token that does not have the largest logit" in another
    assert judged._decoding(measure(Copies, (), queries), truth) is None


def test_a_recurrent_network_that_runs_over_the_batch_is_found():
    """A network without `batch_first=True` reads the rows before: what is asked alone comes last in the larger batch."""

    class Captioner(nn.Module):
        def __init__(self, n_tokens, batch_first):
            super().__init__()
            self.words, self.cell = nn.Embedding(n_tokens, 8), nn.GRU(8, 13, batch_first=batch_first)
            self.logits = nn.Linear(13, n_tokens)

        def forward(self, regions, caption=None):
            caption = torch.full((len(regions), 1), BEGIN) if caption is None else caption
            return self.logits(self.cell(self.words(caption))[0] + regions.sum(1)[:, None])

    (data, queries, *_), _ = train_captioner._questions(Draw(0))
    for batch_first in (True, False):
        measured = measure(lambda first=batch_first: Captioner(data[2], first), (), queries)
        assert train_captioner.reads_other_pictures(measured, {}) is not batch_first

    (data, queries, *_), _ = train_translator._questions(Draw(0))
    for batch_first in (True, False):
        model = train_translator._Small(*data[3:5])
        model.cell.batch_first = batch_first
        measured = measure(lambda model=model: model, (), queries)
        assert train_translator.reads_other_sentences(measured, {}) is not batch_first
        assert not train_translator.reads_padding(measured, {})


def test_what_a_model_wrote_is_read_without_begin_and_up_to_its_end():
    tokens = torch.tensor([[BEGIN, 5, 6, END, 7], [BEGIN, 5, END, 5, 5]])
    assert judged.written(tokens, 6).tolist() == [[5, 6, END, PADDING, PADDING, PADDING], [5, END, 0, 0, 0, 0]]
    assert judged.written(tokens[:, 1:], 2).tolist() == [[5, 6], [5, END]]


def test_scores_count_exact_answers_and_real_tokens():
    queries, truth = questions()
    measured = measure(lambda: Copies(), (), queries)
    assert judged.exact(measured, truth).all()
    labels = truth["labels"]
    wrong_at_first = labels.clone()
    wrong_at_first[:, 0] = 3
    assert judged.token_accuracy(wrong_at_first, labels) == pytest.approx(1 - len(labels) / (labels != PADDING).sum().item())


def test_judges_pass_a_right_model_and_say_what_is_asked_of_a_wrong_one():
    queries, truth = questions()
    right = measure(lambda: Copies(), (), queries)
    assert judged._model(right, truth) is None
    transposed = right._replace(outputs=[output.mT for output in right.outputs])
    assert "the logits should have shape (64, 7, 11)" in judged._model(transposed, truth)
    floats = right._replace(outputs=[right.outputs[0].float(), *right.outputs[1:]])
    assert "Without a target, the model should return the 13 sequences" in judged._model(floats, truth)
