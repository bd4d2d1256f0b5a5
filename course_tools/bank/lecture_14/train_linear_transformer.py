"""Build task 14.6, train_linear_transformer: a language model with linear attention; what students hand in, wrong and right."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.models import LinearTransformer
from course_tools.bank import language_models
from course_tools.bank import stepwise_models as stepwise
from course_tools.bank import training_loops as loops
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Severity, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 200_000, 400
LONG, MOST_NUMBERS = 256, 10_000
"""Tokens of the texts that are read one by one, and the numbers that a state may hold for each sequence."""

HINTS = (
    (
        "Write one layer that does both: it takes vectors (B, T, d_model) and the state (S, z) of the tokens before them, and "
        "gives contexts and the state after them. For T = 1 and a state it is `step`; for T tokens and a state of zeros it is "
        "the parallel form."
    ),
    (
        "With `similar = (phi_q @ phi_k.mT).tril()`, the numerators are `phi_q @ S + similar @ v`: what the state holds of "
        "earlier tokens, and the tokens at hand. The normaliser is made of z and of the rows of `similar` in the same way. The "
        "new state is `S + phi_k.mT @ v` and `z + phi_k.sum(-2)`. It also needs the number of tokens read so far: the position "
        "of the next token."
    ),
    (
        "`start` makes zeros and calls `step` for each token of the prompt. Do not add in place (`S += …`): the caller may "
        "step again from the old state. Train as in 07.7: Adam with a learning rate of 0.004, 16 windows of 33 tokens, "
        "`F.cross_entropy(logits.flatten(0, 1), targets.flatten())`, and return `model.eval()`."
    ),
)


def train_linear_transformer(text: Tensor, n_tokens: int, n_steps: int) -> nn.Module:
    """Build a language model with linear attention, train it on a text, and return it.

    The model has two forms, which give the same logits. `model(tokens)` maps tokens (B, T) with T ≤ 256 to logits
    (B, T, n_tokens) in parallel; those at t predict the token at t + 1. `state = model.start(tokens)` reads a prompt (B, T),
    T ≥ 0, and `logits, state = model.step(token, state)` reads one more token (B,) and gives logits (B, n_tokens).

    The state holds at most 10,000 numbers for each sequence, however many tokens were read, a query of the next token chooses
    what is read from it, and `step` does not change the state that it is given.

    Args:
        text: the tokens to learn from, (N,), integers below n_tokens.
        n_tokens: size of the vocabulary.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """
    d_model, n_heads, context, batch_size = 64, 4, 32, 16

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
            self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
            self.feed_forward = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

        def forward(self, x, S, z):
            q, k, v = (h.unflatten(-1, (n_heads, -1)).transpose(1, 2) for h in self.qkv(self.norm_1(x)).chunk(3, dim=-1))
            phi_q, phi_k = F.elu(q) + 1, F.elu(k) + 1
            similar = (phi_q @ phi_k.mT).tril()
            total = (phi_q @ z[..., None]) + similar.sum(-1, keepdim=True)
            mixed = (phi_q @ S + similar @ v) / total
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            return x + self.feed_forward(self.norm_2(x)), S + phi_k.mT @ v, z + phi_k.sum(-2)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(n_tokens, d_model), nn.Embedding(256, d_model)
            self.layers = nn.ModuleList([Layer(), Layer()])
            self.norm, self.logits = nn.LayerNorm(d_model), nn.Linear(d_model, n_tokens)

        def empty(self, B):
            d = d_model // n_heads
            return 0, [(torch.zeros(B, n_heads, d, d), torch.zeros(B, n_heads, d)) for _ in self.layers]

        def read(self, tokens, state):
            t, sums = state
            x, after = self.tokens(tokens) + self.positions.weight[t : t + tokens.shape[1]], []
            for layer, (S, z) in zip(self.layers, sums, strict=True):
                x, S, z = layer(x, S, z)
                after.append((S, z))
            return self.logits(self.norm(x)), (t + tokens.shape[1], after)

        def forward(self, tokens):
            return self.read(tokens, self.empty(len(tokens)))[0]

        def start(self, tokens):
            return self.read(tokens, self.empty(len(tokens)))[1]

        def step(self, token, state):
            logits, state = self.read(token[:, None], state)
            return logits[:, 0], state

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for _ in range(n_steps):
        starts = torch.randint(len(text) - context, (batch_size, 1))
        windows = text[starts + torch.arange(context + 1)]
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def _questions(draw: Draw) -> tuple[Call, Truth]:
    """Add a text (3, 256) to be read token by token: two that end alike, and the first with what comes before mixed up."""
    (data, queries, _, probed), truth = language_models.questions(N_STEPS, draw)
    one, other = truth["windows"][: 2 * LONG // queries[0].shape[1]].reshape(2, LONG)
    other = torch.cat([other[:-1], one[-1:]])
    mixed = torch.cat([one[:-1][draw.uniform(LONG - 1).argsort()], one[-1:]])
    queries = [*queries, torch.stack([one, other, mixed])]
    return (data, queries, queries[-1:], probed), {**truth, "queries": queries}


def _past(measured: Measured, truth: Truth) -> str | None:
    return (
        language_models.is_causal(measured, truth)
        or language_models.keeps_windows_apart(measured, truth)
        or language_models.knows_the_order(measured, truth)
    )


def grows_by_the_tokens(measured: Measured, truth: Truth) -> bool:
    """Evidence: the state holds one number more of each sequence after each token."""
    return bool(measured.steps) and bool((measured.steps[2].diff() == len(measured.steps[0])).all())


def steps_forget_the_past(measured: Measured, truth: Truth) -> bool:
    """Evidence: after other tokens, wherever the last one is the same, the step form gives the same logits."""
    one, other, _ = truth["queries"][-1]
    return stepwise.forms_differ(measured, truth) and trained.is_near(
        measured.steps[0][0, one == other], measured.steps[0][1, one == other], tolerance=1e-6
    )


def steps_ignore_the_order(measured: Measured, truth: Truth) -> bool:
    """Evidence: the step form gives the same for another order of the earlier tokens, and the parallel form does not."""
    if not stepwise.forms_differ(measured, truth):
        return False
    forms = measured.steps[0], measured.outputs[-1]
    return [trained.is_near(logits[0, -1], logits[2, -1], tolerance=1e-5) for logits in forms] == [True, False]


FADES = 0.95


def _features(x):
    return F.elu(x) + 1


def _triangle(q, k, v):
    """The causal form by all similarities: those of later keys are cut off, each row is divided by its sum."""
    similar = (_features(q) @ _features(k).mT).tril()
    return similar @ v / similar.sum(-1, keepdim=True)


def _fading(q, k, v):
    """The same, where what a token wrote fades with each step."""
    position = torch.arange(q.shape[-2])
    similar = (_features(q) @ _features(k).mT * FADES ** (position[:, None] - position).clamp(min=0)).tril()
    return similar @ v / similar.sum(-1, keepdim=True)


class SmallLinearTransformer(nn.Module):
    """One layer with one head; a wrong submission changes its parallel form, its positions, or how it steps."""

    def __init__(self, n_tokens, mix=_triangle, positions=1.0, dropout=0.0):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(n_tokens, 32), nn.Embedding(LONG, 32)
        self.qkv, self.norm, self.logits = nn.Linear(32, 96), nn.LayerNorm(32), nn.Linear(32, n_tokens)
        self.feed_forward = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32))
        self.mix, self.used, self.dropout = mix, positions, nn.Dropout(dropout)

    def embed(self, tokens, positions):
        return self.dropout(self.tokens(tokens) + self.used * self.positions(positions))

    def predict(self, x, context):
        x = x + context
        return self.logits(self.norm(x + self.feed_forward(x)))

    def forward(self, tokens):
        x = self.embed(tokens, torch.arange(tokens.shape[1]))
        return self.predict(x, self.mix(*self.qkv(x).chunk(3, dim=-1)))

    def start(self, tokens):
        S, z = torch.zeros(len(tokens), 32, 32), torch.zeros(len(tokens), 32)
        state = S, z, torch.zeros(len(tokens), dtype=torch.long)
        for token in tokens.unbind(1):
            _, state = self.step(token, state)
        return state

    def step(self, token, state):
        S, z, t = state
        x = self.embed(token, t)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        context, S, z = self.write_and_read(S, z, _features(q), _features(k), v)
        return self.predict(x, context), (S, z, t + 1)

    def write_and_read(self, S, z, phi_q, phi_k, v):
        S, z = S + phi_k[:, :, None] * v[:, None, :], z + phi_k
        return self.divided(phi_q, S, z), S, z

    def divided(self, phi_q, S, z):
        return (phi_q[:, None] @ S)[:, 0] / (phi_q * z).sum(-1, keepdim=True)


submit = language_models.submission(SmallLinearTransformer)
wrong = loops.Submissions(__name__, submit, results="predictions")
language_models.loop_mistakes(
    wrong, {name: loops.LOOP[name] for name in ("dropout_left_on", "gradients_not_cleared", "never_updated")}, part=1.0
)


@wrong.change("mix", language_models.reads_the_future)
def sums_over_the_whole_text(q, k, v):
    """Your model reads the future: its logits at a position change when later tokens change. Position t may only use the sums
    up to t: take cumulative sums over the positions, of z as well."""
    phi_q, phi_k = _features(q), _features(k)
    return phi_q @ (phi_k.mT @ v) / (phi_q @ phi_k.sum(1)[:, :, None])


@wrong.change("mix", trained.reads_other_examples)
def sums_over_the_batch(q, k, v):
    """The logits of a window depend on the other windows of its batch. Perhaps your sums run over the batch axis: count the
    axis of the positions from the end; it is the third from the end in S, and the second in z."""
    phi_q, phi_k = _features(q), _features(k)
    S = (phi_k[..., None] * v[..., None, :]).cumsum(0)
    return (phi_q[:, :, None] @ S)[:, :, 0] / (phi_q * phi_k.cumsum(0)).sum(-1, keepdim=True)


wrong.add(
    "targets_not_shifted",
    language_models.NOT_SHIFTED,
    {"part": 0.5, "batch": loops.not_shifted},
    proof=language_models.repeats_the_last_token,
)


@wrong(proof=language_models.ignores_the_order)
def without_positions(*data):
    """Your model does not know the order of the tokens: with those before the last one in another order, it predicts the same.
    A sum has no order. Add a vector of the position to each token's vector, in both forms."""
    return submit(data, positions=0.0)


