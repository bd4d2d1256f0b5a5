"""Build task 05.9, train_transformer: an encoder-decoder and its training loop; what students hand in, wrong and right.

The sentences are those of the lecture, one date or two. The days of the sentences to choose by, and of those by which a model
is scored, occur in no sentence to learn from.
"""

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks import Block, DecoderBlock, Stack, decoder_block, decoder_stack, encoder_block, encoder_stack
from course_lib.datasets import BEGIN, PADDING, Pair, Vocabulary, dates, joined
from course_lib.models import Transformer
from course_lib.primitives import padding_mask, sinusoidal_positions
from course_tools.bank import decoders
from course_tools.bank import training_loops as loops
from course_tools.bank.decoders import FORCED, N_FORCED
from course_tools.bank.language_models import RECURRENCE
from course_tools.bank.lecture_02.train_translator import N_ROWS, ignores_the_order, reads_other_sentences, reads_padding
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Severity, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS, SHORT = 120.0, 200_000, 500, 4
N_TRAIN, N_VALID, N_ASKED, CUT, MOST, LONGEST = 5_000, 500, 100, 6, 23, 48
FIRST, LEAST = 0.25, 0.45
"""Exact match on new sentences: a first success, and the score. With all single dates and no pair of dates it is 0.5."""

HINTS = (
    (
        "Write one attention for all three places: `attention(x, memory, mask)`, with queries from `x` and keys and values "
        "from `memory`. The encoder calls it with `(x, x, real)`, the decoder with `(y, y, causal)`, then `(y, memory, real)`. "
        "Check by hand, before you train, that the logits at position 3 stay the same when token 4 of the target changes."
    ),
    (
        "The decoder reads `target[:, :-1]` and its logits are compared with `target[:, 1:]`, padding excluded. To write an "
        "answer, start with a column of BEGIN; 23 times, run the decoder on all tokens so far and append the `argmax` of "
        "the logits at the last position. The memory is computed once."
    ),
    (
        "If the loss falls slowly, compare the norms of embeddings and positions (section 10): multiply embeddings of standard "
        "deviation 1/√d by √d for sinusoids, or learn the positions. Width 64, one or two layers, batches of 32 drawn from the "
        "first `n_train` rows, Adam with 0.003 and a warm-up of 50 updates are enough."
    ),
)


