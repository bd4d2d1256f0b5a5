"""Build task 08.8, train_bert: BERT's masking, its pre-training and its fine-tuning; what students hand in, wrong and right.

The student's function reads passages of names without labels, and a few names with their languages. The masking is judged by
the tokens that the model reads in its first calls, each row beside the passage it comes from. The labels of the other names
that a submission receives are false, so that one which reads them is found out.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from itertools import chain, groupby
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import BEGIN, END, PADDING, BytePairs, Vocabulary, few_of_each, pad
from course_lib.models import BERT, PretrainingBERT
from course_tools.bank import training_loops as loops
from course_tools.bank.lecture_08._display_names import LANGUAGES, display_names
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Evidence, Exercise, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 150_000, 460
N_CLASSES, N_EACH, N_HIDDEN, N_ALONE = len(LANGUAGES), 5, 200, 16
N_MERGES, PER_PASSAGE, LONGEST, MORE_PADDING = 300, 4, 40, 16
RATE, MASKED, RANDOM = 0.15, 0.12, 0.015
LEAST, FIRST, SLACK, PRETRAINING = 0.25, 3, 0.1, 0.75

HINTS = (
    (
        "Three parts share one encoder: embeddings of tokens and positions, then one block of attention in which no position "
        "attends to padding. At the chosen positions a linear layer gives logits of the tokens; at [CLS], the first position, "
        "another one gives logits of the classes. Write the masking first, and print: of the real tokens, 12 % should be "
        "[MASK] and 1.5 % another token; [CLS], [SEP] and padding never change."
    ),
    (
        "Pre-training: draw 24 rows of `passages`, corrupt them, and take the cross-entropy of the *true* tokens at the chosen "
        "positions: `F.cross_entropy(logits[chosen], rows[chosen])`. With 48 features and Adam at 0.01, warmed up over the "
        "first tenth of the updates and lowered afterwards, it falls from 5.9 to about 4.7; if it falls below 3, it counts "
        "tokens that the model sees."
    ),
    (
        "Fine-tuning goes on with the same model: 60 updates with a learning rate of 0.002 on `names[known]` and "
        "`labels[known]`, without masking. The labels of the other names are false. The optimizer of the second phase is a new "
        "one, and it also holds the encoder. Return `model.eval()`, whose `forward(tokens)` gives the logits of the classes."
    ),
)


def train_bert(
    passages: Tensor, names: Tensor, labels: Tensor, known: Tensor, n_tokens: int, n_classes: int, n_steps: int
) -> nn.Module:
    """Pre-train a small BERT on passages by masking, fine-tune it on a few labelled names, and return it.

    A row of tokens is [CLS] (1), pieces of words (3 or more), [SEP] (2) and padding (0); [MASK] is n_tokens - 1. In
    pre-training 15 % of the pieces are chosen in each update; of these 80 % become [MASK], 10 % a random piece, and 10 % stay
    as they are. In both phases the encoder is a module that is called with tokens (B, T), T ≤ 48: rows as they are given, less
    columns of padding at their end. The model returned maps tokens to logits of the classes (B, n_classes).

    Args:
        passages: rows without labels, (N, T).
        names: rows of single names, (M, T'), T' ≤ T.
        labels: the class of each name, (M,); it means something only where `known` is true.
        known: bool, (M,): the names to fine-tune on.
        n_tokens: size of the vocabulary, with [MASK].
        n_classes: number of classes.
        n_steps: updates that both phases may make together; pre-training makes the first three quarters at least.

    Returns:
        the fine-tuned model, ready to predict: asked twice, it gives the same logits.
    """
    d_model, n_heads, mask, n_tuning = 48, 4, n_tokens - 1, n_steps // 6

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(n_tokens, d_model), nn.Embedding(48, d_model)
            nn.init.normal_(self.tokens.weight, std=d_model**-0.5)
            nn.init.normal_(self.positions.weight, std=0.02)
            self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
            self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
            self.feed_forward = nn.Sequential(nn.Linear(d_model, 3 * d_model), nn.GELU(), nn.Linear(3 * d_model, d_model))
            self.words, self.classes = nn.Linear(d_model, n_tokens), nn.Linear(d_model, n_classes)

        def forward(self, tokens, chosen=None):
            x = self.norms[0](self.tokens(tokens) + self.positions.weight[: tokens.shape[1]])
            q, k, v = (part.unflatten(-1, (n_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=(tokens != 0)[:, None, None])
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            x = self.norms[1](x + self.feed_forward(x))
            return self.classes(x[:, 0]) if chosen is None else self.words(x[chosen])

    def corrupted(rows):
        choice, fate = torch.rand(2, *rows.shape)
        chosen = (rows > 2) & (choice < 0.15)
        instead = torch.where(fate < 0.8, mask, torch.where(fate < 0.9, torch.randint_like(rows, 3, mask), rows))
        return torch.where(chosen, instead, rows), chosen

    def fit(model, n_updates, lr, loss):
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        for i in range(n_updates):
            optimizer.param_groups[0]["lr"] = lr * min(10 * (i + 1) / n_updates, 1.1 * (n_updates - i) / n_updates)
            value = loss()
            optimizer.zero_grad()
            value.backward()
            optimizer.step()

    def of_masked_words():
        rows = passages[torch.randint(len(passages), (24,))]
        text, chosen = corrupted(rows)
        return F.cross_entropy(model(text, chosen), rows[chosen])

    def of_languages():
        few = torch.randperm(int(known.sum()))[:20]
        return F.cross_entropy(model(names[known][few]), labels[known][few])

    model = Model()
    if n_steps:
        fit(model, n_steps - n_tuning, 1e-2, of_masked_words)
        fit(model, n_tuning, 3e-3, of_languages)
    return model.eval()


class _Names(NamedTuple):
    """Rows of tokens: passages, names to learn from with their languages, names held out with theirs; the vocabulary's size."""

    passages: Tensor
    names: Tensor
    labels: Tensor
    held_out: Tensor
    held_out_labels: Tensor
    n_tokens: int


@cache
def _names() -> _Names:
    parts = display_names(5, 60)
    pieces = BytePairs.learn([name.text for name in parts.train], N_MERGES)
    words = Vocabulary.of([pieces.cut(name.text) for name in parts.train], between=" ")
    documents = [
        [words.encode(pieces.cut(name.text)) for name in document]
        for _, document in groupby(parts.train, key=lambda name: name.document)
    ]
    passages = [
        list(chain.from_iterable(document[i : i + PER_PASSAGE]))[:LONGEST]
        for offset in range(PER_PASSAGE)
        for document in documents
        for i in range(offset, len(document), PER_PASSAGE)
    ]
    learn, held_out = (
        pad([[BEGIN, *words.encode(pieces.cut(name.text)), END] for name in part])[0] for part in (parts.train, parts.test)
    )
    of_learn, of_held_out = (torch.tensor([name.language for name in part]) for part in (parts.train, parts.test))
    rows = pad([[BEGIN, *passage, END] for passage in passages])[0]
    return _Names(rows, learn, of_learn, held_out, of_held_out, len(words) + 1)


def _questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw the names whose labels are known, those whose labels are false, and those that the model is asked about.

    The queries are: names held out (480, T) · the last 16 of them alone · these with more padding · names with false labels.
    The model is probed with the 16, and with their first pieces.
    """
    drawn = _names()
    order = draw.uniform(len(drawn.labels)).argsort()
    few = order[few_of_each(drawn.labels[order], N_EACH, int(draw.integers(0, 10_000, 1)))]
    hidden = order[~torch.isin(order, few)][:N_HIDDEN]
    which = torch.cat([few, hidden])[draw.uniform(len(few) + N_HIDDEN).argsort()]
    known = torch.isin(which, few)
    names, labels = drawn.names[which], drawn.labels[which]
    false = (labels + int(draw.integers(1, N_CLASSES, 1))) % N_CLASSES
    alone = drawn.held_out[-N_ALONE:]
    alone = alone[:, : int((alone != PADDING).sum(1).max())]
    queries = [drawn.held_out, alone, F.pad(alone, (0, MORE_PADDING)), names[~known]]
    truth = {
        "labels": drawn.held_out_labels,
        "false": false[~known],
        "n_steps": N_STEPS,
        "n_tokens": drawn.n_tokens,
        "rows": torch.cat([drawn.passages, _widened(names, drawn.passages.shape[1])]),
        "naive Bayes": _naive_bayes(names[known], labels[known], drawn),
        "frequencies": _entropy_of_frequencies(drawn),
    }
    given = torch.where(known, labels, false)
    probed = [alone, alone[:, :FIRST]]
    return ((drawn.passages, names, given, known, drawn.n_tokens, N_CLASSES, N_STEPS), queries, (), probed), truth


def _widened(rows: Tensor, T: int) -> Tensor:
    return F.pad(rows[:, :T], (0, max(T - rows.shape[1], 0)))


def _naive_bayes(few: Tensor, labels: Tensor, drawn: _Names) -> float:
    """The accuracy on names held out of naive Bayes on the pieces of the few labelled names."""

    def counts(rows: Tensor) -> Tensor:
        return F.one_hot(rows, drawn.n_tokens).sum(1)[:, END + 1 :].double()

    rates = F.one_hot(labels, N_CLASSES).double().mT @ counts(few) + 0.1
    guesses = (counts(drawn.held_out) @ (rates / rates.sum(1, keepdim=True)).log().mT).argmax(1)
    return (guesses == drawn.held_out_labels).double().mean().item()


def _entropy_of_frequencies(drawn: _Names) -> float:
    """The loss, in nats, of a model that knows how frequent each piece of the passages is, and nothing else."""
    counts = drawn.passages[drawn.passages > END].bincount()
    return torch.special.entr(counts / counts.sum()).sum().item()


class _Masking(NamedTuple):
    """Of the pieces that the model read: how many there were, the fractions that are [MASK] and another piece; special tokens
    that were changed."""

    n: int
    masked: float
    replaced: float
    n_special: int


def _masking(measured: Measured, truth: Truth) -> _Masking | None:
    """Compare the rows that the model read with the rows they come from; None where no rows of tokens were recorded."""
    read = [x for x in measured.read if x.ndim == 2 and not x.is_floating_point() and x.shape[1] > 1]
    if not read:
        return None
    counts = torch.zeros(4, dtype=torch.long)
    for x in read:
        rows = _widened(x, truth["rows"].shape[1])
        agree = torch.zeros(len(rows), len(truth["rows"]), dtype=torch.int16)
        for mine, theirs in zip(rows.unbind(1), truth["rows"].unbind(1), strict=True):
            agree += mine[:, None] == theirs
        original = truth["rows"][agree.argmax(1)]
        pieces, masked, changed = original > END, rows == truth["n_tokens"] - 1, rows != original
        of_x = (pieces, pieces & masked, pieces & changed & ~masked, ~pieces & changed)
        counts += torch.stack([part.sum() for part in of_x])
    n, masked, replaced, special = counts.tolist()
    return _Masking(n, masked / max(n, 1), replaced / max(n, 1), special)


def _model(measured: Measured, truth: Truth) -> str | None:
    for n, output in zip((len(truth["labels"]), N_ALONE, N_ALONE, N_HIDDEN), measured.outputs, strict=True):
        if fault := trained.fault_of_logits(output, (n, N_CLASSES), f"{n} names"):
            return fault
        if not output.isfinite().all():
            return "Some logits are infinite or NaN."
    return None


def _special(measured: Measured, truth: Truth) -> str | None:
    found = _masking(measured, truth)
    if found is None:
        return "No call with rows of tokens was recorded: the model should be a module that is called with them."
    if found.n_special:
        return f"In its first {len(measured.read)} calls the model read {found.n_special} special tokens that were replaced."
    return None


def _rates(measured: Measured, truth: Truth) -> str | None:
    found = _masking(measured, truth)
    if found is None:
        return "No call with rows of tokens was recorded: the model should be a module that is called with them."
    for share, wanted, slack in ((found.masked, MASKED, 0.01), (found.replaced, RANDOM, 0.004)):
        if abs(share - wanted) > slack + 4.5 * (wanted / max(found.n, 1)) ** 0.5:
            return (
                f"Of {found.n:,} pieces that the model read first, {found.masked:.1%} are [MASK] and {found.replaced:.1%} "
                f"another piece; asked for are {MASKED:.0%} and {RANDOM:.1%}."
            )
    return None


def _chosen(measured: Measured, truth: Truth) -> str | None:
    if counts_visible_tokens(measured, truth):
        return "The loss of the pre-training falls further than that of hidden pieces can in so few updates."
    return None


def _alone(measured: Measured, truth: Truth) -> str | None:
    if reads_the_padding(measured, truth):
        return "When padding is added after a name, its logits change."
    if fault := trained.each_alone("names")(measured, truth):
        return fault
    if gives_one_answer(measured, truth):
        return "The logits are the same whatever the name is."
    return None


def _accuracy(measured: Measured, truth: Truth) -> float:
    return (measured.outputs[0].argmax(1) == truth["labels"]).double().mean().item()


def _attends(measured: Measured, truth: Truth) -> str | None:
    if trained.does_not_attend(measured, truth):
        return "With equal weights in place of attention weights, the logits stay the same."
    if steps_from_piece_to_piece(measured, truth):
        return "The longest chain of its nonlinear operations is longer for longer rows: it carries a state."
    return None


_NAMES = "On new names its accuracy"
_learns = trained.at_least(LEAST, _accuracy, _NAMES, " (twice that of a guess)")
_accurate = trained.at_least(
    lambda truth: truth["naive Bayes"], _accuracy, _NAMES, " (that of naive Bayes on the pieces of the labelled names)"
)


def _score(measured: Measured, truth: Truth) -> str | None:
    """Judge whether the pre-training got anywhere, and whether its model was fine-tuned; an accurate model proves both."""
    fault = _accurate(measured, truth)
    if fault is None:
        return None
    end = round(PRETRAINING * len(measured.losses))
    reached, wanted = measured.losses[max(end - 30, 0) : end].mean().item(), truth["frequencies"] + SLACK
    if not reached <= wanted:
        return f"{fault} Nor does the loss of the pre-training fall to {wanted:.2f}: it ends at {reached:.2f}."
    if measured.late > 0.5:
        return f"{fault} And {measured.late:.0%} of the weights of the model that it returns were not trained from the start."
    return None


_trains = trained.loss_falls(unless=_accurate, until=0.7, when="near the end of the pre-training")


def steps_from_piece_to_piece(measured: Measured, truth: Truth) -> bool:
    """Evidence: a chain of nonlinear operations is longer for longer rows."""
    return trained.carries_a_state(measured, truth, FIRST)


def reads_no_mask(measured: Measured, truth: Truth) -> bool:
    """Evidence: in the first rows that the model reads, no piece is replaced, neither by [MASK] nor by another one."""
    found = _masking(measured, truth)
    return measured.n_updates != 0 and found is not None and found.masked == 0.0 and found.replaced < 0.002


def reads_one_masked_batch(measured: Measured, truth: Truth) -> bool:
    """Evidence: every recorded update reads the same rows with the same masks."""
    return trained.reads_one_batch(measured, truth) and not reads_no_mask(measured, truth)


def _masking_is(wrong: Callable[[_Masking], bool]) -> Evidence:
    """Make evidence from the masking of the first rows that the model reads."""
    return lambda measured, truth: (found := _masking(measured, truth)) is not None and wrong(found)


def counts_visible_tokens(measured: Measured, truth: Truth) -> bool:
    """Evidence: in pre-training the loss falls, not in one step, to values that hidden pieces do not reach.

    A fine-tuning that begins too early lowers it in one step; gradients that are added up lower its first value as well.
    """
    losses = measured.losses[: 3 * len(measured.losses) // 4]
    if len(losses) < 60:
        return False
    guess, of_three, low = math.log(truth["n_tokens"]), losses.unfold(0, 3, 1).mean(1), losses.unfold(0, 20, 1).mean(1).min()
    in_one_step = (of_three[3:] - of_three[:-3]).min() < -0.35 * guess
    return bool(low < 0.38 * guess and low < 0.55 * of_three[0] and not in_one_step)


def reads_the_padding(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits of a name change with the padding after it."""
    return not trained.is_near(measured.outputs[1], measured.outputs[2], tolerance=1e-4)


def gives_one_answer(measured: Measured, truth: Truth) -> bool:
    """Evidence: all names get the same logits."""
    return trained.is_near(measured.outputs[0][:-1], measured.outputs[0][1:], tolerance=1e-5)


def reads_hidden_labels(measured: Measured, truth: Truth) -> bool:
    """Evidence: for names whose labels are false, the model predicts these."""
    return bool((measured.outputs[3].argmax(1) == truth["false"]).double().mean() > 0.4)


def masks_well_and_scores_badly(measured: Measured, truth: Truth) -> bool:
    """Suspicion: the pre-training is sound, and yet the score is not reached."""
    judges = (_trains, _special, _rates, _chosen, _alone)
    return all(judge(measured, truth) is None for judge in judges) and _score(measured, truth) is not None


def _first(x):
    return x[:, 0]


def _of_real(real):
    return real[:, None]


class _Small(nn.Module):
    """One head of attention, and what a wrong submission changes: which keys are allowed, how states are pooled, dropout."""

    def __init__(self, n_tokens, n_classes, allowed=_of_real, pool=_first, dropout=0.0, d=40):
        super().__init__()
        self.embed, self.where = nn.Embedding(n_tokens, d), nn.Embedding(48, d)
        nn.init.normal_(self.embed.weight, std=d**-0.5)
        nn.init.normal_(self.where.weight, std=0.02)
        self.qkv, self.dropout, self.norms = nn.Linear(d, 3 * d), nn.Dropout(dropout), nn.ModuleList(map(nn.LayerNorm, (d, d)))
        self.up, self.classes, self.allowed, self.pool = nn.Linear(d, d), nn.Linear(d, n_classes), allowed, pool

    def forward(self, tokens, at=None):
        x = self.dropout(self.norms[0](self.embed(tokens) + self.where.weight[: tokens.shape[1]]))
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~self.allowed(tokens > 0), -1e9).softmax(-1)
        x = self.norms[1](x + F.gelu(self.up(x + weights @ v)))
        return self.classes(self.pool(x)) if at is None else x[at] @ self.embed.weight.T


