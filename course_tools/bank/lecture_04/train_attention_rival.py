"""Build task 04.7, train_attention_rival: attention whose weights ignore content; what students hand in, wrong and right.

A text (T = 12 tokens) has eight pairs of key and value and four questions, which name a key. The answers at the pairs are their
values in reverse order, which only needs the positions; those at the questions are the values of the keys, which are at another
position in every text.
"""

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import lookup
from course_tools.bank import controls
from course_tools.bank import training_loops as loops
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, N_STEPS, BATCH_SIZE = 60.0, 300, 64
N_PAIRS, T, N_KEYS, N_VALUES = 8, 12, 16, 8
N_TRAIN, N_HELD_OUT, N_ALONE = 4000, 512, 16

HINTS = (
    (
        "Write the lecture's layer first and mark where it reads content: in the queries, in the keys and in the values. "
        "Content-dependence of the *weights* sits in two of them. What else could the queries and keys be computed from?"
    ),
    (
        "Compute queries and keys from the vectors of the positions alone: the weights are then one table (T, T), the same for "
        "every text. The values are still computed from the tokens, and no matrix is gained or lost."
    ),
    (
        "Check by hand before you train: change the key of one token, and the weights must stay the same. Then train as the "
        "model is trained: Adam at 0.005, `n_steps` batches of 64 texts drawn anew, cross-entropy at all 12 positions, and "
        "`return rival.eval()`."
    ),
)


class SelfAttentionReader(nn.Module):
    """One layer between embeddings and a linear read-out; `content` is what the weights are computed from besides positions."""

    def __init__(self, d=64, content=1.0, dropout=0.0):
        super().__init__()
        self.keys, self.values, self.positions = (nn.Embedding(n, d) for n in (N_KEYS, N_VALUES + 1, T))
        for table in (self.keys, self.values, self.positions):
            nn.init.normal_(table.weight, std=d**-0.5)
        self.W_q, self.W_k, self.W_v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.read_out, self.content, self.dropout = nn.Linear(d, N_VALUES), content, nn.Dropout(dropout)

    def forward(self, texts):
        tokens = self.dropout(self.keys(texts[..., 0]) + self.values(texts[..., 1]))
        x, read = (share * tokens + self.positions.weight for share in (1.0, self.content))
        return self.read_out(self.weights(read) @ self.W_v(x))

    def weights(self, x):
        return (self.W_q(x) @ self.W_k(x).mT / x.shape[-1] ** 0.5).softmax(-1)


submit = controls.submission(partial(SelfAttentionReader, content=0.0), BATCH_SIZE, lr=5e-3)


