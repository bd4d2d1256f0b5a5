"""Train models with one token-mixing layer on rows of tokens, with several seeds, and measure their accuracy."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.analysis import record
from course_lib.attention import Attended
from course_lib.datasets import lookup, reversal
from course_lib.datasets.alignment import Lookup, Reversal
from course_lib.datasets.splits import Splits
from course_lib.fast import stacked_bidirectional_gru
from course_lib.models.bigru_encoder import BidirectionalStates
from course_lib.primitives import GRU
from course_lib.training import batches
from course_tools.notebook import fitting
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted
from course_tools.notebook.plots import attention_map, attention_maps, describe
from course_tools.notebook.seed_scores import show_seeds
from course_tools.notebook.show import show

# Self-attention layers computed by a function, such as the `multi_head_attention` that students write.


MechanismFunction = Callable[..., Attended]
"""`(q, k, v, mask)` → context, weights, as `course_lib.attention.scaled_dot_product_attention`."""
MultiHeadFunction = Callable[..., Attended]
"""`(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask)` → context, weights, as `multi_head_attention`."""


class SelfAttentionByFunction(nn.Module):
    """One head of self-attention: Q = XW_Q, K = XW_K, V = XW_V for the same tokens X, and a mechanism without parameters."""

    def __init__(self, mechanism: MechanismFunction, d_model: int, mask: Tensor | None = None) -> None:
        """Create three matrices d_model × d_model; the mask is passed to every call of the mechanism."""
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        self.mechanism, self.mask = mechanism, mask

    def forward(self, x: Tensor) -> Attended:
        """Compute contexts (B, T, d_model) and weights (B, T, T) of tokens x (B, T, d_model), in the dtype of x."""
        context, weights = self.mechanism(self.W_q(x), self.W_k(x), self.W_v(x), self.mask)
        return Attended(context.to(x.dtype), weights.to(x.dtype))


class MultiHeadByFunction(nn.Module):
    """Multi-head self-attention: the layer owns the four matrices, and a function computes context and weights."""

    def __init__(self, multi_head: MultiHeadFunction, d_model: int, n_heads: int, mask: Tensor | None = None) -> None:
        """Create four matrices d_model × d_model with entries uniform in ±d_model^-½."""
        super().__init__()
        bound = d_model**-0.5
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Parameter(torch.empty(d_model, d_model).uniform_(-bound, bound)) for _ in range(4)
        )
        self.multi_head, self.n_heads, self.mask = multi_head, n_heads, mask

    def forward(self, x: Tensor) -> Attended:
        """Compute contexts (B, T, d_model) and weights (B, n_heads, T, T) of tokens x (B, T, d_model), in the dtype of x."""
        matrices = self.W_q, self.W_k, self.W_v, self.W_o
        context, weights = self.multi_head(x, x, x, *matrices, self.n_heads, self.mask)
        return Attended(context.to(x.dtype), weights.to(x.dtype))


# A bidirectional GRU as a layer that mixes tokens: the rival of self-attention on reversal.


class BidirectionalGRU(nn.Module):
    """A GRU that reads a text forwards, and one that reads it backwards; the state of a token joins both."""

    def __init__(
        self, d_model: int, n_hidden: int, run: Callable[..., BidirectionalStates] = stacked_bidirectional_gru
    ) -> None:
        """Create two GRUs of n_hidden units each for tokens of size d_model; `run` computes their states."""
        super().__init__()
        self.forwards, self.backwards = GRU(d_model, n_hidden), GRU(d_model, n_hidden)
        self.run = run

    def forward(self, x: Tensor) -> BidirectionalStates:
        """Compute states (B, T, 2 · n_hidden) of tokens x (B, T, d_model), and the last state of each direction."""
        lengths = torch.full((len(x),), x.shape[1], device=x.device)
        return self.run(x, lengths, self.forwards, self.backwards)


# Train a model with one token-mixing layer on rows of tokens, and measure its accuracy.


class TokenTask(NamedTuple):
    """Rows of tokens and their targets, for training and testing, on the device of the lectures.

    `known` and `new` are the indices (B, T) of the training and test tokens, one tensor for each embedding table. `targets` and
    `new_targets` are (B, T_q) for the last T_q positions, or (B, T_q, n) for n answers at each. `pattern` is (B, T_q, T_k), for
    the test rows: 1 at the right one of the first T_k positions, else 0; None if it is unknown.
    """

    known: tuple[Tensor, ...]
    targets: Tensor
    new: tuple[Tensor, ...]
    new_targets: Tensor
    pattern: Tensor | None = None


def lookup_task(parts: Splits[Lookup], n_values: int) -> TokenTask:
    """Encode pairs and questions as rows of tokens, each a key and a value; the value of a question is a blank, n_values."""

    def row(part: Lookup) -> tuple[Tensor, ...]:
        blanks = torch.full_like(part.queries, n_values)
        return torch.cat([part.keys, part.queries], dim=1), torch.cat([part.values, blanks], dim=1)

    return _task(row(parts.train), parts.train.targets, row(parts.test), parts.test.targets, parts.test.pattern)


def reversal_task(parts: Splits[Reversal]) -> TokenTask:
    """Combine each symbol of a text with its position; the targets are the symbols in reverse order."""
    known, new = (_with_positions(part.tokens) for part in (parts.train, parts.test))
    return _task(known, parts.train.targets, new, parts.test.targets, parts.test.pattern)


def counting_task(seed: int, T: int = 12, keep: float = 0.75, n_symbols: int = 8) -> TokenTask:
    """Predict the next symbol of sequences that count upwards, modulo n_symbols, with probability `keep`, and else jump.

    Returns:
        4,000 training and 500 test sequences of T symbols each; the target of a position is the next symbol.
    """

    def sequences(n: int, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        jump = torch.randint(2, n_symbols + 1, (n, T + 1), generator=generator)
        step = torch.where(torch.rand(n, T + 1, generator=generator) < keep, 1, jump)
        return step.cumsum(1) % n_symbols

    known, new = sequences(4_000, seed), sequences(500, 1_000 + seed)
    return _task(_with_positions(known[:, :-1]), known[:, 1:], _with_positions(new[:, :-1]), new[:, 1:])


def _with_positions(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return tokens (B, T) and the position of each, (B, T), as indices of two tables."""
    return tokens, torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)


