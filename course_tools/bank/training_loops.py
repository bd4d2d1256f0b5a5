"""Training loops of submissions to build tasks: the sound loop, and the mistakes that any loop can contain."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain, islice, repeat

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_tools.checks.exercise import Answers, Evidence, Severity
from course_tools.checks.trained import (
    both,
    differs_when_asked_again,
    gradients_are_kept,
    makes_no_update,
    no_weight_is_stepped,
    reads_one_batch,
    updates_are_too_large,
    updates_are_too_small,
)


def drawn(text, ahead=1, batch_size=8, context=32):
    """Draw a batch: tokens (B, context), and the tokens `ahead` positions after them."""
    windows = text[torch.randint(len(text) - context - ahead, (batch_size, 1)) + torch.arange(context + ahead)]
    return windows[:, :context], windows[:, ahead:]


next_but_one = partial(drawn, ahead=2)
"""Draw a batch whose targets are shifted twice."""


def not_shifted(text):
    """Draw a batch whose targets are its inputs."""
    tokens, _ = drawn(text)
    return tokens, tokens


def shifted_back(text):
    """Draw a batch whose targets are the tokens before its inputs."""
    tokens, following = drawn(text)
    return following, tokens


def drawn_examples(data, batch_size=32):
    """Draw a batch of examples and their labels, or of any parts with a row for each example."""
    which = torch.randint(len(data[0]), (batch_size,))
    return tuple(part[which] for part in data)


def in_given_order(data, batch_size=32):
    """Yield batches of examples and their labels in the given order, repeatedly."""
    while True:
        yield from zip(*(part.split(batch_size) for part in data), strict=True)


def epochs(data, n_updates, batch_size, **options):
    """Yield `n_updates` batches of a DataLoader that shuffles the examples in each epoch."""
    dataset = data if isinstance(data, Tensor) else torch.utils.data.TensorDataset(*data)
    loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True, **options)
    return islice(chain.from_iterable(repeat(loader)), n_updates)


def updates(weights, n_updates, loss, lr=1e-2, clears=True, schedule=None):
    """Update weights by Adam, each time with the gradient of the scalar that `loss()` returns for a new batch.

    Args:
        weights: an iterable of parameters.
        n_updates: the number of updates.
        loss: a function without arguments that draws a batch and returns its loss, ().
        lr: the learning rate.
        clears: False is the mistake of never clearing the gradients.
        schedule: makes a learning-rate scheduler for the optimizer; it steps after each update.
    """
    optimizer = torch.optim.Adam(weights, lr=lr)
    scheduler = schedule and schedule(optimizer)
    for _ in range(n_updates):
        value = loss()
        if clears:
            optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if scheduler:
            scheduler.step()


def adam_by_hand(weights, n_updates, loss, lr):
    """Update tensors by Adam's equations with gradients from autograd; `lr` is a number or a function of the update, from 1."""
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    for step in range(1, n_updates + 1):
        rate = lr(step) if callable(lr) else lr
        for i, gradient in enumerate(torch.autograd.grad(loss(), weights)):
            first[i] = 0.9 * first[i] + 0.1 * gradient
            second[i] = 0.99 * second[i] + 0.01 * gradient**2
            mean, square = first[i] / (1 - 0.9**step), second[i] / (1 - 0.99**step)
            weights[i].data -= rate * mean / (square.sqrt() + 1e-8)


def cross_entropy(logits, targets):
    """The mean cross-entropy of logits (..., n) with targets (...), over all positions."""
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


class Softmaxed(nn.Module):
    """A model that returns probabilities in place of the logits of the given one."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        """Apply a softmax to the model's result, where it is no tokens."""
        found = self.model(*inputs)
        return found.softmax(-1) if found.is_floating_point() else found


def train(
    make,
    n_updates,
    batch,
    loss=cross_entropy,
    lr=1e-2,
    *,
    one_batch=False,
    other=False,
    optimized=None,
    left_on=False,
    clears=True,
    schedule=None,
    wrap=None,
    **parts,
):
    """Train the model that `make()` builds in the usual way, or with one mistake, and return it.

    Args:
        make: builds the model.
        n_updates: the number of updates.
        batch: draws a batch: inputs, and the target.
        loss: the loss of the model's result and the target; None: the model returns the loss of all parts.
        lr: the learning rate of Adam.
        one_batch: whether all updates use the same batch.
        other: whether the optimizer holds the weights of another such model.
        optimized: gives what the optimizer holds of a model; None = all its weights.
        left_on: whether the model is returned in training mode.
        clears: whether gradients are cleared.
        schedule: makes a learning-rate scheduler for the optimizer.
        wrap: puts a module around the model.
        parts: what else the model is built with.
    """
    model = make(**parts)
    held = make(**parts) if other else optimized(model) if optimized else model
    model = wrap(model) if wrap else model
    once = batch() if one_batch else None

    def value():
        *inputs, target = once or batch()
        return loss(model(*inputs), target) if loss else model(*inputs, target)

    updates(held.parameters(), int(n_updates), value, lr, clears, schedule)
    return model.train(left_on)