@wrong.change("model", stepwise.changes_its_state)
class ChangesTheStateInPlace(SmallLinearTransformer):
    """Your `step` changes the state that it is given, or keeps it in the model: after another token was read from the same
    state, the logits are different. Make new tensors, `S = S + …` and not `S += …`, and return them."""

    def write_and_read(self, S, z, phi_q, phi_k, v):
        S += phi_k[:, :, None] * v[:, None, :]
        z += phi_k
        return self.divided(phi_q, S, z), S, z


@wrong.change("model", grows_by_the_tokens, severity=Severity.PART)
class KeepsTheTokens(SmallLinearTransformer):
    """Your state is the text itself: it grows by one number with each token, and each step reads the whole text again. Keep the
    sums S and z of each layer instead, and add the new token to them."""

    def start(self, tokens):
        return tokens

    def step(self, token, state):
        state = torch.cat([state, token[:, None]], dim=1)
        return self(state)[:, -1], state


@wrong.change("model", stepwise.grows, severity=Severity.PART)
class KeepsKeysAndValues(SmallLinearTransformer):
    """Your state grows with every token: it is a list of what was read, such as a cache of keys and values. With linear
    attention the past fits into the sums S and z, whose size does not depend on the number of tokens."""

    def start(self, tokens):
        state = torch.zeros(len(tokens), 0, 32), torch.zeros(len(tokens), 0, 32)
        for token in tokens.unbind(1):
            _, state = self.step(token, state)
        return state

    def step(self, token, state):
        keys, values = state
        x = self.embed(token, torch.tensor(keys.shape[1]))
        q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
        keys, values = torch.cat([keys, k], dim=1), torch.cat([values, v], dim=1)
        similar = _features(q) @ _features(keys).mT
        return self.predict(x, (similar @ values / similar.sum(-1, keepdim=True))[:, 0]), (keys, values)