def best_guess_from_values(part: Lookup) -> float:
    """Compute the mean accuracy of guessing, for each text, the value that occurs most often among its pairs."""
    return (F.one_hot(part.values).sum(1).amax(-1) / part.values.shape[1]).mean().item()


def lookup_in_words(part: Lookup, row: int) -> tuple[list[str], list[str]]:
    """Write one example as text: its pairs, such as "k4=v5", and its questions, such as "k15?"."""
    keys, values, queries = (numbers[row].tolist() for numbers in (part.keys, part.values, part.queries))
    return [f"k{key}=v{value}" for key, value in zip(keys, values, strict=True)], [f"k{key}?" for key in queries]


def print_lookup(part: Lookup, row: int = 0) -> None:
    """Print one example: its pairs, its questions and the right answers."""
    pairs, questions = lookup_in_words(part, row)
    print("pairs:    ", *pairs)
    print("questions:", *questions)
    print("answers:  ", *(f"v{value}" for value in part.targets[row].tolist()))


def _task(
    known: Sequence[Tensor], targets: Tensor, new: Sequence[Tensor], new_targets: Tensor, pattern: Tensor | None = None
) -> TokenTask:
    known, new = (tuple(index.to(device()) for index in indices) for indices in (known, new))
    return TokenTask(known, targets.to(device()), new, new_targets.to(device()), pattern)


