"""Build task 06.7, train_adder: an adaptive Universal Transformer and its training loop; what students hand in.

The model learns sums of six digits and is judged by others, and by sums of twelve digits. It returns what it does at each step,
the logits and the weight of the step, so that halting is judged by measurements. It is also asked for its loss on sums whose
carries travel far and on others: what the loss has to be follows from the logits and the weights.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import OneCycleLR

from course_lib.attention import MultiHead
from course_lib.blocks import Block, FeedForward, SelfAttention
from course_lib.datasets import sums
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import AdaptiveSteps, Universal, step_encoding
from course_lib.primitives import adaptive_step, halting_distribution, ponder_cost
from course_tools.bank import training_loops as loops
from course_tools.bank.lecture_06.adaptive_step import lets_everyone_think_on
from course_tools.bank.lecture_06.halting_distribution import breaks_a_stick
from course_tools.bank.lecture_06.halting_distribution import forgets_the_remainder as forgets_the_remainder_of_h
from course_tools.bank.lecture_06.ponder_cost import counts_the_steps_only
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Evidence, Exercise, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS, N_UPDATES = 60.0, 15_000, 6, 300
T, N_DIGITS, N_LEARN, N_UNSEEN, N_FEW = 13, 6, 4_000, 300, 16
CUT = 6
"""Column in the middle, whose logits are compared when those above or below it are replaced."""
SCORE, LONGER, DIFFERENT = 0.8, 0.5, 0.5
LEAST_PRICE, MOST_PRICE = 1e-3, 0.3
SAME, EXACT = 1e-3, 5e-6

HINTS = (
    (
        "Build it in this order, and print shapes: one block with the local mask `ones.tril().triu(-1)`; a loop over the steps "
        "that adds `step_encoding`, applies the block, and calls your `adaptive_step`; the list of states, stacked to "
        "(B, T, n, d_model). A readout of all of them at once gives (B, T, n, 2)."
    ),
    (
        "The weights are `halting_distribution(h)`, (B, T, n). The answer is `(weights[..., None] * logits).sum(2)`, and the "
        "loss is `F.cross_entropy(answer.mT, digits) + price * ponder_cost(h).mean()`. A bias of -1 in the halting unit lets a "
        "position begin with about four steps; a price of 0.03 is enough, and it may be 0 in the first two thirds."
    ),
    (
        "The loop: draw 32 rows; `loss = model(columns[rows], digits[rows])`; `optimizer.zero_grad()`; `loss.backward()`; "
        "`optimizer.step()`. Adam with a learning rate of 0.005 that is warmed up and decays, as in `OneCycleLR`, and 32 "
        "features. Without the ponder cost, the loss should fall below 0.05. Return `model.eval()`."
    ),
)


def train_adder(columns: Tensor, digits: Tensor, n_steps: int, n_updates: int) -> nn.Module:
    """Build an adaptive Universal Transformer, train it to add binary numbers, and return it.

    Called with columns (B, T), the model returns (B, T, n, 3) with n ≤ n_steps: for each position and each step two logits,
    those of the digits 0 and 1, read from the state after this step, and the weight of the step. Its answer is the weighted
    sum of the logits over the steps. The weights of a position sum to 1. After it has halted they are 0, and its logits stay
    the same, because its state does.

    Called with columns and digits, it returns the loss of this answer, one number: the mean cross-entropy, plus a price times
    the mean ponder cost N + R. The price is a number of your choice from 0.001 to 0.3.

    Args:
        columns: sums to learn from, (S, T): 2a + b for the digits a and b of each column, the lowest first.
        digits: the digits of the sums, (S, T), 0 or 1.
        n_steps: steps that a position may take.
        n_updates: updates that the training may make.

    Returns:
        the trained model, ready to use: asked twice, it returns the same.
    """
    d_model = 32

    class Adder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(4, d_model)
            attention = SelfAttention(MultiHead(d_model, 4, fused_scaled_dot_product_attention))
            self.block = Block(attention, FeedForward(d_model, 2 * d_model), d_model)
            self.halt, self.readout = nn.Linear(d_model, 1), nn.Linear(d_model, 2)
            nn.init.zeros_(self.halt.weight)
            nn.init.constant_(self.halt.bias, -1.0)
            self.price = 0.03

        def forward(self, columns, digits=None):
            B, T = columns.shape
            mask = torch.ones(T, T, dtype=torch.bool).tril().triu(-1)
            halt = self.halt.weight[0], self.halt.bias[0]
            x, h, states = self.embed(columns), torch.zeros(B, T, 0), []
            for step in range(1, n_steps + 1):
                y = self.block(x + step_encoding(T, d_model, step), mask)
                x, h = adaptive_step(x, y, halt, h)
                states.append(x)
            logits, weights = self.readout(torch.stack(states, dim=2)), halting_distribution(h)[..., None]
            if digits is None:
                return torch.cat([logits, weights], dim=-1)
            answer = (weights * logits).sum(2)
            return F.cross_entropy(answer.mT, digits) + self.price * ponder_cost(h).mean()

    model = Adder()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=n_updates + 1)
    for update in range(n_updates):
        model.price = 0.0 if update < 2 * n_updates // 3 else 0.03
        rows = torch.randint(len(columns), (32,))
        loss = model(columns[rows], digits[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def _questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw short sums to learn from, and others, short and long.

    The queries are: short columns (300, 13) · long ones (300, 13) · short ones, long ones whose carries stop soon, and long
    ones whose carries travel far, 16 of each · others, the same with other columns above column 6, with others below it, and
    in reverse order, 16 of each · for the loss: the short ones of the third query with their digits, with the wrong digits, the
    long ones whose carries stop soon, those whose carries travel far.
    """
    seeds = draw.integers(0, 2**31, 2).tolist()
    short = sums(N_LEARN, N_FEW, N_UNSEEN, n_digits=N_DIGITS, T=T, seed=seeds[0])
    long = sums(10 * N_FEW, 1, N_UNSEEN, n_digits=T - 1, T=T, seed=seeds[1])
    order = long.train.walks.sum(1).argsort()
    soon, far = ((long.train.columns[rows], long.train.digits[rows]) for rows in (order[:N_FEW], order[-N_FEW:]))
    some = short.valid.columns, short.valid.digits
    one = draw.integers(0, 4, N_FEW, T)
    other = (one + draw.integers(1, 4, N_FEW, T)) % 4
    above, below = (torch.where(elsewhere, other, one) for elsewhere in (torch.arange(T) > CUT, torch.arange(T) < CUT))
    groups = [some, soon, far]
    queries = [
        short.test.columns,
        long.test.columns,
        torch.cat([columns for columns, _ in groups]),
        torch.cat([one, above, below, one.flip(1)]),
        some,
        (some[0], 1 - some[1]),
        soon,
        far,
    ]
    truth = {
        "labels": short.test.digits,
        "labels of long sums": long.test.digits,
        "group digits": [digits for _, digits in groups],
        "queries": queries[:4],
        "n_steps": N_UPDATES,
    }
    return ((short.train.columns, short.train.digits, N_STEPS, N_UPDATES), queries), truth