@wrong.change("model", stepwise.lists_what_it_read, severity=Severity.IDEA)
class KeepsTheTextInABuffer(SmallLinearTransformer):
    """Your state has one size, and it is a list: what it held early in a text is still there later, number by number. So it is
    the text, or keys and values, in a buffer as long as the longest text. Keep the sums S and z: each token changes them as a
    whole."""

    def start(self, tokens):
        return F.pad(tokens + 1, (0, LONG - tokens.shape[1]))

    def step(self, token, state):
        t = int((state[0] > 0).sum())
        state = torch.cat([state[:, :t], token[:, None] + 1, state[:, t + 1 :]], dim=1)
        return self(state[:, : t + 1] - 1)[:, -1], state


@wrong.change("model", stepwise.goes_through_gates, severity=Severity.IDEA)
class GatedRecurrence(nn.Module):
    """Your model is a recurrent network: from each state to the next, numbers go through a nonlinear function such as `tanh` or
    `sigmoid`. In linear attention a token adds φ(k) vᵀ to S and φ(k) to z, and only what is read from them goes through
    networks. That is why the parallel form exists."""

    def __init__(self, n_tokens):
        super().__init__()
        self.embed, self.cell, self.logits = nn.Embedding(n_tokens, 32), nn.GRUCell(32, 64), nn.Linear(64, n_tokens)

    def start(self, tokens):
        return self.read(tokens)[1]

    def step(self, token, state):
        state = self.cell(self.embed(token), state)
        return self.logits(state), state

    def read(self, tokens):
        state, logits = torch.zeros(len(tokens), 64), []
        for token in tokens.unbind(1):
            found, state = self.step(token, state)
            logits.append(found)
        return logits, state

    def forward(self, tokens):
        return torch.stack(self.read(tokens)[0], dim=1)


