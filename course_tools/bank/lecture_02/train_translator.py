"""Build task 02.7, train_translator: a decoder with attention and its training; what students hand in, wrong and right.

The sentences are those of the lecture, one date or two. The days of the held-out sentences occur in no sentence to learn from.
"""

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import attend, general_scores
from course_lib.datasets import BEGIN, END, PADDING, Vocabulary, dates, joined
from course_lib.fast import stacked_bidirectional_gru
from course_lib.models import BahdanauDecoder, Encoder, LuongDecoder, PlainDecoder, Seq2Seq, Transformer
from course_tools.bank import decoders
from course_tools.bank import training_loops as loops
from course_tools.bank.decoders import N_COMMON, N_FORCED
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Severity, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 200_000, 200
N_KNOWN, N_ASKED, N_ROWS, CUT = 3_000, 100, 8, 6
LEAST = 0.5
"""Exact match on pairs of dates. With the last state alone in place of attention it is below 0.05."""

HINTS = (
    (
        "Three parts: the encoder gives states (B, T_s, d) and a mask; a recurrent network over the embedded target gives one "
        "query for each position, (B, T, d); attention gives a context for each query. A linear layer maps query and context "
        "together to logits (B, T, n_characters). Print the shapes."
    ),
    (
        "`Encoder(n_letters, 32, 32, stacked_bidirectional_gru)(source, lengths)` has keys, values, final and mask. In "
        "training the decoder reads `target[:, :-1]` and its logits are compared with `target[:, 1:]`, padding excluded. "
        "For an answer, start with BEGIN, and in each step read the token chosen last and the state after it."
    ),
    (
        "Loop: `loss = teacher_forced_loss(model(source, lengths, target), target, PADDING)`, `optimizer.zero_grad()`, "
        "`loss.backward()`, `optimizer.step()`. Adam with a learning rate of 0.01, batches of 32 and 64 features are enough; "
        "cut each batch to its longest source, `source[:, : lengths.max()]`. Return `model.eval()`."
    ),
)