def answer(output: Tensor) -> Tensor:
    """The logits of the answers (B, T, 2): those of all steps, (B, T, n, 3) with their weights, mixed."""
    return (output[..., :2] * output[..., 2:]).sum(2)


def taken(output: Tensor) -> Tensor:
    """The number of steps that each position takes, N (B, T): the last one with a weight."""
    return ((output[..., 2] > 0) * torch.arange(1, output.shape[2] + 1)).amax(-1).clamp(min=1)


def _at_the_last(output: Tensor) -> Tensor:
    """What the last step that a position takes gave it: logits and weight, (B, T, 3)."""
    return output.gather(2, (taken(output) - 1)[..., None, None].expand(-1, -1, 1, 3)).squeeze(2)


def _model(measured: Measured, truth: Truth) -> str | None:
    for query, output in zip(truth["queries"], measured.outputs, strict=False):
        shape = tuple(output.shape)
        if len(shape) != 4 or shape[:2] != tuple(query.shape) or not 1 <= shape[2] <= N_STEPS or shape[3] != 3:
            return (
                f"For columns {tuple(query.shape)} it should return {tuple(query.shape)} + (n, 3), n ≤ {N_STEPS}, not {shape}."
            )
        if not output.is_floating_point() or not output.isfinite().all():
            return "Logits and weights should be finite floating-point numbers."
    for loss in measured.outputs[4:]:
        if loss.numel() != 1:
            return f"Called with columns and digits, it should return one number, not shape {tuple(loss.shape)}."
        if not loss.isfinite().all():
            return f"Its loss on unseen sums is {loss.item()}."
    return None


def _exact_match(measured: Measured, query: int, digits: Tensor) -> float:
    """The fraction of sums that are right in every digit."""
    return (answer(measured.outputs[query]).argmax(-1) == digits).all(1).float().mean().item()


_learns, _score = (
    trained.at_least(
        least,
        lambda measured, truth: _exact_match(measured, 0, truth["labels"]),
        "On unseen sums of six digits the exact match",
    )
    for least in (0.2, SCORE)
)
_generalises = trained.at_least(
    LONGER,
    lambda measured, truth: _exact_match(measured, 1, truth["labels of long sums"]),
    "On sums of twelve digits the exact match",
)


def _weights(measured: Measured, truth: Truth) -> str | None:
    for output in measured.outputs[:4]:
        weights = output[..., 2]
        if weights.min() < -EXACT:
            return f"Some weights are negative, down to {weights.min():.3f}."
        total = weights.sum(-1)
        if (total - 1).abs().max() > SAME:
            return f"The weights of a position sum to between {total.min():.3f} and {total.max():.3f}; they should sum to 1."
    return None


def _halts(measured: Measured, truth: Truth) -> str | None:
    if never_halts(measured, truth):
        return "No position halts before the last step: each has a weight above 0 at every step."
    if updates_the_halted(measured, truth):
        return "After a position has halted, its logits still change from step to step."
    return None