@wrong.change("model", steps_forget_the_past)
class ForgetsThePast(SmallLinearTransformer):
    """Your step form depends on the last token alone: the new state replaces the old one. Add the new token to the sums:
    S + φ(k) vᵀ and z + φ(k)."""

    def write_and_read(self, S, z, phi_q, phi_k, v):
        S, z = phi_k[:, :, None] * v[:, None, :], phi_k
        return self.divided(phi_q, S, z), S, z


@wrong.change("model", trained.both(stepwise.holds_no_products, stepwise.forgets), severity=Severity.IDEA)
class FadingMean(SmallLinearTransformer):
    """Your state forgets, and it holds no products φ(k) vᵀ: it is a mean of vectors that fades, or a list of the last tokens.
    In linear attention each token adds the outer product of the features of its key and its value to S, which does not fade,
    and the features of a query choose what is read from it."""

    def __init__(self, n_tokens):
        super().__init__(n_tokens, mix=self.fading_mean)
        self.fades = nn.Parameter(torch.linspace(-1, 3, 32))

    def fading_mean(self, q, k, v):
        age = (torch.arange(v.shape[1])[:, None] - torch.arange(v.shape[1]))[..., None]
        fades = self.fades.sigmoid()
        return (1 - fades) * torch.einsum("tjd,bjd->btd", (age >= 0) * fades ** age.clamp(min=0), v)

    def write_and_read(self, S, z, phi_q, phi_k, v):
        fades = self.fades.sigmoid()
        z = fades * z + (1 - fades) * v
        return z, S, z


@wrong.change("model", stepwise.holds_no_products, severity=Severity.IDEA)
class MeanOfValues(SmallLinearTransformer):
    """Your state is a sum of vectors, one of each token: it holds no products φ(k) vᵀ. So there are no keys that a query could
    choose by: whatever token comes next, it reads the same mean of the past. In linear attention each token adds the outer
    product of the features of its key and its value to S, and a query reads φ(q) S / φ(q) z."""

    def __init__(self, n_tokens):
        super().__init__(n_tokens, mix=lambda q, k, v: F.gelu(v).cumsum(1) / torch.arange(1, v.shape[1] + 1)[:, None])

    def write_and_read(self, n, total, phi_q, phi_k, v):
        n, total = n + 1, total + F.gelu(v)
        return total / n[:, 0], n, total


@wrong.change("model", stepwise.reads_without_a_query, severity=Severity.IDEA)
class OneQueryForAll(SmallLinearTransformer):
    """What your model reads from its state does not depend on the token that comes next, or hardly: S is read by the same
    weights at all tokens, or a mean of the past says more than S does. So nothing is looked up, and keys are of no use. A query
    is made from the token at hand, and φ(q) decides which rows of S it reads: φ(q) S / φ(q) z."""

    def __init__(self, n_tokens):
        super().__init__(n_tokens, mix=lambda q, k, v: _triangle(torch.ones_like(q), k, v))

    def divided(self, phi_q, S, z):
        return super().divided(torch.ones_like(phi_q), S, z)


