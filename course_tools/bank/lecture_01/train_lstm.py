"""Build task 01.6, train_lstm: an LSTM language model and its training loop; what students hand in, wrong and right."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_tools.bank.language_models import (
    fails_to_learn,
    gives_probabilities,
    has_learned_nothing,
    ignores_the_order,
    predicts_two_ahead,
    properties,
    questions,
    reads_the_future,
    repeats_the_last_token,
    repeats_the_token_before,
)
from course_tools.bank.training_loops import (
    drawn,
    looped,
    next_but_one,
    not_shifted,
    on_one_batch,
    shifted_back,
    with_the_optimizer_of,
    without_clearing,
)
from course_tools.checks.exercise import Answers, Exercise, Training
from course_tools.checks.trained import (
    both,
    differs_when_asked_again,
    gradients_are_kept,
    no_weight_is_stepped,
    reads_one_batch,
    reads_other_examples,
    updates_are_too_large,
    updates_are_too_small,
    weights_without_gradient,
)

wrong, right = Answers(), Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 200_000, 400

HINTS = (
    (
        "Three layers are enough: an embedding, an LSTM over time and a linear layer that gives logits at each position. Print "
        "the shapes: tokens (B, T), vectors (B, T, d), states (B, T, d_hidden), logits (B, T, n_tokens)."
    ),
    (
        "`nn.LSTM` expects time on its first axis unless you say `batch_first=True`. It returns the states of all steps and, "
        "beside them, the last state. A batch is `text[starts[:, None] + torch.arange(T + 1)]` for random `starts`: the model "
        "reads all but the last column and predicts all but the first."
    ),
    (
        "The loop is five lines: draw a batch, compute `F.cross_entropy(logits.flatten(0, 1), targets.flatten())`, "
        "`optimizer.zero_grad()`, `loss.backward()`, `optimizer.step()`. Adam with a learning rate of 0.01, 128 units and 16 "
        "windows a batch is enough. Return `model.eval()`."
    ),
)


def train_lstm(text: Tensor, n_tokens: int, n_steps: int) -> nn.Module:
    """Build an LSTM language model, train it on a text, and return it.

    The model maps tokens (B, T) to logits (B, T, n_tokens); those at t predict the token at t + 1.

    Args:
        text: the tokens to learn from, (N,), integers below n_tokens.
        n_tokens: size of the vocabulary.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """
    window, batch_size = 32, 16

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.lstm = nn.Embedding(n_tokens, 32), nn.LSTM(32, 128, batch_first=True)
            self.logits = nn.Linear(128, n_tokens)

        def forward(self, tokens):
            states, _ = self.lstm(self.embed(tokens))
            return self.logits(states)

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(n_steps):
        starts = torch.randint(len(text) - window, (batch_size, 1))
        windows = text[starts + torch.arange(window + 1)]
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


class _Small(nn.Module):
    """Embedding, LSTM, logits; a wrong submission gives another LSTM."""

    def __init__(self, n_tokens, lstm=None, dropout=0.0):
        super().__init__()
        self.embed, self.dropout = nn.Embedding(n_tokens, 16), nn.Dropout(dropout)
        self.lstm = lstm or nn.LSTM(16, 32, batch_first=True)
        self.logits = nn.Linear(self.lstm.hidden_size * (2 if self.lstm.bidirectional else 1), n_tokens)

    def forward(self, tokens):
        return self.logits(self.lstm(self.dropout(self.embed(tokens)))[0])


@wrong(proof=differs_when_asked_again)
def dropout_left_on(text, n_tokens, n_steps):
    """The returned model is still in training mode: its dropout draws new zeros at each call, so that its predictions are
    random. Return `model.eval()`."""
    return looped(_Small(n_tokens, dropout=0.2), text, n_steps // 2).train()


@wrong(proof=gradients_are_kept)
def gradients_not_cleared(text, n_tokens, n_steps):
    """You never clear the gradients: `backward` adds to those of all updates before. Call `optimizer.zero_grad()` once in each
    update."""
    return without_clearing(_Small(n_tokens), text, n_steps // 2)


@wrong(proof=both(updates_are_too_large, fails_to_learn))
def learning_rate_too_large(text, n_tokens, n_steps):
    """Your first ten updates move the weights by more than twenty times their own size: nothing that was learned survives the
    next update. Take a smaller learning rate; for Adam 0.001 to 0.02."""
    return looped(_Small(n_tokens), text, n_steps // 4, lr=3.0)


@wrong(proof=reads_the_future)
def in_both_directions(text, n_tokens, n_steps):
    """Your model reads the future: its logits at a position change when later tokens change. In training it can copy the next
    token; on new text it has nothing to copy. A language model reads in one direction: no `bidirectional=True`."""
    lstm = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
    return looped(_Small(n_tokens, lstm), text, n_steps)


@wrong(proof=reads_other_examples)
def time_on_the_wrong_axis(text, n_tokens, n_steps):
    """Your recurrence runs over the batch, not over time: the logits of a window depend on the windows before it in the batch.
    `nn.LSTM` expects time on its first axis; give it `batch_first=True`."""
    return looped(_Small(n_tokens, nn.LSTM(16, 32)), text, n_steps // 2)


@wrong(proof=repeats_the_last_token)
def targets_not_shifted(text, n_tokens, n_steps):
    """Your model predicts the token that it has just read: the targets are the inputs themselves. Shift them by one, so that
    the logits at t are compared with the token at t + 1."""
    return looped(_Small(n_tokens), text, n_steps // 2, batch=not_shifted)


@wrong(proof=repeats_the_token_before)
def targets_shifted_back(text, n_tokens, n_steps):
    """Your model predicts the token before the one that it has just read: the targets are shifted to the wrong side. The inputs
    are `windows[:, :-1]` and the targets `windows[:, 1:]`."""
    return looped(_Small(n_tokens), text, n_steps, batch=shifted_back)


@wrong(proof=both(reads_one_batch, fails_to_learn))
def one_batch_for_all_updates(text, n_tokens, n_steps):
    """Every update reads the same batch: it is drawn once, before the loop. The model learns these few lines by heart. Draw new
    windows in each update."""
    return on_one_batch(_Small(n_tokens), text, n_steps)


@wrong(proof=both(gives_probabilities, fails_to_learn))
def probabilities_for_logits(text, n_tokens, n_steps):
    """Your model returns probabilities. `F.cross_entropy` takes a softmax itself, so that the loss takes it twice and hardly
    falls. Return the logits."""
    return looped(nn.Sequential(_Small(n_tokens), nn.Softmax(dim=-1)), text, n_steps // 2)


@wrong(proof=both(no_weight_is_stepped, has_learned_nothing))
def optimizer_of_another_model(text, n_tokens, n_steps):
    """None of the weights of the model that you return was ever updated: the optimizer holds those of another one. Make the
    optimizer after the model, from the parameters of the model that you train and return."""
    return with_the_optimizer_of(_Small(n_tokens), _Small(n_tokens), text, n_steps // 4)


class _Forgetful(_Small):
    def forward(self, tokens):
        x = self.embed(tokens).flatten(0, 1)[:, None]
        return self.logits(self.lstm(x)[0]).reshape(*tokens.shape, -1)


@wrong(proof=ignores_the_order)
def state_not_carried(text, n_tokens, n_steps):
    """Your state starts from zero at every token: with the tokens before the last one in another order, the model predicts the
    same. Carry the state from each step to the next."""
    return looped(_Forgetful(n_tokens), text, n_steps // 2)


class _Detached(_Small):
    def forward(self, tokens):
        return self.logits(self.lstm(self.embed(tokens))[0].detach())


@wrong(proof=weights_without_gradient)
def states_cut_off(text, n_tokens, n_steps):
    """A part of your model never gets a gradient and stays as it was drawn: the graph is cut by `.data`, `.detach()`,
    `torch.tensor(...)` or `torch.no_grad()`, or these weights are not used at all."""
    return looped(_Detached(n_tokens), text, n_steps // 2)


@wrong(proof=predicts_two_ahead)
def targets_shifted_twice(text, n_tokens, n_steps):
    """Your model predicts the next token but one: the targets are shifted twice, as when the batch is shifted already and the
    loss shifts it again."""
    return looped(_Small(n_tokens), text, n_steps, batch=next_but_one)


@wrong(proof=both(updates_are_too_small, fails_to_learn))
def learning_rate_too_small(text, n_tokens, n_steps):
    """Your updates hardly change the weights: all together move them by less than two percent. Take a larger learning rate; for
    Adam 0.001 to 0.02."""
    return looped(_Small(n_tokens), text, n_steps // 4, lr=1e-6)


@right
def by_hand(text, n_tokens, n_steps):
    """The equations of the LSTM step by step, one weight matrix for all gates, a forget bias of one, RMSprop."""
    d = 64

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.gates, self.logits = nn.Embedding(n_tokens, d), nn.Linear(2 * d, 4 * d), nn.Linear(d, n_tokens)
            nn.init.constant_(self.gates.bias[d : 2 * d].detach(), 1.0)

        def forward(self, tokens):
            h = c = torch.zeros(len(tokens), d)
            states = []
            for x in self.embed(tokens).unbind(1):
                i, f, g, o = self.gates(torch.cat([x, h], dim=1)).chunk(4, dim=1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                states.append(h)
            return self.logits(torch.stack(states, dim=1))

    model = Model()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=4e-3)
    for _ in range(n_steps):
        tokens, targets = drawn(text, context=20)
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(model(tokens).mT, targets).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
    return model


@right
def as_one_stream(text, n_tokens, n_steps):
    """Truncated back-propagation: 32 streams are read in the order of the text, and the detached state is carried along."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.lstm, self.out = nn.Embedding(n_tokens, 64), nn.LSTM(64, 96), nn.Linear(96, n_tokens)

        def forward(self, tokens, state=None):
            states, last = self.lstm(self.embed(tokens.T), state)
            logits = self.out(states).transpose(0, 1)
            return logits if state is None else (logits, last)

    model, streams = Model(), text[: len(text) // 32 * 32].view(32, -1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    state, at = (torch.zeros(1, 32, 96), torch.zeros(1, 32, 96)), 0
    for _ in range(n_steps):
        logits, state = model(streams[:, at : at + 16], tuple(part.detach() for part in state))
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), streams[:, at + 1 : at + 17].flatten()).backward()
        optimizer.step()
        at = (at + 16) % (streams.shape[1] - 17)
    return model.eval()