def _corrupted(rows, mask, rate=RATE, kept=0.1, replaced=0.1, eligible=lambda rows: rows > END):
    choice, fate = torch.rand(2, *rows.shape)
    chosen = eligible(rows) & (choice < rate)
    pieces = torch.randint_like(rows, END + 1, mask)
    instead = torch.where(fate < kept, rows, torch.where(fate < kept + replaced, pieces, mask))
    return torch.where(chosen, instead, rows), chosen


def submit(
    data,
    part=0.5,
    tuned=60,
    corrupt=_corrupted,
    at=None,
    lr=1e-2,
    lr_of_tuning=2e-3,
    known=None,
    afresh=False,
    other=False,
    left_on=False,
    clears=True,
    one_batch=False,
    model=_Small,
    **change,
):
    """Pre-train for a part of 400 updates, then fine-tune; `at` says where the loss of the former is taken."""
    passages, names, labels, few, *sizes, _ = data

    def batch():
        rows = passages[torch.randint(len(passages), (16,))]
        text, chosen = corrupt(rows, sizes[0] - 1)
        chosen = chosen if at is None else at(rows)
        return text, chosen, rows[chosen]

    def examples():
        return names[few if known is None else known], labels[few if known is None else known]

    make = partial(model, *sizes, **change)
    first = loops.train(make, 400 * part, batch, lr=lr, one_batch=one_batch, other=other, left_on=True, clears=clears)
    second = make() if afresh else first
    return loops.train(
        lambda: second, 0 if other else tuned, examples, lr=min(lr, lr_of_tuning), clears=clears, left_on=left_on
    )


