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
from course_tools.bank.controls import (
    Claim,
    ClaimScores,
    cannot_succeed,
    conclusion,
    fewer_updates,
    is_no_sum,
    more_updates,
    of_the_model,
    properties,
    reads_few_examples,
    too_few_parameters,
    too_many_parameters,
)
from course_tools.bank.training_loops import drawn_examples, looped
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.trained import (
    both,
    differs_when_asked_again,
    each_alone,
    fault_of_logits,
    gradients_are_kept,
    is_near,
    no_weight_is_stepped,
    reads_other_examples,
    updates_are_too_large,
    updates_are_too_small,
    weights_without_gradient,
)
from course_tools.checks.training_record import Measured

wrong, right = Answers(), Answers()

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


def trained_on(model, texts, answers, n_steps, lr=5e-3, **how):
    """Train a model as that of the lecture is trained, and return it."""
    return looped(model, (texts, answers), n_steps, lr, partial(drawn_examples, batch_size=BATCH_SIZE), **how)


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
def _of_the_model(seed: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], int, ClaimScores]:
    """Draw the examples, train the model of the lecture on them, and give both parts, its size and its scores."""
    known, unseen = examples(N_TRAIN, seed), examples(N_HELD_OUT, seed + 1)
    return known, unseen, *of_the_model(lambda: trained_on(SelfAttentionReader(), *known, N_STEPS), seed, unseen, _scores)


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


def _scores(logits: Tensor, answers: Tensor) -> ClaimScores:
    right = (logits.argmax(-1) == answers).float()
    return ClaimScores(right[:, N_PAIRS:].mean().item(), right[:, :N_PAIRS].mean().item())


CLAIM = Claim(
    ingredient="weights that depend on content",
    model="attention",
    question="look-up",
    control="reversal",
    score=lambda measured, truth: _scores(measured.outputs[0], truth["labels"]),
)


def _model(measured: Measured, truth: Truth) -> str | None:
    for query, output in zip([truth["inputs"], *[truth["inputs"][:N_ALONE]] * 7], measured.outputs, strict=True):
        if fault := fault_of_logits(output, (len(query), T, N_VALUES), f"texts {tuple(query.shape)}"):
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
    if is_no_sum(measured, truth):
        return "What one half of the tokens adds to the logits changes when the other half is replaced."
    return None


def _stays(measured: Measured, changed: int, at: slice) -> bool:
    return is_near(measured.outputs[1][:, at], measured.outputs[changed][:, at], tolerance=1e-6)


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
    return is_near(measured.outputs[1][:, 1:], measured.outputs[1][:, :-1])


@wrong(proof=differs_when_asked_again)
def dropout_left_on(texts, answers, n_parameters, n_steps):
    """The returned rival is still in training mode: its dropout draws new zeros at each call, while the model is evaluated
    without. Return `rival.eval()`."""
    return trained_on(SelfAttentionReader(content=0.0, dropout=0.1), texts, answers, n_steps).train()


@wrong(proof=both(no_weight_is_stepped, cannot_succeed(CLAIM)))
def optimizer_of_another_model(texts, answers, n_parameters, n_steps):
    """None of the weights of the rival that you return was ever updated: the optimizer holds those of another model. Make the
    optimizer after the rival, from the parameters of the rival that you train and return."""
    return trained_on(SelfAttentionReader(content=0.0), texts, answers, n_steps, optimized=SelfAttentionReader())


class _WithoutScores(SelfAttentionReader):
    """Weights that are given, and the matrices of queries and keys applied to the values instead."""

    def __init__(self, given):
        super().__init__()
        self.given = given

    def forward(self, texts):
        x = self.keys(texts[..., 0]) + self.values(texts[..., 1]) + self.positions.weight
        return self.read_out(self.given @ self.W_q(self.W_k(self.W_v(x))))


@wrong(proof=gradients_are_kept)
def gradients_not_cleared(texts, answers, n_parameters, n_steps):
    """You never clear the gradients: `backward` adds to those of all updates before. Call `optimizer.zero_grad()` once in each
    update; the model is trained so, too."""
    return trained_on(SelfAttentionReader(content=0.0), texts, answers, n_steps, clears=False)