def _after_the_halt(output: Tensor) -> Tensor:
    """How far the logits of each step are from those at which the position halted, (B, T, n); 0 up to there."""
    distance = (output[..., :2] - _at_the_last(output)[..., None, :2]).abs().amax(-1)
    return distance * (torch.arange(1, output.shape[2] + 1) > taken(output)[..., None])


def _learned(measured: Measured, truth: Truth) -> str | None:
    if halting_has_no_gradient(measured, truth):
        return f"{measured.without_gradient:.1%} of the weights in the optimizer never had a gradient."
    if (found := _with_different_steps(measured)) < DIFFERENT:
        return f"In {found:.0%} of the sums of twelve digits columns take different numbers of steps; in most they should."
    return None


def _with_different_steps(measured: Measured) -> float:
    """The fraction of long sums in which columns take different numbers of steps."""
    steps = taken(measured.outputs[1])
    return (steps != steps[:, :1]).any(1).float().mean().item()


Loss = Callable[[Tensor, Tensor], Tensor]
"""The cross-entropy of outputs (B, T, n, 3) and digits (B, T)."""
Cost = Callable[[Tensor, Tensor], Tensor]
"""The cost of the steps, from N (B, T) and R (B, T)."""


def _of_the_answer(output: Tensor, digits: Tensor) -> Tensor:
    return F.cross_entropy(answer(output).mT, digits)


def _of_the_last_step(output: Tensor, digits: Tensor) -> Tensor:
    return F.cross_entropy(_at_the_last(output)[..., :2].mT, digits)


def _of_each_step(output: Tensor, digits: Tensor) -> Tensor:
    losses = F.cross_entropy(
        output[..., :2].movedim(-1, 1), digits[..., None].expand(-1, -1, output.shape[2]), reduction="none"
    )
    return (losses * output[..., 2]).sum(-1).mean()


def _of_probabilities(output: Tensor, digits: Tensor) -> Tensor:
    mixed = (output[..., :2].softmax(-1) * output[..., 2:]).sum(2)
    return F.nll_loss(mixed.log().mT, digits)


def _of_softmax(output: Tensor, digits: Tensor) -> Tensor:
    return F.cross_entropy(answer(output).softmax(-1).mT, digits)


def _of_reshaped(output: Tensor, digits: Tensor) -> Tensor:
    mixed = answer(output)
    return F.cross_entropy(mixed.reshape(len(mixed), 2, -1), digits)


def _changes(measured: Measured, truth: Truth, loss: Loss = _of_the_answer) -> tuple[float, float]:
    """By how much the loss changes where all digits are replaced by the wrong ones, and by how much this cross-entropy does."""
    output, digits = measured.outputs[2][:N_FEW].double(), truth["group digits"][0]
    change = measured.outputs[5].double() - measured.outputs[4].double()
    return change.item(), (loss(output, 1 - digits) - loss(output, digits)).item()


def _changes_rightly(measured: Measured, truth: Truth, loss: Loss = _of_the_answer) -> bool:
    found, wanted = _changes(measured, truth, loss)
    return abs(found - wanted) < SAME * max(abs(wanted), 1.0)


def _excess(measured: Measured, truth: Truth, loss: Loss = _of_the_answer) -> Tensor:
    """What the loss is above this cross-entropy, for each of the three groups of sums, (3,)."""
    outputs = measured.outputs[2].double().split(N_FEW)
    losses = torch.stack([measured.outputs[query].double().reshape(()) for query in (4, 6, 7)])
    return losses - torch.stack(list(map(loss, outputs, truth["group digits"])))


def _ponder_cost(N: Tensor, R: Tensor) -> Tensor:
    return N + R


def _steps_alone(N: Tensor, R: Tensor) -> Tensor:
    return N.double()


def _remainder_alone(N: Tensor, R: Tensor) -> Tensor:
    return R


def _one_step_less(N: Tensor, R: Tensor) -> Tensor:
    return N - 1 + R


def _costs(measured: Measured, cost: Cost = _ponder_cost) -> Tensor:
    """The mean cost of each group of sums, (3,)."""
    outputs = measured.outputs[2].double().split(N_FEW)
    return torch.stack([cost(taken(output), _at_the_last(output)[..., 2]).mean() for output in outputs])


def _price(measured: Measured, truth: Truth, loss: Loss = _of_the_answer, cost: Cost = _ponder_cost) -> float | None:
    """The price with which this cross-entropy and this cost explain the losses; None where no price does."""
    excess, costs = _excess(measured, truth, loss), _costs(measured, cost)
    price = excess @ costs / (costs @ costs)
    explains = (excess - price * costs).abs() <= EXACT + SAME * (price * costs).abs()
    return price.item() if _changes_rightly(measured, truth, loss) and bool(explains.all()) else None