def train_translator(
    source: Tensor, lengths: Tensor, target: Tensor, n_letters: int, n_characters: int, n_steps: int
) -> nn.Module:
    """Build an encoder and a decoder with attention, train them on pairs of sentences, and return the model.

    `model(source, lengths, target)` gives logits (B, T, n_characters); those at t predict target[:, t + 1].
    `model(source, lengths)` gives the answers of greedy decoding, tokens (B, T_out) without BEGIN and with END; what follows
    END does not count. An answer has at most 24 tokens.

    Args:
        source: (N, T_s) letters, padded with PADDING.
        lengths: (N,), letters of each source.
        target: (N, T): BEGIN, the characters, END, then PADDING.
        n_letters: size of the vocabulary of the sources.
        n_characters: size of that of the targets.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to translate: asked twice, it gives the same.
    """
    d = 64

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = Encoder(n_letters, d // 2, d // 2, stacked_bidirectional_gru)
            self.first, self.W = nn.Linear(d, d), nn.Parameter(torch.randn(d, d) * d**-0.5)
            self.embed, self.cell = nn.Embedding(n_characters, 32), nn.GRU(32, d, batch_first=True)
            self.logits = nn.Linear(2 * d, n_characters)

        def read(self, encoded, tokens, state):
            states, state = self.cell(self.embed(tokens), state)
            scores = general_scores(states, encoded.keys, self.W)
            context = attend(scores, encoded.values, encoded.mask)[0]
            return self.logits(torch.cat([states, context], dim=-1)), state

        def forward(self, source, lengths, target=None):
            encoded = self.encoder(source, lengths)
            state = self.first(encoded.final).tanh()[None]
            if target is not None:
                return self.read(encoded, target, state)[0]
            tokens, answer = torch.full((len(source), 1), BEGIN), []
            for _ in range(24):
                logits, state = self.read(encoded, tokens, state)
                tokens = logits.argmax(-1)
                answer.append(tokens)
            return torch.cat(answer, dim=1)

    model = Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(n_steps):
        rows = torch.randint(len(source), (32,))
        longest = lengths[rows].max()
        logits = model(source[rows, :longest], lengths[rows], target[rows, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[rows, 1:].flatten(), ignore_index=PADDING)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@cache
def _sentences() -> tuple[tuple, tuple, Vocabulary, Vocabulary]:
    """Sentences to learn from and held-out ones, in this order: of one date, of two; and both vocabularies."""
    days = dates(4_000, 1, 500, formats=("medium",), seed=0)
    known = [joined(days.train, n, N_KNOWN, seed=n) for n in (1, 2)]
    held_out = [joined(days.test, n, 2 * N_ASKED, seed=n) for n in (1, 2)]
    pairs = known[0] + known[1]
    return known, held_out, Vocabulary.of(p.source for p in pairs), Vocabulary.of(p.target for p in pairs)


def _questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw sentences to learn from and held-out ones.

    After the queries of all such tasks come, with their targets: eight sentences of the same length · these after another of
    that length · these after a longer one, so that they are padded · these with their letters in another order. They come last
    in a batch because a recurrent network that runs over the batch by mistake reads only the rows before.
    """
    known, held_out, letters, characters = _sentences()
    shuffled = [draw.uniform(2 * N_ASKED).argsort().tolist() for _ in held_out]
    singles, pairs = ([part[i] for i in order] for part, order in zip(held_out, shuffled, strict=True))
    learn = known[0] + known[1]
    learn = [learn[i] for i in draw.uniform(len(learn)).argsort().tolist()]
    source, lengths = letters.batch([p.source for p in learn])
    target, _ = characters.batch([p.target for p in learn], begin=True, end=True)
    asked = singles[:N_ASKED] + pairs[:N_ASKED]
    others = singles[N_ASKED : N_ASKED + N_FORCED // 2] + pairs[N_ASKED : N_ASKED + N_FORCED // 2]
    labels, _ = characters.batch([p.target for p in asked], begin=True, end=True)
    read, _ = characters.batch([p.target for p in others], begin=True, end=True)
    inputs, forced = letters.batch([p.source for p in asked]), letters.batch([p.source for p in others])
    truth = decoders.common_truth(labels, read, CUT, len(characters), N_STEPS) | {
        "of two": torch.arange(len(asked)) >= N_ASKED,
        "nearest": _accuracy_of_the_nearest(source, target, inputs[0], labels),
    }
    queries = decoders.common_queries(inputs, forced, read, CUT, len(characters), draw) + _padded(
        singles, pairs[-1], letters, draw
    )
    return ((source, lengths, target, len(letters), len(characters), N_STEPS), queries, (), [queries[decoders.FORCED]]), truth


def _padded(singles: list, longer: tuple, letters: Vocabulary, draw: Draw) -> list[tuple[Tensor, ...]]:
    """Make the queries about eight sentences of the same length, alone and in two batches, and in another order of letters."""
    lengths = [len(p.source) for p in singles]
    common = max(set(lengths), key=lengths.count)
    texts = [p.source for p in singles if len(p.source) == common][: N_ROWS + 1]
    beside, n = letters.batch(texts)
    with_longer, m = letters.batch([longer.source, *texts[1:]])
    read = torch.full((N_ROWS + 1, 4), BEGIN)
    read[:, 1:] = draw.integers(4, 14, N_ROWS + 1, 3)
    mixed = beside[1:, draw.uniform(common).argsort()]
    return [
        (beside[1:], n[1:], read[1:]),
        (beside, n, read),
        (with_longer, m, read),
        (mixed, n[1:], read[1:]),
    ]


ALONE, BESIDE, PADDED, MIXED = range(N_COMMON, N_COMMON + 4)


def _accuracy_of_the_nearest(source: Tensor, target: Tensor, asked: Tensor, labels: Tensor) -> float:
    """The accuracy, by tokens, of copying the answer of the known sentence with the most letters in common, by position."""
    width = max(source.shape[1], asked.shape[1])
    known, new = (F.pad(part, (0, width - part.shape[1])) for part in (source, asked))
    copied = torch.stack([target[(known == row).sum(1).argmax()] for row in new])
    return decoders.token_accuracy(copied[:, 1 : labels.shape[1]], labels[:, 1:])


def _rows(measured: Measured, truth: Truth) -> str | None:
    if reads_padding(measured, truth):
        return "In a batch with a longer sentence, and so with padding, the logits of a sentence change."
    if reads_other_sentences(measured, truth):
        return "The logits of a sentence change when another one of the same length is in its batch."
    return None


def _learns(measured: Measured, truth: Truth) -> str | None:
    found = decoders.token_accuracy(decoders.answers(measured, truth), truth["labels"])
    if found > truth["nearest"]:
        return None
    return (
        f"On held-out sentences the accuracy of its answers by characters is {found:.2f}; copying the answer of the most "
        f"similar known sentence reaches {truth['nearest']:.2f}."
    )


def on_pairs(measured: Measured, truth: Truth) -> float:
    """Exact match on sentences of two dates."""
    return decoders.exact(measured, truth)[truth["of two"]].float().mean().item()


_score = trained.at_least(LEAST, on_pairs, "On held-out sentences of two dates the exact match of its answers")
_UNSOUND = trained.fails(_score)


def reads_other_sentences(measured: Measured, truth: Truth) -> bool:
    """Evidence: logits of a sentence change when another sentence of the same length joins the batch."""
    return not trained.is_near(measured.outputs[ALONE], measured.outputs[BESIDE][1:])


def reads_padding(measured: Measured, truth: Truth) -> bool:
    """Evidence: a longer sentence changes the logits of the others, and one of the same length does not."""
    return not trained.is_near(measured.outputs[ALONE], measured.outputs[PADDED][1:]) and not reads_other_sentences(
        measured, truth
    )


def ignores_the_order(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits are the same when the letters of the sources change places."""
    return trained.is_near(
        measured.outputs[ALONE], measured.outputs[MIXED], tolerance=1e-5
    ) and not decoders.ignores_the_inputs(measured, truth)


class _Small(nn.Module):
    """A bidirectional GRU and a decoder; what a wrong submission changes is an argument or a method."""

    def __init__(self, n_letters, n_characters, d=32, both_ways=False, dropout=0.0):
        super().__init__()
        self.letters, self.encoder = nn.Embedding(n_letters, d), nn.GRU(d, d, batch_first=True, bidirectional=True)
        self.embed = nn.Embedding(n_characters, d)
        self.cell = nn.GRU(d, d if both_ways else 2 * d, batch_first=True, bidirectional=both_ways)
        self.W, self.dropout = nn.Linear(2 * d, 2 * d, bias=False), nn.Dropout(dropout)
        self.logits = nn.Linear(4 * d, n_characters)

    def encode(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.letters(source), lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=source.shape[1])[0]

    def hidden(self, scores, source):
        return scores.masked_fill((source == PADDING)[:, None], -torch.inf)

    def weights(self, scores):
        return scores.softmax(-1)

    def read(self, memory, source, tokens, state=None):
        states, state = self.cell(self.embed(tokens), state)
        weights = self.weights(self.hidden(self.W(states) @ memory.mT, source))
        context = self.dropout(weights @ memory)
        return self.logits(torch.cat([states, context], dim=-1)), state

    def choose(self, logits):
        return logits.argmax(-1)

    def forward(self, source, lengths, target=None):
        memory = self.encode(source, lengths)
        if target is not None:
            return self.read(memory, source, target)[0]
        return self.write(memory, source)

    def write(self, memory, source):
        tokens, state, answer = torch.full((len(source), 1), BEGIN), None, []
        for _ in range(24):
            logits, state = self.read(memory, source, tokens, state)
            tokens = self.choose(logits)
            answer.append(tokens)
        return torch.cat(answer, dim=1)


def submit(data, part=0.5, model=_Small, **change):
    source, lengths, target, n_letters, n_characters, n_steps = data

    def inputs(rows):
        return source[rows, : lengths[rows].max()], lengths[rows]

    return decoders.taught(partial(model, n_letters, n_characters), inputs, target, part * n_steps, **change)


wrong = loops.Submissions(
    __name__, submit, rates="0.001 to 0.02", learned="these sentences", ending="a sentence", **decoders.WORDS
)
decoders.loop_mistakes(wrong, _UNSOUND, dropout=0.2)
decoders.target_mistakes(wrong)


@wrong.change("model", decoders.writes_at_random)
class AnswersSampled(_Small):
    """Your model draws its answers at random: asked twice, it writes different tokens with the same logits. Greedy decoding
    takes the token with the largest logit, `argmax(-1)`."""

    def choose(self, logits):
        return logits[:, 0].softmax(-1).multinomial(1)


@wrong.change("model", reads_other_sentences)
class SoftmaxOverTheBatch(_Small):
    """Your sentences are mixed: the logits of a sentence change with another sentence of the same length in its batch. The
    softmax runs over the keys, the last axis of scores (B, T, T_s), and a recurrent network over batches needs
    `batch_first=True`."""

    def weights(self, scores):
        return scores.masked_fill(scores == -torch.inf, -1e9).softmax(0)


@wrong.change("model", reads_padding)
class PaddingRead(_Small):
    """Your model reads padding: in a batch with a longer sentence, the logits of a sentence change. Set the scores of padding
    to minus infinity before the softmax, or give `attend` the mask; a recurrent encoder stops after `lengths` letters."""

    def encode(self, source, lengths):
        return self.encoder(self.letters(source))[0]

    def hidden(self, scores, source):
        return scores


@wrong(proof=decoders.reads_the_token_it_predicts)
def decoder_in_both_directions(*data):
    """Your decoder sees the token that it has to predict: logits change when later tokens of the target change. In training it
    can copy them, and alone it has nothing to copy. It reads in one direction, gets `target[:, :-1]`, and a softmax over the
    queries is no softmax over the keys."""
    return submit(data, both_ways=True)


@wrong.change("model", decoders.ignores_the_target)
class TargetNotRead(_Small):
    """Your decoder does not read the target: its logits are the same for any tokens before. At each position it should read the
    true token in training (teacher forcing), and the token that it chose last when it writes an answer."""

    def read(self, memory, source, tokens, state=None):
        return super().read(memory, source, torch.full_like(tokens, BEGIN), state)


@wrong.change("model", decoders.ignores_the_inputs)
class SourceNotRead(_Small):
    """Your decoder does not use the source: for another sentence its logits are the same. It has learned what dates look like,
    not which one is meant. Give it the context of the attention before it computes the logits."""

    def encode(self, source, lengths):
        return torch.zeros_like(super().encode(source, lengths))


@wrong.change("model", ignores_the_order)
class LettersWithoutOrder(_Small):
    """Your attention reads a bag of letters: with the letters of the source in another order, the logits are the same. Its keys
    need the order: let them be the states of a recurrent network, or add vectors of the positions."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.encoder = None

    def encode(self, source, lengths):
        x = self.letters(source)
        return torch.cat([x, x], dim=-1)


@wrong(proof=trained.weights_left_out)
def encoder_not_in_the_optimizer(*data):
    """A part of your model has gradients and is in no optimizer, so it stays as it was drawn; usually this is the encoder. Give
    the optimizer the parameters of both, or of one module that contains both."""
    return submit(data, optimized=lambda model: nn.ModuleList([model.embed, model.cell, model.W, model.logits]))


@wrong.change("model", trained.weights_without_gradient, says=loops.CUT_OFF)
class StatesCutOff(_Small):
    def encode(self, source, lengths):
        return super().encode(source, lengths).detach()


@wrong.change("model", decoders.strays_from_its_logits, part=1.0)
class PredictionsNotFedBack(_Small):
    """Your answers are not those of your logits. Under teacher forcing the decoder has the right state and the right token
    before; when it writes an answer, it does not. In each step it must read the token that it chose last, and go on from the
    state after the step before."""

    def write(self, memory, source):
        first = torch.full((len(source), 24), BEGIN)
        return self.read(memory, source, first)[0].argmax(-1)


@wrong.change("model", trained.has_no_attention, severity=Severity.IDEA)
class LastStateAlone(_Small):
    """Your decoder has no attention: no values are multiplied by weights of a softmax over the source that depend on the
    sentence. It reads one vector for the whole sentence. At each step, let its state choose among the encoder's states."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.W = None

    def read(self, memory, source, tokens, state=None):
        lengths = (source != PADDING).sum(1)
        half = memory.shape[-1] // 2
        last = memory[torch.arange(len(memory)), lengths - 1, :half]
        both = torch.cat([last, memory[:, 0, half:]], dim=-1)
        states, state = self.cell(self.embed(tokens), both[None].contiguous() if state is None else state)
        return self.logits(torch.cat([states, both[:, None].expand_as(states)], dim=-1)), state


@right
def with_additive_attention(source, lengths, target, n_letters, n_characters, n_steps):
    """Bahdanau's order: attend with the state before, then step a GRU cell; packed sequences, and answers that stop at END."""
    d = 48

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.letters, self.embed = nn.Embedding(n_letters, d), nn.Embedding(n_characters, d)
            self.encoder, self.cell = nn.GRU(d, d, bidirectional=True), nn.GRUCell(3 * d, d)
            self.query, self.key, self.v = nn.Linear(d, d), nn.Linear(2 * d, d, bias=False), nn.Linear(d, 1, bias=False)
            self.first, self.logits = nn.Linear(d, d), nn.Linear(4 * d, n_characters)

        def forward(self, source, lengths, target=None):
            packed = nn.utils.rnn.pack_padded_sequence(self.letters(source).transpose(0, 1), lengths, enforce_sorted=False)
            states, final = self.encoder(packed)
            states = nn.utils.rnn.pad_packed_sequence(states)[0].transpose(0, 1)
            keys, hide = self.key(states), torch.arange(states.shape[1]) >= lengths[:, None]
            s, token = self.first(final[1]).tanh(), torch.full((len(source),), BEGIN)
            logits, answer = [], []
            for t in range(24 if target is None else target.shape[1]):
                token = token if target is None else target[:, t]
                scores = self.v((self.query(s)[:, None] + keys).tanh())[..., 0].masked_fill(hide, -1e9)
                context = torch.einsum("bt,btd->bd", scores.softmax(1), states)
                y = self.embed(token)
                s = self.cell(torch.cat([y, context], 1), s)
                logits.append(self.logits(torch.cat([s, y, context], 1)))
                token = logits[-1].argmax(1)
                answer.append(token)
                if target is None and bool((torch.stack(answer) == END).any(0).all()):
                    break
            return torch.stack(answer if target is None else logits, 1)

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.5e-2, n_steps)
    for _ in range(n_steps):
        rows = torch.randperm(len(source))[:24]
        logits = model(source[rows], lengths[rows], target[rows, :-1])
        real = target[rows, 1:] != PADDING
        loss = -logits.log_softmax(-1).gather(2, target[rows, 1:, None])[..., 0][real].mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model.train(False)


@right
def with_convolutions(source, lengths, target, n_letters, n_characters, n_steps):
    """No recurrence in the encoder: convolutions over letters and positions, dot products, a residual GRU decoder."""
    d, longest = 64, 64

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.letters, self.positions = nn.Embedding(n_letters, d), nn.Embedding(longest, d)
            self.convolutions = nn.ModuleList(nn.Conv1d(d, d, 5, padding=2) for _ in range(2))
            self.embed, self.cell = nn.Embedding(n_characters, d), nn.GRU(d, d, batch_first=True)
            self.places, self.query, self.logits = nn.Embedding(longest, d), nn.Linear(d, d), nn.Linear(2 * d, n_characters)

        def encode(self, source, lengths):
            real = (torch.arange(source.shape[1]) < lengths[:, None])[..., None]
            x = (self.letters(source) + self.positions.weight[: source.shape[1]]) * real
            for convolution in self.convolutions:
                x = (x + convolution(x.mT).mT.relu()) * real
            return x, real

        def forward(self, source, lengths, target=None):
            memory, real = self.encode(source, lengths)
            tokens = torch.full((len(source), 1), BEGIN) if target is None else target
            for _ in range(24 if target is None else 1):
                x = self.embed(tokens) + self.places.weight[: tokens.shape[1]]
                states = x + self.cell(x)[0]
                scores = (self.query(states) @ memory.mT).masked_fill(~real.mT, -torch.inf) / d**0.5
                logits = self.logits(torch.cat([states, scores.softmax(-1) @ memory], -1))
                if target is None:
                    tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], 1)
            return tokens[:, 1:] if target is None else logits

    model = Model()
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)
    for _ in range(n_steps):
        rows = torch.randint(len(source), (64,))
        loss = decoders.decoder_loss(model(source[rows], lengths[rows], target[rows]), target[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


_LIBRARY = "write the decoder yourself: a recurrent network, your scores, your `attend`, logits."

exercise = Exercise(
    id="02.7",
    title="A decoder with attention and its training",
    extra=True,
    reference=train_translator,
    properties=decoders.properties(
        SECONDS,
        MOST_PARAMETERS,
        "(source, lengths)",
        trained.shown("rows", "The logits of a sentence depend on no padding and no other sentence.", _rows),
        (
            "On held-out sentences more characters are right than by copying the answer of the most similar known sentence.",
            _learns,
        ),
        (f"On held-out sentences of two dates at least {LEAST:.0%} of the answers are exactly right.", _score),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids=dict.fromkeys((PlainDecoder, LuongDecoder, BahdanauDecoder, Seq2Seq, Transformer), _LIBRARY),
    training=Training(_questions, SECONDS),
)