class TokenReader(nn.Module):
    """A model that adds the embeddings of each token, mixes the tokens by a layer, and predicts an answer at each position."""

    def __init__(
        self, mixer: nn.Module, sizes: Sequence[int], n_answers: int, d_model: int = 64, std: float | None = None
    ) -> None:
        """Create tables for indices below `sizes`; embeddings start with standard deviation `std`, d_model^-½ if None."""
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, d_model) for size in sizes)
        for table in self.tables:
            nn.init.normal_(table.weight, std=d_model**-0.5 if std is None else std)
        self.mixer = mixer
        self.read_out = nn.Linear(d_model, n_answers)

    def forward(self, *known: Tensor) -> Tensor:
        """Compute logits (B, T, n_answers) for indices (B, T), one tensor for each table."""
        x = sum(table(index) for table, index in zip(self.tables, known, strict=True))
        return self.read_out(self.mixer(x)[0])


def _answers_of(model: nn.Module, known: Sequence[Tensor], targets: Tensor) -> Tensor:
    """Return the logits at the last positions, (B, T, n_answers) for targets (B, T), or (B, T, n, n_answers) for (B, T, n)."""
    return model(*known)[:, -targets.shape[1] :].unflatten(-1, (*targets.shape[2:], -1))


def _loss_of(model: nn.Module, batch: Sequence[Tensor]) -> Tensor:
    """Compute the cross-entropy of the answers at the last positions; the last item of a batch holds the targets."""
    *known, targets = batch
    return F.cross_entropy(_answers_of(model, known, targets).flatten(0, -2), targets.flatten())


def fit_token_reader(
    make_mixer: Callable[[], nn.Module],
    task: TokenTask,
    seed: int,
    steps: int,
    d_model: int = 64,
    std: float | None = None,
    lr: float = 5e-3,
    batch_size: int = 64,
) -> TokenReader:
    """Train a TokenReader with a new mixer; the seed determines its initial weights and the order of the batches."""
    torch.manual_seed(seed)
    sizes = [int(index.max()) + 1 for index in task.known]
    n_answers = (int(task.targets.max()) + 1) * math.prod(task.targets.shape[2:])
    model = TokenReader(make_mixer(), sizes, n_answers, d_model, std).to(device())
    stream = batches(*task.known, task.targets, batch_size=batch_size, seed=seed)
    return fitted(model, stream, _loss_of, steps=steps, lr=lr, label=f"seed {seed}")


@torch.no_grad()
def token_accuracy(model: nn.Module, task: TokenTask) -> float:
    """Measure the fraction of positions of the test rows whose answers are all correct."""
    right = _answers_of(model, task.new, task.new_targets).argmax(-1) == task.new_targets
    return right.flatten(2).all(-1).float().mean().item() if right.dim() > 2 else right.float().mean().item()


@torch.no_grad()
def symbol_accuracies(model: nn.Module, task: TokenTask) -> list[float]:
    """Measure the accuracy of each answer of a position by itself, for a task with several answers at each position."""
    right = _answers_of(model, task.new, task.new_targets).argmax(-1) == task.new_targets
    return right.flatten(0, -2).float().mean(0).tolist()


@torch.no_grad()
def loss_on_new(model: nn.Module, task: TokenTask) -> float:
    """Compute the cross-entropy of the answers in the test rows, in nats."""
    return _loss_of(model, (*task.new, task.new_targets)).item()


@torch.no_grad()
def logits_under_mask(model: TokenReader, given: Sequence[Tensor], mask: Tensor | None) -> Tensor:
    """Compute logits (B, T, n_answers) on the CPU with another mask of the mixer, which is restored afterwards.

    Args:
        model: a model whose mixer has a `mask`.
        given: indices (B, T), one tensor for each table.
        mask: bool, broadcastable to (B, T, T), True = may attend; None = every position may attend to every other.
    """
    own, model.mixer.mask = model.mixer.mask, mask
    try:
        return model(*given).cpu()
    finally:
        model.mixer.mask = own


@torch.no_grad()
def mixer_weights(model: TokenReader, given: Sequence[Tensor]) -> Tensor:
    """Compute the attention weights (…, T, T) of the mixer for indices (B, T), one tensor for each table, on the CPU."""
    with record(model) as seen:
        model(*given)
    return seen["mixer"][0].weights.cpu()


def attends_correctly(model: TokenReader, task: TokenTask) -> float:
    """Measure the fraction of positions whose largest weight, in the first head, is at the 1 of the pattern."""
    chosen = mixer_weights(model, task.new)[:, 0, -task.pattern.shape[1] :].argmax(-1)
    return (chosen == task.pattern.argmax(-1)).float().mean().item()