def _ponder(measured: Measured, truth: Truth) -> str | None:
    if not _changes_rightly(measured, truth):
        found, wanted = _changes(measured, truth)
        return (
            f"With wrong digits the loss changes by {found:.3f}, and the cross-entropy of the answer, the weighted sum of the "
            f"logits that the model returns, by {wanted:.3f}."
        )
    if has_no_ponder_cost(measured, truth):
        return "The loss of the returned model is the cross-entropy of the answer alone."
    price = _price(measured, truth)
    if price is None:
        above, costs = (_listed(values) for values in (_excess(measured, truth), _costs(measured)))
        return (
            f"On three groups of sums the loss is {above} above the cross-entropy of the answer, and the mean of N + R is "
            f"{costs}: these are not proportional."
        )
    if not LEAST_PRICE <= price <= MOST_PRICE:
        return f"The loss is that of a price of {price:.4f} for each step; between {LEAST_PRICE} and {MOST_PRICE} is required."
    return None


def _listed(values: Tensor) -> str:
    return ", ".join(f"{value:.3f}" for value in values.tolist())


def forgets_the_remainder(measured: Measured, truth: Truth) -> bool:
    """Evidence: the weights of some positions do not sum to 1, and none is negative."""
    return _weights(measured, truth) is not None and all(bool((output[..., 2] >= 0).all()) for output in measured.outputs[:4])


def weighs_after_the_sum(measured: Measured, truth: Truth) -> bool:
    """Evidence: no weight is negative, and steps have weights although those before them sum to more than 1."""
    weights = [output[..., 2] for output in measured.outputs[:4]]
    full = [(p.cumsum(-1)[..., :-1] > 1 + SAME) & (p[..., 1:] > SAME) for p in weights]
    return any(bool(found.any()) for found in full) and all(bool((p >= 0).all()) for p in weights)


def never_halts(measured: Measured, truth: Truth) -> bool:
    """Evidence: every position has a weight at the last of the steps allowed."""
    return all(bool((taken(output) == N_STEPS).all()) for output in measured.outputs[:4])


def updates_the_halted(measured: Measured, truth: Truth) -> bool:
    """Evidence: after its last step with a weight, the logits of a position change."""
    return any(bool(_after_the_halt(output).max() > SAME * output.abs().max()) for output in measured.outputs[:4])


def halts_sums_as_a_whole(measured: Measured, truth: Truth) -> bool:
    """Evidence: the columns of each sum take as many steps, or have the same weights, and those of other sums do not."""
    steps = torch.cat([taken(output) for output in measured.outputs[:4]])
    weights = torch.cat([F.pad(output[..., 2], (0, N_STEPS - output.shape[2])) for output in measured.outputs[:4]])
    return any(
        bool(((values - values[:, :1]).abs() <= EXACT).all()) and bool(((values - values[:1]).abs() > SAME).any())
        for values in (steps, weights)
    )


def has_no_ponder_cost(measured: Measured, truth: Truth) -> bool:
    """Evidence: the loss is the cross-entropy of the answer."""
    return _changes_rightly(measured, truth) and bool((_excess(measured, truth).abs() < EXACT).all())


def rewards_steps(measured: Measured, truth: Truth) -> bool:
    """Evidence: a negative price of N + R explains the losses."""
    price = _price(measured, truth)
    return price is not None and price < 0 and not has_no_ponder_cost(measured, truth)


def has_cost(cost: Cost) -> Evidence:
    """Make evidence that a positive price of this cost explains the losses, and none of N + R does."""

    def shows(measured: Measured, truth: Truth) -> bool:
        price = _price(measured, truth, cost=cost)
        return price is not None and price > 0 and _price(measured, truth) is None

    return shows


def pays_too_much(measured: Measured, truth: Truth) -> bool:
    """Evidence: the loss holds the ponder cost at a price above what is allowed."""
    price = _price(measured, truth)
    return price is not None and price > MOST_PRICE


def has_cross_entropy(loss: Loss) -> Evidence:
    """Make evidence that this cross-entropy explains the losses, and that of the answer does not."""
    return lambda measured, truth: _price(measured, truth) is None and _price(measured, truth, loss) is not None


def _in_the_middle(outputs: Tensor) -> list[Tensor]:
    """What belongs to column 6: of sums, of these with other columns above it, and with others below it."""
    return [part[:, CUT] for part in outputs.chunk(4)[:3]]


def reads_above(measured: Measured, truth: Truth) -> bool:
    """Evidence: already after the first step the logits of a column change with those above it, on which no sum depends."""
    plain, above, _ = _in_the_middle(measured.outputs[3][:, :, 0, :2])
    return not trained.is_near(plain, above)


def ignores_below(measured: Measured, truth: Truth) -> bool:
    """Evidence: no answer changes with the columns below it."""
    plain, _, below = _in_the_middle(answer(measured.outputs[3]))
    return trained.is_near(plain, below, tolerance=1e-6)


def ignores_all_others(measured: Measured, truth: Truth) -> bool:
    """Evidence: answers differ, and none changes with other columns."""
    plain, above, _ = _in_the_middle(answer(measured.outputs[3]))
    return (
        ignores_below(measured, truth)
        and trained.is_near(plain, above, tolerance=1e-6)
        and not trained.is_near(plain, plain.roll(1, 0))
    )