LOOP = {
    "dropout_left_on": "The returned model is still in training mode: its dropout draws new zeros at each call, so that its "
    "{results} are random. Return `model.eval()`.",
    "gradients_not_cleared": "You never clear the gradients: `backward` adds to those of all updates before. Call "
    "`optimizer.zero_grad()` once in each update{also}.",
    "learning_rate_too_large": "Your first ten updates move the weights by more than twenty times their own size: nothing that "
    "was learned survives the next update. Take a smaller learning rate; for Adam {rates}.",
    "optimizer_of_another_model": "None of the weights of the model that you return was ever updated: the optimizer holds "
    "those of another one. Make the optimizer after the model, from the parameters of the model that you train and return.",
    "probabilities_for_logits": "Your model returns probabilities. `F.cross_entropy` takes a softmax itself, so that the loss "
    "takes it twice and {falls}. Return the logits.",
    "one_batch_for_all_updates": "Every update reads the same batch: it is drawn once, before the loop. The model learns "
    "{learned} by heart. Draw {new} in each update.",
    "learning_rate_too_small": "Your updates hardly change the weights: all together move them by less than two percent. Take "
    "a larger learning rate; for Adam {rates}.",
    "never_updated": "No update is made: no optimizer took a step, and no loss was differentiated. The model is returned as it "
    "was drawn. Train it: draw a batch, compute the loss, `zero_grad`, `backward`, `step`.",
}
"""What is said of the mistakes that any training loop can contain, in the order in which they are looked for."""
REPAIR = {
    "dropout_left_on": "You introduced a new fault: called twice with the same {example}, the returned {model} gives different "
    "{results}. Return `{model}.eval()`.",
    "gradients_not_cleared": "The gradients of earlier updates are still there at the next one: `backward` adds to them. The "
    "run of the task clears them by `optimizer.zero_grad()`; keep this in the loop.",
    "learning_rate_too_large": "The learning rate was not the fault, and now it is one: the first ten updates move the weights "
    "by more than twenty times their own size. {rates}",
    "optimizer_of_another_model": "None of the weights of the model that you return was ever updated: the optimizer holds "
    "those of another one. Make the optimizer after the model that you train and return.",
    "one_batch_for_all_updates": "Every update reads the same {batch}. The run of the task draws {new} in each update; keep "
    "this in the loop{also}.",
    "learning_rate_too_small": "The learning rate was not the fault, and now it is one: all updates together move the weights "
    "by less than two percent. {rates}",
}
"""What is said of them where a run was to be repaired that did not have them."""
CUT_OFF = (
    "A part of your model never gets a gradient and stays as it was drawn: the graph is cut by `.data`, `.detach()`, "
    "`torch.tensor(...)` or `torch.no_grad()`, or these weights are not used at all."
)


class Submissions(Answers):
    """Wrong submissions of a build task, most of them its small sound one with one change.

    `submit(data, part, **change)` trains the small model for a part of the updates that are allowed, and returns it. It takes
    the changes of `train`, `dropout`, and what else the task varies. `words` take the places in the misconceptions.
    """

    def __init__(self, module: str, submit: Callable, **words: str) -> None:
        """Start without submissions; `module` is the name of the module of the task."""
        super().__init__()
        self.module, self.submit = module, submit
        self.words = {"also": "", "advice": "", "width": "", "falls": "hardly falls", "new": "new ones"} | words

    def add(self, name: str, misconception: str, change: Mapping[str, object], **marks: Evidence | Severity) -> None:
        """Add the small submission with a change, marked with its proof or suspicion, and the part of the updates it makes."""

        def submission(*data: object) -> object:
            return self.submit(data, **change)

        submission.__name__ = submission.__qualname__ = name
        submission.__doc__, submission.__module__ = misconception.format_map(self.words), self.module
        submission.part = change.get("part", 1.0)
        self(submission, **marks)

    def change(
        self,
        what: str,
        proof: Evidence | None = None,
        suspicion: Evidence | None = None,
        says: str | None = None,
        severity: Severity | None = None,
        **more: object,
    ) -> Callable:
        """Make a decorator: a class or function takes the place of the sound `what`; its docstring is the misconception."""
        marks = {"proof": proof} if proof else {"suspicion": suspicion}
        marks |= {"severity": severity} if severity is not None else {}

        def adds(changed: Callable) -> Callable:
            name = re.sub("(?!^)(?=[A-Z])", "_", changed.__name__).lower()
            self.add(name, says or changed.__doc__, {what: changed, **more}, **marks)
            return changed

        return adds

    def loop_mistakes(
        self,
        fails: Evidence,
        untrained: Evidence,
        says: Mapping[str, str] = LOOP,
        part: float = 0.5,
        short: float = 0.25,
        dropout: float = 0.1,
        too_large: float = 3.0,
        random: Evidence = differs_when_asked_again,
        probabilities: Evidence | None = None,
        same: Evidence = reads_one_batch,
    ) -> None:
        """Add the mistakes that any training loop can contain, those that `says` names.

        Args:
            fails: evidence that the model did not learn what is required.
            untrained: evidence that it has learned nothing.
            says: the misconception of each mistake.
            part: the part of the updates after which a mistake shows.
            short: the same for a learning rate, and for an optimizer of other weights.
            dropout: the probability, where the model is left in training mode.
            too_large: a learning rate.
            random: evidence that the model draws random numbers when it is called.
            probabilities: evidence that the model returns probabilities; without it, this mistake is left out.
            same: evidence that every update reads the same batch.
        """
        made = {
            "dropout_left_on": (random, {"part": part, "dropout": dropout, "left_on": True}),
            "gradients_not_cleared": (gradients_are_kept, {"part": part, "clears": False}),
            "learning_rate_too_large": (both(updates_are_too_large, fails), {"part": short, "lr": too_large}),
            "optimizer_of_another_model": (both(no_weight_is_stepped, untrained), {"part": short, "other": True}),
            "probabilities_for_logits": (probabilities, {"part": part, "wrap": Softmaxed}),
            "one_batch_for_all_updates": (both(same, fails), {"part": part, "one_batch": True}),
            "learning_rate_too_small": (both(updates_are_too_small, fails), {"part": short, "lr": 1e-6}),
            "never_updated": (both(makes_no_update, fails), {"part": 0.0}),
        }
        for name, misconception in says.items():
            proof, change = made[name]
            if proof is not None:
                self.add(name, misconception, change, proof=proof)