ONE_BATCH = (
    "Every recorded update reads the same rows with the same masks: the batch is drawn once, before the loop. Draw passages "
    "and masks anew in each update."
)
wrong = loops.Submissions(__name__, submit, results="predictions", rates="0.001 to 0.02", also=", in both phases")
_UNSOUND = trained.fails(_accurate)
wrong.loop_mistakes(
    _UNSOUND,
    _UNSOUND,
    {name: text for name, text in loops.LOOP.items() if name != "never_updated"} | {"one_batch_for_all_updates": ONE_BATCH},
    too_large=10.0,
    same=reads_one_masked_batch,
)


@wrong(proof=reads_hidden_labels)
def hidden_labels_read(*data):
    """Your model was fine-tuned on labels it must not use: for names whose label is not known it predicts what `labels` holds
    there, which is false on purpose. Fine-tune on `names[known]` and `labels[known]`."""
    return submit(data, 0.8625, tuned=100, lr_of_tuning=5e-3, known=torch.ones_like(data[3]))


@wrong(proof=trained.both(reads_no_mask, trained.fails(_accurate)))
def without_pretraining(*data):
    """Your model never reads [MASK]: it is trained on the forty labelled names alone, or the passages are read uncorrupted.
    Forty labels are too few. First predict masked pieces of the passages, and only then fine-tune."""
    return submit(data, 0, tuned=data[-1] // 3)


@wrong(proof=_masking_is(lambda found: found.masked == 0.0 and found.replaced >= 0.002))
def another_token_for_mask(*data):
    """Your hidden pieces become another token than [MASK]: what the model reads holds none. [MASK] is the last token of this
    vocabulary, `n_tokens - 1`; it is another number than in the cells above."""
    return submit(data, corrupt=lambda rows, mask: _corrupted(rows, mask - 1))


@wrong(proof=_masking_is(lambda found: found.n_special > 0))
def special_tokens_masked(*data):
    """You also replace [CLS], [SEP] or padding. They hold nothing to predict, and the head needs [CLS]. Choose among the pieces
    only: `chosen = (rows > 2) & (torch.rand(rows.shape) < 0.15)`."""
    return submit(data, corrupt=partial(_corrupted, eligible=lambda rows: rows >= PADDING))


@wrong(proof=_masking_is(lambda found: found.masked > 0.5))
def comparison_turned_round(*data):
    """More than half of the pieces that your model reads are [MASK]: the comparison that chooses tokens is the wrong way round.
    A token is chosen where a random number is *below* 0.15."""
    return submit(data, corrupt=partial(_corrupted, rate=0.85))


@wrong(proof=_masking_is(lambda found: found.masked > 0.0 and found.replaced < 0.002))
def every_chosen_token_masked(*data):
    """Your model reads [MASK] and hardly ever a random piece. Of the chosen tokens 80 % become [MASK], 10 % a random piece, and
    10 % stay as they are, so that the model must also predict at tokens that it sees."""
    return submit(data, corrupt=partial(_corrupted, kept=0, replaced=0))


@wrong(proof=_masking_is(lambda found: 0.16 < found.replaced / max(found.masked + found.replaced, 1e-9) < 0.24))
def no_token_kept(*data):
    """Of the tokens that you change, a fifth becomes a random piece: you split the chosen ones 80/20. Of those that are not
    masked, one half becomes a random piece and the other half stays as it is: 80/10/10."""
    return submit(data, corrupt=partial(_corrupted, kept=0, replaced=0.2))


@wrong(proof=counts_visible_tokens)
def loss_at_every_position(*data):
    """The loss of your pre-training falls lower than that of hidden pieces can: it counts tokens that the model sees. Either
    it is taken at all positions and not only at the chosen ones, or its targets are the corrupted tokens instead of the true
    ones. Take `F.cross_entropy(logits[chosen], rows[chosen])`."""
    return submit(data, 0.8625, at=lambda rows: rows > PADDING)


@wrong(proof=gives_one_answer)
def causal_mask(*data):
    """Your model gives all names the same logits: no piece reaches the head. [CLS] stands first, so a causal mask hides the
    whole name from it. BERT attends to both sides; mask only the padding."""

    def both_real(real):
        return real[:, None] & torch.ones(2 * (real.shape[1],), dtype=torch.bool).tril()

    return submit(data, allowed=both_real)


@wrong(proof=reads_the_padding)
def padding_attended(*data):
    """The logits of a name change with the padding after it: your attention reads padding, or you average over it. Set the
    scores of keys that are padding to minus infinity before the softmax, and read the state at [CLS]."""
    return submit(data, allowed=lambda real: torch.ones_like(real)[:, None], pool=lambda x: x.mean(1))


class _BagOfPieces(_Small):
    """The mean of all pieces in place of attention."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.qkv = None

    def forward(self, tokens, at=None):
        x, real = self.norms[0](self.embed(tokens) + self.where.weight[: tokens.shape[1]]), (tokens > PADDING)[..., None]
        mean = x.masked_fill(~real, 0.0).sum(1, keepdim=True) / real.sum(1, keepdim=True)
        x = self.norms[1](x + F.gelu(self.up(x + mean)))
        return self.classes(self.pool(x)) if at is None else x[at] @ self.embed.weight.T


@wrong.idea(proof=trained.has_no_attention)
def no_attention(*data):
    """Your encoder has no attention: no values are multiplied by weights of a softmax over keys that depend on the row. A bag
    of pieces knows what occurs, and not what stands beside it; BERT's blocks let each piece attend to all others."""
    return submit(data, model=_BagOfPieces)


class _LSTMBelowAttention(_Small):
    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.below = nn.LSTM(40, 40, batch_first=True)

    def forward(self, tokens, at=None):
        x = self.embed(tokens)
        x = self.norms[0](x + self.below(x)[0])
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~self.allowed(tokens > 0), -1e9).softmax(-1)
        x = self.norms[1](x + F.gelu(self.up(x + weights @ v)))
        return self.classes(self.pool(x)) if at is None else x[at] @ self.embed.weight.T