@wrong.change("model", stepwise.forgets, severity=Severity.PART)
class FadingSums(SmallLinearTransformer):
    """Your state forgets: half a text later, hardly a number of it still holds what the first token added. It fades at each
    step, by a constant or by a gate, or it holds the last tokens only. Such memories exist (lecture 18); in linear attention S
    and z are plain sums, to which each token adds φ(k) vᵀ and φ(k)."""

    def __init__(self, n_tokens):
        super().__init__(n_tokens, mix=_fading)

    def write_and_read(self, S, z, phi_q, phi_k, v):
        return super().write_and_read(FADES * S, FADES * z, phi_q, phi_k, v)


@wrong.change("model", steps_ignore_the_order)
class StepsWithoutPositions(SmallLinearTransformer):
    """Your step form does not know the order of the tokens that it has read, and the parallel form does: `step` forgets the
    position, or takes the same one for every token. The number of tokens read so far belongs to the state."""

    def step(self, token, state):
        S, z, t = state
        logits, (S, z, _) = super().step(token, (S, z, torch.zeros_like(t)))
        return logits, (S, z, t)


@wrong.change("model", stepwise.forms_differ_at_once)
class ReadsBeforeItWrites(SmallLinearTransformer):
    """Your two forms differ already at the first token, where there is nothing to attend to but the token itself. So one of
    three things is not the same: its position (0 in both, also after `start` for an empty prompt), the order in `step` (first
    add the token to S and z, then read from them), or the division by φ(q) z."""

    def write_and_read(self, S, z, phi_q, phi_k, v):
        context = (phi_q[:, None] @ S)[:, 0] / ((phi_q * z).sum(-1, keepdim=True) + 1e-6)
        return context, S + phi_k[:, :, None] * v[:, None, :], z + phi_k


@wrong.change("mix", stepwise.forms_differ)
def softmax_in_one_form(q, k, v):
    """Your two forms agree on the first token and differ afterwards: they do not mix the past in the same way. What `step` adds
    up must be what the parallel form sums: the same features of the same keys, divided by the same z. A softmax in the parallel
    form has no such sums."""
    future = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
    return (q @ k.mT).masked_fill(future, -torch.inf).softmax(-1) @ v