def ignores_the_order(measured: Measured, truth: Truth) -> bool:
    """Evidence: answers differ, and for columns in reverse order they are the same, in reverse order."""
    plain, *_, reverse = answer(measured.outputs[3]).chunk(4)
    return trained.is_near(plain, reverse.flip(1), tolerance=1e-5) and not trained.is_near(plain, plain.roll(1, 0))


def reads_few_sums(measured: Measured, truth: Truth) -> bool:
    """Evidence: of many rows that the model reads first while it trains, most are repetitions of a few hundred."""
    rows = [row.numpy().tobytes() for batch in measured.read if batch.ndim == 2 for row in batch]
    return len(set(rows)) < min(len(rows) // 2, N_LEARN // 4)


def halting_has_no_gradient(measured: Measured, truth: Truth) -> bool:
    """Evidence: a few weights in the optimizer, as many as a halting unit has, never had a gradient."""
    return measured.n_updates > 2 and 0 < measured.without_gradient * measured.n_parameters <= 100


def begins_again(measured: Measured, truth: Truth) -> bool:
    """Evidence: on unseen sums the loss of the returned model is about that with which the training began, or larger."""
    first = measured.losses[: max(len(measured.losses) // 10, 1)].mean().item()
    return measured.outputs[4].item() > 0.8 * first


_LOCAL = torch.ones(T, T, dtype=torch.bool).tril().triu(-1)
"""Each column attends to itself and to the one below it."""


class SmallAdder(nn.Module):
    """One block of 24 features, and what a wrong submission changes.

    `attends` is the mask, `encoding` that of the steps, `step`, `weights` and `cost` are those of adaptive computation,
    `loss` is the cross-entropy, and `bias` that of the halting unit at first.
    """

    def __init__(
        self,
        attends=_LOCAL,
        encoding=step_encoding,
        step=adaptive_step,
        weights=halting_distribution,
        cost=ponder_cost,
        loss=_of_the_answer,
        price=0.03,
        dropout=0.0,
        n_blocks=1,
        bias=-1.0,
    ):
        super().__init__()
        d = 24
        self.attends, self.encoding, self.step, self.weights = attends, encoding, step, weights
        self.cost, self.loss, self.price = cost, loss, price
        self.embed, self.dropout = nn.Embedding(4, d), nn.Dropout(dropout)
        heads = (MultiHead(d, 4, fused_scaled_dot_product_attention) for _ in range(n_blocks))
        self.blocks = nn.ModuleList(Block(SelfAttention(each), FeedForward(d, 2 * d), d) for each in heads)
        self.halt, self.readout = nn.Linear(d, 1), nn.Linear(d, 2)
        nn.init.constant_(self.halt.bias, bias)

    def forward(self, columns, digits=None):
        halt = self.halt.weight[0], self.halt.bias[0]
        x, h, states = self.dropout(self.embed(columns)), torch.zeros(*columns.shape, 0), []
        for step in range(N_STEPS):
            block = self.blocks[step % len(self.blocks)]
            x, h = self.step(x, block(x + self.encoding(*x.shape[1:], step + 1), self.attends), halt, h)
            states.append(x)
        output = torch.cat([self.readout(torch.stack(states, dim=2)), self.weights(h)[..., None]], dim=-1)
        return output if digits is None else self.loss(output, digits) + self.price * self.cost(h).mean()


def submit(data, part=1.0, first=None, loss=_of_the_answer, lr=5e-3, **change):
    columns, digits, _, n_updates = data
    n, batch = int(part * n_updates), partial(loops.drawn_examples, (columns[:first], digits[:first]))
    schedule = partial(OneCycleLR, max_lr=lr, total_steps=n + 1) if lr < 1 else None
    return loops.train(partial(SmallAdder, loss=loss), n, batch, loss=None, lr=lr, schedule=schedule, **change)


DROPOUT = (
    "Asked twice about the same columns, the returned model gives different results: it is still in training mode, and its "
    "dropout draws new zeros at each call. Return `model.eval()`."
)
wrong = loops.Submissions(__name__, submit, rates="0.001 to 0.01", learned="these few sums", new="new rows")
wrong.loop_mistakes(
    trained.fails(_score),
    trained.both(begins_again, trained.fails(_score)),
    loops.LOOP | {"dropout_left_on": DROPOUT},
    part=1 / 3,
    short=1 / 6,
)


@wrong(proof=trained.both(reads_few_sums, trained.fails(_score)))
def a_few_sums(*data):
    """Your model learns a small part of the sums by heart: most rows of its first batches are repetitions. Draw each batch from
    all sums, `torch.randint(len(columns), (32,))`."""
    return submit(data, first=20)


@wrong(proof=weighs_after_the_sum)
def probabilities_of_halting_returned(*data):
    """Steps have a weight although the weights before them already sum to more than 1, as the probabilities of halting h do.
    Return the weights p, in which the last step taken has the remainder and later ones have 0: `halting_distribution(h)`."""
    return submit(data, 1 / 3, weights=lambda h: h)


@wrong(proof=forgets_the_remainder)
def remainder_forgotten(*data):
    """The weights of some positions do not sum to 1, so the answer is no average of the steps. The last step that a position
    takes gets the remainder, 1 minus the sum of the h before it, and not its own h; so does the last of all steps allowed, if
    the position has not halted before."""
    return submit(data, 1 / 3, weights=forgets_the_remainder_of_h)


@wrong(proof=has_cross_entropy(_of_each_step))
def mean_of_the_losses(*data):
    """Your loss is the weighted mean of the cross-entropies of the steps. In adaptive computation time the steps are mixed
    first, and the loss is that of the mixture: the answer is the weighted sum of the logits."""
    return submit(data, loss=_of_each_step)


@wrong(proof=has_cross_entropy(_of_the_last_step))
def loss_of_the_last_step(*data):
    """Your loss compares the digits with the last step of each position alone. Then the weights get no gradient from the
    digits, and the ponder cost alone trains the halting unit. The answer is the weighted sum of the logits of all steps."""
    return submit(data, 1 / 3, loss=_of_the_last_step, price=0.001)


@wrong(proof=has_cross_entropy(_of_probabilities))
def probabilities_mixed(*data):
    """Your loss is that of a weighted mean of probabilities: a softmax is applied to each step before the steps are mixed. The
    answer is the weighted sum of the logits, and `F.cross_entropy` applies the one softmax to it."""
    return submit(data, loss=_of_probabilities)


@wrong(proof=has_cross_entropy(_of_softmax))
def softmax_before_the_cross_entropy(*data):
    """A softmax is applied to the answer twice: once in your code, and once in `F.cross_entropy`, which takes logits. Then the
    loss can never fall below 0.31. Leave out the first one."""
    return submit(data, loss=_of_softmax)


@wrong(proof=has_cross_entropy(_of_reshaped))
def axes_reshaped(*data):
    """Your loss compares digits with the logits of other columns: `reshape` or `view` turns (B, T, 2) into (B, 2, T) without
    moving the axes. Use `answer.mT`."""
    return submit(data, 1 / 3, loss=_of_reshaped)


@wrong(proof=has_no_ponder_cost)
def ponder_cost_left_out(*data):
    """The loss that your model returns after the training is the cross-entropy alone. Add a price times the mean ponder cost.
    If you did, it must not depend on `self.training`, and a price that changes must not end at 0."""
    return submit(data, price=0.0)


@wrong(proof=rewards_steps)
def ponder_cost_subtracted(*data):
    """Your loss is the cross-entropy minus a price times the ponder cost: it rewards steps. Add the cost."""
    return submit(data, price=-0.03)


@wrong(proof=has_cost(_steps_alone))
def steps_counted_alone(*data):
    """Your ponder cost is the count N alone. A count has no gradient, so the halting unit learns nothing from it. Add the
    remainder R, whose gradient raises the h before the last step."""
    return submit(data, cost=counts_the_steps_only)


@wrong(proof=has_cost(_remainder_alone))
def remainder_counted_alone(*data):
    """Your ponder cost is the remainder R alone. It jumps up where a position halts one step earlier, so more steps can cost
    less. The ponder cost is N + R: add the number of steps."""
    return submit(data, cost=lambda h: ponder_cost(h) - counts_the_steps_only(h))


@wrong(proof=has_cost(_one_step_less))
def last_step_not_counted(*data):
    """Your ponder cost is 1 too small at every position: the step at which it halts is not counted. N is the number of steps
    taken: those before which the h sum to less than 0.99, and not those after which they do."""
    return submit(data, cost=lambda h: ponder_cost(h) - 1)


@wrong(proof=trained.both(pays_too_much, trained.fails(_score)))
def price_too_high(*data):
    """Your price is above 0.3 for each step, or the ponder cost is summed and not averaged: stopping at once is then cheaper
    than a right digit. Average over all positions, and take a price of about 0.03."""
    return submit(data, price=1.0)


@wrong(
    proof=trained.both(lambda measured, truth: taken(measured.outputs[1]).float().mean().item() < 1.1, trained.fails(_score))
)
def all_halt_after_one_step(*data):
    """Nearly all positions halt after their first step, so your model is a single layer. Begin with more steps, for example
    with a bias of -1 in the halting unit, and with a price of 0 until the sums are right."""
    return submit(data, 1 / 3, bias=6.0)


@wrong(proof=never_halts)
def no_position_halts(*data):
    """No position halts: each has a weight at all steps, as after a softmax over the steps, or with h times the product of the
    1 - h before it. That is a mixture over a fixed number of steps. In adaptive computation time a position halts where its h
    sum to 0.99, and later steps weigh exactly 0. If your code does this, the h stay too small: begin with a larger bias."""
    return submit(data, 1 / 3, step=lets_everyone_think_on, weights=breaks_a_stick)


@wrong(proof=updates_the_halted)
def halted_positions_updated(*data):
    """After a position has halted, its logits still change: its state is updated on, or its logits come from the output of the
    block, or they are set to 0. Keep the state of a halted position, `torch.where(active, y, x)`, as your `adaptive_step` does,
    and compute the logits of every step from the states that are kept."""
    return submit(data, 1 / 3, step=lets_everyone_think_on)


@wrong.change("step", halts_sums_as_a_whole, part=1 / 3)
def whole_sum_halts_together(x, y, halt, h):
    """All columns of a sum halt after the same step, or with the same weights, while sums differ: halting is decided for the
    whole sequence or batch. Compute h (B, T) from the state of each position, and let each halt by the sum of its own h."""
    states, longer = adaptive_step(x, y, halt, h)
    w, b = halt
    together = torch.sigmoid(states.mean(1) @ w + b)
    return states, torch.cat([h, together[:, None, None].expand(-1, x.shape[1], 1)], dim=-1)


@wrong(proof=ignores_all_others)
def columns_attend_to_themselves(*data):
    """No answer changes with any other column: your model adds digits without a carry. Each column must attend to the one
    before it, too: the mask is `ones.tril().triu(-1)`."""
    return submit(data, 1 / 3, attends=torch.eye(T, dtype=torch.bool))


@wrong(proof=trained.both(ignores_below, reads_above))
def carries_from_above(*data):
    """Your columns attend to the wrong side: an answer changes with the columns above it and never with those below. The lowest
    digit stands first, so a carry comes from the column before: the mask is `ones.tril().triu(-1)`."""
    return submit(data, 1 / 3, attends=_LOCAL.mT)


@wrong(proof=ignores_the_order)
def columns_without_an_order(*data):
    """Your model does not know the order of the columns: in reverse order they get the same answers. Attention to all columns
    sees a set. Add the encoding of position and step before each step, and use the local mask."""
    return submit(data, 1 / 3, attends=None, encoding=lambda T, d_model, step: 0.0)


@wrong(proof=trained.both(reads_above, trained.fails(_generalises)))
def columns_attend_everywhere(*data):
    """Your model reads the columns above a digit, on which no sum depends, and it fails on longer sums. With the local mask
    of section 7, a carry moves one column in each step, in sums of any length. In `nn.MultiheadAttention` and torch's layers a
    mask means the opposite: True forbids attention."""
    return submit(data, attends=None)


@wrong(proof=lambda measured, truth: measured.n_parameters > MOST_PARAMETERS)
def weights_of_each_step(*data):
    """Your model has more weights than one block of 32 features needs. A Universal Transformer applies one block again and
    again: create it once in `__init__`, and call the same one at every step. If you do so, take fewer features."""
    return submit(data, 1 / 3, n_blocks=N_STEPS)


@wrong.change("step", suspicion=halting_has_no_gradient)
def halting_unit_cut_off(x, y, halt, h):
    """The halting unit is in the optimizer and never gets a gradient: its h are cut off by `.detach()`, `.data`, `.item()` or
    `torch.tensor`, or N is the only place that uses them. The weights in the answer and the remainder in the ponder cost are
    made of h itself."""
    states, longer = adaptive_step(x, y, halt, h)
    return states, longer.detach()


@right
def with_torchs_layer(columns, digits, n_steps, n_updates):
    """torch's TransformerEncoderLayer with pre-norm, learned encodings, a loop that ends when all have halted, AdamW with
    clipping on shuffled epochs, and a price from the beginning."""

    class Model(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.embed, self.position, self.step = nn.Embedding(4, d), nn.Embedding(T, d), nn.Embedding(n_steps, d)
            for table in (self.embed, self.position, self.step):
                nn.init.normal_(table.weight, std=0.3)
            self.layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
            self.norm, self.halting, self.head = nn.LayerNorm(d), nn.Linear(d, 1), nn.Linear(d, 2)
            nn.init.constant_(self.halting.bias, -1.0)

        def forward(self, columns, digits=None):
            closed = ~torch.ones(2 * [columns.shape[1]], dtype=torch.bool).tril().triu(-1)
            x, total = self.embed(columns), torch.zeros(*columns.shape)
            N, R, steps = torch.zeros_like(total), torch.zeros_like(total), []
            for n in range(n_steps):
                active = total < 0.99
                if not active.any():
                    break
                new = self.layer(x + self.position.weight[: columns.shape[1]] + self.step.weight[n], src_mask=closed)
                x = torch.where(active[..., None], new, x)
                seen = self.norm(x)
                h = self.halting(seen)[..., 0].sigmoid() * active
                last = active & ((total + h >= 0.99) | torch.tensor(n == n_steps - 1))
                steps.append(torch.cat([self.head(seen), torch.where(last, 1 - total, h)[..., None]], dim=-1))
                N, R = N + active, R + torch.where(last, 1 - total, 0.0)
                total = total + h
            output = torch.stack(steps, dim=2)
            if digits is None:
                return output
            answer = torch.einsum("btnc, btn -> bct", output[..., :2], output[..., 2])
            return F.cross_entropy(answer, digits) + 0.01 * (N + R).mean()

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = OneCycleLR(optimizer, 5e-3, total_steps=n_updates + 1)
    for batch in loops.epochs((columns, digits), n_updates, 32):
        optimizer.zero_grad()
        model(*batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


@right
def without_modules(columns, digits, n_steps, n_updates):
    """Weights in a dict, a function, gradients from autograd and Adam by hand; one head that attends to two lower columns, no
    encoding of positions, and the ponder cost summed over them."""
    d = 40
    shapes = {"embed": (4, d), "q": (d, d), "k": (d, d), "v": (d, d), "o": (d, d), "up": (d, 2 * d), "down": (2 * d, d)}
    weights = {name: (torch.randn(shape) * shape[0] ** -0.5).requires_grad_() for name, shape in shapes.items()}
    for name, shape in {"near": (3, d), "step": (n_steps, d), "halt": (d,), "out": (d, 2)}.items():
        weights[name] = (0.1 * torch.randn(shape)).requires_grad_()
    weights["bias"] = torch.tensor(-1.0, requires_grad=True)

    def model(columns, digits=None):
        T = columns.shape[1]
        distance = torch.arange(T)[:, None] - torch.arange(T)
        near, x, states, chances = (distance >= 0) & (distance <= 2), weights["embed"][columns], [], []
        for n in range(n_steps):
            z = x + weights["step"][n]
            keys = z @ weights["k"]
            distances = (z @ weights["q"]) @ weights["near"].mT
            scores = z @ weights["q"] @ keys.mT / d**0.5 + distances.gather(2, distance.clamp(0, 2).expand(len(z), T, T))
            scores = scores.masked_fill(~near, -torch.inf)
            z = F.layer_norm(z + scores.softmax(-1) @ (z @ weights["v"]) @ weights["o"], (d,))
            z = F.layer_norm(z + (z @ weights["up"]).relu() @ weights["down"], (d,))
            spent = sum(chances, torch.zeros(columns.shape))
            x = torch.where((spent < 0.99)[..., None], z, x)
            states.append(x)
            chances.append((x @ weights["halt"] + weights["bias"]).sigmoid())
        p = halting_distribution(torch.stack(chances, dim=-1))
        logits = torch.stack(states, dim=-2) @ weights["out"]
        if digits is None:
            return torch.cat([logits, p[..., None]], dim=-1)
        costs = ponder_cost(torch.stack(chances, dim=-1))
        log_odds = (p[..., None] * logits).sum(-2).log_softmax(-1)
        return -log_odds.gather(-1, digits[..., None]).mean() + price * costs.sum() / len(costs)

    names, price = list(weights), 0.0
    first, second = ({name: torch.zeros_like(weights[name]) for name in names} for _ in range(2))
    for update in range(1, n_updates + 1):
        price = 0.001 if update > n_updates / 2 else 0.0
        rows = torch.randperm(len(columns))[:48]
        loss = model(columns[rows], digits[rows])
        lr = 4e-3 * min(1.0, 4 * update / n_updates, 1.5 * (1.02 - update / n_updates))
        for name, gradient in zip(names, torch.autograd.grad(loss, [weights[name] for name in names]), strict=True):
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.99 * second[name] + 0.01 * gradient**2
            mean, square = first[name] / (1 - 0.9**update), second[name] / (1 - 0.99**update)
            weights[name].data -= lr * mean / (square.sqrt() + 1e-8)
    return model


exercise = Exercise(
    id="06.7",
    title="An adaptive Universal Transformer and its training loop",
    curve="training loss: it jumps where the price of the steps comes in",
    reference=train_adder,
    properties=(
        *trained.sound_training(
            SECONDS,
            MOST_PARAMETERS,
            ("The model maps columns (B, T) to logits and weights of each step, (B, T, n, 3); with digits, to a loss.", _model),
            trained.every(trained.makes_updates, trained.loss_falls(by=0.2, unless=_score)),
        ),
        trained.shown("weights", "The weights of the steps of a position sum to 1, and none is negative.", _weights),
        trained.shown("halting", "Positions halt before the last step, and after that their logits stay the same.", _halts),
        trained.shown(
            "ponder cost",
            "The loss is the mean cross-entropy of the answer, plus a price times the mean of N + R.",
            _ponder,
            2,
            "weights",
        ),
        trained.shown(
            "steps",
            "Halting is learned: it has a gradient, and the columns of a sum take different numbers of steps.",
            _learned,
            1,
            "halting",
        ),
        trained.shown("learns", "On unseen sums of six digits the exact match is 0.2 or more.", _learns, 0),
        trained.shown("score", f"On unseen sums of six digits the exact match is {SCORE} or more.", _score),
        trained.shown("length", f"On sums of twelve digits the exact match is {LONGER} or more.", _generalises),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        Universal: "write the model yourself: embedding, steps, readout.",
        AdaptiveSteps: "write the loop over the steps yourself, with your `adaptive_step`.",
    },
    training=Training(_questions, SECONDS),
    extra=True,
)