def train_transformer(
    source: Tensor, lengths: Tensor, target: Tensor, n_train: int, n_letters: int, n_characters: int, n_steps: int
) -> nn.Module:
    """Build a Transformer encoder-decoder, train it to convert dates, and return it.

    In the encoder the letters of a source attend to each other; the decoder attends to what the encoder makes of them.
    `model(source, lengths, target)` gives logits (B, T, n_characters); those at t predict target[:, t + 1].
    `model(source, lengths)` gives the answers of greedy decoding, tokens (B, T_out) without BEGIN and with END; what follows
    END does not count. An answer has at most 23 tokens, a source at most 48 letters.

    Args:
        source: (N, T_s) letters, padded with PADDING.
        lengths: (N,), letters of each source.
        target: (N, T): BEGIN, the characters, END, then PADDING.
        n_train: the first n_train rows are to learn from; the others are held out, to measure by.
        n_letters: size of the vocabulary of the sources.
        n_characters: size of that of the targets.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to translate: asked twice, it gives the same.
    """
    d_model, n_heads, d_ff, longest = 64, 4, 128, 48

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

        def forward(self, x, memory, mask):
            q, k, v = (
                part.unflatten(-1, (n_heads, -1)).transpose(1, 2) for part in (self.W_q(x), self.W_k(memory), self.W_v(memory))
            )
            scores = (q @ k.mT / (d_model // n_heads) ** 0.5).masked_fill(~mask, -torch.inf)
            return self.W_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def network():
        return nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.letters, self.characters = nn.Embedding(n_letters, d_model), nn.Embedding(n_characters, d_model)
            self.places = nn.Embedding(longest, d_model)
            for table in (self.letters, self.characters, self.places):
                nn.init.normal_(table.weight, std=d_model**-0.5)
            self.attention, self.own, self.cross = Attention(), Attention(), Attention()
            self.networks = nn.ModuleList([network(), network()])
            self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(5))
            self.logits = nn.Linear(d_model, n_characters)

        def embed(self, table, tokens):
            return d_model**0.5 * (table(tokens) + self.places.weight[: tokens.shape[1]])

        def encode(self, source, real):
            x = self.embed(self.letters, source)
            x = self.norms[0](x + self.attention(x, x, real))
            return self.norms[1](x + self.networks[0](x))

        def decode(self, target, memory, real):
            T = target.shape[1]
            y = self.embed(self.characters, target)
            y = self.norms[2](y + self.own(y, y, torch.ones(T, T, dtype=torch.bool).tril()))
            y = self.norms[3](y + self.cross(y, memory, real))
            return self.logits(self.norms[4](y + self.networks[1](y)))

        def forward(self, source, lengths, target=None):
            real = (torch.arange(source.shape[1]) < lengths[:, None])[:, None, None]
            memory = self.encode(source, real)
            if target is not None:
                return self.decode(target, memory, real)
            tokens = torch.full((len(source), 1), BEGIN)
            for _ in range(23):
                following = self.decode(tokens, memory, real)[:, -1:].argmax(-1)
                tokens = torch.cat([tokens, following], dim=1)
            return tokens[:, 1:]

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 50))
    for _ in range(n_steps):
        rows = torch.randint(n_train, (32,))
        logits = model(source[rows], lengths[rows], target[rows, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[rows, 1:].flatten(), ignore_index=PADDING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()
    return model.eval()


@cache
def _sentences() -> tuple[list[Pair], list[Pair], list[tuple[Pair, ...]], Vocabulary, Vocabulary]:
    """Sentences to learn from, to choose by, and to score by, the last by their number of dates; and both vocabularies."""
    days = dates(4_000, 300, 500, formats=("medium",), seed=0)
    learn, choose = (
        [pair for n in (1, 2) for pair in joined(part, n, many // 2, seed=n)]
        for part, many in ((days.train, N_TRAIN), (days.valid, N_VALID))
    )
    score = [joined(days.test, n, 2 * N_ASKED, seed=n) for n in (1, 2)]
    return learn, choose, score, Vocabulary.of(p.source for p in learn), Vocabulary.of(p.target for p in learn)


def _questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw the order of the sentences to learn from, and which of the others are scored.

    After the queries of all such tasks come those of `train_translator`: eight sentences of the same length alone · after
    another of that length · after a longer one · with their letters in another order.
    """
    learn, choose, score, letters, characters = _sentences()
    learn, singles, pairs = ([part[i] for i in draw.uniform(len(part)).argsort().tolist()] for part in (learn, *score))
    given = [*learn, *choose]
    source, lengths = letters.batch([p.source for p in given])
    target, _ = characters.batch([p.target for p in given], begin=True, end=True)
    asked = singles[:N_ASKED] + pairs[:N_ASKED]
    others = singles[N_ASKED : N_ASKED + N_FORCED // 2] + pairs[N_ASKED : N_ASKED + N_FORCED // 2]
    labels, _ = characters.batch([p.target for p in asked], begin=True, end=True)
    read, _ = characters.batch([p.target for p in others], begin=True, end=True)
    inputs, forced = letters.batch([p.source for p in asked]), letters.batch([p.source for p in others])
    truth = decoders.common_truth(labels, read, CUT, len(characters), N_STEPS) | {"given": source, "n_train": N_TRAIN}
    queries = decoders.common_queries(inputs, forced, read, CUT, len(characters), draw)
    queries += _of_one_length(singles, pairs[-1].source, letters, read, draw)
    data = (source, lengths, target, N_TRAIN, len(letters), len(characters), N_STEPS)
    source, lengths = forced[0][: N_FORCED // 2], forced[1][: N_FORCED // 2]
    short = (source[:, : int(lengths.max())], lengths, read[: N_FORCED // 2, :SHORT])
    return (data, queries, (), [queries[decoders.FORCED], short]), truth


def _of_one_length(pairs: list[Pair], longer: str, letters: Vocabulary, read: Tensor, draw: Draw) -> list[tuple[Tensor, ...]]:
    """Make the queries about eight sentences of the same length, with four tokens of targets."""
    lengths = [len(p.source) for p in pairs]
    common = max(set(lengths), key=lengths.count)
    same = [p.source for p in pairs if len(p.source) == common][: N_ROWS + 1]
    beside, n = letters.batch(same)
    padded, m = letters.batch([longer, *same[1:]])
    tokens = read[: N_ROWS + 1, :4]
    mixed = beside[1:, draw.uniform(common).argsort()]
    return [(beside[1:], n[1:], tokens[1:]), (beside, n, tokens), (padded, m, tokens), (mixed, n[1:], tokens[1:])]


def _rows(measured: Measured, truth: Truth) -> str | None:
    if reads_padding(measured, truth):
        return "In a batch with a longer source, and so with padding, the logits of a date change."
    if reads_other_sentences(measured, truth):
        return "The logits of a date change when another one of the same length is in its batch."
    return None


def _source(measured: Measured, truth: Truth) -> str | None:
    if decoders.ignores_the_inputs(measured, truth):
        return "For another source the logits stay the same."
    if ignores_the_order(measured, truth):
        return "With the letters of the source in another order, the logits stay the same."
    return None


def _held_out(measured: Measured, truth: Truth) -> str | None:
    found = _with_held_out_rows(measured, truth)
    return f"{found:.0%} of its first batches contain held-out sentences beside others." if found > MIXED_BATCHES else None


MIXED_BATCHES = 0.3
"""A batch of held-out sentences alone measures the model. Of batches drawn from all rows, nearly all contain both kinds."""


def _with_held_out_rows(measured: Measured, truth: Truth) -> float:
    """Of the recorded batches of sources, the fraction that contain sentences to learn from and held-out ones."""
    given = [_text(row) for row in truth["given"]]
    learn, held = set(given[: truth["n_train"]]), set(given[truth["n_train"] :])
    batches = [{_text(row) for row in read} for read in measured.read if read.ndim == 2 and not read.is_floating_point()]
    batches = [batch for batch in batches if batch <= learn | held]
    return sum(bool(batch - learn) and bool(batch - held) for batch in batches) / max(len(batches), 1)


def _text(row: Tensor) -> tuple[int, ...]:
    return tuple(row[row != PADDING].tolist())


def _exact(measured: Measured, truth: Truth) -> float:
    return decoders.exact(measured, truth).float().mean().item()


_learns, _score = (
    trained.at_least(least, _exact, "On new sentences the exact match of its answers") for least in (FIRST, LEAST)
)
_UNSOUND = trained.fails(_score)


def no_step_changed_the_model(measured: Measured, truth: Truth) -> bool:
    """Evidence: losses were differentiated, no optimizer stepped a weight of the returned model, and it has learned nothing."""
    idle = measured.n_updates > 0 and measured.untouched == 1.0 and not trained.weights_left_out(measured, truth)
    return idle and decoders.has_learned_nothing(measured, truth)


def _mechanism(measured: Measured, truth: Truth) -> str | None:
    if fault := decoders.attends_to_all_at_once(measured, truth):
        return fault
    if letters_do_not_attend(measured, truth):
        return "With equal weights in place of those by which the letters attend to each other, the logits stay the same."
    return None


def letters_do_not_attend(measured: Measured, truth: Truth) -> bool:
    """Evidence: equal weights in place of those that do not depend on the target, as an encoder's, change hardly anything."""
    return trained.is_near(measured.outputs[FORCED], trained.probe_of(measured).encoded, tolerance=0.01)


def learns_in_part(measured: Measured, truth: Truth) -> bool:
    """Suspicion: a long training without a proven mistake, of which many characters are right and few dates."""
    long_enough = measured.n_updates > 0.7 * truth["n_steps"] and measured.kept == 0.0
    likeliest = measured.outputs[FORCED].argmax(-1)
    return long_enough and decoders.token_accuracy(likeliest, truth["following"]) > 0.3 and _exact(measured, truth) < FIRST


ENCODER, OWN, CROSS = range(3)
"""Attentions of a small model: of the encoder, of the decoder over the target, and over the memory."""


class _Small(nn.Module):
    """A pre-norm Transformer with one layer and one head; what a wrong submission changes is an argument or a method."""

    def __init__(self, n_letters, n_characters, d=32, dropout=0.0):
        super().__init__()
        self.letters, self.characters = nn.Embedding(n_letters, d), nn.Embedding(n_characters, d)
        self.places, self.dropout = nn.Embedding(LONGEST, d), nn.Dropout(dropout)
        self.queries, self.memories = (nn.ModuleList(nn.Linear(d, n) for _ in range(3)) for n in (d, 2 * d))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(4))
        self.networks = nn.ModuleList(self.network(d) for _ in range(2))
        self.logits = nn.Linear(d, n_characters)

    def network(self, d):
        return nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def placed(self, x):
        return self.dropout(x + self.places.weight[: x.shape[1]])

    def weights(self, scores, mask):
        return scores.masked_fill(~mask, -1e9).softmax(-1)

    def attend(self, i, x, memory, mask):
        k, v = self.memories[i](memory).chunk(2, -1)
        return self.weights(self.queries[i](x) @ k.mT / x.shape[-1] ** 0.5, mask) @ v

    def real(self, source):
        return (source != PADDING)[:, None]

    def causal(self, T):
        return torch.ones(T, T, dtype=torch.bool).tril()

    def encode(self, source):
        x = self.placed(self.letters(source))
        x = x + self.attend(ENCODER, self.norms[0](x), self.norms[0](x), self.real(source))
        return self.norms[1](x + self.networks[0](x))

    def decode(self, target, memory, real):
        y = self.placed(self.characters(target))
        y = y + self.attend(OWN, self.norms[2](y), self.norms[2](y), self.causal(y.shape[1]))
        y = y + self.attend(CROSS, y, memory, real)
        return self.logits(self.norms[3](y + self.networks[1](y)))

    def following(self, logits):
        return logits[:, -1:].argmax(-1)

    def forward(self, source, lengths, target=None):
        memory, real = self.encode(source), self.real(source)
        if target is not None:
            return self.decode(target, memory, real)
        tokens = torch.full((len(source), 1), BEGIN)
        for _ in range(MOST):
            tokens = torch.cat([tokens, self.following(self.decode(tokens, memory, real))], 1)
        return tokens


def submit(data, part=0.4, model=_Small, rows=N_TRAIN, lr=5e-3, **change):
    source, lengths, target, _, n_letters, n_characters, n_steps = data
    make = partial(model, n_letters, n_characters)
    return decoders.taught(make, lambda i: (source[i], lengths[i]), target[:rows], part * n_steps, lr=lr, **change)


wrong = loops.Submissions(__name__, submit, rates="0.001 to 0.01", learned="these dates", ending="an answer", **decoders.WORDS)
decoders.loop_mistakes(wrong, _UNSOUND, part=0.4, short=0.2)
decoders.target_mistakes(wrong)


@wrong(proof=no_step_changed_the_model)
def optimizer_without_steps(*data):
    """Your loop computes gradients, and no step of an optimizer uses them: the model that you return is as it was drawn. Call
    `optimizer.step()` after `loss.backward()`, and return the model that was trained, not a copy from before."""
    source, lengths, target, *_ = data
    model = _Small(*data[4:6])
    for _ in range(50):
        rows = torch.randint(N_TRAIN, (32,))
        model.zero_grad()
        decoders.decoder_loss(model(source[rows], lengths[rows], target[rows]), target[rows]).backward()
    return model.eval()


@wrong.change("model", trained.has_no_attention, severity=Severity.IDEA)
class RecurrentNetworks(nn.Module):
    """Your model has no attention: no values are multiplied by weights of a softmax over keys that depend on the source. Two
    recurrent networks can convert dates too; the task is a Transformer, with attention in encoder and decoder."""

    def __init__(self, n_letters, n_characters, d=48):
        super().__init__()
        self.letters, self.characters = nn.Embedding(n_letters, d), nn.Embedding(n_characters, d)
        self.encoder, self.decoder = nn.GRU(d, d, batch_first=True), nn.GRU(d, d, batch_first=True)
        self.logits = nn.Linear(d, n_characters)

    def forward(self, source, lengths, target=None):
        packed = nn.utils.rnn.pack_padded_sequence(self.letters(source), lengths, batch_first=True, enforce_sorted=False)
        state = self.encoder(packed)[1]
        if target is not None:
            return self.logits(self.decoder(self.characters(target), state)[0])
        tokens = [torch.full((len(source), 1), BEGIN)]
        for _ in range(MOST):
            y, state = self.decoder(self.characters(tokens[-1]), state)
            tokens.append(self.logits(y).argmax(-1))
        return torch.cat(tokens, 1)


@wrong.change("model", decoders.steps_from_token_to_token, says=RECURRENCE, severity=Severity.IDEA)
class RecurrenceBelowAttention(_Small):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.below = nn.GRU(32, 32, batch_first=True)

    def encode(self, source):
        return super().encode(source) + self.below(self.letters(source))[0]


@wrong.change("model", reads_other_sentences)
class AttendsOverTheBatch(_Small):
    """Your dates are mixed: the logits of one change with another one of the same length in its batch. Attention must run over
    positions, not over the rows of the batch; `nn.MultiheadAttention` needs `batch_first=True`."""

    def attend(self, i, x, memory, mask):
        if i == CROSS:
            return super().attend(i, x, memory, mask)
        return super().attend(i, x.transpose(0, 1), memory.transpose(0, 1), torch.tensor(True)).transpose(0, 1)


@wrong.change("model", reads_padding)
class PaddingNotMasked(_Small):
    """Your model attends to padding: in a batch with a longer source, the logits of a date change. Mask the padding of the
    source before the softmax, in the encoder's self-attention and in cross-attention. `nn.MultiheadAttention` takes the
    opposite mask: there, True means that a key is hidden."""

    def real(self, source):
        return torch.ones(len(source), 1, source.shape[1], dtype=torch.bool)


@wrong.change("model", decoders.reads_the_token_it_predicts)
class WithoutACausalMask(_Small):
    """Your decoder sees the token that it has to predict: logits change when later tokens of the target change. In training it
    can copy them, and alone it has nothing to copy. Its self-attention needs a lower triangular mask, the loss gives it
    `target[:, :-1]`, and the softmax runs over the keys, the last axis of the scores."""

    def causal(self, T):
        return torch.ones(T, T, dtype=torch.bool)


@wrong.change("model", decoders.ignores_the_target)
class TargetNotRead(_Small):
    """Your decoder does not read the target: its logits are the same for any tokens before. At each position it should read the
    true token in training (teacher forcing), and the token that it chose last when it writes an answer."""

    def decode(self, target, memory, real):
        return super().decode(torch.full_like(target, BEGIN), memory, real)


@wrong.change("model", decoders.ignores_the_inputs)
class WithoutCrossAttention(_Small):
    """Your decoder does not use the source: for another source its logits are the same. It has learned what dates look like,
    not which one is meant. The second attention of the decoder takes its queries from the target, and its keys and values from
    the output of the encoder."""

    def decode(self, target, memory, real):
        y = self.placed(self.characters(target))
        y = y + self.attend(OWN, self.norms[2](y), self.norms[2](y), self.causal(y.shape[1]))
        y = y + self.attend(CROSS, y, y, self.causal(y.shape[1]))
        return self.logits(self.norms[3](y + self.networks[1](y)))


@wrong.change("model", ignores_the_order)
class WithoutPositions(_Small):
    """Your encoder reads a bag of letters: with the letters of the source in another order, the logits are the same. Add a
    vector of the position to each embedding, in the encoder and in the decoder."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.places = None

    def placed(self, x):
        return x


@wrong(proof=trained.weights_left_out)
def encoder_not_in_the_optimizer(*data):
    """A part of your model has gradients and is in no optimizer, so it stays as it was drawn. Give the optimizer the parameters
    of encoder and decoder, or of one module that contains both. A module does not register a Python list of layers; it does
    register an `nn.ModuleList`."""

    def decoder(model):
        return nn.ModuleList([model.characters, model.places, *model.queries[OWN:], *model.memories[OWN:], model.logits])

    return submit(data, optimized=decoder)


@wrong.change("model", trained.weights_without_gradient, says=loops.CUT_OFF)
class MemoryCutOff(_Small):
    def encode(self, source):
        with torch.no_grad():
            return super().encode(source)


@wrong(proof=trained.fails(_held_out))
def held_out_sentences_learned(*data):
    """You train on the held-out sentences: batches mix them with the others. Answers that were learned by heart say nothing
    about new dates. Draw the rows of a batch below `n_train`, `torch.randint(n_train, (32,))`, and use the others only to
    measure."""
    return submit(data, rows=len(data[0]))


@wrong.change("model", letters_do_not_attend, part=1.0, severity=Severity.PART)
class WithoutAttentionInTheEncoder(_Small):
    """In your encoder no letter attends to another one, or the decoder does not read the result. A date needs one
    look-up, which cross-attention does, so the dates come out right; a message of this lecture needs two, and the first of them
    is the encoder's. Each block of the encoder is self-attention and a feed-forward network, each with a residual connection
    and a norm, and the decoder attends to the output of the last block."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.queries[ENCODER] = self.memories[ENCODER] = None

    def encode(self, source):
        x = self.placed(self.letters(source))
        return self.norms[1](self.norms[0](x) + self.networks[0](x))


@wrong.change("model", decoders.strays_from_its_logits, part=1.0)
class WritesFromTheFirstPosition(_Small):
    """Your answers are not those of your logits. Under teacher forcing the decoder reads the right tokens; when it writes an
    answer, it does not, or another position is taken. In each step it reads all tokens so far, BEGIN first, and the next token
    is the `argmax` of the logits at the last position, `logits[:, -1]`."""

    def following(self, logits):
        return logits[:, :1].argmax(-1)


@wrong.change("model", suspicion=learns_in_part, part=1.0)
class OneVectorForTheSource(_Small):
    """No mistake was found in your training, but few dates are entirely right. Does your decoder attend to all positions of the
    encoder's output, and are its embeddings about as large as its positions? With one vector for the whole source, or with
    embeddings many times as large as the positions, training needs far more updates."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.queries[CROSS], self.memories[CROSS]

    def decode(self, target, memory, real):
        mean = (memory * real.mT).sum(1, keepdim=True) / real.sum(-1, keepdim=True)
        y = self.placed(self.characters(target)) + mean
        y = y + self.attend(OWN, self.norms[2](y), self.norms[2](y), self.causal(y.shape[1]))
        return self.logits(self.norms[3](y + self.networks[1](y)))


@right
def with_the_functions_of_the_lecture(source, lengths, target, n_train, n_letters, n_characters, n_steps):
    """The blocks of 05.4 and 05.6 as functions over a list of weights, the sinusoids of 05.1, and one matrix for embedding and
    logits."""
    d = 64

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.letters, self.characters = (nn.Parameter(torch.randn(n, d) * d**-0.5) for n in (n_letters, n_characters))
            self.attention, self.own, self.cross = (
                nn.ParameterList(nn.init.xavier_uniform_(torch.empty(d, d)) for _ in range(4)) for _ in range(3)
            )
            self.networks = nn.ModuleList(nn.ModuleList([nn.Linear(d, 128), nn.Linear(128, d)]) for _ in range(2))
            self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(5))

        def place(self, words, tokens):
            return d**0.5 * words[tokens] + sinusoidal_positions(tokens.shape[1], d)

        def forward(self, source, lengths, target=None):
            norms = [(norm.weight, norm.bias) for norm in self.norms]
            first, second = ([part for layer in pair for part in (layer.weight, layer.bias)] for pair in self.networks)
            mask = padding_mask(lengths, source.shape[1])
            memory = encoder_block(self.place(self.letters, source), tuple(self.attention), first, norms[:2], 4, mask)

            def read(tokens):
                y = self.place(self.characters, tokens)
                y = decoder_block(y, memory, tuple(self.own), tuple(self.cross), second, norms[2:], 4, mask)
                return y @ self.characters.mT

            if target is not None:
                return read(target)
            tokens = torch.full((len(source), 1), BEGIN)
            while tokens.shape[1] < 24:
                tokens = torch.cat([tokens, read(tokens)[:, -1].argmax(-1, keepdim=True)], 1)
            return tokens[:, 1:]

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min((t + 1) / 50, (200 / (t + 1)) ** 0.5))
    for _ in range(n_steps):
        rows = torch.randperm(n_train)[:32]
        decoders.decoder_loss(model(source[rows], lengths[rows], target[rows]), target[rows]).backward()
        optimizer.step()
        optimizer.zero_grad()
        rates.step()
    return model.eval()


@right
def with_a_cache_and_fused_attention(source, lengths, target, n_train, n_letters, n_characters, n_steps):
    """Encoder and decoder as two modules with two optimizers, RMS norms, SiLU, fused attention, and answers written with cached
    keys and values."""
    d = 64

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.kv, self.out = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False), nn.Linear(d, d)

        def forward(self, x, memory=None, kept=None, mask=None, causal=False):
            k, v = (part.unflatten(2, (4, -1)).transpose(1, 2) for part in self.kv(x if memory is None else memory).chunk(2, 2))
            if kept is not None:
                k, v = torch.cat([kept[0], k], 2), torch.cat([kept[1], v], 2)
            q = self.q(x).unflatten(2, (4, -1)).transpose(1, 2)
            mixed = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
            return self.out(mixed.transpose(1, 2).flatten(2)), (k, v)

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(n_letters, d), nn.Embedding(48, d)
            self.attention, self.norms = Attention(), nn.ModuleList([nn.RMSNorm(d), nn.RMSNorm(d)])
            self.network = nn.Sequential(nn.RMSNorm(d), nn.Linear(d, 160), nn.SiLU(), nn.Linear(160, d))

        def forward(self, source, mask):
            x = self.words(source) + self.places(torch.arange(source.shape[1]))
            x = x + self.attention(self.norms[0](x), mask=mask)[0]
            return self.norms[1](x + self.network(x))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(n_characters, d), nn.Embedding(48, d)
            self.own, self.cross, self.norms = Attention(), Attention(), nn.ModuleList(nn.RMSNorm(d) for _ in range(3))
            self.network = nn.Sequential(nn.RMSNorm(d), nn.Linear(d, 160), nn.SiLU(), nn.Linear(160, d))
            self.logits = nn.Linear(d, n_characters)

        def forward(self, tokens, memory, mask, kept=None):
            start = 0 if kept is None else kept[0].shape[2]
            y = self.words(tokens) + self.places(torch.arange(start, start + tokens.shape[1]))
            mixed, kept = self.own(self.norms[0](y), kept=kept, causal=tokens.shape[1] > 1)
            y = y + mixed
            y = y + self.cross(self.norms[1](y), memory, mask=mask)[0]
            return self.logits(self.norms[2](y + self.network(y))), kept

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = Encoder(), Decoder()

        def forward(self, source, lengths, target=None):
            mask = (torch.arange(source.shape[1]) < lengths[:, None])[:, None, None]
            memory = self.encoder(source, mask)
            if target is not None:
                return self.decoder(target, memory, mask)[0]
            token, kept, answer = torch.full((len(source), 1), BEGIN), None, []
            for _ in range(23):
                logits, kept = self.decoder(token, memory, mask, kept)
                token = logits.argmax(-1)
                answer.append(token)
            return torch.cat(answer, 1)

    model = Model()
    optimizers = [torch.optim.NAdam(part.parameters(), lr=3e-3) for part in (model.encoder, model.decoder)]
    for _ in range(n_steps // 2):
        rows = torch.randint(n_train, (64,))
        logits = model(source[rows], lengths[rows], target[rows, :-1])
        loss = F.nll_loss(logits.log_softmax(-1).flatten(0, 1), target[rows, 1:].flatten(), ignore_index=PADDING)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    return model.eval()


_MODEL = "write the model yourself, from embeddings, attention and feed-forward networks to logits."
_BLOCK = "write the block yourself; your functions of 05.4 and 05.6 may be parts of it."

exercise = Exercise(
    id="05.9",
    title="A Transformer and its training",
    extra=True,
    reference=train_transformer,
    properties=(
        *decoders.properties(
            SECONDS,
            MOST_PARAMETERS,
            "(source, lengths)",
            trained.shown(
                "rows",
                "The logits depend on the source and its order, and on no padding and no other date.",
                trained.every(_rows, _source),
            ),
            (f"On new sentences at least {FIRST:.0%} of the answers are exactly right.", _learns),
            (f"On new sentences at least {LEAST:.0%} of the answers are exactly right.", _score),
            (
                "The logits depend on attention weights over the keys, also in the encoder, and no state is carried beside.",
                _mechanism,
            ),
        ),
        trained.shown("held out", "It learns from the first n_train sentences only.", _held_out),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids=dict.fromkeys((nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder, Transformer), _MODEL)
    | dict.fromkeys((encoder_stack, decoder_stack, Stack, Block, DecoderBlock), _BLOCK)
    | dict.fromkeys((nn.TransformerEncoderLayer, nn.TransformerDecoderLayer), _BLOCK),
    training=Training(_questions, SECONDS),
)