@wrong.idea(proof=steps_from_piece_to_piece)
def lstm_below_attention(*data):
    """Your encoder carries a state from position to position: the more it reads, the longer the chain of nonlinear operations
    to its result, as in an LSTM or a GRU. BERT reads all positions at once: nothing but attention mixes them."""
    return submit(data, model=_LSTMBelowAttention)


@wrong(suspicion=masks_well_and_scores_badly)
def another_model_fine_tuned(*data):
    """No mistake was found in your masking, and yet little was gained by the pre-training. Is it not the pre-trained model that
    you fine-tune and return, but a new one? 60 updates of all its weights with a rate near 0.002 are enough. Or is the rate of
    the pre-training too small for so few updates? Adam at 0.002 to 0.01, warmed up and then lowered, is enough."""
    return submit(data, 0.8625, afresh=True)


@right
def with_torchs_encoder(passages, names, labels, known, n_tokens, n_classes, n_steps):
    """torch's TransformerEncoder with a padding mask and little dropout, the mean of the real states for [CLS], one optimizer
    with OneCycleLR and another one; targets of -100 where a token is not chosen."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.position = nn.Embedding(n_tokens, 48), nn.Parameter(torch.randn(48, 48) * 0.02)
            nn.init.normal_(self.embed.weight, std=0.15)
            layer = nn.TransformerEncoderLayer(48, 2, 96, dropout=0.02, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
            self.words, self.classes, self.in_words = nn.Linear(48, n_tokens), nn.Linear(48, n_classes), True

        def forward(self, tokens):
            padding = tokens == 0
            states = self.encoder(self.embed(tokens) + self.position[: tokens.shape[1]], src_key_padding_mask=padding)
            if self.in_words:
                return self.words(states)
            real = (~padding)[..., None]
            return self.classes((states * real).sum(1) / real.sum(1))

    model, criterion = Model(), nn.CrossEntropyLoss()
    n_tuning = 50
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.2e-2, total_steps=n_steps - n_tuning)
    for _ in range(n_steps - n_tuning):
        rows = passages[torch.randperm(len(passages))[:24]]
        kind = torch.multinomial(torch.tensor([0.85, 0.12, 0.015, 0.015]), rows.numel(), replacement=True).view_as(rows)
        kind[rows <= 2] = 0
        text = rows.clone()
        text[kind == 1] = n_tokens - 1
        text[kind == 2] = torch.randint(3, n_tokens - 1, (int((kind == 2).sum()),))
        optimizer.zero_grad()
        criterion(model(text).transpose(1, 2), rows.masked_fill(kind == 0, -100)).backward()
        optimizer.step()
        schedule.step()
    model.in_words = False
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(n_tuning):
        optimizer.zero_grad()
        criterion(model(names[known]), labels[known]).backward()
        optimizer.step()
    return model.eval()


@right
def encoder_and_heads_apart(passages, names, labels, known, n_tokens, n_classes, n_steps):
    """An encoder and two heads as modules of their own, as many tokens a row as BERT's code chooses, NAdam in epochs, gradients
    of two half batches added up, clipping; the head of the words is discarded."""
    d = 40

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.position = nn.Embedding(n_tokens, d, padding_idx=0), nn.Embedding(48, d)
            nn.init.normal_(self.embed.weight, std=0.15)
            nn.init.normal_(self.position.weight, std=0.02)
            self.attention, self.norms = nn.MultiheadAttention(d, 4, batch_first=True), nn.ModuleList([nn.LayerNorm(d)] * 1)
            self.wide, self.back, self.last = nn.Linear(d, 3 * d), nn.Linear(3 * d, d), nn.LayerNorm(d)

        def forward(self, tokens):
            x = self.norms[0](self.embed(tokens) + self.position(torch.arange(tokens.shape[1])))
            x = x + self.attention(x, x, x, key_padding_mask=tokens == 0, need_weights=False)[0]
            return self.last(x + self.back(F.silu(self.wide(x))))

    encoder, words, classes = Encoder(), nn.Linear(d, n_tokens), nn.Linear(d, n_classes)
    n_tuning, step = n_steps // 6, 0
    optimizer = torch.optim.NAdam([{"params": encoder.parameters()}, {"params": words.parameters()}], lr=1e-2)
    while step < n_steps - n_tuning:
        for batch in passages[torch.randperm(len(passages))].split(28):
            optimizer.zero_grad()
            for rows in batch.split(14):
                order = torch.rand(rows.shape).masked_fill(rows <= 2, 2.0).argsort(1).argsort(1)
                chosen = order < (0.15 * (rows > 2).sum(1, keepdim=True)).round()
                fate = torch.rand(rows.shape)
                text = torch.where(chosen & (fate > 0.2), n_tokens - 1, rows)
                text = torch.where(chosen & (fate < 0.1), torch.randint_like(rows, 3, n_tokens - 1), text)
                (F.cross_entropy(words(encoder(text))[chosen], rows[chosen]) / 2).backward()
            nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step == n_steps - n_tuning:
                break

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.classes = encoder, classes

        def forward(self, tokens):
            return self.classes(self.encoder(tokens)[:, 0])

    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    few = known.nonzero().flatten()
    for _ in range(n_tuning):
        some = few[torch.randint(len(few), (16,))]
        optimizer.zero_grad()
        nn.CrossEntropyLoss()(model(names[some]), labels[some]).backward()
        optimizer.step()
    return model.train(False)


_TRAINED = ("training",)

exercise = Exercise(
    id="08.8",
    title="BERT: masking, pre-training and fine-tuning",
    extra=True,
    curve="training loss: masked tokens, and at the end labels",
    reference=train_bert,
    properties=(
        *trained.sound_training(
            SECONDS,
            MOST_PARAMETERS,
            ("The model maps tokens (B, T) to logits of the classes (B, n_classes).", _model),
            _trains,
        ),
        trained.holds("special", "[CLS], [SEP] and padding are never replaced.", _special, 1, _TRAINED),
        trained.holds("rates", "Of the pieces, 12 % are read as [MASK] and 1.5 % as another piece.", _rates, 1, _TRAINED),
        trained.holds("chosen", "The loss counts the chosen tokens only.", _chosen, 1, ("rates",)),
        trained.shown("alone", "The logits of a name depend on its pieces, and on neither padding nor the batch.", _alone),
        trained.shown("attention", "The logits depend on attention weights, which sum to 1 over the keys.", _attends),
        trained.shown("learns", "On new names the accuracy is twice that of a guess.", _learns),
        trained.holds(
            "score",
            "The pre-training reaches the loss of the frequencies, and its model is fine-tuned; or naive Bayes is reached.",
            _score,
            1,
            needs=("learns",),
        ),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={BERT: "write the encoder yourself.", PretrainingBERT: "write the encoder and its heads yourself."},
    training=Training(_questions, SECONDS),
)
