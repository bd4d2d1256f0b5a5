"""Build task 05.8, repair_training: a run with three planted faults; what students hand in, wrong and right."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_tools.bank.language_models import (
    fails_to_learn,
    has_learned_nothing,
    ignores_the_order,
    properties,
    questions,
    reads_the_future,
    repeats_the_last_token,
)
from course_tools.bank.lecture_07.train_gpt import SmallGPT, with_torchs_encoder, without_modules
from course_tools.bank.training_loops import (
    looped,
    not_shifted,
    on_one_batch,
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
    updates_are_too_large,
    updates_are_too_small,
)

wrong, right = Answers(), Answers([with_torchs_encoder, without_modules])

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 200_000, 400

HINTS = (
    (
        "Do not read the code first; measure. Does a logit at position 3 change when token 10 does? How large is the norm of a "
        "gradient after 1, 10 and 100 updates? Which character does the trained model give the highest logit: which one of the "
        "window is it?"
    ),
    (
        "One fault is in the attention: along which axis do the weights of one query sum to 1? One is in the loop: what does "
        "`backward` do with a gradient that is already there? One is in the loss: what has the model read when it predicts?"
    ),
    (
        "The softmax runs over the last axis, the keys. Call `optimizer.zero_grad()` before each `backward()`. The model reads "
        "all but the last column of the windows, and the targets are all but the first."
    ),
)


def repair_training(text: Tensor, n_tokens: int, n_steps: int) -> nn.Module:
    """Train a decoder-only Transformer on a text, and return it: the run above, repaired.

    The model maps tokens (B, T) with T ≤ 32 to logits (B, T, n_tokens); those at t predict the token at t + 1.

    Args:
        text: the tokens to learn from, (N,), integers below n_tokens.
        n_tokens: size of the vocabulary.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """

    class Layer(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.queries, self.keys, self.values = (nn.Linear(d, d) for _ in range(3))
            self.feed_forward = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
            self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)

        def forward(self, x):
            y = self.norm_1(x)
            scores = self.queries(y) @ self.keys(y).mT / x.shape[-1] ** 0.5
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            weights = scores.masked_fill(future, -torch.inf).softmax(-1)
            x = x + weights @ self.values(y)
            return x + self.feed_forward(self.norm_2(x))

    class Decoder(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(n_tokens, d), nn.Embedding(32, d)
            self.layers, self.logits = nn.Sequential(Layer(d), Layer(d), nn.LayerNorm(d)), nn.Linear(d, n_tokens)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
            return self.logits(self.layers(x))

    model = Decoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(n_steps):
        windows = text[torch.randint(len(text) - 33, (16, 1)) + torch.arange(33)]
        tokens, targets = windows[:, :-1], windows[:, 1:]
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@wrong(proof=both(gradients_are_kept, reads_the_future))
def three_faults(text, n_tokens, n_steps):
    """Two faults are measured. Logits change when later tokens change: a mask is missing, or the softmax does not run over the
    keys. And the gradients of earlier updates are still there at the next one. A third may be hidden by them: repair these two,
    and run the check again."""

    class Layer(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.queries, self.keys, self.values = (nn.Linear(d, d) for _ in range(3))
            self.feed_forward = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
            self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)

        def forward(self, x):
            y = self.norm_1(x)
            scores = self.queries(y) @ self.keys(y).mT / x.shape[-1] ** 0.5
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            weights = scores.masked_fill(future, -torch.inf).softmax(1)
            x = x + weights @ self.values(y)
            return x + self.feed_forward(self.norm_2(x))

    class Decoder(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(n_tokens, d), nn.Embedding(32, d)
            self.layers, self.logits = nn.Sequential(Layer(d), Layer(d), nn.LayerNorm(d)), nn.Linear(d, n_tokens)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
            return self.logits(self.layers(x))

    model = Decoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(n_steps):
        windows = text[torch.randint(len(text) - 32, (16, 1)) + torch.arange(32)]
        loss = F.cross_entropy(model(windows).flatten(0, 1), windows.flatten())
        loss.backward()
        optimizer.step()
    return model.eval()


@wrong(proof=differs_when_asked_again)
def dropout_left_on(text, n_tokens, n_steps):
    """The run was repaired and a new fault has come in: the returned model is in training mode, and its dropout makes the
    predictions random. Return `model.eval()`."""
    return looped(SmallGPT(n_tokens, dropout=0.1), text, n_steps // 2).train()


@wrong(proof=both(updates_are_too_large, fails_to_learn))
def learning_rate_too_large(text, n_tokens, n_steps):
    """The learning rate was not the fault, and now it is one: the first ten updates move the weights by more than twenty times
    their own size. Take 0.005 again."""
    return looped(SmallGPT(n_tokens), text, n_steps // 4, lr=3.0)


class _OverTheQueries(SmallGPT):
    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.tokens(tokens) + self.positions.weight[:T]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        x = x + (q @ k.mT / 32**0.5).masked_fill(future, -torch.inf).softmax(1) @ v
        return self.logits(self.norm(x + self.feed_forward(x)))


@wrong(proof=reads_the_future)
def softmax_over_the_queries(text, n_tokens, n_steps):
    """The model still reads the future: its logits at a position change when later tokens change. Either later keys are not
    masked, or the softmax divides by a sum over the queries, to which later positions contribute. It runs over the keys."""
    return looped(_OverTheQueries(n_tokens), text, n_steps // 2)


@wrong(proof=gradients_are_kept)
def gradients_not_cleared(text, n_tokens, n_steps):
    """The gradients of earlier updates are still there at the next one: `backward` adds to them. Call `optimizer.zero_grad()`
    once in each update."""
    return without_clearing(SmallGPT(n_tokens), text, n_steps // 2)


@wrong(proof=repeats_the_last_token)
def targets_not_shifted(text, n_tokens, n_steps):
    """The model still predicts the token that it has just read: the targets are the inputs themselves. Compare the logits at t
    with the token at t + 1."""
    return looped(SmallGPT(n_tokens), text, n_steps // 2, batch=not_shifted)


@wrong(proof=both(reads_one_batch, fails_to_learn))
def one_batch_for_all_updates(text, n_tokens, n_steps):
    """Every update reads the same batch. The run of the task draws new windows in each update; this has to stay in the loop."""
    return on_one_batch(SmallGPT(n_tokens), text, n_steps)


@wrong(proof=both(no_weight_is_stepped, has_learned_nothing))
def optimizer_of_another_model(text, n_tokens, n_steps):
    """None of the weights of the model that you return was ever updated: the optimizer holds those of another one. Make the
    optimizer after the model that you train and return."""
    return with_the_optimizer_of(SmallGPT(n_tokens), SmallGPT(n_tokens), text, n_steps // 4)


@wrong(proof=ignores_the_order)
def positions_removed(text, n_tokens, n_steps):
    """The positions were no fault, and now they are missing: with the tokens before the last one in another order, the model
    predicts the same. Add the vector of the position to that of the token again."""
    return looped(SmallGPT(n_tokens, positions=0.0), text, n_steps // 2)


@wrong(proof=both(updates_are_too_small, fails_to_learn))
def learning_rate_too_small(text, n_tokens, n_steps):
    """The learning rate was not the fault, and now it is one: all updates together move the weights by less than two percent.
    Take 0.005 again."""
    return looped(SmallGPT(n_tokens), text, n_steps // 4, lr=1e-6)


@right
def one_layer_repaired(text, n_tokens, n_steps):
    """One small layer and smaller batches, with all three faults repaired."""
    return looped(SmallGPT(n_tokens), text, n_steps)


exercise = Exercise(
    id="05.8",
    title="Repair a run that does not train",
    reference=repair_training,
    properties=properties(SECONDS, MOST_PARAMETERS),
    wrong=wrong,
    right=right,
    hints=HINTS,
    training=Training(
        questions=partial(questions, N_STEPS),
        seconds=SECONDS,
    ),
)