@right
def two_layers_in_epochs(text, n_tokens, n_steps):
    """Two layers with dropout between them, windows in the order of one random permutation, a learning rate that decays."""
    model = nn.ModuleDict(
        {
            "embed": nn.Embedding(n_tokens, 24),
            "lstm": nn.LSTM(24, 64, 2, batch_first=True, dropout=0.02),
            "out": nn.Linear(64, 27),
        }
    )
    model.forward = lambda tokens: model["out"](model["lstm"](model["embed"](tokens))[0])
    windows = text[: len(text) // 25 * 25].view(-1, 25)
    order, criterion = torch.randperm(len(windows)), nn.CrossEntropyLoss()
    optimizer = torch.optim.NAdam(model.parameters(), lr=1.5e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.2, n_steps)
    for step in range(n_steps):
        batch = windows[order[torch.arange(10 * step, 10 * step + 10) % len(order)]]
        loss = criterion(model(batch[:, :-1]).reshape(-1, n_tokens), batch[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        model.zero_grad()
        schedule.step()
    return model.train(False)


exercise = Exercise(
    id="01.6",
    title="An LSTM language model and its training loop",
    reference=train_lstm,
    properties=properties(SECONDS, MOST_PARAMETERS),
    wrong=wrong,
    right=right,
    hints=HINTS,
    training=Training(
        questions=partial(questions, N_STEPS),
        seconds=SECONDS,
    ),
)