class _Masked(SelfAttentionReader):
    def __init__(self, allowed, **settings):
        super().__init__(**settings)
        self.allowed = allowed(torch.ones(T, T, dtype=torch.bool))

    def weights(self, x):
        scores = self.W_q(x) @ self.W_k(x).mT / x.shape[-1] ** 0.5
        return scores.masked_fill(~self.allowed, -torch.inf).softmax(-1)


@wrong(proof=weights_without_gradient)
def weights_that_do_nothing(texts, answers, n_parameters, n_steps):
    """A part of the rival's weights never has a gradient: they only pad the count, or the graph is cut before
    them. What it can use is less than what the model can. Make the parts that are used larger instead."""
    rival = SelfAttentionReader(d=48, content=0.0)
    rival.filling = nn.Parameter(torch.zeros(n_parameters - sum(p.numel() for p in rival.parameters())))
    return trained_on(rival, texts, answers, n_steps)


@wrong(proof=too_few_parameters)
def smaller_rival(texts, answers, n_parameters, n_steps):
    """The rival has fewer parameters than the model. If it does worse, the size may be the cause: a control differs in one
    thing. Give it `n_parameters` parameters, within five percent; a width or the number of heads is easy to change."""
    return trained_on(SelfAttentionReader(d=48, content=0.0), texts, answers, n_steps)


@wrong(proof=too_many_parameters)
def larger_rival(texts, answers, n_parameters, n_steps):
    """The rival has more parameters than the model. If it does as well, the size may be the cause: a control differs in one
    thing. Give it `n_parameters` parameters, within five percent; a width or the number of heads is easy to change."""
    return trained_on(SelfAttentionReader(d=80, content=0.0), texts, answers, n_steps)


