"""Build task 18.6, train_memory: a memory of fixed size that corrects what is rewritten; what students hand in.

A sequence writes values under keys and then asks for the newest ones. Four keys are rewritten twelve times each, sixteen are
written once. A sum confuses the values of a rewritten key; a gate that forgets them forgets what was written once as well.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import chunked_delta_attention, decay_mask, delta_rule_step
from course_tools.bank import stepwise_models as stepwise
from course_tools.bank import training_loops as loops
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Severity, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 20_000, 500
N_KEYS, N_VALUES, N_HOT, N_ONCE, N_ASKED = 32, 16, 4, 16, 8
ASKS = N_VALUES
"""The number in the place of a value where a token asks."""
N_SEQUENCES, N_TESTED, N_ALONE, N_STEPPED, CUT, MOST_NUMBERS = 10_000, 512, 16, 3, 40, 300
LEARNED, WANTED = 0.4, 0.85
"""Accuracies: of any learning, and of rewritten keys and of keys written once. Guessing has 0.06."""
FADED = 0.6
"""By so much more often are keys answered right that are written in the last sixth of the writes than in the first third."""

HINTS = (
    (
        "Take a token apart: `tokens // 17` is its key, `tokens % 17` its value, or 16 where it asks. Embed both. Queries and "
        "keys come from the embedded key alone, so that a question finds what was written; values from the embedded value. β "
        "may depend on both, so that a question can learn to write nothing."
    ),
    (
        "Make q and k of length 1 by `F.normalize`, and β by a sigmoid. The parallel form is `chunked_delta_attention(q, k, v, "
        "beta)` with beta (B, T). `step` computes the same q, k, v and β of one token, and calls `delta_rule_step(S, q, k, v, "
        "beta)`; the state is S alone, (B, 16, 16). In both forms a LayerNorm and a linear layer make logits of the context."
    ),
    (
        "`start` makes zeros (B, 16, 16) and calls `step` for each token of the prompt. Train with Adam and a learning rate of "
        "0.01 on 32 random rows at a time. Only the last 8 positions ask: the loss is `F.cross_entropy(model(tokens[rows])[:, "
        "-8:].flatten(0, 1), answers[rows].flatten())`. Return `model.eval()`."
    ),
)


def train_memory(tokens: Tensor, answers: Tensor, n_steps: int) -> nn.Module:
    """Build a model that remembers in a state of fixed size and corrects what is rewritten, train it, and return it.

    A token is 17 · key + value, which writes one of 16 values under one of 32 keys, or 17 · key + 16, which asks for the newest
    value of the key. A sequence writes 64 times and then asks 8 times.

    The model has two forms, which give the same logits. `model(tokens)` maps tokens (B, T) with T ≤ 72 to logits (B, T, 16) in
    parallel; where a token asks, they are its answer. `state = model.start(tokens)` reads tokens (B, T), T ≥ 0, and `logits,
    state = model.step(token, state)` reads one more (B,) and gives logits (B, 16).

    The state holds at most 300 numbers for each sequence, however many tokens were read, and is neither a table with a place
    for each key nor a list. `step` does not change the state that it is given.

    Args:
        tokens: the sequences to learn from, (N, 72).
        answers: the newest value of each key that a sequence asks for, (N, 8).
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to answer: asked twice, it gives the same logits.
    """
    d_model, d_head, batch_size = 64, 16, 32

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.key, self.value = nn.Embedding(32, d_model), nn.Embedding(17, d_model)
            self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_head, bias=False) for _ in range(3))
            self.beta, self.readout = nn.Linear(d_model, 1), nn.Sequential(nn.LayerNorm(d_head), nn.Linear(d_head, 16))

        def parts(self, tokens):
            key, value = self.key(tokens // 17), self.value(tokens % 17)
            q, k = F.normalize(self.W_q(key), dim=-1), F.normalize(self.W_k(key), dim=-1)
            return q, k, self.W_v(value), self.beta(key + value)[..., 0].sigmoid()

        def forward(self, tokens):
            return self.readout(chunked_delta_attention(*self.parts(tokens)))

        def start(self, tokens):
            state = torch.zeros(len(tokens), d_head, d_head)
            for token in tokens.unbind(1):
                _, state = self.step(token, state)
            return state

        def step(self, token, state):
            context, state = delta_rule_step(state, *self.parts(token))
            return self.readout(context), state

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(n_steps):
        rows = torch.randint(len(tokens), (batch_size,))
        loss = F.cross_entropy(model(tokens[rows])[:, -8:].flatten(0, 1), answers[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def _drawn(draw: Draw, n: int) -> tuple[Tensor, Tensor]:
    """Draw sequences (n, 72) and their answers (n, 8): those to four rewritten keys, then to four that are written once."""
    slots = torch.cat([torch.arange(N_HOT).repeat(12), N_HOT + torch.arange(N_ONCE)])
    T = len(slots)
    names = draw.uniform(n, N_KEYS).argsort(1)
    keys, values = names.gather(1, slots[draw.uniform(n, T).argsort(1)]), draw.integers(0, N_VALUES, n, T)
    asked = names[:, :N_ASKED]
    newest = ((keys[:, None] == asked[..., None]) * torch.arange(1, T + 1)).argmax(-1)
    return torch.cat([_writes(keys, values), _asks(asked)], dim=1), values.gather(1, newest)


def _writes(keys: Tensor, values: Tensor) -> Tensor:
    return (N_VALUES + 1) * keys + values


def _asks(keys: Tensor) -> Tensor:
    return (N_VALUES + 1) * keys + ASKS


def _questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw sequences to learn from, and queries.

    The queries are: sequences (512, 72) · the last 16 of them · the same with other writes from position 40 on · with their
    writes in another order · with other writes altogether · three sequences, which are also read token by token.
    """
    tokens, answers = _drawn(draw, N_SEQUENCES)
    tested, labels = _drawn(draw, N_TESTED)
    one, T = tested[-N_ALONE:], tested.shape[1] - N_ASKED
    others = _drawn(draw, N_ALONE)[0][:, :T]
    later = torch.cat([one[:, :CUT], others[:, CUT:], one[:, T:]], dim=1)
    mixed = torch.cat([one[:, :T][:, draw.uniform(T).argsort()], one[:, T:]], dim=1)
    replaced = torch.cat([others, one[:, T:]], dim=1)
    queries = [tested, one, later, mixed, replaced, tested[:N_STEPPED]]
    truth = {"queries": queries, "labels": labels, "n_steps": N_STEPS}
    return ((tokens, answers, N_STEPS), queries, queries[-1:]), truth


