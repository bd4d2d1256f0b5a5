"""Build task 17.7, train_llama: today's decoder and its training loop from an empty cell; what students hand in.

The text, the loss and the mistakes of the loop are those of `course_tools.bank.language_models`. Whether queries and keys are
rotated shows in texts of one repeated token. Their values are all alike, so that every position has the same logits, unless a
position is added to the token or turns its value. Without rotation their weights are 1 / t, whatever the token is.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.models import Llama
from course_tools.bank import language_models, stepwise_models
from course_tools.bank import training_loops as loops
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Severity, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS, LONG = 60.0, 120_000, 400, 64
D_MODEL, N_HEADS, N_GROUPS, D_K, D_FF, N_LAYERS = 64, 4, 2, 16, 172, 2
OF_A_TABLE = language_models.N_TOKENS * D_MODEL
OF_A_LAYER = 2 * D_MODEL * (N_HEADS + N_GROUPS) * D_K + 3 * D_MODEL * D_FF + 2 * D_MODEL
N_PARAMETERS = 2 * OF_A_TABLE + N_LAYERS * OF_A_LAYER + D_MODEL
"""With a readout of its own; a readout that is the embedding has one table less."""
OF_A_TOKEN = 2 * N_LAYERS * N_GROUPS * D_K
"""Numbers in the cache for each token: a key and a value in each layer and group."""

HINTS = (
    (
        "Write one layer that does both: it takes vectors (B, T, 64) and the keys and values of the tokens before them, (B, "
        "2, t, 16) each, and gives new vectors and the longer cache. For T = 1 it is `step`; for a whole text and an empty "
        "cache it is the parallel form. The number of tokens in the cache is the position of the first new one."
    ),
    (
        "In a layer: norm, queries (B, 4, T, 16), keys and values (B, 2, T, 16); rotate queries and new keys from position t "
        "on; append keys and values to the cache; only then copy each head of the cache for its two heads of queries. The "
        "mask is `torch.ones(T, t + T, dtype=torch.bool).tril(t)`. Add the result to x, then the same with the gated network."
    ),
    (
        "`start` reads the prompt from an empty cache, `torch.zeros(B, 2, 0, 16)` for keys and for values of each layer, and "
        "returns the new one; `step` reads `token[:, None]` and returns `logits[:, 0]`. `torch.cat` makes new tensors, so "
        "that the old cache stays as it is. Train as in 07.7: AdamW with a learning rate of 0.004, 16 windows of 33 tokens, "
        "`model.eval()`."
    ),
)


def train_llama(text: Tensor, n_tokens: int, n_steps: int) -> nn.Module:
    """Build a small Llama, train it on a text, and return it.

    Its configuration: d_model 64; 2 layers; 4 heads of queries and 2 heads of keys and values, of 16 features each; gated
    networks with 172 hidden units; RMSNorm with a gain before attention, before the network and before the readout. There are
    no biases and no other parameters. Queries and keys are rotated, in pairs of your choice. The readout is a matrix of its
    own, or the embedding.

    The model has two forms, which give the same logits. `model(tokens)` maps tokens (B, T) with T ≤ 64 to logits (B, T,
    n_tokens) in parallel; those at t predict the token at t + 1. `state = model.start(tokens)` reads a prompt (B, T), T ≥ 0,
    and `logits, state = model.step(token, state)` reads one more token (B,) and gives logits (B, n_tokens).

    The state grows with each token by the keys and values of 2 heads in each layer, 128 numbers, and `step` does not change the
    state that it is given.

    Args:
        text: the tokens to learn from, (N,), integers below n_tokens.
        n_tokens: size of the vocabulary.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """
    d_model, n_heads, n_groups, d_k, d_ff, n_layers = 64, 4, 2, 16, 172, 2
    context, batch_size = 32, 16

    def rotate(x, start):
        position = start + torch.arange(x.shape[-2])
        angle = position[:, None] * 10_000 ** (-torch.arange(0, d_k, 2) / d_k)
        even, odd, cos, sin = x[..., 0::2], x[..., 1::2], angle.cos(), angle.sin()
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.RMSNorm(d_model, eps=1e-6), nn.RMSNorm(d_model, eps=1e-6)
            self.W_q, self.W_o = nn.Linear(d_model, n_heads * d_k, bias=False), nn.Linear(n_heads * d_k, d_model, bias=False)
            self.W_k, self.W_v = (nn.Linear(d_model, n_groups * d_k, bias=False) for _ in range(2))
            self.W_gate, self.W_up = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))
            self.W_down = nn.Linear(d_ff, d_model, bias=False)

        def forward(self, x, keys, values):
            y, T, t = self.norm_1(x), x.shape[1], keys.shape[2]
            q, k, v = (W(y).unflatten(-1, (-1, d_k)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
            keys, values = torch.cat([keys, rotate(k, t)], dim=2), torch.cat([values, v], dim=2)
            k, v = (cached.repeat_interleave(n_heads // n_groups, dim=1) for cached in (keys, values))
            allowed = torch.ones(T, t + T, dtype=torch.bool).tril(t)
            scores = (rotate(q, t) @ k.mT / d_k**0.5).masked_fill(~allowed, -torch.inf)
            x = x + self.W_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
            y = self.norm_2(x)
            return x + self.W_down(F.silu(self.W_gate(y)) * self.W_up(y)), (keys, values)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.layers = nn.Embedding(n_tokens, d_model), nn.ModuleList([Layer() for _ in range(n_layers)])
            self.norm, self.readout = nn.RMSNorm(d_model, eps=1e-6), nn.Linear(d_model, n_tokens, bias=False)

        def empty(self, B):
            return [(torch.zeros(B, n_groups, 0, d_k),) * 2 for _ in self.layers]

        def read(self, tokens, caches):
            x, after = self.tokens(tokens), []
            for layer, cache in zip(self.layers, caches, strict=True):
                x, cache = layer(x, *cache)
                after.append(cache)
            return self.readout(self.norm(x)), after

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
    """Add texts of one repeated token (5, 32), and texts (3, 64) that are read token by token; the former are also probed."""
    (data, queries, *_), truth = language_models.questions(N_STEPS, draw)
    long = truth["windows"][: 3 * LONG // queries[0].shape[1]].reshape(3, LONG)
    repeated = draw.uniform(language_models.N_TOKENS).argsort()[:5, None].repeat(1, language_models.T)
    queries = [*queries, repeated, long]
    return (data, queries, [long], [queries[1], repeated]), {**truth, "queries": queries}


def _size(measured: Measured, truth: Truth) -> str | None:
    if measured.n_parameters in (-1, N_PARAMETERS, N_PARAMETERS - OF_A_TABLE):
        return None
    return (
        f"The model has {measured.n_parameters:,} parameters, and the configuration {N_PARAMETERS:,}, or "
        f"{N_PARAMETERS - OF_A_TABLE:,} if its readout is the embedding."
    )


def _past(measured: Measured, truth: Truth) -> str | None:
    return (
        language_models.is_causal(measured, truth)
        or language_models.keeps_windows_apart(measured, truth)
        or language_models.knows_the_order(measured, truth)
    )


def _distances(measured: Measured, truth: Truth) -> str | None:
    if adds_positions(measured, truth):
        return "In a text of one repeated token, the logits change from position to position."
    if scores_by_position(measured, truth):
        return "In a text of one repeated token, two queries that come equally far after their keys score them differently."
    if rotates_nothing(measured, truth):
        return "In texts of one repeated token, the weights are the same whatever the token is: no score depends on a distance."
    return None


def _cache(measured: Measured, truth: Truth) -> str | None:
    if _grows_by(measured, OF_A_TOKEN):
        return None
    found = ", ".join(f"{n:,.0f}" for n in _growth(measured).unique().tolist()[:3])
    return (
        f"With each token, the state of a sequence grows by {found} numbers; the keys and values of two heads are {OF_A_TOKEN}."
    )


def _growth(measured: Measured) -> Tensor:
    """By how many numbers the state of a sequence grows with each token."""
    return measured.steps[2].diff() / len(measured.steps[0])


def _grows_by(measured: Measured, n: int) -> bool:
    """Whether each token adds n numbers to the state of a sequence, and at most two more, such as its position."""
    growth = _growth(measured)
    return bool(((growth >= n) & (growth <= n + 2)).all())


def rotates_nothing(measured: Measured, truth: Truth) -> bool:
    """Evidence: it attends, and in texts of one repeated token no weights depend on the token."""
    attends, on_repeated = (int(trained.probe_of(measured, i).counts[1]) for i in range(2))
    return attends > 0 == on_repeated


def scores_by_position(measured: Measured, truth: Truth) -> bool:
    """Evidence: in texts of one repeated token, scores depend on more than the distance."""
    return bool(trained.probe_of(measured, 1).by_position > 0)


def rotates_values(measured: Measured, truth: Truth) -> bool:
    """Evidence: in texts of one repeated token, the values of the first layer differ, and are equally long."""
    values = trained.probe_of(measured, 1).values
    if values.dim() != 3 or values.shape[1] != language_models.T:
        return False
    lengths = values.norm(dim=-1)
    alike = trained.is_near(values, values[:, :1].expand_as(values))
    return not alike and trained.is_near(lengths, lengths[:, :1].expand_as(lengths))


def adds_positions(measured: Measured, truth: Truth) -> bool:
    """Evidence: in texts of one repeated token, the logits change from position to position."""
    logits = measured.outputs[-2]
    return not trained.is_near(logits, logits[:, :1].expand_as(logits))


def keeps_one_number(measured: Measured, truth: Truth) -> bool:
    """Evidence: the state of a sequence holds one number more after each token."""
    return bool(measured.steps) and bool((_growth(measured) == 1).all())


def does_not_grow(measured: Measured, truth: Truth) -> bool:
    """Evidence: the state holds as much after each token."""
    return bool(measured.steps) and bool((_growth(measured) == 0).all())


def keeps_all_heads(measured: Measured, truth: Truth) -> bool:
    """Evidence: the state grows by keys and values of as many heads as there are of queries."""
    return bool(measured.steps) and _grows_by(measured, OF_A_TOKEN * N_HEADS // N_GROUPS)


def has_more_by(*differences: int) -> trained.Evidence:
    """Make evidence: the model has so many parameters more than the configuration, with either readout; less if negative."""
    counts = {n + more for n in (N_PARAMETERS, N_PARAMETERS - OF_A_TABLE) for more in differences}
    return lambda measured, truth: measured.n_parameters in counts


def forms_differ_from(n: int) -> trained.Evidence:
    """Make evidence: the logits of the two forms are the same for the first n tokens of a text, and not for the next one."""

    def shows(measured: Measured, truth: Truth) -> bool:
        if stepwise_models.steps(measured, truth) is not None:
            return False
        pairs = [(measured.outputs[-1][:, :t], measured.steps[0][:, :t]) for t in (n, n + 1)]
        return [trained.is_near(*pair) for pair in pairs] == [True, False]

    return shows


def _turned(x, start=0):
    """Rotate pairs of neighbours."""
    position = start + torch.arange(x.shape[-2])
    angle = position[:, None] * 10_000 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


class SmallLlama(nn.Module):
    """The model of the task; a wrong submission changes how it embeds, rotates, keeps, masks or copies, or its parts."""

    n_kept = N_GROUPS

    def __init__(self, n_tokens, dropout=0.0, bias=False, norm=nn.RMSNorm, hidden=(D_FF, 2)):
        super().__init__()
        d, self.d_ff = D_MODEL, hidden[0]
        widths = [(d, d), (d, self.n_kept * D_K), (d, self.n_kept * D_K), (d, d), (d, hidden[0] * hidden[1]), (hidden[0], d)]
        self.matrices = nn.ModuleList([nn.ModuleList([nn.Linear(*w, bias=bias) for w in widths]) for _ in range(N_LAYERS)])
        self.norms = nn.ModuleList([nn.ModuleList([norm(d), norm(d)]) for _ in range(N_LAYERS)])
        self.tokens, self.closing, self.dropout = nn.Embedding(n_tokens, d), norm(d), nn.Dropout(dropout)
        self.readout = nn.Linear(d, n_tokens, bias=False)

    def embed(self, tokens, t):
        return self.tokens(tokens)

    def rotated(self, q, k, v, t):
        return _turned(q, t), _turned(k, t), v

    def grown(self, cache, k, v):
        return torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)

    def seen(self, before, after):
        return after

    def mask(self, T, t):
        return torch.ones(T, t + T, dtype=torch.bool).tril(t)

    def copied(self, keys, values):
        return (x.repeat_interleave(N_HEADS // x.shape[1], dim=1) for x in (keys, values))

    def network(self, y, widen, narrow):
        gate, *up = widen(y).split(self.d_ff, dim=-1)
        return narrow(F.silu(gate) * up[0] if up else F.silu(gate))

    def layer(self, x, cache, matrices, norms):
        W_q, W_k, W_v, W_o, *network = matrices
        y, t = norms[0](x), cache[0].shape[2]
        q, k, v = (W(y).unflatten(-1, (-1, D_K)).transpose(1, 2) for W in (W_q, W_k, W_v))
        q, k, v = self.rotated(q, k, v, t)
        before, cache = cache, self.grown(cache, k, v)
        k, v = self.copied(*self.seen(before, cache))
        scores = (q @ k.mT / D_K**0.5).masked_fill(~self.mask(x.shape[1], t)[:, : k.shape[2]], -torch.inf)
        x = x + W_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.network(norms[1](x), *network), cache

    def empty(self, B):
        return [(torch.zeros(B, self.n_kept, 0, D_K),) * 2 for _ in self.norms]

    def read(self, tokens, caches):
        x, after = self.dropout(self.embed(tokens, caches[0][0].shape[2])), []
        for cache, *parts in zip(caches, self.matrices, self.norms, strict=True):
            x, cache = self.layer(x, cache, *parts)
            after.append(cache)
        return self.readout(self.closing(x)), after

    def forward(self, tokens):
        return self.read(tokens, self.empty(len(tokens)))[0]

    def start(self, tokens):
        return self.read(tokens, self.empty(len(tokens)))[1]

    def step(self, token, state):
        logits, state = self.read(token[:, None], state)
        return logits[:, 0], state


submit = language_models.submission(SmallLlama)
wrong = loops.Submissions(__name__, submit, results="predictions")
language_models.loop_mistakes(
    wrong, {name: loops.LOOP[name] for name in ("dropout_left_on", "gradients_not_cleared", "never_updated")}, part=0.25
)
language_models.without_attention(wrong)


@wrong.change("model", language_models.reads_the_future, part=0.25)
class SeesTheWholeText(SmallLlama):
    """Your model reads the future: its logits at a position change when later tokens change. Mask the scores with a lower
    triangular mask; in a step, the one query sees the whole cache."""

    def mask(self, T, t):
        return torch.ones(T, t + T, dtype=torch.bool)


wrong.add(
    "targets_not_shifted",
    language_models.NOT_SHIFTED,
    {"part": 0.5, "batch": loops.not_shifted},
    proof=language_models.repeats_the_last_token,
)


@wrong.change("model", rotates_nothing, part=0.25, severity=Severity.PART)
class RotatesNothing(SmallLlama):
    """Your keys are not rotated: in a text of one repeated token all keys have the same score, near or far,
    whatever the token is. Rotate both, each by its position times the speed of the pair, before the scores are computed."""

    def rotated(self, q, k, v, t):
        return q, k, v


@wrong.change("model", rotates_values, part=0.25)
class RotatesTheValuesToo(SmallLlama):
    """You rotate the values too. Queries and keys are rotated, so that their product depends on the distance. A value that is
    turned by its position brings the position itself into the sum."""

    def rotated(self, q, k, v, t):
        return _turned(q, t), _turned(k, t), _turned(v, t)


@wrong.change("model", adds_positions, part=0.25, severity=Severity.PART)
class AddsPositions(SmallLlama):
    """Positions enter the vectors of your tokens: a table or sinusoids are added, or the vectors themselves are rotated. In a
    text of one repeated token, the logits then change from position to position. Only queries and keys are rotated, in each
    layer, so that a score depends on the distance alone."""

    def __init__(self, n_tokens, **parts):
        super().__init__(n_tokens, **parts)
        self.positions = nn.Embedding(LONG, D_MODEL)

    def embed(self, tokens, t):
        return super().embed(tokens, t) + self.positions.weight[t : t + tokens.shape[1]]


@wrong.change("model", scores_by_position, part=0.25)
class RotatesTheKeysAlone(SmallLlama):
    """You rotate the keys and not the queries, or the two by different angles: in a text of one repeated token, a score depends
    on where the key stands. Rotate both by the same speeds, each by its own position: what is left is the distance."""

    def rotated(self, q, k, v, t):
        return q, _turned(k, t), v


@wrong.change("model", keeps_one_number, part=0.25, severity=Severity.PART)
class KeepsTheTokens(SmallLlama):
    """Your state is the text itself: it grows by one number with each token, and each step reads the whole text again. Keep
    keys and values, and compute those of the new token alone."""

    def start(self, tokens):
        return tokens

    def step(self, token, state):
        state = torch.cat([state, token[:, None]], dim=1)
        return self(state)[:, -1], state


@wrong.change("model", trained.both(does_not_grow, forms_differ_from(1)), part=0.25)
class KeepsNothing(SmallLlama):
    """Your state does not grow: what was read is not kept, or only its last token. Each step appends a key and a value to
    those of all tokens before."""

    def step(self, token, state):
        logits, after = super().step(token, state)
        return logits, [(keys[:, :, :0], values[:, :, :0]) for keys, values in after]


@wrong.change("model", trained.both(keeps_all_heads, has_more_by(N_LAYERS * 2 * D_MODEL * N_GROUPS * D_K)), part=0.25)
class HasAsManyHeadsOfKeys(SmallLlama):
    """Your keys and values have as many heads as your queries: that is multi-head attention, and its cache is twice as large.
    Two heads of keys and values are enough, each for two heads of queries: `W_k` and `W_v` lead to 2 · 16 features."""

    n_kept = N_HEADS


@wrong.change("model", keeps_all_heads, part=0.25)
class KeepsTheCopies(SmallLlama):
    """Your cache holds a copy of keys and values for each head of queries. Keep the two heads as they are projected, and copy
    them after they were read from the cache; otherwise nothing is saved."""

    def grown(self, cache, k, v):
        return super().grown(cache, *super().copied(k, v))

    def copied(self, keys, values):
        return keys, values

    def empty(self, B):
        return [(torch.zeros(B, N_HEADS, 0, D_K),) * 2 for _ in self.norms]


@wrong.change("model", lambda measured, truth: bool(measured.steps) and _grows_by(measured, OF_A_TOKEN // N_GROUPS), part=0.25)
class HasOneHeadOfKeys(SmallLlama):
    """Your four heads of queries share a single head of keys and values: that is multi-query attention. The configuration
    asks for two."""

    n_kept = 1


@wrong.change("model", stepwise_models.changes_its_state, part=0.25)
class AppendsInPlace(SmallLlama):
    """Your `step` changes the state that it is given, or keeps the cache in the model: after another token was read from the
    same state, the logits are different. Make new tensors by `torch.cat`, and return them."""

    def read(self, tokens, caches):
        logits, after = super().read(tokens, caches)
        if tokens.shape[1] == 1:
            caches[:] = after
        return logits, after


@wrong.change("model", forms_differ_from(0), part=0.25)
class LooksBeforeItAppends(SmallLlama):
    """Your two forms differ already at the first token, which attends to itself alone. In `step`, append its key and value to
    the cache before it attends."""

    def seen(self, before, after):
        if after[0].shape[2] - before[0].shape[2] > 1:
            return after
        return before if before[0].shape[2] else tuple(torch.zeros_like(part) for part in after)


@wrong.change("model", forms_differ_from(1), part=0.25)
class StepsAtPositionZero(SmallLlama):
    """Your two forms agree on the first token and differ from the second on. Perhaps `step` rotates its query and its key as if
    they stood at position 0, or leaves them as they are: their position is the number of tokens in the cache."""

    def rotated(self, q, k, v, t):
        return super().rotated(q, k, v, 0)


@wrong.change("model", forms_differ_from(2), part=0.25)
class RotatesTheCacheAgain(SmallLlama):
    """Your two forms agree on two tokens and differ from the third on: keys that were rotated go into the cache, and each
    step rotates the whole cache again. Rotate a key once, when it is appended; or keep keys as they are, and rotate copies of
    them."""

    def rotated(self, q, k, v, t):
        return _turned(q, t), k, v

    def grown(self, cache, k, v):
        keys, values = super().grown(cache, k, v)
        return _turned(keys), values


@wrong.change("norm", has_more_by(N_LAYERS * 2 * D_MODEL + D_MODEL), part=0.25)
class LayerNorms(nn.LayerNorm):
    """Your norms have a bias for each feature, as LayerNorm has. RMSNorm subtracts no mean and adds no bias: `nn.RMSNorm`, or
    your own with a gain alone."""


wrong.add(
    "without_gates",
    "Your networks have two matrices, as that of GPT. A gated one has three: W_gate and W_up widen, the two results are "
    "multiplied, and W_down leads back.",
    {"hidden": (256, 1), "part": 0.25},
    proof=has_more_by(*(N_LAYERS * D_MODEL * (2 * width - 3 * D_FF) for width in (D_FF, 256))),
)
wrong.add(
    "with_biases",
    "Your model has more parameters than the configuration, by about as many as biases are: `nn.Linear` has one unless it is "
    "told `bias=False`.",
    {"bias": True, "part": 0.25},
    suspicion=has_more_by(*range(1, 1_600)),
)


@right
def with_halves_and_the_fused_form(text, n_tokens, n_steps):
    """Pairs of halves, torch's fused attention with grouped queries, the embedding as readout, keys kept unrotated and rotated
    when they are read, a schedule."""

    def turned(x, first, speeds):
        angle = (first + torch.arange(x.shape[2]))[:, None] * speeds
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(n_tokens, 64)
            nn.init.normal_(self.embed.weight, std=0.1)
            self.qkv = nn.ModuleList([nn.Linear(64, 128, bias=False) for _ in range(2)])
            self.out = nn.ModuleList([nn.Linear(64, 64, bias=False) for _ in range(2)])
            self.wide = nn.ModuleList([nn.Linear(64, 344, bias=False) for _ in range(2)])
            self.narrow = nn.ModuleList([nn.Linear(172, 64, bias=False) for _ in range(2)])
            self.norms = nn.ModuleList([nn.RMSNorm(64) for _ in range(5)])
            self.speeds = 10_000.0 ** (-torch.arange(8) / 8)

        def start(self, tokens):
            return self.run(tokens, None)[1]

        def step(self, token, state):
            logits, state = self.run(token.unsqueeze(1), state)
            return logits.squeeze(1), state

        def forward(self, tokens):
            return self.run(tokens, None)[0]

        def run(self, tokens, state):
            x, new = self.embed(tokens), {}
            B, n = tokens.shape
            for i in range(2):
                q, k, v = self.qkv[i](self.norms[2 * i](x)).split([64, 32, 32], dim=-1)
                q, k, v = (part.unflatten(-1, (-1, 16)).transpose(1, 2) for part in (q, k, v))
                if state is not None:
                    k, v = torch.cat([state[i][0], k], 2), torch.cat([state[i][1], v], 2)
                new[i] = k, v
                past = k.shape[2] - n
                mask = torch.arange(k.shape[2]) <= past + torch.arange(n)[:, None]
                q, k = turned(q, past, self.speeds), turned(k, 0, self.speeds)
                mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
                x = x + self.out[i](mixed.transpose(1, 2).reshape(B, n, 64))
                gate, up = self.wide[i](self.norms[2 * i + 1](x)).chunk(2, dim=-1)
                x = x + self.narrow[i](F.silu(gate) * up)
            return F.linear(self.norms[4](x), self.embed.weight), new

    model = Decoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=8e-3, total_steps=n_steps)
    for _ in range(n_steps):
        tokens, targets = loops.drawn(text, batch_size=16)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens).transpose(1, 2), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()
    return model


@right
def without_modules(text, n_tokens, n_steps):
    """Weights in a dict and an object with methods; the queries of a group on an axis of their own, so that nothing is copied;
    Adam by hand. `start` reads the prompt token by token."""
    shapes = {"embed": (n_tokens, 64), "readout": (64, n_tokens)}
    for layer in "01":
        shapes |= {f"q{layer}": (64, 64), f"k{layer}": (64, 32), f"v{layer}": (64, 32), f"o{layer}": (64, 64)}
        shapes |= {f"gate{layer}": (64, 172), f"up{layer}": (64, 172), f"down{layer}": (172, 64)}
    w = {name: torch.randn(shape) * 0.7 * shape[0] ** -0.5 for name, shape in shapes.items()}
    w |= {f"gain{i}": torch.ones(64) for i in range(5)}
    w = {name: tensor.requires_grad_() for name, tensor in w.items()}
    speeds = torch.tensor([10_000 ** (-i / 8) for i in range(8)])

    def norm(x, i):
        return w[f"gain{i}"] * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)

    class Decoder:
        def read(self, tokens, keys, values):
            B, n = tokens.shape
            t = keys[0].shape[1]
            x = w["embed"][tokens]
            turn = torch.polar(torch.ones(n, 8), torch.arange(t, t + n)[:, None] * speeds)
            keys, values = list(keys), list(values)
            for i in range(2):
                y = norm(x, 2 * i)
                q, k = (y @ w[f"q{i}"]).view(B, n, 2, 2, 16), (y @ w[f"k{i}"]).view(B, n, 2, 16)
                q = torch.view_as_real(torch.view_as_complex(q.unflatten(-1, (8, 2))) * turn[:, None, None]).flatten(-2)
                k = torch.view_as_real(torch.view_as_complex(k.unflatten(-1, (8, 2))) * turn[:, None]).flatten(-2)
                keys[i] = torch.cat([keys[i], k], 1)
                values[i] = torch.cat([values[i], (y @ w[f"v{i}"]).view(B, n, 2, 16)], 1)
                scores = torch.einsum("bqgrd,bkgd->bgrqk", q, keys[i]) / 4
                scores = scores + torch.full((n, t + n), -torch.inf).triu(t + 1)
                mixed = torch.einsum("bgrqk,bkgd->bqgrd", scores.softmax(-1), values[i])
                x = x + mixed.reshape(B, n, 64) @ w[f"o{i}"]
                y = norm(x, 2 * i + 1)
                a = y @ w[f"gate{i}"]
                x = x + (a * a.sigmoid() * (y @ w[f"up{i}"])) @ w[f"down{i}"]
            return norm(x, 4) @ w["readout"], keys, values

        def __call__(self, tokens):
            return self.read(tokens, *self.start(tokens[:, :0]))[0]

        def start(self, tokens):
            state = [[torch.zeros(len(tokens), 0, 2, 16)] * 2, [torch.zeros(len(tokens), 0, 2, 16)] * 2]
            for token in tokens.T:
                state = self.step(token, state)[1]
            return state

        def step(self, token, state):
            logits, *state = self.read(token.view(-1, 1), *state)
            return logits[:, -1], state

    model = Decoder()

    def loss():
        tokens, targets = loops.drawn(text, batch_size=16)
        return -model(tokens).log_softmax(-1).gather(2, targets[..., None]).mean()

    loops.adam_by_hand(list(w.values()), n_steps, loss, lambda step: 6e-3 * min(1.0, step / 20))
    return model


_TRAINED = ("evaluation", "learns")

exercise = Exercise(
    id="17.7",
    title="A Llama and its training loop",
    reference=train_llama,
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
            "size",
            "The matrices and gains of the configuration are all its parameters: there are no biases.",
            _size,
            1,
            _TRAINED,
        ),
        trained.holds(
            "past", "The logits depend on the tokens so far and on their order, and on nothing else.", _past, 2, _TRAINED
        ),
        trained.holds(
            "attention",
            "The logits depend on attention weights, which sum to 1 over the keys.",
            language_models.attends,
            1,
            _TRAINED,
        ),
        trained.holds(
            "distances",
            "Scores depend on how far a key lies back, and no value depends on its position.",
            _distances,
            2,
            _TRAINED,
        ),
        trained.holds("steps", "The model has `start` and `step`, which gives logits (B, n_tokens).", stepwise_models.steps, 0),
        trained.holds("agree", "Both forms give the same logits.", stepwise_models.agree, 2, (*_TRAINED, "steps")),
        trained.holds(
            "cache",
            "With each token, the state grows by keys and values of two heads in each layer.",
            _cache,
            1,
            (*_TRAINED, "steps"),
        ),
        trained.holds(
            "values", "A step leaves the state that it is given as it is.", stepwise_models.values, 1, (*_TRAINED, "steps")
        ),
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
    forbids={Llama: "write the model yourself: embedding, layers, both forms."},
    training=Training(_questions, SECONDS),
    extra=True,
)