def two_answers(task: TokenTask) -> TokenTask:
    """Ask for two symbols at each position of a reversal: that at the opposite position, and the one before the position.

    The symbol before the first is the last. The pattern marks both positions.
    """

    def both(tokens: Tensor) -> Tensor:
        return torch.stack([tokens.flip(1), tokens.roll(1, dims=1)], dim=-1)

    T = task.new[0].shape[1]
    pattern = (torch.eye(T).flip(1) + torch.eye(T).roll(-1, dims=1)).clamp(max=1)
    return TokenTask(task.known, both(task.known[0]), task.new, both(task.new[0]), pattern.expand(len(task.new[0]), -1, -1))


def only_symbols(task: TokenTask) -> TokenTask:
    """Remove the positions from a task whose tokens are a symbol and its position."""
    return task._replace(known=task.known[:1], new=task.new[:1])


def show_lookup(model: TokenReader, task: TokenTask, part: Lookup) -> None:
    """Draw the attention weights of the questions of the first new text; the pair with the right key is outlined.

    Args:
        model: trained on the task.
        task: as `lookup_task` returns it.
        part: the test part from which the task was made.
    """
    pairs, questions = lookup_in_words(part, row=0)
    weights = mixer_weights(model, [index[:1] for index in task.new])[0, 0, -len(questions) :]
    right = F.pad(task.pattern[0], (0, len(questions))).cpu()
    tokens = [*pairs, *questions]
    hits = int((weights.argmax(-1) == right.argmax(-1)).sum())
    figure = attention_map(weights, questions, tokens, "look-up: one unseen text", "key", "question", right)
    alt = f"The pair with the key of the question is outlined; the largest weight is there in {hits} of {len(questions)} rows."
    show(figure, alt=f"{describe(weights, questions, tokens)} {alt}")


def show_heads(models: Mapping[str, TokenReader], task: TokenTask) -> None:
    """Draw the attention weights of every head of some models on the first new text; the right cells are outlined.

    Args:
        models: name -> a model that was trained on the task.
        task: as `two_answers` returns it.
    """
    maps = {}
    for name, model in models.items():
        heads = mixer_weights(model, [index[:1] for index in task.new])[0]
        maps |= {name if len(heads) == 1 else f"{name}: {h}": weights for h, weights in enumerate(heads, 1)}
    right = task.pattern[0].cpu()
    found = (f"{w.amax(-1).mean():.2f} in {name} ({(w * right).sum(-1).mean():.0%})" for name, w in maps.items())
    alt = "Attention maps on one text; the one or two right cells of each row are outlined. The largest weight of a row is, "
    alt += "on average (in brackets: the fraction of all weight in outlined cells): "
    show(attention_maps(maps, outlined=right), alt=f"{alt}{', '.join(found)}.")


@torch.no_grad()
def show_reversal(model: TokenReader, text: Sequence[int]) -> None:
    """Draw the attention weights with which a model trained on `reversal_task` reverses a text of T symbols."""
    given = _with_positions(torch.tensor([text], device=device()))
    output, weights = model(*given).argmax(-1)[0].tolist(), mixer_weights(model, given)[0, 0]
    hits = int((weights.argmax(-1) == torch.arange(len(text)).flip(0)).sum())
    right, rows, columns = torch.eye(len(text)).flip(1), [*map(str, output)], [*map(str, text)]
    figure = attention_map(weights, rows, columns, "reversal of one text", "key", "output", right)
    alt = f"the anti-diagonal is outlined, and the largest weight of a row is there in {hits} of them."
    show(figure, alt=f"Attention map of a text of {len(text)} symbols: {alt}")


# Train models with one token-mixing layer with several seeds, and compare them on new texts.


class TrainedReaders(NamedTuple):
    """Models that differ only in their seed, and their accuracies on the new texts of their task."""

    models: list[TokenReader]
    accuracies: list[float]