def _model(measured: Measured, truth: Truth) -> str | None:
    for query, output in zip(truth["queries"], measured.outputs, strict=True):
        if fault := trained.fault_of_logits(output, (*query.shape, N_VALUES), f"tokens {tuple(query.shape)}"):
            return fault
    if not measured.outputs[0].isfinite().all():
        return "Some logits are infinite or NaN: the training has diverged. Do keys have length 1, and is β between 0 and 1?"
    return None


def _right(measured: Measured, truth: Truth, rewritten: bool) -> float:
    """The accuracy of answers for keys that were rewritten, or for those that were written once."""
    hits = measured.outputs[0][:, -N_ASKED:].argmax(-1) == truth["labels"]
    return (hits[:, :N_HOT] if rewritten else hits[:, N_HOT:]).float().mean().item()


def _rewritten(measured: Measured, truth: Truth) -> float:
    return _right(measured, truth, True)


def _once(measured: Measured, truth: Truth) -> float:
    return _right(measured, truth, False)


def _learns(measured: Measured, truth: Truth) -> str | None:
    if fault := trained.makes_updates(measured, truth):
        return fault
    found = (_rewritten(measured, truth) + _once(measured, truth)) / 2
    return None if found >= LEARNED else f"{found:.2f} of its answers are right; guessing has {1 / N_VALUES:.2f}."


def _past(measured: Measured, truth: Truth) -> str | None:
    if reads_the_future(measured, truth):
        return f"When the writes from position {CUT} on are replaced, the logits before it change."
    return trained.each_alone("sequences")(measured, truth)


def reads_the_future(measured: Measured, truth: Truth) -> bool:
    """Evidence: logits change when later writes change."""
    return not trained.is_near(measured.outputs[1][:, :CUT], measured.outputs[2][:, :CUT])


def remembers_nothing(measured: Measured, truth: Truth) -> bool:
    """Evidence: after other writes, the answers to the same questions are the same."""
    return trained.is_near(measured.outputs[1][:, -N_ASKED:], measured.outputs[4][:, -N_ASKED:], tolerance=1e-5)