def train_attention_rival(texts: Tensor, answers: Tensor, n_parameters: int, n_steps: int) -> nn.Module:
    """Build a rival of self-attention whose weights do not depend on content, train it, and return it.

    The rival maps texts (B, 12, 2) to logits (B, 12, 8). As in the model, they are a sum: each token adds its own term, and
    there is no nonlinearity after the mixing. In the rival, the term of a token does not depend on the other tokens.

    Args:
        texts: (N, 12, 2), integers: for each token its key (below 16) and its value (below 8; 8 is the blank of a question).
        answers: (N, 12), the right value at each position.
        n_parameters: of the lecture's model; the rival has as many, within five percent.
        n_steps: updates that the model gets, with batches of 64 texts; the rival gets as many.

    Returns:
        the trained rival, ready to predict: asked twice, it gives the same logits.
    """
    d = 64

    class Rival(nn.Module):
        def __init__(self):
            super().__init__()
            self.keys, self.values, self.positions = nn.Embedding(16, d), nn.Embedding(9, d), nn.Embedding(12, d)
            for table in (self.keys, self.values, self.positions):
                nn.init.normal_(table.weight, std=d**-0.5)
            self.W_q, self.W_k, self.W_v = (nn.Linear(d, d, bias=False) for _ in range(3))
            self.read_out = nn.Linear(d, 8)

        def forward(self, texts):
            positions = self.positions.weight
            x = self.keys(texts[..., 0]) + self.values(texts[..., 1]) + positions
            weights = (self.W_q(positions) @ self.W_k(positions).mT / d**0.5).softmax(-1)
            return self.read_out(weights @ self.W_v(x))

    rival = Rival()
    optimizer = torch.optim.Adam(rival.parameters(), lr=5e-3)
    for _ in range(n_steps):
        rows = torch.randint(len(texts), (64,))
        loss = F.cross_entropy(rival(texts[rows]).flatten(0, 1), answers[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return rival.eval()


def examples(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw texts (n, 12, 2) and their answers (n, 12)."""
    drawn = lookup(n, 1, 1, T_q=T - N_PAIRS, T_k=N_PAIRS, n_keys=N_KEYS, n_values=N_VALUES, seed=seed).train
    values = torch.cat([drawn.values, torch.full_like(drawn.queries, N_VALUES)], dim=1)
    texts = torch.stack([torch.cat([drawn.keys, drawn.queries], dim=1), values], dim=-1)
    return texts, torch.cat([drawn.values.flip(1), drawn.targets], dim=1)


@cache
def _of_the_model(seed: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], int, controls.ClaimScores]:
    """Draw the examples, train the model of the lecture on them, and give both parts, its size and its scores."""
    known, unseen = examples(N_TRAIN, seed), examples(N_HELD_OUT, seed + 1)
    return (
        known,
        unseen,
        *controls.of_the_model(lambda: submit((*known, 0, N_STEPS), model=SelfAttentionReader), seed, unseen, _scores),
    )


def questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw the examples to learn from, the size of the model, and texts whose tokens are changed in parts.

    The queries are: texts (512, 12, 2) · the last 16 of them · these with one half of the tokens replaced, with the other, with
    both · with the first six tokens replaced, with the last six · with other keys.
    """
    known, (texts, answers), n_parameters, scores = _of_the_model(int(draw.integers(0, 2**20, 1)))
    base, half = texts[-N_ALONE:], draw.uniform(N_ALONE, T).argsort(1)[..., None] < T // 2
    shift = torch.stack([draw.integers(1, N_KEYS, N_ALONE, T), draw.integers(1, N_VALUES, N_ALONE, T)], dim=-1)
    other = (base + shift) % torch.tensor([N_KEYS, N_VALUES])
    early = torch.arange(T)[:, None] < T // 2
    changed = [torch.where(where, other, base) for where in (half, ~half, half | True, early, ~early)]
    keys = torch.stack([other[..., 0], base[..., 1]], dim=-1)
    frequent = F.one_hot(texts[:, :N_PAIRS, 1], N_VALUES).sum(1).argmax(1, keepdim=True)
    truth = {
        "inputs": texts,
        "labels": answers,
        "n_parameters": n_parameters,
        "n_updates": N_STEPS,
        "batch_size": BATCH_SIZE,
        "scores": scores,
        "guess": (frequent == answers[:, N_PAIRS:]).float().mean().item(),
    }
    return ((*known, n_parameters, N_STEPS), [texts, base, *changed, keys]), truth


def _scores(logits: Tensor, answers: Tensor) -> controls.ClaimScores:
    right = (logits.argmax(-1) == answers).float()
    return controls.ClaimScores(right[:, N_PAIRS:].mean().item(), right[:, :N_PAIRS].mean().item())


CLAIM = controls.Claim(
    ingredient="weights that depend on content",
    model="attention",
    question="look-up",
    control="reversal",
    score=lambda measured, truth: _scores(measured.outputs[0], truth["labels"]),
)


def _model(measured: Measured, truth: Truth) -> str | None:
    for query, output in zip([truth["inputs"], *[truth["inputs"][:N_ALONE]] * 7], measured.outputs, strict=True):
        if fault := trained.fault_of_logits(output, (len(query), T, N_VALUES), f"texts {tuple(query.shape)}"):
            return fault
    return None


def _information(measured: Measured, truth: Truth) -> str | None:
    if reads_no_later_token(measured, truth):
        return "When the last six tokens are replaced, the logits at the first six stay the same."
    if reads_no_earlier_token(measured, truth):
        return "When the first six tokens are replaced, the logits at the last six stay the same."
    if reads_no_keys(measured, truth):
        return "When all keys are replaced, no logit changes."
    return None


def _without(measured: Measured, truth: Truth) -> str | None:
    if controls.is_no_sum(measured, truth):
        return "What one half of the tokens adds to the logits changes when the other half is replaced."
    return None


def _stays(measured: Measured, changed: int, at: slice) -> bool:
    return trained.is_near(measured.outputs[1][:, at], measured.outputs[changed][:, at], tolerance=1e-6)


def reads_no_later_token(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits at the first six tokens do not depend on the last six."""
    return _stays(measured, 6, slice(T // 2))


def reads_no_earlier_token(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits at the last six tokens do not depend on the first six."""
    return _stays(measured, 5, slice(T // 2, T))


def reads_no_keys(measured: Measured, truth: Truth) -> bool:
    """Evidence: no logit depends on a key."""
    return _stays(measured, 7, slice(T))


def is_the_same_at_all_positions(measured: Measured, truth: Truth) -> bool:
    """Evidence: a text has the same logits at all its positions."""
    return trained.is_near(measured.outputs[1][:, 1:], measured.outputs[1][:, :-1])


wrong = loops.Submissions(
    __name__,
    submit,
    model="the model",
    also="; the model is trained so, too",
    control="It fails at reversal too",
    rates="at 0.005",
    examples="texts",
    rows="texts",
    width="; a width or the number of heads is easy to change",
    filling="they only pad the count",
    instead="What it can use is less than what the model can. Make the parts that are used larger instead.",
)
controls.mistakes(wrong, CLAIM, *(partial(SelfAttentionReader, d=d, content=0.0) for d in (48, 80)), controls.RATES)


class _WithoutScores(SelfAttentionReader):
    """Weights that are given, and the matrices of queries and keys applied to the values instead."""

    def __init__(self, given):
        super().__init__()
        self.given = given

    def forward(self, texts):
        x = self.keys(texts[..., 0]) + self.values(texts[..., 1]) + self.positions.weight
        return self.read_out(self.given @ self.W_q(self.W_k(self.W_v(x))))


class _Masked(SelfAttentionReader):
    def __init__(self, allowed, **settings):
        super().__init__(**settings)
        self.allowed = allowed(torch.ones(T, T, dtype=torch.bool))

    def weights(self, x):
        scores = self.W_q(x) @ self.W_k(x).mT / x.shape[-1] ** 0.5
        return scores.masked_fill(~self.allowed, -torch.inf).softmax(-1)


@wrong.change("model", trained.reads_other_examples)
class WeightsAveragedOverTheBatch(SelfAttentionReader):
    """The rival reads the other texts of its batch: alone, a text gets different logits. Averaging the weights over a batch
    does not remove content, it mixes that of many texts. Use one table of weights that is a parameter, or a function of the
    positions."""

    def weights(self, x):
        return super().weights(x).mean(0, keepdim=True)


@wrong(proof=controls.is_no_sum)
def weights_by_content(*data):
    """The ingredient is still there, or another one was added: what one half of the tokens adds to the logits depends on the
    other half. Either the weights are still computed from contents (from the queries, from the keys or from both), or there is
    a nonlinearity after the mixing, which the model does not have. Compute the weights from the positions alone."""
    return submit(data, model=SelfAttentionReader)


@wrong(proof=trained.both(reads_no_later_token, reads_no_earlier_token))
def own_token_only(*data):
    """The rival processes each token by itself: it lacks not only weights by content but all other tokens. It fails for want of
    information, whatever content is good for. Let each position mix all tokens, with weights that are the same for every
    text."""
    return submit(data, model=partial(_WithoutScores, torch.eye(T)))


@wrong(proof=reads_no_later_token)
def later_tokens_masked(*data):
    """The rival gets less information than the model: no position reads the tokens after it. The model has no such mask, and
    without those tokens no weights could reverse a text. Remove the mask."""
    return submit(data, model=partial(_Masked, torch.tril, content=0.0))


@wrong.change("model", reads_no_keys, content=0.0)
class KeysLeftOut(SelfAttentionReader):
    """The rival gets less information than the model: it never reads the keys. It is the *weights* that must not depend on
    content; what they mix is the same as in the model, the vectors of keys and values. Add the keys to the tokens again."""

    def forward(self, texts):
        return super().forward(torch.stack([torch.zeros_like(texts[..., 0]), texts[..., 1]], dim=-1))


@wrong(proof=trained.both(is_the_same_at_all_positions, controls.cannot_succeed(CLAIM)))
def uniform_weights(*data):
    """The rival takes the plain mean of all tokens: a text has the same logits at every position, so that it fails at reversal
    too, which needs no content. More was removed than content: the weights may, and must, differ from position to position.
    Learn one weight for each pair of positions."""
    return submit(data, model=partial(_WithoutScores, torch.full((T, T), 1 / T)))


@right
def a_table_of_scores(texts, answers, n_parameters, n_steps):
    """Three heads, each with a learned table of scores (12, 12); no positions elsewhere, wider values; AdamW on shuffled
    epochs."""

    class Rival(nn.Module):
        def __init__(self, d=78, n_heads=3):
            super().__init__()
            self.embed = nn.ModuleList([nn.Embedding(16, d), nn.Embedding(9, d)])
            self.scores = nn.Parameter(torch.randn(n_heads, 12, 12))
            self.W_v, self.W_o, self.head = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False), nn.Linear(d, 8)

        def forward(self, texts):
            x = self.embed[0](texts[..., 0]) + self.embed[1](texts[..., 1])
            v = self.W_v(x).unflatten(-1, (len(self.scores), -1)).transpose(1, 2)
            return self.head(self.W_o((self.scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))

    rival = Rival()
    optimizer = torch.optim.AdamW(rival.parameters(), lr=5e-3)
    for tokens, values in loops.epochs((texts, answers), n_steps, 64, drop_last=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(rival(tokens).transpose(1, 2), values).backward()
        optimizer.step()
    return rival.eval()


@right
def one_linear_map_of_the_whole_text(texts, answers, n_parameters, n_steps):
    """No weights of attention at all: the small vectors of all tokens in a row, one linear map to all positions through a
    narrow layer; Adam by RMSprop with clipping."""

    class Rival(nn.Module):
        def __init__(self, width=68):
            super().__init__()
            self.key, self.value = nn.Embedding(16, 10), nn.Embedding(9, 10)
            self.down, self.up = nn.Linear(120, width, bias=False), nn.Linear(width, 96)

        def forward(self, texts):
            x = self.key(texts[..., 0]) + self.value(texts[..., 1])
            return self.up(self.down(x.flatten(1))).unflatten(1, (12, 8))

    rival = Rival()
    optimizer = torch.optim.RMSprop(rival.parameters(), lr=3e-3)
    for _ in range(n_steps):
        rows = torch.randint(len(texts), (64,))
        optimizer.zero_grad(set_to_none=False)
        (-rival(texts[rows]).log_softmax(-1).gather(2, answers[rows][..., None])).mean().backward()
        nn.utils.clip_grad_norm_(rival.parameters(), 1.0)
        optimizer.step()
    return rival.eval()


exercise = Exercise(
    id="04.7",
    title="A control for attention",
    extra=True,
    reference=train_attention_rival,
    properties=controls.properties(
        SECONDS,
        CLAIM,
        model=("It maps texts (B, 12, 2) to logits (B, 12, 8).", _model),
        information=("Each position reads the tokens before and after it, and their keys.", _information),
        without=("What a token adds to the logits does not depend on the other tokens.", _without),
        alone=("The logits of a text do not depend on the other texts of its batch.", trained.each_alone("texts")),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    training=Training(questions, SECONDS, partial(controls.conclusion, CLAIM), "control"),
)
