"""Build task 03.7, train_captioner: a captioner and its training loop; what students hand in, wrong and right.

The pictures are those of the lecture, 25 regions each. A region is described by the scores of a linear classifier of digits,
fitted in closed form, and by its row and column. No drawing of a digit occurs both in known and in held-out pictures.
"""

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import BEGIN, END, PADDING, Vocabulary
from course_lib.models import ShowAndTell, ShowAttendAndTell, soft_attention
from course_tools.bank import decoders
from course_tools.bank import training_loops as loops
from course_tools.bank.decoders import FORCED, N_COMMON, N_FORCED
from course_tools.bank.lecture_03._captioned_digits import NAMES, Captions, captioned_digits
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Severity, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

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
        *decoders.common_queries((new[asked],), (forced,), read, CUT, len(words), draw),
        (forced[N_FORCED // 2 :], read[N_FORCED // 2 :, :-1]),
        (forced + change, read[:, :-1]),
    ]
    labels = new_captions[asked]
    known = captions[order]
    usual = torch.stack([torch.bincount(column[column != PADDING]).argmax() for column in known[:, 1:].unbind(1)])
    truth = decoders.common_truth(labels, read, CUT, len(words), N_STEPS) | {
        "usual": decoders.token_accuracy(usual.expand(len(labels), -1), labels[:, 1:])
    }
    return ((regions[order], known, len(words), N_STEPS), queries, (), [queries[decoders.FORCED]]), truth


HALF, SAME_MEAN = range(N_COMMON, N_COMMON + 2)


def _rows(measured: Measured, truth: Truth) -> str | None:
    if reads_other_pictures(measured, truth):
        return "The logits of a caption change when other pictures are in its batch."
    return None


def accuracy(measured: Measured, truth: Truth) -> float:
    """The fraction of the words of held-out captions that are right at their position."""
    return decoders.token_accuracy(decoders.answers(measured, truth), truth["labels"])


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
    return decoders.exact(measured, truth).float().mean().item()


_score = trained.at_least(LEAST, exact_match, "On held-out pictures the exact match of its captions")
_UNSOUND = trained.fails(_score)


def reads_other_pictures(measured: Measured, truth: Truth) -> bool:
    """Evidence: logits change with the other pictures of the batch."""
    return not trained.is_near(measured.outputs[FORCED][N_FORCED // 2 :], measured.outputs[HALF])


def reads_only_the_mean(measured: Measured, truth: Truth) -> bool:
    """Evidence: other regions with the same mean give the same logits, and another picture does not."""
    same = trained.is_near(measured.outputs[FORCED], measured.outputs[SAME_MEAN], tolerance=1e-4)
    return same and not decoders.ignores_the_inputs(measured, truth)


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


def submit(data, part=0.5, model=_Small, **change):
    regions, captions, n_tokens, n_steps = data
    return decoders.taught(partial(model, n_tokens), lambda rows: (regions[rows],), captions, part * n_steps, **change)


WORDS = decoders.WORDS | {
    "model": "captioner",
    "token": "word",
    "target": "caption",
    "ending": "a caption",
    "units": "words",
    "answers": "captions",
}
wrong = loops.Submissions(__name__, submit, rates="0.001 to 0.02", learned="these pictures", **WORDS)
decoders.loop_mistakes(wrong, _UNSOUND, dropout=0.2, too_large=5.0)
decoders.target_mistakes(wrong)


@wrong.change("model", decoders.writes_at_random, part=0.4)
class CaptionsSampled(_Small):
    """Your model draws its captions at random: asked twice, it writes different words with the same logits. Greedy decoding
    takes the word with the largest logit, `argmax(-1)`."""

    def choose(self, logits):
        return logits.softmax(-1).multinomial(1)[:, 0]


@wrong.change("model", reads_other_pictures)
class SoftmaxOverTheBatch(_Small):
    """Your pictures are mixed: the logits of a caption change with the other pictures of its batch. The softmax runs over the
    regions, and the LSTM over the words; neither runs over the batch."""

    def weights(self, scores):
        return scores.softmax(0)


@wrong.change("model", decoders.reads_the_token_it_predicts)
class ReadsTheWordToPredict(_Small):
    """Your decoder sees the word that it has to predict: logits change when later words of the caption change. In training it
    can copy it, and alone it has nothing to copy. It reads `caption[:, :-1]` from left to right and predicts
    `caption[:, 1:]`."""

    def read(self, regions, caption):
        return super().read(regions, torch.cat([caption[:, 1:], caption[:, -1:]], 1))


@wrong.change("model", decoders.ignores_the_target)
class WithoutTeacherForcing(_Small):
    """Your model does not read the caption that it is given: its logits are the same for any words. With teacher forcing it
    reads the true word at each position; its own words it reads only where there is no caption."""

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


@wrong.change("model", decoders.ignores_the_inputs)
class PictureNotRead(_Small):
    """Your captioner does not use the picture: for another one its logits are the same. It has learned what captions look like.
    Give the context of the attention to the LSTM, or to the logits, at each word."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.query = self.key = self.v = None

    def look(self, regions, h):
        return torch.zeros_like(regions[:, 0])


@wrong(proof=trained.weights_left_out)
def attention_not_in_the_optimizer(*data):
    """A part of your model has gradients and is in no optimizer, so it stays as it was drawn. Give the optimizer the parameters
    of the whole model, attention included."""
    return submit(data, optimized=lambda model: nn.ModuleList([model.words, model.logits]))


@wrong.change("model", trained.weights_without_gradient, says=loops.CUT_OFF)
class ContextCutOff(_Small):
    def look(self, regions, h):
        return super().look(regions, h).detach()


@wrong.change("model", reads_only_the_mean)
class MeanOfTheRegions(_Small):
    """Your captioner reads only the mean of the regions: with other regions of the same mean, its logits are the same. The mean
    has no order. Before each word, attend to the regions with the state of the decoder."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.query = self.key = self.v = None

    def look(self, regions, h):
        return regions.mean(1)


@wrong.change("model", trained.has_no_attention, severity=Severity.IDEA)
class SameWeightsForAllPictures(_Small):
    """Your captioner has no attention: no regions are multiplied by weights of a softmax that depend on the picture. At each
    word it reads the same mixture of the same places. Let the state of the decoder choose among the regions."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.query = self.key = self.v = None
        self.places = nn.Parameter(torch.randn(25))

    def look(self, regions, h):
        return self.places.softmax(0) @ regions


@wrong.change("model", decoders.strays_from_its_logits, part=1.0)
class WordsNotFedBack(_Small):
    """Your captions are not those of your logits. With the true words before, the decoder predicts one word; when it writes
    alone, another. In each step it must read the word that it chose last, and go on from the state after the step before."""

    def write(self, regions):
        return self.read(regions, torch.full((len(regions), 6), BEGIN)).argmax(-1)


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
        decoders.decoder_loss(model(regions[rows], captions[rows]), captions[rows]).backward()
        optimizer.step()
    return model.eval()


_LIBRARY = "write the captioner yourself: one step, and the loop over the words."

exercise = Exercise(
    id="03.7",
    title="A captioner and its training loop",
    extra=True,
    reference=train_captioner,
    properties=decoders.properties(
        SECONDS,
        MOST_PARAMETERS,
        "regions",
        trained.shown("rows", "The logits of a caption depend on no other picture of the batch.", _rows),
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
    training=Training(_questions, SECONDS),
)