@dataclass(frozen=True)
class ReaderExperiment:
    """A task on which every model is trained once for each seed, and unless stated otherwise for the same number of steps."""

    task: TokenTask
    seeds: Sequence[int]
    n_steps: int

    def fit(
        self, make_mixer: Callable[[], nn.Module], n_steps: int | None = None, n_seeds: int | None = None, **settings: Any
    ) -> TrainedReaders:
        """Train a new model for each of the first `n_seeds` seeds, and measure its accuracy on new texts.

        Args:
            make_mixer: returns a layer that mixes tokens (B, T, d_model).
            n_steps: number of updates; None = that of the experiment.
            n_seeds: number of models; None = one for each seed.
            **settings: those of `fit_token_reader`, such as `lr`.
        """
        steps = self.n_steps if n_steps is None else n_steps
        models = [fit_token_reader(make_mixer, self.task, seed, steps, **settings) for seed in self.seeds[:n_seeds]]
        return TrainedReaders(models, [token_accuracy(model, self.task) for model in models])

    def without_positions(self) -> "ReaderExperiment":
        """Return the experiment on texts whose tokens do not contain their position."""
        return replace(self, task=only_symbols(self.task))

    def with_two_answers(self) -> "ReaderExperiment":
        """Return the experiment that asks for two symbols at each position, as `token_reader.two_answers`."""
        return replace(self, task=two_answers(self.task))

    def show_losses(self, readers: Mapping[str, TrainedReaders]) -> None:
        """Draw the training losses by name, beside that of a guess among all answers."""
        n = _n_answers(self.task)
        fitting.show_losses({name: group.models for name, group in readers.items()}, across={f"a guess among {n}": math.log(n)})

    def attends_correctly(self, readers: TrainedReaders) -> list[float]:
        """Measure for each model how often the largest weight of its first head is at the right position in new texts."""
        return [attends_correctly(model, self.task) for model in readers.models]

    def symbol_accuracies(self, readers: TrainedReaders) -> list[list[float]]:
        """Measure for each model the accuracy of each of the answers at a position, by itself."""
        return [symbol_accuracies(model, self.task) for model in readers.models]

    def show_heads(self, readers: Mapping[str, TrainedReaders]) -> None:
        """Draw the attention weights of every head of the last model of each name on the first new text."""
        show_heads({name: group.models[-1] for name, group in readers.items()}, self.task)


def lookup_experiment(T_k: int, seeds: Sequence[int], n_steps: int) -> tuple[Splits[Lookup], ReaderExperiment]:
    """Compose look-up texts of T_k pairs with one of eight values each, and four questions: 4,000 to train, 500 to test.

    Returns:
        the texts, and the experiment on them.
    """
    texts = lookup(4_000, 10, 500, T_q=4, T_k=T_k, n_keys=2 * T_k, n_values=8, seed=0)
    return texts, ReaderExperiment(lookup_task(texts, 8), seeds, n_steps)


def reversal_experiment(T: int, seeds: Sequence[int], n_steps: int) -> ReaderExperiment:
    """Compose 4,000 texts of T symbols, each one of eight, that are to be reversed."""
    return ReaderExperiment(reversal_task(reversal(4_000, 10, 500, T=T, n_symbols=8, seed=0)), seeds, n_steps)


def compare_tasks(trained: Mapping[str, tuple[ReaderExperiment, Mapping[str, TrainedReaders]]]) -> dict[str, list[float]]:
    """Draw the training losses of models on several tasks, and their accuracies on new texts.

    Args:
        trained: task -> (its experiment, name -> models).

    Returns:
        one accuracy for each seed, under "task: name".
    """
    readers = {f"{task}: {name}": group for task, (_, groups) in trained.items() for name, group in groups.items()}
    fitting.show_losses({name: group.models for name, group in readers.items()})
    found = {name: group.accuracies for name, group in readers.items()}
    n = max(_n_answers(experiment.task) for experiment, _ in trained.values())
    show_seeds(found, "accuracy", "new texts, one point per seed", {f"a guess among {n}": 1 / n})
    return found


def _n_answers(task: TokenTask) -> int:
    return int(task.targets.max()) + 1
