"""Build task 05.8, repair_training: a run with three planted faults; what students hand in, wrong and right."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_tools.bank import language_models
from course_tools.bank import training_loops as loops
from course_tools.bank.lecture_07.train_gpt import SmallGPT, with_torchs_encoder, without_modules
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Exercise, Training

submit = language_models.submission(SmallGPT)
wrong = loops.Submissions(__name__, submit, rates="Take 0.005 again.")
right = Answers([with_torchs_encoder, without_modules])

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


@wrong(proof=trained.both(trained.gradients_are_kept, language_models.reads_the_future))
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


REPAIR = loops.REPAIR | {
    "dropout_left_on": "The run was repaired and a new fault has come in: the returned model is in training mode, and its "
    "dropout makes the predictions random. Return `model.eval()`.",
    "gradients_not_cleared": "The gradients of earlier updates are still there at the next one: `backward` adds to them. Call "
    "`optimizer.zero_grad()` once in each update.",
    "one_batch_for_all_updates": "Every update reads the same batch. The run of the task draws new windows in each update; "
    "this has to stay in the loop.",
}
language_models.loop_mistakes(wrong, says=REPAIR)


@wrong.change("model", language_models.reads_the_future, part=0.5)
class SoftmaxOverTheQueries(SmallGPT):
    """The model still reads the future: its logits at a position change when later tokens change. Either later keys are not
    masked, or the softmax divides by a sum over the queries, to which later positions contribute. It runs over the keys."""

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.tokens(tokens) + self.positions.weight[:T]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        x = x + (q @ k.mT / 32**0.5).masked_fill(future, -torch.inf).softmax(1) @ v
        return self.logits(self.norm(x + self.feed_forward(x)))


NOT_SHIFTED = (
    "The model still predicts the token that it has just read: the targets are the inputs themselves. Compare the logits at t "
    "with the token at t + 1."
)
wrong.add(
    "targets_not_shifted", NOT_SHIFTED, {"part": 0.5, "batch": loops.not_shifted}, proof=language_models.repeats_the_last_token
)


@wrong(proof=language_models.ignores_the_order)
def positions_removed(*data):
    """The positions were no fault, and now they are missing: with the tokens before the last one in another order, the model
    predicts the same. Add the vector of the position to that of the token again."""
    return submit(data, 0.5, positions=0.0)


language_models.without_attention(wrong)
language_models.with_a_recurrence(wrong)


@right
def one_layer_repaired(*data):
    """One small layer and smaller batches, with all three faults repaired."""
    return submit(data)


exercise = Exercise(
    id="05.8",
    title="Repair a run that does not train",
    extra=True,
    reference=repair_training,
    properties=language_models.properties(SECONDS, MOST_PARAMETERS),
    wrong=wrong,
    right=right,
    hints=HINTS,
    training=Training(partial(language_models.questions, N_STEPS), SECONDS),
)