def ignores_the_order(measured: Measured, truth: Truth) -> bool:
    """Evidence: after the same writes in another order, the answers are the same."""
    same = trained.is_near(measured.outputs[1][:, -N_ASKED:], measured.outputs[3][:, -N_ASKED:], tolerance=1e-4)
    return same and not remembers_nothing(measured, truth)


def confuses_rewritten_keys(measured: Measured, truth: Truth) -> bool:
    """Evidence: answers for rewritten keys are much worse than those for keys that are written once."""
    return _rewritten(measured, truth) < min(WANTED, _once(measured, truth) - 0.05)


def forgets_with_time(measured: Measured, truth: Truth) -> bool:
    """Evidence: of the keys that are written once, the newest are answered much more often than old ones."""
    tokens, T = truth["queries"][0], truth["queries"][0].shape[1] - N_ASKED
    asked, keys = tokens[:, T + N_HOT :] // (N_VALUES + 1), tokens[:, :T] // (N_VALUES + 1)
    written = (keys[:, None] == asked[..., None]).int().argmax(-1)
    hits = measured.outputs[0][:, T + N_HOT :].argmax(-1) == truth["labels"][:, N_HOT:]
    old, new = (hits[part].float().mean().item() for part in (written < T // 3, written >= T - T // 6))
    return new - old > FADED


def is_a_table(measured: Measured, truth: Truth) -> bool:
    """Evidence: numbers of an earlier state are still there in a later one. A sum with learned keys changes all of them."""
    return bool(measured.steps) and bool(measured.steps[3] > 0.3)


def _no_table(measured: Measured, truth: Truth) -> str | None:
    if not is_a_table(measured, truth):
        return None
    kept = f"{measured.steps[3]:.0%} of the numbers in the state after a quarter of a sequence are still in it after half of it"
    return f"{kept}: it is a table or a list."


def steps_forget_the_past(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits of each step are those that the model gives for its token alone, and the parallel form's are not."""
    found = measured.steps[0] if measured.steps else torch.zeros(0, 0)
    keys = truth["queries"][-1]
    pairs = [
        (found[b, s], found[b, t])
        for b in range(len(found))
        for t in range(found.shape[1])
        for s in range(t)
        if keys[b, s] == keys[b, t]
    ]
    same = bool(pairs) and all(trained.is_near(one, other, tolerance=1e-6) for one, other in pairs)
    return same and stepwise.forms_differ(measured, truth)


def fails_to_learn(measured: Measured, truth: Truth) -> bool:
    """Evidence: too few answers are right, for rewritten keys or for the others."""
    return min(_rewritten(measured, truth), _once(measured, truth)) < WANTED


def has_learned_nothing(measured: Measured, truth: Truth) -> bool:
    """Evidence: the answers are guesses."""
    return max(_rewritten(measured, truth), _once(measured, truth)) < 0.15


def _loss(logits: Tensor, answers: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, -N_ASKED:].flatten(0, 1), answers.flatten())


class SmallMemory(nn.Module):
    """The lecture's memory in a smaller model; a wrong submission changes one of its two forms, or both."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.key, self.value, self.dropout = nn.Embedding(N_KEYS, 32), nn.Embedding(ASKS + 1, 32), nn.Dropout(dropout)
        self.W_q, self.W_k, self.W_v = (nn.Linear(32, 16, bias=False) for _ in range(3))
        self.gate, self.readout = nn.Linear(32, 1), nn.Sequential(nn.LayerNorm(16), nn.Linear(16, N_VALUES))

    def parts(self, tokens):
        key, value = self.key(tokens // 17), self.value(tokens % 17)
        q, k = F.normalize(self.W_q(key), dim=-1), F.normalize(self.W_k(key), dim=-1)
        return self.dropout(q), k, self.W_v(value), self.gate(key + value)[..., 0].sigmoid()

    def forward(self, tokens):
        return self.readout(self.mix(*self.parts(tokens)))

    def start(self, tokens):
        state = self.empty(len(tokens))
        for token in tokens.unbind(1):
            _, state = self.step(token, state)
        return state

    def empty(self, B):
        return torch.zeros(B, 16, 16)

    def step(self, token, state):
        context, state = self.write_and_read(state, *self.parts(token))
        return self.readout(context), state

    def mix(self, q, k, v, beta):
        return chunked_delta_attention(q, k, v, beta, chunk=80)

    def write_and_read(self, S, q, k, v, beta):
        return delta_rule_step(S, q, k, v, beta)


def submit(data, part=1.0, model=SmallMemory, lr=1e-2, **change):
    """Train the small memory for a part of the updates, with a change."""
    tokens, answers, n_steps = data
    return loops.train(model, part * n_steps, lambda: loops.drawn_examples((tokens, answers)), _loss, lr, **change)


wrong = loops.Submissions(__name__, submit, results="logits")
wrong.loop_mistakes(
    fails_to_learn,
    has_learned_nothing,
    {
        name: loops.LOOP[name]
        for name in ("dropout_left_on", "gradients_not_cleared", "optimizer_of_another_model", "never_updated")
    },
    part=0.3,
    short=0.05,
)


@wrong.change("model", reads_the_future, part=0.1)
class ReadsTheLastMemory(SmallMemory):
    """Your model reads the future: its logits at a position change when later writes change. Perhaps every query reads the
    memory after the last token. Position t reads what was written up to t."""

    def mix(self, q, k, v, beta):
        return q @ (k.mT @ (beta[..., None] * v))


@wrong.change("model", trained.reads_other_examples, part=0.1)
class WritesIntoOneMemory(SmallMemory):
    """The logits of a sequence depend on the other sequences of its batch. Each has a memory of its own: count the axes from
    the end, and sum over none of the batch."""

    def mix(self, q, k, v, beta):
        return super().mix(q, k, v + v.mean(0), beta)


@wrong.change("model", remembers_nothing, part=0.1, severity=Severity.IDEA)
class AnswersFromTheQuestion(SmallMemory):
    """Your model remembers nothing: after quite other writes, its answers to the same questions are the same. Write each token
    into a memory, and let the query read from it."""

    def mix(self, q, k, v, beta):
        return q + v

    def write_and_read(self, S, q, k, v, beta):
        return q + v, S


@wrong.change("model", stepwise.changes_its_state, part=0.1)
class ChangesTheMemoryInPlace(SmallMemory):
    """Your `step` changes the state that it is given, or keeps it in the model: after another token was read from the same
    state, the logits are different. Make new tensors, `S = S + …` and not `S += …`, and return them."""

    def write_and_read(self, S, q, k, v, beta):
        context, new = super().write_and_read(S, q, k, v, beta)
        S.copy_(new)
        return context, S


@wrong.change("model", stepwise.grows, part=0.1, severity=Severity.IDEA)
class KeepsKeysAndValues(SmallMemory):
    """Your state grows with every token: it is a cache of keys and values, or the sequence itself. Softmax attention over such
    a cache answers well, and is what this memory is to replace: keep one matrix S, and correct it."""

    def empty(self, B):
        return torch.zeros(B, 0, 16), torch.zeros(B, 0, 16)

    def mix(self, q, k, v, beta):
        future = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
        return (8 * q @ k.mT).masked_fill(future, -torch.inf).softmax(-1) @ v

    def write_and_read(self, state, q, k, v, beta):
        keys, values = (torch.cat([old, new[:, None]], dim=1) for old, new in zip(state, (k, v), strict=True))
        return ((8 * q[:, None] @ keys.mT).softmax(-1) @ values)[:, 0], (keys, values)


@wrong.change("model", is_a_table, part=0.1, severity=Severity.IDEA)
class KeepsATable(SmallMemory):
    """Your state is a table with a place for each key, or a list of what was read: numbers of an earlier state are still in a
    later one. In the memory of this task all keys share all rows: write k (v - Sᵀk)ᵀ with learned keys k."""

    def empty(self, B):
        return torch.full((B, N_KEYS), ASKS)

    def forward(self, tokens):
        state, logits = self.empty(len(tokens)), []
        for token in tokens.unbind(1):
            found, state = self.step(token, state)
            logits.append(found)
        return torch.stack(logits, dim=1)

    def step(self, token, state):
        key, value = token[:, None] // 17, token[:, None] % 17
        state = state.scatter(1, key, torch.where(value == ASKS, state.gather(1, key), value))
        return self.readout(self.W_v(self.value(state.gather(1, key)[:, 0]))), state


@wrong.change("model", ignores_the_order, part=0.4, severity=Severity.PART)
class AddsUpTheValues(SmallMemory):
    """Your memory is a sum: after the same writes in another order it answers the same, so it cannot know which value of a key
    is the newest. Compare before you write: add β k (v - Sᵀk)ᵀ, not β k vᵀ."""

    def mix(self, q, k, v, beta):
        return (q @ k.mT).tril() @ (beta[..., None] * v)

    def write_and_read(self, S, q, k, v, beta):
        S = S + k[:, :, None] * (beta[:, None] * v)[:, None]
        return (q[:, None] @ S)[:, 0], S


@wrong.change("model", steps_forget_the_past, part=0.1)
class ForgetsThePast(SmallMemory):
    """Your step form depends on the last token alone: the new state replaces the old one. Return the old memory with the
    correction added."""

    def write_and_read(self, S, q, k, v, beta):
        return super().write_and_read(0 * S, q, k, v, beta)


@wrong.change("model", stepwise.forms_differ_at_once, part=0.1)
class ReadsBeforeItWrites(SmallMemory):
    """Your two forms differ already at the first token. In `step`, correct the memory first, then read from the new one, and
    pass the context through the same norm and readout."""

    def write_and_read(self, S, q, k, v, beta):
        return (q[:, None] @ S)[:, 0], super().write_and_read(S, q, k, v, beta)[1]


@wrong.change("model", stepwise.forms_differ, part=0.1)
class CorrectsInOneForm(SmallMemory):
    """Your two forms agree on the first token and differ afterwards: they do not write in the same way. What `step` writes is
        the error v - Sᵀk, and so must be what the parallel form writes: `chunked_delta_attention`, not a sum, or a mask of
    decay."""

    def write_and_read(self, S, q, k, v, beta):
        S = S + k[:, :, None] * (beta[:, None] * v)[:, None]
        return (q[:, None] @ S)[:, 0], S


@wrong.change("model", suspicion=confuses_rewritten_keys)
class LetsAllKeysFade(SmallMemory):
    """Answers for rewritten keys are much worse than those for keys written once, although the order of the writes matters.
    Perhaps your memory forgets in place of correcting: a gate lets all keys fade alike, so it either keeps old values or loses
    what was written once. Write the error, v - Sᵀk."""

    def __init__(self):
        super().__init__()
        self.gate.bias.data.fill_(3.0)

    def mix(self, q, k, v, beta):
        return (q @ k.mT * decay_mask(beta.log())) @ v

    def write_and_read(self, S, q, k, v, beta):
        S = beta[:, None, None] * S + k[:, :, None] * v[:, None]
        return (q[:, None] @ S)[:, 0], S


@wrong.change("model", suspicion=forgets_with_time)
class ForgetsAtOneRate(LetsAllKeysFade):
    """Of the keys that are written once, old ones are answered much worse than those of the last few tokens.
    Perhaps your memory forgets with time, all keys alike: the newest value of a key then wins over the older ones, but what was
    written once is gone. Write the error, v - Sᵀk, which takes the place of what stands under its own key alone."""

    def parts(self, tokens):
        q, k, v, gate = super().parts(tokens)
        return q, k, v, torch.full_like(gate, 0.8)


@right
def with_a_decay(tokens, answers, n_steps):
    """One table of tokens for β and decay, keys from a table of their own; a decay that starts near 1, RMSprop, a schedule."""

    class Memory(nn.Module):
        def __init__(self):
            super().__init__()
            self.keys, self.values = nn.Embedding(32, 16), nn.Embedding(17, 16)
            self.gates = nn.Embedding(17, 2)
            self.gates.weight.data = self.gates.weight.data * 0.1 + torch.tensor([1.0, 4.0])
            self.out = nn.Linear(16, 16)

        def both(self, tokens):
            k = F.normalize(self.keys(tokens // 17), dim=-1)
            rate, gate = self.gates(tokens % 17).unbind(-1)
            return k, k, self.values(tokens % 17), rate.sigmoid(), F.logsigmoid(gate)

        def forward(self, tokens):
            return self.out(chunked_delta_attention(*self.both(tokens), chunk=24))

        def start(self, tokens):
            return self.run(tokens, {"S": torch.zeros(len(tokens), 16, 16)})[1]

        def run(self, tokens, state):
            logits = torch.zeros(len(tokens), 16)
            for token in tokens.T:
                logits, state = self.step(token, state)
            return logits, state

        def step(self, token, state):
            context, S = delta_rule_step(state["S"], *self.both(token))
            return self.out(context), {"S": S}

    model = Memory()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    for _ in range(n_steps):
        batch, wanted = loops.drawn_examples((tokens, answers), 48)
        optimizer.zero_grad()
        F.cross_entropy(model(batch)[:, -8:].transpose(1, 2), wanted).backward()
        optimizer.step()
        schedule.step()
    return model


@right
def by_its_own_triangular_system(tokens, answers, n_steps):
    """The parallel form writes all errors at once by a solver of its own, and an object without a module holds the weights."""
    shapes = {"key": (32, 48), "value": (17, 48), "q": (48, 16), "k": (48, 16), "v": (48, 16), "rate": (48, 1), "out": (16, 16)}
    w = {name: (torch.randn(shape) * shape[0] ** -0.5).requires_grad_() for name, shape in shapes.items()}

    class Memory:
        def read(self, tokens):
            key, value = w["key"][tokens // 17], w["value"][tokens % 17]
            q, k = (F.normalize(key @ w[name], dim=-1) for name in "qk")
            return q, k, value @ w["v"], torch.sigmoid((key + value) @ w["rate"])

        def out(self, context):
            return F.rms_norm(context, (16,)) @ w["out"]

        def __call__(self, tokens):
            q, k, v, rate = self.read(tokens)
            matrix = torch.eye(tokens.shape[1]) + (rate * (k @ k.mT)).tril(-1)
            return self.out((q @ k.mT).tril() @ torch.linalg.solve(matrix, rate * v))

        def start(self, tokens):
            S = torch.zeros(len(tokens), 16, 16)
            for token in tokens.unbind(1):
                S = self.step(token, S)[1]
            return S

        def step(self, token, S):
            q, k, v, rate = self.read(token)
            S = S + torch.einsum("bk,bd->bkd", rate * k, v - torch.einsum("bk,bkd->bd", k, S))
            return self.out(torch.einsum("bk,bkd->bd", q, S)), S

    def loss():
        batch, wanted = loops.drawn_examples((tokens, answers))
        return _loss(Memory()(batch), wanted)

    loops.adam_by_hand(list(w.values()), n_steps, loss, lambda step: 1e-2 * min(1.0, step / 20))
    return Memory()


_TRAINED = ("evaluation", "learns")

exercise = Exercise(
    id="18.6",
    title="A memory that corrects, and its training loop",
    reference=train_memory,
    properties=(
        *trained.sound_training(
            SECONDS, MOST_PARAMETERS, (f"The model maps tokens (B, T), T ≤ 72, to logits (B, T, {N_VALUES}).", _model)
        ),
        trained.holds("learns", f"At least {LEARNED:.0%} of its answers are right.", _learns, 1),
        trained.holds(
            "past", "The logits depend on the tokens of their own sequence so far, and on nothing else.", _past, 1, _TRAINED
        ),
        trained.holds("steps", f"The model has `start` and `step`, which gives logits (B, {N_VALUES}).", stepwise.steps, 0),
        trained.holds("agree", "Both forms give the same logits.", stepwise.agree, 2, (*_TRAINED, "steps")),
        trained.holds(
            "constant",
            f"The state holds at most {MOST_NUMBERS} numbers for each sequence, does not grow, and is no table or list.",
            trained.every(stepwise.constant(MOST_NUMBERS), _no_table),
            1,
            (*_TRAINED, "steps"),
        ),
        trained.holds("values", "A step leaves the state that it is given as it is.", stepwise.values, 1, (*_TRAINED, "steps")),
        trained.holds(
            "kept",
            f"For keys that are written once, at least {WANTED:.0%} of the answers are right.",
            trained.at_least(WANTED, _once, "The accuracy for keys that are written once"),
            1,
            _TRAINED,
        ),
        trained.holds(
            "corrected",
            f"For keys that are rewritten, at least {WANTED:.0%} of the answers are the newest value.",
            trained.at_least(WANTED, _rewritten, "The accuracy for keys that are rewritten"),
            2,
            (*_TRAINED, "past"),
        ),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    training=Training(_questions, SECONDS),
    extra=True,
)