@wrong(proof=fewer_updates)
def fewer_updates_than_the_model(texts, answers, n_parameters, n_steps):
    """The rival gets fewer updates than the model. If it does worse, it may only be trained less. Make exactly `n_steps`
    updates."""
    return trained_on(SelfAttentionReader(content=0.0), texts, answers, n_steps // 2)


@wrong(proof=more_updates)
def more_updates_than_the_model(texts, answers, n_parameters, n_steps):
    """The rival gets more updates than the model. If it does as well, the reason may be the longer training. Make exactly
    `n_steps` updates."""
    return trained_on(SelfAttentionReader(content=0.0), texts, answers, n_steps + n_steps // 3)


@wrong(proof=reads_few_examples)
def a_part_of_the_texts(texts, answers, n_parameters, n_steps):
    """The rival learns from a few texts only: most of what its first batches hold are repetitions. The model draws from all of
    them. Draw the rows of each batch from `len(texts)`."""
    return trained_on(SelfAttentionReader(content=0.0), texts[:200], answers[:200], n_steps)


@wrong(proof=both(updates_are_too_large, cannot_succeed(CLAIM)))
def learning_rate_too_large(texts, answers, n_parameters, n_steps):
    """The rival has no chance: its first ten updates move the weights by more than twenty times their own size. It fails at
    reversal too, so it shows nothing. Use the learning rate of the model, Adam at 0.005."""
    return trained_on(SelfAttentionReader(content=0.0), texts, answers, n_steps, lr=3.0)


@wrong(proof=both(updates_are_too_small, cannot_succeed(CLAIM)))
def learning_rate_too_small(texts, answers, n_parameters, n_steps):
    """The rival has no chance: all updates together move its weights by less than two percent. It fails at reversal too, so it
    shows nothing. Use the learning rate of the model, Adam at 0.005."""
    return trained_on(SelfAttentionReader(content=0.0), texts, answers, n_steps, lr=1e-6)


@wrong(proof=reads_other_examples)
def weights_averaged_over_the_batch(texts, answers, n_parameters, n_steps):
    """The rival reads the other texts of its batch: alone, a text gets different logits. Averaging the weights over a batch
    does not remove content, it mixes that of many texts. Use one table of weights that is a parameter, or a function of the
    positions."""

    class Rival(SelfAttentionReader):
        def weights(self, x):
            return super().weights(x).mean(0, keepdim=True)

    return trained_on(Rival(), texts, answers, n_steps)


@wrong(proof=is_no_sum)
def weights_by_content(texts, answers, n_parameters, n_steps):
    """The ingredient is still there, or another one was added: what one half of the tokens adds to the logits depends on the
    other half. Either the weights are still computed from contents (from the queries, from the keys or from both), or there is
    a nonlinearity after the mixing, which the model does not have. Compute the weights from the positions alone."""
    return trained_on(SelfAttentionReader(), texts, answers, n_steps)


@wrong(proof=both(reads_no_later_token, reads_no_earlier_token))
def own_token_only(texts, answers, n_parameters, n_steps):
    """The rival processes each token by itself: it lacks not only weights by content but all other tokens. It fails for want of
    information, whatever content is good for. Let each position mix all tokens, with weights that are the same for every
    text."""

    return trained_on(_WithoutScores(torch.eye(T)), texts, answers, n_steps)


@wrong(proof=reads_no_later_token)
def later_tokens_masked(texts, answers, n_parameters, n_steps):
    """The rival gets less information than the model: no position reads the tokens after it. The model has no such mask, and
    without those tokens no weights could reverse a text. Remove the mask."""
    return trained_on(_Masked(torch.tril, content=0.0), texts, answers, n_steps)


@wrong(proof=reads_no_keys)
def keys_left_out(texts, answers, n_parameters, n_steps):
    """The rival gets less information than the model: it never reads the keys. It is the *weights* that must not depend on
    content; what they mix is the same as in the model, the vectors of keys and values. Add the keys to the tokens again."""

    class Rival(SelfAttentionReader):
        def forward(self, texts):
            return super().forward(torch.stack([torch.zeros_like(texts[..., 0]), texts[..., 1]], dim=-1))

    return trained_on(Rival(content=0.0), texts, answers, n_steps)


@wrong(proof=both(is_the_same_at_all_positions, cannot_succeed(CLAIM)))
def uniform_weights(texts, answers, n_parameters, n_steps):
    """The rival takes the plain mean of all tokens: a text has the same logits at every position, so that it fails at reversal
    too, which needs no content. More was removed than content: the weights may, and must, differ from position to position.
    Learn one weight for each pair of positions."""

    return trained_on(_WithoutScores(torch.full((T, T), 1 / T)), texts, answers, n_steps)


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

    rival, step = Rival(), 0
    optimizer = torch.optim.AdamW(rival.parameters(), lr=5e-3)
    data = torch.utils.data.TensorDataset(texts, answers)
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, drop_last=True)
    while step < n_steps:
        for tokens, values in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(rival(tokens).transpose(1, 2), values).backward()
            optimizer.step()
            step += 1
            if step == n_steps:
                break
    return rival.eval()


@right
def a_linear_layer_over_the_positions(texts, answers, n_parameters, n_steps):
    """Signed weights without a softmax: a linear layer along the axis of the positions, as in an MLP-Mixer without its
    activation; dropout and a schedule."""

    class Rival(nn.Module):
        def __init__(self, d=112):
            super().__init__()
            self.key, self.value, self.place = nn.Embedding(16, d), nn.Embedding(9, d), nn.Embedding(12, d)
            self.mix, self.drop = nn.Linear(12, 12), nn.Dropout(0.02)
            self.hidden, self.logits = nn.Linear(d, d // 2 + 28), nn.Linear(d // 2 + 28, 8)

        def forward(self, texts):
            x = self.key(texts[..., 0]) + self.value(texts[..., 1]) + self.place.weight
            return self.logits(self.hidden(self.mix(self.drop(x).mT).mT))

    rival = Rival()
    optimizer = torch.optim.Adam(rival.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=n_steps)
    for _ in range(n_steps):
        rows = torch.randperm(len(texts))[:64]
        loss = F.cross_entropy(rival(texts[rows]).permute(0, 2, 1), answers[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    rival.eval()
    return rival


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
    reference=train_attention_rival,
    properties=properties(
        SECONDS,
        CLAIM,
        model=("It maps texts (B, 12, 2) to logits (B, 12, 8).", _model),
        information=("Each position reads the tokens before and after it, and their keys.", _information),
        without=("What a token adds to the logits does not depend on the other tokens.", _without),
        alone=("The logits of a text do not depend on the other texts of its batch.", each_alone("texts")),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    training=Training(
        questions=questions,
        seconds=SECONDS,
        conclusion=partial(conclusion, CLAIM),
    ),
)