@right
def with_shifted_tokens(text, n_tokens, n_steps):
    """No positions: each token is mixed with the one before it, which the state keeps; squared features, one head, RMSprop; the
    parallel form is a triangle, `start` reads the prompt in parallel."""
    d = 56

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.before, self.up = nn.Embedding(n_tokens, d), nn.Embedding(n_tokens + 1, d), nn.Linear(d, 3 * d)
            self.q, self.k, self.v, self.down = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(3 * d, d)
            self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, n_tokens)

        def inputs(self, tokens, last):
            x = self.embed(tokens) + self.before(torch.cat([last[:, None], tokens[:, :-1]], dim=1))
            return x, self.q(x).square() + 0.01, self.k(x).square() + 0.01, self.v(x)

        def outputs(self, x, mixed):
            x = self.norm(x + mixed)
            return self.head(x + self.down(self.up(x).relu()))

        def forward(self, tokens):
            x, q, k, v = self.inputs(tokens, torch.full_like(tokens[:, 0], n_tokens))
            similar = torch.tril(q @ k.mT)
            return self.outputs(x, (similar / similar.sum(-1, keepdim=True)) @ v)

        def start(self, tokens):
            last = torch.full((len(tokens),), n_tokens)
            _, _, k, v = (
                self.inputs(tokens, last)
                if tokens.shape[1]
                else (0, 0, torch.zeros(len(last), 0, d), torch.zeros(len(last), 0, d))
            )
            last = tokens[:, -1] if tokens.shape[1] else last
            return {"S": k.mT @ v, "z": k.sum(1), "last": last}

        def step(self, token, state):
            x, q, k, v = self.inputs(token[:, None], state["last"])
            S, z = state["S"] + k.mT @ v, state["z"] + k[:, 0]
            return self.outputs(x, q @ S / (q @ z[:, :, None]))[:, 0], {"S": S, "z": z, "last": token}

    model = Model()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
    for _ in range(n_steps):
        tokens, targets = loops.drawn(text, batch_size=16)
        F.cross_entropy(model(tokens).mT, targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


@right
def in_two_chunks(text, n_tokens, n_steps):
    """Weights in a dict and no module: an object with methods; several heads, chunks of 16 tokens with one state passed on."""
    d, h = 64, 4
    shapes = {"embed": (n_tokens, d), "position": (LONG, d), "qkv": (d, 3 * d), "up": (d, 4 * d), "down": (4 * d, d)}
    weights = {name: (torch.randn(shape) * shape[0] ** -0.5).requires_grad_() for name, shape in shapes.items()}
    weights["out"] = (torch.randn(d, n_tokens) * 0.02).requires_grad_()

    class Model:
        def start(self, tokens):
            state = torch.zeros(len(tokens), h, d // h, d // h + 1), 0
            return state if tokens.shape[1] == 0 else self.chunks(tokens, state)[1]

        def chunk(self, tokens, state):
            S, t = state
            n = tokens.shape[1]
            x = weights["embed"][tokens] + weights["position"][t : t + n]
            q, k, v = (F.layer_norm(x, (d,)) @ weights["qkv"]).view(len(x), n, 3, h, -1).permute(2, 0, 3, 1, 4)
            q, k = q.sigmoid() + 0.05, k.sigmoid().pow(2) + 0.05
            v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
            read = q @ S + (q @ k.mT).tril() @ v
            x = x + (read[..., :-1] / read[..., -1:]).transpose(1, 2).flatten(2)
            x = x + (F.layer_norm(x, (d,)) @ weights["up"]).relu() @ weights["down"]
            return F.layer_norm(x, (d,)) @ weights["out"], (S + k.mT @ v, t + n)

        def chunks(self, tokens, state):
            logits = []
            for part in tokens.split(16, dim=1):
                found, state = self.chunk(part, state)
                logits.append(found)
            return torch.cat(logits, dim=1), state

        def __call__(self, tokens):
            return self.chunks(tokens, self.start(tokens[:, :0]))[0]

        def step(self, token, state):
            logits, state = self.chunk(token[:, None], state)
            return logits[:, -1], state

    model, parameters = Model(), list(weights.values())
    optimizer = torch.optim.AdamW(parameters, lr=6e-3)
    for _ in range(n_steps):
        tokens, targets = loops.drawn(text, batch_size=16)
        optimizer.zero_grad()
        F.nll_loss(model(tokens).log_softmax(-1).flatten(0, 1), targets.flatten()).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return model


_TRAINED = ("evaluation", "learns")

exercise = Exercise(
    id="14.6",
    title="A language model with linear attention",
    extra=True,
    reference=train_linear_transformer,
    properties=(
        *trained.sound_training(
            SECONDS,
            MOST_PARAMETERS,
            (f"The model maps tokens (B, T), T ≤ {LONG}, to logits (B, T, n_tokens).", language_models.maps_tokens_to_logits),
        ),
        trained.holds(
            "learns",
            "On held-out text the loss is 0.2 nats below that of the characters' frequencies.",
            language_models.beats_the_frequencies,
            1,
        ),
        trained.holds(
            "past", "The logits depend on the tokens so far and on their order, and on nothing else.", _past, 2, _TRAINED
        ),
        trained.holds("steps", "The model has `start` and `step`, which gives logits (B, n_tokens).", stepwise.steps, 0),
        trained.holds("agree", "Both forms give the same logits.", stepwise.agree, 2, (*_TRAINED, "steps")),
        trained.holds(
            "constant",
            f"The state is a sum of products of keys and values, read by a query, as large after one token as after {LONG}.",
            trained.every(stepwise.constant(MOST_NUMBERS), stepwise.is_a_sum),
            1,
            (*_TRAINED, "steps"),
        ),
        trained.holds("values", "A step leaves the state that it is given as it is.", stepwise.values, 1, (*_TRAINED, "steps")),
        trained.holds(
            "score",
            "On held-out text the loss is below that of a bigram table of the characters.",
            language_models.beats_a_table_of_pairs,
            1,
            _TRAINED,
        ),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        LinearTransformer: "write the model yourself: embeddings, layers, both forms.",
        nn.LSTM: "use linear attention: its state is a sum over the past.",
        nn.GRU: "use linear attention: its state is a sum over the past.",
        nn.RNN: "use linear attention: its state is a sum over the past.",
    },
    training=Training(_questions, SECONDS),
)
