"""Build task 03.7, train_captioner: a captioner and its training loop; what students hand in, wrong and right.

The pictures are those of the lecture, 25 regions each. A region is described by the scores of a linear classifier of digits,
fitted in closed form, and by its row and column. No drawing of a digit occurs both in known and in held-out pictures.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import BEGIN, END, PADDING, Vocabulary, captioned_digits
from course_lib.datasets.composed_pictures import NAMES, Captions
from course_lib.models import ShowAndTell, ShowAttendAndTell, soft_attention
from course_tools.bank.decoders import (
    FORCED,
    N_COMMON,
    N_FORCED,
    answers,
    common_queries,
    common_truth,
    decoder_loss,
    exact,
    has_learned_nothing,
    has_random_logits,
    ignores_the_inputs,
    ignores_the_target,
    never_ends,
    predicts_padding,
    properties,
    reads_the_token_it_predicts,
    repeats_the_token_read,
    strays_from_its_logits,
    taught,
    token_accuracy,
    writes_at_random,
)
from course_tools.bank.language_models import gives_probabilities
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.trained import (
    at_least,
    both,
    fails,
    gradients_are_kept,
    holds,
    is_near,
    makes_too_many_updates,
    no_weight_is_stepped,
    reads_one_batch,
    updates_are_too_large,
    updates_are_too_small,
    weights_left_out,
    weights_without_gradient,
)
from course_tools.checks.training_record import Measured

wrong, right = Answers(), Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 100_000, 300
N_KNOWN, N_HELD_OUT, N_ASKED, CUT = 2_000, 500, 300, 2
SIDE, STRIDE, N_FILTERS, PATCH = 5, 7, 32, 6
"""Regions in a row, pixels between them; filters of the classifier and their side in pixels."""
LEAST = 0.25
"""Exact match of captions. From the mean of the regions it is below 0.15 after as many updates."""

HINTS = (
    (
        "Two questions, one model: `model(regions, caption)` reads the true words and gives logits (B, T, n_tokens); "
        "`model(regions)` reads BEGIN and then its own words. Write one step, as in 03.5, and call it in both: attend with the "
        "state, update the LSTM with word and context, compute logits."
    ),
    (
        "`nn.LSTMCell` keeps h and c (B, n); the weights of `soft_attention` can be three `nn.Parameter`s. The model reads "
        "`caption[:, :-1]`, and its logits are compared with `caption[:, 1:]` by `F.cross_entropy(..., ignore_index=PADDING)`."
    ),
    (
        "Each update: draw 32 pictures, compute the loss, `optimizer.zero_grad()`, `loss.backward()`, `optimizer.step()`. Adam "
        "with a learning rate of 0.01, 64 units and embeddings of 24 numbers are enough. Six steps suffice for an answer: take "
        "`logits.argmax(-1)` and read it in the next step. Return `model.eval()`."
    ),
)


def train_captioner(regions: Tensor, captions: Tensor, n_tokens: int, n_steps: int) -> nn.Module:
    """Build a captioner with attention, train it on pictures with captions, and return it.

    `model(regions, caption)` gives logits (B, T, n_tokens); those at t predict caption[:, t + 1]. `model(regions)` gives the
    captions of greedy decoding, tokens (B, T_out) without BEGIN and with END; what follows END does not count. They have at
    most six tokens.

    Args:
        regions: features of the L regions of each picture, (N, L, d); other calls have other sizes.
        captions: (N, T): BEGIN, the words, END, then PADDING.
        n_tokens: size of the vocabulary.
        n_steps: updates that the training may make.

    Returns:
        the trained captioner, ready to write: asked twice, it gives the same.
    """
    d_region, d, d_word, d_attention = regions.shape[-1], 64, 24, 32

    class Captioner(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.cell = nn.Embedding(n_tokens, d_word), nn.LSTMCell(d_word + d_region, d)
            self.W_a, self.W_h, self.v = (
                nn.Parameter(torch.randn(*shape) * shape[-1] ** -0.5)
                for shape in ((d_attention, d_region), (d_attention, d), (d_attention,))
            )
            self.first, self.logits = nn.Linear(d_region, 2 * d), nn.Linear(d + d_region, n_tokens)

        def start(self, regions):
            return self.first(regions.mean(1)).tanh().chunk(2, dim=-1)

        def step(self, regions, word, state):
            context, weights = soft_attention(regions, state[0], self.W_a, self.W_h, self.v)
            state = self.cell(torch.cat([self.words(word), context], dim=-1), state)
            return self.logits(torch.cat([state[0], context], dim=-1)), state

        def forward(self, regions, caption=None):
            state, logits, said = self.start(regions), [], []
            word = torch.full((len(regions),), BEGIN)
            for t in range(6 if caption is None else caption.shape[1]):
                word = word if caption is None else caption[:, t]
                row, state = self.step(regions, word, state)
                word = row.argmax(-1)
                logits.append(row)
                said.append(word)
            return torch.stack(said if caption is None else logits, dim=1)

    model = Captioner()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(n_steps):
        rows = torch.randint(len(regions), (32,))
        logits = model(regions[rows], captions[rows, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), captions[rows, 1:].flatten(), ignore_index=PADDING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


Data = tuple[Tensor, Tensor]


@cache
def described() -> tuple[Data, Data, Vocabulary]:
    """Regions (n, 25, 13) and captions (n, T) of known pictures and of held-out ones, and the words."""
    pictures = captioned_digits(N_KNOWN, 1, N_HELD_OUT, seed=0)
    generator = torch.Generator().manual_seed(0)
    patches = F.unfold(pictures.train.images[:200], PATCH).mT.flatten(0, 1)
    patches = patches[patches.sum(1) > 4]
    filters = patches[torch.randperm(len(patches), generator=generator)[:N_FILTERS]]
    filters = F.normalize(filters - filters.mean(1, keepdim=True), dim=1).view(-1, 1, PATCH, PATCH)
    seen, new = (_filtered(part.images, filters) for part in (pictures.train, pictures.test))
    there = _digit_in_region(pictures.train)
    kept = (there < len(NAMES)) | (torch.rand(there.shape, generator=generator) < 0.15)
    x, y = seen[kept], F.one_hot(there[kept], len(NAMES) + 1).float()
    mean, mean_y = x.mean(0), y.mean(0)
    x = x - mean
    solution = torch.linalg.solve(x.mT @ x + 10 * torch.eye(x.shape[1]), x.mT @ (y - mean_y))
    words = Vocabulary.of(pictures.train.captions, between=" ")
    line = torch.linspace(-2, 2, SIDE)
    places = torch.cartesian_prod(line, line)

    def data(features: Tensor, part: Captions) -> Data:
        scores = 4 * (features - mean) @ solution
        captions, _ = words.batch(part.captions, begin=True, end=True)
        return torch.cat([scores, places.expand(len(scores), -1, -1)], dim=-1), captions

    return data(seen, pictures.train), data(new, pictures.test), words


def _filtered(images: Tensor, filters: Tensor) -> Tensor:
    """Features of each region (n, 25, 9 · n_filters): the rectified answers of the filters, averaged over its 3 × 3 cells."""
    answers = torch.cat([(F.conv2d(F.pad(part, (4, 4, 4, 4)), filters) - 0.4).relu() for part in images.split(250)])
    cells = [F.avg_pool2d(answers[:, :, 2 + i :, 2 + j :], 5, STRIDE) for i in (0, 4, 8) for j in (0, 4, 8)]
    return torch.cat([cell[:, :, :SIDE, :SIDE] for cell in cells], dim=1).flatten(2).mT


def _digit_in_region(part: Captions) -> Tensor:
    """The digit in the middle of each region (n, 25), or 10 where there is none."""
    line = STRIDE * torch.arange(SIDE)
    corners = torch.cartesian_prod(line, line)
    found = torch.full((len(part.corners), SIDE**2), len(NAMES))
    for j in (0, 1):
        digits = torch.tensor([NAMES.index(caption.split()[-j]) for caption in part.captions])
        near = (corners - part.corners[:, j, None]).abs().amax(-1) <= STRIDE // 2
        found = torch.where(near, digits[:, None], found)
    return found


def _questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw pictures to learn from, in any order, and held-out ones.

    After the queries of all such tasks come, with their captions: the last 32 of these pictures alone · all of them, with other
    regions of the same mean. The last ones are asked alone because a recurrent network that runs over the batch by mistake
    reads only the rows before.
    """
    (regions, captions), (new, new_captions), words = described()
    order, held_out = draw.uniform(N_KNOWN).argsort(), draw.uniform(N_HELD_OUT).argsort()
    asked, others = held_out[:N_ASKED], held_out[N_ASKED : N_ASKED + N_FORCED]
    forced, read = new[others], new_captions[others]
    change = torch.zeros_like(forced)
    change[..., :11] = draw.normal(N_FORCED, change.shape[1], 11, scale=2.0)
    change -= change.mean(1, keepdim=True)
    queries = [
        *common_queries((new[asked],), (forced,), read, CUT, len(words), draw),
        (forced[N_FORCED // 2 :], read[N_FORCED // 2 :, :-1]),
        (forced + change, read[:, :-1]),
    ]
    labels = new_captions[asked]
    known = captions[order]
    usual = torch.stack([torch.bincount(column[column != PADDING]).argmax() for column in known[:, 1:].unbind(1)])
    truth = common_truth(labels, read, CUT, len(words), N_STEPS) | {
        "usual": token_accuracy(usual.expand(len(labels), -1), labels[:, 1:])
    }
    return ((regions[order], known, len(words), N_STEPS), queries), truth


HALF, SAME_MEAN = range(N_COMMON, N_COMMON + 2)


def _rows(measured: Measured, truth: Truth) -> str | None:
    if reads_other_pictures(measured, truth):
        return "The logits of a caption change when other pictures are in its batch."
    return None


def accuracy(measured: Measured, truth: Truth) -> float:
    """The fraction of the words of held-out captions that are right at their position."""
    return token_accuracy(answers(measured, truth), truth["labels"])


def _learns(measured: Measured, truth: Truth) -> str | None:
    found, usual = accuracy(measured, truth), truth["usual"]
    if found >= usual + 0.1:
        return None
    return (
        f"On held-out pictures {found:.2f} of the words are right; at least {usual + 0.1:.2f} is required, 0.1 above always "
        "writing the most frequent word at each position."
    )


def exact_match(measured: Measured, truth: Truth) -> float:
    """The fraction of held-out pictures whose caption is exactly right."""
    return exact(measured, truth).float().mean().item()


_score = at_least(LEAST, exact_match, "On held-out pictures the exact match of its captions")
_UNSOUND = fails(_score)


def reads_other_pictures(measured: Measured, truth: Truth) -> bool:
    """Evidence: logits change with the other pictures of the batch."""
    return not is_near(measured.outputs[FORCED][N_FORCED // 2 :], measured.outputs[HALF])


def reads_only_the_mean(measured: Measured, truth: Truth) -> bool:
    """Evidence: other regions with the same mean give the same logits, and another picture does not."""
    same = is_near(measured.outputs[FORCED], measured.outputs[SAME_MEAN], tolerance=1e-4)
    return same and not ignores_the_inputs(measured, truth)


class _Small(nn.Module):
    """Attention, an LSTM and logits; what a wrong submission changes is an argument or a method."""

    def __init__(self, n_tokens, d_region=13, d=48, dropout=0.0):
        super().__init__()
        self.words, self.cell = nn.Embedding(n_tokens, d), nn.LSTMCell(d + d_region, d)
        self.query, self.key, self.v = nn.Linear(d, 32), nn.Linear(d_region, 32), nn.Linear(32, 1)
        self.logits, self.dropout = nn.Linear(d + d_region, n_tokens), nn.Dropout(dropout)

    def look(self, regions, h):
        scores = self.v((self.query(h)[:, None] + self.key(regions)).tanh())
        return (self.weights(scores) * regions).sum(1)

    def weights(self, scores):
        return scores.softmax(1)

    def step(self, regions, word, state):
        z = self.look(regions, state[0])
        state = self.cell(torch.cat([self.words(word), z], -1), state)
        return self.logits(torch.cat([self.dropout(state[0]), z], -1)), state

    def read(self, regions, caption):
        state, logits = (torch.zeros(len(regions), self.cell.hidden_size),) * 2, []
        for word in caption.unbind(1):
            row, state = self.step(regions, word, state)
            logits.append(row)
        return torch.stack(logits, 1)

    def choose(self, logits):
        return logits.argmax(-1)

    def forward(self, regions, caption=None):
        return self.write(regions) if caption is None else self.read(regions, caption)

    def write(self, regions):
        said = torch.full((len(regions), 1), BEGIN)
        for _ in range(6):
            said = torch.cat([said, self.choose(self.read(regions, said)[:, -1])[:, None]], 1)
        return said[:, 1:]


def _looped(model, data, n_steps, **how):
    regions, captions = data[:2]
    return taught(model, lambda rows: (regions[rows],), captions, n_steps, **how)


@wrong(proof=gradients_are_kept)
def gradients_not_cleared(*data):
    """You never clear the gradients: `backward` adds to those of all updates before. Call `optimizer.zero_grad()` once in each
    update."""
    return _looped(_Small(data[2]), data, data[3] // 2, clears=False)


@wrong(proof=has_random_logits)
def dropout_left_on(*data):
    """The returned model is still in training mode: its dropout draws new zeros at each call, so that its logits are random.
    Return `model.eval()`."""
    return _looped(_Small(data[2], dropout=0.2), data, data[3] // 2).train()


class _Sampling(_Small):
    def choose(self, logits):
        return logits.softmax(-1).multinomial(1)[:, 0]


@wrong(proof=writes_at_random)
def captions_sampled(*data):
    """Your model draws its captions at random: asked twice, it writes different words with the same logits. Greedy decoding
    takes the word with the largest logit, `argmax(-1)`."""
    return _looped(_Sampling(data[2]), data, data[3] // 3)


@wrong(proof=both(updates_are_too_large, _UNSOUND))
def learning_rate_too_large(*data):
    """Your first ten updates move the weights by more than twenty times their own size: nothing that was learned survives the
    next update. Take a smaller learning rate; for Adam 0.001 to 0.02."""
    return _looped(_Small(data[2]), data, data[3] // 4, lr=5.0)


@wrong(proof=both(no_weight_is_stepped, has_learned_nothing))
def optimizer_of_another_model(*data):
    """None of the weights of the model that you return was ever updated: the optimizer holds those of another one. Make the
    optimizer after the model, from the parameters of the model that you train and return."""
    return _looped(_Small(data[2]), data, data[3] // 4, optimized=_Small(data[2]))


@wrong(proof=both(updates_are_too_small, _UNSOUND))
def learning_rate_too_small(*data):
    """Your updates hardly change the weights: all together move them by less than two percent. Take a larger learning rate; for
    Adam 0.001 to 0.02."""
    return _looped(_Small(data[2]), data, data[3] // 4, lr=1e-6)


class _OverTheBatch(_Small):
    def weights(self, scores):
        return scores.softmax(0)


@wrong(proof=reads_other_pictures)
def softmax_over_the_batch(*data):
    """Your pictures are mixed: the logits of a caption change with the other pictures of its batch. The softmax runs over the
    regions, and the LSTM over the words; neither runs over the batch."""
    return _looped(_OverTheBatch(data[2]), data, data[3] // 2)


class _SeesTheNext(_Small):
    def read(self, regions, caption):
        return super().read(regions, torch.cat([caption[:, 1:], caption[:, -1:]], 1))


@wrong(proof=reads_the_token_it_predicts)
def reads_the_word_to_predict(*data):
    """Your decoder sees the word that it has to predict: logits change when later words of the caption change. In training it
    can copy it, and alone it has nothing to copy. It reads `caption[:, :-1]` from left to right and predicts
    `caption[:, 1:]`."""
    return _looped(_SeesTheNext(data[2]), data, data[3] // 2)


@wrong(proof=repeats_the_token_read)
def targets_not_shifted(*data):
    """Your captioner predicts the word that it has just read: logits and caption are not shifted against each other. The logits
    at t are compared with `caption[:, t + 1]`."""

    def loss_of(logits, caption):
        return F.cross_entropy(logits.flatten(0, 1), caption.flatten(), ignore_index=PADDING)

    return _looped(_Small(data[2]), data, data[3] // 2, loss_of=loss_of)


@wrong(proof=both(reads_one_batch, _UNSOUND))
def one_batch_for_all_updates(*data):
    """Every update reads the same batch: it is drawn once, before the loop. The model learns these pictures by heart. Draw new
    ones in each update."""
    return _looped(_Small(data[2]), data, data[3] // 2, one_batch=True)


class _Probabilities(_Small):
    def step(self, *arguments):
        logits, state = super().step(*arguments)
        return logits.softmax(-1), state


@wrong(proof=both(gives_probabilities, _UNSOUND))
def probabilities_for_logits(*data):
    """Your model returns probabilities. `F.cross_entropy` takes a softmax itself, so that the loss takes it twice and hardly
    falls. Return the logits."""
    return _looped(_Probabilities(data[2]), data, data[3] // 3)


class _OwnWords(_Small):
    def read(self, regions, caption):
        state, logits = (torch.zeros(len(regions), self.cell.hidden_size),) * 2, []
        word = torch.full((len(regions),), BEGIN)
        for _ in range(caption.shape[1]):
            row, state = self.step(regions, word, state)
            word = row.argmax(-1)
            logits.append(row)
        return torch.stack(logits, 1)

    def write(self, regions):
        return self.read(regions, torch.zeros(len(regions), 6)).argmax(-1)


@wrong(proof=ignores_the_target)
def without_teacher_forcing(*data):
    """Your model does not read the caption that it is given: its logits are the same for any words. With teacher forcing it
    reads the true word at each position; its own words it reads only where there is no caption."""
    return _looped(_OwnWords(data[2]), data, data[3] // 2)


class _Blind(_Small):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.query = self.key = self.v = None

    def look(self, regions, h):
        return torch.zeros_like(regions[:, 0])


@wrong(proof=ignores_the_inputs)
def picture_not_read(*data):
    """Your captioner does not use the picture: for another one its logits are the same. It has learned what captions look like.
    Give the context of the attention to the LSTM, or to the logits, at each word."""
    return _looped(_Blind(data[2]), data, data[3] // 2)


@wrong(proof=weights_left_out)
def attention_not_in_the_optimizer(*data):
    """A part of your model has gradients and is in no optimizer, so it stays as it was drawn. Give the optimizer the parameters
    of the whole model, attention included."""
    model = _Small(data[2])
    return _looped(model, data, data[3] // 2, optimized=nn.ModuleList([model.words, model.logits]))


class _Detached(_Small):
    def look(self, regions, h):
        return super().look(regions, h).detach()


@wrong(proof=weights_without_gradient)
def context_cut_off(*data):
    """A part of your model never gets a gradient and stays as it was drawn: the graph is cut by `.data`, `.detach()`,
    `torch.tensor(...)` or `torch.no_grad()`, or these weights are not used at all."""
    return _looped(_Detached(data[2]), data, data[3] // 2)


class _Mean(_Small):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.query = self.key = self.v = None

    def look(self, regions, h):
        return regions.mean(1)


@wrong(proof=reads_only_the_mean)
def mean_of_the_regions(*data):
    """Your captioner reads only the mean of the regions: with other regions of the same mean, its logits are the same. The mean
    has no order. Before each word, attend to the regions with the state of the decoder."""
    return _looped(_Mean(data[2]), data, data[3] // 2)


@wrong(proof=predicts_padding)
def padding_counted(*data):
    """Your loss counts padding: after the end of a caption your model predicts padding, which it can have learned only from
    targets that are padding. Give the loss `ignore_index=PADDING`, so that it learns words alone."""

    def loss_of(logits, caption):
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), caption[:, 1:].flatten())

    return _looped(_Small(data[2]), data, data[3] // 2, loss_of=loss_of)


@wrong(proof=never_ends)
def end_not_learned(*data):
    """Your captions never end: the model never predicts END, because its loss leaves this token out. END is a target like any
    other; only padding is none."""

    def loss_of(logits, caption):
        return decoder_loss(logits, caption.masked_fill(caption == END, PADDING))

    return _looped(_Small(data[2]), data, data[3], loss_of=loss_of)


class _NotFedBack(_Small):
    def write(self, regions):
        return self.read(regions, torch.full((len(regions), 6), BEGIN)).argmax(-1)


@wrong(proof=strays_from_its_logits)
def words_not_fed_back(*data):
    """Your captions are not those of your logits. With the true words before, the decoder predicts one word; when it writes
    alone, another. In each step it must read the word that it chose last, and go on from the state after the step before."""
    return _looped(_NotFedBack(data[2]), data, data[3])


@wrong(proof=makes_too_many_updates)
def more_updates_than_allowed(*data):
    """Your training makes more updates than `n_steps`. The task is to reach the score within this budget, so end the loop after
    `n_steps` calls of `optimizer.step()`."""
    return _looped(_Small(data[2]), data, data[3] + 10)


@right
def with_the_penalty(regions, captions, n_tokens, n_steps):
    """Show, Attend and Tell with its gate and the doubly stochastic penalty, in the order of random permutations."""
    d = 48

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.cell = nn.Embedding(n_tokens, d), nn.GRUCell(2 * d, d)
            self.keys, self.values, self.query = (nn.Linear(n, d) for n in (regions.shape[-1], regions.shape[-1], d))
            self.v, self.gate, self.logits = nn.Linear(d, 1), nn.Linear(d, 1), nn.Linear(3 * d, n_tokens)

        def forward(self, a, caption=None, with_weights=False):
            keys, values, h = self.keys(a), self.values(a), torch.zeros(len(a), d)
            word, rows, looks = torch.full((len(a),), BEGIN), [], []
            for t in range(6 if caption is None else caption.shape[1]):
                y = self.words(word if caption is None else caption[:, t])
                looks.append(self.v((keys + self.query(h)[:, None]).tanh()).softmax(1))
                z = self.gate(h).sigmoid() * (looks[-1] * values).sum(1)
                h = self.cell(torch.cat([y, z], 1), h)
                rows.append(self.logits(torch.cat([y, h, z], 1)))
                word = rows[-1].argmax(1)
            if with_weights:
                return torch.stack(rows, 1), torch.cat(looks, 2)
            return torch.stack(rows, 1) if caption is not None else torch.stack(rows, 1).argmax(2)

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    order = torch.cat([torch.randperm(len(regions)) for _ in range(n_steps * 32 // len(regions) + 1)])
    for rows in order[: 32 * n_steps].split(32):
        read, targets = captions[rows, :-1], captions[rows, 1:]
        logits, weights = model(regions[rows], read, with_weights=True)
        real = (targets != PADDING).float()
        penalty = (1 - (weights * real[:, None]).sum(2)).square().sum(1).mean()
        losses = F.cross_entropy(logits.mT, targets, reduction="none")
        loss = (losses * real).sum() / real.sum() + 1e-3 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@right
def with_luongs_order(regions, captions, n_tokens, n_steps):
    """`nn.LSTM` over the words first, then `nn.MultiheadAttention` from all its states to the regions at once."""
    d = 64

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.lstm = nn.Embedding(n_tokens, d), nn.LSTM(d, d, batch_first=True)
            self.regions, self.attention = nn.Linear(regions.shape[-1], d), nn.MultiheadAttention(d, 2, batch_first=True)
            self.logits = nn.Sequential(nn.Linear(2 * d, d), nn.ReLU(), nn.Linear(d, n_tokens))

        def forward(self, a, caption=None):
            memory = self.regions(a).relu()
            if caption is not None:
                return self.read(memory, caption)
            said = torch.full((len(a), 1), BEGIN)
            while said.shape[1] < 7 and not bool((said == END).any(1).all()):
                said = torch.cat([said, self.read(memory, said)[:, -1:].argmax(2)], 1)
            return said

        def read(self, memory, caption):
            first = memory.mean(1)[None]
            states, _ = self.lstm(self.words(caption), (first, torch.zeros_like(first)))
            return self.logits(torch.cat([states, self.attention(states, memory, memory)[0]], 2))

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    for _ in range(n_steps):
        rows = torch.randperm(len(regions))[:64]
        nll = -model(regions[rows], captions[rows, :-1]).log_softmax(2).gather(2, captions[rows, 1:, None])[..., 0]
        nll[captions[rows, 1:] != PADDING].mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model.train(False)


@right
def with_a_transformer(regions, captions, n_tokens, n_steps):
    """No recurrence: `nn.TransformerDecoder` with a causal mask over words and positions, and the regions as its memory."""
    d = 48

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(n_tokens, d), nn.Embedding(8, d)
            self.regions, self.logits = nn.Linear(regions.shape[-1], d), nn.Linear(d, n_tokens)
            layer = nn.TransformerDecoderLayer(d, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
            self.layers = nn.TransformerDecoder(layer, 2)

        def forward(self, a, caption=None):
            memory = self.regions(a)
            if caption is not None:
                return self.read(memory, caption)
            said = torch.full((len(a), 1), BEGIN)
            for _ in range(6):
                said = torch.cat([said, self.read(memory, said)[:, -1:].argmax(2)], 1)
            return said[:, 1:]

        def read(self, memory, caption):
            T = caption.shape[1]
            mask = nn.Transformer.generate_square_subsequent_mask(T)
            return self.logits(self.layers(self.words(caption) + self.places.weight[:T], memory, tgt_mask=mask))

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return _train_with(model, optimizer, regions, captions, n_steps)


def _train_with(model, optimizer, regions, captions, n_steps):
    for _ in range(n_steps):
        rows = torch.randint(len(regions), (64,))
        optimizer.zero_grad()
        decoder_loss(model(regions[rows], captions[rows]), captions[rows]).backward()
        optimizer.step()
    return model.eval()


_LIBRARY = "write the captioner yourself: one step, and the loop over the words."

exercise = Exercise(
    id="03.7",
    title="A captioner and its training loop",
    reference=train_captioner,
    properties=properties(
        SECONDS,
        MOST_PARAMETERS,
        "regions",
        holds("rows", "The logits of a caption depend on no other picture of the batch.", _rows, 1, ("training", "evaluation")),
        (
            "On held-out pictures the fraction of right words is at least 0.1 above that of the most frequent word at each "
            "position.",
            _learns,
        ),
        (f"On held-out pictures at least {LEAST:.0%} of the captions are exactly right.", _score),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids=dict.fromkeys((ShowAndTell, ShowAttendAndTell), _LIBRARY),
    training=Training(
        questions=_questions,
        seconds=SECONDS,
    ),
)
